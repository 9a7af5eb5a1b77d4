/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nondurable.h - nondurable[], the updates that are visible and not yet durable.  Only this header,
 * nondurable.c and dset.c touch it.
 *
 * The life of an entry: an update calls nondurable_announce() before it becomes visible.  On POWER
 * the entry then contains its durTS; elsewhere the update draws its durTS later, and calls
 * nondurable_publish().  It calls nondurable_leave() when it is durable.
 */
#ifndef FUR_NONDURABLE_H
#define FUR_NONDURABLE_H

#include "base/probe.h"
#include "durability/ring.h"

/* nondurable_announce - put the update into nondurable[], with c->durts if that is drawn.
 * Orders:  the caller's earlier accesses before the entry (release).  The caller must order the
 *          entry before the update becomes visible; each back end does so in its own way (INV-D1).
 * Source:  FUR, Algorithm 1, line 33. */
static inline void nondurable_announce(struct durability *d, const struct commit *c)
{
	struct nondurable_entry *mine = &d->nondurable[c->me];
	FUR_ASSERT(c->id != 0);
	/* The release orders durTS before id, so a thread that sees the id also sees the durTS that
	 * belongs to it. */
	if (c->durts)
		arch_store(&mine->durts, c->durts);
	arch_store_release(&mine->id, c->id);
}

/* Publish our durTS to the updates that have us in their D. */
static inline void nondurable_publish(struct durability *d, const struct commit *c)
{
	FUR_ASSERT(c->durts != 0);
	/* Release: orders our draw before this store.  So an update that waits for our durTS draws
	 * after us (INV-D4). */
	arch_store_release(&d->nondurable[c->me].durts, c->durts);
}

/* No update has this id.  A member of D with it has left. */
#define NONDURABLE_LEFT UINT64_MAX

/* Add to D the updates that are in nondurable[].  With `below`, which is 0 or next_durts as the
 * caller has read it before: and also the newest update of each thread that has none there, if it
 * has drawn its durTS since.  Such an update has left, but no claim would cover it (INV-M5). */
static inline void nondurable_scan(
        const struct durability *d, uint32_t me, struct dset *set, uint64_t below)
{
	uint64_t limit = arch_load(&d->limit);
	uint32_t n = 0;
	arch_overlap_begin();
	for (uint32_t i = 0; i < limit; i++) {
		/* Acquire, with `below`: orders this load before that of `last`.  Pairs with the
		 * release in nondurable_leave(). */
		uint64_t id = below ? arch_load_acquire(&d->nondurable[i].id)
		                    : arch_load(&d->nondurable[i].id);
		if (below && id == 0 && unlikely(arch_load(&d->nondurable[i].last) >= below))
			id = NONDURABLE_LEFT;
		if (unlikely(id != 0) && i != me) {
			set->members[n].thread = i;
			set->members[n].id = id;
			set->members[n].durts = 0;
			set->members[n++].left = false;
		}
	}
	arch_overlap_end();
	set->n = n;
	set->by_version = false;
}

/* nondurable_collect - collect D (INV-D1).  Loads only; callable inside a hardware transaction.
 * Orders:  the body's loads before the scan of nondurable[], by the light fence.  Otherwise the
 *          transaction may read from an update that announces itself after the scan, and return
 *          that update's data while it is not durable (plant: early-d).  The caller orders the scan
 *          before the steps that follow. */
static inline void nondurable_collect(const struct durability *d, uint32_t me, struct dset *set)
{
	FUR_ASSERT(set->members != NULL);
	/* Free on x86.  On POWER it is lwsync, because the ISA does not guarantee that tsuspend.
	 * orders them.  On aarch64 it is dmb ishld; without it no two loads are ordered. */
	arch_fence_light();
	nondurable_scan(d, me, set, 0);
}

/* The same for an update, which reads next_durts before the scan: for INV-D9, and, except on POWER,
 * to claim in its record's head which durTSs are settled (INV-M4).  Where it claims that, updates
 * draw their durTS after they have announced themselves.  So for each durTS below next_durts, the
 * scan finds the update in nondurable[], or the update has left, and is settled.  If it read
 * next_durts after the scan, it would also claim updates that announced themselves in between, and
 * recovery would take a crash for damage (plant: claims-too-much; model: LATECLAIM). */
