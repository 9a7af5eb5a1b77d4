/* SPDX-License-Identifier: BSD-3-Clause
 *
 * power.c - updates on POWER8 and POWER9.  These processors can suspend a transaction: between
 * tsuspend. and tresume. (the window), loads and stores are untracked and take effect at once.  So
 * an update flushes its redo log and draws its durTS during the isolation wait (FUR 3.2.2, 3.3).
 * Source: Power ISA 3.0B, Book II, chapter 5 "Transactional Memory Facility".
 *
 *   opacity   tbegin. 0: loads are tracked; updates are opaque among themselves and do not appear
 *             in active[].
 *   snapshot  tbegin. 1: rollback-only, loads untracked and unlimited; updates appear in active[].
 *
 * Three rules of the window.  Breaking one aborts the update or corrupts memory:
 *   INV-W1  A suspended store to a line that the transaction has touched aborts the transaction.
 *           So the window runs on a stack of its own, and writes only lines that no transaction
 *           touches: active[], nondurable[], next_durts, the file's log, struct commit_window.
 *   INV-W2  If a transaction is doomed while suspended, the processor rolls its stores back at
 *           once, but the window runs on to its tresume. instruction.  So if the window reads a
 *           word that the transaction wrote (the log's notes, the heap), it may get the value from
 *           before the transaction.  redo_complete() stays inside the heap and the log with any
 *           such value, and the abort discards the result.
 *   INV-W3  An abort does not roll suspended stores back.  On the window's stack they cannot
 *           overwrite the frames to which the abort returns.  power_begin() has returned long
 *           before, but every store to those frames since was transactional, so the abort restores
 *           them.
 */
#include "htm/htm.h"
#include "tx/active.h"

#if ARCH_HAS_POWER_HTM
#include "htm/power_status.h"

/* Looks at active[] before giving up: a context switch dooms the transaction before that. */
enum { WINDOW_LOOKS = 100000 };

static uint64_t power_begin(struct fur_thread *t)
{
	struct engine *e = t->engine;
	t->window.refused = FUR_ABORT_CAUSES;
	if (e->updates_active) {
		active_enter(active_of(t), t); /* A1:6, A1:9 */
		if (readers_are_out(e))
			return POWER_STATUS(FUR_ABORT_LOCK);
		return power_tbegin(1) ? HTM_STARTED : texasr(); /* A1:11 */
	}
	if (!power_tbegin(0)) /* A1:13 */
		return texasr();
	/* Tracked loads: a thread that shuts readers out, or that sends updates to software, aborts
	 * us (INV-H3, INV-UR1). */
	if (hardware_is_out(e))
		power_abort_with(FUR_ABORT_LOCK);
	return HTM_STARTED;
}

/* Rollback-only: it only stores, and the thread's entry in active[] and the turn protect what its
 * update has loaded.  No subscription: the thread has the turn, so no other thread can set
 * `shut`. */
static uint64_t power_begin_publication(struct fur_thread *t)
{
	t->window.refused = FUR_ABORT_CAUSES;
	return power_tbegin(1) ? HTM_STARTED : texasr();
}

static void power_leave(struct fur_thread *t)
{
	if (t->engine->updates_active && !t->window.publishes_software)
		active_leave(active_of(t));
}

/* Complete the record in the mirror (INV-D8), and copy it to the file's log.  Returns the record's
 * end.  A publication's record is complete already. */
static uint64_t power_copy_log(struct fur_thread *t)
{
	struct redo_log *log = t->update.log;
	uint64_t start = arch_load(&log->open_at), end = arch_load(&log->write_at);
	if (log->kind == REDO_NOTES)
		end = redo_complete(log, t->durability, t->update.base);
	/* durability_persist() writes the record's head to the mirror later, for the checksum.
	 * Both heads make the same claims, because an update that drew its durTS in the window
	 * claims nothing about other threads. */
	redo_put_head(log, t->durability, log->persistent,
	        &(struct media_claims){.durts = t->window.commit.durts, .own = redo_settled(log)});
	redo_copy_out(log, t->durability, start, end);
	return end;
}

