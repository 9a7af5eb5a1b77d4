/* SPDX-License-Identifier: BSD-3-Clause
 *
 * turn.c - the publication turn.
 *
 * At most one thread has the turn: it publishes a software update, runs a serial one, or runs an
 * update in place.
 *
 * Running threads get the turn first: a thread that finds the turn free takes it, ahead of threads
 * that sleep.  A queue in order of arrival would, with more threads than cores, wait at every turn
 * until the kernel runs one particular thread.
 *
 *  INV-L1  No update starves.  A thread that has waited TURN_PATIENCE_NS and is awake reserves a
 *          turn.  No thread takes a free turn while one is reserved, and reserved turns are handed
 *          over in order.  A release wakes the thread that has slept longest without a
 *          reservation, and at most one.
 *  INV-L2  No wake-up is lost.  While a thread sleeps for the turn, `taken` is TURN_WANTED, or
 *          another thread that has slept is awake and will set `taken` to TURN_WANTED before it
 *          sleeps or gives the turn away.  A release that finds TURN_WANTED wakes one thread.
 *          Who lets readers or updates in wakes every thread that sleeps because `shut` is
 *          ALL_OUT (shut_out.c).
 */
#include "tx/active.h"

enum {
	/* In pauses.  A waiter that is alone stays awake about as long as a wake-up takes: so it
	 * loses at most that time, whether it sleeps in the end or not.  If it slept sooner,
	 * updates of about 10 us each would run at the pace of wake-ups (TPC-C on 2 threads: 28,000
	 * a second instead of 76,000).  One of several waiters sleeps soon, because with more
	 * threads than cores the holder may need the waiter's core. */
	SPINS_ALONE = 10 * TURN_SPINS
};

/* ---------------------------------------------------------------- the turn */

static bool any_reserved(const struct publication_lock *l)
{
	return arch_load(&l->reserved) != arch_load(&l->served);
}

/* Take the turn if it is free and not reserved.  If a thread reserves a turn between our look and
 * our CAS, it waits for us; every later taker sees its reservation. */
static bool try_turn(struct publication_lock *l, enum turn as)
{
	return arch_load(&l->taken) == TURN_FREE && !any_reserved(l) &&
	       arch_cas(&l->taken, TURN_FREE, as);
}

/* As the holder: give the turn to the thread that reserved first. */
static void hand_over(struct publication_lock *l)
{
	/* Ordered: our change of `served` before our load of `served_sleepers`; see
	 * sleep_until_served(). */
	arch_fetch_add(&l->served, 1);
	if (arch_load_ordered(&l->served_sleepers))
		arch_futex_wake_all(arch_futex_of(&l->served));
}

static void sleep_until_served(struct publication_lock *l, uint64_t mine)
{
	/* Ordered: we raise the count before we look at `served`; hand_over() changes `served`
	 * before it looks at the count.  So either we see that the turn is ours, or hand_over()
	 * sees us; otherwise we could sleep forever.  If `served` grows before we are asleep, the
	 * kernel returns at once.  `taken`: see take_reserved_turn(). */
	arch_fetch_add(&l->served_sleepers, 1);
	uint64_t served = arch_load_ordered(&l->served);
	if (served <= mine && arch_load_ordered(&l->taken) != TURN_FREE)
		arch_futex_wait(arch_futex_of(&l->served), (uint32_t)served);
	arch_fetch_add(&l->served_sleepers, (uint64_t)-1);
}

/* INV-L1: wait for a turn that no other thread can take from us. */
static void take_reserved_turn(struct publication_lock *l)
{
	/* Ordered: we raise `reserved` before our last look at `taken`, and then sleep.
	 * turn_give() frees the turn before it looks at `reserved`.  So either we see the turn
	 * free, or turn_give() sees the reservation and hands the turn over.  Otherwise no thread
	 * would wake us. */
	uint64_t mine = arch_fetch_add(&l->reserved, 1);
	for (unsigned k = 0; arch_load_acquire(&l->served) <= mine; k++) {
		if (arch_load(&l->taken) == TURN_FREE &&
		        arch_cas(&l->taken, TURN_FREE, TURN_WANTED))
			hand_over(l); /* to us, or to a thread that reserved before us */
		else if (k < SPINS_ALONE)
			arch_pause();
		else
			sleep_until_served(l, mine);
	}
	/* INV-L2: the thread that had the turn before us may have taken it as TURN_TAKEN although
	 * other threads sleep for it.  Relaxed is enough, because the next change that matters is
	 * our own release. */
	arch_store(&l->taken, TURN_WANTED);
}

