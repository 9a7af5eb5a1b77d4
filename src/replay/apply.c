/* SPDX-License-Identifier: BSD-3-Clause
 *
 * apply.c - write the entries of updates to the heap's image.
 *
 * With one writer: for each update, in order of durTS, preload the updates ahead, read the update's
 * entries, and hand each entry to the writer.  The writer prefetches the entry's heap lines, stores
 * the entry some entries later, and writes the lines back later still.  With several threads: each
 * thread first sorts the entries of a share of the updates into baskets, one for each writer.  Then
 * each writer empties its baskets.
 */
#include "replay/apply.h"
#include "base/error.h"
#include "base/thread.h"
#include "durability/ring.h"
#include "replay/preload.h"
#include "replay/unload.h"

#include <stdlib.h>
#include <string.h>

enum {
	/* A part of the heap that has one writer.  A multiple of every machine's line, so that
	 * writers never share a line */
	GRANULE_BYTES = 4096,
	/* Preload at most this many heap lines of an entry; the processor's own prefetcher
	 * follows */
	PRELOAD_PIECE_LINES = 4,
	/* Pieces that may wait to be written: of two batches; a power of two */
	AHEAD = 2 * REPLAY_PRELOAD_MOST,
};

/* ----------------------------------------------------------------- entries */

/* The error of a finished walk over the record of `durts`, or 0. */
static int walk_error(const struct log_walk *w, uint64_t durts)
{
	if (!w->broken)
		return 0;
	if (w->parts == LOG_PARTS_BROKEN)
		return fur_fail(FUR_ECORRUPT,
		        "the redo log of update %llu, a part of one over several heaps, names "
		        "parts that make no sense: restore the file from a copy",
		        (unsigned long long)durts);
	return fur_fail(FUR_ECORRUPT,
	        "the redo log of update %llu stores %llu bytes at heap offset %llu, outside the "
	        "heap: restore the file from a copy",
	        (unsigned long long)durts, (unsigned long long)w->entry.bytes,
	        (unsigned long long)w->entry.offset);
}

/* INV-FM5 */
static int fail_older_tail(const struct durability *d, uint64_t durts, uint64_t tail)
{
	return fur_fail(FUR_ECORRUPT,
	        "all updates below %llu were replayed when update %llu committed, and the file "
	        "says "
	        "that only those below %llu are: the file was copied while a program used it: copy "
	        "it again, with fur-copy",
	        (unsigned long long)tail, (unsigned long long)durts,
	        (unsigned long long)ring_tail(d));
}

/* The update stores above the heap's size now: the size is wrong, not the update. */
static int fail_above_size(
        const struct durability *d, uint64_t durts, const struct log_entry *e, uint64_t size)
{
	const unsigned long long end = e->offset + e->bytes;
	return fur_fail(FUR_ECORRUPT,
	        "update %llu stores up to byte %llu of the heap, and the file says that the heap "
	        "has %llu of at most %llu: mend that with fur-check --repair",
	        (unsigned long long)durts, end, (unsigned long long)size,
	        (unsigned long long)d->super->heap_bytes);
}

/* INV-BU6 */
static int fail_bulk(uint64_t durts)
{
	return fur_fail(FUR_ECORRUPT,
	        "the results of bulk update %llu, which lie in the heap, are damaged: restore the "
	        "file from a copy",
	        (unsigned long long)durts);
}

/* Check the rows and results of a bulk entry (INV-BU6; plant: bulk-not-checked), and that it stores
 * below `size`. */
static int check_bulk(
        const struct durability *d, uint64_t durts, const struct log_entry *e, uint64_t size)
{
	const struct media_file file = durability_file(d);
	if (log_bulk_check(d->image, d->super->heap_bytes, e) != e->bulk.check)
		return fail_bulk(durts);
	struct log_bulk bulk = log_bulk_of(&file, e);
	while (log_bulk_next(&bulk))
		if (bulk.piece.offset + bulk.piece.bytes > size)
			return fail_above_size(d, durts, &bulk.piece, size);
	return bulk.broken ? fail_bulk(durts) : 0;
}

