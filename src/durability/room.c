/* SPDX-License-Identifier: BSD-3-Clause
 *
 * room.c - make room in ring and logs: replay, or wait for the process that replays.
 */
#include "durability/nondurable.h"
#include "durability/ship.h"

/* Does a fur-replayer serve the heap?  If its lock cannot be read, this process replays: that is
 * safe, because the right to replay has a lock of its own. */
static bool replayer_serves(struct durability *d)
{
	uint64_t pid = d->control->replayer_pid;
	int held = pid ? heap_lock_held(d->pm.fd, HEAP_LOCK_REPLAYER) : 0;
	/* A replayer that ends by itself resets its pid. */
	if (pid && held == 0 && arch_load(&d->events.dead_pid) != pid) {
		arch_store(&d->events.dead_pid, pid);
		durability_note(d, EVENT_REPLAYER_DIED);
	}
	return held == 1;
}

/* Call the process that replays, and wait until it has replayed something.  False: it has not.  In
 * SYNC that process does not see late updates before a flush has written them to the file; without
 * one it would find nothing to replay. */
static bool other_process_replays(struct durability *d, int *error)
{
	bool moved = false;
	if (media_is_member(d->super))
		nondurable_tell_parts(d);
	/* Ordered: `awaited` before our try to flush.  If another thread flushes just now, it looks
	 * at `awaited` after it has unlocked the mutex, and calls the other process again.  Without
	 * the order we would sleep until the limit of control_wait_for_replayer(). */
	arch_store32_ordered(&d->async.awaited, 1);
	*error = pm_writes(&d->pm) && async_pending(d) ? async_try_flush(d) : 0;
	if (!*error)
		moved = control_wait_for_replayer(d);
	arch_store32(&d->async.awaited, 0);
	return moved;
}

/* The same for a replayer that serves the heap. */
static int replayer_wait(struct durability *d)
{
	int error;
	d->replayer_was_silent = !other_process_replays(d, &error);
	if (!d->replayer_was_silent || error)
		return error;
	arch_store(&d->events.silent_pid, d->control->replayer_pid);
	durability_note(d, EVENT_REPLAYER_SILENT);
	return 0;
}

static void replayer_answers(struct durability *d)
{
	if (d->replayer_was_silent)
		durability_note(d, EVENT_REPLAYER_ANSWERS);
	d->replayer_was_silent = false;
}

/* Wait for a running fur-replayer to replay.  If none runs, or it does not answer, replay in this
 * thread. */
static int replay_or_wait(struct durability *d)
{
	if (d->copy) /* this process has the right to replay, until the copy is made */
		return d->ops->replay(d);
	if (!d->replayer_was_silent && replayer_serves(d))
		return replayer_wait(d);
	int error = control_try_take(d);
	if (error == FUR_EBUSY) { /* another process is replaying */
		(void)other_process_replays(d, &error);
		return error;
	}
	if (error)
		return error;
	error = d->ops->replay(d); /* INV-C1 */
	control_give_back(d);      /* if that fails, the next replay does it: see control.h */
	return error;
}

int durability_replay(struct durability *d, struct arch_backoff *backoff)
{
	int error = durability_check(d);
	if (error)
		return error;
	if (ship_leashed(d)) { /* not a replayer that is silent */
		ship_rest(d);
		return 0;
	}
	if (pthread_mutex_trylock(&d->replaying)) {
		arch_store(&d->room_wanted, 1);
		arch_backoff(backoff);
		return 0;
	}
	uint64_t before = ring_tail(d);
	if (control_refresh(d))
		replayer_answers(d);
	else
		error = replay_or_wait(d);
	bool moved = ring_tail(d) != before;
	if (error)
		durability_fail(d, error);
	pthread_mutex_unlock(&d->replaying);
	/* There was nothing to replay: the update at the tail is in flight.  Let it have the
	 * processor. */
	if (!moved)
		arch_backoff(backoff);
	return error;
}
