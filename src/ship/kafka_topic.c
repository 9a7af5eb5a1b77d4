/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kafka_topic.c - what a topic must be to keep a stream (kafka.h).
 */
#include "ship/kafka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SURE_MS: so long brokers are asked again that do not know the topic. */
enum { AGAIN_MS = 100, ASK_MS = 2000, SURE_MS = 1000 };

static const struct {
	const char *key, *value;
} made_with[] = {
        {"cleanup.policy", "delete"}, {"unclean.leader.election.enable", "false"},
        {"message.timestamp.type", "LogAppendTime"}, {"retention.ms", "-1"},
        {"retention.bytes", "-1"}, {"max.message.bytes", "1048576"}, /* KAFKA_TOPIC_BYTES */
};

/* ----------------------------------------------------------- calls of administrators */

/* Wait for the answer to a call, which comes to `queue`.  NULL: it failed; *error. */
static rd_kafka_event_t *wait_answer(struct kafka *k, rd_kafka_queue_t *queue, int *error)
{
	rd_kafka_event_t *const event = rd_kafka_queue_poll(queue, KAFKA_PATIENCE_MS + 1000);
	*error = 0;
	if (!event) {
		*error = kafka_fail_silent(k, "ask about the topic");
		return NULL;
	}
	if (!rd_kafka_event_error(event))
		return event;
	*error =
	        kafka_fail(k, FUR_EBEHIND, "no broker of %s can be asked: %s: see whether they run",
	                k->brokers, rd_kafka_event_error_string(event));
	rd_kafka_event_destroy(event);
	return NULL;
}

static rd_kafka_AdminOptions_t *options(struct kafka *k, rd_kafka_admin_op_t op)
{
	char why[KAFKA_REASON_BYTES];
	rd_kafka_AdminOptions_t *const o = rd_kafka_AdminOptions_new(k->reader, op);
	rd_kafka_AdminOptions_set_request_timeout(o, KAFKA_PATIENCE_MS, why, sizeof why);
	return o;
}

/* ------------------------------------------------------------------- make a topic */

static int made(struct kafka *k, rd_kafka_event_t *event)
{
	size_t n;
	const rd_kafka_topic_result_t **const results =
	        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n);
	const rd_kafka_resp_err_t err =
	        n == 1 ? rd_kafka_topic_result_error(results[0]) : RD_KAFKA_RESP_ERR_UNKNOWN;
	if (!err || err == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
		return 0;
	const char *const why = n == 1 ? rd_kafka_topic_result_error_string(results[0]) : NULL;
	return kafka_fail(k, FUR_EINVAL,
	        "the brokers do not make it with %ld replicas: %s: start as many brokers, or "
	        "choose "
	        "replication.factor=N",
	        k->wants.replicas, why ? why : rd_kafka_err2str(err));
}

static int make_topic(struct kafka *k)
{
	char why[KAFKA_REASON_BYTES], number[32];
	int error;
	rd_kafka_NewTopic_t *topic =
	        rd_kafka_NewTopic_new(k->topic_name, 1, (int)k->wants.replicas, why, sizeof why);
	if (!topic)
		return kafka_fail(k, FUR_EINVAL, "%s: choose another name", why);
	for (unsigned n = 0; n < sizeof made_with / sizeof *made_with; n++)
		rd_kafka_NewTopic_set_config(topic, made_with[n].key, made_with[n].value);
	snprintf(number, sizeof number, "%ld", k->wants.in_sync);
	rd_kafka_NewTopic_set_config(topic, "min.insync.replicas", number);
	snprintf(number, sizeof number, "%ld", k->wants.flush_messages);
	if (k->wants.flush_messages)
		rd_kafka_NewTopic_set_config(topic, "flush.messages", number);
	rd_kafka_AdminOptions_t *const o = options(k, RD_KAFKA_ADMIN_OP_CREATETOPICS);
	rd_kafka_AdminOptions_set_operation_timeout(o, KAFKA_PATIENCE_MS, why, sizeof why);
	rd_kafka_queue_t *const queue = rd_kafka_queue_new(k->reader);
	rd_kafka_CreateTopics(k->reader, &topic, 1, o, queue);
	rd_kafka_event_t *const event = wait_answer(k, queue, &error);
	if (event) {
		error = made(k, event);
		rd_kafka_event_destroy(event);
	}
	rd_kafka_queue_destroy(queue);
	rd_kafka_AdminOptions_destroy(o);
	rd_kafka_NewTopic_destroy(topic);
	return error;
}

