/* SPDX-License-Identifier: BSD-3-Clause
 *
 * async_test.cpp - updates that end with a ticket (INV-AS1 to INV-AS6).
 */
#include "fixture.hpp"
#include "internals.hpp"

#include "durability/async.h"

#include <fcntl.h>
#include <thread>

namespace
{

class Async : public OpenHeap
{
protected:
	using OpenHeap::OpenHeap;
	struct durability &log()
	{
		return heap_.get()->durability;
	}
	fur_ticket store(fur_thread *self, uint64_t *p, uint64_t value)
	{
		fur_ticket ticket{};
		fur::update(self, ticket, [&](fur_update *tx) { fur_store(tx, p, value); });
		return ticket;
	}
	bool pending()
	{
		return async_pending(&log());
	}
	/* So that the library's thread does not flush while a test looks. */
	class Held
	{
	public:
		explicit Held(struct durability &d) : d_(d)
		{
			pthread_mutex_lock(&d_.async.flushing);
		}
		~Held()
		{
			pthread_mutex_unlock(&d_.async.flushing);
		}

	private:
		struct durability &d_;
	};
};

TEST_F(Async, IsVisibleAtOnce_AndDurableWithTheWait)
{
	uint64_t *p = block();
	fur_ticket ticket{};
	{
		Held held(log());
		ticket = store(self_, p, 7);
		EXPECT_TRUE(pending());
		fur_ticket read{};
		EXPECT_EQ(fur::read(self_, read, [&](fur_ro *tx) { return fur_load(tx, p); }), 7u);
		EXPECT_TRUE(pending());
	}
	fur::wait(self_, ticket);
	EXPECT_FALSE(pending());
	fur_stats s = heap_.stats();
	EXPECT_EQ(s.async_commits, 1u);
}

TEST_F(Async, ReaderThatWaits_WaitsForIt)
{
	uint64_t *p = block();
	for (uint64_t k = 1; k <= 100; k++) {
		store(self_, p, k);
		uint64_t next = log().next_durts;
		EXPECT_EQ(fur::read(self_, [&](fur_ro *tx) { return fur_load(tx, p); }), k);
		EXPECT_GE(async_durable(&log()), next);
	}
}

TEST_F(Async, UpdateThatWaits_IsLateToo_AndDurableAtItsReturn)
{
	uint64_t *p = block();
	for (uint64_t k = 1; k <= 100; k++) {
		store(self_, p, k);
		fur::update(self_, [&](fur_update *tx) { fur_store(tx, p, fur_load(tx, p) + 1); });
		EXPECT_FALSE(pending());
	}
}

TEST_F(Async, Sync_CoversAllThreads)
{
	uint64_t *p = block();
	std::thread other([&] {
		fur::Thread self(heap_);
		for (uint64_t k = 1; k <= 1000; k++)
			store(self, p + 1, k);
	});
	for (uint64_t k = 1; k <= 1000; k++)
		store(self_, p, k);
	other.join();
	ASSERT_EQ(fur_sync(heap_), 0) << fur_errormsg();
	EXPECT_FALSE(pending());
	EXPECT_EQ(heap_.stats().async_commits, 2000u);
}

/* A drain takes a third of a second here, so there is time to read what is visible before. */
class AsyncSlow : public Async
{
protected:
	AsyncSlow() : Async(options())
	{
		pm_emulate(&heap_.get()->durability.pm, 300000000, 0);
	}
	static fur::Options options()
	{
		fur::Options o = small_options();
		o.pm = FUR_PM_EMULATED;
		return o;
	}
};

TEST_F(AsyncSlow, Sync_CoversUpdatesThatAnUpdateWithoutStoresHasRead)
{
	uint64_t *p = block();
	std::atomic<uint32_t> index{UINT32_MAX};
	std::thread other([&] {
		fur::Thread self(heap_);
		index = self.get()->index;
		fur::update(self, [&](fur_update *tx) { fur_store(tx, p, 7); });
	});
	fur_ticket ticket{};
	uint64_t value = 0;
	while (value != 7)
		fur::update(self_, ticket, [&](fur_update *tx) { value = fur_load(tx, p); });
	fur::check(fur_sync(heap_));
	EXPECT_EQ(log().nondurable[index].id, 0u) << "it is not durable yet";
	other.join();
}

TEST_F(Async, BecomesDurableByItself)
{
	uint64_t *p = block();
	for (uint64_t round = 0; round < 3; round++) {
		store(self_, p, round);
		/* No end but the flush: a heap that never flushes makes this test hang. */
		while (pending())
			usleep(1000);
		/* The thread is about to sleep: only the next update wakes it. */
		while (!(arch_load32(&log().async.late) & EVENT_MARK))
			usleep(1000);
	}
}

TEST_F(Async, Rerun_EndsWithTheTicket)
{
	uint64_t *p = block();
	fur_ticket ticket{};
	uint64_t was = fur::update(self_, fur::rerun, ticket, [&](fur_update *tx) {
		uint64_t value = fur_load(tx, p);
		fur_store(tx, p, value + 5);
		return value;
	});
	EXPECT_NE(ticket.source, 0u);
	fur::wait(self_, ticket);
	EXPECT_EQ(*p, was + 5);
}

TEST_F(Async, Nested_TheOutermostDecides)
{
	uint64_t *p = block();
	fur_ticket inner{}, outer{};
	fur_update *tx, *joined;
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	ASSERT_EQ(fur_join_update(self_, &joined), 0);
	fur_store(joined, p, 3);
	ASSERT_EQ(fur_commit(joined, &inner), 0);
	ASSERT_EQ(fur_commit(tx, &outer), 0);
	EXPECT_EQ(inner.number, outer.number);
	fur::wait(self_, inner);
	EXPECT_FALSE(pending());
}

TEST_F(Async, EmptyUpdate_HasATicket)
{
	fur_ticket ticket{};
	uint64_t *p = block();
	fur::update(self_, ticket, [&](fur_update *tx) { return fur_load(tx, p); });
	fur::wait(self_, ticket);
	EXPECT_FALSE(pending());
}

TEST_F(Async, Misuse_IsRefused)
{
	fur_update *tx;
	fur_ticket ticket{7, 7};
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	EXPECT_EQ(fur_sync(heap_), FUR_ENESTED);
	ASSERT_EQ(fur_commit(tx, nullptr), 0);
	EXPECT_EQ(fur_commit(tx, &ticket), FUR_ENOTX);
	EXPECT_EQ(ticket.source, 0u);
	EXPECT_EQ(fur_sync(nullptr), FUR_EINVAL);
	struct fur_run how = {sizeof how, &ticket, nullptr};
	ticket = {7, 7};
	EXPECT_EQ(fur_update_run(self_, nullptr, nullptr, &how), FUR_EINVAL);
	EXPECT_EQ(ticket.source, 0u);
	const auto nothing = [](fur_update *, void *) {};
	how.size--;
	EXPECT_EQ(fur_update_run(self_, nothing, nullptr, &how), FUR_EINVAL);
	EXPECT_NE(std::string(fur_errormsg())
	                  .find("fur_run.size is 23: set it to sizeof(struct fur_run)"),
	        std::string::npos);
	/* A later library's option, which this one does not know. */
	struct {
		struct fur_run known;
		uint64_t later;
	} later = {{sizeof later, &ticket, nullptr}, 1};
	EXPECT_EQ(fur_update_run(self_, nothing, nullptr, &later.known), FUR_EINVAL);
	later.later = 0;
	EXPECT_EQ(fur_update_run(self_, nothing, nullptr, &later.known), 0);
	EXPECT_NE(ticket.source, 0u);
}

TEST_F(Async, Aborted_HasNoTicket)
{
	fur_ticket ticket{7, 7};
	const struct fur_run how = {sizeof how, &ticket, nullptr};
	int result = fur_update_run(
	        self_, [](fur_update *tx, void *) { fur_abort(tx); }, nullptr, &how);
	EXPECT_EQ(result, FUR_EABORTED);
	EXPECT_EQ(ticket.source, 0u);
	EXPECT_FALSE(pending());
}

TEST_F(Async, HeapThatHasFailed_IsReportedByTheWait)
{
	uint64_t *p = block();
	fur_ticket ticket{};
	{
		Held held(log());
		ticket = store(self_, p, 1);
		fur_fail(FUR_EIO, "the disk is gone");
		durability_fail(&log(), FUR_EIO);
	}
	EXPECT_EQ(fur_wait(self_, ticket), FUR_EIO);
	EXPECT_EQ(fur_sync(heap_), FUR_EIO);
}

class AsyncOnDisk : public HeapFile
{
};

/* Only a full ring makes updates replay, and their logs are empty: they fit their slots. */
TEST_F(AsyncOnDisk, RingIsReplayedBeforeItIsFull)
{
	fur::Options o = small_options();
	o.pm = FUR_PM_SYNC;
	fur::Heap heap = create(o);
	fur::Thread self(heap);
	fur_ticket ticket{};
	auto update = [&] {
		fur::update(self, ticket, [](fur_update *tx) { fur_set_root(tx, 1, nullptr); });
	};
	update();
	/* The thread is about to sleep: only updates wake it. */
	while (!(arch_load32(&heap.get()->durability.async.filled) & EVENT_MARK))
		usleep(1000);
	for (uint64_t k = 0; k < heap.stats().ring_slots * 3 / 4; k++)
		update();
	/* No end but the replay: a heap that leaves it to the updates makes this test hang. */
	while (heap.stats().replays == 0)
		usleep(1000);
}

/* Another process has the right to replay, and sees only what is in the file.  With a replayer's
 * lock, it serves the heap. */
class AsyncBeside : public HeapFile, public ::testing::WithParamInterface<bool>
{
};

TEST_P(AsyncBeside, ThreadWithoutRoom_FlushesBeforeItWaits)
{
	fur::Options o = small_options();
	o.pm = FUR_PM_SYNC;
	o.async_ms = 1000000; /* no flush comes by itself */
	fur::Heap heap = create(o);
	fur::Thread self(heap);
	durability &d = heap.get()->durability;
	const int other = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
	if (GetParam()) {
		ASSERT_EQ(heap_lock_try(other, HEAP_LOCK_REPLAYER), 0);
		d.control->replayer_pid = 1;
	}
	ASSERT_EQ(heap_lock_try(other, HEAP_LOCK_REPLAY), 0);
	const uint64_t first = ring_next(&d);
	bool flushed = false;
	std::thread replayer([&] {
		enum { PATIENCE_MS = 20000 };
		for (int k = 0; k < PATIENCE_MS && !flushed; k++) {
			flushed = arch_load_acquire(&durability_marker(&d, first)->durts) == first;
			usleep(1000);
		}
		heap_lock_give_back(other, HEAP_LOCK_REPLAY);
		heap_lock_give_back(other, HEAP_LOCK_REPLAYER);
	});
	fur_ticket ticket{};
	for (uint64_t k = 0; k < 2 * heap.stats().ring_slots; k++)
		fur::update(self, ticket, [&](fur_update *tx) { fur_set_root(tx, 1, nullptr); });
	replayer.join();
	close(other);
	EXPECT_TRUE(flushed) << "the other process could replay nothing";
}

INSTANTIATE_TEST_SUITE_P(Lock, AsyncBeside, ::testing::Bool(),
        [](const auto &test) { return test.param ? "Replayer" : "Replay"; });

/* A killed child: what it had waited for is there, and what is there is a prefix of its updates. */
class AsyncKilled : public HeapFile, public ::testing::WithParamInterface<fur_pm>
{
};

TEST_P(AsyncKilled, Close_LosesNothing)
{
	fur::Options o = small_options();
	o.pm = GetParam();
	{
		fur::Heap heap = create(o);
		fur::Thread self(heap);
		fur_ticket ticket{};
		for (uint64_t k = 1; k <= 5000; k++) /* many laps of the ring */
			fur::update(self, ticket, [&](fur_update *tx) {
				fur_set_root(tx, 1, reinterpret_cast<void *>(k));
			});
	}
	fur::Heap heap = open(o);
	EXPECT_FALSE(heap.info().recovered);
	EXPECT_EQ(root_at_rest(heap, 1), reinterpret_cast<void *>(5000));
}

TEST_P(AsyncKilled, KeepsWhatWasWaitedFor_AndAPrefixOfTheRest)
{
	enum { WAITED = 500, MORE = 300, WORDS = 100 };
	fur::Options o = small_options();
	o.pm = GetParam();
	o.log_bytes = 16384;
	o.async_ms = 1000;
	in_killed_child([&] {
		fur::Heap heap = create(o);
		fur::Thread self(heap);
		auto *p = fur::update(self, [&](fur_update *tx) {
			auto *words = static_cast<uint64_t *>(fur_alloc(tx, WORDS * 8));
			for (unsigned k = 0; k < WORDS; k++)
				fur_store(tx, words + k, 0);
			fur_set_root(tx, 0, words);
			return words;
		});
		fur_ticket ticket{};
		/* Large ones, whose records are in the log, and small ones. */
		for (uint64_t n = 1; n <= WAITED + MORE; n++) {
			fur::update(self, ticket, [&](fur_update *tx) {
				for (unsigned k = 0; k < (n % 5 ? 1 : WORDS - 1); k++)
					fur_store(tx, p + 1 + k, n);
				fur_store(tx, p, n);
			});
			if (n == WAITED)
				fur::wait(self, ticket);
		}
		_exit(0);
	});
	fur::Heap heap = open(o);
	auto *p = static_cast<uint64_t *>(root_at_rest(heap, 0));
	EXPECT_TRUE(heap.info().recovered);
	EXPECT_LE(p[0], uint64_t{WAITED + MORE});
	EXPECT_EQ(p[1], p[0]);
	EXPECT_EQ(p[WORDS - 1], p[0] / 5 * 5);
	/* There a killed process loses nothing. */
	uint64_t least = GetParam() == FUR_PM_EMULATED ? WAITED + MORE : WAITED;
	EXPECT_GE(p[0], least);
}

INSTANTIATE_TEST_SUITE_P(Domains, AsyncKilled, ::testing::Values(FUR_PM_EMULATED, FUR_PM_SYNC),
        [](const auto &test) { return std::string(fur_name(FUR_NAME_PM, test.param)); });

} // namespace
