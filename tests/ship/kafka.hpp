/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kafka.hpp - the brokers that brokers.py has started, for tests: topics, and what befalls nodes.
 */
#ifndef KAFKA_HPP
#define KAFKA_HPP

#include "broker_control.hpp"

#include <chrono>
#include <cstdlib>
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace kafka_test
{

using Settings = std::vector<std::pair<const char *, const char *>>;

inline std::string brokers()
{
	const char *all = getenv("FUR_KAFKA");
	return all ? all : "";
}

/* The name of a log. */
inline std::string log_of(const std::string &topic)
{
	return "kafka:" + brokers() + "/" + topic;
}

/* A topic that no other test uses. */
inline std::string new_topic()
{
	static unsigned n;
	return "fur." + std::to_string(getpid()) + "." + std::to_string(n++);
}

/* Ask brokers.py: "kill 2". */
inline void control(const std::string &what)
{
	ASSERT_EQ(ask_brokers(what), "ok") << what;
}

inline void sleep_ms(unsigned ms)
{
	std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

/* Ask until it is so, for a minute. */
template <class Condition>
void eventually(Condition &&is_so)
{
	for (int k = 0; k < 300 && !is_so(); k++)
		sleep_ms(200);
}

/* An administrator, by librdkafka. */
class Admin
{
public:
	Admin()
	{
		char why[200];
		rd_kafka_conf_t *conf = rd_kafka_conf_new();
		rd_kafka_conf_set(conf, "bootstrap.servers", brokers().c_str(), why, sizeof why);
		rd_kafka_conf_set(conf, "allow.auto.create.topics", "false", why, sizeof why);
		rd_kafka_conf_set_log_cb(
		        conf, [](const rd_kafka_t *, int, const char *, const char *) {});
		rk_ = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
		queue_ = rd_kafka_queue_new(rk_);
	}
	~Admin()
	{
		rd_kafka_queue_destroy(queue_);
		rd_kafka_destroy(rk_);
	}
	Admin(const Admin &) = delete;

	void create(const std::string &name, int partitions, int replicas,
	        const Settings &settings = {})
	{
		char why[200];
		rd_kafka_NewTopic_t *t =
		        rd_kafka_NewTopic_new(name.c_str(), partitions, replicas, why, sizeof why);
		for (const auto &[key, value] : settings)
			rd_kafka_NewTopic_set_config(t, key, value);
		rd_kafka_CreateTopics(rk_, &t, 1, nullptr, queue_);
		take();
		rd_kafka_NewTopic_destroy(t);
		eventually([&] { return leader(name) > 0; });
	}
	void remove(const std::string &name)
	{
		rd_kafka_DeleteTopic_t *t = rd_kafka_DeleteTopic_new(name.c_str());
		rd_kafka_DeleteTopics(rk_, &t, 1, nullptr, queue_);
		take();
		rd_kafka_DeleteTopic_destroy(t);
		eventually([&] { return leader(name) == 0; });
	}
	void delete_records(const std::string &name, int64_t before)
	{
		rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
		rd_kafka_topic_partition_list_add(list, name.c_str(), 0)->offset = before;
		rd_kafka_DeleteRecords_t *d = rd_kafka_DeleteRecords_new(list);
		rd_kafka_DeleteRecords(rk_, &d, 1, nullptr, queue_);
		take();
		rd_kafka_DeleteRecords_destroy(d);
		rd_kafka_topic_partition_list_destroy(list);
	}
	/* The node that leads the topic; 0: none does, or there is no such topic. */
	int leader(const std::string &name)
	{
		const struct rd_kafka_metadata *data;
		rd_kafka_topic_t *t = rd_kafka_topic_new(rk_, name.c_str(), nullptr);
		int node = 0;
		if (rd_kafka_metadata(rk_, 0, t, &data, 10000) == RD_KAFKA_RESP_ERR_NO_ERROR) {
			if (data->topic_cnt == 1 && data->topics[0].partition_cnt >= 1 &&
			        data->topics[0].partitions[0].leader > 0)
				node = data->topics[0].partitions[0].leader;
			rd_kafka_metadata_destroy(data);
		}
		rd_kafka_topic_destroy(t);
		return node;
	}

private:
	void take()
	{
		rd_kafka_event_t *e = rd_kafka_queue_poll(queue_, 30000);
		ASSERT_NE(e, nullptr);
		EXPECT_EQ(rd_kafka_event_error(e), RD_KAFKA_RESP_ERR_NO_ERROR)
		        << rd_kafka_event_error_string(e);
		rd_kafka_event_destroy(e);
	}
	rd_kafka_t *rk_;
	rd_kafka_queue_t *queue_;
};

} // namespace kafka_test

#endif