int apply_check(const struct durability *d, uint64_t durts)
{
	int error = 0;
	const struct media_file file = durability_file(d);
	struct log_walk walk = log_walk_update(&file, durts);
	/* The caller has read the marker, so this size is as new as the update's, at least
	 * (INV-F5). */
	const uint64_t size = media_heap_bytes(d->super, d->words);
	while (log_walk_next(&walk)) {
		if (walk.entry.offset + walk.entry.bytes > size)
			return fail_above_size(d, durts, &walk.entry, size);
		if (walk.entry.range && media_range_tail(walk.entry.range, durts) > ring_tail(d))
			return fail_older_tail(d, durts, media_range_tail(walk.entry.range, durts));
		if (unlikely(walk.entry.bulk.rows != 0) &&
		        (error = check_bulk(d, durts, &walk.entry, size)))
			return error;
	}
	return walk_error(&walk, durts);
}

/* ------------------------------------------------------------------ writer */

/* Bytes to be stored to the image: an entry, or a part of one. */
struct piece {
	uint8_t *to;
	const uint8_t *from;
	uint64_t bytes;
};

struct writer {
	struct durability *d;
	uint8_t *image;
	struct replay_result result;
	struct preload preload;
	/* Pieces taken, preloaded, and written so far */
	uint64_t taken, preloaded, written;
	struct piece ahead[AHEAD]; /* the last pieces taken */
	uintptr_t asked_for;       /* the line preloaded last */
	struct unload unload;
};

static void write_piece(struct writer *w, const struct piece *p)
{
	if (p->bytes == 8) /* a constant size is one store, not a call */
		memcpy(p->to, p->from, 8);
	else
		memcpy(p->to, p->from, p->bytes);
	unload_note(&w->unload, (uint64_t)(p->to - w->image), p->bytes);
}

/* Neighbouring entries often share a line: ask for it once. */
static void preload_piece(struct writer *w, const struct piece *p)
{
	uintptr_t line_bytes = ARCH_FLUSH_LINE, at = (uintptr_t)p->to & ~(line_bytes - 1),
	          end = (uintptr_t)p->to + p->bytes;
	if (at == w->asked_for)
		at += line_bytes;
	for (unsigned k = 0; k < PRELOAD_PIECE_LINES && at < end; k++, at += line_bytes) {
		arch_prefetch_to_write((void *)at);
		w->asked_for = at;
	}
}

/* Write the pieces taken longest ago, in order, until `most` wait (INV-R4). */
static void write_until(struct writer *w, uint64_t most)
{
	while (w->taken - w->written > most)
		write_piece(w, &w->ahead[w->written++ % AHEAD]);
}

/* Preload the pieces that were taken since the last call, and write those before them. */
static void take_batch(struct writer *w)
{
	if (w->preload.distance == 0)
		w->preloaded = w->taken;
	while (w->preloaded < w->taken)
		preload_piece(w, &w->ahead[w->preloaded++ % AHEAD]);
	write_until(w, w->preload.distance);
}

/* Sequential: preload the piece's lines, and write the piece that was taken `distance` pieces ago.
 * Batch-wise: when there are `distance` new pieces, preload all their lines, and write the batch
 * before.  The caller passes the piece as three words, because a struct built on the stack costs a
 * failed store forwarding for each entry. */
static inline void take_piece(
        struct writer *w, uint64_t offset, const uint8_t *from, uint64_t bytes)
{
	struct piece *p = &w->ahead[w->taken++ % AHEAD];
	p->to = w->image + offset;
	p->from = from;
	p->bytes = bytes;
	w->result.bytes += bytes;
	if (!w->preload.batch || w->taken - w->preloaded >= w->preload.distance)
		take_batch(w);
}

static void writer_finish(struct writer *w)
{
	write_until(w, 0);
	preload_end(&w->preload, w->taken);
	unload_rest(&w->unload);
}

static bool update_wanted(
        const struct durability *d, const struct apply_range *range, uint64_t durts)
{
	return range->verdicts ? range->verdicts[durts - range->from] == INSPECT_KEPT
	                       : log_marker_commits(durability_marker(d, durts));
}

static void take_entry(struct writer *w, const struct log_entry *e)
{
	w->result.entries++;
	take_piece(w, e->offset, e->payload, e->bytes);
}

