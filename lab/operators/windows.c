/* SPDX-License-Identifier: BSD-3-Clause
 *
 * windows.c - an operator's results for FUR_BULK_EACH (windows.h): ask for windows of records, wait
 * for them, and hand out the results.
 */
#include "windows.h"

#include "base/probe.h"

/* The bytes of a window, at most.  The changed bits of each row are rounded up to 8 bytes. */
static uint64_t half_bytes(const struct windows *w)
{
	const uint64_t rows = w->job->n < w->most ? w->job->n : w->most;
	return rows * (sizeof(struct media_bulk_row) + 8) + media_bulk_changed_bytes(w->most) +
	       w->most * media_bulk_step(w->job->what->bytes);
}

int windows_begin(struct windows *w, struct fur_thread *t, struct bulk_job *job, uint64_t most)
{
	*w = (struct windows){
	        .t = t, .job = job, .most = most < job->records ? most : job->records};
	/* One window may be all. */
	const uint64_t halves = w->most < job->records ? 2 : 1;
	return bulk_block_take(t, halves * half_bytes(w), &w->block);
}

int windows_end(struct windows *w)
{
	if (w->errand.number)
		errand_stop(w->t, w->errand);
	return w->block.offset ? bulk_block_give(w->t, &w->block) : 0;
}

/* ------------------------------------------------------------------- to ask */

static struct media_bulk_row *rows_of(const struct windows *w, const struct errand_work *window)
{
	return (struct media_bulk_row *)(void *)(w->t->durability->image + window->offset);
}

/* The records of the extent at `next` that still fit a window which has `records`. */
static uint64_t part_of_extent(
        const struct windows *w, const struct bulk_place *next, uint64_t records)
{
	const uint64_t left = w->job->extents[next->extent].count - next->k,
	               room = w->most - records;
	return left < room ? left : room;
}

/* Returns whether there were any. */
static bool take_marks(struct windows *w, const struct bulk_place *from, uint64_t count)
{
	bool marked = false;
	for (uint64_t k = from->k; k < from->k + count; k++)
		if (bulk_is_marked(w->job, from->extent, k)) {
			bulk_unmark(w->job, from->extent, k);
			marked = true;
		}
	return marked;
}

/* The next window begins at w->next: take its marks back. */
static void take_window_marks(struct windows *w)
{
	bool marked = false;
	struct bulk_place at = w->next;
	FUR_POINT(window__unmarks);
	for (uint64_t records = 0, count; records < w->most && at.extent < w->job->n;
	        records += count) {
		count = part_of_extent(w, &at, records);
		marked |= take_marks(w, &at, count);
		at = (struct bulk_place){.extent = at.extent + 1};
	}
	/* INV-BU2, INV-OP2.  An update may have set a mark that we have just taken back, and store
	 * to the record still.  Without the wait it would become visible after the settling, and
	 * the operator could map the record's older value (model: WINDOWNOSYNC). */
	if (marked)
		marks_sync(w->t->engine);
}

/* Write the rows of the next window, and move w->next behind it. */
static struct errand_work write_window(struct windows *w)
{
	struct errand_work window = {
	        .offset = w->block.offset + w->half * half_bytes(w), .bytes = half_bytes(w)};
	const uint64_t rows = w->job->n < w->most ? w->job->n : w->most;
	uint64_t at = window.offset + rows * sizeof(struct media_bulk_row);
	FUR_POINT(window__written);
	while (window.records < w->most && w->next.extent < w->job->n) {
		const uint64_t count = part_of_extent(w, &w->next, window.records);
		at = bulk_write_row(w->t, w->job, &rows_of(w, &window)[window.rows++],
		        w->next.extent, w->next.k, count, at);
		window.records += count;
		w->next.k += count;
		if (w->next.k == w->job->extents[w->next.extent].count)
			w->next = (struct bulk_place){.extent = w->next.extent + 1};
	}
	w->half ^= 1;
	return window;
}

/* Ask for the next window, if there is one. */
static int ask(struct windows *w)
{
	FUR_POINT(window__ask);
	if (w->next.extent == w->job->n)
		return 0;
	take_window_marks(w);
	/* After that: the marks that an update sets from here on stay until the commit (plant:
	 * windows-settle-first; model: WINDOWLATE). */
	const int error = errand_settle(w->t, w->job);
	if (error)
		return error;
	w->asked = write_window(w);
	w->errand = errand_ask(w->t, w->job, &w->asked);
	/* Another fur-operators may not have the operator, and would end the job in the middle. */
	w->pid = w->pid ? w->pid : w->errand.pid;
	w->errand.pid = w->pid;
	return 0;
}

/* ---------------------------------------------------------------- to take */

int windows_next(struct windows *w)
{
	bool mapped = false;
	if (windows_left(w))
		return 0;
	int error = w->errand.number ? 0 : ask(w); /* the first one */
	if (error)
		return error;
	error = errand_wait(w->t, w->job, w->errand, &mapped);
	errand_stop(w->t, w->errand);
	w->errand.number = 0;
	w->over = !mapped;
	if (error || !mapped)
		return error;
	w->left = w->asked.records;
	w->row = rows_of(w, &w->asked);
	w->k = 0;
	return ask(w);
}

const uint8_t *windows_take(struct windows *w, bool *changed)
{
	if (w->over)
		return NULL;
	const uint8_t *image = w->t->durability->image;
	const struct media_bulk_row *r = w->row;
	const uint64_t k = w->k++,
	               word = arch_load(
	                       (const uint64_t *)(const void *)(image + r->changed) + k / 64);
	*changed = word >> k % 64 & 1;
	w->left--;
	if (w->k == r->count) {
		w->row++;
		w->k = 0;
	}
	return image + r->from + k * media_bulk_step(r->bytes);
}
