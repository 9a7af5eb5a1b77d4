/* SPDX-License-Identifier: BSD-3-Clause
 *
 * active.c - waiting for active transactions: inside a hardware transaction's window, and outside,
 * where it may yield, sleep and report.
 */
#include "tx/active.h"
#include "base/probe.h"

#include <pthread.h>

bool active_wait_inside(const struct engine *e, struct commit_window *w, unsigned looks)
{
	FUR_ASSERT(w->seqs != NULL);
	uint64_t limit = arch_load(&e->durability->limit);
	uint32_t n = 0;
	/* First find the active transactions, then wait for them.  We need not wait for a
	 * transaction that begins later: our stores were performed before this scan, so its load of
	 * one of them aborts us. */
	arch_overlap_begin();
	for (uint32_t i = 0; i < limit; i++) {
		uint64_t seq = arch_load(&e->active[i].seq);
		if (unlikely(seq != 0)) {
			if (active_matters(seq, w->publishes_software))
				n = i + 1;
			else
				seq = 0;
		}
		w->seqs[i] = seq;
	}
	arch_overlap_end();
	FUR_POINT(active__scanned);
	FUR_POINT(active__waits);
	if (likely(n == 0))
		return true;
	const uint64_t began = arch_ticks();
	for (uint32_t i = 0; i < n; i++)
		while (w->seqs[i] && arch_load(&e->active[i].seq) == w->seqs[i]) {
			/* A software body may be waiting for the turn.  The thread that has it may
			 * be waiting, with readers shut out, for a replay that our durTS holds up
			 * (POWER: it is drawn).  Then we must give way. */
			if (looks-- == 0 || ((w->seqs[i] & ACTIVE_SOFTWARE) && readers_are_out(e)))
				return false;
			arch_gap();
		}
	w->waited = arch_ticks() - began;
	return true;
}

static void reader_report(struct engine *e, uint32_t i, uint64_t waited_ns)
{
	arch_fetch_add(&e->long_readers, 1);
	if (!e->reader_report)
		return;
	struct fur_reader_report report = {i, waited_ns, e->threads[i].name};
	int cancel;
	/* The caller's update has only half begun, and the caller may hold the lock.  If the thread
	 * were cancelled in the callback, its clean-up would undo its previous update, which is
	 * committed, and release a lock that another thread may hold. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	e->reader_report(&report, e->reader_report_arg);
	pthread_setcancelstate(cancel, &cancel);
}

static void reader_note_longest(struct engine *e, uint64_t waited_ns)
{
	uint64_t longest = arch_load(&e->longest_reader_ns);
	while (waited_ns > longest && !arch_cas(&e->longest_reader_ns, longest, waited_ns))
		longest = arch_load(&e->longest_reader_ns);
}

static void reader_wait(struct engine *e, uint32_t i, uint64_t seq)
{
	struct arch_backoff backoff = durability_backoff(e->durability);
	uint64_t started = 0, waited = 0;
	bool reported = false;
	FUR_PROBE1(isolation__wait__begin, i);
	crowd_count(e);
	/* The user's reader_report may have forked.  The child has no such reader, and the caller
	 * refuses the transaction. */
	while (arch_load_acquire(&e->active[i].seq) == seq && !engine_forked(e)) {
		arch_backoff(&backoff);
		/* Short waits stay short because the clock is read only now and then.  Later each
		 * look takes long anyway. */
		if (backoff.turns % 64 && backoff.turns < 256 + backoff.spins)
			continue;
		uint64_t now = arch_now_ns();
		if (!started)
			started = now;
		waited = now - started;
		if (!reported && waited >= e->reader_report_ns) {
			reported = true;
			reader_report(e, i, waited);
		}
	}
	FUR_PROBE1(isolation__wait__end, i);
	if (!reported)
		return;
	waited = arch_now_ns() - started;
	reader_note_longest(e, waited);
	/* Two updates that wait for different readers may mix the two numbers up. */
	arch_store(&e->durability->events.reader, i);
	arch_store(&e->durability->events.waited_ns, waited);
	durability_note(e->durability, EVENT_LONG_READER);
}

void active_wait_outside(struct engine *e, uint32_t me, bool publishing)
{
	uint64_t limit = arch_load(&e->durability->limit);
	for (uint32_t i = 0; i < limit; i++) {
		arch_overlap_begin();
		uint64_t seq = arch_load_acquire(&e->active[i].seq);
		if (i != me && active_matters(seq, publishing))
			reader_wait(e, i, seq);
	}
	arch_overlap_end();
}

bool active_any_software(const struct engine *e)
{
	uint64_t limit = arch_load(&e->durability->limit);
	for (uint32_t i = 0; i < limit; i++)
		if (arch_load(&e->active[i].seq) & ACTIVE_SOFTWARE)
			return true;
	return false;
}

struct active_ages active_poll(struct engine *e)
{
	struct active_ages ages = {0};
	uint64_t limit = arch_load(&e->durability->limit), before = arch_now_ns();
	for (uint64_t i = 0; i < limit; i++) {
		uint64_t seq = arch_load(&e->active[i].seq);
		if (seq == 0 || (seq & ACTIVE_SOFTWARE))
			continue;
		ages.readers++;
		struct polled *polled = &e->threads[i].polled;
		if (polled->seq != seq) {
			/* Look at the clock after the load: the reader is at least as old as we
			 * report. */
			*polled = (struct polled){seq, arch_now_ns()};
			continue;
		}
		uint64_t age = before > polled->since_ns ? before - polled->since_ns : 0;
		if (age > ages.oldest_ns)
			ages.oldest_ns = age;
	}
	return ages;
}

/* Wait for one reader.  The clock is read only now and then. */
static bool drain_one(const struct active_entry *a, uint64_t seq, uint64_t *began, uint64_t most)
{
	enum { LOOKS = 64 };
	for (unsigned k = 1; arch_load_acquire(&a->seq) == seq; k++) {
		arch_pause();
		if (k % LOOKS)
			continue;
		uint64_t now = arch_ticks();
		if (*began == 0)
			*began = now;
		if (now - *began > most)
			return false;
	}
	return true;
}

bool active_drain(struct engine *e, uint32_t me, uint64_t most, struct shut_out *found)
{
	uint64_t limit = arch_load(&e->durability->limit), began = 0;
	bool drained = true;
	found->bodies = false;
	for (uint32_t i = 0; i < limit && drained; i++) {
		arch_overlap_begin();
		uint64_t seq = arch_load_acquire(&e->active[i].seq);
		if (likely(seq == 0) || i == me)
			continue;
		if (seq & ACTIVE_SOFTWARE) {
			found->bodies = found->met = true;
			continue;
		}
		found->met = true;
		drained = drain_one(&e->active[i], seq, &began, most);
	}
	arch_overlap_end();
	return drained;
}
