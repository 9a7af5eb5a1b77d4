/* SPDX-License-Identifier: BSD-3-Clause
 *
 * alloc_test.cpp - the transactional allocator, and the check of its state.
 */
#include "census.hpp"
#include "fixture.hpp"
#include "internals.hpp"

#include <map>
#include <set>
#include <stdexcept>
#include <thread>

namespace
{

class Allocator : public HeapFile
{
protected:
	Allocator() : heap_(create()), self_(heap_) {}
	alloc_census census()
	{
		return census_of(heap_);
	}
	void *alloc(size_t n)
	{
		return fur::update(self_, [&](fur_update *tx) { return fur_alloc(tx, n); });
	}
	void release(void *p)
	{
		fur::update(self_, [&](fur_update *tx) { fur_free(tx, p); });
	}
	fur::Heap heap_;
	fur::Thread self_;
};

TEST_F(Allocator, Sizes_AreEnoughAndAligned)
{
	for (size_t n : {0u, 1u, 16u, 17u, 64u, 128u, 129u, 160u, 192u, 256u, 257u, 320u, 1000u,
	             1024u, 4096u, 5000u, 16384u, 16385u, 65536u, 65537u, 200000u}) {
		void *p = alloc(n);
		ASSERT_NE(p, nullptr) << n;
		EXPECT_GE(usable_at_rest(heap_, p), n);
		EXPECT_LE(usable_at_rest(heap_, p), n < 128     ? n + 16
		                                    : n > 16384 ? n + 65536
		                                                : n + n / 4);
		EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 16, 0u);
		if (n && n % 64 == 0) {
			EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u) << n;
		}
		release(p);
	}
	EXPECT_EQ(census().blocks, 0u);
}

TEST_F(Allocator, Blocks_DoNotOverlap_AndAllComeBack)
{
	std::map<uintptr_t, size_t> live;
	uint64_t seed = 1;
	auto random = [&] {
		return seed = seed * 6364136223846793005u + 1442695040888963407u, seed >> 33;
	};
	for (int i = 0; i < 20000; i++) {
		if (random() % 2 || live.empty()) {
			size_t n = random() % 100 == 0 ? random() % 100000 : random() % 600;
			auto p = reinterpret_cast<uintptr_t>(alloc(n));
			if (!p)
				continue;
			auto next = live.lower_bound(p);
			size_t usable = usable_at_rest(heap_, reinterpret_cast<void *>(p));
			ASSERT_TRUE(next == live.end() || p + usable <= next->first);
			ASSERT_TRUE(next == live.begin() ||
			            std::prev(next)->first + std::prev(next)->second <= p);
			live[p] = usable;
		} else {
			auto it = live.begin();
			std::advance(it, random() % std::min<size_t>(live.size(), 50));
			release(reinterpret_cast<void *>(it->first));
			live.erase(it);
		}
		if (i % 1000 == 0) {
			ASSERT_EQ(census().blocks, live.size());
		}
	}
	for (auto &[p, n] : live)
		release(reinterpret_cast<void *>(p));
	EXPECT_EQ(census().blocks, 0u);
}

TEST_F(Allocator, LargeRuns_Coalesce)
{
	uint64_t before = census().free_chunks;
	void *a = alloc(100000), *b = alloc(100000), *c = alloc(100000);
	release(a);
	release(c);
	release(b);
	EXPECT_EQ(census().free_chunks, before);
	void *all = alloc(before * 65536);
	EXPECT_NE(all, nullptr) << "one run again";
	EXPECT_EQ(alloc(65536), nullptr);
	release(all);
}

TEST_F(Allocator, Full_TakesWhatOtherThreadsHaveInStock)
{
	std::thread([&] {
		fur::Thread t(heap_);
		void *p = fur::update(t, [](fur_update *tx) { return fur_alloc(tx, 1000); });
		fur::update(t, [&](fur_update *tx) { fur_free(tx, p); });
	}).join();
	std::set<void *> seen;
	while (void *p = alloc(1000))
		ASSERT_TRUE(seen.insert(p).second);
	EXPECT_EQ(census().free_chunks, 0u);
	alloc_census c = census();
	EXPECT_EQ(c.blocks, seen.size());
	EXPECT_LT(c.free_blocks, 64u * 2)
	        << "all stocks of this size are used up; what is left is other sizes'";
	release(*seen.begin());
	EXPECT_NE(alloc(1000), nullptr);
}

