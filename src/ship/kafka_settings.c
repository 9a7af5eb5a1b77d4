/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kafka_settings.c - the name of a topic, and the settings of librdkafka (kafka.h).
 */
#include "ship/kafka.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char ORDER[] = "messages must come into the topic in their order",
                  GAP[] = "a message that is given up leaves a gap",
                  GATHERS[] = "the writer gathers updates itself",
                  ALL[] = "an answer must mean that all in-sync replicas have the message",
                  NAMED[] = "the log's name has the brokers",
                  OWN[] = "a reader keeps its position itself";

/* What libfur sets, and refuses as a setting; a value of NULL is not set. */
static const struct fixed {
	const char *key, *value;
	unsigned of; /* enum kafka_client */
	const char *why;
} fixed[] = {
        {"bootstrap.servers", NULL, 0, NAMED},
        {"metadata.broker.list", NULL, 0, NAMED},
        {"acks", "all", KAFKA_WRITER, ALL}, /* INV-SH71 */
        {"request.required.acks", NULL, 0, ALL},
        {"enable.idempotence", "true", KAFKA_WRITER, ORDER},
        {"max.in.flight.requests.per.connection", "4", KAFKA_WRITER, ORDER},
        {"max.in.flight", NULL, 0, ORDER},
        {"queuing.strategy", NULL, 0, ORDER},
        {"transactional.id", NULL, 0, "the marks of transactions take offsets in the topic"},
        {"message.timeout.ms", "0", KAFKA_WRITER, GAP},
        {"delivery.timeout.ms", NULL, 0, GAP},
        {"message.send.max.retries", NULL, 0, GAP},
        {"retries", NULL, 0, GAP},
        {"linger.ms", "0", KAFKA_WRITER, GATHERS},
        {"queue.buffering.max.ms", NULL, 0, GATHERS},
        {"batch.size", "1000000", KAFKA_WRITER, GATHERS},
        {"message.max.bytes", "1048576", KAFKA_WRITER, "a frame is as large as it is"},
        {"group.id", NULL, 0, OWN},
        {"enable.auto.commit", "false", KAFKA_READER, OWN},
        {"auto.commit.enable", NULL, 0, OWN},
        {"enable.auto.offset.store", "false", KAFKA_READER, OWN},
        {"auto.offset.reset", "error", KAFKA_READER, "a reader must not go on at another offset"},
        {"isolation.level", "read_uncommitted", KAFKA_READER,
                "all readers must see the same messages"},
        {"enable.partition.eof", "false", KAFKA_READER, "libfur asks where the topic ends"},
        {"check.crcs", "true", KAFKA_READER, "a reader must notice damage"},
        {"allow.auto.create.topics", "false", KAFKA_READER | KAFKA_WRITER,
                "brokers would make the topic as they please"},
};

/* What a setting may change. */
static const struct {
	const char *key, *value;
	unsigned of;
} usual[] = {
        {"client.id", "libfur", KAFKA_READER | KAFKA_WRITER},
        {"socket.nagle.disable", "true", KAFKA_READER | KAFKA_WRITER},
        {"socket.keepalive.enable", "true", KAFKA_READER | KAFKA_WRITER},
        /* A paused broker answers nothing: the client waits so long before it asks another. */
        {"socket.timeout.ms", "10000", KAFKA_READER | KAFKA_WRITER},
        {"api.version.request.timeout.ms", "2000", KAFKA_READER | KAFKA_WRITER},
        {"socket.connection.setup.timeout.ms", "3000", KAFKA_READER | KAFKA_WRITER},
        /* Connect to all brokers at once, not to one after the other. */
        {"enable.sparse.connections", "false", KAFKA_READER | KAFKA_WRITER},
        {"reconnect.backoff.ms", "50", KAFKA_READER | KAFKA_WRITER},
        {"reconnect.backoff.max.ms", "1000", KAFKA_READER | KAFKA_WRITER},
        {"retry.backoff.ms", "50", KAFKA_WRITER},
        {"queue.buffering.max.messages", "256", KAFKA_WRITER}, /* KAFKA_MOST_UNDER_WAY */
        /* How long a broker keeps a request at the end of the topic.  A reader that goes to another
         * offset waits for that. */
        {"fetch.wait.max.ms", "50", KAFKA_READER},
        {"fetch.error.backoff.ms", "50", KAFKA_READER},
};

enum { FIXED = sizeof fixed / sizeof *fixed, USUAL = sizeof usual / sizeof *usual };

/* ------------------------------------------------------------------ the log's name */

