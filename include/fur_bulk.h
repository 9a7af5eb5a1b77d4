/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_bulk.h - updates of very many records, next to short updates: an interest run, an expiry, a
 * change of a record's format.
 *
 *     static bool add_interest(void *copy, size_t bytes, uint64_t number, void *arg)
 *     {
 *             struct account *account = copy;
 *             account->balance += account->balance / 100 * *(const long *)arg;
 *             return true;
 *     }
 *
 *     struct fur_extent all = {accounts, sizeof *accounts, n};
 *     struct fur_bulk bulk;
 *     fur_bulk_init(&bulk);
 *     bulk.map = add_interest;
 *     bulk.arg = &percent;
 *     bulk.bytes = sizeof(struct account);
 *     bulk.extents = &all;
 *     bulk.n = 1;
 *     if (fur_bulk_run(thread, &bulk, NULL))
 *             return complain(fur_errormsg());
 *
 * A single update of fur_begin_update() that did this would keep all other updates waiting from
 * start to finish, and would need a redo log as large as all records.  fur_bulk_run() reads and
 * maps the records while other updates run, and maps those again that were changed meanwhile.  It
 * shuts the others out only to commit, while it stores the results.  The results do not go through
 * the redo log: they need room in the heap, as much as the records have, until the call returns.
 * docs/bulk.md explains how, and which transaction waits for which.  fur/bulk.hpp has the same for
 * C++, with a function object.
 */
#ifndef FUR_BULK_H
#define FUR_BULK_H

#include <fur.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Map one record.  `copy` holds the record, and on return its new content.  `number`: of the
 * record, counted through all extents from 0.  `arg`: fur_bulk.arg.  Returns: false: the record
 * stays as it is.
 *
 * libfur calls it for each record at least once, and again after another update has changed the
 * record: the last call for a record decides.  So it must depend on the record and on what does not
 * change meanwhile, and keep nothing from one call for another.  It must not call libfur, nor leave
 * by longjmp() or an exception.  Calls come from the thread of fur_bulk_run(), one at a time.  The
 * last ones come while other updates wait. */
typedef bool fur_bulk_map(void *copy, size_t bytes, uint64_t number, void *arg);

/* `count` records, the first one at `first`, `stride` bytes from one to the next. */
struct fur_extent {
	void *first;
	uint64_t stride;
	uint64_t count;
};

enum fur_bulk_atomic {
	/* All records, or none: a transaction sees all of them changed, or none; after a failure
	 * all are, or none. */
	FUR_BULK_WHOLE = 1,
	/* Each record is atomic: the records are changed in consecutive updates of up to 4,096
	 * records.  Each blocks other transactions for tens of microseconds.  While others commit,
	 * the call rests most of the time.  It needs no heap space.  After a failure, a
	 * cancellation or an error, some records are changed: the first ones, in the order of their
	 * addresses. */
	FUR_BULK_EACH = 2
};

struct fur_bulk {
	/* sizeof(struct fur_bulk), set by fur_bulk_init() */
	size_t size;
	fur_bulk_map *map;
	void *arg;
	size_t bytes; /* of each record */
	/* They must not overlap.  The memory belongs to blocks that are allocated, and no update
	 * may free one of them before the call has returned. */
	const struct fur_extent *extents;
	size_t n;
	enum fur_bulk_atomic atomic; /* default FUR_BULK_WHOLE */
	/* EACH: about how long one of its updates may keep others out, in ns.  After one that took
	 * longer, the next ones change half as many records.  Default 0: no limit. */
	uint64_t most_pause_ns;
	/* fur_bulk_run() calls it now and then.  `done`: records that this pass has mapped (EACH:
	 * that are committed).  `records`: of the whole pass.  Returns: false: cancel.  May be
	 * NULL.  The rules of `map` hold for it.  To cancel from another thread, let progress()
	 * read a flag that the thread sets. */
	bool (*progress)(uint64_t done, uint64_t records, void *arg);
};

static inline void fur_bulk_init(struct fur_bulk *bulk)
{
	memset(bulk, 0, sizeof *bulk);
	bulk->size = sizeof *bulk;
	bulk->atomic = FUR_BULK_WHOLE;
}

/* As other structs that grow: the caller sets `size` (fur.h, "Structs that grow"). */
struct fur_bulk_result {
	size_t size;
	uint64_t records; /* mapped; EACH: their updates have committed, also if the call failed */
	uint64_t changed; /* of them, those for which map() returned true in the end */
	uint64_t again;   /* calls of map() for records that had been changed meanwhile */
	uint64_t passes;  /* WHOLE: over all records, or those that had been changed */
	uint64_t updates; /* that made the changes: WHOLE: 1 */
	/* How long the commit kept other transactions out, the wait for readers included, and how
	 * long it stored.  EACH: of the update that kept them out longest. */
	uint64_t pause_ns, store_ns;
};

/* fur_bulk_run - map records, next to other updates.
 *
 * WHOLE: a transaction whose reads the result includes, and all later ones, see it as one update.
 * Updates that store to its records go on meanwhile; each such store costs a few nanoseconds more.
 * One bulk update runs at a time in a heap.
 *
 * Visible: WHOLE: all at once, when the call is about to return.  EACH: one update after the other.
 * Durable: before return.
 * Crash:   WHOLE: all or nothing.  The room that the results took is free again after the next
 *          fur_thread_register().
 * Errors:  FUR_EINVAL (no map, no extent, a record of 0 bytes, a stride below the record's size,
 *          extents that overlap, a heap file of version 1 with WHOLE); FUR_ERANGE (an extent that
 *          is not in the heap, or among the allocator's data); FUR_ENESTED inside a transaction;
 *          FUR_EBUSY (another one runs); FUR_ENOSPC (the heap has no room for the results);
 *          FUR_ETOOBIG (EACH: a record does not fit the redo log); FUR_EABORTED (cancelled);
 *          FUR_ENOMEM; those of fur_commit().
 *          WHOLE: nothing is changed then.  EACH: in the order of their addresses, the first
 *          fur_bulk_result.records have been mapped and committed, and no other record is changed.
 *          With FUR_EINVAL, FUR_ERANGE, FUR_ENESTED and FUR_ENOSPC these are none. */
FUR_API FUR_MUST_USE int fur_bulk_run(
        fur_thread *thread, const struct fur_bulk *bulk, struct fur_bulk_result *result);

#ifdef __cplusplus
}
#endif

#endif /* FUR_BULK_H */
