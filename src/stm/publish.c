/* SPDX-License-Identifier: BSD-3-Clause
 *
 * publish.c - how the stores of software updates become visible: in one hardware transaction where
 * the machine has one, else in place, with readers shut out for the stores alone.
 *
 * A concurrent update that waits for the turn posts a request.  While the turn's holder keeps
 * readers out, it opens the gate: updates with a request that are awake publish themselves beside
 * it, and the holder publishes those that sleep, so that one drain serves all (INV-SW7).
 *
 * Way 5, an update becomes visible in software:
 *
 *     software_commit()          ends at once if the update wrote nothing; else publish()
 *       wait_to_be_published()   posts a request, and joins a batch if the gate is open
 *         publish_member()       claims its lines, compares what it has loaded, and stores
 *       publish_as_holder()      has the turn, at once or after a wait
 *         software_extend()      compares what the body has loaded, if others have published
 *         publish_in_hardware()  stores in a hardware transaction, if the machine has them
 *         publish_in_place()     stores in place
 *           readers_shut_out()   drains readers
 *           announce()           collects D, announces the update, draws the durTS
 *           store_writes()       stores
 *           readers_let_in()     makes it visible
 *         body_inactive()        leaves active[]
 *         turn_give()            gives the turn
 */
#include "htm/htm.h"
#include "stm/software.h"

#include "base/checker.h"
#include "base/error.h"
#include "base/probe.h"
#include "tx/blocks.h"
#include "tx/marks.h"

/* active[i].request.  Only CAS leaves REQUEST_WAITING, so an update is published once. */
enum request {
	REQUEST_NONE,
	REQUEST_WAITING,
	REQUEST_JOINING,  /* its thread is publishing it */
	REQUEST_JOINED,   /* it is visible */
	REQUEST_SERVING,  /* the turn's holder is publishing it, or making it durable */
	REQUEST_SERVED,   /* it is visible, and durable or failed: fur_thread.software.result */
	REQUEST_DEFEATED, /* another update has changed a word that it has loaded */
};

enum {
	THREADS_MANY = 8, /* threads from which on publications are paced */
	PACE_PART = 5,    /* of engine.drain_ticks: the longest time between two publications */
	/* In pauses.  A thread that is awake joins a batch in less time. */
	LOOKS_AT_MEMBER = 100
};

uint64_t publication_begin(struct engine *e)
{
	uint64_t number = arch_load(&e->publications.now) + 1;
	FUR_ASSERT(number & 1);
	arch_store(&e->publications.now, number);
	FUR_POINT(publication__numbered);
	return number;
}

void publication_end(struct engine *e)
{
	arch_store_release(&e->publications.now, arch_load(&e->publications.now) + 1);
}

void stamp_writes(struct fur_thread *t, uint64_t number)
{
	const struct write_set *set = &t->software.writes;
	if (unlikely(t->update.flags & TX_BULK))
		arch_store(&t->engine->publications.all_stamped, number);
	for (uint32_t i = 0; i < set->n; i++)
		stamp_line(t->engine, set->words[i].word, number, t->index);
	arch_fence_light();
}

void stamp_range(struct fur_thread *t, const void *to, size_t bytes, uint64_t number)
{
	const uint8_t *at = to, *last = at + bytes - 1;
	for (; at <= last; at += 1 << STAMP_LINE_SHIFT)
		stamp_line(t->engine, at, number, t->index);
	stamp_line(t->engine, last, number, t->index);
	arch_fence_light();
}

/* Collect D (INV-D1).  Without hardware updates any time after the last comparison of the loaded
 * values will do, and the sooner the better: the update cannot have read from those that publish
 * beside it, and need not wait for them.  All updates draw their durTSs while they publish, in the
 * order in which they publish.  But a hardware update may draw after it is visible.  If it wrote to
 * a word of ours before us, it must draw before us (INV-D4), so we must find it: then we collect D
 * when no hardware update can become visible any more. */
