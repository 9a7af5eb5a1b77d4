/* SPDX-License-Identifier: BSD-3-Clause
 *
 * writer_test.cpp - a node becomes the writer, and counts what is acknowledged: against a log that
 * the test plays by hand.
 */
#include "ship_fixture.hpp"

namespace
{

class Writer : public testing::Test
{
protected:
	Writer()
	{
		writer_init(&w, heap_uuid, 1, nullptr);
	}

	/* Let the writer read the log, to its end. */
	void read(writer &node)
	{
		const auto reads = [&] {
			return node.phase == WRITER_READS || node.phase == WRITER_CONFIRMS;
		};
		while (reads() && node.stream.next < log.size()) {
			const uint64_t at = node.stream.next;
			writer_message(&node, at, log[at].data(), log[at].size());
		}
		writer_end(&node, log.size());
	}
	void append_claim(writer &node)
	{
		ASSERT_EQ(node.phase, WRITER_CLAIMS);
		EXPECT_NE(writer_claim(&node), 0u);
		log.emplace_back(node.claim, node.claim + sizeof node.claim);
	}
	/* Become the writer, undisturbed. */
	void begin(writer &node, unsigned flags = 0)
	{
		writer_start(&node, ++nonce, flags);
		read(node);
		append_claim(node);
		read(node);
		ASSERT_EQ(node.phase, WRITER_SHIPS);
		EXPECT_EQ(node.claim_offset, log.size() - 1);
	}
	/* A frame; returns its handle.  It is not in the log yet. */
	uint64_t submit(writer &node, uint64_t durts, unsigned flags = 0)
	{
		Frame frame(FRAME_DATA, flags);
		frame.update(durts, filled(32, 1));
		size_t bytes;
		EXPECT_TRUE(writer_may_submit(&node));
		const uint64_t handle = writer_submit(&node, &frame.b, &bytes);
		made.emplace_back(frame.b.message, frame.b.message + bytes);
		return handle;
	}
	/* The newest frame that was made, or the k-th before it, comes to the log.  Returns its
	 * offset. */
	uint64_t land(size_t k = 0)
	{
		log.push_back(made[made.size() - 1 - k]);
		return log.size() - 1;
	}

	/* A frame that lands and is answered. */
	void ship(writer &node, uint64_t durts, unsigned flags = 0)
	{
		const uint64_t handle = submit(node, durts, flags);
		writer_ack(&node, handle, land());
	}

