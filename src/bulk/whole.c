/* SPDX-License-Identifier: BSD-3-Clause
 *
 * whole.c - bulk updates that are atomic as a whole.
 *
 * Passes over the records, while short updates go on: the first over all records, each later one
 * over those that were marked meanwhile (htm/marks.h).  The results go to a block of the heap, in
 * the file alone.  When few records are marked, the job takes the publication turn, maps these, and
 * publishes as a serial software update, whose record names the block.
 */
#include "base/error.h"
#include "base/memory.h"
#include "bulk/bulk.h"
#include "durability/durability.h"
#include "htm/active.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	BATCH = 512, /* records between two looks at the cancellation */
	/* So many passes over marked records are enough to see whether they become fewer. */
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
	struct marks *marks;
	uint64_t *todo; /* a bit for each record: those to be mapped in this pass */
	uint8_t *memory;
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
		const struct bulk_extent *e = &job->extents[i];
		struct media_bulk_row r = {.to = e->to,
		        .stride = e->stride,
		        .count = e->count,
		        .bytes = job->what->bytes,
		        .changed = at};
		r.from = at + media_bulk_changed_bytes(e->count);
		at = r.from + e->count * media_bulk_step(r.bytes);
		rows_of(w)[i] = r;
		memset(changed_bits(w, i), 0, media_bulk_changed_bytes(e->count));
	}
	pm_flush(pm, rows_of(w), job->n * sizeof(struct media_bulk_row));
	w->entry = (struct media_bulk){.bytes = w->block.bytes,
	        .rows = job->n,
	        .check = media_bulk_check(rows_of(w), job->n)};
}

/* The marks of all extents, and the bits of `todo`, in one piece of zeroed memory. */
static int make_marks(struct whole *w)
{
	const struct bulk_job *job = w->job;
	const uint64_t head = sizeof *w->marks + job->n * sizeof w->marks->extents[0];
	uint64_t bytes = head;
	for (uint64_t i = 0; i < job->n; i++)
		bytes += round_up(job->extents[i].count, 8);
	w->memory = memory_padded(round_up(bytes, ARCH_PAD));
	w->todo = calloc(job->records / 64 + 1, sizeof *w->todo);
	if (!w->memory || !w->todo)
		return fur_fail(FUR_ENOMEM,
		        "fur_bulk_run: no memory for %llu marks: free some memory, or take fewer "
		        "records at a time",
		        (unsigned long long)job->records);
	w->marks = (struct marks *)(void *)w->memory;
	w->marks->n = job->n;
	uint8_t *mark = w->memory + head;
	for (uint64_t i = 0; i < job->n; i++) {
		const struct bulk_extent *e = &job->extents[i];
		const uintptr_t heap = (uintptr_t)w->t->update.base;
		w->marks->extents[i] = (struct marks_extent){.from = heap + e->to,
		        .end = heap + bulk_extent_end(job, i),
		        .stride = e->stride,
		        .mark = mark};
		mark += round_up(e->count, 8);
	}
	return 0;
}

/* ----------------------------------------------------------------- records */

/* Copy a record that others may be storing to, word by word where its words are aligned. */
static void load_record(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	for (; bytes && (uintptr_t)from % 8; bytes--)
		*to++ = __atomic_load_n(from++, __ATOMIC_RELAXED);
	for (; bytes >= 8; bytes -= 8, from += 8, to += 8) {
		uint64_t word = arch_load((const uint64_t *)(const void *)from);
		memcpy(to, &word, 8);
	}
	for (; bytes; bytes--)
		*to++ = __atomic_load_n(from++, __ATOMIC_RELAXED);
}

static uint8_t *record_at(const struct whole *w, uint64_t extent, uint64_t k)
{
	const struct bulk_extent *e = &w->job->extents[extent];
	return w->t->update.base + e->to + k * e->stride;
}

static bool is_marked(const struct whole *w, uint64_t extent, uint64_t k)
{
	return __atomic_load_n(&w->marks->extents[extent].mark[k], __ATOMIC_RELAXED);
}

/* Copy the record, unless an update may be storing to it (INV-BU2). */
static bool copy_record(struct whole *w, uint64_t extent, uint64_t k)
{
	load_record(w->job->copy, record_at(w, extent, k), w->job->what->bytes);
	/* Orders the loads of the record before that of its mark.  An update marks the record, then
	 * stores: if we have loaded any of its new values, we see the mark.  Without the fence we
	 * could call map() with a record that never existed (plant: bulk-mark-first). */
	arch_fence_light();
	return !is_marked(w, extent, k);
}

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
	if (copy_record(w, extent, k))
		keep_result(w, extent, k, bulk_map(w->job, w->job->extents[extent].number + k));
}

/* The commit will store to these records.  A first store to a page of a private mapping copies the
 * page: do that now, and not while others wait.  Advice, so errors do not matter. */
static void touch(const struct whole *w, uint64_t extent, uint64_t from, uint64_t to)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)record_at(w, extent, from) & ~(page - 1),
	          end = (uintptr_t)record_at(w, extent, to - 1) + w->job->what->bytes;
	if (w->t->durability->populate && (end - first) / page <= 2 * (to - from))
		madvise((void *)first, end - first, MADV_POPULATE_WRITE);
}

