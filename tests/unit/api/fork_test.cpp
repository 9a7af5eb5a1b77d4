/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fork_test.cpp - a child of fork() and its copy of a heap: everything but fur_close() is refused,
 * the child harms no other process, and it waits for none.
 */
#include "fixture.hpp"
#include "internals.hpp"

#include <atomic>
#include <sys/syscall.h>
#include <thread>

namespace
{

/* Another thread that holds the lock of registration as long as this exists. */
class Registering
{
public:
	explicit Registering(fur_heap *heap)
	    : thread_([this, heap] {
		      pthread_mutex_lock(&heap->registering);
		      locked_ = true;
		      while (!done_)
			      usleep(1000);
		      pthread_mutex_unlock(&heap->registering);
	      })
	{
		while (!locked_)
			usleep(1000);
	}
	~Registering()
	{
		done_ = true;
		thread_.join();
	}

private:
	std::atomic<bool> locked_{false}, done_{false};
	std::thread thread_;
};

pid_t clone_without_handlers()
{
	return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}

class Fork : public OpenHeap
{
protected:
	void increment()
	{
		fur::update(self_,
		        [&](fur_update *tx) { fur_store(tx, words_, fur_load(tx, words_) + 1); });
	}
	/* Every function that returns a code, except fur_close(). */
	void expect_all_refused()
	{
		fur_thread *t;
		fur_ro *ro;
		fur_update *tx;
		fur_info info;
		fur_stats stats;
		info.size = sizeof info;
		stats.size = sizeof stats;
		EXPECT_EQ(fur_begin_ro(self_, &ro), FUR_EFORK);
		EXPECT_EQ(ro, nullptr);
		EXPECT_EQ(fur_begin_update(self_, &tx), FUR_EFORK);
		EXPECT_EQ(tx, nullptr);
		EXPECT_EQ(fur_join_ro(self_, &ro), FUR_EFORK);
		EXPECT_EQ(ro, nullptr);
		EXPECT_EQ(fur_join_update(self_, &tx), FUR_EFORK);
		EXPECT_EQ(tx, nullptr);
		EXPECT_EQ(fur_wait(self_, ticket_), FUR_EFORK);
		EXPECT_EQ(fur_thread_transaction(self_), FUR_EFORK);
		EXPECT_EQ(fur_thread_abandon(self_), FUR_EFORK);
		EXPECT_EQ(fur_thread_register(heap_, nullptr, &t), FUR_EFORK);
		EXPECT_EQ(fur_thread_unregister(self_), FUR_EFORK);
		EXPECT_EQ(fur_get_info(heap_, &info), FUR_EFORK);
		EXPECT_EQ(fur_get_stats(heap_, &stats), FUR_EFORK);
		EXPECT_NE(std::string(fur_errormsg()).find("fur_close"), std::string::npos)
		        << "no remedy: " << fur_errormsg();
	}
	/* The file's bytes up to the heap: superblock, ring and logs. */
	std::string log_and_ring()
	{
		auto *s = static_cast<media_super *>(heap_.get()->file.super);
		auto *all = reinterpret_cast<const char *>(s);
		return std::string(all, s->heap_offset);
	}

