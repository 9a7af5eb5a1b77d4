/* SPDX-License-Identifier: BSD-3-Clause
 *
 * claims.c - the table of record locks (claims.h): join the queue at its end, move down slot by
 * slot, hold slot 0, leave it.
 *
 * There is no fence of its own here.  Every change of a slot is a read-modify-write, and so a full
 * fence (arch.h):
 *   - the compare-and-swap into slot 0 comes before the accesses to the record.  Without that, the
 *     owner would read the record as it was before the last owner's stores.  Pairs with empty();
 *   - empty() comes after the accesses to the record, for the same reason;
 *   - a waiter is seen in the slot in front before it is missed in its own (INV-CL2).  Pairs with
 *     the acquiring loads of find_end().
 */
#include "claims/claims.h"
#include "base/error.h"

#include <sched.h>
#include <string.h>

enum {
	LAST = CLAIMS_SLOTS - 1,
	MARK = 1, /* a thread sleeps until the slot is empty (INV-CL3) */
};

/* Of a wait.  A claim is held for less than a microsecond or for a whole batch. */
enum { SPINS = 100, YIELDS = 4 };

/* How many lines claims_take_batch() requests ahead. */
enum { AHEAD = 8 };

static uint64_t owner_in(uint64_t word)
{
	return word & ~(uint64_t)MARK;
}

static uint64_t *slots_of(const struct claims *c, uint64_t bucket)
{
	FUR_ASSERT(bucket >> c->buckets_log2 == 0);
	return (uint64_t *)((uintptr_t)(c + 1) + (bucket << c->stride_log2));
}

static unsigned stride_log2(void)
{
	return ARCH_FLUSH_LINE > CLAIMS_SLOTS * sizeof(uint64_t) ? 7 : 6;
}

size_t claims_bytes(unsigned buckets_log2)
{
	FUR_ASSERT(buckets_log2 >= 1 && buckets_log2 <= CLAIMS_MOST_LOG2);
	return sizeof(struct claims) + ((size_t)1 << (buckets_log2 + stride_log2()));
}

void claims_format(struct claims *c, unsigned buckets_log2)
{
	memset(c, 0, claims_bytes(buckets_log2));
	c->buckets_log2 = buckets_log2;
	c->stride_log2 = stride_log2();
}

/* The record's low bits choose the bucket, turned by a hash of the others.  So records at a
 * distance of 2^k do not meet in a few buckets.  The factor is 2^64 over the golden ratio. */
uint64_t claims_hash(const struct claims *c, uint64_t record)
{
	unsigned k = (unsigned)c->buckets_log2;
	uint64_t turn = (record >> k) * 0x9e3779b97f4a7c15u >> (64 - k);
	return (record ^ turn) & (((uint64_t)1 << k) - 1);
}

/* ---------------------------------------------------------------------- waiting */

static void wake(uint64_t *slot)
{
	arch_futex_wake_all_shared(arch_futex_of(slot));
}

/* Empty a slot that is the caller's, and wake its sleepers (INV-CL3).  An exchange, because a mark
 * that comes between a look and a store would be lost, and its thread would sleep forever. */
static void empty(uint64_t *slot)
{
	if (unlikely(arch_exchange(slot, 0) & MARK))
		wake(slot);
}

/* Sleep while the slot is occupied.  The futex compares the half that has the mark: it sleeps only
 * if the thread that will empty the slot can still see the mark.  The owner may have changed
 * meanwhile, but then that one sees it. */
static void sleep_on(uint64_t *slot)
{
	uint64_t was = arch_load(slot);
	if (was && (was & MARK || arch_cas(slot, was, was | MARK)))
		arch_futex_wait_shared(arch_futex_of(slot), (uint32_t)(was | MARK), 0);
}

/* Wait until the slot has been empty at one moment.  A relaxed load is enough: the caller goes on
 * with a compare-and-swap of the same slot. */
static void wait_until_empty(uint64_t *slot)
{
	for (unsigned turn = 0; arch_load(slot); turn++) {
		if (turn < SPINS)
			arch_pause();
		else if (turn < SPINS + YIELDS)
			sched_yield();
		else
			sleep_on(slot);
	}
}

/* -------------------------------------------------------------------- the queue */

/* The slot behind the last occupied one; CLAIMS_SLOTS if the bucket is full.  Against the direction
 * in which waiters move (INV-CL2).  Acquire: a load that finds a slot just left is followed by one
 * that finds the waiter in front.  Otherwise the newcomer would get in before that waiter. */
static unsigned find_end(const uint64_t *slot)
{
	unsigned end = CLAIMS_SLOTS;
	while (end && !arch_load_acquire(&slot[end - 1]))
		end--;
	return end;
}

/* Returns the slot in which the owner now is. */
static unsigned join(uint64_t *slot, uint64_t owner)
{
	for (;;) {
		unsigned end = find_end(slot);
		if (end == CLAIMS_SLOTS)
			wait_until_empty(&slot[LAST]);
		else if (arch_cas(&slot[end], 0, owner))
			return end;
	}
}

/* Move from slot `at` to the one in front (INV-CL2).  The compare-and-swap fails if a newcomer that
 * looked while the slot was still the last one has taken it; then that one is served first. */
static void move_down(uint64_t *slot, unsigned at, uint64_t owner)
{
	do {
		wait_until_empty(&slot[at - 1]);
	} while (!arch_cas(&slot[at - 1], 0, owner));
	empty(&slot[at]);
}

