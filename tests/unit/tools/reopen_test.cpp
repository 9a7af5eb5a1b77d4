/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reopen_test.cpp - a heap opened a hundred times, and closed, left open or killed, leaks nothing:
 * no registration of a thread, no part of log, ring or heap, nothing of the process.
 */
#include "../../../tools/heap_check.hpp"
#include "fixture.hpp"
#include "internals.hpp"

#include <atomic>
#include <csignal>
#include <dirent.h>
#include <random>
#include <thread>

namespace
{

class Reopen : public HeapFile
{
protected:
	enum { THREADS = 4, CYCLES = 100 };
	struct Data {
		uint64_t *block[THREADS];
		uint64_t counter[THREADS];
	};

	/* As many threads as the heap allows; each replaces its block in `updates` updates. */
	static void work(fur::Heap &heap, uint64_t updates)
	{
		std::vector<std::thread> all;
		std::atomic<unsigned> here{0};
		for (unsigned t = 0; t < THREADS; t++)
			all.emplace_back([&, t] {
				fur::Thread self(heap);
				auto *data = static_cast<Data *>(root_at_rest(heap, 0));
				here++;
				while (here < THREADS) /* all registered at the same time */
					std::this_thread::yield();
				for (uint64_t k = 0; k < updates; k++)
					fur::update(self, [&](fur_update *tx) {
						uint64_t n = fur_load(tx, &data->counter[t]) + 1;
						fur_free(tx, fur_load(tx, &data->block[t]));
						auto *block = static_cast<uint64_t *>(fur_alloc(
						        tx, n % 5 == 0 ? 20000 : 40 + n % 3 * 100));
						if (!block)
							std::abort();
						fur_store(tx, block, n);
						fur_store(tx, &data->block[t], block);
						fur_store(tx, &data->counter[t], n);
					});
			});
		for (auto &t : all)
			t.join();
	}
	static void expect_no_thread_registered(fur::Heap &heap)
	{
		std::vector<std::thread> all;
		std::atomic<int> got{0}, refused{0};
		for (int t = 0; t < THREADS + 1; t++)
			all.emplace_back([&] {
				fur_thread *self;
				int result = fur_thread_register(heap, nullptr, &self);
				(result == 0 ? got : refused)++;
				EXPECT_TRUE(result == 0 || result == FUR_ETHREADS);
				while (got + refused < THREADS + 1)
					std::this_thread::yield();
			});
		for (auto &t : all)
			t.join();
		EXPECT_EQ(got, THREADS);
		EXPECT_EQ(refused, 1);
	}

	void work_and_be_killed(unsigned after_us)
	{
		pid_t child = fork();
		ASSERT_GE(child, 0);
		if (child == 0) {
			fur::Heap heap = open();
			work(heap, UINT64_MAX);
		}
		usleep(after_us);
		kill(child, SIGKILL);
		int status;
		ASSERT_EQ(waitpid(child, &status, 0), child);
		ASSERT_TRUE(WIFSIGNALED(status));
	}

	void make()
	{
		fur::Heap heap = create();
		fur::Thread self(heap);
		fur::update(self, [&](fur_update *tx) {
			auto *data = static_cast<Data *>(fur_alloc(tx, sizeof(Data)));
			Data zero = {};
			fur_write(tx, data, &zero, sizeof zero);
			fur_set_root(tx, 0, data);
		});
	}
	/* In two cycles of three a process leaves the heap open, at rest or killed at work. */
	bool leave_or_be_killed(int cycle)
	{
		if (cycle % 3 == 1)
			in_killed_child([&] { work(*new fur::Heap(open()), 1 + random_() % 30); });
		else if (cycle % 3 == 2)
			work_and_be_killed(static_cast<unsigned>(random_() % 8000));
		return cycle % 3 == 2;
	}
	void use_and_close()
	{
		fur::Heap heap = open();
		expect_no_thread_registered(heap);
		work(heap, 1 + random_() % 30);
		heap.close();
	}

	void expect_sound(bool killed) const
	{
		tools::Report left = check();
		EXPECT_TRUE(left.sound()) << left.problems.front().what;
		/* An update that had read from one in flight when the process was killed had not
		 * returned either. */
		for (const tools::Lost &l : left.lost)
			EXPECT_TRUE(!l.certain && killed) << l.why;
		EXPECT_LE(left.holes, uint64_t(THREADS));
	}
	/* No update, and no block but those that the threads have. */
	static void expect_empty(const tools::Report &closed)
	{
		EXPECT_TRUE(closed.sound()) << closed.problems.front().what;
		EXPECT_EQ(closed.state, "closed");
		EXPECT_EQ(closed.to_replay + closed.holes, 0u) << "log or ring not empty";
		ASSERT_TRUE(closed.census.has_value());
		EXPECT_EQ(closed.census->blocks, uint64_t(THREADS + 1));
	}
	uint64_t newest_tail() const
	{
		tools::HeapView view(path_, tools::Purpose::CHECK);
		uint64_t tail = 0;
		EXPECT_EQ(media_tail_decode(view.raw().tail[1][0], &tail), 0);
		return tail;
	}

	tools::Report check() const
	{
		tools::HeapView view(path_, tools::Purpose::CHECK);
		return tools::check_heap(view);
	}
	/* Open files, and mappings of the heap. */
	unsigned of_this_process() const
	{
		unsigned n = 0;
		if (DIR *d = opendir("/proc/self/fd")) {
			while (readdir(d))
				n++;
			closedir(d);
		}
		std::ifstream maps("/proc/self/maps");
		for (std::string line; std::getline(maps, line);)
			n += line.find(path_) != std::string::npos;
		return n;
	}

	std::mt19937_64 random_{1};
};

TEST_F(Reopen, AHundredTimes_LeaksNothing)
{
	make();
	uint64_t tail = 0, used_chunks = 0;
	unsigned own = 0;
	for (int cycle = 0; cycle < CYCLES && !HasFailure(); cycle++) {
		SCOPED_TRACE("cycle " + std::to_string(cycle));
		bool killed = leave_or_be_killed(cycle);
		expect_sound(killed);
		use_and_close();
		tools::Report closed = check();
		expect_empty(closed);
		uint64_t now = newest_tail();
		EXPECT_GT(now, tail);
		tail = now;
		/* Each size class keeps its chunks: after some cycles their number stays. */
		uint64_t used = closed.census->chunks - closed.census->free_chunks;
		if (cycle == 30) {
			used_chunks = used;
			own = of_this_process();
		} else if (cycle > 30) {
			EXPECT_LE(used, used_chunks + THREADS);
			EXPECT_EQ(of_this_process(), own);
		}
	}
}

} // namespace
