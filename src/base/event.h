/* SPDX-License-Identifier: BSD-3-Clause
 *
 * event.h - how a thread sleeps until another one has made a condition true.
 *
 * An event is a 32-bit word beside the condition, zero at first.  What the condition is, only its
 * users know.  The sleeper draws a ticket, looks at the condition once more, and sleeps; the waker
 * makes the condition true, and wakes:
 *
 *     event_await(&event, arch_load32(&done));       arch_store32(&done, 1);
 *                                                    event_wake_all(&event);
 *
 * event_await() is this loop; where the second look is more than an expression, write it out:
 *
 *     while (!condition) {
 *             ticket = event_prepare(&event);        (S1)
 *             if (!condition)                        (S2)
 *                     event_wait(&event, ticket, 0); (S3)
 *     }
 *
 *   INV-EV1  No wake-up is lost.  A thread sleeps only if it has found the condition false after it
 *            drew its ticket; and a thread that makes the condition true wakes after that.
 *
 * Proof.  A wake (W) is one read-modify-write of the word, which changes it, and then, if the word
 * says that a thread may sleep, a system call.  S1 is a read-modify-write of the same word, so one
 * of the two is first.  Both are full fences.
 *   W before S1   The condition was true before W, and S2 looks after S1: S2 finds it true.
 *   S1 before W   The word is no longer the ticket.  If the sleeper is not asleep yet, the kernel
 *                 compares the two in S3, and S3 returns.  If it is, W finds its mark and wakes it;
 *                 or another wake has taken the mark away, and does its own system call after that.
 * What breaks without a part (tests/models/event.pml has each):
 *   no S2, or S2 before S1    W comes between the first look and S1: the ticket is the word as W
 *                             left it, and the thread sleeps although the condition is true
 *   W before the condition    S1 and S2 come between: the same
 *   a plain load in place     the waker may load the word before its store to the condition is
 *   of W                      performed, and find no mark; S1 and S2 come between (see
 *                             event_wake_sleepers())
 *
 * The mark, bit 0, saves the system call while no thread sleeps.  event_wake_one() leaves it,
 * because others may sleep on.  A thread that draws a ticket and does not sleep leaves it too; that
 * costs one vain call.
 *
 * *_shared: for a word that processes share.  It has no mark, and only counts the wakes, as words
 * in a heap file always have: the other process may be of another version.  A ticket is a load.
 * The proof is the same: the order of S1 and S2 is that of an acquire.
 */
#ifndef FUR_EVENT_H
#define FUR_EVENT_H

#include "base/arch.h"

enum { EVENT_MARK = 1, EVENT_COUNT = 2 };

/* S1. */
static inline uint32_t event_prepare(uint32_t *event)
{
	/* A full fence: orders the mark and the ticket before S2. */
	return arch_fetch_or32(event, EVENT_MARK) | EVENT_MARK;
}

/* S3: sleep until a thread has woken since the ticket, for `ns` at most; 0: without limit.  May
 * return early.  Never inside a hardware transaction. */
void event_wait(uint32_t *event, uint32_t ticket, uint64_t ns);

/* The rest of a wake of all, which has found the mark and left `word`. */
void event_call_all(uint32_t *event, uint32_t word);

/* Wake one sleeper: among threads of the same priority, the one that has slept longest. */
static inline void event_wake_one(uint32_t *event)
{
	/* A full fence: orders the caller's condition before the look at the mark. */
	if (unlikely(arch_fetch_add32(event, EVENT_COUNT) & EVENT_MARK))
		arch_futex_wake_one(event);
}

static inline void event_wake_all(uint32_t *event)
{
	/* As in event_wake_one(). */
	const uint32_t was = arch_fetch_add32(event, EVENT_COUNT);
	if (unlikely(was & EVENT_MARK))
		event_call_all(event, was + EVENT_COUNT);
}

/* The same for a caller that has made the condition true by a read-modify-write, a full fence: a
 * wake without sleepers is then a load, and threads that often wake share the word unchanged.
 * S1 is a full fence as well.  So either S2 finds the condition; or this load finds the mark; or
 * another wake has taken the mark away in between: then the word is no longer the ticket, and that
 * wake's system call is still to come, or S3 returns. */
static inline void event_wake_sleepers(uint32_t *event)
{
	/* Ordered: after the caller's read-modify-write (arch.h). */
	if (unlikely(arch_load32_ordered(event) & EVENT_MARK))
		event_wake_all(event);
}

/* Return when the condition holds. */
#define event_await(event, condition)                                                              \
	while (!(condition)) {                                                                     \
		const uint32_t event_ticket = event_prepare(event);                                \
		if (!(condition))                                                                  \
			event_wait(event, event_ticket, 0);                                        \
	}

static inline uint32_t event_prepare_shared(const uint32_t *event)
{
	/* Acquire: orders the ticket before S2. */
	return arch_load32_acquire(event);
}

static inline void event_wait_shared(uint32_t *event, uint32_t ticket, uint64_t ns)
{
	arch_futex_wait_shared(event, ticket, ns);
}

static inline void event_wake_all_shared(uint32_t *event)
{
	/* A full fence: orders the caller's condition before the count. */
	arch_fetch_add32(event, 1);
	arch_futex_wake_all_shared(event);
}

#endif /* FUR_EVENT_H */