/* The results lie in the file's heap also when `image` is a copy of that. */
static int take_bulk(
        struct writer *w, const struct media_file *file, const struct log_entry *e, uint64_t durts)
{
	struct log_bulk bulk = log_bulk_of(file, e);
	while (log_bulk_next(&bulk))
		take_entry(w, &bulk.piece);
	return bulk.broken ? fail_bulk(durts) : 0;
}

static int take_update(struct writer *w, uint64_t durts)
{
	const struct media_file file = durability_file(w->d);
	struct log_walk walk = log_walk_update(&file, durts);
	int error = 0;
	while (!error && log_walk_next(&walk)) {
		if (walk.entry.payload)
			take_entry(w, &walk.entry);
		else if (walk.entry.bulk.rows)
			error = take_bulk(w, &file, &walk.entry, durts);
		else
			w->result.entries++;
	}
	w->result.updates++;
	return error ? error : walk_error(&walk, durts);
}

static int write_range(struct writer *w, const struct apply_range *range)
{
	int error = 0;
	preload_from_durts(&w->preload, range->from);
	for (uint64_t at = range->from; at < range->to && !error; at++) {
		preload_updates(&w->preload, at, range->to);
		if (update_wanted(w->d, range, at))
			error = take_update(w, at);
		preload_step(&w->preload, w->taken);
	}
	return error;
}

/* ----------------------------------------------------------------- threads */

struct worker {
	void (*part)(void *arg, unsigned n);
	void *arg;
	unsigned n;
	pthread_t thread;
	bool runs;
};

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	w->part(w->arg, w->n);
	return NULL;
}

void apply_on_threads(unsigned parts, void (*part)(void *arg, unsigned n), void *arg)
{
	struct worker worker[REPLAY_THREADS_MOST];
	FUR_ASSERT(parts >= 1 && parts <= REPLAY_THREADS_MOST);
	for (unsigned n = 1; n < parts; n++) {
		worker[n] = (struct worker){.part = part, .arg = arg, .n = n};
		worker[n].runs = thread_start(&worker[n].thread, worker_main, &worker[n]) == 0;
	}
	part(arg, 0);
	for (unsigned n = 1; n < parts; n++) {
		if (!worker[n].runs)
			part(arg, n);
		else
			pthread_join(worker[n].thread, NULL);
	}
}

unsigned apply_threads(const struct durability *d, uint64_t log_bytes)
{
	uint64_t n = log_bytes / d->replay_options.least_bytes;
	if (n > d->replay_options.threads)
		n = d->replay_options.threads;
	return n < 1 ? 1 : n > REPLAY_THREADS_MOST ? REPLAY_THREADS_MOST : (unsigned)n;
}

unsigned apply_threads_for_heaps(uint64_t n, uint64_t bytes)
{
	const uint64_t worth = bytes / REPLAY_DEFAULTS.least_bytes;
	n = n < arch_cores() ? n : arch_cores();
	n = n < worth ? n : worth;
	return n < 1 ? 1 : n > REPLAY_THREADS_MOST ? REPLAY_THREADS_MOST : (unsigned)n;
}

/* ----------------------------------------------------- several writers
 *
 * First each thread reads a share of the updates and sorts their entries into baskets, one for each
 * writer.  Then each writer empties the baskets that were filled for it, in the order of the
 * shares. */

struct item {
	uint64_t word; /* heap offset and bytes, as in a log entry */
	union {
		/* Of an 8-byte store: so the writer need not fetch a log line that another thread
		 * has in its cache */
		uint8_t bytes[8];
		const uint8_t *from; /* of any other: in the log */
	};
};

/* Padded, because different threads fill them at the same time. */
struct apply_basket {
	struct item *item;
	uint64_t n, room;
} ARCH_PADDED;

struct application {
	struct durability *d;
	const struct apply_range *range;
	struct apply_basket *baskets; /* [thread that fills it * threads + its writer] */
	struct {
		struct replay_result result;
		int error;
	} done[REPLAY_THREADS_MOST];
};

static int basket_add(struct apply_basket *b, uint64_t offset, uint64_t bytes, const uint8_t *from)
{
	enum { FIRST = 4096 };
	if (b->n == b->room) {
		uint64_t room = b->room ? 2 * b->room : FIRST;
		struct item *more = realloc(b->item, room * sizeof *more);
		if (!more)
			return FUR_ENOMEM;
		b->item = more;
		b->room = room;
	}
	struct item *item = &b->item[b->n++];
	item->word = media_entry_word(offset, bytes);
	if (bytes == 8)
		memcpy(item->bytes, from, 8);
	else
		item->from = from;
	return 0;
}

