/* SPDX-License-Identifier: BSD-3-Clause
 *
 * join_test.cpp - recovery of the members of a group, together and alone, from rings and logs
 * written by hand.
 *
 * A program of its own: it stands in the place of pm_flush() and pm_drain(), so that power can fail
 * at each drain.
 */
#include "fixture.hpp"
#include "internals.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <functional>
#include <fur_group.h>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sys/mman.h>

extern "C" {
void __real_pm_flush(struct pm *pm, const void *start, size_t bytes);
void __real_pm_flush_again(struct pm *pm, void *start, size_t bytes);
int __real_pm_drain(struct pm *pm);
void __wrap_pm_flush(struct pm *pm, const void *start, size_t bytes);
void __wrap_pm_flush_again(struct pm *pm, void *start, size_t bytes);
int __wrap_pm_drain(struct pm *pm);
}

namespace
{

/* What the medium has of each mapping: what was flushed, and then drained. */
struct Medium {
	struct File {
		uint8_t *mapping, *medium; /* `medium` is shared with children */
		size_t bytes;
	};
	struct Range {
		uint8_t *at;
		size_t bytes;
	};
	std::vector<File> files;
	/* A drain is about what its own thread has flushed. */
	static thread_local std::vector<Range> flushed;
	std::mutex mutex;
	bool armed = false, slow = false;
	unsigned drains = 0, power_fails_at = UINT32_MAX;

	void flush(const void *start, size_t bytes)
	{
		auto at = reinterpret_cast<uintptr_t>(start) / 64 * 64;
		const size_t n = (reinterpret_cast<uintptr_t>(start) + bytes + 63) / 64 * 64 - at;
		if (armed)
			flushed.push_back({reinterpret_cast<uint8_t *>(at), n});
		/* Let another thread take the next member. */
		for (const File &f : files)
			if (armed && slow && at >= reinterpret_cast<uintptr_t>(f.mapping) &&
			        at < reinterpret_cast<uintptr_t>(f.mapping) + MEDIA_PAGE_BYTES)
				usleep(200);
	}
	void drain()
	{
		if (!armed)
			return;
		const std::lock_guard<std::mutex> lock(mutex);
		if (drains++ == power_fails_at)
			_exit(77);
		for (const Range &r : flushed)
			for (const File &f : files)
				if (r.at >= f.mapping && r.at < f.mapping + f.bytes)
					memcpy(f.medium + (r.at - f.mapping), r.at, r.bytes);
		flushed.clear();
	}
};
thread_local std::vector<Medium::Range> Medium::flushed;
Medium medium;

/* One member's file. */
class Member
{
public:
	Member(std::string path, uint32_t index) : path_(std::move(path)), index_(index)
	{
		unlink(path_.c_str());
		fur::Heap::create(path_, small_options()).close();
		edit_super([&](media_super &s) {
			s.more.features |= MEDIA_MEMBER;
			memset(s.more.group, 0xab, sizeof s.more.group);
			s.more.group_members = 8;
			s.more.group_member = index_;
			s.more.checksum = media_more_checksum(&s);
			s.state = MEDIA_OPEN;
			s.tail[0][0] = s.tail[1][0] = media_tail_encode(640 * (index_ + 1));
		});
		attach();
	}
	~Member()
	{
		detach();
		unlink(path_.c_str());
	}
	Member(const Member &) = delete;
	Member &operator=(const Member &) = delete;

	void edit_super(const std::function<void(media_super &)> &edit)
	{
		media_super s;
		const int fd = open(path_.c_str(), O_RDWR);
		ASSERT_EQ(pread(fd, &s, sizeof s, 0), ssize_t(sizeof s));
		edit(s);
		ASSERT_EQ(pwrite(fd, &s, sizeof s, 0), ssize_t(sizeof s));
		close(fd);
	}
	void attach()
	{
		char reason[160];
		fur::Options o = small_options();
		ASSERT_EQ(heap_open_file(path_.c_str(), HEAP_LOCK_WORKER, &file_), 0)
		        << fur_errormsg();
		ASSERT_EQ(heap_attach(&d_, &file_, &o, reason, sizeof reason), 0);
		ASSERT_EQ(durability_take_log(&d_, 3), 0) << fur_errormsg();
		d_.file = &file_;
		first_ = d_.tail;
		words_ = d_.super->heap_bytes - 4096;
	}
	void detach()
	{
		if (!d_.super)
			return;
		durability_detach(&d_);
		heap_close_file(&file_);
		d_.super = nullptr;
	}
	/* As when the next process opens the file; update numbers count from the new tail. */
	void reopen()
	{
		detach();
		attach();
		at_ = {};
	}
	uint64_t durts(uint64_t k) const
	{
		return first_ + k;
	}
	/* Update k stores k + 1 to a word of its own.  `list`: it is a part. */
	media_marker *put(uint64_t k, std::initializer_list<unsigned> deps = {},
	        unsigned kind = MEDIA_COMMIT, const std::vector<uint8_t> &list = {})
	{
		const uint64_t thread = k % 4, start = at_[thread];
		uint8_t *log = d_.logs + thread * d_.super->log_bytes;
		const uint64_t entry[2] = {media_entry_word(words_ + k * 8, 8), k + 1};
		claims_.durts = durts(k);
		const media_head head =
		        media_head_encode(d_.super, static_cast<uint32_t>(thread), start, &claims_);
		claims_ = {};
		media_marker m{};
		m.durts = durts(k);
		m.log_start = start;
		m.thread = static_cast<uint16_t>(thread);
		m.kind = static_cast<uint16_t>(kind | (list.empty() ? 0 : MEDIA_PART));
		if (kind != MEDIA_ABORT) {
			std::vector<uint8_t> record(sizeof head + sizeof entry + list.size());
			memcpy(record.data(), &head, sizeof head);
			memcpy(record.data() + sizeof head, entry, sizeof entry);
			std::copy(list.begin(), list.end(),
			        record.begin() + sizeof head + sizeof entry);
			for (uint64_t i = 0; i < record.size(); i++)
				log[(start + i) % d_.super->log_bytes] = record[i];
			m.log_bytes = static_cast<uint32_t>(record.size());
			at_[thread] = (start + record.size() + 63) / 64 * 64;
		}
		for (unsigned back : deps)
			m.deps[(back - 1) / 64] |= uint64_t(1) << (back - 1) % 64;
		m.checksum = media_marker_checksum(d_.super, &m, log);
		*durability_marker(&d_, m.durts) = m;
		return durability_marker(&d_, m.durts);
	}
	/* Two bytes: one would be corrected. */
	void break_record(uint64_t k)
	{
		const media_marker *m = durability_marker(&d_, durts(k));
		uint8_t *log = d_.logs + m->thread * d_.super->log_bytes;
		for (uint64_t i = 0; i < 2; i++)
			log[(m->log_start + 24 + i) % d_.super->log_bytes] ^= 1;
	}
	void wipe(uint64_t k)
	{
		memset(static_cast<void *>(durability_marker(&d_, durts(k))), 0, MEDIA_SLOT_BYTES);
	}
	/* The claim of the next update: that one had settled. */
	void claim(uint64_t own)
	{
		claims_ = {0, durts(own), 0, 0};
	}
	/* Which updates are in the heap? */
	std::set<uint64_t> has() const
	{
		std::set<uint64_t> kept;
		for (uint64_t k = 0; k < 64; k++) {
			uint64_t word;
			memcpy(&word, d_.image + words_ + k * 8, 8);
			if (word == k + 1)
				kept.insert(k);
		}
		return kept;
	}
	uint64_t seen(uint32_t of) const
	{
		const media_file f = durability_file(&d_);
		return media_seen(&f, of);
	}
	void set_seen(uint32_t of, uint64_t value)
	{
		const media_file f = durability_file(&d_);
		media_group_page(&f)->seen[of] = media_tail_encode(value);
	}
	bool kept_below_tail(uint64_t durts) const
	{
		const media_file f = durability_file(&d_);
		media_decided decided;
		media_read_decisions(&f, &decided);
		return media_decided_kept(&decided, durts);
	}
	unsigned decisions() const
	{
		const media_file f = durability_file(&d_);
		media_decided decided;
		media_read_decisions(&f, &decided);
		return decided.n;
	}
	std::vector<uint8_t> bytes() const
	{
		const auto *at = reinterpret_cast<const uint8_t *>(d_.words);
		return {at, at + file_.file_bytes};
	}
	void set_bytes(const std::vector<uint8_t> &bytes)
	{
		memcpy(static_cast<void *>(d_.words), bytes.data(), bytes.size());
	}
	/* Closed, with nothing in its ring. */
	void set_closed(uint64_t tail)
	{
		d_.words->state = MEDIA_CLOSED;
		for (auto &copy : d_.words->tail)
			copy[0] = media_tail_encode(tail);
		reopen();
	}

