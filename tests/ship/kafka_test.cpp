/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kafka_test.cpp - the engine of libfur-kafka.so.0 on real brokers, which brokers.py has started:
 * what every engine must do, which topics and settings it refuses, and writers whose brokers are
 * killed and paused.
 */
#include "engine_checks.hpp"
#include "kafka.hpp"

extern "C" {
#include "ship/engine_open.h"
}

#include <atomic>
#include <functional>
#include <mutex>

namespace
{

using namespace kafka_test;

int open_log(const std::string &name, engine_use use, stream_engine **e,
        std::vector<const char *> settings = {})
{
	settings.push_back(nullptr);
	return engine_open(name.c_str(), use, settings.data(), e);
}

stream_engine *opened(const std::string &topic, engine_use use)
{
	stream_engine *e;
	EXPECT_EQ(open_log(log_of(topic), use, &e), 0) << fur_errormsg();
	return e;
}

struct KafkaLogs : Logs {
	stream_engine *open() override
	{
		return opened(topic, ENGINE_MAKE);
	}
	int patience_ms() const override
	{
		return 20000;
	}
	const std::string topic = new_topic();
};

std::unique_ptr<Logs> logs_of(const std::string &)
{
	return std::make_unique<KafkaLogs>();
}

INSTANTIATE_TEST_SUITE_P(Kafka, Engines, testing::Values("kafka"),
        [](const auto &p) { return std::string(p.param); });

/* ------------------------------------------------------------ offsets and reading */

Bytes numbered(uint64_t n)
{
	Bytes m = filled(40 + n % 300, static_cast<unsigned>(n));
	memcpy(m.data(), &n, sizeof n);
	return m;
}

/* Append [from, to), with at most `flights` under way; each gets its own number as its offset. */
void append_numbers(stream_engine *e, uint64_t from, uint64_t to, unsigned flights)
{
	engine_ack acks[16];
	uint64_t sent = from, answered = from;
	while (answered < to) {
		while (sent < to && sent - answered < flights) {
			ASSERT_EQ(append(e, sent, numbered(sent)), 0) << fur_errormsg();
			sent++;
		}
		const int n = e->ops->poll(e, acks, 16, 20000);
		ASSERT_GT(n, 0) << fur_errormsg();
		for (int k = 0; k < n; k++, answered++) {
			ASSERT_EQ(acks[k].handle, answered);
			ASSERT_EQ(acks[k].offset, answered) << "a gap";
		}
	}
}

TEST(Kafka, OffsetsAreContiguousWhileOthersRead)
{
	enum : uint64_t { MESSAGES = 20000 };
	const std::string topic = new_topic();
	stream_engine *e = opened(topic, ENGINE_MAKE);
	ASSERT_NE(e, nullptr);
	uint64_t next = 0;
	std::thread reader([&] {
		stream_engine *r = opened(topic, ENGINE_READ);
		Bytes m(4096);
		size_t n = 0;
		for (unsigned waits = 0; r && next < MESSAGES && waits < 60000;) {
			const int there = r->ops->read(r, next, m.data(), m.size(), &n);
			ASSERT_GE(there, 0) << fur_errormsg();
			if (there == 0) {
				waits++;
				sleep_ms(1);
				continue;
			}
			ASSERT_EQ(Bytes(m.begin(), m.begin() + static_cast<ptrdiff_t>(n)),
			        numbered(next));
			next++;
		}
		r->ops->close(r);
	});
	append_numbers(e, 0, MESSAGES, 16);
	reader.join();
	EXPECT_EQ(next, uint64_t(MESSAGES));
	EXPECT_EQ(end_of(e), uint64_t(MESSAGES));
	e->ops->close(e);
}

/* A cached message, one behind it, one far before it. */
TEST(Kafka, ReadsBackAndForth)
{
	const std::string topic = new_topic();
	stream_engine *e = opened(topic, ENGINE_MAKE);
	ASSERT_NE(e, nullptr);
	append_numbers(e, 0, 200, 16);
	for (uint64_t at : {0, 1, 2, 100, 101, 99, 70, 199, 0, 198, 199})
		EXPECT_EQ(read(e, at), numbered(at)) << at;
	EXPECT_EQ(read(e, 200), Bytes());
	append_numbers(e, 200, 201, 1);
	for (int k = 0; k < 1000 && read(e, 200).empty(); k++)
		sleep_ms(10);
	EXPECT_EQ(read(e, 200), numbered(200));
	e->ops->close(e);
}

TEST(Kafka, ReadersDoNotAppend)
{
	const std::string topic = new_topic();
	stream_engine *e = opened(topic, ENGINE_MAKE), *r = opened(topic, ENGINE_READ);
	EXPECT_EQ(append(r, 1, filled(10, 1)), FUR_EINVAL);
	EXPECT_EQ(append(e, 1, Bytes(1000001)), FUR_ETOOBIG);
	Bytes largest(1000000, 'x');
	ASSERT_EQ(append(e, 2, largest), 0) << fur_errormsg();
	ASSERT_EQ(append(e, 3, largest), 0) << fur_errormsg();
	engine_ack acks[4];
	for (int k = 0; k < 2;) {
		const int n = e->ops->poll(e, acks, 4, 20000);
		ASSERT_GT(n, 0) << fur_errormsg();
		k += n;
	}
	size_t n = 0;
	Bytes m(1000000);
	EXPECT_EQ(r->ops->read(r, 1, m.data(), m.size(), &n), 1) << fur_errormsg();
	EXPECT_EQ(n, m.size());
	EXPECT_EQ(m, largest);
	r->ops->close(r);
	e->ops->close(e);
}

/* ---------------------------------------------------------------- logs that were cut */

TEST(Kafka, DeletedRecordsAreOutOfRange)
{
	const std::string topic = new_topic();
	Admin admin;
	stream_engine *e = opened(topic, ENGINE_MAKE);
	ASSERT_NE(e, nullptr);
	append_numbers(e, 0, 50, 16);
	EXPECT_EQ(read(e, 5), numbered(5));
	admin.delete_records(topic, 30);
	stream_engine *other = opened(topic, ENGINE_READ);
	Bytes m(4096);
	size_t n;
	EXPECT_EQ(other->ops->read(other, 3, m.data(), m.size(), &n), FUR_ERANGE);
	EXPECT_NE(strstr(fur_errormsg(), "begins at 30"), nullptr) << fur_errormsg();
	EXPECT_EQ(read(other, 30), numbered(30));
	EXPECT_EQ(end_of(other), 50u);
	stream s;
	const stream_position position = {1, 1, 3, 7, 3, 3, 1};
	stream_init(&s, heap_uuid, &position);
	frame f;
	stream_judgement j;
	Bytes room(FRAME_MOST_BYTES);
	EXPECT_EQ(drive_read(other, &s, room.data(), &f, &j), 1);
	EXPECT_TRUE(stream_is_fatal(j)) << stream_text(j);
	other->ops->close(other);
	e->ops->close(e);
}

TEST(Kafka, ATopicThatIsGoneOrMadeAgainIsNoticed)
{
	const std::string topic = new_topic();
	Admin admin;
	stream_engine *e = opened(topic, ENGINE_MAKE), *r = opened(topic, ENGINE_READ);
	ASSERT_TRUE(e && r);
	append_numbers(e, 0, 20, 16);
	for (uint64_t at = 0; at < 20; at++)
		ASSERT_EQ(read(r, at), numbered(at));
	admin.remove(topic);
	/* Brokers learn of it one after the other, a slow one after many seconds. */
	uint64_t end;
	int error = 0;
	eventually([&] { return (error = r->ops->end(r, &end)) < 0; });
	EXPECT_LT(error, 0) << end;
	stream_engine *other = nullptr;
	eventually([&] {
		error = open_log(log_of(topic), ENGINE_WRITE, &other);
		return error != FUR_EBEHIND;
	});
	EXPECT_EQ(error, FUR_ENOENT) << fur_errormsg();
	EXPECT_EQ(other, nullptr);
	other = opened(topic, ENGINE_MAKE);
	ASSERT_NE(other, nullptr);
	append_numbers(other, 0, 3, 1);
	eventually([&] { return (error = r->ops->end(r, &end)) == 0; });
	ASSERT_EQ(error, 0) << fur_errormsg();
	EXPECT_EQ(end, 3u);
	Bytes m(4096);
	size_t n;
	EXPECT_EQ(r->ops->read(r, 20, m.data(), m.size(), &n), FUR_ERANGE) << fur_errormsg();
	EXPECT_EQ(read(r, 1), numbered(1)) << "of the new topic";
	other->ops->close(other);
	r->ops->close(r);
	e->ops->close(e);
}

/* ------------------------------------------------------------------- refusals */

void expect_refusal(const std::string &name, engine_use use, int code, const char *text,
        const std::vector<const char *> &settings = {})
{
	stream_engine *e;
	EXPECT_EQ(open_log(name, use, &e, settings), code) << name << ": " << fur_errormsg();
	EXPECT_EQ(e, nullptr);
	EXPECT_NE(strstr(fur_errormsg(), text), nullptr) << fur_errormsg();
	EXPECT_EQ(strchr(fur_errormsg(), '\n'), nullptr) << fur_errormsg();
}

TEST(Kafka, RefusesOtherTopics)
{
	const Settings good = {{"min.insync.replicas", "2"},
	        {"message.timestamp.type", "LogAppendTime"}, {"max.message.bytes", "1048576"}};
	const auto with = [&](const char *key, const char *value) {
		Settings s = good;
		std::erase_if(s, [&](const auto &each) { return !strcmp(each.first, key); });
		s.emplace_back(key, value);
		return s;
	};
	const struct {
		int partitions, replicas;
		Settings settings;
		const char *text;
	} wrong[] = {{2, 3, good, "2 partitions"}, {1, 2, good, "2 replicas"},
	        {1, 3, with("min.insync.replicas", "1"), "min.insync.replicas=1"},
	        {1, 3, with("cleanup.policy", "compact"), "cleanup.policy=compact"},
	        {1, 3, with("unclean.leader.election.enable", "true"), "election.enable=true"},
	        {1, 3, with("message.timestamp.type", "CreateTime"), "CreateTime"},
	        {1, 3, with("max.message.bytes", "600000"), "max.message.bytes=600000"}};
	Admin admin;
	for (const auto &w : wrong) {
		const std::string topic = new_topic();
		admin.create(topic, w.partitions, w.replicas, w.settings);
		expect_refusal(log_of(topic), ENGINE_WRITE, FUR_EINVAL, w.text);
		expect_refusal(log_of(topic), ENGINE_MAKE, FUR_EINVAL, w.text);
	}
	const std::string topic = new_topic();
	admin.create(topic, 1, 3, good);
	stream_engine *e = opened(topic, ENGINE_WRITE);
	ASSERT_NE(e, nullptr);
	e->ops->close(e);
	expect_refusal(
	        log_of(topic), ENGINE_WRITE, FUR_EINVAL, "flush.messages", {"flush.messages=1"});
	expect_refusal(log_of(topic), ENGINE_WRITE, FUR_EINVAL, "min.insync.replicas=2",
	        {"min.insync.replicas=3"});
	expect_refusal(log_of(new_topic()), ENGINE_WRITE, FUR_ENOENT, "make it");
	expect_refusal(log_of(new_topic()), ENGINE_READ, FUR_ENOENT, "make it");
	expect_refusal(log_of(new_topic()), ENGINE_MAKE, FUR_EINVAL, "replication.factor",
	        {"replication.factor=9"});
	ASSERT_EQ(open_log(log_of(new_topic()), ENGINE_MAKE, &e,
	                  {"replication.factor=1", "min.insync.replicas=1", "flush.messages=1",
	                          "compression.type=lz4"}),
	        0)
	        << fur_errormsg();
	append_numbers(e, 0, 3, 1);
	EXPECT_EQ(read(e, 2), numbered(2));
	e->ops->close(e);
}

/* Brokers learn of it one after the other, and any of them may be asked. */
TEST(Kafka, TakesATopicThatWasJustMade)
{
	Admin admin;
	for (int k = 0; k < 20; k++) {
		const std::string topic = new_topic();
		stream_engine *e;
		admin.create(topic, 1, 3,
		        {{"min.insync.replicas", "2"}, {"message.timestamp.type", "LogAppendTime"},
		                {"max.message.bytes", "1048576"}});
		ASSERT_EQ(open_log(log_of(topic), ENGINE_WRITE, &e), 0) << fur_errormsg();
		e->ops->close(e);
	}
}

TEST(Kafka, RefusesOtherNamesAndSettings)
{
	for (const char *name : {"kafka:", "kafka:/t", "kafka:host/t", "kafka:host:0/t",
	             "kafka:host:70000/t", "kafka:host:1,/t", "kafka::1/t", "kafka:host:1/",
	             "kafka:host:1/t t", "kafka:host:1"})
		expect_refusal(name, ENGINE_WRITE, FUR_EINVAL, "HOST:PORT");
	const std::string name = log_of(new_topic());
	for (const char *setting : {"acks=1", "enable.idempotence=false", "message.timeout.ms=1000",
	             "linger.ms=5", "transactional.id=x", "group.id=x", "bootstrap.servers=x:1",
	             "isolation.level=read_committed", "auto.offset.reset=latest"})
		expect_refusal(name, ENGINE_WRITE, FUR_EINVAL, "leave it out", {setting});
	expect_refusal(name, ENGINE_WRITE, FUR_EINVAL, "KEY=VALUE", {"nothing"});
	expect_refusal(name, ENGINE_WRITE, FUR_EINVAL, "no.such.key", {"no.such.key=1"});
	expect_refusal(name, ENGINE_WRITE, FUR_EINVAL, "from 1 to", {"replication.factor=0"});
	expect_refusal(name, ENGINE_WRITE, FUR_EINVAL, "at most",
	        {"replication.factor=1", "min.insync.replicas=2"});
	expect_refusal("kafka:127.0.0.1:1/t", ENGINE_WRITE, FUR_EBEHIND, "see whether they run");
}

/* ------------------------------------------------------------------ TLS and SASL */

TEST(Kafka, SettingsMakeAConnectionSecure)
{
	const char *brokers = getenv("FUR_KAFKA_SECURE"), *ca = getenv("FUR_KAFKA_CA");
	if (!brokers || !ca)
		GTEST_SKIP() << "there is no openssl: install the package openssl";
	const std::string topic = new_topic(), ca_setting = std::string("ssl.ca.location=") + ca,
	                  name = std::string("kafka:") + brokers + "/" + topic;
	const std::vector<const char *> good = {"security.protocol=sasl_ssl", ca_setting.c_str(),
	        "sasl.mechanism=PLAIN", "sasl.username=fur", "sasl.password=secret"};
	stream_engine *e;
	ASSERT_EQ(open_log(name, ENGINE_MAKE, &e, good), 0) << fur_errormsg();
	append_numbers(e, 0, 100, 16);
	EXPECT_EQ(read(e, 99), numbered(99));
	e->ops->close(e);
	std::vector<const char *> wrong = good;
	wrong.back() = "sasl.password=guess";
	expect_refusal(name, ENGINE_WRITE, FUR_EBEHIND, "settings are right", wrong);
	wrong = good;
	wrong[1] = "ssl.ca.location=/etc/hostname";
	expect_refusal(name, ENGINE_WRITE, FUR_EINVAL, "", wrong);
	wrong.erase(wrong.begin() + 1);
	expect_refusal(name, ENGINE_WRITE, FUR_EBEHIND, "settings are right", wrong);
}

/* --------------------------------------------------------- writers and faults */

/* A writer that ships updates 1, 2, ... as the shipper does, until it is told to end. */
class Load
{
public:
	explicit Load(const std::string &topic, uint64_t node = 1)
	    : engine_(opened(topic, ENGINE_MAKE)), room_(FRAME_MOST_BYTES)
	{
		writer_init(&w_, heap_uuid, node, nullptr);
		thread_ = std::thread([this] { run(); });
	}
	~Load()
	{
		if (thread_.joinable())
			end();
		engine_->ops->close(engine_);
	}
	/* Returns the last update that is acknowledged. */
	uint64_t end()
	{
		stopping = true;
		thread_.join();
		return acked;
	}
	/* Wait until `n` more are acknowledged. */
	void await(uint64_t n)
	{
		const uint64_t want = acked + n;
		for (int k = 0; k < 6000 && acked < want; k++)
			sleep_ms(10);
		ASSERT_GE(acked, want) << "nothing is acknowledged any more";
	}

