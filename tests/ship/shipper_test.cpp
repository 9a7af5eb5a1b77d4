/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shipper_test.cpp - a heap's updates get into a log, and a heap that was killed is recovered with
 * it (INV-SH31 to INV-SH34).  The log is a file.
 */
#include "../unit/fixture.hpp"
#include "replica.hpp"

#include <csignal>
#include <functional>
#include <fur/bulk.hpp>
#include <optional>
#include <random>
#include <sys/mman.h>
#include <thread>

static std::function<void()> before_sync;
extern "C" int __real_system_sync_data(int fd); /* NOLINT */
extern "C" int __wrap_system_sync_data(int fd)  /* NOLINT */
{
	if (before_sync)
		before_sync();
	return __real_system_sync_data(fd);
}

namespace
{

using ship_test::Attached;
using ship_test::Replica;

enum : uint64_t { NODE = 17 };

enum { WORDS = 64 };
struct Root {
	uint64_t words[WORDS];
	void *block;
};

class ShipperTest : public HeapFile, public ::testing::WithParamInterface<fur_pm>
{
protected:
	ShipperTest() : log_(path_ + "-log")
	{
		unlink(log_.c_str());
		fur::Heap heap = create(options());
		std::optional<fur::Thread> self(heap);
		fur::update(*self, [&](fur_update *tx) {
			auto *root = static_cast<Root *>(fur_alloc(tx, sizeof(Root)));
			const Root zero = {};
			fur_write(tx, root, &zero, sizeof zero);
			fur_set_root(tx, 0, root);
			root_offset_ =
			        static_cast<uint64_t>(reinterpret_cast<char *>(root) -
			                              static_cast<char *>(heap_base(heap.get())));
		});
		self.reset();
		heap.close();
		heap_file file;
		media_ship ship = {};
		ship.role = MEDIA_PRIMARY;
		ship.node = NODE;
		ship.offset = STREAM_NO_OFFSET;
		EXPECT_EQ(heap_open_file(path_.c_str(), HEAP_LOCK_WORKER, &file), 0);
		EXPECT_EQ(heap_write_ship_page(&file, &ship), 0) << fur_errormsg();
		heap_close_file(&file);
	}
	~ShipperTest() override
	{
		unlink(log_.c_str());
	}
	static fur::Options options()
	{
		fur::Options o = small_options();
		o.pm = GetParam();
		return o;
	}
	/* Is the image what the log makes of the first one, byte by byte?  After a kill it
	 * skips free memory: an update fills fresh memory in the file before it writes its marker,
	 * and without the marker recovery drops the update, and leaves those bytes. */
	void expect_image(const Replica &replica, bool killed = false)
	{
		const Replica now(path_, log_);
		ASSERT_EQ(now.bytes.size(), replica.bytes.size());
		const uint8_t *image = now.bytes.data();
		for (size_t at = 0; at < now.bytes.size(); at += 8) {
			alloc_place place;
			if (killed && !alloc_place_of(image, image + at, &place) && place.inside)
				continue;
			ASSERT_EQ(memcmp(image + at, &replica.bytes[at], 8), 0) << "at " << at;
		}
	}
	std::string log_;
	uint64_t root_offset_ = 0;
};

Root *root_of(fur_thread *self)
{
	return fur::read(self, [](fur_ro *tx) { return static_cast<Root *>(fur_root(tx, 0)); });
}

TEST_P(ShipperTest, LogHasWhatTheHeapHas)
{
	Replica replica(path_, log_);
	{
		fur::Heap heap = open(options());
		Attached attached(path_, log_);
		int result = 1;
		std::thread ships([&] { result = shipper_run(&attached.shipper); });
		std::optional<fur::Thread> self(heap);
		Root *root = root_of(*self);
		std::vector<std::thread> writers;
		for (unsigned t = 0; t < 2; t++)
			writers.emplace_back([&, t] {
				fur::Thread mine(heap);
				for (uint64_t k = 1; k <= 300; k++)
					fur::update(mine, [&](fur_update *tx) {
						fur_store(tx, &root->words[t], k);
						fur_store(tx, &root->words[2],
						        fur_load(tx, &root->words[2]) + 1);
					});
			});
		for (auto &w : writers)
			w.join();
		/* Larger than the log: not in it. */
		const std::vector<uint8_t> data(700000, 9);
		for (int k = 0; k < 3; k++) {
			fur::update(*self, [&](fur_update *tx) {
				void *block = fur_alloc(tx, data.size());
				fur_write(tx, static_cast<char *>(block) + 100, data.data(),
				        data.size() - 5000);
				fur_store(tx, &root->block, block);
			});
			fur::update(*self, [&](fur_update *tx) {
				fur_free(tx, fur_load(tx, &root->block));
				fur_store<void *>(tx, &root->block, nullptr);
			});
		}
		/* Its results are not in the log either. */
		fur::bulk(*self, root->words + 8, 40, [](uint64_t &word, uint64_t) noexcept {
			word += 3;
			return true;
		});
		self.reset();
		heap.close(); /* all is acknowledged then */
		attached.stop();
		ships.join();
		EXPECT_EQ(result, 0) << fur_errormsg();
	}
	replica.follow();
	EXPECT_GE(replica.updates, 600u);
	EXPECT_GE(replica.sides, 3u);
	EXPECT_EQ(replica.voids, 0u);
	expect_image(replica);
}

/* While a sync runs, the log's round trip may run as well. */
class Overlap : public ShipperTest
{
};

TEST_P(Overlap, ShipperIsCalledBeforeTheSync)
{
	fur::Heap heap = open(options());
	durability *d = &heap.get()->durability;
	control_ship *c = &d->control->ship;
	ship_begin(d);
	std::optional<fur::Thread> self(heap);
	Root *root = root_of(*self);
	uint64_t next = ring_next(d);
	for (uint64_t k = 1; k <= 5; k++, next++) {
		const uint32_t calls = c->calls;
		arch_store32(&c->asleep, 1);
		unsigned syncs = 0;
		before_sync = [&] {
			media_marker marker;
			syncs++;
			EXPECT_EQ(arch_load32(&c->asleep), 0u);
			EXPECT_EQ(c->calls, calls + 1);
			EXPECT_EQ(ship_read(d, next, &marker), 0);
		};
		fur::update(*self, [&](fur_update *tx) { fur_store(tx, &root->words[0], k); });
		before_sync = nullptr;
		EXPECT_EQ(syncs, 1u);
		EXPECT_EQ(c->calls, calls + 1);
	}
	ship_acknowledge(d, next);
}
INSTANTIATE_TEST_SUITE_P(Sync, Overlap, ::testing::Values(FUR_PM_SYNC));

/* A heap that rests: its beats move the position, so that the log need not keep them for ever. */
TEST_P(ShipperTest, PositionMovesOverBeats)
{
	fur::Heap heap = open(options());
	Attached attached(path_, log_);
	attached.shipper.beat_ns = 100000;
	attached.shipper.idle_frames = 8;
	int result = 1;
	std::thread ships([&] { result = shipper_run(&attached.shipper); });
	std::optional<fur::Thread> self(heap);
	Root *root = root_of(*self);
	for (uint64_t k = 1; k <= 3; k++)
		fur::update(*self, [&](fur_update *tx) { fur_store(tx, &root->words[0], k); });
	durability *d = &heap.get()->durability;
	const uint64_t next = ring_next(d);
	media_ship page = {};
	do {
		usleep(1000);
		ASSERT_EQ(heap_read_ship_page(d->super, d->words, &page), 0);
	} while (page.offset == STREAM_NO_OFFSET || page.frame < 40);
	EXPECT_EQ(page.durts, next);
	EXPECT_EQ(arch_load_acquire(&d->control->tail), next); /* INV-SH35 */
	self.reset();
	heap.close();
	attached.stop();
	ships.join();
	EXPECT_EQ(result, 0) << fur_errormsg();
}

/* A heap that is handed over, and no shipper. */
class Gate : public ShipperTest
{
protected:
	Gate() : heap_(fur::Heap::open(path_, quick())), self_(heap_), root_(root_of(self_))
	{
		ship_begin(d_);
	}
	static fur::Options quick()
	{
		fur::Options o = options();
		o.ack_patience_ms = 50;
		return o;
	}
	fur_update *begun()
	{
		fur_update *tx = nullptr;
		EXPECT_EQ(fur_begin_update(self_, &tx), 0) << fur_errormsg();
		fur_store(tx, &root_->words[0], ++value_);
		return tx;
	}
	int commit(fur_update *tx)
	{
		return fur_commit(tx, nullptr);
	}
	fur::Heap heap_;
	fur::Thread self_;
	durability *d_ = &heap_.get()->durability;
	Root *root_;
	uint64_t value_ = 0;
};

TEST_P(Gate, UpdatesThatHaveBegunReturnWhatTheLogHas)
{
	EXPECT_EQ(commit(begun()), 0); /* durable here */
	fur_update *tx = begun();
	ASSERT_EQ(ship_close_gate(d_), 0);
	EXPECT_EQ(commit(tx), FUR_EINDOUBT);
	EXPECT_EQ(fur_begin_update(self_, &tx), FUR_EBEHIND);
	EXPECT_NE(std::string(fur_errormsg()).find("handed over"), std::string::npos);
	fur_ro *ro;
	ASSERT_EQ(fur_begin_ro(self_, &ro), 0);
	EXPECT_EQ(fur_end_ro(ro, nullptr), FUR_EINDOUBT);
	ship_acknowledge(d_, ring_next(d_));
	ASSERT_EQ(fur_begin_ro(self_, &ro), 0);
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	ship_begin(d_);
	tx = begun();
	ASSERT_EQ(ship_close_gate(d_), 0);
	ship_fence(d_);
	EXPECT_EQ(commit(tx), FUR_EFENCED);
	EXPECT_EQ(fur_begin_update(self_, &tx), FUR_EFENCED);
}

TEST_P(Gate, DrainedIfThereIsNoMarkerBehind)
{
	const uint64_t first = ring_next(d_), slots = d_->super->ring_slots;
	EXPECT_TRUE(ship_drained(d_, first));
	for (int k = 0; k < 5; k++)
		EXPECT_EQ(commit(begun()), 0);
	for (uint64_t k = 0; k < 5; k++)
		EXPECT_FALSE(ship_drained(d_, first + k));
	EXPECT_TRUE(ship_drained(d_, ring_next(d_)));
	/* The update before has not written its marker. */
	for (uint64_t behind : {uint64_t(1), slots / 2, slots - 6}) {
		media_marker *m = durability_marker(d_, first + 5 + behind);
		const uint64_t was = m->durts;
		if (GetParam() == FUR_PM_SYNC) /* the mapping is for reading */
			break;
		m->durts = first + 5 + behind;
		EXPECT_FALSE(ship_drained(d_, first + 5)) << behind;
		m->durts = was;
	}
	ship_acknowledge(d_, ring_next(d_));
}
INSTANTIATE_TEST_SUITE_P(Pm, Gate, ::testing::Values(FUR_PM_EMULATED, FUR_PM_SYNC));

/* A log that answers when the shipper can do nothing but wait, or when no more frames come; then it
 * answers all at once.  When a frame comes, nothing in it may be acknowledged yet (INV-SH2). */
class SlowLog : public stream_engine
{
public:
	SlowLog(stream_engine *log, const durability *d) : stream_engine{&OPS}, log_(log), d_(d) {}
	unsigned frames = 0, early = 0;
	unsigned waits = 0; /* for answers, with a full frame to send */

private:
	enum { PATIENCE = 300, LONG_MS = 50 };
	static SlowLog *of(stream_engine *e)
	{
		return static_cast<SlowLog *>(e);
	}
	static int append(stream_engine *e, uint64_t handle, const void *message, size_t bytes)
	{
		SlowLog *s = of(e);
		struct frame f;
		if (frame_read(message, bytes, &f) == FRAME_GOOD && f.head.kind == FRAME_DATA) {
			s->frames++;
			s->quiet_ = 0;
			s->early += ship_acked(s->d_) > f.head.durts_first;
		}
		return s->log_->ops->append(s->log_, handle, message, bytes);
	}
	static int poll(stream_engine *e, engine_ack *acks, unsigned most, int patience_ms)
	{
		SlowLog *s = of(e);
		s->waits += patience_ms >= LONG_MS;
		if (patience_ms < LONG_MS && ++s->quiet_ < PATIENCE)
			return 0;
		return s->log_->ops->poll(s->log_, acks, most, patience_ms);
	}
	static int read(stream_engine *e, uint64_t offset, void *to, size_t most, size_t *bytes)
	{
		return of(e)->log_->ops->read(of(e)->log_, offset, to, most, bytes);
	}
	static int end(stream_engine *e, uint64_t *end)
	{
		return of(e)->log_->ops->end(of(e)->log_, end);
	}
	static int restart(stream_engine *e)
	{
		return of(e)->log_->ops->restart(of(e)->log_);
	}
	static void close(stream_engine *) {}
	static constexpr stream_engine_ops OPS = {append, poll, read, end, restart, close};

