/* SPDX-License-Identifier: BSD-3-Clause
 *
 * thread_end_test.cpp - fur_close() while a registered thread ends.  Only pthread_join() waits for
 * the destructors of a thread; Python's Thread.join(), or a flag that the thread has set, does not.
 */
#include "fixture.hpp"
#include "internals.hpp"

#include <atomic>
#include <thread>

/* The linker puts this function in the place of tx_roll_back_all() (--wrap, meson.build). */
static std::atomic<bool> stopped, there;
extern "C" {
void __real_tx_roll_back_all(fur_thread *t);
void __wrap_tx_roll_back_all(fur_thread *t);
}
void __wrap_tx_roll_back_all(fur_thread *t)
{
	there = stopped.load();
	while (stopped)
		usleep(100);
	__real_tx_roll_back_all(t);
}

namespace
{

fur_thread *register_here(fur_heap *heap)
{
	fur_thread *self;
	EXPECT_EQ(fur_thread_register(heap, nullptr, &self), 0) << fur_errormsg();
	return self;
}

class ThreadEnd : public HeapFile
{
protected:
	ThreadEnd()
	{
		const fur_options o = small_options();
		EXPECT_EQ(fur_create(path_.c_str(), &o, &heap_), 0) << fur_errormsg();
	}
	~ThreadEnd() override
	{
		release();
		if (thread_.joinable())
			thread_.join();
	}

	/* A thread that registers, does this, and ends: it stops in its destructor. */
	template <class Work>
	void stop_a_thread_in_its_end(Work work)
	{
		stopped = true;
		thread_ = std::thread([this, work] { work(register_here(heap_)); });
		while (!there)
			usleep(100);
	}
	static void release()
	{
		stopped = there = false;
	}
	/* Close the heap in another thread, while the first one ends. */
	void close_meanwhile()
	{
		std::atomic<bool> closed{false};
		std::thread closing([&] {
			EXPECT_EQ(fur_close(heap_), 0) << fur_errormsg();
			closed = true;
		});
		usleep(50000);
		EXPECT_FALSE(closed) << "the thread still uses the heap";
		release();
		closing.join();
		thread_.join();
	}

	fur_heap *heap_;
	std::thread thread_;
};

TEST_F(ThreadEnd, CloseWaitsForIt)
{
	stop_a_thread_in_its_end([](fur_thread *) {});
	close_meanwhile();
	EXPECT_EQ(open_result(), 0) << fur_errormsg();
}

TEST_F(ThreadEnd, CloseWaitsForItsUpdateToRollBack)
{
	stop_a_thread_in_its_end([this](fur_thread *self) {
		fur_update *tx;
		EXPECT_EQ(fur_begin_update(self, &tx), 0);
		fur_set_root(tx, 0, heap_base(heap_));
	});
	close_meanwhile();
	const fur_options o = small_options();
	ASSERT_EQ(fur_open(path_.c_str(), &o, &heap_), 0) << fur_errormsg();
	EXPECT_EQ(root_at_rest(heap_, 0), nullptr);
	EXPECT_EQ(fur_close(heap_), 0);
}

TEST_F(ThreadEnd, AChildClosesItsCopyWithoutIt)
{
	stop_a_thread_in_its_end([](fur_thread *) {});
	run_in_child([&] { EXPECT_EQ(fur_close(heap_), 0) << fur_errormsg(); });
	close_meanwhile();
}

/* The C library reads what the destructor gets, and then calls it: the heap may be closed in
 * between, and another one may have its memory. */
TEST_F(ThreadEnd, ComesAfterTheClose)
{
	fur_thread *mine = register_here(heap_);
	std::thread([&] { thread_ended(mine); }).join();
	EXPECT_EQ(fur_thread_transaction(mine), FUR_TRANSACTION_NONE)
	        << "another thread's end has taken this registration";
	EXPECT_EQ(fur_close(heap_), 0);
	thread_ended(mine);
}

} // namespace
