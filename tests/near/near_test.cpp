/* SPDX-License-Identifier: BSD-3-Clause
 *
 * near_test.cpp - the host's calls and the kernel's, on the back end `threads`.
 */
#include "kernels/totals.h"
#include "near_fixture.hpp"

#include <gtest/gtest.h>

extern "C" const struct near_kernel totals_kernel;

namespace
{

class NearThreads : public testing::TestWithParam<const char *>
{
};

TEST_P(NearThreads, TotalsOfEachElement)
{
	for (unsigned mode : {TOTALS_READ, TOTALS_PRELOAD}) {
		Near near(options_of(near_threads, GetParam(), 3));
		near.load(totals_kernel);
		uint64_t want = near.fill(1000);
		totals shared = {};
		shared.blocks = 1000, shared.mode = mode;
		near.push_to_all(shared);
		EXPECT_EQ(near.run(5).kind, NEAR_FAULT_NONE);
		for (const totals &t : near.pull_shared<totals>()) {
			EXPECT_EQ(t.total, want);
			EXPECT_EQ(t.after_barrier, 5u);
		}
		uint64_t written = 0;
		ASSERT_EQ(near.pull_row(1000 * TOTALS_BLOCK, &written, 8), 0);
		EXPECT_EQ(written, want);
	}
}

INSTANTIATE_TEST_SUITE_P(Machines, NearThreads, testing::Values("exclusive", "coherent"),
        [](const auto &test) { return test.param; });

} // namespace
