/* SPDX-License-Identifier: BSD-3-Clause
 *
 * software.hpp - a heap without hardware transactions, an update in the mode of the test's choice,
 * and a second thread that does as it is told in the middle of the first thread's update.
 */
#ifndef SOFTWARE_HPP
#define SOFTWARE_HPP

#include "census.hpp"
#include "fixture.hpp"
#include "internals.hpp"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

/* A registered thread that runs one function after another.  The caller's functions must not throw.
 */
class Helper
{
public:
	using Work = std::function<void(fur_thread *)>;

	explicit Helper(fur_heap *heap) : thread_([this, heap] { serve(heap); }) {}
	~Helper()
	{
		start(nullptr);
		thread_.join();
	}
	/* Begin `work`, when the last one has ended. */
	void start(Work work)
	{
		finish();
		std::lock_guard<std::mutex> lock(mutex_);
		work_ = std::move(work);
		busy_ = true;
		changed_.notify_all();
	}
	/* Wait until it has ended. */
	void finish()
	{
		std::unique_lock<std::mutex> lock(mutex_);
		changed_.wait(lock, [this] { return !busy_; });
	}
	void run(Work work)
	{
		start(std::move(work));
		finish();
	}
	bool busy()
	{
		std::lock_guard<std::mutex> lock(mutex_);
		return busy_;
	}

private:
	void serve(fur_heap *heap)
	{
		fur::Thread self(heap);
		for (;;) {
			std::unique_lock<std::mutex> lock(mutex_);
			changed_.wait(lock, [this] { return busy_; });
			Work work = std::move(work_);
			lock.unlock();
			if (work)
				work(self);
			lock.lock();
			busy_ = false;
			changed_.notify_all();
			if (!work)
				return;
		}
	}

	std::mutex mutex_;
	std::condition_variable changed_;
	Work work_;
	bool busy_ = false;
	std::thread thread_; /* the last member: it uses the others */
};

inline fur::Options software_options()
{
	fur::Options o = small_options();
	o.htm = FUR_HTM_NONE;
	o.log_bytes = 1 << 16;
	return o;
}

/* Make the thread's next update run in place, or not, whatever came before. */
inline void prefer_in_place(fur_thread *t, bool in_place)
{
	t->policy.meetings = arch_load(&t->engine->meetings);
	t->policy.alone = in_place ? UINT32_MAX : 0;
}

/* fur_update_run() with a body that has nothing to destroy. */
template <class Body>
int run_in_c(fur_thread *t, Body body)
{
	return fur_update_run(
	        t, [](fur_update *tx, void *arg) { (*static_cast<Body *>(arg))(tx); }, &body,
	        nullptr);
}

/* The same in an update that is open. */
template <class Body>
int join_in_c(fur_thread *t, Body body)
{
	fur_update *tx;
	int error = fur_join_update(t, &tx);
	if (error)
		return error;
	body(tx);
	return fur_commit(tx, nullptr);
}

