/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine_test.cpp - the emulated machine's rules, one by one.  The bodies run on it; thread 1, 2,
 * ... are steered by emu_work(): in virtual time the one that has worked longer comes later,
 * whatever the seed.
 */
#include "../../emulator/emulated.h"

#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

struct alignas(256) Cell {
	uint64_t value, gap[31];
};
Cell cell[512];
uint64_t result[16];
uint8_t *persistent;

using Body = std::function<void()>;

struct Spec {
	std::string machine = "power9";
	uint64_t seed = 1;
	uint32_t perturb = 0;
	uint64_t crash_after = 0;
};

emu_machine *machine_named(const std::string &name)
{
	char error[512];
	emu_machine *m = emu_machine_read(name.c_str(), error, sizeof error);
	if (!m)
		ADD_FAILURE() << error;
	return m;
}

/* Each body on a thread of its own. */
emu_end run(const Spec &spec, const std::vector<Body> &bodies)
{
	emu_machine *m = machine_named(spec.machine);
	emu_options options = {};
	options.seed = spec.seed;
	options.perturb = spec.perturb;
	options.crash_after = spec.crash_after;
	options.limit_ns = 100000000;
	memset(result, 0, sizeof result);
	for (auto &c : cell)
		c.value = 0;
	auto *all = const_cast<std::vector<Body> *>(&bodies);
	emu_end end = emu_run(
	        m, &options,
	        [](void *argument) {
		        std::vector<std::thread> threads;
		        for (auto &body : *static_cast<std::vector<Body> *>(argument))
			        threads.emplace_back(body);
		        for (auto &t : threads)
			        t.join();
	        },
	        all);
	emu_machine_free(m);
	return end;
}

uint64_t load(const Cell &c)
{
	return __atomic_load_n(&c.value, __ATOMIC_RELAXED);
}
void store(Cell &c, uint64_t value)
{
	__atomic_store_n(&c.value, value, __ATOMIC_RELAXED);
}
int cause_of(uint64_t status)
{
	return static_cast<int>(status & 0xff) - 1;
}

/* ------------------------------------------------- transactions */

/* Power ISA 3.0B II 5.1: the stores of a transaction appear all at once. */
TEST(PowerTm, CommittedStores_AreSeenTogether)
{
	ASSERT_EQ(run({}, {[] {
		ASSERT_EQ(emu_tbegin(EMU_TX), uint64_t(EMU_STARTED));
		store(cell[0], 1);
		store(cell[1], 1);
		emu_tend();
	}}),
	        EMU_DONE);
	EXPECT_EQ(cell[0].value, 1u);
	EXPECT_EQ(cell[1].value, 1u);
}

/* II 5.3: a failure restores registers and memory to their state at tbegin. */
TEST(PowerTm, Abort_RestoresMemoryWhoeverWroteIt)
{
	run({}, {[] {
		store(cell[0], 5);
		uint64_t status = emu_tbegin(EMU_TX);
		if (status == EMU_STARTED) {
			store(cell[0], 6);
			cell[1].value = 7;          /* a plain store */
			memset(&cell[2], 0xff, 64); /* and those of the C library */
			memcpy(&cell[3], &cell[2], 64);
			emu_tabort(9);
		}
		result[0] = status;
	}});
	EXPECT_EQ(cause_of(result[0]), EMU_EXPLICIT);
	EXPECT_EQ(result[0] >> 8, 9u);
	EXPECT_EQ(cell[0].value, 5u);
	EXPECT_EQ(cell[1].value, 0u);
	EXPECT_EQ(cell[2].value, 0u);
	EXPECT_EQ(cell[3].value, 0u);
}

__attribute__((noinline)) uint64_t begin_in_a_frame_that_returns()
{
	char room[300];
	memset(room, 1, sizeof room);
	uint64_t status = emu_tbegin(EMU_TX);
	return status + room[17] - 1u;
}

__attribute__((noinline)) unsigned overwrite_the_stack()
{
	volatile char junk[2000];
	for (auto &c : junk)
		c = 0x55;
	return static_cast<unsigned>(junk[99]);
}

