/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reader.c - read-only transactions: plain loads between two stores to active[], and hardly any
 * wait (FUR 3.1, 3.2.1; Algorithm 1, lines 14 to 18 and 23 to 25).
 *
 * Way 8, a read-only transaction:
 *
 *     fur_begin_ro()          refuses misuse, and a thread with an open transaction
 *       reader_enter()        waits while readers are shut out
 *         active_enter()      enters active[]; the loads come after its fence
 *     fur_end_ro()            ends the outermost transaction
 *       nondurable_collect()  collects D
 *       reader_leave()        leaves active[]
 *       nondurable_wait()     waits for D, which is nearly always empty
 *       ship_wait_all()       waits for late updates, and for the shipping log
 */
#include "base/error.h"
#include "durability/nondurable.h"
#include "durability/ship.h"
#include "update/in_place.h"

/* ------------------------------------------------------------------- steps */

/* They are `inline`, and in one file with what begins and ends a transaction: if each were called,
 * an empty transaction would take 9.0 ns instead of 6.7. */

/* In vain: each time others had let readers in, and shut them out again. */
enum { MOST_CLAIMS = 4 };

/* The rest of reader_enter(), for a reader that has found `shut` and not READERS_IN. */
static __attribute__((noinline)) bool enter_later(struct fur_thread *t, enum shut shut, bool claim)
{
	struct engine *e = t->engine;
	struct active_entry *mine = active_of(t);
	bool entered = true;
	for (unsigned claims = 0; shut != READERS_IN;) {
		active_leave(mine);
		if (shut == ALL_OUT) {
			reader_awaits_let_in(e, t->index);
		} else if (!claim) {
			entered = false;
			break;
		} else if (reader_claims(e, t->index, ++claims > MOST_CLAIMS)) {
			active_enter(
			        mine, t); /* no thread shuts readers out before it has the turn */
			turn_give(e);
			break;
		}
		active_enter(mine, t);
		shut = shut_now(e);
	}
	active_clear_wait(mine);
	return entered;
}

/* Become active while readers are in (INV-H3). */
inline bool reader_enter(struct fur_thread *t, bool claim)
{
	active_enter(active_of(t), t); /* A1:16, A1:18 */
	const enum shut shut = shut_now(t->engine);
	return likely(shut == READERS_IN) || enter_later(t, shut, claim);
}

inline void reader_opened(struct fur_thread *t, fur_ro **ro)
{
	*ro = &t->ro;
	this_thread()->open = t;
	t->ro.depth = 1;
}

/* Collect D (INV-D1).  With many threads, the scan of nondurable[] may take longer than the body.
 * So a thread that has found it empty remembers next_durts.  While that does not change, nothing
 * has become visible since (plant: quiet-forever): without hardware, an update announces itself,
 * draws its durTS, and then stores.  It does so after it has shut readers out and waited for us
 * (INV-SW3), hence not between the loads of this function, and their order does not matter.  With
 * hardware, an update may draw after its stores are visible, or before it is announced.
 * fur_wait() calls this function too, when its thread is no longer active.  Each update that it
 * must find has stored before a transaction read from it, and so has drawn: next_durts has changed
 * since the scan that found nothing, or that scan came after the update was durable.
 * Each update changes next_durts, and to load it then costs a miss, so a thread that finds it
 * changed asks more rarely. */
inline void reader_collect(struct fur_thread *t, struct dset *set)
{
	enum { THREADS_FEW = 4, MISSES = 2, SKIP = 32 };
	const struct durability *d = t->durability;
	struct quiet_scan *q = &t->quiet;
	if (t->engine->ops || q->skip || arch_load(&d->limit) <= THREADS_FEW) {
		q->skip -= q->skip != 0;
		nondurable_collect(d, t->index, set);
		return;
	}
	uint64_t next = ring_next(d);
	if (next == set->settled) {
		set->n = 0;
		set->by_version = false;
		q->misses = 0;
		return;
	}
	nondurable_collect(d, t->index, set);
	if (set->n == 0)
		set->settled = next;
	if (++q->misses == MISSES) {
		q->misses = 0;
		q->skip = SKIP;
	}
}

