/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock.c - the publication turn, and shutting readers out.
 *
 * At most one thread has the turn: it publishes a software update, runs a serial one, or runs an
 * update in place.  `held` shuts readers and hardware updates out while that thread stores in
 * place.
 *
 * INV-H3 holds for three groups of transactions:
 *  - Readers, and updates that are in active[]: the turn's holder sets `held`, then scans active[].
 *    The others publish active[i], then look at `held`.  Each side has a full fence between its
 *    store and its load, so one of the two sees the other.
 *  - Hardware updates with tracked loads have `held` in their read set from the start, so the store
 *    that sets it aborts them.
 *  - Rollback-only updates (POWER, snapshot): docs/protocol.md, "The lock and rollback-only
 *    transactions", has the argument.
 *
 * Running threads get the turn first: a thread that finds the turn free takes it, ahead of threads
 * that sleep.  A queue in order of arrival would, with more threads than cores, wait at every turn
 * until the kernel runs one particular thread.
 *
 *  INV-L1  No update starves.  A thread that has waited PATIENCE_NS and is awake reserves a turn.
 *          No thread takes a free turn while one is reserved, and reserved turns are handed over
 *          in order.  A release wakes the thread that has slept longest without a reservation, and
 *          at most one.
 *  INV-L2  No wake-up is lost.  While a thread sleeps for the turn, `taken` is TURN_WANTED, or
 *          another thread that has slept is awake and will set `taken` to TURN_WANTED before it
 *          sleeps or gives the turn away.  A release that finds TURN_WANTED wakes one thread.
 *          readers_let_in() wakes every thread that sleeps while `held` is set.
 *  INV-L3  No reader starves.  A reader that found the lock held records that in active[i].want.
 *          Before a holder sets `held`, it lets in each reader that is awake and has missed
 *          FAIR_RELEASES releases, and each reader that has waited PATIENCE_NS.
 *  INV-L4  No hardware update starves.  If an update has not seen the lock free for
 *          HTM_LOCK_RELEASES releases, it takes a turn itself.  If it sleeps, a holder wakes it for
 *          that.
 */
#include "htm/active.h"

enum turn {
	TURN_FREE,
	TURN_TAKEN,
	TURN_WANTED /* taken, and a thread may be asleep until it is free */
};