TEST(PowerTm, Abort_RestoresTheStack)
{
	run({}, {[] {
		volatile int local = 1;
		uint64_t status = begin_in_a_frame_that_returns();
		if (status == EMU_STARTED) {
			local = 2;
			overwrite_the_stack();
			emu_tabort(0);
		}
		result[0] = static_cast<uint64_t>(local);
		result[1] = status;
	}});
	EXPECT_EQ(result[0], 1u);
	EXPECT_EQ(cause_of(result[1]), EMU_EXPLICIT);
}

/* II 5.2: a nested tbegin. is allowed by the ISA; this machine refuses it, with TEXASR's nesting
 * bit. */
TEST(PowerTm, NestedBegin_Aborts)
{
	run({}, {[] {
		uint64_t status = emu_tbegin(EMU_TX);
		if (status == EMU_STARTED)
			emu_tbegin(EMU_TX);
		result[0] = status;
		result[1] = emu_texasr();
	}});
	EXPECT_EQ(cause_of(result[0]), EMU_NESTED);
	EXPECT_TRUE(result[1] >> (63 - 9) & 1);
}

TEST(PowerTm, SystemCall_Aborts)
{
	run({}, {[] {
		uint64_t status = emu_tbegin(EMU_TX);
		if (status == EMU_STARTED) {
			sched_yield();
			result[1] = 1;
		}
		result[0] = status;
	}});
	EXPECT_EQ(cause_of(result[0]), EMU_DISALLOWED);
	EXPECT_EQ(result[1], 0u);
}

TEST(PowerTm, OutsideATransaction_EndAbortSuspendDoNothing)
{
	EXPECT_EQ(run({}, {[] {
		emu_tend();
		emu_tabort(1);
		emu_tsuspend();
		emu_tresume();
		emu_suspend_loads();
		emu_resume_loads();
	}}),
	        EMU_DONE);
}

/* ------------------------------------------------------------------ conflicts */

/* One transaction, held open for a microsecond; `other` runs in the middle of it.  Returns the
 * transaction's status. */
uint64_t against(
        emu_tx kind, const Body &inside, const Body &other, const std::string &machine = "power9")
{
	static uint64_t status;
	static emu_tx the_kind;
	static const Body *body;
	the_kind = kind;
	body = &inside;
	run({machine}, {[] {
		                status = emu_tbegin(the_kind);
		                if (status == EMU_STARTED) {
			                (*body)();
			                emu_work(2000);
			                store(cell[100], 1); /* any access: here it finds out */
			                emu_tend();
		                }
	                },
	                       [&other] {
		                       emu_work(1000);
		                       other();
	                       }});
	return status;
}

TEST(PowerTm, PlainLoadOfAWrittenLine_AbortsTheWriter)
{
	EXPECT_EQ(cause_of(against(
	                  EMU_TX,
	                  [] {
		                  store(cell[0], 1);
		                  emu_fence();
	                  },
	                  [] { result[3] = 1 + load(cell[0]); })),
	        EMU_CONFLICT_PLAIN);
	EXPECT_EQ(result[3], 1u) << "the load sees the value from before";
}

TEST(PowerTm, PlainStoreToAReadLine_AbortsTheReader)
{
	EXPECT_EQ(cause_of(against(
	                  EMU_TX, [] { load(cell[0]); },
	                  [] {
		                  store(cell[0], 1);
		                  emu_fence();
	                  })),
	        EMU_CONFLICT_PLAIN);
}

TEST(PowerTm, PlainLoadOfAReadLine_IsNoConflict)
{
	EXPECT_EQ(against(
	                  EMU_TX, [] { load(cell[0]); }, [] { load(cell[0]); }),
	        uint64_t(EMU_STARTED));
}

TEST(PowerTm, LinesAreTheUnit)
{
	/* Words 0 and 8 share 128 bytes; on a machine with lines of 64 they do not. */
	auto inside = [] {
		__atomic_store_n(&cell[0].gap[0], 1, __ATOMIC_RELAXED);
		emu_fence();
	};
	auto other = [] { result[3] = __atomic_load_n(&cell[0].gap[8], __ATOMIC_RELAXED); };
	EXPECT_EQ(cause_of(against(EMU_TX, inside, other)), EMU_CONFLICT_PLAIN);
	EXPECT_EQ(against(EMU_TX, inside, other, "tsx"), uint64_t(EMU_STARTED));
}

