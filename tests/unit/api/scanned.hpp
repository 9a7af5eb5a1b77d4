/* SPDX-License-Identifier: BSD-3-Clause
 *
 * scanned.hpp - a heap for tests of copies: data with an invariant over many pages, threads that
 * update it, and a check of what a copy shows.
 */
#ifndef SCANNED_HPP
#define SCANNED_HPP

#include "../fixture.hpp"

#include <algorithm>
#include <atomic>
#include <sys/mman.h>
#include <thread>

/* The counter of each thread, their sum, and blocks all over the heap: each has the number of the
 * update that wrote it last, in all its words. */
struct Scanned {
	enum { THREADS = 3, BLOCKS = 400, BLOCK_WORDS = 128, BLOCK_BYTES = 16000 };
	enum { RENEWED = 16, LARGE_BYTES = 17000 };
	uint64_t counter[THREADS], counters_sum;
	uint64_t *blocks[BLOCKS];

	static fur::Options options()
	{
		fur::Options o = small_options();
		o.heap_bytes = 16 << 20;
		return o;
	}
	static void fill(const fur::Heap &heap)
	{
		fur::Thread self(heap);
		auto *data = fur::update(self, [&](fur_update *tx) {
			auto *made = static_cast<Scanned *>(fur_alloc(tx, sizeof(Scanned)));
			fur_store(tx, &made->counters_sum, uint64_t{0});
			for (uint64_t &c : made->counter)
				fur_store(tx, &c, uint64_t{0});
			fur_set_root(tx, 0, made);
			return made;
		});
		for (auto &to : data->blocks)
			fur::update(self, [&](fur_update *tx) {
				const uint64_t words[BLOCK_WORDS] = {};
				auto *block = static_cast<uint64_t *>(fur_alloc(tx, BLOCK_BYTES));
				fur_write(tx, block, words, sizeof words);
				fur_store(tx, &to, block);
			});
	}
	static void add(fur_thread *self, unsigned thread, uint64_t random)
	{
		fur::update(self, fur::rerun, [&](fur_update *tx) {
			auto *data = fur::root<Scanned>(tx, 0);
			const uint64_t mine = fur_load(tx, &data->counter[thread]) + 1,
			               sum = fur_load(tx, &data->counters_sum) + 1;
			fur_store(tx, &data->counter[thread], mine);
			fur_store(tx, &data->counters_sum, sum);
			uint64_t words[BLOCK_WORDS];
			std::fill_n(words, +BLOCK_WORDS, sum);
			uint64_t **place = &data->blocks[random % BLOCKS],
			         *block = fur_load(tx, place);
			/* A new block, which goes to the file before the update's marker. */
			if (random % BLOCKS % RENEWED == 0) {
				uint64_t *old = block;
				block = static_cast<uint64_t *>(fur_alloc(tx, LARGE_BYTES));
				fur_store(tx, place, block);
				fur_free(tx, old);
			}
			fur_write(tx, block, words, sizeof words);
		});
	}
	/* What the updates of a thread have been acknowledged, in memory that processes share. */
	struct Acknowledged {
		std::atomic<uint64_t> by[THREADS];
		std::atomic<bool> stop;
	};
	static Acknowledged *shared()
	{
		void *p = mmap(nullptr, sizeof(Acknowledged), PROT_READ | PROT_WRITE,
		        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		return p == MAP_FAILED ? nullptr : new (p) Acknowledged{};
	}
	static std::vector<std::thread> start(const fur::Heap &heap, Acknowledged *acknowledged)
	{
		std::vector<std::thread> all;
		for (unsigned t = 0; t < THREADS; t++)
			all.emplace_back([&heap, acknowledged, t] {
				fur::Thread self(heap);
				for (uint64_t random = t; !acknowledged->stop;
				        acknowledged->by[t]++)
					add(self, t,
					        random = random * 6364136223846793005u + 1442695);
			});
		return all;
	}
	/* 0: the copy is of one piece, and has at least these counters; else what is wrong. */
	static int check(const fur::Heap &heap, const std::vector<uint64_t> &least)
	{
		fur::Thread self(heap);
		return fur::read(self, [&](fur_ro *tx) {
			const auto *data = fur::root<Scanned>(tx, 0);
			uint64_t sum = 0, newest = 0;
			for (unsigned t = 0; t < THREADS; t++) {
				if (fur_load(tx, &data->counter[t]) < least[t])
					return 1; /* lost what was acknowledged */
				sum += fur_load(tx, &data->counter[t]);
			}
			if (fur_load(tx, &data->counters_sum) != sum)
				return 2; /* half of an update */
			for (const uint64_t *block : data->blocks) {
				if (std::count(block, block + BLOCK_WORDS, *block) != +BLOCK_WORDS)
					return 3; /* half of a block */
				newest = std::max(newest, *block);
			}
			return newest == sum ? 0 : 4; /* the last update is there in part */
		});
	}
};

/* The least counters that a copy must have. */
inline std::vector<uint64_t> now(const Scanned::Acknowledged *acknowledged)
{
	return {acknowledged->by, acknowledged->by + Scanned::THREADS};
}

#endif /* SCANNED_HPP */
