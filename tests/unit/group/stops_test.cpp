/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stops_test.cpp - a heap joins or leaves a group, and each call that writes ends the process, or
 * fails, in turn: afterwards the group opens, and the heap is a member, or a heap like any other.
 * The disk of one member fails.  And groups open without threads of libfur's.  It stands in the
 * system's place, and so is a program of its own.
 */
#include "group_dir.hpp"

#include <atomic>
#include <cerrno>
#include <dlfcn.h>
#include <functional>
#include <sys/uio.h>
#include <thread>

namespace
{

enum class Stop { NOTHING, END, FAIL };

/* What the calls that write do since they were armed, and which of them. */
Stop stop = Stop::NOTHING;
long stop_at, calls;
pthread_t armed_by;
constexpr int ENDED = 77;

/* Threads that were refused; negative: none is. */
std::atomic<long> refused = -1;

/* The inode of the file whose syncs fail, in all threads; 0: none. */
std::atomic<ino_t> unsynced = 0;

bool sync_fails(int fd)
{
	struct stat st;
	if (!unsynced || fstat(fd, &st) || st.st_ino != unsynced)
		return false;
	errno = EIO;
	return true;
}

/* Other threads are libfur's own. */
bool stops_here()
{
	if (stop == Stop::NOTHING || !pthread_equal(pthread_self(), armed_by) || ++calls != stop_at)
		return false;
	if (stop == Stop::END)
		_exit(ENDED);
	errno = EIO;
	return true;
}

template <class Call>
Call *next_of(const char *name)
{
	return reinterpret_cast<Call *>(dlsym(RTLD_NEXT, name));
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

/* The library's calls.  Where off_t has always 64 bits, the names without 64 are the same. */
EXPORT ssize_t pwrite64(int fd, const void *from, size_t bytes, off_t offset)
{
	static auto *const next = next_of<decltype(pwrite)>("pwrite64");
	return stops_here() ? -1 : next(fd, from, bytes, offset);
}
EXPORT ssize_t pwritev64(int fd, const iovec *pieces, int n, off_t offset)
{
	static auto *const next = next_of<decltype(pwritev)>("pwritev64");
	return stops_here() ? -1 : next(fd, pieces, n, offset);
}
EXPORT int fsync(int fd)
{
	static auto *const next = next_of<decltype(fsync)>("fsync");
	return stops_here() ? -1 : next(fd);
}
EXPORT int fdatasync(int fd)
{
	static auto *const next = next_of<decltype(fdatasync)>("fdatasync");
	return stops_here() || sync_fails(fd) ? -1 : next(fd);
}
EXPORT int renameat2(int at, const char *from, int to_at, const char *to, unsigned flags) noexcept
{
	static auto *const next = next_of<decltype(renameat2)>("renameat2");
	return stops_here() ? -1 : next(at, from, to_at, to, flags);
}
EXPORT int linkat(int at, const char *from, int to_at, const char *to, int flags) noexcept
{
	static auto *const next = next_of<decltype(linkat)>("linkat");
	return stops_here() ? -1 : next(at, from, to_at, to, flags);
}

EXPORT int pthread_create(
        pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *arg) noexcept
{
	static auto *const next = next_of<decltype(pthread_create)>("pthread_create");
	if (refused < 0)
		return next(thread, how, run, arg);
	refused++;
	return EAGAIN;
}

namespace
{

class Stops : public GroupDir
{
protected:
	/* `step` in a process of its own, which has the group open, with call `n` stopping it.
	 * Returns false if there is no call `n`. */
	bool stopped(Stop how, long n, const std::function<int(fur_group *)> &step)
	{
		const pid_t child = fork();
		if (child == 0) {
			fur_group *g;
			if (open_synced(&g))
				_exit(2);
			arm(how, n);
			const int error = step(g);
			stop = Stop::NOTHING;
			if (calls < n)
				_exit(error ? 3 : 0);
			/* A call has failed: the group may have noticed, and works on. */
			const int closed = fur_group_close(g);
			_exit(error && closed ? 4 : ENDED);
		}
		int status = 0;
		EXPECT_EQ(waitpid(child, &status, 0), child);
		EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
		EXPECT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == ENDED)
		        << WEXITSTATUS(status) << " at call " << n;
		return WEXITSTATUS(status) == ENDED;
	}

	static void arm(Stop how, long n)
	{
		armed_by = pthread_self();
		stop_at = n;
		stop = how;
	}

	/* In `sync` libfur writes by calls. */
	int open_synced(fur_group **g)
	{
		fur_group_options o = {};
		fur::Options heap = small_options();
		heap.pm = FUR_PM_SYNC;
		o.size = sizeof o;
		o.heap = &heap;
		return fur_group_open(group_path().c_str(), &o, g);
	}

	/* Is heap `k` a member, of this group and by itself?  It is the same. */
	bool is_member(unsigned k)
	{
		bool member = false;
		open();
		for (unsigned m = 0; m < fur_group_members(group_); m++)
			if (fur_heap *heap = fur_group_heap(group_, m)) {
				fur_info info;
				info.size = sizeof info;
				EXPECT_EQ(fur_get_info(heap, &info), 0);
				member |= m == k;
			}
		close();
		const bool there = access(heap_name(k).c_str(), F_OK) == 0;
		EXPECT_TRUE(there || !member);
		if (there) {
			EXPECT_EQ(member, !joins_another(k)) << "call " << stop_at;
		}
		return member;
	}

	/* Another group takes it, and gives it back. */
	bool joins_another(unsigned k)
	{
		fur_group *other;
		unsigned m;
		const std::string path = in_dir("other.group");
		/* A call may have failed after the heap was open. */
		fur::Heap::open(heap_name(k), small_options()).close();
		EXPECT_EQ(fur_group_create(path.c_str(), nullptr, &other), 0) << fur_errormsg();
		const int error = fur_group_add(other, heap_name(k).c_str(), nullptr, &m);
		EXPECT_TRUE(error == 0 || error == FUR_EGROUP) << fur_errormsg();
		if (!error) {
			EXPECT_EQ(fur_group_remove(other, m), 0) << fur_errormsg();
		}
		EXPECT_EQ(fur_group_close(other), 0) << fur_errormsg();
		std::filesystem::remove(path);
		return !error;
	}

	void keeps_value(unsigned k, uint64_t value)
	{
		fur::Heap alone = fur::Heap::open(heap_name(k), small_options());
		EXPECT_EQ(get(alone), value);
	}
};

TEST_F(Stops, AnOldHeapJoins)
{
	for (Stop how : {Stop::END, Stop::FAIL}) {
		unsigned joined = 0, not_joined = 0;
		for (long n = 1;; n++) {
			std::filesystem::remove(group_path());
			std::filesystem::remove(heap_name(0));
			std::filesystem::remove(heap_name(1));
			create(2);
			put(1, 5);
			ASSERT_EQ(fur_group_remove(group_, 1), 0) << fur_errormsg();
			close();
			if (!stopped(how, n, [&](fur_group *g) {
				    unsigned m;
				    return fur_group_add(g, heap_name(1).c_str(), nullptr, &m);
			    }))
				break;
			/* As member 2: index 1 was another one's. */
			open();
			const bool is = fur_group_members(group_) == 3;
			close();
			(is ? joined : not_joined)++;
			EXPECT_EQ(joins_another(1), !is) << "call " << n;
			keeps_value(1, 5);
			open();
			unsigned m = 2;
			if (!is) {
				EXPECT_EQ(
				        fur_group_add(group_, heap_name(1).c_str(), nullptr, &m), 0)
				        << fur_errormsg();
			}
			EXPECT_EQ(m, 2u);
			EXPECT_EQ(get(2), 5u);
			close();
		}
		EXPECT_GT(not_joined, 4u);
		if (how == Stop::END) {
			EXPECT_GT(joined, 2u);
		}
	}
}

TEST_F(Stops, ANewHeapJoins)
{
	for (Stop how : {Stop::END, Stop::FAIL}) {
		unsigned joined = 0, not_joined = 0;
		for (long n = 1;; n++) {
			std::filesystem::remove(group_path());
			std::filesystem::remove(heap_name(0));
			create();
			close();
			if (!stopped(how, n, [&](fur_group *g) {
				    unsigned m;
				    fur::Options o = small_options();
				    o.pm = FUR_PM_SYNC;
				    return fur_group_add(g, heap_name(0).c_str(), &o, &m);
			    }))
				break;
			(is_member(0) ? joined : not_joined)++;
			EXPECT_EQ(access(heap_name(0).c_str(), F_OK) == 0, is_member(0))
			        << "call " << n;
		}
		EXPECT_GT(not_joined, 4u);
		if (how == Stop::END) {
			EXPECT_GT(joined, 0u);
		}
	}
}

TEST_F(Stops, AMemberLeaves)
{
	for (Stop how : {Stop::END, Stop::FAIL}) {
		unsigned left = 0, stayed = 0;
		for (long n = 1;; n++) {
			std::filesystem::remove(group_path());
			std::filesystem::remove(heap_name(0));
			std::filesystem::remove(heap_name(1));
			create(2);
			put(1, 5);
			close();
			if (!stopped(how, n, [&](fur_group *g) { return fur_group_remove(g, 1); }))
				break;
			if (is_member(1)) {
				stayed++;
				open();
				EXPECT_EQ(fur_group_remove(group_, 1), 0) << fur_errormsg();
				close();
			} else {
				left++;
			}
			EXPECT_TRUE(joins_another(1)) << "call " << n;
			keeps_value(1, 5);
		}
		EXPECT_GT(left, 2u);
		EXPECT_GT(stayed, 2u);
	}
}

/* While it recovers: the next one does so anew. */
TEST_F(Stops, AGroupThatWasNotClosedIsOpened)
{
	create(3);
	close();
	for (Stop how : {Stop::END, Stop::FAIL}) {
		uint64_t value = 0;
		for (long n = 1;; n++) {
			value++;
			run_in_child([&] {
				open();
				for (unsigned k = 0; k < 3; k++)
					put(k, value);
				_exit(0);
			});
			const pid_t child = fork();
			if (child == 0) {
				fur_group *g;
				arm(how, n);
				const int error = open_synced(&g);
				stop = Stop::NOTHING;
				_exit(calls < n ? (error ? 3 : 0) : ENDED);
			}
			int status = 0;
			ASSERT_EQ(waitpid(child, &status, 0), child);
			ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
			open();
			for (unsigned k = 0; k < 3; k++)
				EXPECT_EQ(get(k), value) << "call " << n;
			close();
			if (WEXITSTATUS(status) != ENDED) {
				EXPECT_EQ(WEXITSTATUS(status), 0);
				EXPECT_GT(n, 8);
				break;
			}
		}
	}
}

/* The next word of each member, in one update of `members`. */
int add_one(fur_group_thread *self, const std::vector<unsigned> &members)
{
	return group_run(self, members, [&](fur_group_update *u) {
		for (unsigned k : members) {
			fur_update *tx = fur_group_on(u, k);
			auto *p = static_cast<uint64_t *>(fur_root(tx, 0));
			fur_store(tx, p, fur_load(tx, p) + 1);
		}
	});
}

int read_both(fur_group_thread *self, const std::vector<unsigned> &members)
{
	return group_read(self, members, [](fur_group_reader *) {});
}

/* Also in what later calls are told, of this member and of those that it takes with it. */
TEST_F(Stops, AMemberWhoseDiskFails_IsNamed)
{
	create(3);
	for (unsigned k = 0; k < 3; k++)
		put(k, 1);
	close();
	for (unsigned broken : {0u, 2u}) {
		struct stat st;
		fur_group_thread *self;
		ASSERT_EQ(open_synced(&group_), 0) << fur_errormsg();
		ASSERT_EQ(fur_group_register(group_, &self), 0);
		EXPECT_EQ(add_one(self, {0, 2}), 0) << fur_errormsg();
		ASSERT_EQ(stat(heap_name(broken).c_str(), &st), 0);
		unsynced = st.st_ino;
		EXPECT_EQ(add_one(self, {0, 2}), FUR_EIO);
		EXPECT_EQ(std::string(fur_errormsg()).find(heap_name(broken) + ": cannot"), 0u)
		        << fur_errormsg();
		EXPECT_TRUE(message_has(strerror(EIO))) << fur_errormsg();
		for (unsigned k : {0u, 2u}) {
			fur_thread *alone;
			fur_update *tx;
			EXPECT_EQ(add_one(self, {1, k}), FUR_EIO);
			EXPECT_TRUE(message_has(heap_name(broken).c_str())) << fur_errormsg();
			EXPECT_TRUE(message_has(heap_name(k).c_str())) << fur_errormsg();
			EXPECT_EQ(read_both(self, {1, k}), FUR_EIO);
			EXPECT_TRUE(message_has(heap_name(k).c_str())) << fur_errormsg();
			ASSERT_EQ(fur_group_thread_of(self, k, &alone), 0);
			EXPECT_EQ(fur_begin_update(alone, &tx), FUR_EIO);
			EXPECT_TRUE(k == broken || message_has(heap_name(broken).c_str()))
			        << fur_errormsg();
		}
		EXPECT_EQ(add_one(self, {1}), 0) << fur_errormsg();
		ASSERT_EQ(fur_group_unregister(self), 0) << fur_errormsg();
		unsynced = 0;
		EXPECT_EQ(fur_group_close(std::exchange(group_, nullptr)), FUR_EIO);
	}
}

/* As with threads, in the calling one. */
TEST_F(Stops, AGroupIsOpenedWithoutThreads)
{
	create(4);
	close();
	run_in_child([&] {
		open();
		for (unsigned k = 0; k < 4; k++)
			put(k, 20 + k);
		_exit(0);
	});
	std::filesystem::rename(heap_name(1), in_dir("away"));
	put_text(heap_name(1), "no heap");
	std::filesystem::rename(heap_name(3), in_dir("away too"));
	refused = 0;
	EXPECT_EQ(try_open(), FUR_ENOTHEAP);
	EXPECT_TRUE(message_has("heap1:")) << fur_errormsg();
	std::filesystem::rename(in_dir("away"), heap_name(1));
	std::filesystem::rename(in_dir("away too"), heap_name(3));
	open();
	if (std::thread::hardware_concurrency() > 1) {
		EXPECT_GE(refused, 2);
	}
	refused = -1;
	for (unsigned k = 0; k < 4; k++)
		EXPECT_EQ(get(k), 20 + k);
}

} // namespace
