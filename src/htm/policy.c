/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy.c - what to do after a hardware abort.  Classify first, then decide: an abort that hardware will repeat must not burn the
 * retry budget, and one that has nothing to do with contention must not count against it.
 */
#include "htm.h"

enum {
	CAPACITY_TRIES = 2, /* the first may be the fault of whoever shares the cache; the second is ours */
	/* A reader comes by again and again, and does not wait: what it aborts time after time writes near the root of something.  The
	 * lock keeps readers out. */
	PLAIN_TRIES = 8,
	FAULT_TRIES = 3, /* an interrupt does not come again; a page fault does, until touched outside: under the lock */
	LOCK_TURNS = 200,
};

enum htm_action htm_decide(enum fur_abort_cause cause, struct htm_history *history, uint32_t budget)
{
	switch (cause) {
	case FUR_ABORT_CONFLICT: return ++history->spent < budget ? HTM_RETRY : HTM_TAKE_LOCK;
	case FUR_ABORT_PLAIN:
		++history->plains;
		return history->plains < PLAIN_TRIES && history->plains < budget ? HTM_RETRY_SOON : HTM_TAKE_LOCK;
	case FUR_ABORT_CAPACITY: return ++history->capacities < CAPACITY_TRIES ? HTM_RETRY : HTM_TAKE_LOCK;
	case FUR_ABORT_LOCK:
		/* Somebody else's fallback is no reason for ours: if it were, one would bring on the next.  With very many of them in a row
		 * the queue is fairer. */
		return ++history->locks < LOCK_TURNS ? HTM_WAIT_LOCK : HTM_TAKE_LOCK;
	case FUR_ABORT_READER: return ++history->readers < budget ? HTM_WAIT_READER : HTM_TAKE_LOCK;
	case FUR_ABORT_FULL: return HTM_MAKE_ROOM;
	case FUR_ABORT_FAULT: return ++history->faults < FAULT_TRIES ? HTM_RETRY : HTM_TAKE_LOCK;
	default: return HTM_TAKE_LOCK;
	}
}
