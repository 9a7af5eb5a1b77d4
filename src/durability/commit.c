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

int durability_persist(struct durability *d, struct commit *c)
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
