/* SPDX-License-Identifier: BSD-3-Clause
 *
 * control.h - what a working process and a replayer beside it tell each other, and who may replay.
 *
 * The file's control region is memory that both have mapped: it means nothing when neither runs,
 * and is written anew at each open.  Who lives and who may do what is in locks on four bytes of the
 * file (open file description locks, fcntl(2)), which the kernel gives back when a process dies, at
 * whatever instant:
 *
 *     HEAP_LOCK_WORKER     held by the process that works on the heap, as long as it has it open
 *     HEAP_LOCK_REPLAYER   held by a fur-replayer that serves the heap, as long as it runs
 *     HEAP_LOCK_REPLAY     the right to replay, held during one replay or recovery, by whichever of
 *                          the two does it
 *     HEAP_LOCK_WORKING    held by the working process from its recovery on.  It takes it, and
 *                          recovers, under the right to replay; so whoever has that right and sees
 *                          this lock held may replay the log as what a living process writes
 *
 * These are write locks.  A process that may only read the file can take read locks on it, and they
 * refuse every write lock.  They say nothing about who lives (heap_lock_held() does not see them),
 * and they cannot keep a working process from replaying: see INV-C4.
 *
 *   INV-C1  Ring, logs' tails, the tail on the medium and the heap's image change by replay only
 *           under the right to replay.
 *   INV-C2  Who takes the right starts from the tail in the superblock: whoever had it may have
 *           died at any point (control_take).
 *   INV-C3  control->tail and logs[].tail are published after the tail on the medium is durable,
 *           and never go back while a process works.
 *   INV-C4  The right to replay has one holder.  The process that holds the worker's lock may have
 *           it by a claim instead of the lock, if nothing but read locks refuse it the lock: it
 *           sets control->claimed, then looks whether the write lock is held, and withdraws the
 *           claim if so.  A replayer takes the lock, then looks whether a worker that lives has
 *           claimed the right, and gives the lock back if so.  Both set their own sign before they
 *           look at the other's, so one of them sees the other (claim, yield_to_claim).
 */
#ifndef FUR_CONTROL_H
#define FUR_CONTROL_H

#include "../arch/arch.h"
#include <fur.h>

enum heap_lock {
	HEAP_LOCK_NONE = -1,
	HEAP_LOCK_WORKER = 0,
	HEAP_LOCK_REPLAYER = 1,
	HEAP_LOCK_REPLAY = 2,
	HEAP_LOCK_WORKING = 3
};

#define CONTROL_ASLEEP_NOT UINT64_MAX
/* The worker calls the replayer when an eighth of the ring, or of a log, is in use. */
#define CONTROL_WAKE_PART 8

struct control {
	uint64_t tail; /* first durTS not replayed */
	uint64_t wake_at
	        /* The replayer sleeps: an update with this durTS, or a later one, wakes it.  Else
	         * _ASLEEP_NOT. */
	        ARCH_PADDED;
	uint32_t calls ARCH_PADDED; /* futex of the replayer: one more for each call */
	uint32_t moved;             /* futex of who waits for room: one more for each replay */
	/* Futex of the replayer's watch: one more for each process that opened the heap */
	uint32_t opened;
	/* The worker has the right to replay without its lock; means nothing once it has died
	 * (INV-C4) */
	uint32_t claimed;
	uint64_t worker_pid, replayer_pid; /* for people; 0: none.  Who lives is in the locks. */
	/* Since the open, by whomever; changed under the right to replay */
	uint64_t replays ARCH_PADDED;
	uint64_t replayed_updates, replayed_entries;
	uint8_t gap2[4096 - 4 * ARCH_PAD];
	struct control_log {
		uint64_t tail ARCH_PADDED; /* of one thread's log: everything below is replayed */
	} logs[];                          /* [max_threads] */
};
_Static_assert(offsetof(struct control, logs) == 4096, "the region's size says so, too");
#define CONTROL_BYTES(threads)                                                                     \
	(sizeof(struct control) + (uint64_t)(threads) * sizeof(struct control_log))

struct durability;

/* -------------------------------------------------------------------- locks */

/* Take a byte's lock if nobody has it.   Errors: FUR_EBUSY, without a message; FUR_ESYS. */
FUR_MUST_USE int heap_lock_try(int fd, enum heap_lock byte);
/* Wait for it, without polling.   Errors: FUR_ESYS, with errno and without a message, for which a
 * thread that may be cancelled at any instant must not allocate memory. */
FUR_MUST_USE int heap_lock_wait(int fd, enum heap_lock byte);
/* Errors: FUR_ESYS, with errno and without a message, so that the message of an earlier failure
 * stays; the lock is ours until the file is closed, or another call gives it back. */
int heap_lock_give_back(int fd, enum heap_lock byte);
/* Does another open file hold it?  1: yes, 0: no, or FUR_ESYS.  Read locks do not count: whoever
 * may read the file can take them. */
FUR_MUST_USE int heap_lock_held(int fd, enum heap_lock byte);
/* Is it a read lock, and no other, that refuses it to us?  1: yes, 0: no, or FUR_ESYS.  Whose: 0 if
 * the kernel does not say. */
FUR_MUST_USE int heap_lock_read_by(int fd, enum heap_lock byte, int64_t *pid);
/* The message of a lock call that has failed.  Returns FUR_ESYS. */
int heap_lock_failed(int error);

/* Take the right to replay (INV-C4), and bring `d` and the control region to the tail in the
 * superblock (INV-C2).  control_take waits for who has it, but not for ever.   Errors: FUR_EBUSY
 * (control_try_take: without a message), FUR_ECORRUPT, FUR_EIO, FUR_ESYS. */
FUR_MUST_USE int control_take(struct durability *d);
FUR_MUST_USE int control_try_take(struct durability *d);
/* The same for a replayer: waits for as long as it takes, without polling, or until *stopping, set
 * by a signal handler: then FUR_EBUSY. */
FUR_MUST_USE int control_take_unless(struct durability *d, const uint32_t *stopping);
/* Errors: FUR_ESYS, as heap_lock_give_back().  A working process may ignore it: it replays as
 * before, and gives the right back after its next replay, or when it closes the file; a replayer
 * beside it waits until then.  A replayer may not: it would keep the working process from
 * replaying. */
int control_give_back(struct durability *d);

/* ----------------------------------------------------------- a working process */

/* The process starts to work; under the right to replay, with everything replayed. */
void control_reset(struct durability *d);
/* It is about to say in the file that the heap is open: the replayer's watch must wait for its end.
 * With the worker's lock held, and before the file says so.  The other way round a process could
 * die in between, and the watch, which sleeps until a process is announced, would not look at the
 * lock again: the heap would stay as it is until the next process opens it. */
void control_opened(struct durability *d);

/* After an update has its marker, if wake_at says that the replayer sleeps: call it if there is
 * enough for it to do.  No fence orders the marker before the look at wake_at, so a replayer that
 * is falling asleep may miss one call; the next update calls again, and who finds no room calls in
 * any case. */
void control_wake(struct durability *d, uint32_t me, uint64_t slot);

/* Take over what others replayed.  True if there was anything. */
bool control_refresh(struct durability *d);

/* Call the replayer, and sleep until something has been replayed, at most for a while.  False:
 * nothing was. */
bool control_wait_for_replayer(struct durability *d);

/* ------------------------------------------------------------------- replayer */

/* Publish a replay that is durable up to d->tail (INV-C3); its logs' tails before. */
void control_publish(struct durability *d, uint64_t updates, uint64_t entries);

/* Wake the replayer. */
void control_call(struct control *c);

#endif /* FUR_CONTROL_H */