	const std::string path_;
	const uint32_t index_;
	heap_file file_{};
	durability d_{};
	uint64_t first_ = 0, words_ = 0;
	std::array<uint64_t, 4> at_{};
	media_claims claims_{};
};

class Join : public HeapFile
{
protected:
	using Set = std::set<uint64_t>;
	/* The parts of an update: of member `first`, its update `second`. */
	using Parts = std::map<uint32_t, uint64_t>;

	Join() : Join(3) {}
	explicit Join(uint32_t n)
	{
		for (uint32_t k = 0; k < n; k++)
			m_.push_back(std::make_unique<Member>(
			        path_ + "-" + static_cast<char>('a' + k), k));
	}
	~Join() override
	{
		medium.armed = false;
		medium.files.clear();
	}
	media_parts list_of(uint64_t id, const Parts &parts, uint32_t mine) const
	{
		media_parts list{};
		list.id = id;
		for (auto [member, k] : parts) {
			if (member == mine)
				list.mine = list.n;
			list.part[list.n++] = {
			        member < m_.size() ? m_[member]->durts(k) : 1000 + k, member, 0};
		}
		return list;
	}
	static std::vector<uint8_t> encoded(const media_parts &list)
	{
		std::vector<uint8_t> entry(media_parts_bytes(list.n));
		media_parts_encode(entry.data(), &list);
		return entry;
	}
	/* The part of an update in one member. */
	media_marker *put(uint32_t member, uint64_t id, const Parts &parts,
	        std::initializer_list<unsigned> deps = {}, unsigned kind = MEDIA_COMMIT)
	{
		return m_[member]->put(
		        parts.at(member), deps, kind, encoded(list_of(id, parts, member)));
	}
	/* All of its parts. */
	void put_all(uint64_t id, const Parts &parts)
	{
		for (auto [member, k] : parts)
			put(member, id, parts);
	}
	int join(const std::vector<uint32_t> &present = {0, 1, 2},
	        const std::vector<uint32_t> &missing = {})
	{
		results_.clear();
		for (uint32_t k : present)
			results_.push_back({&m_[k]->d_, k, m_[k]->d_.words->state != MEDIA_CLOSED,
			        {}, nullptr, nullptr, 0, nullptr});
		return replay_join(
		        results_.data(), static_cast<unsigned>(present.size()), missing.empty());
	}
	void expect_joins(const std::vector<Set> &expected)
	{
		ASSERT_EQ(join(), 0) << fur_errormsg();
		for (size_t k = 0; k < expected.size(); k++)
			EXPECT_EQ(m_[k]->has(), expected[k]) << "member " << k;
	}
	/* Refused: the message has these words, and no file has changed. */
	void expect_refused(
	        int error, const std::vector<std::string> &words, const std::function<int()> &call)
	{
		std::vector<std::vector<uint8_t>> before;
		std::vector<uint64_t> tails;
		for (auto &m : m_) {
			before.push_back(m->bytes());
			tails.push_back(m->d_.tail);
		}
		EXPECT_EQ(call(), error);
		const std::string message = fur_errormsg();
		for (const std::string &word : words)
			EXPECT_NE(message.find(word), std::string::npos) << word << ": " << message;
		for (size_t k = 0; k < m_.size(); k++) {
			EXPECT_TRUE(before[k] == m_[k]->bytes()) << "member " << k << " changed";
			EXPECT_EQ(tails[k], m_[k]->d_.tail);
		}
	}
	void expect_join_refused(int error, const std::vector<std::string> &words)
	{
		expect_refused(error, words, [&] { return join(); });
	}
	int alone(uint32_t k)
	{
		bool recovered;
		return replay_unless_closed(&m_[k]->d_, &alone_, &recovered);
	}
	std::string text(uint32_t member, uint64_t k) const
	{
		return std::to_string(m_[member]->durts(k));
	}

