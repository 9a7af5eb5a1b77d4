/* SPDX-License-Identifier: BSD-3-Clause
 *
 * commit.c - the steps of an update after it is visible: marker, write-back, durability wait,
 * leaving nondurable[].
 *
 * Way 7, a visible update becomes durable:
 *
 *     commit_finish()         calls both steps
 *       durability_persist()  makes the update durable, or leaves that to a flush if it is late
 *         commit_draw()       draws the durTS, if that is not drawn
 *         ring_wait()         waits for a free slot, and replays if there is none: way 9
 *         commit_write()      completes the record, names D in the marker, and writes it
 *         commit_flush_begin()  starts the write-back of marker and record
 *         commit_flush_end()  returns when both are durable, under one fence
 *         nondurable_leave()  leaves nondurable[]
 *       durability_await()    returns when what the update has read is durable
 *         dset_wait()         waits for D
 */
#include "durability/async.h"
#include "durability/dset.h"
#include "durability/nondurable.h"
#include "durability/ship.h"
#include "durability/steps.h"

#include <string.h>

/* ------------------------------------------------------- steps (steps.h) */

void commit_begin(struct durability *d, struct commit *c, struct media_marker *marker)
{
	struct redo_log *log = &d->redo[c->me];
	FUR_ASSERT(c->me < d->super->max_threads && c->id != 0);
	FUR_ASSERT(
	        log->write_at >= log->open_at && log->write_at <= log->write_most + log->reserved);
	c->in_slot = pm_writes(&d->pm) && !c->log_is_out && redo_fits_slot(log, d);
	if (!c->in_slot) /* a record in the slot leaves its place in the log to the next one */
		log->committed_to = log->write_at;
	*marker = (struct media_marker){.durts = c->durts,
	        .log_start = log->open_at,
	        .log_bytes = (uint32_t)(log->write_at - log->open_at),
	        .thread = (uint16_t)c->me,
	        .kind = MEDIA_COMMIT};
}

/* The marker cannot name this durTS of D.  Wait until its update is durable, and claim that
 * (INV-M5). */
static void settle_member(const struct durability *d, struct commit *c, struct dset_member *m)
{
	struct dset *set = &c->dset;
	if (!set->by_version)
		nondurable_wait(d, &(struct dset){.n = 1, .members = m});
	if (!set->by_version && !set->settled_below)
		return;
	if (set->settled_below <= m->durts) {
		nondurable_wait_upto(d, m->durts);
		if (set->settled_below)
			set->settled_below = m->durts + 1;
	}
}

/* Without claims of others' durTSs (POWER), a member that has left is no concern of the marker. */
static bool marker_names(const struct dset *set, const struct dset_member *m)
{
	return m->durts != 0 && (!m->left || set->settled_below);
}

/* Name D in the marker (INV-D3), or settle what it cannot name.  A member that has left is durable,
 * but it may have drawn its durTS after we had read next_durts, and then no claim covers it
 * (INV-M5).  So the marker also names it, or its thread's next update, which claims it. */
static void marker_name_dependencies(
        struct durability *d, struct commit *c, struct media_marker *marker)
{
	const struct dset *set = &c->dset;
	memset(marker->deps, 0, sizeof marker->deps);
	for (uint32_t k = 0; k < set->n; k++) {
		struct dset_member *m = &set->members[k];
		uint64_t back = marker->durts - 1 - m->durts;
		if (!marker_names(set, m))
			continue;
		FUR_ASSERT(m->durts < marker->durts);
		if (back < MEDIA_DEPS)
			marker->deps[back / 64] |= UINT64_C(1) << back % 64;
		else
			settle_member(d, c, m);
	}
}

/* INV-D9.  We have named an update that drew its durTS after we had begun our scan.  It may depend
 * on one that announced itself after we had looked at that one's entry.  We do not wait for that
 * one in nondurable_wait(), for it is not in our D.  Its durTS is lower, like those of all that
 * recovery needs for the update that we have named: wait until all these are settled (plant:
 * unseen-not-awaited). */
void commit_wait_for_unseen(const struct durability *d, const struct dset *set)
{
	uint64_t upto = 0;
	if (set->by_version) /* durability_await() waits for all lower durTSs */
		return;
	for (uint32_t k = 0; k < set->n; k++) {
		const struct dset_member *m = &set->members[k];
		if (unlikely(m->durts >= set->drawn_below) && m->durts > upto &&
		        marker_names(set, m))
			upto = m->durts;
	}
	if (unlikely(upto != 0))
		nondurable_wait_upto(d, upto);
}

