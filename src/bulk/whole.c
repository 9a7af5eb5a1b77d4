/* SPDX-License-Identifier: BSD-3-Clause
 *
 * whole.c - bulk updates that are atomic as a whole.
 *
 * Passes over the records, while short updates go on: the first over all records, each later one
 * over those that were marked meanwhile (tx/marks.h).  A job's mapper may make the first pass.
 * The results go to a block of the heap, in the file alone.  When few records are marked, the job
 * takes the publication turn, maps these, and publishes as a serial software update, whose record
 * names the block.
 */
#include "base/error.h"
#include "bulk/job.h"
#include "durability/durability.h"
#include "tx/active.h"

#include <stdlib.h>
#include <string.h>

enum {
	BATCH = 512, /* records between two looks at the cancellation */
	/* This many passes over marked records are enough to see whether they become fewer. */
	MOST_PASSES = 16,
	/* The part of the records that may be left for the commit. */
	LEFT_PART = 1024,
	/* The commit maps records that take at most this part of the log; more go to the block. */
	LOG_PART = 2
};

struct whole {
	struct fur_thread *t;
	struct bulk_job *job;
	struct bulk_block block;
	struct media_bulk entry;
	uint64_t *todo;   /* a bit for each record: those to be mapped in this pass */
	uint64_t changed; /* records whose bit in the block is set */
};

/* ------------------------------------------------------------------ set up */

static struct media_bulk_row *rows_of(const struct whole *w)
{
	return (struct media_bulk_row *)(void *)w->block.image;
}

/* The words of changed bits of an extent, in the block. */
static uint64_t *changed_bits(const struct whole *w, uint64_t extent)
{
	const struct media_bulk_row *r = &rows_of(w)[extent];
	return (uint64_t *)(void *)(w->block.image + (r->changed - w->block.offset));
}

static uint8_t *result_of(const struct whole *w, uint64_t extent, uint64_t k)
{
	const struct media_bulk_row *r = &rows_of(w)[extent];
	return w->block.image + (r->from - w->block.offset) + k * media_bulk_step(r->bytes);
}

/* The bytes of the block.  The extents lie in the heap and apart, so nothing overflows. */
static uint64_t block_bytes(const struct bulk_job *job)
{
	uint64_t bytes = job->n * sizeof(struct media_bulk_row);
	for (uint64_t i = 0; i < job->n; i++)
		bytes += media_bulk_changed_bytes(job->extents[i].count) +
		         job->extents[i].count * media_bulk_step(job->what->bytes);
	return bytes;
}

static void write_rows(struct whole *w)
{
	const struct bulk_job *job = w->job;
	struct pm *pm = &w->t->durability->pm;
	uint64_t at = w->block.offset + job->n * sizeof(struct media_bulk_row);
	for (uint64_t i = 0; i < job->n; i++) {
		const uint64_t count = job->extents[i].count;
		at = bulk_write_row(w->t, job, &rows_of(w)[i], i, 0, count, at);
	}
	pm_flush(pm, rows_of(w), job->n * sizeof(struct media_bulk_row));
	w->entry =
	        (struct media_bulk){.bytes = w->block.bytes, .rows = job->n | MEDIA_BULK_CHECKED};
}

/* ----------------------------------------------------------------- records */

/* Note the result in the block, whose lines are written back later. */
static void keep_result(struct whole *w, uint64_t extent, uint64_t k, bool changed)
{
	uint64_t *word = &changed_bits(w, extent)[k / 64], bit = UINT64_C(1) << k % 64,
	         before = arch_load(word);
	if (changed) {
		uint8_t *to = result_of(w, extent, k);
		memcpy(to, w->job->copy, w->job->what->bytes);
		pm_flush(&w->t->durability->pm, to, w->job->what->bytes);
	}
	w->changed += (uint64_t)changed - ((before & bit) != 0);
	arch_store(word, changed ? before | bit : before & ~bit);
}

static void map_record(struct whole *w, uint64_t extent, uint64_t k)
{
	if (bulk_copy_record(w->job, extent, k))
		keep_result(w, extent, k, bulk_map(w->job, w->job->extents[extent].number + k));
}