TEST_F(Allocator, Crash_LeaksNothing)
{
	heap_.close();
	in_killed_child([&] {
		fur::Heap &h = *new fur::Heap(open()); /* never closed */
		fur::Thread t(h);
		for (int i = 0; i < 1000; i++)
			fur::update(t, [&](fur_update *tx) {
				void *old = fur_root(tx, 0);
				fur_set_root(tx, 0, fur_alloc(tx, 100));
				fur_free(tx, old);
			});
		fur_update *tx;
		EXPECT_EQ(fur_begin_update(t, &tx), 0);
		fur_alloc(tx, 5000); /* and dies in it */
	});
	heap_ = open();
	EXPECT_EQ(census().blocks, 1u);
}

TEST_F(Allocator, Check_FindsPlantedDamage)
{
	char *base = static_cast<char *>(heap_base(heap_));
	void *a = alloc(48), *b = alloc(48);
	release(a);
	release(b);
	alloc_census c;
	ASSERT_EQ(alloc_check(base, &c), 0);
	auto *free_a = static_cast<uint64_t *>(a);
	uint64_t kept = *free_a;
	*free_a = reinterpret_cast<uintptr_t>(b); /* a loop: b is on the list twice */
	EXPECT_EQ(alloc_check(base, &c), FUR_ECORRUPT);
	*free_a = 12345;
	EXPECT_EQ(alloc_check(base, &c), FUR_ECORRUPT);
	*free_a = kept;
	ASSERT_EQ(alloc_check(base, &c), 0);
	/* The chunk table: its offset is the header's fifth word; the last chunk is the one our
	 * blocks are from. */
	uint64_t table, chunks;
	memcpy(&table, base + 32, 8);
	memcpy(&chunks, base + 24, 8);
	base[table + (chunks - 1) * 32] = 3;
	EXPECT_EQ(alloc_check(base, &c), FUR_ECORRUPT);
	base[table + (chunks - 1) * 32] = 2;
	EXPECT_EQ(alloc_check(base, &c), 0);
}

/* ------------------------------------------------ after the update has failed */

/* After any failure fur_alloc returns NULL, fur_free does nothing, and the commit reports the
 * reason; nothing is lost. */
class FailedUpdate : public Allocator
{
protected:
	template <class Fail>
	void expect_refused(int error, Fail &&fail)
	{
		void *kept = alloc(64);
		alloc_census before = census();
		fur_update *tx;
		ASSERT_EQ(fur_begin_update(self_, &tx), 0);
		fail(tx);
		for (size_t n : {16u, 64u, 1000u, 16384u, 16385u, 100000u})
			EXPECT_EQ(fur_alloc(tx, n), nullptr) << n;
		fur_free(tx, kept);
		fur_free(tx, this);
		EXPECT_EQ(fur_commit(tx, nullptr), error) << fur_errormsg();
		EXPECT_EQ(census().blocks, before.blocks);
		EXPECT_EQ(census().free_blocks, before.free_blocks);
		EXPECT_NE(alloc(1000), nullptr);
		release(kept);
	}
	/* Until there is no more; the count ends a loop that hands out one block again and
	 * again. */
	static void alloc_all(fur_update *tx, size_t n)
	{
		int count = 0;
		while (fur_alloc(tx, n))
			ASSERT_LT(++count, 1 << 20);
	}
};

TEST_F(FailedUpdate, StoreOutsideTheHeap)
{
	expect_refused(FUR_ERANGE, [](fur_update *tx) {
		static uint64_t outside;
		fur_store(tx, &outside, 1);
	});
}

TEST_F(FailedUpdate, NestedAbort)
{
	expect_refused(FUR_EABORTED, [this](fur_update *) {
		fur_update *inner;
		ASSERT_EQ(fur_join_update(self_, &inner), 0);
		EXPECT_EQ(fur_abort(inner), FUR_EABORTED);
	});
}

TEST_F(FailedUpdate, InnerBodyThrows)
{
	expect_refused(FUR_EABORTED, [this](fur_update *) {
		EXPECT_THROW(fur::join_update(self_,
		                     [](fur_update *) { throw std::runtime_error("inner"); }),
		        std::runtime_error);
	});
}

/* The log fills up inside the allocator: at each of its stores, as the sizes differ. */
TEST_F(FailedUpdate, LargerThanTheLog)
{
	for (size_t n : {16u, 64u, 96u, 160u, 1000u, 5000u, 16384u}) {
		expect_refused(FUR_ETOOBIG, [n](fur_update *tx) {
			alloc_all(tx, n);
			auto *word = static_cast<uint64_t *>(
			        tx->base ? static_cast<void *>(tx->base + 128) : nullptr);
			for (int k = 0; k < 1000; k++) /* a heap that was full before its log */
				fur_store(tx, word, uint64_t(0));
		});
	}
}

