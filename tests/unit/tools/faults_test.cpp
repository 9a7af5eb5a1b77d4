/* SPDX-License-Identifier: BSD-3-Clause
 *
 * faults_test.cpp - heap files that were damaged: bits flipped, markers of an earlier lap, files
 * cut short, before and while they are mapped.  A file that opens again has the result of its
 * updates; any other is refused and unchanged; fur-check tells which, and mends one byte.
 */
#include "../../../tools/heap_check.hpp"
#include "fixture.hpp"
#include "internals.hpp"
#include "version_1.hpp"

#include <algorithm>
#include <barrier>
#include <map>
#include <random>
#include <set>
#include <sys/mman.h>
#include <sys/resource.h>
#include <thread>

namespace
{

/* Each flip opens and recovers a heap.  ./check takes one of five, with a sanitizer one of 25, and,
 * as 5 and 8 have no common divisor, each bit of a byte as often as the others; with FUR_ALL_DAMAGE
 * all (suite release). */
unsigned flips_step()
{
	return getenv("FUR_ALL_DAMAGE") ? 1 : 25 / rounds(5u);
}

/* The contents of a marker in the undamaged file. */
struct Update {
	media_marker marker;
	std::vector<std::pair<uint64_t, std::string>> stores; /* heap offset, bytes */
};

/* A heap whose process ended without closing it: updates of three threads that read each
 * other's. */
enum Form { VERSION_1, VERSION_2, WIDE_SLOTS };
std::string form_name(const ::testing::TestParamInfo<Form> &info)
{
	return info.param == VERSION_1   ? "version_1"
	       : info.param == VERSION_2 ? "version_2"
	                                 : "wide_slots";
}
class Crashed : public HeapFile, public ::testing::WithParamInterface<Form>
{
protected:
	enum { THREADS = 3, UPDATES = 18 };
	struct Line {
		uint64_t value[16];
	};

	Crashed()
	{
		{
			fur::Heap heap = create(options());
			fur::Thread self(heap);
			fur::update(self, [&](fur_update *tx) {
				auto *lines = static_cast<Line *>(fur_alloc(tx, 8 * sizeof(Line)));
				Line zero[8] = {};
				fur_write(tx, lines, zero, sizeof zero);
				fur_set_root(tx, 0, lines);
			});
			heap.close();
		}
		if (GetParam() == VERSION_1)
			make_version_1(path_);
		in_killed_child([&] { work(UPDATES); });
		good_ = bytes();
		memcpy(&super_, good_.data(), sizeof super_);
		read_updates();
	}

	static fur::Options options()
	{
		fur::Options o = small_options();
		o.heap_bytes = 10 << 16;
		if (GetParam() == WIDE_SLOTS)
			o.pm = FUR_PM_SYNC;
		return o;
	}
	static void update_once(fur_thread *self, Line *lines, unsigned t, uint64_t k)
	{
		fur::update(self, [&](fur_update *tx) {
			uint64_t text[5] = {t, k, t, k, t};
			fur_store(tx, &lines[t].value[0], k);
			fur_store(tx, &lines[4].value[0], fur_load(tx, &lines[4].value[0]) * 3 + t);
			fur_write(tx, &lines[5 + t].value[1], text, sizeof text);
		});
	}
	/* Leaves the heap open. */
	void work(uint64_t updates)
	{
		auto *heap = new fur::Heap(open(options()));
		/* So that updates overlap, and name each other */
		pm_emulate(&heap->get()->durability.pm, 20000, 0);
		std::vector<std::thread> all;
		/* So that they take turns, also on a machine that is busy */
		std::barrier<> together(THREADS);
		for (unsigned t = 0; t < THREADS; t++)
			all.emplace_back([=, &together] {
				fur::Thread self(*heap);
				auto *lines = static_cast<Line *>(root_at_rest(*heap, 0));
				for (uint64_t k = 1; k <= updates; k++) {
					update_once(self, lines, t, k);
					together.arrive_and_wait();
				}
			});
		for (auto &t : all)
			t.join();
	}