/* II 5.1: "the loads of a rollback-only transaction are not tracked". */
TEST(PowerTm, RollbackOnlyLoads_AreNotTracked)
{
	EXPECT_EQ(against(
	                  EMU_ROLLBACK_ONLY, [] { load(cell[0]); },
	                  [] {
		                  store(cell[0], 1);
		                  emu_fence();
	                  }),
	        uint64_t(EMU_STARTED));
}

TEST(PowerTm, RollbackOnlyStores_AreTracked)
{
	EXPECT_EQ(cause_of(against(
	                  EMU_ROLLBACK_ONLY,
	                  [] {
		                  store(cell[0], 1);
		                  emu_fence();
	                  },
	                  [] { load(cell[0]); })),
	        EMU_CONFLICT_PLAIN);
}

TEST(PowerTm, TransactionAgainstTransaction_TheRequesterWins)
{
	EXPECT_EQ(cause_of(against(
	                  EMU_TX,
	                  [] {
		                  store(cell[0], 1);
		                  emu_fence();
	                  },
	                  [] {
		                  if (emu_tbegin(EMU_TX) == EMU_STARTED) {
			                  store(cell[0], 2);
			                  emu_tend();
			                  result[4] = 1;
		                  }
	                  })),
	        EMU_CONFLICT);
	EXPECT_EQ(result[4], 1u);
	EXPECT_EQ(cell[0].value, 2u);
}

/* ----------------------------------------------------------------- suspension */

TEST(PowerTm, SuspendedStores_AreSeenAtOnceAndStay)
{
	run({}, {[] {
		         uint64_t status = emu_tbegin(EMU_TX);
		         if (status == EMU_STARTED) {
			         store(cell[0], 1);
			         emu_tsuspend();
			         store(cell[1], 1);
			         emu_fence();
			         emu_work(2000);
			         emu_tresume();
			         emu_tabort(0);
		         }
	         },
	                [] {
		                emu_work(1500);
		                result[0] = load(cell[1]);
	                }});
	EXPECT_EQ(result[0], 1u) << "seen while the transaction was open";
	EXPECT_EQ(cell[0].value, 0u);
	EXPECT_EQ(cell[1].value, 1u) << "not undone by the abort";
}

TEST(PowerTm, SuspendedLoads_AreNotTracked)
{
	EXPECT_EQ(against(
	                  EMU_TX,
	                  [] {
		                  emu_tsuspend();
		                  load(cell[0]);
		                  emu_tresume();
	                  },
	                  [] {
		                  store(cell[0], 1);
		                  emu_fence();
	                  }),
	        uint64_t(EMU_STARTED));
}

TEST(PowerTm, SuspendedLoad_SeesOwnTransactionalStore)
{
	run({}, {[] {
		if (emu_tbegin(EMU_TX) == EMU_STARTED) {
			store(cell[0], 3);
			emu_tsuspend();
			result[0] = load(cell[0]);
			emu_tresume();
			emu_tend();
		}
	}});
	EXPECT_EQ(result[0], 3u);
}

/* II 5.2: "a store in Suspended state to a location accessed transactionally is a conflict". */
TEST(PowerTm, SuspendedStoreToAnOwnLine_AbortsItself)
{
	for (bool written : {false, true}) {
		static bool write_it;
		write_it = written;
		run({}, {[] {
			uint64_t status = emu_tbegin(EMU_TX);
			if (status == EMU_STARTED) {
				if (write_it)
					store(cell[0], 1);
				else
					load(cell[0]);
				emu_fence();
				emu_tsuspend();
				store(cell[0], 2);
				emu_fence();
				result[1] = emu_tcheck();
				emu_tresume();
				result[2] = 1;
			}
			result[0] = status;
		}});
		EXPECT_EQ(cause_of(result[0]), EMU_SELF_CONFLICT);
		EXPECT_EQ(result[1], 1u) << "doomed, and running on";
		EXPECT_EQ(result[2], 0u) << "the resume does not return";
		EXPECT_EQ(cell[0].value, 2u) << "the suspended store stays";
	}
}

