/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shut_out.c - shut readers and hardware updates out, while the turn's holder stores in place.
 *
 * INV-H3 holds for three groups of transactions:
 *  - Readers, and updates that are in active[]: the turn's holder sets `shut`, then scans active[].
 *    The others publish active[i], then look at `shut`.  Each side has a full fence between its
 *    store and its load, so one of the two sees the other.
 *  - Hardware updates with tracked loads have `shut` in their read set from the start, so the store
 *    that sets it aborts them.
 *  - Rollback-only updates (POWER, snapshot): docs/protocol.md, "The lock and rollback-only
 *    transactions", has the argument.
 *
 *  INV-L3  No reader starves.  A reader that finds itself shut out records that in active[i].want.
 *          Before a holder sets `shut`, it lets in each reader that is awake and has missed
 *          FAIR_RELEASES releases, and each reader that has waited TURN_PATIENCE_NS.  A reader
 *          that has found updates in several times reserves the turn, if it must (INV-L1).
 *  INV-L4  No hardware update starves.  If an update has not seen `shut` reset for
 *          UPDATE_RELEASES releases, it takes a turn itself.  If it sleeps, a holder wakes it for
 *          that.
 */
#include "tx/active.h"

enum {
	FAIR_RELEASES = 4,
	/* In pauses.  A reader that is running becomes active in less time. */
	LOOKS_AT_READER = 300,
	/* In pauses.  An update that is awake publishes in less time. */
	LOOKS_AT_UPDATES = 20,
	/* After plain readers have claimed the heap twice in this time, updates are let in only
	 * briefly for so long: each claim waits for the updates that publish. */
	CLAIMS_NS = 1000000,
	READERS_FIRST_NS = 10000000
};

/* ------------------------------------------------- updates beside each other */

void updates_await(const struct engine *e)
{
	const uint64_t limit = arch_load(&e->durability->limit);
	for (uint64_t i = 0; i < limit; i++) {
		struct arch_backoff backoff = durability_backoff(e->durability);
		arch_overlap_begin();
		while (arch_load_acquire(&e->active[i].publishing))
			arch_backoff(&backoff);
	}
	arch_overlap_end();
}

/* From UPDATES_IN to ALL_OUT: wait for the updates that publish.  The caller has the turn. */
static void close_to_updates(struct engine *e)
{
	/* Full fence: orders our store to `shut` before our look at `publishing`.  An update sets
	 * `publishing`, and then looks at `shut` (publish.c).  So either it sees that it is shut
	 * out, or we wait for it.  Without the fence it could store beside a plain reader, or
	 * beside an update in place (model: CLOSELATE). */
	arch_store_fence(&e->lock.shut, ALL_OUT);
	updates_await(e);
}

void turn_take_alone(struct engine *e)
{
	turn_take(e);
	if (likely(shut_now(e) != UPDATES_IN))
		return;
	close_to_updates(e);
	readers_let_in(e);
}

/* ----------------------------------------------------- until `shut` is reset */

/* Sleep until a release or a holder wakes us. */
static void sleep_while_shut_out(struct publication_lock *l)
{
	uint64_t turn = arch_load_acquire(&l->releases);
	/* Ordered: we raise the count before we look at `shut`; readers_let_in() changes `shut`
	 * before it looks at the count.  So either we see `shut` reset, or readers_let_in() sees
	 * us; otherwise it could happen that no thread wakes us.  We read `turn` first: if it grows
	 * before we are asleep, the kernel returns at once. */
	arch_fetch_add(&l->sleepers, 1);
	if (arch_load_ordered(&l->shut) == ALL_OUT)
		arch_futex_wait(arch_futex_of(&l->releases), (uint32_t)turn);
	arch_fetch_add(&l->sleepers, (uint64_t)-1);
}

static void wait_while_shut_out(struct engine *e, unsigned look)
{
	if (look < TURN_SPINS || look < arch_load32(&e->durability->spins))
		arch_pause();
	else
		sleep_while_shut_out(&e->lock);
}

/* Has `shut` been reset so many times since the thread that wrote `want` began to wait? */
static bool releases_missed(const struct engine *e, uint64_t want, uint64_t releases)
{
	return arch_load(&e->lock.releases) + 1 - want >= releases;
}

bool update_awaits_let_in(struct engine *e, uint32_t me)
{
	if (!hardware_is_out(e))
		return true;
	struct active_entry *mine = &e->active[me];
	active_note_wait(mine, e, 0);
	uint64_t want = active_wants(mine);
	bool free = false;
	for (unsigned k = 0; !(free = !hardware_is_out(e)) && updates_run_in(e) == HARDWARE &&
	                     !releases_missed(e, want, UPDATE_RELEASES);
	        k++)
		wait_while_shut_out(e, k);
	active_clear_wait(mine);
	return free;
}

void reader_awaits_let_in(struct engine *e, uint32_t me)
{
	struct active_entry *mine = &e->active[me];
	crowd_count(e);
	lock_note_meeting(e);
	if (active_wants(mine) == 0)
		active_note_wait(mine, e, arch_ticks() | 1);
	for (unsigned k = 0; shut_now(e) == ALL_OUT; k++)
		wait_while_shut_out(e, k);
}

bool reader_claims(struct engine *e, uint32_t me, bool insists)
{
	/* INV-L3: the turn's holder waits for readers that want in, and we wait for the turn. */
	active_clear_wait(&e->active[me]);
	crowd_count(e);
	if (insists)
		turn_take(e);
	else if (!turn_take_unless(e, READERS_IN))
		return false;
	if (shut_now(e) == UPDATES_IN) {
		close_to_updates(e);
		readers_let_in(e);
	}
	const uint64_t now = arch_ticks();
	if (arch_ticks_between(e->lock.claimed, now) < arch_ns_to_ticks(CLAIMS_NS))
		e->lock.readers_until = now + arch_ns_to_ticks(READERS_FIRST_NS);
	e->lock.claimed = now;
	return true;
}

