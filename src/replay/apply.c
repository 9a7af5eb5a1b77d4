/* SPDX-License-Identifier: BSD-3-Clause
 *
 * apply.c - apply.h, done.
 */
#include "replay/apply.h"
#include "base/error.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* Of the heap, with one writer.  Lines are never shared: it is a multiple of every
	 * machine's */
	GRANULE_BYTES = 4096,
	/* Bytes of a log that are asked for before its marker is looked at; the rest follows by
	 * itself */
	MARKER_LOG_MOST = 512,
	PIECE_LINES_MOST = 4, /* the same, of the heap lines of an entry */
	DIRTY_LINES = 1024,   /* that wait for their write-back; a power of two */
};

/* ----------------------------------------------------------------- preload */

static void preload_log(const struct durability *d, uint64_t durts)
{
	const struct media_marker m = *durability_marker(d, durts);
	/* It may be anything: only its thread decides whether the address is in the file. */
	if (m.thread >= d->super->max_threads)
		return;
	const uint8_t *log = d->logs + m.thread * d->super->log_bytes;
	uint64_t bytes = m.log_bytes < MARKER_LOG_MOST ? m.log_bytes : MARKER_LOG_MOST;
	for (uint64_t k = 0; k < bytes; k += ARCH_FLUSH_LINE)
		arch_prefetch(log + ((m.log_start + k) & (d->super->log_bytes - 1)));
}

void apply_preload(const struct durability *d, uint64_t at, uint64_t end)
{
	uint64_t distance = d->replay_options.preload;
	if (distance == 0)
		return;
	/* The marker twice as far ahead: it must be there when it is asked where its log is. */
	if (at + 2 * distance < end)
		arch_prefetch(durability_marker(d, at + 2 * distance));
	if (at + distance < end)
		preload_log(d, at + distance);
}

/* ----------------------------------------------------------------- entries */

/* A walk over the entries of one record.  The marker is a copy; an entry is checked as it is read,
 * for another process may be overwriting the log (INV-R8). */
struct walk {
	struct media_file file;
	struct media_marker m;
	struct inspect_entry entry;
	uint64_t at, end;
	bool broken; /* an entry makes no sense */
};

static struct walk walk_begin(const struct durability *d, uint64_t durts)
{
	struct walk w = {.file = durability_file(d), .m = *durability_marker(d, durts)};
	w.broken = w.m.durts != durts || !inspect_plausible(d->super, &w.m);
	w.at = inspect_first_entry(d->super, &w.m);
	w.end = inspect_end(&w.m);
	return w;
}

static bool walk_next(struct walk *w)
{
	if (w->broken || w->at >= w->end)
		return false;
	w->broken = !inspect_entry_at(&w->file, w->m.thread, w->at, w->end, &w->entry);
	w->at = w->entry.next;
	return !w->broken;
}

static int walk_end(const struct walk *w, uint64_t durts)
{
	if (!w->broken)
		return 0;
	return fur_fail(FUR_ECORRUPT,
	        "the redo log of update %llu stores %llu bytes at heap offset %llu, outside the "
	        "heap: restore the file from a copy",
	        (unsigned long long)durts, (unsigned long long)w->entry.bytes,
	        (unsigned long long)w->entry.offset);
}

int apply_check(const struct durability *d, uint64_t durts)
{
	struct walk w = walk_begin(d, durts);
	while (walk_next(&w))
		;
	return walk_end(&w, durts);
}

/* ------------------------------------------------------------------ writer */

/* Part of an entry, or all of it. */
struct piece {
	uint8_t *to;
	const uint8_t *from;
	uint64_t bytes;
};

struct writer {
	struct durability *d;
	struct replay_result result;
	/* pieces; those up to `distance` back are asked for and not written yet */
	uint64_t taken, distance;
	struct piece ahead[REPLAY_PRELOAD_MOST]; /* the last ones taken */
	/* Lines stored to and not written back yet, each at its place; or 0 */
	uintptr_t dirty[DIRTY_LINES];
};

/* Write the piece's lines back, later.  A line stays in its place until another wants it, and is
 * written back then: with all that was stored to it meanwhile, once. */
static void unload(struct writer *w, const struct piece *p)
{
	uintptr_t line_bytes = ARCH_FLUSH_LINE, end = (uintptr_t)p->to + p->bytes;
	for (uintptr_t line = (uintptr_t)p->to & ~(line_bytes - 1); line < end;
	        line += line_bytes) {
		uintptr_t *place = &w->dirty[line / line_bytes % DIRTY_LINES];
		if (*place == line)
			continue;
		if (*place)
			pm_flush(&w->d->pm, (void *)*place, line_bytes);
		*place = line;
	}
}

