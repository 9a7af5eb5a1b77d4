/* SPDX-License-Identifier: BSD-3-Clause
 *
 * hardware_test.cpp - transactions of GCC in hardware transactions, on Intel TSX in software
 * (tests/softtsx): they commit there, and after an abort nothing is left of a run, in the heap and
 * outside it.
 */
#include "../softtsx/use_tsx.hpp"
#include "fixture.hpp"

extern "C" {
#include "../../src/itm/itm.h"
}

namespace
{

enum { THREADS = 3, ROUNDS = 100, SEED = 5, ONE_IN = 6 };

Pair globals; /* outside the heap */

SAFE __attribute__((noinline)) void add_to(long *at, long n)
{
	*at += n;
}

long add_one(Pair *pair)
{
	long in_memory = 7;
	__transaction_atomic
	{
		pair->a++;
		globals.a++;
		add_to(&in_memory, pair->a);
		pair->b--;
		globals.b--;
	}
	return in_memory;
}

void add_in_heap(Pair *pair)
{
	__transaction_atomic
	{
		pair->a++;
		pair->b--;
	}
}

long nest(Pair *pair, bool cancel_outer)
{
	long reached = 0;
	__transaction_atomic
	{
		pair->a = 100;
		globals.a = 100;
		__transaction_atomic
		{
			pair->a = 200;
			globals.a = 200;
			if (pair->b != 12345)
				__transaction_cancel;
		}
		reached = pair->a + globals.a;
		if (cancel_outer)
			__transaction_cancel;
	}
	return reached;
}

long sum(const Pair *pair)
{
	long result;
	__transaction_atomic
	{
		result = pair->a + pair->b;
		result += globals.a + globals.b;
	}
	return result;
}

class ItmInHardware : public Itm, public ::testing::WithParamInterface<const htm_ops *>
{
protected:
	static fur::Options options()
	{
		fur::Options o = itm_options();
		o.max_threads = THREADS + 1;
		return o;
	}
	ItmInHardware() : Itm(options())
	{
		static bool installed = (softtsx::install(), true);
		(void)installed;
		globals = {};
		__transaction_atomic
		{
			pair_->a = pair_->b = 0;
		}
		make_threads();
		/* use_tsx() registers as many threads as the heap has place for. */
		fur::check(fur_thread_unregister(fur::Thread(heap_)));
		softtsx::use_tsx(heap_.get(), GetParam());
		softtsx::add_region(&globals, sizeof globals);
		softtsx::add_region(&itm_lock_words, sizeof itm_lock_words);
		/* Its logs grow in these first transactions, and what lies in them beyond their
		 * ends means nothing, so they need no rollback. */
		for (itm_thread *t = itm_threads(); t; t = t->next)
			softtsx::add_region(t, sizeof *t);
		softtsx::thread_begin();
		softtsx::always_abort(softtsx::NO_ABORT);
		softtsx::random_aborts(0, 0);
	}
	~ItmInHardware() override
	{
		softtsx::random_aborts(0, 0);
		softtsx::clear_regions();
		softtsx::thread_end();
	}
	/* Structs for THREADS threads at a time, all with logs. */
	void make_threads()
	{
		std::vector<std::thread> threads;
		std::atomic<int> here{0};
		for (int t = 0; t < THREADS; t++)
			threads.emplace_back([&] {
				nest(pair_, true);
				here++;
				while (here < THREADS)
					std::this_thread::yield();
			});
		for (std::thread &t : threads)
			t.join();
		nest(pair_, true);
	}
	/* The memory after this many calls of add_one(). */
	void expect_counts(long heap, long outside)
	{
		EXPECT_EQ(pair_->a, heap);
		EXPECT_EQ(pair_->b, -heap);
		EXPECT_EQ(globals.a, outside);
		EXPECT_EQ(globals.b, -outside);
		EXPECT_EQ(itm_lock_words.exclusive, 0u);
	}
};

TEST_P(ItmInHardware, Transactions_CommitThere)
{
	softtsx::Counters before = softtsx::counters();
	for (long k = 1; k <= 10; k++)
		EXPECT_EQ(add_one(pair_), 7 + k);
	EXPECT_EQ(softtsx::counters().committed, before.committed + 10);
	expect_counts(10, 10);
}

TEST_P(ItmInHardware, Cancel_UndoesTheHeapAndTheRest)
{
	softtsx::Counters before = softtsx::counters();
	EXPECT_EQ(nest(pair_, true), 0);
	EXPECT_EQ(softtsx::counters().aborted, before.aborted + 1);
	expect_counts(0, 0);
	EXPECT_EQ(nest(pair_, false), 200);
	EXPECT_EQ(softtsx::counters().committed, before.committed + 1);
	EXPECT_EQ(pair_->a, 100);
	EXPECT_EQ(globals.a, 100);
}

/* At any instruction of TSX, with any cause: in the begin, and in the commit. */
TEST_P(ItmInHardware, Aborts_LeaveNothing)
{
	softtsx::random_aborts(SEED, ONE_IN);
	softtsx::Counters before = softtsx::counters();
	for (long k = 1; k <= ROUNDS; k++)
		EXPECT_EQ(add_one(pair_), 7 + k);
	EXPECT_GT(softtsx::counters().aborted, before.aborted);
	EXPECT_GT(softtsx::counters().committed, before.committed);
	softtsx::random_aborts(0, 0);
	expect_counts(ROUNDS, ROUNDS);
}

TEST_P(ItmInHardware, Threads_SeeWholeTransactions)
{
	softtsx::random_aborts(SEED, ONE_IN);
	softtsx::Counters before = softtsx::counters();
	std::atomic<int> wrong{0};
	std::vector<std::thread> threads;
	for (int t = 0; t < THREADS; t++)
		threads.emplace_back([&] {
			softtsx::thread_begin();
			for (int k = 0; k < ROUNDS; k++) {
				add_one(pair_);
				add_in_heap(pair_);
				wrong += sum(pair_) != 0;
			}
			softtsx::thread_end();
		});
	for (std::thread &t : threads)
		t.join();
	EXPECT_GT(softtsx::counters().committed, before.committed);
	softtsx::random_aborts(0, 0);
	EXPECT_EQ(wrong, 0);
	expect_counts(2 * THREADS * ROUNDS, THREADS * ROUNDS);
}

INSTANTIATE_TEST_SUITE_P(BackEnds, ItmInHardware, ::testing::Values(&htm_tsx, &htm_tsx_tracked),
        [](const auto &backend) {
	        return std::string(backend.param == &htm_tsx ? "suspending" : "tracked");
        });

} // namespace