static int map_all(struct whole *w)
{
	struct bulk_job *job = w->job;
	int error = 0;
	for (uint64_t i = 0; i < job->n && !error; i++)
		for (uint64_t from = 0, to; from < job->extents[i].count && !error; from = to) {
			const uint64_t changed = w->changed;
			to = from + BATCH < job->extents[i].count ? from + BATCH
			                                          : job->extents[i].count;
			for (uint64_t k = from; k < to; k++)
				map_record(w, i, k);
			if (w->changed != changed)
				touch(w, i, from, to);
			error = bulk_progress(w->t, job, job->extents[i].number + to, job->records);
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
		const uint8_t *mark = w->marks->extents[i].mark;
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
	__atomic_store_n(&w->marks->extents[extent].mark[k], 0, __ATOMIC_RELAXED);
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
	marks_sync(w->t->htm);
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

static uint64_t enough(const struct whole *w)
{
	uint64_t n = w->job->records / LEFT_PART, most = fit_log(w);
	if (n < w->t->htm->bulk.few)
		n = w->t->htm->bulk.few;
	return n < most ? n : most;
}

/* The results so far are durable before return (INV-BU4). */
static int drain_results(struct whole *w)
{
	struct durability *d = w->t->durability;
	for (uint64_t i = 0; i < w->job->n; i++)
		pm_flush(&d->pm, changed_bits(w, i),
		        media_bulk_changed_bytes(w->job->extents[i].count));
	int error = pm_drain(&d->pm);
	if (error)
		durability_fail(d, error);
	return error;
}

/* Map a record, and log the result after the bulk entry.  An earlier result may be in the block, so
 * the record is logged although map() does not change it. */
static void log_in_commit(struct whole *w, uint64_t extent, uint64_t k)
{
	struct fur_thread *t = w->t;
	uint8_t *at = record_at(w, extent, k);
	const uint64_t bit = changed_bits(w, extent)[k / 64] >> k % 64 & 1;
	load_record(w->job->copy, at, w->job->what->bytes);
	const bool changed = bulk_map(w->job, w->job->extents[extent].number + k);
	w->changed += (uint64_t)changed - bit;
	if (!changed)
		load_record(w->job->copy, at, w->job->what->bytes);
	if (changed || bit)
		fur_write(&t->update, at, w->job->copy, w->job->what->bytes);
}

static void append_entry(struct whole *w)
{
	struct fur_update *tx = &w->t->update;
	while (!redo_append_bulk(tx->log, w->t->durability, w->block.offset, &w->entry))
		if (!store_make_room(tx))
			return;
	tx->extras |= TX_BULK;
}

/* With the turn, in active[]: no update can become visible any more (INV-BU3).  A hardware update
 * that could has stored its marks, too: our load of a mark aborts it, or it is visible. */
static void map_rest(struct whole *w)
{
	const uint64_t n = for_marks(w, take_mark);
	const bool fits = n <= fit_log(w);
	if (w->changed || n)
		append_entry(w);
	if (w->t->update.error)
		return;
	w->job->result.again += n;
	for_todo(w, fits ? log_in_commit : map_record); /* nobody marks records now */
	int error = fits ? 0 : drain_results(w);
	if (error)
		tx_fail(&w->t->update, error);
}

static int commit(struct whole *w)
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
	arch_fetch_add(&t->htm->bulk.commits, 1);
	arch_fetch_add(&t->htm->bulk.records, w->changed);
	arch_fetch_add(&t->htm->bulk.again, w->job->result.again);
	/* For fur_options.dram_bytes, it counts as an update with an entry for each page. */
	if (t->htm->after_update)
		t->htm->after_update(t, w->block.bytes / MEDIA_ENTRY_MAX);
	return 0;
}

/* Passes over marked records, until few are left and the other results are durable. */
static int map_until_few(struct whole *w)
{
	int error = 0;
	for (int k = 0; k < MOST_PASSES && !error; k++) {
		/* To drain may take long, on a disk: only a look after it tells what is left. */
		if (for_marks(w, NULL) <= enough(w) &&
		        ((error = drain_results(w)) || for_marks(w, NULL) <= enough(w)))
			return error;
		error = map_marked(w);
	}
	return error ? error : drain_results(w);
}

/* While updates set marks. */
static int map_and_commit(struct whole *w)
{
	int error = map_all(w);
	if (!error)
		error = map_until_few(w);
	return error ? error : commit(w);
}

static int run(struct whole *w)
{
	int error = make_marks(w);
	if (!error)
		error = bulk_block_take(w->t, block_bytes(w->job), &w->block);
	if (error)
		return error;
	write_rows(w);
	marks_begin(w->t, w->marks);
	error = map_and_commit(w);
	marks_end(w->t);
	int later = bulk_block_give(w->t, &w->block);
	return error ? error : later;
}

int bulk_whole(struct fur_thread *t, struct bulk_job *job)
{
	struct whole w = {.t = t, .job = job};
	if (!arch_cas(&t->htm->bulk.running, 0, 1))
		return fur_fail(FUR_EBUSY,
		        "fur_bulk_run: another bulk update of this heap runs, atomic as a whole: "
		        "wait until it has returned, or take FUR_BULK_EACH");
	int error = run(&w);
	free(w.memory);
	free(w.todo);
	/* Release: the next one finds the header's word as we have left it. */
	arch_store_release(&t->htm->bulk.running, 0);
	return error;
}

int bulk_progress(struct fur_thread *t, struct bulk_job *job, uint64_t done, uint64_t records)
{
	const struct fur_bulk *what = job->what;
	const bool goes_on = !what->progress || what->progress(done, records, what->arg);
	if (goes_on && arch_load(&t->htm->bulk.cancels) == job->cancels)
		return 0;
	return fur_fail(FUR_EABORTED, "fur_bulk_run: cancelled by %s after %llu of %llu records",
	        goes_on ? "fur_bulk_cancel()" : "the program's progress()",
	        (unsigned long long)done, (unsigned long long)records);
}
