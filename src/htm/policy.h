/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy.h - the decision after a hardware abort.  Classify first, then decide: an abort that
 * hardware will repeat must not burn the retry budget, and an abort without contention must not
 * count against it.
 *
 * The baselines use this policy too, so that benchmarks compare protocols and not retry budgets.
 */
#ifndef FUR_HTM_POLICY_H
#define FUR_HTM_POLICY_H

#include <fur.h>
#include <stdbool.h>

enum htm_action {
	HTM_RETRY,       /* after a random pause, in which the other transaction can finish */
	HTM_RETRY_SOON,  /* after a shorter one: the other thread had no transaction to finish */
	HTM_WAIT_LOCK,   /* retry when `shut` is reset */
	HTM_WAIT_READER, /* retry when the transactions that are active now have ended */
	HTM_MAKE_ROOM,   /* retry when the log has room */
	HTM_TAKE_LOCK    /* no more hardware for this update */
};

struct htm_history {
	uint32_t spent; /* of the budget */
	uint32_t plains, capacities, faults, locks, readers;
};

/* Did another thread's access cause the abort?  Hardware also reports a conflict when a thread
 * takes the lock, because every transaction has read the lock. */
static inline bool htm_is_conflict(enum fur_abort_cause cause)
{
	return cause == FUR_ABORT_CONFLICT || cause == FUR_ABORT_PLAIN;
}

/* Decide what to do after an abort.  Updates the history, and has no other side effect. */
enum htm_action htm_decide(
        enum fur_abort_cause cause, struct htm_history *history, uint32_t budget);

/* Wait before the next attempt, for HTM_RETRY and HTM_RETRY_SOON.  The wait is random, and grows
 * with each attempt.  `began`: when the aborted attempt began, in ticks; `who`: a number that no
 * other thread has. */
void htm_pause(
        enum htm_action action, const struct htm_history *history, uint64_t began, uint32_t who);

#endif /* FUR_HTM_POLICY_H */
