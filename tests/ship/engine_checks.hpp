/* SPDX-License-Identifier: BSD-3-Clause
 *
 * engine_checks.hpp - what every stream engine must do.  A program of tests includes this, says
 * in logs_of() which engines there are, and instantiates the suite Engines with their names.
 */
#ifndef ENGINE_CHECKS_HPP
#define ENGINE_CHECKS_HPP

#include "ship_fixture.hpp"

#include <memory>
#include <string>

namespace
{

/* A log, and connections to it. */
struct Logs {
	virtual ~Logs() = default;
	virtual stream_engine *open() = 0;
	/* Let come what is under way, where that does not come by itself. */
	virtual void settle() {}
	/* An answer comes within this time. */
	virtual int patience_ms() const
	{
		return 0;
	}
};

std::unique_ptr<Logs> logs_of(const std::string &engine);

int append(stream_engine *e, uint64_t handle, const Bytes &m)
{
	return e->ops->append(e, handle, m.data(), m.size());
}

/* The message at an offset, or nothing at the log's end. */
Bytes read(stream_engine *e, uint64_t offset)
{
	Bytes m(4096);
	size_t n = 0;
	const int there = e->ops->read(e, offset, m.data(), m.size(), &n);
	EXPECT_GE(there, 0) << fur_errormsg();
	m.resize(there == 1 ? n : 0);
	return m;
}

uint64_t end_of(stream_engine *e)
{
	uint64_t end = 0;
	EXPECT_EQ(e->ops->end(e, &end), 0);
	return end;
}

class Engines : public testing::TestWithParam<const char *>
{
protected:
	Engines() : logs(logs_of(GetParam())) {}

	std::unique_ptr<Logs> logs;
};

TEST_P(Engines, KeepsMessagesInOrder)
{
	stream_engine *e = logs->open(), *other = logs->open();
	EXPECT_EQ(end_of(e), 0u);
	for (unsigned k = 0; k < 20; k++)
		ASSERT_EQ(append(e, 100 + k, filled(k * 13, k)), 0);
	logs->settle();
	engine_ack acks[16];
	uint64_t next = 0;
	int n;
	while ((n = e->ops->poll(e, acks, 16, next < 20 ? logs->patience_ms() : 0)) > 0)
		for (int k = 0; k < n; k++, next++) {
			EXPECT_EQ(acks[k].handle, 100 + next);
			EXPECT_EQ(acks[k].offset, next);
		}
	EXPECT_EQ(n, 0);
	EXPECT_EQ(next, 20u);
	EXPECT_EQ(end_of(other), 20u);
	for (unsigned k = 20; k-- > 0;)
		EXPECT_EQ(read(other, k), filled(k * 13, k));
	EXPECT_EQ(read(other, 20), Bytes());
	e->ops->close(e);
	other->ops->close(other);
}

TEST_P(Engines, TellsHowLongAMessageIs)
{
	stream_engine *e = logs->open();
	ASSERT_EQ(append(e, 1, filled(300, 1)), 0);
	logs->settle();
	engine_ack ack;
	ASSERT_EQ(e->ops->poll(e, &ack, 1, logs->patience_ms()), 1);
	Bytes m(100);
	size_t n = 0;
	EXPECT_EQ(e->ops->read(e, 0, m.data(), 10, &n), 1);
	EXPECT_EQ(n, 300u);
	EXPECT_EQ(Bytes(m.begin() + 10, m.end()), Bytes(90)) << "beyond the room";
	EXPECT_EQ(e->ops->read(e, 2, m.data(), 10, &n), FUR_ERANGE);
	e->ops->close(e);
}

TEST_P(Engines, AnswersNothingFromBeforeARestart)
{
	stream_engine *e = logs->open();
	ASSERT_EQ(append(e, 1, filled(30, 1)), 0);
	ASSERT_EQ(e->ops->restart(e), 0);
	logs->settle();
	engine_ack acks[4];
	EXPECT_EQ(e->ops->poll(e, acks, 4, 0), 0);
	ASSERT_EQ(append(e, 2, filled(30, 2)), 0);
	logs->settle();
	ASSERT_EQ(e->ops->poll(e, acks, 4, logs->patience_ms()), 1);
	EXPECT_EQ(acks[0].handle, 2u);
	e->ops->close(e);
}

/* Two nodes, each with a connection; they take turns as the writer. */
TEST_P(Engines, CarryAWriter)
{
	Bytes room(FRAME_MOST_BYTES);
	stream_engine *engines[] = {logs->open(), logs->open()};
	writer nodes[2];
	uint64_t frames = 0;
	for (unsigned k = 0; k < 2; k++)
		writer_init(&nodes[k], heap_uuid, k + 1, nullptr);
	for (unsigned round = 0; round < 6; round++) {
		writer &w = nodes[round % 2];
		stream_engine *e = engines[round % 2];
		writer_resync(&w, "test");
		ASSERT_EQ(drive_restart(&w, e, 1000 + round, WRITER_TAKES_OVER), 0);
		for (int k = 0; k < 1000 && w.phase != WRITER_SHIPS; k++) {
			ASSERT_GE(drive_turn(&w, e, room.data(), logs->patience_ms() / 100), 0);
			logs->settle();
		}
		ASSERT_EQ(w.phase, WRITER_SHIPS) << w.why;
		EXPECT_EQ(w.stream.at.frame_no, frames);
		EXPECT_EQ(w.stream.at.lineage, round);
		for (unsigned k = 1; k <= 20; k++, frames++) {
			Frame f(FRAME_DATA);
			f.update(k, filled(48, k));
			ASSERT_EQ(drive_submit(&w, e, &f.b), 0);
			logs->settle();
			/* The claim's answer may still come before. */
			for (int t = 0; t < 9 && w.acked_frame <= frames; t++)
				EXPECT_EQ(drive_turn(&w, e, room.data(), logs->patience_ms()), 1);
			EXPECT_EQ(w.acked_frame, frames + 1);
		}
	}
	for (stream_engine *e : engines)
		e->ops->close(e);
}

} // namespace

#endif