/* II 5.2: failure is recorded at once, and handled when the thread leaves Suspended state. */
TEST(PowerTm, DoomedWhileSuspended_RunsOnWithItsStoresRolledBack)
{
	run({}, {[] {
		         uint64_t status = emu_tbegin(EMU_TX);
		         if (status == EMU_STARTED) {
			         store(cell[0], 1);
			         emu_fence();
			         emu_tsuspend();
			         emu_work(2000);
			         load(cell[50]);
			         result[1] = 10 + load(cell[0]);
			         store(cell[1], 1);
			         emu_tresume();
		         }
		         result[0] = status;
	         },
	                [] {
		                emu_work(1500);
		                load(cell[0]);
	                }});
	EXPECT_EQ(cause_of(result[0]), EMU_CONFLICT_PLAIN);
	EXPECT_EQ(result[1], 10u) << "it reads the value from before the transaction";
	EXPECT_EQ(cell[1].value, 1u) << "what it stores after that stays";
}

TEST(PowerTm, SuspendResume_CostsMoreWithMoreThreads)
{
	auto pair = [] {
		emu_work(1000000); /* all are there by then */
		if (emu_thread() == 1 && emu_tbegin(EMU_TX) == EMU_STARTED) {
			uint64_t before = emu_ticks();
			emu_tsuspend();
			emu_tresume();
			uint64_t took = emu_ticks() - before;
			emu_tend();
			result[0] = took / 1000;
		}
	};
	run({}, {pair});
	uint64_t one = result[0];
	run({}, std::vector<Body>(64, pair));
	EXPECT_GE(one, 350u);
	EXPECT_LT(one, 360u);
	EXPECT_GE(result[0], 1500u) << "FUR, section 4.2";
}

/* ------------------------------------------------------------------- capacity */

TEST(PowerTm, Capacity_OfWritesAndOfReads)
{
	run({}, {[] {
		result[0] = emu_tbegin(EMU_TX);
		if (result[0] == EMU_STARTED) {
			for (int k = 0; k < 63; k++) /* and result[0] */
				store(cell[k], 1);
			emu_tend();
		}
		result[1] = emu_tbegin(EMU_TX);
		if (result[1] == EMU_STARTED) {
			for (int k = 0; k < 65; k++)
				store(cell[k], 1);
			emu_tend();
		}
		result[2] = emu_texasr();
		static uint8_t large[4200 * 128];
		result[3] = emu_tbegin(EMU_TX);
		if (result[3] == EMU_STARTED) {
			for (size_t k = 0; k < sizeof large; k += 128)
				(void)__atomic_load_n(&large[k], __ATOMIC_RELAXED);
			emu_tend();
		}
		result[4] = emu_tbegin(EMU_ROLLBACK_ONLY);
		if (result[4] == EMU_STARTED) {
			for (size_t k = 0; k < sizeof large; k += 128)
				(void)__atomic_load_n(&large[k], __ATOMIC_RELAXED);
			emu_tend();
		}
	}});
	EXPECT_EQ(result[0], uint64_t(EMU_STARTED));
	EXPECT_EQ(cause_of(result[1]), EMU_CAPACITY_WRITE);
	EXPECT_TRUE(result[2] >> (63 - 10) & 1) << "TEXASR: footprint overflow";
	EXPECT_EQ(cause_of(result[3]), EMU_CAPACITY_READ);
	EXPECT_EQ(result[4], uint64_t(EMU_STARTED))
	        << "loads of a rollback-only transaction take no room";
}

TEST(PowerTm, Capacity_IsSharedByTheThreadsOfACore)
{
	/* Thread 33 sits on the core of thread 1. */
	auto write_40_lines = [] {
		int me = emu_thread();
		if (me != 1 && me != 33)
			return;
		uint64_t status = emu_tbegin(EMU_TX);
		if (status == EMU_STARTED) {
			for (int k = 0; k < 40; k++)
				store(cell[(me == 1 ? 0 : 100) + k], 1);
			emu_fence();
			emu_work(3000);
			store(cell[300 + me], 1);
			emu_tend();
		}
		result[me == 1 ? 0 : 1] = status;
	};
	run({}, std::vector<Body>(33, write_40_lines));
	EXPECT_TRUE(cause_of(result[0]) == EMU_CAPACITY_WRITE ||
	            cause_of(result[1]) == EMU_CAPACITY_WRITE);
}

/* ------------------------------------------------------------------------ TSX */