/* The durTSs that the update claims to be settled (INV-M4).  Each update of D is named by the
 * marker, or durable by now. */
static struct media_claims claims_of(
        const struct durability *d, const struct redo_log *log, const struct commit *c)
{
	/* INV-AS6.  Read `durable` after `newest`, so that it covers each late update that our scan
	 * of nondurable[] has missed, if none is pending now. */
	bool pending = async_pending(d);
	const uint64_t durable = async_durable(d);
	struct media_claims claims = {.durts = c->durts,
	        .own = redo_settled(log),
	        .settled = c->dset.settled_below,
	        .clear = c->dset.settled_below};
	for (uint32_t k = 0; k < c->dset.n; k++) {
		const struct dset_member *m = &c->dset.members[k];
		if (m->durts && !m->left && m->durts < claims.clear)
			claims.clear = m->durts;
	}
	if (pending && claims.clear > durable)
		claims.clear = durable;
	if (pending || c->late || c->after_all) /* its marker names nothing */
		claims.settled = claims.clear;
	return claims;
}

/* Note that an update could not become durable.  Called before nondurable_leave(): a thread that
 * waits for us must then find the heap failed, because the data that it read from us is not
 * durable. */
static int failed(struct durability *d, int error)
{
	if (error)
		durability_fail(d, error);
	return error;
}

/* Return when all that this thread has flushed is durable. */
static int drain(struct durability *d)
{
	return failed(d, pm_drain(&d->pm));
}

/* SYNC: have the group write the marker, and of the slot in DRAM what follows it, to the update's
 * slot in the file. */
static void request_slot(
        struct durability *d, struct commit *c, const struct media_marker *marker, uint64_t bytes)
{
	struct redo_log *log = &d->redo[c->me];
	memcpy(log->slot, marker, sizeof *marker);
	log->request.from = log->slot;
	log->request.bytes = bytes;
	log->request.offset = (uint64_t)((const uint8_t *)durability_marker(d, c->durts) -
	                                 (const uint8_t *)d->words);
}

/* SYNC: return when the group has made the requested slot durable. */
static int write_slot(struct durability *d, struct redo_log *log)
{
	const int error = failed(d, pm_commit(&d->pm, &log->request));
	ship_call(d);
	return error;
}

/* SYNC: complete the update's slot in DRAM.  A record that does not fit it is written to the log.
 * One sync makes slot and log durable (INV-M3). */
static int commit_put_slot(struct durability *d, struct commit *c, struct media_marker *marker,
        const struct media_claims *claims)
{
	struct redo_log *log = &d->redo[c->me];
	uint8_t *slot = c->late ? async_slot(d, c->durts) : log->slot;
	int error = 0;
	if (c->in_slot) {
		redo_put_in_slot(log, d, slot, claims);
		marker->kind =
		        MEDIA_COMMIT_IN_SLOT | (marker->kind & (MEDIA_AFTER_ALL | MEDIA_PART));
		marker->log_start = MEDIA_IN_SLOT;
	} else {
		redo_put_head(log, d, log->written, claims);
		error = redo_write_out(log, d, log->open_at, log->write_at);
	}
	marker->checksum =
	        media_marker_checksum(d->super, marker, c->in_slot ? slot : log->written);
	if (c->late) {
		struct media_marker *place = (struct media_marker *)(void *)slot;
		memcpy(&place->log_start, &marker->log_start, sizeof *marker - sizeof place->durts);
		/* Release: a flush that sees the durTS writes the whole slot, and syncs a record
		 * that we have written to the log. */
		if (!error)
			arch_store_release(&place->durts, c->durts);
		return failed(d, error);
	}
	request_slot(d, c, marker, d->super->slot_bytes);
	return failed(d, error);
}

/* Is the update late?  It is if no thread waits for it, and if it may have read from a late update
 * that is not durable (INV-AS3).
 * Orders:  the caller has ordered its scan of nondurable[], and its waits for members of D, before
 *          this.  Otherwise a late update could leave nondurable[] unseen. */