	uint64_t *words_ = block(8);
	fur_ticket ticket_ = take_ticket();

private:
	fur_ticket take_ticket()
	{
		fur_ticket ticket;
		fur::read(self_, ticket, [&](fur_ro *tx) { return fur_load(tx, words_); });
		return ticket;
	}
};

TEST_F(Fork, ChildIsRefusedAll_AndClosesItsCopy)
{
	increment();
	run_in_child([&] {
		expect_all_refused();
		EXPECT_EQ(words_[0], 1u) << "the copy can be read";
		EXPECT_EQ(fur_close(heap_.get()), 0) << fur_errormsg();
		EXPECT_EQ(fur_close(heap_.get()), FUR_EINVAL);
	});
	increment();
	EXPECT_EQ(words_[0], 2u);
}

TEST_F(Fork, ChildThatGoesOn_DestroysNothing)
{
	heap_.close();
	/* As after a kill: a process works, its child goes on as if nothing had happened, and both
	 * are gone. */
	in_killed_child([&] {
		fur::Heap &h = *new fur::Heap(open());
		fur::Thread t(h);
		auto add = [&](fur_thread *who) {
			fur_update *tx;
			if (fur_begin_update(who, &tx))
				return false;
			fur_store(tx, words_, fur_load(tx, words_) + 1);
			return fur_commit(tx, nullptr) == 0;
		};
		for (int k = 0; k < 50; k++)
			ASSERT_TRUE(add(t));
		run_in_child([&] {
			for (int k = 0; k < 200; k++)
				add(t);
		});
		for (int k = 0; k < 50; k++)
			ASSERT_TRUE(add(t));
	});
	heap_ = open();
	EXPECT_EQ(words_[0], 100u) << "acknowledged updates are missing";
	self_ = fur::Thread(heap_);
}

TEST_F(Fork, UpdateOpenAtTheFork_IsTheParents)
{
	fur_update *tx, *inner;
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	ASSERT_EQ(fur_join_update(self_, &inner), 0);
	fur_store(tx, &words_[0], uint64_t(7));
	run_in_child([&] {
		std::string before = log_and_ring();
		fur_store(tx, &words_[1], uint64_t(8));
		fur_write(tx, &words_[2], words_, 8);
		fur_promote(tx, &words_[2]);
		fur_set_root(tx, 1, words_);
		EXPECT_EQ(fur_alloc(tx, 64), nullptr);
		fur_free(tx, words_);
		EXPECT_EQ(words_[1] + words_[2], 0u);
		EXPECT_EQ(fur_update_error(tx), FUR_EFORK);
		EXPECT_EQ(fur_commit(inner, nullptr), FUR_EFORK);
		EXPECT_EQ(fur_commit(tx, nullptr), FUR_EFORK);
		EXPECT_EQ(fur_abort(tx), FUR_EFORK);
		expect_all_refused();
		EXPECT_TRUE(log_and_ring() == before)
		        << "the child wrote to memory that it shares with its parent";
		EXPECT_EQ(fur_close(heap_.get()), 0) << fur_errormsg();
	});
	fur_store(tx, &words_[1], uint64_t(9));
	EXPECT_EQ(fur_commit(inner, nullptr), 0);
	EXPECT_EQ(fur_commit(tx, nullptr), 0) << fur_errormsg();
	heap_.close();
	heap_ = open();
	EXPECT_EQ(words_[0], 7u);
	EXPECT_EQ(words_[1], 9u);
	self_ = fur::Thread(heap_);
}

TEST_F(Fork, UpdateAbortedInTheChild_StaysThereInTheParent)
{
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	fur_store(tx, &words_[0], uint64_t(7));
	run_in_child([&] { EXPECT_EQ(fur_abort(tx), FUR_EFORK); });
	EXPECT_EQ(fur_commit(tx, nullptr), 0) << fur_errormsg();
	EXPECT_EQ(words_[0], 7u);
}

TEST_F(Fork, ReadOpenAtTheFork_IsTheParents)
{
	fur_ro *ro, *nested;
	ASSERT_EQ(fur_begin_ro(self_, &ro), 0);
	ASSERT_EQ(fur_join_ro(self_, &nested), 0);
	run_in_child([&] {
		EXPECT_EQ(fur_end_ro(nested, nullptr), FUR_EFORK);
		EXPECT_EQ(fur_end_ro(ro, nullptr), FUR_EFORK);
		expect_all_refused();
		EXPECT_EQ(fur_close(heap_.get()), 0) << fur_errormsg();
	});
	EXPECT_EQ(fur_end_ro(nested, nullptr), 0);
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	increment();
}

TEST_F(Fork, ReadThatWouldEndWithATicket_IsTheParents)
{
	fur_ro *ro, *nested;
	fur_ticket ticket;
	ASSERT_EQ(fur_begin_ro(self_, &ro), 0);
	ASSERT_EQ(fur_join_ro(self_, &nested), 0);
	run_in_child([&] { EXPECT_EQ(fur_end_ro(nested, &ticket), FUR_EFORK); });
	EXPECT_EQ(fur_end_ro(nested, &ticket), 0);
	run_in_child([&] {
		EXPECT_EQ(fur_end_ro(ro, &ticket), FUR_EFORK);
		EXPECT_EQ(ticket.source, 0u);
		expect_all_refused();
	});
	EXPECT_EQ(fur_end_ro(ro, &ticket), 0);
	EXPECT_EQ(fur_wait(self_, ticket), 0);
}

/* The key's destructor runs in a thread of the child that was inside an update, while another
 * thread that the child does not have holds the mutex which the destructor takes. */
TEST_F(Fork, ForkingThreadThatEndsInTheChild_TouchesNothing)
{
	std::thread([&] {
		fur_thread *t;
		fur_update *tx;
		ASSERT_EQ(fur_thread_register(heap_, nullptr, &t), 0);
		ASSERT_EQ(fur_begin_update(t, &tx), 0);
		fur_store(tx, &words_[0], uint64_t(7));
		/* Allocated, so that the unwinding child does not destroy it */
		auto *registering = new Registering(heap_.get());
		pid_t child = fork();
		if (child == 0) {
			alarm(60);
			/* Called first: nothing else of the test program's end */
			atexit([] { _exit(0); });
			pthread_exit(nullptr); /* the last thread: the process ends */
		}
		int status;
		waitpid(child, &status, 0);
		EXPECT_EQ(status, 0) << "the child hung (SIGALRM, 14), or died";
		delete registering;
		fur_store(tx, &words_[1], uint64_t(8));
		EXPECT_EQ(fur_commit(tx, nullptr), 0) << fur_errormsg();
	}).join();
	EXPECT_EQ(words_[0], 7u) << "the child undid the parent's update";
	EXPECT_EQ(words_[1], 8u);
	increment();
}

TEST_F(Fork, Close_InAChild_WhileAnotherThreadIsInsideATransaction)
{
	std::atomic<bool> begun{false}, done{false};
	std::thread other([&] {
		fur_thread *t;
		fur_update *tx;
		ASSERT_EQ(fur_thread_register(heap_, nullptr, &t), 0);
		ASSERT_EQ(fur_begin_update(t, &tx), 0);
		fur_store(tx, &words_[0], uint64_t(7));
		begun = true;
		while (!done)
			usleep(1000);
		EXPECT_EQ(fur_commit(tx, nullptr), 0) << fur_errormsg();
	});
	while (!begun)
		usleep(1000);
	run_in_child([&] { EXPECT_EQ(fur_close(heap_.get()), 0) << fur_errormsg(); });
	done = true;
	other.join();
	EXPECT_EQ(words_[0], 7u);
}

TEST_F(Fork, Close_InAChild_WhileAnotherThreadRegisters)
{
	Registering registering(heap_.get());
	run_in_child([&] {
		expect_all_refused();
		EXPECT_EQ(fur_close(heap_.get()), 0) << fur_errormsg();
	});
}

/* The list of open heaps has a mutex of its own. */
TEST_F(Fork, WhileOtherThreadsOpenAndClose_ChildrenCloseTheirCopies)
{
	std::atomic<bool> done{false};
	std::string second = path_ + "-2";
	std::thread other([&] {
		fur::Options o = small_options();
		fur_heap *h;
		ASSERT_EQ(fur_create(second.c_str(), &o, &h), 0);
		ASSERT_EQ(fur_close(h), 0);
		while (!done) {
			int result = fur_open(second.c_str(), &o, &h);
			/* busy: a child has a copy */
			ASSERT_TRUE(result == 0 || result == FUR_EBUSY) << fur_errormsg();
			if (result == 0) {
				ASSERT_EQ(fur_close(h), 0);
			}
		}
	});
	for (int k = 0; k < 20; k++)
		run_in_child([&] { EXPECT_EQ(fur_close(heap_.get()), 0) << fur_errormsg(); });
	done = true;
	other.join();
	unlink(second.c_str());
}

TEST_F(Fork, Child_WorksOnAHeapOfItsOwn)
{
	std::string second = path_ + "-2";
	fur_update *open_at_the_fork;
	ASSERT_EQ(fur_begin_update(self_, &open_at_the_fork), 0);
	run_in_child([&] {
		fur::Heap mine = fur::Heap::create(second, small_options());
		fur::Thread me(mine);
		fur::update(me, [&](fur_update *tx) { fur_set_root(tx, 0, heap_base(mine)); });
		EXPECT_EQ(
		        fur::read(me, [](fur_ro *tx) { return fur_root(tx, 0); }), heap_base(mine));
		/* And its own child has a copy of that one. */
		run_in_child([&] {
			fur_ro *ro;
			EXPECT_EQ(fur_begin_ro(me, &ro), FUR_EFORK);
			EXPECT_EQ(fur_close(mine.get()), 0);
			EXPECT_EQ(fur_close(heap_.get()), 0);
		});
		fur::update(me, [&](fur_update *tx) { fur_set_root(tx, 0, nullptr); });
		mine.close();
	});
	EXPECT_EQ(fur_commit(open_at_the_fork, nullptr), 0);
	unlink(second.c_str());
}

TEST_F(Fork, HeapCountsAsOpen_AsLongAsAChildHasItsCopy)
{
	int to_child[2], to_parent[2];
	ASSERT_EQ(pipe(to_child) + pipe(to_parent), 0);
	pid_t child = fork();
	if (child == 0) {
		char c;
		alarm(60);
		_exit(read(to_child[0], &c, 1) == 1 && fur_close(heap_.get()) == 0 &&
		                        write(to_parent[1], "", 1) == 1 &&
		                        read(to_child[0], &c, 1) == 1
		                ? 0
		                : 1);
	}
	char c;
	heap_.close();
	EXPECT_EQ(open_result(), FUR_EBUSY);
	ASSERT_EQ(write(to_child[1], "", 1), 1);
	ASSERT_EQ(read(to_parent[0], &c, 1), 1);
	heap_ = open();
	ASSERT_EQ(write(to_child[1], "", 1), 1);
	int status;
	waitpid(child, &status, 0);
	EXPECT_EQ(status, 0);
	for (int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]})
		close(fd);
	self_ = fur::Thread(heap_);
}

