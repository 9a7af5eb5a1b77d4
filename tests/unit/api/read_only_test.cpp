/* SPDX-License-Identifier: BSD-3-Clause
 *
 * read_only_test.cpp - fur_open_copy: each copy has what was durable, and a state that the
 * heap once had, whether a program works on the heap, has closed it, or was killed; a file that
 * fur_open() refuses is refused.
 */
#include "internals.hpp"
#include "scanned.hpp"

#include <csignal>
#include <sys/resource.h>

namespace
{

class ReadOnly : public HeapFile
{
protected:
	~ReadOnly() override
	{
		munmap(acknowledged_, sizeof *acknowledged_);
	}
	fur::Heap open_copy() const
	{
		return fur::Heap::open_copy(path_, small_options());
	}
	void make(uint64_t updates = 10)
	{
		fur::Heap heap = create(Scanned::options());
		Scanned::fill(heap);
		fur::Thread self(heap);
		for (uint64_t k = 0; k < updates; k++)
			Scanned::add(self, 0, k);
		heap.close();
	}
	/* A process that works on the heap, with THREADS threads, until it is killed. */
	pid_t start_worker(fur_pm pm)
	{
		pid_t child = fork();
		if (child == 0) {
			fur::Options o = Scanned::options();
			o.pm = pm;
			fur::Heap heap = create(o);
			Scanned::fill(heap);
			std::vector<std::thread> all = Scanned::start(heap, acknowledged_);
			for (std::thread &t : all)
				t.join();
			heap.close();
			_exit(0);
		}
		while (now(acknowledged_)[0] == 0)
			usleep(1000);
		return child;
	}
	static void end(pid_t child, int signal)
	{
		int status;
		if (signal)
			kill(child, signal);
		ASSERT_EQ(waitpid(child, &status, 0), child);
		ASSERT_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : 0, signal);
	}
	/* The file but for its control region, whose contents mean nothing now. */
	std::string lasting() const
	{
		std::string all = bytes();
		media_super s;
		memcpy(&s, all.data(), sizeof s);
		return all.replace(s.control_offset, s.control_bytes, s.control_bytes, '\0');
	}
	int result() const
	{
		fur_heap *heap;
		const fur::Options o = small_options();
		const int error = fur_open_copy(path_.c_str(), &o, &heap);
		EXPECT_EQ(error == 0, heap != nullptr);
		if (heap) {
			EXPECT_EQ(fur_close(heap), 0);
		}
		return error;
	}

	Scanned::Acknowledged *acknowledged_ = Scanned::shared();
};

class ReadOnlyUnderLoad : public ReadOnly, public ::testing::WithParamInterface<fur_pm>
{
};

TEST_P(ReadOnlyUnderLoad, EachSeesWhatWasAcknowledged_AlsoWhenTheProgramIsKilled)
{
	enum { COPIES = 12 };
	const pid_t worker = start_worker(GetParam());
	for (int k = 0; k < COPIES; k++) {
		const std::vector<uint64_t> least = now(acknowledged_);
		fur::Heap copy = open_copy();
		EXPECT_FALSE(copy.info().recovered);
		EXPECT_EQ(Scanned::check(copy, least), 0);
		const uint64_t sum = static_cast<Scanned *>(root_at_rest(copy, 0))->counters_sum,
		               goes_on = now(acknowledged_)[0];
		while (now(acknowledged_)[0] < goes_on + 10)
			usleep(1000);
		EXPECT_EQ(static_cast<Scanned *>(root_at_rest(copy, 0))->counters_sum, sum)
		        << "the copy changed";
		copy.close();
	}
	end(worker, SIGKILL);
	const std::string before = lasting();
	uint64_t sum;
	{
		fur::Heap copy = open_copy();
		EXPECT_TRUE(copy.info().recovered);
		EXPECT_EQ(Scanned::check(copy, now(acknowledged_)), 0);
		sum = static_cast<Scanned *>(root_at_rest(copy, 0))->counters_sum;
		copy.close();
	}
	EXPECT_TRUE(lasting() == before) << "the file was changed";
	fur::Heap heap = open();
	EXPECT_TRUE(heap.info().recovered);
	EXPECT_EQ(static_cast<Scanned *>(root_at_rest(heap, 0))->counters_sum, sum)
	        << "the copy was not what recovery makes";
	EXPECT_EQ(Scanned::check(heap, now(acknowledged_)), 0);
	heap.close();
}

INSTANTIATE_TEST_SUITE_P(Domains, ReadOnlyUnderLoad,
        ::testing::Values(FUR_PM_EMULATED, FUR_PM_SYNC),
        [](const auto &with) { return with.param == FUR_PM_SYNC ? "sync" : "emulated"; });

