/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stamps.h - how software bodies and the updates that store beside them know of each other:
 * versioned locks, one for each line of the heap (TL2: Dice, Shalev, Shavit, DISC 2006), and
 * sweeps.
 *
 * A stamp that is free is a version: the durTS of the last update that has published to one of the
 * lines that share the stamp.  A stamp that is held names the thread that is about to store there.
 * Lines are of 64 bytes on every processor, because a stamp's granularity is no matter of caches.
 *
 *   INV-ST1  A publication holds the stamps of all lines that it stores to before it draws its
 *            durTS, and frees them, with the durTS as their version, after its last store.  So if
 *            a stamp is free, and its version is below a value that next_durts has had before, then
 *            each update below that value has stored to the line, or never will.
 *   INV-ST2  Who stores to the heap beside bodies, and holds no stamps, sweeps: an update in place,
 *            a bulk update, an update that fills fresh memory.  A sweep makes `sweeps` odd, then
 *            sets the bound of each body to 0, then stores; at its end `sweeps` is even again.  So
 *            a body that has loaded what a sweep has stored finds its bound at 0.  It waits for the
 *            sweep's end, and compares every word that it has loaded; an optimistic reader runs
 *            again.
 *            Only the turn's holder sweeps, while no update publishes beside it.
 */
#ifndef FUR_STAMPS_H
#define FUR_STAMPS_H

#include "tx/active.h"

/* Lines that share a stamp cost an extension, and now and then a defeat: with 2^16 stamps, those of
 * TPC-C on 64 threads share too many. */
enum { STAMPS = 1 << FUR_STAMPS_LOG };

#define STAMP_HELD (UINT64_C(1) << 63)

enum {
	/* In pauses.  A thread that holds a stamp and is running frees it in less time.  An update
	 * that holds stamps itself waits no longer for another's: that may wait for it in turn. */
	LOOKS_AT_HELD = 64
};

/* fur/detail.h has the mapping, for loads that are inlined into programs. */
static inline uint64_t *stamp_of(const struct engine *e, const void *at)
{
	return &e->stamps[fur_stamp_index(at)];
}

static inline bool stamp_is_held(uint64_t stamp)
{
	return stamp & STAMP_HELD;
}

/* The stamp while the thread holds it; `word`: the index in its write set of the word that has the
 * version. */
static inline uint64_t stamp_held_by(uint32_t thread, uint32_t word)
{
	return STAMP_HELD | (uint64_t)thread << 32 | word;
}

static inline bool stamp_is_mine(uint64_t stamp, uint32_t thread)
{
	return (stamp ^ stamp_held_by(thread, 0)) >> 32 == 0;
}

/* The version of a stamp that was loaded.  Of one that the update itself holds: the version before.
 * Of one that another holds: STAMP_HELD is set. */
static inline uint64_t stamp_version(const struct fur_thread *t, uint64_t stamp)
{
	return likely(!stamp_is_held(stamp)) || !stamp_is_mine(stamp, t->index)
	               ? stamp
	               : t->software.writes.words[(uint32_t)stamp].version;
}

enum stamps_hold {
	STAMPS_HELD,
	STAMPS_TAKEN,  /* another update has held one of them for long */
	STAMPS_NO_ROOM /* the set of dependencies has none: dset_make_room() */
};

/* stamps_hold - hold the stamps of the update's write set, and note the versions that its own
 * replaces (INV-DV1).  If it does not return STAMPS_HELD, the caller holds none.
 * It does not wait until others are durable (INV-SW8; model: ROOMINSIDE; plant:
 * room-while-publishing).
 * Orders:  its accesses before and after each other (compare-and-swap). */
FUR_MUST_USE enum stamps_hold stamps_hold(struct fur_thread *t);

/* Free what the update holds, if anything; `version`: its durTS; or 0: the update has not stored,
 * and the stamps get the versions that they had.
 * Orders:  the update's stores before that (release). */
void stamps_free(struct fur_thread *t, uint64_t version);

/* sweep_begin, sweep_end - INV-ST2.
 * Orders:  the begin before the caller's later stores (light fence); the stores before the end
 *          (release). */
void sweep_begin(struct engine *e);
void sweep_end(struct engine *e);

/* The update of this durTS has stored past the stamps.  The caller has shut all out. */
static inline void stamps_missed(struct engine *e, uint64_t durts)
{
	arch_store(&e->lock.unstamped, durts);
}

/* Return when no sweep is under way: `sweeps`, an even number.  Acquire. */
uint64_t sweep_await(const struct engine *e);

#endif /* FUR_STAMPS_H */
