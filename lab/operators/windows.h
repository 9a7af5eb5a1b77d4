/* SPDX-License-Identifier: BSD-3-Clause
 *
 * windows.h - the first pass of FUR_BULK_EACH in another process, a window of a few thousand
 * records at a time.  The operator maps the next window while the program commits the present one,
 * so the bulk update's block has two halves, each with rows and results of its own.
 *
 *     ask for the first window
 *     for each window    wait until it is mapped                        (windows_next)
 *                        take the next one's marks back, settle, ask
 *                        commit the records of this one, in portions    (each.c: windows_take)
 *
 * Marks of a window stay from the time at which its marks were taken back until a portion takes
 * them.  So a record that is not marked then has the value that the operator has mapped (INV-OP2).
 * If fur-operators dies, the program maps all records that are left.
 */
#ifndef FUR_WINDOWS_H
#define FUR_WINDOWS_H

#include "errand.h"

struct windows {
	struct fur_thread *t;
	struct bulk_job *job;
	struct bulk_block block;
	uint64_t most;            /* records of a window */
	struct bulk_place next;   /* the first record that no window has had */
	struct errand_work asked; /* the window that is asked for, if errand.number */
	struct errand errand;
	uint64_t pid;  /* of the fur-operators that was asked first */
	unsigned half; /* of the block: for the next window */
	bool over;     /* it has died */
	/* The present window: its records that are left, and the place of the next one's result */
	uint64_t left, k;
	const struct media_bulk_row *row;
};

/* windows_begin, windows_end - take the block, for windows of up to `most` records; stop the errand
 * that was asked for last, and free the block.
 * Errors: those of bulk_block_take(); those of bulk_block_give(). */
FUR_MUST_USE int windows_begin(
        struct windows *w, struct fur_thread *t, struct bulk_job *job, uint64_t most);
FUR_MUST_USE int windows_end(struct windows *w);

/* Make the next window the present one, if nothing is left of the present one and
 * fur-operators lives.  Errors: those of errand_settle() and errand_wait(). */
FUR_MUST_USE int windows_next(struct windows *w);

/* How many records of the present window are left; UINT64_MAX: the program maps all itself. */
static inline uint64_t windows_left(const struct windows *w)
{
	return w->over ? UINT64_MAX : w->left;
}

/* The operator's result for the next record, in the file.  *changed: as it has returned.  NULL: no
 * operator has mapped the record. */
const uint8_t *windows_take(struct windows *w, bool *changed);

#endif /* FUR_WINDOWS_H */
