/* SPDX-License-Identifier: BSD-3-Clause
 *
 * engine_kafka.c - a topic of Apache Kafka as a stream's log (kafka.h): libfur-kafka.so.0.
 */
#include "ship/kafka.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	SLICE_MS = 100, /* a wait for a message, before a leader is asked where the log ends */
	SURE_MS = 3000, /* so long a leader is asked again (INV-SH73) */
	CALM_MS = 100,  /* between two questions */
	TRY_MS = 2000,  /* for one answer */
	DESTROY_S = 5,
	STUCK_MS = 1000 /* a message that is there comes sooner, or another broker leads */
};

_Static_assert(sizeof(void *) == sizeof(uint64_t), "a handle fits a message's opaque pointer");

static struct kafka *kafka_of(struct stream_engine *e)
{
	return (struct kafka *)e;
}

uint64_t kafka_now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void kafka_pause_ms(unsigned ms)
{
	const struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
	nanosleep(&t, NULL);
}

/* ---------------------------------------------------------------------- failures */

static void note_reason(struct kafka *k, const char *text)
{
	if (text)
		snprintf(k->reason, sizeof k->reason, "%s", text);
}

bool kafka_note(struct kafka *k, rd_kafka_event_t *event)
{
	if (rd_kafka_event_type(event) != RD_KAFKA_EVENT_ERROR)
		return true;
	const rd_kafka_resp_err_t err = rd_kafka_event_error(event);
	const bool refused =
	        err == RD_KAFKA_RESP_ERR__AUTHENTICATION || err == RD_KAFKA_RESP_ERR__SSL;
	/* What a broker says tells more than that none of them answers. */
	if (refused || (!k->refused && err != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN))
		note_reason(k, rd_kafka_event_error_string(event));
	k->refused = k->refused || refused;
	return err != RD_KAFKA_RESP_ERR__FATAL && !rd_kafka_event_error_is_fatal(event);
}

/* What the reader's threads have reported. */
static void note_reader(struct kafka *k)
{
	rd_kafka_queue_t *const queue = rd_kafka_queue_get_main(k->reader);
	rd_kafka_event_t *event;
	while ((event = rd_kafka_queue_poll(queue, 0))) {
		kafka_note(k, event);
		rd_kafka_event_destroy(event);
	}
	rd_kafka_queue_destroy(queue);
}

bool kafka_is_refused(struct kafka *k)
{
	note_reader(k);
	return k->refused;
}

int kafka_fail_silent(struct kafka *k, const char *what)
{
	note_reader(k);
	const bool refused = k->refused;
	k->refused = false;
	if (refused)
		return kafka_fail(k, FUR_EBEHIND,
		        "the brokers of %s refuse this client: %s: see whether its settings are "
		        "right",
		        k->brokers, k->reason);
	return kafka_fail(k, FUR_EBEHIND, "no broker of %s answers (%s%s%s): see whether they run",
	        k->brokers, what, *k->reason ? ": " : "", k->reason);
}

/* -------------------------------------------------------------------- the end of a client */

static void *destroy(void *client)
{
	rd_kafka_destroy(client);
	return NULL;
}

/* librdkafka 2.0.2 sometimes waits without end for a thread of its own, if the topic was removed
 * and made again.  So another thread waits for it, and stays behind with what it cannot free. */
static void destroy_client(rd_kafka_t *client)
{
	pthread_t thread;
	sigset_t all, before;
	struct timespec until;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are not for it */
	const int failed = pthread_create(&thread, NULL, destroy, client);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failed) {
		rd_kafka_destroy(client);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += DESTROY_S;
	if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until))
		pthread_detach(thread);
}

/* ----------------------------------------------------------------------- reading */

static void drop_kept(struct kafka *k)
{
	for (unsigned n = 0; n < KAFKA_KEPT; n++) {
		if (k->kept[n])
			rd_kafka_message_destroy(k->kept[n]);
		k->kept[n] = NULL;
	}
	k->hole = k->hole_end = 0;
}

static void stop_reading(struct kafka *k)
{
	if (k->next != KAFKA_NOWHERE)
		rd_kafka_consume_stop(k->read_topic, 0);
	k->next = KAFKA_NOWHERE;
}

