/* SPDX-License-Identifier: BSD-3-Clause
 *
 * draw_lock.h - the draw lock of a heap (engine.drawing): an update over several heaps holds those
 * of all while it draws its durTSs (INV-GU4), and a snapshot of several while it chooses its
 * instant (INV-SN2).  Who takes several takes them in ascending order, and then waits for no turn.
 */
#ifndef FUR_DRAW_LOCK_H
#define FUR_DRAW_LOCK_H

#include "base/spin_lock.h"
#include "tx/tx.h"

static inline void draw_lock(struct engine *e)
{
	spin_lock(&e->drawing, durability_backoff(e->durability));
}

static inline void draw_unlock(struct engine *e)
{
	/* Who holds it next finds us announced, and our durTSs drawn. */
	spin_unlock(&e->drawing);
}

#endif /* FUR_DRAW_LOCK_H */