TEST(Tsx, SuspendedLoadTracking_LoadsAreUntrackedStoresAreNot)
{
	auto suspended_load = [] {
		emu_suspend_loads();
		load(cell[0]);
		emu_resume_loads();
	};
	EXPECT_EQ(against(
	                  EMU_TX, suspended_load,
	                  [] {
		                  store(cell[0], 1);
		                  emu_fence();
	                  },
	                  "tsx"),
	        uint64_t(EMU_STARTED));
	auto suspended_store = [] {
		emu_suspend_loads();
		store(cell[0], 1);
		emu_fence();
		emu_resume_loads();
	};
	EXPECT_EQ(cause_of(against(
	                  EMU_TX, suspended_store, [] { load(cell[0]); }, "tsx")),
	        EMU_CONFLICT_PLAIN);
}

TEST(Tsx, EndWhileSuspended_NestedSuspend_AndClwb_Abort)
{
	run({"tsx"}, {[] {
		result[0] = emu_tbegin(EMU_TX);
		if (result[0] == EMU_STARTED) {
			emu_suspend_loads();
			emu_tend();
		}
		result[1] = emu_tbegin(EMU_TX);
		if (result[1] == EMU_STARTED) {
			emu_suspend_loads();
			emu_suspend_loads();
		}
		result[2] = emu_tbegin(EMU_TX);
		if (result[2] == EMU_STARTED)
			emu_write_back(&cell[0], 8);
		result[3] = emu_tbegin(EMU_ROLLBACK_ONLY);
	}});
	EXPECT_EQ(cause_of(result[0]), EMU_NESTED);
	EXPECT_EQ(cause_of(result[1]), EMU_NESTED);
	EXPECT_EQ(cause_of(result[2]), EMU_DISALLOWED);
	EXPECT_EQ(cause_of(result[3]), EMU_DISALLOWED) << "x86 has no rollback-only transactions";
}

/* ------------------------------------------------------------- memory ordering */

/* How often, of 2,000 seeds, `seen` happens. */
int seeds_that(const std::string &machine, const std::vector<Body> &bodies,
        const std::function<bool()> &seen)
{
	int n = 0;
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		run({machine, seed, 20}, bodies);
		n += seen();
	}
	return n;
}

/* Store buffering: both threads store, then load the other's word. */
std::vector<Body> store_buffering(void (*between)())
{
	return {[between] {
		        store(cell[0], 1);
		        between();
		        result[0] = load(cell[1]);
	        },
	        [between] {
		        store(cell[1], 1);
		        between();
		        result[1] = load(cell[0]);
	        }};
}

TEST(Ordering, StoresMayPassLaterLoads_UnlessAFullFenceIsBetween)
{
	auto neither = [] { return result[0] == 0 && result[1] == 0; };
	for (const char *machine : {"power9", "tsx"}) {
		EXPECT_GT(seeds_that(machine, store_buffering([] {}), neither), 0) << machine;
		EXPECT_GT(
		        seeds_that(machine, store_buffering([] { emu_fence_light(); }), neither), 0)
		        << machine;
		EXPECT_EQ(seeds_that(machine, store_buffering([] { emu_fence(); }), neither), 0)
		        << machine;
	}
}

/* Message passing: data, then flag. */
std::vector<Body> message_passing(void (*between)())
{
	return {[between] {
		        store(cell[0], 1);
		        between();
		        store(cell[1], 1);
	        },
	        [] {
		        while (load(cell[1]) == 0)
			        emu_pause();
		        result[0] = load(cell[0]);
	        }};
}

TEST(Ordering, StoresStayInOrder_OnX86_AndOnPowerAcrossABarrier)
{
	auto stale = [] { return result[0] == 0; };
	EXPECT_EQ(seeds_that("tsx", message_passing([] {}), stale), 0);
	EXPECT_GT(seeds_that("power9", message_passing([] {}), stale), 0);
	EXPECT_EQ(seeds_that("power9", message_passing([] { emu_fence_light(); }), stale), 0);
	EXPECT_EQ(seeds_that("power9",
	                  message_passing([] { __atomic_thread_fence(__ATOMIC_RELEASE); }), stale),
	        0);
}

TEST(Ordering, PlainStoresAreSeenAfterThoseBefore)
{
	std::vector<Body> bodies = {[] {
		                            store(cell[0], 1);
		                            /* Not atomic: performed by the program itself */
		                            cell[1].value = 1;
	                            },
	        [] {
		        while (load(cell[1]) == 0)
			        emu_pause();
		        result[0] = load(cell[0]);
	        }};
	EXPECT_EQ(seeds_that("tsx", bodies, [] { return result[0] == 0; }), 0);
}