static void decide_if_late(struct durability *d, struct commit *c, struct media_marker *marker)
{
	const bool late = async_pending(d) || (c->async && async_ready(d));
	/* Of an update over several heaps, after_all is set before: it waits itself, and its one
	 * record, or each of them, depends on all below while late updates are pending. */
	c->late = late && !c->after_all;
	c->after_all = late && c->after_all;
	if (!late)
		return;
	FUR_POINT(late__decided);
	marker->kind |= MEDIA_AFTER_ALL;
	memset(marker->deps, 0, sizeof marker->deps);
}

int commit_write(struct durability *d, struct commit *c, struct media_marker *marker)
{
	struct redo_log *log = &d->redo[c->me];
	/* The marker of a late update names nothing.  Where no update can be late, one whose caller
	 * does not wait is like any other. */
	if (!c->async || !async_ready(d))
		marker_name_dependencies(d, c, marker);
	/* An update that could not become durable sets `failed`, then leaves nondurable[] like a
	 * durable one.  If our scan missed it, we would claim that it is settled.  So no update
	 * writes a claim once the heap has failed.  The fence orders our scan before this load of
	 * `failed`; otherwise the update could set `failed` and leave between the two. */
	arch_fence_light();
	int error = durability_check(d);
	if (error)
		return error;
	decide_if_late(d, c, marker);
	struct media_claims claims = claims_of(d, log, c);
	log->durts = c->durts;
	log->late = c->late;
	if (pm_writes(&d->pm))
		return commit_put_slot(d, c, marker, &claims);
	redo_put_head(log, d, log->written, &claims);
	if (!c->log_is_out) {
		redo_copy_out(log, d, log->open_at, log->write_at);
		if (log->written != log->persistent)
			redo_put_head(log, d, log->persistent, &claims);
	}
	ring_put_marker(d, marker);
	return 0;
}

void commit_flush_begin(struct durability *d, struct commit *c)
{
	struct redo_log *log = &d->redo[c->me];
	if (pm_writes(&d->pm)) {
		if (c->part) /* its thread goes on with another file */
			group_start(&d->pm.group, &log->request);
		return;
	}
	if (!c->log_is_out)
		redo_flush(log, d, log->open_at, log->write_at);
	pm_flush(&d->pm, durability_marker(d, c->durts), sizeof(struct media_marker));
}

int commit_flush_end(struct durability *d, struct commit *c)
{
	return pm_writes(&d->pm) ? write_slot(d, &d->redo[c->me]) : drain(d);
}

int commit_flush_abort(struct durability *d, struct commit *c, struct media_marker *marker)
{
	struct redo_log *log = &d->redo[c->me];
	/* As a commit: what is stored to the mapping costs a sync of a whole folio (pm.h). */
	if (pm_writes(&d->pm)) {
		marker->checksum = media_marker_checksum(d->super, marker, log->written);
		request_slot(d, c, marker, sizeof *marker);
		return write_slot(d, log);
	}
	ring_put_marker(d, marker); /* A1:53 */
	pm_flush(&d->pm, durability_marker(d, c->durts), sizeof *marker);
	return drain(d);
}

int commit_await_over(struct durability *d, struct commit *c, int error)
{
	phase_mark(c, FUR_PHASE_DURABILITY);
	if (unlikely(arch_load(&d->control->wake_at) != CONTROL_AWAKE))
		control_wake(d, c->me, c->durts);
	redo_prefetch(&d->redo[c->me], d);
	return error;
}

/* ------------------------------------------------- updates of one heap */

/* 1.  Draw the durTS before any write-back begins: a locked instruction after clwb waits for it, so
 * the update would pay for two write latencies in sequence.  On POWER the update has drawn its
 * durTS in the window, and only looks up the durTSs of D, which its marker names. */
static void commit_draw(struct durability *d, struct commit *c)
{
	if (c->durts == 0)
		dset_draw(d, c); /* A1:31 */
	else
		nondurable_wait_drawn(d, &c->dset);
}

