/* SPDX-License-Identifier: BSD-3-Clause
 *
 * power.c - updates on POWER8 and POWER9, which can suspend a transaction altogether: between
 * tsuspend. and tresume. loads and stores are untracked and immediate, so the redo log gets out and
 * the slot is drawn during the isolation wait (FUR 3.2.2, 3.3).  Source: Power ISA 3.0B, Book II,
 * chapter 5 "Transactional Memory Facility".
 *
 *   opacity   tbegin. 0: loads are tracked; updates are opaque among themselves and do not appear
 *             in active[].
 *   snapshot  tbegin. 1: rollback-only, loads untracked and unlimited; updates appear in active[].
 *
 * Three rules of the window, each of which aborts or corrupts when broken:
 *   INV-W1  A suspended store to a line the transaction has touched aborts it.  So the window runs
 *           on a stack of its own, and writes only lines that no transaction touches: active,
 *           nondurable, G, the file's log, struct htm_window.
 *   INV-W2  A transaction doomed while suspended runs on until tresume., with its stores already
 *           rolled back.  What the window reads of them (the log's head) may be the value from
 *           before tbegin.; it is bounded, and what is made of it is thrown away.
 *   INV-W3  Suspended stores are not rolled back.  On another stack they cannot overwrite the
 *           frames the abort returns to, though begin() has returned long ago: every store to those
 *           was transactional.
 */
#include "htm/htm.h"

#if ARCH_HAS_POWER_HTM
#include "htm/power_insn.h"

/* Looks at active[] before giving up: a context switch dooms the transaction sooner. */
enum { WINDOW_LOOKS = 100000 };

static uint64_t begin(struct fur_thread *t)
{
	struct htm *h = t->htm;
	if (h->updates_active) {
		/* As a reader's: published before the first load, and before the look at the lock
		 * (INV-H1, INV-H3). */
		arch_store_fence(&h->active[t->slot].seq, t->seq += 2);
		if (lock_held(h))
			return POWER_STATUS(FUR_ABORT_LOCK);
		return power_tbegin(1) ? HTM_STARTED : texasr();
	}
	if (!power_tbegin(0))
		return texasr();
	if (lock_held(h)) /* a tracked load: whoever takes the lock aborts us (INV-H3) */
		power_abort_with(FUR_ABORT_LOCK);
	return HTM_STARTED;
}

/* No longer active: nothing is read from here on.  Release orders the loads before it, and
 * INV-D1's. */
static void deactivate(struct fur_thread *t)
{
	if (t->htm->updates_active)
		arch_store_release(&t->htm->active[t->slot].seq, 0);
}

/* Copy the log out.  Returns the record's end.  That was written inside the transaction: INV-W2. */
static uint64_t copy_log(struct fur_thread *t)
{
	struct redo_log *log = t->update.log;
	uint64_t start = arch_load(&log->start), end = arch_load(&log->head);
	if (end < start || end - start > t->durability->super->log_bytes)
		end = start;
	/* The head goes to the file's log only: in the mirror its line is the transaction's
	 * (INV-W1); commit puts it there for the checksum.  It makes the same claims, for updates
	 * in the window claim nothing of others. */
	redo_put_head(log, t->durability, log->persistent,
	        &(struct media_claims){.durts = t->window.slot, .own = arch_load(&log->slot)});
	redo_copy_out(log, t->durability, start, end);
	return end;
}

/* Start the log's write-back. */
static void flush_log(struct fur_thread *t, uint64_t end)
{
	struct redo_log *log = t->update.log;
	redo_flush(log, t->durability, arch_load(&log->start), end);
	t->window.log_is_out = true;
}

/* Runs suspended, on the window stack. */
static void window(struct fur_thread *t)
{
	struct durability *d = t->durability;
	struct htm_window *w = &t->window;
	if (t->htm->phase_times)
		w->committing = arch_ticks();
	/* The body's loads before the scan, as in fur_end_ro() (INV-D1): lwsync, for nothing says
	 * that tsuspend. orders them. */
	arch_fence_light();
	durability_collect(d, t->slot, &w->dset);
	/* From here an abort owes this slot an abort marker (INV-D5).  Drawn before the log's
	 * write-back is issued: the fetch-and-add begins with hwsync, which would wait for it.  And
	 * drawn before we leave active[]: who holds the lock and finds active[] clear knows that
	 * every update that may still become visible has its slot (INV-P2). */
	w->slot = arch_fetch_add(&d->next_durts, 1);
	deactivate(t);
	/* INV-H2: hwsync.  The transactional stores are performed, so that a load of them aborts
	 * us, before active[] is read. */
	arch_fence();
	uint64_t end = copy_log(t);
	if (w->slot >= arch_load_acquire(&d->tail) + d->super->ring_slots) {
		w->refused = FUR_ABORT_FULL;
		return;
	}
	if (t->htm->phase_times)
		w->waiting = arch_ticks();
	/* The isolation wait hides the log's write-back.  If there is nobody to wait for, the
	 * write-back begins after the hwsync below, which would wait for it. */
	bool alone = htm_isolation_wait(t->htm, w, 0);
	if (!alone) {
		flush_log(t, end);
		if (!htm_isolation_wait(t->htm, w, WINDOW_LOOKS)) {
			w->refused = FUR_ABORT_READER;
			return;
		}
	}
	if (t->htm->phase_times)
		w->waited = arch_ticks();
	/* Slot before id: release, which is lwsync. */
	arch_store(&d->nondurable[t->slot].slot, w->slot);
	arch_store_release(&d->nondurable[t->slot].id, w->update_id);
	w->announced = true;
	/* hwsync: the announcement is performed before tend. makes the body's stores visible.
	 * Otherwise a reader may load what we stored, miss us in nondurable[], and return data
	 * that a failure takes back (INV-D1).  lwsync does not say so.  It orders the accesses of
	 * the instructions before it with those of the instructions after it, and the body's stores
	 * come before it, as the announcement does.  Nor does tend.: the memory barriers of a
	 * transaction's begin and end do not exist in a rollback-only one, and those of an ordinary
	 * one do not order its own suspended stores with its other stores (Book II, 1.8).  No
	 * instruction after hwsync, tend. among them, begins before hwsync is complete. */
	arch_fence();
	if (alone)
		flush_log(t, end);
}

static void window_empty(struct fur_thread *t)
{
	arch_fence_light(); /* as in window() */
	durability_collect(t->durability, t->slot, &t->window.dset);
	deactivate(t);
}

static void commit(struct fur_thread *t)
{
	power_window(window, t, t->window_stack);
	if (t->window.refused != FUR_ABORT_CAUSES)
		power_abort_with(t->window.refused);
	power_tend();
}

static void commit_empty(struct fur_thread *t)
{
	power_window(window_empty, t, t->window_stack);
	power_tend();
}

static int aborted(struct fur_thread *t)
{
	int error = 0;
	deactivate(t);
	if (t->window.slot)
		error = durability_abort(t->durability, t->slot, t->window.slot);
	t->window.slot = 0;
	t->window.announced = false;
	return error;
}

const struct htm_ops htm_power = {
        begin, power_classify, commit, commit_empty, power_abort_with, aborted};
#endif
