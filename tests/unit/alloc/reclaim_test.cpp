/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reclaim_test.cpp - memory moves from one size to another: when a full heap is freed, blocks of
 * any other size fit; also after an abort, a crash or a reopening in the middle, with small logs,
 * and in heaps of the old form.
 */
#include "census.hpp"
#include "fixture.hpp"
#include "internals.hpp"

#include <algorithm>
#include <barrier>
#include <map>
#include <mutex>
#include <random>
#include <thread>

namespace
{

constexpr size_t SIZES[] = {16, 48, 64, 112, 160, 1000, 1280, 5000, 16384};

class Reclaim : public HeapFile
{
protected:
	Reclaim() : heap_(create()) {}

	void restart(uint64_t log_bytes)
	{
		heap_.close();
		unlink(path_.c_str());
		fur::Options o = small_options();
		o.heap_bytes = 24 * CHUNK_BYTES;
		o.log_bytes = log_bytes;
		heap_ = create(o);
	}
	void reopen()
	{
		heap_.close();
		heap_ = open();
	}
	alloc_census census()
	{
		return census_of(heap_);
	}
	void *alloc(size_t n)
	{
		fur::Thread self(heap_);
		return fur::update(self, [&](fur_update *tx) { return fur_alloc(tx, n); });
	}
	void release(void *p)
	{
		fur::Thread self(heap_);
		fur::update(self, [&](fur_update *tx) { fur_free(tx, p); });
	}
	/* All the heap in blocks of one size. */
	std::vector<void *> fill(size_t n)
	{
		std::vector<void *> all;
		fur::Thread self(heap_);
		for (void *p = this; p;)
			fur::update(self, [&](fur_update *tx) {
				for (int k = 0; k < 8 && (p = fur_alloc(tx, n)); k++)
					all.push_back(p);
			});
		return all;
	}
	void release_all(const std::vector<void *> &blocks)
	{
		fur::Thread self(heap_);
		for (size_t at = 0; at < blocks.size();)
			fur::update(self, [&](fur_update *tx) {
				for (int k = 0; k < 8 && at < blocks.size(); k++)
					fur_free(tx, blocks[at++]);
			});
	}
	/* Some chunks in a run and a few blocks of each size can be had, all at a time.  The runs
	 * first: chunks that small blocks take may lie between. */
	void expect_room_for_all(bool runs = true)
	{
		std::vector<void *> blocks;
		for (size_t n :
		        runs ? std::vector<size_t>{200000, 100000, 20000} : std::vector<size_t>{}) {
			blocks.push_back(alloc(n));
			EXPECT_NE(blocks.back(), nullptr) << n;
		}
		for (size_t n : SIZES)
			for (int k = 0; k < 3; k++) {
				blocks.push_back(alloc(n));
				EXPECT_NE(blocks.back(), nullptr) << n;
			}
		EXPECT_EQ(census().blocks, blocks.size());
		release_all(blocks);
		EXPECT_EQ(census().blocks, 0u);
	}

