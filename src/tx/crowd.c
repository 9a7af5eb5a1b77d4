/* SPDX-License-Identifier: BSD-3-Clause
 *
 * crowd.c - more threads than cores: how long a thread spins while it waits for another one, and
 * how many updates run at a time.
 *
 * While each thread can have a core of its own, a spinning thread keeps no other from working, and
 * a sleeping one costs a wake-up, or milliseconds on a core that other programs share.  With more
 * threads than cores, the awaited thread may need the core of the one that spins.
 *
 * With more threads than cores, the kernel also takes the core from threads for which others wait:
 * an active reader, an update that is not durable yet.  Therefore only one update without hardware
 * runs on each core.  The other threads sleep before their update begins, when no thread waits for
 * them.  Running threads go on running; from time to time one of them calls the thread that has
 * slept longest (Dice, Malthusian Locks, EuroSys 2017).  Each core has its own place to wait, so
 * that threads that are pinned to one core do not keep those of another from running.
 *
 *  INV-L5  No update waits forever to be let in.  A called thread is admitted even if the place is
 *          occupied.  So is a thread that has slept for a while in which no thread was called,
 *          because the update inside may take as long as it likes; and a thread that has slept like
 *          this several times.
 */
#include "base/memory.h"
#include "durability/nondurable.h"
#include "tx/tx.h"

enum {
	COUNT_EVERY_NS = 1000000,
	LONG_SPINS = 40000,
	QUANTUM_NS = 250000, /* from one call to the next, at least */
	NAP_NS = 4000000,
	MOST_NAPS = 4
};

bool crowd_start(struct engine *e)
{
	e->crowd.cores = arch_cores();
	e->crowd.every = arch_ns_to_ticks(COUNT_EVERY_NS);
	e->crowd.nap_ns = NAP_NS;
	e->crowd.quantum = arch_ns_to_ticks(QUANTUM_NS);
	e->durability->spins = LONG_SPINS;
	e->crowd.places = arch_all_cores();
	e->crowd.place = memory_padded(e->crowd.places * sizeof *e->crowd.place);
	return e->crowd.place != NULL;
}

/* How many threads have ended a transaction since the last count, or are inside one?  An update
 * that waits for others to settle is: if all did, and did not count, the crowd would seem to be
 * gone, all threads would be let in, and each would wait longer for the others. */
static uint32_t count_threads(struct engine *e)
{
	uint64_t limit = arch_load(&e->durability->limit);
	const bool settling =
	        !pm_writes(&e->durability->pm); /* who waits for a disk needs no core */
	uint32_t busy = 0;
	for (uint32_t i = 0; i < limit; i++) {
		const struct thread_stats *s = &e->threads[i].stats;
		uint64_t ended = arch_load(&s->ro_commits) + arch_load(&s->update_commits);
		if (ended != arch_load(&e->threads[i].counted) || arch_load(&e->active[i].seq) ||
		        (settling && nondurable_is_in(e->durability, i)))
			busy++;
		arch_store(&e->threads[i].counted, ended);
	}
	return busy;
}

/* Until the first count, there is a core for each thread. */
void crowd_count(struct engine *e)
{
	uint64_t now = arch_ticks(), next = arch_load(&e->crowd.next_count);
	if (likely(arch_ticks_pending(now, next, e->crowd.every)) ||
	        !arch_cas(&e->crowd.next_count, next, now + e->crowd.every))
		return;
	uint64_t threads = count_threads(e);
	/* The first count includes threads that have only set the heap up. */
	if (!next)
		return;
	for (uint32_t i = 0; i < e->crowd.places; i++)
		threads += arch_load(&e->crowd.place[i].waiting);
	bool crowded = threads > e->crowd.cores;
	arch_store32(&e->durability->spins, crowded ? 0 : LONG_SPINS);
	arch_store32(&e->crowd.crowded, crowded);
}

/* ------------------------------------------------------ how many updates run */

static bool go_in(struct crowd_place *p)
{
	return arch_load(&p->inside) == 0 && arch_cas(&p->inside, 0, 1);
}

/* INV-L5.  Sleep until this thread is called, or has slept long enough.  A caller that has not seen
 * `waiting` grow makes no call; the limit on the sleep makes up for that. */
static void wait_for_call(struct crowd_place *p, uint64_t nap_ns)
{
	arch_fetch_add(&p->waiting, 1);
	for (unsigned k = 0; k < MOST_NAPS; k++) {
		/* All that wait here are called in turn, one in each quantum. */
		uint64_t calls = arch_load_acquire(&p->calls),
		         nap = nap_ns + arch_load(&p->waiting) * QUANTUM_NS;
		if (arch_futex_wait_for(arch_futex_of(&p->calls), (uint32_t)calls, nap) ||
		        arch_load_acquire(&p->calls) == calls)
			break;
	}
	arch_fetch_add(&p->waiting, (uint64_t)-1);
}

void crowd_enter(struct fur_thread *t)
{
	struct crowd *c = &t->engine->crowd;
	uint32_t core = arch_core();
	crowd_count(t->engine);
	struct crowd_place *p = &c->place[core < c->places ? core : 0];
	t->policy.core_place = p;
	if (go_in(p))
		return;
	wait_for_call(p, c->nap_ns);
	arch_fetch_add(&p->inside, 1);
}

/* A place where threads wait: rather `own`, for its core is the one that falls idle.  NULL: there
 * is none. */
static struct crowd_place *place_to_call(struct crowd *c, struct crowd_place *own)
{
	struct crowd_place *p = own;
	for (uint32_t i = 0; i < c->places && arch_load(&p->waiting) == 0; i++)
		p = &c->place[i];
	return arch_load(&p->waiting) ? p : NULL;
}

void crowd_leave(struct fur_thread *t)
{
	struct crowd_place *own = t->policy.core_place, *p;
	t->policy.core_place = NULL;
	arch_fetch_add(&own->inside, (uint64_t)-1);
	uint64_t now = arch_ticks(), next = arch_load(&own->next_call);
	if (arch_ticks_pending(now, next, t->engine->crowd.quantum) ||
	        !arch_cas(&own->next_call, next, now + t->engine->crowd.quantum) ||
	        !(p = place_to_call(&t->engine->crowd, own)))
		return;
	arch_fetch_add(&p->calls, 1);
	arch_futex_wake_one(arch_futex_of(&p->calls));
}
