/* SPDX-License-Identifier: BSD-3-Clause
 *
 * log_test.cpp - fur_options.log: each event is reported once, with the facts, and at a time when
 * another thread can use the heap.
 */
#include "fixture.hpp"
#include "internals.hpp"

#include <atomic>
#include <mutex>
#include <sys/mman.h>
#include <thread>

namespace
{

struct Line {
	enum fur_log_level level;
	std::string text;
};

class Log : public HeapFile
{
protected:
	fur::Options options()
	{
		fur::Options o = small_options();
		o.htm = FUR_HTM_NONE;
		o.log = [](enum fur_log_level level, const char *message, void *self) {
			auto *log = static_cast<Log *>(self);
			if (log->meanwhile_)
				log->meanwhile_();
			std::lock_guard<std::mutex> hold(log->mutex_);
			log->lines_.push_back({level, message});
		};
		o.log_arg = this;
		return o;
	}
	/* The lines so far. */
	std::vector<Line> lines()
	{
		std::lock_guard<std::mutex> hold(mutex_);
		return std::exchange(lines_, {});
	}
	void expect(enum fur_log_level level, std::initializer_list<std::string> parts)
	{
		std::vector<Line> all = lines();
		ASSERT_EQ(all.size(), 1u);
		EXPECT_EQ(all[0].level, level);
		EXPECT_EQ(all[0].text.find('\n'), std::string::npos);
		for (const std::string &part : parts)
			EXPECT_NE(all[0].text.find(part), std::string::npos) << all[0].text;
	}
	static void update(fur_thread *t)
	{
		fur::update(t, [&](fur_update *tx) { fur_set_root(tx, 0, tx); });
	}
	static void fill_ring(fur_thread *t)
	{
		for (uint64_t k = 0; k < 2 * small_options().ring_slots; k++)
			update(t);
	}
	/* While the library reports, another thread updates the heap. */
	void update_meanwhile(fur::Heap &heap)
	{
		meanwhile_ = [&] {
			std::thread([&] {
				fur::Thread other(heap);
				update(other);
				updated_meanwhile_++;
			}).join();
		};
	}

	/* Replay as a replayer does, which also has the file open. */
	void replay_beside()
	{
		struct heap_file file = {};
		struct durability d = {};
		fur::Options o = small_options();
		char reason[160];
		ASSERT_EQ(heap_open_file(path_.c_str(), HEAP_LOCK_NONE, &file), 0);
		ASSERT_EQ(heap_attach(&d, &file, &o, reason, sizeof reason), 0);
		d.replays_for_worker = true;
		ASSERT_EQ(control_take(&d), 0) << fur_errormsg();
		EXPECT_EQ(replay_live(&d), 0) << fur_errormsg();
		EXPECT_EQ(control_give_back(&d), 0);
		durability_detach(&d);
		heap_close_file(&file);
	}