	std::atomic<bool> stopping{false}, disturb{false};
	std::atomic<uint64_t> acked{0};
	std::atomic<unsigned> resyncs{0};
	std::vector<std::string> reasons; /* read after end() */

private:
	void run()
	{
		using clock = std::chrono::steady_clock;
		auto until = clock::now();
		uint64_t next = 1, nonce = 0;
		while (!stopping || w_.phase == WRITER_CONFIRMS) {
			if (w_.phase == WRITER_IDLE || w_.phase == WRITER_RESYNCS) {
				nonce++;
				EXPECT_EQ(drive_restart(&w_, engine_, nonce,
				                  nonce == 1 ? WRITER_TAKES_OVER : 0),
				        0);
				until = clock::now() + std::chrono::seconds(5);
				continue;
			}
			if (w_.phase == WRITER_FENCED || w_.phase == WRITER_FAILED)
				break;
			const bool shipped = w_.phase == WRITER_SHIPS;
			int done = drive_turn(&w_, engine_, room_.data(), shipped ? 2 : 20);
			if (w_.phase == WRITER_SHIPS && !shipped)
				next = w_.acked_durts + 1;
			acked = w_.acked_durts;
			while (w_.phase == WRITER_SHIPS && w_.submitted - w_.counted < 4) {
				Frame f(FRAME_DATA);
				f.update(next, filled(64, static_cast<unsigned>(next)));
				next++;
				if (drive_submit(&w_, engine_, &f.b))
					break;
				done = 1;
			}
			if (done > 0)
				until = clock::now() + std::chrono::seconds(5);
			if (done < 0)
				sleep_ms(50);
			if (disturb.exchange(false))
				writer_resync(&w_, "the test says so");
			else if (clock::now() > until)
				writer_resync(&w_, "no answer");
			if (w_.phase == WRITER_RESYNCS) {
				resyncs++;
				reasons.push_back(std::string(w_.why) + ": " + fur_errormsg());
			}
		}
		EXPECT_NE(w_.phase, WRITER_FAILED) << w_.why;
	}

