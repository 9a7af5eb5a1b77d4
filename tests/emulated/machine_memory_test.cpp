/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine_memory_test.cpp - the emulated machine's memory ordering, and its persistent memory.
 */
#include "machine_fixture.hpp"

#include <cstring>
#include <ctime>
#include <memory>
#include <sys/mman.h>

namespace
{

/* ------------------------------------------------------------- memory ordering */

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

/* The third store shares the first one's request, not its turn. */
TEST(Ordering, StoresThatShareALine_StayInOrder_OnX86)
{
	std::vector<Body> bodies = {[] {
		                            store(cell[0], 1);
		                            store(cell[1], 1);
		                            __atomic_store_n(&cell[0].gap[0], 1, __ATOMIC_RELAXED);
	                            },
	        [] {
		        while (__atomic_load_n(&cell[0].gap[0], __ATOMIC_RELAXED) == 0)
			        emu_pause();
		        result[0] = load(cell[1]);
		        __atomic_store_n(&cell[0].gap[0], 0, __ATOMIC_RELAXED);
	        }};
	auto stale = [] { return result[0] == 0; };
	for (const char *machine : {"tsx", "epyc"})
		EXPECT_EQ(seeds_that(machine, bodies, stale), 0) << machine;
	for (const char *machine : {"power9", "weak"})
		EXPECT_GT(seeds_that(machine, bodies, stale), 0) << machine;
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

uint8_t *persistent;

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
			for (unsigned k = 0; k < words; k++)
				n[k] += persistent[k * 128] != 0;
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
		only_second += !persistent[0] && persistent[128];
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
		unsigned there = 0;
		for (unsigned k = 0; k < 16; k++) {
			uint64_t word;
			memcpy(&word, persistent + k * 8, 8);
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

/* The paper emulates persistent memory: only write-backs are slow. */
TEST_F(Persistence, ReadsTakeWhatTheDescriptionStates)
{
	const auto takes = [](const char *machine) {
		run({machine}, {[] {
			uint8_t *volatile there = persistent; /* read now */
			uint64_t before = emu_ticks();
			load(cell[0]);
			uint64_t after = emu_ticks();
			(void)__atomic_load_n(there, __ATOMIC_RELAXED);
			uint64_t end = emu_ticks();
			result[0] = after - before;
			result[1] = end - after;
		}});
	};
	takes("power9");
	EXPECT_EQ(result[1], result[0]);
	takes("tsx");
	EXPECT_GE(result[1], result[0] + 200000) << "tsx.toml: 300 ns";
}

} // namespace