enum {
	FAIR_RELEASES = 4,
	PATIENCE_NS = 1000000,
	/* In pauses.  A waiter that is alone stays awake about as long as a wake-up takes: so it
	 * loses at most that time, whether it sleeps in the end or not.  If it slept sooner,
	 * updates of about 10 us each would run at the pace of wake-ups (TPC-C on 2 threads: 28,000
	 * a second instead of 76,000).  One of several waiters sleeps soon, because with more
	 * threads than cores the holder may need the waiter's core. */
	SPINS = 300,
	SPINS_ALONE = 3000,
	/* In pauses.  A reader that is running becomes active in less time. */
	LOOKS_AT_READER = 300
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

static bool spin_for_turn(struct htm *h, const struct turn_wait *wait)
{
	unsigned spins = arch_load(&h->lock.waiters) == 1 ? SPINS_ALONE : SPINS,
	         patience = arch_load32(&h->durability->spins);
	if (spins < patience)
		spins = patience;
	for (unsigned k = 0; k < spins; k++) {
		if (turn_try(h, wait))
			return true;
		arch_pause();
	}
	return false;
}

/* Ordered: we raise the count before we look at *word.  A thread that changes it looks at the count
 * afterwards, or gives the turn afterwards, and finds TURN_WANTED.  So either we see the change, or
 * that thread wakes us. */
static void sleep_while_taken(struct publication_lock *l, const uint64_t *word, uint64_t expected)
{
	arch_fetch_add(&l->turn_sleepers, 1);
	if (arch_load_ordered(word) == expected)
		arch_futex_wait(arch_futex_of(&l->taken), TURN_WANTED);
	arch_fetch_add(&l->turn_sleepers, (uint64_t)-1);
}

static void wait_for_turn(struct htm *h)
{
	struct turn_wait wait = {.began = arch_now_ns()};
	crowd_count(h);
	while (!spin_for_turn(h, &wait)) {
		if (turn_waited_long(&wait)) {
			take_reserved_turn(&h->lock);
			return;
		}
		turn_sleep(h, &wait, &h->lock.taken, TURN_WANTED);
	}
}

void turn_take(struct htm *h)
{
	struct publication_lock *l = &h->lock;
	if (try_turn(l, TURN_TAKEN))
		return;
	lock_note_meeting(h);
	arch_fetch_add(&l->waiters, 1);
	wait_for_turn(h);
	arch_fetch_add(&l->waiters, (uint64_t)-1);
}

/* ------------------------------------------------ the turn, step by step */

bool turn_try(struct htm *h, const struct turn_wait *wait)
{
	return try_turn(&h->lock, wait->slept ? TURN_WANTED : TURN_TAKEN);
}

bool turn_should_sleep(const struct htm *h, struct turn_wait *wait)
{
	uint32_t patience = arch_load32(&h->durability->spins);
	if (++wait->looks <= (patience > SPINS ? patience : SPINS))
		return false;
	wait->looks = 0;
	return true;
}

void turn_sleep(struct htm *h, struct turn_wait *wait, const uint64_t *word, uint64_t expected)
{
	struct publication_lock *l = &h->lock;
	/* INV-L2.  The kernel compares `taken` with TURN_WANTED before it puts us to sleep, and a
	 * release changes `taken` before it wakes a thread.  So either the release wakes us, or we
	 * do not sleep.  A release that finds TURN_WANTED leaves TURN_FREE, and wakes only one of
	 * the sleepers.  From then on that thread takes the turn as TURN_WANTED, so that its
	 * release wakes the next. */
	uint64_t taken = arch_load(&l->taken);
	if (taken != TURN_WANTED &&
	        !(taken == TURN_TAKEN && arch_cas(&l->taken, TURN_TAKEN, TURN_WANTED)))
		return;
	wait->slept = true;
	sleep_while_taken(l, word, expected);
}

bool turn_waited_long(struct turn_wait *wait)
{
	uint64_t now = arch_now_ns();
	if (wait->began == 0)
		wait->began = now;
	return now - wait->began >= PATIENCE_NS;
}

void turn_reserve(struct htm *h)
{
	struct publication_lock *l = &h->lock;
	arch_fetch_add(&l->waiters, 1);
	take_reserved_turn(l);
	arch_fetch_add(&l->waiters, (uint64_t)-1);
}

void turn_wake_all(struct htm *h)
{
	/* Ordered: see sleep_while_taken(). */
	if (arch_load_ordered(&h->lock.turn_sleepers))
		arch_futex_wake_all(arch_futex_of(&h->lock.taken));
}

void turn_forward_wakeup(struct htm *h, const struct turn_wait *wait)
{
	/* INV-L2: the wake-up that we may have got was meant for a thread that takes the turn. */
	if (wait->slept)
		arch_futex_wake_one(arch_futex_of(&h->lock.taken));
}

void turn_give(struct htm *h)
{
	struct publication_lock *l = &h->lock;
	FUR_ASSERT(arch_load(&l->taken) != TURN_FREE && !readers_are_out(h));
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

/* ----------------------------------------------------- until the lock is free */

/* Sleep until a release or a holder wakes us. */
static void sleep_while_held(struct publication_lock *l)
{
	uint64_t turn = arch_load_acquire(&l->releases);
	/* Ordered: we raise the count before we look at `held`; readers_let_in() changes `held`
	 * before it looks at the count.  So either we see the lock free, or readers_let_in() sees
	 * us; otherwise it could happen that no thread wakes us.  We read `turn` first: if it grows
	 * before we are asleep, the kernel returns at once. */
	arch_fetch_add(&l->sleepers, 1);
	if (arch_load_ordered(&l->held))
		arch_futex_wait(arch_futex_of(&l->releases), (uint32_t)turn);
	arch_fetch_add(&l->sleepers, (uint64_t)-1);
}

static void wait_while_held(struct htm *h, unsigned look)
{
	if (look < SPINS || look < arch_load32(&h->durability->spins))
		arch_pause();
	else
		sleep_while_held(&h->lock);
}

/* Has `held` been reset so many times since the thread that wrote `want` began to wait? */
static bool releases_missed(const struct htm *h, uint64_t want, uint64_t releases)
{
	return arch_load(&h->lock.releases) + 1 - want >= releases;
}

bool lock_wait_free(struct htm *h, uint32_t me)
{
	if (!readers_are_out(h))
		return true;
	struct active_entry *mine = &h->active[me];
	active_note_wait(mine, h, 0);
	uint64_t want = active_wants(mine);
	bool free = false;
	for (unsigned k = 0;
	        !(free = !readers_are_out(h)) && !releases_missed(h, want, HTM_LOCK_RELEASES); k++)
		wait_while_held(h, k);
	active_clear_wait(mine);
	return free;
}

void lock_wait_reader(struct htm *h, uint32_t me)
{
	struct active_entry *mine = &h->active[me];
	crowd_count(h);
	lock_note_meeting(h);
	if (active_wants(mine) == 0)
		active_note_wait(mine, h, arch_ticks() | 1);
	for (unsigned k = 0; readers_are_out(h); k++)
		wait_while_held(h, k);
}

/* Called while `held` is 0.  So no thread falls asleep now: a thread that has read the last
 * release's `turn` sees that `held` is 0, and with an older `turn` the kernel does not let it
 * sleep. */
static void wake_sleepers(struct publication_lock *l)
{
	if (arch_load_ordered(&l->sleepers))
		arch_futex_wake_all(arch_futex_of(&l->releases));
}

/* INV-L3, for one reader.  A running reader becomes active at once.  For a sleeping reader the
 * holder waits only if the reader has waited long. */
static void admit_reader(struct htm *h, const struct active_entry *reader, uint64_t patience)
{
	uint64_t want;
	for (unsigned k = 0; k < LOOKS_AT_READER; k++) {
		if (!(want = active_wants(reader)) || !releases_missed(h, want, FAIR_RELEASES))
			break;
		arch_pause();
	}
	struct arch_backoff backoff = {0};
	while (active_wants(reader) && arch_ticks() - active_waits_since(reader) >= patience) {
		if (!backoff.turns)
			wake_sleepers(&h->lock);
		arch_backoff(&backoff);
	}
}

/* INV-L4: wake updates that have missed too many turns.  The holder does not wait for them, and
 * does not wake them again at every turn before they run. */
static void call_update(struct htm *h, uint64_t want, uint64_t patience)
{
	uint64_t now;
	if (releases_missed(h, want, HTM_LOCK_RELEASES) &&
	        !arch_ticks_pending(now = arch_ticks(), h->lock.next_call, patience)) {
		h->lock.next_call = now + patience;
		wake_sleepers(&h->lock);
	}
}

static void admit_waiters(struct htm *h, uint32_t me)
{
	uint64_t limit = arch_load(&h->durability->limit);
	for (uint32_t i = 0; i < limit; i++) {
		const struct active_entry *a = &h->active[i];
		arch_overlap_begin();
		uint64_t want = active_wants(a);
		if (likely(want == 0) || i == me)
			continue;
		uint64_t patience = arch_ns_to_ticks(PATIENCE_NS);
		if (active_waits_since(a))
			admit_reader(h, a, patience);
		else
			call_update(h, want, patience);
	}
	arch_overlap_end();
}

/* ------------------------------------------------------- shutting readers out */

bool readers_shut_out(struct htm *h, uint32_t me)
{
	struct publication_lock *l = &h->lock;
	uint64_t began = 0, most = h->drain_ticks;
	bool bodies;
	FUR_ASSERT(arch_load(&l->taken) != TURN_FREE && !readers_are_out(h));
	for (;;) {
		admit_waiters(h, me);
		/* Full fence: orders the store of `held` before our scan of active[] (INV-H3).
		 * Without it the scan may miss a reader that has not seen `held` either, and that
		 * reader sees some of our stores and not others: Stress.TornReads; plant:
		 * no-lock-fence. */
		arch_store_fence(&l->held, 1);
		if (likely(active_drain(h, me, most, &bodies)))
			return bodies;
		/* A reader takes long.  New readers must not wait for it: let them in, wait for
		 * those that are active now, and try again.  Readers that come and go must not keep
		 * us from publishing: each time they may have to wait longer, but never more than a
		 * part of the time for which we have waited. */
		readers_let_in(h);
		if (!began)
			began = arch_ticks();
		active_wait_outside(h, me, true);
		if (unlikely(htm_forked(h)))
			return false;
		most = arch_ticks_between(began, arch_ticks()) / 4 + h->drain_ticks;
	}
}

void readers_let_in(struct htm *h)
{
	struct publication_lock *l = &h->lock;
	arch_store_release(&l->held, 0);
	/* Ordered: our store to `held` before our load of `sleepers`; see sleep_while_held(). */
	arch_fetch_add(&l->releases, 1);
	if (unlikely(arch_load_ordered(&l->sleepers) != 0))
		arch_futex_wake_all(arch_futex_of(&l->releases));
}