	std::function<void()> meanwhile_;
	std::atomic<int> updated_meanwhile_{0};

private:
	std::mutex mutex_;
	std::vector<Line> lines_;
};

TEST_F(Log, Open_TellsBackEndAndDomain)
{
	fur::Heap heap = create(options());
	fur_info i = heap.info();
	expect(FUR_LOG_INFO,
	        {"htm none: ", i.htm_reason, "isolation opacity", "pm emulated: ", i.pm_reason});
	{
		fur::Thread t(heap);
		update(t);
	}
	heap.close();
	EXPECT_TRUE(lines().empty()) << "nothing happened";
	heap = open(options());
	expect(FUR_LOG_INFO, {"htm none: "});
}

TEST_F(Log, Recovery_IsReported)
{
	create().close();
	in_killed_child([&] {
		fur::Options o = small_options();
		fur_heap *heap;
		fur_thread *t;
		ASSERT_EQ(fur_open(path_.c_str(), &o, &heap), 0) << fur_errormsg();
		ASSERT_EQ(fur_thread_register(heap, nullptr, &t), 0);
		for (int k = 0; k < 7; k++)
			update(t);
	});
	fur::Heap heap = open(options());
	std::vector<Line> all = lines();
	ASSERT_EQ(all.size(), 2u);
	EXPECT_EQ(all[0].level, FUR_LOG_INFO);
	EXPECT_EQ(all[1].level, FUR_LOG_WARNING);
	EXPECT_EQ(all[1].text.find("the heap had not been closed: replayed 7 updates in "), 0u)
	        << all[1].text;
	EXPECT_NE(all[1].text.find("dropped 0 that"), std::string::npos) << all[1].text;
	EXPECT_NE(all[1].text.find("found 0 that had not finished"), std::string::npos)
	        << all[1].text;
}

TEST_F(Log, Open_ThatIsRefused_ReportsNothing)
{
	create().close();
	flip_bit(50, 0);
	flip_bit(60, 0);
	EXPECT_NE(open_result(options()), 0);
	EXPECT_TRUE(lines().empty()) << "the result tells";
}

TEST_F(Log, Failure_IsReportedOnce_WithItsCause)
{
	static const struct durability_ops failing = {
	        [](struct durability *) { return fur_fail(FUR_EIO, "the test's disk is gone"); }};
	fur::Heap heap = create(options());
	lines();
	heap.get()->durability.ops = &failing;
	std::vector<std::thread> threads;
	std::atomic<int> failures{0};
	for (int k = 0; k < 3; k++)
		threads.emplace_back([&] {
			fur::Thread t(heap);
			try {
				fill_ring(t);
			} catch (const fur::Error &e) {
				failures += e.code() == FUR_EIO;
			}
		});
	for (std::thread &t : threads)
		t.join();
	EXPECT_EQ(failures, 3);
	expect(FUR_LOG_ERROR, {"the heap has failed", "the cause: the test's disk is gone"});
	EXPECT_THROW(heap.close(), fur::Error);
	EXPECT_TRUE(lines().empty()) << "it is known";
}

/* The first that meets the failure has an update that is rolled back. */
TEST_F(Log, Failure_InABody_IsReported)
{
	static const struct durability_ops failing = {
	        [](struct durability *) { return fur_fail(FUR_EIO, "the test's disk is gone"); }};
	fur::Heap heap = create(options());
	fur::Thread t(heap);
	lines();
	heap.get()->durability.ops = &failing;
	std::vector<char> bytes(2000);
	auto write = [&] {
		fur::update(t, [&](fur_update *tx) {
			if (void *p = fur_alloc(tx, bytes.size()))
				fur_write(tx, p, bytes.data(), bytes.size());
		});
	};
	EXPECT_THROW(
	        {
		        for (int k = 0; k < 4; k++)
			        write();
	        },
	        fur::Error);
	expect(FUR_LOG_ERROR, {"the test's disk is gone"});
}

TEST_F(Log, LongReader_IsReportedWhenTheUpdateHasEnded)
{
	std::atomic<bool> reading{false}, reported{false};
	fur::Options o = options();
	o.reader_report_ns = 1000000;
	o.reader_report = [](const fur_reader_report *, void *arg) {
		*static_cast<std::atomic<bool> *>(arg) = true;
	};
	o.reader_report_arg = &reported;
	fur::Heap heap = create(o);
	lines();
	std::thread reader([&] {
		fur::Thread t(heap);
		fur::read(t, [&](fur_ro *) {
			reading = true;
			while (!reported)
				usleep(1000);
			EXPECT_TRUE(lines().empty()) << "the update still waits";
		});
	});
	while (!reading)
		std::this_thread::yield();
	fur::Thread t(heap);
	update_meanwhile(heap);
	update(t);
	reader.join();
	EXPECT_EQ(updated_meanwhile_, 1) << "the turn was free when the library reported";
	expect(FUR_LOG_WARNING,
	        {"transaction of thread 0 ",
	                "for " + std::to_string(heap.stats().longest_reader_ns / 1000000) + " ms"});
}

TEST_F(Log, AReplayerThatIsSilent_AndAnswers)
{
	fur::Heap heap = create(options());
	fur::Thread t(heap);
	lines();
	struct durability &d = heap.get()->durability;
	int fd = ::open(path_.c_str(), O_RDWR);
	ASSERT_EQ(heap_lock_try(fd, HEAP_LOCK_REPLAYER), 0);
	d.control->replayer_pid = 4711;
	update_meanwhile(heap);
	fill_ring(t);
	EXPECT_EQ(updated_meanwhile_, 1);
	meanwhile_ = nullptr;
	expect(FUR_LOG_WARNING, {"the replayer (process 4711) does not answer"});
	replay_beside();
	struct arch_backoff backoff = {};
	ASSERT_EQ(durability_replay(&d, &backoff), 0) << fur_errormsg();
	update(t);
	expect(FUR_LOG_INFO, {"the replayer answers again"});
	/* It dies. */
	close(fd);
	fill_ring(t);
	expect(FUR_LOG_WARNING, {"the replayer (process 4711) has died"});
	fill_ring(t);
	EXPECT_TRUE(lines().empty()) << "once for each replayer";
	d.control->replayer_pid = 4712;
	fill_ring(t);
	expect(FUR_LOG_WARNING, {"the replayer (process 4712) has died"});
}

fur::Options with_limit_of_pages(fur::Options o)
{
	o.heap_bytes = 32 << 20;
	o.log_bytes = 1 << 16;
	o.dram_bytes = 4 << 20;
	return o;
}
void store_to_four_pages(fur_thread *t)
{
	fur::update(t, [](fur_update *tx) {
		if (auto *p = static_cast<uint64_t *>(fur_alloc(tx, 16384)))
			for (int page = 0; page < 4; page++)
				fur_store(tx, &p[page * 512], 1);
	});
}

/* Both callbacks of after_update work together. */
TEST_F(Log, AlongsideALimitOfPages)
{
	fur::Heap heap = create(with_limit_of_pages(options()));
	fur::Thread t(heap);
	lines();
	for (int k = 0; k < 2000 && !heap.stats().times_handed_back; k++)
		store_to_four_pages(t);
	EXPECT_GT(heap.stats().times_handed_back, 0u);
	durability_note(&heap.get()->durability, EVENT_REPLAYER_ANSWERS);
	update(t);
	expect(FUR_LOG_INFO, {"the replayer answers again"});
}

/* One locked page is enough: the kernel refuses to take the range back. */
TEST_F(Log, LimitOfPagesWithLockedMemory_IsReportedOnce)
{
	fur::Heap heap = create(with_limit_of_pages(options()));
	fur::Thread t(heap);
	if (mlock(heap_base(heap), 4096))
		GTEST_SKIP() << "this process may lock no memory";
	lines();
	for (int k = 0; k < 1500; k++)
		store_to_four_pages(t);
	EXPECT_EQ(heap.stats().times_handed_back, 0u);
	expect(FUR_LOG_WARNING, {"dram_bytes has no effect", "mlock", "unlock them"});
}

TEST_F(Log, InAChildOfFork_NothingIsReported)
{
	fur::Heap heap = create(options());
	fur::Thread t(heap);
	lines();
	durability_note(&heap.get()->durability, EVENT_REPLAYER_ANSWERS);
	in_killed_child([&] {
		EXPECT_THROW(update(t), fur::Error);
		heap.close();
		EXPECT_TRUE(lines().empty());
	});
	update(t);
	expect(FUR_LOG_INFO, {"the replayer answers again"});
}

TEST(LogLevels, HaveNames)
{
	EXPECT_STREQ(fur_name(FUR_NAME_LOG_LEVEL, FUR_LOG_INFO), "info");
	EXPECT_STREQ(fur_name(FUR_NAME_LOG_LEVEL, FUR_LOG_WARNING), "warning");
	EXPECT_STREQ(fur_name(FUR_NAME_LOG_LEVEL, FUR_LOG_ERROR), "error");
	EXPECT_STREQ(fur_name(FUR_NAME_LOG_LEVEL, static_cast<enum fur_log_level>(3)), "?");
}

} // namespace
