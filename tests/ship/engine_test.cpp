/* SPDX-License-Identifier: BSD-3-Clause
 *
 * engine_test.cpp - what every stream engine must do; the file engine's file; writers on engines.
 */
#include "engine_fake.hpp"
#include "ship_fixture.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

/* A log, and connections to it. */
struct Logs {
	virtual ~Logs() = default;
	virtual stream_engine *open() = 0;
	virtual void settle() {}
};

struct FileLogs : Logs {
	FileLogs()
	{
		char name[] = "/tmp/fur-ship-XXXXXX";
		directory = mkdtemp(name);
		path = directory + "/log";
	}
	~FileLogs() override
	{
		unlink(path.c_str());
		rmdir(directory.c_str());
	}
	stream_engine *open() override
	{
		stream_engine *e;
		EXPECT_EQ(engine_file_open(path.c_str(), &e), 0) << fur_errormsg();
		return e;
	}
	off_t length() const
	{
		struct stat st;
		return stat(path.c_str(), &st) ? -1 : st.st_size;
	}
	std::string directory, path;
};

struct FakeLogs : Logs {
	stream_engine *open() override
	{
		return log.connect();
	}
	void settle() override
	{
		log.settle();
	}
	fake::Log log{1, {}};
};

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
	Engines()
	{
		if (std::string(GetParam()) == "file")
			logs = std::make_unique<FileLogs>();
		else
			logs = std::make_unique<FakeLogs>();
	}

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
	while ((n = e->ops->poll(e, acks, 16, 0)) > 0)
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
	ASSERT_EQ(e->ops->poll(e, acks, 4, 0), 1);
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
			ASSERT_GE(drive_turn(&w, e, room.data(), 0), 0);
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
			EXPECT_EQ(drive_turn(&w, e, room.data(), 0), 1);
			EXPECT_EQ(w.acked_frame, frames + 1);
		}
	}
	for (stream_engine *e : engines)
		e->ops->close(e);
}

INSTANTIATE_TEST_SUITE_P(All, Engines, testing::Values("file", "fake"),
        [](const auto &p) { return std::string(p.param); });

/* ------------------------------------------------------------------ the file engine */

class FileEngine : public testing::Test
{
protected:
	Bytes content() const
	{
		Bytes b(static_cast<size_t>(logs.length()));
		const int fd = open(logs.path.c_str(), O_RDONLY);
		EXPECT_EQ(pread(fd, b.data(), b.size(), 0), static_cast<ssize_t>(b.size()));
		close(fd);
		return b;
	}
	void write(const Bytes &b) const
	{
		const int fd = open(logs.path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
		EXPECT_EQ(pwrite(fd, b.data(), b.size(), 0), static_cast<ssize_t>(b.size()));
		close(fd);
	}

	FileLogs logs;
};

TEST_F(FileEngine, CutsATornEndOffWhenItOpens)
{
	stream_engine *e = logs.open();
	ASSERT_EQ(append(e, 1, filled(50, 1)), 0);
	ASSERT_EQ(append(e, 2, filled(70, 2)), 0);
	const off_t two = logs.length();
	ASSERT_EQ(append(e, 3, filled(90, 3)), 0);
	e->ops->close(e);
	const Bytes whole = content();
	for (size_t n = 0; n <= whole.size(); n++) {
		Bytes torn(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n));
		for (int zeros = 0; zeros < 2; zeros++) {
			write(torn);
			e = logs.open();
			ASSERT_NE(e, nullptr);
			const uint64_t there = end_of(e);
			EXPECT_GE(there, n >= static_cast<size_t>(two) ? 2u : 0u) << n;
			for (unsigned k = 0; k < there; k++)
				EXPECT_EQ(read(e, k), filled(50 + 20 * k, k + 1)) << n;
			ASSERT_EQ(append(e, 4, filled(20, 9)), 0);
			EXPECT_EQ(read(e, there), filled(20, 9));
			EXPECT_EQ(read(e, there + 1), Bytes());
			e->ops->close(e);
			/* As a failure of power leaves it: it has its length, but not all bytes. */
			torn.resize(n < 16 ? n : whole.size());
		}
	}
}

