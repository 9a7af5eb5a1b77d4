/* SPDX-License-Identifier: BSD-3-Clause
 *
 * together.c - updates over several heaps.
 *
 * Way 16, an update over several heaps:
 *
 *     fur_group_run()           refuses misuse
 *       together_run()          runs the body until the update is not defeated
 *         together_begin()      begins a part in each heap
 *           turns_take()        a serial update takes the turns
 *           bodies_begin()      takes snapshots, enters active[] of all heaps
 *         together_commit()     rolls all parts back if one has failed
 *           publish_together()  makes all parts visible
 *             enter_all()       enters each heap, and shuts readers out where it must
 *             make_visible()    holds stamps, draws, looks, stores: in all heaps each
 *           make_durable()      names the parts
 *             parts_persist()   makes all parts durable: way 13
 */
#include "update/together.h"

#include "base/error.h"
#include "base/probe.h"
#include "durability/dset.h"
#include "durability/parts.h"
#include "durability/ship.h"
#include "file/heap_file.h"
#include "update/fresh.h"
#include "update/update.h"

/* ------------------------------------------------------------------- begin */

/* A body that has been defeated so often, in any heap, runs serially. */
static bool is_serial(struct together *g)
{
	bool serial = g->begins_serial;
	FOR_EACH_PART(p, g)
		serial = serial || p->thread->software.defeats >= SOFTWARE_TRIES;
	return serial;
}

static int together_begin(struct together *g)
{
	int error = 0;
	FOR_EACH_PART(p, g)
		if ((error = update_may_begin(p->thread)))
			return heap_name_failure(p->thread->durability->file, error);
	/* Before it is active in any heap.  One of them is enough to let it in. */
	crowd_count(g->parts[0].thread->engine);
	update_enter_core(g->parts[0].thread);
	g->serial = is_serial(g);
	if (g->serial)
		turns_take(g);
	FOR_EACH_PART(p, g) {
		struct fur_thread *t = p->thread;
		t->together = g;
		t->window.commit.async = false;
		t->software.defeated = false;
		redo_reserve(t->update.log, g->n);
		update_open_part(t);
		attempt_prepare(t, REDO_UNDO);
	}
	bodies_begin(g);
	return 0;
}

/* ---------------------------------------------------------------------- commit */

/* End the parts that are not defeated yet. */
static int defeat_rest(struct together *g)
{
	FOR_EACH_PART(p, g)
		if (p->thread->update.depth)
			body_defeat(p->thread);
	together_close(g);
	return UPDATE_DEFEATED;
}

/* It has written nothing: it ends like a reader.  A snapshot of all heaps is what its bodies have
 * read, so it comes where that does, in the order of updates. */
static int commit_empty(struct together *g)
{
	int error = 0;
	FOR_EACH_PART(p, g) {
		struct commit *c = &p->thread->window.commit;
		if (!c->dset.by_version)
			nondurable_collect(p->thread->durability, c->me, &c->dset);
	}
	FOR_EACH_PART(p, g)
		body_end(p->thread);
	FOR_EACH_PART(p, g)
		tx_reset(&p->thread->update);
	together_close(g);
	FOR_EACH_PART(p, g) {
		const int failed = heap_name_failure(
		        p->thread->durability->file, update_finish_empty(p->thread));
		error = error ? error : failed;
	}
	return error;
}

static int make_durable(struct together *g, uint64_t *ids)
{
	struct commit_part parts[TOGETHER_MOST];
	for (unsigned k = 0; k < g->n; k++) {
		const struct together_part *p = &g->parts[k];
		parts[k] = (struct commit_part){.d = p->thread->durability,
		        .c = &p->thread->window.commit,
		        .member = p->member,
		        .writes = p->writes,
		        .late_below = p->late_below};
	}
	return parts_persist(parts, g->n, arch_fetch_add(ids, 1));
}