static void collect(struct fur_thread *t, bool with_hardware)
{
	if (with_hardware != (t->engine->ops != NULL))
		return;
	nondurable_collect_settled(t->durability, &t->window.commit);
	FUR_POINT(publication__collected);
}

/* Where the heap has no hardware updates. */
static void collect_after_body(struct fur_thread *t)
{
	collect(t, false);
}

/* Where it has. */
static void collect_while_publishing(struct fur_thread *t)
{
	collect(t, true);
}

/* Has something been published since the update's snapshot?  `now`: the last publication before the
 * update's own.  If so, collect D again.  An update published since may have stored a value that we
 * had loaded over another one.  Then our comparison finds no change, but we come after that update,
 * and depend on it.  With the D of the body's end, a failure could lose that update and keep ours
 * (plant: d-of-the-body). */
static bool snapshot_is_old(struct fur_thread *t, uint64_t now)
{
	if (now == t->software.snapshot)
		return false;
	collect_after_body(t);
	return true;
}

/* Announce the update, and draw its durTS. */
static void announce(struct fur_thread *t)
{
	struct durability *d = t->durability;
	struct commit *c = &t->window.commit;
	collect_while_publishing(t);
	nondurable_announce(d, c); /* A1:33 */
	/* Draw before the turn is given: an update that draws later would let updates that publish
	 * later draw first, and those would wait for it (INV-D4). */
	ring_draw_after(d, c); /* A1:31 */
}

static void store_writes(struct fur_thread *t)
{
	const bool checked = t->update.flags & TX_CHECKED;
	FUR_POINT(stores__begin);
	if (unlikely(checked))
		blocks_show(t);
	marks_note_writes(t); /* INV-BU1 */
	redo_store_record(t->update.log, t->durability, t->update.writable, false);
	/* After the stores, of which some may go to blocks that the update has freed then, and
	 * before the publication ends: until then no other body sees that they are free, for the
	 * allocator's words have the stamps of this publication. */
	if (unlikely(checked))
		blocks_hide(t);
}

/* ------------------------------------------------------------ members of a batch */

/* Claim every line that the update writes.  False: another member has claimed one of them. */
static bool stamp_own_lines(struct fur_thread *t, uint64_t number)
{
	const struct write_set *set = &t->software.writes;
	uint64_t mine = stamp_by(number, t->index);
	for (uint32_t i = 0; i < set->n; i++) {
		uint64_t *stamp = stamp_of(t->engine, set->words[i].word), now;
		while ((now = arch_load(stamp)) != mine) {
			if (stamp_number(now) == number)
				return false;
			if (arch_cas(stamp, now, mine))
				break;
		}
	}
	return true;
}

/* Has the member that made the stamp claimed the word, and not just another word whose line has the
 * same stamp?
 * Orders:  the caller's load of the stamp before our loads of the member's write set, by the light
 *          fence; the member completed its set before it claimed a line.  It does not change the
 *          set before the batch is over: its next body in software begins when `shut` is reset. */
static bool claims_word(const struct engine *e, uint64_t stamp, const uint64_t *word)
{
	const struct write_set *set = &e->threads[stamp_thread(stamp)].software.writes;
	arch_fence_light();
	return write_maybe(set, write_hash(word)) && write_find(set, word);
}

/* Do all words that the update has loaded have their values still, and has no other member claimed
 * one of them? */
static enum request check_member(const struct fur_thread *t, uint64_t number)
{
	const struct read_set *set = &t->software.reads;
	uint64_t mine = stamp_by(number, t->index);
	enum request now = REQUEST_JOINED;
	arch_overlap_begin();
	for (uint64_t i = 0; i < set->n && now == REQUEST_JOINED; i++) {
		uint64_t value = checker_load(set->reads[i].word),
		         stamp = arch_load(stamp_of(t->engine, set->reads[i].word));
		/* Either order of the two loads will do: a member that claims the line after we
		 * have looked comes after us, or sees our claim. */
		if (stamp_number(stamp) == number && stamp != mine &&
		        claims_word(t->engine, stamp, set->reads[i].word))
			now = REQUEST_WAITING;
		else if (value != set->reads[i].value)
			now = REQUEST_DEFEATED;
	}
	arch_overlap_end();
	return now;
}