	std::vector<std::unique_ptr<Member>> m_;
	std::vector<join_member> results_;
	replay_result alone_{};
};

/* ------------------------------------------------------- all or none (INV-GU5) */

TEST_F(Join, AllPartsAreThere_AllAreKept)
{
	m_[0]->put(0);
	put_all(7, {{0, 1}, {1, 0}});
	put_all(8, {{0, 2}, {1, 5}, {2, 3}});
	m_[2]->put(4, {1});
	expect_joins({{0, 1, 2}, {0, 5}, {3, 4}});
	EXPECT_EQ(results_[0].result.updates, 3u);
	EXPECT_EQ(m_[0]->d_.tail, m_[0]->first_ + 128) << "two laps on";
	EXPECT_EQ(m_[0]->seen(1), m_[1]->durts(5) + 1);
	EXPECT_EQ(m_[0]->seen(2), m_[2]->durts(3) + 1);
	EXPECT_EQ(m_[0]->seen(0), 0u);
	EXPECT_EQ(m_[1]->seen(0), m_[0]->durts(2) + 1);
	EXPECT_TRUE(m_[0]->kept_below_tail(m_[0]->durts(1)));
	EXPECT_FALSE(m_[0]->kept_below_tail(m_[0]->durts(3)));
	EXPECT_FALSE(m_[0]->kept_below_tail(m_[0]->durts(127)));
}

TEST_F(Join, PartIsMissing_OthersAreDropped_WithWhatDependsOnThem)
{
	put(0, 7, {{0, 1}, {1, 0}});
	m_[0]->put(2, {1}); /* has read from it */
	m_[0]->put(3);
	m_[1]->put(1);
	expect_joins({{3}, {1}, {}});
	EXPECT_EQ(results_[0].result.dropped, 2u);
	EXPECT_FALSE(m_[0]->kept_below_tail(m_[0]->durts(1)));
	EXPECT_EQ(m_[0]->seen(1), 0u) << "it did not settle";
}

TEST_F(Join, PartIsBroken_OthersAreDropped)
{
	put_all(7, {{0, 1}, {1, 0}, {2, 2}});
	m_[1]->break_record(0);
	expect_joins({{}, {}, {}});
}

TEST_F(Join, PartIsAborted_OthersAreDropped)
{
	put(0, 7, {{0, 1}, {1, 0}});
	m_[1]->put(0, {}, MEDIA_ABORT);
	expect_joins({{}, {}, {}});
}

TEST_F(Join, SlotHasAnotherUpdate_OthersAreDropped)
{
	put(0, 7, {{0, 1}, {1, 0}});
	m_[1]->put(0); /* no part */
	expect_joins({{}, {0}, {}});
}

TEST_F(Join, PartHasAnotherId_BothAreDropped)
{
	put(0, 7, {{0, 1}, {1, 0}});
	put(1, 8, {{0, 1}, {1, 0}});
	expect_joins({{}, {}, {}});
}

TEST_F(Join, PartNamesOthers_BothAreDropped)
{
	put(0, 7, {{0, 1}, {1, 0}});
	put(1, 7, {{0, 2}, {1, 0}});
	expect_joins({{}, {}, {}});
}

TEST_F(Join, TwoPartsOfOneNumber_TheOneThatTheOtherNames)
{
	put(0, 7, {{0, 1}, {1, 0}});
	put_all(7, {{0, 2}, {1, 0}});
	expect_joins({{2}, {0}, {}});
}

TEST_F(Join, LateUpdateAboveADroppedPart_IsDropped)
{
	m_[0]->put(0);
	put(0, 7, {{0, 1}, {1, 0}});
	m_[0]->put(2, {}, MEDIA_COMMIT | MEDIA_AFTER_ALL);
	put_all(8, {{0, 3}, {1, 1}});
	expect_joins({{0, 3}, {1}, {}});
}

/* A loss goes from heap to heap, against the order in which they are judged. */
TEST_F(Join, ChainOverThreeHeaps_TakesSeveralRounds)
{
	put(2, 7, {{1, 0}, {2, 0}}); /* its part in 1 is missing */
	put_all(8, {{0, 5}, {2, 1}});
	put(2, 8, {{0, 5}, {2, 1}}, {1}); /* has read from 7 */
	put_all(9, {{0, 6}, {1, 3}});
	put(0, 9, {{0, 6}, {1, 3}}, {1}); /* has read from 8 */
	m_[1]->put(4, {1});               /* has read from 9 */
	m_[1]->put(5);
	expect_joins({{}, {5}, {}});
}

TEST_F(Join, ManyMembers_OnSeveralThreads)
{
	for (auto &m : m_)
		m->d_.replay_options.least_bytes = 1;
	put_all(7, {{0, 1}, {1, 0}, {2, 2}});
	put(2, 8, {{0, 2}, {2, 3}});
	expect_joins({{1}, {0}, {2}});
}

/* ------------------------------------------------------------------- refused */

TEST_F(Join, ForgedLists_AreRefused)
{
	const Parts parts = {{0, 1}, {1, 0}};
	put(1, 7, parts);
	auto forge = [&](const std::function<void(media_parts &)> &change) {
		media_parts list = list_of(7, parts, 0);
		change(list);
		std::vector<uint8_t> entry(media_parts_bytes(2));
		uint64_t words[] = {
		        media_entry_word(list.n | uint64_t(list.mine) << 8, MEDIA_ENTRY_PARTS),
		        list.id, 0, 0};
		for (unsigned k = 0; k < 2; k++)
			words[2 + k] = uint64_t(list.part[k].member) << 56 | list.part[k].durts;
		ASSERT_EQ(entry.size(), sizeof words);
		memcpy(entry.data(), words, sizeof words);
		m_[0]->at_ = {};
		m_[0]->put(1, {}, MEDIA_COMMIT, entry);
		expect_join_refused(
		        FUR_ECORRUPT, {"update " + text(0, 1), "names parts", m_[0]->path_});
		m_[0]->wipe(1);
	};
	forge([](auto &l) { l.n = 1; });
	forge([](auto &l) { l.n = 17; });
	forge([](auto &l) { l.n = UINT32_MAX; });
	forge([](auto &l) { l.mine = 1; });
	forge([](auto &l) { l.mine = 2; });
	forge([](auto &l) { std::swap(l.part[0], l.part[1]); });
	forge([](auto &l) { l.part[1].member = 0; });
	forge([](auto &l) { l.part[1].member = 8; });
	forge([](auto &l) { l.part[1].durts = 0; });
	forge([](auto &l) { l.part[0].durts++; });
	/* No list at all. */
	media_marker *m = m_[0]->put(1);
	m->kind |= MEDIA_PART;
	m->checksum = media_marker_checksum(
	        m_[0]->d_.super, m, m_[0]->d_.logs + m->thread * m_[0]->d_.super->log_bytes);
	expect_join_refused(FUR_ECORRUPT, {"update " + text(0, 1), "names parts"});
	/* A list, and before it an entry outside the heap. */
	m_[0]->at_ = {};
	m = put(0, 7, parts);
	uint8_t *log = m_[0]->d_.logs + m->thread * m_[0]->d_.super->log_bytes;
	const uint64_t outside = media_entry_word(m_[0]->d_.super->heap_bytes, 8);
	memcpy(log + m->log_start + sizeof(media_head), &outside, sizeof outside);
	m->checksum = media_marker_checksum(m_[0]->d_.super, m, log);
	expect_join_refused(FUR_ECORRUPT, {"update " + text(0, 1), "outside the heap"});
}

/* fur-check --forget-from: the next recovery drops the parts above in all members. */
TEST_F(Join, ForgottenParts_AreDroppedEverywhere)
{
	put_all(7, {{0, 1}, {1, 0}});
	put_all(8, {{0, 3}, {2, 0}});
	m_[0]->d_.words->forget[0] = media_tail_encode(m_[0]->durts(2));
	expect_joins({{1}, {0}, {}});
	EXPECT_FALSE(m_[0]->kept_below_tail(m_[0]->durts(3)));
}

TEST_F(Join, DamageInOne_RefusesAll)
{
	put_all(7, {{0, 1}, {1, 0}});
	/* One byte, which would be corrected: it stays as it is. */
	m_[1]->d_.logs[durability_marker(&m_[1]->d_, m_[1]->durts(0))->log_start + 24] ^= 1;
	m_[2]->put(0);
	m_[2]->claim(0);
	m_[2]->put(4);
	m_[2]->wipe(0);
	expect_join_refused(FUR_ECORRUPT, {m_[2]->path_, "was durable when update"});
}

TEST_F(Join, MemberThatIsOlder_IsNamed)
{
	m_[1]->put(0), m_[1]->put(1);
	m_[0]->set_seen(1, m_[1]->durts(2) + 1);
	expect_join_refused(FUR_EGROUP, {m_[1]->path_, "older", text(1, 2)});
	m_[0]->set_seen(1, m_[1]->durts(9) + 1);
	expect_join_refused(FUR_EGROUP, {m_[1]->path_, text(1, 2)});
	m_[1]->put(2);
	m_[1]->put(9);
	m_[1]->put(4); /* a hole at 3, which no one claims */
	expect_joins({{}, {0, 1, 2, 4, 9}, {}});
}

TEST_F(Join, MemberThatLostWhatAnotherHasSeen_IsOlder)
{
	m_[1]->put(0), m_[1]->put(3);
	m_[0]->set_seen(1, m_[1]->durts(1) + 1);
	expect_join_refused(FUR_EGROUP, {m_[1]->path_, "older", text(1, 1)});
}

TEST_F(Join, MemberThatIsNewer_IsNot)
{
	m_[0]->set_seen(1, m_[1]->durts(0)); /* below its tail */
	m_[0]->set_seen(2, 5);
	m_[1]->put(0);
	expect_joins({{}, {0}, {}});
}

TEST_F(Join, ClosedMember_BelowWhatAnotherHasSeen_IsOlder)
{
	m_[1]->set_closed(m_[1]->first_ + 10);
	m_[0]->set_seen(1, m_[1]->first_);
	EXPECT_EQ(join(), 0) << fur_errormsg();
	m_[0]->reopen();
	m_[0]->set_seen(1, m_[1]->first_ + 1);
	expect_join_refused(FUR_EGROUP, {m_[1]->path_, "older", text(1, 0)});
}

/* The part was drawn while it was open: so it was not closed after that. */
TEST_F(Join, ClosedMember_WithoutAPartThatAnotherNames_IsOlder)
{
	const Parts parts = {{0, 1}, {1, 12}};
	put(0, 7, parts);
	m_[1]->set_closed(m_[1]->first_ + 10);
	expect_join_refused(FUR_EGROUP, {m_[1]->path_, "older", text(1, 0)});
}

TEST_F(Join, ClosedMember_WithAMarkerAboveItsTail_IsRefused)
{
	m_[1]->put(0);
	m_[1]->d_.words->state = MEDIA_CLOSED;
	expect_join_refused(FUR_ECORRUPT, {m_[1]->path_});
}

/* A later update of member 0 knew that it had settled, and so in member 1 as well. */
TEST_F(Join, PartThatHadSettled_IsNotDropped)
{
	put(0, 7, {{0, 0}, {1, 3}});
	m_[0]->claim(0);
	m_[0]->put(4);
	expect_join_refused(FUR_EGROUP, {m_[1]->path_, "older", text(1, 3)});
	put(1, 7, {{0, 0}, {1, 3}});
	expect_joins({{0, 4}, {3}, {}});
}

/* --------------------------------------------------------- members are missing */

TEST_F(Join, MissingMember_ThatNoPartNeeds)
{
	put_all(7, {{0, 1}, {1, 0}});
	EXPECT_EQ(join({0, 1}, {2}), 0) << fur_errormsg();
	EXPECT_EQ(m_[0]->has(), Set{1});
	EXPECT_EQ(m_[1]->has(), Set{0});
}

TEST_F(Join, MissingMember_ThatAPartNeeds)
{
	put_all(7, {{0, 1}, {1, 0}});
	put_all(8, {{1, 1}, {2, 0}});
	expect_refused(
	        FUR_EGROUP, {m_[1]->path_, "member 2", text(2, 0), "update " + text(1, 1)}, [&] {
		        return join({0, 1}, {2});
	        });
	/* It has seen that part settled. */
	m_[1]->set_seen(2, m_[2]->durts(0) + 1);
	EXPECT_EQ(join({0, 1}, {2}), 0) << fur_errormsg();
	EXPECT_EQ(m_[1]->has(), (Set{0, 1}));
	EXPECT_TRUE(m_[1]->kept_below_tail(m_[1]->durts(1)));
}

TEST_F(Join, MissingMember_IsNotNeededByAPartThatIsLostAnyway)
{
	put(1, 8, {{1, 1}, {2, 0}}, {1}); /* names a hole */
	EXPECT_EQ(join({0, 1}, {2}), 0) << fur_errormsg();
	EXPECT_EQ(m_[1]->has(), Set{});
	/* When the member is back, it learns that. */
	put(2, 8, {{1, 1}, {2, 0}});
	ASSERT_EQ(join(), 0) << fur_errormsg();
	EXPECT_EQ(m_[2]->has(), Set{});
}

/* It is lost in a member that is there. */
TEST_F(Join, MissingMember_IsNotNeededByAPartThatAnotherLacks)
{
	put(1, 8, {{0, 3}, {1, 1}, {2, 0}});
	EXPECT_EQ(join({0, 1}, {2}), 0) << fur_errormsg();
	EXPECT_EQ(m_[1]->has(), Set{});
}

/* Parts of 0 and 1 that are lost, and a member that has them and comes back much later. */
TEST_F(Join, MissingMember_FindsEachDecision)
{
	const unsigned slots = media_decisions(m_[0]->d_.super);
	const uint64_t early = m_[0]->durts(2);
	unsigned n = 0;
	int error;
	for (;; n++) {
		ASSERT_LE(n, slots);
		/* Another part is kept each time: the decision cannot only be extended. */
		put_all(100 + n, {{0, 1}, {1, 1}});
		if ((error = join({0, 1}, {2})))
			break;
		EXPECT_EQ(m_[0]->has(), Set{1});
		EXPECT_FALSE(m_[0]->kept_below_tail(early)) << n;
		for (int k : {0, 1})
			m_[k]->reopen();
	}
	EXPECT_EQ(n, slots - 1);
	expect_refused(FUR_EGROUP, {m_[0]->path_, "all of them"}, [&] {
		return join({0, 1}, {2});
	});
	/* With it there is room: once. */
	ASSERT_EQ(join(), 0) << fur_errormsg();
	for (auto &m : m_)
		m->reopen();
	put_all(200, {{0, 1}, {1, 1}});
	EXPECT_EQ(join({0, 1}, {2}), 0) << "no decision from before is of use: " << fur_errormsg();
}

/* ------------------------------------------------------- decisions (INV-GU8) */

class Decided : public Join
{
protected:
	/* What member 1 decided about [first_, first_ + 128): it kept its parts 3 and 63. */
	void decide(bool recovered = true)
	{
		uint64_t kept = UINT64_C(1) << 3 | UINT64_C(1) << 63;
		const group_decision decision = {m_[1]->first_, m_[1]->first_ + 128, &kept, true};
		ASSERT_EQ(group_note_decision(&m_[1]->d_, &decision), 0);
		if (recovered) {
			ASSERT_EQ(replay_skip(&m_[1]->d_, m_[1]->first_ + 128), 0);
		}
	}
	/* Is a part kept that names this durTS of member 1? */
	bool keeps(uint64_t durts)
	{
		media_parts list = list_of(7, {{0, 1}, {1, 0}}, 0);
		list.part[1].durts = durts;
		m_[0]->put(1, {}, MEDIA_COMMIT, encoded(list));
		EXPECT_EQ(join(), 0) << fur_errormsg();
		const bool kept = m_[0]->has() == Set{1};
		EXPECT_EQ(m_[0]->has(), kept ? Set{1} : Set{});
		memset(m_[0]->d_.image + m_[0]->words_, 0, 4096);
		m_[0]->reopen();
		return kept;
	}
};

TEST_F(Decided, PartsBelowTheTail_AreKept_UnlessADecisionSaysOtherwise)
{
	decide();
	const uint64_t from = m_[1]->first_;
	EXPECT_TRUE(keeps(from - 1)) << "replayed while it was in use";
	EXPECT_FALSE(keeps(from));
	EXPECT_FALSE(keeps(from + 2));
	EXPECT_TRUE(keeps(from + 3));
	EXPECT_FALSE(keeps(from + 4));
	EXPECT_TRUE(keeps(from + 63));
	EXPECT_FALSE(keeps(from + 64)) << "drawn, and not written";
	EXPECT_FALSE(keeps(from + 67)) << "bit 3 is of the lap before";
	EXPECT_FALSE(keeps(from + 127));
}

TEST_F(Decided, DecisionOfARecoveryThatDidNotMoveTheTail_IsMadeAgain)
{
	decide(false);
	put_all(7, {{0, 1}, {1, 0}});
	expect_joins({{1}, {0}, {}});
	EXPECT_EQ(m_[1]->decisions(), 1u);
	EXPECT_TRUE(m_[1]->kept_below_tail(m_[1]->durts(0)));
	EXPECT_FALSE(m_[1]->kept_below_tail(m_[1]->durts(3)));
}

TEST_F(Decided, RecoveriesThatKeepNothing_OnlyMoveItsEnd)
{
	decide();
	for (unsigned n = 0; n < 40; n++) {
		m_[1]->reopen();
		ASSERT_EQ(join({0, 1}, {2}), 0) << fur_errormsg();
		EXPECT_FALSE(m_[1]->kept_below_tail(m_[1]->first_ + 127));
	}
	EXPECT_EQ(m_[1]->decisions(), 1u);
	/* Now one that keeps something: the end stays where the next one begins. */
	m_[0]->reopen(), m_[1]->reopen();
	put_all(7, {{0, 1}, {1, 0}});
	ASSERT_EQ(join({0, 1}, {2}), 0) << fur_errormsg();
	EXPECT_EQ(m_[1]->decisions(), 2u);
	EXPECT_TRUE(m_[1]->kept_below_tail(m_[1]->durts(0)));
	EXPECT_FALSE(m_[1]->kept_below_tail(m_[1]->durts(1)));
}

/* Power failed after the end was moved and before the tail was; meanwhile a part has come. */
TEST_F(Decided, EndThatWasMovedInVain_IsTakenBack)
{
	decide();
	m_[1]->reopen();
	uint64_t none = 0;
	const group_decision again = {m_[1]->first_, m_[1]->first_ + 128, &none, false};
	ASSERT_EQ(group_note_decision(&m_[1]->d_, &again), 0);
	put_all(7, {{0, 1}, {1, 0}});
	expect_joins({{1}, {0}, {}});
	EXPECT_TRUE(m_[1]->kept_below_tail(m_[1]->durts(0)));
}

/* It takes no further room, where there is none. */
TEST_F(Decided, MadeAgain_TakesTheSamePlace)
{
	const unsigned slots = media_decisions(m_[1]->d_.super);
	group_decision decision{};
	uint64_t kept = 1;
	for (unsigned n = 0; n < slots; n++) {
		decision = {m_[1]->first_ + n * 1000, m_[1]->first_ + n * 1000 + 128, &kept, true};
		ASSERT_TRUE(group_decision_fits(&m_[1]->d_, &decision, false));
		ASSERT_EQ(group_note_decision(&m_[1]->d_, &decision), 0);
	}
	kept = 2;
	ASSERT_TRUE(group_decision_fits(&m_[1]->d_, &decision, false));
	ASSERT_EQ(group_note_decision(&m_[1]->d_, &decision), 0);
	EXPECT_EQ(m_[1]->decisions(), slots);
	EXPECT_TRUE(m_[1]->kept_below_tail(decision.tail + 1));
	EXPECT_FALSE(m_[1]->kept_below_tail(decision.tail));
	decision = {decision.tail + 1000, decision.tail + 1128, &kept, true};
	EXPECT_FALSE(group_decision_fits(&m_[1]->d_, &decision, false)) << "all are in use";
}

TEST_F(Decided, ThatWasUsedUp_IsNotExtended)
{
	decide();
	ASSERT_EQ(join(), 0); /* complete: no one needs the decisions before */
	m_[1]->reopen();
	ASSERT_EQ(join({0, 1}, {2}), 0);
	EXPECT_EQ(m_[1]->decisions(), 2u);
	EXPECT_FALSE(m_[1]->kept_below_tail(m_[1]->first_));
}

/* -------------------------------------------------------- a failure in between */

class Interrupted : public Join
{
protected:
	static std::vector<uint8_t> of(const Medium::File &f)
	{
		return {f.medium, f.medium + f.bytes};
	}
	/* From now on, what the files have now is on the medium. */
	void arm()
	{
		for (auto &m : m_) {
			void *shared = mmap(nullptr, m->file_.file_bytes, PROT_READ | PROT_WRITE,
			        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
			ASSERT_NE(shared, MAP_FAILED);
			medium.files.push_back({reinterpret_cast<uint8_t *>(m->d_.words),
			        static_cast<uint8_t *>(shared), m->file_.file_bytes});
			memcpy(shared, m->d_.words, m->file_.file_bytes);
		}
	}
	void disarm()
	{
		for (const Medium::File &f : medium.files)
			munmap(f.medium, f.bytes);
		medium.files.clear();
	}
	/* Recover in a child, where power fails at the k-th drain.  Without caches, only what was
	 * drained remains.  False: there was no such drain. */
	bool fails_at(unsigned k, bool caches, const std::vector<uint32_t> &order)
	{
		const pid_t child = fork();
		if (child == 0) {
			medium.armed = true;
			medium.power_fails_at = k;
			_exit(join(order) == 0 ? 0 : 1);
		}
		int status = 0;
		EXPECT_EQ(waitpid(child, &status, 0), child);
		EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 1);
		if (!caches)
			for (const Medium::File &f : medium.files)
				memcpy(f.mapping, f.medium, f.bytes);
		for (const Medium::File &f : medium.files)
			memcpy(f.medium, f.mapping, f.bytes);
		return WEXITSTATUS(status) == 77;
	}
	void put_back(const std::vector<std::vector<uint8_t>> &files,
	        const std::vector<std::vector<uint8_t>> &on_medium)
	{
		for (size_t k = 0; k < m_.size(); k++) {
			m_[k]->set_bytes(files[k]);
			memcpy(medium.files[k].medium, on_medium[k].data(), on_medium[k].size());
		}
	}
	/* Each heap as the next process finds it. */
	void take_tails()
	{
		for (auto &m : m_) {
			const media_file f = durability_file(&m->d_);
			uint64_t tail;
			ASSERT_EQ(media_tail(&f, &tail), 0);
			ring_restart(&m->d_, tail);
			ring_move_tail(&m->d_, tail);
		}
	}
	/* Fail at each drain, and at each drain of the recovery after that; then check what is
	 * left. */
	void fail_everywhere(bool caches, const std::function<void()> &check)
	{
		std::vector<std::vector<uint8_t>> files, on_medium;
		for (auto &m : m_)
			files.push_back(m->bytes());
		for (const Medium::File &f : medium.files)
			on_medium.push_back(of(f));
		const std::vector<uint32_t> orders[] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}};
		unsigned failures = 0;
		for (const auto &order : orders)
			for (unsigned k = 0;; k++, failures++) {
				put_back(files, on_medium);
				take_tails();
				const bool failed = fails_at(k, caches, order);
				take_tails();
				fails_at(k / 2, caches, orders[0]);
				take_tails();
				ASSERT_EQ(join(), 0) << "drain " << k << ": " << fur_errormsg();
				check();
				if (!failed)
					break;
			}
		EXPECT_GT(failures, 20u) << "drains in a recovery";
	}
	void anywhere()
	{
		m_[0]->put(0);
		put_all(7, {{0, 1}, {1, 0}});
		put(0, 8, {{0, 2}, {1, 1}}); /* lost in 1 */
		put(1, 9, {{1, 2}, {2, 0}}); /* lost in 2 */
		put_all(10, {{0, 3}, {1, 3}, {2, 1}});
		m_[0]->put(4, {2}); /* has read from 8 */
		m_[2]->put(2);
		arm();
		for (bool caches : {false, true})
			fail_everywhere(caches, [&] {
				EXPECT_EQ(m_[0]->has(), (Set{0, 1, 3}));
				EXPECT_EQ(m_[1]->has(), (Set{0, 3}));
				EXPECT_EQ(m_[2]->has(), (Set{1, 2}));
			});
		disarm();
	}
};