enum claims_answer claims_try(struct claims *c, uint64_t bucket, uint64_t owner)
{
	uint64_t *slot = slots_of(c, bucket);
	if (find_end(slot) == 0)
		return arch_cas(&slot[0], 0, owner) ? CLAIMS_TAKEN : CLAIMS_BUSY;
	return owner_in(arch_load(&slot[0])) == owner ? CLAIMS_HELD : CLAIMS_BUSY;
}

enum claims_answer claims_take(struct claims *c, uint64_t bucket, uint64_t owner)
{
	FUR_ASSERT(claims_process_of(owner) && !(owner & MARK));
	uint64_t *slot = slots_of(c, bucket);
	/* Relaxed: only the caller puts this owner there, and takes it away. */
	if (owner_in(arch_load(&slot[0])) == owner)
		return CLAIMS_HELD;
	for (unsigned at = join(slot, owner); at; at--)
		move_down(slot, at, owner);
	return CLAIMS_TAKEN;
}

void claims_release(struct claims *c, uint64_t bucket, uint64_t owner)
{
	uint64_t *slot = slots_of(c, bucket);
	FUR_ASSERT(owner_in(arch_load(&slot[0])) == owner); /* INV-CL1 */
	(void)owner;
	empty(&slot[0]);
}

/* ---------------------------------------------------------------------- batches */

void claims_take_batch(struct claims *c, const uint64_t *buckets, size_t n, uint64_t owner)
{
	for (size_t k = 0; k < n && k < AHEAD; k++)
		arch_prefetch_to_write(slots_of(c, buckets[k]));
	for (size_t k = 0; k < n; k++) {
		if (k + AHEAD < n)
			arch_prefetch_to_write(slots_of(c, buckets[k + AHEAD]));
		FUR_ASSERT(k == 0 || buckets[k - 1] < buckets[k]);
		enum claims_answer answer = claims_take(c, buckets[k], owner);
		FUR_ASSERT(answer == CLAIMS_TAKEN);
		(void)answer;
	}
}

void claims_release_batch(struct claims *c, const uint64_t *buckets, size_t n, uint64_t owner)
{
	for (size_t k = 0; k < n; k++) {
		if (k + AHEAD < n)
			arch_prefetch_to_write(slots_of(c, buckets[k + AHEAD]));
		claims_release(c, buckets[k], owner);
	}
}

/* ----------------------------------------------------------------------- looking */

uint64_t claims_look(const struct claims *c, uint64_t bucket)
{
	const uint64_t *slot = slots_of(c, bucket);
	/* Against the direction of moves (INV-CL2), so that no waiter is missed. */
	uint64_t found = 0;
	for (unsigned k = CLAIMS_SLOTS; k-- > 0;) {
		uint64_t word = arch_load_acquire(&slot[k]);
		found = word ? word : found;
	}
	return owner_in(found);
}

/* An owner that is moving is in two slots, and counts once. */
static void count_bucket(const uint64_t *slot, struct claims_count *n)
{
	uint64_t in_front = 0;
	unsigned owners = 0, occupied = 0;
	for (unsigned k = 0; k < CLAIMS_SLOTS; k++) {
		uint64_t owner = owner_in(arch_load(&slot[k]));
		occupied += owner != 0;
		owners += owner && owner != in_front;
		in_front = owner;
	}
	n->held += owners != 0;
	n->waiting += owners ? owners - 1 : 0;
	n->full += occupied == CLAIMS_SLOTS;
}

struct claims_count claims_count(const struct claims *c)
{
	struct claims_count n = {.buckets = (uint64_t)1 << c->buckets_log2};
	for (uint64_t bucket = 0; bucket < n.buckets; bucket++)
		count_bucket(slots_of(c, bucket), &n);
	return n;
}

/* ------------------------------------------------------------- after a death */

/* Empty the slot if its owner belongs to the process.  Returns whether it did.  A compare-and-swap:
 * a living thread may mark the slot at any time, and another process may clear the same table. */
static bool clear_slot(uint64_t *slot, uint16_t process)
{
	for (;;) {
		uint64_t was = arch_load(slot);
		if (!was || claims_process_of(was) != process)
			return false;
		if (arch_cas(slot, was, 0))
			return true;
	}
}

/* INV-CL4.  A living waiter sleeps on the slot in front of its own, whichever owner has that now:
 * the dead thread may have emptied it, and a newcomer that does not know the sleeper may have taken
 * it.  Threads that wait for room in a full bucket are in no slot; they sleep on the last one. */
static void wake_after_death(uint64_t *slot)
{
	for (unsigned k = 1; k < CLAIMS_SLOTS; k++)
		if (arch_load(&slot[k]))
			wake(&slot[k - 1]);
	wake(&slot[LAST]);
}

uint64_t claims_clear_owner_of(struct claims *c, uint16_t process)
{
	uint64_t cleared = 0;
	for (uint64_t bucket = 0; bucket >> c->buckets_log2 == 0; bucket++) {
		uint64_t *slot = slots_of(c, bucket);
		uint64_t last = 0;
		for (unsigned k = 0; k < CLAIMS_SLOTS; k++) {
			uint64_t owner = owner_in(arch_load(&slot[k]));
			if (!clear_slot(&slot[k], process))
				continue;
			cleared += owner != last; /* a thread that died while it moved */
			last = owner;
		}
		wake_after_death(slot);
	}
	return cleared;
}