/* Publish a member of a batch, by its own thread or by the turn's holder.  Returns the request's
 * new state; REQUEST_WAITING: another member is in the way. */
static enum request publish_member(struct fur_thread *t, uint64_t number)
{
	/* A member that finds another in its way does not try the same batch again. */
	arch_store(&t->software.publication, number);
	/* check_member() compares with the state before the batch, so it accepts no value of
	 * another member. */
	snapshot_is_old(t, number - 1);
	if (!stamp_own_lines(t, number))
		return REQUEST_WAITING;
	/* Full fence: orders our claims before our look at the claims on the words that we have
	 * loaded.  Each member does the same.  So if two members each read what the other writes,
	 * at least one sees the other's claim.  Without the fence both could publish, each from
	 * values that the other one overwrites. */
	arch_fence();
	const bool checked = t->update.flags & TX_CHECKED;
	if (unlikely(checked))
		checker_quiet(); /* as in software_extend() */
	enum request now = check_member(t, number);
	if (unlikely(checked))
		checker_loud();
	if (now != REQUEST_JOINED)
		return now;
	announce(t);
	store_writes(t);
	return REQUEST_JOINED;
}

/* As a waiting update: publish beside the turn's holder, if it has opened the gate.  Returns the
 * request's state. */
static enum request join_batch(struct fur_thread *t, struct active_entry *mine)
{
	struct engine *e = t->engine;
	uint64_t gate = arch_load_acquire(&e->lock.gate);
	if (likely(gate == 0 || gate == t->software.publication) ||
	        !arch_cas(&mine->request, REQUEST_WAITING, REQUEST_JOINING))
		return (enum request)arch_load_acquire(&mine->request);
	/* Ordered: our claim of the request before this load.  close_gate() closes the gate, then
	 * looks for claimed requests.  So either we see the gate closed, or it waits for us. */
	enum request now = arch_load_ordered(&e->lock.gate) == gate ? publish_member(t, gate)
	                                                            : REQUEST_WAITING;
	/* Release: the turn's holder lets readers in after our stores. */
	arch_store_release(&mine->request, now);
	return now;
}

/* Wake the threads that sleep until their requests change. */
static void wake_members(struct engine *e)
{
	/* Ordered: we have changed the requests, and change the number, before we look for
	 * sleepers.  They say that they sleep before they look at their request.  So either they
	 * see it, or we wake them. */
	arch_fetch_add(&e->publications.batches, 1);
	if (arch_load_ordered(&e->publications.sleepers))
		arch_futex_wake_all(arch_futex_of(&e->publications.batches));
	turn_wake_all(e);
}

/* Load all requests into the holder's scratch array. */
static uint64_t load_requests(struct fur_thread *t)
{
	struct engine *e = t->engine;
	uint64_t limit = arch_load(&e->durability->limit);
	arch_overlap_begin();
	for (uint32_t i = 0; i < limit; i++)
		t->window.seqs[i] = arch_load_acquire(&e->active[i].request);
	arch_overlap_end();
	return limit;
}

/* Does the thread of a waiting update join by itself?  One that is awake does so at once. */
static bool member_joins(const uint64_t *request)
{
	for (unsigned k = 0; k < LOOKS_AT_MEMBER; k++) {
		if (arch_load(request) != REQUEST_WAITING)
			return true;
		arch_pause();
	}
	return false;
}

/* As the turn's holder: publish the updates that wait and have not joined, and link them to a list.
 * They draw their durTSs in its order (INV-SW8). */
