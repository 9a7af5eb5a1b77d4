/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gate.c - the gate of group updates (group.h).
 */
#include "group/group.h"

/* The slow path of group_gate_enter(): the gate is shut, and this thread is inside. */
void group_gate_wait(struct fur_group_thread *t)
{
	struct fur_group *g = t->group;
	do {
		/* Outside while it waits, or group_gate_shut() would wait for it. */
		group_gate_leave(t);
		event_await(&g->gate_opened, !arch_load(&g->gate_shut));
		/* As in group_gate_enter() */
		arch_exchange(&t->inside, 1);
	} while (arch_load(&g->gate_shut));
}

void group_gate_shut(struct fur_group *g)
{
	/* INV-GM3.  A full fence: orders the store before the loads of `inside`.  Otherwise this
	 * thread might find a thread outside that has found the gate open. */
	arch_exchange(&g->gate_shut, 1);
	/* Who registers later, finds the gate shut. */
	pthread_mutex_lock(&g->mutex);
	for (struct fur_group_thread *t = g->threads; t; t = t->next)
		/* Acquire: what the update has settled is seen by who has shut the gate. */
		event_await(&g->gate_left, !arch_load_acquire(&t->inside));
	pthread_mutex_unlock(&g->mutex);
}

void group_gate_open(struct fur_group *g)
{
	/* Release: orders what was done behind the gate before the next update. */
	arch_store_release(&g->gate_shut, 0);
	event_wake_all(&g->gate_opened);
}
