/* SPDX-License-Identifier: BSD-3-Clause
 *
 * errand.h - a bulk update's first pass in another process, fur-operators.  The program asks,
 * through the request in the control region, and waits; an operator maps the records, and
 * fur-operators stores the results in the update's block.  The program maps what was marked
 * meanwhile, and commits, as ever.  One errand maps all records (run.c), or those of a window
 * (windows.h).
 *
 * The program writes the request's fields, then a new number with ERRAND_ASKED.  fur-operators
 * moves it to ERRAND_RUNS, and then works in batches:
 *
 *     with the right to replay     store the results of the last batch in the block, and copy the
 *                                  records of the next one from the image (errand_serve_exchange)
 *     without                      call the operator with each copy (errand_serve_map)
 *
 * It takes that right as a fur-replayer does (INV-C4), which may run alongside or not: the two
 * exclude each other by HEAP_LOCK_REPLAY, as all processes do.  At the end it moves the request to
 * ERRAND_DONE or ERRAND_REFUSED.  The program moves it to ERRAND_NONE, at any time.
 *
 *   INV-OP1  fur-operators copies records and stores results only with the right to replay, after
 *            it has found there that the request, of this number, still runs, and that its program
 *            has the heap open.  So a copy is never torn by a replay; and when the program has
 *            given up, or has died, nothing is stored to the block once its next owner can: what
 *            that one logs reaches the file by a replay, what it stores past the log waits until
 *            the block's free is replayed (INV-FM2), and a program that opens the heap takes the
 *            right to replay first.
 *   INV-OP2  Before it asks, the program lets updates set marks, or takes back those of a window as
 *            in INV-BU2, and then waits until each update that is visible, and may have set none
 *            since, is replayed.  So a record in the image has its newest value, or is marked.
 *   INV-OP3  The results are durable before ERRAND_DONE (INV-BU4).
 */
#ifndef FUR_ERRAND_H
#define FUR_ERRAND_H

#include "bulk/job.h"
#include "request.h"

/* ------------------------------------------------------------ the program */

/* Is there a fur-operators?  Errors: FUR_ENOENT; FUR_ESYS. */
FUR_MUST_USE int errand_check(const struct fur_thread *t, const struct bulk_job *job);

/* INV-OP2.  Errors: those of durability_replay(); FUR_EABORTED. */
FUR_MUST_USE int errand_settle(struct fur_thread *t, struct bulk_job *job);

/* What the operator is to map: bytes of the block in the file, which begin with rows.  The rows'
 * changed bits are 0, and the place of each row's first result has the number of its first record
 * (bulk_write_row). */
struct errand_work {
	uint64_t offset, bytes; /* of the heap */
	uint64_t rows, records;
};
struct errand {
	uint64_t number, pid; /* of the request; of the fur-operators that was asked */
};

/* Ask fur-operators, which has nothing else to do for this heap.  Then call errand_stop(). */
struct errand errand_ask(
        const struct fur_thread *t, const struct bulk_job *job, const struct errand_work *work);
/* Wait until it is done.  *mapped: true: done; false: fur-operators has died, or stopped.  From
 * the call of errand_stop() on, it stores nothing to the block that it was asked for.
 * Errors: FUR_EABORTED (cancelled, or the operator's), FUR_ENOENT, FUR_EBUSY, FUR_EIO, FUR_ENOMEM,
 * FUR_ESYS. */
FUR_MUST_USE int errand_wait(
        struct fur_thread *t, struct bulk_job *job, struct errand asked, bool *mapped);
void errand_stop(const struct fur_thread *t, struct errand asked);
/* How long errand_wait() waits for the next record, while some are left: a minute; for tests. */
extern uint64_t errand_silence_ns;

/* ---------------------------------------------------------- fur-operators */

struct errand_serve_batch {
	uint64_t n, bytes; /* records, and bytes of each */
	uint8_t *records;  /* in: copies; out: what they become */
	uint64_t *numbers;
	bool *changed;
	/* How many of the errand's records were mapped before this batch; the program's word for
	 * that number, which the mapping counts up, so that the program sees that it goes on */
	uint64_t before, *done;
};

struct errand_serve_calls {
	/* Find an operator; its next calls get this `arg`.  Errors: FUR_ENOENT, with a message. */
	int (*find)(void *self, const char *name, const void *arg, size_t arg_bytes);
	/* Call it for each record of the batch.  Errors: FUR_EABORTED, with a message. */
	int (*map)(void *self, struct errand_serve_batch *batch);
	void *self;
};

struct errand_serve_place {
	uint64_t row, k;
};

struct errand_server {
	struct durability *d;
	const struct errand_serve_calls *calls;
	uint64_t limit;  /* of the records of a batch; 0: the usual one */
	uint64_t number; /* of the request that runs, or 0 */
	uint32_t opened; /* control.opened, of the program that asked */
	uint64_t block, block_bytes, rows, done;
	struct media_bulk_row *row;     /* [rows], checked copies; NULL: not read yet */
	uint64_t *first;                /* [rows], the number of each row's first record */
	struct errand_serve_place next; /* the first record of the next batch */
	struct errand_serve_place *places;
	uint64_t most; /* records of a batch */
	bool finished; /* the last batch is mapped */
	struct errand_serve_batch batch;
};

/* Called by a process that has HEAP_LOCK_LAB, before it takes up requests and when it ends:
 * programs map what is not done.  `pid`: this process, or 0 if it ends.  Async-signal-safe. */
void errand_serve_start(struct durability *d, uint64_t pid);

/* Take up a request.  False: there is none. */
bool errand_serve_accept(struct errand_server *o);
/* Does the program still wait for it? */
bool errand_serve_is_wanted(const struct errand_server *o);
/* With the right to replay (INV-OP1).  False: the request is over, or all results are stored. */
bool errand_serve_exchange(struct errand_server *o);
/* Without it.  False: the operator has failed, and the program is told. */
bool errand_serve_map(struct errand_server *o);
/* After errand_serve_exchange() has returned false: make the results durable, and tell the program.
 * Frees all that belongs to the request. */
void errand_serve_end(struct errand_server *o);
/* The process ends, or cannot go on: the program maps all records.  Frees the same. */
void errand_serve_drop(struct errand_server *o);

#endif /* FUR_ERRAND_H */
