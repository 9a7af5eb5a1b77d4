/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stamps.c - how updates hold stamps and free them, and sweeps.
 */
#include "stm/stamps.h"
#include "base/probe.h"
#include "durability/dset.h"

static bool hold_word(struct fur_thread *t, uint32_t index)
{
	struct written *w = &t->software.writes.words[index];
	uint64_t *stamp = stamp_of(t->engine, w->word);
	const uint64_t mine = stamp_held_by(t->index, index);
	for (unsigned looks = 0; looks < LOOKS_AT_HELD;) {
		uint64_t now = arch_load(stamp);
		if (!stamp_is_held(now)) {
			w->version = now;
			if (arch_cas(stamp, now, mine))
				return true;
		} else if (stamp_is_mine(now, t->index)) {
			w->version = WRITTEN_ANOTHER_HOLDS;
			return true;
		} else {
			looks++;
			arch_pause();
		}
	}
	return false;
}

/* INV-ST1: free the stamps of the first `n` words, with this version; 0: with those that they
 * had. */
static void free_words(struct fur_thread *t, uint32_t n, uint64_t version)
{
	const struct write_set *set = &t->software.writes;
	for (uint32_t i = 0; i < n; i++)
		if (set->words[i].version != WRITTEN_ANOTHER_HOLDS)
			arch_store_release(stamp_of(t->engine, set->words[i].word),
			        version ? version : set->words[i].version);
}

/* INV-DV1.  The update's version takes the place of those that the lines have.  Who loads another
 * word of such a line depends on them, and finds ours alone (plant: replaced-not-noted).
 * False: the set has no room for one of them. */
static bool note_replaced(struct fur_thread *t)
{
	const struct write_set *set = &t->software.writes;
	const struct dset *dset = &t->window.commit.dset;
	if (!dset->by_version) /* what it has found in nondurable[] is more */
		return true;
	for (uint32_t i = 0; i < set->n; i++) {
		const uint64_t version = set->words[i].version;
		if (likely(version < dset->settled) || version == WRITTEN_ANOTHER_HOLDS)
			continue;
		if (unlikely(!dset_has_room(dset)))
			return false;
		dset_add(t->durability, &t->window.commit, version);
	}
	return true;
}

static bool hold_all(struct fur_thread *t)
{
	const struct write_set *set = &t->software.writes;
	FUR_ASSERT(!t->software.holds);
	/* Otherwise the compare-and-swaps would wait for the lines one after the other. */
	if (set->n > 1)
		for (uint32_t i = 0; i < set->n; i++)
			arch_prefetch_to_write(stamp_of(t->engine, set->words[i].word));
	for (uint32_t i = 0; i < set->n; i++)
		if (unlikely(!hold_word(t, i))) {
			free_words(t, i, 0);
			return false;
		}
	t->software.holds = true;
	return true;
}

enum stamps_hold stamps_hold(struct fur_thread *t)
{
	if (!hold_all(t))
		return STAMPS_TAKEN;
	if (unlikely(!note_replaced(t))) {
		stamps_free(t, 0);
		return STAMPS_NO_ROOM;
	}
	FUR_POINT(stamps__held);
	return STAMPS_HELD;
}

void stamps_free(struct fur_thread *t, uint64_t version)
{
	if (!t->software.holds)
		return;
	t->software.holds = false;
	free_words(t, t->software.writes.n, version);
}

/* -------------------------------------------------------------------- sweeps */

void sweep_begin(struct engine *e)
{
	FUR_ASSERT(arch_load(&e->lock.taken) != TURN_FREE && shut_now(e) != UPDATES_IN &&
	           !(arch_load(&e->sweeps) & 1));
	/* Full fence: orders the number before our scan of active[].  A body enters active[], or
	 * sets its bound, by a full fence, and then looks at the number.  So either it sees that we
	 * sweep, or we see it, and set its bound after it has (model: SWEEPBLIND,
	 * NUMBERUNFENCED). */
	arch_store_fence(&e->sweeps, e->sweeps + 1);
	uint64_t limit = arch_load(&e->durability->limit);
	for (uint32_t i = 0; i < limit; i++)
		if (arch_load(&e->active[i].seq) & ACTIVE_SOFTWARE) {
			arch_store(&e->threads[i].software.bound, 0);
			arch_store(&e->threads[i].reader.view.bound, 0);
		}
	/* Before our stores: a body that loads one of them then finds its bound at 0 (plant:
	 * sweep-after-store; model: STORESUNFENCED). */
	arch_fence_light();
	FUR_POINT(sweep__begun);
}

void sweep_end(struct engine *e)
{
	arch_store_release(&e->sweeps, e->sweeps + 1);
}

uint64_t sweep_await(const struct engine *e)
{
	struct arch_backoff backoff = durability_backoff(e->durability);
	uint64_t sweeps;
	while ((sweeps = arch_load_acquire(&e->sweeps)) & 1)
		arch_backoff(&backoff);
	return sweeps;
}
