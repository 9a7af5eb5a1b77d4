/* SPDX-License-Identifier: BSD-3-Clause
 *
 * commit.c - the life of an update after it is visible: its marker, its write-back, its wait, its
 * leaving.
 */
#include "base/error.h"
#include "durability/durability.h"

#include <string.h>

/* Name D in the marker (INV-D3).  What is too far back to be named is waited for: then it is
 * durable and need not be. */
static void name_dependencies(
        struct durability *d, struct media_marker *marker, const struct dset *set, uint64_t slot)
{
	memset(marker->deps, 0, sizeof marker->deps);
	for (uint32_t k = 0; k < set->n; k++) {
		uint64_t back = slot - 1 - set->members[k].slot;
		if (set->members[k].slot == 0)
			continue;
		if (back < MEDIA_DEPS)
			marker->deps[back / 64] |= UINT64_C(1) << back % 64;
		else
			durability_wait(d, &(struct dset){.n = 1, .members = &set->members[k]});
	}
}

/* The slots that the update of `slot` claims to be settled (INV-M4).  D is named in the marker, or
 * durable by now. */
static struct media_claims claims_of(
        const struct redo_log *log, const struct dset *set, uint64_t slot)
{
	/* The thread's newest update has returned: its marker is durable (INV-D2). */
	struct media_claims claims = {
	        .durts = slot, .own = log->slot, .settled = set->below, .clear = set->below};
	for (uint32_t k = 0; k < set->n; k++)
		if (set->members[k].slot && set->members[k].slot < claims.clear)
			claims.clear = set->members[k].slot;
	return claims;
}

/* Write a marker whose other fields are set.  durTS goes last, with release: a live replayer that
 * sees it sees the rest, and the log the marker names.  Before the log's write-back: a load of a
 * line under write-back waits for it, and the checksum loads them all (measured: a third of a small
 * update's time).  And from where the log was written, not its copy, which may be out of the
 * cache. */
static void put_marker(struct durability *d, struct media_marker *marker, uint64_t slot)
{
	struct media_marker *place = durability_marker(d, slot);
	marker->durts = slot;
	marker->checksum = media_marker_checksum(d->super, marker, d->redo[marker->thread].written);
	memcpy(&place->log_start, &marker->log_start, sizeof *marker - sizeof marker->durts);
	arch_store_release(&place->durts, slot);
}

/* Leave nondurable[].  Slot before id, see durability_wait_slots(); release, so that whoever saw us
 * in D and now does not has everything we did before behind it. */
static void leave(struct durability *d, uint32_t me)
{
	arch_store_release(&d->nondurable[me].slot, 0);
	arch_store_release(&d->nondurable[me].id, 0);
}

static int drain(struct durability *d)
{
	int error = pm_drain(&d->pm);
	/* Before leave(): whoever waited for us must find the heap failed, for what it read of us
	 * is not durable. */
	if (error)
		durability_fail(d, error);
	return error;
}

static uint64_t lap(uint64_t *into, uint64_t since)
{
	uint64_t now = arch_ticks();
	*into += now - since;
	return now;
}

int durability_commit(struct durability *d, uint32_t me, struct dset *set, uint64_t slot,
        bool log_is_out, struct durability_times *times)
{
	struct redo_log *log = &d->redo[me];
	struct media_marker marker = {.log_start = log->start,
	        .log_bytes = (uint32_t)(log->head - log->start),
	        .thread = (uint16_t)me,
	        .kind = MEDIA_COMMIT};
	uint64_t t = times ? arch_ticks() : 0;
	log->end = log->head;

	/* 1. Slot.  Before any write-back is issued: a locked instruction after clwb waits for it,
	 * and the update would pay two
	 *    write latencies one after the other. */
	if (slot == 0)
		slot = durability_draw(d, me, set);
	else
		/* Ours was drawn in the window; theirs are named below */
		durability_wait_slots(d, set);
	if (times)
		t = lap(&times->log, t);
	int error = durability_wait_ring(d, slot);
	if (error) {
		leave(d, me);
		return error;
	}
	if (times)
		t = lap(&times->room, t);
	name_dependencies(d, &marker, set, slot);
	/* An update that could not be made durable has left nondurable[] like one that is, after it
	 * had set `failed`.  It was not in our D, and we would claim it to be settled: no claim is
	 * written once the heap has failed.  The fence: the scan before this load. */
	arch_fence_light();
	if ((error = durability_check(d))) {
		leave(d, me);
		return error;
	}
	struct media_claims claims = claims_of(log, set, slot);
	log->slot = slot;
	redo_put_head(log, d, log->written, &claims);
	if (!log_is_out) {
		redo_copy_out(log, d, log->start, log->head);
		if (log->written != log->persistent)
			redo_put_head(log, d, log->persistent, &claims);
	}
	put_marker(d, &marker, slot);
	if (times)
		t = lap(&times->log, t);

	/* 2. Marker and log under one fence (INV-M3): a marker whose log did not get out is a
	 * hole. */
	if (!log_is_out)
		redo_flush(log, d, log->start, log->head);
	pm_flush(&d->pm, durability_marker(d, slot), sizeof marker);
	error = drain(d);
	if (times)
		t = lap(&times->flush, t);

	/* 3. INV-D2: durable ourselves, wait for what we read.  Without it a failure now could
	 * leave our dependencies, and so us,
	 *    behind although we had returned. */
	durability_wait(d, set);
	if (!error && arch_load(&d->failed))
		error = durability_say_failed(
		        d, "an update that this one has read from could not be made durable");
	leave(d, me);
	if (times)
		lap(&times->wait, t);
	if (__builtin_expect(arch_load(&d->control->wake_at) != CONTROL_ASLEEP_NOT, 0))
		control_wake(d, me, slot);
	redo_prefetch(log, d);
	return error;
}

int durability_abort(struct durability *d, uint32_t me, uint64_t slot)
{
	struct redo_log *log = &d->redo[me];
	struct media_marker marker = {
	        .log_start = log->start, .thread = (uint16_t)me, .kind = MEDIA_ABORT};
	int error = durability_wait_ring(d, slot);
	if (!error) {
		put_marker(d, &marker, slot);
		pm_flush(&d->pm, durability_marker(d, slot), sizeof marker);
		/* INV-D5: somebody may have named this slot.  If we left before the abort marker is
		 * durable, that update could return, and a failure would drop it for a dependency
		 * that never was (model: NOMARK). */
		error = drain(d);
	}
	leave(d, me);
	return error;
}
