/* SPDX-License-Identifier: BSD-3-Clause
 *
 * log_view_test.cpp - the view of markers, records and entries, over files written by hand.
 */
#include <fur.hpp>

#include "internals.hpp"

#include <functional>
#include <gtest/gtest.h>
#include <vector>

namespace
{

enum : uint64_t { SLOTS = 64, LOG = 8192, THREADS = 2, HEAP = 65536 };

class LogView : public testing::Test
{
protected:
	LogView()
	{
		super_.version = MEDIA_VERSION;
		super_.max_threads = THREADS;
		super_.ring_slots = SLOTS;
		super_.log_bytes = LOG;
		super_.heap_bytes = HEAP;
		lay_out(MEDIA_SLOT_BYTES);
	}
	void lay_out(uint32_t slot_bytes)
	{
		super_.slot_bytes = slot_bytes;
		super_.ring_offset = sizeof(media_super);
		super_.logs_offset = super_.ring_offset + SLOTS * slot_bytes;
		bytes_.resize((super_.logs_offset + THREADS * LOG) / 8);
		file_ = media_file_of(&super_, reinterpret_cast<media_super *>(bytes_.data()));
	}
	void put_entry(uint32_t thread, uint64_t position, uint64_t offset, uint64_t bytes)
	{
		uint64_t word = media_entry_word(offset, bytes);
		memcpy(log_of_thread(&file_, thread) + position % LOG, &word, sizeof word);
	}
	bool entry_fits(uint64_t position, uint64_t end)
	{
		log_entry e;
		const log_record record = {position, end, log_of_thread(&file_, 1)};
		return log_read_entry(file_.super, &record, &e);
	}
	/* A plausible marker of `durts`, of a record with a head and `bytes` bytes of entries. */
	media_marker *put_marker(uint64_t durts, uint64_t start, uint32_t bytes)
	{
		media_marker m{};
		m.durts = durts;
		m.log_start = start;
		m.log_bytes = static_cast<uint32_t>(sizeof(media_head)) + bytes;
		m.thread = 1;
		m.kind = MEDIA_COMMIT;
		*log_marker(&file_, durts) = m;
		return log_marker(&file_, durts);
	}

