/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stock.hpp - the allocator as it is after a second's run, at the start of a run of a millisecond.
 *
 * A thread's first block of a size is cut for it from what all threads share, inside its
 * transaction.  Once in some hundred blocks that is nothing; but where 64 threads start together
 * each aborts the others, and that would be most of a short run.
 */
#ifndef BENCH_STOCK_HPP
#define BENCH_STOCK_HPP

#include "machine.hpp"

#include <atomic>
#include <initializer_list>

namespace bench
{

class alignas(128) Stock
{
public:
	/* A block of each size, there and back, by one thread after the other. */
	template <class Self>
	void take(Self &self, unsigned thread, std::initializer_list<size_t> sizes)
	{
		while (turn_.load() != thread)
			spin();
		Turn turn{turn_, thread};
		for (size_t bytes : sizes)
			self.update([&](auto *tx) {
				void *block = fur_alloc(tx, bytes);
				if (block)
					fur_free(tx, block);
				return block;
			});
	}

private:
	/* The next one's also if this one throws. */
	struct Turn {
		std::atomic<unsigned> &turn;
		unsigned thread;
		~Turn()
		{
			turn.store(thread + 1);
		}
	};
	std::atomic<unsigned> turn_{0};
};

} // namespace bench

#endif /* BENCH_STOCK_HPP */
