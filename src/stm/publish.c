/* SPDX-License-Identifier: BSD-3-Clause
 *
 * publish.c - how the stores of software updates become visible.
 *
 * On a machine without hardware transactions, concurrent updates publish beside each other while
 * updates are in (`shut`): each holds the stamps of the lines that it writes, and waits for no
 * other.  While readers are in, an update takes the turn and shuts them out; if it has met others,
 * it lets updates in afterwards.  On a machine that has hardware transactions, one update at a time
 * publishes, in one of these if it can.
 *
 * Way 5, an update becomes visible in software:
 *
 *     software_commit()          ends at once if the update wrote nothing; else publish()
 *       publish_beside()         while updates are in
 *         make_visible()         as below
 *       publish_as_holder()      has the turn, at once or after a wait
 *         publish_in_hardware()  stores in a hardware transaction, if the machine has them
 *         publish_in_place()     stores in place
 *           readers_shut_out()   drains readers
 *           make_visible()       the steps of a publication:
 *             stamps_hold()      holds the stamps of the lines
 *             is_current()       looks whether what the body has loaded is as it was
 *             announce()         announces the update, draws the durTS
 *               publication_announce()  collects D, enters nondurable[]
 *             publication_store()  stores
 *             stamps_free()      frees the stamps, with the durTS as their version
 *           updates_let_in(), readers_let_in()
 *         turn_give()            gives the turn
 */
#include "htm/htm.h"
#include "stm/images.h"
#include "stm/publication.h"

#include "base/checker.h"
#include "base/error.h"
#include "base/probe.h"
#include "tx/blocks.h"
#include "tx/marks.h"

/* ------------------------------------------------------------- what has it read? */

/* Collect D (INV-D1), unless the versions have told it: after the last comparison of the loaded
 * values.  Besides, a hardware update may draw after it is visible.  If it wrote to a word of ours
 * before us, it must draw before us (INV-D4), so we must find it: then we collect D when no
 * hardware update can become visible any more. */
static void collect(struct fur_thread *t)
{
	if (t->window.commit.dset.by_version)
		return;
	nondurable_collect_settled(t->durability, &t->window.commit);
	FUR_POINT(publication__collected);
}

bool reads_are_old(const struct fur_thread *t)
{
	const struct read_set *set = &t->software.reads;
	const uint64_t snapshot = t->software.snapshot;
	bool old = true;
	arch_overlap_begin();
	for (const struct logged_read *r = set->reads; r < set->next && old; r++)
		old = stamp_version(t, arch_load(stamp_of(t->engine, r->word))) < snapshot;
	arch_overlap_end();
	return old;
}

/* Has each word that the update has loaded its value still?  A thread that is not alone does not
 * ask next_durts, which each update of the others changes: it looks at the stamps. */
static bool is_current(struct fur_thread *t)
{
	const struct software_body *s = &t->software;
	if (arch_load(&t->engine->sweeps) == s->sweep &&
	        (s->others ? reads_are_old(t) : ring_next_acquire(t->durability) == s->snapshot))
		return true;
	return software_extend(t);
}

/* The update has found what it has loaded as it was, and then drawn its durTS.  Has another one
 * that has drawn since the snapshot published to one of these words?  If so, that one has the lower
 * durTS, but we have not read what it stored: the order of the durTSs would not be the order of the
 * updates. */
static bool is_still_current(const struct fur_thread *t)
{
	return t->window.commit.durts == t->software.snapshot || reads_are_old(t);
}

/* --------------------------------------------------------- a publication's steps */

void publication_announce(struct fur_thread *t)
{
	struct durability *d = t->durability;
	struct commit *c = &t->window.commit;
	collect(t);
	/* All that is not settled, and that the update has read from, is in the set.  On POWER no
	 * marker claims that: a hardware update that has aborted may owe a marker (INV-M4). */
	if (c->dset.by_version && d->draws_announced)
		c->dset.settled_below = c->dset.settled;
	nondurable_announce(d, c); /* A1:33 */
}

/* Announce the update, and draw its durTS. */
static void announce(struct fur_thread *t)
{
	publication_announce(t);
	/* Draw before the turn is given: an update that draws later would let updates that publish
	 * later draw first, and those would wait for it (INV-D4). */
	dset_draw(t->durability, &t->window.commit); /* A1:31 */
}