	media_super super_{};
	std::vector<uint64_t> bytes_;
	media_file file_{};
};

TEST_F(LogView, Ranges_CoverThePositions_AndSplitAtTheEndOfTheLog)
{
	for (uint64_t start : {uint64_t(0), LOG - 128, 5 * LOG - 16, 7 * LOG + 64, 9 * LOG})
		for (uint64_t bytes : {uint64_t(0), uint64_t(16), uint64_t(128), uint64_t(LOG)}) {
			log_ranges r = log_ranges_of(&super_, start, start + bytes);
			EXPECT_EQ(r.bytes[0] + r.bytes[1], bytes) << start;
			EXPECT_EQ(r.place[0], start % LOG);
			EXPECT_LE(r.place[0] + r.bytes[0], uint64_t(LOG));
			EXPECT_EQ(r.place[1], 0u);
			EXPECT_EQ(r.bytes[1] != 0, start % LOG + bytes > LOG) << start;
		}
}

TEST_F(LogView, Markers_OfALapLater_HaveTheSameSlot)
{
	EXPECT_EQ(log_marker(&file_, 5), log_marker(&file_, 5 + SLOTS));
	EXPECT_EQ(reinterpret_cast<uint8_t *>(log_marker(&file_, SLOTS - 1)) + MEDIA_SLOT_BYTES,
	        log_of_thread(&file_, 0));
}

TEST_F(LogView, Plausible_RefusesEachFieldThatMakesNoSense)
{
	media_marker m, *in_file = put_marker(70, 4096, 32);
	const media_marker good = *in_file;
	EXPECT_TRUE(log_read_plausible(&file_, 70, &m));
	EXPECT_FALSE(log_read_plausible(&file_, 70 + SLOTS, &m)) << "another lap's";
	auto refuses = [&](auto change) {
		*in_file = good;
		change(*in_file);
		bool plausible = log_read_plausible(&file_, 70, &m);
		*in_file = good;
		return !plausible;
	};
	EXPECT_TRUE(refuses([](media_marker &c) { c.thread = THREADS; }));
	EXPECT_TRUE(refuses([](media_marker &c) { c.log_bytes = LOG + 16; }));
	EXPECT_TRUE(refuses([](media_marker &c) { c.log_bytes += 8; }));
	EXPECT_TRUE(refuses([](media_marker &c) { c.log_start += 8; }));
	EXPECT_TRUE(refuses([](media_marker &c) { c.kind = 4; }));
	EXPECT_TRUE(refuses([](media_marker &c) {
		c.kind = MEDIA_COMMIT_IN_SLOT;
		c.log_start = MEDIA_IN_SLOT;
	})) << "the slots of this file hold no records";
	EXPECT_TRUE(refuses([](media_marker &c) { c.log_bytes = sizeof(media_head); }));
	EXPECT_TRUE(log_read_plausible(&file_, 70, &m));
}

TEST_F(LogView, Entry_RefusesEachBound)
{
	put_entry(1, 0, HEAP - 8, 8);
	EXPECT_TRUE(entry_fits(0, 16));
	put_entry(1, 0, HEAP - 7, 8);
	EXPECT_FALSE(entry_fits(0, 16)) << "outside the heap";
	put_entry(1, 0, (uint64_t(1) << 48) - 1, 8);
	EXPECT_FALSE(entry_fits(0, 16)) << "far outside the heap";
	put_entry(1, 0, 0, 0);
	EXPECT_FALSE(entry_fits(0, 16)) << "empty";
	put_entry(1, 0, 0, MEDIA_ENTRY_MAX + 1);
	EXPECT_FALSE(entry_fits(0, LOG)) << "too long";
	put_entry(1, 0, 0, 24);
	EXPECT_TRUE(entry_fits(0, 32));
	EXPECT_FALSE(entry_fits(0, 16)) << "past the end of the record";
	put_entry(1, LOG - 16, 0, 8);
	EXPECT_TRUE(entry_fits(3 * LOG - 16, 3 * LOG + 16));
	put_entry(1, LOG - 16, 0, 9);
	EXPECT_FALSE(entry_fits(3 * LOG - 16, 3 * LOG + 16)) << "past the end of the log";
}

TEST_F(LogView, EntryOfARange_HasNoPayload_AndItsOwnBounds)
{
	auto put_range = [&](uint64_t position, uint64_t offset, uint64_t bytes) {
		const uint64_t words[] = {
		        media_entry_word(offset, MEDIA_ENTRY_RANGE), media_range_word(bytes, 60)};
		memcpy(log_of_thread(&file_, 1) + position % LOG, words, sizeof words);
	};
	put_marker(70, 0, 16 + 16 + 16);
	put_range(16, 0, MEDIA_RANGE_UNIT);
	put_entry(1, 32, 64, 8);
	log_walk walk = log_walk_update(&file_, 70);
	ASSERT_TRUE(log_walk_next(&walk));
	EXPECT_EQ(walk.entry.payload, nullptr);
	EXPECT_EQ(walk.entry.bytes, uint64_t(MEDIA_RANGE_UNIT));
	EXPECT_EQ(media_range_tail(walk.entry.range, 70), 60u);
	ASSERT_TRUE(log_walk_next(&walk)) << "it takes 16 bytes of the log";
	EXPECT_EQ(walk.entry.offset, 64u);
	EXPECT_EQ(walk.entry.range, 0u);
	put_range(0, 0, 0);
	EXPECT_FALSE(entry_fits(0, 16)) << "empty";
	put_range(0, uint64_t(HEAP) - 8, MEDIA_RANGE_UNIT);
	EXPECT_FALSE(entry_fits(0, 16)) << "outside the heap";
	put_range(0, 8, UINT64_MAX);
	EXPECT_FALSE(entry_fits(0, 16)) << "far outside the heap";
	put_range(LOG - 16, 0, MEDIA_RANGE_UNIT);
	EXPECT_TRUE(entry_fits(LOG - 16, LOG));
	/* The tail's high half is the durTS's, or one less. */
	const uint64_t turn = uint64_t(1) << 32;
	EXPECT_EQ(media_range_tail(media_range_word(0, turn - 3), turn + 5), turn - 3);
	EXPECT_EQ(media_range_tail(media_range_word(0, turn + 4), turn + 5), turn + 4);
}

TEST_F(LogView, Walk_ReadsEveryEntry_AlsoOfARecordThatWraps)
{
	const uint64_t start = 2 * LOG - 48, first = start + sizeof(media_head);
	put_marker(70, start, 16 + 16 + 32);
	put_entry(1, first, 0, 8);
	put_entry(1, first + 16, 64, 4);
	put_entry(1, first + 32, 128, 17);
	std::vector<uint64_t> offsets;
	log_walk walk = log_walk_update(&file_, 70);
	while (log_walk_next(&walk)) {
		offsets.push_back(walk.entry.offset);
		if (offsets.size() == 3) {
			EXPECT_EQ(walk.entry.payload, log_of_thread(&file_, 1) + 8)
			        << "at the start";
		}
	}
	EXPECT_FALSE(walk.broken);
	EXPECT_EQ(offsets, (std::vector<uint64_t>{0, 64, 128}));
}

TEST_F(LogView, Walk_ReadsARecordInItsSlot_UpToTheSlotsEnd)
{
	lay_out(MEDIA_SLOT_WIDE_BYTES);
	const uint32_t room = MEDIA_SLOT_WIDE_BYTES - MEDIA_IN_SLOT - sizeof(media_head);
	media_marker *in_file = put_marker(70, MEDIA_IN_SLOT, room);
	in_file->kind = MEDIA_COMMIT_IN_SLOT;
	auto *slot = reinterpret_cast<uint8_t *>(in_file);
	EXPECT_EQ(slot, file_.ring + 70 % SLOTS * MEDIA_SLOT_WIDE_BYTES);
	const uint64_t word = media_entry_word(64, room - 8);
	memcpy(slot + MEDIA_IN_SLOT + sizeof(media_head), &word, sizeof word);
	log_walk walk = log_walk_update(&file_, 70);
	ASSERT_TRUE(log_walk_next(&walk));
	EXPECT_EQ(walk.entry.offset, 64u);
	EXPECT_EQ(walk.entry.payload + walk.entry.bytes, slot + MEDIA_SLOT_WIDE_BYTES);
	EXPECT_FALSE(log_walk_next(&walk));
	EXPECT_FALSE(walk.broken);

	in_file->log_bytes += 16;
	walk = log_walk_update(&file_, 70);
	EXPECT_FALSE(log_walk_next(&walk));
	EXPECT_TRUE(walk.broken) << "longer than the slot";
}

/* Records of parts: thread 1, durTS 70, member 2 of 4. */
class LogViewParts : public LogView
{
protected:
	LogViewParts()
	{
		super_.more.features = MEDIA_MEMBER;
		super_.more.group_members = 4;
		super_.more.group_member = 2;
		name(99, 3, 1);
		list_.part[0] = {7, 0, 0};
		list_.part[1] = {70, 2, 0};
		list_.part[2] = {8, 3, 0};
	}
	void name(uint64_t id, uint32_t n, uint32_t mine)
	{
		list_.id = id;
		list_.n = n;
		list_.mine = mine;
	}
	/* A part with one entry, whose record begins at `start`, and has `more` bytes after the
	 * list. */
	media_marker *put_part(uint64_t start, int more = 0)
	{
		const auto list = static_cast<uint32_t>(media_parts_bytes(list_.n));
		media_marker *m = put_marker(70, start, 16 + list + static_cast<uint32_t>(more));
		m->kind |= MEDIA_PART;
		put_entry(1, start + 16, 64, 8);
		std::vector<uint8_t> entry(list);
		media_parts_encode(entry.data(), &list_);
		for (uint64_t k = 0; k < list; k++)
			log_of_thread(&file_, 1)[(start + 32 + k) % LOG] = entry[k];
		return m;
	}
	/* Is the record whole, and the list as it was written? */
	bool reads(const media_marker *m)
	{
		media_parts read;
		const bool list = log_read_parts(&file_, m, &read);
		unsigned entries = 0;
		log_walk walk = log_walk_update(&file_, 70);
		while (log_walk_next(&walk))
			entries++;
		EXPECT_TRUE(entries == 1 || !list) << "a list stores nothing, and hides nothing";
		EXPECT_FALSE(log_walk_next(&walk)) << "it stays stopped";
		EXPECT_EQ(walk.broken, !list);
		if (list) {
			EXPECT_EQ(read.id, list_.id);
			EXPECT_EQ(read.n, list_.n);
			EXPECT_EQ(read.mine, list_.mine);
			EXPECT_EQ(memcmp(read.part, list_.part, read.n * sizeof read.part[0]), 0);
		}
		return list;
	}
	bool reads_changed(const std::function<void(media_parts &)> &change)
	{
		const media_parts good = list_;
		change(list_);
		const bool read = reads(put_part(0));
		list_ = good;
		return read;
	}
	/* The record with one word of its list changed: word 0 is the entry's. */
	bool reads_word(unsigned word, uint64_t value)
	{
		const media_marker *m = put_part(0);
		memcpy(log_of_thread(&file_, 1) + 32 + 8 * word, &value, sizeof value);
		return reads(m);
	}
	media_parts list_{};
};

TEST_F(LogViewParts, List_IsReadAtTheRecordsEnd_AlsoIfItWraps)
{
	for (uint64_t start = 0; start < LOG; start += 16)
		ASSERT_TRUE(reads(put_part(start))) << start;
	name(99, 2, 1);
	EXPECT_TRUE(reads(put_part(0)));
	super_.more.group_members = 256;
	name(99, 16, 2);
	for (uint32_t k = 0; k < 16; k++)
		list_.part[k] = {70, k, 0};
	EXPECT_TRUE(reads(put_part(LOG - 64)));
}

TEST_F(LogViewParts, List_IsReadInASlot)
{
	lay_out(MEDIA_SLOT_WIDE_BYTES);
	const media_marker *in_log = put_part(0);
	media_marker m = *in_log;
	m.kind = MEDIA_COMMIT_IN_SLOT | MEDIA_PART;
	m.log_start = MEDIA_IN_SLOT;
	auto *slot = reinterpret_cast<uint8_t *>(log_marker(&file_, 70));
	memcpy(slot + MEDIA_IN_SLOT, log_of_thread(&file_, 1), m.log_bytes);
	memset(log_of_thread(&file_, 1), 0, LOG);
	*log_marker(&file_, 70) = m;
	EXPECT_EQ(log_marker_kind(&m), MEDIA_COMMIT_IN_SLOT);
	EXPECT_TRUE(reads(&m));
}

TEST_F(LogViewParts, List_IsRefused_IfAFieldMakesNoSense)
{
	EXPECT_FALSE(reads_changed([](auto &l) { l.mine = 0; })) << "another member's";
	EXPECT_FALSE(reads_changed([](auto &l) { l.mine = 3; }));
	EXPECT_FALSE(reads_changed([](auto &l) { l.mine = UINT32_MAX; }));
	EXPECT_FALSE(reads_changed([](auto &l) { l.part[1].member = 1; })) << "not this heap's";
	EXPECT_FALSE(reads_changed([](auto &l) { l.part[1].durts = 71; })) << "another update's";
	EXPECT_FALSE(reads_changed([](auto &l) { l.part[0].durts = 0; }));
	EXPECT_FALSE(reads_changed([](auto &l) { l.part[0].durts = UINT64_C(1) << 56; }));
	EXPECT_FALSE(reads_changed([](auto &l) { l.part[0].member = 2; })) << "twice";
	EXPECT_FALSE(reads_changed([](auto &l) { std::swap(l.part[0], l.part[2]); }));
	EXPECT_FALSE(reads_changed([](auto &l) { l.part[2].member = 4; })) << "no such member";
	EXPECT_TRUE(reads_changed([](auto &l) { l.part[2].durts = 9; }));
}

TEST_F(LogViewParts, List_IsRefused_IfItsLengthMakesNoSense)
{
	auto word = [](uint64_t n, uint64_t mine) {
		return media_entry_word(n | mine << 8, MEDIA_ENTRY_PARTS);
	};
	EXPECT_TRUE(reads_word(0, word(3, 1)));
	for (uint64_t n : {0u, 1u, 2u, 4u, 5u, 16u, 17u, 255u})
		EXPECT_FALSE(reads_word(0, word(n, 1))) << n;
	for (uint64_t mine : {UINT64_C(0), UINT64_C(2), UINT64_C(3), UINT64_C(255), UINT64_C(257),
	             (UINT64_C(1) << 40) - 1})
		EXPECT_FALSE(reads_word(0, word(3, mine))) << mine;
	EXPECT_FALSE(reads_word(0, media_entry_word(3 | 1 << 8, 8))) << "an entry, and no list";
}

/* Lists that are whole but for their number of parts. */
TEST_F(LogViewParts, List_HasTwoToSixteenParts)
{
	super_.more.group_members = 256;
	for (uint32_t n : {1u, 2u, 16u, 17u}) {
		uint64_t words[2 + 17] = {media_entry_word(n, MEDIA_ENTRY_PARTS), 99};
		for (uint64_t k = 0; k < n; k++)
			words[2 + k] = (2 + k) << 56 | 70;
		media_marker *m =
		        put_marker(70, 0, 16 + static_cast<uint32_t>(media_parts_bytes(n)));
		m->kind |= MEDIA_PART;
		put_entry(1, 16, 64, 8);
		memcpy(log_of_thread(&file_, 1) + 32, words, (2 + n) * sizeof words[0]);
		media_parts read;
		EXPECT_EQ(log_read_parts(&file_, m, &read), n == 2 || n == 16) << n;
	}
}

TEST_F(LogViewParts, List_IsTheRecordsEnd_AndOnlyOfAPart)
{
	EXPECT_FALSE(reads(put_part(0, 16))) << "more follows";
	media_marker *m = put_part(0, -16);
	EXPECT_FALSE(reads(m)) << "cut off";
	m = put_part(0);
	m->log_bytes = 16 + 16; /* the head, and one entry */
	EXPECT_FALSE(reads(m)) << "missing";

	m = put_part(0);
	m->kind = MEDIA_COMMIT;
	log_walk walk = log_walk_update(&file_, 70);
	EXPECT_TRUE(log_walk_next(&walk));
	EXPECT_FALSE(log_walk_next(&walk));
	EXPECT_TRUE(walk.broken) << "of an update that is no part";

	m = put_part(0);
	m->durts = 71; /* as if it lay in that slot */
	media_parts read;
	EXPECT_FALSE(log_read_parts(&file_, m, &read)) << "the list names another durTS";

	m = put_part(0);
	super_.more.features = 0;
	EXPECT_FALSE(reads(m)) << "no member";
}

TEST_F(LogViewParts, Kind_OfAPart)
{
	media_marker *m = put_part(0), read;
	m->kind |= MEDIA_AFTER_ALL;
	EXPECT_EQ(log_marker_kind(m), MEDIA_COMMIT);
	EXPECT_TRUE(log_marker_commits(m));
	EXPECT_TRUE(log_read_plausible(&file_, 70, &read));
	EXPECT_TRUE(reads(m));
	m->kind = MEDIA_ABORT | MEDIA_PART;
	EXPECT_FALSE(log_read_plausible(&file_, 70, &read));
	m->kind = MEDIA_COMMIT | MEDIA_PART;
	super_.version = 1;
	EXPECT_FALSE(log_read_plausible(&file_, 70, &read)) << "version 1 has none";
}

TEST_F(LogViewParts, Walk_WithoutAMarker_TakesAListForTheEnd)
{
	const media_marker *m = put_part(0);
	log_record record = log_record_of(&file_, m);
	record.end += 64; /* no one knows where a lost record ended */
	log_walk walk = log_walk_record(&file_, &record);
	EXPECT_TRUE(log_walk_next(&walk));
	EXPECT_FALSE(log_walk_next(&walk));
	EXPECT_FALSE(walk.broken);
	super_.more.features = 0;
	walk = log_walk_record(&file_, &record);
	EXPECT_TRUE(log_walk_next(&walk));
	EXPECT_FALSE(log_walk_next(&walk));
	EXPECT_TRUE(walk.broken) << "no member";
}

TEST_F(LogView, Walk_StopsAtAnEntryOrMarkerThatMakesNoSense)
{
	put_marker(70, 0, 32);
	put_entry(1, 16, 0, 8);
	put_entry(1, 32, HEAP, 8);
	log_walk walk = log_walk_update(&file_, 70);
	EXPECT_TRUE(log_walk_next(&walk));
	EXPECT_FALSE(log_walk_next(&walk));
	EXPECT_TRUE(walk.broken);
	EXPECT_FALSE(log_walk_next(&walk)) << "it stays stopped";

	walk = log_walk_update(&file_, 70 + SLOTS);
	EXPECT_FALSE(log_walk_next(&walk));
	EXPECT_TRUE(walk.broken) << "the slot holds another update";
}

} // namespace
