/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock.c - the single global lock (SGL), under which an update runs in place when hardware will not have it.
 *
 * Updates queue in order of arrival.  Readers are let in between two holders: a reader that found the lock held writes down the turn
 * in active[i].want; after FAIR_TURNS turns the next holder lets it become active first.  So neither side starves.
 *
 * INV-H3, three sides:
 *  - Readers, and updates that appear in active[]: the holder sets `held`, then scans active[]; they publish active[i], then look at
 *    `held`.  With a full fence between the two on either side, one of them sees the other.
 *  - Hardware updates with tracked loads: they have `held` in their read set from the start, so setting it aborts them.
 *  - Rollback-only updates (POWER, snapshot): theirs is argued in docs/protocol.md, "The lock and rollback-only transactions".
 */
#include "htm.h"

enum { FAIR_TURNS = 4 };

/* Sleep through one turn of the lock at most. */
static void sleep_a_turn(struct fallback_lock *l, uint64_t *word, uint64_t while_value)
{
	uint32_t turn = __atomic_load_n(&l->turn, __ATOMIC_ACQUIRE);
	/* The count is raised, with a full fence, before *word is looked at again; lock_release() changes *word before it looks at
	 * the count.  So either we see the change, or it sees us and wakes us. */
	arch_fetch_add(&l->sleepers, 1);
	if (arch_load_acquire(word) == while_value)
		arch_futex_wait(&l->turn, turn);
	arch_fetch_add(&l->sleepers, (uint64_t)-1);
}

/* One look further: spin, then sleep. */
static void wait_a_turn(struct fallback_lock *l, unsigned look, unsigned spins, uint64_t *word, uint64_t while_value)
{
	if (look < spins)
		arch_pause();
	else
		sleep_a_turn(l, word, while_value);
}

/* In pauses.  Who is next for the lock stays awake about as long as waking up takes, which is the most that can be lost either way: if it
 * slept sooner, updates of some 10 us each would run at the pace of wake-ups (TPC-C on 2 threads: 28,000 a second, not 76,000).  The
 * others soon sleep: with more threads than cores, the holder needs theirs. */
enum { SPINS = 300, SPINS_NEXT = 3000 };

void lock_wait_free(struct htm *h)
{
	for (unsigned k = 0; lock_held(h); k++)
		wait_a_turn(&h->lock, k, SPINS, &h->lock.held, 1);
}

void lock_wait_reader(struct htm *h, uint32_t me)
{
	struct active *mine = &h->active[me];
	if (arch_load(&mine->want) == 0)
		arch_store(&mine->want, 1 + (uint64_t)__atomic_load_n(&h->lock.turn, __ATOMIC_RELAXED));
	lock_wait_free(h);
}

/* Let readers in who have waited too long. */
static void admit_readers(struct htm *h, uint32_t me)
{
	uint64_t limit = arch_load(&h->durability->limit);
	for (uint32_t i = 0; i < limit; i++) {
		struct arch_backoff backoff = {0};
		uint64_t want;
		while (i != me && (want = arch_load(&h->active[i].want)) && h->lock.turn + 1 - (uint32_t)want >= FAIR_TURNS)
			arch_backoff(&backoff);
	}
}

void lock_acquire(struct htm *h, uint32_t me)
{
	struct fallback_lock *l = &h->lock;
	uint64_t ticket = arch_fetch_add(&l->next, 1), serving, before = 0;
	for (unsigned k = 0; (serving = arch_load_acquire(&l->serving)) != ticket; k++) {
		if (serving != before)
			k = 0; /* one place further */
		before = serving;
		wait_a_turn(l, k, ticket - serving == 1 ? SPINS_NEXT : SPINS, &l->serving, serving);
	}
	admit_readers(h, me);
	/* `held` is seen before active[] is scanned.  Without the fence the scan may pass a reader that does not see the lock
	 * either, and that reader reads the body's stores half done: Stress.TornReads. */
	arch_store_fence(&l->held, 1);
	htm_wait_active(h, me);
}

void lock_release(struct htm *h)
{
	struct fallback_lock *l = &h->lock;
	/* Release: who sees the lock free sees the body's stores, and nondurable[] (INV-D1). */
	arch_store_release(&l->held, 0);
	arch_store_release(&l->serving, arch_load(&l->serving) + 1);
	/* Full fence, by the sequentially consistent pair: `held` and `serving` before `sleepers`, see sleep_a_turn(). */
	__atomic_fetch_add(&l->turn, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&l->sleepers, __ATOMIC_SEQ_CST))
		arch_futex_wake_all(&l->turn);
}
