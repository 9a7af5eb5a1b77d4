/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy.c - retry, wait or take the lock after a hardware abort (policy.h).
 */
#include "htm/policy.h"

#include "base/arch.h"
#include "base/error.h"
#include "tx/turn.h"

enum {
	/* A thread that shares the cache may have caused the first abort; the second is ours. */
	CAPACITY_TRIES = 2,
	/* Readers do not wait, and keep coming.  An update that they abort repeatedly probably
	 * writes near the root of a structure.  The lock keeps readers out. */
	PLAIN_TRIES = 8,
	/* An interrupt does not recur.  A page fault recurs until the page is touched outside a
	 * hardware transaction, that is, under the lock. */
	FAULT_TRIES = 3,
};

enum htm_action htm_decide(enum fur_abort_cause cause, struct htm_history *history, uint32_t budget)
{
	FUR_ASSERT(cause < FUR_ABORT_CAUSES);
	switch (cause) {
	case FUR_ABORT_CONFLICT: return ++history->spent < budget ? HTM_RETRY : HTM_TAKE_LOCK;
	case FUR_ABORT_PLAIN:
		++history->plains;
		return history->plains < PLAIN_TRIES && history->plains < budget ? HTM_RETRY_SOON
		                                                                 : HTM_TAKE_LOCK;
	case FUR_ABORT_CAPACITY:
		return ++history->capacities < CAPACITY_TRIES ? HTM_RETRY : HTM_TAKE_LOCK;
	case FUR_ABORT_LOCK:
		/* One update's fallback must not cause another's, or each would cause the next.
		 * After very many such aborts in a row, a place in the lock's queue is fairer. */
		return ++history->locks < UPDATE_RELEASES ? HTM_WAIT_LOCK : HTM_TAKE_LOCK;
	case FUR_ABORT_READER: return ++history->readers < budget ? HTM_WAIT_READER : HTM_TAKE_LOCK;
	case FUR_ABORT_FULL: return HTM_MAKE_ROOM;
	case FUR_ABORT_FAULT: return ++history->faults < FAULT_TRIES ? HTM_RETRY : HTM_TAKE_LOCK;
	default: return HTM_TAKE_LOCK;
	}
}

/* Two transactions that aborted each other should not meet again at once.  The aborted one lets the
 * other finish, which takes about as long as its own attempt did, and waits twice as long each
 * time.  The wait is bounded, because an attempt may have been long only because the thread was not
 * running.  The clock and the thread's number are random enough.  A reader that aborted us has no
 * transaction to finish, and will have gone on when we retry. */
void htm_pause(
        enum htm_action action, const struct htm_history *history, uint64_t began, uint32_t who)
{
	/* Measured: docs/benchmarks-notes.md, "Waits after a conflict".  FIRST and FIRST_SOON are
	 * in eighths of the attempt. */
	enum { FIRST = 16, FIRST_SOON = 2, DOUBLINGS = 4, MOST_NS = 1000000 };
	uint32_t aborts = action == HTM_RETRY ? history->spent : history->plains;
	uint32_t doublings = aborts < 2 ? 0 : aborts - 1 < DOUBLINGS ? aborts - 1 : DOUBLINGS;
	uint64_t now = arch_ticks(), most = arch_ns_to_ticks(MOST_NS),
	         pause = (now - began) * (action == HTM_RETRY ? FIRST : FIRST_SOON) / 8
	                 << doublings;
	uint64_t until = now + (now ^ who * UINT64_C(0x9e3779b97f4a7c15)) %
	                               ((pause < most ? pause : most) + 1);
	while (arch_ticks_pending(arch_ticks(), until, most))
		arch_pause();
}