static inline void nondurable_collect_settled(struct durability *d, struct commit *c)
{
	FUR_ASSERT(c->dset.members != NULL);
	/* Acquire: orders this load before the scan.  Pairs with the fetch-and-add of ring_draw(),
	 * which an update performs after its announcement, or after its own scan. */
	c->dset.drawn_below = ring_next_acquire(d);
	c->dset.settled_below = d->draws_announced ? c->dset.drawn_below : 0;
	arch_fence_light(); /* as in nondurable_collect() */
	nondurable_scan(d, c->me, &c->dset, c->dset.settled_below);
	FUR_POINT(dependencies__collected);
}

/* nondurable_wait - the durability wait: return when every update of the set is durable (INV-D2).
 * Orders:  the stores of those updates before the caller's later accesses (acquire).
 * Source:  FUR, Algorithm 1, lines 45 to 49; D replaces the timestamps. */
void nondurable_wait(const struct durability *d, const struct dset *set);

/* Return when every update of the set has drawn its durTS, or has left (INV-D4).  Fills in the
 * durTSs, those that are not known yet.  The first call comes before the caller draws, if it makes
 * claims: so all durTSs are below its own, also those of members that have left. */
void nondurable_wait_drawn(const struct durability *d, struct dset *set);

/* Return when every update that was announced before the call is durable.
 * Orders:  the caller's earlier loads before the scan (light fence), as nondurable_collect(); and
 *          the scan before the caller's later loads (light fence), so that it finds `failed` set by
 *          an update that could not become durable (INV-D5). */
void nondurable_wait_announced(const struct durability *d);

/* Return when every durTS up to this one is settled.  The caller may be in nondurable[]; its own
 * durTS is later.  So each thread waits for earlier durTSs only.
 * Orders:  the caller's load of `durts` before the scan, and the scan before the caller's later
 *          loads (light fences), as nondurable_wait_announced(). */
void nondurable_wait_upto(const struct durability *d, uint64_t durts);

/* Return when each entry has been seen empty once. */
void nondurable_wait_all(const struct durability *d);

/* nondurable_leave - remove an update that is durable, or can never become durable (INV-D5).
 * Orders:  all earlier accesses of the thread before the store that empties the entry (release).
 *          So a thread that had us in its D, and no longer sees us, finds our marker durable or
 *          `failed` set.
 * Source:  FUR, Algorithm 1, line 39. */
static inline void nondurable_leave(struct durability *d, const struct commit *c)
{
	/* Before `id`: nondurable_wait_drawn() reads it after it has missed `id`. */
	if (c->durts)
		arch_store(&d->nondurable[c->me].last, c->durts);
	/* Zero both before the thread announces its next update: nondurable_wait_drawn() relies on
	 * that.  The order of the two does not matter. */
	arch_store_release(&d->nondurable[c->me].durts, 0);
	arch_store_release(&d->nondurable[c->me].id, 0);
	FUR_POINT(update__left);
}

/* Does `thread` still have the update of this durTS in nondurable[]?  Acquire: if this is false,
 * the caller's later loads see all that the update did before it left. */
static inline bool nondurable_has(const struct durability *d, uint32_t thread, uint64_t durts)
{
	return arch_load_acquire(&d->nondurable[thread].durts) == durts;
}

/* Has `thread` an update in nondurable[]?  A hint. */
static inline bool nondurable_is_in(const struct durability *d, uint64_t thread)
{
	return arch_load(&d->nondurable[thread].id) != 0;
}

/* The same for any thread. */
bool nondurable_any_has(const struct durability *d, uint64_t durts);

/* nondurable_tell_parts - tell another process that replays which parts of updates over several
 * heaps are settled: it cannot see nondurable[] (INV-GU9). */
void nondurable_tell_parts(struct durability *d);

#endif /* FUR_NONDURABLE_H */
