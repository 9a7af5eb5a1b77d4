/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cancel_test.cpp - no function of libfur is a cancellation point: a thread that is cancelled
 * leaves neither a lock behind, nor an update half begun.
 */
#include "fixture.hpp"
#include "internals.hpp"

#include <atomic>
#include <thread>

namespace
{

class Cancel : public HeapFile
{
protected:
	template <class Work>
	struct Run {
		Work &work;
		bool ended;
	};
	template <class Work>
	[[gnu::noinline]] static void run_to_its_end(Run<Work> *r)
	{
		pthread_cancel(pthread_self());
		r->work();
		r->ended = true;
	}
	/* Without variables: the address sanitizer does not see that a cancelled function's are
	 * gone. */
	template <class Work>
	static void *cancelled(void *argument)
	{
		run_to_its_end(static_cast<Run<Work> *>(argument));
		pthread_testcancel();
		return nullptr;
	}
	/* `work` in a thread with a cancellation pending; false: it acted inside `work`. */
	template <class Work>
	static bool comes_to_its_end(Work work)
	{
		Run<Work> run{work, false};
		pthread_t thread;
		EXPECT_EQ(pthread_create(&thread, nullptr, cancelled<Work>, &run), 0);
		void *result;
		pthread_join(thread, &result);
		EXPECT_EQ(result, PTHREAD_CANCELED) << "nothing was pending";
		return run.ended;
	}
};

TEST_F(Cancel, NoFunction_IsACancellationPoint)
{
	for (fur_pm pm : {FUR_PM_EMULATED, FUR_PM_SYNC}) {
		fur::Options o = small_options();
		o.pm = pm;
		fur_heap *heap = nullptr;
		EXPECT_TRUE(comes_to_its_end([&] {
			EXPECT_EQ(fur_create(path_.c_str(), &o, &heap), 0) << fur_errormsg();
		}));
		EXPECT_TRUE(comes_to_its_end([&] {
			fur_thread *self;
			fur_update *tx;
			fur_ro *ro;
			ASSERT_EQ(fur_thread_register(heap, nullptr, &self), 0);
			/* The log and the ring fill, and are replayed */
			for (int k = 0; k < 200; k++) {
				ASSERT_EQ(fur_begin_update(self, &tx), 0);
				void *p = fur_alloc(tx, 1000);
				char bytes[1000] = {};
				fur_write(tx, p, bytes, sizeof bytes);
				fur_free(tx, p);
				ASSERT_EQ(fur_commit(tx, nullptr), 0);
				ASSERT_EQ(fur_begin_ro(self, &ro), 0);
				ASSERT_EQ(fur_end_ro(ro, nullptr), 0);
			}
			ASSERT_EQ(fur_begin_update(self, &tx), 0);
			ASSERT_EQ(fur_abort(tx), FUR_EABORTED);
			ASSERT_EQ(fur_thread_unregister(self), 0);
		}));
		EXPECT_TRUE(
		        comes_to_its_end([&] { EXPECT_EQ(fur_close(heap), 0) << fur_errormsg(); }));
		EXPECT_TRUE(comes_to_its_end([&] {
			EXPECT_EQ(fur_open(path_.c_str(), &o, &heap), 0) << fur_errormsg();
		}));
		EXPECT_EQ(fur_close(heap), 0);
		unlink(path_.c_str());
	}
}

/* The limit is looked at by the update that has written enough; its thread has a cancellation
 * pending. */
TEST_F(Cancel, WhileThePageLimitIsChecked_TheLimitStays)
{
	fur::Options o = small_options();
	o.dram_bytes = 4096;
	o.log_bytes = 1 << 16;
	fur::Heap heap = create(o);
	fur::Thread self(heap);
	auto *p = static_cast<unsigned char *>(
	        fur::update(self, [&](fur_update *tx) { return fur_alloc(tx, 1 << 16); }));
	auto write_pages = [&](fur_thread *t) {
		fur_update *tx;
		ASSERT_EQ(fur_begin_update(t, &tx), 0);
		for (int k = 0; k < 16; k++)
			fur_store(tx, p + k * 4096, static_cast<unsigned char>(k));
		ASSERT_EQ(fur_commit(tx, nullptr), 0) << fur_errormsg();
	};
	EXPECT_TRUE(comes_to_its_end([&] {
		fur_thread *t;
		ASSERT_EQ(fur_thread_register(heap, nullptr, &t), 0);
		write_pages(t);
	}));
	uint64_t before = heap.stats().times_handed_back;
	write_pages(self);
	EXPECT_GT(heap.stats().times_handed_back, before)
	        << "no thread looks at the limit any more";
}

struct Writer {
	fur_heap *heap;
	uint64_t *words;
	std::atomic<bool> *first, *reading;
};

/* Stores 1 and commits; stores 2 and commits while another thread reads, with a cancellation
 * pending; then leaves an update open. */
[[gnu::noinline]] void write_twice(const Writer *w)
{
	fur_thread *t;
	fur_update *tx;
	int cancel;
	fur::check(fur_thread_register(w->heap, nullptr, &t));
	fur::check(fur_begin_update(t, &tx));
	fur_store(tx, &w->words[0], uint64_t(1));
	fur::check(fur_commit(tx, nullptr));
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	*w->first = true;
	while (!*w->reading)
		usleep(1000);
	pthread_setcancelstate(cancel, &cancel);
	pthread_cancel(pthread_self());
	fur::check(fur_begin_update(t, &tx));
	fur_store(tx, &w->words[0], uint64_t(2));
	fur::check(fur_commit(tx, nullptr)); /* waits for the reader, and reports it */
	fur::check(fur_begin_update(t, &tx));
	fur_store(tx, &w->words[0], uint64_t(3));
}

/* Without variables, as cancelled(). */
void *cancelled_writer(void *writer)
{
	write_twice(static_cast<const Writer *>(writer));
	pthread_testcancel(); /* here: inside an open update, which is rolled back */
	return nullptr;
}

/* A thread cancelled in a function that the callback calls would roll back an update of which a
 * part is published, and would give away a turn that another thread may have.  */
TEST_F(Cancel, InsideReaderReport_UndoesNothing_AndReleasesNothing)
{
	fur::Options o = small_options();
	o.htm = FUR_HTM_NONE;
	o.reader_report_ns = 1;
	static std::atomic<bool> reported, returned;
	reported = returned = false;
	o.reader_report = [](const fur_reader_report *, void *) {
		reported = true;
		pthread_testcancel(); /* as printf() and write() may */
		returned = true;
	};
	fur::Heap heap = create(o);
	fur::Thread self(heap);
	auto *words = fur::update(self, [&](fur_update *tx) {
		auto *w = static_cast<uint64_t *>(fur_alloc(tx, 64));
		fur_store(tx, &w[0], uint64_t(0));
		return w;
	});
	std::atomic<bool> reading{false}, first{false};
	std::thread reader([&] {
		fur::Thread t(heap);
		while (!first)
			usleep(1000);
		fur::read(t, [&](fur_ro *) {
			reading = true;
			while (!reported)
				usleep(1000);
		});
	});
	pthread_t writer;
	Writer arguments{heap, words, &first, &reading};
	pthread_create(&writer, nullptr, cancelled_writer, &arguments);
	void *result;
	pthread_join(writer, &result);
	reader.join();
	EXPECT_EQ(result, PTHREAD_CANCELED);
	EXPECT_TRUE(returned) << "the thread was cancelled inside the callback";
	EXPECT_EQ(words[0], 2u)
	        << "1: an update that was acknowledged is undone; 3: one that was cancelled is not";
	/* A lock released twice lets the next holder in, and the one after it never */
	for (int k = 0; k < 2; k++) {
		fur::update(self, [&](fur_update *tx) {
			fur_store(tx, &words[0], fur_load(tx, &words[0]) + 1);
		});
	}
	EXPECT_EQ(words[0], 4u);
}

} // namespace