/* A wait for the turn. */
struct turn_wait {
	int in;     /* the value of `shut` at which it ends, without the turn; or FOR_THE_TURN */
	bool slept; /* INV-L2: then it takes the turn as one for which others sleep */
};
enum { FOR_THE_TURN = -1 };
enum waited { WAITS_ON, HAS_TURN, WITHOUT_TURN };

static enum waited look_once(struct engine *e, const struct turn_wait *wait)
{
	if (wait->in != FOR_THE_TURN && (int)shut_now(e) == wait->in)
		return WITHOUT_TURN;
	return try_turn(&e->lock, wait->slept ? TURN_WANTED : TURN_TAKEN) ? HAS_TURN : WAITS_ON;
}

static enum waited spin_for_turn(struct engine *e, const struct turn_wait *wait)
{
	unsigned spins = arch_load(&e->lock.waiters) == 1 ? SPINS_ALONE : TURN_SPINS,
	         patience = arch_load32(&e->durability->spins);
	if (spins < patience)
		spins = patience;
	for (unsigned k = 0; k < spins; k++) {
		enum waited now = look_once(e, wait);
		if (now != WAITS_ON)
			return now;
		arch_pause();
	}
	return WAITS_ON;
}

/* Sleep until the turn may be free.
 * INV-L2.  The kernel compares `taken` with TURN_WANTED before it puts us to sleep, and a release
 * changes `taken` before it wakes a thread.  So either the release wakes us, or we do not sleep.  A
 * release that finds TURN_WANTED leaves TURN_FREE, and wakes only one of the sleepers.  From then
 * on that thread takes the turn as TURN_WANTED, so that its release wakes the next; or it waits no
 * longer, and wakes the next itself.
 * A holder that changes `shut` gives the turn afterwards, and wakes one of those who sleep until
 * then as well. */
static void sleep_for_turn(struct engine *e, struct turn_wait *wait)
{
	struct publication_lock *l = &e->lock;
	uint64_t taken = arch_load(&l->taken);
	if (taken != TURN_WANTED &&
	        !(taken == TURN_TAKEN && arch_cas(&l->taken, TURN_TAKEN, TURN_WANTED)))
		return;
	wait->slept = true;
	arch_futex_wait(arch_futex_of(&l->taken), TURN_WANTED);
}

static bool wait_for_turn(struct engine *e, int in)
{
	const uint64_t began = arch_now_ns();
	struct turn_wait wait = {.in = in};
	enum waited now;
	crowd_count(e);
	while ((now = spin_for_turn(e, &wait)) == WAITS_ON) {
		if (arch_now_ns() - began >= TURN_PATIENCE_NS) {
			/* INV-L1.  As a turn for which others sleep: the thread may have got a
			 * wake-up that they need (INV-L2). */
			take_reserved_turn(&e->lock);
			return true;
		}
		sleep_for_turn(e, &wait);
	}
	/* INV-L2: the wake-up that we may have got was meant for a thread that takes the turn. */
	if (now == WITHOUT_TURN && wait.slept)
		arch_futex_wake_one(arch_futex_of(&e->lock.taken));
	return now == HAS_TURN;
}

static bool take_turn(struct engine *e, int in)
{
	struct publication_lock *l = &e->lock;
	if (try_turn(l, TURN_TAKEN))
		return true;
	lock_note_meeting(e);
	arch_fetch_add(&l->waiters, 1);
	bool taken = wait_for_turn(e, in);
	arch_fetch_add(&l->waiters, (uint64_t)-1);
	return taken;
}

void turn_take(struct engine *e)
{
	(void)take_turn(e, FOR_THE_TURN);
}

bool turn_take_unless(struct engine *e, enum shut in)
{
	return take_turn(e, (int)in);
}

void turn_give(struct engine *e)
{
	struct publication_lock *l = &e->lock;
	FUR_ASSERT(arch_load(&l->taken) != TURN_FREE && shut_now(e) != ALL_OUT);
	do {
		if (any_reserved(l)) { /* exact: only the turn's holder changes `served` */
			hand_over(l);
			return;
		}
		/* Ordered: our store to `taken` before our second look at `reserved`; see
		 * take_reserved_turn(). */
		if (arch_exchange(&l->taken, TURN_FREE) == TURN_WANTED)
			arch_futex_wake_one(arch_futex_of(&l->taken));
		/* A thread has reserved a turn meanwhile, and may have looked at `taken` before we
		 * freed it.  So we must hand the turn over, or the thread that has taken it since
		 * must. */
	} while (arch_load_ordered(&l->reserved) != arch_load(&l->served) &&
	         arch_cas(&l->taken, TURN_FREE, TURN_WANTED));
}
