/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy.h - what to do after a hardware abort.  Classify first, then decide: an abort that
 * hardware will repeat must not burn the retry budget, and one that has nothing to do with
 * contention must not count against it.
 *
 * The systems that libfur is measured against do as it does, so that protocols are compared and not
 * their patience.
 */
#ifndef FUR_HTM_POLICY_H
#define FUR_HTM_POLICY_H

#include <fur.h>
#include <stdbool.h>

enum htm_action {
	HTM_RETRY,       /* after a random pause, in which whoever was in the way can finish */
	HTM_RETRY_SOON,  /* after a shorter one: who was in the way had no transaction to finish */
	HTM_WAIT_LOCK,   /* when the lock is free */
	HTM_WAIT_READER, /* when those now active have ended */
	HTM_MAKE_ROOM,   /* when the log has room */
	HTM_TAKE_LOCK    /* no more hardware for this update */
};

struct htm_history {
	uint32_t spent; /* of the budget */
	uint32_t plains, capacities, faults, locks, readers;
};

/* An abort that somebody's access brought about.  To hardware taking the lock is one, too: all have
 * read it. */
static inline bool htm_is_conflict(enum fur_abort_cause cause)
{
	return cause == FUR_ABORT_CONFLICT || cause == FUR_ABORT_PLAIN;
}

/* So many turns of the fallback lock may stand in the way of an update: then it takes one
 * itself. */
enum { HTM_LOCK_TURNS = 200 };

/* What to do after an abort.  Pure but for the history, which it keeps. */
enum htm_action htm_decide(
        enum fur_abort_cause cause, struct htm_history *history, uint32_t budget);

/* Before the next attempt, for the two HTM_RETRY: a random wait, longer each time.  `began`: the
 * attempt that was aborted, in ticks; `who`: a number that no other thread has. */
void htm_pause(
        enum htm_action action, const struct htm_history *history, uint64_t began, uint32_t who);

#endif /* FUR_HTM_POLICY_H */
