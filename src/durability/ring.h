/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ring.h - the marker ring: durTSs, their slots, and the tail (FUR 3.3).
 *
 * durTS s has slot s % ring_slots.  The durTSs [tail, tail + ring_slots) are the ring's window: an
 * update that draws a later one waits until a replay has moved the tail.
 */
#ifndef FUR_RING_H
#define FUR_RING_H

#include "durability/nondurable.h"

/* ring_draw - draw the next durTS into c->durts.
 * Orders:  everything before it before everything after it (a fetch-and-add; hwsync on POWER).
 * Source:  FUR, Algorithm 1, line 31. */
static inline void ring_draw(struct durability *d, struct commit *c)
{
	FUR_ASSERT(c->durts == 0);
	c->durts = arch_fetch_add(&d->next_durts, 1);
}

/* Draw a durTS after those of D (INV-D4), and publish it.  For an update that has announced
 * itself. */
void ring_draw_after(struct durability *d, struct commit *c);

/* Does the durTS have its slot?  Acquire pairs with the release in replay_live(): the marker that
 * had the slot a lap ago has been read for the last time. */
static inline bool ring_fits(const struct durability *d, uint64_t durts)
{
	return durts < arch_load_acquire(&d->tail) + d->super->ring_slots;
}

/* Wait until the durTS has its slot, replaying if need be.   Errors: as durability_replay(). */
FUR_MUST_USE int ring_wait(struct durability *d, uint64_t durts);

/* ring_put_marker - write a marker whose other fields are set into the slot of its durTS.
 * Orders:  the marker's other fields, and the record, before its durTS (release): a live replayer
 *          that sees the durTS sees the rest.
 * Source:  FUR, Algorithm 1, lines 38 and 53; the caller flushes. */
void ring_put_marker(struct durability *d, struct media_marker *marker);

#endif /* FUR_RING_H */
