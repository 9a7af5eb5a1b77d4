/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stm.h - PIM-TIDE's concurrency control (its Algorithm 3), as published and mended.
 *
 * Words lie in the module's memory; each has a lock in the scratchpad, and words share locks.  A
 * writer takes the lock, logs the old words, and stores in place.  A free lock holds the clock
 * of the commit that has stored last; a reader takes no lock, and accepts a word whose lock is
 * no newer than its begin, before and after the transfer.
 *
 * Distributed parts commit in the order of their ranks.  Of two that want a lock, the one with the
 * larger rank rolls back, and runs again with the same rank.  Local transactions roll back
 * themselves when they meet a lock.
 *
 *   INV-TD2  A part commits when the clock is its rank, and not before.  It validates then, whether
 *            it has stored anything or not: no other part can commit meanwhile.  A part that holds
 *            the locks of all that it has read has no need to.
 *   INV-TD3  It publishes what it has stored before it moves the clock, and moves it only when it
 *            commits: the part with the next rank reads all of it, or waits.
 *   INV-TD4  A part that fails its validation keeps its rank, and the clock stands until it has
 *            committed.
 *
 * As printed, a part moves the clock first.  If it has only read, it does not validate at all,
 * and if it fails, the next one has its turn already.  `printed` keeps that, to show it (INV-TD2
 * to INV-TD4 do not hold then).
 *
 * The tests compile plants into this file: PLANT_HOLDS and PLANT_TAKESNEW break INV-TD2.
 */
#ifndef LAB_TIDE_STM_H
#define LAB_TIDE_STM_H

#include "tide.h"

#include <stdbool.h>
#if !defined(__riscv)
#include <sched.h>
#endif

#define TIDE_HELD UINT32_MAX /* the transaction has had the lock before */

enum {
	TIDE_OWNED = 16,
	TIDE_PART = 16, /* of a log of reads, which is read at once */
};

struct tide_tx {
	struct tide_shared *s;
	uint32_t me, begin; /* the tasklet, and the clock when the transaction began */
	uint32_t random;    /* state of draw() */
	uint32_t at_clock;  /* of a distributed part: it commits then */
	bool distributed;
	near_address read_log, write_log;
	uint32_t reads, writes; /* logged */
	uint32_t owned;         /* locks that it has taken; the first of them: */
	uint16_t first_owned[TIDE_OWNED];
	uint32_t logged[2] NEAR_ALIGN; /* the last reads, which are logged two at a time */
};