void publication_store(struct fur_thread *t)
{
	const bool checked = t->update.flags & TX_CHECKED;
	FUR_POINT(stores__begin);
	if (unlikely(checked))
		blocks_show(t);
	marks_note_writes(t); /* INV-BU1 */
	/* INV-SN1.  In hardware that is done. */
	if (images_wanted(t->engine) && !t->window.publishes_software)
		images_save_record(t, t->software.holds);
	redo_store_record(t->update.log, t->durability, t->update.writable, false);
	/* After the stores, of which some may go to blocks that the update has freed then, and
	 * before the publication ends: until then no other body sees that they are free, for the
	 * allocator's words have the stamps of this publication. */
	if (unlikely(checked))
		blocks_hide(t);
}

/* Make the update visible.  If that fails, it holds no stamps. */
static enum made make_visible(struct fur_thread *t)
{
	struct commit *c = &t->window.commit;
	const bool concurrent = t->update.mode == TX_CONCURRENT;
	const enum stamps_hold hold = stamps_hold(t);
	if (unlikely(hold != STAMPS_HELD))
		return hold == STAMPS_NO_ROOM ? NO_ROOM : DEFEATED;
	phase_mark(c, FUR_PHASE_LOCK);
	if (concurrent && !is_current(t)) {
		stamps_free(t, 0);
		return DEFEATED;
	}
	announce(t);
	t->software.others = c->durts != arch_load(&t->update.log->durts) + 1;
	if (concurrent && !is_still_current(t)) {
		stamps_free(t, 0);
		return DEFEATED;
	}
	publication_store(t);
	t->software.snapshot = c->durts + 1;
	stamps_free(t, c->durts);
	return VISIBLE;
}

/* --------------------------------------------------------------- beside others */

/* Publish while updates are in.  False: they are not, or no longer. */
static bool publish_beside(struct fur_thread *t, enum made *made)
{
	const struct engine *e = t->engine;
	struct active_entry *mine = active_of(t);
	if (shut_now(e) != UPDATES_IN)
		return false;
	/* Full fence: orders our entry before our second look; see close_to_updates() (model:
	 * PUBLOOKFIRST). */
	arch_store_fence(&mine->publishing, 1);
	const bool in = shut_now(e) == UPDATES_IN;
	if (likely(in)) {
		*made = make_visible(t);
		if (t->software.others) /* it meets none, but is not alone (in_place.c) */
			t->policy.alone = 0;
	}
	/* Release: who shuts updates out comes after our stores. */
	arch_store_release(&mine->publishing, 0);
	return in;
}

/* ------------------------------------------------------------ the turn's holder */

/* The stores of a bulk update, with readers shut out since `began`, in ticks.  INV-BU5: alone.  It
 * holds no stamps, for the write set does not have the records; bodies learn of the stores by the
 * sweep (plant: bulk-no-sweep). */
static void store_bulk(struct fur_thread *t, uint64_t began)
{
	FUR_POINT(bulk__stores);
	const uint64_t store = arch_ticks();
	publication_store(t);
	const uint64_t now = arch_ticks();
	t->pause = (struct bulk_pause){.all = now - began, .store = now - store};
}

void publication_let_in(struct engine *e, bool met)
{
	if (met && updates_run_in(e) != HARDWARE && !readers_come_first(e))
		updates_let_in(e);
	else
		readers_let_in(e);
}

/* INV-SW3: store with readers shut out.  Errors: FUR_EFORK, UPDATE_DEFEATED. */
static int publish_in_place(struct fur_thread *t)
{
	struct engine *e = t->engine;
	const bool bulk = t->update.flags & TX_BULK;
	const uint64_t shut = bulk ? arch_ticks() : 0;
	const struct shut_out found = readers_shut_out(e, t->index);
	enum made made = VISIBLE;
	if (unlikely(engine_forked(e))) /* the user's reader_report has forked (INV-K2) */
		return tx_refuse(e);
	phase_mark(&t->window.commit, FUR_PHASE_ISOLATION);
	if (unlikely(bulk)) {
		/* Sweep before the draw: a body that has seen the durTS in next_durts, and nothing
		 * of the sweep, would take its snapshot for current (model: SWEEPLATE).
		 * Announce only now: a reader that ended during the drain need not wait for us. */
		if (found.bodies)
			sweep_begin(e);
		announce(t);
		store_bulk(t, shut);
		stamps_missed(e, t->window.commit.durts);
		if (found.bodies)
			sweep_end(e);
	} else {
		/* All that the room waits for have published, and wait for no turn (INV-GU3). */
		while ((made = make_visible(t)) == NO_ROOM)
			dset_make_room(t->durability, &t->window.commit);
	}
	const bool met = !bulk && found.met;
	if (met && updates_run_in(e) != HARDWARE && readers_come_first(e))
		updates_let_in_briefly(e);
	publication_let_in(e, met);
	stat_add(&t->stats.lock_commits, made == VISIBLE);
	return made == VISIBLE ? 0 : UPDATE_DEFEATED;
}

