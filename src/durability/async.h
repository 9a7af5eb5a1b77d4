/* SPDX-License-Identifier: BSD-3-Clause
 *
 * async.h - late updates: they leave nondurable[] before they are durable, so that a thread may
 * have many of them in flight (fur_commit() with a ticket).
 *
 * A late update writes its marker, without a write-back, and says in it that it depends on every
 * durTS below its own (MEDIA_AFTER_ALL).  A *flush* then makes all updates durable, in the order of
 * their durTSs, up to the first one that has not written its marker yet.  `durable` is where it
 * stopped: every durTS below is durable.  So one number tells of any late update whether it is
 * durable, whichever thread committed it.
 *
 *   INV-AS1  Before a late update leaves nondurable[], `newest` lies above its durTS.  So if a
 *            transaction has read from a late update, it finds the update in nondurable[], or
 *            `newest` above `durable`, or the update is durable.
 *   INV-AS2  A transaction that returns to its caller as durable has, after it has waited for D,
 *            found `newest` no higher than `durable`, or has waited until `durable` has reached it.
 *   INV-AS3  An update that finds `newest` above `durable` after it has collected D is late itself:
 *            its marker says that it depends on every durTS below.  Otherwise recovery could keep
 *            it without a late update from which it has read.
 *   INV-AS4  Recovery keeps a marker with MEDIA_AFTER_ALL only if it keeps, or finds aborted, every
 *            durTS from the tail to that marker.
 *   INV-AS5  A live replay writes a late update to the heap only when its durTS is below `durable`.
 *   INV-AS6  A record claims no durTS to be settled that is not below `durable` while `newest` is
 *            above it: a late update has left nondurable[], and may still be lost.
 */
#ifndef FUR_ASYNC_H
#define FUR_ASYNC_H

#include "durability/ring.h"

/* Have updates left nondurable[] that are not durable?  The caller orders what it has read from
 * nondurable[] before this (INV-AS1).  The order of the two loads does not matter: `durable` only
 * grows, so an older value at most finds late updates where there are none. */
static inline bool async_pending(const struct durability *d)
{
	return arch_load(&d->async.newest) > arch_load(&d->async.durable);
}

/* Every durTS below is durable; so is every one below the tail.  Acquire: the caller's later loads
 * see the markers whole. */
static inline uint64_t async_durable(const struct durability *d)
{
	return arch_load_acquire(&d->async.durable);
}

/* May the update of this durTS be late, and not durable?  Acquire, as async_durable(). */
static inline bool async_may_be_late(const struct durability *d, uint64_t durts)
{
	return durts >= async_durable(d) && durts < arch_load(&d->async.newest);
}

/* async_ready - may an update of this heap be late?  The first call tells the file, allocates the
 * memory and starts two threads: one flushes every async_ms, one replays before the ring is full.
 * Not inside a hardware transaction, and not with the publication turn.
 * Durable: MEDIA_OPEN_ASYNC, before it returns true: recovery must know that more markers than
 *          there are threads may be torn (INV-R7).
 * Returns: false: commits must wait.  The file is of version 1, or memory is short. */
bool async_ready(struct durability *d);

/* Stop the threads.  No update begins any more. */
void async_stop(struct durability *d);
void async_free(struct durability *d);

/* Before nondurable_leave(): INV-AS1.
 * Orders:  the caller's marker before `newest` (a full fence).  The caller's later release orders
 *          `newest` before it leaves. */
void async_note(struct durability *d, uint64_t durts);

/* SYNC: where a late update builds its slot, instead of redo_log.slot.  The flush writes it to the
 * file when its marker's durTS is there. */
uint8_t *async_slot(const struct durability *d, uint64_t durts);

/* async_wait - return when every durTS below `durts` is durable; flush if no other thread does.
 * Waits for:  updates that have drawn a durTS and not written its marker.  Each of them waits only
 *             for threads that are active or have a turn.
 * Errors:     those for which the heap has failed. */
FUR_MUST_USE int async_wait(struct durability *d, uint64_t durts);

/* The same for all that is visible (INV-AS2). */
static inline int async_wait_all(struct durability *d)
{
	return likely(!async_pending(d)) ? 0 : async_wait(d, arch_load(&d->async.newest));
}

/* Flush, unless another thread does.  Does not wait for updates.  Errors: FUR_EIO. */
FUR_MUST_USE int async_try_flush(struct durability *d);

#endif /* FUR_ASYNC_H */