	void read_updates()
	{
		uint64_t tail = 0;
		ASSERT_EQ(media_tail_decode(super_.tail[1][0], &tail), 0);
		for (uint64_t s = tail; s < tail + super_.ring_slots; s++) {
			Update u;
			memcpy(&u.marker, &good_[slot_offset(s)], sizeof u.marker);
			if (u.marker.durts != s)
				continue;
			for (uint64_t at = entries_of(u);
			        at < u.marker.log_start + u.marker.log_bytes;) {
				uint64_t word;
				memcpy(&word, &good_[record_offset(u, at)], 8);
				u.stores.push_back({media_entry_offset(word),
				        good_.substr(record_offset(u, at) + 8,
				                media_entry_payload(word))});
				at += media_entry_bytes(media_entry_payload(word));
			}
			updates_[s] = u;
		}
	}
	uint64_t slot_offset(uint64_t durts) const
	{
		return super_.ring_offset + durts % super_.ring_slots * super_.slot_bytes;
	}
	uint64_t entries_of(const Update &u) const
	{
		return u.marker.log_start + media_head_bytes(&super_);
	}
	uint64_t log_offset(uint32_t thread, uint64_t position) const
	{
		return super_.logs_offset + thread * super_.log_bytes + position % super_.log_bytes;
	}

	/* Where a position of the update's record lies in the file. */
	uint64_t record_offset(const Update &u, uint64_t position) const
	{
		return u.marker.kind == MEDIA_COMMIT_IN_SLOT
		               ? slot_offset(u.marker.durts) + position
		               : log_offset(u.marker.thread, position);
	}

	/* The heap with the updates replayed that are not lost. */
	std::string replayed(const std::set<uint64_t> &lost) const
	{
		std::string heap = good_.substr(super_.heap_offset, super_.heap_bytes);
		for (const auto &[durts, u] : updates_)
			if (!lost.count(durts))
				for (const auto &[offset, what] : u.stores)
					heap.replace(offset, what.size(), what);
		return heap;
	}
	/* `damaged`, and all updates that name a lost one. */
	std::set<uint64_t> with_dependents(uint64_t damaged) const
	{
		std::set<uint64_t> lost = {damaged};
		for (const auto &[durts, u] : updates_)
			for (uint64_t back = 1; back <= MEDIA_DEPS && back < durts; back++)
				if ((u.marker.deps[(back - 1) / 64] >> (back - 1) % 64 & 1) &&
				        lost.count(durts - back))
					lost.insert(durts);
		return lost;
	}
	bool last_of_its_thread(uint64_t durts) const
	{
		for (auto u = updates_.upper_bound(durts); u != updates_.end(); ++u)
			if (u->second.marker.thread == updates_.at(durts).marker.thread)
				return false;
		return true;
	}
	std::string heap_bytes_now() const
	{
		return bytes().substr(super_.heap_offset, super_.heap_bytes);
	}

	tools::Report check() const
	{
		tools::HeapView view(path_, tools::Purpose::CHECK);
		return tools::check_heap(view);
	}
	std::vector<std::string> repair() const
	{
		tools::HeapView view(path_, tools::Purpose::REPAIR);
		tools::Report report = tools::check_heap(view);
		return tools::repair_heap(view, report);
	}
	static bool tells(const tools::Report &r, uint64_t durts)
	{
		for (const tools::Lost &l : r.lost)
			if (l.durts <= durts && durts <= l.durts_last)
				return true;
		for (const tools::Problem &p : r.problems)
			if (p.what.find("update " + std::to_string(durts)) != std::string::npos)
				return true;
		return false;
	}
	void restore() const
	{
		int fd = ::open(path_.c_str(), O_RDWR);
		ASSERT_EQ(pwrite(fd, good_.data(), good_.size(), 0),
		        static_cast<ssize_t>(good_.size()));
		close(fd);
	}