TEST_F(Interrupted, AnywhereAnyOrder_LeavesTheSame)
{
	anywhere();
}

/* One thread may decide for a heap, and another one move its tail. */
TEST_F(Interrupted, AnywhereAnyOrder_WithThreads_LeavesTheSame)
{
	for (auto &m : m_)
		m->d_.replay_options.least_bytes = 1;
	medium.slow = true;
	anywhere();
	medium.slow = false;
}

/* A process was killed: what it had written is in the caches, and power may fail in the recovery.
 * Then an update is in all heaps, or in none. */
TEST_F(Interrupted, WhatWasNotDurable_IsKeptEverywhereOrNowhere)
{
	m_[1]->put(0);
	put(0, 7, {{0, 1}, {1, 1}});
	put(1, 8, {{1, 2}, {2, 0}});
	arm();
	put(1, 7, {{0, 1}, {1, 1}});
	put(2, 8, {{1, 2}, {2, 0}});
	fail_everywhere(false, [&] {
		EXPECT_EQ(m_[0]->has().count(1), m_[1]->has().count(1));
		EXPECT_EQ(m_[1]->has().count(2), m_[2]->has().count(0));
		EXPECT_EQ(m_[1]->has().count(0), 1u);
	});
	disarm();
}

/* The same of updates that ended with tickets, two of each thread: what a power failure leaves of
 * them in a heap is kept (INV-R6). */
