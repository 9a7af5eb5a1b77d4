/* SPDX-License-Identifier: BSD-3-Clause
 *
 * scan_test.cpp - fur_scan: the scan sees the heap as of one instant, updates go on, and whatever
 * ends the scan's process leaves the heap as it was.
 */
#include "internals.hpp"
#include "scanned.hpp"

#include <csignal>
#include <sys/resource.h>

namespace
{

class Scan : public HeapFile
{
protected:
	Scan() : heap_(create(Scanned::options())), self_(heap_)
	{
		Scanned::fill(heap_);
	}
	~Scan() override
	{
		munmap(acknowledged_, sizeof *acknowledged_);
	}
	void add(uint64_t n)
	{
		for (uint64_t k = 0; k < n; k++)
			Scanned::add(self_, 0, k);
	}
	uint64_t sum() const
	{
		return static_cast<Scanned *>(root_at_rest(heap_, 0))->counters_sum;
	}
	/* The heap goes on: an update, and a scan that shows it. */
	void expect_usable()
	{
		add(1);
		const uint64_t expected = sum();
		EXPECT_EQ(heap_.scan([&](const fur::Heap &copy) {
			return static_cast<Scanned *>(root_at_rest(copy, 0))->counters_sum ==
			                       expected
			               ? 42
			               : 0;
		}),
		        42);
	}
	static int any(fur_heap *, void *)
	{
		return 0;
	}
	int refused_result()
	{
		int result = 77, error = fur_scan(heap_, any, nullptr, &result);
		EXPECT_EQ(result, 77);
		return error;
	}

