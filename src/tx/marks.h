/* SPDX-License-Identifier: BSD-3-Clause
 *
 * marks.h - how short updates tell a bulk update which of its records they store to.
 *
 * A bulk update (bulk/whole.c) maps its records while other updates run, without a lock on any of
 * them.  Each record has a mark, a byte of memory that is not durable.  An update that stores to
 * the record sets the mark, and the bulk update maps the record again.  At its commit no update can
 * store, and it maps the records that are still marked.
 *
 *   INV-BU1  An update sets the mark of a record no later than a store to the record becomes
 *            visible: in hardware both are stores of one transaction; otherwise the mark comes
 *            first.  While `marks` is set, each update that may become visible has seen it.
 *   INV-BU2  The bulk update takes a mark back, waits until no update that has set it earlier is
 *            still storing (marks_sync), then reads the record, then looks at the mark.  If the
 *            mark is set, the copy may be torn, and is not used.
 *   INV-BU3  When the bulk update commits, each result that it publishes was made from the values
 *            that its record has at that instant: it maps what is marked, with the publication
 *            turn, while no update can become visible, and then publishes before any other.
 */
#ifndef FUR_MARKS_H
#define FUR_MARKS_H

#include "tx/tx.h"

struct marks_extent {
	uintptr_t from, end; /* of the records, the gaps between them included */
	uint64_t stride;
	/* A byte for each record, and zeroes up to a multiple of 8.  Updates set it, the bulk
	 * update takes it back.  Owners: tx/marks.c, bulk/job.h. */
	uint8_t *mark;
};

struct marks {
	uint64_t n;
	struct marks_extent extents[]; /* in the order of their addresses, apart from each other */
};

/* marks_begin, marks_end - from now on updates set marks; no update touches `marks` any more.  Not
 * inside a transaction.
 * Orders:  the caller's stores to `marks` before the pointer to it; all accesses of updates that do
 *          not see the change before the caller's later accesses. */
void marks_begin(struct fur_thread *t, struct marks *marks);
void marks_end(struct fur_thread *t);

/* marks_sync - wait until the update that has the publication turn, and those that publish beside
 * it, have ended.
 * Orders:  the caller's earlier stores, which took marks back, before the wait; the stores of those
 *          updates before the caller's later loads. */
void marks_sync(struct engine *e);

/* The marks that the thread's update must set, or NULL.  An acquire is not needed: all that the
 * caller reads, it reads through the pointer. */
static inline struct marks *marks_of(const struct engine *e)
{
	return (struct marks *)(uintptr_t)arch_load(&e->lock.marks);
}

/* marks_note - set the marks of the records to which an update stores `bytes` bytes at `to`.
 * Orders:  the marks before the caller's later stores (light fence), outside hardware. */
void marks_note(const struct fur_update *tx, const void *to, uint64_t bytes);

/* The same for each word of a software update's write set, before it is published. */
void marks_note_writes(const struct fur_thread *t);

/* For an update that has begun in hardware or in place: let its stores set marks, if a bulk update
 * runs.  In hardware the load is part of the transaction, from the line of `shut`: a bulk update
 * that begins later aborts it.  A rollback-only one does not track the load, so marks_begin() waits
 * for it. */
static inline void marks_look(struct fur_update *tx)
{
	if (unlikely(arch_load(&tx->thread->engine->lock.marks) != 0))
		tx->flags |= TX_MARKS;
}

#endif /* FUR_MARKS_H */