TEST_F(Interrupted, LateRecords_AreDurableBeforeTheirStores)
{
	arm();
	for (uint64_t k = 0; k < 8; k++)
		m_[0]->put(k, {}, MEDIA_COMMIT | MEDIA_AFTER_ALL);
	fail_everywhere(false, [&] {
		EXPECT_EQ(results_[0].result.dropped, 0u) << "the first of a thread was lost";
		const size_t kept = m_[0]->has().size();
		EXPECT_TRUE(kept == 0 || kept == 8) << kept;
	});
	disarm();
}

/* -------------------------------------------------------------------- alone */

TEST_F(Join, Alone_Closed_OpensAsAnyHeap)
{
	m_[0]->set_closed(m_[0]->first_);
	EXPECT_EQ(alone(0), 0) << fur_errormsg();
	EXPECT_EQ(m_[0]->decisions(), 0u);
	m_[0]->detach();
	fur::Heap heap = fur::Heap::open(m_[0]->path_, small_options());
	heap.close();
	m_[0]->attach();
}

/* A part of its own may be a hole: the others must learn that. */
TEST_F(Join, Alone_WithoutAPart_NotesItsDecision)
{
	put(0, 7, {{0, 1}, {1, 4}});
	m_[1]->put(0);
	ASSERT_EQ(alone(1), 0) << fur_errormsg();
	EXPECT_EQ(m_[1]->has(), Set{0});
	ASSERT_EQ(join(), 0) << fur_errormsg();
	EXPECT_EQ(m_[0]->has(), Set{});
}

