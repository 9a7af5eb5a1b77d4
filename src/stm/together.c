/* SPDX-License-Identifier: BSD-3-Clause
 *
 * together.c - how an update over several heaps begins, and becomes visible.
 */
#include "stm/together.h"
#include "stm/draw_lock.h"
#include "stm/publication.h"

#include "base/error.h"
#include "base/probe.h"
#include "durability/async.h"

/* ------------------------------------------------------------------- begin */

void turns_take(struct together *g)
{
	/* INV-GU3: close each before the next is taken.  Who took all turns first would wait for
	 * those that publish in one heap, of which one may wait for the turn of another (model:
	 * TURNSFIRST). */
	FOR_EACH_PART(p, g)
		turn_take_alone(p->thread->engine);
}

/* Enter active[] of all heaps, or of none: NULL; or the part in whose heap all are out.  A body
 * that waited there would let hardware updates of the other heaps wait with it. */
static const struct together_part *enter_unless_out(struct together *g)
{
	FOR_EACH_PART(p, g)
		active_enter_software(active_of(p->thread), p->thread);
	FOR_EACH_PART(p, g) {
		if (likely(shut_now(p->thread->engine) != ALL_OUT)) /* INV-SW5 */
			continue;
		FOR_EACH_PART(q, g)
			active_leave(active_of(q->thread));
		return p;
	}
	return NULL;
}

void bodies_enter(struct together *g)
{
	const struct together_part *out;
	FUR_POINT(body__enters);
	while ((out = enter_unless_out(g))) {
		struct fur_thread *t = out->thread;
		reader_awaits_let_in(t->engine, t->index);
		/* Who stores there may be about to enter another of our heaps, for which we wait
		 * next: it must not wait for us. */
		active_clear_wait(active_of(t));
	}
	FOR_EACH_PART(p, g)
		p->thread->software.sweep = sweep_await(p->thread->engine);
}

void bodies_begin(struct together *g)
{
	/* INV-GU2: snapshots of all before the first load (model: SNAPLATE). */
	FOR_EACH_PART(p, g)
		body_prepare(p->thread);
	draws_await(g); /* INV-GU11 (plant: group-body-between-draws) */
	bodies_enter(g);
	FOR_EACH_PART(p, g) {
		struct fur_thread *t = p->thread;
		body_entered(t, g->serial ? TX_SERIAL : TX_CONCURRENT);
		/* INV-GU12.  Only to 0: a sweep may have set it to that since the body entered. */
		if (!t->window.commit.dset.by_version)
			arch_store(&t->software.bound, 0);
	}
}

/* ------------------------------------------------------------ enter and leave */

/* While updates are in, say that it publishes; else take the turn. */
static void enter(struct together_part *p)
{
	struct engine *e = p->thread->engine;
	struct active_entry *mine = active_of(p->thread);
	for (;;) {
		if (shut_now(e) == UPDATES_IN) {
			/* Full fence: as in publish_beside() (model: PUBLOOKFIRST). */
			arch_store_fence(&mine->publishing, 1);
			if (likely(shut_now(e) == UPDATES_IN))
				return;
			arch_store_release(&mine->publishing, 0);
		}
		if (!turn_take_unless(e, UPDATES_IN))
			continue;
		if (shut_now(e) != UPDATES_IN)
			break;
		turn_give(e);
	}
	p->turn = true;
}

/* Leave the heaps before this part that it has entered; `out`: readers are out where it has the
 * turn.  INV-GU3: it waits for no thread.  Those that publish in this heap may wait for the turn of
 * another.  We may have that, or its holder may wait until we are durable (dset_make_room()).  So
 * we do not let updates in for a moment, as publish_in_place() does (plant: group-leave-waits).  A
 * serial update keeps its turns until its bodies end, and so does not let updates in. */
static void leave_before(struct together *g, struct together_part *end, bool out)
{
	for (struct together_part *p = g->parts; p < end; p++) {
		struct fur_thread *t = p->thread;
		if (!p->writes)
			continue;
		if (!p->turn) {
			/* Release: who shuts updates out comes after our stores. */
			arch_store_release(&active_of(t)->publishing, 0);
			continue;
		}
		if (out)
			publication_let_in(t->engine, p->met && !g->serial);
		if (!g->serial)
			turn_give(t->engine);
		p->turn = g->serial;
	}
}