	stream_engine *log_;
	const durability *d_;
	unsigned quiet_ = 0; /* polls since the newest frame */
};

TEST_P(ShipperTest, AnswersOfOlderFramesDoNotAcknowledgeTheFrameThatIsFilled)
{
	enum { PIECES = SHIPPER_FLIGHTS - 1, STEP = 65536 };
	Replica replica(path_, log_);
	fur::Heap heap = open(options());
	Attached attached(path_, log_);
	durability *d = attached.shipper.d;
	SlowLog slow(attached.shipper.engine, d);
	attached.shipper.engine = &slow;
	ship_begin(d);
	{
		fur::Thread self(heap);
		Root *root = root_of(self);
		/* As many frames as can be under way: pages with zeros between, and the record. */
		fur::update(self, [&](fur_update *tx) {
			const std::vector<uint8_t> page(4096, 3);
			auto *block = static_cast<char *>(fur_alloc(tx, PIECES * STEP));
			for (int k = 0; k < PIECES; k++)
				fur_write(tx, block + k * STEP, page.data(), page.size());
			fur_store<void *>(tx, &root->block, block);
		});
		/* And one more. */
		fur::update(
		        self, [&](fur_update *tx) { fur_store(tx, &root->words[0], uint64_t(1)); });
	}
	const uint64_t end = ring_next(&heap.get()->durability);
	ASSERT_EQ(shipper_ship(
	                  &attached.shipper, end, [](void *, uint64_t) { return true; }, nullptr),
	        0)
	        << fur_errormsg();
	EXPECT_EQ(ship_acked(d), end);
	EXPECT_EQ(slow.early, 0u);
	EXPECT_EQ(slow.waits, 1u);
	EXPECT_EQ(slow.frames, 2u);
	heap.close();
	replica.follow();
	expect_image(replica);
}

/* Another node becomes the stream's writer. */
void take_over(const std::string &heap, const std::string &log)
{
	heap_file file;
	stream_engine *engine;
	writer w;
	std::vector<uint8_t> room(FRAME_MOST_BYTES);
	ASSERT_EQ(heap_open_file(heap.c_str(), HEAP_LOCK_NONE, &file), 0);
	ASSERT_EQ(engine_file_open(log.c_str(), &engine), 0);
	writer_init(&w, file.geometry.uuid, NODE + 1, nullptr);
	writer_start(&w, 4711, WRITER_TAKES_OVER);
	while (w.phase != WRITER_SHIPS) {
		ASSERT_GE(drive_turn(&w, engine, room.data(), 1), 0) << fur_errormsg();
		if (w.phase == WRITER_RESYNCS) { /* the other one has shipped in between */
			ASSERT_EQ(drive_restart(&w, engine, 4712, WRITER_TAKES_OVER), 0);
		}
	}
	engine->ops->close(engine);
	heap_close_file(&file);
}

TEST_P(ShipperTest, Fenced_WhatHasReturnedIsInTheLog_AndNothingElseReturns)
{
	Replica replica(path_, log_);
	fur::Heap heap = open(options());
	heap.get()->durability.ship.replicates = true;
	Attached attached(path_, log_);
	int result = 0;
	std::thread ships([&] { result = shipper_run(&attached.shipper); });
	uint64_t returned = 0;
	std::optional<fur::Thread> self(heap);
	Root *root = root_of(*self);
	std::thread other;
	try {
		for (uint64_t k = 1;; k++) {
			if (k == 50)
				other = std::thread([&] { take_over(path_, log_); });
			fur::update(
			        *self, [&](fur_update *tx) { fur_store(tx, &root->words[0], k); });
			returned = k;
		}
	} catch (const fur::Error &e) {
		EXPECT_EQ(e.code(), FUR_EFENCED) << e.what();
	}
	EXPECT_GE(returned, 49u);
	ships.join();
	other.join();
	EXPECT_EQ(result, FUR_EFENCED) << fur_errormsg();
	EXPECT_THROW(fur::read(*self, [&](fur_ro *tx) { return fur_root(tx, 0); }), fur::Error);
	self.reset();
	EXPECT_THROW(heap.close(), fur::Error);
	replica.follow();
	Root then;
	memcpy(&then, &replica.bytes[root_offset_], sizeof then);
	EXPECT_EQ(then.words[0], returned);
}

/* ------------------------------------------------------------------- killed */

/* What the processes of a round share: the newest update of each writer that had returned. */
struct Seen {
	uint64_t returned[2];
};

class KilledTest : public ShipperTest
{
protected:
	KilledTest()
	    : seen_(static_cast<Seen *>(mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE,
	              MAP_SHARED | MAP_ANONYMOUS, -1, 0)))
	{
	}
	~KilledTest() override
	{
		munmap(seen_, sizeof(Seen));
	}
	template <class Work>
	static pid_t child(Work work)
	{
		const pid_t pid = fork();
		if (pid == 0) {
			alarm(60);
			try {
				work();
			} catch (const std::exception &e) {
				fprintf(stderr, "child: %s\n", e.what());
			}
			_exit(1);
		}
		return pid;
	}
	/* Updates of two threads, some of them large, until it is killed. */
	void work(bool replicates)
	{
		fur::Heap heap = open(options());
		heap.get()->durability.ship.replicates = replicates;
		std::vector<std::thread> writers;
		for (unsigned t = 0; t < 2; t++)
			writers.emplace_back([&, t] {
				fur::Thread self(heap);
				Root *root = root_of(self);
				for (;;)
					write_one(self, root, t);
			});
		for (auto &w : writers)
			w.join();
	}
	void write_one(fur_thread *self, Root *root, unsigned t)
	{
		static const std::vector<uint8_t> data(100000, 5);
		const uint64_t number = fur::update(self, [&](fur_update *tx) {
			const uint64_t n = fur_load(tx, &root->words[t]) + 1;
			fur_store(tx, &root->words[t], n);
			/* The sum of both, which tells of an update that is lost or there twice. */
			fur_store(tx, &root->words[2], fur_load(tx, &root->words[2]) + 1);
			if (t == 0 && n % 8 == 0) {
				fur_free(tx, fur_load(tx, &root->block));
				fur_store<void *>(tx, &root->block, nullptr);
			} else if (t == 0 && n % 8 == 4) {
				void *block = fur_alloc(tx, data.size());
				if (block)
					fur_write(tx, block, data.data(), data.size());
				fur_store(tx, &root->block, block);
			}
			return n;
		});
		__atomic_store_n(&seen_->returned[t], number, __ATOMIC_RELEASE);
	}
	/* Kill worker and shipper, in any order, the shipper perhaps several times. */
	void round(std::mt19937_64 &random, bool replicates)
	{
		auto ship = [&] {
			Attached attached(path_, log_);
			while (shipper_run(&attached.shipper) == 0)
				usleep(1000); /* the worker is not there yet */
			throw std::runtime_error(fur_errormsg());
		};
		const uint64_t before = returned();
		pid_t shipper = child(ship);
		const pid_t worker = child([&] { work(replicates); });
		for (uint64_t kills = random() % 3; kills; kills--) {
			usleep(random() % 4000);
			end(shipper);
			shipper = child(ship);
		}
		/* Until there is something that it could lose. */
		while (returned() == before)
			usleep(100);
		usleep(random() % 4000);
		if (random() % 2) {
			end(shipper);
			usleep(random() % 500);
			shipper = -1;
		}
		end(worker);
		if (shipper > 0)
			end(shipper);
	}
	/* As a power failure would: what was shipped need not be durable here. */
	void lose_shipped(std::mt19937_64 &random)
	{
		Replica log(path_, log_);
		log.follow();
		heap_file file;
		ASSERT_EQ(heap_open_file(path_.c_str(), HEAP_LOCK_NONE, &file), 0);
		const media_file view = media_file_of(&file.geometry, file.super);
		uint64_t tail;
		ASSERT_EQ(heap_tail(&file, &tail), 0);
		for (uint64_t durts = tail; durts <= log.durts; durts++)
			if (random() % 2)
				memset(log_marker(&view, durts), 0, file.geometry.slot_bytes);
		heap_close_file(&file);
	}
	uint64_t returned() const
	{
		return __atomic_load_n(&seen_->returned[0], __ATOMIC_ACQUIRE) +
		       __atomic_load_n(&seen_->returned[1], __ATOMIC_ACQUIRE);
	}
	static void end(pid_t pid)
	{
		int status;
		kill(pid, SIGKILL);
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		/* It runs until it is killed. */
		EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
	}

