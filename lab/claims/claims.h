/* SPDX-License-Identifier: BSD-3-Clause
 *
 * claims.h - a table of record locks in memory that processes share.  A long update claims the
 * records that it is about to change, a batch at a time, while other updates run.
 *
 * A record's number is hashed to a bucket: eight slots of one word, in one cache line.  A slot is
 * 0, or has an owner.  The owner in slot 0 holds the bucket; those in slots 1 to 7 wait, the next
 * one in slot 1.  Records that share a bucket share its lock: that costs concurrency, nothing else.
 * The table has no pointers, so each process may map it at another address.
 *
 *   INV-CL1  An occupied slot is emptied only by its owner, or, once the owner's process has died,
 *            by claims_clear_owner_of().  Other threads only mark it (INV-CL3).  So slot 0 has one
 *            owner from the compare-and-swap that puts it there until that owner releases.
 *   INV-CL2  A waiter moves itself, and no other thread moves it: it takes the slot in front of its
 *            own when that is empty, and then empties its own.  So it is in the queue at every
 *            moment.  A newcomer looks for the last occupied slot from slot 7 towards slot 0.
 *            Waiters move the same way, so it misses none, and takes its place behind every owner
 *            that was in the queue before it began to look.
 *   INV-CL3  A thread sleeps only on an occupied slot that is marked.  The thread that empties a
 *            marked slot wakes every sleeper, and the exchange that empties the slot tells it
 *            whether there was a mark.  So no wake-up is lost while both threads live.
 *   INV-CL4  A thread can die after it has emptied a marked slot, and before it has woken anyone.
 *            claims_clear_owner_of() therefore empties all slots of the dead process, and then
 *            wakes the sleepers on every slot that a living thread may wait for.
 *
 * Source: "Cache-Coherent Shared Locking for Transactionally Consistent Updates in Near-Data
 * Processing DBMS on Smart Storage".  There the thread that releases shifts the queue, which can
 * strand a waiter (lab/claims/README.md).
 *
 * A thread that claims several buckets takes them in ascending order, as claims_take_batch() does.
 * The table finds no deadlocks.
 */
#ifndef FUR_CLAIMS_H
#define FUR_CLAIMS_H

#include "base/arch.h"

enum {
	CLAIMS_SLOTS = 8,
	CLAIMS_BUCKETS_LOG2 = 16, /* by default */
	CLAIMS_MOST_LOG2 = 28,
};

/* The processes that use the table of a heap.  Others may be added, up to UINT16_MAX. */
enum { CLAIMS_WORKER = 1, CLAIMS_REPLAYER = 2 };

struct claims {
	uint64_t buckets_log2;
	uint64_t stride_log2; /* bytes from one bucket to the next: the machine's line */
	uint8_t gap[ARCH_PAD - 2 * sizeof(uint64_t)];
	/* The buckets follow. */
};
_Static_assert(sizeof(struct claims) == ARCH_PAD, "a bucket has a line of its own");

/* Bytes of a table with 2^buckets_log2 buckets.  It begins at a multiple of ARCH_PAD. */
size_t claims_bytes(unsigned buckets_log2);

/* Make an empty table in this memory, which no thread uses yet. */
void claims_format(struct claims *c, unsigned buckets_log2);

/* An owner is a thread, or an update that one thread at a time works for.  `process`: from 1 on;
 * `number`: the owner's own in its process, below 2^47.  Before another process uses the number of
 * a process that has died, claims_clear_owner_of() must have been called. */
static inline uint64_t claims_owner(uint16_t process, uint64_t number)
{
	return (uint64_t)process << 48 | number << 1; /* bit 0 is the mark of INV-CL3 */
}

static inline uint16_t claims_process_of(uint64_t owner)
{
	return (uint16_t)(owner >> 48);
}

/* The bucket of a record.  Neighbouring records have neighbouring buckets, so that a thread that
 * claims records in their order goes through the table line by line. */
uint64_t claims_hash(const struct claims *c, uint64_t record);

enum claims_answer {
	CLAIMS_BUSY,  /* another owner holds the bucket, or waits for it */
	CLAIMS_TAKEN, /* the owner holds it from now on, and releases it once */
	CLAIMS_HELD,  /* the owner held it already: nothing has changed */
};

/* Take the bucket if no owner holds it or waits for it.  Never waits. */
enum claims_answer claims_try(struct claims *c, uint64_t bucket, uint64_t owner);

/* Take the bucket; wait in the queue if another owner has it.  First come, first served, with one
 * exception: while all eight slots are occupied, a newcomer waits outside the queue, and of several
 * such newcomers any may get in first.  Returns CLAIMS_TAKEN or CLAIMS_HELD. */
enum claims_answer claims_take(struct claims *c, uint64_t bucket, uint64_t owner);

/* Release a bucket that the owner holds. */
void claims_release(struct claims *c, uint64_t bucket, uint64_t owner);

/* The same for `n` buckets, which are in ascending order and all different.  Faster, because they
 * request the lines ahead.  The owner holds none of them before claims_take_batch(). */
void claims_take_batch(struct claims *c, const uint64_t *buckets, size_t n, uint64_t owner);
void claims_release_batch(struct claims *c, const uint64_t *buckets, size_t n, uint64_t owner);

/* The owner that holds the bucket, or, while it is handed on, the one that gets it next; 0: no
 * owner holds it or waits for it.  Inside a hardware transaction the look also subscribes: a later
 * claim aborts the transaction, because the bucket is one line. */
uint64_t claims_look(const struct claims *c, uint64_t bucket);

/* Remove every claim of a process that has died, waiting or held, and wake the threads that may
 * have waited for it.  No thread of that process may still run: a file lock of the process that is
 * free proves that.  Threads of other processes may use the table meanwhile.  Returns how many
 * claims it has removed.  Takes tens of milliseconds with 2^16 buckets. */
uint64_t claims_clear_owner_of(struct claims *c, uint16_t process);

/* How full the table is.  Other threads go on meanwhile, so the numbers are approximate. */
struct claims_count {
	uint64_t buckets;
	uint64_t held;    /* buckets that have an owner */
	uint64_t waiting; /* owners that wait in a queue */
	uint64_t full;    /* buckets in which no slot is free */
};
struct claims_count claims_count(const struct claims *c);

#endif /* FUR_CLAIMS_H */