TEST(Ordering, OwnStoresAreSeenByOneself)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		run({"power9", seed, 5}, {[] {
			for (uint64_t k = 1; k <= 20; k++) {
				store(cell[k % 3], k);
				result[0] += load(cell[k % 3]) != k;
				result[0] += cell[k % 3].value != k;
				uint32_t half;
				memcpy(&half, &cell[k % 3].value, 4);
				result[0] += half != k;
			}
		}});
		ASSERT_EQ(result[0], 0u) << "seed " << seed;
	}
}

/* --------------------------------------------------------- persistent memory */

class Persistence : public testing::Test
{
protected:
	void SetUp() override
	{
		persistent = static_cast<uint8_t *>(mmap(nullptr, 65536, PROT_READ | PROT_WRITE,
		        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		ASSERT_NE(persistent, MAP_FAILED);
		emu_persistent(persistent, 65536);
	}
	void TearDown() override
	{
		emu_persistent_gone(persistent);
		munmap(persistent, 65536);
	}
	/* Run `body`, then cut the power.  In how many of the seeds word k survived, by k. */
	static std::vector<int> survives(void (*body)(), unsigned words, int seeds = 200)
	{
		std::vector<int> n(words);
		for (int seed = 1; seed <= seeds; seed++) {
			memset(persistent, 0, 65536);
			emu_persistent(persistent, 65536);
			static void (*the_body)();
			the_body = body;
			EXPECT_EQ(run({"power9", static_cast<uint64_t>(seed)}, {[] {
				the_body();
				emu_crash_in(1);
				load(cell[7]);
			}}),
			        EMU_CRASHED);
			auto *image =
			        static_cast<const uint8_t *>(emu_persistent_image(persistent));
			for (unsigned k = 0; k < words; k++)
				n[k] += image[k * 128] != 0;
		}
		return n;
	}
	static void put(unsigned k)
	{
		__atomic_store_n(reinterpret_cast<uint64_t *>(persistent + k * 128),
		        UINT64_C(0x0101010101010101), __ATOMIC_RELAXED);
	}
};

TEST_F(Persistence, WrittenBackAndFenced_Survives)
{
	auto n = survives(
	        [] {
		        put(0);
		        emu_write_back(persistent, 8);
		        emu_write_back_fence();
	        },
	        1);
	EXPECT_EQ(n[0], 200);
}

TEST_F(Persistence, NotFenced_MayOrMayNot)
{
	for (auto body : {+[] {
		                  put(0);
		                  emu_write_back(persistent, 8);
	                  },
	             +[] {
		             put(0);
		             emu_fence();
	             }}) {
		auto n = survives(body, 1);
		EXPECT_GT(n[0], 0);
		EXPECT_LT(n[0], 200);
	}
}

TEST_F(Persistence, AWriteBackTakesNoLaterStore)
{
	auto n = survives(
	        [] {
		        emu_write_back(persistent, 8);
		        put(0);
		        emu_write_back_fence();
	        },
	        1);
	EXPECT_LT(n[0], 200)
	        << "the fence does not cover what was stored after the write-back was issued";
}

TEST_F(Persistence, LinesGetOutInAnyOrder)
{
	static int only_second;
	only_second = 0;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		memset(persistent, 0, 65536);
		emu_persistent(persistent, 65536);
		run({"power9", seed}, {[] {
			put(0);
			put(1);
			emu_write_back(persistent, 256);
			emu_crash_in(1);
			load(cell[7]);
		}});
		auto *image = static_cast<const uint8_t *>(emu_persistent_image(persistent));
		only_second += !image[0] && image[128];
	}
	EXPECT_GT(only_second, 0);
}

TEST_F(Persistence, WordsAreWhole_LinesAreNot)
{
	int torn_lines = 0;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		memset(persistent, 0, 65536);
		emu_persistent(persistent, 65536);
		run({"power9", seed}, {[] {
			memset(persistent, 0x11, 128);
			emu_fence();
			emu_crash_in(1);
			load(cell[7]);
		}});
		auto *image = static_cast<const uint8_t *>(emu_persistent_image(persistent));
		unsigned there = 0;
		for (unsigned k = 0; k < 16; k++) {
			uint64_t word;
			memcpy(&word, image + k * 8, 8);
			ASSERT_TRUE(word == 0 || word == UINT64_C(0x1111111111111111))
			        << "a torn word";
			there += word != 0;
		}
		torn_lines += there && there < 16;
	}
	EXPECT_GT(torn_lines, 0);
}

