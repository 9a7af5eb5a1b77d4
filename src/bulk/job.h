/* SPDX-License-Identifier: BSD-3-Clause
 *
 * job.h - updates of very many records next to short ones.  The contract of src/bulk; docs/bulk.md
 * has the protocol.
 *
 *   INV-BU4  The results of a bulk update, and the table that names them, are durable before its
 *            marker.  Until the update is replayed, no other thread writes to their block; and the
 *            replay of no earlier update does.
 *   INV-BU5  A bulk update publishes alone: no other update joins its publication.
 *   INV-BU6  The entry of a bulk update has the check of its rows, of its changed bits, and of all
 *            results in the block; results that do not have that check are not replayed.
 *   INV-BU7  A bulk update sweeps when it has taken its block (INV-ST2), because the results are
 *            stored past the stamps, and a page to which the process has not stored shows them.
 *            Otherwise a body with an older snapshot could read them in a block that it knows, and
 *            which is free since.
 */
#ifndef FUR_BULK_JOB_H
#define FUR_BULK_JOB_H

#include "tx/marks.h"
#include "update/update.h"
#include <fur_bulk.h>

/* Records of one extent: `count` of them, `stride` bytes apart.  Offsets are of the heap. */
struct bulk_extent {
	uint64_t to, stride, count;
	uint64_t number; /* of its first record, among all */
};

/* The `k`th record of an extent. */
struct bulk_place {
	uint64_t extent, k;
};

struct bulk_block;
struct bulk_job;

/* What bulk_mapper.take() has done with a record. */
enum bulk_taken {
	BULK_NOT_MAPPED, /* the mapper has no result, nor for any later record */
	BULK_AGAIN,      /* the record was marked since: its result is out of date */
	BULK_SAME,       /* the mapper leaves the record as it is */
	BULK_CHANGED     /* the result is where the caller wanted it */
};

/* Maps records in place of the thread that runs the job, as an experiment may.  fur_bulk_run() has
 * none.  All functions are called by that thread, between bulk_enter() and bulk_leave(). */
struct bulk_mapper {
	/* Before updates set marks, and before anything is changed.  EACH: for portions of up to
	 * `most` records.  The caller calls end() after it, also after an error. */
	int (*begin)(struct bulk_mapper *self, struct fur_thread *t, struct bulk_job *job,
	        uint64_t most);
	/* WHOLE, while updates set marks: map each record to `block`, whose rows are written, and
	 * count the changed ones.  Results and changed bits are written back later (INV-BU4).
	 * *mapped: false: what it has left in the block counts for nothing.  On return no other
	 * process stores to the block. */
	int (*whole)(struct bulk_mapper *self, const struct bulk_block *block, uint64_t *changed,
	        bool *mapped);
	/* EACH, while updates set marks: before each portion.  Sets `left`. */
	int (*next)(struct bulk_mapper *self);
	/* EACH: copy the result for the next record to `to`, unless the record was `marked`. */
	enum bulk_taken (*take)(struct bulk_mapper *self, bool marked, uint8_t *to);
	/* When updates no longer set marks. */
	int (*end)(struct bulk_mapper *self);
	uint64_t left; /* EACH: records that the portion may have */
};

struct bulk_job {
	const struct fur_bulk *what;
	struct bulk_mapper *mapper;  /* NULL: this thread maps all records */
	uint8_t *heap;               /* where it begins in this process's memory */
	struct bulk_extent *extents; /* [n], in the order of their addresses */
	uint64_t n, records;
	uint8_t *copy; /* room for a record */
	struct marks *marks;
	struct fur_bulk_result result;
};

/* Where the extent ends, as an offset of the heap. */
static inline uint64_t bulk_extent_end(const struct bulk_job *job, uint64_t k)
{
	const struct bulk_extent *e = &job->extents[k];
	return e->to + (e->count - 1) * e->stride + job->what->bytes;
}

static inline uint8_t *bulk_record_at(const struct bulk_job *job, uint64_t extent, uint64_t k)
{
	const struct bulk_extent *e = &job->extents[extent];
	return job->heap + e->to + k * e->stride;
}

/* Call map() for the record in job->copy. */
static inline bool bulk_map(struct bulk_job *job, uint64_t number)
{
	return job->what->map(job->copy, job->what->bytes, number, job->what->arg);
}

