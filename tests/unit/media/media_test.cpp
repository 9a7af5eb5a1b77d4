/* SPDX-License-Identifier: BSD-3-Clause
 *
 * media_test.cpp - the format on media, and recovery from rings written by hand.
 */
#include "fixture.hpp"
#include "internals.hpp"
#include "version_1.hpp"

#include <csignal>
#include <optional>
#include <set>
#include <sys/mman.h>

namespace
{

TEST(Media, Format1_IsFrozen)
{
	EXPECT_EQ(sizeof(media_marker), 64u);
	EXPECT_EQ(offsetof(media_marker, log_start), 8u);
	EXPECT_EQ(offsetof(media_marker, log_bytes), 16u);
	EXPECT_EQ(offsetof(media_marker, thread), 20u);
	EXPECT_EQ(offsetof(media_marker, kind), 22u);
	EXPECT_EQ(offsetof(media_marker, deps), 24u);
	EXPECT_EQ(offsetof(media_super, address), 48u);
	EXPECT_EQ(offsetof(media_super, heap_bytes), 112u);
	/* Values, not only places: a record that version 1 wrote must check. */
	media_super s{};
	s.log_bytes = 4096;
	s.checksum = 0x1234;
	uint8_t log[4096];
	for (unsigned i = 0; i < sizeof log; i++)
		log[i] = static_cast<uint8_t>(i * 31);
	media_marker m{};
	m.durts = 77;
	m.log_start = 4000;
	m.log_bytes = 160;
	m.thread = 1;
	m.kind = MEDIA_COMMIT;
	EXPECT_EQ(media_marker_checksum(&s, &m, log), UINT64_C(6351273678637540042));
	EXPECT_EQ(media_tail_encode(123456789), UINT64_C(31604938137));
	EXPECT_EQ(media_entry_word(0x123456, 4), UINT64_C(0x0004000000123456));
	EXPECT_EQ(media_entry_bytes(1), 16u);
	EXPECT_EQ(media_entry_bytes(8), 16u);
	EXPECT_EQ(media_entry_bytes(9), 32u);
}

TEST(Media, Format2_IsFrozen)
{
	EXPECT_EQ(media_entry_word(0x123456, MEDIA_ENTRY_RANGE), UINT64_C(0xffff000000123456));
	EXPECT_EQ(media_entry_bytes(MEDIA_ENTRY_RANGE), 16u);
	EXPECT_EQ(media_range_word(0x30000, 0x7123456789), UINT64_C(0x0000000323456789));
	EXPECT_EQ(MEDIA_VERSION, 2u);
	EXPECT_EQ(sizeof(media_head), 16u);
	EXPECT_EQ(offsetof(media_head, own), 4u);
	EXPECT_EQ(offsetof(media_head, settled), 6u);
	EXPECT_EQ(offsetof(media_head, clear), 8u);
	EXPECT_EQ(offsetof(media_head, check), 12u);
	EXPECT_EQ(offsetof(media_super, forget), 896u);
	EXPECT_EQ(offsetof(control, parts_below), 3712u);
	media_super s{};
	s.log_bytes = 4096;
	s.ring_slots = 64;
	s.checksum = 0x1234;
	media_claims claims = {UINT64_C(0x700000010), UINT64_C(0x700000001), UINT64_C(0x70000000f),
	                     0},
	             read{};
	media_head head = media_head_encode(&s, 3, 8192 + 128, &claims);
	EXPECT_EQ(head.durts, 0x10u);
	EXPECT_EQ(head.own, 15u);
	EXPECT_EQ(head.settled, 1u);
	EXPECT_EQ(head.clear, MEDIA_NO_CLAIM);
	EXPECT_EQ(head.check, 475706827u);
	/* Known by its place and the range alone. */
	ASSERT_EQ(media_head_decode(&s, 3, 128, UINT64_C(0x700000000), &head, &read), 0);
	EXPECT_EQ(read.durts, claims.durts);
	EXPECT_EQ(read.own, claims.own);
	EXPECT_EQ(read.settled, claims.settled);
	EXPECT_EQ(read.clear, 0u);
	EXPECT_EQ(media_head_decode(&s, 2, 128, UINT64_C(0x700000000), &head, &read), -1);
	EXPECT_EQ(media_head_decode(&s, 3, 192, UINT64_C(0x700000000), &head, &read), -1);
	EXPECT_EQ(media_head_decode(&s, 3, 128, UINT64_C(0x700000011), &head, &read), -1);
	EXPECT_EQ(media_head_decode(&s, 3, 128, UINT64_C(0x800000000), &head, &read), -1);
}

TEST(Media, Format2_SizeAndHoles_AreFrozen)
{
	EXPECT_EQ(MEDIA_GROWS, 1u);
	EXPECT_EQ(offsetof(media_super, more), 128u);
	EXPECT_EQ(offsetof(media_more, features), 0u);
	EXPECT_EQ(offsetof(media_more, bulk_offset), 8u);
	EXPECT_EQ(offsetof(media_more, bulk_bytes), 16u);
	EXPECT_EQ(offsetof(media_more, group), 24u);
	EXPECT_EQ(offsetof(media_more, group_members), 40u);
	EXPECT_EQ(offsetof(media_more, group_member), 44u);
	EXPECT_EQ(offsetof(media_more, stocks), 48u);
	EXPECT_EQ(offsetof(media_more, checksum), 120u);
	EXPECT_EQ(offsetof(media_super, grown), 256u);
	EXPECT_EQ(sizeof(media_super::grown[0]), 128u);
	EXPECT_EQ(offsetof(media_super, logs), 576u);
	EXPECT_EQ(offsetof(heap_header, grown), 64u);
	media_super s{};
	s.version = 2;
	s.max_threads = 8;
	s.heap_bytes = 128 << 20;
	s.checksum = 0x1234;
	s.more.features = MEDIA_GROWS;
	EXPECT_EQ(media_more_checksum(&s), UINT64_C(13428088396705586788));
	s.grown[0][0] = UINT64_C(262191);
	s.grown[1][0] = UINT64_C(327840);
	EXPECT_EQ(media_heap_bytes(&s, &s), 80u << 20);
	s.logs = UINT64_C(957);
	EXPECT_EQ(media_logs(&s, &s), 3u);
	/* A file made before these words: all logs, and the whole heap. */
	s.logs = 0;
	s.more = {};
	EXPECT_EQ(media_logs(&s, &s), 8u);
	EXPECT_EQ(media_heap_bytes(&s, &s), 128u << 20);
	/* Version 1 has none of it. */
	s.version = 1;
	s.logs = UINT64_C(957);
	s.more.features = MEDIA_GROWS;
	EXPECT_EQ(media_logs(&s, &s), 8u);
	EXPECT_EQ(media_heap_bytes(&s, &s), 128u << 20);
}

TEST(Media, Format2_Parts_AreFrozen)
{
	EXPECT_EQ(MEDIA_PART, 0x200u);
	EXPECT_EQ(media_parts_bytes(2), 32u);
	EXPECT_EQ(media_parts_bytes(3), 48u);
	EXPECT_EQ(media_parts_bytes(16), 144u);
	media_parts list{};
	list.id = UINT64_C(0x1122334455667788);
	list.n = 3;
	list.mine = 1;
	list.part[0] = {70, 3, 0};
	list.part[1] = {90, 5, 0};
	list.part[2] = {(UINT64_C(1) << 56) - 1, 255, 0};
	uint64_t words[6];
	memset(words, 0xff, sizeof words);
	media_parts_encode(reinterpret_cast<uint8_t *>(words), &list);
	const uint64_t expected[6] = {UINT64_C(0xfffd000000000103), UINT64_C(0x1122334455667788),
	        UINT64_C(0x0300000000000046), UINT64_C(0x050000000000005a), UINT64_MAX, 0};
	for (unsigned k = 0; k < 6; k++)
		EXPECT_EQ(words[k], expected[k]) << k;
}

TEST(Media, Format2_GroupPage_IsFrozen)
{
	EXPECT_EQ(MEDIA_MEMBER, 8u);
	EXPECT_EQ(MEDIA_GROUP_OFFSET, 5120u);
	EXPECT_EQ(offsetof(media_group, opened), 0u);
	EXPECT_EQ(offsetof(media_group, free_below), 8u);
	EXPECT_EQ(offsetof(media_group, seen), 1024u);
	EXPECT_EQ(MEDIA_DECISIONS_OFFSET, 8192u);
	EXPECT_EQ(offsetof(media_decision, number), 0u);
	EXPECT_EQ(offsetof(media_decision, from), 8u);
	EXPECT_EQ(offsetof(media_decision, checksum), 16u);
	EXPECT_EQ(offsetof(media_decision, to), 24u);
	EXPECT_EQ(sizeof(media_decision), 32u);
	media_super s{};
	s.version = 2;
	s.checksum = 0x1234;
	s.ring_slots = 64;
	EXPECT_EQ(media_decision_bytes(&s), 64u);
	EXPECT_EQ(media_decisions(&s), 16u);
	s.ring_slots = 65536;
	EXPECT_EQ(media_decision_bytes(&s), 8256u);
	EXPECT_EQ(media_decisions(&s), 6u);
	s.ring_slots = 262144;
	EXPECT_EQ(media_decisions(&s), 1u);
	EXPECT_TRUE(media_may_join(&s));
	s.ring_slots *= 2;
	EXPECT_FALSE(media_may_join(&s)) << "no room for a decision";
	s.ring_slots = 64;
	s.version = 1;
	EXPECT_FALSE(media_may_join(&s));
	/* Values: a decision that was written before must count. */
	uint64_t words[5] = {7, 64, 0, media_tail_encode(192), UINT64_C(0x8000000000000001)};
	auto *decision = reinterpret_cast<media_decision *>(words);
	decision->checksum = media_decision_checksum(&s, decision);
	EXPECT_EQ(decision->checksum, UINT64_C(5005038696473399636));
	uint64_t to = 0;
	EXPECT_TRUE(media_decision_valid(&s, decision, &to));
	EXPECT_EQ(to, 192u);
	words[4] ^= 2;
	EXPECT_FALSE(media_decision_valid(&s, decision, &to));
}

/* Where an empty heap that grows has its structures. */
TEST(Media, Format2_GrowingHeap_IsFrozen)
{
	enum : uint64_t { MOST = 64 << 20, NOW = 2 << 20 };
	std::vector<uint8_t> image(MOST);
	heap_format(image.data(), MOST, NOW, 4);
	const auto *h = reinterpret_cast<const heap_header *>(image.data());
	EXPECT_EQ(h->bytes, MOST);
	EXPECT_EQ(h->chunks, 1024u);
	EXPECT_EQ(h->table, 6144u);
	EXPECT_EQ(h->lists, 6144u + 1024 * 32);
	EXPECT_EQ(h->first_chunk, 2u);
	EXPECT_EQ(h->grown, 10u);
	EXPECT_EQ(h->free_runs, 2u);
	heap_part part[HEAP_PARTS];
	heap_parts(MOST, 4, NOW, part);
	EXPECT_EQ(part[0].to, 6144u + 32 * 32);
	EXPECT_EQ(part[1].from, 6144u + 1024 * 32);
	EXPECT_EQ(part[1].to, 6144u + 1024 * 32 + 32 * 32);
	EXPECT_EQ(part[2].from, 131072u);
	EXPECT_EQ(part[2].to, NOW);
}

TEST(Media, MarkerChecksum_NoticesEveryBit)
{
	media_super s{};
	s.log_bytes = 4096;
	uint8_t log[4096] = {};
	media_marker m{};
	m.log_start = 4064; /* wraps */
	m.log_bytes = 64;
	uint64_t good = media_marker_checksum(&s, &m, log);
	auto *raw = reinterpret_cast<uint8_t *>(&m);
	for (unsigned bit = 0; bit < offsetof(media_marker, checksum) * 8; bit++) {
		if (bit / 8 >= 8 && bit / 8 < 20)
			continue; /* the range itself: checked to be plausible before it is used */
		raw[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
		EXPECT_NE(media_marker_checksum(&s, &m, log), good) << bit;
		raw[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
	}
	for (unsigned at : {4064u, 4095u, 0u, 31u})
		for (unsigned bit = 0; bit < 8; bit++) {
			log[at] ^= static_cast<uint8_t>(1 << bit);
			EXPECT_NE(media_marker_checksum(&s, &m, log), good) << at;
			log[at] ^= static_cast<uint8_t>(1 << bit);
		}
}

/* A heap file whose ring is written by hand: each update stores its number at a word of its own. */
class Recovery : public HeapFile
{
public:
	explicit Recovery(uint32_t version = MEDIA_VERSION)
	{
		fur::Heap h = create();
		h.close();
		if (version == 1)
			make_version_1(path_);
		attach();
	}
	~Recovery() override
	{
		detach();
	}
	void attach()
	{
		ASSERT_EQ(heap_open_file(path_.c_str(), HEAP_LOCK_WORKER, &file_), 0)
		        << fur_errormsg();
		fur::Options o = small_options();
		char reason[160];
		ASSERT_EQ(heap_attach(&d_, &file_, &o, reason, sizeof reason), 0);
		ASSERT_EQ(durability_take_log(&d_, 3), 0) << fur_errormsg(); /* and those below */
		first_ = d_.tail;
		words_ = d_.super->heap_bytes - 4096;
	}
	void detach()
	{
		if (d_.super) {
			durability_detach(&d_);
			heap_close_file(&file_);
		}
	}
	/* Update `k` (its durTS is first_ + k) of thread k % 4, which depends on those `deps` slots
	 * back. */
	media_marker *put(uint64_t k, std::initializer_list<unsigned> deps = {},
	        media_kind kind = MEDIA_COMMIT)
	{
		return put_as(k % 4, k, deps, kind);
	}
	media_marker *put_as(uint64_t thread, uint64_t k, std::initializer_list<unsigned> deps = {},
	        media_kind kind = MEDIA_COMMIT)
	{
		uint64_t start = at_[thread];
		uint8_t *log = d_.logs + thread * d_.super->log_bytes;
		uint64_t entry[2] = {media_entry_word(words_ + (k % 512) * 8, 8), k + 1};
		if (d_.head_bytes && kind == MEDIA_COMMIT) {
			start = at_[thread] = (at_[thread] + 63) & ~uint64_t(63);
			claims_.durts = first_ + k;
			media_head head = media_head_encode(
			        d_.super, static_cast<uint32_t>(thread), start, &claims_);
			memcpy(log + (start & (d_.super->log_bytes - 1)), &head, sizeof head);
			claims_ = {};
		}
		memcpy(log + ((start + d_.head_bytes) & (d_.super->log_bytes - 1)), entry,
		        sizeof entry);
		at_[thread] += d_.head_bytes + 16;
		media_marker m{};
		m.durts = first_ + k;
		m.log_start = start;
		m.log_bytes = kind == MEDIA_COMMIT ? static_cast<uint32_t>(d_.head_bytes + 16) : 0;
		m.thread = static_cast<uint16_t>(thread);
		m.kind = kind;
		for (unsigned back : deps)
			m.deps[(back - 1) / 64] |= uint64_t(1) << (back - 1) % 64;
		m.checksum = media_marker_checksum(d_.super, &m, log);
		*durability_marker(&d_, m.durts) = m;
		return durability_marker(&d_, m.durts);
	}
	/* The claims in the head of the next update: updates by their `k`. */
	Recovery &claiming(std::optional<uint64_t> own, std::optional<uint64_t> settled = {},
	        std::optional<uint64_t> clear = {})
	{
		claims_ = {0, own ? first_ + *own : 0, settled ? first_ + *settled : 0,
		        clear ? first_ + *clear : 0};
		return *this;
	}
	/* The marker of an update is gone; its record stays. */
	void wipe(uint64_t k)
	{
		memset(static_cast<void *>(durability_marker(&d_, first_ + k)), 0,
		        MEDIA_SLOT_BYTES);
	}
	void expect_refused(const char *why)
	{
		std::string before(reinterpret_cast<char *>(d_.words), file_.file_bytes);
		EXPECT_EQ(replay_recover(&d_, &result_), FUR_ECORRUPT);
		EXPECT_NE(std::string(fur_errormsg()).find(why), std::string::npos)
		        << fur_errormsg();
		EXPECT_TRUE(
		        before == std::string(reinterpret_cast<char *>(d_.words), file_.file_bytes))
		        << "changed";
		EXPECT_EQ(d_.tail, first_);
	}
	/* A record of a thread whose marker is gone. */
	void skip(unsigned thread)
	{
		at_[thread] = (at_[thread] + 127) / 128 * 128 + 128;
	}
	uint64_t word(uint64_t k) const
	{
		uint64_t v;
		memcpy(&v, d_.image + words_ + k * 8, 8);
		return v;
	}
	/* Which updates of the first 64 recovery kept. */
	std::set<uint64_t> recover()
	{
		EXPECT_EQ(replay_recover(&d_, &result_), 0) << fur_errormsg();
		std::set<uint64_t> kept;
		for (uint64_t k = 0; k < 64; k++)
			if (word(k) == k + 1)
				kept.insert(k);
		return kept;
	}
	using Set = std::set<uint64_t>;

	heap_file file_{};
	durability d_{};
	uint64_t first_ = 0, words_ = 0, at_[4] = {};
	replay_result result_{};
	media_claims claims_{};
};

class Recovery1 : public Recovery
{
protected:
	Recovery1() : Recovery(1) {}
};

TEST_F(Recovery, AppliesInOrder)
{
	for (uint64_t k = 0; k < 10; k++)
		put(k);
	EXPECT_EQ(recover(), (Set{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
	EXPECT_EQ(result_.updates, 10u);
	EXPECT_EQ(result_.holes, 0u);
}

TEST_F(Recovery, LooksBeyondHoles_AtTheWholeWindow)
{
	put(0);
	put(63);
	EXPECT_EQ(recover(), (Set{0, 63}));
	EXPECT_EQ(result_.holes, 62u);
}

TEST_F(Recovery, DependencyOnAHole_DropsTransitively)
{
	put(0);
	put(2, {1}); /* names the hole at 1 */
	put(3, {1}); /* names 2, which is dropped */
	put(4, {4}); /* names 0 */
	EXPECT_EQ(recover(), (Set{0, 4}));
	EXPECT_EQ(result_.dropped, 2u);
}

TEST_F(Recovery, DependencyOnAnAbortMarker_IsKept)
{
	put(0, {}, MEDIA_ABORT);
	put(1, {1});
	EXPECT_EQ(recover(), (Set{1}));
}

TEST_F(Recovery, DependencyBelowTheTail_IsKept)
{
	put(0, {1, 64, 256});
	EXPECT_EQ(recover(), (Set{0}));
}

TEST_F(Recovery, MarkerWithoutItsLog_IsAHole)
{
	media_marker *m = put(0);
	d_.logs[m->log_start + 24] ^= 1; /* two bytes: one would be corrected */
	d_.logs[m->log_start + 25] ^= 1;
	put(1, {1});
	EXPECT_EQ(recover(), Set{});
}

TEST_F(Recovery, MarkerOfAnEarlierLap_IsAHole)
{
	first_ -= 64; /* as a lap ago */
	put(5);
	first_ += 64;
	EXPECT_EQ(recover(), Set{});
}

TEST_F(Recovery, MarkerOfALaterLap_SaysThatTheTailIsOld)
{
	first_ += 64;
	put(5);
	first_ -= 64;
	expect_refused("a lap later");
}

TEST_F(Recovery, EveryByteOfAMarkerOrRecord_IsCorrected)
{
	media_marker *m = put(0);
	const media_marker whole = *m;
	auto *raw = reinterpret_cast<uint8_t *>(m);
	auto damage = [&](uint8_t *byte, uint8_t change) {
		*byte ^= change;
		d_.tail = first_;
		EXPECT_EQ(recover(), Set{0});
		EXPECT_EQ(result_.mended, 1u);
		EXPECT_EQ(memcmp(m, &whole, sizeof whole), 0) << "not in the file";
	};
	for (unsigned k = 0; k < sizeof *m; k++)
		for (unsigned bit = 0; bit < 8; bit++)
			damage(raw + k, static_cast<uint8_t>(1 << bit));
	for (unsigned k = 0; k < whole.log_bytes; k++)
		damage(d_.logs + whole.log_start + k, 0xa5);
}

TEST_F(Recovery, TwoBytes_AreNot)
{
	for (unsigned at : {8u, 16u, 24u, 56u}) {
		auto *raw = reinterpret_cast<uint8_t *>(put(0));
		raw[at] ^= 1, raw[at + 1] ^= 1;
		d_.tail = first_;
		EXPECT_EQ(recover(), Set{}) << at;
		EXPECT_EQ(result_.mended, 0u);
		at_[0] = 0;
	}
}

/* ------------------------------------------------------------ claims (INV-M4) */

TEST_F(Recovery, OwnUpdateThatHadReturned_IsMissed)
{
	put(0), put(1), put(4);
	claiming(4).put(8);
	wipe(4);
	expect_refused("update 68 was durable when update 72 of thread 0");
}

TEST_F(Recovery, AnotherThreadsUpdate_IsMissed_UnlessNamed)
{
	put(0);
	put(1);
	claiming({}, 2).put(3, {3}); /* names 0 */
	wipe(0);
	EXPECT_EQ(recover(), Set{1}) << fur_errormsg();
	d_.tail = first_;
	wipe(1);
	expect_refused("update 65 was durable when update 67 of thread 3");
}

TEST_F(Recovery, UpdateAboveTheClaim_MayHaveBeenInFlight)
{
	put(0), put(1), put(2);
	claiming(0, 2, 2).put(4);
	wipe(2);
	EXPECT_EQ(recover(), (Set{0, 1, 4})) << fur_errormsg();
}

TEST_F(Recovery, RecordWithoutItsMarker_StillClaims)
{
	put(0), put(1), put(2);
	claiming({}, 3, 2).put(3);
	wipe(3); /* in flight, or damaged: no one can tell */
	EXPECT_EQ(recover(), (Set{0, 1, 2})) << fur_errormsg();
	d_.tail = first_;
	wipe(2); /* it is not below `clear`: the marker may have named it */
	recover();
	EXPECT_EQ(result_.updates, 2u) << fur_errormsg();
	d_.tail = first_;
	wipe(1);
	expect_refused("update 65 was durable when update 67 of thread 3");
}

TEST_F(Recovery, RingWipedOut_IsToldByTheLogs)
{
	for (uint64_t k = 0; k < 12; k++)
		(k < 4 ? *this : claiming(k - 4)).put(k);
	for (uint64_t k = 0; k < 12; k++)
		wipe(k);
	expect_refused("was durable when update");
}

TEST_F(Recovery, HeadOfAnotherPlaceOrLap_ClaimsNothing)
{
	put(0), put(1);
	claiming(1).put(5);
	/* A copy of the head at another place of the log; and one whose range is over. */
	memcpy(d_.logs + d_.super->log_bytes + 1024, d_.logs + d_.super->log_bytes + 64,
	        sizeof(media_head));
	memset(d_.logs + d_.super->log_bytes + 64, 0, sizeof(media_head));
	wipe(5), wipe(1);
	EXPECT_EQ(recover(), Set{0}) << fur_errormsg();
}

TEST_F(Recovery, MarkerInASlotThatIsNotItsOwn_IsDamage)
{
	put(0), put(1);
	media_marker *a = put(2), *b = put(7);
	std::swap(*a, *b);
	expect_refused("which it never held");
}

TEST_F(Recovery, TrailerClaimsWhatAReplayHadBegun)
{
	const media_file file = durability_file(&d_);
	put(0), put(1), put(2);
	media_trailer(&file)->replaying = media_tail_encode(first_ + 3);
	EXPECT_EQ(recover(), (Set{0, 1, 2}));
	d_.tail = first_;
	wipe(1);
	expect_refused("in the heap in part");
	media_trailer(&file)->replaying = media_tail_encode(first_ + 65);
	put(1);
	expect_refused("a lap later");
	media_trailer(&file)->replaying = media_tail_encode(first_);
	EXPECT_EQ(recover(), (Set{0, 1, 2}));
}

TEST_F(Recovery, Live_TellsTheTrailerFirst)
{
	const media_file file = durability_file(&d_);
	put(0), put(1);
	d_.next_durts = first_ + 2;
	ASSERT_EQ(replay_live(&d_), 0);
	uint64_t replaying = 0;
	ASSERT_EQ(media_tail_decode(media_trailer(&file)->replaying, &replaying), 0);
	EXPECT_EQ(replaying, first_ + 2);
}

TEST_F(Recovery, Forgotten_IsGivenUpInOneStore)
{
	put(0), put(1);
	claiming(1).put(5);
	put(6);
	wipe(1);
	expect_refused("was durable");
	d_.words->forget[0] = media_tail_encode(first_ + 1);
	EXPECT_EQ(recover(), Set{0}) << fur_errormsg();
	/* Void, for the ring has begun again above it. */
	const media_file file = durability_file(&d_);
	EXPECT_EQ(media_recovery_end(&file, d_.tail), d_.tail + 64);
}

TEST_F(Recovery, Refusal_TakesCorrectionsBack)
{
	put(0), put(1);
	media_marker *m = claiming(1).put(5);
	m->deps[1] ^= 4; /* would be corrected */
	wipe(1);
	expect_refused("was durable");
}

TEST_F(Recovery, ClosedHeapThatHoldsLaterUpdates_IsACopyOfAnOpenOne)
{
	EXPECT_EQ(replay_check_closed(&d_), 0);
	first_ -= 64, put(3), first_ += 64; /* of the lap before */
	EXPECT_EQ(replay_check_closed(&d_), 0);
	put(3);
	EXPECT_EQ(replay_check_closed(&d_), FUR_ECORRUPT);
	wipe(3);
	const media_file file = durability_file(&d_);
	media_trailer(&file)->replaying = media_tail_encode(first_ + 1);
	EXPECT_EQ(replay_check_closed(&d_), FUR_ECORRUPT);
}

TEST_F(Recovery, Twice_IsTheSame)
{
	put(0);
	put(1);
	recover();
	std::string once(reinterpret_cast<char *>(d_.image), d_.super->heap_bytes);
	d_.tail = first_;
	recover();
	EXPECT_TRUE(once == std::string(reinterpret_cast<char *>(d_.image), d_.super->heap_bytes));
}

TEST_F(Recovery, RestartsTheRingAboveEverySlot)
{
	put(63);
	recover();
	EXPECT_GE(d_.next_durts, first_ + 64 + 64);
	uint64_t tail;
	EXPECT_EQ(heap_tail(&file_, &tail), 0);
	EXPECT_EQ(tail, d_.next_durts);
}

TEST_F(Recovery, CutBetweenTheTwoTails_ReplaysAgain)
{
	put(0);
	recover();
	/* As if power had failed after the first copy was written. */
	d_.words->tail[1][0] = media_tail_encode(first_);
	uint64_t tail;
	ASSERT_EQ(heap_tail(&file_, &tail), 0);
	EXPECT_EQ(tail, first_);
	d_.tail = tail;
	EXPECT_EQ(recover(), Set{0});
}

TEST_F(Recovery, ForgedEntryOutsideTheHeap_IsRefused)
{
	media_marker *m = put(0);
	uint64_t bad = media_entry_word(d_.super->heap_bytes - 4, 8);
	memcpy(d_.logs + m->log_start + d_.head_bytes, &bad, 8);
	m->checksum = media_marker_checksum(d_.super, m, d_.logs);
	EXPECT_EQ(replay_recover(&d_, &result_), FUR_ECORRUPT);
}

/* Each put() of a thread advances its log by 16 bytes; skip() as if by a record whose marker is
 * gone. */
TEST_F(Recovery1, GapInAThreadsLog_IsDamage)
{
	put(0);
	put(1);
	skip(0);
	put(8); /* thread 0 */
	std::string before(reinterpret_cast<char *>(d_.image), d_.super->heap_bytes);
	EXPECT_EQ(replay_recover(&d_, &result_), FUR_ECORRUPT);
	EXPECT_TRUE(
	        before == std::string(reinterpret_cast<char *>(d_.image), d_.super->heap_bytes));
	EXPECT_EQ(d_.tail, first_);
}

TEST_F(Recovery1, GapBeforeAThreadsFirstRecord_IsDamage)
{
	skip(1);
	put(5);
	EXPECT_EQ(replay_recover(&d_, &result_), FUR_ECORRUPT);
}

TEST_F(Recovery1, NoHoleInTheWindow_NoDamage)
{
	/* The missing records lie below the tail. */
	for (uint64_t k = 0; k < 4; k++)
		put(k);
	skip(0);
	first_ += 4, d_.tail = first_;
	put(0), put(1), put(2), put(3);
	EXPECT_EQ(recover(), (Set{0, 1, 2, 3}));
}

TEST_F(Recovery1, GapAgainstARecordBelowTheTail_IsDamage)
{
	for (uint64_t k = 0; k < 4; k++)
		put(k);
	skip(1);
	first_ += 4, d_.tail = first_;
	put(0), put(1 + 4), put(2);
	EXPECT_EQ(replay_recover(&d_, &result_), FUR_ECORRUPT);
}

TEST_F(Recovery1, ThreadIdleForALap_IsNoDamage)
{
	/* Thread 0 at 1 and 4, then not until 63 of the next lap.  The slot of its record at 4 has
	 * been taken, that of 1 is in flight. */
	put_as(0, 1), skip(0), put_as(0, 4);
	for (uint64_t k = 0; k < 62; k++)
		if (k != 1 && k != 4)
			put_as(1, k);
	first_ += 62, d_.tail = first_;
	put_as(1, 0), put_as(1, 1);
	for (uint64_t k = 2; k < 61; k++)
		if (k != 3)
			put_as(1, k);
	put_as(0, 61);
	EXPECT_EQ(replay_recover(&d_, &result_), 0) << fur_errormsg();
	EXPECT_EQ(result_.holes, 1u);
}

TEST_F(Recovery1, FirstRecordSinceACleanOpen_IsMissed)
{
	/* Nothing of the process lies below the tail that its open has moved. */
	put(0), put(1);
	first_ += 2, d_.tail = d_.next_durts = first_;
	ASSERT_EQ(replay_begin_lap(&d_), 0);
	first_ = d_.tail;
	at_[0] = at_[1] = 0;
	put(0), put(1), skip(1), put(5);
	wipe(0);
	EXPECT_EQ(replay_recover(&d_, &result_), FUR_ECORRUPT);
}

TEST_F(Recovery1, EveryByteOfAMarker_IsCorrected)
{
	auto *raw = reinterpret_cast<uint8_t *>(put(0));
	for (unsigned k = 0; k < sizeof(media_marker); k++) {
		raw[k] ^= 0x40;
		d_.tail = first_;
		EXPECT_EQ(recover(), Set{0}) << k;
		EXPECT_EQ(result_.mended, 1u);
	}
}

TEST_F(Recovery, Live_StopsAtASlotInFlight)
{
	put(0);
	put(2);
	d_.next_durts = first_ + 3;
	ASSERT_EQ(replay_live(&d_), 0);
	EXPECT_EQ(d_.tail, first_ + 1);
	put(1);
	d_.nondurable[1].durts = first_ + 1; /* written, not yet durable */
	ASSERT_EQ(replay_live(&d_), 0);
	EXPECT_EQ(d_.tail, first_ + 1);
	d_.nondurable[1].durts = 0;
	ASSERT_EQ(replay_live(&d_), 0);
	EXPECT_EQ(d_.tail, first_ + 3);
	EXPECT_EQ(word(2), 3u);
}

TEST_F(Recovery, Live_LeavesAnUpdateThatCouldNotBeMadeDurable)
{
	/* Its owner has left nondurable[], after it had set `failed`; the replay had looked at that
	 * before. */
	put(0);
	d_.next_durts = first_ + 1;
	d_.failed = static_cast<uint64_t>(int64_t(FUR_EIO));
	EXPECT_EQ(replay_live(&d_), FUR_EIO);
	EXPECT_EQ(word(0), 0u);
	EXPECT_EQ(d_.tail, first_);
	d_.failed = 0;
	EXPECT_EQ(replay_live(&d_), 0);
	EXPECT_EQ(word(0), 1u);
}

/* ------------------------------------ another process stores to the file meanwhile */

TEST_F(Recovery, EntryChangedAfterItsCheck_WritesNothingOutside)
{
	put(0), put(1), put(2);
	const std::vector<uint8_t> kept(64, INSPECT_KEPT);
	const uint64_t offsets[] = {
	        d_.super->heap_bytes - 4, d_.super->heap_bytes, (uint64_t(1) << 48) - 8};
	for (unsigned threads : {1, 2})
		for (uint64_t offset : offsets) {
			uint64_t bad = media_entry_word(offset, 8);
			memcpy(d_.logs + d_.super->log_bytes +
			                durability_marker(&d_, first_ + 1)->log_start +
			                d_.head_bytes,
			        &bad, 8);
			apply_basket *baskets = apply_baskets(threads);
			apply_range range = {
			        first_, first_ + 3, d_.image, kept.data(), threads, baskets};
			EXPECT_EQ(apply_updates(&d_, &range, &result_), FUR_ECORRUPT);
			apply_free_baskets(baskets, threads);
		}
}

TEST_F(Recovery, MarkerChangedAfterItsCheck_IsNotFollowed)
{
	const std::vector<uint8_t> kept(64, INSPECT_KEPT);
	apply_range range = {first_, first_ + 1, d_.image, kept.data(), 1, nullptr};
	const media_marker good = *put(0);
	media_marker *m = durability_marker(&d_, first_);
	m->thread = 0xffff;
	EXPECT_EQ(apply_updates(&d_, &range, &result_), FUR_ECORRUPT);
	*m = good, m->log_bytes = 1 << 30;
	EXPECT_EQ(apply_updates(&d_, &range, &result_), FUR_ECORRUPT);
	*m = good, m->durts++;
	EXPECT_EQ(apply_updates(&d_, &range, &result_), FUR_ECORRUPT);
	*m = good;
	EXPECT_EQ(apply_updates(&d_, &range, &result_), 0);
}

TEST_F(Recovery, GeometryInTheMapping_IsNotBelieved)
{
	put(0), put(1);
	d_.words->log_bytes = uint64_t(1) << 40;
	d_.words->max_threads = 1 << 20;
	d_.words->heap_bytes = uint64_t(1) << 46;
	EXPECT_EQ(recover(), (Set{0, 1}));
}

TEST_F(Recovery, SlotTakenByALaterLapWhileLookedAt_IsJudgedAsTheSlotItIs)
{
	const media_file file = durability_file(&d_);
	put(2), put(3, {1})->durts += 64 * 1000;
	/* A look at the slot that the marker now names would go behind the 64. */
	std::vector<uint8_t> verdicts(70000, INSPECT_HOLE);
	std::fill_n(verdicts.begin(), 64, INSPECT_KEPT);
	EXPECT_TRUE(inspect_dependencies_kept(&file, first_, first_ + 3, verdicts.data(), false));
}

/* --------------------------------------------------------- after a failed fdatasync */

struct Stores { /* to pages that are read-only until then */
	static uint8_t *base;
	static uint64_t bytes;
	static std::set<uint64_t> *pages;
	static void handler(int, siginfo_t *info, void *)
	{
		auto *at = static_cast<uint8_t *>(info->si_addr);
		if (at < base || at >= base + bytes)
			abort();
		pages->insert(static_cast<uint64_t>(at - base) / 4096);
		mprotect(base + (at - base) / 4096 * 4096, 4096, PROT_READ | PROT_WRITE);
	}
};
uint8_t *Stores::base;
uint64_t Stores::bytes;
std::set<uint64_t> *Stores::pages;

/* The kernel takes the pages for clean, and fdatasync would write nothing: recovery stores to them
 * again before it relies on it. */
TEST_F(Recovery, Sync_StoresAgainWhatAFailedFdatasyncMayHaveLeftBehind)
{
	if (sysconf(_SC_PAGESIZE) != 4096)
		GTEST_SKIP() << "for pages of 4096 bytes";
	put(0), put(1), put(4);
	d_.pm.domain = FUR_PM_SYNC;
	std::set<uint64_t> pages;
	Stores::base = reinterpret_cast<uint8_t *>(d_.words) + d_.super->ring_offset;
	Stores::bytes = d_.super->heap_offset - d_.super->ring_offset;
	Stores::pages = &pages;
	struct sigaction action = {}, before;
	action.sa_sigaction = Stores::handler;
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &action, &before);
	ASSERT_EQ(mprotect(Stores::base, Stores::bytes, PROT_READ), 0);
	EXPECT_EQ(recover(), (Set{0, 1, 4}));
	ASSERT_EQ(mprotect(Stores::base, Stores::bytes, PROT_READ | PROT_WRITE), 0);
	sigaction(SIGSEGV, &before, nullptr);
	uint64_t logs = d_.super->logs_offset - d_.super->ring_offset;
	EXPECT_TRUE(pages.count(0)) << "markers";
	EXPECT_TRUE(pages.count(logs / 4096)) << "log of thread 0";
	EXPECT_TRUE(pages.count((logs + d_.super->log_bytes) / 4096)) << "log of thread 1";
}

TEST_F(Recovery, Live_RefusesWhatHasChanged)
{
	media_marker *m = put(0);
	m->deps[0] ^= 1;
	d_.next_durts = first_ + 1;
	EXPECT_EQ(replay_live(&d_), FUR_ECORRUPT);
	EXPECT_EQ(word(0), 0u);
}

} // namespace