	/* A bit of the file is flipped that matters to update `durts`, or to none (0): the heap
	 * opens, with all that was in it. */
	void expect_survives_flip(uint64_t offset, unsigned bit, uint64_t durts)
	{
		SCOPED_TRACE("byte " + std::to_string(offset) + " bit " + std::to_string(bit) +
		             " update " + std::to_string(durts));
		flip_bit(offset, bit);
		std::string flipped = bytes();
		tools::Report report = check();
		EXPECT_TRUE(bytes() == flipped) << "checking changed the file";
		EXPECT_TRUE(report.all_mendable());
		if (durts) {
			EXPECT_TRUE(tells(report, durts)) << "not told";
			EXPECT_TRUE(!report.sound() || last_of_its_thread(durts));
		}
		if (durts) {
			fur::Heap heap = open();
			EXPECT_EQ(heap.info().corrected_updates, 1u);
			heap.close();
		}
		EXPECT_EQ(open_result(), 0) << fur_errormsg();
		EXPECT_TRUE(heap_bytes_now() == replayed({})) << "opened, and not all is there";
		restore();
		flip_bit(offset, bit);
		EXPECT_EQ(repair().size(), durts ? 1u : 0u);
		EXPECT_TRUE(bytes().substr(0, super_.heap_offset) ==
		                    good_.substr(0, super_.heap_offset) ||
		            !durts);
		EXPECT_EQ(open_result(), 0) << fur_errormsg();
		EXPECT_TRUE(heap_bytes_now() == replayed({})) << "mended, and not all is there";
		restore();
	}