/* The granule's writer in this range.  The product evenly spreads granules that are neighbours or
 * lie at regular distances.  In the next range a granule gets another writer, so that a granule
 * with many stores does not always burden the same one. */
static unsigned writer_of(const struct apply_range *range, uint64_t offset)
{
	uint32_t mixed = (uint32_t)(offset / GRANULE_BYTES + range->from) * UINT32_C(0x9e3779b1);
	return (unsigned)((uint64_t)mixed * range->threads >> 32);
}

static int sort_entry(const struct application *a, struct apply_basket *baskets,
        const struct log_entry *e, struct replay_result *result)
{
	/* An entry is shorter than a granule, so it lies in two at most. */
	_Static_assert(MEDIA_ENTRY_MAX <= GRANULE_BYTES, "");
	uint64_t to_edge = GRANULE_BYTES - e->offset % GRANULE_BYTES,
	         first = e->bytes < to_edge ? e->bytes : to_edge;
	int error =
	        basket_add(&baskets[writer_of(a->range, e->offset)], e->offset, first, e->payload);
	result->entries++;
	if (first < e->bytes && !error)
		error = basket_add(&baskets[writer_of(a->range, e->offset + first)],
		        e->offset + first, e->bytes - first, e->payload + first);
	return error;
}

static int sort_bulk(const struct application *a, struct apply_basket *baskets,
        const struct log_entry *e, uint64_t durts, struct replay_result *result)
{
	const struct media_file file = durability_file(a->d);
	struct log_bulk bulk = log_bulk_of(&file, e);
	int error = 0;
	while (!error && log_bulk_next(&bulk))
		error = sort_entry(a, baskets, &bulk.piece, result);
	return error ? error : bulk.broken ? fail_bulk(durts) : 0;
}

static int sort_update(const struct application *a, struct apply_basket *baskets, uint64_t durts,
        struct replay_result *result)
{
	const struct media_file file = durability_file(a->d);
	struct log_walk walk = log_walk_update(&file, durts);
	int error = 0;
	while (!error && log_walk_next(&walk)) {
		const struct log_entry *e = &walk.entry;
		if (e->payload)
			error = sort_entry(a, baskets, e, result);
		else if (e->bulk.rows)
			error = sort_bulk(a, baskets, e, durts, result);
		else
			result->entries++;
	}
	result->updates++;
	return error ? error : walk_error(&walk, durts);
}

static void sort_share(void *arg, unsigned n)
{
	struct application *a = arg;
	unsigned threads = a->range->threads;
	struct replay_result result = {0};
	int error = 0;
	uint64_t all = a->range->to - a->range->from;
	uint64_t at = a->range->from + apply_share(all, n, threads),
	         to = a->range->from + apply_share(all, n + 1, threads);
	struct preload preload;
	preload_begin(&preload, a->d, PRELOAD_READS, at, false);
	for (; at < to && !error; at++) {
		preload_updates(&preload, at, to);
		if (update_wanted(a->d, a->range, at))
			error = sort_update(a, &a->baskets[(size_t)n * threads], at, &result);
	}
	a->done[n].result = result;
	a->done[n].error = error;
}

static void basket_empty(struct writer *w, struct apply_basket *b)
{
	for (uint64_t k = 0; k < b->n; k++) {
		const struct item *i = &b->item[k];
		uint64_t bytes = media_entry_payload(i->word);
		take_piece(w, media_entry_offset(i->word), bytes == 8 ? i->bytes : i->from, bytes);
		preload_step(&w->preload, w->taken);
	}
}

/* `measures`: as preload_begin(). */
static void writer_start(
        struct writer *w, struct durability *d, const struct apply_range *range, bool measures)
{
	w->d = d;
	w->image = range->image;
	w->result = (struct replay_result){0};
	w->taken = w->preloaded = w->written = 0;
	w->asked_for = 0;
	preload_begin(&w->preload, d, PRELOAD_WRITES, 0, measures);
	unload_begin(&w->unload, &d->pm, range->image, d->replay_options.unload_lines);
}