	Seen *seen_;
};

TEST_P(KilledTest, RecoveryHasWhatTheLogHas_AndWhatHadReturned)
{
	std::mt19937_64 random(GetParam());
	Replica replica(path_, log_);
	for (int k = 0; k < rounds(20); k++) {
		round(random, k % 2);
		/* Before it is recovered, no process opens it. */
		fur_heap *heap;
		const fur::Options o = options();
		const int result = fur_open(path_.c_str(), &o, &heap);
		if (result == 0) { /* it was killed before it had opened the heap */
			EXPECT_EQ(fur_close(heap), 0);
			continue;
		}
		ASSERT_EQ(result, FUR_EBUSY) << fur_errormsg();
		lose_shipped(random);
		{
			Attached attached(path_, log_, HEAP_LOCK_WORKER);
			ASSERT_EQ(attached.recover(), 0) << fur_errormsg();
		}
		Replica now = replica;
		now.follow();
		expect_image(now, true);
		fur::Heap again = open(options());
		fur::Thread self(again);
		const Root *root = root_of(self);
		fur::read(self, [&](fur_ro *tx) {
			uint64_t sum = 0;
			for (unsigned t = 0; t < 2; t++) {
				const uint64_t n = fur_load(tx, &root->words[t]);
				EXPECT_GE(n, seen_->returned[t]) << "lost, round " << k;
				sum += n;
			}
			EXPECT_EQ(fur_load(tx, &root->words[2]), sum);
		});
	}
}

INSTANTIATE_TEST_SUITE_P(Pm, ShipperTest, ::testing::Values(FUR_PM_EMULATED, FUR_PM_SYNC));
INSTANTIATE_TEST_SUITE_P(Pm, KilledTest, ::testing::Values(FUR_PM_EMULATED, FUR_PM_SYNC));

} // namespace
