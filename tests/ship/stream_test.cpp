/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_test.cpp - which messages count, which are void, and which prove that the log was cut.
 */
#include "ship_fixture.hpp"

namespace
{

/* A stream, and its log so far. */
class Stream : public testing::Test
{
protected:
	Stream()
	{
		stream_init(&s, heap_uuid, nullptr);
	}

	/* Where the next frame stands, if all is well. */
	frame_place next() const
	{
		return {s.at.term, s.at.lineage, s.at.frame_no + 1, s.at.chain};
	}
	/* Append and judge. */
	stream_judgement judge(const Bytes &m)
	{
		log.push_back(m);
		return judge_at(s.next, m);
	}
	stream_judgement judge_at(uint64_t offset, const Bytes &m)
	{
		return stream_read(&s, offset, m.data(), m.size(), &f);
	}
	stream_judgement claim(uint64_t term, uint64_t node = 1, unsigned flags = 0)
	{
		return judge(claim_of(
		        node, ++nonce, {term, s.at.lineage, s.at.frame_no, s.at.chain}, flags));
	}
	Bytes data(uint64_t durts, unsigned flags = 0)
	{
		return Frame(FRAME_DATA, flags).update(durts, filled(32, 1)).seal(next());
	}
	/* It must change nothing but its count. */
	void expect_void(const Bytes &m, stream_judgement which)
	{
		const stream_position at = s.at, whole = s.whole;
		const uint64_t voids = s.voids[which];
		const bool open = s.open;
		EXPECT_EQ(judge(m), which);
		EXPECT_TRUE(stream_is_void(which));
		EXPECT_EQ(memcmp(&at, &s.at, sizeof at), 0);
		EXPECT_EQ(memcmp(&whole, &s.whole, sizeof whole), 0);
		EXPECT_EQ(s.voids[which], voids + 1);
		EXPECT_EQ(s.open, open);
	}
	/* It, and every later message. */
	void expect_fatal(const Bytes &m, stream_judgement which)
	{
		EXPECT_EQ(judge(m), which) << stream_text(which);
		EXPECT_TRUE(stream_is_fatal(which));
		EXPECT_EQ(judge(Frame(FRAME_BEAT).seal(next())), which);
		EXPECT_EQ(stream_end(&s, 100), which);
	}