/* A process dies in an append while this one has the log open. */
TEST_F(FileEngine, CutsATornEndOffWhenItAppends)
{
	stream_engine *e = logs.open();
	ASSERT_EQ(append(e, 1, filled(50, 1)), 0);
	ASSERT_EQ(append(e, 2, filled(500, 2)), 0);
	EXPECT_EQ(read(e, 1), filled(500, 2));
	ASSERT_EQ(append(e, 3, filled(500, 3)), 0);
	stream_engine *other = logs.open();
	Bytes torn = content();
	torn.resize(torn.size() - 200);
	/* Without the end: as if its writer had not come further.  `other` has not read it. */
	e->ops->close(e);
	other->ops->close(other);
	write(torn);
	e = logs.open();
	const Bytes sound = content();
	Bytes more = sound;
	more.insert(more.end(), torn.end() - 300, torn.end());
	const int fd = open(logs.path.c_str(), O_RDWR);
	ASSERT_EQ(pwrite(fd, more.data(), more.size(), 0), static_cast<ssize_t>(more.size()));
	close(fd);
	EXPECT_EQ(end_of(e), 2u);
	EXPECT_EQ(read(e, 2), Bytes());
	ASSERT_EQ(append(e, 4, filled(10, 4)), 0);
	EXPECT_EQ(read(e, 2), filled(10, 4));
	EXPECT_EQ(content().size(), sound.size() + 32);
	e->ops->close(e);
}

TEST_F(FileEngine, RefusesAnotherFile)
{
	write(filled(1000, 1));
	stream_engine *e;
	EXPECT_EQ(engine_file_open(logs.path.c_str(), &e), FUR_ENOTHEAP);
	EXPECT_EQ(e, nullptr);
	EXPECT_NE(strstr(fur_errormsg(), logs.path.c_str()), nullptr);
	EXPECT_EQ(content(), filled(1000, 1)) << "it is left alone";
	EXPECT_LT(engine_file_open("/nowhere/log", &e), 0);
}

TEST_F(FileEngine, RefusesWhatItCannotTake)
{
	stream_engine *e = logs.open();
	EXPECT_EQ(append(e, 1, Bytes((1 << 20) + 1)), FUR_ETOOBIG);
	ASSERT_EQ(append(e, 2, Bytes(1 << 20)), 0);
	for (uint64_t k = 1; k < 64; k++)
		ASSERT_EQ(append(e, 2 + k, {}), 0);
	EXPECT_EQ(append(e, 100, {}), FUR_EBUSY);
	engine_ack acks[64];
	EXPECT_EQ(e->ops->poll(e, acks, 64, 0), 64);
	EXPECT_EQ(append(e, 100, {}), 0);
	e->ops->close(e);
}

/* Three processes append; a fourth is killed again and again while it does. */
TEST_F(FileEngine, ProcessesAppendBesideEachOther)
{
	enum { PROCESSES = 3, EACH = 200 };
	const auto append_all = [this](unsigned who, unsigned n) {
		stream_engine *e;
		if (engine_file_open(logs.path.c_str(), &e))
			_exit(1);
		engine_ack acks[64];
		for (unsigned k = 0; k < n; k++) {
			Bytes m = filled(40 + k % 400, who);
			m[0] = static_cast<uint8_t>(who);
			memcpy(&m[4], &k, sizeof k);
			if (append(e, k + 1, m) || e->ops->poll(e, acks, 64, 0) != 1)
				_exit(1);
		}
		_exit(0);
	};
	std::vector<pid_t> children;
	for (unsigned who = 0; who < PROCESSES; who++) {
		children.push_back(fork());
		if (children.back() == 0)
			append_all(who, EACH);
	}
	for (int k = 0; k < 10; k++) {
		const pid_t victim = fork();
		if (victim == 0)
			append_all(PROCESSES, 1000000);
		usleep(3000);
		kill(victim, SIGKILL);
		waitpid(victim, nullptr, 0);
	}
	for (pid_t child : children) {
		int status;
		ASSERT_EQ(waitpid(child, &status, 0), child);
		EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	stream_engine *e = logs.open();
	unsigned next[PROCESSES] = {};
	for (uint64_t at = 0; at < end_of(e); at++) {
		const Bytes m = read(e, at);
		ASSERT_GE(m.size(), 40u);
		unsigned k;
		memcpy(&k, &m[4], sizeof k);
		if (m[0] >= PROCESSES)
			continue;
		EXPECT_EQ(k, next[m[0]]++);
		EXPECT_EQ(m.size(), 40 + k % 400);
	}
	for (unsigned n : next)
		EXPECT_EQ(n, unsigned(EACH));
	e->ops->close(e);
}

} // namespace
