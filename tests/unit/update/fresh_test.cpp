/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fresh_test.cpp - stores to a large block that the update itself allocated are not logged
 * (INV-FM1 to INV-FM5).
 */
#include "fixture.hpp"
#include "internals.hpp"
#include "software.hpp"

#include "update/fresh.h"

#include <atomic>
#include <thread>
#include <vector>

namespace
{

constexpr uint64_t MIB = 1 << 20, CHUNK = 65536;

/* Both domains, since a commit drains by a fence in one and by a sync in the other; and an update
 * in place, a serial one and one that may run again, since each gets the turn in its own way. */
enum class How { serial, rerun, in_place };
struct Case {
	fur_pm pm;
	How how;
};

/* A body throws it. */
struct GaveUp {
};

class Fresh : public HeapFile, public ::testing::WithParamInterface<Case>
{
protected:
	static fur::Options options()
	{
		fur::Options o = small_options();
		o.heap_bytes = 16 * MIB;
		o.log_bytes = 65536;
		o.ring_slots = 256;
		o.htm = FUR_HTM_NONE;
		o.pm = GetParam().pm;
		return o;
	}
	template <class Body>
	int update(fur::Thread &self, Body body)
	{
		try {
			if (GetParam().how == How::rerun) {
				fur::update(self, fur::rerun, body);
				return 0;
			}
			/* Alone for so long that updates run in place. */
			for (int k = 0; GetParam().how == How::in_place && k < 300; k++)
				fur::update(self, [](fur_update *) {});
			fur::update(self, body);
			return 0;
		} catch (const fur::Error &e) {
			return e.code();
		} catch (const GaveUp &) {
			return FUR_EABORTED;
		}
	}
	/* A table of n words, in root `root`; the old one is freed. */
	int table(fur::Thread &self, unsigned root, uint64_t n, uint64_t seed)
	{
		return update(self, [&](fur_update *tx) {
			auto *old = static_cast<uint64_t *>(fur_root(tx, root));
			auto *words = static_cast<uint64_t *>(fur_alloc(tx, n * 8));
			ASSERT_NE(words, nullptr);
			for (uint64_t k = 0; k < n; k++)
				fur_store(tx, &words[k], seed + k);
			fur_set_root(tx, root, words);
			if (old)
				fur_free(tx, old);
		});
	}
	static void expect_table(fur_heap *heap, unsigned root, uint64_t n, uint64_t seed)
	{
		auto *words = static_cast<const uint64_t *>(root_at_rest(heap, root));
		ASSERT_NE(words, nullptr);
		uint64_t wrong = 0;
		for (uint64_t k = 0; k < n; k++)
			wrong += words[k] != seed + k;
		EXPECT_EQ(wrong, 0u) << "of " << n;
	}
};

TEST_P(Fresh, AnUpdateLargerThanItsLog_Commits_AndSurvivesAKill)
{
	constexpr uint64_t N = 8 * MIB / 8;
	in_killed_child([&] {
		fur::Heap heap = create(options());
		fur::Thread self(heap);
		ASSERT_EQ(table(self, 0, N, 1000), 0) << fur_errormsg();
		expect_table(heap.get(), 0, N, 1000);
		EXPECT_LT(heap.stats().log_entries, 2000u);
	});
	fur::Heap heap = open(options());
	expect_table(heap.get(), 0, N, 1000);
}

/* The allocator gives itself the chunks by which the heap grows: they are unused. */
TEST_P(Fresh, ATableForWhichTheHeapGrows_IsFreshToo)
{
	constexpr uint64_t N = 4 * MIB / 8;
	fur::Options o = options();
	o.heap_bytes = 2 * MIB;
	o.max_bytes = 64 * MIB;
	in_killed_child([&] {
		fur::Heap heap = create(o);
		fur::Thread self(heap);
		const uint64_t before = heap_size(heap.get());
		for (unsigned root = 0; root < 4; root++)
			ASSERT_EQ(table(self, root, N, 1000 * root), 0) << fur_errormsg();
		EXPECT_GT(heap_size(heap.get()), before + 8 * MIB);
	});
	fur::Heap heap = open(o);
	for (unsigned root = 0; root < 4; root++)
		expect_table(heap.get(), root, N, 1000 * root);
}

TEST_P(Fresh, ReusedMemory_GetsNoOlderEntries)
{
	constexpr uint64_t N = 3 * CHUNK / 8;
	uint64_t seed = 0;
	in_killed_child([&] {
		fur::Heap heap = create(options());
		fur::Thread self(heap);
		for (int round = 0; round < 40; round++) {
			ASSERT_EQ(table(self, 0, N, 7000 * (round + 1)), 0);
			/* Logged stores to the table, which the next round frees. */
			for (int k = 0; k < 50; k++)
				fur::update(self, [&](fur_update *tx) {
					auto *words = static_cast<uint64_t *>(fur_root(tx, 0));
					fur_store(tx, &words[k * 97 % N], uint64_t(1));
				});
			ASSERT_EQ(table(self, 0, N, 9000 * (round + 1)), 0);
		}
	});
	seed = 9000 * 40;
	fur::Heap heap = open(options());
	expect_table(heap.get(), 0, N, seed);
}

/* A copy made by reading the file from front to back: its tail is older than its heap. */
TEST_P(Fresh, ACopyWithAnOlderTail_IsRefused)
{
	constexpr uint64_t N = 3 * CHUNK / 8;
	std::string early, late;
	in_killed_child([&] {
		fur::Heap heap = create(options());
		fur::Thread self(heap);
		ASSERT_EQ(table(self, 0, N, 100), 0);
		for (int k = 0; k < 10; k++)
			fur::update(self, [&](fur_update *tx) {
				auto *words = static_cast<uint64_t *>(fur_root(tx, 0));
				fur_store(tx, &words[k], uint64_t(1));
			});
		fur::update(self, [&](fur_update *tx) {
			fur_free(tx, fur_root(tx, 0));
			fur_set_root(tx, 0, nullptr);
		});
		early = bytes();
		ASSERT_EQ(table(self, 0, N, 5000), 0);
		late = bytes();
		const std::string mixed =
		        early.substr(0, sizeof(media_super)) + late.substr(sizeof(media_super));
		std::ofstream(path_ + "-mixed", std::ios::binary) << mixed;
		std::ofstream(path_ + "-late", std::ios::binary) << late;
	});
	const std::string whole = path_ + "-late", mixed = path_ + "-mixed";
	fur_heap *heap = nullptr;
	fur::Options o = options();
	EXPECT_EQ(fur_open(mixed.c_str(), &o, &heap), FUR_ECORRUPT);
	EXPECT_NE(std::string(fur_errormsg()).find("fur-copy"), std::string::npos)
	        << fur_errormsg();
	{
		fur::Heap opened = fur::Heap::open(whole, o);
		expect_table(opened.get(), 0, N, 5000);
	}
	unlink(whole.c_str());
	unlink(mixed.c_str());
}

/* As while a backup or a scan copies the heap, and has passed the block. */
TEST_P(Fresh, AReplayThatWritesToACopy_WritesTheBlockThere)
{
	constexpr uint64_t N = 2 * CHUNK / 8;
	fur::Heap heap = create(options());
	fur::Thread self(heap);
	struct durability &d = heap.get()->durability;
	std::vector<uint8_t> copy(d.heap_bytes);
	ASSERT_EQ(table(self, 0, N, 300), 0);
	d.copy_fd = -1;
	d.copied = d.copy_bytes = d.heap_bytes;
	d.copy = copy.data();
	struct arch_backoff backoff = {};
	while (d.tail < d.next_durts)
		ASSERT_EQ(durability_replay(&d, &backoff), 0) << fur_errormsg();
	d.copy = nullptr;
	auto *words = static_cast<const uint64_t *>(root_at_rest(heap.get(), 0));
	const auto at = reinterpret_cast<uintptr_t>(words) -
	                reinterpret_cast<uintptr_t>(heap_base(heap.get()));
	EXPECT_EQ(memcmp(copy.data() + at, words, N * 8), 0);
}

TEST_P(Fresh, StoresOfEveryWidth_ReadBack_BeforeAndAfterTheCommit)
{
	fur::Heap heap = create(options());
	fur::Thread self(heap);
	uint8_t bytes[3000];
	for (size_t k = 0; k < sizeof bytes; k++)
		bytes[k] = static_cast<uint8_t>(k * 7);
	ASSERT_EQ(update(self,
	                  [&](fur_update *tx) {
		                  auto *p = static_cast<uint8_t *>(fur_alloc(tx, 2 * CHUNK));
		                  ASSERT_NE(p, nullptr);
		                  EXPECT_TRUE(tx->flags & TX_FRESH);
		                  fur_write(tx, p + 3, bytes, sizeof bytes);
		                  fur_store(tx, reinterpret_cast<uint32_t *>(p + 4096), 77u);
		                  EXPECT_EQ(fur_load(tx, reinterpret_cast<uint32_t *>(p + 4096)),
		                          77u);
		                  /* Within the block, and overlapping. */
		                  fur_write(tx, p + 10, p + 3, sizeof bytes);
		                  uint8_t back[sizeof bytes];
		                  fur_read(tx, back, p + 10, sizeof back);
		                  EXPECT_EQ(memcmp(back, bytes, sizeof back), 0);
		                  fur_set_root(tx, 0, p);
	                  }),
	        0);
	heap.close();
	fur::Heap again = open(options());
	auto *p = static_cast<const uint8_t *>(root_at_rest(again.get(), 0));
	EXPECT_EQ(memcmp(p + 10, bytes, sizeof bytes), 0);
	uint32_t word;
	memcpy(&word, p + 4096, 4);
	EXPECT_EQ(word, 77u);
}

TEST_P(Fresh, AStoreAcrossTheEdge_IsStoredOnBothSides)
{
	fur::Heap heap = create(options());
	fur::Thread self(heap);
	uint8_t *low = nullptr, *high = nullptr;
	std::vector<uint8_t> bytes(6000);
	for (size_t k = 0; k < bytes.size(); k++)
		bytes[k] = static_cast<uint8_t>(k * 11 + 1);
	/* Runs are taken from the end of the free run: the second lies below the first. */
	fur::update(self, [&](fur_update *tx) {
		high = static_cast<uint8_t *>(fur_alloc(tx, CHUNK));
		fur_set_root(tx, 0, high);
	});
	ASSERT_EQ(update(self,
	                  [&](fur_update *tx) {
		                  low = static_cast<uint8_t *>(fur_alloc(tx, CHUNK));
		                  ASSERT_EQ(low + CHUNK, high);
		                  fur_write(tx, high - 3000, bytes.data(), bytes.size());
		                  fur_store(tx, low, uint8_t(5));
		                  fur_set_root(tx, 1, low);
	                  }),
	        0);
	EXPECT_EQ(memcmp(high - 3000, bytes.data(), bytes.size()), 0);
	heap.close();
	fur::Heap again = open(options());
	high = static_cast<uint8_t *>(root_at_rest(again.get(), 0));
	EXPECT_EQ(memcmp(high - 3000, bytes.data(), bytes.size()), 0);
}

TEST_P(Fresh, AnAbort_LeavesTheHeapAsItWas)
{
	fur::Heap heap = create(options());
	fur::Thread self(heap);
	ASSERT_EQ(table(self, 0, CHUNK / 8, 100), 0);
	uint64_t used = heap.stats().space_used_bytes;
	for (int k = 0; k < 100; k++)
		EXPECT_EQ(update(self,
		                  [&](fur_update *tx) {
			                  auto *p =
			                          static_cast<uint64_t *>(fur_alloc(tx, 4 * CHUNK));
			                  ASSERT_NE(p, nullptr);
			                  for (uint64_t w = 0; w < 4 * CHUNK / 8; w += 8)
				                  fur_store(tx, &p[w], w);
			                  throw GaveUp();
		                  }),
		        FUR_EABORTED);
	EXPECT_EQ(heap.stats().space_used_bytes, used);
	expect_table(heap.get(), 0, CHUNK / 8, 100);
}

TEST_P(Fresh, GivenBackInTheSameUpdate_IsLogged)
{
	fur::Heap heap = create(options());
	fur::Thread self(heap);
	ASSERT_EQ(table(self, 0, CHUNK / 8, 100), 0);
	ASSERT_EQ(update(self,
	                  [&](fur_update *tx) {
		                  auto *old = static_cast<uint64_t *>(fur_root(tx, 0));
		                  fur_store(tx, old, uint64_t(1)); /* logged, and published later */
		                  fur_free(tx, old);
		                  auto *p = static_cast<uint64_t *>(fur_alloc(tx, CHUNK));
		                  EXPECT_FALSE(tx->flags & TX_FRESH);
		                  for (uint64_t k = 0; k < 16; k++)
			                  fur_store(tx, &p[k], 500 + k);
		                  fur_set_root(tx, 0, p);
	                  }),
	        0);
	expect_table(heap.get(), 0, 16, 500);
}

/* Readers look at a table that writers replace. */
TEST_P(Fresh, BesideReadersAndOtherUpdates_NobodySeesHalfATable)
{
	constexpr uint64_t N = 2 * CHUNK / 8;
	fur::Heap heap = create(options());
	{
		fur::Thread self(heap);
		ASSERT_EQ(table(self, 0, N, 1), 0);
	}
	std::atomic<bool> stop{false};
	std::atomic<uint64_t> looks{0}, wrong{0};
	std::thread reader([&] {
		fur::Thread self(heap);
		while (!stop) {
			wrong += fur::read(self, [&](fur_ro *tx) {
				auto *w = static_cast<uint64_t *>(fur_root(tx, 0));
				uint64_t first = fur_load(tx, &w[0]), bad = 0;
				for (uint64_t k = 0; k < N; k += 61)
					bad += fur_load(tx, &w[k]) != first + k;
				return bad;
			});
			looks++;
		}
	});
	/* A body that may run again, and loads memory that a writer gives back and fills anew. */
	std::thread body([&] {
		fur::Thread self(heap);
		while (!stop) {
			uint64_t bad = 0;
			fur::update(self, fur::rerun, [&](fur_update *tx) {
				bad = 0;
				auto *w = static_cast<uint64_t *>(fur_root(tx, 0));
				uint64_t first = fur_load(tx, &w[0]);
				for (uint64_t k = 0; k < N; k += 61)
					bad += fur_load(tx, &w[k]) != first + k;
				if (bad)
					wrong++;
				fur_set_root(tx, 3, reinterpret_cast<void *>(uintptr_t(0)));
			});
			looks++;
		}
	});
	{
		fur::Thread self(heap);
		for (uint64_t seed = 2; seed < rounds(150u) || looks < rounds(200u); seed++)
			ASSERT_EQ(table(self, 0, N, seed * 1000), 0);
	}
	stop = true;
	reader.join();
	body.join();
	EXPECT_EQ(wrong, 0u);
}

/* A body has loaded the way to a block, and another thread gives the block back, allocates it again
 * and stores there.  The body must not see that beside what it has loaded before. */
class FreshBesideABody : public Software, public ::testing::WithParamInterface<tx_mode>
{
};

TEST_P(FreshBesideABody, WithAnOlderSnapshot_ItIsDefeated)
{
	auto fill = [](fur_update *tx, uint64_t *words, uint64_t seed) {
		for (uint64_t k = 0; k < 64; k++)
			fur_store(tx, &words[k], seed + k);
	};
	fur::update(self_, [&](fur_update *tx) {
		auto *words = static_cast<uint64_t *>(fur_alloc(tx, CHUNK));
		fill(tx, words, 100);
		fur_set_root(tx, 1, words);
	});
	int runs = 0;
	update_in(TX_CONCURRENT, [&](fur_update *tx) {
		auto *words = static_cast<uint64_t *>(fur_root(tx, 1));
		uint64_t first = fur_load(tx, &words[0]);
		/* So many that it does not compare them all at its next load. */
		for (unsigned k = 0; k < 100; k++)
			(void)fur_load(tx, word(0));
		if (++runs == 1)
			other_.run([&](fur_thread *t) {
				fur::update(t, [&](fur_update *u) {
					fur_free(u, words);
					fur_set_root(u, 1, nullptr);
				});
				update_in(
				        GetParam(),
				        [&](fur_update *u) {
					        void *again = fur_alloc(u, CHUNK);
					        ASSERT_EQ(again, words) << "the run's end";
					        EXPECT_TRUE(u->flags & TX_FRESH);
					        fill(u, words, 5000);
					        fur_set_root(u, 1, words);
				        },
				        t);
			});
		EXPECT_EQ(fur_load(tx, &words[9]), first + 9);
		fur_set_root(tx, 2, nullptr);
	});
	EXPECT_EQ(runs, 2);
}

INSTANTIATE_TEST_SUITE_P(Modes, FreshBesideABody, ::testing::Values(TX_SERIAL, TX_IN_PLACE),
        [](const auto &mode) { return mode.param == TX_SERIAL ? "serial" : "in_place"; });

std::string name_of(const ::testing::TestParamInfo<Case> &c)
{
	static const char *const how[] = {"serial", "rerun", "in_place"};
	return std::string(c.param.pm == FUR_PM_SYNC ? "sync_" : "emulated_") +
	       how[static_cast<int>(c.param.how)];
}

INSTANTIATE_TEST_SUITE_P(Modes, Fresh,
        ::testing::Values(Case{FUR_PM_EMULATED, How::serial}, Case{FUR_PM_EMULATED, How::rerun},
                Case{FUR_PM_EMULATED, How::in_place}, Case{FUR_PM_SYNC, How::serial},
                Case{FUR_PM_SYNC, How::rerun}),
        name_of);

} // namespace