	std::string good_;
	media_super super_{};
	std::map<uint64_t, Update> updates_;
};

TEST_P(Crashed, Undamaged_HasAll)
{
	EXPECT_EQ(updates_.size(), size_t(THREADS * UPDATES));
	tools::Report report = check();
	EXPECT_TRUE(report.sound());
	EXPECT_EQ(report.to_replay, updates_.size());
	EXPECT_EQ(report.holes + report.aborted, 0u);
	EXPECT_TRUE(report.lost.empty());
	EXPECT_TRUE(bytes() == good_) << "checking changed the file";
	EXPECT_TRUE(repair().empty());
	EXPECT_EQ(open_result(), 0);
	EXPECT_TRUE(heap_bytes_now() == replayed({}));
}

TEST_P(Crashed, RingBitFlips_AreMended)
{
	std::mt19937_64 random(1);
	std::vector<uint64_t> slots;
	for (const auto &[durts, u] : updates_)
		slots.push_back(durts);
	for (unsigned k = 0; k < 250; k += flips_step()) {
		uint64_t durts = slots[random() % slots.size()];
		unsigned bit = static_cast<unsigned>(random() % (sizeof(media_marker) * 8));
		expect_survives_flip(slot_offset(durts) + bit / 8, bit % 8, durts);
		if (HasFailure())
			return;
	}
}

TEST_P(Crashed, LogBitFlips_AreMended)
{
	std::mt19937_64 random(2);
	std::vector<uint64_t> slots;
	for (const auto &[durts, u] : updates_)
		slots.push_back(durts);
	for (unsigned k = 0; k < 250; k += flips_step()) {
		uint64_t durts = slots[random() % slots.size()];
		const media_marker &m = updates_[durts].marker;
		uint64_t at = m.log_start + random() % m.log_bytes;
		expect_survives_flip(record_offset(updates_[durts], at),
		        static_cast<unsigned>(random() % 8), durts);
		if (HasFailure())
			return;
	}
}

TEST_P(Crashed, FlipsOfWhatNobodyReads_AreHarmless)
{
	std::mt19937_64 random(3);
	for (int k = 0; k < 20; k++) {
		expect_survives_flip(slot_offset(random()) + super_.slot_bytes - 1 - random() % 64,
		        static_cast<unsigned>(random() % 8), 0);
		expect_survives_flip(
		        log_offset(3, random()), static_cast<unsigned>(random() % 8), 0);
		expect_survives_flip(
		        offsetof(media_super, gap1) + random() % sizeof(media_super::gap1),
		        static_cast<unsigned>(random() % 8), 0);
	}
}

TEST_P(Crashed, SuperblockStateAndTailFlips_AreToldAndMended)
{
	auto flip_bits = [&](uint64_t from, uint64_t n) {
		for (uint64_t k = 0; k < n * 8; k += flips_step()) {
			const uint64_t offset = from + k / 8;
			const unsigned bit = static_cast<unsigned>(k % 8);
			SCOPED_TRACE(
			        "byte " + std::to_string(offset) + " bit " + std::to_string(bit));
			flip_bit(offset, bit);
			std::string flipped = bytes().substr(0, sizeof(media_super));
			tools::Report report = check();
			EXPECT_FALSE(report.sound());
			EXPECT_TRUE(report.all_mendable());
			EXPECT_EQ(report.to_replay, updates_.size());
			EXPECT_TRUE(bytes().substr(0, sizeof(media_super)) == flipped);
			EXPECT_EQ(repair().size(), 1u);
			EXPECT_TRUE(bytes() == good_) << "not as it was";
			restore();
			if (HasFailure())
				return;
		}
	};
	/* Version 1 does not use what comes after the first checksum. */
	flip_bits(
	        0, super_.version < 2 ? offsetof(media_super, more) : offsetof(media_super, grown));
	flip_bits(offsetof(media_super, state), 8);
	flip_bits(offsetof(media_super, tail), 8);
	flip_bits(offsetof(media_super, tail) + sizeof(media_super::tail[0]), 8);
}

/* ------------------------------------------------------------ more than one byte */

TEST_P(Crashed, UpdateLost_IsToldExactly_AndNotMended)
{
	uint64_t durts = std::next(updates_.begin(), 20)->first;
	const Update &u = updates_[durts];
	ASSERT_FALSE(last_of_its_thread(durts));
	const char junk[] = "2 bytes";
	poke(record_offset(u, entries_of(u)) + 9, junk, 7);
	tools::Report report = check();
	EXPECT_FALSE(report.sound());
	EXPECT_FALSE(report.all_mendable());
	ASSERT_GE(report.lost.size(), 1u);
	const tools::Lost &l = report.lost.front();
	EXPECT_EQ(l.durts, durts);
	EXPECT_EQ(l.durts_last, durts);
	EXPECT_EQ(l.thread, u.marker.thread);
	EXPECT_TRUE(l.certain) << l.why;
	EXPECT_TRUE(l.ranges_complete);
	uint64_t told = 0, stored = 0;
	for (const tools::Range &r : l.ranges)
		told += r.bytes;
	std::set<uint64_t> distinct;
	for (const auto &[offset, what] : u.stores)
		for (uint64_t k = 0; k < what.size(); k++)
			stored += distinct.insert(offset + k).second;
	EXPECT_EQ(told, stored);
	for (const auto &[offset, what] : u.stores)
		EXPECT_TRUE(std::any_of(l.ranges.begin(), l.ranges.end(),
		        [&, offset = offset, n = what.size()](tools::Range r) {
			        return r.offset <= offset && offset + n <= r.offset + r.bytes;
		        }));
	std::string before = bytes();
	EXPECT_TRUE(repair().empty());
	EXPECT_TRUE(bytes() == before);
	expect_refused(FUR_ECORRUPT);
}

TEST_P(Crashed, Forgetting_KeepsAllBeforeIt)
{
	uint64_t durts = std::next(updates_.begin(), 20)->first;
	const Update &u = updates_[durts];
	poke(record_offset(u, entries_of(u)) + 9, "2 bytes", 7);
	EXPECT_EQ(check().first_to_forget(), durts);
	{
		tools::HeapView view(path_, tools::Purpose::REPAIR);
		EXPECT_THROW(tools::forget(view, 1), tools::Refused);
		tools::forget(view, durts);
	}
	EXPECT_TRUE(check().sound());
	EXPECT_TRUE(repair().empty()) << "brought back what was given up";
	EXPECT_EQ(open_result(), 0) << fur_errormsg();
	std::set<uint64_t> lost;
	for (auto later = updates_.find(durts); later != updates_.end(); ++later)
		lost.insert(later->first);
	EXPECT_TRUE(heap_bytes_now() == replayed(lost));
	EXPECT_TRUE(check().sound());
}

TEST_P(Crashed, MarkerWipedOut_IsToldByTheGapInTheLog)
{
	uint64_t durts = std::next(updates_.begin(), 20)->first;
	uint32_t thread = updates_[durts].marker.thread;
	std::string zero(sizeof(media_marker), '\0');
	poke(slot_offset(durts), zero.data(), zero.size());
	tools::Report report = check();
	EXPECT_FALSE(report.sound());
	ASSERT_GE(report.lost.size(), 1u);
	EXPECT_TRUE(std::any_of(report.lost.begin(), report.lost.end(), [&](const tools::Lost &l) {
		return l.certain && l.durts == durts && l.durts_last == durts &&
		       l.thread == thread && !l.ranges.empty();
	}));
	expect_refused(FUR_ECORRUPT);
}

TEST_P(Crashed, RingWipedOutInPart_IsTold)
{
	auto from = std::next(updates_.begin(), 10)->first;
	std::string zero(sizeof(media_marker), '\0');
	for (uint64_t s = from; s < from + 20; s++)
		poke(slot_offset(s), zero.data(), zero.size());
	tools::Report report = check();
	EXPECT_FALSE(report.sound());
	EXPECT_TRUE(std::any_of(
	        report.problems.begin(), report.problems.end(), [](const tools::Problem &p) {
		        return p.what.find("can have been in flight") != std::string::npos;
	        }));
	expect_refused(FUR_ECORRUPT);
}

/* At the end of a thread's log no later record shows that a damaged one was complete; but this many
 * cannot have been in flight. */
TEST_P(Crashed, NewestLogsWipedOut_AreRefused)
{
	auto from = std::prev(updates_.end(), 6);
	const uint64_t zero = 0;
	for (auto u = from; u != updates_.end(); ++u) {
		poke(record_offset(u->second, u->second.marker.log_start), &zero, 8);
		poke(record_offset(u->second, entries_of(u->second)), &zero, 8);
	}
	tools::Report report = check();
	EXPECT_FALSE(report.sound());
	EXPECT_TRUE(report.too_many);
	EXPECT_EQ(report.first_to_forget(), from->first);
	expect_refused(FUR_ECORRUPT);
	{
		tools::HeapView view(path_, tools::Purpose::REPAIR);
		tools::forget(view, from->first);
	}
	EXPECT_EQ(open_result(), 0) << fur_errormsg();
}

TEST_P(Crashed, LostAndInTheHeapInPart_CannotBeGivenUp)
{
	if (GetParam() == VERSION_1)
		GTEST_SKIP() << "has no trailer";
	uint64_t durts = std::next(updates_.begin(), 20)->first,
	         replaying = media_tail_encode(durts + 3);
	const Update &u = updates_[durts];
	poke(record_offset(u, entries_of(u)) + 9, "2 bytes", 7);
	poke(super_.heap_offset + super_.heap_bytes, &replaying, sizeof replaying);
	tools::Report report = check();
	EXPECT_FALSE(report.sound());
	EXPECT_TRUE(report.half_done);
	EXPECT_FALSE(report.first_to_forget().has_value());
	expect_refused(FUR_ECORRUPT);
}

TEST_P(Crashed, BothTailsDamaged_AreNotMended)
{
	uint64_t junk = 0x1234;
	poke(offsetof(media_super, tail), &junk, 8);
	poke(offsetof(media_super, tail) + sizeof(media_super::tail[0]), &junk, 8);
	tools::Report report = check();
	EXPECT_FALSE(report.sound());
	EXPECT_FALSE(report.all_mendable());
	EXPECT_TRUE(repair().empty());
	expect_refused(FUR_ECORRUPT);
}

TEST_P(Crashed, DamagedAllocator_IsToldAndNotMended)
{
	/* A free list's head, in the second thread's stock. */
	uint64_t junk = super_.address + super_.heap_bytes - 8;
	uint64_t caches = (sizeof(heap_header) + 127) & ~uint64_t(127);
	poke(super_.heap_offset + caches + sizeof(thread_caches), &junk, 8);
	tools::Report report = check();
	EXPECT_FALSE(report.sound());
	EXPECT_TRUE(std::any_of(report.problems.begin(), report.problems.end(),
	        [](const tools::Problem &p) { return p.where == "allocator"; }));
	EXPECT_FALSE(report.all_mendable());
}

/* -------------------------------------------------------------- an earlier lap */

/* The heap after a crash some laps later, in which old records are put. */
class EarlierLap : public Crashed
{
protected:
	void SetUp() override
	{
		Crashed::SetUp();
		in_killed_child([&] { work(60); });
		later_ = bytes();
		memcpy(&super_later_, later_.data(), sizeof super_later_);
		ASSERT_EQ(media_tail_decode(super_later_.tail[1][0], &tail_), 0);
	}
	/* Is there a marker of this lap in the slot of that durTS? */
	bool slot_is_in_use(uint64_t durts) const
	{
		uint64_t s = tail_ + (durts - tail_) % super_.ring_slots;
		media_marker now;
		memcpy(&now, &later_[slot_offset(s)], sizeof now);
		return now.durts == s;
	}
	/* The old marker, and its log with it, so that only its lap is wrong. */
	void put_back(uint64_t durts, const Update &u)
	{
		poke(slot_offset(durts), &u.marker, sizeof u.marker);
		uint64_t log = record_offset(u, u.marker.log_start);
		poke(log, &good_[log], u.marker.log_bytes);
	}
	/* Had it been replayed, the counter of its thread would be lower than before. */
	void expect_no_counter_has_gone_back()
	{
		uint64_t lines;
		memcpy(&lines, &heap_bytes_now()[offsetof(heap_header, roots)], 8);
		for (unsigned t = 0; t < THREADS; t++) {
			uint64_t before, after,
			        at = lines - super_later_.address + t * sizeof(Line);
			memcpy(&before, &later_[super_later_.heap_offset + at], 8);
			memcpy(&after, &heap_bytes_now()[at], 8);
			EXPECT_GE(after, before);
		}
	}

