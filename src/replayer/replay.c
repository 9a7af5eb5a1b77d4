/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replay.c - replay.h, done: recovery after a failure, and replay beside running transactions.
 */
#include "../fur_error.h"
#include "apply.h"
#include "inspect.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static bool valid(const struct durability *d, const struct media_marker *m, uint64_t durts)
{
	return inspect_valid(d->super, m, durts);
}

/* Move the tail on the medium: INV-R1 is the first drain.  The second keeps the two copies one step apart at most, so that a
 * failure in between leaves an older tail that is right. */
static int store_tail(struct durability *d, uint64_t tail)
{
	int error = pm_drain(&d->pm);
	for (int k = 0; k < 2 && !error; k++) {
		arch_store(&d->super->tail[k][0], media_tail_encode(tail));
		pm_flush(&d->pm, &d->super->tail[k][0], 8);
		error = pm_drain(&d->pm);
	}
	return error;
}

/* ---------------------------------------------------------------- recovery */

/* Decide about every slot of the window, upwards.  Returns the log bytes of what is kept. */
static uint64_t judge_window(const struct durability *d, uint64_t tail, uint8_t *verdicts, struct replay_result *result)
{
	uint64_t slots = d->super->ring_slots, holes = 0, log_bytes = 0;
	for (uint64_t k = 0; k < slots; k++) {
		apply_preload(d, tail + k);
		verdicts[k] = (uint8_t)inspect_judge_slot(d->super, tail, tail + k, verdicts);
		if (verdicts[k] <= INSPECT_BROKEN) {
			holes++;
			continue;
		}
		result->holes += holes;
		holes = 0;
		if (verdicts[k] == INSPECT_KEPT)
			log_bytes += durability_marker(d, tail + k)->log_bytes;
		else if (verdicts[k] == INSPECT_DROPPED)
			result->dropped++;
	}
	return log_bytes;
}

static void refuse_gap(void *error, const struct inspect_gap *gap)
{
	if (*(int *)error == 0)
		*(int *)error = fur_fail(FUR_ECORRUPT,
		        "an update of thread %u, between %llu and %llu, had returned, and its marker or log is damaged: "
		        "fur-check --repair may mend it; else restore the file from a copy",
		        gap->thread, (unsigned long long)gap->after, (unsigned long long)gap->before);
}

/* INV-R7.  Updates that came later may have read it without naming it, for it was durable: to replay them would leave a heap that never
 * was. */
static int refuse_damage(const struct durability *d, uint64_t tail, const uint8_t *verdicts)
{
	int damage = 0, error = inspect_gaps(d->super, tail, verdicts, refuse_gap, &damage);
	return error ? error : damage;
}

/* Where most pages of the heap will be written, map them all at once: a page fault each costs more than the replay itself. */
static void populate_image(struct durability *d, uint64_t log_bytes)
{
	enum { PAGE = 4096, LEAST_ENTRY = MEDIA_ENTRY_ALIGN };
	if (log_bytes / LEAST_ENTRY >= d->super->heap_bytes / PAGE / 2)
		madvise(d->image, d->super->heap_bytes, MADV_POPULATE_WRITE);
}

/* What is left of the verdicts is whether to apply. */
static int apply_window(struct durability *d, uint64_t tail, uint8_t *verdicts, struct replay_result *result)
{
	uint64_t slots = d->super->ring_slots;
	for (uint64_t k = 0; k < slots; k++)
		verdicts[k] = verdicts[k] == INSPECT_KEPT;
	return apply_updates(d, &(struct apply_range){tail, tail + slots, verdicts}, result);
}