static int map_all(struct whole *w)
{
	struct bulk_job *job = w->job;
	uint64_t done = 0;
	int error = 0;
	for (uint64_t i = 0; i < job->n && !error; i++)
		for (uint64_t from = 0, to; from < job->extents[i].count && !error; from = to) {
			const uint64_t changed = w->changed;
			to = from + BATCH < job->extents[i].count ? from + BATCH
			                                          : job->extents[i].count;
			for (uint64_t k = from; k < to; k++)
				map_record(w, i, k);
			if (w->changed != changed)
				bulk_touch(w->t, job, i, from, to);
			done += to - from;
			error = bulk_progress(w->t, job, done, job->records);
		}
	job->result.passes++;
	return error;
}

/* ---------------------------------------------------------- marked records */

/* Call visit() for each mark that is set; or count them: NULL. */
static uint64_t for_marks(struct whole *w, void (*visit)(struct whole *, uint64_t, uint64_t))
{
	uint64_t n = 0;
	for (uint64_t i = 0; i < w->job->n; i++) {
		const uint8_t *mark = w->job->marks->extents[i].mark;
		for (uint64_t k = 0; k < w->job->extents[i].count; k += 8) {
			uint64_t eight = arch_load((const uint64_t *)(const void *)(mark + k));
			for (; eight; eight &= eight - 1, n++) {
				const unsigned byte = (unsigned)__builtin_ctzll(eight) / 8;
				if (visit)
					visit(w, i, k + byte);
			}
		}
	}
	return n;
}

static void take_mark(struct whole *w, uint64_t extent, uint64_t k)
{
	const uint64_t number = w->job->extents[extent].number + k;
	bulk_unmark(w->job, extent, k);
	w->todo[number / 64] |= UINT64_C(1) << number % 64;
}

/* Call visit() for each record of the pass. */
static void for_todo(struct whole *w, void (*visit)(struct whole *, uint64_t, uint64_t))
{
	for (uint64_t i = 0; i < w->job->n; i++) {
		const struct bulk_extent *e = &w->job->extents[i];
		for (uint64_t n = e->number; n < e->number + e->count; n++) {
			const uint64_t left = w->todo[n / 64] >> n % 64;
			if (!left)
				n |= 63; /* none in this word */
			else if (left & 1)
				visit(w, i, n - e->number);
		}
	}
	memset(w->todo, 0, (w->job->records / 64 + 1) * sizeof *w->todo);
}

static int map_marked(struct whole *w)
{
	const uint64_t n = for_marks(w, take_mark);
	/* INV-BU2.  An update may have set a mark that we have just taken back, and store to the
	 * record still.  Without the wait we would read the record before that store, and never
	 * again (plant: bulk-no-sync). */
	marks_sync(w->t->engine);
	for_todo(w, map_record);
	w->job->result.again += n;
	w->job->result.passes++;
	return bulk_progress(w->t, w->job, n, n);
}

/* -------------------------------------------------------------- the commit */

/* How many records the commit may map, for their results to fit the log. */
static uint64_t fit_log(const struct whole *w)
{
	return w->t->durability->super->log_bytes / LOG_PART / (w->job->what->bytes + 64);
}

static uint64_t left_for_commit(const struct whole *w)
{
	uint64_t n = w->job->records / LEFT_PART, most = fit_log(w);
	if (n < w->t->engine->bulk.commit_may_map)
		n = w->t->engine->bulk.commit_may_map;
	return n < most ? n : most;
}

/* The results so far are durable before return (INV-BU4), and the entry has their check
 * (INV-BU6). */
static int drain_results(struct whole *w)
{
	struct durability *d = w->t->durability;
	const struct log_entry entry = {
	        .offset = w->block.offset, .bytes = w->block.bytes, .bulk = w->entry};
	for (uint64_t i = 0; i < w->job->n; i++)
		pm_flush(&d->pm, changed_bits(w, i),
		        media_bulk_changed_bytes(w->job->extents[i].count));
	int error = pm_drain(&d->pm);
	if (error)
		durability_fail(d, error);
	w->entry.check = log_bulk_check(d->image, d->super->heap_bytes, &entry);
	return error;
}

/* Map a record, and log the result after the bulk entry.  An earlier result may be in the block, so
 * the record is logged although map() does not change it. */
static void log_in_commit(struct whole *w, uint64_t extent, uint64_t k)
{
	struct fur_thread *t = w->t;
	uint8_t *at = bulk_record_at(w->job, extent, k);
	const uint64_t bit = changed_bits(w, extent)[k / 64] >> k % 64 & 1;
	bulk_load_record(w->job, extent, k);
	const bool changed = bulk_map(w->job, w->job->extents[extent].number + k);
	w->changed += (uint64_t)changed - bit;
	if (!changed)
		bulk_load_record(w->job, extent, k);
	if (changed || bit)
		fur_write(&t->update, at, w->job->copy, w->job->what->bytes);
}

