/* SPDX-License-Identifier: BSD-3-Clause
 *
 * locks.c - the locks of locks.h, by fcntl(2).
 */
#include "file/locks.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static int lock_call(int fd, int command, short type, enum heap_lock byte, struct flock *lock)
{
	*lock = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
	return fcntl(fd, command, lock);
}

int heap_lock_failed(int error)
{
	return fur_fail(FUR_ESYS,
	        "cannot lock the heap file: %s: use a file system with open file description "
	        "locks, or try again",
	        strerror(error));
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
	/* Would a read lock be refused?  Only a write lock does that. */
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
