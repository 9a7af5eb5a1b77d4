/* SPDX-License-Identifier: BSD-3-Clause
 *
 * async.c - the flush that makes late updates durable (async.h).
 */
#include "durability/async.h"
#include "base/event.h"
#include "base/probe.h"
#include "durability/nondurable.h"
#include "durability/ship.h"

#include <stdlib.h>

/* ------------------------------------------------------------------- flush */

uint8_t *async_slot(const struct durability *d, uint64_t durts)
{
	return d->async.slots + (durts & (d->super->ring_slots - 1)) * d->super->slot_bytes;
}

/* Is the slot in DRAM that of this late update, and complete?  Acquire pairs with the release in
 * commit_put_slot(): the flush writes the whole slot. */
static bool slot_complete(const struct durability *d, uint64_t durts)
{
	const struct media_marker *m = (const struct media_marker *)(void *)async_slot(d, durts);
	return arch_load_acquire(&m->durts) == durts;
}

/* Is the marker of this durTS in the file?  Acquire pairs with the release in ring_put_marker(). */
static bool marker_put(const struct durability *d, uint64_t durts)
{
	return arch_load_acquire(&durability_marker(d, durts)->durts) == durts;
}

/* SYNC: write the complete slots from `from` on to the file, neighbours by one system call; those
 * between them that are durable need nothing.  Returns the first durTS that is neither. */
static int write_slots(struct durability *d, uint64_t from, uint64_t most, uint64_t *end)
{
	const uint64_t slots = d->super->ring_slots;
	uint64_t at = from;
	int error = 0;
	while (at < most && !error) {
		uint64_t run = at;
		while (run < most && slot_complete(d, run) &&
		        (run == at || (run & (slots - 1)) != 0))
			run++;
		if (run > at) {
			error = pm_write(&d->pm,
			        (uint64_t)((const uint8_t *)durability_marker(d, at) -
			                   (const uint8_t *)d->words),
			        async_slot(d, at), (run - at) * d->super->slot_bytes);
			at = run;
		} else if (marker_put(d, at) && !nondurable_any_has(d, at)) {
			at++;
		} else {
			break;
		}
	}
	*end = at;
	return error;
}

/* Write back the marker of this durTS, and its record.  It may be replayed meanwhile, by another
 * process, and its slot may be written for a later lap: then it is durable, and the write-back of
 * other lines does no harm. */
static void write_back(struct durability *d, uint64_t durts)
{
	const struct media_file file = durability_file(d);
	struct media_marker m;
	if (log_read_plausible(&file, durts, &m) && m.kind != MEDIA_ABORT) {
		struct log_ranges r = log_ranges_of(d->super, m.log_start, log_record_end(&m));
		const uint8_t *log = log_of_thread(&file, m.thread);
		for (int k = 0; k < 2; k++)
			pm_flush(&d->pm, log + r.place[k], r.bytes[k]);
	}
	pm_flush(&d->pm, durability_marker(d, durts), sizeof m);
}

/* INV-GU9: a late update above a part that is not settled could be lost with it, if another heap's
 * part is (model: FLUSHPAST).  Acquire, as nondurable_has(): if the part has left, we see
 * `failed` if it was for that. */
static bool part_unsettled(const struct durability *d, uint64_t durts)
{
	const struct media_file file = durability_file(d);
	const struct media_marker m = log_read_marker(&file, durts);
	return unlikely(m.kind & MEDIA_PART) && nondurable_any_has(d, durts);
}

/* The other domains: start the write-backs.  A marker that is put is complete; whether its owner is
 * writing it back too does not matter. */
static void write_back_markers(struct durability *d, uint64_t from, uint64_t most, uint64_t *end)
{
	uint64_t at = from;
	for (; at < most && marker_put(d, at) && !part_unsettled(d, at); at++)
		write_back(d, at);
	*end = at;
}

/* Everything below the tail is replayed, and durable. */
static uint64_t first_not_durable(const struct durability *d)
{
	uint64_t durable = arch_load(&d->async.durable), tail = control_newest_tail(d);
	return durable > tail ? durable : tail;
}

/* Under `flushing`. */
static int flush(struct durability *d)
{
	uint64_t from = first_not_durable(d), end = from, next = ring_next_acquire(d),
	         most = next < from + d->super->ring_slots ? next : from + d->super->ring_slots;
	int error = durability_check(d);
	if (error)
		return error;
	if (pm_writes(&d->pm))
		error = write_slots(d, from, most, &end);
	else
		write_back_markers(d, from, most, &end);
	if (!error && end > from)
		error = pm_drain(&d->pm);
	ship_call(d);
	if (error)
		durability_fail(d, error);
	/* An update that could not become durable has left nondurable[] after it set `failed`
	 * (INV-D5), and nondurable_any_has() loads with acquire.  So if write_slots() has passed
	 * such an update, we find `failed` here, and `durable` does not cover it. */
	if (!error)
		error = durability_check(d);
	/* Release: a thread that sees `durable` comes after the drain. */
	if (!error)
		arch_store_release(&d->async.durable, end);
	return error;
}

/* End the flush, and wake the threads that wait for the next one. */
static void flush_over(struct durability *d)
{
	pthread_mutex_unlock(&d->async.flushing);
	event_wake_all(&d->async.flushed);
	FUR_POINT(flush__over);
	/* Ordered, after the unlock (the wake is a full fence): see other_process_replays(). */
	if (arch_load32_ordered(&d->async.awaited))
		control_call(d->control);
}

int async_try_flush(struct durability *d)
{
	if (pthread_mutex_trylock(&d->async.flushing))
		return 0;
	int error = flush(d);
	flush_over(d);
	return error;
}

/* Become the thread that flushes.  False: another one was, and its flush has ended. */
static bool take_flush(struct durability *d)
{
	if (!pthread_mutex_trylock(&d->async.flushing))
		return true;
	FUR_POINT(flush__refused);
	const uint32_t ticket = event_prepare(&d->async.flushed);
	if (!pthread_mutex_trylock(&d->async.flushing)) /* INV-EV1 */
		return true;
	event_wait(&d->async.flushed, ticket, 0);
	return false;
}

int async_wait(struct durability *d, uint64_t durts)
{
	struct arch_backoff backoff = durability_backoff(d);
	for (;;) {
		if (async_durable(d) >= durts)
			return 0;
		int error = durability_check(d);
		if (error)
			return error;
		if (!take_flush(d))
			continue;
		/* Another thread may have flushed for us. */
		if (async_durable(d) < durts)
			error = flush(d);
		flush_over(d);
		if (error)
			return error;
		/* An update below has not written its marker: let it have the processor. */
		if (async_durable(d) < durts)
			arch_backoff(&backoff);
	}
}

void async_free(struct durability *d)
{
	free(d->async.slots);
	d->async.slots = NULL;
}
