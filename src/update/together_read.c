/* SPDX-License-Identifier: BSD-3-Clause
 *
 * together_read.c - read-only transactions over several heaps.
 *
 *   INV-GU10  The loads of a reader over several heaps are of one state of all of them.  It takes
 *             its snapshots of all before its first load, and a word that is newer than the
 *             snapshot of its heap ends the run (INV-GU2).  A plain one is in active[] of all heaps
 *             before its first load, while readers are in, or of none (INV-GU3).
 */
#include "update/together.h"

#include "base/error.h"
#include "base/probe.h"
#include "durability/dset.h"
#include "file/heap_file.h"
#include "update/update.h"

/* ------------------------------------------------------------------- begin */

/* Must the next run be plain? */
static bool runs_plain(struct together *g)
{
	bool plain = false;
	uint64_t again = 0;
	FOR_EACH_PART(p, g) {
		again += p->thread->reader.again;
		plain = plain || p->thread->reader.shuns || reader_is_better_plain(p->thread);
	}
	return plain || again >= READER_RUNS;
}

static void leave_active(struct together *g)
{
	FOR_EACH_PART(p, g)
		active_leave(active_of(p->thread));
}

/* False: another run must be plain; or a sweep has begun in one of the heaps. */
static bool begin_optimistic(struct together *g)
{
	bool good = true;
	/* INV-GU10: before the first load. */
	FOR_EACH_PART(p, g) {
		arch_store(&p->thread->reader.view.bound, 0);
		p->thread->software.snapshot = software_look_at_clock(p->thread);
	}
	draws_await(g); /* INV-GU11 (plant: group-reader-between-draws) */
	bodies_enter(g);
	FOR_EACH_PART(p, g) {
		good = good && updates_run_in(p->thread->engine) == SOFTWARE; /* INV-UR3 */
		if (!good)
			break;
		software_note_unstamped(p->thread); /* INV-OR2 */
		good = reader_set_bound(&p->thread->reader);
	}
	if (unlikely(!good))
		leave_active(g);
	return good;
}

/* Enter active[] of all heaps as a plain reader, or of none: NULL; or the part in whose heap
 * readers are not in. */
static const struct together_part *enter_unless_out(struct together *g)
{
	FOR_EACH_PART(p, g)
		active_enter(active_of(p->thread), p->thread);
	FOR_EACH_PART(p, g)
		if (unlikely(shut_now(p->thread->engine) != READERS_IN)) {
			leave_active(g);
			return p;
		}
	return NULL;
}

/* INV-GU3: let readers in everywhere, in ascending order, and enter all before any turn is given.
 * It is active in no heap while it waits for a turn (model: READERWAITS). */
static void claim_all(struct together *g)
{
	turns_take(g);
	FOR_EACH_PART(p, g)
		active_enter(active_of(p->thread), p->thread);
	FOR_EACH_PART(p, g)
		turn_give(p->thread->engine);
}

static void begin_plain(struct together *g)
{
	const struct together_part *out;
	FOR_EACH_PART(p, g) {
		p->thread->reader.plain = true;
		arch_store(&p->thread->reader.view.bound, STAMP_HELD); /* above every version */
	}
	while ((out = enter_unless_out(g))) {
		struct fur_thread *t = out->thread;
		if (shut_now(t->engine) == UPDATES_IN) {
			claim_all(g);
			break;
		}
		reader_awaits_let_in(t->engine, t->index);
		active_clear_wait(active_of(t)); /* as in bodies_enter() */
	}
}

static void begin_run(struct together *g)
{
	FOR_EACH_PART(p, g) {
		struct fur_reader *r = &p->thread->reader;
		r->plain = r->loaded = r->left = false;
		r->view.stamps = p->thread->engine->stamps;
		dset_begin_versions(p->thread->durability, &p->thread->window.commit);
	}
	while (!runs_plain(g)) {
		if (begin_optimistic(g))
			goto begun;
		g->parts[0].thread->reader.again++;
	}
	begin_plain(g);
begun:
	FOR_EACH_PART(p, g)
		p->thread->reader.open = true;
	this_thread()->open = g->parts[0].thread;
}

/* --------------------------------------------------------------------- end */

/* libfur has left the body in one heap: end the others. */
static void end_rest(struct together *g)
{
	FOR_EACH_PART(p, g) {
		struct fur_reader *r = &p->thread->reader;
		if (r->open)
			active_leave(active_of(p->thread));
		r->open = false;
		r->left = true;
		arch_store(&r->view.bound, 0);
	}
	this_thread()->open = NULL;
}

static int end_run(struct together *g)
{
	int error = 0;
	FOR_EACH_PART(p, g)
		if (p->thread->reader.plain)
			reader_collect(p->thread, &p->thread->window.commit.dset);
	FOR_EACH_PART(p, g) {
		reader_leave(p->thread);
		p->thread->reader.open = false;
		arch_store(&p->thread->reader.view.bound, 0);
	}
	FOR_EACH_PART(p, g) {
		const int failed =
		        heap_name_failure(p->thread->durability->file, reader_wait(p->thread));
		error = error ? error : failed;
	}
	return error;
}

/* ------------------------------------------------------------------- run it */

static bool all_open(struct together *g)
{
	bool open = true;
	FOR_EACH_PART(p, g)
		open = open && p->thread->reader.open;
	return open;
}

static uint64_t runs_of(struct together *g)
{
	uint64_t runs = 0;
	FOR_EACH_PART(p, g)
		runs += p->thread->reader.again;
	return runs;
}

/* *again: the body is to run again. */
static __attribute__((noinline)) int run_once(
        struct together *g, void (*body)(void *), void *arg, void (*leave)(void), bool *again)
{
	jmp_buf restart;
	*again = true;
	if (!leave) {
		FOR_EACH_PART(p, g)
			p->thread->reader.restart = &restart;
		if (setjmp(restart)) {
			end_rest(g);
			return 0;
		}
	}
	begin_run(g);
	const uint64_t runs = runs_of(g);
	body(arg);
	*again = false;
	FOR_EACH_PART(p, g)
		if (unlikely(engine_forked(p->thread->engine)))
			return tx_refuse(p->thread->engine);
	if (likely(all_open(g)))
		return end_run(g);
	end_rest(g); /* left by `leave`, and caught; or ended by fur_thread_abandon() */
	*again = runs_of(g) != runs;
	return *again ? 0
	              : fur_fail(FUR_ENOTX,
	                        "fur_group_read_run: the body has ended the transaction");
}

int together_read(struct together *g, void (*body)(void *arg), void *arg, void (*leave)(void))
{
	bool again;
	int error;
	FOR_EACH_PART(p, g) {
		struct fur_reader *r = &p->thread->reader;
		r->leave = leave;
		r->again = 0;
		r->shuns = false;
	}
	do {
		FOR_EACH_PART(p, g)
			if (unlikely(arch_load(&p->thread->durability->failed) != 0))
				return heap_name_failure(
				        p->thread->durability->file, tx_refuse(p->thread->engine));
		error = run_once(g, body, arg, leave, &again);
	} while (again);
	return error;
}
