/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stacks_test.cpp - which memory transactions take for their thread's own stack: with other memory
 * near the stack, on a coroutine's stack, on a signal's, and where the stack has grown.
 */
#include "fixture.hpp"

#include <alloca.h>
#include <csignal>
#include <cstring>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

namespace
{

enum : size_t { KIB = 1 << 10, MIB = 1 << 20 };

SAFE __attribute__((noinline)) void set(long *at, long value)
{
	*at = value;
}

/* The transaction stores to memory outside the heap, and to a variable of its own function, which
 * it passes to another one; and that has an array on the stack. */
SAFE __attribute__((noinline)) long fill_frame(long *at)
{
	long frame[512];
	for (long k = 0; k < 512; k++)
		set(&frame[k], k);
	set(at, 2);
	return frame[511];
}

__attribute__((noinline)) long cancelled(long *at)
{
	long own = 1;
	__transaction_atomic
	{
		set(&own, 2);
		fill_frame(at);
		__transaction_cancel;
	}
	return own;
}

__attribute__((noinline)) long committed(long *at)
{
	long own = 1;
	__transaction_atomic
	{
		set(&own, fill_frame(at));
	}
	return own;
}

void expect_undone(long *at)
{
	*at = 1;
	EXPECT_EQ(cancelled(at), 1);
	EXPECT_EQ(*at, 1) << "the memory keeps what a cancelled transaction stored";
	EXPECT_EQ(committed(at), 511);
	EXPECT_EQ(*at, 2);
	*at = 1;
}

/* Another thread cannot have what a transaction has stored, until that has ended. */
void expect_locked(Pair *pair, long *at)
{
	bool waits = false;
	std::atomic<bool> done{false};
	std::thread other;
	middle = [&] {
		other = std::thread([&] {
			__transaction_atomic
			{
				set(at, 4);
			}
			done = true;
		});
		usleep(20000);
		waits = !done;
	};
	__transaction_atomic
	{
		set(at, 3);
		in_the_middle();
		pair->a = *at;
	}
	middle = nullptr;
	other.join();
	EXPECT_TRUE(waits);
	EXPECT_EQ(pair->a, 3);
	EXPECT_EQ(*at, 4);
}

/* The lowest page of the main thread's stack so far. */
uint8_t *stack_end()
{
	std::ifstream maps("/proc/self/maps");
	for (std::string line; std::getline(maps, line);)
		if (line.find("[stack]") != std::string::npos)
			return reinterpret_cast<uint8_t *>(std::stoull(line, nullptr, 16));
	return nullptr;
}

class Stacks : public Itm
{
protected:
	/* In a coroutine with that stack. */
	static void on_stack(void *stack, size_t bytes, const std::function<void()> &work)
	{
		static const std::function<void()> *now;
		ucontext_t back, there;
		now = &work;
		ASSERT_EQ(getcontext(&there), 0);
		there.uc_stack.ss_sp = stack;
		there.uc_stack.ss_size = bytes;
		there.uc_link = &back;
		makecontext(
		        &there, [] { (*now)(); }, 0);
		ASSERT_EQ(swapcontext(&back, &there), 0);
	}
};

/* ------------------------------------------------------------ the main thread's stack */

/* The stack's limit is 8 MiB, or none; it has grown much less far, and these pages come after the
 * thread's first transaction. */
TEST_F(Stacks, AMappingBelowTheMainThreadsStack_IsNotTheStack)
{
	uint8_t *end = stack_end();
	ASSERT_NE(end, nullptr);
	void *page = mmap(end - 3 * MIB, 64 * KIB, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (page == MAP_FAILED)
		GTEST_SKIP() << "no room below the stack: " << strerror(errno);
	expect_undone(static_cast<long *>(page));
	expect_locked(pair_, static_cast<long *>(page));
	munmap(page, 64 * KIB);
}

/* With `ulimit -s unlimited`, the range of the stack begins at the mapping that the process had
 * below it at the first transaction. */
TEST_F(Stacks, WithoutALimit_MemoryOfMallocIsNotTheStack)
{
	std::string path = path_ + "-unlimited";
	rlimit limit;
	ASSERT_EQ(getrlimit(RLIMIT_STACK, &limit), 0);
	if (limit.rlim_max != RLIM_INFINITY)
		GTEST_SKIP() << "this process may not have a stack without a limit";
	/* The limit at exec() decides the layout of memory. */
	std::string command = "ulimit -s unlimited && exec /proc/" + std::to_string(getpid()) +
	                      "/exe --gtest_also_run_disabled_tests "
	                      "--gtest_filter=Stacks.DISABLED_MallocInTheRangeOfTheStack";
	EXPECT_EQ(system(command.c_str()), 0);
}

TEST_F(Stacks, DISABLED_MallocInTheRangeOfTheStack)
{
	enum { BLOCKS = 4000, BYTES = 1000 };
	std::vector<long *> blocks;
	for (int k = 0; k < BLOCKS; k++)
		blocks.push_back(static_cast<long *>(malloc(BYTES)));
	int kept = 0;
	for (long *block : blocks) {
		*block = 1;
		cancelled(block);
		kept += *block != 1;
	}
	EXPECT_EQ(kept, 0) << "blocks that keep what a cancelled transaction stored";
	for (long *block : blocks)
		free(block);
}

/* Below the part that the stack had at the first transaction. */
__attribute__((noinline)) void deep(size_t bytes, long *at)
{
	auto *room = static_cast<uint8_t *>(alloca(bytes));
	for (size_t k = bytes; k >= 4096; k -= 4096)
		static_cast<volatile uint8_t *>(room)[k - 1] = 1;
	expect_undone(at);
	long own = 1;
	expect_undone(&own);
}

TEST_F(Stacks, TheMainThreadsStackGrows)
{
	auto at = std::make_unique<long>(1);
	for (size_t bytes : {64 * KIB, 1 * MIB, 4 * MIB})
		deep(bytes, at.get());
	elsewhere([&] { deep(MIB, at.get()); });
}

/* ------------------------------------------------------------ other stacks */

TEST_F(Stacks, MemoryNextToACoroutinesStack_IsNotTheStack)
{
	enum : size_t { BELOW = 16 * KIB, STACK = 40 * KIB };
	auto memory = std::make_unique<uint8_t[]>(BELOW + STACK + BELOW);
	for (size_t offset : {size_t(0), BELOW - 64, BELOW + STACK})
		on_stack(&memory[BELOW], STACK, [&] {
			auto *at = reinterpret_cast<long *>(&memory[offset]);
			expect_undone(at);
			expect_locked(pair_, at);
		});
}

TEST_F(Stacks, ACoroutinesOwnVariables)
{
	auto memory = std::make_unique<uint8_t[]>(256 * KIB);
	on_stack(memory.get(), 256 * KIB, [] {
		long own = 1;
		expect_undone(&own);
	});
}

/* The coroutine's stack is a variable of a thread, and functions of that thread have theirs below
 * it. */
__attribute__((noinline)) void variable_below(
        void *stack, size_t bytes, void (*on)(void *, size_t, const std::function<void()> &))
{
	long below = 1;
	ASSERT_LT(reinterpret_cast<uintptr_t>(&below), reinterpret_cast<uintptr_t>(stack));
	on(stack, bytes, [&] { expect_undone(&below); });
}

TEST_F(Stacks, ACoroutinesStack_InTheThreadsOwn)
{
	elsewhere([] {
		uint8_t stack[256 * KIB];
		variable_below(stack, sizeof stack, on_stack);
	});
}

long *of_handler;
bool handled;

TEST_F(Stacks, ASignalsStack)
{
	enum : size_t { BELOW = 16 * KIB, STACK = 40 * KIB };
	auto memory = std::make_unique<uint8_t[]>(BELOW + STACK);
	of_handler = reinterpret_cast<long *>(&memory[BELOW - 64]);
	handled = false;
	elsewhere([&] {
		stack_t stack = {}, before;
		struct sigaction action = {}, old;
		stack.ss_sp = &memory[BELOW];
		stack.ss_size = STACK;
		action.sa_flags = SA_ONSTACK;
		action.sa_handler = [](int) {
			expect_undone(of_handler);
			handled = true;
		};
		ASSERT_EQ(sigaltstack(&stack, &before), 0);
		ASSERT_EQ(sigaction(SIGUSR1, &action, &old), 0);
		raise(SIGUSR1);
		sigaction(SIGUSR1, &old, nullptr);
		sigaltstack(&before, nullptr);
	});
	EXPECT_TRUE(handled);
}

} // namespace
