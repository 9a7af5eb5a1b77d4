/* SPDX-License-Identifier: BSD-3-Clause
 *
 * crowd.c - how long a thread spins while it waits for another one.
 *
 * While each thread can have a core of its own, a spinning thread keeps nobody from working, and a
 * sleeping one costs a wake-up, or milliseconds on a core that other programs share.  With more
 * threads than cores, the awaited thread may need the core of the one that spins.
 */
#include "htm/htm.h"

enum { COUNT_EVERY_NS = 1000000, LONG_SPINS = 40000 };

void crowd_start(struct htm *h)
{
	cpu_set_t cores;
	h->crowd.cores =
	        sched_getaffinity(0, sizeof cores, &cores) ? 1 : (uint32_t)CPU_COUNT(&cores);
	h->crowd.every = arch_ns_to_ticks(COUNT_EVERY_NS);
	h->durability->spins = LONG_SPINS;
}

/* How many threads have ended a transaction since the last count, or are inside one? */
static uint32_t count_threads(struct htm *h)
{
	uint64_t limit = arch_load(&h->durability->limit);
	uint32_t busy = 0;
	for (uint32_t i = 0; i < limit; i++) {
		const struct thread_stats *s = &h->threads[i].stats;
		uint64_t ended = arch_load(&s->ro_commits) + arch_load(&s->update_commits);
		if (ended != arch_load(&h->threads[i].counted) || arch_load(&h->active[i].seq))
			busy++;
		arch_store(&h->threads[i].counted, ended);
	}
	return busy;
}

/* Until the first count, there is a core for each thread. */
void crowd_count(struct htm *h)
{
	uint64_t now = arch_ticks(), next = arch_load(&h->crowd.next_count);
	if (likely(now < next) || !arch_cas(&h->crowd.next_count, next, now + h->crowd.every))
		return;
	uint32_t busy = count_threads(h);
	/* The first count includes threads that have only set the heap up. */
	if (next)
		arch_store32(&h->durability->spins, busy <= h->crowd.cores ? LONG_SPINS : 0);
}
