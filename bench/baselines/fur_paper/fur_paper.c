/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_paper.c - Algorithm 1 of "Fast and Unlimited Reads on Persistent Memory Transactions"
 * (EuroSys '26) as it is printed, for comparison.  It is NOT durably opaque: docs/protocol.md,
 * "Durability: the rule, and why it replaces the paper's"; `explore --tm fur-paper` shows it.
 *
 * A program linked with this file before libfur's objects gets it in place of update/reader.c,
 * htm/power.c and durability/commit.c; heap, redo log, ring, replay and the lock path, which
 * Algorithm 1 leaves open, are libfur's.  POWER only.  The numbers are the algorithm's lines.
 *
 * state[i] is kept in libfur's two arrays, as section 3.2.1 of the paper unfolds it:
 *   {ACTIVE, time}       active[i].seq = time
 *   {NON-DURABLE, time}  nondurable[i].id = time, with STAMPED set
 *   {INACTIVE}           both 0
 * An update under the lock announces itself with an id that is no time; there the durTSs decide
 * which came first.
 */
#include "base/error.h"
#include "durability/dset.h"
#include "htm/htm.h"
#include "htm/power_status.h"
#include "tx/active.h"

#include <string.h>

#define STAMPED (UINT64_C(1) << 63)

static uint64_t get_time(void)
{
	/* Never ACTIVE_SOFTWARE: the bodies of libfur's software updates have it in active[]. */
	return (arch_ticks() | 1) & ~(uint64_t)ACTIVE_SOFTWARE;
}

/* For the phases: 0 where they are not measured. */
static uint64_t now(const struct fur_thread *t)
{
	return t->engine->phase_times ? arch_ticks() : 0;
}

/* 45 to 49.  `durts`: of the update that waits, 0 for a read-only transaction. */
static void durability_wait_pruned(struct fur_thread *t, uint64_t durts)
{
	const struct durability *d = t->durability;
	uint64_t limit = arch_load(&d->limit);
	for (uint32_t c = 0; c < limit; c++)
		t->window.seqs[c] = c == t->index ? 0 : arch_load(&d->nondurable[c].id);
	for (uint32_t c = 0; c < limit; c++) {
		uint64_t seen = t->window.seqs[c];
		struct arch_backoff backoff = {0};
		if (!seen || ((seen & STAMPED) && (seen & ~STAMPED) >= t->seq))
			continue;
		/* It ran under the lock.  If it drew its durTS after us, or has not yet, we have
		 * read nothing of it. */
		if (!(seen & STAMPED) && durts &&
		        arch_load_acquire(&d->nondurable[c].durts) - 1 >= durts - 1)
			continue;
		while (arch_load_acquire(&d->nondurable[c].id) == seen)
			arch_backoff(&backoff);
	}
}

/* --------------------------------------------------------------- read-only */

static struct fur_thread *thread_of(fur_ro *ro)
{
	return (struct fur_thread *)((char *)ro - offsetof(struct fur_thread, ro));
}

FUR_API int fur_begin_ro(fur_thread *t, fur_ro **ro)
{
	*ro = &t->ro;
	if (t->ro.depth || t->update.depth)
		return fur_fail(FUR_ENESTED, "this variant does not nest");
	t->began = now(t);
	for (;;) {
		t->seq = get_time();                                        /* 15 */
		arch_store_fence(&t->engine->active[t->index].seq, t->seq); /* 16, 18 */
		if (!readers_are_out(t->engine))
			break;
		arch_store_release(&t->engine->active[t->index].seq, 0);
		reader_awaits_let_in(t->engine, t->index);
	}
	arch_store_release(&t->engine->active[t->index].want, 0);
	this_thread()->open = t;
	t->ro.depth = 1;
	return 0;
}

FUR_API int fur_join_ro(fur_thread *t, fur_ro **ro)
{
	return fur_begin_ro(t, ro);
}

FUR_API int fur_end_ro(fur_ro *ro, fur_ticket *ticket)
{
	(void)ticket; /* the paper has none */
	if (!ro || ro->depth != 1)
		return fur_fail(FUR_ENOTX, "fur_end_ro without fur_begin_ro");
	struct fur_thread *t = thread_of(ro);
	arch_store_release(&t->engine->active[t->index].seq, 0); /* 24 */
	this_thread()->open = NULL;
	ro->depth = 0;
	stat_add(&t->stats.ro_commits, 1);
	uint64_t ended = now(t);
	durability_wait_pruned(t, 0); /* 25 */
	stat_add(&t->stats.phase_ticks[FUR_PHASE_RO_BODY], ended - t->began);
	stat_add(&t->stats.phase_ticks[FUR_PHASE_RO_WAIT], now(t) - ended);
	return 0;
}

FUR_API int fur_wait(fur_thread *t, fur_ticket ticket)
{
	(void)t;
	(void)ticket;
	return fur_fail(FUR_EINVAL, "this variant has no tickets");
}

/* ------------------------------------------------------------------ updates */

enum { WINDOW_LOOKS = 100000 };

static uint64_t paper_begin(struct fur_thread *t)
{
	struct engine *e = t->engine;
	t->seq = get_time();                                /* 5 */
	t->window.commit.durts = 0;                         /* 7 */
	arch_store_fence(&e->active[t->index].seq, t->seq); /* 6, 9 */
	if (readers_are_out(e))
		return POWER_STATUS(FUR_ABORT_LOCK);
	if (!power_tbegin(e->isolation == FUR_SNAPSHOT)) /* 10 to 13 */
		return texasr();
	if (e->isolation == FUR_OPACITY && readers_are_out(e))
		power_abort_with(FUR_ABORT_LOCK);
	return HTM_STARTED;
}

/* Algorithm 1 leaves the fallback open; libfur's publishes in place. */
static uint64_t paper_begin_publication(struct fur_thread *t)
{
	(void)t;
	return POWER_STATUS(FUR_ABORT_LOCK);
}

static void paper_leave(void *thread)
{
	struct fur_thread *t = thread;
	arch_store_release(&t->engine->active[t->index].seq, 0);
}

static void paper_commit_window(void *thread)
{
	struct fur_thread *t = thread;
	struct durability *d = t->durability;
	struct commit_window *w = &t->window;
	struct commit *c = &w->commit;
	struct redo_log *log = t->update.log;
	uint64_t start = arch_load(&log->open_at), end;
	phase_mark(c, FUR_PHASE_BODY);
	paper_leave(t); /* 28 */
	arch_fence();   /* 29 */
	end = redo_complete(log, d, t->update.base);
	redo_copy_out(log, d, start, end); /* 30 */
	redo_flush(log, d, start, end);
	c->log_is_out = true;
	ring_draw(d, c); /* 31 */
	redo_put_head(log, d, log->persistent, &(struct media_claims){.durts = c->durts});
	redo_flush(log, d, start, start + d->head_bytes);
	if (!ring_fits(d, c->durts)) {
		w->refused = FUR_ABORT_FULL;
		return;
	}
	phase_mark(c, FUR_PHASE_LOG);
	if (!active_wait_inside(t->engine, w, WINDOW_LOOKS)) { /* 32 */
		w->refused = FUR_ABORT_READER;
		return;
	}
	phase_mark(c, FUR_PHASE_ISOLATION);
	arch_store(&d->nondurable[t->index].durts, c->durts);
	arch_store_release(&d->nondurable[t->index].id, STAMPED | get_time()); /* 33 */
	arch_fence_light();
}

static void paper_commit(struct fur_thread *t)
{
	power_window(paper_commit_window, t, t->window_stack); /* 27, 34 */
	if (t->window.refused != FUR_ABORT_CAUSES)
		power_abort_with(t->window.refused);
	power_tend(); /* 35 */
}

static void paper_commit_empty(struct fur_thread *t)
{
	power_window(paper_leave, t, t->window_stack);
	power_tend();
	durability_wait_pruned(t, 0);
}

static int paper_aborted(struct fur_thread *t)
{
	int error = 0;
	if (t->window.publishes_software)
		return 0;
	paper_leave(t);             /* 51 */
	if (t->window.commit.durts) /* 52, 53 */
		error = durability_abort(t->durability, &t->window.commit);
	t->window.commit.durts = 0;
	return error;
}

const struct htm_ops htm_power = {paper_begin, paper_begin_publication, power_classify,
        paper_commit, paper_commit_empty, power_abort_with, paper_aborted};

/* ------------------------------------------------------------------- markers */

static void paper_flush_marker(
        struct durability *d, const struct commit *c, uint64_t bytes, enum media_kind kind)
{
	struct media_marker marker = {.durts = c->durts,
	        .log_start = d->redo[c->me].open_at,
	        .log_bytes = (uint32_t)bytes,
	        .thread = (uint16_t)c->me,
	        .kind = (uint16_t)kind};
	ring_put_marker(d, &marker);
	pm_flush(&d->pm, durability_marker(d, c->durts), sizeof marker);
}

int durability_persist(struct durability *d, struct commit *c)
{
	struct redo_log *log = &d->redo[c->me];
	struct fur_thread *t =
	        (struct fur_thread *)((char *)c - offsetof(struct fur_thread, window.commit));
	log->committed_to = log->write_at;
	if (c->durts == 0)
		dset_draw(d, c);
	int error = ring_wait(d, c->durts);
	redo_put_head(log, d, log->written, &(struct media_claims){.durts = c->durts});
	if (log->written != log->persistent)
		redo_put_head(log, d, log->persistent, &(struct media_claims){.durts = c->durts});
	log->durts = c->durts; /* until it is replayed its log is not written over */
	phase_mark(c, FUR_PHASE_ROOM);
	if (!error && !c->log_is_out) {
		redo_copy_out(log, d, log->open_at, log->write_at);
		redo_flush(log, d, log->open_at, log->write_at);
	}
	if (!error)
		error = pm_drain(&d->pm); /* 36 */
	phase_mark(c, FUR_PHASE_FLUSH);
	durability_wait_pruned(t, c->durts); /* 37 */
	nondurable_wait(d, &c->dset);        /* under the lock: it has collected D as libfur does */
	phase_mark(c, FUR_PHASE_DURABILITY);
	if (!error) {
		paper_flush_marker(d, c, log->write_at - log->open_at, MEDIA_COMMIT); /* 38 */
		error = pm_drain(&d->pm);
	}
	nondurable_leave(d, c); /* 39 */
	phase_mark(c, FUR_PHASE_FLUSH);
	if (__builtin_expect(arch_load(&d->control->wake_at) != CONTROL_AWAKE, 0))
		control_wake(d, c->me, c->durts);
	return error;
}

/* The paper's update waits for others before it is durable itself: see above. */
int durability_await(struct durability *d, struct commit *c, int error)
{
	(void)d;
	(void)c;
	return error;
}

/* 53: written; no thread waits until it is durable */
int durability_abort(struct durability *d, struct commit *c)
{
	int error = ring_wait(d, c->durts);
	if (!error)
		paper_flush_marker(d, c, 0, MEDIA_ABORT);
	nondurable_leave(d, c);
	return error;
}
