/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy_test.cpp - what is made of hardware's abort statuses.
 */
#include "fixture.hpp"
#include "internals.hpp"

namespace
{

TEST(Policy, Table)
{
	const uint32_t budget = 3;
	htm_history h{};
	EXPECT_EQ(htm_decide(FUR_ABORT_CONFLICT, &h, budget), HTM_RETRY);
	EXPECT_EQ(htm_decide(FUR_ABORT_CONFLICT, &h, budget), HTM_RETRY);
	EXPECT_EQ(htm_decide(FUR_ABORT_CONFLICT, &h, budget), HTM_TAKE_LOCK);
	h = {};
	EXPECT_EQ(htm_decide(FUR_ABORT_CAPACITY, &h, budget), HTM_RETRY);
	EXPECT_EQ(htm_decide(FUR_ABORT_CAPACITY, &h, budget), HTM_TAKE_LOCK) << "capacity does not burn the whole budget";
	h = {};
	for (int k = 0; k < 100; k++)
		EXPECT_EQ(htm_decide(FUR_ABORT_FULL, &h, budget), HTM_MAKE_ROOM) << "making room is no failure";
	EXPECT_EQ(htm_decide(FUR_ABORT_CONFLICT, &h, budget), HTM_RETRY);
	h = {};
	EXPECT_EQ(htm_decide(FUR_ABORT_READER, &h, budget), HTM_WAIT_READER);
	EXPECT_EQ(htm_decide(FUR_ABORT_LOCK, &h, budget), HTM_WAIT_LOCK);
	EXPECT_EQ(h.spent, 0u);
	EXPECT_EQ(htm_decide(FUR_ABORT_FAULT, &h, budget), HTM_RETRY);
	EXPECT_EQ(h.spent, 0u) << "a fault does not burn the budget";
}

#if defined(__x86_64__)
TEST(Classify, Tsx)
{
	EXPECT_EQ(htm_tsx.classify(0), FUR_ABORT_FAULT);
	EXPECT_EQ(htm_tsx.classify(1u << 2 | 1u << 1), FUR_ABORT_CONFLICT);
	EXPECT_EQ(htm_tsx.classify(1u << 3), FUR_ABORT_CAPACITY);
	EXPECT_EQ(htm_tsx.classify(1u << 3 | 1u << 2), FUR_ABORT_CAPACITY);
	for (int c : {FUR_ABORT_LOCK, FUR_ABORT_READER, FUR_ABORT_FULL})
		EXPECT_EQ(htm_tsx.classify(1u | static_cast<unsigned>(1 + c) << 24), c);
	EXPECT_EQ(htm_tsx.classify(1u | 0xffu << 24), FUR_ABORT_FAULT);
}
#endif

} // namespace