/* The heap open, this thread registered, and a helper. */
class Software : public HeapFile
{
protected:
	Software() : Software(software_options()) {}
	explicit Software(const fur_options &o)
	    : heap_(create(o)), self_(heap_), other_(heap_.get())
	{
		fur::update(self_, [&](fur_update *tx) {
			words_ = static_cast<uint64_t *>(fur_alloc(tx, WORDS * 8));
			std::vector<uint64_t> zero(WORDS);
			fur_write(tx, words_, zero.data(), WORDS * 8);
			fur_set_root(tx, 0, words_);
		});
		prefer_in_place(self_, false);
		/* Its registration syncs the file: do that before a test makes syncs fail. */
		other_.run([](fur_thread *) {});
	}
	/* A word on a line of its own. */
	uint64_t *word(unsigned n)
	{
		return words_ + n * 8;
	}
	/* On this thread, or on the one that is given. */
	template <class Body>
	void update_in(tx_mode mode, Body &&body, fur_thread *t = nullptr)
	{
		t = t ? t : self_.get();
		prefer_in_place(t, mode == TX_IN_PLACE);
		auto checked = [&](fur_update *tx) {
			EXPECT_EQ(tx->mode, mode);
			body(tx);
		};
		if (mode == TX_CONCURRENT)
			fur::update(t, fur::rerun, checked);
		else
			fur::update(t, checked);
	}
	static void set(fur_thread *t, uint64_t *to, uint64_t value)
	{
		prefer_in_place(t, false);
		fur::update(t, [&](fur_update *tx) { fur_store(tx, to, value); });
	}
	static uint64_t get(fur_thread *t, const uint64_t *from)
	{
		return fur::read(t, [&](fur_ro *tx) { return fur_load(tx, from); });
	}
	/* In the middle of an update of this thread: the helper stores, and commits. */
	void other_sets(uint64_t *to, uint64_t value)
	{
		other_.run([=](fur_thread *t) { set(t, to, value); });
	}
	uint64_t other_gets(const uint64_t *from)
	{
		uint64_t value = 0;
		other_.run([&](fur_thread *t) { value = get(t, from); });
		return value;
	}
	/* From now on updates publish beside each other, until a plain reader comes. */
	void let_updates_in()
	{
		engine &e = heap_.get()->engine;
		turn_take(&e);
		(void)readers_shut_out(&e, self_.get()->index).met;
		updates_let_in(&e);
		turn_give(&e);
	}
	/* Do optimistic readers of this process run plainly?  Then updates wait for them. */
	bool readers_are_plain() const
	{
		return self_.get()->update.flags_at_begin & TX_CHECKED;
	}
	int stamps_held() const
	{
		const uint64_t *stamps = heap_.get()->engine.stamps;
		return static_cast<int>(std::count_if(stamps, stamps + STAMPS, stamp_is_held));
	}
	/* Both threads can update and read: no thread has kept the turn, a stamp, or others out. */
	void expect_sound()
	{
		const engine &e = heap_.get()->engine;
		EXPECT_EQ(e.lock.taken, 0u);
		EXPECT_NE(e.lock.shut, ALL_OUT);
		EXPECT_EQ(e.sweeps & 1, 0u);
		EXPECT_EQ(stamps_held(), 0);
		EXPECT_EQ(this_thread()->open, nullptr);
		for (uint64_t i = 0; i < e.durability->limit; i++) {
			EXPECT_EQ(e.active[i].seq, 0u) << i;
			EXPECT_EQ(e.active[i].publishing, 0u) << i;
			EXPECT_EQ(e.durability->nondurable[i].id, 0u) << i;
			EXPECT_FALSE(e.threads[i].software.holds) << i;
		}
		uint64_t *last = word(WORDS / 8 - 1), n = get(self_, last);
		for (tx_mode mode : {TX_SERIAL, TX_CONCURRENT, TX_IN_PLACE}) {
			update_in(mode, [&](fur_update *tx) { fur_store(tx, last, ++n); });
			other_sets(last, ++n);
			EXPECT_EQ(get(self_, last), n);
		}
		prefer_in_place(self_, false);
		census_of(heap_);
	}

	enum { WORDS = 512 };
	fur::Heap heap_;
	fur::Thread self_;
	Helper other_;
	uint64_t *words_;
};

/* The same in each mode. */
class EveryMode : public Software, public ::testing::WithParamInterface<tx_mode>
{
protected:
	using Software::Software;
	template <class Body>
	void update(Body &&body)
	{
		update_in(GetParam(), body);
	}
};

inline std::string mode_name(const ::testing::TestParamInfo<tx_mode> &mode)
{
	return mode.param == TX_IN_PLACE ? "in_place"
	       : mode.param == TX_SERIAL ? "serial"
	                                 : "concurrent";
}

#endif /* SOFTWARE_HPP */
