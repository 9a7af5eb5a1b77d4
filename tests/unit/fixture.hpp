/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fixture.hpp - a heap file of its own for each test, and ways to hurt it.
 */
#ifndef FIXTURE_HPP
#define FIXTURE_HPP

#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <fur.hpp>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

/* Rounds of a loop that does the same work again.  A sanitizer makes each many times as long, and
 * sees what it is for in a few. */
template <class T>
constexpr T rounds(T n)
{
#ifdef __SANITIZE_ADDRESS__
	return n / 5;
#else
	return n;
#endif
}

/* FUR_TEST_SEED, which tools/nightly.py sets; always the same one without it. */
inline uint64_t seed_of_run()
{
	const char *given = getenv("FUR_TEST_SEED");
	return given ? strtoull(given, nullptr, 0) : 1;
}

/* Small, so that logs and rings wrap and fill. */
inline fur::Options small_options()
{
	fur::Options o;
	o.heap_bytes = 2 << 20;
	o.log_bytes = 4096;
	o.ring_slots = 64;
	o.max_threads = 4;
	o.pm = FUR_PM_EMULATED;
	return o;
}

/* A block of `bytes` bytes, all of this value, in root 0. */
inline uint8_t *block_in_root(fur_thread *self, size_t bytes, uint8_t value)
{
	return fur::update(self, [&](fur_update *tx) {
		auto *p = static_cast<uint8_t *>(fur_alloc(tx, bytes));
		std::vector<uint8_t> all(bytes, value);
		fur_write(tx, p, all.data(), bytes);
		fur_set_root(tx, 0, p);
		return p;
	});
}

/* Run `work` in a child; a child that hangs is killed. */
template <class Work>
void run_in_child(Work &&work, pid_t (*make_child)() = fork)
{
	pid_t child = make_child();
	ASSERT_GE(child, 0);
	if (child == 0) {
		alarm(60);
		work();
		_exit(::testing::Test::HasFailure() ? 1 : 0);
	}
	int status;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_TRUE(WIFEXITED(status))
	        << "the child died of signal " << WTERMSIG(status) << " (SIGALRM: it hung)";
	EXPECT_EQ(WEXITSTATUS(status), 0) << "the child failed";
}

/* A variable of the environment as a test sets it; afterwards as this program was started with. */
class Environment
{
public:
	/* `value`: null to unset it */
	Environment(const char *name, const char *value) : name_(name)
	{
		if (const char *now = getenv(name))
			before_ = now;
		set(value);
	}
	~Environment()
	{
		set(before_ ? before_->c_str() : nullptr);
	}
	void set(const char *value)
	{
		if (value)
			setenv(name_, value, 1);
		else
			unsetenv(name_);
	}
	Environment(const Environment &) = delete;

private:
	const char *name_;
	std::optional<std::string> before_;
};

class HeapFile : public ::testing::Test
{
protected:
	HeapFile()
	{
		static int n;
		const char *place = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
		path_ = std::string(place) + "/fur-test-" + std::to_string(getpid()) + "-" +
		        std::to_string(n++);
		unlink(path_.c_str());
	}
	~HeapFile() override
	{
		unlink(path_.c_str());
	}

	fur::Heap create(const fur_options &o = small_options())
	{
		return fur::Heap::create(path_, o);
	}
	fur::Heap open(const fur_options &o = small_options())
	{
		return fur::Heap::open(path_, o);
	}

	/* Run `work` in a child that ends without closing anything, as after a kill. */
	template <class Work>
	void in_killed_child(Work &&work)
	{
		pid_t child = fork();
		ASSERT_GE(child, 0);
		if (child == 0) {
			try {
				work();
			} catch (const std::exception &e) {
				fprintf(stderr, "child: %s\n", e.what());
				_exit(1);
			}
			_exit(::testing::Test::HasFailure() ? 1 : 0);
		}
		int status;
		waitpid(child, &status, 0);
		ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the child failed";
	}

	std::string bytes() const
	{
		std::ifstream in(path_, std::ios::binary | std::ios::ate);
		std::string all(in ? static_cast<size_t>(in.tellg()) : 0, '\0');
		in.seekg(0);
		in.read(all.data(), static_cast<std::streamsize>(all.size()));
		return all;
	}
	void write_bytes(const std::string &all) const
	{
		std::ofstream out(path_, std::ios::binary | std::ios::trunc);
		out.write(all.data(), static_cast<std::streamsize>(all.size()));
	}
	/* Overwrite part of the file. */
	void poke(uint64_t offset, const void *from, size_t n) const
	{
		int fd = ::open(path_.c_str(), O_RDWR);
		ASSERT_EQ(pwrite(fd, from, n, static_cast<off_t>(offset)), static_cast<ssize_t>(n));
		close(fd);
	}
	void flip_bit(uint64_t offset, unsigned bit) const
	{
		int fd = ::open(path_.c_str(), O_RDWR);
		unsigned char byte;
		ASSERT_EQ(pread(fd, &byte, 1, static_cast<off_t>(offset)), 1);
		byte = static_cast<unsigned char>(byte ^ 1u << bit);
		ASSERT_EQ(pwrite(fd, &byte, 1, static_cast<off_t>(offset)), 1);
		close(fd);
	}
	/* The result of opening the file; a heap that opened is closed. */
	int open_result(const fur_options &o = small_options())
	{
		fur_heap *heap;
		int result = fur_open(path_.c_str(), &o, &heap);
		if (result == 0) {
			EXPECT_EQ(fur_close(heap), 0);
		}
		return result;
	}
	/* A refusal: the code, a message that names the file and a remedy, and no change. */
	void expect_refused(int code)
	{
		std::string before = bytes();
		EXPECT_EQ(open_result(), code) << fur_errormsg();
		EXPECT_NE(std::string(fur_errormsg()).find(path_), std::string::npos)
		        << fur_errormsg();
		EXPECT_NE(
		        std::string(fur_errormsg()).find(": ", path_.size() + 2), std::string::npos)
		        << "no remedy: " << fur_errormsg();
		EXPECT_TRUE(bytes() == before) << "a refused file was changed";
	}

	std::string path_;
};

/* The heap open, and this thread registered. */
class OpenHeap : public HeapFile
{
protected:
	explicit OpenHeap(const fur_options &o = small_options()) : heap_(create(o)), self_(heap_)
	{
	}

	/* A zeroed block, kept in root 0. */
	uint64_t *block(size_t words = 64)
	{
		return fur::update(self_, [&](fur_update *tx) {
			auto *p = static_cast<uint64_t *>(fur_alloc(tx, words * 8));
			std::vector<uint64_t> zero(words);
			fur_write(tx, p, zero.data(), words * 8);
			fur_set_root(tx, 0, p);
			return p;
		});
	}
	fur_update *begin()
	{
		fur_update *tx;
		EXPECT_EQ(fur_begin_update(self_, &tx), 0) << fur_errormsg();
		return tx;
	}
	fur_update *join()
	{
		fur_update *tx;
		EXPECT_EQ(fur_join_update(self_, &tx), 0) << fur_errormsg();
		return tx;
	}
	fur_ro *begin_ro()
	{
		fur_ro *tx;
		EXPECT_EQ(fur_begin_ro(self_, &tx), 0) << fur_errormsg();
		return tx;
	}
	fur_ro *join_ro()
	{
		fur_ro *tx;
		EXPECT_EQ(fur_join_ro(self_, &tx), 0) << fur_errormsg();
		return tx;
	}

	fur::Heap heap_;
	fur::Thread self_;
};

#endif /* FIXTURE_HPP */
