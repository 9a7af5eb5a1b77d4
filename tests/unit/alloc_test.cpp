/* SPDX-License-Identifier: BSD-3-Clause
 *
 * alloc_test.cpp - the transactional allocator, and the check of its state.
 */
#include "fixture.hpp"
#include "internals.hpp"

#include <map>
#include <set>
#include <thread>

namespace
{

class Allocator : public HeapFile
{
      protected:
	Allocator() : heap_(create()), self_(heap_) {}
	alloc_census census()
	{
		alloc_census c;
		EXPECT_EQ(alloc_check(fur_base(heap_), &c), 0) << fur_errormsg();
		return c;
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
	for (size_t n : {0u, 1u, 16u, 17u, 64u, 128u, 129u, 160u, 192u, 256u, 257u, 320u, 1000u, 1024u, 4096u, 5000u, 16384u,
	             16385u, 65536u, 65537u, 200000u}) {
		void *p = alloc(n);
		ASSERT_NE(p, nullptr) << n;
		EXPECT_GE(fur_usable_bytes(heap_, p), n);
		EXPECT_LE(fur_usable_bytes(heap_, p), n < 128 ? n + 16 : n > 16384 ? n + 65536 : n + n / 4);
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
	auto random = [&] { return seed = seed * 6364136223846793005u + 1442695040888963407u, seed >> 33; };
	for (int i = 0; i < 20000; i++) {
		if (random() % 2 || live.empty()) {
			size_t n = random() % 100 == 0 ? random() % 100000 : random() % 600;
			auto p = reinterpret_cast<uintptr_t>(alloc(n));
			if (!p)
				continue;
			auto next = live.lower_bound(p);
			size_t usable = fur_usable_bytes(heap_, reinterpret_cast<void *>(p));
			ASSERT_TRUE(next == live.end() || p + usable <= next->first);
			ASSERT_TRUE(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= p);
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
	EXPECT_LT(c.free_blocks, 64u * 2) << "all stocks of this size are used up; what is left is other sizes'";
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
				void *old = fur_root(h, 0);
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
	char *base = static_cast<char *>(fur_base(heap_));
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
	/* The chunk table: its offset is the header's fifth word; the last chunk is the one our blocks are from. */
	uint64_t table, chunks;
	memcpy(&table, base + 32, 8);
	memcpy(&chunks, base + 24, 8);
	base[table + (chunks - 1) * 32] = 3;
	EXPECT_EQ(alloc_check(base, &c), FUR_ECORRUPT);
	base[table + (chunks - 1) * 32] = 2;
	EXPECT_EQ(alloc_check(base, &c), 0);
}

} // namespace
