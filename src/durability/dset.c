/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dset.c - D by versions (dset.h).
 */
#include "durability/dset.h"
#include "base/probe.h"

void dset_settle(const struct durability *d, struct commit *c, uint64_t durts)
{
	/* Acquire: before the scan.  An update that announces itself later draws a later durTS. */
	uint64_t settled = ring_next_acquire(d);
	arch_fence_light();
	arch_overlap_begin();
	for (uint64_t i = 0; i < arch_load(&d->limit); i++) {
		const struct nondurable_entry *u = &d->nondurable[i];
		const uint64_t id = arch_load_acquire(&u->id);
		if (likely(id == 0) || i == c->me)
			continue;
		struct arch_backoff backoff = durability_backoff(d);
		uint64_t its;
		/* As in nondurable_wait_drawn(): if we read `durts`, and then still find `id` in
		 * place, the durTS is that update's own. */
		while ((its = arch_load_acquire(&u->durts)) <= durts &&
		        arch_load_acquire(&u->id) == id)
			arch_backoff(&backoff);
		if (its > durts && arch_load_acquire(&u->id) == id && its < settled)
			settled = its;
	}
	arch_overlap_end();
	arch_fence_light();
	dset_raise_settled(&c->dset, settled);
}

void dset_begin_versions(const struct durability *d, struct commit *c)
{
	struct dset *set = &c->dset;
	set->n = 0;
	set->newest = 0;
	set->by_version = true;
	/* What is replayed is settled.  The fence orders those updates' stores before the loads of
	 * the body, which take that for granted (INV-SW1). */
	if (unlikely(ring_tail(d) > set->settled)) {
		set->settled = ring_tail(d);
		arch_fence_light();
	}
}

void dset_make_room(const struct durability *d, struct commit *c)
{
	dset_settle(d, c, c->dset.newest);
	c->dset.n = 0;
}

void dset_add(const struct durability *d, struct commit *c, uint64_t durts)
{
	struct dset *set = &c->dset;
	/* The usual update loads what this thread has stored a short time ago.  The wait for it
	 * would look at the lines of all other threads that update. */
	if (set->own[durts % DSET_OWN] == durts)
		return;
	for (uint32_t k = 0; k < set->n; k++)
		if (set->members[k].durts == durts)
			return;
	if (!dset_has_room(set))
		dset_make_room(d, c);
	if (durts < set->settled)
		return;
	set->members[set->n++] = (struct dset_member){.durts = durts};
	set->newest = durts > set->newest ? durts : set->newest;
}

void dset_own_settled(struct commit *c)
{
	struct dset *set = &c->dset;
	if (c->durts == set->settled)
		set->settled++;
	set->own[c->durts % DSET_OWN] = c->durts;
}

/* INV-DV1 */
void dset_wait(const struct durability *d, struct commit *c)
{
	if (!c->dset.by_version)
		nondurable_wait(d, &c->dset);
	else if (c->dset.n)
		dset_settle(d, c, c->dset.newest);
}

/* ------------------------------------------------- for either kind of set */

void dset_draw(struct durability *d, struct commit *c)
{
	/* INV-D4: without this wait an update of D could draw a later durTS than ours, and recovery
	 * would reach our marker first (plant: no-slot-wait). */
	nondurable_wait_drawn(d, &c->dset);
	FUR_POINT(durts__draws);
	ring_draw(d, c);
	nondurable_publish(d, c);
	FUR_POINT(durts__drawn);
}