TEST_F(Join, Alone_WithAPart_NeedsTheOther)
{
	put_all(7, {{0, 1}, {1, 4}});
	expect_refused(FUR_EGROUP,
	        {"abababababababababababababababab", "member 0", "member 1", text(1, 4),
	                "fur_group_open"},
	        [&] { return alone(0); });
	m_[0]->detach();
	fur_heap *heap;
	fur::Options o = small_options();
	EXPECT_EQ(fur_open(m_[0]->path_.c_str(), &o, &heap), FUR_EGROUP);
	EXPECT_NE(std::string(fur_errormsg()).find(m_[0]->path_), std::string::npos);
	m_[0]->attach();
	expect_joins({{1}, {4}, {}});
}

TEST_F(Join, Alone_WithAPartThatItHasSeenSettled)
{
	put_all(7, {{0, 1}, {1, 4}});
	m_[0]->set_seen(1, m_[1]->durts(4));
	expect_refused(FUR_EGROUP, {"member 1"}, [&] { return alone(0); });
	m_[0]->set_seen(1, m_[1]->durts(4) + 1);
	ASSERT_EQ(alone(0), 0) << fur_errormsg();
	EXPECT_EQ(m_[0]->has(), Set{1});
	EXPECT_TRUE(m_[0]->kept_below_tail(m_[0]->durts(1)));
	ASSERT_EQ(join(), 0) << fur_errormsg();
	EXPECT_EQ(m_[1]->has(), Set{4});
}

