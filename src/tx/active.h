/* SPDX-License-Identifier: BSD-3-Clause
 *
 * active.h - which transactions are active, and the waits for them (FUR 3.1).  Only active.c and
 * this header store to active[]; but publish.c has a word there.
 *
 * A read-only transaction is always in active[], and so is an update that runs in software.  A
 * hardware update is in active[] only if its loads are untracked (POWER, snapshot), and only from
 * its begin to its window.
 */
#ifndef FUR_ACTIVE_H
#define FUR_ACTIVE_H

#include "tx/tx.h"

static inline struct active_entry *active_of(const struct fur_thread *t)
{
	return &t->engine->active[t->index];
}

/* active_enter - mark the thread's transaction active, under the thread's next sequence number.
 * Orders:  the store of the entry before everything that follows, by a full fence: before the
 *          transaction's first load (INV-H1), and before its load of the lock (INV-H3).  Otherwise
 *          an update may scan active[], miss us, and commit between two of our loads (plant:
 *          no-reader-fence).
 * Source:  FUR, Algorithm 1, lines 6 and 9, 16 and 18. */
static inline void active_enter(struct active_entry *mine, struct fur_thread *t)
{
	FUR_ASSERT(t->seq & 1);
	arch_store_fence(&mine->seq, t->seq += ACTIVE_STEP);
}

/* The same for an update that runs in software: hardware updates wait for it (INV-SW4), and those
 * that publish in software do not. */
static inline void active_enter_software(struct active_entry *mine, struct fur_thread *t)
{
	FUR_ASSERT((t->seq & (ACTIVE_STEP - 1)) == 1);
	arch_store_fence(&mine->seq, (t->seq += ACTIVE_STEP) | ACTIVE_SOFTWARE);
}

/* active_leave - mark the thread's transaction no longer active.
 * Orders:  its loads, and its scan of nondurable[], before the store that empties the entry, and
 *          before all later loads, by one light fence (free on x86; lwsync on POWER; dmb ishld and
 *          dmb ishst on aarch64).  If the entry became empty before the scan, an update that waits
 *          for us could announce itself in between, and we would wait for it in turn.  If the
 *          caller's next load, of `failed`, were performed before the scan, an update from which we
 *          have read could fail and leave nondurable[] in between.  Then it would not be in our
 *          set, and we would return as if it were durable.
 * Source:  FUR, Algorithm 1, lines 24, 28 and 51. */
static inline void active_leave(struct active_entry *mine)
{
	arch_fence_light();
	arch_store_fenced(&mine->seq, 0);
}

/* Must an update that becomes visible wait for this transaction?  One that publishes in software
 * need not wait for bodies in software: stamps and values tell these (INV-SW1, INV-SW2). */
static inline bool active_matters(uint64_t seq, bool publishing)
{
	return seq != 0 && !(publishing && (seq & ACTIVE_SOFTWARE));
}

/* Is any transaction active that matters?  The caller's hardware transaction tracks these loads. */
static inline bool active_any(const struct engine *e, bool publishing)
{
	uint64_t limit = arch_load(&e->durability->limit), i = 0;
	arch_overlap_begin();
	while (i < limit && !active_matters(arch_load(&e->active[i].seq), publishing))
		i++;
	arch_overlap_end();
	return i < limit;
}

/* Is an update in software active?  A hint: the caller does not rely on the order of the loads. */
bool active_any_software(const struct engine *e);

/* active_wait_inside - the isolation wait of INV-H2, inside a window: wait until the transactions
 * that are active now have ended.  Looks at most `looks` times.  False: one has not ended.
 * Orders:  nothing.  The caller has a full fence between its last store and this call.
 * Source:  FUR, Algorithm 1, lines 40 to 44. */
bool active_wait_inside(const struct engine *e, struct commit_window *w, unsigned looks);

/* active_wait_outside - the same wait outside hardware transactions, where the thread may yield and
 * sleep.  Reports slow readers, and does not wait for thread `me`, nor for software bodies if the
 * caller is publishing.
 * Orders:  all accesses of those transactions before the caller's later accesses (acquire).
 *          Otherwise the caller's stores could reach a transaction that it takes for ended. */
void active_wait_outside(struct engine *e, uint32_t me, bool publishing);

/* active_drain - wait until the readers that are active now have ended, but no longer than `most`
 * ticks; found->bodies, found->met: as for readers_shut_out().  The caller has set `shut`, so no
 * reader begins.
 * Orders:  as active_wait_outside().
 * Returns: false: a reader is still active. */
FUR_MUST_USE bool active_drain(
        struct engine *e, uint32_t me, uint64_t most, struct shut_out *found);

/* ------------------------------------------------------ how old readers are */

/* active_poll - the read-only transactions that are active, and the age of the oldest.  A reader
 * does not record when it begins, because that would cost it a look at the clock.  So this function
 * compares each sequence number with the one that the last call found there.  An age is the time
 * since the call that found the transaction first, and so at most the true age.  One thread at a
 * time may call this.
 * Orders:  nothing. */
struct active_ages {
	uint64_t readers, oldest_ns;
};
struct active_ages active_poll(struct engine *e);

/* ------------------------------------- threads that wait until `shut` is reset */

/* Record that this thread waits.  `since`: when a reader began to wait, in ticks; 0 for an update
 * that will try hardware. */
static inline void active_note_wait(
        struct active_entry *mine, const struct engine *e, uint64_t since)
{
	arch_store(&mine->since, since);
	/* Release: a thread that sees `want` sees the `since` that goes with it. */
	arch_store_release(&mine->want, 1 + arch_load(&e->lock.releases));
}

/* Record that the thread no longer waits. */
static inline void active_clear_wait(struct active_entry *mine)
{
	if (unlikely(arch_load(&mine->want) != 0))
		arch_store_release(&mine->want, 0);
}

/* 0, or 1 + the lock's turn at which the thread began to wait.  Acquire: orders this load before
 * that of active_waits_since(). */
static inline uint64_t active_wants(const struct active_entry *a)
{
	return arch_load_acquire(&a->want);
}

static inline uint64_t active_waits_since(const struct active_entry *a)
{
	return arch_load(&a->since);
}

#endif /* FUR_ACTIVE_H */