bool readers_come_first(const struct engine *e)
{
	return e->lock.readers_until && arch_ticks_pending(arch_ticks(), e->lock.readers_until,
	                                        arch_ns_to_ticks(READERS_FIRST_NS));
}

/* Called while `shut` is not ALL_OUT.  So no thread falls asleep now: a thread that has read the
 * last release's `turn` sees that, and with an older `turn` the kernel does not let it sleep. */
static void wake_sleepers(struct publication_lock *l)
{
	if (arch_load_ordered(&l->sleepers))
		arch_futex_wake_all(arch_futex_of(&l->releases));
}

/* INV-L3, for one reader.  A running reader becomes active at once.  For a sleeping reader the
 * holder waits only if the reader has waited long. */
static void admit_reader(struct engine *e, const struct active_entry *reader, uint64_t patience)
{
	uint64_t want;
	for (unsigned k = 0; k < LOOKS_AT_READER; k++) {
		if (!(want = active_wants(reader)) || !releases_missed(e, want, FAIR_RELEASES))
			break;
		arch_pause();
	}
	struct arch_backoff backoff = {0};
	while (active_wants(reader) && arch_ticks() - active_waits_since(reader) >= patience) {
		if (!backoff.turns)
			wake_sleepers(&e->lock);
		arch_backoff(&backoff);
	}
}

/* INV-L4: wake updates that have missed too many turns.  The holder does not wait for them, and
 * does not wake them again at every turn before they run. */
static void call_update(struct engine *e, uint64_t want, uint64_t patience)
{
	uint64_t now;
	if (releases_missed(e, want, UPDATE_RELEASES) &&
	        !arch_ticks_pending(now = arch_ticks(), e->lock.next_call, patience)) {
		e->lock.next_call = now + patience;
		wake_sleepers(&e->lock);
	}
}

static void admit_waiters(struct engine *e, uint32_t me)
{
	uint64_t limit = arch_load(&e->durability->limit);
	for (uint32_t i = 0; i < limit; i++) {
		const struct active_entry *a = &e->active[i];
		arch_overlap_begin();
		uint64_t want = active_wants(a);
		if (likely(want == 0) || i == me)
			continue;
		uint64_t patience = arch_ns_to_ticks(TURN_PATIENCE_NS);
		if (active_waits_since(a))
			admit_reader(e, a, patience);
		else
			call_update(e, want, patience);
	}
	arch_overlap_end();
}

/* ------------------------------------------------------- shutting readers out */

static void note_meeting(struct engine *e, struct shut_out *found)
{
	found->met = found->met || arch_load(&e->lock.waiters);
	if (found->met)
		lock_note_meeting(e);
}

bool readers_try_shut_out(struct engine *e, uint32_t me, uint64_t most, struct shut_out *found)
{
	struct publication_lock *l = &e->lock;
	FUR_ASSERT(arch_load(&l->taken) != TURN_FREE && shut_now(e) != ALL_OUT);
	if (shut_now(e) == UPDATES_IN) {
		close_to_updates(e);
		/* A reader that has just found updates in is about to leave active[]. */
		while (!active_drain(e, me, UINT64_MAX, found))
			continue;
		note_meeting(e, found);
		return true;
	}
	admit_waiters(e, me);
	/* Full fence: orders the store of `shut` before our scan of active[] (INV-H3).  Without it
	 * the scan may miss a reader that has not seen `shut` either, and that reader sees some of
	 * our stores and not others: Stress.TornReads; plant: no-lock-fence. */
	arch_store_fence(&l->shut, ALL_OUT);
	if (likely(active_drain(e, me, most, found))) {
		note_meeting(e, found);
		return true;
	}
	readers_let_in(e);
	return false;
}

/* Flattened: nearly all attempts are the first and only one. */
__attribute__((flatten)) struct shut_out readers_shut_out(struct engine *e, uint32_t me)
{
	uint64_t began = 0, most = e->drain_ticks;
	struct shut_out found = {0};
	for (;;) {
		if (likely(readers_try_shut_out(e, me, most, &found)))
			return found;
		/* A reader takes long.  New readers must not wait for it: they are in.  Wait for
		 * those that are active now, and try again.  Readers that come and go must not keep
		 * us from publishing: each time they may have to wait longer, but never more than a
		 * part of the time for which we have waited. */
		if (!began)
			began = arch_ticks();
		active_wait_outside(e, me, true);
		if (unlikely(engine_forked(e)))
			return found;
		most = arch_ticks_between(began, arch_ticks()) / 4 + e->drain_ticks;
	}
}

static void let_in(struct engine *e, enum shut who)
{
	struct publication_lock *l = &e->lock;
	arch_store_release(&l->shut, who);
	/* Ordered: our store to `shut` before our load of `sleepers` (sleep_while_shut_out). */
	arch_fetch_add(&l->releases, 1);
	if (unlikely(arch_load_ordered(&l->sleepers) != 0))
		arch_futex_wake_all(arch_futex_of(&l->releases));
}

void readers_let_in(struct engine *e)
{
	let_in(e, READERS_IN);
}

void updates_let_in(struct engine *e)
{
	let_in(e, UPDATES_IN);
}

void updates_let_in_briefly(struct engine *e)
{
	if (!arch_load(&e->lock.waiters))
		return;
	let_in(e, UPDATES_IN);
	for (unsigned k = 0; k < LOOKS_AT_UPDATES && arch_load(&e->lock.waiters); k++)
		arch_pause();
	close_to_updates(e);
}