/* Words of the scratchpad that several tasklets use.  A DPU's loads and stores are in order. */
#if defined(__riscv)
static inline uint32_t tide_load(const uint32_t *p)
{
	return *(const volatile uint32_t *)p;
}
static inline void tide_store(uint32_t *p, uint32_t value)
{
	*(volatile uint32_t *)p = value;
}
static inline void tide_pause(void) {}
static inline void tide_guard(near_address at, bool take)
{
	(void)at, (void)take;
}
#else
static inline uint32_t tide_load(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
static inline void tide_store(uint32_t *p, uint32_t value)
{
	__atomic_store_n(p, value, __ATOMIC_SEQ_CST);
}
/* The one that is waited for may need the processor. */
static inline void tide_pause(void)
{
	sched_yield();
}
/* A transfer of 8 bytes is one step in a DPU.  Between threads it is a race of bytes, which a
 * sanitizer reports, unless a lock makes it a step. */
static inline void tide_guard(near_address at, bool take)
{
	const uint32_t bit = 128 + (at >> 3) % 128;
	if (take)
		near_acquire(bit);
	else
		near_release(bit);
}
#endif

/* A free lock: the clock of the last commit, and how often it has been rolled back since, so that a
 * reader notices a writer that has come and gone.  A taken one: its tasklet, and bit 0. */
static inline uint32_t tide_free_lock(uint32_t clock)
{
	return clock << 7;
}
static inline uint32_t tide_clock_of(uint32_t lock)
{
	return lock >> 7;
}
static inline bool tide_taken(uint32_t lock)
{
	return lock & 1;
}
static inline uint32_t tide_rolled_back(uint32_t lock)
{
	return (lock & ~126u) | ((lock + 2) & 126u);
}
static inline uint32_t *tide_lock_of(const struct tide_tx *tx, near_address at)
{
	return &tx->s->locks[(at >> 3) % TIDE_LOCKS];
}
static inline uint32_t tide_mine(const struct tide_tx *tx)
{
	return tx->me << 1 | 1;
}

/* A DPU has no compare-and-swap; its bits of locks make one (section 3.3 of the paper). */
static bool tide_take(uint32_t *lock, uint32_t index, uint32_t was, uint32_t now)
{
	const uint32_t bit = 1 + index % 64;
	near_acquire(bit);
	const bool same = tide_load(lock) == was;
	if (same)
		tide_store(lock, now);
	near_release(bit);
	return same;
}

static uint32_t tide_move_clock(struct tide_shared *s)
{
	near_acquire(0);
	const uint32_t now = tide_load(&s->clock) + 1;
	tide_store(&s->clock, now);
	near_release(0);
	return now;
}

static void tide_read_pair(uint32_t *pair, near_address at)
{
	tide_guard(at, true);
	near_local_read(pair, at, 8);
	tide_guard(at, false);
}

static void tide_write_pair(near_address at, const uint32_t *pair)
{
	tide_guard(at, true);
	near_local_write(at, pair, 8);
	tide_guard(at, false);
}

/* ----------------------------------------------------------------- conflicts */

static void tide_start(struct tide_tx *tx)
{
	struct tide_shared *s = tx->s;
	tide_store(&s->aborted[tx->me], 0);
	tide_store(&s->at_clock[tx->me], tx->at_clock);
	tx->reads = tx->writes = tx->owned = 0;
	tx->begin = tide_load(&s->clock);
}

/* Has a part with a smaller rank asked this one to roll back? */
static inline bool tide_aborted(const struct tide_tx *tx)
{
	return tx->distributed && tide_load(&tx->s->aborted[tx->me]) == tx->at_clock + 1;
}

/* Of this transaction and the lock's owner: which rolls back?  If it is the other one, it is
 * told. */
static bool tide_gives_way(const struct tide_tx *tx, uint32_t lock)
{
	struct tide_shared *s = tx->s;
	const uint32_t owner = lock >> 1;
	if (!tx->distributed)
		return true;
	const uint32_t others = tide_load(&s->at_clock[owner]);
	if (tx->at_clock > others)
		return true;
	tide_store(&s->aborted[owner], others + 1);
	tide_pause();
	return false;
}

/* ----------------------------------------------------------------- reads and writes
 *
 * False: the transaction has to roll back, and its body returns at once. */

static void tide_log_read(struct tide_tx *tx, uint32_t index)
{
	if (tx->reads == TIDE_READS)
		near_fault(TIDE_FAULT_READS);
	tx->logged[tx->reads & 1] = index;
	tx->reads++;
	if (!(tx->reads & 1))
		near_local_write(tx->read_log + (tx->reads - 2) * 4, tx->logged, 8);
}

static bool tide_read(struct tide_tx *tx, near_address at, uint32_t *value)
{
	const uint32_t *lock = tide_lock_of(tx, at);
	uint32_t pair[2] NEAR_ALIGN;
	uint32_t after = tide_load(lock);
	if (after == tide_mine(tx)) {
		tide_read_pair(pair, at & ~7u);
		*value = pair[at >> 2 & 1];
		return true;
	}
	do {
		if (tide_aborted(tx))
			return false;
		const uint32_t before = tide_load(lock);
		after = before;
		if (tide_taken(before))
			continue;
		tide_read_pair(pair, at & ~7u);
		after = tide_load(lock);
		if (after == before && tide_clock_of(before) <= tx->begin) {
			tide_log_read(tx, (at >> 3) % TIDE_LOCKS);
			*value = pair[at >> 2 & 1];
			return true;
		}
	} while (tide_taken(after) && !tide_gives_way(tx, after));
	return false;
}

static near_address tide_undo_of(const struct tide_tx *tx, uint32_t entry)
{
	return tx->write_log + entry * sizeof(struct tide_undo);
}

/* Take the lock of the word.  *was: the lock before, or TIDE_HELD. */
static bool tide_own(struct tide_tx *tx, near_address at, uint32_t *was)
{
	uint32_t *lock = tide_lock_of(tx, at);
	*was = TIDE_HELD;
	if (tide_load(lock) == tide_mine(tx))
		return true;
	for (;;) {
		if (tide_aborted(tx))
			return false;
		*was = tide_load(lock);
		if (tide_taken(*was)) {
			if (tide_gives_way(tx, *was))
				return false;
		} else if (tide_take(lock, at >> 3, *was, tide_mine(tx))) {
			if (tx->owned < TIDE_OWNED)
				tx->first_owned[tx->owned] = (at >> 3) % TIDE_LOCKS;
			tx->owned++;
			return true;
		}
	}
}

static bool tide_write(struct tide_tx *tx, near_address at, uint32_t value)
{
	struct tide_undo undo NEAR_ALIGN;
	if (tx->writes == TIDE_WRITES)
		near_fault(TIDE_FAULT_WRITES);
	if (!tide_own(tx, at, &undo.lock))
		return false;
	undo.at = at & ~7u;
	tide_read_pair(undo.pair, undo.at);
	near_local_write(tide_undo_of(tx, tx->writes), &undo, sizeof undo);
	tx->writes++;
#ifndef PLANT_TAKESNEW
	/* Somebody has stored to it since the begin: what was read may be older. */
	if (undo.lock != TIDE_HELD && tide_clock_of(undo.lock) > tx->begin)
		return false;
#endif
	undo.pair[at >> 2 & 1] = value;
	tide_write_pair(undo.at, undo.pair);
	return true;
}

/* ----------------------------------------------------------------- the end */

/* Restore the words, the latest store first, so that a word that was stored to twice is as it was;
 * a lock is given back where it was taken, when all words under it are restored. */
static void tide_roll_back(struct tide_tx *tx)
{
	struct tide_undo undo NEAR_ALIGN;
	while (tx->writes) {
		near_local_read(&undo, tide_undo_of(tx, --tx->writes), sizeof undo);
		tide_write_pair(undo.at, undo.pair);
		if (undo.lock != TIDE_HELD)
			tide_store(tide_lock_of(tx, undo.at), tide_rolled_back(undo.lock));
	}
}

/* Give the locks back, with the clock of this commit.  Others wait for their turns meanwhile: the
 * log, in the memory, is read only if there are many. */
static void tide_publish(const struct tide_tx *tx, uint32_t clock)
{
	struct tide_undo undo NEAR_ALIGN;
	const uint32_t lock = tide_free_lock(clock);
	for (uint32_t k = 0; k < tx->owned && k < TIDE_OWNED; k++)
		tide_store(&tx->s->locks[tx->first_owned[k]], lock);
	/* Not those again: others may have taken them. */
	for (uint32_t k = 0, owned = 0; owned < tx->owned && tx->owned > TIDE_OWNED; k++) {
		near_local_read(&undo, tide_undo_of(tx, k), sizeof undo);
		if (undo.lock != TIDE_HELD && ++owned > TIDE_OWNED)
			tide_store(tide_lock_of(tx, undo.at), lock);
	}
}

/* Is a word that was read still the one that was read?  `in_turn`: all parts with smaller ranks
 * have committed, so another owner of the lock has a larger one, and is told to go. */
static bool tide_holds(const struct tide_tx *tx, uint32_t index, bool in_turn)
{
	const uint32_t *lock = &tx->s->locks[index];
	uint32_t now;
	while (tide_taken(now = tide_load(lock))) {
		if (now == tide_mine(tx)) /* it was no newer when it was taken */
			return true;
		if (!in_turn || tide_gives_way(tx, now))
			return false;
	}
	return tide_clock_of(now) <= tx->begin;
}

/* The lock of the k-th read, from 0 on; `part` has the part of the log that k is in. */
static inline uint32_t tide_logged(const struct tide_tx *tx, uint32_t k, uint32_t *part)
{
	if (k % TIDE_PART == 0)
		near_local_read(part, tx->read_log + k * 4, TIDE_PART * sizeof *part);
	const bool last = (tx->reads & 1) && k == tx->reads - 1;
	return last ? tx->logged[0] : part[k % TIDE_PART];
}

static bool tide_validate(const struct tide_tx *tx, bool in_turn)
{
	uint32_t part[TIDE_PART] NEAR_ALIGN;
	for (uint32_t k = 0; k < tx->reads; k++)
		if (!tide_holds(tx, tide_logged(tx, k, part), in_turn))
			return false;
	return true;
}

/* Does it hold the locks of all that it has read?  Each was no newer than the begin when it was
 * taken, and no other stores under it meanwhile: nothing is left to validate.  Asked while others
 * have their turns, so that the part's own turn is shorter. */
__attribute__((noinline)) static bool tide_holds_all(const struct tide_tx *tx)
{
#ifdef PLANT_HOLDS
	if (tx->owned) /* of any */
		return true;
#endif
	uint32_t part[TIDE_PART] NEAR_ALIGN;
	for (uint32_t k = 0; k < tx->reads; k++)
		if (tide_load(&tx->s->locks[tide_logged(tx, k, part)]) != tide_mine(tx))
			return false;
	return true;
}

static bool tide_wait_for_turn(const struct tide_tx *tx)
{
	while (tide_load(&tx->s->clock) < tx->at_clock) {
		if (tide_aborted(tx))
			return false;
		tide_pause();
	}
	return true;
}

/* INV-TD2, INV-TD3, INV-TD4.  What was read is as it was if no part that has stored anything has
 * committed since the begin.  *turn: of struct tide_result. */
static bool tide_commit_part(struct tide_tx *tx, uint32_t *turn)
{
	struct tide_shared *s = tx->s;
	const bool holds_all = tide_load(&s->clock) < tx->at_clock && tide_holds_all(tx);
	if (!tide_wait_for_turn(tx))
		return false;
	if (!holds_all && tide_load(&s->last_store) > tx->begin && !tide_validate(tx, true))
		return false;
	*turn = tx->at_clock + 1;
	tide_publish(tx, *turn);
	if (tx->writes)
		tide_store(&s->last_store, *turn);
	tide_store(&s->clock, *turn);
	return true;
}

/* TinySTM's: the locks are held until the versions are published, so the clock may move first. */
static bool tide_commit_local(struct tide_tx *tx, uint32_t *turn)
{
	*turn = tx->begin;
	if (!tx->writes)
		return true;
	const uint32_t now = tide_move_clock(tx->s);
	if (now > tx->begin + 1 && !tide_validate(tx, false))
		return false;
	*turn = now;
	tide_publish(tx, now);
	return true;
}

/* Algorithm 3, lines 48 to 59. */
static bool tide_commit_printed(struct tide_tx *tx, uint32_t *turn)
{
	if (tx->distributed && !tide_wait_for_turn(tx))
		return false;
	*turn = tide_move_clock(tx->s);
	if (!tx->writes)
		return true;
	if (*turn > tx->begin + 1 && !tide_validate(tx, false))
		return false;
	tide_publish(tx, *turn);
	return true;
}

static bool tide_commit(struct tide_tx *tx, uint32_t *turn)
{
	if (tx->s->printed)
		return tide_commit_printed(tx, turn);
	return tx->distributed ? tide_commit_part(tx, turn) : tide_commit_local(tx, turn);
}

#endif /* LAB_TIDE_STM_H */