/* A child for which the C library runs no handlers. */
TEST_F(Fork, RawClone_IsNoticedAtRegistrationAndClose)
{
	ASSERT_EQ(fur_thread_unregister(self_), 0);
	run_in_child(
	        [&] {
		        fur_thread *t;
		        EXPECT_EQ(fur_thread_register(heap_, nullptr, &t), FUR_EFORK);
		        EXPECT_EQ(fur_close(heap_.get()), 0);
	        },
	        clone_without_handlers);
	run_in_child([&] { EXPECT_EQ(fur_close(heap_.get()), 0); }, clone_without_handlers);
	self_ = fur::Thread(heap_);
	increment();
}

/* The child comes back from the callback into an update that waits for a reader which the child
 * does not have. */
TEST_F(Fork, InsideReaderReport_TheChildIsRefused)
{
	heap_.close();
	static std::atomic<pid_t> child;
	static std::atomic<bool> reported;
	child = -1;
	reported = false;
	fur::Options o = small_options();
	o.htm = FUR_HTM_NONE;
	o.reader_report_ns = 1;
	o.reader_report = [](const fur_reader_report *, void *) {
		child = fork();
		if (child == 0)
			alarm(60);
		reported = true;
	};
	heap_ = open(o);
	std::atomic<bool> reading{false};
	std::thread reader([&] {
		fur::Thread t(heap_);
		fur::read(t, [&](fur_ro *) {
			reading = true;
			while (!reported)
				usleep(1000);
		});
	});
	while (!reading)
		usleep(1000);
	fur::Thread t(heap_);
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(t, &tx), 0);
	fur_set_root(tx, 0, heap_base(heap_));
	int committed = fur_commit(tx, nullptr); /* waits for the reader */
	if (child == 0)
		_exit(committed == FUR_EFORK && fur_close(heap_.get()) == 0 ? 0 : 1);
	EXPECT_EQ(committed, 0);
	reader.join();
	int status;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0) << "the child hung, or was not refused";
	self_ = fur::Thread(heap_);
}