TEST_F(Persistence, AnOpenTransactionsStores_NeverSurvive)
{
	auto n = survives(
	        [] {
		        if (emu_tbegin(EMU_TX) == EMU_STARTED) {
			        put(0);
			        emu_fence();
			        put(1);
		        }
	        },
	        2);
	EXPECT_EQ(n[0] + n[1], 0);
}

TEST_F(Persistence, TheFenceWaitsForTheLatency)
{
	run({}, {[] {
		put(0);
		uint64_t before = emu_ticks();
		emu_write_back(persistent, 8);
		result[0] = (emu_ticks() - before) / 1000;
		emu_write_back_fence();
		result[1] = (emu_ticks() - before) / 1000;
		before = emu_ticks();
		emu_write_back(persistent, 4 * 128);
		emu_write_back_fence();
		result[2] = (emu_ticks() - before) / 1000;
	}});
	EXPECT_LT(result[0], 310u) << "issuing it waits for nothing";
	EXPECT_GE(result[1], 310u);
	EXPECT_GE(result[2], 4 * 310u)
	        << "power9.toml: lines of one thread go out one after the other";
}

/* -------------------------------------------------------------------- the run */

TEST(Machine, ThreadsLocksAndSleep_WorkUnchanged)
{
	static uint64_t count;
	static std::mutex lock;
	count = 0;
	std::vector<Body> bodies(40, [] {
		for (int k = 0; k < 50; k++) {
			std::lock_guard guard(lock);
			count++;
		}
		struct timespec nap = {0, 1000000};
		nanosleep(&nap, nullptr);
	});
	EXPECT_EQ(run({}, bodies), EMU_DONE);
	EXPECT_EQ(count, 2000u);
	EXPECT_GE(emu_count().ns, 1000000u);
}

/* A line asked for is on its way while its thread does something else. */
TEST(Machine, Prefetch_HidesTheWayOfALine)
{
	run({}, {[] {
		auto loaded_in = [](const Cell &c) {
			uint64_t before = emu_ticks();
			load(c);
			return emu_ticks() - before;
		};
		result[0] = loaded_in(cell[0]);
		emu_prefetch(&cell[1], false);
		result[1] = loaded_in(cell[1]); /* at once: all of the way is left */
		emu_prefetch(&cell[2], false);
		emu_work(1000);
		result[2] = loaded_in(cell[2]);
		result[3] = loaded_in(cell[2]);
	}});
	EXPECT_GT(result[1], result[0] / 2);
	EXPECT_LT(result[2], result[0] / 10);
	EXPECT_LE(result[3], result[2]);
}

/* The number of lines in flight is limited. */
TEST(Machine, Prefetch_WaitsWhereTooManyAreOnTheirWay)
{
	run({}, {[] {
		uint64_t before = emu_ticks();
		for (unsigned k = 0; k < 8; k++)
			emu_prefetch(&cell[k], false);
		result[0] = emu_ticks() - before;
		for (unsigned k = 8; k < 64; k++)
			emu_prefetch(&cell[k], true);
		result[1] = emu_ticks() - before;
	}});
	/* power9: 8 at a time, 95 ns each. */
	EXPECT_LT(result[0], 50000u);
	EXPECT_GT(result[1], 7 * 90000u);
	EXPECT_LT(result[1], 9 * 100000u);
}

TEST(Machine, SameSeed_SameRun)
{
	std::vector<Body> bodies(8, [] {
		for (int k = 0; k < 50; k++) {
			if (emu_tbegin(EMU_TX) == EMU_STARTED) {
				store(cell[k % 5], load(cell[k % 5]) + 1);
				emu_tend();
			}
		}
	});
	auto counted = [&](uint64_t seed) {
		run({"power9", seed, 50}, bodies);
		emu_counters n = emu_count();
		return std::vector<uint64_t>{
		        n.accesses, n.switches, n.begun, n.committed, n.aborted, n.ns};
	};
	EXPECT_EQ(counted(3), counted(3));
	EXPECT_NE(counted(3), counted(4));
}

TEST(Machine, EverybodyWaits_IsADeadlock)
{
	static std::mutex a, b;
	EXPECT_EQ(run({}, {[] {
		                   a.lock();
		                   emu_work(1000);
		                   b.lock();
	                   },
	                          [] {
		                          b.lock();
		                          emu_work(1000);
		                          a.lock();
	                          }}),
	        EMU_DEADLOCK);
}

