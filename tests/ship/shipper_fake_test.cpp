/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shipper_fake_test.cpp - the shipper against a log that loses, repeats, delays, reorders and cuts
 * off messages and answers (engine_fake.hpp), beside a heap whose threads update it.  Whatever the
 * log does, it has each update once, in order, and the heap is what the log says (INV-SH31 to
 * INV-SH33); nothing returns that the log does not have (INV-SH2, INV-SH3); and a recovery finds
 * behind the position in the ship page what the image lacks (INV-SH35).
 */
#include "../unit/fixture.hpp"
#include "engine_fake.hpp"
#include "replica.hpp"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <mutex>
#include <optional>
#include <thread>

namespace
{

using ship_test::Attached;
using ship_test::Replica;

enum : uint64_t { NODE = 17 };

/* The log, for several threads, and what is known of it. */
struct SharedLog {
	SharedLog(uint64_t seed, const fake::Faults &f, const std::string &heap)
	    : log(seed, f), reader(log.connect()), replica(heap, "")
	{
	}
	std::mutex mutex;
	fake::Log log;
	stream_engine *reader;
	Replica replica; /* what the log makes of the heap */
};

/* The connection of a shipper.  Things happen in the log when the shipper has nothing else to do,
 * and sometimes when it has; a wait without an answer ends when nothing is left to happen.  So no
 * clock matters. */
class Connection : public stream_engine
{
public:
	/* It ends the shipper after this many calls, as if it were killed; 0: never. */
	Connection(SharedLog &shared, uint64_t seed, uint64_t calls)
	    : stream_engine{&OPS}, shared_(shared), random_{seed}, calls_(calls)
	{
		const std::lock_guard<std::mutex> lock(shared_.mutex);
		log_ = shared_.log.connect();
	}
	void watch(Attached *attached)
	{
		attached_ = attached;
		from_ = attached ? ship_acked(attached->shipper.d) : 0;
	}
	/* All updates have durTSs that follow each other: none was aborted. */
	bool dense = false;
	uint64_t early = 0; /* acknowledgements of what the log does not have */
	uint64_t ahead = 0; /* positions in the ship page of what the image does not have */

private:
	static Connection *of(stream_engine *e)
	{
		return static_cast<Connection *>(e);
	}
	/* A call begins: something may happen, and the heap must be right. */
	void begin()
	{
		if (random_.one_in(4))
			(void)shared_.log.step();
		if (!attached_)
			return;
		const shipper &s = attached_->shipper;
		if (calls_ && --calls_ == 0)
			arch_store32_release(&attached_->shipper.stopping, 1);
		media_ship page;
		uint64_t tail;
		ASSERT_EQ(heap_read_ship_page(&s.file->geometry, s.file->super, &page), 0);
		ASSERT_EQ(heap_tail(s.file, &tail), 0);
		ahead += page.durts > tail;
		shared_.replica.follow(shared_.reader);
		const uint64_t acked = ship_acked(s.d);
		early += dense && acked > from_ && acked > shared_.replica.durts + 1;
	}
	/* Let things happen until done(), or nothing is left. */
	template <class Done>
	void wait(Done &&done)
	{
		while (!done() && shared_.log.step())
			continue;
	}
	static int append(stream_engine *e, uint64_t handle, const void *message, size_t bytes)
	{
		Connection *c = of(e);
		const std::lock_guard<std::mutex> lock(c->shared_.mutex);
		c->begin();
		return c->log_->ops->append(c->log_, handle, message, bytes);
	}
	static int poll(stream_engine *e, engine_ack *acks, unsigned most, int patience_ms)
	{
		Connection *c = of(e);
		const std::lock_guard<std::mutex> lock(c->shared_.mutex);
		c->begin();
		int n = 0;
		auto done = [&] { return (n = c->log_->ops->poll(c->log_, acks, most, 0)) > 0; };
		if (!done() && patience_ms)
			c->wait(done);
		return n;
	}
	static int read(stream_engine *e, uint64_t offset, void *to, size_t most, size_t *bytes)
	{
		Connection *c = of(e);
		const std::lock_guard<std::mutex> lock(c->shared_.mutex);
		c->begin();
		if (offset >= c->shared_.log.end() && c->random_.one_in(2))
			c->wait([&] { return c->shared_.log.end() > offset; });
		return c->log_->ops->read(c->log_, offset, to, most, bytes);
	}
	static int end(stream_engine *e, uint64_t *end)
	{
		Connection *c = of(e);
		const std::lock_guard<std::mutex> lock(c->shared_.mutex);
		return c->log_->ops->end(c->log_, end);
	}
	static int restart(stream_engine *e)
	{
		Connection *c = of(e);
		const std::lock_guard<std::mutex> lock(c->shared_.mutex);
		return c->log_->ops->restart(c->log_);
	}
	static void close(stream_engine *e)
	{
		Connection *c = of(e);
		const std::lock_guard<std::mutex> lock(c->shared_.mutex);
		c->log_->ops->close(c->log_);
	}
	static constexpr stream_engine_ops OPS = {append, poll, read, end, restart, close};