static bool is_topic_name(const char *name)
{
	const size_t n = strlen(name);
	for (const char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
			return false;
	return n > 0 && n <= 249 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static bool is_host_and_port(const char *begin, const char *end)
{
	const char *colon = end;
	while (colon > begin && *colon != ':')
		colon--;
	long port = 0;
	for (const char *c = colon + 1; c < end; c++) {
		if (!isdigit((unsigned char)*c) || port > 65535)
			return false;
		port = 10 * port + (*c - '0');
	}
	return colon > begin && port > 0 && port <= 65535;
}

static bool are_hosts(const char *brokers)
{
	for (const char *begin = brokers;; begin++) {
		const char *const end = begin + strcspn(begin, ",");
		if (!is_host_and_port(begin, end))
			return false;
		if (!*end)
			return true;
		begin = end;
	}
}

static int parse_place(struct kafka *k, const char *place)
{
	const char *const slash = strrchr(place, '/');
	if (!slash || !is_topic_name(slash + 1))
		return k->host->fail(FUR_EINVAL,
		        "the shipping log kafka:%s names no topic: use "
		        "kafka:HOST:PORT[,HOST:PORT...]/TOPIC, with a topic of letters, digits, "
		        "'.', '_' and '-'",
		        place);
	k->brokers = strndup(place, (size_t)(slash - place));
	k->topic_name = strdup(slash + 1);
	if (!k->brokers || !k->topic_name)
		return k->host->fail(FUR_ENOMEM, "no memory for a shipping log: free some memory");
	if (!are_hosts(k->brokers))
		return k->host->fail(FUR_EINVAL,
		        "the shipping log kafka:%s: '%s' is no list of brokers: use "
		        "HOST:PORT[,HOST:PORT...]",
		        place, k->brokers);
	return 0;
}

/* -------------------------------------------------------------------- the settings */

/* The value of a setting of this key; NULL: it has another. */
static const char *value_of(const char *setting, const char *key)
{
	const size_t n = strlen(key);
	return strncmp(setting, key, n) == 0 && setting[n] == '=' ? setting + n + 1 : NULL;
}

/* Settings of libfur's own: what the topic must be. */
static int take_want(struct kafka *k, const char *setting, bool *taken)
{
	const struct {
		const char *key;
		long *to;
	} wants[] = {{"replication.factor", &k->wants.replicas},
	        {"min.insync.replicas", &k->wants.in_sync},
	        {"flush.messages", &k->wants.flush_messages}};
	for (unsigned n = 0; n < sizeof wants / sizeof *wants; n++) {
		const char *const value = value_of(setting, wants[n].key);
		char *end;
		if (!value)
			continue;
		*taken = true;
		*wants[n].to = strtol(value, &end, 10);
		if (!isdigit((unsigned char)*value) || *end || *wants[n].to < 1 ||
		        *wants[n].to > 32767)
			return k->host->fail(FUR_EINVAL,
			        "the setting %s: use a number from 1 to 32767", setting);
	}
	return 0;
}

static int refuse_fixed(struct kafka *k, const char *setting)
{
	for (unsigned n = 0; n < FIXED; n++)
		if (value_of(setting, fixed[n].key))
			return k->host->fail(FUR_EINVAL,
			        "the setting %s is not yours to choose: %s: leave it out", setting,
			        fixed[n].why);
	return 0;
}

int kafka_parse(struct kafka *k, const char *place, const char *const *settings)
{
	static const char *const none[] = {NULL};
	k->settings = settings ? settings : none;
	k->wants = (struct kafka_wants){.replicas = 3, .in_sync = 2, .flush_messages = 0};
	int error = parse_place(k, place);
	for (const char *const *s = k->settings; !error && *s; s++) {
		bool taken = false;
		if (!strchr(*s, '=') || **s == '=')
			return k->host->fail(FUR_EINVAL, "the setting '%s': use KEY=VALUE", *s);
		error = take_want(k, *s, &taken);
		if (!error && !taken)
			error = refuse_fixed(k, *s);
	}
	if (!error && k->wants.in_sync > k->wants.replicas)
		error = k->host->fail(FUR_EINVAL,
		        "min.insync.replicas=%ld is more than replication.factor=%ld: use at most "
		        "as many",
		        k->wants.in_sync, k->wants.replicas);
	return error;
}

static int set(struct kafka *k, rd_kafka_conf_t *conf, const char *key, const char *value)
{
	char why[KAFKA_REASON_BYTES];
	if (rd_kafka_conf_set(conf, key, value, why, sizeof why) == RD_KAFKA_CONF_OK)
		return 0;
	return k->host->fail(FUR_EINVAL,
	        "the setting %s=%s: %s: see CONFIGURATION.md of librdkafka", key, value, why);
}

static int set_given(struct kafka *k, rd_kafka_conf_t *conf, const char *setting)
{
	char key[128];
	const size_t n = strcspn(setting, "=");
	bool taken = false;
	const int error = take_want(k, setting, &taken);
	if (error || taken)
		return error;
	if (n >= sizeof key)
		return k->host->fail(FUR_EINVAL, "the setting %s: there is no such key", setting);
	memcpy(key, setting, n);
	key[n] = '\0';
	return set(k, conf, key, setting + n + 1);
}

/* librdkafka would write to standard error, where a program's own lines are. */
static void log_nothing(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
	(void)rk, (void)level, (void)facility, (void)text;
}

int kafka_conf(struct kafka *k, enum kafka_client of, rd_kafka_conf_t **to)
{
	rd_kafka_conf_t *const conf = rd_kafka_conf_new();
	bool debugs = false;
	int error = set(k, conf, "bootstrap.servers", k->brokers);
	for (unsigned n = 0; !error && n < USUAL; n++)
		if (usual[n].of & of)
			error = set(k, conf, usual[n].key, usual[n].value);
	for (const char *const *s = k->settings; !error && *s; s++) {
		debugs = debugs || value_of(*s, "debug");
		error = set_given(k, conf, *s);
	}
	for (unsigned n = 0; !error && n < FIXED; n++)
		if (fixed[n].value && (fixed[n].of & of))
			error = set(k, conf, fixed[n].key, fixed[n].value);
	if (error) {
		rd_kafka_conf_destroy(conf);
		*to = NULL;
		return error;
	}
	if (!debugs)
		rd_kafka_conf_set_log_cb(conf, log_nothing);
	rd_kafka_conf_set_events(
	        conf, RD_KAFKA_EVENT_ERROR | (of == KAFKA_WRITER ? RD_KAFKA_EVENT_DR : 0));
	*to = conf;
	return 0;
}