static void write_share(void *arg, unsigned n)
{
	struct application *a = arg;
	unsigned threads = a->range->threads;
	struct writer w;
	writer_start(&w, a->d, a->range, n == 0);
	/* INV-R4: the thread that filled the first basket had the first updates. */
	for (unsigned k = 0; k < threads; k++)
		basket_empty(&w, &a->baskets[k * threads + n]);
	writer_finish(&w);
	a->done[n].result.bytes = w.result.bytes;
	/* INV-R5.  Each helper must drain, because a fence orders only the write-backs of its own
	 * thread: without this drain the tail could become durable before the lines that the helper
	 * wrote.  If one call syncs the whole file, the caller's drain is enough. */
	if (n > 0 && pm_drains_own(&a->d->pm))
		a->done[n].error = pm_drain(&a->d->pm);
}

static void result_add(struct replay_result *result, const struct replay_result *more)
{
	result->updates += more->updates;
	result->entries += more->entries;
	result->bytes += more->bytes;
}

static int first_error(const struct application *a)
{
	for (unsigned n = 0; n < a->range->threads; n++)
		if (a->done[n].error)
			return a->done[n].error;
	return 0;
}

static int apply_by_several(struct application *a, struct replay_result *result)
{
	unsigned threads = a->range->threads;
	apply_on_threads(threads, sort_share, a);
	int error = first_error(a);
	if (!error) {
		apply_on_threads(threads, write_share, a);
		error = first_error(a);
		for (unsigned n = 0; n < threads; n++)
			result_add(result, &a->done[n].result);
	}
	return error;
}

int apply_updates(
        struct durability *d, const struct apply_range *range, struct replay_result *result)
{
	FUR_ASSERT(range->from <= range->to && range->to - range->from <= d->super->ring_slots);
	FUR_ASSERT(range->threads <= REPLAY_THREADS_MOST);
	if (range->threads > 1 && range->baskets) {
		struct application a = {.d = d, .range = range, .baskets = range->baskets};
		for (unsigned k = 0; k < range->threads * range->threads; k++)
			a.baskets[k].n = 0;
		int error = apply_by_several(&a, result);
		if (error != FUR_ENOMEM)
			return error;
		/* Nothing is written yet, and a single writer needs no memory. */
	}
	struct writer w;
	writer_start(&w, d, range, true);
	int error = write_range(&w, range);
	writer_finish(&w);
	result_add(result, &w.result);
	return error;
}

static void entry_to_copy(const struct durability *d, const struct log_entry *e)
{
	if (unlikely(e->bulk.rows != 0)) {
		struct log_bulk bulk = log_bulk_at(d->image, d->super->heap_bytes, e);
		while (log_bulk_next(&bulk))
			entry_to_copy(d, &bulk.piece);
		return;
	}
	if (e->offset >= d->copied)
		return;
	/* INV-FM4.  The copy may have been past the range before the update wrote it to the file.
	 * Every update up to `to` is in the image by now, and is about to be in the copy. */
	if (!e->payload)
		memcpy(d->copy + e->offset, d->image + e->offset,
		        e->bytes < d->copied - e->offset ? e->bytes : d->copied - e->offset);
	else
		memcpy(d->copy + e->offset, e->payload, e->bytes);
}

int apply_to_copy(const struct durability *d, uint64_t from, uint64_t to)
{
	const struct media_file file = durability_file(d);
	int error = 0;
	for (uint64_t at = from; at < to && !error; at++) {
		if (!log_marker_commits(durability_marker(d, at)))
			continue;
		struct log_walk walk = log_walk_update(&file, at);
		while (log_walk_next(&walk))
			entry_to_copy(d, &walk.entry);
		error = walk_error(&walk, at);
	}
	return error;
}

struct apply_basket *apply_baskets(unsigned threads)
{
	size_t bytes = (size_t)threads * threads * sizeof(struct apply_basket);
	struct apply_basket *baskets = threads > 1 ? aligned_alloc(ARCH_PAD, bytes) : NULL;
	if (baskets)
		memset(baskets, 0, bytes);
	return baskets;
}

void apply_free_baskets(struct apply_basket *baskets, unsigned threads)
{
	for (unsigned k = 0; baskets && k < threads * threads; k++)
		free(baskets[k].item);
	free(baskets);
}
