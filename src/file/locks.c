/* SPDX-License-Identifier: BSD-3-Clause
 *
 * locks.c - locks on bytes of a heap file, by fcntl(2).  A lock belongs to the open file, not to
 * the process.  So if one process opens the file twice, the two exclude each other.
 */
#include "file/locks.h"
#include "base/arch.h"
#include "base/error.h"
#include "base/remedy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int lock_call(int fd, int command, short type, enum heap_lock byte, struct flock *lock)
{
	FUR_ASSERT(byte >= HEAP_LOCK_WORKER && byte <= HEAP_LOCK_SHIP);
	*lock = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
	int failed;
	/* On a network file system, or with FUSE, also the calls that do not wait for the lock.
	 * A wait may be meant to end at a signal. */
	do
		failed = fcntl(fd, command, lock);
	while (failed && errno == EINTR && command != F_OFD_SETLKW);
	return failed;
}

int heap_lock_failed(int error)
{
	return fail_system(FUR_ESYS, CALL_LOCK, error, NULL, "cannot lock the heap file");
}

int heap_lock_try(int fd, enum heap_lock byte)
{
	struct flock lock;
	if (lock_call(fd, F_OFD_SETLK, F_WRLCK, byte, &lock) == 0)
		return 0;
	return errno == EAGAIN || errno == EACCES ? FUR_EBUSY : heap_lock_failed(errno);
}

int heap_lock_wait_once(int fd, enum heap_lock byte)
{
	struct flock lock;
	return lock_call(fd, F_OFD_SETLKW, F_WRLCK, byte, &lock) ? FUR_ESYS : 0;
}

int heap_lock_wait(int fd, enum heap_lock byte)
{
	while (heap_lock_wait_once(fd, byte))
		if (errno != EINTR)
			return FUR_ESYS;
	return 0;
}

int heap_lock_give_back(int fd, enum heap_lock byte)
{
	struct flock lock;
	return lock_call(fd, F_OFD_SETLK, F_UNLCK, byte, &lock) ? FUR_ESYS : 0;
}

int heap_lock_held(int fd, enum heap_lock byte)
{
	struct flock lock;
	/* Ask for a read lock: only a write lock refuses that. */
	if (lock_call(fd, F_OFD_GETLK, F_RDLCK, byte, &lock))
		return heap_lock_failed(errno);
	return lock.l_type != F_UNLCK;
}

int heap_lock_read_by(int fd, enum heap_lock byte, int64_t *pid)
{
	struct flock lock;
	*pid = 0;
	if (lock_call(fd, F_OFD_GETLK, F_WRLCK, byte, &lock))
		return heap_lock_failed(errno);
	if (lock.l_type != F_RDLCK)
		return 0;
	if (lock.l_pid > 0)
		*pid = lock.l_pid;
	return 1;
}

/* Tell why the lock was refused.  A libfur process that works on a heap, or replays it, never takes
 * a read lock. */
static int fail_locked(int fd, enum heap_lock byte)
{
	int64_t pid;
	int read = heap_lock_read_by(fd, byte, &pid);
	if (read < 0)
		return read;
	if (read) {
		char who[32] = "a process";
		if (pid > 0)
			snprintf(who, sizeof who, "process %lld", (long long)pid);
		return fur_fail(FUR_EBUSY,
		        "%s holds a read lock on the file, as fur-check does while it looks: "
		        "wait for it to end, or end it; "
		        "any process that may read the file can lock it so: "
		        "give the file mode 0600 to prevent that",
		        who);
	}
	if (byte == HEAP_LOCK_REPLAYER)
		return fur_fail(
		        FUR_EBUSY, "a replayer serves this heap already: stop that one first");
	if (byte == HEAP_LOCK_SHIP)
		return fur_fail(
		        FUR_EBUSY, "a fur-ship serves this heap already: stop that one first");
	return fur_fail(FUR_EBUSY, "the heap is open in another process, or twice in this one: "
	                           "close it there, or end that process, first");
}

int heap_lock_file(int fd, enum heap_lock byte)
{
	const uint64_t until = arch_now_ns() + 100000000;
	int error = byte == HEAP_LOCK_NONE ? 0 : heap_lock_try(fd, byte);
	/* A replayer that has waited for the worker to end holds this lock for a moment.  And now
	 * and then inject-test finds it taken just after a program was killed, although the
	 * program's parent has seen it end. */
	while (error == FUR_EBUSY && byte == HEAP_LOCK_WORKER && arch_now_ns() < until) {
		usleep(1000); /* shorter if a signal comes */
		error = heap_lock_try(fd, byte);
	}
	return error == FUR_EBUSY ? fail_locked(fd, byte) : error;
}
