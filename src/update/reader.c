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
#include "durability/ship.h"
#include "update/in_place.h"

static struct fur_thread *thread_of(fur_ro *ro)
{
	return (struct fur_thread *)((char *)ro - offsetof(struct fur_thread, ro));
}

/* Misuse: sets the message, returns the error. */
static int refuse_outermost(const struct fur_thread *t, fur_ro **ro, const char *function)
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

/* May the thread begin a transaction with these arguments, and without joining one? */
static inline bool is_outermost(const struct fur_thread *t, fur_ro **ro)
{
	return t && ro && t->owner == this_thread() && !this_thread()->open;
}

FUR_API int fur_begin_ro(fur_thread *t, fur_ro **ro)
{
	if (unlikely(!is_outermost(t, ro)))
		return refuse_outermost(t, ro, "fur_begin_ro");
	if (unlikely(arch_load(&t->durability->failed) != 0))
		return begin_refused(t, ro);
	if (t->engine->phase_times)
		t->began = arch_ticks();
	(void)reader_enter(t, true);
	reader_opened(t, ro);
	return 0;
}

FUR_API int fur_join_ro(fur_thread *t, fur_ro **ro)
{
	if (is_outermost(t, ro))
		return fur_begin_ro(t, ro);
	if (!t || !ro || tx_check_join(t, "fur_join_ro"))
		return refuse_outermost(t, ro, "fur_join_ro");
	if (t->reader.open && t->reader.snapshot && !t->reader.shares)
		return fur_fail(FUR_ENESTED,
		        "fur_join_ro was called inside fur_snapshot_run, whose body reads through "
		        "its fur_reader: pass that on");
	if (t->ro.depth == 0) {
		reader_turns_plain(t); /* may not return */
		if (unlikely(t->together != NULL))
			return fur_fail(FUR_ENESTED,
			        "fur_join_ro was called inside fur_group_run, whose body reads by "
			        "fur_load() of fur_group_on(): pass that on");
		/* Its loads are plain loads, which must find the update's stores in the heap. */
		if (t->update.body.software)
			in_place_from_software(&t->update);
		t->ro.joined = true;
	}
	t->ro.depth++;
	*ro = &t->ro;
	return 0;
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
