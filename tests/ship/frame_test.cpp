/* SPDX-License-Identifier: BSD-3-Clause
 *
 * frame_test.cpp - the format of frames, and frames that are damaged or nonsense.
 */
#include "../../tools/common/random.hpp"
#include "ship_fixture.hpp"

#include <memory>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace
{

const frame_place third{7, 2, 3, 0x1234};

/* In memory of exactly this size, so that AddressSanitizer sees a read beyond it. */
frame_error read_exactly(const Bytes &bytes, frame *f = nullptr)
{
	const std::unique_ptr<uint8_t[]> copy(new uint8_t[bytes.size()]);
	if (!bytes.empty())
		memcpy(copy.get(), bytes.data(), bytes.size());
	frame own;
	const frame_error error = frame_read(copy.get(), bytes.size(), f ? f : &own);
	/* What is accepted is walked within its bounds. */
	frame &read = f ? *f : own;
	frame_entries e;
	uint64_t sum = 0, last = 0;
	for (size_t at = 0; error == FRAME_GOOD && read.head.kind == FRAME_DATA &&
	                    frame_next_update(&read, &at, &e);) {
		EXPECT_TRUE(last == 0 || e.durts > last);
		last = e.durts;
		for (uint32_t k = 0; k < e.n; k++)
			sum += e.bytes[k];
	}
	EXPECT_NE(sum, UINT64_MAX);
	read.payload = nullptr;
	return error;
}

std::vector<Bytes> one_of_each()
{
	const char name[] = "heap.copy";
	return {claim_of(5, 99, third, FRAME_NEW_LINEAGE),
	        Frame(FRAME_DATA).update(10, filled(32, 1)).update(15, filled(64, 2)).seal(third),
	        Frame(FRAME_DATA).update(10, {}).seal(third),
	        Frame(FRAME_DATA, FRAME_LAST).update(10, filled(48, 3)).seal(third),
	        Frame(FRAME_SIDE, FRAME_FIRST).side(10, {65536, 4096}, filled(32, 4)).seal(third),
	        Frame(FRAME_BEAT).seal(third), Frame(FRAME_SNAPSHOT).payload(name).seal(third),
	        Frame(FRAME_HANDOVER).payload(frame_handover{6, 0}).seal(third)};
}

/* Make the chain right again, as a writer with a bug does. */
void seal_again(Bytes &bytes)
{
	const size_t at = offsetof(frame_head, chain);
	uint64_t before;
	memcpy(&before, &bytes[offsetof(frame_head, chain_before)], sizeof before);
	const uint64_t head = XXH3_64bits_withSeed(bytes.data(), at, before);
	const uint64_t chain = XXH3_64bits_withSeed(
	        bytes.data() + sizeof(frame_head), bytes.size() - sizeof(frame_head), head);
	memcpy(&bytes[at], &chain, sizeof chain);
}

TEST(Frame, FormatIsFrozen)
{
	EXPECT_EQ(offsetof(frame_head, version), 8u);
	EXPECT_EQ(offsetof(frame_head, kind), 10u);
	EXPECT_EQ(offsetof(frame_head, flags), 12u);
	EXPECT_EQ(offsetof(frame_head, term), 32u);
	EXPECT_EQ(offsetof(frame_head, lineage), 40u);
	EXPECT_EQ(offsetof(frame_head, durts_first), 56u);
	EXPECT_EQ(offsetof(frame_head, bytes), 76u);
	EXPECT_EQ(offsetof(frame_head, chain_before), 80u);
	EXPECT_EQ(FRAME_HANDOVER, 6);
	const Bytes beat = Frame(FRAME_BEAT).seal(third);
	ASSERT_EQ(beat.size(), 96u);
	EXPECT_EQ(memcmp(beat.data(), "furship\x1a\1\0\4\0\0\0\0\0\1\2\3\4", 20), 0);
	frame f;
	EXPECT_EQ(read_exactly(beat, &f), FRAME_GOOD);
	EXPECT_EQ(f.head.chain, UINT64_C(18018454944027562438));
	const Bytes data = Frame(FRAME_DATA).update(9, filled(16, 1)).seal(third);
	uint32_t check;
	memcpy(&check, &data[sizeof(frame_head) + offsetof(frame_update, check)], sizeof check);
	EXPECT_EQ(check, 887688539u);
}

TEST(Frame, UpdatesComeBackAsTheyWere)
{
	Frame made(FRAME_DATA);
	made.update(100, filled(16, 1))
	        .update(101, {})
	        .update(5000000000 - 705032804, filled(160, 2));
	const Bytes bytes = made.seal(third);
	frame f;
	ASSERT_EQ(frame_read(bytes.data(), bytes.size(), &f), FRAME_GOOD);
	EXPECT_EQ(memcmp(&f.head, &made.head, sizeof f.head), 0);
	EXPECT_EQ(f.head.updates, 3u);
	EXPECT_EQ(f.head.term, 7u);
	EXPECT_EQ(f.head.lineage, 2u);
	EXPECT_EQ(f.head.frame_no, 3u);
	EXPECT_EQ(f.head.chain_before, 0x1234u);
	const uint64_t durts[] = {100, 101, 4294967196};
	const Bytes entries[] = {filled(16, 1), {}, filled(160, 2)};
	frame_entries e;
	size_t at = 0;
	for (int k = 0; k < 3; k++) {
		ASSERT_TRUE(frame_next_update(&f, &at, &e));
		EXPECT_EQ(e.durts, durts[k]);
		EXPECT_EQ(Bytes(e.bytes, e.bytes + e.n), entries[k]);
	}
	EXPECT_FALSE(frame_next_update(&f, &at, &e));
}

TEST(Frame, OtherPayloadsComeBackAsTheyWere)
{
	frame f;
	const Bytes claim = claim_of(5, 99, third);
	ASSERT_EQ(frame_read(claim.data(), claim.size(), &f), FRAME_GOOD);
	EXPECT_EQ(frame_get_claim(&f).node, 5u);
	EXPECT_EQ(frame_get_claim(&f).nonce, 99u);
	const Bytes side =
	        Frame(FRAME_SIDE, FRAME_MORE).side(10, {65536, 4096}, filled(32, 4)).seal(third);
	ASSERT_EQ(frame_read(side.data(), side.size(), &f), FRAME_GOOD);
	EXPECT_EQ(frame_get_side(&f).offset, 65536u);
	EXPECT_EQ(frame_get_side(&f).zeros, 4096u);
	EXPECT_EQ(f.head.durts_first, 10u);
	EXPECT_EQ(Bytes(f.payload + sizeof(frame_side), f.payload + f.head.bytes), filled(32, 4));
}

TEST(Frame, TakesUpdatesUntilItIsFull)
{
	Frame f(FRAME_DATA, 0, 96 + 5 * 48 + 40);
	for (uint64_t durts = 1; durts <= 5; durts++)
		f.update(durts, filled(32, 1));
	EXPECT_EQ(frame_room(&f.b), 16u);
	EXPECT_EQ(frame_add_update(&f.b, 6, 32), nullptr);
	f.update(6, filled(16, 2));
	EXPECT_EQ(frame_room(&f.b), 0u);
	EXPECT_EQ(frame_add_update(&f.b, 7, 0), nullptr);
	EXPECT_EQ(read_exactly(f.seal(third)), FRAME_GOOD);
}

TEST(Frame, TakesNoUpdateTooFarFromTheFirst)
{
	Frame f(FRAME_DATA);
	f.update(1, {}).update(UINT64_C(1) + UINT32_MAX, {});
	EXPECT_EQ(frame_add_update(&f.b, UINT64_C(2) + UINT32_MAX, 0), nullptr);
	EXPECT_EQ(read_exactly(f.seal(third)), FRAME_GOOD);
}

TEST(Frame, IsNoLongerThanTheLimit)
{
	Frame f(FRAME_DATA, FRAME_FIRST, 2 * FRAME_MOST_BYTES);
	const uint32_t most = frame_room(&f.b);
	EXPECT_EQ(most, FRAME_MOST_BYTES - 96u - 16u);
	f.update(1, Bytes(most, 3));
	EXPECT_EQ(frame_add_update(&f.b, 2, 0), nullptr) << "a part has one update";
	const Bytes bytes = f.seal(third);
	EXPECT_EQ(bytes.size(), size_t{FRAME_MOST_BYTES});
	EXPECT_EQ(read_exactly(bytes), FRAME_GOOD);
	const frame_side side{};
	Frame s(FRAME_SIDE, FRAME_FIRST, 96 + 32);
	EXPECT_EQ(frame_add_side(&s.b, 1, &side, 32), nullptr);
	Frame t(FRAME_SNAPSHOT, 0, 96 + 16);
	EXPECT_FALSE(frame_add_payload(&t.b, bytes.data(), 17));
}

TEST(Frame, SealedForAnotherPlaceItIsAnother)
{
	Frame f(FRAME_DATA);
	f.update(1, filled(32, 1));
	const Bytes first = f.seal(third);
	const Bytes second = f.seal({8, 2, 3, 0x1234});
	EXPECT_NE(first, second);
	EXPECT_EQ(read_exactly(second), FRAME_GOOD);
	EXPECT_EQ(f.seal(third), first);
}

TEST(Frame, EachChangedByteIsRefused)
{
	for (const Bytes &sound : one_of_each()) {
		EXPECT_EQ(read_exactly(sound), FRAME_GOOD);
		for (size_t k = 0; k < sound.size(); k++)
			for (unsigned change = 1; change < 256; change++) {
				Bytes bytes = sound;
				bytes[k] = static_cast<uint8_t>(bytes[k] ^ change);
				ASSERT_NE(read_exactly(bytes), FRAME_GOOD) << k << " " << change;
			}
	}
}

TEST(Frame, EachOtherLengthIsRefused)
{
	for (const Bytes &sound : one_of_each()) {
		for (size_t n = 0; n < sound.size(); n++) {
			const Bytes cut(sound.begin(), sound.begin() + static_cast<ptrdiff_t>(n));
			EXPECT_EQ(read_exactly(cut), n < 8 ? FRAME_FOREIGN : FRAME_DAMAGED) << n;
		}
		for (size_t n = 1; n < 40; n++) {
			Bytes longer = sound;
			longer.resize(sound.size() + n);
			EXPECT_EQ(read_exactly(longer), FRAME_DAMAGED) << n;
		}
	}
}

TEST(Frame, TellsWhyItRefuses)
{
	Bytes bytes = Frame(FRAME_BEAT).seal(third);
	bytes[8] = FRAME_VERSION + 1;
	EXPECT_EQ(read_exactly(bytes), FRAME_NEWER);
	bytes[8] = 0;
	EXPECT_EQ(read_exactly(bytes), FRAME_DAMAGED);
	bytes[0] = 'F';
	EXPECT_EQ(read_exactly(bytes), FRAME_FOREIGN);
	EXPECT_EQ(read_exactly(filled(300, 1)), FRAME_FOREIGN);
}

/* Lengths, counts and flags that no writer makes, with a chain that is right: read_exactly() would
 * read beyond the memory. */
TEST(Frame, NonsenseThatIsSealedIsNotFollowed)
{
	tools::Random random{1};
	const auto sound = one_of_each();
	unsigned refused = 0;
	for (int k = 0; k < 200000; k++) {
		Bytes bytes = sound[random.below(sound.size())];
		for (uint64_t n = 1 + random.below(3); n; n--) {
			size_t at = random.below(bytes.size());
			if (random.one_in(2)) /* heads of updates, where lengths are */
				at = std::min<size_t>(96 + random.below(16), bytes.size() - 1);
			bytes[at] = static_cast<uint8_t>(
			        random.one_in(2) ? random.next() : 1u << random.below(8));
		}
		if (random.one_in(8))
			bytes.resize(96 + random.below(bytes.size()));
		const uint32_t payload = static_cast<uint32_t>(bytes.size() - 96);
		if (!random.one_in(4))
			memcpy(&bytes[offsetof(frame_head, bytes)], &payload, sizeof payload);
		seal_again(bytes);
		refused += read_exactly(bytes) != FRAME_GOOD;
	}
	EXPECT_GT(refused, 50000u);
}

TEST(Frame, RulesOfEachKindAreChecked)
{
	const auto with = [](Bytes bytes, size_t at, uint32_t value) {
		memcpy(&bytes[at], &value, sizeof value);
		seal_again(bytes);
		return read_exactly(bytes);
	};
	const size_t flags = offsetof(frame_head, flags);
	const Bytes data = Frame(FRAME_DATA).update(10, filled(32, 1)).update(15, {}).seal(third);
	EXPECT_EQ(with(data, flags, 0), FRAME_GOOD);
	EXPECT_EQ(with(data, flags, FRAME_FIRST), FRAME_DAMAGED) << "two updates in a part";
	EXPECT_EQ(with(data, flags, FRAME_NEW_LINEAGE), FRAME_DAMAGED);
	EXPECT_EQ(with(data, flags, 16), FRAME_DAMAGED);
	EXPECT_EQ(with(data, offsetof(frame_head, updates), 1), FRAME_DAMAGED);
	EXPECT_EQ(with(data, offsetof(frame_head, updates), 3), FRAME_DAMAGED);
	EXPECT_EQ(with(data, offsetof(frame_head, durts_last), 16), FRAME_DAMAGED);
	EXPECT_EQ(with(data, 96, 1), FRAME_DAMAGED) << "the first update is not durts_first's";
	EXPECT_EQ(with(data, 96 + 8, 1), FRAME_DAMAGED) << "an unknown flag";
	EXPECT_EQ(with(data, 96 + 12, 1), FRAME_DAMAGED) << "the check of the entries";
	const Bytes part = Frame(FRAME_DATA, FRAME_MORE).update(10, filled(32, 1)).seal(third);
	EXPECT_EQ(with(part, flags, FRAME_LAST), FRAME_GOOD);
	EXPECT_EQ(with(part, flags, FRAME_FIRST | FRAME_LAST), FRAME_DAMAGED);
	const Bytes side = Frame(FRAME_SIDE, FRAME_MORE).side(10, {0, 0}, {}).seal(third);
	EXPECT_EQ(with(side, flags, FRAME_LAST), FRAME_DAMAGED) << "the record is the last part";
	EXPECT_EQ(with(side, flags, 0), FRAME_DAMAGED);
	const Bytes claim = claim_of(1, 2, third);
	EXPECT_EQ(with(claim, flags, FRAME_FIRST), FRAME_DAMAGED);
	EXPECT_EQ(with(claim, 96, 0), FRAME_DAMAGED) << "a claim of node 0";
	EXPECT_EQ(with(claim, offsetof(frame_head, updates), 1), FRAME_DAMAGED);
	const Bytes beat = Frame(FRAME_BEAT).seal(third);
	EXPECT_EQ(with(beat, flags, FRAME_LAST), FRAME_DAMAGED);
	EXPECT_EQ(with(beat, offsetof(frame_head, durts_first), 1), FRAME_DAMAGED);
	EXPECT_EQ(with(beat, 8, FRAME_VERSION | FRAME_KINDS << 16), FRAME_DAMAGED);
	EXPECT_EQ(with(beat, 8, FRAME_VERSION), FRAME_DAMAGED) << "kind 0";
}

} // namespace