/* Flattened: called, the steps would be 3 % of the instructions of a small update. */
__attribute__((flatten)) int durability_persist(struct durability *d, struct commit *c)
{
	struct redo_log *log = &d->redo[c->me];
	struct media_marker marker;
	FUR_POINT(update__persist);
	commit_draw(d, c);
	phase_mark(c, FUR_PHASE_LOG);
	commit_begin(d, c, &marker);
	int error = ring_wait(d, c->durts);
	phase_mark(c, FUR_PHASE_ROOM);
	FUR_POINT(marker__write);

	/* 2.  Write the marker.  The paper waits for D before it flushes the marker; our marker
	 * names D instead. */
	if (!error)
		error = commit_write(d, c, &marker); /* A1:38 */
	if (!error && !c->late) {
		phase_mark(c, FUR_PHASE_LOG);
		commit_flush_begin(d, c);
		error = commit_flush_end(d, c); /* A1:36, A1:38 */
		phase_mark(c, FUR_PHASE_FLUSH);
		/* Before we leave: a transaction may have read from us, and collected its D before
		 * the unseen update announced itself; it waits for us alone. */
		if (!error)
			commit_wait_for_unseen(d, &c->dset);
	}
	if (unlikely(log->frees_a_run))
		durability_note_run_freed(d, c->durts);
	/* INV-AS1: before it leaves.  Otherwise a transaction that has read from it could look for
	 * it in between, find it nowhere, and return (plant: late-and-unseen). */
	if (!error && c->late)
		async_note(d, c->durts);
	/* We leave as soon as we are durable ourselves, before we wait for D.  If we left after the
	 * wait, the members of D would wait for each other in a chain as long as there are threads.
	 * An update that read from us need not find us: it collects D after we became visible, and
	 * we collected ours before.  So it finds each member of our D that is not durable by then
	 * in nondurable[] itself, waits for it, and names it (INV-D2, INV-D3). */
	nondurable_leave(d, c); /* A1:39 */
	return error;
}

/* INV-SH7: the marker is in the file, and a wait has ended with `error`.  When another heap has
 * taken over, the first thread that finds out makes this one fail, and all other waits with it.
 * That tells nothing of this update: the shipping log may have it.  ship_wait() knows, also of what
 * the update has read from, which has drawn lower durTSs (INV-D4). */
static int exact_if_fenced(struct durability *d, const struct commit *c, int error)
{
	return unlikely(error == FUR_EFENCED) ? ship_wait(d, c->durts + 1) : error;
}

/* A late update returns when everything below this durTS is durable, and acknowledged (INV-SH3). */
static int await_below(struct durability *d, uint64_t durts)
{
	const int error = async_wait(d, durts);
	return error || !ship_replicates(d) ? error : ship_wait(d, durts);
}

int durability_await(struct durability *d, struct commit *c, int error)
{
	if (error)
		return error;
	/* Everything below its durTS is durable then, and so are all updates of D (INV-D4). */
	if (c->late)
		return commit_await_over(
		        d, c, c->async ? 0 : exact_if_fenced(d, c, await_below(d, c->durts + 1)));
	/* 3.  INV-D2: we are durable; now wait for D.  Without the wait a failure could lose an
	 * update of D, and so ours too, although we had returned. */
	dset_wait(d, c); /* A1:37 */
	/* The loads of that wait are acquire, so this load comes after them: a member of D that
	 * could not become durable set `failed` before it left. */
	if (arch_load(&d->failed))
		error = durability_say_failed(
		        d, "an update that this one has read from could not be made durable");
	/* Members of D may have left late, after we had looked for late updates.  Our marker names
	 * them (INV-D3), and this load also comes after their leaving (INV-AS2). */
	if (!error && c->dset.n)
		error = async_wait_all(d);
	if (!error && ship_replicates(d)) /* INV-SH3; D has drawn lower durTSs (INV-D4) */
		error = ship_wait(d, c->durts + 1);
	return commit_await_over(d, c, exact_if_fenced(d, c, error));
}

int durability_abort(struct durability *d, struct commit *c)
{
	struct media_marker marker = {.durts = c->durts,
	        .log_start = d->redo[c->me].open_at,
	        .thread = (uint16_t)c->me,
	        .kind = MEDIA_ABORT};
	FUR_ASSERT(c->durts != 0);
	int error = ring_wait(d, c->durts);
	/* INV-D5: another update may have named this durTS.  If we left before the abort marker is
	 * durable, that update could return, and after a failure recovery would drop it, because of
	 * a dependency that never existed (model: NOMARK). */
	if (!error)
		error = commit_flush_abort(d, c, &marker);
	nondurable_leave(d, c);
	return error;
}
