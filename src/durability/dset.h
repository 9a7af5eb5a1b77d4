/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dset.h - D by versions: from whom a transaction has read, as the stamps tell (stm/stamps.h).
 *
 *   INV-DV1  Each thread knows a durTS below which all are settled, or late (dset.settled).  A
 *            transaction adds each version that it loads and that is not below, nor of an update
 *            of its own thread that has waited for its D, or is late.  An update also adds each
 *            version that its own replaces: who loads another word of the line finds the last
 *            version alone, so its update must depend on those of the versions before.  Before a
 *            transaction returns, it waits for *every* durTS up to the greatest of them: the
 *            update of one of them may be durable, and have left, and depend on one that is not.
 */
#ifndef FUR_DSET_H
#define FUR_DSET_H

#include "durability/nondurable.h"

enum { DSET_NAMED = 16 }; /* dset.most; an exploration tries fewer */

/* dset_begin_versions - the set becomes empty; dset_add() will add to it. */
void dset_begin_versions(const struct durability *d, struct commit *c);

/* dset_add - a transaction has read from the update of this durTS, which may be settled.  It may
 * wait, until earlier ones that it has added are settled. */
void dset_add(const struct durability *d, struct commit *c, uint64_t durts);

/* Wait until all that the set has is settled.  It becomes empty. */
void dset_make_room(const struct durability *d, struct commit *c);

/* Can dset_add() add without a wait? */
static inline bool dset_has_room(const struct dset *set)
{
	return !set->by_version || set->n < set->most;
}

/* dset_settle - return when every durTS up to this one is settled; the caller's own entry does
 * not count.  Then set->settled lies above it.  Late updates (async.h) may not be durable.
 * Orders:  as nondurable_wait_announced(). */
void dset_settle(const struct durability *d, struct commit *c, uint64_t durts);

/* dset_own_settled - the thread's own update has passed its durability wait, or is late. */
void dset_own_settled(struct commit *c);

/* All durTSs below this one are settled. */
static inline void dset_raise_settled(struct dset *set, uint64_t below)
{
	if (unlikely(below > set->settled))
		set->settled = below;
}

/* dset_draw - draw a durTS after those of D (INV-D4), and publish it.  The update has
 * announced itself. */
void dset_draw(struct durability *d, struct commit *c);

/* The durability wait for either kind of set. */
void dset_wait(const struct durability *d, struct commit *c);

#endif /* FUR_DSET_H */
