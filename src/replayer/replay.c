/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replay.c - replay.h, done: recovery after a failure, and replay beside running transactions.
 */
#include "../fur_error.h"
#include "apply.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Do the marker's fields make sense?  Checked before the checksum, which reads where they point. */
static bool plausible(const struct durability *d, const struct media_marker *m)
{
	return m->thread < d->super->max_threads && m->log_bytes <= d->super->log_bytes && m->log_start % MEDIA_ENTRY_ALIGN == 0 &&
	       m->log_bytes % MEDIA_ENTRY_ALIGN == 0 && (m->kind == MEDIA_COMMIT || m->kind == MEDIA_ABORT);
}

/* INV-M1 */
static bool valid(const struct durability *d, const struct media_marker *m, uint64_t durts)
{
	return m->durts == durts && plausible(d, m) && m->checksum == media_marker_checksum(d->super, m, apply_log(d, m));
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

/* What recovery looks at: slots [tail, end), and what it has found.  Above `end` no slot of this lap has been written. */
struct window {
	struct durability *d;
	uint64_t tail, end;
	uint64_t log_bytes; /* at most, of all updates in it */
	uint8_t *verdicts;
	uint64_t from, to; /* the part at hand */
	unsigned threads;
	struct {
		uint64_t end, log_bytes;
	} measured[REPLAY_THREADS_MOST];
	uint64_t holes; /* since the last slot that is none */
	struct replay_result *result;
};

/* A verdict on the way: valid, but with entries that make no sense. */
enum { FORGED = APPLY_KEPT + 1 };

/* Which slots of a share of the ring have been written?  And how much log do they name, as far as the markers alone can tell? */
static void measure_share(void *arg, unsigned n)
{
	struct window *w = arg;
	const struct durability *d = w->d;
	uint64_t slots = d->super->ring_slots, distance = 2 * d->replay_options.preload, end = w->tail, log_bytes = 0;
	for (uint64_t s = w->tail + apply_share(slots, n, w->threads), to = w->tail + apply_share(slots, n + 1, w->threads); s < to;
	        s++) {
		const struct media_marker *m = durability_marker(d, s);
		if (distance && s + distance < to)
			arch_prefetch(durability_marker(d, s + distance));
		if (m->durts != s || !plausible(d, m))
			continue;
		log_bytes += m->log_bytes;
		end = s + 1;
	}
	w->measured[n].end = end;
	w->measured[n].log_bytes = log_bytes;
}

static void measure_window(struct window *w)
{
	w->threads = apply_threads(w->d, w->d->super->ring_slots * MEDIA_SLOT_BYTES);
	apply_on_threads(w->threads, measure_share, w);
	for (unsigned n = 0; n < w->threads; n++) {
		w->log_bytes += w->measured[n].log_bytes;
		if (w->measured[n].end > w->end)
			w->end = w->measured[n].end;
	}
	w->threads = apply_threads(w->d, w->log_bytes);
}

static void populate_share(void *arg, unsigned n)
{
	const struct window *w = arg;
	uint64_t pages = w->d->super->heap_bytes / MEDIA_PAGE_BYTES, from = apply_share(pages, n, w->threads),
	         to = apply_share(pages, n + 1, w->threads);
	madvise(w->d->image + from * MEDIA_PAGE_BYTES, (to - from) * MEDIA_PAGE_BYTES, MADV_POPULATE_WRITE);
}

/* Where most pages of the heap will be written, map them all at once: a page fault each costs more than the replay itself. */
static void populate_image(struct window *w)
{
	enum { PAGE = 4096, LEAST_ENTRY = MEDIA_ENTRY_ALIGN };
	if (w->log_bytes / LEAST_ENTRY >= w->d->super->heap_bytes / PAGE / 2)
		apply_on_threads(w->threads, populate_share, w);
}

/* Look at each marker of a share of the part at hand by itself. */
static void look_at_share(void *arg, unsigned n)
{
	struct window *w = arg;
	const struct durability *d = w->d;
	uint64_t slots = w->to - w->from, from = w->from + apply_share(slots, n, w->threads),
	         to = w->from + apply_share(slots, n + 1, w->threads);
	for (uint64_t s = from; s < to; s++) {
		const struct media_marker *m = durability_marker(d, s);
		uint8_t *verdict = &w->verdicts[s - w->tail];
		apply_preload(d, s, to);
		if (!valid(d, m, s))
			*verdict = APPLY_HOLE;
		else if (m->kind == MEDIA_ABORT)
			*verdict = APPLY_ABORTED;
		else
			*verdict = apply_check(d, m) ? FORGED : APPLY_KEPT;
	}
}

/* INV-R2; slots below the tail were replayed before. */
static bool dependencies_kept(const struct window *w, const struct media_marker *m)
{
	for (unsigned word = 0; word < MEDIA_DEPS / 64; word++)
		for (uint64_t bits = m->deps[word]; bits; bits &= bits - 1) {
			uint64_t back = word * 64 + (unsigned)__builtin_ctzll(bits) + 1;
			if (m->durts - back >= w->tail && back <= m->durts && w->verdicts[m->durts - back - w->tail] == APPLY_HOLE)
				return false;
		}
	return true;
}

/* Decide about every slot of the part at hand, upwards: what depends on a hole becomes one. */
static int judge_part(struct window *w)
{
	for (uint64_t s = w->from; s < w->to; s++) {
		const struct media_marker *m = durability_marker(w->d, s);
		uint8_t *verdict = &w->verdicts[s - w->tail];
		if (*verdict == APPLY_HOLE) {
			w->holes++;
			continue;
		}
		w->result->holes += w->holes;
		w->holes = 0;
		if (*verdict == APPLY_ABORTED)
			continue;
		if (!dependencies_kept(w, m)) {
			*verdict = APPLY_HOLE;
			w->result->dropped++;
		} else if (*verdict == FORGED) {
			return apply_check(w->d, m);
		}
	}
	return 0;
}

/* Slots that are judged, and then applied, while their logs are in the cache.  Threads that meet after each part take larger ones. */
enum { PART_SLOTS = 1024, PART_SLOTS_OF_THREADS = 8192 };

static int replay_window(struct window *w)
{
	measure_window(w);
	populate_image(w);
	uint64_t slots = w->threads > 1 ? PART_SLOTS_OF_THREADS : PART_SLOTS;
	struct apply_basket *baskets = apply_baskets(w->threads);
	int error = 0;
	for (w->from = w->tail; w->from < w->end && !error; w->from = w->to) {
		w->to = w->from + slots < w->end ? w->from + slots : w->end;
		apply_on_threads(w->threads, look_at_share, w);
		struct apply_range range = {w->from, w->to, &w->verdicts[w->from - w->tail], w->threads, baskets};
		error = judge_part(w);
		if (!error)
			error = apply_updates(w->d, &range, w->result);
	}
	apply_free_baskets(baskets, w->threads);
	return error;
}

int replay_recover(struct durability *d, struct replay_result *result)
{
	uint64_t started = arch_now_ns(), tail = d->tail, slots = d->super->ring_slots;
	memset(result, 0, sizeof *result);
	struct window w = {.d = d, .tail = tail, .end = tail, .verdicts = malloc(slots), .result = result};
	if (!w.verdicts)
		return fur_fail(FUR_ENOMEM, "no memory to recover a ring of %llu slots", (unsigned long long)slots);
	int error = replay_window(&w);
	free(w.verdicts);
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
	uint64_t tail = d->tail, end = arch_load(&d->next_durts), at = tail, log_bytes = 0;
	struct replay_result result = {0};
	int error;
	if (end > tail + d->super->ring_slots)
		end = tail + d->super->ring_slots;
	for (; at < end; at++) {
		const struct media_marker *m = durability_marker(d, at);
		apply_preload(d, at, end);
		if (!settled(d, m, at))
			break; /* INV-R3 */
		if (!valid(d, m, at))
			return fur_fail(FUR_ECORRUPT,
			        "the marker or log of update %llu has changed since it was written: memory or the file is "
			        "being overwritten",
			        (unsigned long long)at);
		if (m->kind == MEDIA_COMMIT && (error = apply_check(d, m)))
			return error;
		log_bytes += m->log_bytes;
	}
	if (at == tail)
		return 0;
	unsigned threads = apply_threads(d, log_bytes);
	struct apply_basket *baskets = apply_baskets(threads);
	error = apply_updates(d, &(struct apply_range){tail, at, NULL, threads, baskets}, &result);
	apply_free_baskets(baskets, threads);
	if (!error)
		error = store_tail(d, at);
	if (error)
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