	std::string later_;
	media_super super_later_;
	uint64_t tail_ = 0;
};

TEST_P(EarlierLap, Marker_IsNeverReplayed)
{
	unsigned put = 0;
	for (const auto &[durts, u] : updates_) {
		if (!slot_is_in_use(durts))
			continue;
		put_back(durts, u);
		std::string stale = bytes();
		tools::Report report = check();
		int result = open_result();
		EXPECT_TRUE(result == 0 || result == FUR_ECORRUPT);
		if (result) {
			EXPECT_FALSE(report.sound());
			EXPECT_TRUE(bytes() == stale);
		}
		expect_no_counter_has_gone_back();
		write_bytes(later_);
		put++;
	}
	EXPECT_GT(put, 10u);
}

/* ------------------------------------------------------------------- cut short */

TEST_P(Crashed, CutShort_IsRefused_AndWhatIsMissingTold)
{
	ASSERT_EQ(truncate(path_.c_str(), static_cast<off_t>(super_.heap_offset + 4096)), 0);
	expect_refused(FUR_ECORRUPT);
	tools::Report report = check();
	ASSERT_EQ(report.problems.size(), 1u);
	EXPECT_NE(report.problems[0].what.find("missing: heap bytes 4096 to"), std::string::npos)
	        << report.problems[0].what;
	ASSERT_EQ(truncate(path_.c_str(), static_cast<off_t>(super_.logs_offset + 4096)), 0);
	report = check();
	ASSERT_EQ(report.problems.size(), 1u);
	EXPECT_NE(report.problems[0].what.find("logs in part, heap bytes 0 to"), std::string::npos)
	        << report.problems[0].what;
	EXPECT_TRUE(repair().empty());
}

TEST_P(Crashed, TooLong_IsCut)
{
	write_bytes(good_ + "trailing");
	tools::Report report = check();
	EXPECT_FALSE(report.sound());
	EXPECT_TRUE(report.all_mendable());
	EXPECT_EQ(repair().size(), 1u);
	EXPECT_TRUE(bytes() == good_);
}

TEST_P(Crashed, CutShortWhileMapped_IsSigbus_ThenRefused_ThenFineFromACopy)
{
	pid_t child = fork();
	ASSERT_GE(child, 0);
	if (child == 0) {
		signal(SIGBUS, SIG_DFL);
		rlimit no_core = {0, 0};
		setrlimit(RLIMIT_CORE, &no_core);
		try {
			work(UINT64_MAX);
		} catch (...) {
		}
		_exit(1);
	}
	/* It works: its state is open, and its ring changes. */
	std::string before = bytes().substr(super_.ring_offset, 64 * super_.slot_bytes);
	while (bytes().substr(super_.ring_offset, 64 * super_.slot_bytes) == before &&
	        waitpid(child, nullptr, WNOHANG) == 0)
		usleep(1000);
	ASSERT_EQ(truncate(path_.c_str(), static_cast<off_t>(super_.ring_offset)), 0);
	int status;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(WTERMSIG(status), SIGBUS);
	expect_refused(FUR_ECORRUPT);
	EXPECT_NE(std::string(fur_errormsg()).find("truncated"), std::string::npos);
	write_bytes(good_);
	EXPECT_EQ(open_result(), 0);
	EXPECT_TRUE(heap_bytes_now() == replayed({}));
}

/* ------------------------------------------------------------- forged, or newer */

TEST_P(Crashed, RegionsOutsideTheFile_AreRefused_AlsoWithARightChecksum)
{
	const size_t fields[] = {offsetof(media_super, control_offset),
	        offsetof(media_super, control_bytes), offsetof(media_super, ring_offset),
	        offsetof(media_super, ring_slots), offsetof(media_super, logs_offset),
	        offsetof(media_super, log_bytes), offsetof(media_super, heap_offset),
	        offsetof(media_super, heap_bytes), offsetof(media_super, address)};
	for (size_t field : fields)
		for (uint64_t value : {uint64_t(0), uint64_t(1), uint64_t(1) << 31,
		             uint64_t(1) << 62, UINT64_MAX & ~uint64_t(0xffff)}) {
			media_super s = super_;
			memcpy(reinterpret_cast<char *>(&s) + field, &value, 8);
			if (value <= 1 && field == offsetof(media_super, control_bytes))
				continue; /* smaller than it is: nothing lies outside */
			if (value % MEDIA_PAGE_BYTES == 0 &&
			        field == offsetof(media_super, address))
				continue;
			s.checksum = media_super_checksum(&s);
			poke(0, &s, sizeof s);
			int result = open_result();
			EXPECT_TRUE(result == FUR_ECORRUPT)
			        << "field at " << field << " value " << value << ": " << result
			        << " " << fur_errormsg();
			EXPECT_FALSE(check().sound());
			restore();
		}
}

TEST_P(Crashed, VersionOfTheFuture_IsRefusedByAll)
{
	media_super s = super_;
	s.version = MEDIA_VERSION + 1;
	s.checksum = media_super_checksum(&s);
	poke(0, &s, sizeof s);
	expect_refused(FUR_EVERSION);
	std::string before = bytes();
	for (bool mend : {false, true})
		try {
			mend ? (void)repair() : (void)check();
			ADD_FAILURE() << "not refused";
		} catch (const tools::Refused &e) {
			EXPECT_NE(std::string(e.what()).find("version 3"), std::string::npos)
			        << e.what();
		}
	EXPECT_TRUE(bytes() == before);
}

TEST_P(Crashed, InUse_IsRefusedByCheck)
{
	fur::Heap heap = open();
	EXPECT_THROW(check(), tools::Refused);
	EXPECT_THROW(repair(), tools::Refused);
	tools::HeapView view(path_, tools::Purpose::LOOK);
	EXPECT_TRUE(view.used_by_worker());
	heap.close();
	EXPECT_FALSE(view.used_by_worker());
	/* And a check keeps others out. */
	tools::HeapView checking(path_, tools::Purpose::CHECK);
	EXPECT_EQ(open_result(), FUR_EBUSY);
	tools::HeapView beside(path_, tools::Purpose::CHECK);
}

INSTANTIATE_TEST_SUITE_P(
        Form, Crashed, ::testing::Values(VERSION_1, VERSION_2, WIDE_SLOTS), form_name);
INSTANTIATE_TEST_SUITE_P(
        Form, EarlierLap, ::testing::Values(VERSION_1, VERSION_2, WIDE_SLOTS), form_name);

} // namespace