static void append_entry(struct whole *w)
{
	struct fur_update *tx = &w->t->update;
	while (!redo_append_bulk(tx->log, w->t->durability, w->block.offset, &w->entry))
		if (!store_make_room(tx))
			return;
	tx->flags |= TX_BULK;
}

/* With the turn, in active[]: no update can become visible any more (INV-BU3).  A hardware update
 * that could has also stored its marks: our load of a mark aborts it, or it is visible. */
static void map_rest(struct whole *w)
{
	const uint64_t n = for_marks(w, take_mark);
	w->job->result.again += n;
	/* No update marks records now.  The entry is the first of the update's record, and has the
	 * check of the results in the block. */
	if (n > fit_log(w)) {
		for_todo(w, map_record);
		int error = drain_results(w);
		if (error)
			tx_fail(&w->t->update, error);
	}
	if (w->t->update.error || (!w->changed && !n))
		return;
	append_entry(w);
	if (!w->t->update.error)
		for_todo(w, log_in_commit); /* if any are left */
}

static int commit_results(struct whole *w)
{
	struct fur_thread *t = w->t;
	fur_update *tx;
	int error = update_begin_serial(t, &tx);
	if (error)
		return error;
	t->pause = (struct bulk_pause){0};
	map_rest(w);
	if ((error = update_commit(tx)))
		return error;
	w->job->result.pause_ns = arch_ticks_to_ns(t->pause.all);
	w->job->result.store_ns = arch_ticks_to_ns(t->pause.store);
	w->job->result.changed = w->changed;
	w->job->result.records = w->job->records;
	w->job->result.updates = 1;
	arch_fetch_add(&t->engine->bulk.commits, 1);
	arch_fetch_add(&t->engine->bulk.records, w->changed);
	arch_fetch_add(&t->engine->bulk.again, w->job->result.again);
	/* For fur_options.dram_bytes, it counts as an update with an entry for each page. */
	after_update_call(t, w->block.bytes / MEDIA_ENTRY_MAX);
	return 0;
}

/* Passes over marked records, until few are left and the other results are durable. */
static int map_until_few(struct whole *w)
{
	int error = 0;
	for (int k = 0; k < MOST_PASSES && !error; k++) {
		/* To drain may take long, on a disk: only a look after it tells what is left. */
		if (for_marks(w, NULL) <= left_for_commit(w) &&
		        ((error = drain_results(w)) || for_marks(w, NULL) <= left_for_commit(w)))
			return error;
		error = map_marked(w);
	}
	return error ? error : drain_results(w);
}

/* The first pass, by the mapper if there is one.  If that gives up, this thread begins anew. */
static int map_first(struct whole *w)
{
	struct bulk_mapper *m = w->job->mapper;
	bool mapped = false;
	const int error = m ? m->whole(m, &w->block, &w->changed, &mapped) : 0;
	if (error)
		return error;
	if (mapped) {
		w->job->result.passes++;
		return 0;
	}
	if (m) /* it may have stored to the block */
		write_rows(w);
	return map_all(w);
}

/* While updates set marks. */
static int map_and_commit(struct whole *w)
{
	int error = map_first(w);
	if (!error)
		error = map_until_few(w);
	return error ? error : commit_results(w);
}

static int whole_run(struct whole *w)
{
	int error = bulk_make_marks(w->t, w->job);
	if (error)
		return error;
	w->todo = calloc(w->job->records / 64 + 1, sizeof *w->todo);
	if (!w->todo)
		error = bulk_no_memory(w->t);
	if (!error)
		error = bulk_block_take(w->t, block_bytes(w->job), &w->block);
	if (error)
		return error;
	write_rows(w);
	marks_begin(w->t, w->job->marks);
	error = map_and_commit(w);
	marks_end(w->t);
	int later = bulk_block_give(w->t, &w->block);
	return error ? error : later;
}

int bulk_whole(struct fur_thread *t, struct bulk_job *job)
{
	struct whole w = {.t = t, .job = job};
	struct bulk_mapper *m = job->mapper;
	int error = bulk_enter(t);
	if (error)
		return error;
	error = m ? m->begin(m, t, job, job->records) : 0;
	if (!error)
		error = whole_run(&w);
	const int later = m ? m->end(m) : 0;
	error = error ? error : later;
	free(job->marks);
	free(w.todo);
	bulk_leave(t);
	return error;
}
