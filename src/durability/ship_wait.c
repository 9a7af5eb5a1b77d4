/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ship_wait.c - where transactions wait for the shipping log: at the begin of an update, and before
 * they return (ship.h).
 *
 *   INV-SH7  An update returns FUR_EFENCED only if the log has nothing of it, and never will: a
 *            program may make it again at the other heap.
 */
#include "base/error.h"
#include "base/event.h"
#include "durability/ship.h"

/* Is there room for more unacknowledged updates?  An estimate from below: what is acknowledged, and
 * not yet replayed, counts as used. */
static bool has_room(const struct durability *d, uint32_t thread)
{
	const struct redo_log *log = &d->redo[thread];
	const uint64_t slots = d->super->ring_slots, bytes = d->super->log_bytes;
	return ring_next(d) - control_newest_tail(d) <= slots - slots / 4 &&
	       (log->committed_to - arch_load(&log->tail) <= bytes - bytes / 4 ||
	               ring_replayed(d, log->durts)); /* as in redo_make_room() */
}

static int fail_standby(const struct durability *d)
{
	if (ship_was_promoted(d))
		return fur_fail(FUR_EREADONLY,
		        "the heap has become a primary since it was opened, and updates begin when "
		        "it is opened as one: close it, and open it again");
	return fur_fail(FUR_EREADONLY,
	        "the heap is a standby, which only the updates of its primary change: read from "
	        "it, and update the primary, or make this heap the primary first");
}

bool ship_admits(const struct durability *d, uint32_t thread)
{
	/* Another thread's index can be there, or 0, whenever we look; our own only if we have put
	 * it there. */
	if (d->ship.follows)
		return arch_load32(&d->ship.follower) == thread + 1;
	return arch_load32(&d->control->ship.state) == CONTROL_SHIPS && has_room(d, thread);
}

int ship_admit_slowly(struct durability *d, uint32_t thread)
{
	struct ship_patience p = {0};
	struct arch_backoff backoff = {0};
	int error = d->ship.follows ? fail_standby(d) : 0;
	while (!error && !ship_admits(d, thread)) {
		error = ship_patience(d, &p);
		/* It rests if nothing is acknowledged.  Without a shipper we may have nothing to
		 * replay. */
		if (!error && ring_tail(d) < ring_next(d))
			error = durability_replay(d, &backoff);
		else if (!error)
			ship_rest(d);
	}
	return error;
}

int ship_wait(struct durability *d, uint64_t durts)
{
	struct control_ship *c = &d->control->ship;
	struct ship_patience p = {0};
	int error = 0;
	while (!error) {
		error = ship_check_fence(d);
		const uint32_t ticket = event_prepare_shared(&c->moved);
		/* After ship_check_fence(): of a fenced heap we know exactly what the log has. */
		if (ship_acked(d) >= durts)
			return 0;
		if (!error)
			error = durability_check(d);
		/* SYNC: the shipper does not see late updates before a flush has written them. */
		if (!error && async_pending(d))
			error = async_try_flush(d);
		if (!error && ship_wait_on(d, &p))
			error = fur_fail(FUR_EINDOUBT,
			        "the shipping log has not acknowledged what this transaction has "
			        "stored or read: it is durable here, and a fail-over may lose it: "
			        "see whether fur-ship runs and reaches the log; fur_sync() waits "
			        "for it again");
		if (!error)
			event_wait_shared(&c->moved, ticket, SHIP_REST_NS);
	}
	return error;
}
