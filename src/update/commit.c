/* SPDX-License-Identifier: BSD-3-Clause
 *
 * commit.c - how an update commits (FUR, Algorithm 1, lines 22 to 39).
 *
 * Way 3, an update commits:
 *
 *     fur_commit()          counts an inner end; leaves the body if the update is defeated
 *       update_commit()     rolls the update back if it has failed
 *         commit_visible()  makes the update visible: ways 4, 5 and 6
 *         commit_finish()   makes it durable, and waits for D: way 7
 */
#include "base/error.h"
#include "base/probe.h"
#include "durability/dset.h"
#include "durability/ship.h"
#include "htm/htm.h"
#include "tx/blocks.h"
#include "update/fresh.h"
#include "update/in_place.h"

/* ------------------------------------------------------------ in software */

/* An update that wrote nothing has a consistent snapshot, and needs no turn: it comes, in the order
 * of updates, where its snapshot does. */
static int software_commit(struct fur_thread *t, bool empty)
{
	struct commit *c = &t->window.commit;
	uint64_t *count;
	int error;
	phase_mark(c, FUR_PHASE_BODY);
	if (empty) {
		if (!c->dset.by_version)
			nondurable_collect(t->durability, t->index, &c->dset);
		body_end(t);
		return 0;
	}
	count = t->update.mode == TX_SERIAL ? &t->stats.serial_commits : &t->stats.software_commits;
	error = publish(t);
	if (!error)
		stat_add(count, 1);
	return error;
}

/* -------------------------------------------------------------- all updates */

int update_finish_empty(struct fur_thread *t)
{
	const bool async = t->window.commit.async;
	if (!async)
		dset_wait(t->durability, &t->window.commit);
	else
		FUR_POINT(empty__commits);
	stat_add(&t->stats.update_commits, 1);
	stat_add(&t->stats.empty_commits, 1);
	/* As in fur_end_ro(): the fence orders the scan that collected D before the load of
	 * `failed`.  Otherwise an update from which we have read could fail between the two loads,
	 * and we would not notice. */
	arch_fence_light();
	int error = async ? 0 : ship_wait_all(t->durability); /* INV-AS2, by the same fence */
	if (!error)
		error = durability_check_read(t->durability);
	FUR_PROBE4(update__commit, t->index, UINT64_C(0), UINT64_C(0), error);
	return error;
}

static int commit_finish(struct fur_thread *t)
{
	struct commit *c = &t->window.commit;
	uint64_t entries = t->update.log->entries;
	/* The time since the last mark is that of the hardware's own commit.  No phase counts
	 * it. */
	if (c->clock)
		c->clock->last = arch_ticks();
	int error = durability_persist(t->durability, c);
	error = durability_await(t->durability, c, error); /* A1:36 to A1:39 */
	/* Its own stores are the ones that it loads next. */
	if (!error)
		dset_own_settled(c);
	FUR_PROBE4(update__commit, t->index, c->durts,
	        t->update.log->committed_to - t->update.log->open_at, error);
	c->durts = 0;
	stat_add(&t->stats.update_commits, 1);
	stat_add(&t->stats.log_entries, entries);
	if (c->async)
		stat_add(&t->stats.async_commits, 1);
	if (c->clock)
		for (int p = 0; p < FUR_PHASES; p++)
			stat_add(&t->stats.phase_ticks[p], c->clock->ticks[p]);
	if (unlikely(t->engine->after_update[0] != NULL))
		after_update_call(t, entries + fresh_pages(t));
	return error;
}

/* Make the update visible (lines 22 to 35).  Errors: UPDATE_DEFEATED; those of publish(). */
static int commit_visible(struct fur_thread *t, bool empty)
{
	switch (t->update.mode) {
	case TX_HARDWARE:
		(empty ? t->engine->ops->commit_empty : t->engine->ops->commit)(t);
		return 0;
	case TX_IN_PLACE:
		if (unlikely(t->update.flags & TX_CHECKED)) {
			blocks_show(t);
			blocks_hide(t);
		}
		in_place_commit(t);
		return 0;
	default: return software_commit(t, empty);
	}
}

/* The machine's window, in_place_commit() or publish() makes the update visible, and
 * commit_finish() makes it durable. */
int update_commit(struct fur_update *tx)
{
	if (unlikely(tx->flags & TX_FRESH) && tx->error == 0)
		fresh_persist(tx);
	if (unlikely(tx->error != 0))
		return update_roll_back(tx);
	struct fur_thread *t = tx->thread;
	FUR_ASSERT(tx->mode != TX_NONE);
	bool empty = tx->log->entries == 0;
	enum tx_mode mode = tx->mode;
	int error = commit_visible(t, empty);
	if (error == UPDATE_DEFEATED)
		return error;
	tx_reset(tx);
	policy_learn(t, mode);
	/* A thread that waits for the disk needs no core: the more threads commit meanwhile, the
	 * more of them share the next sync. */
	if (pm_writes(&t->durability->pm))
		tx_leave_core(t);
	if (!error)
		error = empty ? update_finish_empty(t) : commit_finish(t);
	tx_leave_core(t);
	if (unlikely(t->engine->switches) && !error)
		updates_learn(t);
	return error;
}

/* fur_commit(), but for the ticket after an error. */
static int commit_with(fur_update *tx, fur_ticket *ticket)
{
	if (unlikely(!tx_is_mine(tx)))
		return tx_not_mine(tx, "fur_commit");
	struct fur_thread *t = tx->thread;
	if (tx->depth > 1) {
		if (unlikely(t->together && tx->depth == TOGETHER_DEPTH))
			return update_refuse_part("fur_commit");
		/* As for fur_end_ro(): the number that the outermost one gets. */
		tx->depth--;
		if (ticket)
			*ticket = ticket_of(t, t->tickets + 1);
		return 0;
	}
	/* False since the begin.  An update in a hardware transaction stores here only if it must:
	 * the store adds a line to the write set. */
	if (ticket)
		t->window.commit.async = true;
	int error = update_commit(tx);
	if (unlikely(error == UPDATE_DEFEATED))
		body_jump_out(t); /* does not return */
	if (ticket && !error)
		*ticket = ticket_of(t, ++t->tickets);
	return error;
}

FUR_API int fur_commit(fur_update *tx, fur_ticket *ticket)
{
	int error = commit_with(tx, ticket);
	if (unlikely(error && ticket))
		*ticket = (fur_ticket){0};
	return error;
}