int replay_recover(struct durability *d, struct replay_result *result)
{
	uint64_t started = arch_now_ns(), tail = d->tail, slots = d->super->ring_slots;
	memset(result, 0, sizeof *result);
	uint8_t *verdicts = malloc(slots);
	if (!verdicts)
		return fur_fail(FUR_ENOMEM, "no memory to recover a ring of %llu slots", (unsigned long long)slots);
	uint64_t log_bytes = judge_window(d, tail, verdicts, result);
	int error = refuse_damage(d, tail, verdicts);
	if (!error) {
		populate_image(d, log_bytes);
		error = apply_window(d, tail, verdicts, result);
	}
	free(verdicts);
	/* INV-M2: markers written lie below tail + slots, for a drawn slot beyond is not written before the tail has moved. */
	if (!error)
		error = store_tail(d, tail + 2 * slots);
	if (!error)
		d->tail = d->next_durts = tail + 2 * slots;
	result->ns = arch_now_ns() - started;
	return error;
}

/* -------------------------------------------------------------------- live */

/* Is the update or abort of this slot durable?  Its owner leaves the slot in nondurable[] until it is.  Beside another process we do
 * not see that: there it is enough that the marker is written, and write_out() makes it durable. */
static bool settled(const struct durability *d, const struct media_marker *m, uint64_t durts)
{
	/* Acquire pairs with put_marker(): the fields below, the log, and the owner's nondurable[].slot, are at least as new. */
	if (arch_load_acquire(&m->durts) != durts)
		return false;
	if (d->beside)
		return true;
	return m->thread < d->super->max_threads && arch_load_acquire(&d->nondurable[m->thread].slot) != durts;
}

/* Start the write-back of a marker and its log: the process that wrote them may not have come to that yet. */
static void write_out(struct durability *d, const struct media_marker *m)
{
	const uint8_t *log = apply_log(d, m);
	uint64_t place = m->log_start & (d->super->log_bytes - 1), to_end = d->super->log_bytes - place;
	uint64_t first = m->log_bytes < to_end ? m->log_bytes : to_end;
	pm_flush(&d->pm, m, sizeof *m);
	pm_flush(&d->pm, log + place, first);
	pm_flush(&d->pm, log, m->log_bytes - first);
}

/* How far can we replay now? */
static int find_end(struct durability *d, uint64_t tail, uint64_t *end)
{
	uint64_t at = tail, limit = tail + d->super->ring_slots;
	if (!d->beside && arch_load(&d->next_durts) < limit)
		limit = arch_load(&d->next_durts);
	for (; at < limit; at++) {
		const struct media_marker *m = durability_marker(d, at);
		apply_preload(d, at);
		if (!settled(d, m, at))
			break; /* INV-R3 */
		if (!valid(d, m, at))
			return fur_fail(FUR_ECORRUPT,
			        "the marker or log of update %llu has changed since it was written: memory or the file is "
			        "being overwritten",
			        (unsigned long long)at);
		if (d->beside)
			write_out(d, m);
	}
	*end = at;
	return 0;
}

static void give_back_room(struct durability *d, uint64_t tail, uint64_t end, const struct replay_result *result)
{
	for (uint64_t s = tail; s < end; s++) {
		const struct media_marker *m = durability_marker(d, s);
		if (m->kind != MEDIA_COMMIT)
			continue;
		/* Release: the log is read for the last time before its owner may overwrite it. */
		arch_store_release(&d->control->logs[m->thread].tail, m->log_start + m->log_bytes);
		if (!d->beside)
			arch_store_release(&d->redo[m->thread].tail, m->log_start + m->log_bytes);
	}
	/* Release: the markers likewise, before their slots are drawn again. */
	arch_store_release(&d->tail, end);
	control_publish(d, result->updates, result->entries);
}

int replay_live(struct durability *d)
{
	uint64_t tail = d->tail, end = tail;
	struct replay_result result = {0};
	int error = find_end(d, tail, &end);
	/* INV-R6 */
	if (!error && d->beside && end > tail)
		error = pm_drain(&d->pm);
	if (!error && end > tail)
		error = apply_updates(d, &(struct apply_range){tail, end, NULL}, &result);
	if (!error && end > tail)
		error = store_tail(d, end);
	if (!error && end > tail)
		give_back_room(d, tail, end, &result);
	return error;
}

const struct durability_ops replay_ops = {.replay = replay_live};
