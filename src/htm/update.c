/* SPDX-License-Identifier: BSD-3-Clause
 *
 * update.c - how an update begins: attempts in hardware, and the fallback lock (FUR, Algorithm 1,
 * lines 4 to 13).
 */
#include "base/error.h"
#include "htm/active.h"

/* After an abort: wait as the policy decided.  Errors: those of tx_refuse() and redo_make_room();
 * FUR_ETOOBIG. */
static int attempt_wait(struct fur_thread *t, enum htm_action action,
        const struct htm_history *history, uint64_t began)
{
	switch (action) {
	case HTM_RETRY:
	case HTM_RETRY_SOON: htm_pause(action, history, began, t->index); return 0;
	case HTM_WAIT_LOCK: return 0; /* begin_hardware() waits for the lock before every attempt */
	case HTM_WAIT_READER:
		active_wait_outside(t->htm, t->index);
		/* The user's reader_report has forked. */
		return unlikely(htm_forked(t->htm)) ? tx_refuse(t->htm) : 0;
	case HTM_MAKE_ROOM: return redo_make_room(t->update.log, t->durability);
	case HTM_TAKE_LOCK: break;
	}
	return 0;
}

/* Before every attempt, outside hardware transactions. */
static void attempt_prepare(struct fur_thread *t)
{
	struct htm_window *w = &t->window;
	struct commit *c = &w->commit;
	c->id++;
	c->durts = 0;
	c->log_is_out = false;
	c->dset.n = 0;
	c->dset.settled_below = 0;
	t->attempt_began = arch_ticks();
	/* The time of aborted attempts counts towards the body of the attempt that commits. */
	if (t->htm->phase_times) {
		w->clock = (struct phase_clock){.last = t->began};
		c->clock = &w->clock;
	}
	FUR_ASSERT(t->update.mode == TX_NONE);
	redo_begin(t->update.log, t->durability);
}

static int begin_locked(struct fur_thread *t)
{
	uint64_t started = t->htm->phase_times ? arch_ticks() : 0;
	lock_acquire(t->htm, t->index);
	if (unlikely(htm_forked(t->htm))) /* the user's reader_report has forked */
		return tx_refuse(t->htm);
	if (started)
		stat_add(&t->stats.phase_ticks[FUR_PHASE_LOCK], arch_ticks() - started);
	attempt_prepare(t);
	t->update.mode = TX_LOCK;
	return 0;
}

/* Make one hardware attempt after another, until one has begun or this thread has the lock.  The
 * compiler must not inline this, and no value may live across ops->begin() unless an abort restores
 * it. */
static int begin_hardware(struct fur_thread *t)
{
	const struct htm_ops *ops = t->htm->ops;
	struct htm_history history = {0};
	for (;;) {
		/* While the lock is held, an attempt would only abort. */
		if (!lock_wait_free(t->htm, t->index))
			break;
		attempt_prepare(t);
		t->update.mode = TX_HARDWARE;
		uint64_t status = ops->begin(t);
		if (likely(status == HTM_STARTED))
			return 0;
		t->update.mode = TX_NONE;
		enum fur_abort_cause cause = ops->classify(status);
		if (htm_is_conflict(cause) && lock_held(t->htm))
			cause = FUR_ABORT_LOCK;
		stat_add(&t->stats.aborts[cause], 1);
		int error = ops->aborted(t);
		if (error)
			return error;
		enum htm_action action = htm_decide(cause, &history, t->htm->retries);
		if (action == HTM_TAKE_LOCK)
			break;
		if ((error = attempt_wait(t, action, &history, t->attempt_began))) {
			/* The update alone fills the log.  We run it under the lock: there a store
			 * finds that out, and fur_commit() reports it. */
			if (error != FUR_ETOOBIG)
				return error;
			break;
		}
	}
	return begin_locked(t);
}

/* A begin that is not the outermost, and misuse. */
static int begin_inner(struct fur_thread *t, fur_update **update)
{
	if (update)
		*update = NULL;
	if (!t || !update)
		return fur_fail(FUR_EINVAL, "fur_begin_update: thread and update must not be NULL");
	int error = tx_check_begin(t, "fur_begin_update", "an update");
	if (error)
		return error;
	if (!t->update.depth)
		return fur_fail(FUR_ENESTED, "an update was begun inside a read-only transaction: "
		                             "end that first, or begin with fur_begin_update");
	t->update.depth++;
	*update = &t->update;
	return 0;
}

static int begin_refused(struct fur_update *tx, fur_update **update, int error)
{
	tx_close(tx);
	*update = NULL;
	return error;
}

FUR_API int fur_begin_update(fur_thread *t, fur_update **update)
{
	if (unlikely(!t || !update || t->owner != this_thread() || this_thread()->open))
		return begin_inner(t, update);
	struct fur_update *tx = &t->update;
	int error;
	if (unlikely(arch_load(&t->durability->failed) != 0))
		return begin_refused(tx, update, tx_refuse(t->htm));
	if (t->htm->phase_times)
		t->began = arch_ticks();
	tx->error = 0;
	tx->bytes = t->durability->super->heap_bytes;
	/* Set these before the hardware transaction begins, so that an abort does not undo them.
	 * If begin_hardware() returns an error, begin_refused() clears them. */
	*update = tx;
	this_thread()->open = t;
	tx->depth = 1;
	error = t->htm->ops ? begin_hardware(t) : begin_locked(t);
	return unlikely(error != 0) ? begin_refused(tx, update, error) : 0;
}
