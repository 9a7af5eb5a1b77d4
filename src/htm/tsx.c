/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tsx.c - updates on Intel TSX.  Loads and stores are tracked, so updates are opaque among
 * themselves and never in active[].  The isolation wait is for readers.  Two forms:
 *
 *   htm_tsx          TSXLDTRK: load tracking is suspended for the wait, so a reader that enters or
 *                    leaves active[] does not abort us.
 *   htm_tsx_tracked  no TSXLDTRK: the loads of active[] are tracked.  If all entries are empty at
 *                    the scan, a reader that begins before xend aborts us by writing its entry.  So
 *                    no wait is possible, and none is needed.  If a reader is active, we abort and
 *                    wait outside.
 *
 * nondurable[me].id is a tracked store, the very last: it appears with the update, atomically (the
 * others' INV-D1).  The durTS is drawn after xend, so no abort ever owes one.
 *
 * Measured on hardware, and easily lost again: `pause`, clwb and non-temporal stores abort, also
 * while loads are suspended.  A tight loop of untracked loads aborts on the invalidation for which
 * it waits, hence arch_gap().  `mfence` and `lfence` do not abort.
 */
#include "htm/active.h"

#if ARCH_HAS_TSX
#include "htm/tsx_insn.h"

/* How long a wait inside the transaction may last, in looks of some 30 ns.  An interrupt ends it
 * anyway, and a descheduled reader is better waited for outside, where we can yield. */
enum { WINDOW_LOOKS = 600 };

/* xabort codes are 1 + cause. */
static void tsx_abort_with(enum fur_abort_cause cause)
{
	switch (cause) {
	case FUR_ABORT_LOCK: tsx_abort(1 + FUR_ABORT_LOCK); break;
	case FUR_ABORT_READER: tsx_abort(1 + FUR_ABORT_READER); break;
	case FUR_ABORT_FULL: tsx_abort(1 + FUR_ABORT_FULL); break;
	default: tsx_abort(1 + FUR_ABORT_FAULT); break;
	}
	__builtin_unreachable();
}

static enum fur_abort_cause tsx_classify(uint64_t status)
{
	unsigned code = status >> 24 & 0xff;
	if (status & TSX_EXPLICIT)
		return code >= 1 && code <= FUR_ABORT_CAUSES ? (enum fur_abort_cause)(code - 1)
		                                             : FUR_ABORT_FAULT;
	if (status & TSX_CAPACITY)
		return FUR_ABORT_CAPACITY;
	if (status & TSX_CONFLICT)
		return FUR_ABORT_CONFLICT;
	return FUR_ABORT_FAULT;
}

/* This function returns inside the transaction, and its frame is gone by the time of an abort.
 * That is sound here: every store since xbegin is tracked, the stack's too, so an abort brings the
 * frame back. */
static uint64_t tsx_begin_update(struct fur_thread *t)
{
	unsigned status = tsx_begin(); /* A1:13 */
	if (status != TSX_STARTED)
		return status;
	/* Subscribe: a tracked load, so that a thread that takes the lock aborts us (INV-H3). */
	if (unlikely(lock_held(t->htm)))
		tsx_abort_with(FUR_ABORT_LOCK);
	return HTM_STARTED;
}

/* Line 31 is not here: durability_commit() draws the durTS after xend. */
static void tsx_commit(struct fur_thread *t)
{
	struct durability *d = t->durability;
	struct commit *c = &t->window.commit;
	FUR_ASSERT(c->durts == 0);
	phase_mark(c, FUR_PHASE_BODY);
	tsx_suspend_loads(); /* A1:27 */
	/* INV-H2: our stores leave the store buffer, and from then on abort us when a reader loads
	 * them, before active[] is read.  Without it a reader may begin after the scan, read an old
	 * value, and then a new one: Stress.TornReads; model: NOFENCE. */
	arch_fence();                                              /* A1:29 */
	if (!active_wait_inside(t->htm, &t->window, WINDOW_LOOKS)) /* A1:32 */
		tsx_abort_with(FUR_ABORT_READER);
	/* After the last access, before xend (INV-D1); untracked, so that others leaving
	 * nondurable[] do not abort us. */
	nondurable_collect_settled(d, c);
	tsx_resume_loads(); /* A1:34 */
	phase_mark(c, FUR_PHASE_ISOLATION);
	/* The last store, tracked: visible with xend, neither before (a reader's scan would abort
	 * us for nothing) nor after (a reader could see our data and miss us in D). */
	nondurable_announce(d, c); /* A1:33 */
	tsx_end();                 /* A1:35 */
}

static void tsx_commit_empty(struct fur_thread *t)
{
	tsx_suspend_loads();
	nondurable_collect(t->durability, t->index, &t->window.commit.dset);
	tsx_resume_loads();
	tsx_end();
}

/* All of active[] empty at the scan: a tracked load that has read 0 stands until xend, or we abort.
 * So the scan needs no fence before it; our stores appear with xend, all after it. */
static void tsx_commit_tracked(struct fur_thread *t)
{
	struct durability *d = t->durability;
	struct commit *c = &t->window.commit;
	phase_mark(c, FUR_PHASE_BODY);
	if (active_any(t->htm)) /* A1:32 */
		tsx_abort_with(FUR_ABORT_READER);
	nondurable_collect_settled(d, c);
	phase_mark(c, FUR_PHASE_ISOLATION);
	nondurable_announce(d, c); /* A1:33; as in tsx_commit() */
	tsx_end();                 /* A1:35 */
}

static void tsx_commit_empty_tracked(struct fur_thread *t)
{
	nondurable_collect(t->durability, t->index, &t->window.commit.dset);
	tsx_end();
}

static int tsx_aborted(struct fur_thread *t)
{
	(void)t; /* A1:52: no durTS is drawn before xend */
	return 0;
}

const struct htm_ops htm_tsx = {
        tsx_begin_update, tsx_classify, tsx_commit, tsx_commit_empty, tsx_abort_with, tsx_aborted};
const struct htm_ops htm_tsx_tracked = {tsx_begin_update, tsx_classify, tsx_commit_tracked,
        tsx_commit_empty_tracked, tsx_abort_with, tsx_aborted};
#endif
