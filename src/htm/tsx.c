/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tsx.c - updates on Intel TSX.  TSX tracks loads and stores, so updates are opaque among
 * themselves and never in active[].  The isolation wait is for readers only.  There are two forms:
 *
 *   htm_tsx          with TSXLDTRK: we suspend load tracking during the wait, so a reader that
 *                    enters or leaves active[] does not abort us.
 *   htm_tsx_tracked  without TSXLDTRK: the loads of active[] are tracked, so a reader that writes
 *                    its entry before xend aborts us.  If the scan finds all entries empty, no wait
 *                    is needed.  If it finds an active reader, no wait is possible inside: we
 *                    abort, and wait outside.
 *
 * The last store of an update is a tracked one, to nondurable[me].id: it becomes visible together
 * with the update (INV-D1 of other transactions).  We draw the durTS after xend, so no abort ever
 * owes an abort marker.
 *
 * Measured on hardware: `pause`, clwb and non-temporal stores abort, even while load tracking is
 * suspended.  A tight loop of untracked loads aborts at the very invalidation for which it waits,
 * hence arch_gap().  `mfence` and `lfence` do not abort.
 */
#include "htm/htm.h"
#include "tx/active.h"

#if ARCH_HAS_TSX
#include "htm/tsx_insn.h"

/* How long a wait inside the transaction may last, in looks of about 30 ns.  An interrupt would end
 * a longer one.  For a descheduled reader it is better to wait outside, where we can yield. */
enum { WINDOW_LOOKS = 600 };

/* xabort codes are 1 + cause. */
static void tsx_abort_with(enum fur_abort_cause cause)
{
	switch (cause) {
	case FUR_ABORT_LOCK: tsx_abort(1 + FUR_ABORT_LOCK); break;
	case FUR_ABORT_READER: tsx_abort(1 + FUR_ABORT_READER); break;
	case FUR_ABORT_FULL: tsx_abort(1 + FUR_ABORT_FULL); break;
	case FUR_ABORT_USER: tsx_abort(1 + FUR_ABORT_USER); break;
	case FUR_ABORT_SNAPSHOT: tsx_abort(1 + FUR_ABORT_SNAPSHOT); break;
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

/* This function returns inside the transaction, so its frame is gone when the transaction aborts.
 * That is sound here: TSX tracks every store since xbegin, those to the stack too, so an abort
 * restores the frame. */
static uint64_t tsx_begin_update(struct fur_thread *t)
{
	unsigned status = tsx_begin(); /* A1:13 */
	if (status != TSX_STARTED)
		return status;
	/* Subscribe to the lock: the loads are tracked, so a thread that takes the lock, or that
	 * sends updates to software, aborts us (INV-H3, INV-UR1). */
	if (unlikely(hardware_is_out(t->engine)))
		tsx_abort_with(FUR_ABORT_LOCK);
	return HTM_STARTED;
}

/* No subscription: the thread has the turn, so no other thread can set `shut`. */
static uint64_t tsx_begin_publication(struct fur_thread *t)
{
	(void)t;
	unsigned status = tsx_begin();
	return status == TSX_STARTED ? HTM_STARTED : status;
}

/* Line 31 is not here: durability_persist() draws the durTS after xend. */
static void tsx_commit(struct fur_thread *t)
{
	struct durability *d = t->durability;
	struct commit *c = &t->window.commit;
	FUR_ASSERT(c->durts == 0);
	phase_mark(c, FUR_PHASE_BODY);
	tsx_suspend_loads(); /* A1:27 */
	/* INV-H2: orders our stores before our scan of active[].  Once they have left the store
	 * buffer, a reader's load of one of them aborts us.  Without the fence a reader may begin
	 * after the scan, read an old value, and then a new one: Stress.TornReads; model:
	 * NOFENCE. */
	arch_fence();                                                 /* A1:29 */
	if (!active_wait_inside(t->engine, &t->window, WINDOW_LOOKS)) /* A1:32 */
		tsx_abort_with(FUR_ABORT_READER);
	/* After the last access, before xend (INV-D1).  The loads are untracked, so another thread
	 * that leaves nondurable[] does not abort us. */
	nondurable_collect_settled(d, c);
	tsx_resume_loads(); /* A1:34 */
	phase_mark(c, FUR_PHASE_ISOLATION);
	/* The last store, and tracked: it becomes visible at xend, together with the update.
	 * Earlier, a reader's scan would abort us for nothing; later, a reader could see our data
	 * and miss us in its D. */
	nondurable_announce(d, c); /* A1:33 */
	tsx_end();                 /* A1:35 */
}

/* The transaction has stored nothing that others can see: it ends, and goes on as a read-only
 * transaction does. */
static void tsx_commit_empty(struct fur_thread *t)
{
	tsx_end();
	nondurable_collect(t->durability, t->index, &t->window.commit.dset);
}

/* If the scan finds all of active[] empty, it stays empty until xend: the loads are tracked, so a
 * change of an entry aborts us.  So the scan needs no fence before it: all our stores become
 * visible at xend, after the scan. */
static void tsx_commit_tracked(struct fur_thread *t)
{
	struct durability *d = t->durability;
	struct commit *c = &t->window.commit;
	phase_mark(c, FUR_PHASE_BODY);
	if (active_any(t->engine, t->window.publishes_software)) /* A1:32 */
		tsx_abort_with(FUR_ABORT_READER);
	nondurable_collect_settled(d, c);
	phase_mark(c, FUR_PHASE_ISOLATION);
	nondurable_announce(d, c); /* A1:33; as in tsx_commit() */
	tsx_end();                 /* A1:35 */
}

static int tsx_aborted(struct fur_thread *t)
{
	(void)t; /* A1:52: no durTS is drawn before xend */
	return 0;
}

const struct htm_ops htm_tsx = {tsx_begin_update, tsx_begin_publication, tsx_classify, tsx_commit,
        tsx_commit_empty, tsx_abort_with, tsx_aborted};
const struct htm_ops htm_tsx_tracked = {tsx_begin_update, tsx_begin_publication, tsx_classify,
        tsx_commit_tracked, tsx_commit_empty, tsx_abort_with, tsx_aborted};
#endif