	stream_engine *engine_;
	Bytes room_;
	writer w_;
	std::thread thread_;
};

/* What a reader makes of the topic: updates 1, 2, ..., each once and in order.  Returns the
 * last. */
uint64_t updates_in(const std::string &topic)
{
	stream_engine *e = opened(topic, ENGINE_READ);
	Bytes room(FRAME_MOST_BYTES);
	stream s;
	stream_init(&s, heap_uuid, nullptr);
	uint64_t last = 0;
	for (;;) {
		frame f;
		stream_judgement j;
		const int n = drive_read(e, &s, room.data(), &f, &j);
		EXPECT_GE(n, 0) << fur_errormsg();
		if (n != 1)
			break;
		EXPECT_FALSE(stream_is_fatal(j)) << stream_text(j);
		if (stream_is_fatal(j))
			break;
		if (j != STREAM_VALID || f.head.kind != FRAME_DATA)
			continue;
		size_t at = 0;
		frame_entries u;
		while (frame_next_update(&f, &at, &u)) {
			EXPECT_EQ(u.durts, last + 1);
			last = u.durts;
		}
	}
	e->ops->close(e);
	return last;
}

void report(const Load &load)
{
	testing::Test::RecordProperty("updates", std::to_string(load.acked));
	testing::Test::RecordProperty("resyncs", std::to_string(load.resyncs));
	printf("%llu updates acknowledged, %u resyncs\n",
	        static_cast<unsigned long long>(load.acked), load.resyncs.load());
	for (const std::string &why : load.reasons)
		printf("    %s\n", why.c_str());
}

TEST(KafkaFaults, EnginesThatRestartLoseNothing)
{
	const std::string topic = new_topic();
	Load load(topic);
	for (int k = 0; k < 10; k++) {
		load.await(50);
		load.disturb = true;
	}
	load.await(50);
	const uint64_t acked = load.end();
	report(load);
	EXPECT_GE(load.resyncs, 10u);
	EXPECT_GE(updates_in(topic), acked);
}

int rounds()
{
	const char *n = getenv("FUR_KAFKA_ROUNDS");
	return n ? atoi(n) : 2;
}

/* A killed leader comes back as a follower; it may be the leader again at once. */
TEST(KafkaFaults, KilledLeadersLoseNothing)
{
	const std::string topic = new_topic();
	Admin admin;
	Load load(topic);
	for (int k = 0; k < rounds() && !HasFatalFailure(); k++) {
		load.await(300);
		const int leader = admin.leader(topic);
		ASSERT_GT(leader, 0);
		control("kill " + std::to_string(leader));
		load.await(300);
		control("start " + std::to_string(leader));
		control("wait");
	}
	const uint64_t acked = load.end();
	report(load);
	EXPECT_GE(updates_in(topic), acked);
}

/* Longer than its brokers believe in it: another one leads meanwhile. */
TEST(KafkaFaults, PausedLeadersLoseNothing)
{
	const std::string topic = new_topic();
	Admin admin;
	Load load(topic);
	for (int k = 0; k < rounds() / 2 && !HasFatalFailure(); k++) {
		load.await(300);
		const std::string leader = std::to_string(admin.leader(topic));
		control("pause " + leader);
		load.await(300);
		control("resume " + leader);
		load.await(300);
		control("wait");
	}
	const uint64_t acked = load.end();
	report(load);
	EXPECT_GE(updates_in(topic), acked);
}

/* Two of three die: nothing is acknowledged, and nothing is lost. */
TEST(KafkaFaults, WithoutInSyncReplicasNothingIsAcknowledged)
{
	const std::string topic = new_topic();
	Admin admin;
	Load load(topic);
	load.await(300);
	control("kill 1");
	control("kill 2");
	sleep_ms(1000);
	const uint64_t before = load.acked;
	sleep_ms(2000);
	EXPECT_EQ(load.acked, before);
	control("start 1");
	control("start 2");
	control("wait");
	load.await(300);
	const uint64_t acked = load.end();
	report(load);
	EXPECT_GE(updates_in(topic), acked);
}

} // namespace
