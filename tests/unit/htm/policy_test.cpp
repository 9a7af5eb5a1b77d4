/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy_test.cpp - the classification of hardware's abort statuses, and the stack of POWER's
 * window.
 */
#include "fixture.hpp"
#include "internals.hpp"

#include <sys/mman.h>

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
	EXPECT_EQ(htm_decide(FUR_ABORT_PLAIN, &h, budget), HTM_RETRY_SOON)
	        << "a reader has no transaction to wait for";
	EXPECT_EQ(htm_decide(FUR_ABORT_PLAIN, &h, budget), HTM_RETRY_SOON);
	EXPECT_EQ(h.spent, 0u);
	EXPECT_EQ(htm_decide(FUR_ABORT_PLAIN, &h, budget), HTM_TAKE_LOCK);
	h = {};
	for (int k = 1; k < 8; k++)
		EXPECT_EQ(htm_decide(FUR_ABORT_PLAIN, &h, 1000), HTM_RETRY_SOON);
	EXPECT_EQ(htm_decide(FUR_ABORT_PLAIN, &h, 1000), HTM_TAKE_LOCK)
	        << "what readers always abort, they do not under the lock";
	h = {};
	EXPECT_EQ(htm_decide(FUR_ABORT_CAPACITY, &h, budget), HTM_RETRY);
	EXPECT_EQ(htm_decide(FUR_ABORT_CAPACITY, &h, budget), HTM_TAKE_LOCK)
	        << "capacity does not burn the whole budget";
	h = {};
	for (int k = 0; k < 100; k++)
		EXPECT_EQ(htm_decide(FUR_ABORT_FULL, &h, budget), HTM_MAKE_ROOM)
		        << "making room is no failure";
	EXPECT_EQ(htm_decide(FUR_ABORT_CONFLICT, &h, budget), HTM_RETRY);
	h = {};
	EXPECT_EQ(htm_decide(FUR_ABORT_READER, &h, budget), HTM_WAIT_READER);
	for (int k = 0; k < 100; k++)
		EXPECT_EQ(htm_decide(FUR_ABORT_LOCK, &h, budget), HTM_WAIT_LOCK)
		        << "others' falling back is no reason to";
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

#if defined(__powerpc64__)
TEST(Classify, Power)
{
	EXPECT_EQ(htm_power.classify(UINT64_C(0x014000003c000000)), FUR_ABORT_FAULT)
	        << "what QEMU's tbegin. leaves in TEXASR";
	EXPECT_EQ(htm_power.classify(UINT64_C(1) << (63 - 10)), FUR_ABORT_CAPACITY);
	EXPECT_EQ(htm_power.classify(UINT64_C(1) << (63 - 12)), FUR_ABORT_PLAIN);
	for (int bit : {11, 13, 14})
		EXPECT_EQ(htm_power.classify(UINT64_C(1) << (63 - bit)), FUR_ABORT_CONFLICT);
	for (int c : {FUR_ABORT_LOCK, FUR_ABORT_READER, FUR_ABORT_FULL})
		EXPECT_EQ(
		        htm_power.classify(static_cast<uint64_t>(1 + c) << 57 | UINT64_C(1) << 32),
		        c);
}

class Power : public HeapFile
{
};

TEST_F(Power, TbeginThatFails_FallsBackToTheLock)
{
	if (arch_cpu_detect().suspend)
		GTEST_SKIP() << "this processor has transactional memory that works";
	for (fur_isolation isolation : {FUR_OPACITY, FUR_SNAPSHOT}) {
		unlink(path_.c_str());
		fur::Options o = small_options();
		o.htm = FUR_HTM_POWER;
		o.isolation = isolation;
		fur::Heap heap = create(o);
		fur::Thread self(heap);
		for (int i = 0; i < 10; i++)
			fur::update(self, [&](fur_update *tx) { fur_set_root(tx, 0, tx); });
		EXPECT_EQ(heap.stats().lock_commits, 10u);
		EXPECT_GE(heap.stats().aborts[FUR_ABORT_FAULT], 10u) << "tbegin. was tried";
		EXPECT_EQ(heap.info().isolation, isolation);
	}
}
#endif

TEST(WindowStack, HasAGuardBelow)
{
	const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
	auto *end = static_cast<char *>(window_stack_new());
	ASSERT_NE(end, nullptr);
	EXPECT_EQ(reinterpret_cast<uintptr_t>(end) % 16, 0u);
	/* The kernel stores to the stack and below it; where it must not, it reports an error. */
	int zero = ::open("/dev/zero", O_RDONLY);
	ASSERT_GE(zero, 0);
	EXPECT_EQ(::read(zero, end, 256), 256) << "a frame's header";
	char *low = end;
	while (::read(zero, low - 1, 1) == 1)
		low--;
	EXPECT_EQ(errno, EFAULT);
	EXPECT_EQ(reinterpret_cast<uintptr_t>(low) % page, 0u);
	EXPECT_GE(end - low, 128 * 1024) << "room for a signal's handler";
	EXPECT_EQ(msync(low - page, page, MS_ASYNC), 0)
	        << "mapped, and not accessible: no gap that another mapping may take";
	close(zero);
	window_stack_delete(end);
	EXPECT_NE(msync(low - page, page, MS_ASYNC), 0) << "the guard goes with the stack";
}

} // namespace