TEST_F(FailedUpdate, LargerThanTheLog_AtEveryWord)
{
	std::vector<void *> blocks;
	for (int k = 0; k < 200; k++)
		blocks.push_back(alloc(k % 2 ? 64 : 16384));
	for (auto *p : blocks)
		release(p);
	for (int words = 200; words < 260; words++)
		for (size_t n : {64u, 16384u, 100000u})
			expect_refused(FUR_ETOOBIG, [words, n](fur_update *tx) {
				auto *root = reinterpret_cast<uint64_t *>(tx->base + 128);
				for (int k = 0; k < words; k++)
					fur_store(tx, root, uint64_t(0));
				void *p = fur_alloc(tx, n);
				fur_free(tx, p);
				for (int k = 0; k < 100; k++)
					fur_store(tx, root, uint64_t(0));
			});
}

/* ----------------------------------------------- many calls in one update, before its commit */

class OneUpdate : public Allocator
{
protected:
	fur_update *begin()
	{
		fur_update *tx;
		EXPECT_EQ(fur_begin_update(self_, &tx), 0) << fur_errormsg();
		return tx;
	}
	static constexpr size_t SIZES[] = {16, 100, 1000, 16384, 16385, 200000};
};

TEST_F(OneUpdate, Root_IsTheOneJustSet)
{
	void *old = alloc(64), *young = alloc(64);
	fur::update(self_, [&](fur_update *tx) { fur_set_root(tx, 1, old); });
	fur_update *tx = begin(), *inner;
	fur_set_root(tx, 1, young);
	EXPECT_EQ(fur_root(tx, 1), young);
	ASSERT_EQ(fur_join_update(self_, &inner), 0);
	EXPECT_EQ(fur_root(inner, 1), young) << "in a nested update";
	EXPECT_EQ(fur_commit(inner, nullptr), 0);
	fur_ro *ro;
	ASSERT_EQ(fur_join_ro(self_, &ro), 0);
	EXPECT_EQ(fur_root(ro, 1), young) << "in a read-only transaction that joined the update";
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	fur_set_root(tx, 1, nullptr);
	EXPECT_EQ(fur_root(tx, 1), nullptr);
	EXPECT_EQ(fur_root(tx, FUR_ROOTS), nullptr);
	EXPECT_EQ(fur_abort(tx), FUR_EABORTED);
	EXPECT_EQ(root_at_rest(heap_, 1), old);
}

/* A root leads to a block, and the block's words to the next: all of one update. */
TEST_F(OneUpdate, Root_LeadsToTheListJustBuilt)
{
	fur_update *tx = begin();
	for (uint64_t k = 0; k < 5; k++) {
		auto *p = static_cast<void **>(fur_alloc(tx, 100));
		ASSERT_NE(p, nullptr);
		fur_store(tx, p, fur_root(tx, 2));
		fur_set_root(tx, 2, p);
	}
	unsigned length = 0;
	for (void *p = fur_root(tx, 2); p; p = fur_load(tx, static_cast<void **>(p)))
		ASSERT_LE(++length, 5u);
	EXPECT_EQ(length, 5u);
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	EXPECT_EQ(census().blocks, 5u);
}

TEST_F(OneUpdate, UsableBytes_OfABlockJustAllocated)
{
	std::vector<void *> blocks;
	fur_update *tx = begin();
	for (size_t n : SIZES) { /* each in a new chunk */
		blocks.push_back(fur_alloc(tx, n));
		ASSERT_NE(blocks.back(), nullptr) << n;
		EXPECT_GE(fur_usable_bytes(tx, blocks.back()), n);
	}
	fur_free(tx, blocks.back());
	EXPECT_EQ(fur_usable_bytes(tx, blocks.back()), 0u) << "a free run again";
	EXPECT_EQ(fur_abort(tx), FUR_EABORTED);
	for (void *p : blocks)
		EXPECT_EQ(usable_at_rest(heap_, p), 0u) << "its chunk was never taken";
	EXPECT_EQ(census().blocks, 0u);
}

TEST_F(OneUpdate, BlocksAreDistinct_AndFreedOnesComeBack)
{
	for (size_t n : {16u, 1000u, 16384u, 65536u}) {
		SCOPED_TRACE(n);
		std::set<void *> first, second;
		fur_update *tx = begin();
		for (int k = 0; k < 6; k++)
			ASSERT_TRUE(first.insert(fur_alloc(tx, n)).second);
		for (void *p : first)
			fur_free(tx, p);
		for (int k = 0; k < 6; k++)
			ASSERT_TRUE(second.insert(fur_alloc(tx, n)).second);
		EXPECT_TRUE(first == second || n == 65536u);
		EXPECT_FALSE(second.count(nullptr));
		EXPECT_EQ(fur_commit(tx, nullptr), 0);
		EXPECT_EQ(census().blocks, 6u);
		for (void *p : second)
			release(p);
		EXPECT_EQ(census().blocks, 0u);
	}
}