	writer w;
	std::vector<Bytes> log, made;
	uint64_t nonce = 0;
};

TEST_F(Writer, ClaimsAndShips)
{
	EXPECT_EQ(w.phase, WRITER_IDLE);
	begin(w);
	EXPECT_EQ(w.stream.at.term, 1u);
	for (uint64_t durts = 1; durts <= 100; durts++) {
		const uint64_t handle = submit(w, durts);
		EXPECT_EQ(w.acked_frame, durts - 1);
		writer_ack(&w, handle, land());
		EXPECT_EQ(w.acked_frame, durts);
		EXPECT_EQ(w.acked_durts, durts);
	}
	EXPECT_EQ(w.stream.whole.offset, 100u);
	stream reader;
	stream_init(&reader, heap_uuid, nullptr);
	frame f;
	for (uint64_t k = 0; k < log.size(); k++)
		ASSERT_EQ(stream_read(&reader, k, log[k].data(), log[k].size(), &f), STREAM_VALID);
	EXPECT_EQ(memcmp(&reader.at, &w.stream.at, sizeof reader.at), 0);
}

TEST_F(Writer, AnswersInAnyOrderCountInTheLogsOrder)
{
	begin(w);
	const uint64_t a = submit(w, 1), b = submit(w, 2), c = submit(w, 3);
	land(2), land(1), land(0);
	writer_ack(&w, c, 3);
	writer_ack(&w, b, 2);
	EXPECT_EQ(w.acked_frame, 0u);
	writer_ack(&w, a, 1);
	EXPECT_EQ(w.acked_frame, 3u);
	writer_ack(&w, a, 1); /* again */
	writer_ack(&w, a, STREAM_NO_OFFSET);
	EXPECT_EQ(w.phase, WRITER_SHIPS);
}

TEST_F(Writer, HasABoundedNumberInFlight)
{
	begin(w);
	uint64_t first = 0;
	for (uint64_t k = 1; k <= STREAM_IN_FLIGHT; k++) {
		const uint64_t handle = submit(w, k);
		first = first ? first : handle;
	}
	EXPECT_FALSE(writer_may_submit(&w));
	writer_ack(&w, first + 1, 2);
	EXPECT_FALSE(writer_may_submit(&w));
	writer_ack(&w, first, 1);
	EXPECT_TRUE(writer_may_submit(&w));
	EXPECT_EQ(w.acked_frame, 2u);
}

TEST_F(Writer, AnAnswerToTheClaimDoesNotMakeItTheWriter)
{
	writer_start(&w, ++nonce, 0);
	read(w);
	const uint64_t handle = writer_claim(&w);
	writer_ack(&w, handle, 0);
	EXPECT_EQ(w.phase, WRITER_CONFIRMS);
	EXPECT_FALSE(writer_may_submit(&w));
}

/* A message stands between the claim and the frame, and the frame is not counted before the log is
 * read. */
TEST_F(Writer, AGapMakesItReadAgain)
{
	begin(w);
	const uint64_t handle = submit(w, 1);
	log.push_back(filled(100, 1));
	writer_ack(&w, handle, land());
	EXPECT_EQ(w.phase, WRITER_RESYNCS);
	EXPECT_EQ(w.acked_frame, 0u);
	begin(w);
	EXPECT_EQ(w.acked_frame, 1u) << "it is in the log";
	EXPECT_EQ(w.stream.at.term, 2u);
	EXPECT_EQ(w.stream.at.lineage, 0u);
}

TEST_F(Writer, AnAnswerWithoutAnOffsetMakesItReadAgain)
{
	begin(w);
	const uint64_t a = submit(w, 1), b = submit(w, 2);
	land(1), land(0);
	writer_ack(&w, a, STREAM_NO_OFFSET);
	EXPECT_EQ(w.phase, WRITER_RESYNCS);
	writer_ack(&w, b, 2); /* too late */
	EXPECT_EQ(w.acked_frame, 0u);
	begin(w);
	EXPECT_EQ(w.acked_frame, 2u);
	writer_ack(&w, a, 4); /* of the connection before */
	EXPECT_EQ(w.acked_frame, 2u);
	EXPECT_EQ(w.phase, WRITER_SHIPS);
}

/* Handles of an earlier term are not taken for frames of this one. */
TEST_F(Writer, NoHandleComesTwice)
{
	begin(w);
	const uint64_t before = submit(w, 1);
	writer_resync(&w, "test");
	begin(w);
	const uint64_t now = submit(w, 1);
	EXPECT_GT(now, before);
	writer_ack(&w, before, w.claim_offset + 1);
	EXPECT_EQ(w.acked_frame, 0u);
}

TEST_F(Writer, AFrameThatLandsBehindTheClaimIsNotCounted)
{
	begin(w);
	submit(w, 1);
	writer_resync(&w, "test");
	begin(w);
	land();
	EXPECT_EQ(w.acked_frame, 0u);
	const uint64_t handle = submit(w, 1);
	writer_ack(&w, handle, land());
	EXPECT_EQ(w.phase, WRITER_RESYNCS);
	begin(w);
	EXPECT_EQ(w.acked_frame, 1u);
	EXPECT_EQ(w.stream.voids[STREAM_OLD_TERM], 1u);
}

TEST_F(Writer, PartsAreAcknowledgedButTheUpdateOnlyAsAWhole)
{
	begin(w);
	ship(w, 1);
	ship(w, 2, FRAME_FIRST);
	EXPECT_EQ(w.acked_frame, 2u);
	EXPECT_EQ(w.acked_durts, 1u);
	EXPECT_EQ(w.stream.whole.frame_no, 1u);
	ship(w, 2, FRAME_LAST);
	EXPECT_EQ(w.acked_durts, 2u);
	EXPECT_EQ(w.stream.whole.frame_no, 3u);
}

/* ------------------------------------------------------------------- several nodes */

TEST_F(Writer, ANodeThatTakesOverFencesTheOther)
{
	begin(w);
	ship(w, 1);
	const uint64_t before = submit(w, 2);
	writer_ack(&w, before, land());
	const uint64_t late = submit(w, 3);

	writer other;
	writer_init(&other, heap_uuid, 2, nullptr);
	writer_start(&other, 7, 0);
	read(other);
	EXPECT_EQ(other.phase, WRITER_FENCED) << "only by name";
	begin(other, WRITER_TAKES_OVER);
	EXPECT_EQ(other.stream.at.frame_no, 2u);
	EXPECT_EQ(other.stream.at.lineage, 1u);
	EXPECT_EQ(other.acked_frame, 0u) << "none of its own";

	/* The claim has taken the place of one frame, and the next has its own. */
	ship(w, 4);
	EXPECT_EQ(w.acked_frame, 2u);
	writer_ack(&w, late, land(1));
	EXPECT_EQ(w.acked_frame, 2u);
	EXPECT_EQ(w.phase, WRITER_RESYNCS);
	writer_start(&w, ++nonce, 0);
	read(w);
	EXPECT_EQ(w.phase, WRITER_FENCED);
	EXPECT_EQ(w.acked_frame, 2u);
	EXPECT_EQ(w.acked_durts, 2u);
	begin(w, WRITER_TAKES_OVER);
	EXPECT_EQ(w.stream.at.lineage, 2u);
}

TEST_F(Writer, OfTwoClaimsTheFirstWins)
{
	begin(w);
	writer other;
	writer_init(&other, heap_uuid, 2, nullptr);
	writer_start(&other, 7, WRITER_TAKES_OVER);
	read(other);
	writer_resync(&w, "test");
	writer_start(&w, ++nonce, 0);
	read(w);
	append_claim(other);
	append_claim(w);
	read(other);
	read(w);
	EXPECT_EQ(other.phase, WRITER_SHIPS);
	EXPECT_EQ(w.phase, WRITER_FENCED);
}

/* Two files with one node number: a copy by cp. */
TEST_F(Writer, AnotherProcessOfTheNodeIsNoticed)
{
	writer other;
	writer_init(&other, heap_uuid, 1, nullptr);
	nonce = uint64_t(1) << 32;
	begin(w);
	ship(w, 10);
	nonce = uint64_t(2) << 32;
	begin(other);
	const uint64_t handle = submit(w, 11);
	writer_ack(&w, handle, land());
	ASSERT_EQ(w.phase, WRITER_RESYNCS);
	EXPECT_EQ(w.acked_durts, 10u);
	writer_start(&w, uint64_t(3) << 32, 0);
	read(w);
	EXPECT_EQ(w.phase, WRITER_FAILED);
	EXPECT_NE(std::string(w.why).find("ships as this node"), std::string::npos);
	/* Its own claims are no others'. */
	writer_resync(&other, "test");
	begin(other);
}

TEST_F(Writer, AnEarlierClaimOfTheNodeComesFirst)
{
	writer_start(&w, ++nonce, 0);
	read(w);
	EXPECT_NE(writer_claim(&w), 0u);
	const Bytes earlier(w.claim, w.claim + sizeof w.claim);
	writer_resync(&w, "test");
	writer_start(&w, ++nonce, 0);
	read(w);
	log.push_back(earlier);
	append_claim(w);
	read(w);
	EXPECT_EQ(w.phase, WRITER_RESYNCS);
	begin(w);
	EXPECT_EQ(w.stream.at.term, 2u);
}

/* It was submitted before the node died, and lands before its claim: it counts. */
TEST_F(Writer, WhatLandsBeforeTheClaimIsRead)
{
	begin(w);
	submit(w, 1);
	writer again;
	writer_init(&again, heap_uuid, 1, nullptr);
	writer_start(&again, ++nonce, 0);
	read(again);
	land();
	append_claim(again);
	read(again);
	EXPECT_EQ(again.phase, WRITER_SHIPS);
	EXPECT_EQ(again.acked_durts, 1u);
	ship(again, 2);
	EXPECT_EQ(again.acked_durts, 2u);
}

TEST_F(Writer, AResizedHeapBeginsALineage)
{
	begin(w);
	ship(w, 100);
	writer_resync(&w, "test");
	begin(w, WRITER_NEW_LINEAGE);
	EXPECT_EQ(w.stream.at.lineage, 1u);
	ship(w, 1);
	EXPECT_EQ(w.acked_durts, 1u);
}

/* ------------------------------------------------------------- logs that were cut */

TEST_F(Writer, AnOffsetThatIsTakenShowsThatTheLogWasCut)
{
	begin(w);
	ship(w, 1);
	writer_ack(&w, submit(w, 2), 1);
	EXPECT_EQ(w.phase, WRITER_FAILED);
	EXPECT_EQ(w.acked_frame, 1u);
}

TEST_F(Writer, ReadsAgainFromWhatItKnows)
{
	begin(w);
	for (uint64_t durts = 1; durts <= 3; durts++)
		ship(w, durts);
	const stream_position known = w.stream.whole;
	writer again;
	writer_init(&again, heap_uuid, 1, &known);
	writer_start(&again, ++nonce, 0);
	EXPECT_EQ(again.stream.next, 3u);
	log.pop_back();
	const writer before = again;
	read(again);
	EXPECT_EQ(again.phase, WRITER_FAILED);
	again = before;
	log.push_back(filled(50, 1));
	read(again);
	EXPECT_EQ(again.phase, WRITER_FAILED);
	EXPECT_NE(strstr(again.why, "the stream went back"), nullptr);
}

} // namespace