	fur::Heap heap_;
	fur::Thread self_;
	Scanned::Acknowledged *acknowledged_ = Scanned::shared();
};

/* With a ring of 64 slots, replays run all the time. */
class ScanUnderLoad : public HeapFile, public ::testing::WithParamInterface<fur_pm>
{
};

TEST_P(ScanUnderLoad, EachSeesWhatWasAcknowledged_AndIsOfOnePiece)
{
	enum { SCANS = 12 };
	fur::Options o = Scanned::options();
	o.pm = GetParam();
	o.max_threads = 8;
	fur::Heap heap = create(o);
	Scanned::fill(heap);
	Scanned::Acknowledged *acknowledged = Scanned::shared();
	const uint64_t replays = heap.stats().replays;
	std::vector<std::thread> all = Scanned::start(heap, acknowledged);
	const std::vector<uint64_t> first = now(acknowledged);
	for (int k = 0; k < SCANS; k++) {
		const std::vector<uint64_t> least = now(acknowledged);
		EXPECT_EQ(heap.scan([&](const fur::Heap &copy) {
			return Scanned::check(copy, least);
		}),
		        0);
	}
	EXPECT_GT(heap.stats().replays - replays, 2u * SCANS);
	acknowledged->stop = true;
	for (std::thread &t : all)
		t.join();
	EXPECT_EQ(Scanned::check(heap, now(acknowledged)), 0);
	heap.close();
	munmap(acknowledged, sizeof *acknowledged);
}

INSTANTIATE_TEST_SUITE_P(Domains, ScanUnderLoad, ::testing::Values(FUR_PM_EMULATED, FUR_PM_SYNC),
        [](const auto &with) { return with.param == FUR_PM_SYNC ? "sync" : "emulated"; });

/* The scan sleeps until this thread has made more updates than ring and log hold. */
TEST_F(Scan, ThatSleeps_StopsNoUpdate_AndSeesNone)
{
	add(10);
	const uint64_t before = sum();
	std::atomic<uint64_t> &asleep = acknowledged_->by[0];
	int result = -1;
	std::thread scanner([&] {
		result = heap_.scan([&](const fur::Heap &copy) {
			asleep = 1;
			while (!acknowledged_->stop)
				usleep(1000);
			return static_cast<Scanned *>(root_at_rest(copy, 0))->counters_sum == before
			               ? Scanned::check(copy, {before, 0, 0})
			               : 9;
		});
	});
	while (!asleep)
		usleep(1000);
	add(1000);
	acknowledged_->stop = true;
	scanner.join();
	EXPECT_EQ(result, 0);
	EXPECT_EQ(sum(), before + 1000);
	heap_.close();
}

TEST_F(Scan, Updates_AreRefused_AndTheScanGoesOn)
{
	EXPECT_EQ(heap_.scan([](const fur::Heap &copy) {
		fur::Thread self(copy);
		fur_update *tx;
		if (fur_begin_update(self, &tx) != FUR_EREADONLY || tx)
			return 1;
		if (!std::string(fur_errormsg()).find(": "))
			return 2;
		if (fur_update_run(
		            self, [](fur_update *, void *) {}, nullptr, nullptr) != FUR_EREADONLY)
			return 3;
		return Scanned::check(copy, {0, 0, 0});
	}),
	        0);
	expect_usable();
	heap_.close();
}

TEST_F(Scan, ThatIsKilled_IsReported_AndTheHeapGoesOn)
{
	int result = 77;
	auto killed = [](fur_heap *, void *) { return raise(SIGKILL); };
	EXPECT_EQ(fur_scan(heap_, killed, nullptr, &result), FUR_ESYS);
	EXPECT_NE(std::string(fur_errormsg()).find("signal 9"), std::string::npos)
	        << fur_errormsg();
	auto exits = [](fur_heap *, void *) -> int { _exit(0); };
	EXPECT_EQ(fur_scan(heap_, exits, nullptr, &result), FUR_ESYS);
	EXPECT_NE(std::string(fur_errormsg()).find("not exit"), std::string::npos)
	        << fur_errormsg();
	EXPECT_EQ(result, 77);
	expect_usable();
	heap_.close();
}

TEST_F(Scan, OfAProgramThatIsKilled_EndsToo_AndTheHeapOpens)
{
	heap_.close();
	int ends[2];
	ASSERT_EQ(pipe(ends), 0);
	pid_t child = fork();
	if (child == 0) {
		fur::Heap heap = open(Scanned::options());
		fur::Thread self(heap);
		Scanned::add(self, 0, 0);
		acknowledged_->by[0] = 1;
		heap.scan([&](const fur::Heap &) {
			acknowledged_->by[1] = 1;
			for (;;)
				pause();
			return 0;
		});
		_exit(1);
	}
	while (!acknowledged_->by[1])
		usleep(1000);
	close(ends[1]);
	kill(child, SIGKILL);
	waitpid(child, nullptr, 0);
	/* The end of the pipe comes when the scan's process has also ended. */
	char byte;
	EXPECT_EQ(read(ends[0], &byte, 1), 0);
	close(ends[0]);
	fur::Heap heap = open(Scanned::options());
	EXPECT_EQ(Scanned::check(heap, now(acknowledged_)), 1) << "by[1] is no counter here";
	EXPECT_EQ(Scanned::check(heap, {1, 0, 0}), 0);
	heap.close();
}

TEST_F(Scan, WithSigchldIgnored_Returns)
{
	auto before = signal(SIGCHLD, SIG_IGN);
	expect_usable();
	signal(SIGCHLD, before);
	heap_.close();
}

TEST_F(Scan, BadArguments_AreRefused)
{
	int result;
	EXPECT_EQ(fur_scan(nullptr, any, nullptr, &result), FUR_EINVAL);
	EXPECT_EQ(fur_scan(heap_, nullptr, nullptr, &result), FUR_EINVAL);
	EXPECT_EQ(fur_scan(heap_, any, nullptr, nullptr), FUR_EINVAL);
	fur_ro *ro;
	ASSERT_EQ(fur_begin_ro(self_, &ro), 0);
	EXPECT_EQ(refused_result(), FUR_ENESTED);
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	in_killed_child([&] { EXPECT_EQ(refused_result(), FUR_EFORK); });
	expect_usable();
	heap_.close();
}

TEST_F(Scan, WithoutRoom_IsRefused_AndTheHeapGoesOn)
{
	rlimit before;
	getrlimit(RLIMIT_FSIZE, &before);
	const rlimit small = {1 << 20, before.rlim_max};
	setrlimit(RLIMIT_FSIZE, &small);
	EXPECT_EQ(refused_result(), FUR_ENOSPC);
	EXPECT_NE(std::string(fur_errormsg()).find("RLIMIT_FSIZE"), std::string::npos)
	        << fur_errormsg();
	setrlimit(RLIMIT_FSIZE, &before);
	expect_usable();
	heap_.close();
}

/* Only the child of fur_scan() is without the heap's pages. */
TEST_F(Scan, OtherForks_StillHaveTheHeapsPages)
{
	expect_usable();
	const uint64_t expected = sum();
	in_killed_child([&] { EXPECT_EQ(sum(), expected); });
	heap_.close();
}

/* A group of processes with a limit on memory, in the group of this one, or "". */
std::string limited_group(const std::string &name, const std::string &bytes)
{
	std::ifstream groups("/proc/self/cgroup");
	for (std::string line; std::getline(groups, line);) {
		const bool first = line.find(":memory:") != line.npos;
		if (!first && line.rfind("0::", 0) != 0)
			continue;
		const std::string mine = line.substr(line.rfind(':') + 1),
		                  top = first ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
		for (const std::string &above : {top + mine, top}) {
			const std::string group = above + "/" + name;
			if (mkdir(group.c_str(), 0700))
				continue;
			std::ofstream limit(
			        group + (first ? "/memory.limit_in_bytes" : "/memory.max"));
			if (limit << bytes << std::flush)
				return group;
			rmdir(group.c_str());
		}
	}
	return "";
}

/* As in a container: the kernel ends the scan, and not the program. */
TEST_F(Scan, WithoutMemory_IsEndedAndTheProgramGoesOn)
{
	fur::Options o = small_options();
	o.heap_bytes = 96 << 20;
	o.htm = FUR_HTM_NONE;
	unlink(path_.c_str()); /* the fixture's */
	{
		fur::Heap heap = fur::Heap::create(path_, o);
		fur::Thread self(heap);
		const std::string data(3000, 'x');
		for (int k = 0; k < 16000; k++)
			fur::update(self, [&](fur_update *tx) {
				fur_write(tx, fur_alloc(tx, 4096), data.data(), data.size());
			});
		heap.close();
	}
	const std::string group =
	        limited_group("fur-scan-" + std::to_string(getpid()), std::to_string(40 << 20));
	if (group.empty())
		GTEST_SKIP() << "this machine lets tests limit no memory";
	in_killed_child([&] {
		std::ofstream(group + "/cgroup.procs") << getpid() << std::flush;
		setenv("FUR_TUNE", "no-populate", 1);
		fur::Heap heap = fur::Heap::open(path_, o);
		int result = 1;
		EXPECT_NE(fur_scan(
		                  heap, [](fur_heap *, void *) { return 2; }, nullptr, &result),
		        0);
		EXPECT_NE(std::string(fur_errormsg()).find("memory"), std::string::npos)
		        << fur_errormsg();
		EXPECT_EQ(result, 1);
		fur::Thread self(heap);
		fur::update(self, [](fur_update *tx) { fur_set_root(tx, 1, fur_alloc(tx, 8)); });
		heap.close();
	});
	EXPECT_EQ(rmdir(group.c_str()), 0);
}

} // namespace
