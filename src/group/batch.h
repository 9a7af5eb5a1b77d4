/* SPDX-License-Identifier: BSD-3-Clause
 *
 * batch.h - batches of transactions: the list of those that were submitted (submit.c), and the
 * workers, which run them (batch.c).
 *
 *   INV-GB1  Transactions run in the order of the list: a worker holds `cutting` from when it takes
 *            some off the list until they are visible, and the others back at its front.
 *   INV-GB2  A transaction that was taken ends, whatever becomes of the others: a batch that fails
 *            runs again without the transactions from the one on that failed, and this one then
 *            begins the next batch.  What fails as the first of a batch ends with that error.
 *   INV-GB3  A transaction that refuses or fails has done nothing in any member: what it has stored
 *            is undone with all of its batch.
 */
#ifndef FUR_GROUP_BATCH_H
#define FUR_GROUP_BATCH_H

#include "base/error.h"
#include <fur_group.h>

#include <pthread.h>
#include <sys/types.h>

enum { BATCHES_MOST_WORKERS = 16 };

struct fur_group;

struct submitted_part {
	unsigned member;
	uint32_t after; /* FUR_NO_PART: none */
	fur_group_procedure *procedure;
	void *params, *result; /* in the transaction's memory */
	uint32_t params_bytes, result_bytes;
	void *copy_to; /* the caller's; or NULL */
};

/* A transaction. */
struct fur_submitted {
	struct fur_submitted *next;
	uint32_t holders; /* the worker, and who will wait: the last one frees it */
	uint32_t done;    /* 1: it has ended; set with release */
	uint32_t ended;   /* event: `done` */
	pid_t owner;      /* the process that has submitted it */
	/* How it has ended, if `done`; before, the worker's. */
	int error;
	char *message;   /* or NULL */
	bool refused;    /* in the run of its batch that counts */
	bool may_refuse; /* its first part may */
	unsigned members[FUR_GROUP_MOST_PARTS], n_members;
	unsigned n;
	struct submitted_part parts[];
};

/* Of a group. */
struct group_batches {
	/* Of the options */
	uint32_t most_workers, most_parts, wait_us;
	/* Who stops the workers holds it until they have ended; taken before `mutex`. */
	pthread_mutex_t stopping;
	pthread_mutex_t cutting; /* INV-GB1; taken before `mutex` */
	/* The limit of the next batch, in transactions; protected by `cutting`. */
	uint32_t most_taken;
	/* By member, the most bytes of log that a transaction had lately; as `most_taken`. */
	uint64_t logs[FUR_GROUP_MOST_MEMBERS];
	pthread_mutex_t mutex; /* protects the rest; held for short */
	struct fur_submitted *first, *last;
	uint64_t parts; /* on the list; set under the mutex */
	pthread_t threads[BATCHES_MOST_WORKERS];
	uint32_t workers; /* that run */
	uint32_t stops;   /* 1: they end when the list is empty */
	uint32_t arrived; /* event: `parts`, or `stops` */
};

/* Complete the options, or refuse them.   Errors: FUR_EINVAL. */
FUR_MUST_USE int batches_check_options(struct fur_group_options *o);
void batches_init(struct group_batches *b, const struct fur_group_options *o);

/* Run a worker; called with `mutex` held.   Errors: FUR_ESYS: there is none. */
FUR_MUST_USE int batches_start(struct fur_group *g);

/* Complete what was submitted, and end the workers; submitters wait meanwhile.  Does nothing in a
 * child of fork(), nor inside a transaction on a member: batches may wait for that, and it may be a
 * worker's. */
void batches_stop(struct fur_group *g);

/* Put a member on a list without repetition, of `*n` members.  False: the list is full. */
bool members_add(unsigned members[FUR_GROUP_MOST_PARTS], unsigned *n, unsigned member);

/* Give up one of the two holds. */
void submitted_drop(struct fur_submitted *s);

#endif /* FUR_GROUP_BATCH_H */
