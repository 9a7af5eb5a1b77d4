/* SPDX-License-Identifier: BSD-3-Clause
 *
 * draw_lock.h - the draw lock of a heap (engine.drawing): an update over several heaps holds those
 * of all while it draws its durTSs (INV-GU4), and a snapshot of several while it chooses its
 * instant (INV-SN2).  Who takes several takes them in ascending order, and then waits for no turn.
 */
#ifndef FUR_DRAW_LOCK_H
#define FUR_DRAW_LOCK_H

#include "tx/tx.h"

static inline void draw_lock(struct engine *e)
{
	struct arch_backoff backoff = durability_backoff(e->durability);
	/* The compare-and-swap orders what the holder before us has announced before our steps. */
	while (arch_load(&e->drawing) || !arch_cas(&e->drawing, 0, 1))
		arch_backoff(&backoff);
}

static inline void draw_unlock(struct engine *e)
{
	/* Release: who holds it next finds us announced, and our durTSs drawn. */
	arch_store_release(&e->drawing, 0);
}

#endif /* FUR_DRAW_LOCK_H */
