/* SPDX-License-Identifier: BSD-3-Clause
 *
 * control.c - the right to replay, and the calls between a working process and a replayer.
 */
#include "base/error.h"
#include "base/event.h"
#include "durability/ring.h"

#include <errno.h>
#include <unistd.h>

/* ------------------------------------------------------ the right to replay */

/* INV-C2.  We are about to free the ring slots below the tail.  The process that replayed last may
 * have died after it wrote the tail and before the tail was durable.  So write the tail back
 * again. */
static int right_start_from_medium(struct durability *d)
{
	uint64_t tail;
	const struct media_file file = durability_file(d);
	if (media_tail(&file, &tail))
		return fur_fail(
		        FUR_ECORRUPT, "the log's tail is damaged: restore the file from a copy");
	int error = 0;
	if (tail != arch_load(&d->control->tail)) {
		for (int k = 0; k < 2; k++)
			pm_flush_again(&d->pm, &d->words->tail[k][0], 8);
		error = pm_drain(&d->pm);
	}
	if (error)
		return error;
	arch_store_release(&d->control->tail, tail);
	/* Release, as in room_give_back(): orders the last reads of the slots below before this
	 * store. */
	ring_move_tail(d, tail);
	return 0;
}

/* We have taken the lock; start from the medium, or give the lock back. */
static int right_taken(struct durability *d)
{
	int error = right_start_from_medium(d);
	if (error)
		control_give_back(d);
	return error;
}

static uint32_t *right_claimed(const struct durability *d)
{
	return &d->control->claimed;
}

/* Claim the right.  We hold the worker's lock, and were refused HEAP_LOCK_REPLAY.  INV-C4:
 * sequential consistency, and the kernel's own lock around its list of locks, order our claim
 * before our look; in the same way they order a replayer's lock before its look.  Without this
 * order neither might see the other, and both would replay.  Errors: FUR_EBUSY, FUR_ESYS. */
static int right_claim(struct durability *d)
{
	arch_store32_ordered(right_claimed(d), 1);
	int held = heap_lock_held(d->pm.fd, HEAP_LOCK_REPLAY);
	if (held == 0)
		return 0;
	arch_store32_release(right_claimed(d), 0);
	return held < 0 ? held : FUR_EBUSY;
}

/* The replayer has taken the lock: give it back if a living worker claims the right.  The claim of
 * a dead worker does not count; the next worker clears it.  Errors: FUR_EBUSY if the lock was given
 * back; FUR_ESYS. */
static int right_yield(struct durability *d)
{
	if (!arch_load32_ordered(right_claimed(d)))
		return 0;
	int held = heap_lock_held(d->pm.fd, HEAP_LOCK_WORKER);
	if (held == 0)
		return 0;
	if (heap_lock_give_back(d->pm.fd, HEAP_LOCK_REPLAY))
		return heap_lock_failed(errno);
	return held < 0 ? held : FUR_EBUSY;
}

/* INV-S2: a replayer that has died holds no lock. */
int control_try_take(struct durability *d)
{
	int error = heap_lock_try(d->pm.fd, HEAP_LOCK_REPLAY);
	if (!error && !d->replays_for_worker) /* the claim of a worker that has died */
		arch_store32_release(right_claimed(d), 0);
	if (error == FUR_EBUSY && !d->replays_for_worker)
		error = right_claim(d);
	else if (!error && d->replays_for_worker)
		error = right_yield(d);
	return error ? error : right_taken(d);
}

int control_take(struct durability *d)
{
	enum { PATIENCE_NS = 1000000000 };
	const uint64_t until = arch_now_ns() + 10 * (uint64_t)PATIENCE_NS;
	struct arch_backoff backoff = {0};
	for (;;) {
		int error = control_try_take(d);
		if (error != FUR_EBUSY)
			return error;
		if (arch_now_ns() > until)
			return fur_fail(FUR_EBUSY,
			        "a replayer (process %llu) has been replaying this heap for ten "
			        "seconds: if it is stopped, continue or kill it",
			        (unsigned long long)d->control->replayer_pid);
		arch_backoff(&backoff);
	}
}

int control_take_unless(struct durability *d, const uint32_t *stopping)
{
	enum { AT_MOST_NS = 10000000 };
	struct control *c = d->control;
	while (!arch_load32_acquire(stopping)) {
		const uint32_t moved = event_prepare_shared(&c->moved);
		int error = heap_lock_wait_once(d->pm.fd, HEAP_LOCK_REPLAY);
		if (error == 0) {
			error = right_yield(d);
			if (error != FUR_EBUSY)
				return error ? error : right_taken(d);
			/* A read lock has just been released, and the worker is replaying by its
			 * claim.  It wakes us when it has finished. */
			event_wait_shared(&c->moved, moved, AT_MOST_NS);
		} else if (errno != EINTR) {
			return heap_lock_failed(errno);
		}
	}
	return FUR_EBUSY;
}

