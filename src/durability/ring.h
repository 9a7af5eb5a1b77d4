/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ring.h - the marker ring: durTSs, their slots, and the tail (FUR 3.3).
 *
 * durTS s has slot s % ring_slots.  The durTSs [tail, tail + ring_slots) are the ring's window: an
 * update that draws a later one waits until a replay has moved the tail.  Only ring.c and this
 * header touch next_durts and tail of struct durability.
 */
#ifndef FUR_RING_H
#define FUR_RING_H

#include "durability/durability.h"

/* ring_draw - draw the next durTS into c->durts.
 * Orders:  everything before it before everything after it (a fetch-and-add: a full fence, arch.h).
 * Source:  FUR, Algorithm 1, line 31. */
void ring_draw(struct durability *d, struct commit *c);

/* The next durTS to be drawn.  Relaxed. */
static inline uint64_t ring_next(const struct durability *d)
{
	return arch_load(&d->next_durts);
}

/* The same.  Acquire: orders this load before the caller's later loads; see
 * nondurable_collect_settled(). */
static inline uint64_t ring_next_acquire(const struct durability *d)
{
	return arch_load_acquire(&d->next_durts);
}

/* The same, as a draw of nothing: a fetch-and-add of 0.  Who draws this durTS or a later one finds
 * all that the caller has stored before, on every machine; a load could miss a draw that POWER
 * performs after the drawer's next loads (arch.h). */
static inline uint64_t ring_next_drawn(struct durability *d)
{
	return arch_fetch_add(&d->next_durts, 0);
}

/* The first durTS that is not replayed, as last read.  Relaxed. */
static inline uint64_t ring_tail(const struct durability *d)
{
	return arch_load(&d->tail);
}

/* Is the update of this durTS replayed?  Acquire: orders the replay's last reads of the update's
 * record before our later stores there.  Pairs with ring_move_tail(). */
static inline bool ring_replayed(const struct durability *d, uint64_t durts)
{
	return arch_load_acquire(&d->tail) > durts;
}

/* ring_move_tail - move the tail: the durTSs below `tail` are replayed, and updates may use their
 * slots again.
 * Orders:  all earlier reads of the markers below `tail` before the store (release).  Otherwise an
 *          update could overwrite a marker that the replay still reads. */
static inline void ring_move_tail(struct durability *d, uint64_t tail)
{
	FUR_ASSERT(tail >= arch_load(&d->tail));
	arch_store_release(&d->tail, tail);
}

/* Restart the ring: updates draw from `tail` on.  Nothing is in flight, and everything is
 * replayed. */
static inline void ring_restart(struct durability *d, uint64_t tail)
{
	arch_store(&d->tail, tail);
	arch_store(&d->next_durts, tail);
}

/* Is the durTS in the ring's window, so that its slot is free?  Acquire: orders the last reads of
 * the marker that had the slot a lap ago before our stores to the slot.  Pairs with
 * ring_move_tail(). */
static inline bool ring_fits(const struct durability *d, uint64_t durts)
{
	return durts < arch_load_acquire(&d->tail) + d->super->ring_slots;
}

/* Wait until the slot of the durTS is free; replay if necessary.  Errors: as
 * durability_replay(). */
FUR_MUST_USE int ring_wait(struct durability *d, uint64_t durts);

/* ring_put_marker - compute the marker's checksum, and write the marker to the slot of its durTS.
 * The caller has set all other fields.
 * Orders:  the stores of the record and of the marker's other fields before that of its durTS
 *          (release).  So a live replayer that sees the durTS sees the rest too.
 * Source:  FUR, Algorithm 1, lines 38 and 53; the caller flushes. */
void ring_put_marker(struct durability *d, struct media_marker *marker);

#endif /* FUR_RING_H */
