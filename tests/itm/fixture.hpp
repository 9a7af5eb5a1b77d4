/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fixture.hpp - a heap that this process's transactions use, a pair of words in it, and calls that
 * the code of a transaction may make without GCC's noticing.
 */
#ifndef ITM_FIXTURE_HPP
#define ITM_FIXTURE_HPP

#include "../unit/fixture.hpp"

#include <atomic>
#include <functional>
#include <fur_itm.h>
#include <thread>

/* GCC takes such a function for one without effects on transactional memory. */
#define PURE __attribute__((transaction_pure))
#define SAFE __attribute__((transaction_safe))

/* The test's own code in the middle of a transaction. */
inline std::function<void()> middle;
PURE inline void in_the_middle()
{
	if (middle)
		middle();
}
/* How often a body ran, whatever was undone. */
inline std::atomic<int> runs;
PURE inline void count_run()
{
	runs++;
}

struct Pair {
	long a, b;
};

inline fur::Options itm_options()
{
	fur::Options o = small_options();
	o.htm = FUR_HTM_NONE;
	o.log_bytes = 1 << 16;
	o.max_threads = 16;
	return o;
}

class Itm : public HeapFile
{
protected:
	explicit Itm(const fur_options &o = itm_options()) : heap_(create(o))
	{
		fur::check(fur_itm_use(heap_));
		middle = nullptr;
		runs = 0;
		Pair *made;
		__transaction_atomic
		{
			made = static_cast<Pair *>(fur_itm_alloc(sizeof *made));
			made->a = 1;
			made->b = 2;
			fur_itm_set_root(0, made);
		}
		pair_ = made;
	}
	~Itm() override
	{
		fur_itm_on_failure(nullptr);
		EXPECT_EQ(fur_itm_use(nullptr), 0);
	}
	/* On a thread of its own. */
	static void elsewhere(const std::function<void()> &work)
	{
		std::thread(work).join();
	}
	fur::Heap heap_;
	Pair *pair_;
};

#endif /* ITM_FIXTURE_HPP */
