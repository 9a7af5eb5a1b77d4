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

void nondurable_tell_parts(struct durability *d)
{
	/* Acquire: before the scan.  A part that is announced later draws a later durTS. */
	uint64_t below = ring_next_acquire(d), told;
	arch_fence_light();
	for (uint64_t i = 0; i < arch_load(&d->limit); i++) {
		const struct nondurable_entry *u = &d->nondurable[i];
		const uint64_t id = arch_load_acquire(&u->id), durts = arch_load_acquire(&u->durts);
		if (!id)
			continue;
		/* One that has not drawn yet may draw any from our look at the clock on; but it may
		 * have drawn before, and not published that: then nothing is told of what lies
		 * above the newest that this thread knows. */
		if (!durts)
			return;
		if (durts < below)
			below = durts;
	}
	do
		told = arch_load(&d->control->parts_below);
	while (told < below && !arch_cas(&d->control->parts_below, told, below));
}
