/* SPDX-License-Identifier: BSD-3-Clause
 *
 * threads_test.cpp - transactions of GCC that meet: bodies that are defeated, isolation in the heap
 * and outside it, irrevocable transactions, exceptions, threads that end, and failures.
 */
#include "fixture.hpp"
#include "thread_ends.h"

#include <exception>
#include <pthread.h>
#include <sched.h>
#include <stdexcept>

extern "C" PURE int _ITM_inTransaction(void);
extern "C" PURE uint64_t _ITM_getTransactionId(void);
extern "C" void _ITM_addUserUndoAction(void (*)(void *), void *);

namespace
{

enum { THREADS = 4, ROUNDS = 500 };
long global_a, global_b;

PURE void yield()
{
	sched_yield();
}

/* Transactions on the heap alone: they load nothing from a test's objects, which lie outside. */
void store_to(long *at, long value)
{
	__transaction_atomic
	{
		*at = value;
	}
}

/* In the first runs of a body: another thread stores to a word that the body has loaded. */
void defeat_by_storing(long *to, long value, int times = 1)
{
	middle = [=] {
		if (runs <= times)
			std::thread(store_to, to, value * runs).join();
	};
}

/* ------------------------------------------------------------ runs that do not count */

std::atomic<int> undone;
PURE void count_undo()
{
	_ITM_addUserUndoAction([](void *) { undone++; }, nullptr);
}
SAFE __attribute__((noinline)) void add_to(long *at, long n)
{
	*at += n;
}

long defeated(Pair *pair)
{
	long in_memory = 5;
	__transaction_atomic
	{
		count_run();
		count_undo();
		long seen = pair->a;
		add_to(&in_memory, seen);
		global_a++;
		pair->b = seen + 1;
		in_the_middle();
		pair->a = seen + 1;
	}
	return in_memory;
}

TEST_F(Itm, ADefeatedBody_LeavesNothing)
{
	global_a = 0;
	undone = 0;
	defeat_by_storing(&pair_->a, 50);
	EXPECT_EQ(defeated(pair_), 55);
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(undone, 1);
	EXPECT_EQ(global_a, 1);
	EXPECT_EQ(pair_->a, 51);
	EXPECT_EQ(pair_->b, 51);
	EXPECT_EQ(heap_.stats().defeats, 1u);
}

TEST_F(Itm, ABodyThatIsAlwaysDefeated_RunsSeriallyAtLast)
{
	defeat_by_storing(&pair_->a, 100, 2);
	defeated(pair_);
	EXPECT_EQ(runs, 3);
	EXPECT_EQ(pair_->a, 201);
}

/* Of bytes that the transaction has named, nothing is undone. */
extern "C" PURE void _ITM_dropReferences(void *, size_t);
char dropped[100];

void cancel_after_drop()
{
	__transaction_atomic
	{
		memset(dropped, 2, sizeof dropped);
		dropped[70] = 3;
		_ITM_dropReferences(dropped + 10, 30);
		_ITM_dropReferences(dropped + 70, 1);
		__transaction_cancel;
	}
}

TEST_F(Itm, DroppedBytes_AreNotUndone)
{
	memset(dropped, 1, sizeof dropped);
	cancel_after_drop();
	for (size_t k = 0; k < sizeof dropped; k++)
		EXPECT_EQ(dropped[k], k >= 10 && k < 40 ? 2 : k == 70 ? 3 : 1) << k;
}

/* ------------------------------------------------------------ isolation */

template <class Work>
void in_threads(Work work)
{
	std::vector<std::thread> threads;
	for (int t = 0; t < THREADS; t++)
		threads.emplace_back(work, t);
	for (std::thread &t : threads)
		t.join();
}

void increment_both(Pair *pair)
{
	__transaction_atomic
	{
		long outside = global_a, inside = pair->a;
		yield();
		global_a = outside + 1;
		pair->a = inside + 1;
	}
}

TEST_F(Itm, Increments_AreNotLost)
{
	global_a = 0;
	pair_->a = 0;
	in_threads([&](int) {
		for (int k = 0; k < ROUNDS; k++)
			increment_both(pair_);
	});
	EXPECT_EQ(global_a, THREADS * ROUNDS);
	EXPECT_EQ(pair_->a, THREADS * ROUNDS);
}

void move_one(Pair *pair)
{
	__transaction_atomic
	{
		global_a++;
		pair->a++;
		yield();
		pair->b--;
		global_b--;
	}
}
long sum_outside()
{
	long sum;
	__transaction_atomic
	{
		sum = global_a;
		yield();
		sum += global_b;
	}
	return sum;
}
long sum_inside(const Pair *pair)
{
	long sum;
	__transaction_atomic
	{
		sum = pair->a;
		yield();
		sum += pair->b;
	}
	return sum;
}

TEST_F(Itm, Readers_SeeWholeTransactions)
{
	global_a = global_b = 0;
	__transaction_atomic
	{
		pair_->a = pair_->b = 0;
	}
	std::atomic<long> wrong{0};
	in_threads([&](int thread) {
		for (int k = 0; k < ROUNDS; k++)
			if (thread < 2)
				move_one(pair_);
			else if (sum_inside(pair_) != 0 || sum_outside() != 0)
				wrong++;
	});
	EXPECT_EQ(wrong, 0);
	EXPECT_EQ(pair_->a, 2 * ROUNDS);
	EXPECT_EQ(global_b, -2 * ROUNDS);
}

/* It has the memory outside the heap for itself. */
TEST_F(Itm, TransactionsOnTheHeap_RunNextToOneThatStoresOutside)
{
	middle = [&] {
		elsewhere([&] {
			store_to(&pair_->b, 77);
			EXPECT_EQ(sum_inside(pair_), 78);
		});
	};
	__transaction_atomic
	{
		global_a = 5;
		in_the_middle();
		global_b = pair_->b;
	}
	EXPECT_EQ(global_b, 77);
}

/* ------------------------------------------------------------ irrevocable */

std::atomic<int> effects;
/* GCC knows no clone of it. */
__attribute__((noinline)) long affect(const Pair *pair)
{
	effects++;
	EXPECT_EQ(_ITM_inTransaction(), 2);
	const volatile Pair *seen = pair;
	long a = seen->a;
	sched_yield();
	EXPECT_EQ(seen->a, a);
	return a;
}

long relaxed(Pair *pair)
{
	long seen = 0;
	__transaction_relaxed
	{
		count_run();
		pair->a += 100;
		in_the_middle();
		seen = affect(pair);
	}
	return seen;
}

TEST_F(Itm, UnsafeCode_RunsOnce_AndSeesItsTransactionsStores)
{
	effects = 0;
	defeat_by_storing(&pair_->a, 1000);
	EXPECT_EQ(relaxed(pair_), 1100);
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(effects, 1);
	EXPECT_EQ(pair_->a, 1100);
	EXPECT_EQ(_ITM_inTransaction(), 0);
}

TEST_F(Itm, UnsafeCode_RunsAlone)
{
	effects = 0;
	in_threads([&](int thread) {
		for (int k = 0; k < ROUNDS; k++) {
			if (thread == 0)
				relaxed(pair_);
			else
				increment_both(pair_);
		}
	});
	EXPECT_EQ(effects, ROUNDS);
	EXPECT_EQ(pair_->a, 1 + 100 * ROUNDS + (THREADS - 1) * ROUNDS);
}

TEST_F(Itm, ABlockOfUnsafeCodeOnly)
{
	long seen;
	__transaction_atomic
	{
		pair_->a = 12;
	}
	__transaction_relaxed
	{
		seen = affect(pair_);
	}
	EXPECT_EQ(seen, 12);
}

TEST_F(Itm, APointerToUnsafeCode_MakesATransactionIrrevocable)
{
	long (*volatile pointer)(const Pair *) = affect;
	long (*call)(const Pair *) = pointer, seen;
	__transaction_relaxed
	{
		pair_->a = 13;
		seen = call(pair_);
		pair_->b = seen; /* instrumented */
	}
	EXPECT_EQ(seen, 13);
	EXPECT_EQ(sum_inside(pair_), 26);
}

/* A function with an atomic block also logs its stores there. */
TEST_F(Itm, AnAtomicBlock_CalledByUnsafeCode)
{
	uint64_t before = heap_.stats().log_entries;
	__transaction_relaxed
	{
		affect(pair_);
		store_to(&pair_->b, 14);
	}
	EXPECT_EQ(pair_->b, 14);
	EXPECT_EQ(heap_.stats().log_entries, before + 1);
}

TEST_F(Itm, Transactions_HaveNumbers)
{
	uint64_t first, second, inner;
	int kind;
	__transaction_atomic
	{
		first = _ITM_getTransactionId();
		kind = _ITM_inTransaction();
		__transaction_atomic
		{
			inner = _ITM_getTransactionId();
		}
	}
	__transaction_atomic
	{
		second = _ITM_getTransactionId();
	}
	EXPECT_EQ(kind, 1);
	EXPECT_EQ(first, inner);
	EXPECT_NE(first, second);
	EXPECT_EQ(_ITM_getTransactionId(), 1u);
}

/* ------------------------------------------------------------ exceptions */

SAFE __attribute__((noinline)) void throw_value(long value)
{
	throw value;
}

/* Nothing is left of exceptions. */
void expect_no_exception()
{
	EXPECT_EQ(std::uncaught_exceptions(), 0);
	EXPECT_EQ(std::current_exception(), nullptr);
}

void leave_by_exception(Pair *pair)
{
	__transaction_atomic
	{
		count_run();
		pair->b = pair->a;
		in_the_middle();
		throw_value(pair->b + 1);
	}
}

TEST_F(Itm, AnException_LeavesTheBlock_WhichCommits)
{
	for (bool defeat : {false, true}) {
		runs = 0;
		if (defeat)
			defeat_by_storing(&pair_->a, 60);
		long caught = 0;
		try {
			leave_by_exception(pair_);
		} catch (long value) {
			caught = value;
		}
		EXPECT_EQ(runs, defeat ? 2 : 1);
		EXPECT_EQ(caught, defeat ? 61 : 2);
		EXPECT_EQ(pair_->b, defeat ? 60 : 1);
		expect_no_exception();
	}
}

/* When the run is given up, its exception has been caught, or is being handled. */
void catch_inside(Pair *pair, bool in_handler)
{
	__transaction_atomic
	{
		count_run();
		long seen = pair->a;
		try {
			throw_value(seen + 7);
		} catch (long value) {
			pair->b = value;
			if (in_handler) {
				in_the_middle();
				pair->b += pair->a;
			}
		}
		if (!in_handler)
			in_the_middle();
		pair->a = seen + 1;
	}
}

TEST_F(Itm, AnExceptionInsideTheBlock_IsForgotten_WhenItRunsAgain)
{
	for (bool in_handler : {false, true}) {
		__transaction_atomic
		{
			pair_->a = 1;
		}
		runs = 0;
		defeat_by_storing(&pair_->a, 30);
		catch_inside(pair_, in_handler);
		EXPECT_EQ(runs, 2);
		EXPECT_EQ(pair_->a, 31);
		EXPECT_EQ(pair_->b, in_handler ? 67 : 37);
		expect_no_exception();
	}
}

void cancel_in_handler(Pair *pair, bool outer)
{
	__transaction_atomic
	{
		pair->a = 5;
		__transaction_atomic
		{
			pair->b = 6;
			try {
				throw_value(1);
			} catch (long) {
				__transaction_cancel;
			}
		}
		if (outer)
			__transaction_cancel;
	}
}

TEST_F(Itm, ACancelInAHandler_ForgetsTheException)
{
	cancel_in_handler(pair_, true);
	EXPECT_EQ(pair_->a + pair_->b, 3);
	expect_no_exception();
	cancel_in_handler(pair_, false);
	EXPECT_EQ(pair_->a, 5);
	EXPECT_EQ(pair_->b, 2);
	expect_no_exception();
	EXPECT_THROW(leave_by_exception(pair_), long);
}

/* ------------------------------------------------------------ threads that end */

TEST_F(Itm, ThreadsThatHaveEnded_GiveTheirRegistrationBack)
{
	for (int k = 0; k < 100; k++) /* the heap is made for 16 */
		elsewhere([&] { increment_both(pair_); });
	EXPECT_EQ(pair_->a, 101);
}

TEST_F(Itm, AThreadThatEndsInside_IsRolledBack)
{
	global_a = 3;
	two_words words = {&pair_->a, &global_a};
	pthread_t thread;
	ASSERT_EQ(pthread_create(&thread, nullptr, end_inside, &words), 0);
	pthread_join(thread, nullptr);
	EXPECT_EQ(global_a, 3);
	EXPECT_EQ(pair_->a, 1);
	increment_both(pair_); /* the lock is free */
	elsewhere([&] { increment_both(pair_); });
	EXPECT_EQ(global_a, 5);
	EXPECT_EQ(pair_->a, 3);
}

/* ------------------------------------------------------------ failures */

using ItmDeathTest = Itm;

/* A child of fork() cannot use the heap of its parent. */
Pair *heap_of_the_child()
{
	char path[] = "/tmp/fur-test-XXXXXX";
	close(mkstemp(path));
	unlink(path);
	fur_heap *heap;
	fur::Options o = itm_options();
	fur::check(fur_create(path, &o, &heap));
	unlink(path);
	fur::check(fur_itm_use(heap));
	Pair *pair;
	__transaction_atomic
	{
		pair = static_cast<Pair *>(fur_itm_alloc(sizeof *pair));
	}
	return pair;
}

void store_much()
{
	heap_of_the_child();
	__transaction_atomic
	{
		for (int k = 0; k < 100; k++)
			memset(fur_itm_alloc(4096), k, 4096);
	}
}

void free_heap_memory()
{
	Pair *pair = heap_of_the_child();
	__transaction_atomic
	{
		free(pair);
	}
}

void begin_inside_an_update()
{
	Pair *pair = heap_of_the_child();
	fur_thread *self;
	fur_update *tx;
	fur_heap *heap;
	fur::Options o = itm_options();
	std::string path = "/tmp/fur-test-second-" + std::to_string(getpid());
	fur::check(fur_create(path.c_str(), &o, &heap));
	unlink(path.c_str());
	fur::check(fur_itm_use(heap));
	fur::check(fur_thread_register(heap, nullptr, &self));
	fur::check(fur_begin_update(self, &tx));
	__transaction_atomic
	{
		pair->a = 1;
	}
}

void call_without_clone()
{
	Pair *pair = heap_of_the_child();
	typedef long (*SafeFunction)(const Pair *) __attribute__((transaction_safe));
	auto pointer = reinterpret_cast<SafeFunction>(affect);
	SafeFunction volatile call = pointer;
	SafeFunction called = call;
	__transaction_atomic
	{
		pair->a = called(pair);
	}
}

TEST_F(ItmDeathTest, Failures_TellTheProblemAndTheRemedy)
{
	EXPECT_DEATH(increment_both(pair_), "child of fork\\(\\).*parent");
	EXPECT_DEATH(store_much(), "redo log.*--log-bytes");
	EXPECT_DEATH(free_heap_memory(), "memory of the heap to free.*fur_itm_free");
	EXPECT_DEATH(begin_inside_an_update(), "has an update open: end that first");
	EXPECT_DEATH(call_without_clone(), "through a pointer.*transaction_safe");
	EXPECT_DEATH((void)fur_itm_root(0), "fur_itm_root was called outside a transaction");
	EXPECT_DEATH((void)fur_itm_alloc(8), "fur_itm_alloc was called outside a transaction");
	ASSERT_EQ(fur_itm_use(nullptr), 0);
	EXPECT_DEATH(increment_both(pair_), "named no heap: call fur_itm_use");
}

TEST_F(ItmDeathTest, TheProgram_MayReportAFailureItself)
{
	fur_itm_on_failure([](int error, const char *message) {
		fprintf(stderr, "mine: %d, %s\n", error, message);
		_exit(7);
	});
	EXPECT_EXIT(store_much(), ::testing::ExitedWithCode(7), "mine: -15, a transaction failed");
	EXPECT_EQ(FUR_ETOOBIG, -15);
}

} // namespace