static int start_reading(struct kafka *k, uint64_t offset)
{
	stop_reading(k);
	if (rd_kafka_consume_start(k->read_topic, 0, (int64_t)offset))
		return kafka_fail(k, FUR_EIO, "it cannot be read: %s",
		        rd_kafka_err2str(rd_kafka_last_error()));
	k->next = offset;
	return 0;
}

/* The client may believe in a leader that is gone, and it asks a broker that is paused until its
 * socket's timeout; so let it learn who leads. */
static void find_leader(struct kafka *k)
{
	const struct rd_kafka_metadata *data;
	if (rd_kafka_metadata(k->reader, 0, k->read_topic, &data, TRY_MS) == 0)
		rd_kafka_metadata_destroy(data);
	kafka_pause_ms(CALM_MS);
}

static bool is_gone(rd_kafka_resp_err_t err)
{
	return err == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
	       err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
	       err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

static int fail_gone(struct kafka *k)
{
	stop_reading(k);
	return kafka_fail(k, FUR_ENOENT, "it is gone: see who has removed it");
}

enum question { OLDEST = RD_KAFKA_OFFSET_BEGINNING, NEXT = RD_KAFKA_OFFSET_END };

/* Ask the leader once.  rd_kafka_query_watermark_offsets() would wait without end for a leader that
 * is paused. */
static rd_kafka_resp_err_t ask_once(struct kafka *k, enum question question, uint64_t *answer)
{
	rd_kafka_topic_partition_list_t *const list = rd_kafka_topic_partition_list_new(1);
	rd_kafka_topic_partition_t *const p =
	        rd_kafka_topic_partition_list_add(list, k->topic_name, 0);
	p->offset = question; /* in place of a time */
	rd_kafka_resp_err_t err = rd_kafka_offsets_for_times(k->reader, list, TRY_MS);
	if (!err)
		err = p->err;
	if (!err && p->offset < 0)
		err = RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE;
	*answer = (uint64_t)p->offset;
	rd_kafka_topic_partition_list_destroy(list);
	return err;
}

static int ask(struct kafka *k, enum question question, uint64_t *answer)
{
	const uint64_t until = kafka_now_ms() + KAFKA_PATIENCE_MS;
	rd_kafka_resp_err_t err;
	while ((err = ask_once(k, question, answer))) {
		if (is_gone(err))
			return fail_gone(k);
		if (kafka_now_ms() > until)
			return kafka_fail_silent(k, rd_kafka_err2str(err));
		find_leader(k);
	}
	return 0;
}

static int ask_end(struct kafka *k, uint64_t *end)
{
	const int error = ask(k, NEXT, end);
	if (!error) {
		k->asked = true;
		k->asked_end = *end;
	}
	return error;
}

/* The same, and believe an end below `known` only if it stays there (INV-SH73). */
static int ask_surely(struct kafka *k, uint64_t known, uint64_t *end)
{
	const uint64_t until = kafka_now_ms() + SURE_MS;
	int error;
	if (known < k->seen)
		known = k->seen;
	while (!(error = ask_end(k, end)) && *end < known && kafka_now_ms() < until)
		kafka_pause_ms(CALM_MS);
	if (!error && *end < known) {
		drop_kept(k); /* of a log that is no longer */
		stop_reading(k);
		k->seen = *end;
	}
	return error;
}

static int fail_range(struct kafka *k, uint64_t offset, uint64_t low, uint64_t end)
{
	if (offset < low)
		return kafka_fail(k, FUR_ERANGE,
		        "it no longer has offset %" PRIu64 ": it begins at %" PRIu64, offset, low);
	return kafka_fail(
	        k, FUR_ERANGE, "it ends at %" PRIu64 ", below offset %" PRIu64, end, offset);
}

enum judged { NOT_YET, AT_END, READ };

/* The consumer has no message at `offset`: see why.  Returns AT_END; NOT_YET: one will come. */
static int judge_offset(struct kafka *k, uint64_t offset)
{
	uint64_t low = 0, end = 0;
	int error = ask_surely(k, offset, &end);
	if (!error)
		error = ask(k, OLDEST, &low);
	if (error)
		return error;
	if (offset < low || offset > end)
		return fail_range(k, offset, low, end);
	return offset == end ? AT_END : NOT_YET;
}

/* Keep a message, which the consumer got when it waited for `offset`. */
static int keep(struct kafka *k, uint64_t offset, rd_kafka_message_t *m)
{
	const uint64_t at = (uint64_t)m->offset;
	rd_kafka_message_t **const slot = &k->kept[at % KAFKA_KEPT];
	if (*slot)
		rd_kafka_message_destroy(*slot);
	*slot = m;
	k->next = at + 1;
	if (k->seen <= at)
		k->seen = at + 1;
	if (at <= offset)
		return at == offset ? READ : NOT_YET;
	/* The mark of a transaction, or the log has lost what was here. */
	k->hole = offset;
	k->hole_end = at;
	uint64_t low = 0;
	const int error = ask(k, OLDEST, &low);
	if (error)
		return error;
	return offset < low ? fail_range(k, offset, low, at) : READ;
}

static int keep_or_fail(struct kafka *k, uint64_t offset, rd_kafka_message_t *m)
{
	const rd_kafka_resp_err_t err = m->err;
	if (!err)
		return keep(k, offset, m);
	note_reason(k, rd_kafka_message_errstr(m));
	rd_kafka_message_destroy(m);
	switch (err) {
	case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
	case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET: {
		const int judged = judge_offset(k, offset);
		const int error = judged < 0 ? judged : start_reading(k, offset);
		return error ? error : judged;
	}
	case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
	case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
	case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION: return fail_gone(k);
	case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
		return kafka_fail(k, FUR_EBEHIND, "%s: let this user read it", k->reason);
	default: return NOT_YET; /* the client tries again */
	}
}

/* How far the log goes, as far as the engine has heard.  False: it has heard nothing. */
static bool heard_end(struct kafka *k, uint64_t *end)
{
	int64_t lo, hi = 0;
	const bool fetched =
	        !rd_kafka_get_watermark_offsets(k->reader, k->topic_name, 0, &lo, &hi) && hi >= 0;
	*end = k->asked && k->asked_end > k->seen ? k->asked_end : k->seen;
	if (fetched && (uint64_t)hi > *end)
		*end = (uint64_t)hi;
	return fetched || k->asked;
}

/* One look for the message. */
static int look_for(struct kafka *k, uint64_t offset)
{
	uint64_t heard;
	const bool has_heard = heard_end(k, &heard);
	rd_kafka_message_t *m = rd_kafka_consume(k->read_topic, 0, 0);
	if (!m && has_heard && heard == offset)
		return AT_END; /* a moment ago; end() asks */
	if (!m && heard > offset)
		m = rd_kafka_consume(k->read_topic, 0, SLICE_MS);
	return m ? keep_or_fail(k, offset, m) : judge_offset(k, offset);
}

static bool take_kept(struct kafka *k, uint64_t offset, void *message, size_t most, size_t *bytes)
{
	const rd_kafka_message_t *const m = k->kept[offset % KAFKA_KEPT];
	const bool there = m && (uint64_t)m->offset == offset;
	if (!there && (offset < k->hole || offset >= k->hole_end))
		return false;
	*bytes = there ? m->len : 0;
	if (*bytes)
		memcpy(message, m->payload, *bytes < most ? *bytes : most);
	return true;
}

static int kafka_read(
        struct stream_engine *e, uint64_t offset, void *message, size_t most, size_t *bytes)
{
	struct kafka *const k = kafka_of(e);
	const uint64_t begun = kafka_now_ms();
	uint64_t found = begun;
	if (take_kept(k, offset, message, most, bytes))
		return 1;
	if (offset > INT64_MAX)
		return kafka_fail(k, FUR_ERANGE, "it has no offset %" PRIu64, offset);
	do {
		int looked = k->next == offset ? 0 : start_reading(k, offset);
		if (!looked)
			looked = look_for(k, offset);
		if (looked < 0 || looked == AT_END)
			return looked < 0 ? looked : 0;
		if (looked == READ && take_kept(k, offset, message, most, bytes))
			return 1;
		if (kafka_now_ms() > found + STUCK_MS) {
			find_leader(k);
			found = kafka_now_ms();
		}
	} while (kafka_now_ms() < begun + KAFKA_PATIENCE_MS);
	stop_reading(k);
	return kafka_fail_silent(k, "a message that is there does not come");
}

static int kafka_end(struct stream_engine *e, uint64_t *end)
{
	return ask_surely(kafka_of(e), 0, end);
}

/* ----------------------------------------------------------------------- writing */

static void drop_producer(struct kafka *k)
{
	if (k->taking)
		rd_kafka_event_destroy(k->taking);
	k->taking = NULL;
	if (!k->producer)
		return;
	rd_kafka_purge(k->producer,
	        RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
	rd_kafka_topic_destroy(k->write_topic);
	rd_kafka_queue_destroy(k->answers);
	destroy_client(k->producer);
	k->producer = NULL;
}

static int make_producer(struct kafka *k)
{
	char why[KAFKA_REASON_BYTES];
	rd_kafka_conf_t *const conf = rd_kafka_conf_dup(k->writer_conf);
	k->producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
	if (!k->producer) {
		rd_kafka_conf_destroy(conf);
		return kafka_fail(k, FUR_EINVAL, "no producer for it: %s", why);
	}
	k->answers = rd_kafka_queue_get_main(k->producer);
	k->write_topic = rd_kafka_topic_new(k->producer, k->topic_name, NULL);
	k->failed = false;
	if (k->write_topic)
		return 0;
	rd_kafka_queue_destroy(k->answers);
	rd_kafka_destroy(k->producer);
	k->producer = NULL;
	return kafka_fail(
	        k, FUR_EINVAL, "no producer for it: %s", rd_kafka_err2str(rd_kafka_last_error()));
}

static int fail_append(struct kafka *k)
{
	return kafka_fail(k, FUR_EIO, "it does not take the messages: %s", k->reason);
}

static int kafka_append(struct stream_engine *e, uint64_t handle, const void *message, size_t bytes)
{
	struct kafka *const k = kafka_of(e);
	int error = 0;
	if (!k->writer_conf)
		return kafka_fail(k, FUR_EINVAL, "it is open for reading only");
	if (bytes > KAFKA_MOST_BYTES)
		return kafka_fail(k, FUR_ETOOBIG, "a message of %zu bytes: it takes %d", bytes,
		        (int)KAFKA_MOST_BYTES);
	if (k->failed)
		return fail_append(k);
	if (!k->producer && (error = make_producer(k)))
		return error;
	if (!rd_kafka_produce(k->write_topic, 0, RD_KAFKA_MSG_F_COPY, (void *)(uintptr_t)message,
	            bytes, NULL, 0, (void *)(uintptr_t)handle))
		return 0;
	const rd_kafka_resp_err_t err = rd_kafka_last_error();
	if (err == RD_KAFKA_RESP_ERR__QUEUE_FULL)
		return kafka_fail(k, FUR_EBUSY,
		        "%d messages are under way: take their answers first",
		        (int)KAFKA_MOST_UNDER_WAY);
	note_reason(k, rd_kafka_err2str(err));
	k->failed = true;
	return fail_append(k);
}

/* Take answers of k->taking.  Returns how many. */
static unsigned take(struct kafka *k, struct engine_ack *acks, unsigned most)
{
	unsigned n = 0;
	const rd_kafka_message_t *m = NULL;
	while (n < most && k->taking && (m = rd_kafka_event_message_next(k->taking))) {
		if (m->err) { /* and what comes behind it is of no use (INV-SH72) */
			note_reason(k, rd_kafka_err2str(m->err));
			k->failed = true;
			break;
		}
		/* A broker that says "that was here before" does not say where. */
		acks[n++] = (struct engine_ack){(uint64_t)(uintptr_t)m->_private,
		        m->offset < 0 ? ENGINE_NO_OFFSET : (uint64_t)m->offset};
		if (m->offset >= 0 && k->seen <= (uint64_t)m->offset)
			k->seen = (uint64_t)m->offset + 1;
	}
	if (k->taking && (!m || k->failed)) {
		rd_kafka_event_destroy(k->taking);
		k->taking = NULL;
	}
	return n;
}

static int kafka_poll(
        struct stream_engine *e, struct engine_ack *acks, unsigned most, int patience_ms)
{
	struct kafka *const k = kafka_of(e);
	const uint64_t until = kafka_now_ms() + (uint64_t)(patience_ms > 0 ? patience_ms : 0);
	unsigned n = 0;
	if (!k->producer) { /* nothing is under way */
		kafka_pause_ms((unsigned)(patience_ms > 0 ? patience_ms : 0));
		return 0;
	}
	for (;;) {
		if (!k->failed)
			n += take(k, acks + n, most - n);
		if (n == most || (k->failed && n))
			return (int)n;
		if (k->failed)
			return fail_append(k);
		const uint64_t now = kafka_now_ms();
		rd_kafka_event_t *const event =
		        rd_kafka_queue_poll(k->answers, n || now >= until ? 0 : (int)(until - now));
		if (!event)
			return (int)n;
		if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR) {
			k->taking = event;
			continue;
		}
		k->failed = !kafka_note(k, event);
		rd_kafka_event_destroy(event);
	}
}

static int kafka_restart(struct stream_engine *e)
{
	struct kafka *const k = kafka_of(e);
	drop_producer(k);
	k->failed = false;
	return 0; /* the next append makes another */
}

/* ----------------------------------------------------------- opening and closing */

static void kafka_close(struct stream_engine *e)
{
	struct kafka *const k = kafka_of(e);
	drop_producer(k);
	if (k->writer_conf)
		rd_kafka_conf_destroy(k->writer_conf);
	drop_kept(k);
	if (k->read_topic) {
		stop_reading(k);
		rd_kafka_topic_destroy(k->read_topic);
	}
	if (k->reader)
		destroy_client(k->reader);
	free(k->brokers);
	free(k->topic_name);
	free(k);
}

static int make_reader(struct kafka *k)
{
	char why[KAFKA_REASON_BYTES];
	rd_kafka_conf_t *conf;
	const int error = kafka_conf(k, KAFKA_READER, &conf);
	if (error)
		return error;
	k->reader = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
	if (!k->reader) {
		rd_kafka_conf_destroy(conf);
		return kafka_fail(k, FUR_EINVAL, "no client for it: %s", why);
	}
	k->read_topic = rd_kafka_topic_new(k->reader, k->topic_name, NULL);
	if (!k->read_topic)
		return kafka_fail(k, FUR_EINVAL, "no client for it: %s",
		        rd_kafka_err2str(rd_kafka_last_error()));
	return 0;
}

static const struct stream_engine_ops kafka_ops = {.append = kafka_append,
        .poll = kafka_poll,
        .read = kafka_read,
        .end = kafka_end,
        .restart = kafka_restart,
        .close = kafka_close};

static int open_log(
        struct kafka *k, const char *place, enum engine_use use, const char *const *settings)
{
	int error = kafka_parse(k, place, settings);
	if (!error)
		error = make_reader(k);
	if (!error && use != ENGINE_READ)
		error = kafka_conf(k, KAFKA_WRITER, &k->writer_conf);
	if (!error)
		error = kafka_topic_check(k, use);
	if (!error && use != ENGINE_READ)
		error = make_producer(k);
	k->settings = NULL; /* they are the caller's */
	return error;
}

__attribute__((visibility("default"))) stream_engine_open_fn fur_stream_engine_open;

int fur_stream_engine_open(const struct engine_host *host, const char *place, enum engine_use use,
        const char *const *settings, struct stream_engine **engine)
{
	*engine = NULL;
	if (host->version != ENGINE_VERSION)
		return host->fail(FUR_EVERSION,
		        "libfur-kafka.so.0 is of another version than libfur.so.0: install the "
		        "packages libfur0 and libfur-kafka0 of the same version");
	struct kafka *const k = calloc(1, sizeof *k);
	if (!k)
		return host->fail(FUR_ENOMEM, "no memory for a shipping log: free some memory");
	k->engine.ops = &kafka_ops;
	k->host = host;
	k->next = KAFKA_NOWHERE;
	const int error = open_log(k, place, use, settings);
	if (error)
		kafka_close(&k->engine);
	else
		*engine = &k->engine;
	return error;
}