static void serve_members(struct fur_thread *t, uint64_t number)
{
	struct engine *e = t->engine;
	struct fur_thread **end = &t->software.serves;
	uint64_t limit = load_requests(t);
	for (uint32_t i = 0; i < limit; i++) {
		uint64_t *request = &e->active[i].request;
		if (likely(t->window.seqs[i] != REQUEST_WAITING) ||
		        arch_load(&e->threads[i].software.publication) == number ||
		        member_joins(request) ||
		        !arch_cas(request, REQUEST_WAITING, REQUEST_SERVING))
			continue;
		struct fur_thread *member = &e->threads[i];
		enum request now = publish_member(member, number);
		if (now == REQUEST_JOINED) {
			*end = member;
			end = &member->software.next_served;
		} else {
			/* Its thread may have gone to sleep until it is served. */
			arch_store_release(request, now);
			wake_members(e);
		}
	}
	*end = NULL;
}

/* INV-SW7: close the gate, and wait for the members that are publishing.  Returns how many updates
 * have published beside the holder's, or wait. */
static uint32_t close_gate(struct fur_thread *t)
{
	struct engine *e = t->engine;
	uint32_t members = 0;
	arch_exchange(&e->lock.gate, 0); /* ordered: see join_batch() */
	uint64_t limit = load_requests(t);
	for (uint32_t i = 0; i < limit; i++) {
		struct arch_backoff backoff = durability_backoff(e->durability);
		members += t->window.seqs[i] != REQUEST_NONE;
		if (t->window.seqs[i] != REQUEST_JOINING)
			continue;
		while (arch_load_acquire(&e->active[i].request) == REQUEST_JOINING)
			arch_backoff(&backoff);
	}
	return members;
}

/* Pass the updates that the thread has published for others on: REQUEST_SERVED: make them durable;
 * REQUEST_JOINED: let their threads do that. */
static void end_service(struct fur_thread *t, enum request as)
{
	struct fur_thread *member = t->software.serves;
	if (likely(!member))
		return;
	t->software.serves = NULL;
	for (struct fur_thread *next; member; member = next) {
		next = member->software.next_served;
		if (as == REQUEST_SERVED)
			member->software.result =
			        durability_persist(member->durability, &member->window.commit);
		arch_store_release(&t->engine->active[member->index].request, as);
	}
	wake_members(t->engine);
}

void publish_persist_served(struct fur_thread *t)
{
	end_service(t, REQUEST_SERVED);
}

/* ------------------------------------------------------------ the turn's holder */

/* The longest time between two publications. */
static uint64_t pace_most(const struct engine *e)
{
	return e->drain_ticks / PACE_PART;
}

/* Each publication stops all readers, and costs the lines of active[] that it scans.  With many
 * threads, it pays for updates to wait a little and publish together.  The time between two
 * publications is a multiple of the time for which the last one stopped the readers: the more
 * threads there are, and the fewer updates were waiting, the longer.  Measured on the emulated
 * machine: docs/benchmarks-notes.md, "Time between publications". */
static void pace_wait(const struct engine *e)
{
	const uint64_t not_before = e->publications.not_before;
	while (not_before && arch_ticks_pending(arch_ticks(), not_before, pace_most(e)))
		arch_pause();
}

static uint64_t pace_begin(const struct engine *e)
{
	return arch_load(&e->durability->limit) < THREADS_MANY ? 0 : arch_ticks();
}

static void pace_end(struct engine *e, uint64_t began, uint32_t members)
{
	uint64_t now, most = pace_most(e), wait;
	e->publications.not_before = 0;
	/* With more threads than cores, the time may be that of a thread that was not running; and
	 * waiting would keep others from their core. */
	if (!began || (now = arch_ticks()) < began || !arch_load32(&e->durability->spins))
		return;
	wait = (now - began) * arch_load(&e->durability->limit) /
	       (THREADS_MANY * (UINT64_C(1) + members));
	e->publications.not_before = now + (wait < most ? wait : most);
}

/* Store, and let other updates publish meanwhile.  Returns how many did, or wait. */
static uint32_t store_with_members(struct fur_thread *t, uint64_t number)
{
	/* Release: members see our claims, so we come before each that reads what we write.  Ours
	 * need no look at theirs: none has claimed a line yet. */
	arch_store_release(&t->engine->lock.gate, number);
	store_writes(t);
	serve_members(t, number);
	return close_gate(t);
}

