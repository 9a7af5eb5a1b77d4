/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fork_test.cpp - transactions in a child of fork(), whose parent's threads were in the middle of
 * others.
 */
#include "fixture.hpp"

#include <climits>

extern "C" PURE int _ITM_inTransaction(void);

namespace
{

long global_a, global_b;

class ItmFork : public Itm
{
protected:
	ItmFork()
	{
		fur::Options o = itm_options();
		o.address = 0;
		own_ = path_ + "-child";
		fur::Heap(fur::Heap::create(own_, o)).close();
	}
	~ItmFork() override
	{
		unlink(own_.c_str());
	}
	/* The child closes the copy, and uses a heap of its own. */
	void in_child()
	{
		run_in_child([this] { work(); });
	}
	/* Another thread is in the middle of this transaction as long as the child works. */
	template <class Transaction>
	void while_another(Transaction transaction)
	{
		std::atomic<bool> inside{false}, done{false};
		middle = [&] {
			inside = true;
			while (!done)
				usleep(1000);
		};
		std::thread other(transaction);
		while (!inside)
			usleep(1000);
		in_child();
		done = true;
		other.join();
		middle = nullptr;
	}

private:
	static void add_to_globals()
	{
		__transaction_atomic
		{
			global_a++;
			global_b = global_a;
		}
	}
	void work()
	{
		ASSERT_EQ(fur_itm_use(nullptr), 0);
		ASSERT_EQ(fur_close(heap_.get()), 0);
		fur::Heap mine = fur::Heap::open(own_, itm_options());
		ASSERT_EQ(fur_itm_use(mine), 0);
		long seen;
		global_a = 0;
		__transaction_atomic
		{
			seen = global_a; /* shares the lock */
			fur_itm_set_root(0, &global_a);
		}
		EXPECT_EQ(seen, 0);
		add_to_globals();
		for (int k = 0; k < 3; k++)
			elsewhere(add_to_globals);
		EXPECT_EQ(global_b, 4);
		ASSERT_EQ(fur_itm_use(nullptr), 0);
		mine.close();
	}
	std::string own_;
};

TEST_F(ItmFork, WhileAnotherThreadHasTheLock)
{
	while_another([] {
		__transaction_atomic
		{
			global_a = 7;
			in_the_middle();
			global_b = 7;
		}
	});
	EXPECT_EQ(global_b, 7);
}

TEST_F(ItmFork, WhileAnotherThreadSharesTheLock)
{
	while_another([] {
		long seen;
		__transaction_atomic
		{
			seen = global_a;
			in_the_middle();
		}
		EXPECT_EQ(seen, global_a);
	});
}

TEST_F(ItmFork, WhileAnotherThreadIsIrrevocable)
{
	while_another([] {
		__transaction_relaxed
		{
			middle();
		}
	});
}

TEST_F(ItmFork, WhileAnotherThreadIsInTheHeap)
{
	Pair *pair = pair_;
	while_another([pair] {
		__transaction_atomic
		{
			pair->a = 7;
			in_the_middle();
			pair->b = 7;
		}
	});
	EXPECT_EQ(pair_->b, 7);
}

/* The lock is the forking thread's own: it keeps it in the child, and in the parent. */
TEST_F(ItmFork, InsideATransactionWithTheLock)
{
	pid_t child = -1;
	int in_transaction = 0;
	middle = [&] {
		child = fork();
		in_transaction = _ITM_inTransaction();
		if (child == 0)
			_exit(in_transaction ? 0 : 1);
	};
	__transaction_atomic
	{
		global_a = 8;
		in_the_middle();
		global_b = global_a;
	}
	int status;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(global_b, 8);
	elsewhere([] {
		__transaction_atomic
		{
			global_a = 9;
		}
	});
	EXPECT_EQ(global_a, 9);
}

} // namespace
