/* SPDX-License-Identifier: BSD-3-Clause
 *
 * power.c - updates on POWER8 and POWER9, which can suspend a transaction altogether: between
 * tsuspend. and tresume. loads and stores are untracked and immediate.  So the update flushes its
 * redo log and draws its durTS during the isolation wait (FUR 3.2.2, 3.3).  Source: Power ISA 3.0B,
 * Book II, chapter 5 "Transactional Memory Facility".
 *
 *   opacity   tbegin. 0: loads are tracked; updates are opaque among themselves and do not appear
 *             in active[].
 *   snapshot  tbegin. 1: rollback-only, loads untracked and unlimited; updates appear in active[].
 *
 * Three rules of the window.  To break one aborts or corrupts:
 *   INV-W1  A suspended store to a line that the transaction has touched aborts it.  So the window
 *           runs on a stack of its own, and writes only lines that no transaction touches:
 *           active[], nondurable[], next_durts, the file's log, struct htm_window.
 *   INV-W2  A transaction doomed while suspended runs on until tresume., with its stores already
 *           rolled back.  The window may read the value from before tbegin. of a word that the
 *           transaction wrote (the log's head).  It bounds the value, and the abort throws the
 *           result away.
 *   INV-W3  Suspended stores are not rolled back.  On another stack they cannot overwrite the
 *           frames to which the abort returns, though power_begin() has returned long ago: every
 *           store to those was transactional.
 */
#include "htm/active.h"

#if ARCH_HAS_POWER_HTM
#include "htm/power_status.h"

/* Looks at active[] before giving up: a context switch dooms the transaction sooner. */
enum { WINDOW_LOOKS = 100000 };

static uint64_t power_begin(struct fur_thread *t)
{
	struct htm *h = t->htm;
	t->window.refused = FUR_ABORT_CAUSES;
	if (h->updates_active) {
		active_enter(active_of(t), t); /* A1:6, A1:9 */
		if (lock_held(h))
			return POWER_STATUS(FUR_ABORT_LOCK);
		return power_tbegin(1) ? HTM_STARTED : texasr(); /* A1:11 */
	}
	if (!power_tbegin(0)) /* A1:13 */
		return texasr();
	if (lock_held(h)) /* a tracked load: a thread that takes the lock aborts us (INV-H3) */
		power_abort_with(FUR_ABORT_LOCK);
	return HTM_STARTED;
}

static void power_leave(struct fur_thread *t)
{
	if (t->htm->updates_active)
		active_leave(active_of(t));
}

/* Copy the log out.  Returns the record's end.  The transaction wrote it, so INV-W2 holds. */
static uint64_t power_copy_log(struct fur_thread *t)
{
	struct redo_log *log = t->update.log;
	uint64_t start = arch_load(&log->start), end = arch_load(&log->head);
	if (end < start || end - start > t->durability->super->log_bytes)
		end = start;
	/* The head goes to the file's log only: in the mirror its line is the transaction's
	 * (INV-W1), and commit puts it there for the checksum.  It makes the same claims, for
	 * updates in the window claim nothing of others. */
	redo_put_head(log, t->durability, log->persistent,
	        &(struct media_claims){
	                .durts = t->window.commit.durts, .own = arch_load(&log->durts)});
	redo_copy_out(log, t->durability, start, end);
	return end;
}

/* Start the log's write-back. */
static void power_flush_log(struct fur_thread *t, uint64_t end)
{
	struct redo_log *log = t->update.log;
	redo_flush(log, t->durability, arch_load(&log->start), end);
	t->window.commit.log_is_out = true;
}

/* Runs suspended, on the window stack. */
static void power_commit_window(void *thread)
{
	struct fur_thread *t = thread;
	struct durability *d = t->durability;
	struct htm_window *w = &t->window;
	struct commit *c = &w->commit;
	phase_mark(c, FUR_PHASE_BODY);
	nondurable_collect(d, c->me, &c->dset); /* D; before leaving active[] (INV-D1) */
	/* Earlier than printed.  Before the log's write-back is issued: the fetch-and-add begins
	 * with hwsync, which would wait for it.  And before we leave active[]: a thread that holds
	 * the lock and finds active[] clear knows that every update that may still become visible
	 * has its durTS (INV-P2).  From here an abort owes an abort marker (INV-D5). */
	ring_draw(d, c); /* A1:31 */
	power_leave(t);  /* A1:28 */
	/* INV-H2: hwsync.  The transactional stores are performed, so that a load of them aborts
	 * us, before active[] is read. */
	arch_fence();                     /* A1:29 */
	uint64_t end = power_copy_log(t); /* A1:30 */
	if (!ring_fits(d, c->durts)) {
		w->refused = FUR_ABORT_FULL;
		return;
	}
	phase_mark(c, FUR_PHASE_LOG);
	/* The isolation wait hides the log's write-back.  If there is nobody to wait for, the
	 * write-back begins after the hwsync below, which would wait for it. */
	bool alone = active_wait_inside(t->htm, w, 0); /* A1:32 */
	if (!alone) {
		power_flush_log(t, end); /* A1:30 */
		if (!active_wait_inside(t->htm, w, WINDOW_LOOKS)) {
			w->refused = FUR_ABORT_READER;
			return;
		}
	}
	phase_mark(c, FUR_PHASE_ISOLATION);
	nondurable_announce(d, c); /* A1:33 */
	/* hwsync: the announcement is performed before tend. makes the body's stores visible.
	 * Otherwise a reader may load what we stored, miss us in nondurable[], and return data
	 * that a failure takes back (INV-D1).  lwsync is not enough.  It orders the accesses of
	 * the instructions before it with those of the instructions after it, and the body's stores
	 * come before it, as the announcement does.  Nor is tend.: the memory barriers of a
	 * transaction's begin and end do not exist in a rollback-only one, and those of an ordinary
	 * one do not order its own suspended stores with its other stores (Book II, 1.8).  No
	 * instruction after hwsync, tend. among them, begins before hwsync is complete. */
	arch_fence();
	if (alone)
		power_flush_log(t, end); /* A1:30 */
}

static void power_empty_window(void *thread)
{
	struct fur_thread *t = thread;
	nondurable_collect(t->durability, t->index, &t->window.commit.dset);
	power_leave(t); /* A1:28 */
}

static void power_commit(struct fur_thread *t)
{
	power_window(power_commit_window, t, t->window_stack); /* A1:27, A1:34 */
	if (t->window.refused != FUR_ABORT_CAUSES)
		power_abort_with(t->window.refused);
	power_tend(); /* A1:35 */
}

static void power_commit_empty(struct fur_thread *t)
{
	power_window(power_empty_window, t, t->window_stack);
	power_tend();
}

static int power_aborted(struct fur_thread *t)
{
	struct commit *c = &t->window.commit;
	int error = 0;
	power_leave(t); /* A1:51 */
	if (c->durts)   /* A1:52 */
		error = durability_abort(t->durability, c);
	c->durts = 0;
	return error;
}

const struct htm_ops htm_power = {power_begin, power_classify, power_commit, power_commit_empty,
        power_abort_with, power_aborted};
#endif
