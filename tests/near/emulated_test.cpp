/* SPDX-License-Identifier: BSD-3-Clause
 *
 * emulated_test.cpp - the emulated near-memory machines.
 */
#include "kernels/totals.h"
#include "near_fixture.hpp"

#include <gtest/gtest.h>

extern "C" const struct near_kernel totals_kernel;

namespace
{

TEST(NearEmulated, TotalsOfEachElement)
{
	for (const char *machine : {"upmem", "pul-ndp:nvm", "pul-ndp:dram"})
		for (unsigned mode : {TOTALS_READ, TOTALS_PRELOAD}) {
			Near near(options_of(near_emulated, machine, 3));
			near.load(totals_kernel);
			uint64_t want = near.fill(1000);
			totals shared = {};
			shared.blocks = 1000, shared.mode = mode;
			near.push_to_all(shared);
			near_fault_report f = near.run(near.shape.coherent ? 1 : 5);
			EXPECT_EQ(f.kind, NEAR_FAULT_NONE) << near_fault_text(f.kind);
			for (const totals &t : near.pull_shared<totals>())
				EXPECT_EQ(t.total, want);
			near_counters c = near.count();
			printf("%s %u: %lu instructions %lu cycles %lu transfers\n", machine, mode,
			        c.instructions, c.cycles, c.transfers);
		}
}

} // namespace
