/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stats_test.cpp - the values of the moment in fur_stats: how full ring, logs and space are, and
 * how old the oldest reader is.
 */
#include "census.hpp"
#include "fixture.hpp"
#include "internals.hpp"

#include <thread>

namespace
{

class Stats : public OpenHeap
{
protected:
	struct durability &log()
	{
		return heap_.get()->durability;
	}
	void replay()
	{
		struct arch_backoff backoff = {};
		ASSERT_EQ(durability_replay(&log(), &backoff), 0) << fur_errormsg();
	}
	void store(fur_thread *t, uint64_t *p, size_t words)
	{
		fur::update(t, [&](fur_update *tx) {
			for (size_t k = 0; k < words; k++)
				fur_store(tx, &p[k], k);
		});
	}
	uint64_t used_of_log(uint32_t thread)
	{
		return log().redo[thread].committed_to - log().redo[thread].tail;
	}
};

TEST_F(Stats, RingAndLogs_HoldWhatIsNotReplayed)
{
	uint64_t *p = block();
	replay();
	fur_stats empty = heap_.stats();
	EXPECT_EQ(empty.ring_slots, small_options().ring_slots);
	EXPECT_EQ(empty.log_bytes, small_options().log_bytes);
	EXPECT_EQ(empty.ring_used_slots, 0u);
	EXPECT_EQ(empty.fullest_log_bytes, 0u);
	for (uint64_t k = 1; k <= 10; k++) {
		store(self_, p, 1);
		fur_stats s = heap_.stats();
		EXPECT_EQ(s.ring_used_slots, k);
		EXPECT_EQ(s.fullest_log_bytes, used_of_log(0));
		EXPECT_GE(s.fullest_log_bytes, k * (8 + 8)) << "an entry of a word each";
	}
	replay();
	EXPECT_EQ(heap_.stats().ring_used_slots, 0u);
	EXPECT_EQ(heap_.stats().fullest_log_bytes, 0u);
}

/* Other updates wait meanwhile.  Where each replay waits for the disk, it replays all. */
TEST_F(HeapFile, AReplayForRoom_TakesAPart)
{
	for (enum fur_pm pm : {FUR_PM_EMULATED, FUR_PM_SYNC}) {
		fur::Options o = small_options();
		o.log_bytes = 1 << 20;
		o.ring_slots = 8192;
		o.pm = pm;
		unlink(path_.c_str());
		fur::Heap heap = create(o);
		struct durability &d = heap.get()->durability;
		fur::Thread self(heap);
		uint64_t words[64] = {1}, parts = 0;
		for (int k = 0; k < 1000; k++)
			fur::update(self, [&](fur_update *tx) {
				auto *p = k ? fur_root(tx, 0) : fur_alloc(tx, sizeof words);
				words[1] = static_cast<uint64_t>(k);
				fur_write(tx, p, words, sizeof words);
				fur_set_root(tx, 0, p);
			});
		struct arch_backoff backoff = {};
		for (uint64_t before; (before = ring_tail(&d)) < ring_next(&d); parts++) {
			ASSERT_EQ(durability_replay(&d, &backoff), 0) << fur_errormsg();
			ASSERT_GT(ring_tail(&d), before);
			EXPECT_TRUE(pm == FUR_PM_SYNC || ring_tail(&d) < before + 150);
		}
		EXPECT_EQ(parts > 1, pm == FUR_PM_EMULATED) << parts;
		const uint8_t *image = static_cast<uint8_t *>(root_at_rest(heap.get(), 0)) -
		                       reinterpret_cast<uintptr_t>(heap_base(heap.get())) +
		                       reinterpret_cast<uintptr_t>(d.image);
		uint64_t newest[2];
		memcpy(newest, image, sizeof newest);
		EXPECT_EQ(newest[1], 999u);
	}
}

TEST_F(Stats, Logs_TheFullestCounts)
{
	uint64_t *p = block();
	replay();
	store(self_, p, 3);
	std::thread([&] {
		fur::Thread other(heap_);
		store(other, p, 50);
	}).join();
	store(self_, p, 3);
	EXPECT_GT(used_of_log(1), used_of_log(0));
	EXPECT_EQ(heap_.stats().fullest_log_bytes, used_of_log(1));
	EXPECT_EQ(heap_.stats().ring_used_slots, 3u);
}

TEST_F(Stats, RingAndLogs_AreNeverMoreThanFull)
{
	uint64_t *p = block(), most = 0;
	for (int k = 0; k < 500; k++) {
		store(self_, p, 1 + static_cast<size_t>(k) % 60);
		fur_stats s = heap_.stats();
		ASSERT_LE(s.ring_used_slots, s.ring_slots);
		ASSERT_LE(s.fullest_log_bytes, s.log_bytes);
		most = std::max(most, s.fullest_log_bytes);
	}
	EXPECT_GT(most, small_options().log_bytes / 2) << "the log was never half full";
	EXPECT_GT(heap_.stats().replays, 0u);
}

TEST_F(Stats, Ring_AReplayerAlongsideHasMovedTheTail)
{
	uint64_t *p = block();
	store(self_, p, 1);
	EXPECT_EQ(heap_.stats().ring_used_slots, 2u);
	/* As if another process had replayed: this one copies the tails only when it needs room. */
	uint64_t ring_tail = log().tail, log_tail = log().redo[0].tail;
	replay();
	arch_store(&log().tail, ring_tail);
	arch_store(&log().redo[0].tail, log_tail);
	EXPECT_EQ(heap_.stats().ring_used_slots, 0u);
	EXPECT_EQ(heap_.stats().fullest_log_bytes, 0u);
	store(self_, p, 1);
	EXPECT_EQ(heap_.stats().ring_used_slots, 1u);
	EXPECT_LE(heap_.stats().fullest_log_bytes, uint64_t{ARCH_FLUSH_LINE});
	EXPECT_GT(heap_.stats().fullest_log_bytes, 0u);
}

TEST_F(Stats, Space_IsThatOfTheChunksInUse)
{
	auto counted = [&] {
		const alloc_census c = census_of(heap_);
		return heap_.stats().space_bytes - c.free_chunks * CHUNK_BYTES;
	};
	fur_stats before = heap_.stats();
	EXPECT_LE(before.space_bytes, small_options().heap_bytes);
	EXPECT_EQ(before.space_used_bytes, 0u);
	void *large = nullptr;
	fur::update(self_, [&](fur_update *tx) { large = fur_alloc(tx, 3 * CHUNK_BYTES); });
	EXPECT_EQ(heap_.stats().space_used_bytes, 3u * CHUNK_BYTES);
	fur::update(self_, [&](fur_update *tx) { fur_set_root(tx, 0, fur_alloc(tx, 100)); });
	EXPECT_EQ(heap_.stats().space_used_bytes, 4u * CHUNK_BYTES);
	EXPECT_EQ(heap_.stats().space_used_bytes, counted());
	fur::update(self_, [&](fur_update *tx) { fur_free(tx, large); });
	EXPECT_EQ(heap_.stats().space_used_bytes, 1u * CHUNK_BYTES);
	EXPECT_EQ(heap_.stats().space_used_bytes, counted());
	EXPECT_EQ(heap_.stats().space_bytes, before.space_bytes);
}

TEST_F(Stats, Space_IsAllOfItWhenTheHeapIsFull)
{
	bool full = false;
	while (!full)
		fur::update(self_, [&](fur_update *tx) { full = !fur_alloc(tx, CHUNK_BYTES); });
	fur_stats s = heap_.stats();
	EXPECT_EQ(s.space_used_bytes, s.space_bytes);
}

TEST_F(Stats, Reader_AgesFromTheCallThatFoundIt)
{
	EXPECT_EQ(heap_.stats().readers, 0u);
	for (int k = 0; k < 2; k++) {
		fur_ro *ro = begin_ro();
		uint64_t before_first = arch_now_ns();
		fur_stats first = heap_.stats();
		uint64_t after_first = arch_now_ns();
		EXPECT_EQ(first.readers, 1u);
		EXPECT_EQ(first.oldest_reader_ns, 0u) << "as old as the transaction before";
		usleep(1000);
		uint64_t before_second = arch_now_ns();
		fur_stats second = heap_.stats();
		uint64_t after_second = arch_now_ns();
		EXPECT_EQ(second.readers, 1u);
		EXPECT_GE(second.oldest_reader_ns, before_second - after_first);
		EXPECT_LE(second.oldest_reader_ns, after_second - before_first);
		EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
		EXPECT_EQ(heap_.stats().readers, 0u);
		EXPECT_EQ(heap_.stats().oldest_reader_ns, 0u);
	}
}

TEST_F(Stats, Reader_TheOldestCounts)
{
	fur_ro *ro = begin_ro();
	EXPECT_EQ(heap_.stats().readers, 1u);
	uint64_t found = arch_now_ns();
	std::thread([&] {
		fur::Thread other(heap_);
		fur::read(other, [&](fur_ro *) {
			uint64_t before = arch_now_ns();
			fur_stats s = heap_.stats();
			EXPECT_EQ(s.readers, 2u);
			EXPECT_GE(s.oldest_reader_ns, before - found);
		});
	}).join();
	EXPECT_EQ(heap_.stats().readers, 1u);
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
}

TEST_F(Stats, Reader_AnUpdateInSoftwareIsNone)
{
	heap_.close();
	fur::Options o = small_options();
	o.htm = FUR_HTM_NONE;
	heap_ = open(o);
	fur::Thread t(heap_);
	fur::update(t, [&](fur_update *) { EXPECT_EQ(heap_.stats().readers, 0u); });
	fur::update(t, fur::rerun, [&](fur_update *) {
		ASSERT_TRUE(active_any_software(&heap_.get()->engine)) << "it is in active[]";
		EXPECT_EQ(heap_.stats().readers, 0u);
	});
}

} // namespace