static int finish(struct together *g, uint64_t *ids)
{
	/* As in update_commit(): a thread that waits for the disk needs no core. */
	if (pm_writes(&g->parts[0].thread->durability->pm))
		tx_leave_core(g->parts[0].thread);
	const int error = make_durable(g, ids);
	FOR_EACH_PART(p, g) {
		struct fur_thread *t = p->thread;
		struct commit *c = &t->window.commit;
		redo_reserve(t->update.log, 0);
		if (!p->writes) {
			stat_add(&t->stats.empty_commits, 1);
		} else {
			if (!error)
				dset_own_settled(c);
			stat_add(g->serial ? &t->stats.serial_commits : &t->stats.software_commits,
			        1);
			stat_add(&t->stats.log_entries, t->update.log->entries);
		}
		stat_add(&t->stats.update_commits, 1);
		FUR_PROBE4(update__commit, t->index, c->durts, t->update.log->entries, error);
		c->durts = 0;
	}
	FOR_EACH_PART(p, g)
		if (unlikely(p->thread->engine->after_update[0] != NULL))
			after_update_call(
			        p->thread, p->thread->update.log->entries + fresh_pages(p->thread));
	return error;
}

static int publish_and_finish(struct together *g, uint64_t *ids)
{
	int error = publish_together(g);
	if (error != UPDATE_DEFEATED)
		FOR_EACH_PART(p, g)
			tx_reset(&p->thread->update);
	if (error) {
		together_close(g);
		return error;
	}
	FOR_EACH_PART(p, g)
		p->thread->together = NULL;
	if (g->visible)
		g->visible(g);
	return finish(g, ids);
}

/* UPDATE_DEFEATED: it has ended in all heaps, and runs again. */
static int together_commit(struct together *g, uint64_t *ids)
{
	bool empty = true;
	FOR_EACH_PART(p, g) {
		struct fur_update *tx = &p->thread->update;
		if (unlikely(tx->flags & TX_FRESH) && tx->error == 0)
			fresh_persist(tx);
		p->writes = tx->log->entries != 0;
		empty = empty && !p->writes;
	}
	if (unlikely(together_failed(g) != NULL))
		return together_roll_back(g);
	if (empty)
		return commit_empty(g);
	g->gate(g, true);
	const int error = publish_and_finish(g, ids);
	g->gate(g, false);
	return error;
}

/* --------------------------------------------------------------------- run it */

static bool any_defeated(struct together *g)
{
	bool defeated = false;
	FOR_EACH_PART(p, g)
		defeated = defeated || p->thread->software.defeated;
	return defeated;
}

static bool has_forked(struct together *g)
{
	bool forked = false;
	FOR_EACH_PART(p, g)
		forked = forked || engine_forked(p->thread->engine);
	return forked;
}

/* Run the body once. */
static __attribute__((noinline)) int run_once(
        struct together *g, void (*body)(void *), void *arg, void (*leave)(void), uint64_t *ids)
{
	jmp_buf restart;
	const int error = together_begin(g);
	if (error)
		return error;
	if (!leave && !g->serial) {
		FOR_EACH_PART(p, g)
			p->thread->software.restart = &restart;
		if (setjmp(restart))
			return defeat_rest(g);
	}
	body(arg);
	if (unlikely(has_forked(g))) /* the body has forked, and this is the child */
		return tx_refuse(g->parts[0].thread->engine);
	if (any_defeated(g))
		return defeat_rest(g);
	if (g->parts[0].thread->update.depth == 0) /* together_roll_back() in the body */
		return g->error;
	return together_commit(g, ids);
}

int together_run(
        struct together *g, void (*body)(void *arg), void *arg, void (*leave)(void), uint64_t *ids)
{
	int error;
	FUR_ASSERT(g->n >= 1 && g->n <= TOGETHER_MOST);
	FOR_EACH_PART(p, g) {
		struct software_body *s = &p->thread->software;
		s->leave = leave;
		s->repeatable = true;
		s->defeats = 0;
	}
	while ((error = run_once(g, body, arg, leave, ids)) == UPDATE_DEFEATED)
		continue;
	tx_leave_core(g->parts[0].thread);
	return error;
}