static void unload_rest(struct writer *w)
{
	for (unsigned k = 0; k < DIRTY_LINES; k++)
		if (w->dirty[k])
			pm_flush(&w->d->pm, (void *)w->dirty[k], ARCH_FLUSH_LINE);
}

static void write_piece(struct writer *w, const struct piece *p)
{
	if (p->bytes == 8) /* a constant size is one store, not a call */
		memcpy(p->to, p->from, 8);
	else
		memcpy(p->to, p->from, p->bytes);
	unload(w, p);
}

static void preload_piece(const struct piece *p)
{
	uintptr_t line_bytes = ARCH_FLUSH_LINE, at = (uintptr_t)p->to & ~(line_bytes - 1),
	          end = (uintptr_t)p->to + p->bytes;
	for (unsigned k = 0; k < PIECE_LINES_MOST && at < end; k++, at += line_bytes)
		arch_prefetch_to_write((void *)at);
}

/* Ask for the piece's lines, and write the piece that was taken `distance` ago. */
static void take(struct writer *w, struct piece p)
{
	w->result.bytes += p.bytes;
	if (w->distance == 0) {
		write_piece(w, &p);
		return;
	}
	preload_piece(&p);
	if (w->taken >= w->distance)
		write_piece(w, &w->ahead[(w->taken - w->distance) % REPLAY_PRELOAD_MOST]);
	w->ahead[w->taken++ % REPLAY_PRELOAD_MOST] = p;
}

static void take_rest(struct writer *w)
{
	for (uint64_t k = w->taken > w->distance ? w->taken - w->distance : 0; k < w->taken; k++)
		write_piece(w, &w->ahead[k % REPLAY_PRELOAD_MOST]);
}

static void finish_writer(struct writer *w)
{
	take_rest(w);
	unload_rest(w);
}

static bool to_be_applied(
        const struct durability *d, const struct apply_range *range, uint64_t durts)
{
	return range->verdicts ? range->verdicts[durts - range->from] == INSPECT_KEPT
	                       : durability_marker(d, durts)->kind == MEDIA_COMMIT;
}

static int take_update(struct writer *w, uint64_t durts)
{
	struct walk walk = walk_begin(w->d, durts);
	while (walk_next(&walk)) {
		take(w, (struct piece){w->d->image + walk.entry.offset, walk.entry.payload,
		                walk.entry.bytes});
		w->result.entries++;
	}
	w->result.updates++;
	return walk_end(&walk, durts);
}

