/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bare_kafka.cpp - produce to Kafka without libfur (logs.hpp).
 */
#include "logs.hpp"

#include <librdkafka/rdkafka.h>
#include <stdexcept>

namespace bench_ship
{

namespace
{

class BareKafka : public Bare
{
public:
	BareKafka(const std::string &name, size_t bytes, const std::vector<std::string> &settings)
	    : message_(bytes, 'x')
	{
		const size_t slash = name.rfind('/'), colon = name.find(':');
		rd_kafka_conf_t *conf = rd_kafka_conf_new();
		set(conf, "bootstrap.servers", name.substr(colon + 1, slash - colon - 1));
		for (const auto &[key, value] : {std::pair{"acks", "all"}, {"linger.ms", "0"},
		             {"enable.idempotence", "true"}, {"message.timeout.ms", "0"},
		             {"socket.nagle.disable", "true"},
		             {"max.in.flight.requests.per.connection", "4"}})
			set(conf, key, value);
		for (const std::string &s : settings)
			if (s.rfind("replication.factor=", 0) &&
			        s.rfind("min.insync.replicas=", 0) && s.rfind("flush.messages=", 0))
				set(conf, s.substr(0, s.find('=')), s.substr(s.find('=') + 1));
		rd_kafka_conf_set_dr_msg_cb(
		        conf, [](rd_kafka_t *, const rd_kafka_message_t *m, void *) {
			        *static_cast<int *>(m->_private) = m->err ? -1 : 1;
		        });
		rd_kafka_conf_set_log_cb(
		        conf, [](const rd_kafka_t *, int, const char *, const char *) {});
		char why[300];
		rk_ = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
		if (!rk_)
			throw std::runtime_error(std::string("librdkafka: ") + why);
		topic_ = rd_kafka_topic_new(rk_, name.substr(slash + 1).c_str(), nullptr);
	}
	~BareKafka() override
	{
		rd_kafka_topic_destroy(topic_);
		rd_kafka_destroy(rk_);
	}
	BareKafka(const BareKafka &) = delete;
	void append() override
	{
		int answered = 0;
		if (rd_kafka_produce(topic_, 0, RD_KAFKA_MSG_F_COPY, message_.data(),
		            message_.size(), nullptr, 0, &answered))
			throw std::runtime_error("librdkafka: " + std::string(rd_kafka_err2str(
			                                                  rd_kafka_last_error())));
		while (!answered)
			rd_kafka_poll(rk_, 1000);
		if (answered < 0)
			throw std::runtime_error("librdkafka: a message was not delivered");
	}

private:
	static void set(rd_kafka_conf_t *conf, const std::string &key, const std::string &value)
	{
		char why[300];
		if (rd_kafka_conf_set(conf, key.c_str(), value.c_str(), why, sizeof why))
			throw std::runtime_error(std::string("librdkafka: ") + why);
	}
	std::string message_;
	rd_kafka_t *rk_ = nullptr;
	rd_kafka_topic_t *topic_ = nullptr;
};

} // namespace

std::unique_ptr<Bare> bare_kafka(
        const std::string &name, size_t bytes, const std::vector<std::string> &settings)
{
	return std::make_unique<BareKafka>(name, bytes, settings);
}

} // namespace bench_ship