	fur::Heap heap_;
};

TEST_F(Reclaim, FullOfOneSize_ThenFreed_HasRoomForAnyOther)
{
	for (uint64_t log_bytes : {4096u, 65536u})
		for (size_t n : SIZES)
			for (int order = 0; order < 3; order++) {
				SCOPED_TRACE(std::to_string(n) + " bytes, order " +
				             std::to_string(order) + ", log " +
				             std::to_string(log_bytes));
				restart(log_bytes);
				std::vector<void *> all = fill(n);
				ASSERT_EQ(census().blocks, all.size());
				if (order == 1)
					std::reverse(all.begin(), all.end());
				if (order == 2)
					std::shuffle(all.begin(), all.end(), std::mt19937(1));
				release_all(all);
				if (log_bytes == 65536)
					reopen();
				expect_room_for_all();
			}
}

TEST_F(Reclaim, FullOfOneSize_ThenFreed_IsOneRunAgain)
{
	restart(65536);
	uint64_t chunks = census().free_chunks;
	for (size_t n : SIZES) {
		std::vector<void *> all = fill(n);
		std::shuffle(all.begin(), all.end(), std::mt19937(2));
		release_all(all);
		void *run = alloc(chunks * CHUNK_BYTES);
		EXPECT_NE(run, nullptr) << n;
		EXPECT_EQ(alloc(16), nullptr);
		release(run);
	}
	EXPECT_EQ(census().blocks, 0u);
}

/* One update fills the heap, frees it, and makes it one run, then blocks of another size. */
TEST_F(Reclaim, FullOfOneSize_ThenFreed_InOneUpdate)
{
	restart(4 << 20);
	uint64_t chunks = census().free_chunks;
	for (size_t n : {64u, 1000u, 5000u, 16384u}) {
		SCOPED_TRACE(n);
		fur::Thread self(heap_);
		std::vector<void *> all;
		fur_update *tx;
		ASSERT_EQ(fur_begin_update(self, &tx), 0);
		while (void *p = fur_alloc(tx, n)) {
			ASSERT_LE(all.size(), chunks * CHUNK_BYTES / n);
			all.push_back(p);
		}
		EXPECT_EQ(all.size(), chunks * (CHUNK_BYTES / fur_usable_bytes(tx, all[0])));
		std::shuffle(all.begin(), all.end(), std::mt19937(9));
		for (void *p : all)
			fur_free(tx, p);
		void *run = fur_alloc(tx, chunks * CHUNK_BYTES);
		EXPECT_NE(run, nullptr);
		EXPECT_EQ(fur_alloc(tx, 16), nullptr);
		fur_free(tx, run);
		EXPECT_NE(run = fur_alloc(tx, 320), nullptr);
		ASSERT_EQ(fur_commit(tx, nullptr), 0) << fur_errormsg();
		EXPECT_EQ(census().blocks, 1u);
		fur::update(self, [&](fur_update *last) { fur_free(last, run); });
		EXPECT_EQ(census().blocks, 0u);
	}
}

TEST_F(Reclaim, OneBlockLeft_KeepsItsChunkOnly)
{
	restart(65536);
	uint64_t chunks = census().free_chunks;
	std::vector<void *> all = fill(64);
	std::shuffle(all.begin(), all.end(), std::mt19937(3));
	void *left = all.back();
	all.pop_back();
	release_all(all);
	std::vector<void *> big;
	while (void *p = alloc(CHUNK_BYTES))
		big.push_back(p);
	EXPECT_EQ(big.size(), chunks - 1);
	release_all(big);
	release(left);
	EXPECT_NE(alloc(chunks * CHUNK_BYTES), nullptr);
}

/* Blocks, and ranges not yet carved, in the stocks of threads that are no longer there. */
TEST_F(Reclaim, StocksOfOtherThreads_AreMemoryToo)
{
	for (uint64_t log_bytes : {4096u, 65536u}) {
		restart(log_bytes);
		uint64_t chunks = census().free_chunks;
		std::vector<void *> all = fill(16);
		std::shuffle(all.begin(), all.end(), std::mt19937(4));
		std::vector<std::thread> threads;
		size_t part = all.size() / 3;
		std::mutex one_at_a_time;
		std::barrier registered(3); /* so that each has a slot of its own */
		for (size_t k = 0; k < 3; k++)
			threads.emplace_back([&, k] {
				fur::Thread self(heap_);
				registered.arrive_and_wait();
				std::lock_guard lock(one_at_a_time);
				release_all({all.begin() + long(k * part),
				        k == 2 ? all.end() : all.begin() + long((k + 1) * part)});
				release(alloc(1000 + k * 1000));
			});
		for (auto &t : threads)
			t.join();
		EXPECT_EQ(census().blocks, 0u);
		EXPECT_LT(census().free_chunks, chunks) << "nothing in stock: this tests nothing";
		/* fur_alloc may refuse a run for want of log */
		expect_room_for_all(log_bytes > 4096);
		if (log_bytes > 4096) {
			EXPECT_NE(alloc(chunks * CHUNK_BYTES), nullptr);
		}
	}
}

/* A heap nearly full of 16-byte blocks, none of them in use, in stocks: the next allocation of
 * another size reclaims. */
class ReclaimWithin : public Reclaim
{
protected:
	ReclaimWithin()
	{
		std::vector<void *> all = fill(16);
		std::shuffle(all.begin(), all.end(), std::mt19937(5));
		release_all(all);
		while (void *p = alloc(CHUNK_BYTES))
			kept_.push_back(p);
		EXPECT_TRUE(!kept_.empty());
		release(kept_.back());
		kept_.pop_back();
		/* One chunk is free, or one more is in stocks only: make it that. */
		void *p = alloc(16384);
		release(p);
	}
	static bool same(const alloc_census &a, const alloc_census &b)
	{
		return a.blocks == b.blocks && a.block_bytes == b.block_bytes &&
		       a.free_blocks == b.free_blocks && a.chunks == b.chunks &&
		       a.free_chunks == b.free_chunks;
	}
	std::vector<void *> kept_;
};

TEST_F(ReclaimWithin, Abort_PutsAllBack)
{
	alloc_census before = census();
	ASSERT_EQ(before.free_chunks, 0u);
	{
		fur::Thread self(heap_);
		fur_update *tx;
		ASSERT_EQ(fur_begin_update(self, &tx), 0);
		EXPECT_NE(fur_alloc(tx, 2000), nullptr);
		EXPECT_EQ(fur_abort(tx), FUR_EABORTED);
	}
	EXPECT_TRUE(same(census(), before));
	EXPECT_NE(alloc(2000), nullptr);
	EXPECT_FALSE(same(census(), before));
}

TEST_F(ReclaimWithin, Crash_InAndAfter)
{
	alloc_census before = census();
	heap_.close();
	for (bool commit : {false, true}) {
		in_killed_child([&] {
			fur::Heap &h = *new fur::Heap(open()); /* never closed */
			fur::Thread t(h);
			fur_update *tx;
			EXPECT_EQ(fur_begin_update(t, &tx), 0);
			EXPECT_NE(fur_alloc(tx, 2000), nullptr);
			if (commit) {
				EXPECT_EQ(fur_commit(tx, nullptr), 0);
			} else {
				_exit(0);
			}
		});
		heap_ = open();
		EXPECT_EQ(census().blocks, before.blocks + commit);
		EXPECT_EQ(same(census(), before), !commit);
		heap_.close();
	}
	heap_ = open();
}

/* Everything at random against a shadow, in a heap that is full most of the time. */
class ReclaimRandom : public Reclaim
{
protected:
	struct Shadow {
		std::map<uintptr_t, size_t> live;
		uint64_t bytes = 0;
	};
	void step(fur_thread *self, std::mt19937_64 &random, Shadow &shadow, bool freeing)
	{
		if (!shadow.live.empty() && random() % 8 < (freeing ? 7u : 3u)) {
			auto it = shadow.live.lower_bound(
			        shadow.live.begin()->first + random() % (2 << 20));
			it = it == shadow.live.end() ? shadow.live.begin() : it;
			fur::join_update(self, [&](fur_update *tx) {
				fur_free(tx, reinterpret_cast<void *>(it->first));
			});
			shadow.bytes -= it->second;
			shadow.live.erase(it);
			return;
		}
		size_t n =
		        random() % 16 == 0 ? random() % 200000 : SIZES[random() % std::size(SIZES)];
		size_t usable = 0;
		auto p = reinterpret_cast<uintptr_t>(fur::join_update(self, [&](fur_update *tx) {
			void *block = fur_alloc(tx, n);
			usable = block ? fur_usable_bytes(tx, block) : 0;
			return block;
		}));
		if (!p)
			return;
		ASSERT_GE(usable, n);
		auto next = shadow.live.lower_bound(p);
		ASSERT_TRUE(next == shadow.live.end() || p + usable <= next->first);
		ASSERT_TRUE(next == shadow.live.begin() ||
		            std::prev(next)->first + std::prev(next)->second <= p);
		shadow.live[p] = usable;
		shadow.bytes += usable;
	}
	void compare(const Shadow &shadow)
	{
		alloc_census c = census();
		ASSERT_EQ(c.blocks, shadow.live.size());
		ASSERT_EQ(c.block_bytes, shadow.bytes);
	}
	void run(uint64_t seed, bool runs_fit_log)
	{
		SCOPED_TRACE("seed " + std::to_string(seed));
		std::mt19937_64 random(seed);
		Shadow shadow;
		for (int part = 0; part < 12; part++) {
			{
				fur::Thread self(heap_);
				for (int i = 0; i < 1500; i++) {
					ASSERT_NO_FATAL_FAILURE(
					        step(self, random, shadow, part % 4 == 3));
					if (i % 100 == 0) {
						ASSERT_NO_FATAL_FAILURE(compare(shadow));
					}
				}
			}
			if (part % 3 == 2)
				reopen();
		}
		std::vector<void *> rest;
		for (auto &[p, n] : shadow.live)
			rest.push_back(reinterpret_cast<void *>(p));
		release_all(rest);
		expect_room_for_all(runs_fit_log);
	}
};

TEST_F(ReclaimRandom, CensusAgreesWithAShadow)
{
	const uint64_t seed = seed_of_run();
	for (uint64_t log_bytes : {4096u, 1u << 20}) {
		restart(log_bytes);
		run(seed, log_bytes > 4096);
	}
}

/* The inner updates of step() join the outer one: each step meets the state that the steps before
 * it have left, and that no other thread sees yet. */
TEST_F(ReclaimRandom, ManyStepsInOneUpdate_AgreeWithAShadow)
{
	const uint64_t seed = seed_of_run();
	std::mt19937_64 random(seed);
	restart(1 << 20);
	Shadow shadow;
	fur::Thread self(heap_);
	for (int round = 0; round < 120; round++) {
		SCOPED_TRACE("round " + std::to_string(round));
		const Shadow before = shadow;
		bool commit = round % 3 != 2;
		fur_update *tx;
		ASSERT_EQ(fur_begin_update(self, &tx), 0);
		for (int i = 0; i < 100; i++)
			ASSERT_NO_FATAL_FAILURE(step(self, random, shadow, round % 8 > 5));
		if (commit) {
			ASSERT_EQ(fur_commit(tx, nullptr), 0) << fur_errormsg();
		} else {
			ASSERT_EQ(fur_abort(tx), FUR_EABORTED);
			shadow = before;
		}
		ASSERT_NO_FATAL_FAILURE(compare(shadow));
	}
}

TEST_F(ReclaimRandom, ManyThreads_LoseNothing)
{
	/* With less, fur_alloc may refuse a run in the end for want of log (alloc/reclaim.c). */
	restart(1 << 20);
	std::vector<std::thread> threads;
	for (unsigned k = 0; k < 4; k++)
		threads.emplace_back([this, k] {
			fur::Thread self(heap_);
			std::mt19937_64 random(k);
			std::vector<void *> mine;
			for (int i = 0; i < 4000; i++) {
				size_t n = random() % 16 == 0 ? 70000
				                              : SIZES[random() % std::size(SIZES)];
				if (mine.size() > 400 || (!mine.empty() && random() % 3 == 0)) {
					std::swap(mine[random() % mine.size()], mine.back());
					fur::update(self,
					        [&](fur_update *tx) { fur_free(tx, mine.back()); });
					mine.pop_back();
				} else if (void *p = fur::update(self, [&](fur_update *tx) {
					           return fur_alloc(tx, n);
				           })) {
					mine.push_back(p);
				}
			}
			for (void *p : mine)
				fur::update(self, [&](fur_update *tx) { fur_free(tx, p); });
		});
	for (auto &t : threads)
		t.join();
	EXPECT_EQ(census().blocks, 0u);
	expect_room_for_all();
}

/* -------------------------------------------------------------- heaps of the old form */

/* A heap as the first version of the library made and left it. */
class OldHeap : public Reclaim
{
protected:
	OldHeap()
	{
		as_old();
	}
	uint64_t heap_offset()
	{
		media_super super;
		memcpy(&super, bytes().data(), sizeof super);
		return super.heap_offset;
	}
	uint64_t magic()
	{
		uint64_t word;
		memcpy(&word, bytes().data() + heap_offset(), 8);
		return word;
	}
	void as_old()
	{
		heap_.close();
		uint64_t magic = HEAP_MAGIC_1, none = 0;
		poke(heap_offset() + offsetof(heap_header, magic), &magic, 8);
		poke(heap_offset() + offsetof(heap_header, lists), &none, 8);
		heap_ = open();
	}
	heap_header *header()
	{
		return static_cast<heap_header *>(heap_base(heap_));
	}
	cache &cache_of(unsigned slot, size_t n)
	{
		auto *all =
		        reinterpret_cast<thread_caches *>(reinterpret_cast<char *>(header()) +
		                                          ((sizeof(heap_header) + 127) & ~127ull));
		return all[slot].classes[(n - 1) / 16];
	}
	/* Free blocks of up to 64 bytes as the first version did: a list 256 deep becomes the full
	 * one, and that goes to the depot. */
	void release_as_old(const std::vector<void *> &blocks, size_t n)
	{
		fur::Thread self(heap_);
		cache &c = cache_of(fur_thread_index(self), n);
		class_state &s = header()->classes[(n - 1) / 16];
		constexpr uint64_t BATCH = 256;
		for (void *p : blocks)
			fur::update(self, [&](fur_update *tx) {
				auto *block = static_cast<free_block *>(p);
				auto at = [](uint64_t address) {
					return reinterpret_cast<free_block *>(address);
				};
				uint64_t list = fur_load(tx, &c.list),
				         depth = list ? fur_load(tx, &at(list)->depth) : 0;
				if (depth == BATCH) {
					if (uint64_t full = fur_load(tx, &c.full)) {
						fur_store(tx, &at(full)->depth,
						        fur_load(tx, &s.depot));
						fur_store(tx, &s.depot, full);
					}
					fur_store(tx, &c.full, list);
					list = depth = 0;
				}
				fur_store(tx, &block->next, list);
				fur_store(tx, &block->depth, depth + 1);
				fur_store(tx, &c.list, reinterpret_cast<uint64_t>(p));
			});
	}
	/* All 16-byte blocks of a full heap are on old lists, all stocks' words are of the old
	 * form. */
	void fill_and_release_as_old(uint64_t log_bytes, bool shuffled)
	{
		restart(log_bytes);
		as_old();
		std::vector<void *> all = fill(64);
		if (shuffled)
			std::shuffle(all.begin(), all.end(), std::mt19937(6));
		{
			fur::Thread self(heap_);
			cache &c = cache_of(fur_thread_index(self), 64);
			ASSERT_EQ(c.list, 0u);
			ASSERT_EQ(c.carve, c.carve_end);
		}
		release_as_old(all, 64);
		alloc_census now = census();
		EXPECT_EQ(now.blocks, 0u);
		EXPECT_EQ(now.free_chunks, 0u);
	}
};

TEST_F(OldHeap, Open_KeepsOlderLibrariesAway)
{
	EXPECT_EQ(magic(), HEAP_MAGIC_2);
	reopen();
	EXPECT_EQ(magic(), HEAP_MAGIC_2);
	EXPECT_EQ(header()->lists, 0u);
	expect_room_for_all();
}

TEST_F(OldHeap, FullOfOneSize_ThenFreed_HasRoomForAnyOther)
{
	for (size_t n : SIZES) {
		restart(65536);
		as_old();
		std::vector<void *> all = fill(n);
		std::shuffle(all.begin(), all.end(), std::mt19937(7));
		release_all(all);
		reopen();
		expect_room_for_all();
	}
}

TEST_F(OldHeap, ListsOfTheOldForm_AreUsedUp)
{
	fill_and_release_as_old(65536, true);
	std::vector<void *> again = fill(64);
	EXPECT_EQ(census().blocks, again.size());
	EXPECT_EQ(census().free_blocks, 0u);
	release_all(again);
	expect_room_for_all();
}

TEST_F(OldHeap, ListsOfTheOldForm_BecomeRoomForAnyOther)
{
	for (bool shuffled : {false, true}) {
		fill_and_release_as_old(1 << 20, shuffled);
		uint64_t chunks = census().chunks;
		expect_room_for_all();
		reopen();
		EXPECT_NE(alloc((chunks - header()->first_chunk) * CHUNK_BYTES), nullptr);
	}
}

/* One update uses some old lists up, gives blocks back, and sorts the other lists. */
TEST_F(OldHeap, ListsOfTheOldForm_InOneUpdate)
{
	for (bool shuffled : {false, true}) {
		fill_and_release_as_old(1 << 20, shuffled);
		fur::Thread self(heap_);
		std::vector<void *> blocks;
		fur_update *tx;
		ASSERT_EQ(fur_begin_update(self, &tx), 0);
		for (int k = 0; k < 600; k++)
			blocks.push_back(fur_alloc(tx, 64));
		for (; blocks.size() > 3; blocks.pop_back())
			fur_free(tx, blocks.back());
		for (size_t n : {100000u, 1000u, 64u, 20000u, 16u})
			blocks.push_back(fur_alloc(tx, n));
		ASSERT_EQ(fur_commit(tx, nullptr), 0) << fur_errormsg();
		std::sort(blocks.begin(), blocks.end());
		EXPECT_NE(blocks.front(), nullptr);
		EXPECT_TRUE(std::adjacent_find(blocks.begin(), blocks.end()) == blocks.end());
		EXPECT_EQ(census().blocks, blocks.size());
	}
}

/* An update that stores a list of the old form itself finds its blocks there. */
TEST_F(OldHeap, StockOfTheOldForm_OfTheSameUpdate)
{
	void *first = alloc(64), *second = alloc(64);
	fur::Thread self(heap_);
	cache &c = cache_of(fur_thread_index(self), 64);
	ASSERT_EQ(c.list, 0u);
	fur::update(self, [&](fur_update *tx) {
		auto *a = static_cast<free_block *>(first), *b = static_cast<free_block *>(second);
		fur_store(tx, &b->next, 0u);
		fur_store(tx, &a->next, reinterpret_cast<uint64_t>(b));
		fur_store(tx, &a->depth, 2u);
		fur_store(tx, &c.list, reinterpret_cast<uint64_t>(a));
		EXPECT_EQ(fur_alloc(tx, 64), first);
		EXPECT_EQ(fur_alloc(tx, 64), second);
		fur_free(tx, first);
	});
	EXPECT_EQ(c.list >> 48, 1u);
	EXPECT_EQ(census().blocks, 1u);
}

/* So small a log that no list can be sorted: blocks are taken out of the lists where they are. */
TEST_F(OldHeap, ListsOfTheOldForm_SmallLog)
{
	fill_and_release_as_old(8192, false);
	EXPECT_NE(alloc(1000), nullptr);
	EXPECT_NE(alloc(100000), nullptr);
	census();
}

/* ---------------------------------------------------------------------------- the check */

TEST_F(Reclaim, Check_FindsDamagedChunkLists)
{
	std::vector<void *> all = fill(64);
	std::shuffle(all.begin(), all.end(), std::mt19937(8));
	all.resize(all.size() / 2);
	release_all(all);
	alloc_census c;
	char *base = static_cast<char *>(heap_base(heap_));
	ASSERT_EQ(alloc_check(base, &c), 0) << fur_errormsg();
	auto *h = reinterpret_cast<heap_header *>(base);
	auto *lists = reinterpret_cast<chunk_list *>(base + h->lists);
	uint64_t &depot = h->classes[3].depot;
	ASSERT_TRUE(depot & 1);
	chunk_list &first = lists[depot >> 1];
	ASSERT_TRUE(first.next & 1);
	auto expect_found = [&](uint64_t &word, uint64_t value) {
		uint64_t kept = word;
		word = value;
		EXPECT_EQ(alloc_check(base, &c), FUR_ECORRUPT);
		word = kept;
		ASSERT_EQ(alloc_check(base, &c), 0) << fur_errormsg();
	};
	expect_found(depot, 0);
	expect_found(depot, first.next);
	expect_found(depot, (h->chunks + 5) << 1 | 1);
	expect_found(first.next, 0);
	expect_found(first.next, depot);
	expect_found(first.prev, 77);
	expect_found(first.blocks, 0);
	expect_found(first.blocks, first.blocks + (uint64_t(1) << 40));
	expect_found(first.blocks, first.blocks - (uint64_t(1) << 40));
	expect_found(first.blocks, first.blocks ^ 4);
	expect_found(first.blocks, first.blocks ^ (uint64_t(4) << 20));
	expect_found(lists[0 + h->first_chunk].blocks, 1);
	uint64_t &stock = reinterpret_cast<thread_caches *>(base + ((sizeof *h + 127) & ~127ull))
	                          ->classes[3]
	                          .list;
	ASSERT_TRUE(stock & 1);
	expect_found(stock, stock + (uint64_t(1) << 48));
}

} // namespace
