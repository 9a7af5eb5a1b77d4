/* SPDX-License-Identifier: BSD-3-Clause
 *
 * locks.h - locks on bytes of a heap file (open file description locks, fcntl(2)).  The kernel
 * releases them whenever their process dies:
 *
 *     HEAP_LOCK_WORKER     held by the process that works on the heap, while it has the heap open
 *     HEAP_LOCK_REPLAYER   held by a fur-replayer that serves the heap, as long as it runs
 *     HEAP_LOCK_REPLAY     the right to replay: held by one of the two processes, while it replays
 *                          or recovers
 *     HEAP_LOCK_WORKING    held by the working process from its recovery on.  The process takes it,
 *                          and recovers, while it has the right to replay.  So a replayer that has
 *                          that right and sees this lock held may replay the log as a living
 *                          process writes it
 *     HEAP_LOCK_SHIP       held by the fur-ship of a heap, as long as it runs; and by a program
 *                          that gives the heap another role, while it does so
 *
 * Another byte, HEAP_LOCK_LAB, is for programs of lab/: libfur never looks at it.
 *
 * These are write locks.  A process that may only read the file can take read locks on it, and a
 * read lock makes the kernel refuse every write lock.  So a read lock is no sign of a living worker
 * or replayer (heap_lock_held() does not see it).  It cannot keep a working process from replaying
 * either: see INV-C4.
 */
#ifndef FUR_LOCKS_H
#define FUR_LOCKS_H

#include <fur.h>

enum heap_lock {
	HEAP_LOCK_NONE = -1,
	HEAP_LOCK_WORKER = 0,
	HEAP_LOCK_REPLAYER = 1,
	HEAP_LOCK_REPLAY = 2,
	HEAP_LOCK_WORKING = 3,
	HEAP_LOCK_LAB = 4,
	HEAP_LOCK_SHIP = 5
};

/* Take a byte's lock, or tell in the message who has it; HEAP_LOCK_NONE: do nothing.  Waits up to
 * 100 ms for HEAP_LOCK_WORKER.
 * Errors: FUR_EBUSY, FUR_ESYS. */
FUR_MUST_USE int heap_lock_file(int fd, enum heap_lock byte);

/* Take a byte's lock if no process has it.   Errors: FUR_EBUSY, without a message; FUR_ESYS. */
FUR_MUST_USE int heap_lock_try(int fd, enum heap_lock byte);
/* Wait for the lock, without polling.   Errors: FUR_ESYS, with errno and without a message: a
 * message needs memory, and a thread that may be cancelled at any instant must not allocate any. */
FUR_MUST_USE int heap_lock_wait(int fd, enum heap_lock byte);
/* The same, but a signal interrupts the wait: then FUR_ESYS, with errno EINTR. */
FUR_MUST_USE int heap_lock_wait_once(int fd, enum heap_lock byte);
/* Release the lock.  Errors: FUR_ESYS, with errno and without a message, so that the message of an
 * earlier failure stays.  Then the lock stays ours until the file is closed, or another call gives
 * it back. */
int heap_lock_give_back(int fd, enum heap_lock byte);
/* Does another open file hold it?  1: yes, 0: no, or FUR_ESYS.  Read locks do not count: any
 * process that may read the file can take them. */
FUR_MUST_USE int heap_lock_held(int fd, enum heap_lock byte);
/* Does a read lock, and nothing else, keep us from taking the lock?  1: yes, 0: no, or FUR_ESYS.
 * *pid is its process, or 0 if the kernel does not tell. */
FUR_MUST_USE int heap_lock_read_by(int fd, enum heap_lock byte, int64_t *pid);
/* Set the message for a failed lock call.  Returns FUR_ESYS. */
int heap_lock_failed(int error);

#endif /* FUR_LOCKS_H */
