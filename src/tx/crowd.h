/* SPDX-License-Identifier: BSD-3-Clause
 *
 * crowd.h - more threads than cores: how long threads spin, and which updates are let in (crowd.c).
 */
#ifndef FUR_CROWD_H
#define FUR_CROWD_H

#include "base/arch.h"

#include <stdbool.h>

struct fur_thread;
struct engine;

/* How many threads want a core.  Owner: tx/crowd.c. */
struct crowd {
	uint64_t next_count ARCH_PADDED; /* in ticks */
	uint64_t every, quantum;         /* in ticks */
	uint32_t cores;                  /* on which this process may run */
	uint32_t crowded;                /* more threads work on the heap than there are cores */
	uint32_t places;
	struct crowd_place *place; /* [places], one for each core of the machine */
	uint64_t nap_ns;           /* how long a thread that waits sleeps, at least */
};

/* Where the updates of threads that run on one core are let in.  Owner: tx/crowd.c. */
struct crowd_place {
	uint64_t inside ARCH_PADDED; /* updates that were let in, and have not ended */
	uint64_t waiting;            /* threads that wait to be let in */
	uint64_t next_call;          /* when an update that ends may call one, in ticks */
	uint64_t calls;              /* so far.  A futex. */
};

/* False: no memory. */
FUR_MUST_USE bool crowd_start(struct engine *e);
/* Called by a thread that begins to wait, or begins an update over several heaps, which waits where
 * no engine is known: every millisecond, decide anew whether the heap is crowded, and how long
 * threads spin (durability.spins). */
void crowd_count(struct engine *e);
/* For an update without hardware that begins while the heap is crowded: wait while another one that
 * began on this core has not ended. */
void crowd_enter(struct fur_thread *t);
/* The same thread's update has ended.  Called when it is durable: it may wake a thread, which the
 * kernel may run in our place, and then others wait for an update that is not durable. */
void crowd_leave(struct fur_thread *t);

#endif /* FUR_CROWD_H */
