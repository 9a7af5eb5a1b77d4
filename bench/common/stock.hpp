/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stock.hpp - brings the allocator, at the start of a run of a millisecond, to its state after a
 * second.
 *
 * A thread's first block of a size is cut from memory that all threads share, inside its
 * transaction.  Once in about a hundred blocks that costs nothing; but 64 threads that start
 * together abort each other, and that would be most of a short run.
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
	struct Block {
		size_t bytes, alignment = 16;
	};
	/* A block of each kind, there and back, by one thread after the other. */
	template <class Self>
	void take(Self &self, unsigned thread, std::initializer_list<Block> kinds)
	{
		while (turn_.load() != thread)
			spin();
		Turn turn{turn_, thread};
		for (Block kind : kinds)
			self.update([&](auto *tx) {
				void *block = fur_alloc_aligned(tx, kind.bytes, kind.alignment);
				if (block)
					fur_free(tx, block);
				return block;
			});
	}

private:
	/* Passes the turn on even if this thread throws. */
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
