/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_paper.c - Algorithm 1 of "Fast and Unlimited Reads on Persistent Memory Transactions"
 * (EuroSys '26) as it is printed, for comparison.  It is NOT durably opaque: docs/protocol.md,
 * "Durability: the rule, and why it replaces the paper's"; `explore --tm fur-paper` shows it.
 *
 * A program linked with this file before libfur's objects gets it in place of reader.c, power.c and
 * commit.c; heap, redo log, ring, replay and the lock path, of which Algorithm 1 does not speak,
 * are libfur's.  POWER only.  The numbers are the algorithm's lines.
 *
 * state[i] is kept in libfur's two arrays, as section 3.2.1 of the paper unfolds it:
 *   {ACTIVE, time}       active[i].seq = time
 *   {NON-DURABLE, time}  nondurable[i].id = time, with STAMPED set
 *   {INACTIVE}           both 0
 * An update under the lock announces itself with an id that is no time; there the slots say who
 * came first.
 */
#include "base/error.h"
#include "htm/htm.h"
#include "htm/power_insn.h"

#include <string.h>

#define STAMPED (UINT64_C(1) << 63)

ARCH_THREAD_LOCAL_DEFINE(struct this_thread, this_thread)

static uint64_t get_time(void)
{
	return arch_ticks() | 1;
}

/* For the phases: 0 where they are not measured. */
static uint64_t now(const struct fur_thread *t)
{
	return t->htm->phase_times ? arch_ticks() : 0;
}

/* Add the time since `since` to a phase; returns now. */
static uint64_t lap(uint64_t *phase, uint64_t since)
{
	uint64_t ticks = arch_ticks();
	*phase += ticks - since;
	return ticks;
}

/* 45 to 49.  `slot`: of the update that waits, 0 for a read-only transaction. */
static void durability_wait_pruned(struct fur_thread *t, uint64_t slot)
{
	const struct durability *d = t->durability;
	uint64_t limit = arch_load(&d->limit);
	for (uint32_t c = 0; c < limit; c++)
		t->window.seqs[c] = c == t->slot ? 0 : arch_load(&d->nondurable[c].id);
	for (uint32_t c = 0; c < limit; c++) {
		uint64_t seen = t->window.seqs[c];
		struct arch_backoff backoff = {0};
		if (!seen || ((seen & STAMPED) && (seen & ~STAMPED) >= t->seq))
			continue;
		/* It ran under the lock.  If it drew its slot after us, or has not yet, we have
		 * read nothing of it. */
		if (!(seen & STAMPED) && slot &&
		        arch_load_acquire(&d->nondurable[c].slot) - 1 >= slot - 1)
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
		t->seq = get_time();                                    /* 15 */
		arch_store_fence(&t->htm->active[t->slot].seq, t->seq); /* 16, 18 */
		if (!lock_held(t->htm))
			break;
		arch_store_release(&t->htm->active[t->slot].seq, 0);
		lock_wait_reader(t->htm, t->slot);
	}
	arch_store_release(&t->htm->active[t->slot].want, 0);
	this_thread()->open = t;
	t->ro.depth = 1;
	return 0;
}

FUR_API int fur_end_ro(fur_ro *ro)
{
	if (!ro || ro->depth != 1)
		return fur_fail(FUR_ENOTX, "fur_end_ro without fur_begin_ro");
	struct fur_thread *t = thread_of(ro);
	arch_store_release(&t->htm->active[t->slot].seq, 0); /* 24 */
	this_thread()->open = NULL;
	ro->depth = 0;
	stat_add(&t->stats.ro_commits, 1);
	uint64_t ended = now(t);
	durability_wait_pruned(t, 0); /* 25 */
	stat_add(&t->stats.phase_ticks[FUR_PHASE_RO_BODY], ended - t->began);
	stat_add(&t->stats.phase_ticks[FUR_PHASE_RO_WAIT], now(t) - ended);
	return 0;
}

/* ------------------------------------------------------------------ updates */

enum { WINDOW_LOOKS = 100000 };

static uint64_t begin(struct fur_thread *t)
{
	struct htm *h = t->htm;
	t->seq = get_time();                               /* 5 */
	t->window.slot = 0;                                /* 7 */
	arch_store_fence(&h->active[t->slot].seq, t->seq); /* 6, 9 */
	if (lock_held(h))
		return POWER_STATUS(FUR_ABORT_LOCK);
	if (!power_tbegin(h->isolation == FUR_SNAPSHOT)) /* 10 to 13 */
		return texasr();
	if (h->isolation == FUR_OPACITY && lock_held(h))
		power_abort_with(FUR_ABORT_LOCK);
	return HTM_STARTED;
}

static void deactivate(struct fur_thread *t)
{
	arch_store_release(&t->htm->active[t->slot].seq, 0);
}

static void window(struct fur_thread *t)
{
	struct durability *d = t->durability;
	struct htm_window *w = &t->window;
	struct redo_log *log = t->update.log;
	uint64_t start = arch_load(&log->start), end = arch_load(&log->head);
	w->committing = now(t);
	deactivate(t); /* 28 */
	arch_fence();  /* 29 */
	if (end < start || end - start > d->super->log_bytes)
		end = start;
	redo_copy_out(log, d, start, end); /* 30 */
	redo_flush(log, d, start, end);
	w->log_is_out = true;
	w->slot = arch_fetch_add(&d->next_durts, 1); /* 31 */
	redo_put_head(log, d, log->persistent, &(struct media_claims){.durts = w->slot});
	redo_flush(log, d, start, start + d->head_bytes);
	if (w->slot >= arch_load_acquire(&d->tail) + d->super->ring_slots) {
		w->refused = FUR_ABORT_FULL;
		return;
	}
	w->waiting = now(t);
	if (!htm_isolation_wait(t->htm, w, WINDOW_LOOKS)) { /* 32 */
		w->refused = FUR_ABORT_READER;
		return;
	}
	w->waited = now(t);
	arch_store(&d->nondurable[t->slot].slot, w->slot);
	arch_store_release(&d->nondurable[t->slot].id, STAMPED | get_time()); /* 33 */
	arch_fence_light();
}

static void commit(struct fur_thread *t)
{
	power_window(window, t, t->window_stack); /* 27, 34 */
	if (t->window.refused != FUR_ABORT_CAUSES)
		power_abort_with(t->window.refused);
	power_tend(); /* 35 */
}

static void commit_empty(struct fur_thread *t)
{
	power_window(deactivate, t, t->window_stack);
	power_tend();
	durability_wait_pruned(t, 0);
}

static int aborted(struct fur_thread *t)
{
	int error = 0;
	deactivate(t);      /* 51 */
	if (t->window.slot) /* 52, 53 */
		error = durability_abort(t->durability, t->slot, t->window.slot);
	t->window.slot = 0;
	return error;
}

const struct htm_ops htm_power = {
        begin, power_classify, commit, commit_empty, power_abort_with, aborted};

/* ------------------------------------------------------------------- markers */

static void put_marker(
        struct durability *d, uint32_t me, uint64_t slot, uint64_t bytes, enum media_kind kind)
{
	struct media_marker marker = {.durts = slot,
	        .log_start = d->redo[me].start,
	        .log_bytes = (uint32_t)bytes,
	        .thread = (uint16_t)me,
	        .kind = (uint16_t)kind};
	struct media_marker *place = durability_marker(d, slot);
	marker.checksum = media_marker_checksum(d->super, &marker, d->redo[me].written);
	memcpy(&place->log_start, &marker.log_start, sizeof marker - sizeof marker.durts);
	arch_store_release(&place->durts, slot);
	pm_flush(&d->pm, place, sizeof marker);
}

static void leave(struct durability *d, uint32_t me)
{
	arch_store_release(&d->nondurable[me].slot, 0);
	arch_store_release(&d->nondurable[me].id, 0);
}

int durability_commit(struct durability *d, uint32_t me, struct dset *set, uint64_t slot,
        bool log_is_out, struct durability_times *times)
{
	struct redo_log *log = &d->redo[me];
	struct fur_thread *t =
	        (struct fur_thread *)((char *)set - offsetof(struct fur_thread, window.dset));
	uint64_t since = times ? arch_ticks() : 0;
	log->end = log->head;
	if (slot == 0)
		slot = durability_draw(d, me, set);
	int error = durability_wait_ring(d, slot);
	redo_put_head(log, d, log->written, &(struct media_claims){.durts = slot});
	if (log->written != log->persistent)
		redo_put_head(log, d, log->persistent, &(struct media_claims){.durts = slot});
	log->slot = slot; /* until it is replayed its log is not written over */
	if (times)
		since = lap(&times->room, since);
	if (!error && !log_is_out) {
		redo_copy_out(log, d, log->start, log->head);
		redo_flush(log, d, log->start, log->head);
	}
	if (!error)
		error = pm_drain(&d->pm); /* 36 */
	if (times)
		since = lap(&times->flush, since);
	durability_wait_pruned(t, slot); /* 37 */
	durability_wait(d, set);         /* under the lock: it has collected D as libfur does */
	if (times)
		since = lap(&times->wait, since);
	if (!error) {
		put_marker(d, me, slot, log->head - log->start, MEDIA_COMMIT); /* 38 */
		error = pm_drain(&d->pm);
	}
	leave(d, me); /* 39 */
	if (times)
		lap(&times->flush, since);
	if (__builtin_expect(arch_load(&d->control->wake_at) != CONTROL_ASLEEP_NOT, 0))
		control_wake(d, me, slot);
	return error;
}

/* 53: written, and nobody waits for it to be durable */
int durability_abort(struct durability *d, uint32_t me, uint64_t slot)
{
	int error = durability_wait_ring(d, slot);
	if (!error)
		put_marker(d, me, slot, 0, MEDIA_ABORT);
	leave(d, me);
	return error;
}