TEST_F(ReadOnly, AClosedHeap_IsShown_AndStaysAsItWas)
{
	make();
	const std::string before = lasting();
	fur::Heap copy = open_copy();
	EXPECT_FALSE(copy.info().recovered);
	EXPECT_EQ(Scanned::check(copy, {10, 0, 0}), 0);
	EXPECT_EQ(open_result(), FUR_EADDRESS) << "the heap and its copy in one process";
	fur::Thread self(copy);
	fur_update *tx;
	EXPECT_EQ(fur_begin_update(self, &tx), FUR_EREADONLY);
	EXPECT_EQ(tx, nullptr);
	EXPECT_NE(std::string(fur_errormsg()).find("read-only"), std::string::npos);
	EXPECT_EQ(copy.stats().update_commits, 0u);
	copy.close();
	EXPECT_TRUE(lasting() == before);
	EXPECT_EQ(open_result(), 0);
}

TEST_F(ReadOnly, ItsBackup_IsAHeapToWorkOn)
{
	make();
	const std::string to = path_ + ".copy";
	unlink(to.c_str());
	{
		fur::Heap copy = open_copy();
		copy.backup(to);
		copy.close();
	}
	struct stat original, made;
	ASSERT_EQ(stat(path_.c_str(), &original), 0);
	ASSERT_EQ(stat(to.c_str(), &made), 0);
	EXPECT_EQ(made.st_mode, original.st_mode);
	fur::Heap heap = fur::Heap::open(to, small_options());
	EXPECT_EQ(Scanned::check(heap, {10, 0, 0}), 0);
	fur::Thread self(heap);
	Scanned::add(self, 0, 0);
	EXPECT_EQ(static_cast<Scanned *>(root_at_rest(heap, 0))->counters_sum, 11u);
	heap.close();
	unlink(to.c_str());
}

TEST_F(ReadOnly, APlainStore_EndsTheProcess)
{
	make();
	fur::Heap copy = open_copy();
	const pid_t child = fork();
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		static_cast<Scanned *>(root_at_rest(copy, 0))->counters_sum = 1;
		_exit(0);
	}
	int status;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	copy.close();
}

TEST_F(ReadOnly, WhatFurOpenRefuses_IsRefusedAlike)
{
	const std::string none = path_ + ".none";
	fur_heap *heap;
	EXPECT_EQ(fur_open_copy(none.c_str(), nullptr, &heap), FUR_ENOENT);
	EXPECT_NE(std::string(fur_errormsg()).find(none), std::string::npos);
	EXPECT_EQ(fur_open_copy(nullptr, nullptr, &heap), FUR_EINVAL);
	EXPECT_EQ(fur_open_copy(path_.c_str(), nullptr, nullptr), FUR_EINVAL);
	make();
	const std::string whole = bytes();
	const auto refused = [&](const char *what, const std::string &file) {
		SCOPED_TRACE(what);
		write_bytes(file);
		const int expected = open_result();
		EXPECT_NE(expected, 0);
		write_bytes(file);
		EXPECT_EQ(result(), expected) << fur_errormsg();
		EXPECT_NE(std::string(fur_errormsg()).find(path_), std::string::npos)
		        << fur_errormsg();
	};
	media_super s;
	memcpy(&s, whole.data(), sizeof s);
	refused("empty", "");
	refused("foreign", std::string(whole.size(), 'x'));
	refused("truncated", whole.substr(0, whole.size() / 2));
	std::string bad = whole;
	bad[60]++;
	refused("superblock", bad);
	bad = whole;
	bad[s.heap_offset]++;
	refused("heap's magic", bad);
	bad = whole;
	bad[640]++, bad[768]++;
	refused("tail", bad);
	/* A claim of a replay beyond the tail: a copy taken from an open heap. */
	bad = whole;
	uint64_t tail;
	ASSERT_EQ(media_tail_decode(s.tail[0][0], &tail), 0);
	const uint64_t beyond = media_tail_encode(tail + 1);
	memcpy(&bad[s.heap_offset + s.heap_bytes], &beyond, sizeof beyond);
	refused("torn copy", bad);
	write_bytes(whole);
	EXPECT_EQ(result(), 0) << fur_errormsg();
}

TEST_F(ReadOnly, WithoutRoom_IsRefused)
{
	make();
	rlimit before;
	getrlimit(RLIMIT_FSIZE, &before);
	const rlimit small = {1 << 20, before.rlim_max};
	setrlimit(RLIMIT_FSIZE, &small);
	EXPECT_EQ(result(), FUR_ENOSPC);
	EXPECT_NE(std::string(fur_errormsg()).find("RLIMIT_FSIZE"), std::string::npos)
	        << fur_errormsg();
	setrlimit(RLIMIT_FSIZE, &before);
	EXPECT_EQ(result(), 0) << fur_errormsg();
}

} // namespace
