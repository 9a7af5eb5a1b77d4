/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rules_test.cpp - the host's calls and the kernel's, and the faults of kernels that break the
 * rules, on every machine of the program.
 */
#include "near_fixture.hpp"

namespace
{

class NearRules : public testing::TestWithParam<MachineCase>
{
protected:
	NearRules() : near(options_of(*GetParam().backend, GetParam().machine, 3)) {}

	near_fault_report machine_does(uint32_t work, uint32_t rounds = 1)
	{
		near.load(machine_kernel);
		machine m = {};
		m.work = work, m.rounds = rounds, m.bytes = 8, m.address = 4096;
		return near.work(m, GetParam().tasklets);
	}

	unsigned most() const
	{
		return GetParam().tasklets * (near.shape.coherent ? near.shape.elements : 1);
	}

	Near near;
};

TEST_P(NearRules, TotalsOfEachElementAreRight)
{
	for (uint32_t mode : {TOTALS_READ, TOTALS_PRELOAD})
		for (uint32_t blocks : {0, 1, 5, 1000}) {
			near.load(totals_kernel);
			const uint64_t want = near.ask_for_totals(blocks, mode);
			EXPECT_EQ(near.run(GetParam().tasklets).kind, NEAR_FAULT_NONE);
			for (const totals &t : near.pull_shared<totals>()) {
				EXPECT_EQ(t.total, want);
				EXPECT_EQ(t.after_barrier, GetParam().tasklets);
			}
			const unsigned element = near.shape.elements - 1;
			uint64_t written = 0;
			ASSERT_EQ(
			        near.pull_row(blocks * TOTALS_BLOCK + element * 8, &written, 8), 0);
			EXPECT_EQ(written, want);
		}
}

TEST_P(NearRules, SharedStructsKeepTheirContentFromLaunchToLaunch)
{
	near.load(totals_kernel);
	const uint64_t want = near.ask_for_totals(10, TOTALS_READ);
	for (int k = 0; k < 3; k++)
		EXPECT_EQ(near.run(GetParam().tasklets).kind, NEAR_FAULT_NONE);
	for (const totals &t : near.pull_shared<totals>())
		EXPECT_EQ(t.total, 3 * want);
	near.load(totals_kernel);
	for (const totals &t : near.pull_shared<totals>())
		EXPECT_EQ(t.total, 0u);
}

TEST_P(NearRules, LocksExclude)
{
	EXPECT_EQ(machine_does(MACHINE_LOCKED, 500).kind, NEAR_FAULT_NONE);
	for (const machine &m : near.pull_shared<machine>())
		EXPECT_EQ(m.counter, 500u * GetParam().tasklets);
	near.push_rows(4096, std::vector<char>(8).data(), 8);
	EXPECT_EQ(machine_does(MACHINE_RACE, 100).kind, NEAR_FAULT_NONE);
	uint64_t counter = 0;
	ASSERT_EQ(near.pull_row(4096, &counter, 8), 0);
	EXPECT_EQ(counter, 100u * most());
}

/* INV-NM2.  Where transfers are delayed, the total is wrong or the load is reported. */
TEST_P(NearRules, ConsumptionBeforeTheWaitIsFound)
{
	near.load(totals_kernel);
	const uint64_t want = near.ask_for_totals(100, TOTALS_NO_WAIT);
	const near_fault_report f = near.run(GetParam().tasklets);
	const bool found =
	        f.kind == NEAR_FAULT_CONSUMED || near.pull_shared<totals>()[0].total != want;
	EXPECT_EQ(found, GetParam().delays);
}

/* INV-NM3 */
TEST_P(NearRules, ScratchOverwrittenWhileInUseIsFound)
{
	const near_fault_kind want = GetParam().delays ? NEAR_FAULT_OVERWRITTEN : NEAR_FAULT_NONE;
	near.load(totals_kernel);
	near.ask_for_totals(100, TOTALS_OVERWRITE);
	EXPECT_EQ(near.run(GetParam().tasklets).kind, want);
	EXPECT_EQ(machine_does(MACHINE_CHANGE).kind, want);
}

/* INV-NM4 */
TEST_P(NearRules, UnloadAfterReleaseIsFound)
{
	const bool delays = GetParam().delays;
	EXPECT_EQ(
	        machine_does(MACHINE_RELEASE).kind, delays ? NEAR_FAULT_RELEASED : NEAR_FAULT_NONE);
	EXPECT_EQ(
	        machine_does(MACHINE_LEAVE).kind, delays ? NEAR_FAULT_UNFINISHED : NEAR_FAULT_NONE);
}

/* INV-NM1 */
TEST_P(NearRules, TheHostTouchesNoRankThatRuns)
{
	near.load(totals_kernel);
	const uint64_t want = near.ask_for_totals(1000, TOTALS_READ);
	ASSERT_EQ(near_launch(near.rank, GetParam().tasklets), 0);
	std::vector<char> row(64 * near.shape.elements);
	const int memory = near.shape.coherent ? 0 : FUR_EBUSY;
	EXPECT_EQ(near_push(near.rank, NEAR_MEMORY, 1 << 19, row.data(), 64), memory);
	EXPECT_EQ(near_pull(near.rank, NEAR_MEMORY, 1 << 19, row.data(), 64), memory);
	EXPECT_EQ(near_push(near.rank, NEAR_SHARED, 0, row.data(), 64), FUR_EBUSY);
	EXPECT_EQ(near_pull(near.rank, NEAR_SHARED, 0, row.data(), 64), FUR_EBUSY);
	EXPECT_EQ(near_launch(near.rank, 1), FUR_EBUSY);
	EXPECT_EQ(near_load(near.rank, &machine_kernel), FUR_EBUSY);
	EXPECT_STREQ(fur_errormsg(), "near_load: rank 0 runs totals: poll until it has ended");
	while (near_poll(near.rank, nullptr) == NEAR_RUNNING)
		sched_yield();
	EXPECT_EQ(near.pull_shared<totals>()[0].total, want);
}

TEST_P(NearRules, FaultsAreReported)
{
	near.load(totals_kernel);
	near.ask_for_totals(4, TOTALS_FAULT);
	const near_fault_report f = near.run(GetParam().tasklets);
	EXPECT_EQ(f.kind, NEAR_FAULT_KERNEL);
	EXPECT_EQ(f.address, 77u);
	EXPECT_EQ(f.tasklet, GetParam().tasklets - 1);
	if (GetParam().tasklets > 1) {
		EXPECT_EQ(machine_does(MACHINE_FOREIGN).kind, NEAR_FAULT_LOCK);
	}
	if (most() > 1) {
		EXPECT_EQ(machine_does(MACHINE_CROSS).kind, NEAR_FAULT_DEADLOCK);
	}
	/* The next launch begins anew. */
	EXPECT_EQ(machine_does(MACHINE_LOCKED).kind, NEAR_FAULT_NONE);
}

TEST_P(NearRules, TransfersAreChecked)
{
	near.load(machine_kernel);
	const struct {
		uint32_t address, bytes;
		near_fault_kind exclusive, coherent;
	} cases[] = {{0, 8, NEAR_FAULT_NONE, NEAR_FAULT_NONE},
	        {(1 << 20) - 8, 8, NEAR_FAULT_NONE, NEAR_FAULT_NONE},
	        {(1 << 20) - 8, 16, NEAR_FAULT_MEMORY, NEAR_FAULT_MEMORY},
	        {0xfffffff8, 16, NEAR_FAULT_MEMORY, NEAR_FAULT_MEMORY},
	        {4, 8, NEAR_FAULT_TRANSFER, NEAR_FAULT_NONE},
	        {8, 4, NEAR_FAULT_TRANSFER, NEAR_FAULT_NONE},
	        {0, 2048, NEAR_FAULT_NONE, NEAR_FAULT_NONE},
	        {0, 0, NEAR_FAULT_TRANSFER, NEAR_FAULT_TRANSFER}};
	for (uint32_t work : {MACHINE_READ, MACHINE_WRITE})
		for (const auto &c : cases) {
			machine m = {};
			m.work = work, m.rounds = 1, m.address = c.address, m.bytes = c.bytes;
			/* Elements that share a memory would all write there. */
			const bool one = near.shape.coherent && work == MACHINE_WRITE;
			if (one && c.coherent == NEAR_FAULT_NONE)
				continue;
			const near_fault_report f = near.work(m, 1);
			EXPECT_EQ(f.kind, near.shape.coherent ? c.coherent : c.exclusive)
			        << c.address << " " << c.bytes;
			if (f.kind != NEAR_FAULT_NONE) {
				EXPECT_EQ(f.address, c.address);
			}
		}
}

TEST_P(NearRules, ArgumentsAreChecked)
{
	std::vector<char> row(64 * near.shape.elements);
	EXPECT_EQ(near_push(near.rank, NEAR_SHARED, 0, row.data(), 64), FUR_EINVAL);
	EXPECT_EQ(near_launch(near.rank, 1), FUR_EINVAL);
	near.load(totals_kernel);
	EXPECT_EQ(near_launch(near.rank, 0), FUR_EINVAL);
	EXPECT_EQ(near_launch(near.rank, near.shape.tasklets + 1), FUR_EINVAL);
	EXPECT_EQ(
	        near_push(near.rank, NEAR_SHARED, sizeof(totals) - 63, row.data(), 64), FUR_EINVAL);
	EXPECT_EQ(near_pull(near.rank, NEAR_MEMORY, UINT64_MAX, row.data(), 2), FUR_EINVAL);
	EXPECT_EQ(near_poll(near.rank, nullptr), NEAR_IDLE);
}

TEST_P(NearRules, TransfersAreCounted)
{
	near.load(totals_kernel);
	near.ask_for_totals(10, TOTALS_READ);
	EXPECT_EQ(near.run(GetParam().tasklets).kind, NEAR_FAULT_NONE);
	const near_counters c = near.count();
	EXPECT_EQ(c.launches, 1u);
	EXPECT_EQ(c.transfers, 3u * 11);
	EXPECT_EQ(c.transferred_bytes, 3u * (10 * 64 + 8));
}

INSTANTIATE_TEST_SUITE_P(
        Machines, NearRules, testing::ValuesIn(machine_cases()), [](const auto &test) {
	        std::string name = test.param.machine;
	        for (char &c : name)
		        c = isalnum(c) ? c : '_';
	        return name + "_" + std::to_string(test.param.tasklets);
        });

} // namespace