	stream s;
	frame f;
	std::vector<Bytes> log;
	uint64_t nonce = 0;
};

TEST_F(Stream, FramesOfATermCountInOrder)
{
	ASSERT_EQ(claim(1), STREAM_VALID);
	EXPECT_EQ(s.at.node, 1u);
	EXPECT_EQ(s.at.frame_no, 0u);
	for (uint64_t durts = 5; durts < 10; durts++)
		ASSERT_EQ(judge(data(durts)), STREAM_VALID);
	ASSERT_EQ(judge(Frame(FRAME_BEAT).seal(next())), STREAM_VALID);
	EXPECT_EQ(s.at.frame_no, 6u);
	EXPECT_EQ(s.at.durts, 9u);
	EXPECT_EQ(s.at.offset, 6u);
	EXPECT_EQ(s.at.chain, f.head.chain);
	EXPECT_EQ(s.next, 7u);
	EXPECT_EQ(stream_end(&s, 7), STREAM_VALID);
}

TEST_F(Stream, WhatIsNoFrameOfTheHeapIsVoid)
{
	ASSERT_EQ(claim(1), STREAM_VALID);
	const uint8_t other[16] = {9};
	expect_void({}, STREAM_FOREIGN);
	expect_void(filled(500, 1), STREAM_FOREIGN);
	expect_void(Frame(FRAME_BEAT).seal(next(), other), STREAM_FOREIGN);
	EXPECT_EQ(judge(data(1)), STREAM_VALID);
}

TEST_F(Stream, TheFirstClaimOfATermWins)
{
	const Bytes late = claim_of(2, 77, {1, 0, 0, 0});
	ASSERT_EQ(claim(1), STREAM_VALID);
	expect_void(late, STREAM_OLD_CLAIM);
	ASSERT_EQ(judge(data(1)), STREAM_VALID);
	expect_void(late, STREAM_OLD_CLAIM);
	ASSERT_EQ(claim(2, 2), STREAM_VALID);
	EXPECT_EQ(s.at.node, 2u);
	expect_void(log.front(), STREAM_OLD_CLAIM);
}

TEST_F(Stream, FramesOfADeadWriterAreVoidBehindAClaim)
{
	ASSERT_EQ(claim(1), STREAM_VALID);
	const Bytes zombie = data(1);
	ASSERT_EQ(claim(2, 2), STREAM_VALID);
	expect_void(zombie, STREAM_OLD_TERM);
	ASSERT_EQ(judge(data(1)), STREAM_VALID);
	expect_void(zombie, STREAM_OLD_TERM);
}

TEST_F(Stream, RepeatedAndEarlyFramesAreVoid)
{
	ASSERT_EQ(claim(1), STREAM_VALID);
	const Bytes first = data(1);
	const Bytes ahead = Frame(FRAME_BEAT).seal({1, 0, 2, 5});
	expect_void(ahead, STREAM_AHEAD);
	ASSERT_EQ(judge(first), STREAM_VALID);
	expect_void(first, STREAM_REPEATED);
}

TEST_F(Stream, AClaimDropsTheOpenUpdate)
{
	ASSERT_EQ(claim(1), STREAM_VALID);
	ASSERT_EQ(judge(data(1)), STREAM_VALID);
	ASSERT_EQ(judge(Frame(FRAME_SIDE, FRAME_FIRST).side(2, {0, 0}, {}).seal(next())),
	        STREAM_VALID);
	EXPECT_TRUE(s.open);
	ASSERT_EQ(judge(data(2, FRAME_MORE)), STREAM_VALID);
	EXPECT_EQ(s.at.durts, 1u);
	EXPECT_EQ(s.whole.frame_no, 1u);
	ASSERT_EQ(claim(2), STREAM_VALID);
	EXPECT_FALSE(s.open);
	ASSERT_EQ(judge(data(2, FRAME_FIRST)), STREAM_VALID);
	ASSERT_EQ(judge(data(2, FRAME_LAST)), STREAM_VALID);
	EXPECT_FALSE(s.open);
	EXPECT_EQ(s.at.durts, 2u);
	EXPECT_EQ(s.whole.frame_no, 5u);
}

TEST_F(Stream, ANewLineageCountsItsOwnUpdates)
{
	ASSERT_EQ(claim(1), STREAM_VALID);
	ASSERT_EQ(judge(data(100)), STREAM_VALID);
	ASSERT_EQ(claim(2, 2, FRAME_NEW_LINEAGE), STREAM_VALID);
	EXPECT_EQ(s.at.lineage, 1u);
	EXPECT_EQ(s.at.durts, 0u);
	EXPECT_EQ(judge(data(1)), STREAM_VALID);
}

TEST_F(Stream, BrokenRulesOfUpdatesAreFatal)
{
	const auto second = [this](unsigned first, const Bytes &m) {
		stream_init(&s, heap_uuid, nullptr);
		ASSERT_EQ(claim(1), STREAM_VALID);
		ASSERT_EQ(judge(data(5, first)), STREAM_VALID);
		const Bytes resealed = m.empty() ? Frame(FRAME_BEAT).seal(next()) : m;
		expect_fatal(resealed, STREAM_MALFORMED);
	};
	/* In an open update: anything but the same update's next part. */
	second(FRAME_FIRST, {});
	stream_init(&s, heap_uuid, nullptr);
	for (const auto &[first, durts, flags] :
	        std::vector<std::array<unsigned, 3>>{{FRAME_FIRST, 5, FRAME_FIRST},
	                {FRAME_FIRST, 6, FRAME_LAST}, {FRAME_FIRST, 6, 0}, {0, 6, FRAME_LAST},
	                {0, 6, FRAME_MORE}, {0, 5, 0}, {0, 4, FRAME_FIRST}}) {
		stream_init(&s, heap_uuid, nullptr);
		ASSERT_EQ(claim(1), STREAM_VALID);
		ASSERT_EQ(judge(data(5, first)), STREAM_VALID);
		expect_fatal(data(durts, flags), STREAM_MALFORMED);
	}
	stream_init(&s, heap_uuid, nullptr);
	ASSERT_EQ(claim(1), STREAM_VALID);
	expect_fatal(Frame(FRAME_BEAT).seal({1, 3, 1, s.at.chain}), STREAM_MALFORMED);
}

TEST_F(Stream, DamagedAndNewerFramesAreFatal)
{
	ASSERT_EQ(claim(1), STREAM_VALID);
	Bytes damaged = data(1);
	damaged.back() ^= 1;
	const stream before = s;
	expect_fatal(damaged, STREAM_DAMAGED);
	s = before;
	Bytes newer = data(1);
	newer[8] = FRAME_VERSION + 1;
	expect_fatal(newer, STREAM_NEWER);
}

/* ------------------------------------------------------------- logs that were cut */

TEST_F(Stream, OffsetsAreDense)
{
	ASSERT_EQ(claim(1), STREAM_VALID);
	const Bytes m = data(1);
	EXPECT_EQ(judge_at(2, m), STREAM_SKIPS);
}

TEST_F(Stream, ALogThatEndsTooEarly)
{
	ASSERT_EQ(claim(1), STREAM_VALID);
	ASSERT_EQ(judge(data(1)), STREAM_VALID);
	EXPECT_EQ(stream_end(&s, 2), STREAM_VALID);
	EXPECT_EQ(stream_end(&s, 1), STREAM_SHORT);
	stream_init(&s, heap_uuid, &s.whole);
	EXPECT_EQ(stream_end(&s, 1), STREAM_SHORT) << "the frame at the position is gone";
}

TEST_F(Stream, ResumesAtTheNewestWholeUpdate)
{
	ASSERT_EQ(claim(1), STREAM_VALID);
	ASSERT_EQ(judge(data(1)), STREAM_VALID);
	ASSERT_EQ(judge(data(2, FRAME_FIRST)), STREAM_VALID);
	ASSERT_EQ(claim(2), STREAM_VALID);
	ASSERT_EQ(judge(data(3)), STREAM_VALID);
	const stream_position end = s.at;
	s.whole = {1, 0, 1, s.whole.chain, 1, 1, 1};
	memcpy(&s.whole.chain, &log[1][offsetof(frame_head, chain)], 8);
	stream_resume(&s);
	EXPECT_EQ(s.next, 1u);
	EXPECT_EQ(judge_at(1, log[1]), STREAM_KNOWN);
	for (uint64_t k = 2; k < log.size(); k++)
		EXPECT_EQ(judge_at(k, log[k]), STREAM_VALID);
	EXPECT_EQ(memcmp(&s.at, &end, sizeof end), 0);
	EXPECT_EQ(memcmp(&s.whole, &end, sizeof end), 0);
}

TEST_F(Stream, AnotherMessageWhereItResumes)
{
	ASSERT_EQ(claim(1), STREAM_VALID);
	const Bytes other = data(7);
	ASSERT_EQ(judge(data(1)), STREAM_VALID);
	for (const Bytes &m : {other, log[0], filled(100, 1)}) {
		stream resumed = s;
		stream_resume(&resumed);
		EXPECT_EQ(stream_read(&resumed, 1, m.data(), m.size(), &f), STREAM_CHANGED);
	}
}

TEST_F(Stream, AFrameWhoseClaimIsMissing)
{
	ASSERT_EQ(claim(1), STREAM_VALID);
	expect_fatal(Frame(FRAME_BEAT).seal({2, 0, 1, s.at.chain}), STREAM_LOST);
}

TEST_F(Stream, AClaimOfAWriterThatHadReadMore)
{
	ASSERT_EQ(claim(1), STREAM_VALID);
	const stream before = s;
	expect_fatal(claim_of(1, 1, {2, 0, 1, 0}), STREAM_LOST);
	s = before;
	expect_fatal(claim_of(1, 1, {1, 0, 1, 0}), STREAM_LOST);
	s = before;
	expect_fatal(claim_of(1, 1, {2, 0, 0, 0x5555}), STREAM_LOST);
	s = before; /* it has perhaps not read the claim of term 2 */
	ASSERT_EQ(judge(claim_of(1, 1, {3, 0, 0, 0x5555})), STREAM_VALID);
}

TEST_F(Stream, AWriterThatHadReadLess)
{
	ASSERT_EQ(claim(1), STREAM_VALID);
	ASSERT_EQ(judge(data(1)), STREAM_VALID);
	ASSERT_EQ(judge(claim_of(2, 1, {2, 0, 0, 0})), STREAM_VALID);
	expect_fatal(Frame(FRAME_BEAT).seal({2, 0, 1, 0}), STREAM_LOST);
}

/* Both wrote term 2, and only one of the claims is in this log. */
TEST_F(Stream, AFrameOfAnotherClaimOfTheTerm)
{
	ASSERT_EQ(claim(1), STREAM_VALID);
	const stream before = s;
	ASSERT_EQ(claim(2, 1), STREAM_VALID);
	const Bytes frame = data(1);
	s = before;
	ASSERT_EQ(claim(2, 2), STREAM_VALID);
	expect_fatal(frame, STREAM_BROKEN);
}

TEST_F(Stream, AFrameTooFarAhead)
{
	ASSERT_EQ(claim(1), STREAM_VALID);
	expect_void(Frame(FRAME_BEAT).seal({1, 0, STREAM_IN_FLIGHT, 0}), STREAM_AHEAD);
	expect_fatal(Frame(FRAME_BEAT).seal({1, 0, 1 + STREAM_IN_FLIGHT, 0}), STREAM_LOST);
}

TEST(StreamText, TellsEachJudgement)
{
	for (int j = STREAM_VALID; j < STREAM_JUDGEMENTS; j++)
		EXPECT_NE(stream_text(static_cast<stream_judgement>(j)), nullptr) << j;
}

} // namespace
