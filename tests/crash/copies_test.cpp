/* SPDX-License-Identifier: BSD-3-Clause
 *
 * copies_test.cpp - copies of a heap in memory (fur_open_copy, fur_scan) while the program
 * that updates it, the process that reads it, and a fur-replayer are killed at random instants:
 * each copy has what was acknowledged, and is of one piece; and so has the heap afterwards.
 *
 *     FUR_REPLAYER=PATH [FUR_TEST_SEED=N] copies-test
 */
#include "../unit/api/scanned.hpp"

#include <csignal>
#include <random>

namespace
{

class Copies : public HeapFile
{
protected:
	enum { ROUNDS = 12, MOST_MS = 400 };

	/* What the processes tell the test, in shared memory. */
	struct Told {
		Scanned::Acknowledged acknowledged;
		std::atomic<uint64_t> copies, scans, wrong;
		char message[512];
	};

	Copies()
	{
		void *p = mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE,
		        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		told_ = p == MAP_FAILED ? nullptr : new (p) Told{};
		const char *seed = getenv("FUR_TEST_SEED");
		random_.seed(seed ? std::stoul(seed) : 1);
	}
	~Copies() override
	{
		munmap(told_, sizeof *told_);
	}

	void wrong(const char *where, int what)
	{
		snprintf(told_->message, sizeof told_->message, "%s: wrong %d, or: %s", where, what,
		        fur_errormsg());
		told_->wrong++;
	}
	template <class Work>
	pid_t start(Work &&work)
	{
		const pid_t child = fork();
		if (child == 0) {
			try {
				work();
			} catch (const std::exception &e) {
				wrong(e.what(), 0);
			}
			_exit(0);
		}
		return child;
	}

	/* Update, and scan, until killed. */
	void work_and_scan()
	{
		fur::Options o = Scanned::options();
		o.max_threads = 8;
		fur::Heap heap = open(o);
		if (int what = Scanned::check(heap, now(&told_->acknowledged)))
			wrong("the heap", what);
		std::vector<std::thread> all = Scanned::start(heap, &told_->acknowledged);
		for (;;) {
			const std::vector<uint64_t> least = now(&told_->acknowledged);
			const int what = heap.scan(
			        [&](const fur::Heap &copy) { return Scanned::check(copy, least); });
			if (what)
				wrong("a scan", what);
			told_->scans++;
		}
	}
	/* Open the heap read-only, again and again, until killed. */
	void read()
	{
		for (;;)
			read_once();
	}
	void read_once()
	{
		const std::vector<uint64_t> least = now(&told_->acknowledged);
		fur::Heap copy = fur::Heap::open_copy(path_, small_options());
		if (int what = Scanned::check(copy, least))
			wrong("a copy", what);
		copy.close();
		told_->copies++;
	}
	pid_t start_replayer() const
	{
		const char *replayer = getenv("FUR_REPLAYER");
		const pid_t child = fork();
		if (child == 0) {
			execl(replayer, replayer, "--quiet", "--heap", path_.c_str(), nullptr);
			_exit(127);
		}
		return child;
	}
	static void end(pid_t child)
	{
		kill(child, SIGKILL);
		EXPECT_EQ(waitpid(child, nullptr, 0), child);
	}
	bool chance()
	{
		return random_() & 1;
	}

	Told *told_ = nullptr;
	std::mt19937_64 random_;
};

TEST_F(Copies, WhileProcessesAreKilled_ShowWhatWasAcknowledged)
{
	{
		fur::Options o = Scanned::options();
		o.max_threads = 8;
		fur::Heap heap = create(o);
		Scanned::fill(heap);
		heap.close();
	}
	ASSERT_NE(getenv("FUR_REPLAYER"), nullptr);
	for (int k = 0; k < ROUNDS && !told_->wrong; k++) {
		const pid_t replayer = chance() ? start_replayer() : 0;
		const pid_t worker = start([&] { work_and_scan(); });
		const pid_t reader = start([&] { read(); });
		usleep(static_cast<useconds_t>(random_() % (MOST_MS * 1000)));
		/* One dies, and the others meet what it left behind. */
		const bool reader_first = chance();
		end(reader_first ? reader : worker);
		if (chance())
			usleep(static_cast<useconds_t>(random_() % (MOST_MS * 500)));
		end(reader_first ? worker : reader);
		/* The log is as the kill left it, or the replayer is recovering it. */
		EXPECT_EQ(waitpid(start([&] { read_once(); }), nullptr, 0) > 0, true);
		if (replayer)
			end(replayer);
	}
	EXPECT_EQ(told_->wrong, 0u) << told_->message;
	EXPECT_GT(told_->copies, +ROUNDS) << "no copies beside a program";
	EXPECT_GT(told_->scans, 0u);
	fur::Heap heap = open();
	EXPECT_EQ(Scanned::check(heap, now(&told_->acknowledged)), 0);
	heap.close();
}

} // namespace
