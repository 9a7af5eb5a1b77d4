/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tsx.c - updates on Intel TSX.  Loads and stores are tracked, so updates are opaque among
 * themselves and never appear in active[]; the isolation wait is for readers.  Two forms:
 *
 *   htm_tsx          TSXLDTRK: load tracking is suspended for the wait, so a reader that comes or
 *                    goes does not abort us.
 *   htm_tsx_tracked  no TSXLDTRK: active[] is read with tracked loads.  All zero at the scan, and
 *                    any reader that begins before xend aborts us by writing its entry; so no wait
 *                    is possible, and none is needed.  A reader that is active makes us abort and
 *                    wait outside.
 *
 * nondurable[me].id is a tracked store, the very last: it appears with the update, atomically
 * (INV-D1 for others).  The slot is drawn after xend, so that no abort ever owes one.
 *
 * What is measured on hardware, and easy to lose again: `pause`, clwb and non-temporal stores
 * abort, also while suspended; a tight loop of untracked loads aborts on the invalidation it waits
 * for, hence arch_gap(); `mfence` and `lfence` are fine.
 */
#include "htm/htm.h"

#if ARCH_HAS_TSX
#include "htm/tsx_insn.h"

/* How long a wait inside the transaction may last, in looks of some 30 ns.  An interrupt ends it
 * anyway; a descheduled reader is better waited for outside, where we can yield. */
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
static uint64_t begin(struct fur_thread *t)
{
	unsigned status = tsx_begin();
	if (status != TSX_STARTED)
		return status;
	/* Subscribe: a tracked load, so that whoever takes the lock aborts us (INV-H3). */
	if (__builtin_expect(lock_held(t->htm), 0))
		tsx_abort_with(FUR_ABORT_LOCK);
	return HTM_STARTED;
}

static void announce_and_end(struct fur_thread *t)
{
	/* The last store, tracked: visible with xend, neither before (a reader's scan would abort
	 * us for nothing) nor after (a reader could see our data and miss us in D). */
	arch_store(&t->durability->nondurable[t->slot].id, t->window.update_id);
	tsx_end();
}

static void commit(struct fur_thread *t)
{
	const struct htm *h = t->htm;
	if (h->phase_times)
		t->window.committing = t->window.waiting = arch_ticks();
	tsx_suspend_loads();
	/* INV-H2: our stores leave the store buffer, and from then on abort us when a reader loads
	 * them, before active[] is read.  Without it a reader may begin after the scan, read an old
	 * value, and then a new one: Stress.TornReads; model: NOFENCE. */
	arch_fence();
	if (!htm_isolation_wait(h, &t->window, WINDOW_LOOKS))
		tsx_abort_with(FUR_ABORT_READER);
	/* After the last access, before xend (INV-D1); untracked, so that others leaving
	 * nondurable[] do not abort us. */
	durability_collect_settled(t->durability, t->slot, &t->window.dset);
	tsx_resume_loads();
	if (h->phase_times)
		t->window.waited = arch_ticks();
	announce_and_end(t);
}

static void commit_empty(struct fur_thread *t)
{
	tsx_suspend_loads();
	durability_collect(t->durability, t->slot, &t->window.dset);
	tsx_resume_loads();
	tsx_end();
}

static void commit_tracked(struct fur_thread *t)
{
	const struct htm *h = t->htm;
	uint64_t limit = arch_load(&h->durability->limit);
	if (h->phase_times)
		t->window.committing = t->window.waiting = arch_ticks();
	/* No fence: a tracked load that has read 0 stands until xend, or we abort; our stores
	 * appear with xend, all after it. */
	for (uint32_t i = 0; i < limit; i++)
		if (arch_load(&h->active[i].seq))
			tsx_abort_with(FUR_ABORT_READER);
	durability_collect_settled(t->durability, t->slot, &t->window.dset);
	if (h->phase_times)
		t->window.waited = arch_ticks();
	announce_and_end(t);
}

static void commit_empty_tracked(struct fur_thread *t)
{
	durability_collect(t->durability, t->slot, &t->window.dset);
	tsx_end();
}

static int aborted(struct fur_thread *t)
{
	(void)t; /* no slot is drawn before xend */
	return 0;
}

const struct htm_ops htm_tsx = {begin, tsx_classify, commit, commit_empty, tsx_abort_with, aborted};
const struct htm_ops htm_tsx_tracked = {
        begin, tsx_classify, commit_tracked, commit_empty_tracked, tsx_abort_with, aborted};
#endif