	SharedLog &shared_;
	tools::Random random_;
	uint64_t calls_;
	stream_engine *log_;
	Attached *attached_ = nullptr;
	uint64_t from_ = 0; /* what was acknowledged before */
};

/* What the log does: some of it rarely, and some of it never, as the seed decides. */
fake::Faults faults_of(uint64_t seed)
{
	tools::Random random{seed};
	fake::Faults f;
	for (unsigned *one : {&f.reorder, &f.lose, &f.repeat, &f.lose_answer, &f.no_offset, &f.fall,
	             &f.garbage, &f.late})
		*one = random.one_in(2) ? 0 : static_cast<unsigned>(4 + random.below(30));
	return f;
}

enum : uint64_t { CELLS = 64 };
struct Root {
	uint64_t sum;
	uint64_t newest[2];
	uint64_t cell[2][CELLS];
	void *block;
};

class ShipperFake : public HeapFile
{
protected:
	void make()
	{
		unlink(path_.c_str());
		fur::Heap heap = create();
		std::optional<fur::Thread> self(heap);
		fur::update(*self, [&](fur_update *tx) {
			auto *root = static_cast<Root *>(fur_alloc(tx, sizeof(Root)));
			const Root zero = {};
			fur_write(tx, root, &zero, sizeof zero);
			fur_set_root(tx, 0, root);
			newest_at_ =
			        static_cast<uint64_t>(reinterpret_cast<char *>(root->newest) -
			                              static_cast<char *>(heap_base(heap.get())));
		});
		self.reset();
		heap.close();
		heap_file file;
		media_ship ship = {};
		ship.role = MEDIA_PRIMARY;
		ship.node = NODE;
		ship.offset = STREAM_NO_OFFSET;
		ASSERT_EQ(heap_open_file(path_.c_str(), HEAP_LOCK_WORKER, &file), 0);
		ASSERT_EQ(heap_write_ship_page(&file, &ship), 0) << fur_errormsg();
		heap_close_file(&file);
	}
	static Root *root_of(fur_thread *self)
	{
		return fur::read(
		        self, [](fur_ro *tx) { return static_cast<Root *>(fur_root(tx, 0)); });
	}
	/* The update number `n` of thread `t`, whose trace the next 63 leave. */
	static void write_one(fur_thread *self, Root *root, unsigned t, uint64_t n)
	{
		static const std::vector<uint8_t> data(20000, 5);
		fur::update(self, [&](fur_update *tx) {
			fur_store(tx, &root->newest[t], n);
			fur_store(tx, &root->cell[t][n % CELLS], n);
			fur_store(tx, &root->sum, fur_load(tx, &root->sum) + 1);
			if (t == 0 && n % 16 == 0) {
				fur_free(tx, fur_load(tx, &root->block));
				fur_store<void *>(tx, &root->block, nullptr);
			} else if (t == 0 && n % 16 == 8) {
				void *block = fur_alloc(tx, data.size());
				fur_write(tx, block, data.data(), data.size());
				fur_store(tx, &root->block, block);
			}
		});
	}
	/* The heap is what the log says, byte by byte, and that has this many updates. */
	void expect_all(SharedLog &shared, uint64_t updates)
	{
		shared.log.settle();
		shared.replica.follow(shared.reader);
		EXPECT_EQ(shared.replica.updates, updates);
		const Replica now(path_, "");
		ASSERT_EQ(now.bytes.size(), shared.replica.bytes.size());
		EXPECT_EQ(
		        memcmp(now.bytes.data(), shared.replica.bytes.data(), now.bytes.size()), 0);
	}

