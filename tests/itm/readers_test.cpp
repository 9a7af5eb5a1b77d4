/* SPDX-License-Identifier: BSD-3-Clause
 *
 * readers_test.cpp - blocks that only read, while updates publish beside each other: they are
 * optimistic readers, and run again when they meet an update.
 */
#include "fixture.hpp"
#include "thread_ends.h"

#include <pthread.h>

extern "C" PURE void _ITM_changeTransactionMode(int);

namespace
{

long global;

void store_both(Pair *pair, long a, long b)
{
	__transaction_atomic
	{
		pair->a = a;
		pair->b = b;
	}
}
void add_to_both(Pair *pair, long n)
{
	__transaction_atomic
	{
		pair->a += n;
		in_the_middle();
		pair->b += n;
	}
}

class ItmReaders : public Itm
{
protected:
	ItmReaders()
	{
		let_updates_in();
	}
	/* Two updates meet.  From then on, plain readers would shut updates out. */
	void let_updates_in()
	{
		middle = [this] {
			if (runs++ == 0)
				elsewhere([this] { store_both(pair_, 1, 2); });
		};
		add_to_both(pair_, 0);
		middle = nullptr;
		runs = 0;
		expect_updates_in();
	}
	void expect_updates_in()
	{
		elsewhere([this] {
			fur::Thread self(heap_);
			fur_ro *ro;
			EXPECT_FALSE(fur_try_begin_ro(self, &ro));
		});
	}
	/* In the first runs of a body, another thread stores what keeps the difference. */
	void meet_updates(int times = 1)
	{
		middle = [this, times] {
			if (runs <= times)
				elsewhere([this] { store_both(pair_, 10 * runs, 10 * runs + 1); });
		};
	}
};

long difference(const Pair *pair)
{
	long result;
	__transaction_atomic
	{
		count_run();
		result = pair->b;
		in_the_middle();
		result -= pair->a;
	}
	return result;
}

/* A plain one would keep the update waiting, and never end. */
TEST_F(ItmReaders, OneThatMeetsAnUpdate_RunsAgain)
{
	fur_stats before = heap_.stats();
	meet_updates();
	EXPECT_EQ(difference(pair_), 1);
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(heap_.stats().ro_commits, before.ro_commits + 1);
	expect_updates_in();
	runs = 0;
	meet_updates(5);
	EXPECT_EQ(difference(pair_), 1);
	EXPECT_EQ(runs, 4) << "the last one reads from before-images";
	expect_updates_in();
}

/* Of more than 8 bytes. */
typedef long Two __attribute__((vector_size(16), may_alias));
long difference_of_vectors(const Two *pair)
{
	Two first, second;
	__transaction_atomic
	{
		count_run();
		first = *pair;
		in_the_middle();
		second = *pair;
	}
	return first[1] - second[0];
}

TEST_F(ItmReaders, AWideLoad_RunsAgainToo)
{
	meet_updates();
	EXPECT_EQ(difference_of_vectors(reinterpret_cast<const Two *>(pair_)), 1);
	EXPECT_EQ(runs, 2);
	expect_updates_in();
}

PURE const void *root()
{
	return fur_itm_root(0);
}
void set_root(const void *to)
{
	__transaction_atomic
	{
		fur_itm_set_root(0, to);
	}
}
bool root_stays(const Pair *pair, const void *&found)
{
	const void *first, *second;
	__transaction_atomic
	{
		count_run();
		first = pair->a ? root() : nullptr;
		in_the_middle();
		second = root();
	}
	found = second;
	return first == second;
}

TEST_F(ItmReaders, ARoot_IsOfTheSameState)
{
	const void *found;
	middle = [this] {
		if (runs == 1)
			elsewhere([this] { set_root(&pair_->b); });
	};
	EXPECT_TRUE(root_stays(pair_, found));
	EXPECT_EQ(found, &pair_->b);
	EXPECT_EQ(runs, 2);
	expect_updates_in();
}

long difference_in_nested_blocks(const Pair *pair)
{
	long result;
	__transaction_atomic
	{
		count_run();
		result = pair->b + global - global;
		__transaction_atomic
		{
			in_the_middle();
			result -= pair->a;
		}
	}
	return result;
}

TEST_F(ItmReaders, ANestedBlock_RunsAgainFromTheOutermost)
{
	meet_updates();
	EXPECT_EQ(difference_in_nested_blocks(pair_), 1);
	EXPECT_EQ(runs, 2);
	/* What it had of the memory outside the heap, it has given back. */
	elsewhere([] {
		__transaction_atomic
		{
			global++;
		}
	});
	expect_updates_in();
}

PURE void store_nested(Pair *pair)
{
	store_both(pair, 30, 31);
}
long read_and_store(Pair *pair)
{
	long result;
	__transaction_atomic
	{
		count_run();
		result = pair->a;
		store_nested(pair);
		in_the_middle();
		result += pair->b;
	}
	return result;
}

TEST_F(ItmReaders, OneThatTurnsOutToWrite_BecomesAnUpdate)
{
	EXPECT_EQ(read_and_store(pair_), 1 + 31);
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(difference(pair_), 1);
	runs = 0;
	meet_updates(3); /* the second and third run are of the update, and are defeated */
	EXPECT_EQ(read_and_store(pair_), 30 + 31);
	EXPECT_EQ(runs, 4);
	EXPECT_EQ(pair_->a, 30);
}

long read_irrevocably(const Pair *pair)
{
	long result;
	__transaction_atomic
	{
		count_run();
		result = pair->b;
		_ITM_changeTransactionMode(0);
		in_the_middle();
		result -= pair->a;
	}
	return result;
}

TEST_F(ItmReaders, OneThatBecomesIrrevocable_RunsAlone)
{
	std::thread other;
	middle = [&] {
		other = std::thread([this] { store_both(pair_, 50, 60); });
		usleep(20000);
	};
	EXPECT_EQ(read_irrevocably(pair_), 1);
	EXPECT_EQ(runs, 2);
	other.join();
	EXPECT_EQ(pair_->b - pair_->a, 10);
}

TEST_F(ItmReaders, AThreadThatEndsInside_LeavesNothing)
{
	two_words words = {&pair_->a, &global};
	pthread_t thread;
	ASSERT_EQ(pthread_create(&thread, nullptr, end_reading, &words), 0);
	pthread_join(thread, nullptr);
	add_to_both(pair_, 1);
	EXPECT_EQ(difference(pair_), 1);
	elsewhere([] {
		__transaction_atomic
		{
			global++; /* the lock is free */
		}
	});
}

/* Some blocks meet updates; no reader sees half of one. */
TEST_F(ItmReaders, NextToUpdates_SeeWholeStates)
{
	enum { UPDATERS = 3, ROUNDS = 2000 };
	std::atomic<int> updating{UPDATERS};
	std::atomic<long> wrong{0};
	std::vector<std::thread> threads;
	for (int t = 0; t < UPDATERS; t++)
		threads.emplace_back([&] {
			for (int k = 0; k < ROUNDS; k++)
				add_to_both(pair_, 1);
			updating--;
		});
	while (updating)
		wrong += difference(pair_) != 1;
	for (std::thread &t : threads)
		t.join();
	EXPECT_EQ(wrong, 0);
	EXPECT_EQ(pair_->a, 1 + UPDATERS * ROUNDS);
}

} // namespace