/* fur_close() must not wait for the thread that lets the heap grow, which the child does not have.
 */
void expect_log_may_fork_in_close(const std::string &path, pid_t (*make_child)())
{
	struct Forks {
		pid_t (*make_child)();
		pid_t child;
	} forks = {nullptr, -1};
	fur::Options o = small_options();
	o.max_bytes = 64 << 20;
	o.log = [](enum fur_log_level, const char *, void *arg) {
		auto *f = static_cast<Forks *>(arg);
		if (f->make_child && (f->child = f->make_child()) == 0)
			alarm(60);
	};
	o.log_arg = &forks;
	fur_heap *heap;
	ASSERT_EQ(fur_create(path.c_str(), &o, &heap), 0) << fur_errormsg();
	forks.make_child = make_child;
	durability_note(&heap->durability, EVENT_REPLAYER_ANSWERS);
	int closed = fur_close(heap);
	if (forks.child == 0)
		_exit(closed == 0 ? 0 : 1);
	EXPECT_EQ(closed, 0) << fur_errormsg();
	ASSERT_GT(forks.child, 0);
	int status;
	ASSERT_EQ(waitpid(forks.child, &status, 0), forks.child);
	EXPECT_EQ(status, 0) << "the child hung, or could not close";
}

TEST_F(Fork, InsideLog_WhileTheHeapCloses_BothClose)
{
	heap_.close();
	for (bool handlers : {true, false}) {
		unlink(path_.c_str());
		expect_log_may_fork_in_close(path_, handlers ? fork : clone_without_handlers);
	}
	heap_ = open();
	self_ = fur::Thread(heap_);
}

} // namespace
