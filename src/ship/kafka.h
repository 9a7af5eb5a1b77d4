/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kafka.h - a topic of Apache Kafka as a stream's log: the parts of libfur-kafka.so.0, which
 * libfur.so.0 loads (engine.h).
 *
 * The topic has one partition.  Its offsets are the stream's: nothing but messages uses one,
 * because no transactions write to the topic, and it is not compacted.
 *
 *   INV-SH71  An answer means that all in-sync replicas have the message, and at least
 *             min.insync.replicas of them; and no message is read before all of them have it.
 *   INV-SH72  After a failure of the producer the engine answers nothing more until restart(): it
 *             does not know what became of the messages.  restart() makes another producer, so no
 *             answer of the first one comes any more.
 *   INV-SH73  "The log ends below this offset" is said only after a leader has said so for a while.
 *             The end that one leader tells never falls; but one that has lost its office, and does
 *             not know it yet, may tell an end that was passed long ago.
 *
 * librdkafka has threads of its own, which see nothing of this.
 */
#ifndef FUR_SHIP_KAFKA_H
#define FUR_SHIP_KAFKA_H

#include "ship/engine.h"

#include <librdkafka/rdkafka.h>
#include <stdbool.h>

enum {
	KAFKA_MOST_BYTES = 1000000,  /* of a message */
	KAFKA_BATCH_BYTES = 1000000, /* of messages that go to the broker as one */
	KAFKA_TOPIC_BYTES = 1 << 20, /* the topic must take such a batch */
	KAFKA_KEPT = 32,             /* messages that were read, to be read again */
	KAFKA_PATIENCE_MS = 10000,   /* for an answer to anything but an append */
	KAFKA_MOST_UNDER_WAY = 256,  /* messages */
	KAFKA_REASON_BYTES = 256
};

#define KAFKA_NOWHERE UINT64_MAX

/* What the topic must be, and is made like. */
struct kafka_wants {
	long replicas, in_sync, flush_messages; /* flush_messages: 0 means any */
};

struct kafka {
	struct stream_engine engine;
	const struct engine_host *host;
	char *brokers, *topic_name;
	const char *const *settings;
	struct kafka_wants wants;
	char reason[KAFKA_REASON_BYTES]; /* what the client said last went wrong */
	bool refused;                    /* by TLS or SASL, and `reason` tells why */

	/* Reading */
	rd_kafka_t *reader;
	rd_kafka_topic_t *read_topic;
	uint64_t
	        next; /* of the message that the consumer gets next; KAFKA_NOWHERE: it is stopped */
	bool asked;
	uint64_t asked_end;                   /* what a leader said last when it was asked */
	uint64_t seen;                        /* the log was at least so long */
	uint64_t hole, hole_end;              /* offsets of [hole, hole_end) have no messages */
	rd_kafka_message_t *kept[KAFKA_KEPT]; /* offset k is in slot k % KAFKA_KEPT, or nowhere */

	/* Writing */
	rd_kafka_conf_t *writer_conf; /* to make producers of; NULL: for reading only */
	rd_kafka_t *producer;
	rd_kafka_topic_t *write_topic;
	rd_kafka_queue_t *answers;
	rd_kafka_event_t *taking; /* answers of which some are not taken */
	bool failed;              /* until restart() */
};

/* Keep the message for the caller's fur_errormsg(), behind the topic's name; returns `error`. */
#define kafka_fail(k, error, format, ...)                                                          \
	((k)->host->fail(error, "the topic %s: " format, (k)->topic_name, ##__VA_ARGS__))

/* Milliseconds of CLOCK_MONOTONIC. */
uint64_t kafka_now_ms(void);
void kafka_pause_ms(unsigned ms);

/* Has a broker refused the reader's TLS or SASL? */
bool kafka_is_refused(struct kafka *k);

/* A broker did not answer in time: say so, and what the client said last. */
int kafka_fail_silent(struct kafka *k, const char *what);

/* Take what the client of the queue reports, to have `reason`.  Returns false: it has failed for
 * good. */
bool kafka_note(struct kafka *k, rd_kafka_event_t *event);

/* ---------------------------------------------------------------- kafka_settings.c */

enum kafka_client { KAFKA_READER = 1, KAFKA_WRITER = 2 };

/* kafka_parse - take "HOST:PORT[,...]/TOPIC" apart, and check the settings.
 * Errors: FUR_EINVAL; FUR_ENOMEM. */
int kafka_parse(struct kafka *k, const char *place, const char *const *settings);

/* kafka_conf - what a client is made of.  Errors: FUR_EINVAL; *conf is NULL then. */
int kafka_conf(struct kafka *k, enum kafka_client of, rd_kafka_conf_t **conf);

/* ------------------------------------------------------------------- kafka_topic.c */

/* kafka_topic_check - see whether the topic is as a stream needs it for this use; ENGINE_MAKE makes
 * it, if there is none.  Writes nothing to it.
 * Errors: FUR_ENOENT: there is no such topic; FUR_EINVAL: it is another than a stream needs;
 *         FUR_EBEHIND: no broker answers. */
int kafka_topic_check(struct kafka *k, enum engine_use use);

#endif /* FUR_SHIP_KAFKA_H */
