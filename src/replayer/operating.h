/* SPDX-License-Identifier: BSD-3-Clause
 *
 * operating.h - the thread of a replayer that carries out errands (bulk/errand.h), and how it
 * shares the right to replay with the server.
 *
 *   INV-S5  Of the replayer's threads, only the one whose turn it is (struct turns) takes, has and
 *           gives back the right to replay: the lock belongs to the open file, and does not exclude
 *           threads that share it.  Turns come in the order in which threads ask.
 */
#ifndef FUR_OPERATING_H
#define FUR_OPERATING_H

#include "replayer/operators.h"

#include <pthread.h>

struct turns {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	uint64_t taken, served;
};

void turns_take(struct turns *turns);
void turns_give(struct turns *turns);

struct operating {
	struct durability *d;
	struct turns *turns;
	/* errno of a lock call that failed, or 0: then the replayer must end */
	uint32_t *lock_error;
	struct operators *operators;
	struct operate_calls calls;
	struct operate errand;
	uint32_t stopping;
	bool runs;
	pthread_t thread;
};

/* Start the thread.  The caller sets d, turns, lock_error and operators, or leaves operators NULL:
 * then there is no thread, and programs learn that this replayer has no operators.
 * Errors: FUR_ESYS. */
FUR_MUST_USE int operating_start(struct operating *o);

/* End the thread.  False: an operator does not return, so the thread still runs in its code; it
 * stores nothing in the heap any more, but the caller must not free what it uses. */
bool operating_stop(struct operating *o);

#endif /* FUR_OPERATING_H */