int control_give_back(struct durability *d)
{
	FUR_ASSERT(d->control != NULL);
	/* Release: a replayer that finds no claim also sees every store of the replay that was made
	 * under the claim.  Only the worker clears its claim. */
	if (!d->replays_for_worker)
		arch_store32_release(right_claimed(d), 0);
	return heap_lock_give_back(d->pm.fd, HEAP_LOCK_REPLAY);
}

/* ----------------------------------------------------------- a working process */

void control_reset(struct durability *d)
{
	FUR_ASSERT(!d->replays_for_worker);
	struct control *c = d->control;
	/* Leave the rest: wake_at and replayer_pid belong to the replayer, and the events only
	 * count. */
	c->replays = c->replayed_updates = c->replayed_entries = 0;
	c->preload.known = 0;
	for (uint32_t i = 0; i < d->super->max_threads; i++)
		arch_store(&c->logs[i].tail, 0); /* positions start from 0 in each process */
	/* Everything is replayed, so it is acknowledged (INV-SH1). */
	arch_store(&c->ship.acked, ring_tail(d));
	arch_store32(&c->ship.state, CONTROL_SHIPS_NOT);
	arch_store(&c->parts_below, ring_tail(d)); /* INV-GU9: no part is open */
	arch_store_release(&c->tail, ring_tail(d));
}

void control_opened(struct durability *d)
{
	d->control->worker_pid = (uint64_t)getpid();
	d->ship.lends = d->ship.on && !d->ship.replicates && arch_lend_fences();
	/* The wake's full fence orders this before the state that control_reset() stores.  A
	 * shipper that lets our updates in stores its state after that, has a full fence, and looks
	 * here before it relies on their fences (ship_fence_updates()).  The other way round it
	 * could let them in, and not know. */
	arch_store32(&d->control->ship.lent, d->ship.lends);
	event_wake_all_shared(&d->control->opened);
}

void control_wake(struct durability *d, uint32_t me, uint64_t durts)
{
	struct control *c = d->control;
	uint64_t wake_at = arch_load(&c->wake_at),
	         log_bytes = d->redo[me].write_at - arch_load(&c->logs[me].tail);
	/* The thread's own log may fill long before the ring does. */
	if (durts < wake_at && log_bytes < d->super->log_bytes / CONTROL_WAKE_PART)
		return;
	/* Several threads may get here; one of them calls. */
	if (wake_at != CONTROL_AWAKE && arch_cas(&c->wake_at, wake_at, CONTROL_AWAKE))
		control_call(c);
}

bool control_refresh(struct durability *d)
{
	/* Acquire: orders the replayer's last reads of the slots and logs below before our next
	 * stores to them.  Pairs with the release in control_publish(). */
	uint64_t tail = arch_load_acquire(&d->control->tail);
	if (tail <= ring_tail(d))
		return false;
	for (uint64_t i = 0; i < arch_load(&d->limit); i++) {
		uint64_t log_tail = arch_load_acquire(&d->control->logs[i].tail);
		if (log_tail > arch_load(&d->redo[i].tail))
			arch_store_release(&d->redo[i].tail, log_tail);
	}
	ring_move_tail(d, tail);
	return true;
}

uint64_t control_newest_tail(const struct durability *d)
{
	uint64_t theirs = arch_load_acquire(&d->control->tail), ours = ring_tail(d);
	return theirs > ours ? theirs : ours;
}

bool control_wait_for_replayer(struct durability *d)
{
	enum { AT_MOST_NS = 100000000 };
	struct control *c = d->control;
	uint64_t now = arch_now_ns();
	const uint64_t until = now + AT_MOST_NS;
	const uint32_t moved = event_prepare_shared(&c->moved);
	if (control_refresh(d)) /* INV-EV1 */
		return true;
	control_call(c);
	for (; now < until && event_prepare_shared(&c->moved) == moved; now = arch_now_ns())
		event_wait_shared(&c->moved, moved, until - now); /* a signal ends it */
	return control_refresh(d);
}

/* ------------------------------------------------------------------- replayer */

void control_publish(struct durability *d, uint64_t updates, uint64_t entries)
{
	struct control *c = d->control;
	/* INV-C3 */
	FUR_ASSERT(arch_load(&c->tail) <= ring_tail(d));
	/* fur_get_stats() reads them at any time. */
	arch_store(&c->replays, c->replays + 1);
	arch_store(&c->replayed_updates, c->replayed_updates + updates);
	arch_store(&c->replayed_entries, c->replayed_entries + entries);
	/* Release: orders the stores of the logs' tails, and all our reads of the ring, before this
	 * store.  So a process that sees the tail sees the logs' tails too, and may write the slots
	 * again. */
	arch_store_release(&c->tail, ring_tail(d));
	/* Only threads without room sleep on it, but one system call for each replay costs
	 * little. */
	event_wake_all_shared(&c->moved);
}

void control_call(struct control *c)
{
	event_wake_all_shared(&c->calls);
}