/* The outermost transaction ends.  Returns: now, in ticks; 0 if phases are not timed. */
inline uint64_t reader_leave(struct fur_thread *t)
{
	active_leave(active_of(t)); /* A1:24 */
	this_thread()->open = NULL;
	t->ro = (struct fur_ro){0};
	stat_add(&t->stats.ro_commits, 1);
	if (likely(!t->engine->phase_times))
		return 0;
	uint64_t now = arch_ticks();
	stat_add(&t->stats.phase_ticks[FUR_PHASE_RO_BODY], now - t->began);
	return now;
}

/* ------------------------------------------------------------ begin and end */

static struct fur_thread *thread_of(fur_ro *ro)
{
	return (struct fur_thread *)((char *)ro - offsetof(struct fur_thread, ro));
}

int reader_refuse_outermost(const struct fur_thread *t, fur_ro **ro, const char *function)
{
	if (ro)
		*ro = NULL;
	if (!t || !ro)
		return fur_fail(FUR_EINVAL, "%s: thread and ro must not be NULL", function);
	return tx_refuse_begin(t, function, "fur_join_ro()");
}

static int begin_refused(const struct fur_thread *t, fur_ro **ro)
{
	*ro = NULL;
	return tx_refuse(t->engine);
}

FUR_API int fur_begin_ro(fur_thread *t, fur_ro **ro)
{
	if (unlikely(!tx_is_outermost(t, ro)))
		return reader_refuse_outermost(t, ro, "fur_begin_ro");
	if (unlikely(arch_load(&t->durability->failed) != 0))
		return begin_refused(t, ro);
	if (t->engine->phase_times)
		t->began = arch_ticks();
	(void)reader_enter(t, true);
	reader_opened(t, ro);
	return 0;
}

/* Updates are in, and stay in until a plain reader claims the heap.  While they are in, each read
 * costs more; while readers are in, each update stops all of them.  A read that could be plain now
 * and then finds out how many updates have drawn durTSs during this thread's last reads.  If there
 * are few, plain reads pay.  The more threads there are, the more updates it finds for the same
 * share of updates, and the more threads each of them would stop. */
static bool plain_reads_pay(struct fur_thread *t)
{
	enum { LOOK_EVERY = 256, FEW = 12 };
	struct fur_reader *r = &t->reader;
	if (++r->begins % LOOK_EVERY)
		return false;
	const uint64_t seen = r->next_seen;
	r->next_seen = ring_next(t->durability);
	return r->next_seen - seen < FEW;
}

FUR_API bool fur_try_begin_ro(fur_thread *t, fur_ro **ro)
{
	if (!tx_is_outermost(t, ro) || arch_load(&t->durability->failed) != 0)
		return false;
	if (t->engine->phase_times)
		t->began = arch_ticks();
	if (unlikely(!reader_enter(t, false)) && !(plain_reads_pay(t) && reader_enter(t, true)))
		return false;
	reader_opened(t, ro);
	return true;
}

/* An end that is not the outermost, and misuse. */
static int end_inner(fur_ro *ro)
{
	if (!ro)
		return fur_fail(FUR_ENOTX, "fur_end_ro: NULL is no transaction");
	struct fur_thread *t = thread_of(ro);
	if (engine_forked(t->engine))
		return tx_refuse(t->engine);
	if (t->owner != this_thread())
		return tx_foreign("fur_end_ro", FUR_ENOTX);
	if (ro->depth == 0)
		return fur_fail(FUR_ENOTX, "fur_end_ro without fur_begin_ro");
	ro->depth--;
	if (ro->depth == 0)
		ro->joined = false;
	return 0;
}

/* Is this the end of the thread's outermost transaction? */
static inline bool ends_outermost(fur_ro *ro)
{
	return ro && ro->depth == 1 && !ro->joined && thread_of(ro)->owner == this_thread();
}

/* End the transaction without a wait. */
static __attribute__((noinline)) int end_with_ticket(fur_ro *ro, fur_ticket *ticket)
{
	*ticket = (fur_ticket){0};
	if (unlikely(!ends_outermost(ro))) {
		int error = end_inner(ro);
		/* The number that the next outermost transaction gets: a wait after the end of the
		 * one that is open covers this ticket, and no earlier wait does.  Do not count it
		 * here: inside a hardware update the store would add a line to the write set. */
		if (!error)
			*ticket = ticket_of(thread_of(ro), thread_of(ro)->tickets + 1);
		return error;
	}
	struct fur_thread *t = thread_of(ro);
	reader_leave(t); /* and no more (INV-D7) */
	/* fur_wait() reports a heap that has failed; but a child of fork() gets no ticket. */
	if (unlikely(engine_forked(t->engine)))
		return tx_refuse(t->engine);
	*ticket = ticket_of(t, ++t->tickets);
	return 0;
}

