/* SPDX-License-Identifier: BSD-3-Clause
 *
 * engine_test.cpp - what every stream engine must do (engine_checks.hpp), of a file and of the fake
 * one; the file engine's file.
 */
#include "engine_checks.hpp"
#include "engine_fake.hpp"

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

std::unique_ptr<Logs> logs_of(const std::string &engine)
{
	if (engine == "file")
		return std::make_unique<FileLogs>();
	return std::make_unique<FakeLogs>();
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
