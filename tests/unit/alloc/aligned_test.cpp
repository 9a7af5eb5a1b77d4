/* SPDX-License-Identifier: BSD-3-Clause
 *
 * aligned_test.cpp - fur_alloc_aligned and fur::make: addresses, cache lines that no other block
 * has, and what becomes of the blocks in frees, aborts, crashes and heaps of the old form.
 */
#include "census.hpp"
#include "fixture.hpp"
#include "internals.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>

namespace
{

class Aligned : public OpenHeap
{
protected:
	alloc_census census()
	{
		return census_of(heap_);
	}
	void *alloc(size_t bytes, size_t alignment)
	{
		return fur::update(self_,
		        [&](fur_update *tx) { return fur_alloc_aligned(tx, bytes, alignment); });
	}
	void release(void *p)
	{
		fur::update(self_, [&](fur_update *tx) { fur_free(tx, p); });
	}
};

bool lies_at_multiple(const void *p, size_t alignment)
{
	return reinterpret_cast<uintptr_t>(p) % alignment == 0;
}

TEST_F(Aligned, EverySizeAtEveryAlignment)
{
	for (size_t alignment = 1; alignment <= FUR_MOST_ALIGNMENT; alignment *= 2) {
		std::vector<void *> blocks;
		for (size_t n : {size_t(0), size_t(1), size_t(40), size_t(144), size_t(1000),
		             size_t(16384), size_t(16385), alignment - 1, alignment, alignment + 1,
		             3 * alignment, 5 * alignment - 1, size_t(40)}) {
			SCOPED_TRACE(std::to_string(n) + " at " + std::to_string(alignment));
			void *p = alloc(n, alignment);
			ASSERT_NE(p, nullptr);
			EXPECT_TRUE(lies_at_multiple(p, alignment)) << p;
			size_t usable = usable_at_rest(heap_, p),
			       asked = std::max(n, size_t(1)) + alignment - 1;
			EXPECT_GE(usable, n);
			EXPECT_LE(usable, asked < 16384 ? asked + std::max(asked / 4, size_t(16))
			                                : asked + 65536);
			if (alignment >= FUR_CACHE_LINE) {
				EXPECT_EQ(usable % FUR_CACHE_LINE, 0u);
			}
			blocks.push_back(p);
		}
		EXPECT_EQ(census().blocks, blocks.size());
		for (void *p : blocks)
			release(p);
		EXPECT_EQ(census().blocks, 0u);
	}
}

/* -------------------------------------------------------------------------- cache lines */

/* Which lines the live blocks use, and how many blocks use each. */
class Lines
{
public:
	struct Block {
		uintptr_t at;
		size_t bytes;
		bool alone; /* no other block may use its lines */
	};
	void add(const Block &b)
	{
		for (uintptr_t line = first(b); line <= last(b); line++)
			users_[line]++;
	}
	void remove(const Block &b)
	{
		for (uintptr_t line = first(b); line <= last(b); line++)
			if (--users_[line] == 0)
				users_.erase(line);
	}
	/* Whether a block that must be alone is. */
	bool holds(const Block &b) const
	{
		for (uintptr_t line = first(b); b.alone && line <= last(b); line++)
			if (users_.at(line) != 1)
				return false;
		return true;
	}

private:
	static uintptr_t first(const Block &b)
	{
		return b.at / FUR_CACHE_LINE;
	}
	static uintptr_t last(const Block &b)
	{
		return (b.at + b.bytes - 1) / FUR_CACHE_LINE;
	}
	std::map<uintptr_t, unsigned> users_;
};

/* The lines of an aligned block are its own up to their ends: whatever is allocated and freed
 * meanwhile, nothing else changes a byte of them. */
TEST_F(Aligned, NoOtherBlockUsesItsLines_AndNothingElseIsStoredThere)
{
	std::mt19937 random(1);
	std::vector<Lines::Block> live;
	Lines lines;
	auto fill = [](const Lines::Block &b) {
		return std::string(b.bytes, static_cast<char>(b.at >> 7 | 1));
	};
	for (int i = 0; i < 8000; i++) {
		if (random() % 2 && live.size() < 300) {
			bool alone = random() % 2;
			size_t n = random() % 4 ? random() % 200 : random() % 5000,
			       alignment = alone ? size_t(FUR_CACHE_LINE) << random() % 6
			                         : size_t(1) << random() % 7;
			auto block = fur::update(self_, [&](fur_update *tx) {
				void *p = random() % 8 || alone
				                  ? fur_alloc_aligned(tx, n, alignment)
				                  : fur_alloc(tx, n);
				Lines::Block b{reinterpret_cast<uintptr_t>(p),
				        p ? fur_usable_bytes(tx, p) : 0, alone};
				if (p && alone)
					fur_write(tx, p, fill(b).data(),
					        std::min(b.bytes, size_t(2048)));
				return b;
			});
			if (!block.at)
				continue;
			lines.add(block);
			live.push_back(block);
			for (const Lines::Block &b : live)
				ASSERT_TRUE(lines.holds(b)) << b.at;
		} else if (!live.empty()) {
			std::swap(live[random() % live.size()], live.back());
			Lines::Block b = live.back();
			live.pop_back();
			if (b.alone) {
				ASSERT_EQ(memcmp(reinterpret_cast<void *>(b.at), fill(b).data(),
				                  std::min(b.bytes, size_t(2048))),
				        0)
				        << b.at;
			}
			lines.remove(b);
			release(reinterpret_cast<void *>(b.at));
		}
	}
	EXPECT_EQ(census().blocks, live.size());
}

/* ------------------------------------------------------------- free, abort, crash, full */

TEST_F(Aligned, FreedBlocksServeAnyAllocationOfTheirSize)
{
	void *p = alloc(40, FUR_CACHE_LINE);
	release(p);
	EXPECT_EQ(alloc(FUR_CACHE_LINE, 1), p);
	release(p);
	EXPECT_EQ(alloc(100, FUR_CACHE_LINE), p);
	release(p);
	void *large = alloc(1, 32768);
	EXPECT_EQ(usable_at_rest(heap_, large), 65536u);
	release(large);
	EXPECT_EQ(usable_at_rest(heap_, large), 0u) << "a free run again";
	EXPECT_EQ(census().blocks, 0u);
}

TEST_F(Aligned, FreeOfTheMiddleOrTwice_IsRefused)
{
	char *p = static_cast<char *>(alloc(40, 4096));
	for (char *wrong : {p + 64, p + 128, p + 2048}) {
		fur_update *tx = begin();
		fur_free(tx, wrong);
		EXPECT_EQ(fur_commit(tx, nullptr), FUR_EFREE);
	}
	release(p);
	fur_update *tx = begin();
	fur_free(tx, p);
	EXPECT_EQ(fur_commit(tx, nullptr), FUR_EFREE);
}

TEST_F(Aligned, AbortGivesThemBack)
{
	void *kept = alloc(40, FUR_CACHE_LINE);
	alloc_census before = census();
	fur_update *tx = begin();
	for (size_t alignment = 16; alignment <= FUR_MOST_ALIGNMENT; alignment *= 2)
		ASSERT_NE(fur_alloc_aligned(tx, 40, alignment), nullptr) << alignment;
	fur_free(tx, kept);
	EXPECT_EQ(fur_abort(tx), FUR_EABORTED);
	alloc_census after = census();
	EXPECT_EQ(after.blocks, before.blocks);
	EXPECT_EQ(after.free_blocks, before.free_blocks);
	EXPECT_EQ(after.free_chunks, before.free_chunks);
	release(kept);
}

TEST_F(Aligned, CrashLeaksNothing_AndReplayKeepsTheAddress)
{
	heap_.close();
	in_killed_child([&] {
		fur::Heap &h = *new fur::Heap(open()); /* never closed */
		fur::Thread t(h);
		for (uint64_t i = 0; i < 1000; i++)
			fur::update(t, [&](fur_update *tx) {
				auto *fresh = static_cast<uint64_t *>(
				        fur_alloc_aligned(tx, 40, size_t(128) << i % 6));
				fur_free(tx, fur_root(tx, 0));
				fur_store(tx, fresh, i);
				fur_set_root(tx, 0, fresh);
			});
		fur_update *tx;
		EXPECT_EQ(fur_begin_update(t, &tx), 0);
		fur_alloc_aligned(tx, 40, 4096); /* and dies in it */
	});
	heap_ = open();
	self_ = fur::Thread(heap_);
	EXPECT_EQ(census().blocks, 1u);
	auto *last = static_cast<uint64_t *>(root_at_rest(heap_, 0));
	EXPECT_EQ(*last, 999u);
	EXPECT_TRUE(lies_at_multiple(last, size_t(128) << 999 % 6));
	EXPECT_EQ(usable_at_rest(heap_, last), size_t(128) << 999 % 6);
}

TEST_F(Aligned, FullHeap_ReturnsNull_AndAllComesBack)
{
	uint64_t chunks = census().free_chunks;
	for (size_t alignment : {128u, 1024u, 65536u}) {
		std::set<void *> blocks;
		while (void *p = alloc(100, alignment))
			ASSERT_TRUE(blocks.insert(p).second && lies_at_multiple(p, alignment));
		EXPECT_EQ(blocks.size(), chunks * (65536 / alignment));
		for (void *p : blocks)
			release(p);
		EXPECT_EQ(census().blocks, 0u);
	}
}

TEST_F(Aligned, MoreThanTheHeap_ReturnsNull_AndTheUpdateGoesOn)
{
	fur_update *tx = begin();
	for (size_t alignment : {size_t(1), size_t(128), size_t(65536)})
		for (size_t n : {SIZE_MAX, SIZE_MAX - 127, SIZE_MAX - 65535, SIZE_MAX / 2,
		             size_t(2) << 20, (size_t(2) << 20) + 1})
			EXPECT_EQ(fur_alloc_aligned(tx, n, alignment), nullptr) << n;
	EXPECT_NE(fur_alloc_aligned(tx, 40, 128), nullptr);
	EXPECT_EQ(fur_commit(tx, nullptr), 0) << fur_errormsg();
	EXPECT_EQ(census().blocks, 1u);
}

/* -------------------------------------------------------------------- updates that fail */

TEST_F(Aligned, OtherAlignments_FailTheUpdate)
{
	alloc_census before = census();
	for (size_t alignment : {size_t(0), size_t(3), size_t(48), size_t(129), size_t(65535),
	             2 * size_t(FUR_MOST_ALIGNMENT), SIZE_MAX}) {
		SCOPED_TRACE(alignment);
		fur_update *tx = begin();
		EXPECT_NE(fur_alloc_aligned(tx, 40, 128), nullptr);
		EXPECT_EQ(fur_alloc_aligned(tx, 40, alignment), nullptr);
		EXPECT_EQ(fur_alloc_aligned(tx, 40, 128), nullptr) << "the update has failed";
		EXPECT_EQ(fur_commit(tx, nullptr), FUR_EINVAL);
		EXPECT_NE(strstr(fur_errormsg(), "fur_alloc_aligned()"), nullptr) << fur_errormsg();
		tx = begin();
		EXPECT_EQ(fur_alloc_aligned(tx, 40, alignment), nullptr);
		EXPECT_EQ(fur_abort(tx), FUR_EINVAL);
	}
	EXPECT_EQ(census().blocks, before.blocks);
	EXPECT_EQ(census().free_blocks, before.free_blocks);
}

TEST_F(Aligned, AfterTheUpdateHasFailed_ReturnsNull)
{
	static uint64_t outside;
	fur_update *tx = begin();
	fur_store(tx, &outside, 1);
	EXPECT_EQ(fur_alloc_aligned(tx, 40, 128), nullptr);
	EXPECT_EQ(fur_alloc_aligned(tx, 40, 3), nullptr);
	EXPECT_EQ(fur_commit(tx, nullptr), FUR_ERANGE) << "the first reason";
	EXPECT_EQ(fur_alloc_aligned(tx, 40, 128), nullptr) << "the update has ended";
	EXPECT_EQ(fur_alloc_aligned(nullptr, 40, 128), nullptr);
	EXPECT_EQ(census().blocks, 0u);
}

TEST_F(Aligned, LargerThanTheLog_RollsBack)
{
	alloc_census before = census();
	fur_update *tx = begin();
	size_t got = 0;
	while (fur_alloc_aligned(tx, 40, 128)) /* each logs a word at least; the log has 4 KiB */
		ASSERT_LT(++got, 4096u / 16);
	EXPECT_GT(got, 0u);
	EXPECT_EQ(fur_commit(tx, nullptr), FUR_ETOOBIG) << fur_errormsg();
	EXPECT_EQ(census().blocks, before.blocks);
	EXPECT_EQ(census().free_blocks, before.free_blocks);
	EXPECT_NE(alloc(40, 128), nullptr);
}

/* ------------------------------------------------------- heaps of the first form, and C++ */

TEST_F(Aligned, HeapOfTheFirstForm)
{
	heap_.close();
	media_super super;
	memcpy(&super, bytes().data(), sizeof super);
	uint64_t magic = HEAP_MAGIC_1, none = 0;
	poke(super.heap_offset + offsetof(heap_header, magic), &magic, 8);
	poke(super.heap_offset + offsetof(heap_header, lists), &none, 8);
	heap_ = open();
	self_ = fur::Thread(heap_);
	for (int round = 0; round < 2; round++) {
		std::vector<void *> blocks;
		for (int k = 0; k < 600; k++) {
			blocks.push_back(alloc(40, size_t(128) << k % 3));
			ASSERT_NE(blocks.back(), nullptr);
			ASSERT_TRUE(lies_at_multiple(blocks.back(), size_t(128) << k % 3));
		}
		EXPECT_EQ(census().blocks, blocks.size());
		for (void *p : blocks)
			release(p);
	}
	EXPECT_EQ(census().blocks, 0u);
}

template <size_t ALIGNMENT>
struct alignas(ALIGNMENT) Record {
	uint64_t value = ALIGNMENT;
	char text[40] = "a record";
};

template <size_t ALIGNMENT>
void expect_made(fur_thread *self)
{
	for (int k = 0; k < 3; k++)
		fur::update(self, [&](fur_update *tx) {
			(void)fur_alloc(tx, 40); /* a neighbour of another size */
			auto *made = fur::make<Record<ALIGNMENT>>(tx);
			ASSERT_NE(made, nullptr);
			EXPECT_TRUE(lies_at_multiple(made, ALIGNMENT)) << ALIGNMENT;
			EXPECT_EQ(fur_load(tx, &made->value), ALIGNMENT);
		});
}

TEST_F(Aligned, Make_HonoursAlignof)
{
	fur::Options o = small_options();
	o.log_bytes = 1 << 20;
	heap_.close();
	unlink(path_.c_str());
	heap_ = create(o);
	self_ = fur::Thread(heap_);
	expect_made<8>(self_);
	expect_made<32>(self_);
	expect_made<64>(self_);
	expect_made<FUR_CACHE_LINE>(self_);
	expect_made<1024>(self_);
	expect_made<4096>(self_);
	EXPECT_EQ(census().blocks, 2u * 3 * 6);
}

} // namespace