TEST_F(OneUpdate, FreeOfWhatTheUpdateFreed_IsRefused)
{
	for (size_t n : SIZES) {
		void *kept = alloc(n);
		alloc_census before = census();
		for (bool own : {false, true}) {
			fur_update *tx = begin();
			void *p = own ? fur_alloc(tx, n) : kept;
			fur_free(tx, p);
			fur_free(tx, p);
			EXPECT_EQ(fur_commit(tx, nullptr), FUR_EFREE) << n;
			EXPECT_EQ(census().blocks, before.blocks);
		}
		release(kept);
	}
}

/* Neither a range that the update took, nor the rest of a chunk that it took, is allocated. */
TEST_F(OneUpdate, FreeOfWhatItHasNotCarved_IsRefused)
{
	for (size_t n : {16u, 64u, 1000u, 8192u})
		for (bool range : {false, true}) {
			fur_update *tx = begin();
			char *p = static_cast<char *>(fur_alloc(tx, n));
			ASSERT_NE(p, nullptr);
			size_t usable = fur_usable_bytes(tx, p);
			ASSERT_GE(usable, n);
			fur_free(tx, p + (range ? usable : 65536 - 65536 % usable - usable));
			EXPECT_EQ(fur_commit(tx, nullptr), FUR_EFREE) << n;
		}
	EXPECT_EQ(census().blocks, 0u);
}

/* ------------------------------------------------------------- blocks that fur_free refuses */

class Free : public Allocator
{
protected:
	int free_result(void *p)
	{
		fur_update *tx;
		EXPECT_EQ(fur_begin_update(self_, &tx), 0);
		fur_free(tx, p);
		return fur_commit(tx, nullptr);
	}
};

TEST_F(Free, OfWhatIsNoBlock_IsRefused)
{
	for (size_t n : {16u, 64u, 1000u, 16384u}) {
		char *p = static_cast<char *>(alloc(n));
		size_t usable = usable_at_rest(heap_, p);
		alloc_census before = census();
		EXPECT_EQ(free_result(p + usable), FUR_EFREE)
		        << n << ": not carved yet, of this thread's range";
		EXPECT_EQ(free_result(p + 65536 - 65536 % usable - usable), FUR_EFREE)
		        << n << ": not carved yet, of no thread's range";
		EXPECT_EQ(free_result(p + 8), FUR_EFREE) << n << ": inside a block";
		EXPECT_EQ(free_result(static_cast<char *>(heap_base(heap_)) + 128), FUR_EFREE);
		EXPECT_EQ(free_result(this), FUR_EFREE);
		EXPECT_EQ(census().blocks, before.blocks);
		EXPECT_EQ(free_result(p), 0);
		EXPECT_EQ(free_result(p), FUR_EFREE) << n << ": the one just freed";
		EXPECT_EQ(census().blocks, before.blocks - 1);
		EXPECT_EQ(census().free_blocks, before.free_blocks + 1);
	}
	char *large = static_cast<char *>(alloc(200000));
	EXPECT_EQ(free_result(large + 65536), FUR_EFREE);
	EXPECT_EQ(free_result(large), 0);
	EXPECT_EQ(free_result(large), FUR_EFREE);
	EXPECT_EQ(free_result(nullptr), 0);
}

TEST_F(Free, OfABlockThatAnotherThreadCarved_IsDone)
{
	void *mine = alloc(48), *theirs = nullptr;
	std::thread([&] {
		fur::Thread t(heap_);
		theirs = fur::update(t, [](fur_update *tx) { return fur_alloc(tx, 48); });
	}).join();
	EXPECT_EQ(free_result(theirs), 0);
	EXPECT_EQ(free_result(mine), 0);
	EXPECT_EQ(census().blocks, 0u);
}

TEST_F(Free, WithNoUpdate_DoesNothing)
{
	void *p = alloc(64);
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	ASSERT_EQ(fur_commit(tx, nullptr), 0);
	fur_free(tx, p);
	fur_free(nullptr, p);
	EXPECT_EQ(fur_alloc(tx, 64), nullptr);
	EXPECT_EQ(fur_alloc(nullptr, 64), nullptr);
	EXPECT_EQ(census().blocks, 1u);
	release(p);
	EXPECT_EQ(census().blocks, 0u);
}

} // namespace
