/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replay.c - replay.h, done: recovery after a failure, and replay beside running transactions.
 */
#include "replay.h"
#include "../fur_error.h"
#include "inspect.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* How far ahead of the slot at hand, in slots: first the marker, then, when it is there, the log it names, then the heap lines. */
enum { PREFETCH_MARKER = 16, PREFETCH_LOG = 8, PREFETCH_UPDATES = 3 };

static const uint8_t *log_of(const struct durability *d, const struct media_marker *m)
{
	return d->logs + m->thread * d->super->log_bytes;
}

static bool valid(const struct durability *d, const struct media_marker *m, uint64_t durts)
{
	return inspect_valid(d->super, m, durts);
}

/* Markers and logs come from other cores' caches, or from the medium: ask for them before they are needed. */
static void prefetch_ahead(const struct durability *d, uint64_t durts)
{
	const struct media_marker *m = durability_marker(d, durts + PREFETCH_LOG);
	__builtin_prefetch(durability_marker(d, durts + PREFETCH_MARKER));
	/* It may be anything: only its thread decides whether the address is in the file. */
	if (m->thread < d->super->max_threads)
		__builtin_prefetch(log_of(d, m) + (m->log_start & (d->super->log_bytes - 1)));
}

/* One entry of a log; where it starts, how much it holds. */
struct entry {
	uint64_t offset, bytes;
	const uint8_t *payload;
};

static struct entry entry_at(const struct durability *d, const uint8_t *log, uint64_t position)
{
	const uint8_t *at = log + (position & (d->super->log_bytes - 1));
	uint64_t word;
	memcpy(&word, at, 8);
	return (struct entry){media_entry_offset(word), media_entry_payload(word), at + 8};
}

/* Look at the update's entries, and ask for the heap lines they go to.  A checksum that holds over an entry outside the heap means a
 * bug or a forgery: refuse, before anything of it is written. */
static int check_entries(const struct durability *d, const struct media_marker *m)
{
	const uint8_t *log = log_of(d, m);
	for (uint64_t p = m->log_start, end = p + m->log_bytes; p < end;) {
		struct entry e = entry_at(d, log, p);
		uint64_t to_end = d->super->log_bytes - (p & (d->super->log_bytes - 1));
		if (e.bytes == 0 || e.bytes > MEDIA_ENTRY_MAX || media_entry_bytes(e.bytes) > to_end ||
		        e.offset > d->super->heap_bytes - e.bytes)
			return fur_fail(FUR_ECORRUPT,
			        "the redo log of update %llu stores %llu bytes at heap offset %llu, outside the heap: restore the "
			        "file from a copy",
			        (unsigned long long)m->durts, (unsigned long long)e.bytes, (unsigned long long)e.offset);
		__builtin_prefetch(d->image + e.offset, 1);
		p += media_entry_bytes(e.bytes);
	}
	return 0;
}

/* Write its entries, checked before, to the heap image and start their write-back. */
static void apply(struct durability *d, const struct media_marker *m, struct replay_result *result)
{
	const uint8_t *log = log_of(d, m);
	for (uint64_t p = m->log_start, end = p + m->log_bytes; p < end;) {
		struct entry e = entry_at(d, log, p);
		if (e.bytes == 8) /* a constant size is one store, not a call */
			memcpy(d->image + e.offset, e.payload, 8);
		else
			memcpy(d->image + e.offset, e.payload, e.bytes);
		pm_flush(&d->pm, d->image + e.offset, e.bytes);
		result->entries++;
		result->bytes += e.bytes;
		p += media_entry_bytes(e.bytes);
	}
	result->updates++;
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
		prefetch_ahead(d, tail + k);
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

/* INV-R4.  Updates that came later may have read it without naming it, for it was durable: to replay them would leave a heap that never
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

static int apply_window(struct durability *d, uint64_t tail, const uint8_t *verdicts, struct replay_result *result)
{
	uint64_t slots = d->super->ring_slots, checked = 0;
	for (uint64_t k = 0; k < slots; k++) {
		for (; checked < slots && checked <= k + PREFETCH_UPDATES; checked++) {
			prefetch_ahead(d, tail + checked);
			int error = verdicts[checked] == INSPECT_KEPT ? check_entries(d, durability_marker(d, tail + checked)) : 0;
			if (error)
				return error;
		}
		if (verdicts[k] == INSPECT_KEPT)
			apply(d, durability_marker(d, tail + k), result);
	}
	return 0;
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

/* Is the update or abort of this slot durable?  Its owner leaves the slot in nondurable[] until it is. */
static bool settled(const struct durability *d, const struct media_marker *m, uint64_t durts)
{
	/* Acquire pairs with put_marker(): the fields below, and the owner's nondurable[].slot, are at least as new. */
	if (arch_load_acquire(&m->durts) != durts)
		return false;
	return m->thread < d->super->max_threads && arch_load_acquire(&d->nondurable[m->thread].slot) != durts;
}

int replay_live(struct durability *d)
{
	uint64_t tail = d->tail, end = arch_load(&d->next_durts), at = tail;
	struct replay_result result = {0};
	int error = 0;
	if (end > tail + d->super->ring_slots)
		end = tail + d->super->ring_slots;
	for (; at < end; at++) {
		const struct media_marker *m = durability_marker(d, at);
		prefetch_ahead(d, at);
		if (!settled(d, m, at))
			break; /* INV-R3 */
		if (!valid(d, m, at))
			return fur_fail(FUR_ECORRUPT,
			        "the marker or log of update %llu has changed since it was written: memory or the file is "
			        "being overwritten",
			        (unsigned long long)at);
		if (m->kind == MEDIA_ABORT)
			continue;
		if ((error = check_entries(d, m)))
			return error;
		apply(d, m, &result);
	}
	if (at == tail)
		return 0;
	if ((error = store_tail(d, at)))
		return error;
	for (uint64_t s = tail; s < at; s++) {
		const struct media_marker *m = durability_marker(d, s);
		/* Release: the log is read for the last time before its owner may overwrite it. */
		if (m->kind == MEDIA_COMMIT)
			arch_store_release(&d->redo[m->thread].tail, m->log_start + m->log_bytes);
	}
	d->replays++;
	d->replayed_updates += result.updates;
	d->replayed_entries += result.entries;
	/* Release: the markers likewise, before their slots are drawn again. */
	arch_store_release(&d->tail, at);
	return 0;
}

const struct durability_ops replay_ops = {.replay = replay_live};