static int write_range(struct writer *w, const struct apply_range *range)
{
	int error = 0;
	for (uint64_t at = range->from; at < range->to && !error; at++) {
		apply_preload(w->d, at, range->to);
		if (to_be_applied(w->d, range, at))
			error = take_update(w, at);
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

static void *work(void *arg)
{
	struct worker *w = arg;
	w->part(w->arg, w->n);
	return NULL;
}

void apply_on_threads(unsigned parts, void (*part)(void *arg, unsigned n), void *arg)
{
	struct worker worker[REPLAY_THREADS_MOST];
	sigset_t all, old;
	/* The program's signals are for its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (unsigned n = 1; n < parts; n++) {
		worker[n] = (struct worker){.part = part, .arg = arg, .n = n};
		worker[n].runs = pthread_create(&worker[n].thread, NULL, work, &worker[n]) == 0;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
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

/* ----------------------------------------------------- several writers
 *
 * First each thread goes through a share of the slots and puts what it finds into baskets, one for
 * each writer; then each writer empties those that are for it, in the order of the slots. */

struct item {
	uint64_t word; /* as in a log: where to, how much */
	union {
		/* Where it is 8: who empties the basket need not fetch the log from who filled
		 * it */
		uint8_t bytes[8];
		const uint8_t *from; /* else: in the log */
	};
};

/* Padded: each is counted up by a thread of its own at the same time. */
struct apply_basket {
	struct item *item;
	uint64_t n, room;
} ARCH_PADDED;

struct application {
	struct durability *d;
	const struct apply_range *range;
	struct apply_basket *baskets; /* [who filled it * threads + who empties it] */
	struct {
		struct replay_result result;
		int error;
	} done[REPLAY_THREADS_MOST];
};

static int put_item(struct apply_basket *b, uint64_t offset, uint64_t bytes, const uint8_t *from)
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

/* The granule's writer, in this range.  Spread by a product: granules in use side by side, or in
 * steps, are shared evenly; and another one in the next range, so that one that is stored to much
 * does not always go to the same. */
static unsigned writer_of(const struct apply_range *range, uint64_t offset)
{
	uint32_t mixed = (uint32_t)(offset / GRANULE_BYTES + range->from) * UINT32_C(0x9e3779b1);
	return (unsigned)((uint64_t)mixed * range->threads >> 32);
}

static int sort_update(const struct application *a, struct apply_basket *baskets, uint64_t durts,
        struct replay_result *result)
{
	struct walk walk = walk_begin(a->d, durts);
	int error = 0;
	while (!error && walk_next(&walk)) {
		const struct inspect_entry *e = &walk.entry;
		/* It is shorter than a granule, and so lies in two at most. */
		_Static_assert(MEDIA_ENTRY_MAX <= GRANULE_BYTES, "");
		uint64_t to_edge = GRANULE_BYTES - e->offset % GRANULE_BYTES,
		         first = e->bytes < to_edge ? e->bytes : to_edge;
		error = put_item(
		        &baskets[writer_of(a->range, e->offset)], e->offset, first, e->payload);
		if (first < e->bytes && !error)
			error = put_item(&baskets[writer_of(a->range, e->offset + first)],
			        e->offset + first, e->bytes - first, e->payload + first);
		result->entries++;
	}
	result->updates++;
	return error ? error : walk_end(&walk, durts);
}

static void sort_share(void *arg, unsigned n)
{
	struct application *a = arg;
	unsigned threads = a->range->threads;
	struct replay_result result = {0};
	int error = 0;
	uint64_t slots = a->range->to - a->range->from;
	uint64_t at = a->range->from + apply_share(slots, n, threads),
	         to = a->range->from + apply_share(slots, n + 1, threads);
	for (; at < to && !error; at++) {
		apply_preload(a->d, at, to);
		if (to_be_applied(a->d, a->range, at))
			error = sort_update(a, &a->baskets[n * threads], at, &result);
	}
	a->done[n].result = result;
	a->done[n].error = error;
}

static void empty_basket(struct writer *w, struct apply_basket *b)
{
	for (uint64_t k = 0; k < b->n; k++) {
		const struct item *i = &b->item[k];
		uint64_t bytes = media_entry_payload(i->word);
		take(w, (struct piece){w->d->image + media_entry_offset(i->word),
		                bytes == 8 ? i->bytes : i->from, bytes});
	}
}

static void start_writer(struct writer *w, struct durability *d)
{
	memset(w, 0, sizeof *w);
	w->d = d;
	w->distance = d->replay_options.preload < REPLAY_PRELOAD_MOST ? d->replay_options.preload
	                                                              : REPLAY_PRELOAD_MOST;
}

static void write_share(void *arg, unsigned n)
{
	struct application *a = arg;
	unsigned threads = a->range->threads;
	struct writer w;
	start_writer(&w, a->d);
	/* INV-R4: who filled the first has the first slots. */
	for (unsigned k = 0; k < threads; k++)
		empty_basket(&w, &a->baskets[k * threads + n]);
	finish_writer(&w);
	a->done[n].result.bytes = w.result.bytes;
	/* INV-R5.  Here, for a fence completes the write-backs of its own thread and no other:
	 * without it the tail could become durable before what this helper wrote.  Where the whole
	 * file is synced at once the caller's drain does it. */
	if (n > 0 && pm_drains_own(&a->d->pm))
		a->done[n].error = pm_drain(&a->d->pm);
}

static void add(struct replay_result *result, const struct replay_result *more)
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
			add(result, &a->done[n].result);
	}
	return error;
}

int apply_updates(
        struct durability *d, const struct apply_range *range, struct replay_result *result)
{
	if (range->threads > 1 && range->baskets) {
		struct application a = {.d = d, .range = range, .baskets = range->baskets};
		for (unsigned k = 0; k < range->threads * range->threads; k++)
			a.baskets[k].n = 0;
		int error = apply_by_several(&a, result);
		if (error != FUR_ENOMEM)
			return error;
		/* Nothing is written yet, and one needs no memory. */
	}
	struct writer w;
	start_writer(&w, d);
	int error = write_range(&w, range);
	finish_writer(&w);
	add(result, &w.result);
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
