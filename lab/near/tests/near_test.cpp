/* SPDX-License-Identifier: BSD-3-Clause
 *
 * near_test.cpp - near memory by threads of this process.
 */
#include "near_fixture.hpp"

std::vector<MachineCase> machine_cases()
{
	return {{&near_threads, "exclusive", 1, true}, {&near_threads, "exclusive", 5, true},
	        {&near_threads, "coherent", 1, true}, {&near_threads, "coherent", 4, true}};
}

namespace
{

TEST(NearThreads, MachinesThatDoNotExistAreRefused)
{
	struct near *near = nullptr;
	near_options o = options_of(near_threads, "upmem");
	EXPECT_EQ(near_open(&o, nullptr, &near), FUR_EINVAL);
	o = options_of(near_threads, "coherent", 65);
	EXPECT_EQ(near_open(&o, nullptr, &near), FUR_EINVAL);
	o = options_of(near_threads, "coherent");
	o.memory_bytes = uint64_t{1} << 32;
	EXPECT_EQ(near_open(&o, nullptr, &near), FUR_EINVAL);
	EXPECT_EQ(near, nullptr);
}

TEST(NearThreads, RanksAreIndependent)
{
	near_options o = options_of(near_threads, "exclusive", 2);
	o.ranks = 2;
	Near near(o);
	struct near_rank *other = near.other_rank(1);
	ASSERT_NE(other, nullptr);
	EXPECT_EQ(near.other_rank(2), nullptr);
	near.load(totals_kernel);
	near.ask_for_totals(10, TOTALS_READ);
	ASSERT_EQ(near_launch(near.rank, 2), 0);
	char row[128] = {};
	EXPECT_EQ(near_push(other, NEAR_MEMORY, 0, row, 64), 0);
	EXPECT_EQ(near_poll(other, nullptr), NEAR_IDLE);
	while (near_poll(near.rank, nullptr) == NEAR_RUNNING)
		sched_yield();
}

TEST(NearThreads, CloseWaitsForKernels)
{
	Near near(options_of(near_threads, "exclusive", 8));
	near.load(totals_kernel);
	near.ask_for_totals(10000, TOTALS_PRELOAD);
	ASSERT_EQ(near_launch(near.rank, 4), 0);
}

} // namespace