/* Carry out a checked job.  Not inside a transaction.  Errors: those of fur_bulk_run(). */
FUR_MUST_USE int bulk_whole(struct fur_thread *t, struct bulk_job *job);
FUR_MUST_USE int bulk_each(struct fur_thread *t, struct bulk_job *job);

/* Free what a bulk update has left, whose process ended in the middle of it.  Does nothing while a
 * bulk update runs.  Called when a thread has registered: not inside a transaction. */
void bulk_clean(struct fur_thread *t);

/* ------------------------------------------------------------- records.c */

/* engine.bulk.running */
enum { BULK_NONE, BULK_RUNS, BULK_CLEANS };

/* bulk_enter, bulk_leave - be the bulk update that runs in the heap.  Waits while bulk_clean() runs
 * in another thread.  Errors: FUR_EBUSY. */
FUR_MUST_USE int bulk_enter(struct fur_thread *t);
void bulk_leave(struct fur_thread *t);

/* FUR_ENOMEM, with a message that names the heap file. */
int bulk_no_memory(const struct fur_thread *t);

/* The marks of all extents, in one piece of zeroed memory: job->marks, which the caller frees.
 * Errors: FUR_ENOMEM. */
FUR_MUST_USE int bulk_make_marks(const struct fur_thread *t, struct bulk_job *job);

static inline bool bulk_is_marked(const struct bulk_job *job, uint64_t extent, uint64_t k)
{
	return __atomic_load_n(&job->marks->extents[extent].mark[k], __ATOMIC_RELAXED);
}

/* Take the record's mark back.  Before it reads the record, the caller calls marks_sync()
 * (INV-BU2). */
static inline void bulk_unmark(struct bulk_job *job, uint64_t extent, uint64_t k)
{
	__atomic_store_n(&job->marks->extents[extent].mark[k], 0, __ATOMIC_RELAXED);
}

/* Copy the record, to which others may be storing, to job->copy. */
void bulk_load_record(struct bulk_job *job, uint64_t extent, uint64_t k);
/* The same.  False: an update may be storing to it (INV-BU2), and the copy may be torn. */
FUR_MUST_USE bool bulk_copy_record(struct bulk_job *job, uint64_t extent, uint64_t k);

/* The commit will store to the extent's records [from, to).  A first store to a page of a private
 * mapping copies the page: do that now, and not while others wait.  Advice, so errors do not
 * matter. */
void bulk_touch(const struct fur_thread *t, const struct bulk_job *job, uint64_t extent,
        uint64_t from, uint64_t to);

/* Tell the program how far the job is, and ask whether it is cancelled.  Errors: FUR_EABORTED. */
FUR_MUST_USE int bulk_progress(
        struct fur_thread *t, struct bulk_job *job, uint64_t done, uint64_t records);

/* --------------------------------------------------------------- block.c */

/* Room in the heap for the results.  Only the file has them: nothing is stored to the block in this
 * process's mapping. */
struct bulk_block {
	uint64_t offset, bytes; /* of the heap; offset 0: none */
	uint8_t *image;         /* where it lies in the file's mapping */
};

/* Results are about to be stored to the file at this block: past the stamps, and a page to which
 * this process has never stored shows them at once.  In a serial update that comes before
 * (INV-SN1, INV-BU7). */
void bulk_block_prepare(struct fur_update *tx, void *block, uint64_t bytes);
/* Allocate it; after a failure the heap knows that it is to be freed.  Errors: FUR_ENOSPC; those of
 * fur_commit(). */
FUR_MUST_USE int bulk_block_take(struct fur_thread *t, uint64_t bytes, struct bulk_block *block);
/* Free it, after everything that this thread has committed is replayed.  Errors: those of
 * fur_commit(); the heap has failed then. */
int bulk_block_give(struct fur_thread *t, const struct bulk_block *block);
/* Write the row of `count` records of an extent from `k` on.  Its changed bits, which become 0, and
 * its results begin at `at`, an offset of the heap.  The place of the first result gets the number
 * of the first record, for a mapper.  Returns where the results end. */
uint64_t bulk_write_row(const struct fur_thread *t, const struct bulk_job *job,
        struct media_bulk_row *row, uint64_t extent, uint64_t k, uint64_t count, uint64_t at);
/* Replay everything that this thread has committed.  Errors: those of durability_replay(). */
FUR_MUST_USE int bulk_replay_own(struct fur_thread *t);

#endif /* FUR_BULK_JOB_H */