/* Start the log's write-back. */
static void power_flush_log(struct fur_thread *t, uint64_t end)
{
	struct redo_log *log = t->update.log;
	redo_flush(log, t->durability, arch_load(&log->open_at), end);
	t->window.commit.log_is_out = true;
}

/* Runs suspended, on the window stack. */
static void power_commit_window(void *thread)
{
	struct fur_thread *t = thread;
	struct durability *d = t->durability;
	struct commit_window *w = &t->window;
	struct commit *c = &w->commit;
	phase_mark(c, FUR_PHASE_BODY);
	nondurable_collect_settled(d, c); /* D, before we leave active[] (INV-D1) */
	/* Earlier than in the paper, for two reasons.  The fetch-and-add begins with hwsync, which
	 * would wait for the log's write-back if that were under way.  And we must draw before we
	 * leave active[]: then a thread that holds the lock and finds active[] empty knows that
	 * every update that may still become visible has its durTS (INV-P2).  From here on an abort
	 * owes an abort marker (INV-D5). */
	ring_draw(d, c); /* A1:31 */
	power_leave(t);  /* A1:28 */
	/* INV-H2: hwsync.  It orders our transactional stores before our scan of active[]: once
	 * they are performed, a reader's load of one of them aborts us.  Without it a reader could
	 * begin after the scan, read an old value, and later a new one. */
	arch_fence();                     /* A1:29 */
	uint64_t end = power_copy_log(t); /* A1:30 */
	if (!ring_fits(d, c->durts)) {
		w->refused = FUR_ABORT_FULL;
		return;
	}
	phase_mark(c, FUR_PHASE_LOG);
	/* The isolation wait hides the log's write-back.  If there is no transaction to wait for,
	 * we start the write-back only after the hwsync below, because that would wait for it. */
	bool alone = active_wait_inside(t->engine, w, 0); /* A1:32 */
	if (!alone) {
		power_flush_log(t, end); /* A1:30 */
		if (!active_wait_inside(t->engine, w, WINDOW_LOOKS)) {
			w->refused = FUR_ABORT_READER;
			return;
		}
	}
	phase_mark(c, FUR_PHASE_ISOLATION);
	nondurable_announce(d, c); /* A1:33 */
	/* hwsync: orders the announcement before tend. makes the body's stores visible.  Otherwise
	 * a reader may load our stores, miss us in nondurable[], and return data that a failure
	 * then loses (INV-D1).  lwsync is not enough: it orders accesses before it against accesses
	 * after it, and both the announcement and the body's stores come before it.  tend. is not
	 * enough either: a rollback-only transaction has no memory barriers at its begin and end,
	 * and those of an ordinary transaction do not order its own suspended stores against its
	 * other stores (Book II, 1.8).  hwsync is enough, because no later instruction, including
	 * tend., begins before hwsync is complete. */
	arch_fence();
	if (alone)
		power_flush_log(t, end); /* A1:30 */
}

static void power_commit(struct fur_thread *t)
{
	power_window(power_commit_window, t, t->window_stack); /* A1:27, A1:34 */
	if (t->window.refused != FUR_ABORT_CAUSES)
		power_abort_with(t->window.refused);
	power_tend(); /* A1:35 */
}

/* The transaction has stored nothing that others can see.  So it ends at once, without a window,
 * and goes on as a read-only transaction does. */
static void power_commit_empty(struct fur_thread *t)
{
	power_tend();
	nondurable_collect(t->durability, t->index, &t->window.commit.dset);
	power_leave(t); /* A1:28 */
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

const struct htm_ops htm_power = {power_begin, power_begin_publication, power_classify,
        power_commit, power_commit_empty, power_abort_with, power_aborted};
#endif
