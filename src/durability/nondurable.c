/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nondurable.c - the waits for updates that are not durable yet.
 */
#include "durability/nondurable.h"
#include "base/probe.h"

void nondurable_wait(const struct durability *d, const struct dset *set)
{
	if (set->n)
		FUR_PROBE1(durability__wait__begin, set->n);
	for (uint32_t k = 0; k < set->n; k++) {
		const struct dset_member *m = &set->members[k];
		struct arch_backoff backoff = durability_backoff(d);
		/* Acquire pairs with the release in nondurable_leave(). */
		while (arch_load_acquire(&d->nondurable[m->thread].id) == m->id)
			arch_backoff(&backoff);
	}
	if (set->n)
		FUR_PROBE1(durability__wait__end, set->n);
}

void nondurable_wait_drawn(const struct durability *d, struct dset *set)
{
	for (uint32_t k = 0; k < set->n; k++) {
		struct dset_member *m = &set->members[k];
		const struct nondurable_entry *u = &d->nondurable[m->thread];
		struct arch_backoff backoff = durability_backoff(d);
		while (!m->durts && !m->left) {
			/* nondurable_leave() zeroes `durts` before the thread announces its next
			 * update, and the scan has seen `id`.  So if we read `durts`, and then
			 * still find `id` in place, the durTS is that update's own.  Acquire keeps
			 * our two loads in this order; otherwise the durTS could be the next
			 * update's. */
			m->durts = arch_load_acquire(&u->durts);
			m->left = arch_load_acquire(&u->id) != m->id;
			if (m->left) {
				/* Acquire above pairs with the release in nondurable_leave(), so
				 * this is the update's durTS, or that of a later one. */
				m->durts = arch_load(&u->last);
				break;
			}
			if (!m->durts)
				arch_backoff(&backoff);
		}
	}
}

void nondurable_draw(struct durability *d, struct commit *c)
{
	/* INV-D4: without this wait an update of D could draw a later durTS than ours, and recovery
	 * would reach our marker first (plant: no-slot-wait). */
	nondurable_wait_drawn(d, &c->dset);
	ring_draw(d, c);
	nondurable_publish(d, c);
	FUR_POINT(durts__drawn);
}

void nondurable_wait_announced(const struct durability *d)
{
	struct arch_backoff backoff = durability_backoff(d);
	arch_fence_light();
	/* One entry after the other: an update that is announced meanwhile is none of ours. */
	for (uint64_t i = 0; i < arch_load(&d->limit); i++) {
		uint64_t id = arch_load(&d->nondurable[i].id);
		/* Acquire pairs with the release in nondurable_leave(). */
		while (id && arch_load_acquire(&d->nondurable[i].id) == id)
			arch_backoff(&backoff);
	}
	arch_fence_light();
}

void nondurable_wait_upto(const struct durability *d, uint64_t durts)
{
	struct arch_backoff backoff = durability_backoff(d);
	arch_fence_light();
	for (uint64_t i = 0; i < arch_load(&d->limit); i++) {
		const struct nondurable_entry *u = &d->nondurable[i];
		const uint64_t id = arch_load(&u->id);
		/* Without a durTS in its entry, the update may have drawn an earlier one than
		 * `durts`, and not published it yet.  One that is announced from now on draws a
		 * later one.  Acquire pairs with the release in nondurable_leave(). */
		while (id && arch_load(&u->durts) <= durts && arch_load_acquire(&u->id) == id)
			arch_backoff(&backoff);
	}
	arch_fence_light();
}

void nondurable_settle(const struct durability *d, struct commit *c, uint64_t durts)
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
	if (settled > c->dset.settled)
		c->dset.settled = settled;
}

void nondurable_begin_versions(const struct durability *d, struct commit *c)
{
	struct dset *set = &c->dset;
	set->n = 0;
	set->newest = 0;
	set->by_version = true;
	if (unlikely(set->settled == 0))
		nondurable_settle(d, c, 0);
}

void nondurable_add(const struct durability *d, struct commit *c, uint64_t durts)
{
	struct dset *set = &c->dset;
	for (uint32_t k = 0; k < set->n; k++)
		if (set->members[k].durts == durts)
			return;
	if (set->n == NONDURABLE_NAMED) {
		nondurable_settle(d, c, set->newest);
		set->n = 0;
	}
	if (durts < set->settled)
		return;
	set->members[set->n++] = (struct dset_member){.durts = durts};
	set->newest = durts > set->newest ? durts : set->newest;
}

void nondurable_wait_for_reads(const struct durability *d, struct commit *c)
{
	if (!c->dset.by_version)
		nondurable_wait(d, &c->dset);
	else if (c->dset.n)
		nondurable_settle(d, c, c->dset.newest);
}

void nondurable_wait_all(const struct durability *d)
{
	struct arch_backoff backoff = durability_backoff(d);
	for (uint64_t i = 0; i < arch_load(&d->limit); i++)
		while (arch_load_acquire(&d->nondurable[i].id))
			arch_backoff(&backoff);
}

bool nondurable_any_has(const struct durability *d, uint64_t durts)
{
	for (uint32_t i = 0; i < arch_load(&d->limit); i++)
		if (nondurable_has(d, i, durts))
			return true;
	return false;
}