/* The stores of a bulk update, with readers shut out since `began`, in ticks.  INV-BU5: alone.  A
 * member that has read one of its records would look for the word in our write set, which does not
 * have the records (plant: bulk-opens-the-gate). */
static void store_bulk(struct fur_thread *t, uint64_t began)
{
	FUR_POINT(bulk__stores);
	const uint64_t store = arch_ticks();
	store_writes(t);
	const uint64_t now = arch_ticks();
	t->pause = (struct bulk_pause){.all = now - began, .store = now - store};
}

/* INV-SW3: store with readers shut out.  Errors: FUR_EFORK. */
static int publish_in_place(struct fur_thread *t)
{
	struct engine *e = t->engine;
	const bool bulk = t->update.flags & TX_BULK;
	pace_wait(e);
	uint64_t began = pace_begin(e), number = 0, shut = bulk ? arch_ticks() : 0;
	bool bodies = readers_shut_out(e, t->index);
	if (unlikely(engine_forked(e))) /* the user's reader_report has forked (INV-K2) */
		return tx_refuse(e);
	phase_mark(&t->window.commit, FUR_PHASE_ISOLATION);
	uint32_t members = 0;
	/* Announce only now: a reader that ended during the drain need not wait for us. */
	announce(t);
	if (bodies)
		stamp_writes(t, number = publication_begin(e));
	if (unlikely(bulk))
		store_bulk(t, shut);
	else if (bodies)
		members = store_with_members(t, number);
	else
		store_writes(t);
	if (bodies)
		publication_end(e);
	readers_let_in(e);
	pace_end(e, began, members);
	stat_add(&t->stats.lock_commits, 1);
	return 0;
}

/* One attempt to publish in a hardware transaction.  The compiler must not inline this, and no
 * value may live across begin_publication() unless an abort restores it.
 * Returns: true: it has committed. */
static __attribute__((noinline)) bool publish_attempt(struct fur_thread *t, int *error)
{
	const struct htm_ops *ops = t->engine->ops;
	uint64_t status = ops->begin_publication(t);
	if (status == HTM_STARTED) {
		store_writes(t);
		ops->commit(t);
		return true;
	}
	enum fur_abort_cause cause = ops->classify(status);
	FUR_PROBE2(update__abort, t->index, cause);
	stat_add(&t->stats.aborts[cause], 1);
	*error = ops->aborted(t);
	/* An aborted attempt may have announced itself and left: the next one needs another id.  On
	 * POWER it may have written the log back, with the head of its own durTS: the next one
	 * writes another head. */
	t->window.commit.id++;
	t->window.commit.log_is_out = false;
	return false;
}

/* False: hardware does not accept the write set, or *error. */
static bool publish_in_hardware(struct fur_thread *t, int *error)
{
	enum { TRIES = 4 };
	struct engine *e = t->engine;
	bool done = false;
	stamp_writes(t, publication_begin(e));
	t->window.publishing = true;
	for (int k = 0; k < TRIES && !done && !*error; k++)
		done = publish_attempt(t, error);
	t->window.publishing = false;
	publication_end(e);
	return done;
}

/* With the turn. */
static int publish_as_holder(struct fur_thread *t)
{
	struct engine *e = t->engine;
	int error = 0;
	FUR_ASSERT(!t->software.serves);
	/* INV-SW2.  The turn keeps others from publishing, and hardware updates wait (INV-SW4). */
	if (t->update.mode == TX_CONCURRENT &&
	        snapshot_is_old(t, arch_load(&e->publications.now)) && !software_extend(t))
		error = UPDATE_DEFEATED;
	else if (!e->ops || (t->update.flags & TX_BULK) ||
	         (!publish_in_hardware(t, &error) && !error))
		error = publish_in_place(t);
	if (error == UPDATE_DEFEATED)
		body_defeat(t);
	else
		body_inactive(t);
	turn_give(e);
	/* Where a group of threads shares a sync, each makes its own update durable: this thread
	 * would take a sync for each. */
	if (pm_writes(&t->durability->pm))
		end_service(t, REQUEST_JOINED);
	return error;
}