/* Shut readers out where it has the turn.  Returns NULL; or the part in whose heap a reader takes
 * long: then readers are in again everywhere. */
static struct together_part *shut_out(struct together *g, uint64_t patience)
{
	FOR_EACH_PART(p, g) {
		struct fur_thread *t = p->thread;
		struct shut_out found = {0};
		if (!p->writes || !p->turn)
			continue;
		if (!readers_try_shut_out(
		            t->engine, t->index, patience + t->engine->drain_ticks, &found)) {
			for (struct together_part *q = g->parts; q < p; q++)
				if (q->writes && q->turn)
					readers_let_in(q->thread->engine);
			return p;
		}
		p->met = found.met;
	}
	return NULL;
}

/* INV-GU3: enter all heaps that it writes, in ascending order.  While a reader of one of them takes
 * long, it keeps no turn: the updates of the others go on.  Errors: FUR_EFORK. */
static int enter_all(struct together *g)
{
	uint64_t began = 0, patience = 0;
	for (;;) {
		FOR_EACH_PART(p, g) {
			if (p->writes && g->serial)
				p->turn = true;
			else if (p->writes)
				enter(p);
		}
		struct together_part *slow = shut_out(g, patience);
		if (likely(!slow))
			return 0;
		leave_before(g, g->parts + g->n, false);
		if (!began)
			began = arch_ticks();
		active_wait_outside(slow->thread->engine, slow->thread->index, true);
		/* The user's reader_report has forked (INV-K2). */
		if (unlikely(engine_forked(slow->thread->engine)))
			return tx_refuse(slow->thread->engine);
		/* As in readers_shut_out(): readers that come and go must not keep us out. */
		patience = arch_ticks_between(began, arch_ticks()) / 4;
	}
}

static void leave_all(struct together *g)
{
	leave_before(g, g->parts + g->n, true);
}

/* --------------------------------------------------------------- the draw locks */

/* INV-GU4.  Without the locks two of these updates could draw in opposite orders in two heaps, and
 * then each would wait for the other in one of them (model: DRAWANY, DRAWONE). */
static void draw_all(struct together *g)
{
	FOR_EACH_PART(p, g)
		if (p->writes)
			draw_lock(p->thread->engine);
	FOR_EACH_PART(p, g)
		if (p->writes)
			publication_announce(p->thread);
	FUR_POINT(parts__announced);
	FOR_EACH_PART(p, g)
		if (p->writes)
			dset_draw(p->thread->durability, &p->thread->window.commit);
	FOR_EACH_PART(p, g)
		if (p->writes)
			draw_unlock(p->thread->engine);
}

/* ------------------------------------------------------------------ publication */

static void free_all(struct together *g)
{
	FOR_EACH_PART(p, g)
		stamps_free(p->thread, 0);
}

/* Hold the stamps in all heaps.  A part that only reads holds none, but counts as one that does: an
 * extension must not wait for others' stamps (software.c). */
static enum made hold_all(struct together *g)
{
	FOR_EACH_PART(p, g) {
		const enum stamps_hold hold = stamps_hold(p->thread);
		if (likely(hold == STAMPS_HELD))
			continue;
		free_all(g);
		return hold == STAMPS_NO_ROOM ? NO_ROOM : DEFEATED;
	}
	return VISIBLE;
}

static bool all_are_old(struct together *g)
{
	bool old = true;
	/* An update in place may be about to store to a heap that we only read, past the stamps.
	 * It begins a sweep before that, so it comes after us if we do not find one. */
	for (unsigned k = 0; k < g->n && old; k++) {
		const struct fur_thread *t = g->parts[k].thread;
		old = reads_are_old(t) && arch_load(&t->engine->sweeps) == t->software.sweep;
	}
	return old;
}

