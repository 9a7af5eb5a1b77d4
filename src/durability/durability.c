/* SPDX-License-Identifier: BSD-3-Clause
 *
 * durability.c - the marker ring and the durability waits: durability.h says the rule, this and commit.c keep it.
 */
#include "durability.h"
#include "../fur_error.h"

#include <string.h>

void durability_wait(const struct durability *d, const struct dset *set)
{
	for (uint32_t k = 0; k < set->n; k++) {
		const struct dset_member *m = &set->members[k];
		struct arch_backoff backoff = {0};
		/* Acquire pairs with the release in leave(): after it, what that update made durable is. */
		while (arch_load_acquire(&d->nondurable[m->thread].id) == m->id)
			arch_backoff(&backoff);
	}
}

void durability_wait_slots(const struct durability *d, struct dset *set)
{
	for (uint32_t k = 0; k < set->n; k++) {
		struct dset_member *m = &set->members[k];
		const struct nondurable *u = &d->nondurable[m->thread];
		struct arch_backoff backoff = {0};
		for (;;) {
			/* `id` was seen before `slot` is read here, and `slot` is zeroed before `id` is given up, so a slot read
			 * while `id` still stands is that update's own.  Acquire keeps the two loads in this order. */
			m->slot = arch_load_acquire(&u->slot);
			if (arch_load_acquire(&u->id) != m->id) {
				m->slot = 0;
				break;
			}
			if (m->slot)
				break;
			arch_backoff(&backoff);
		}
	}
}

uint64_t durability_draw(struct durability *d, uint32_t me, struct dset *set)
{
	/* INV-D4: without this wait a dependency could draw a later slot, and recovery would meet the dependent marker first. */
	durability_wait_slots(d, set);
	uint64_t slot = arch_fetch_add(&d->next_durts, 1);
	/* Release: whoever waits for our slot draws after us. */
	arch_store_release(&d->nondurable[me].slot, slot);
	return slot;
}

/* A replayer beside us does it, unless there is none, or it does not answer. */
static int replay_or_wait(struct durability *d)
{
	if (!d->impatient && d->control->replayer_pid && heap_lock_held(d->pm.fd, HEAP_LOCK_REPLAYER)) {
		d->impatient = !control_wait_for_replayer(d);
		return 0;
	}
	int error = control_try_take(d);
	if (error == FUR_EBUSY) { /* in the middle of it */
		control_wait_for_replayer(d);
		return 0;
	}
	if (error)
		return error;
	error = d->ops->replay(d);
	control_give_back(d);
	return error;
}

int durability_replay(struct durability *d, struct arch_backoff *backoff)
{
	int error = (int)arch_load(&d->failed);
	if (error)
		return fur_fail(error, "this heap can no longer be made durable: close it and open it again");
	if (pthread_mutex_trylock(&d->replaying)) {
		arch_backoff(backoff);
		return 0;
	}
	uint64_t before = arch_load(&d->tail);
	if (control_refresh(d))
		d->impatient = false;
	else
		error = replay_or_wait(d);
	bool moved = arch_load(&d->tail) != before;
	if (error)
		arch_store(&d->failed, (uint64_t)error);
	pthread_mutex_unlock(&d->replaying);
	/* Nothing to replay yet: the slot at the tail is in flight, and its owner needs the processor more than we do. */
	if (!moved)
		arch_backoff(backoff);
	return error;
}

int durability_wait_ring(struct durability *d, uint64_t durts)
{
	struct arch_backoff backoff = {0};
	/* Acquire pairs with the release in replay_live(): the marker that had this slot a lap ago has been read for the last time. */
	while (durts >= arch_load_acquire(&d->tail) + d->super->ring_slots) {
		int error = durability_replay(d, &backoff);
		if (error)
			return error;
	}
	return 0;
}