/* ---------------------------------------------------------------- look at a topic */

static int check_partitions(
        struct kafka *k, enum engine_use use, const rd_kafka_metadata_topic_t *topic)
{
	if (topic->partition_cnt != 1)
		return kafka_fail(k, FUR_EINVAL,
		        "it has %d partitions, and a stream is one sequence: use a topic with one",
		        topic->partition_cnt);
	if (use != ENGINE_READ && topic->partitions[0].replica_cnt < k->wants.replicas)
		return kafka_fail(k, FUR_EINVAL,
		        "it has %d replicas: use a topic with %ld, or choose replication.factor=N",
		        topic->partitions[0].replica_cnt, k->wants.replicas);
	return 0;
}

enum { THERE = 1 };

/* Returns THERE; 0: not now, its leader is being elected or it is being made; FUR_ENOENT: there is
 * no such topic, without a message; or an error. */
static int look(struct kafka *k, enum engine_use use, uint64_t until)
{
	const struct rd_kafka_metadata *data;
	const rd_kafka_resp_err_t err =
	        rd_kafka_metadata(k->reader, 0, k->read_topic, &data, ASK_MS);
	if (err)
		return kafka_is_refused(k) || kafka_now_ms() >= until
		               ? kafka_fail_silent(k, rd_kafka_err2str(err))
		               : 0;
	int result = 0;
	const rd_kafka_metadata_topic_t *const topic = data->topics;
	if (data->topic_cnt != 1)
		result = 0;
	else if (topic->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
		result = FUR_ENOENT;
	else if (topic->err && topic->err != RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE)
		result = kafka_fail(k, FUR_EBEHIND, "%s: see whether this user may use it",
		        rd_kafka_err2str(topic->err));
	else if (topic->partition_cnt > 0) {
		result = check_partitions(k, use, topic);
		if (!result && topic->partitions[0].leader >= 0)
			result = THERE;
	}
	rd_kafka_metadata_destroy(data);
	return result;
}

static int find_topic(struct kafka *k, enum engine_use use)
{
	bool make = use == ENGINE_MAKE;
	int found = 0;
	const uint64_t now = kafka_now_ms(), until = now + KAFKA_PATIENCE_MS;
	do {
		found = look(k, use, until);
		if (found == THERE)
			return 0;
		if (found == FUR_ENOENT && use != ENGINE_MAKE && kafka_now_ms() >= now + SURE_MS)
			return kafka_fail(k, FUR_ENOENT,
			        "no broker of %s has it: see whether the name is right, or make it",
			        k->brokers);
		if (found == FUR_ENOENT && make) {
			const int error = make_topic(k);
			if (error)
				return error;
			make = false; /* brokers learn of it one after the other */
		} else if (found && found != FUR_ENOENT) {
			return found;
		}
		kafka_pause_ms(AGAIN_MS);
	} while (kafka_now_ms() < until);
	return kafka_fail(k, FUR_EBEHIND, "it has no leader: see whether enough brokers of %s run",
	        k->brokers);
}

/* -------------------------------------------------------------- a topic's settings */

static const char *entry_of(const rd_kafka_ConfigEntry_t **entries, size_t n, const char *key)
{
	for (size_t e = 0; e < n; e++)
		if (strcmp(rd_kafka_ConfigEntry_name(entries[e]), key) == 0)
			return rd_kafka_ConfigEntry_value(entries[e]);
	return NULL;
}

static int refuse(
        struct kafka *k, const char *key, const char *value, const char *why, const char *remedy)
{
	return kafka_fail(k, FUR_EINVAL, "it has %s=%s, %s: alter it to %s", key,
	        value ? value : "?", why, remedy);
}

static int check_numbers(struct kafka *k, const rd_kafka_ConfigEntry_t **entries, size_t n)
{
	char remedy[64];
	const char *value = entry_of(entries, n, "min.insync.replicas");
	if (!value || atol(value) < k->wants.in_sync) {
		snprintf(remedy, sizeof remedy, "%ld", k->wants.in_sync);
		return refuse(k, "min.insync.replicas", value,
		        "so fewer replicas than asked for acknowledge a message", remedy);
	}
	value = entry_of(entries, n, "max.message.bytes");
	if (!value || atol(value) < KAFKA_TOPIC_BYTES) {
		snprintf(remedy, sizeof remedy, "%d or more", (int)KAFKA_TOPIC_BYTES);
		return refuse(k, "max.message.bytes", value, "which a batch of frames may exceed",
		        remedy);
	}
	value = entry_of(entries, n, "flush.messages");
	if (k->wants.flush_messages &&
	        (!value || strtoll(value, NULL, 10) > k->wants.flush_messages)) {
		snprintf(remedy, sizeof remedy, "%ld", k->wants.flush_messages);
		return refuse(k, "flush.messages", value,
		        "so brokers sync less often than asked for", remedy);
	}
	return 0;
}

static int check_entries(struct kafka *k, const rd_kafka_ConfigEntry_t **entries, size_t n)
{
	const struct {
		const char *key, *value, *why;
	} must[] = {{"cleanup.policy", "delete", "and compaction removes frames"},
	        {"unclean.leader.election.enable", "false",
	                "so a leader that lacks acknowledged frames may be elected"},
	        {"message.timestamp.type", "LogAppendTime",
	                "so a wrong clock of the primary may end its frames' retention"}};
	for (unsigned m = 0; m < sizeof must / sizeof *must; m++) {
		const char *const value = entry_of(entries, n, must[m].key);
		if (!value || strcmp(value, must[m].value) != 0)
			return refuse(k, must[m].key, value, must[m].why, must[m].value);
	}
	return check_numbers(k, entries, n);
}

/* FUR_ENOENT, without a message: the broker has not learned of the topic yet. */
static int check_answer(struct kafka *k, rd_kafka_event_t *event)
{
	size_t n, entries_n;
	const rd_kafka_ConfigResource_t **const resources =
	        rd_kafka_DescribeConfigs_result_resources(
	                rd_kafka_event_DescribeConfigs_result(event), &n);
	const rd_kafka_resp_err_t err =
	        n == 1 ? rd_kafka_ConfigResource_error(resources[0]) : RD_KAFKA_RESP_ERR_UNKNOWN;
	if (err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
		return FUR_ENOENT;
	if (err)
		return kafka_fail(k, FUR_EINVAL,
		        "its settings cannot be read: %s: let this user describe them",
		        rd_kafka_err2str(err));
	const rd_kafka_ConfigEntry_t **const entries =
	        rd_kafka_ConfigResource_configs(resources[0], &entries_n);
	return check_entries(k, entries, entries_n);
}

/* Ask any broker.  Errors: those of check_answer(), and FUR_EBEHIND. */
static int ask_settings(struct kafka *k)
{
	int error;
	rd_kafka_ConfigResource_t *resource =
	        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, k->topic_name);
	rd_kafka_AdminOptions_t *const o = options(k, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
	rd_kafka_queue_t *const queue = rd_kafka_queue_new(k->reader);
	rd_kafka_DescribeConfigs(k->reader, &resource, 1, o, queue);
	rd_kafka_event_t *const event = wait_answer(k, queue, &error);
	if (event) {
		error = check_answer(k, event);
		rd_kafka_event_destroy(event);
	}
	rd_kafka_queue_destroy(queue);
	rd_kafka_AdminOptions_destroy(o);
	rd_kafka_ConfigResource_destroy(resource);
	return error;
}

/* Another broker may answer each question.  One that has no settings of the topic has not learned
 * of a new topic yet, or the one that find_topic() asked has not learned of its removal: ask both
 * again. */
int kafka_topic_check(struct kafka *k, enum engine_use use)
{
	const uint64_t until = kafka_now_ms() + KAFKA_PATIENCE_MS;
	for (;;) {
		int error = find_topic(k, use);
		if (error || use == ENGINE_READ)
			return error;
		error = ask_settings(k);
		if (error != FUR_ENOENT)
			return error;
		if (kafka_now_ms() >= until)
			return kafka_fail(k, FUR_EBEHIND,
			        "only some brokers of %s know it: see whether all of them run",
			        k->brokers);
		kafka_pause_ms(AGAIN_MS);
	}
}