TEST_F(Join, Alone_WithAPartThatItsOwnLossesTake)
{
	put(0, 7, {{0, 1}, {1, 4}}, {1}); /* names a hole */
	put(1, 7, {{0, 1}, {1, 4}});
	ASSERT_EQ(alone(0), 0) << fur_errormsg();
	EXPECT_EQ(m_[0]->has(), Set{});
	ASSERT_EQ(join(), 0) << fur_errormsg();
	EXPECT_EQ(m_[1]->has(), Set{});
}

/* Once it has been open alone, no part can be among what is lost. */
TEST_F(Join, Alone_AgainAndAgain_NeedsNoRoom)
{
	const uint64_t lost = m_[0]->durts(1);
	for (unsigned n = 0; n < 40; n++) {
		m_[0]->put(0);
		ASSERT_EQ(alone(0), 0) << fur_errormsg();
		ASSERT_EQ(replay_skip(&m_[0]->d_, m_[0]->d_.tail + 5), 0); /* live replays */
		m_[0]->reopen();
	}
	EXPECT_EQ(m_[0]->decisions(), 1u);
	EXPECT_FALSE(m_[0]->kept_below_tail(lost));
	/* In its group again: parts may be drawn. */
	ASSERT_EQ(join(), 0) << fur_errormsg();
	m_[0]->reopen();
	ASSERT_EQ(alone(0), 0) << fur_errormsg();
	EXPECT_EQ(m_[0]->decisions(), 2u);
}

/* --------------------------------------------------------------------- live */

TEST_F(Join, Live_StepsOverLists_AndNotesWhatItHasSeen)
{
	Member &m = *m_[0];
	m.put(0);
	put(0, 7, {{0, 1}, {1, 4}, {2, 3}});
	put(0, 8, {{0, 2}, {1, 2}});
	m.put(3);
	m.d_.next_durts = m.durts(4);
	m.d_.nondurable[2].durts = m.durts(2); /* not settled: INV-GU9 */
	ASSERT_EQ(replay_live(&m.d_), 0) << fur_errormsg();
	EXPECT_EQ(m.has(), (Set{0, 1}));
	EXPECT_EQ(m.d_.tail, m.durts(2));
	EXPECT_EQ(m.seen(1), m_[1]->durts(4) + 1);
	EXPECT_EQ(m.seen(2), m_[2]->durts(3) + 1);
	m.d_.nondurable[2].durts = 0;
	ASSERT_EQ(replay_live(&m.d_), 0) << fur_errormsg();
	EXPECT_EQ(m.has(), (Set{0, 1, 2, 3}));
	EXPECT_EQ(m.seen(1), m_[1]->durts(4) + 1) << "it never falls";
}

TEST_F(Interrupted, Live_HasSeenBeforeTheTailMoves)
{
	put(0, 7, {{0, 0}, {1, 4}});
	arm();
	const std::vector<uint8_t> before = m_[0]->bytes(), on_medium = of(medium.files[0]);
	for (bool caches : {false, true})
		for (unsigned k = 0, failed = 1; failed; k++) {
			m_[0]->set_bytes(before);
			memcpy(medium.files[0].medium, on_medium.data(), on_medium.size());
			take_tails();
			const pid_t child = fork();
			if (child == 0) {
				medium.armed = true;
				medium.power_fails_at = k;
				m_[0]->d_.next_durts = m_[0]->durts(1);
				_exit(replay_live(&m_[0]->d_) == 0 ? 0 : 1);
			}
			int status = 0;
			ASSERT_EQ(waitpid(child, &status, 0), child);
			failed = WEXITSTATUS(status) == 77;
			if (!caches)
				m_[0]->set_bytes(of(medium.files[0]));
			const media_file f = durability_file(&m_[0]->d_);
			uint64_t tail = 0;
			EXPECT_TRUE(media_tail_decode(f.words->tail[0][0], &tail) == 0);
			EXPECT_TRUE(
			        tail == m_[0]->durts(0) || m_[0]->seen(1) == m_[1]->durts(4) + 1)
			        << k;
		}
	disarm();
}

