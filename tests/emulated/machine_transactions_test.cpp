/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine_transactions_test.cpp - the emulated machine's hardware transactions, POWER's and TSX's.
 */
#include "internals.hpp"
#include "machine_fixture.hpp"

#include <cstring>
#include <sched.h>

namespace
{

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

/* Linux 4bb3c7a0208f: the processor suspends by itself, and the hypervisor resumes. */
TEST(PowerTm, TheResumeTraps_TheSuspendDoesNot)
{
	run({}, {[] {
		if (emu_tbegin(EMU_TX) == EMU_STARTED) {
			uint64_t begin = emu_ticks();
			emu_tsuspend();
			uint64_t suspended = emu_ticks();
			emu_tresume();
			uint64_t resumed = emu_ticks();
			emu_tend();
			result[0] = (suspended - begin) / 1000;
			result[1] = (resumed - suspended) / 1000;
		}
	}});
	EXPECT_GE(result[0], 20u) << "power9.toml";
	EXPECT_LT(result[0], 25u);
	EXPECT_GE(result[1], 330u);
}

/* So an update's announcement, in its window, is seen before the time of the resume has passed. */
TEST(PowerTm, AStoreBeforeTheResume_IsSeenWhileTheThreadResumes)
{
	for (uint64_t seed = 1; seed <= 100; seed++) {
		run({"power9", seed}, {[] {
			                       load(cell[1]);
			                       if (emu_tbegin(EMU_TX) == EMU_STARTED) {
				                       emu_tsuspend();
				                       store(cell[1], 1);
				                       uint64_t stored = emu_ticks();
				                       emu_tresume();
				                       uint64_t resumed = emu_ticks();
				                       emu_tend();
				                       result[0] = stored;
				                       result[1] = resumed;
			                       }
		                       },
		                              [] {
			                              while (!load(cell[1]))
				                              emu_pause();
			                              result[2] = emu_ticks();
		                              }});
		ASSERT_GT(result[1], result[0] + 330000) << "seed " << seed;
		ASSERT_LT(result[2], result[0] + 200000) << "seed " << seed;
	}
}

/* -------------------------------------------------------- overlapping loads */

/* Loads of an overlap are tracked, and conflict, as others are. */
TEST(PowerTm, OverlappedLoads_AreTracked)
{
	auto scan = [] {
		emu_overlap_begin();
		for (int k = 0; k < 16; k++)
			load(cell[k]);
		emu_overlap_end();
	};
	auto write = [] {
		store(cell[9], 1);
		emu_fence();
	};
	for (const char *machine : {"power9", "tsx"})
		EXPECT_EQ(cause_of(against(EMU_TX, scan, write, machine)), EMU_CONFLICT_PLAIN)
		        << machine;
	EXPECT_EQ(against(EMU_ROLLBACK_ONLY, scan, write), uint64_t(EMU_STARTED));
	EXPECT_EQ(cause_of(against(
	                  EMU_TX,
	                  [] {
		                  store(cell[9], 1);
		                  emu_fence();
	                  },
	                  scan)),
	        EMU_CONFLICT_PLAIN)
	        << "they abort a writer";
}

TEST(PowerTm, OverlappedLoads_WhileSuspended_AreNotTracked)
{
	auto write = [] {
		store(cell[9], 1);
		emu_fence();
	};
	EXPECT_EQ(against(
	                  EMU_TX,
	                  [] {
		                  emu_tsuspend();
		                  emu_overlap_begin();
		                  for (int k = 0; k < 16; k++)
			                  load(cell[k]);
		                  emu_overlap_end();
		                  emu_tresume();
	                  },
	                  write),
	        uint64_t(EMU_STARTED));
	EXPECT_EQ(against(
	                  EMU_TX,
	                  [] {
		                  emu_suspend_loads();
		                  emu_overlap_begin();
		                  for (int k = 0; k < 16; k++)
			                  load(cell[k]);
		                  emu_overlap_end();
		                  emu_resume_loads();
	                  },
	                  write, "tsx"),
	        uint64_t(EMU_STARTED));
}

/* An abort in the middle of an overlap ends it, and a thread that is aborted while it waits for a
 * request restarts like any other. */
TEST(PowerTm, AnAbort_EndsTheOverlap)
{
	run({}, {[] {
		         uint64_t before = emu_ticks();
		         load(cell[300]);
		         result[1] = emu_ticks() - before;
		         result[0] = emu_tbegin(EMU_TX);
		         if (result[0] == EMU_STARTED) {
			         store(cell[0], 1);
			         emu_overlap_begin();
			         for (int k = 1; k < 200; k++)
				         load(cell[k]);
			         emu_overlap_end();
			         emu_tend();
		         }
		         before = emu_ticks();
		         load(cell[301]);
		         load(cell[302]);
		         result[2] = emu_ticks() - before;
	         },
	                [] {
		                emu_work(1000);
		                result[3] = 1 + load(cell[0]);
	                }});
	EXPECT_EQ(cause_of(result[0]), EMU_CONFLICT_PLAIN);
	EXPECT_EQ(result[3], 1u);
	EXPECT_GT(result[2], result[1] + result[1] / 2) << "one after the other again";
}

/* ------------------------------------------------- a machine without transactions */

TEST(NoHtm, BeginRefuses_AndNothingElseHappens)
{
	EXPECT_EQ(run({"epyc"}, {[] {
		for (emu_tx kind : {EMU_TX, EMU_ROLLBACK_ONLY}) {
			result[0] = emu_tbegin(kind);
			store(cell[0], load(cell[0]) + 1);
			emu_tend();
			emu_tabort(1);
			emu_suspend_loads();
			emu_resume_loads();
			result[1] += cause_of(result[0]) == EMU_DISALLOWED;
		}
	}}),
	        EMU_DONE);
	EXPECT_EQ(result[1], 2u);
	EXPECT_EQ(cell[0].value, 2u) << "no transaction, so nothing is undone";
	EXPECT_EQ(emu_count().begun, 0u);
}

/* What libfur's choice of a back end looks at. */
TEST(NoHtm, DetectionFindsNoTransactions)
{
	static arch_cpu cpu;
	const auto detected_on = [](const char *machine) {
		run({machine}, {[] { cpu = arch_cpu_detect(); }});
		return cpu;
	};
	arch_cpu none = detected_on("epyc");
	EXPECT_FALSE(none.rtm || none.tsxldtrk || none.power_htm || none.suspend);
	EXPECT_TRUE(detected_on("tsx").tsxldtrk);
	EXPECT_TRUE(detected_on("power9").suspend);
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

/* How a transaction of thread `thread` ends that begins at `begin_ns`, reads `reads` lines, writes
 * `writes` of them, and lasts until `end_ns`.  The lines lie `first` lines into an array. */
struct Footprint {
	int thread;
	uint64_t begin_ns, end_ns;
	unsigned first, reads, writes;
	emu_tx kind;
};
uint8_t footprint_lines[12288 * 128];
enum { START_NS = 1000000 }; /* all threads are there by then */

/* The statuses, in the order of the footprints, of transactions on a power9 with all its threads,
 * where threads n and n + 32 share a core, and threads 1, 2, 33 and 34 a pair of cores. */
std::vector<uint64_t> statuses_of(const std::vector<Footprint> &footprints)
{
	static std::vector<uint64_t> status;
	static const std::vector<Footprint> *all;
	status.assign(footprints.size(), 77);
	all = &footprints;
	run({}, std::vector<Body>(34, [] {
		for (size_t k = 0; k < all->size(); k++) {
			const Footprint f = (*all)[k];
			if (f.thread != emu_thread())
				continue;
			work_until(START_NS + f.begin_ns);
			uint64_t how = emu_tbegin(f.kind);
			if (how == EMU_STARTED) {
				uint8_t *line = footprint_lines + f.first * 128;
				for (unsigned n = 0; n < f.reads; n++)
					(void)__atomic_load_n(line + n * 128, __ATOMIC_RELAXED);
				for (unsigned n = 0; n < f.writes; n++)
					__atomic_store_n(line + n * 128, 1, __ATOMIC_RELAXED);
				work_until(START_NS + f.end_ns);
				emu_tend();
			}
			status[k] = how;
		}
	}));
	return status;
}

/* power9.toml: two transactions of a pair of cores at a time keep 4096 lines in its directory; a
 * third one keeps its reads with its writes, 64 of both. */
TEST(PowerTm, ThirdTransactionOfACorePair_OverflowsAt65Lines)
{
	const uint64_t end = 100000;
	const Footprint one = {1, 0, end, 0, 300, 0, EMU_TX},
	                two = {2, 0, end, 1000, 300, 0, EMU_TX};
	const auto third = [&](int thread, unsigned reads, unsigned writes) {
		return statuses_of({one, two, {thread, end / 2, end, 2000, reads, writes, EMU_TX}});
	};
	const std::vector<uint64_t> started(3, EMU_STARTED);
	EXPECT_EQ(third(33, 64, 0), started);
	EXPECT_EQ(cause_of(third(33, 65, 0)[2]), EMU_CAPACITY_READ);
	EXPECT_EQ(third(33, 64, 64), started) << "a line that is read and written counts once";
	EXPECT_EQ(cause_of(third(34, 65, 0)[2]), EMU_CAPACITY_READ) << "the pair's other core";
	EXPECT_EQ(third(3, 300, 0), started) << "another pair";
	const Footprint untracked = {2, 0, end, 1000, 300, 1, EMU_ROLLBACK_ONLY};
	EXPECT_EQ(statuses_of({one, untracked, {33, end / 2, end, 2000, 300, 0, EMU_TX}}), started)
	        << "a rollback-only transaction keeps no reads";
	EXPECT_EQ(statuses_of({one, two, {33, 2 * end, 3 * end, 2000, 300, 0, EMU_TX}}), started)
	        << "the others have ended";
}

TEST(PowerTm, ReadsWithoutDirectory_TakeRoomFromTheCoresWrites)
{
	const uint64_t end = 100000;
	/* Threads 2 and 34 have the directory.  Thread 33 writes, on the core of thread 1. */
	const Footprint a = {2, 0, end, 1000, 300, 0, EMU_TX},
	                b = {34, 0, end, 2000, 300, 0, EMU_TX},
	                reader = {1, end / 2, end, 3000, 40, 0, EMU_TX};
	const auto writer = [&](unsigned lines) {
		return statuses_of(
		        {a, b, reader, {33, end * 3 / 4, end, 4000, 0, lines, EMU_TX}})[3];
	};
	EXPECT_EQ(writer(24), uint64_t(EMU_STARTED));
	EXPECT_EQ(cause_of(writer(25)), EMU_CAPACITY_WRITE);
}

TEST(PowerTm, TwoTransactionsOfACorePair_ShareTheDirectorysLines)
{
	const uint64_t end = 2000000;
	const auto both = [&](int thread, unsigned reads) {
		return statuses_of({{1, 0, end, 0, 2500, 0, EMU_TX},
		        {thread, end / 2, end, 4000, reads, 0, EMU_TX}});
	};
	const std::vector<uint64_t> started(2, EMU_STARTED);
	for (int thread : {2, 33}) {
		EXPECT_EQ(both(thread, 4096 - 2500), started) << thread;
		EXPECT_EQ(cause_of(both(thread, 4096 - 2500 + 1)[1]), EMU_CAPACITY_READ) << thread;
	}
	EXPECT_EQ(both(3, 4096), started) << "another pair";
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

} // namespace
