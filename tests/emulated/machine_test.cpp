/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine_test.cpp - a run of the emulated machine as a whole, and the descriptions of machines.
 */
#include "machine_fixture.hpp"

#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <linux/futex.h>
#include <memory>
#include <mutex>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace
{

/* ----------------------------------------------------------------- an order */

void point_one()
{
	EMU_POINT(test__one);
}
void point_two()
{
	EMU_POINT(test__two);
}
void point_never()
{
	EMU_POINT(test__never);
}

struct Order {
	explicit Order(const char *text) : order(emu_order_read(text, error, sizeof error)) {}
	char error[1000] = "";
	const emu_order *order;
	emu_end run(const std::vector<Body> &bodies) const
	{
		Spec spec;
		spec.order = order;
		return ::run(spec, bodies);
	}
};

/* Without an order, the second passes its point 10 microseconds before the first. */
const std::vector<Body> late_and_early = {[] {
	                                          emu_work(10000);
	                                          point_one();
	                                          result[0] = emu_time();
                                          },
        [] {
	        point_two();
	        result[1] = emu_time();
        }};

TEST(MachineOrder, HoldsAThreadUntilItsTurn)
{
	ASSERT_EQ(run({}, late_and_early), EMU_DONE);
	EXPECT_LT(result[1], result[0]);
	ASSERT_EQ(Order("a test__one < b test__two").run(late_and_early), EMU_DONE);
	EXPECT_GE(result[1], result[0]);
	/* at once, not when it looks again */
	EXPECT_LT(result[1], result[0] + 1000000);
}

TEST(MachineOrder, BindsVariablesToDifferentThreads)
{
	const std::vector<Body> twice(2, [] {
		emu_work(1000 * static_cast<uint64_t>(emu_thread()));
		point_one();
		result[emu_thread()] = emu_time();
	});
	ASSERT_EQ(Order("a test__one < b test__one < c test__never").run(twice), EMU_DONE);
	EXPECT_LT(result[1], result[2]);
}

TEST(MachineOrder, CutsThePower)
{
	EXPECT_EQ(Order("a test__one < crash < b test__two").run(late_and_early), EMU_CRASHED);
	EXPECT_EQ(result[1], 0u) << "the second was not held until the crash";
}

TEST(MachineOrder, ThatCannotHappen_HoldsNobodyForever)
{
	EXPECT_EQ(Order("a test__never < b test__two < c test__one").run(late_and_early), EMU_DONE);
	EXPECT_NE(result[0], 0u);
	EXPECT_NE(result[1], 0u);
	point_never(); /* outside a run, nothing */
}

TEST(MachineOrder, PointsTakeNoTimeWithoutOne)
{
	const std::vector<Body> both(2, [] {
		for (int k = 0; k < 100; k++) {
			store(cell[k % 3], 1);
			const uint64_t before = emu_time();
			point_one();
			result[emu_thread()] += emu_time() - before;
		}
	});
	ASSERT_EQ(run({}, both), EMU_DONE);
	EXPECT_EQ(result[1], 0u);
	EXPECT_EQ(result[2], 0u);
}

TEST(MachineOrder, WithAnUnknownPoint_IsOneErrorThatListsTheKnown)
{
	EXPECT_EQ(Order("a test__on < b test__two").order, nullptr);
	const std::string error = Order("a test__on < b test__two").error;
	EXPECT_EQ(error.find("no point test__on: use "), 0u) << error;
	EXPECT_NE(error.find("test__one, test__two"), std::string::npos) << error;
	EXPECT_EQ(error.find('\n'), std::string::npos);
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

/* It ends at once, running or asleep; it is joined, and the others go on. */
TEST(Machine, KilledThread_MakesNoMoreAccesses)
{
	static uint32_t word;
	static uint64_t woken;
	woken = 0;
	EXPECT_EQ(run({}, {[] {
		std::thread runs([] {
			for (uint64_t k = 1;; k++)
				store(cell[0], k);
		});
		std::thread pauses([] {
			for (;;)
				emu_pause();
		});
		auto sleep = [] {
			syscall(SYS_futex, &word, FUTEX_WAIT, 0, nullptr, nullptr, 0);
			__atomic_fetch_add(&woken, 1, __ATOMIC_SEQ_CST);
		};
		std::thread dies(sleep), lives(sleep);
		work_until(10000);
		for (std::thread *t : {&runs, &pauses, &dies}) {
			emu_kill(t->native_handle());
			t->join();
		}
		result[0] = load(cell[0]);
		work_until(30000);
		result[1] = load(cell[0]);
		syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
		lives.join();
	}}),
	        EMU_DONE);
	EXPECT_GT(result[0], 100u);
	EXPECT_EQ(result[0], result[1]);
	EXPECT_EQ(woken, 1u);
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

/* A file with power9.toml's text, in which each pair's first string is replaced by its second. */
std::string changed_power9(const std::vector<std::pair<std::string, std::string>> &changes)
{
	std::ifstream in(std::string(FUR_MACHINES) + "/power9.toml");
	std::string text((std::istreambuf_iterator<char>(in)), {});
	for (const auto &[from, to] : changes)
		if (size_t at = text.find(from); !from.empty() && at != std::string::npos)
			text.replace(at, from.size(), to);
		else if (!from.empty())
			ADD_FAILURE() << "power9.toml has no '" << from << "'";
	std::string path = testing::TempDir() + "machine-" + std::to_string(getpid()) + ".toml";
	std::ofstream(path) << text;
	return path;
}

/* How long it takes to load `n` cells from `first` on. */
uint64_t loads_take(unsigned first, unsigned n, bool overlap)
{
	uint64_t before = emu_ticks();
	if (overlap)
		emu_overlap_begin();
	for (unsigned k = 0; k < n; k++)
		load(cell[first + k]);
	emu_overlap_end();
	return emu_ticks() - before;
}

TEST(Machine, Overlap_OfAsManyMissesAsMayBeUnderWay_TakesLittleMoreThanOne)
{
	for (const char *machine : {"power9", "tsx", "epyc"}) {
		run({machine}, {[] {
			result[0] = loads_take(0, 1, false);
			result[1] = loads_take(8, 8, false);
			result[2] = loads_take(16, 8, true);
		}});
		EXPECT_GE(result[2], result[0]) << machine;
		EXPECT_LT(result[2], 2 * result[0]) << machine;
		EXPECT_GT(result[1], 7 * result[0]) << machine << ": without, one after the other";
	}
}

/* power9.toml: 8 lines may be under way at a time. */
TEST(Machine, Overlap_IsLimitedByTheRequestsUnderWay)
{
	run({}, {[] {
		result[0] = loads_take(0, 1, false);
		result[1] = loads_take(64, 64, true);
		for (unsigned k = 200; k < 208; k++)
			emu_prefetch(&cell[k], false);
		result[2] = loads_take(208, 1, true);
	}});
	EXPECT_GT(result[1], 7 * result[0]) << "64 lines, 8 at a time";
	EXPECT_LT(result[1], 10 * result[0]);
	EXPECT_GT(result[2], result[0] + result[0] / 2) << "prefetches count";
}

TEST(Machine, Overlap_OfOneLoad_SavesNothing)
{
	run({}, {[] {
		result[0] = loads_take(0, 1, false);
		result[1] = loads_take(1, 1, true);
		result[2] = loads_take(1, 1, false); /* in the L1 by now */
		result[3] = loads_take(1, 1, true);
		store(cell[2], 1);
		result[4] = loads_take(2, 1, false); /* in the store buffer */
		result[5] = loads_take(2, 1, true);
	}});
	EXPECT_EQ(result[1], result[0]);
	EXPECT_EQ(result[3], result[2]);
	EXPECT_EQ(result[5], result[4]);
}

/* Several loads of a line that is under way wait for the one request. */
TEST(Machine, Overlap_LoadsOfOneLine_ShareItsRequest)
{
	run({}, {[] {
		result[0] = loads_take(0, 1, false);
		uint64_t before = emu_ticks();
		emu_overlap_begin();
		for (unsigned k = 0; k < 16; k++)
			(void)__atomic_load_n(&cell[1].gap[k % 8], __ATOMIC_RELAXED);
		emu_overlap_end();
		result[1] = emu_ticks() - before;
	}});
	EXPECT_GE(result[1], result[0]);
	EXPECT_LT(result[1], result[0] + result[0] / 2);
}

/* A thread that waits for the values of its loads does not go on before it has them. */
TEST(Machine, Overlap_EndsWhereAValueIsWaitedFor)
{
	static void (*const waits[])() = {[] { emu_fence(); }, [] { emu_fence_light(); },
	        [] { emu_pause(); },
	        [] { __atomic_fetch_add(&cell[0].value, 1, __ATOMIC_RELAXED); },
	        [] { emu_tbegin(EMU_TX), emu_tend(); }};
	static unsigned which;
	for (which = 0; which < sizeof waits / sizeof *waits; which++) {
		run({}, {[] {
			store(cell[0], 1);
			emu_fence();
			uint64_t before = emu_ticks();
			load(cell[1]);
			result[0] = emu_ticks() - before;
			before = emu_ticks();
			emu_overlap_begin();
			load(cell[2]);
			waits[which]();
			result[1] = emu_ticks() - before;
			result[2] = loads_take(8, 2, false);
			emu_overlap_end();
		}});
		EXPECT_GE(result[1], result[0]) << which;
		EXPECT_GT(result[2], result[0] + result[0] / 2)
		        << which << ": the overlap has ended";
	}
}

/* How long thread `thread` of a power9 takes to load a cell, in whole nanoseconds, after the other
 * threads have used it, one after the other: a positive number loads, a negative one stores. */
uint64_t load_after(const std::vector<int> &others, int thread)
{
	static std::vector<int> order;
	order = others;
	order.push_back(thread);
	run({}, std::vector<Body>(20, [] {
		for (size_t k = 0; k < order.size(); k++) {
			const bool stores = order[k] < 0, last = k == order.size() - 1;
			if (abs(order[k]) != emu_thread())
				continue;
			work_until(1000000 + 10000 * k);
			uint64_t before = emu_ticks();
			if (stores)
				store(cell[0], 1), emu_fence();
			else
				load(cell[0]);
			if (last)
				result[0] = (emu_ticks() - before) / 1000;
		}
	}));
	return result[0];
}

/* power9.toml.  Threads 1 to 16 run on socket 0, threads 17 to 20 on socket 1. */
TEST(Machine, ALineComesFromWhereItIs)
{
	EXPECT_EQ(load_after({}, 1), 96u) << "memory";
	EXPECT_EQ(load_after({1}, 1), 1u) << "the own L1, and a recent line";
	EXPECT_EQ(load_after({1}, 2), 46u) << "another core of the socket, clean";
	EXPECT_EQ(load_after({-1}, 2), 46u) << "the same, written";
	EXPECT_EQ(load_after({1}, 17), 141u) << "the other socket";
	EXPECT_EQ(load_after({1, 17}, 18), 46u) << "the nearer of two";
	EXPECT_EQ(load_after({1, -17, 18}, 2), 141u) << "the copy in socket 0 is void";
}

/* power9.toml: instruction 0.8, l1 1.0, recent 0.3. */
TEST(Machine, ARecentLineInTheL1_IsNotWaitedFor)
{
	run({}, {[] {
		         load(cell[0]);
		         result[0] = loads_take(0, 1, false);
		         loads_take(1, 16, false); /* as many lines as are recent */
		         result[1] = loads_take(0, 1, false);
		         result[2] = loads_take(0, 1, true);
		         store(cell[0], 1);
		         result[3] = loads_take(0, 1, false);
		         work_until(10000);
		         result[4] = loads_take(0, 1, false);
	         },
	                [] {
		                work_until(5000);
		                store(cell[0], 2);
	                }});
	const uint64_t look = result[1] - 1800;
	EXPECT_EQ(result[0] - look, 300u);
	EXPECT_EQ(result[2] - look, 300u) << "also within an overlap";
	EXPECT_EQ(result[3] - look, 300u) << "out of the store buffer";
	EXPECT_GT(result[4] - look, 40000u) << "but another core has taken it";
}

/* power9.toml: instruction 0.8, l1 1.0, recent 0.3.  A line that a core has stored to, and that no
 * other core has accessed since that core's first access, takes no longer than a recent one. */
TEST(Machine, APrivateLineInTheL1_IsNotWaitedFor)
{
	static uint64_t (*takes)(unsigned);
	for (auto access : {+[](unsigned k) { return loads_take(k, 1, false); },
	             +[](unsigned k) {
		             uint64_t before = emu_ticks();
		             store(cell[k], 2);
		             return emu_ticks() - before;
	             }}) {
		takes = access;
		run({}, {[] {
			         auto others = [] { loads_take(100, 16, false); };
			         load(cell[2]); /* not stored to */
			         work_until(20000);
			         store(cell[0], 1);
			         store(cell[1], 1); /* thread 2 has prepared it */
			         store(cell[3], 1); /* threads 2 and 3 have */
			         store(cell[4], 1); /* thread 2 looks at it once */
			         emu_fence();
			         work_until(40000);
			         load(cell[4]);
			         store(cell[4], 1);
			         emu_fence();
			         for (unsigned k = 0; k < 5; k++) {
				         others();
				         result[k] = takes(k);
			         }
			         result[5] = takes(4); /* recent */
		         },
		                [] {
			                store(cell[1], 1);
			                store(cell[3], 1);
			                emu_fence();
			                work_until(30000);
			                load(cell[4]);
		                },
		                [] {
			                work_until(10000);
			                store(cell[3], 1);
		                }});
		EXPECT_EQ(result[0], result[5]) << "accessed by one core";
		EXPECT_EQ(result[1], result[5]) << "prepared by another one";
		EXPECT_EQ(result[2], result[5] + 1500) << "only loaded";
		EXPECT_EQ(result[3], result[5] + 1500) << "accessed by several before";
		EXPECT_EQ(result[4], result[5] + 1500) << "accessed by another one since";
	}
}

/* A machine whose caches hold few lines. */
std::string small_power9()
{
	return changed_power9({{"l1_lines = 256", "l1_lines = 8"},
	        {"l2_lines = 4096", "l2_lines = 8"}, {"l3_lines = 655360", "l3_lines = 40"}});
}

/* A line that the L3 has evicted comes from memory. */
TEST(Machine, TheL3HoldsAsManyLinesAsTheDescriptionStates)
{
	std::string path = small_power9();
	run({path}, {[] {
		load(cell[0]);
		loads_take(100, 16, false);
		result[0] = loads_take(0, 1, false);
		loads_take(200, 200, false);
		result[1] = loads_take(0, 1, false);
	}});
	unlink(path.c_str());
	EXPECT_LT(result[0], 20000u) << "the L3";
	EXPECT_GT(result[1], 90000u) << "memory";
}

TEST(Machine, APlainStoreToALineThatTheL3HasEvicted_BringsIt)
{
	std::string path = small_power9();
	run({path}, {[] {
		store(cell[0], 1);
		emu_fence();
		loads_take(200, 200, false);
		cell[0].value = 2;
		result[0] = loads_take(0, 1, false);
		result[1] = loads_take(300, 1, false);
	}});
	unlink(path.c_str());
	EXPECT_LT(result[0], 20000u) << "the L1";
	EXPECT_GT(result[1], 90000u) << "a line that was not stored to";
}

/* A thread that waits for its stores waits no longer than they need; linger_ns is 30. */
TEST(Machine, AFence_LetsNoStoreLinger)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		run({"power9", seed}, {[] {
			store(cell[0], 1);
			emu_fence();
			uint64_t before = emu_ticks();
			store(cell[0], 2);
			emu_fence();
			result[0] = emu_ticks() - before;
		}});
		EXPECT_LT(result[0], 14000u) << "a store to an own line, and a fence of 12 ns";
	}
}

/* A word of a cell besides its value, in the same line of every machine. */
void store_beside(Cell &c, unsigned k, uint64_t value)
{
	__atomic_store_n(&c.gap[k], value, __ATOMIC_RELAXED);
}

/* A line that a store waits for is under way for the core's other accesses to it as well. */
TEST(Machine, AccessesToALineThatAStoreWaitsFor_ShareItsWay)
{
	for (const char *machine : {"power9", "tsx", "tsx-tracked", "epyc", "weak", "ccix-ndp"}) {
		run({machine}, {[] {
			auto takes = [](unsigned k, unsigned more, bool load_too) {
				uint64_t before = emu_ticks();
				store(cell[k], 1);
				for (unsigned i = 0; i < more; i++)
					store_beside(cell[k], i, 1);
				if (load_too)
					(void)__atomic_load_n(&cell[k].gap[6], __ATOMIC_RELAXED);
				emu_fence();
				return emu_ticks() - before;
			};
			result[0] = takes(0, 0, false);
			result[1] = takes(1, 6, false);
			result[2] = takes(2, 0, true);
		}});
		EXPECT_GT(result[0], 50000u) << machine << ": from memory";
		EXPECT_GE(result[1], result[0]) << machine;
		EXPECT_LT(result[1], result[0] + result[0] / 2) << machine << ": stores";
		EXPECT_LT(result[2], result[0] + result[0] / 2) << machine << ": a load";
	}
}

/* Until the virtual time `ns`, to the nanosecond. */
void work_exactly_until(uint64_t ns)
{
	while (emu_ticks() < ns * 1000)
		emu_work(1);
}

/* Nor do other cores wait longer for it. */
TEST(Machine, StoresToALineUnderWay_KeepItNoLonger)
{
	static bool more;
	uint64_t took[2];
	for (bool is : {false, true}) {
		more = is;
		run({"epyc"}, {[] {
			               const bool once = !more;
			               work_exactly_until(10000);
			               store(cell[0], 1);
			               if (once)
				               return;
			               store_beside(cell[0], 0, 1);
			               cell[0].gap[1] = 1; /* performed by the program itself */
			               store_beside(cell[0], 2, 1);
		               },
		                      [] {
			                      work_exactly_until(10010);
			                      uint64_t before = emu_ticks();
			                      load(cell[0]);
			                      result[0] = (emu_ticks() - before) / 1000;
		                      }});
		took[is] = result[0];
	}
	EXPECT_GT(took[0], 100u) << "the rest of the way, and a transfer";
	EXPECT_LE(took[1], took[0] + 2);
}

/* The siblings of a core have one L1: threads 1 and 33. */
TEST(Machine, AStoreToALineThatTheSiblingWaitsFor_SharesItsWay)
{
	std::vector<Body> bodies(33, [] {});
	bodies[0] = [] {
		work_exactly_until(200000);
		store(cell[0], 1);
	};
	bodies[32] = [] {
		work_exactly_until(200050);
		uint64_t before = emu_ticks();
		store_beside(cell[0], 0, 1);
		emu_fence();
		result[0] = (emu_ticks() - before) / 1000;
	};
	run({"epyc"}, bodies);
	EXPECT_GT(result[0], 40u) << "the rest of the way";
	EXPECT_LT(result[0], 80u) << "epyc.toml: 110 ns from memory";
}

/* Threads 1 and 9 are on two CCXs.  Thread 1's store to cell 0 waits for the one to cell 1, which
 * comes from memory, and thread 9 takes the line meanwhile. */
TEST(Machine, ALineThatAnotherCoreHasTakenSince_IsRequestedAgain)
{
	static bool taken;
	std::vector<Body> bodies(9, [] {});
	bodies[0] = [] {
		load(cell[0]);
		work_exactly_until(100000);
		store(cell[1], 1);
		store(cell[0], 1);
		work_exactly_until(100080);
		uint64_t before = emu_ticks();
		store_beside(cell[0], 0, 1);
		emu_fence();
		result[0] = (emu_ticks() - before) / 1000;
	};
	bodies[8] = [] {
		const bool takes = taken;
		work_exactly_until(100030);
		if (takes)
			__atomic_fetch_add(&cell[0].gap[1], 1, __ATOMIC_SEQ_CST);
	};
	for (bool is : {false, true}) {
		taken = is;
		run({"epyc"}, bodies);
		if (taken)
			EXPECT_GT(result[0], 90u) << "transfer_other_socket";
		else
			EXPECT_LT(result[0], 60u) << "the rest of the way of cell 1";
	}
}

/* How long thread 1 of a power9 computes while `others` run on the other threads, of which one
 * shares its core. */
uint64_t work_takes(const Body &others)
{
	std::vector<Body> bodies(33, others);
	bodies[0] = [] {
		work_until(100000); /* the others have started */
		uint64_t before = emu_ticks();
		for (unsigned k = 0; k < 100; k++)
			load(cell[k % 4]);
		result[0] = emu_ticks() - before;
		store(cell[4], 1);
	};
	run({}, bodies);
	return result[0];
}

/* A thread that pauses leaves its core to its sibling. */
TEST(Machine, ASiblingSlowsACoreDown_UnlessItPauses)
{
	uint64_t alone = work_takes([] {}), beside = work_takes([] {
		while (load(cell[4]) == 0)
			load(cell[5]);
	}),
	         paused = work_takes([] {
		         while (load(cell[4]) == 0)
			         emu_pause();
	         });
	EXPECT_GT(beside, alone + alone / 3) << "smt_slowdown";
	EXPECT_LT(paused, beside);
}

TEST(Machine, AnUnpredictableBranch_TakesWhatTheDescriptionStates)
{
	run({"epyc"}, {[] {
		uint64_t before = emu_ticks(), look = emu_ticks() - before;
		before = emu_ticks();
		emu_unpredictable_branch();
		result[0] = emu_ticks() - before - look;
	}});
	EXPECT_EQ(result[0], 4500u);
}

TEST(Machine, Instructions_TakeWhatTheDescriptionStates)
{
	const auto takes = [](const char *machine, unsigned n) {
		static unsigned count;
		count = n;
		run({machine}, {[] {
			unsigned instructions = count;
			uint64_t before = emu_ticks(), look = emu_ticks() - before;
			before = emu_ticks();
			emu_instructions(instructions);
			result[0] = emu_ticks() - before - look;
		}});
		return result[0];
	};
	EXPECT_EQ(takes("power9", 76), 10000u) << "power9.toml: 7.6 in a nanosecond";
	EXPECT_EQ(takes("epyc", 90), 9999u) << "epyc.toml: 9 in a nanosecond";
	EXPECT_EQ(takes("epyc", 0), 0u);
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
	std::string path = changed_power9({{from, to}});
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
	for (const char *name : {"power9", "tsx", "tsx-tracked", "epyc", "weak", "ccix-ndp"})
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
	EXPECT_EQ(error_of("per_socket = 16", "per_socket = 60").substr(0, 28),
	        at("per_socket = 16") + ": cores and threads: at m");
	EXPECT_EQ(error_of("begin_ns = 14.0", "begin_ns = 14.0\nbegin = 3"),
	        at("commit_ns") + ": unknown key 'begin'");
	EXPECT_EQ(error_of("[pm]", "[pmem]"), ": the table [pm] is missing");
	EXPECT_NE(error_of("write_lines = 64\n", "").find("[htm] has no 'write_lines'"),
	        std::string::npos);
	EXPECT_EQ(error_of("kind = \"power\"", "kind = \"tsx\""),
	        at("kind = \"power\"") +
	                ": kind must be none, or that of the isa: tsx of x86, power of power");
	EXPECT_EQ(error_of("kind = \"power\"", "kind = \"none\""),
	        at("abort_ns") + ": unknown key 'abort_ns'");
	EXPECT_EQ(error_of("instructions_per_ns = 7.6", "instructions_per_ns = 0"),
	        at("instructions_per_ns") + ": instructions_per_ns must not be 0");
	EXPECT_EQ(error_of("recent = 0.3", "recent = 0"),
	        at("recent = 0.3") + ": recent is 0: time would stand still");
	EXPECT_EQ(error_of("suspend_ns = 20.0", "suspend_ns = 351.0"),
	        at("suspend_ns = 20.0") +
	                ": suspend_ns is part of suspend_resume_ns: at most its smaller value");
	EXPECT_EQ(error_of("read_lines_cores = 2", "read_lines_cores = 3"),
	        at("read_lines_cores") + ": read_lines_cores must divide per_socket, 16");
	EXPECT_EQ(error_of("smt = 2", "smt = = 2").substr(0, 5), at("smt = 2") + ": ");
}

TEST(Description, NoSuchFile_IsSaid)
{
	char error[512] = "";
	EXPECT_EQ(emu_machine_read("/nowhere/x.toml", error, sizeof error), nullptr);
	EXPECT_STREQ(error, "/nowhere/x.toml: No such file or directory");
}

} // namespace