TEST(Machine, SpinningForEver_IsLate)
{
	EXPECT_EQ(run({}, {[] {
		while (load(cell[0]) == 0)
			emu_pause();
	}}),
	        EMU_LATE);
}

TEST(Machine, ExceptionsOfThreads_DoNotMix)
{
	std::vector<Body> bodies(8, [] {
		for (int k = 0; k < 20; k++)
			try {
				throw emu_thread() * 1000 + k;
			} catch (int caught) {
				load(cell[k]); /* others throw meanwhile */
				result[0] += caught != emu_thread() * 1000 + k;
			}
	});
	EXPECT_EQ(run({}, bodies), EMU_DONE);
	EXPECT_EQ(result[0], 0u);
}

/* ---------------------------------------------------------- descriptions */

std::string error_of(const std::string &from, const std::string &to)
{
	std::ifstream in(std::string(FUR_MACHINES) + "/power9.toml");
	std::string text((std::istreambuf_iterator<char>(in)), {});
	if (size_t at = text.find(from); !from.empty() && at != std::string::npos)
		text.replace(at, from.size(), to);
	else if (!from.empty())
		ADD_FAILURE() << "power9.toml has no '" << from << "'";
	std::string path = testing::TempDir() + "machine-" + std::to_string(getpid()) + ".toml";
	std::ofstream(path) << text;
	char error[512] = "";
	emu_machine *m = emu_machine_read(path.c_str(), error, sizeof error);
	if (m)
		emu_machine_free(m);
	unlink(path.c_str());
	std::string all = error;
	size_t name = all.find(path);
	return name == std::string::npos ? all : all.substr(name + path.size());
}

/* ":N" of the line of power9.toml that has `text`. */
std::string at(const std::string &text)
{
	std::ifstream in(std::string(FUR_MACHINES) + "/power9.toml");
	std::string line;
	for (int n = 1; std::getline(in, line); n++)
		if (line.find(text) != std::string::npos)
			return std::string(":").append(std::to_string(n));
	return "?";
}

TEST(Description, ThoseThatCome_AreRead)
{
	for (const char *name : {"power9", "tsx", "tsx-tracked"})
		emu_machine_free(machine_named(name));
	EXPECT_EQ(error_of("", ""), "");
}

TEST(Description, Mistakes_NameTheLine)
{
	EXPECT_EQ(error_of("smt = 2", "smt = 0"),
	        at("smt = 2") + ": smt must be a whole number from 1 to 8");
	EXPECT_EQ(error_of("smt = 2", "smt = \"two\""),
	        at("smt = 2") + ": smt must be a whole number from 1 to 8");
	EXPECT_EQ(error_of("isa = \"power\"", "isa = \"arm\""),
	        at("isa = \"power\"") + ": isa is 'arm': use one of x86, power");
	EXPECT_EQ(error_of("l1 = 1.0", "l1 = -1.0").substr(0, 40),
	        at("l1 = 1.0") + ": l1 must be a number, 0 or more");
	EXPECT_EQ(error_of("line_bytes = 128", "line_bytes = 100"),
	        at("line_bytes = 128") + ": line_bytes must be a power of two");
	EXPECT_EQ(error_of("per_socket = 16", "per_socket = 60").substr(0, 27),
	        at("per_socket = 16") + ": cores and threads: at m");
	EXPECT_EQ(error_of("begin_ns = 14.0", "begin_ns = 14.0\nbegin = 3"),
	        at("commit_ns") + ": unknown key 'begin'");
	EXPECT_EQ(error_of("[pm]", "[pmem]"), ": the table [pm] is missing");
	EXPECT_NE(error_of("write_lines = 64\n", "").find("[htm] has no 'write_lines'"),
	        std::string::npos);
	EXPECT_EQ(error_of("smt = 2", "smt = = 2").substr(0, 4), at("smt = 2") + ": ");
}

TEST(Description, NoSuchFile_IsSaid)
{
	char error[512] = "";
	EXPECT_EQ(emu_machine_read("/nowhere/x.toml", error, sizeof error), nullptr);
	EXPECT_STREQ(error, "/nowhere/x.toml: No such file or directory");
}

} // namespace