	uint64_t newest_at_ = 0;
};

/* One thread, which ships what is there: a seed decides all.  No block is freed, for that would
 * wait for a replay. */
TEST_F(ShipperFake, EachUpdateOnce_InOneThread)
{
	for (uint64_t seed = 1; seed <= rounds(uint64_t(100)) && !HasFailure(); seed++) {
		SCOPED_TRACE(seed);
		make();
		SharedLog shared(seed, faults_of(seed), path_);
		Connection connection(shared, seed, 0);
		connection.dense = true;
		uint64_t n = 0;
		fur::Heap heap = open();
		{
			Attached attached(path_, &connection);
			attached.shipper.patience_ns = 0;
			connection.watch(&attached);
			durability *d = &heap.get()->durability;
			ship_begin(d);
			fur::Thread self(heap);
			Root *root = root_of(self);
			for (unsigned batch = 0; batch < 4; batch++) {
				for (unsigned k = 0; k < 20; k++)
					write_one(self, root, 1, ++n);
				ASSERT_EQ(shipper_ship(
				                  &attached.shipper, ring_next(d),
				                  [](void *, uint64_t) { return true; }, nullptr),
				        0)
				        << fur_errormsg();
				EXPECT_EQ(ship_acked(d), ring_next(d));
			}
			connection.watch(nullptr);
		}
		heap.close();
		EXPECT_EQ(connection.early, 0u);
		expect_all(shared, n);
	}
}

/* Shippers that die after some calls of the log, one after the other, while threads update. */
TEST_F(ShipperFake, EachUpdateOnce_AndWhatReturnsIsInTheLog)
{
	enum { UPDATES = 150 };
	for (uint64_t seed = 1; seed <= rounds(uint64_t(30)) && !HasFailure(); seed++) {
		SCOPED_TRACE(seed);
		make();
		SharedLog shared(seed, faults_of(seed), path_);
		fur::Heap heap = open();
		heap.get()->durability.ship.replicates = true;
		std::atomic<bool> over{false};
		std::atomic<uint64_t> early{0}, ahead{0};
		std::thread ships([&] {
			tools::Random random{seed};
			while (!over) {
				Connection connection(shared, random.below(1000000),
				        random.one_in(8) ? 0 : 20 + random.below(200));
				Attached attached(path_, &connection);
				attached.shipper.patience_ns = 0;
				connection.watch(&attached);
				EXPECT_EQ(shipper_run(&attached.shipper), 0) << fur_errormsg();
				connection.watch(nullptr);
				ahead += connection.ahead;
			}
		});
		std::vector<std::thread> writers;
		for (unsigned t = 0; t < 2; t++)
			writers.emplace_back([&, t] {
				fur::Thread self(heap);
				Root *root = root_of(self);
				for (uint64_t n = 1; n <= UPDATES; n++) {
					write_one(self, root, t, n);
					/* It has returned: the log has it. */
					const std::lock_guard<std::mutex> lock(shared.mutex);
					shared.replica.follow(shared.reader);
					uint64_t there;
					memcpy(&there, &shared.replica.bytes[newest_at_ + 8 * t],
					        8);
					early += there < n;
				}
			});
		for (auto &w : writers)
			w.join();
		heap.close(); /* all is acknowledged then */
		over = true;  /* the shipper ends with the worker */
		ships.join();
		EXPECT_EQ(early, 0u);
		EXPECT_EQ(ahead, 0u);
		expect_all(shared, 2 * UPDATES);
	}
}

/* The kinds of the valid frames in the log. */
std::vector<int> kinds_in(SharedLog &shared, const uint8_t uuid[16])
{
	const std::lock_guard<std::mutex> lock(shared.mutex);
	std::vector<int> kinds;
	struct stream s;
	stream_init(&s, uuid, nullptr);
	for (uint64_t at = 0; at < shared.log.end(); at++) {
		const fake::Message &m = shared.log.at(at);
		struct frame f;
		if (stream_read(&s, at, m.data(), m.size(), &f) == STREAM_VALID)
			kinds.push_back(f.head.kind);
	}
	return kinds;
}

/* INV-SH36, for an update that had begun when the gate was closed: before any BEAT. */
TEST_F(ShipperFake, Handover_IsAskedAgainBehindAnUpdateThatHadPassedTheGate)
{
	make();
	SharedLog shared(1, {}, path_);
	fur::Heap heap = open();
	durability *d = &heap.get()->durability;
	Connection connection(shared, 1, 0);
	Attached attached(path_, &connection);
	std::thread ships([&] { EXPECT_EQ(shipper_run(&attached.shipper), 0) << fur_errormsg(); });
	/* The kind of the frame behind the first of this kind. */
	auto behind = [&](int kind) {
		for (;; usleep(100)) {
			const std::vector<int> kinds = kinds_in(shared, d->super->uuid);
			const auto at = std::find(kinds.begin(), kinds.end(), kind);
			if (kinds.end() - at > 1)
				return *(at + 1);
		}
	};
	{
		fur::Thread self(heap);
		Root *root = root_of(self);
		fur_update *tx;
		ASSERT_EQ(fur_begin_update(self, &tx), 0) << fur_errormsg();
		fur_store(tx, &root->sum, uint64_t(1));
		ASSERT_EQ(shipper_hand_over(d, NODE + 1), 0) << fur_errormsg();
		EXPECT_EQ(behind(FRAME_HANDOVER), FRAME_BEAT);
		EXPECT_EQ(fur_commit(tx, nullptr), 0) << fur_errormsg(); /* the log has it */
		EXPECT_EQ(behind(FRAME_DATA), FRAME_HANDOVER);
	}
	attached.stop();
	ships.join();
	heap.close();
}

} // namespace
