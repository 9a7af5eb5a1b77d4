/* SPDX-License-Identifier: BSD-3-Clause
 *
 * active.h - which transactions are active, and the waits for them (FUR 3.1).  active.c and this
 * header are the only code that touches active[].
 *
 * Read-only transactions are in active[] always.  Updates are only where their loads are untracked
 * (POWER, snapshot), and then only from their begin to the window.
 */
#ifndef FUR_ACTIVE_H
#define FUR_ACTIVE_H

#include "htm/htm.h"

static inline struct active *active_of(const struct fur_thread *t)
{
	return &t->htm->active[t->index];
}

/* active_enter - a transaction is active from now on, with the next of the thread's sequence
 * numbers.
 * Orders:  the entry before everything that follows, by a full fence (INV-H1): the first load of
 *          the transaction, and its look at the lock (INV-H3).  Otherwise an update may scan
 *          active[], miss us, and commit between two of our loads (plant: no-reader-fence).
 * Source:  FUR, Algorithm 1, lines 6 and 9, 16 and 18. */
static inline void active_enter(struct active *mine, struct fur_thread *t)
{
	FUR_ASSERT(t->seq & 1);
	arch_store_fence(&mine->seq, t->seq += 2);
}

/* active_leave - a transaction is not active any more.
 * Orders:  its loads, and its scan of nondurable[], before the entry is empty, and before all later
 *          loads, by one light fence (free on x86; lwsync on POWER).  If it left before the scan,
 *          an update that waits for us could announce itself between the two, and we would wait
 *          for it in turn.  If the load of `failed` that follows went before the scan, an update
 *          that we have read could fail and leave nondurable[] in between: not in our set, it
 *          would let us return as if it were durable.
 * Source:  FUR, Algorithm 1, lines 24, 28 and 51. */
static inline void active_leave(struct active *mine)
{
	arch_fence_light();
	arch_store(&mine->seq, 0);
}

/* Is any transaction active?  Every load is one of the hardware transaction's that calls this. */
static inline bool active_any(const struct htm *h)
{
	uint64_t limit = arch_load(&h->durability->limit);
	for (uint32_t i = 0; i < limit; i++)
		if (arch_load(&h->active[i].seq))
			return true;
	return false;
}

/* active_wait_inside - the isolation wait of INV-H2, inside a window: wait until the transactions
 * that are active now have ended, for at most `looks` looks.  False: one has not.
 * Orders:  nothing.  The caller has put a full fence between its last store and this.
 * Source:  FUR, Algorithm 1, lines 40 to 44. */
bool active_wait_inside(const struct htm *h, struct htm_window *w, unsigned looks);

/* active_wait_outside - the same outside hardware transactions, where it may yield and sleep;
 * reports slow readers.  Does not wait for thread `me`.
 * Orders:  all that those transactions did before the caller's later accesses (acquire). */
void active_wait_outside(struct htm *h, uint32_t me);

/* ------------------------------------- threads that wait until the lock is free */

/* Write down since when this thread waits: for a reader in ticks, for an update that will try
 * hardware 0. */
static inline void active_note_wait(struct active *mine, const struct htm *h, uint64_t since)
{
	arch_store(&mine->since, since);
	/* Release: a thread that sees `want` sees the `since` that goes with it. */
	arch_store_release(&mine->want, 1 + arch_load(&h->lock.turn));
}

/* The thread does not wait any more. */
static inline void active_clear_wait(struct active *mine)
{
	if (unlikely(arch_load(&mine->want) != 0))
		arch_store_release(&mine->want, 0);
}

/* 0, or 1 + the lock's turn since which a thread waits.  Acquire: before active_waits_since(). */
static inline uint64_t active_wants(const struct active *a)
{
	return arch_load_acquire(&a->want);
}

static inline uint64_t active_waits_since(const struct active *a)
{
	return arch_load(&a->since);
}

#endif /* FUR_ACTIVE_H */
