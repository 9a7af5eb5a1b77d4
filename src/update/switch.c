/* SPDX-License-Identifier: BSD-3-Clause
 *
 * switch.c - a heap with hardware transactions runs its updates where they lose less time.
 *
 * A hardware update costs the least, but waits for every reader, and two that meet run again.  In
 * software a body costs more, and waits for no one.  So a heap that is open with FUR_HTM_AUTO
 * measures how much of their time its hardware updates lose to aborts and waits.  If that is more
 * than half, updates run in software for a while, and then try hardware again.
 *
 * Way 15, updates move:
 *
 *     updates_learn()           after each update: counts what it has lost
 *       updates_to_software()   takes the turn, and changes `updates`, which aborts all hardware
 *                               updates; then waits until those that have committed are durable
 *       updates_to_hardware()   takes the turn, and changes `updates`
 *
 * Beside readers that are long and many an update may take milliseconds to commit.  So
 * updates_learn_early() counts what it has lost before its next attempt.
 *
 *   INV-UR1  A hardware update commits only while `updates` is HARDWARE: it has tracked the word
 *            since its begin, so the change aborts it.
 *   INV-UR2  `updates` becomes SOFTWARE when all updates that have committed in hardware are
 *            durable.  These left no versions, so who reads from one afterwards cannot tell, and
 *            need not.
 *   INV-UR3  A transaction tells by versions from whom it has read only if it finds SOFTWARE after
 *            it has entered active[].  A hardware update that begins later waits for it, as for any
 *            body (INV-SW4); those that committed before are durable (INV-UR2).
 *   INV-UR4  Such a transaction takes all durTSs for settled that the move has found settled, among
 *            them those of all hardware updates: so its marker claims those from which it may have
 *            read, though no version names them (INV-M5).
 */
#include "update/update.h"

#include "base/probe.h"

enum {
	REPORT_NS = 500000,    /* of a thread's time */
	DECISION_NS = 4000000, /* of all threads' time in reports */
	/* In a row that ask for a move.  One or two may ask because a thread went without a core
	 * for a time slice. */
	DECISIONS = 3,
	MOST_DOUBLINGS = 8
};
/* Then `until` is past, or is from before the clock wrapped around. */
#define MOST_NS UINT64_C(60000000000)

void updates_to_software(struct engine *e)
{
	struct durability *d = e->durability;
	turn_take_alone(e);
	const bool moves = updates_run_in(e) == HARDWARE;
	/* Full fence: orders the store before the scan of nondurable[].  A hardware update
	 * announces itself as it commits: it has committed before the store, and the scan finds it,
	 * or the store aborts it.  Without the fence the scan could miss one that commits; on x86
	 * turn_give() orders the two as well, on POWER nothing else does. */
	if (moves)
		arch_store_fence(&e->lock.updates, SOFTWARE_SETTLES);
	FUR_POINT(updates__in__software);
	turn_give(e);
	if (!moves)
		return;
	nondurable_wait_announced(d); /* INV-UR2 (model: UNSETTLED; plant: software-unsettled) */
	/* INV-UR4.  Only now: a hardware update draws its durTS after it is visible (model:
	 * NEXTEARLY). */
	const uint64_t next = ring_next_acquire(d);
	nondurable_wait_upto(d, next - 1);
	arch_store(&e->lock.settled, next);
	/* No other thread changes it: updates_to_hardware() waits for SOFTWARE (model:
	 * FROMSETTLING).  Release: `settled` before it. */
	arch_store_release(&e->lock.updates, SOFTWARE);
}

void updates_to_hardware(struct engine *e)
{
	/* No update publishes beside others from now on (INV-SW7). */
	turn_take_alone(e);
	/* Release: a hardware update, which has found HARDWARE, sees what software has stored.  No
	 * fence (INV-UR3): a body has one between its entry and its look, and a hardware update one
	 * between its look and its scan.  So the scan finds each body that has found SOFTWARE. */
	if (updates_run_in(e) == SOFTWARE)
		arch_store_release(&e->lock.updates, HARDWARE);
	FUR_POINT(updates__in__hardware);
	turn_give(e);
}

/* Have hardware updates lost more than half of their threads' time? */
static void decide(struct engine *e, uint64_t now)
{
	struct losses *l = &e->losses;
	const uint64_t of = arch_exchange(&l->of, 0), trials = arch_load(&l->trials);
	if (of < arch_ns_to_ticks(DECISION_NS)) /* another thread decides */
		return;
	const uint64_t lost = arch_exchange(&l->lost, 0);
	if (lost <= of / 2) {
		arch_store(&l->trials, 0);
		arch_store(&l->over, 0);
		return;
	}
	if (arch_fetch_add(&l->over, 1) + 1 < DECISIONS)
		return;
	arch_store(&l->over, 0);
	/* As long as one decision took, and twice as long after each trial of hardware that has
	 * lost too much again. */
	arch_store(&l->until, now + (of << (trials < MOST_DOUBLINGS ? trials : MOST_DOUBLINGS)));
	arch_store(&l->trials, trials + 1);
	updates_to_software(e);
}

/* The open update, or the one that has just ended, has lost `lost` more.  A report is due by the
 * clock, and not because much was lost: else it would show little but losses. */
static void report(struct fur_thread *t, uint64_t lost, uint64_t now)
{
	struct losses *l = &t->engine->losses;
	struct policy *p = &t->policy;
	p->lost += lost;
	if (!p->report_began)
		p->report_began = now;
	const uint64_t of = now - p->report_began;
	if (likely(of < arch_ns_to_ticks(REPORT_NS)))
		return;
	arch_fetch_add(&l->lost, p->lost);
	p->lost = 0;
	p->report_began = now;
	if (arch_fetch_add(&l->of, of) + of >= arch_ns_to_ticks(DECISION_NS))
		decide(t->engine, now);
}

bool updates_learn_early(struct fur_thread *t)
{
	struct policy *p = &t->policy;
	const uint64_t lost = t->attempt_began - p->first_attempt;
	p->first_attempt = t->attempt_began;
	report(t, lost, t->attempt_began);
	return updates_run_in(t->engine) != HARDWARE;
}

void updates_learn(struct fur_thread *t)
{
	struct engine *e = t->engine;
	struct policy *p = &t->policy;
	if (updates_run_in(e) != HARDWARE) {
		p->report_began = p->lost = 0;
		if (unlikely(!arch_ticks_pending(t->attempt_began, arch_load(&e->losses.until),
		            arch_ns_to_ticks(MOST_NS))))
			updates_to_hardware(e);
		return;
	}
	const uint64_t first = p->first_attempt, now = t->attempt_began + t->window.waited;
	p->first_attempt = 0;
	report(t, first ? now - first : 0, now);
}