FUR_API int fur_end_ro(fur_ro *ro, fur_ticket *ticket)
{
	if (ticket)
		return end_with_ticket(ro, ticket);
	if (unlikely(!ends_outermost(ro)))
		return end_inner(ro);
	struct fur_thread *t = thread_of(ro);
	struct dset *set = &t->window.commit.dset;
	reader_collect(t, set);
	uint64_t ended = reader_leave(t);
	if (unlikely(set->n != 0)) {
		nondurable_wait(t->durability, set); /* A1:25 (INV-D2) */
		if (ended)
			stat_add(&t->stats.phase_ticks[FUR_PHASE_RO_WAIT], arch_ticks() - ended);
	}
	/* active_leave() has ordered the scan before this (INV-AS1). */
	int error = ship_wait_all(t->durability);
	return error ? error : durability_check_read(t->durability);
}

/* ----------------------------------------------------------------- tickets */

/* The index that gave the ticket out.  NULL: no index of this heap did. */
static const struct fur_thread *ticket_giver(const struct engine *e, fur_ticket ticket)
{
	uint64_t index = ticket.source & ((UINT64_C(1) << TICKET_INDEX_BITS) - 1);
	if (ticket.source >> TICKET_INDEX_BITS != e->ticket_source ||
	        index >= arch_load(&e->durability->limit))
		return NULL;
	return &e->threads[index];
}

/* Collect D for all tickets that the thread holds, its own or others', and wait (INV-D7; plants:
 * ticket-no-wait, ticket-covers-next).  An update from which one of their transactions has read had
 * announced itself before it was visible.  So it is in nondurable[] now, or durable, as it was when
 * the transaction ended: only reads that come before the scan matter, and active[] protects no
 * scan.  The ticket's way from thread to thread puts the reads of another thread before the scan.
 * The scan may also find later updates.  To wait for those costs less than a scan for each
 * transaction. */
static int wait_for_reads(struct fur_thread *t)
{
	struct dset *set = &t->window.commit.dset;
	/* The transactions of later tickets may read from updates that this scan has not found. */
	uint64_t covered = t->tickets;
	uint64_t began = t->engine->phase_times ? arch_ticks() : 0;
	reader_collect(t, set);
	nondurable_wait(t->durability, set);
	if (began)
		stat_add(&t->stats.phase_ticks[FUR_PHASE_RO_WAIT], arch_ticks() - began);
	/* The fence orders the scan before the load of `failed`.  Otherwise an update from which a
	 * transaction has read could fail, and leave nondurable[], between the two, and we would
	 * not notice. */
	arch_fence_light();
	int error = ship_wait_all(t->durability); /* INV-AS2: the fence is also for this */
	if (!error)
		error = durability_check_read(t->durability);
	if (!error)
		/* Release: a thread that sees this store waits for nothing, so what it does next
		 * must come after our waits. */
		arch_store_release(&t->waited, covered);
	return error;
}

FUR_API int fur_wait(fur_thread *t, fur_ticket ticket)
{
	if (unlikely(!t))
		return fur_fail(FUR_EINVAL, "fur_wait: thread must not be NULL");
	if (unlikely(engine_forked(t->engine)))
		return tx_refuse(t->engine);
	if (unlikely(t->owner != this_thread()))
		return tx_foreign("fur_wait", FUR_EINVAL);
	/* An open transaction uses the thread's set, and updates may be waiting for it. */
	if (unlikely(this_thread()->open != NULL))
		return fur_fail(FUR_ENESTED,
		        "fur_wait was called while this thread has a transaction open: end that "
		        "first");
	const struct fur_thread *giver = ticket_giver(t->engine, ticket);
	if (unlikely(!giver))
		return fur_fail(FUR_EINVAL,
		        ticket.source == 0 ? "fur_wait: the ticket is all zero: wait for one only "
		                             "when a transaction has given it"
		                           : "fur_wait: the ticket is of another heap, or from "
		                             "before this one was opened: wait for a ticket "
		                             "before you close its heap");
	/* Acquire pairs with the release in wait_for_reads(). */
	if (ticket.number <= arch_load_acquire(&giver->waited))
		return 0;
	return wait_for_reads(t);
}
