/* SPDX-License-Identifier: BSD-3-Clause
 *
 * softtsx_test.cpp - the TSX back ends, compiled as in the library apart from the traps, and
 * independent of the TSX of the processor (softtsx.hpp).
 */
#include "../crash/workload.hpp"
#include "../unit/fixture.hpp"
#include "use_tsx.hpp"

#include <algorithm>
#include <csignal>
#include <functional>
#include <random>
#include <thread>

namespace
{

class SoftTsx : public HeapFile, public ::testing::WithParamInterface<const htm_ops *>
{
protected:
	static constexpr int ACCOUNTS = 16;

	void SetUp() override
	{
		static bool installed = (softtsx::install(), true);
		(void)installed;
		softtsx::thread_begin();
		softtsx::always_abort(softtsx::NO_ABORT);
		softtsx::random_aborts(0, 0);
	}
	void TearDown() override
	{
		softtsx::random_aborts(0, 0);
		softtsx::clear_regions();
		softtsx::thread_end();
	}
	fur::Options options(uint64_t log_bytes = 4096)
	{
		fur::Options o = small_options();
		o.log_bytes = log_bytes;
		o.heap_bytes = 1 << 20;
		o.htm = FUR_HTM_NONE;
		return o;
	}
	fur::Heap create_tsx()
	{
		fur::Heap heap = create(options());
		softtsx::use_tsx(heap, GetParam());
		return heap;
	}
	int64_t *accounts(fur::Heap &heap)
	{
		fur::Thread self(heap);
		return fur::update(self, [&](fur_update *tx) {
			auto *p = static_cast<int64_t *>(fur_alloc(tx, ACCOUNTS * 64));
			for (int a = 0; a < ACCOUNTS; a++)
				fur_store(tx, &p[a * 8], 100);
			fur_set_root(tx, 0, p);
			return p;
		});
	}
	void run(unsigned n, const std::function<void(unsigned)> &body)
	{
		std::vector<std::thread> all;
		for (unsigned t = 0; t < n; t++)
			all.emplace_back([&, t] {
				softtsx::thread_begin();
				body(t);
				softtsx::thread_end();
			});
		/* Joining threads is not part of the world. */
		for (auto &t : all)
			t.join();
	}
	static bool suspends()
	{
		return GetParam() == &htm_tsx;
	}
};

TEST_P(SoftTsx, Updates_CommitInHardware_AndSurvive)
{
	fur::Heap heap = create_tsx();
	int64_t *p = accounts(heap);
	fur::Thread self(heap);
	softtsx::Counters before = softtsx::counters();
	for (int64_t i = 0; i < 100; i++)
		fur::update(self, [&](fur_update *tx) { fur_store(tx, &p[0], i); });
	softtsx::Counters after = softtsx::counters();
	EXPECT_EQ(after.committed - before.committed, 100u);
	EXPECT_EQ(after.suspends - before.suspends, suspends() ? 100u : 0u);
	EXPECT_EQ(heap.stats().lock_commits, 0u);
	heap.close();
	heap = open(options());
	EXPECT_EQ(static_cast<int64_t *>(root_at_rest(heap, 0))[0], 99);
}

TEST_P(SoftTsx, EmptyUpdate_WritesNoMarker)
{
	fur::Heap heap = create_tsx();
	int64_t *p = accounts(heap);
	fur::Thread self(heap);
	uint64_t drawn = heap.get()->durability.next_durts;
	fur::update(self, [&](fur_update *tx) { return fur_load(tx, &p[0]); });
	EXPECT_EQ(heap.get()->durability.next_durts, drawn);
	EXPECT_EQ(heap.stats().empty_commits, 1u);
}

/* How a body can fail, and the result that the caller gets.  The body has stored to p[0]. */
struct Failure {
	const char *name;
	int result;
	std::function<int(fur_thread *, int64_t *p, std::function<void()> ran)> update;
};

int plain_update(fur_thread *self, const std::function<int(fur_update *)> &body)
{
	fur_update *tx;
	fur::check(fur_begin_update(self, &tx));
	return body(tx);
}

/* Returns what the body throws.  `Rerun`: nothing, or rerun_t. */
template <class... Rerun>
int throwing_update(fur_thread *self, int64_t *p, const std::function<void()> &ran)
{
	try {
		fur::update(self, Rerun{}..., [&](fur_update *tx) {
			fur_store(tx, &p[0], int64_t(1));
			ran();
			throw 7;
		});
	} catch (int thrown) {
		EXPECT_EQ(std::uncaught_exceptions(), 0);
		return thrown;
	}
	return 0;
}

const Failure failures[] = {
        {"fur_abort", FUR_EABORTED,
                [](fur_thread *self, int64_t *p, auto ran) {
	                return plain_update(self, [&](fur_update *tx) {
		                fur_store(tx, &p[0], int64_t(1));
		                fur_store(tx, &p[0], int64_t(2));
		                ran();
		                return fur_abort(tx);
	                });
                }},
        {"fur_abort in an inner update", FUR_EABORTED,
                [](fur_thread *self, int64_t *p, auto ran) {
	                return plain_update(self, [&](fur_update *tx) {
		                fur_update *inner;
		                fur::check(fur_join_update(self, &inner));
		                fur_store(inner, &p[0], int64_t(1));
		                EXPECT_EQ(fur_abort(inner), FUR_EABORTED);
		                ran();
		                return fur_commit(tx, nullptr);
	                });
                }},
        {"a store outside the heap", FUR_ERANGE,
                [](fur_thread *self, int64_t *p, auto ran) {
	                int64_t outside = 5;
	                return plain_update(self, [&](fur_update *tx) {
		                fur_store(tx, &p[0], int64_t(1));
		                fur_store(tx, &outside, int64_t(1));
		                EXPECT_EQ(outside, 5);
		                ran();
		                return fur_commit(tx, nullptr);
	                });
                }},
        {"a block that is not one", FUR_EFREE,
                [](fur_thread *self, int64_t *p, auto ran) {
	                return plain_update(self, [&](fur_update *tx) {
		                fur_store(tx, &p[0], int64_t(1));
		                fur_free(tx, reinterpret_cast<char *>(p) + 4);
		                ran();
		                return fur_commit(tx, nullptr);
	                });
                }},
        {"an exception", 7, throwing_update<>},
        {"an exception of a body that may run again", 7, throwing_update<fur::rerun_t>},
        {"fur_thread_abandon, as the thread's end", 0,
                [](fur_thread *self, int64_t *p, auto ran) {
	                return plain_update(self, [&](fur_update *tx) {
		                fur_update *inner;
		                fur::check(fur_join_update(self, &inner));
		                fur_store(tx, &p[0], int64_t(1));
		                ran();
		                return fur_thread_abandon(self);
	                });
                }},
};

TEST_P(SoftTsx, FailedBody_RunsAgainInSoftware_AndFailsThere)
{
	fur::Heap heap = create_tsx();
	int64_t *p = accounts(heap);
	fur::Thread self(heap);
	uint64_t failed = 0;
	for (const Failure &f : failures) {
		SCOPED_TRACE(f.name);
		/* Private memory that the hardware does not roll back here. */
		static std::vector<tx_mode> modes;
		modes.clear();
		softtsx::Counters before = softtsx::counters();
		uint64_t drawn = heap.get()->durability.next_durts;
		EXPECT_EQ(f.update(self, p, [&] { modes.push_back(self.get()->update.mode); }),
		        f.result);
		ASSERT_EQ(modes.size(), 2u);
		EXPECT_EQ(modes[0], TX_HARDWARE);
		EXPECT_TRUE(modes[1] == TX_SERIAL || modes[1] == TX_CONCURRENT);
		EXPECT_EQ(softtsx::counters().aborted, before.aborted + 1);
		EXPECT_EQ(p[0], 100);
		EXPECT_EQ(heap.get()->durability.next_durts, drawn) << "no slot is drawn for it";
		EXPECT_EQ(heap.stats().aborts[FUR_ABORT_USER], ++failed);
		EXPECT_EQ(heap.stats().lock_commits, 0u);
		/* The next one is a hardware update. */
		fur::update(self, [&](fur_update *tx) { fur_store(tx, &p[8], int64_t(1)); });
		EXPECT_EQ(softtsx::counters().committed, before.committed + 1);
	}
}

/* Joins, and begins that are refused, do not end the hardware transaction. */
TEST_P(SoftTsx, InnerBegins_StayInHardware)
{
	fur::Heap heap = create_tsx();
	int64_t *p = accounts(heap);
	fur::Thread self(heap);
	softtsx::Counters before = softtsx::counters();
	fur_update *tx, *inner;
	fur_ro *ro;
	fur::check(fur_begin_update(self, &tx));
	ASSERT_EQ(self.get()->update.mode, TX_HARDWARE);
	EXPECT_EQ(fur_begin_update(self, &inner), FUR_ENESTED);
	EXPECT_EQ(fur_begin_ro(self, &ro), FUR_ENESTED);
	EXPECT_EQ(fur_thread_transaction(self), FUR_TRANSACTION_UPDATE);
	fur::check(fur_join_update(self, &inner));
	fur_store(inner, &p[0], int64_t(7));
	fur::check(fur_join_ro(self, &ro));
	EXPECT_EQ(fur_load(ro, &p[0]), 7);
	fur::check(fur_end_ro(ro, nullptr));
	fur::check(fur_commit(inner, nullptr));
	EXPECT_EQ(softtsx::counters().committed, before.committed);
	fur::check(fur_commit(tx, nullptr));
	EXPECT_EQ(softtsx::counters().committed, before.committed + 1);
	EXPECT_EQ(softtsx::counters().aborted, before.aborted);
	EXPECT_EQ(p[0], 7);
	EXPECT_EQ(fur_thread_transaction(self), FUR_TRANSACTION_NONE);
}

TEST_P(SoftTsx, FullLog_AbortsMakesRoomAndRunsAgain)
{
	fur::Heap heap = create_tsx();
	int64_t *p = accounts(heap);
	fur::Thread self(heap);
	for (int64_t i = 0; i < 500; i++)
		fur::update(self, [&](fur_update *tx) {
			for (int a = 0; a < ACCOUNTS; a++)
				fur_store(tx, &p[a * 8], i);
		});
	fur_stats s = heap.stats();
	EXPECT_GT(s.aborts[FUR_ABORT_FULL], 0u);
	EXPECT_GT(s.replays, 0u);
	EXPECT_EQ(s.lock_commits, 0u);
}

TEST_P(SoftTsx, UpdateLargerThanTheLog_IsToldSo)
{
	fur::Heap heap = create_tsx();
	int64_t *p = accounts(heap);
	fur::Thread self(heap);
	fur_update *tx;
	fur::check(fur_begin_update(self, &tx));
	for (int64_t i = 0; i < 1000; i++)
		fur_store(tx, &p[i % ACCOUNTS * 8], i);
	EXPECT_EQ(fur_commit(tx, nullptr), FUR_ETOOBIG);
	EXPECT_EQ(p[0], 100);
}

TEST_P(SoftTsx, Aborts_FollowThePolicy)
{
	fur::Heap heap = create_tsx();
	int64_t *p = accounts(heap);
	fur::Thread self(heap);
	struct Case {
		softtsx::Status status;
		fur_abort_cause cause;
		uint64_t attempts;
	};
	const uint64_t publications = 4; /* attempts to publish in hardware, then in place */
	uint64_t locked = 0;
	for (Case c : {Case{softtsx::CAPACITY, FUR_ABORT_CAPACITY, 2 + publications},
	             Case{softtsx::CONFLICT, FUR_ABORT_CONFLICT, 20 + publications},
	             Case{softtsx::FAULT, FUR_ABORT_FAULT, 3 + publications}}) {
		softtsx::always_abort(c.status);
		uint64_t begun = softtsx::counters().begun;
		fur::update(self, [&](fur_update *tx) { fur_store(tx, &p[0], int64_t(c.cause)); });
		softtsx::always_abort(softtsx::NO_ABORT);
		EXPECT_EQ(softtsx::counters().begun - begun, c.attempts);
		EXPECT_EQ(heap.stats().aborts[c.cause], c.attempts);
		EXPECT_EQ(heap.stats().lock_commits, ++locked);
		EXPECT_EQ(p[0], c.cause);
		/* After an overflow the next update does not try hardware, but publishes in it. */
		fur::update(self, [&](fur_update *tx) { fur_store(tx, &p[0], int64_t(-1)); });
		EXPECT_EQ(heap.stats().lock_commits, locked);
		EXPECT_EQ(p[0], -1);
	}
}

/* ------------------------------------------------------- updates in software */

/* An update that overflows runs in software, and its stores still become visible in one hardware
 * transaction: readers are not shut out. */
TEST_P(SoftTsx, SoftwareUpdate_IsPublishedInHardware)
{
	fur::Heap heap = create_tsx();
	int64_t *p = accounts(heap);
	const engine &e = heap.get()->engine;
	fur::Thread self(heap);
	uint64_t turn = e.lock.releases, locked = heap.stats().lock_commits;
	for (int64_t k = 1; k <= 3; k++) {
		self.get()->policy.skip = 1;
		uint64_t committed = softtsx::counters().committed;
		fur_update *tx;
		fur::check(fur_begin_update(self, &tx));
		ASSERT_EQ(tx->mode, TX_SERIAL);
		for (int a = 0; a < ACCOUNTS; a++)
			fur_store(tx, &p[a * 8], k);
		EXPECT_EQ(fur_load(tx, &p[8]), k);
		/* A reader next to the open body. */
		run(1, [&](unsigned) {
			fur::Thread t(heap);
			EXPECT_EQ(fur::read(t, [&](fur_ro *ro) { return fur_load(ro, &p[0]); }),
			        k == 1 ? 100 : k - 1);
		});
		EXPECT_EQ(softtsx::counters().committed, committed);
		fur::check(fur_commit(tx, nullptr));
		EXPECT_EQ(softtsx::counters().committed, committed + 1);
		for (int a = 0; a < ACCOUNTS; a++)
			EXPECT_EQ(p[a * 8], k);
	}
	EXPECT_EQ(e.lock.releases, turn) << "readers were shut out";
	EXPECT_EQ(heap.stats().lock_commits, locked);
	EXPECT_EQ(heap.stats().serial_commits, 3u);
	EXPECT_EQ(std::count_if(e.stamps, e.stamps + STAMPS, stamp_is_held), 0);
}

/* A hardware update cannot wait for a body that may last: it runs in software itself, and need not
 * wait there.  The body learns of it by the stamps, or at its commit. */
TEST_P(SoftTsx, HardwareUpdate_ThatMeetsASoftwareBody_DoesNotWaitForIt)
{
	fur::Heap heap = create_tsx();
	int64_t *p = accounts(heap);
	std::atomic<bool> loaded{false}, stored{false};
	std::atomic<int> runs{0}, mixed{0};
	run(2, [&](unsigned t) {
		fur::Thread self(heap);
		if (t == 0) {
			self.get()->policy.skip = 1;
			fur::update(self, fur::rerun, [&](fur_update *tx) {
				int run_number = ++runs;
				mixed += run_number == 1 && tx->mode != TX_CONCURRENT;
				int64_t first = fur_load(tx, &p[0]);
				loaded = true;
				while (!stored)
					sched_yield();
				mixed += fur_load(tx, &p[8]) != first;
				fur_store(tx, &p[16], first);
			});
			return;
		}
		while (!loaded)
			sched_yield();
		fur::update(self, [&](fur_update *tx) {
			fur_store(tx, &p[0], int64_t(7));
			fur_store(tx, &p[8], int64_t(7));
		});
		stored = true;
	});
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(mixed, 0);
	EXPECT_EQ(p[16], 7);
	fur_stats s = heap.stats();
	EXPECT_GE(s.aborts[FUR_ABORT_READER], 1u);
	EXPECT_EQ(s.serial_commits, 1u);
	EXPECT_EQ(s.defeats, 1u);
}

/* Each overflow in a row makes the thread's next updates do without hardware, twice as many. */
TEST_P(SoftTsx, UpdatesThatOverflowAgainAndAgain_SkipHardware)
{
	fur::Heap heap = create_tsx();
	int64_t *p = accounts(heap);
	fur::Thread self(heap);
	auto update_one = [&] {
		fur::update(self,
		        [&](fur_update *tx) { fur_store(tx, &p[0], fur_load(tx, &p[0]) + 1); });
	};
	uint64_t skipped = 1;
	for (int k = 0; k < 9; k++) {
		softtsx::always_abort(softtsx::CAPACITY);
		update_one();
		softtsx::always_abort(softtsx::NO_ABORT);
		EXPECT_EQ(self.get()->policy.skip, skipped);
		uint64_t serial = heap.stats().serial_commits, begun = softtsx::counters().begun;
		for (uint64_t n = 0; n < skipped; n++)
			update_one();
		EXPECT_EQ(heap.stats().serial_commits, serial + skipped);
		EXPECT_EQ(softtsx::counters().begun, begun + skipped) << "one publication each";
		skipped = skipped < 64 ? 2 * skipped : 64;
	}
	uint64_t serial = heap.stats().serial_commits;
	update_one();
	EXPECT_EQ(heap.stats().serial_commits, serial) << "in hardware again";
	EXPECT_EQ(self.get()->policy.overflows, 0u) << "and that has ended the row";
}

/* An update whose attempts all fail leaves hardware before its retries are used up, and takes all
 * others with it.  They come back. */
TEST_P(SoftTsx, AnUpdateThatLosesAllItsTime_MovesUpdatesToSoftware)
{
	fur::Heap heap = create_tsx();
	engine &e = heap.get()->engine;
	e.switches = true;
	e.retries = UINT32_MAX;
	int64_t *p = accounts(heap);
	fur::Thread self(heap);
	auto add_one = [&] {
		fur::update(self, fur::rerun,
		        [&](fur_update *tx) { fur_store(tx, &p[0], fur_load(tx, &p[0]) + 1); });
	};
	softtsx::always_abort(softtsx::CONFLICT);
	add_one();
	EXPECT_NE(updates_run_in(&e), HARDWARE);
	EXPECT_EQ(p[0], 101);
	softtsx::always_abort(softtsx::NO_ABORT);
	int64_t n = 101;
	for (; updates_run_in(&e) != HARDWARE; n++)
		add_one();
	const uint64_t committed = softtsx::counters().committed;
	add_one();
	EXPECT_EQ(softtsx::counters().committed, committed + 1);
	EXPECT_EQ(p[0], n + 1);
}

/* The commit of a software update while hardware refuses its write set: in place, as elsewhere. */
TEST_P(SoftTsx, PublicationThatOverflows_StoresInPlace)
{
	fur::Heap heap = create_tsx();
	int64_t *p = accounts(heap);
	fur::Thread self(heap);
	uint64_t locked = heap.stats().lock_commits, turn = heap.get()->engine.lock.releases;
	self.get()->policy.skip = 1;
	fur::update(self, fur::rerun, [&](fur_update *tx) {
		EXPECT_EQ(tx->mode, TX_CONCURRENT);
		for (int a = 0; a < ACCOUNTS; a++)
			fur_store(tx, &p[a * 8], int64_t(5));
		softtsx::always_abort(softtsx::CAPACITY);
	});
	softtsx::always_abort(softtsx::NO_ABORT);
	EXPECT_EQ(heap.stats().lock_commits, locked + 1);
	EXPECT_EQ(heap.get()->engine.lock.releases, turn + 1);
	for (int a = 0; a < ACCOUNTS; a++)
		EXPECT_EQ(p[a * 8], 5);
}

TEST_P(SoftTsx, ReadInsideASoftwareUpdate_SeesItsStores)
{
	fur::Heap heap = create_tsx();
	int64_t *p = accounts(heap);
	fur::Thread self(heap);
	for (bool commit : {false, true}) {
		fur_update *tx;
		fur_ro *ro;
		self.get()->policy.skip = 1;
		fur::check(fur_begin_update(self, &tx));
		fur_store(tx, &p[0], int64_t(5));
		fur::check(fur_join_ro(self, &ro));
		EXPECT_EQ(fur_load(ro, &p[0]), 5);
		fur::check(fur_end_ro(ro, nullptr));
		EXPECT_EQ(commit ? fur_commit(tx, nullptr) : fur_abort(tx),
		        commit ? 0 : FUR_EABORTED);
		EXPECT_EQ(p[0], commit ? 5 : 100);
		/* The next one is a hardware update, and finds `shut` reset. */
		uint64_t committed = softtsx::counters().committed;
		fur::update(self, [&](fur_update *u) { fur_store(u, &p[8], int64_t(1)); });
		EXPECT_EQ(softtsx::counters().committed, committed + 1);
	}
}

/* The signal that stops the threads ends a sleep early: sleep again. */
static void linger(uint64_t ns)
{
	for (uint64_t end = arch_now_ns() + ns; arch_now_ns() < end;)
		usleep(1000);
}

TEST_P(SoftTsx, ActiveReader_IsWaitedForOutside)
{
	fur::Heap heap = create_tsx();
	int64_t *p = accounts(heap);
	std::atomic<bool> reading{false};
	std::atomic<int64_t> second{0};
	run(2, [&](unsigned t) {
		fur::Thread self(heap);
		if (t == 0) {
			second = fur::read(self, [&](fur_ro *tx) {
				int64_t first = fur_load(tx, &p[0]);
				reading = true;
				linger(50000000);
				return fur_load(tx, &p[0]) - first;
			});
			return;
		}
		while (!reading)
			std::this_thread::yield();
		fur::update(self, [&](fur_update *tx) { fur_store(tx, &p[0], int64_t(7)); });
	});
	EXPECT_EQ(second, 0) << "the reader saw the update in the middle of its transaction";
	EXPECT_EQ(p[0], 7);
	EXPECT_GE(heap.stats().aborts[FUR_ABORT_READER], 1u);
}

TEST_P(SoftTsx, Begin_WithTheLockHeld_Aborts)
{
	fur::Heap heap = create_tsx();
	fur::Thread self(heap);
	heap.get()->engine.lock.shut = 1;
	uint64_t status = GetParam()->begin(self);
	if (status == HTM_STARTED)
		GetParam()->commit_empty(self);
	heap.get()->engine.lock.shut = 0;
	ASSERT_NE(status, HTM_STARTED) << "the lock's holder writes in place";
	EXPECT_EQ(GetParam()->classify(status), FUR_ABORT_LOCK);
}

TEST_P(SoftTsx, Commit_CollectsWhatIsNotDurable_AndNamesIt)
{
	fur::Heap heap = create_tsx();
	int64_t *p = accounts(heap);
	durability *d = &heap.get()->durability;
	/* Thread 3's update, kept undurable by hand. */
	commit other{};
	other.me = 3;
	other.id = 9;
	nondurable_announce(d, &other);
	ring_draw(d, &other);
	nondurable_publish(d, &other);
	std::atomic<bool> returned{false};
	run(2, [&](unsigned t) {
		if (t == 0) {
			fur::Thread self(heap);
			fur::update(
			        self, [&](fur_update *tx) { fur_store(tx, &p[0], int64_t(1)); });
			returned = true;
			return;
		}
		media_marker *m = durability_marker(d, other.durts + 1);
		while (__atomic_load_n(&m->durts, __ATOMIC_ACQUIRE) != other.durts + 1)
			std::this_thread::yield();
		EXPECT_EQ(m->deps[0], 1u);
		linger(20000000);
		EXPECT_FALSE(returned) << "the return waits for what it may have read";
		EXPECT_EQ(durability_abort(d, &other), 0);
	});
}

TEST_P(SoftTsx, Bank_EverySumIsExact_WithAbortsEverywhere)
{
	for (uint64_t seed = 1; seed <= 25; seed++) {
		unlink(path_.c_str());
		fur::Heap heap = create_tsx();
		int64_t *p = accounts(heap);
		softtsx::random_aborts(seed, 6);
		std::atomic<uint64_t> wrong{0};
		run(3, [&](unsigned t) {
			fur::Thread self(heap);
			std::mt19937 random(static_cast<unsigned>(seed * 10 + t));
			void *mine = nullptr;
			for (int i = 0; i < 60; i++) {
				unsigned kind = random() % 3, from = random() % ACCOUNTS,
				         to = random() % ACCOUNTS;
				if (kind == 0) {
					wrong += fur::read(self, [&](fur_ro *tx) {
						int64_t sum = 0;
						for (int a = 0; a < ACCOUNTS; a++)
							sum += fur_load(tx, &p[a * 8]);
						return sum;
					}) != ACCOUNTS * 100;
					continue;
				}
				auto move = [&](fur_update *tx) {
					fur_store(tx, &p[from * 8], fur_load(tx, &p[from * 8]) - 1);
					fur_free(tx, mine);
					void *fresh = fur_alloc(tx, 48);
					fur_store(tx, &p[to * 8], fur_load(tx, &p[to * 8]) + 1);
					return fresh;
				};
				mine = kind == 1 ? fur::update(self, move)
				                 : fur::update(self, fur::rerun, move);
			}
			fur::update(self, [&](fur_update *tx) { fur_free(tx, mine); });
		});
		softtsx::random_aborts(0, 0);
		ASSERT_EQ(wrong, 0u) << "seed " << seed;
		alloc_census census;
		ASSERT_EQ(alloc_check(heap_base(heap), &census), 0)
		        << fur_errormsg() << ", seed " << seed;
		ASSERT_EQ(census.blocks, 1u) << "seed " << seed;
		heap.close();
		softtsx::clear_regions();
		heap = open(options());
		p = static_cast<int64_t *>(root_at_rest(heap, 0));
		int64_t sum = 0;
		for (int a = 0; a < ACCOUNTS; a++)
			sum += p[a * 8];
		ASSERT_EQ(sum, ACCOUNTS * 100) << "seed " << seed;
	}
}

TEST_P(SoftTsx, Kills_LoseNothingAcknowledged)
{
	crash::Expected expected(7);
	crash::Shared *shared = crash::make_shared_memory();
	{
		fur::Heap heap = create(options(16384)); /* room for the data's first contents */
		fur::Thread self(heap);
		crash::set_up(self);
	}
	const htm_ops *ops = GetParam();
	for (unsigned kill_number = 1; kill_number <= 20; kill_number++) {
		pid_t child = fork();
		ASSERT_GE(child, 0);
		if (child == 0) {
			softtsx::after_fork();
			fur::Heap heap = open(options());
			softtsx::use_tsx(heap, ops);
			softtsx::random_aborts(kill_number, 20);
			std::atomic<bool> never{false};
			run(3, [&](unsigned t) {
				crash::work(heap, shared, 7, t, 3, 60, false, never);
			});
			_exit(0);
		}
		usleep(30000 + kill_number * 1700);
		kill(child, SIGKILL);
		waitpid(child, nullptr, 0);
		fur::Heap heap = open(options());
		ASSERT_EQ(expected.check(heap, shared), "") << "kill " << kill_number;
		heap.close();
	}
	EXPECT_GT(expected.updates(), 0u);
}

/* The choice of a back end, on processors of every kind. */
class SoftTsxDetection : public ::testing::Test
{
protected:
	void SetUp() override
	{
		softtsx::install();
		softtsx::thread_begin();
		softtsx::always_abort(softtsx::NO_ABORT);
		softtsx::random_aborts(0, 0);
	}
	void TearDown() override
	{
		softtsx::always_abort(softtsx::NO_ABORT);
		softtsx::thread_end();
	}
	int choose(arch_cpu cpu, fur_htm asked)
	{
		machine = {};
		return htm_choose_on(&cpu, &machine, asked, FUR_OPACITY, reason, sizeof reason);
	}
	static arch_cpu processor(bool rtm, bool tsxldtrk)
	{
		arch_cpu cpu = {};
		cpu.rtm = rtm;
		cpu.tsxldtrk = tsxldtrk;
		cpu.tsx_off = !rtm && tsxldtrk;
		return cpu;
	}
	engine machine;
	char reason[160];
};

TEST_F(SoftTsxDetection, WorkingTsx_IsChosen_WithOrWithoutSuspend)
{
	ASSERT_EQ(choose(processor(true, true), FUR_HTM_AUTO), 0);
	EXPECT_EQ(machine.ops, &htm_tsx);
	ASSERT_EQ(choose(processor(true, false), FUR_HTM_TSX), 0);
	EXPECT_EQ(machine.ops, &htm_tsx_tracked);
	EXPECT_GE(softtsx::counters().committed, 2u)
	        << "one transaction is tried before the choice";
}

TEST_F(SoftTsxDetection, SwitchedOff_AskedForByName_IsOneClearError)
{
	struct Case {
		arch_cpu cpu;
		const char *says;
	};
	softtsx::always_abort(softtsx::FAULT); /* at once, with status 0 */
	for (const Case &c :
	        {Case{processor(true, true),
	                 "TSX is switched off: RTM is listed, but every transaction aborts"},
	                Case{processor(false, true),
	                        "TSX is switched off: the processor has it, but does not list RTM"},
	                Case{processor(false, false), "this processor has no RTM (Intel TSX)"}}) {
		EXPECT_EQ(choose(c.cpu, FUR_HTM_TSX), FUR_EINVAL);
		EXPECT_EQ(std::string(fur_errormsg()),
		        std::string("transactional memory 'tsx' was asked for, but ") + c.says +
		                ": use 'auto' or 'none'");
		EXPECT_EQ(machine.ops, nullptr);
		ASSERT_EQ(choose(c.cpu, FUR_HTM_AUTO), 0);
		EXPECT_EQ(machine.ops, nullptr);
		EXPECT_EQ(std::string(reason), std::string(c.says) + ": updates run in software");
	}
}

INSTANTIATE_TEST_SUITE_P(
        BackEnds, SoftTsx, ::testing::Values(&htm_tsx, &htm_tsx_tracked), [](const auto &backend) {
	        return std::string(backend.param == &htm_tsx ? "suspending" : "tracked");
        });

} // namespace