TEST_F(Join, Beside_AnotherProcess_StopsAtPartsThatAreNotSettled)
{
	Member &m = *m_[0];
	m.put(0);
	put(0, 7, {{0, 1}, {1, 4}});
	m.put(2);
	put(0, 8, {{0, 3}, {1, 5}});
	control_reset(&m.d_);
	EXPECT_EQ(m.d_.control->parts_below, m.durts(0));
	m.d_.replays_for_worker = true;
	ASSERT_EQ(replay_live(&m.d_), 0) << fur_errormsg();
	EXPECT_EQ(m.has(), Set{0});
	m.d_.control->parts_below = m.durts(1);
	ASSERT_EQ(replay_live(&m.d_), 0) << fur_errormsg();
	EXPECT_EQ(m.has(), Set{0});
	m.d_.control->parts_below = m.durts(3);
	ASSERT_EQ(replay_live(&m.d_), 0) << fur_errormsg();
	EXPECT_EQ(m.has(), (Set{0, 1, 2}));
	EXPECT_EQ(m.seen(1), m_[1]->durts(4) + 1);
	m.d_.control->parts_below = UINT64_MAX;
	ASSERT_EQ(replay_live(&m.d_), 0) << fur_errormsg();
	EXPECT_EQ(m.has(), (Set{0, 1, 2, 3}));
	m.d_.replays_for_worker = false;
}

/* -------------------------------------------------------------------- tools */

class MemberTool : public Join
{
protected:
	/* What the program prints, and its exit status.  `until`: end it when it prints that. */
	static std::pair<std::string, int> run(
	        const char *program, std::vector<std::string> args, const std::string &until = {})
	{
		int ends[2];
		EXPECT_EQ(pipe(ends), 0);
		const pid_t child = fork();
		if (child == 0) {
			dup2(ends[1], 1), dup2(ends[1], 2);
			close(ends[0]), close(ends[1]);
			args.insert(args.begin(), program);
			std::vector<char *> argv;
			for (std::string &arg : args)
				argv.push_back(arg.data());
			argv.push_back(nullptr);
			execv(program, argv.data());
			_exit(99);
		}
		close(ends[1]);
		std::string text;
		char some[512];
		ssize_t n;
		bool ended = false;
		while ((n = read(ends[0], some, sizeof some)) > 0) {
			text.append(some, static_cast<size_t>(n));
			if (!ended && !until.empty() && text.find(until) != std::string::npos)
				ended = kill(child, SIGTERM) == 0;
		}
		close(ends[0]);
		int status = 0;
		EXPECT_EQ(waitpid(child, &status, 0), child);
		return {text, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
	}
	/* Run a tool on member 0, which no process has open meanwhile. */
	void expect_tool(const char *variable, std::vector<std::string> args, int status,
	        const std::string &says, const std::string &until = {})
	{
		m_[0]->detach();
		args.push_back(m_[0]->path_);
		auto [text, exit] = run(getenv(variable), args, until);
		EXPECT_EQ(exit, status) << text;
		EXPECT_NE(text.find(says), std::string::npos) << says << ": " << text;
		m_[0]->attach();
	}
	void SetUp() override
	{
		if (!getenv("FUR_REPLAYER") || !getenv("FUR_CHECK"))
			GTEST_SKIP() << "without the tools";
	}
};

TEST_F(MemberTool, Replayer_LeavesAMemberThatNeedsOthersToItsGroup)
{
	put_all(7, {{0, 1}, {1, 4}});
	const char *says = "update 641 is kept only if member 1 has its part 1284: open the group";
	expect_tool("FUR_REPLAYER", {"--status"}, 0, "open its group");
	expect_tool("FUR_REPLAYER", {"--once"}, 1, says);
	expect_tool("FUR_REPLAYER", {}, 0, says, "open the group");
	expect_joins({{1}, {4}, {}});
}

TEST_F(MemberTool, Replayer_RecoversAMemberThatDoesNot)
{
	m_[0]->put(0);
	put(1, 7, {{0, 1}, {1, 4}});
	expect_tool("FUR_REPLAYER", {"--once"}, 0, "replayed 1 updates");
	EXPECT_EQ(m_[0]->has(), Set{0});
	EXPECT_EQ(m_[0]->d_.words->state, MEDIA_CLOSED);
	ASSERT_EQ(join(), 0) << fur_errormsg();
	EXPECT_EQ(m_[1]->has(), Set{});
}

TEST_F(MemberTool, Check_KnowsParts_AndTheGroupPage)
{
	put_all(7, {{0, 1}, {1, 4}});
	expect_tool("FUR_CHECK", {}, 0, "sound, needs recovery: 1 updates to replay");
	const media_file f = durability_file(&m_[0]->d_);
	media_group_page(&f)->seen[3] = 12345;
	expect_tool("FUR_CHECK", {}, 1, "what is seen of member 3 is damaged");
	expect_tool("FUR_CHECK", {"--repair"}, 0, "what is seen of member 3 set to unknown");
	EXPECT_EQ(m_[0]->seen(3), 0u);
	media_parts list = list_of(7, {{0, 1}, {1, 0}}, 0);
	list.mine = 1;
	m_[0]->at_ = {};
	m_[0]->put(1, {}, MEDIA_COMMIT, encoded(list));
	expect_tool("FUR_CHECK", {}, 1, "names parts of an update over several heaps that make no");
}

/* ------------------------------------------------------------- the superblock */

TEST_F(Join, SuperblockOfAMember_IsChecked)
{
	auto refused = [&](const std::function<void(media_more &)> &change) {
		media_super s = *m_[0]->d_.super;
		change(s.more);
		s.more.checksum = media_more_checksum(&s);
		return heap_check_super(&s, s.file_bytes) == FUR_ECORRUPT;
	};
	EXPECT_FALSE(refused([](media_more &) {}));
	EXPECT_TRUE(refused([](media_more &more) { more.group_member = 8; }));
	EXPECT_TRUE(refused([](media_more &more) { more.group_members = 0; }));
	EXPECT_TRUE(refused([](media_more &more) { more.group_members = 257; }));
	EXPECT_FALSE(refused([](media_more &more) { more.group_members = 256; }));
}

} // namespace

extern "C" {
void __wrap_pm_flush(struct pm *pm, const void *start, size_t bytes)
{
	medium.flush(start, bytes);
	__real_pm_flush(pm, start, bytes);
}
void __wrap_pm_flush_again(struct pm *pm, void *start, size_t bytes)
{
	medium.flush(start, bytes);
	__real_pm_flush_again(pm, start, bytes);
}
int __wrap_pm_drain(struct pm *pm)
{
	medium.drain();
	return __real_pm_drain(pm);
}
}