static void store_all(struct together *g)
{
	FOR_EACH_PART(p, g) {
		struct fur_thread *t = p->thread;
		const uint64_t durts = t->window.commit.durts;
		if (p->writes) {
			publication_store(t);
			t->software.snapshot = durts + 1;
		}
		/* In this heap the update is visible from now on; in the next one when that is
		 * stored to.  Who loads from both finds the other's stamp held until then
		 * (grouplocks.pml holds with that, -DOPENEARLY). */
		stamps_free(t, durts);
		FUR_POINT(part__stored);
	}
}

/* INV-GU7: what a part has read without stamps that tell from whom, before the draw and before it
 * leaves active[] (INV-D1).  Later than the draw, two updates that each write where the other only
 * reads would find each other announced, and each would wait for the other before its marker
 * (plant: group-collects-late).  All loads are over: what an update stores from now on defeats this
 * one, or is nothing that it has read. */
static void collect_reads(struct together *g)
{
	FOR_EACH_PART(p, g) {
		struct commit *c = &p->thread->window.commit;
		if (p->writes || c->dset.by_version)
			continue;
		nondurable_collect(p->thread->durability, c->me, &c->dset);
		/* If one of them leaves late, the update waits for all durTSs below that one's.  So
		 * that must be lower than those of all updates over several heaps that draw after
		 * us, which may wait for us. */
		nondurable_wait_drawn(p->thread->durability, &c->dset);
	}
}

/* All heaps that it writes are entered.  If that fails, it holds no stamps. */
static enum made make_visible(struct together *g)
{
	const enum made held = hold_all(g);
	if (held != VISIBLE)
		return held;
	/* Not needed, as all are looked at once more; but who draws in vain owes a marker. */
	if (!g->serial && !all_are_old(g) && !software_extend(g->parts[0].thread)) {
		free_all(g);
		return DEFEATED;
	}
	collect_reads(g);
	/* INV-GU7: before the draw.  What becomes late afterwards may lie above an update that
	 * waits for us (model: BOUNDLATE). */
	FOR_EACH_PART(p, g)
		p->late_below = p->writes ? 0 : arch_load(&p->thread->durability->async.newest);
	draw_all(g);
	FOR_EACH_PART(p, g)
		if (p->writes)
			p->thread->software.others = p->thread->window.commit.durts !=
			                             arch_load(&p->thread->update.log->durts) + 1;
	/* INV-GU1 (model: LOOKEARLY, LOOKWRITTEN). */
	if (!g->serial && !all_are_old(g)) {
		free_all(g);
		return DEFEATED;
	}
	store_all(g);
	return VISIBLE;
}

/* Until here hardware updates have waited for the bodies (INV-SW4; model: BODYLEAVES). */
static void bodies_end(struct together *g)
{
	FOR_EACH_PART(p, g)
		body_end(p->thread);
}

/* Give up the durTSs that it may have drawn, in ascending order.  Errors: those of
 * durability_abort(). */
static int abort_all(struct together *g)
{
	int error = 0;
	FOR_EACH_PART(p, g) {
		struct commit *c = &p->thread->window.commit;
		const int failed = c->durts ? durability_abort(p->thread->durability, c) : 0;
		c->durts = 0;
		error = error ? error : failed;
	}
	return error;
}

static int end_defeated(struct together *g)
{
	const int error = abort_all(g);
	if (error)
		bodies_end(g);
	else
		FOR_EACH_PART(p, g)
			body_defeat(p->thread);
	return error ? error : UPDATE_DEFEATED;
}

static void make_room(struct together *g)
{
	FOR_EACH_PART(p, g)
		if (!dset_has_room(&p->thread->window.commit.dset))
			dset_make_room(p->thread->durability, &p->thread->window.commit);
}

int publish_together(struct together *g)
{
	enum made made;
	int error;
	FUR_PROBE1(publication__begin, g->parts[0].thread->index);
	while (!(error = enter_all(g))) {
		made = make_visible(g);
		leave_all(g);
		if (likely(made != NO_ROOM))
			break;
		make_room(g);
	}
	if (error || made == VISIBLE)
		bodies_end(g);
	else
		error = end_defeated(g);
	FUR_PROBE2(publication__end, g->parts[0].thread->index, error);
	return error;
}