/* One attempt to publish in a hardware transaction.  The compiler must not inline this, and no
 * value may live across begin_publication() unless an abort restores it.
 * Returns: true: it has committed. */
static __attribute__((noinline)) bool publish_attempt(struct fur_thread *t, int *error)
{
	const struct htm_ops *ops = t->engine->ops;
	uint64_t status = ops->begin_publication(t);
	if (status == HTM_STARTED) {
		publication_store(t);
		ops->commit(t);
		return true;
	}
	enum fur_abort_cause cause = ops->classify(status);
	FUR_PROBE2(update__abort, t->index, cause);
	stat_add(&t->stats.aborts[cause], 1);
	*error = ops->aborted(t);
	/* An aborted attempt may have announced itself and left: the next one needs another id.  On
	 * POWER it may have written the log back, with the head of its own durTS: the next one
	 * writes another head. */
	t->window.commit.id++;
	t->window.commit.log_is_out = false;
	return false;
}

/* False: hardware does not accept the write set, or *error. */
static bool publish_in_hardware(struct fur_thread *t, int *error)
{
	enum { TRIES = 4 };
	bool done = false;
	if (stamps_hold(t) != STAMPS_HELD) /* no other update holds any */
		return false;
	/* Before the transaction, for which the images would be more lines. */
	if (images_wanted(t->engine))
		images_save_record(t, true);
	t->window.publishes_software = true;
	for (int k = 0; k < TRIES && !done && !*error; k++)
		done = publish_attempt(t, error);
	t->window.publishes_software = false;
	/* The machine draws before the update is visible (POWER), or not at all (TSX). */
	if (done && t->window.commit.durts == 0)
		dset_draw(t->durability, &t->window.commit);
	stamps_free(t, done ? t->window.commit.durts : 0);
	return done;
}

/* With the turn. */
static int publish_as_holder(struct fur_thread *t)
{
	struct engine *e = t->engine;
	int error = 0;
	/* INV-SW2.  The turn keeps others from publishing, and hardware updates wait (INV-SW4).
	 * Before readers are shut out for an update that is defeated. */
	if (t->update.mode == TX_CONCURRENT && !is_current(t))
		error = UPDATE_DEFEATED;
	else if (updates_run_in(e) != HARDWARE || (t->update.flags & TX_BULK) ||
	         (!publish_in_hardware(t, &error) && !error))
		error = publish_in_place(t);
	return error;
}

/* The update is defeated: give up the durTS that it may have drawn, and end it.  Errors: those of
 * durability_abort(). */
static int end_defeated(struct fur_thread *t)
{
	struct commit *c = &t->window.commit;
	const int error = c->durts ? durability_abort(t->durability, c) : 0;
	c->durts = 0;
	if (error)
		body_inactive(t);
	else
		body_defeat(t);
	return error ? error : UPDATE_DEFEATED;
}

static int publish_concurrent(struct fur_thread *t)
{
	struct engine *e = t->engine;
	enum made made = DEFEATED;
	int error = 0;
	for (;;) {
		if (publish_beside(t, &made)) {
			if (unlikely(made == NO_ROOM)) {
				dset_make_room(t->durability, &t->window.commit);
				continue;
			}
			error = made == VISIBLE ? 0 : UPDATE_DEFEATED;
			break;
		}
		if (!turn_take_unless(e, UPDATES_IN))
			continue;
		const bool beside = shut_now(e) == UPDATES_IN;
		if (!beside)
			error = publish_as_holder(t);
		turn_give(e);
		if (!beside)
			break;
	}
	if (error == UPDATE_DEFEATED)
		return end_defeated(t);
	body_inactive(t);
	return error;
}

int publish(struct fur_thread *t)
{
	int error;
	FUR_PROBE1(publication__begin, t->index);
	if (t->update.mode == TX_CONCURRENT) {
		error = publish_concurrent(t);
	} else {
		error = publish_as_holder(t);
		body_inactive(t);
		turn_give(t->engine);
	}
	FUR_PROBE2(publication__end, t->index, error);
	return error;
}