/* ------------------------------------------------------------ waiting */

/* The turn's holder is publishing the update, or making it durable. */
static void wait_for_service(struct engine *e, const uint64_t *request, struct turn_wait *wait)
{
	struct publications *p = &e->publications;
	if (!turn_should_sleep(e, wait)) {
		arch_pause();
		return;
	}
	/* Ordered: see wake_members().  If the number grows before we are asleep, the kernel
	 * returns at once. */
	uint64_t batches = arch_load_acquire(&p->batches);
	arch_fetch_add(&p->sleepers, 1);
	if (arch_load_ordered(request) == REQUEST_SERVING)
		arch_futex_wait(arch_futex_of(&p->batches), (uint32_t)batches);
	arch_fetch_add(&p->sleepers, (uint64_t)-1);
}

/* Take the turn, unless the update has been published, or is being published. */
static bool take_turn_instead(
        struct engine *e, struct active_entry *mine, const struct turn_wait *wait)
{
	if (!turn_try(e, wait))
		return false;
	/* Only the turn's holder serves requests, so from now on no other thread does. */
	if (arch_load_acquire(&mine->request) == REQUEST_WAITING)
		return true;
	turn_give(e);
	return false;
}

/* Wait until the update is published, or its thread has the turn.  Returns the request's state;
 * REQUEST_NONE: with the turn. */
static enum request wait_to_be_published(struct fur_thread *t)
{
	struct engine *e = t->engine;
	struct active_entry *mine = active_of(t);
	struct turn_wait wait = {0};
	lock_note_meeting(e);
	crowd_count(e);
	arch_store(&t->software.publication, 0);
	/* Release: a thread that serves the request sees our read set, write set and log. */
	arch_store_release(&mine->request, REQUEST_WAITING);
	for (;;) {
		enum request now = join_batch(t, mine);
		if (now == REQUEST_SERVING) {
			wait_for_service(e, &mine->request, &wait);
		} else if (now != REQUEST_WAITING) {
			turn_forward_wakeup(e, &wait);
			return now;
		} else if (take_turn_instead(e, mine, &wait)) {
			return REQUEST_NONE;
		} else if (!turn_should_sleep(e, &wait)) {
			arch_pause();
		} else if (turn_waited_long(&wait)) {
			/* INV-L1 */
			if (arch_cas(&mine->request, REQUEST_WAITING, REQUEST_NONE)) {
				turn_reserve(e);
				return REQUEST_NONE;
			}
		} else {
			turn_sleep(e, &wait, &mine->request, REQUEST_WAITING);
		}
	}
}

static int publish_or_be_published(struct fur_thread *t)
{
	struct engine *e = t->engine;
	struct active_entry *mine = active_of(t);
	const struct turn_wait at_once = {0};
	enum request request = REQUEST_NONE;
	FUR_ASSERT(!t->software.served);
	collect_after_body(t);
	if (t->update.mode == TX_CONCURRENT && !turn_try(e, &at_once)) {
		request = wait_to_be_published(t);
		phase_mark(&t->window.commit, FUR_PHASE_LOCK);
		arch_store(&mine->request, REQUEST_NONE);
	}
	if (request == REQUEST_NONE)
		return publish_as_holder(t);
	if (request == REQUEST_DEFEATED) {
		body_defeat(t);
		return UPDATE_DEFEATED;
	}
	stat_add(&t->stats.lock_commits, 1);
	t->software.served = request == REQUEST_SERVED;
	body_inactive(t);
	return 0;
}

int publish(struct fur_thread *t)
{
	FUR_PROBE1(publication__begin, t->index);
	int error = publish_or_be_published(t);
	FUR_PROBE2(publication__end, t->index, error);
	return error;
}
