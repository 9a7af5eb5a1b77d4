/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ship.c - see ship.h.
 *
 * An update that is shipped begins when ship_admit() lets it.  When its marker is in the file, it
 * calls the shipper by ship_call().  The shipper reads it by ship_read(), and moves `acked` by
 * ship_acknowledge().  Then ship_wait() lets it return, where libfur returns only what is
 * acknowledged, and find_settled_end() lets a replay take it.
 */
#include "durability/ship.h"
#include "base/error.h"
#include "base/event.h"
#include "base/probe.h"
#include "media/ship_page.h"

/* ------------------------------------------------------------------- waits */

void ship_rest(struct durability *d)
{
	struct control_ship *c = &d->control->ship;
	const uint32_t ticket = event_prepare_shared(&c->moved);
	if (ship_leashed(d)) /* INV-EV1 */
		event_wait_shared(&c->moved, ticket, SHIP_REST_NS);
}

int ship_check_fence(struct durability *d)
{
	/* Acquire pairs with the release in ship_fence(): the caller's next load of `acked` finds
	 * its last value. */
	if (likely(arch_load32_acquire(&d->control->ship.state) != CONTROL_FENCED))
		return 0;
	const int error = fur_fail(FUR_EFENCED,
	        "another heap has taken this one's place in the shipping log, and has not what "
	        "this one could not ship: close this heap, and let it follow the other one, with "
	        "fur-standby");
	durability_fail(d, error);
	return error;
}

int ship_wait_on(struct durability *d, struct ship_patience *p)
{
	const uint64_t acked = ship_acked(d), now = arch_now_ns();
	if (!p->until || acked != p->acked)
		*p = (struct ship_patience){acked, now + d->ship.patience_ns};
	return now < p->until ? 0 : FUR_EBEHIND;
}

int ship_fail_behind(const struct durability *d)
{
	if (arch_load32(&d->control->ship.state) == CONTROL_SHIPS_NOT)
		return fur_fail(FUR_EBEHIND,
		        "the heap's updates are shipped, and no process ships them: start "
		        "fur-ship, which tells if another heap has taken over, and try again");
	if (arch_load32(&d->control->ship.state) == CONTROL_HANDS_OVER)
		return fur_fail(FUR_EBEHIND,
		        "the heap is being handed over to another node: try again, there or here");
	return fur_fail(FUR_EBEHIND,
	        "the shipping log acknowledges nothing: see whether fur-ship runs and reaches it, "
	        "and try again");
}

int ship_hopes(struct durability *d, struct ship_patience *p)
{
	const int error = ship_check_fence(d);
	if (error)
		return error;
	return ship_wait_on(d, p) ? ship_fail_behind(d) : 0;
}

void ship_call_shipper(struct durability *d)
{
	struct control_ship *c = &d->control->ship;
	/* A full fence, ours or the one that ship_fence_updates() makes: orders our marker before
	 * the look at `asleep`.  The shipper sets that, fences, and looks at the slot once more.
	 * Without a fence neither might see the other, and the update would wait until another one
	 * calls.  Our own costs a small update a quarter of its time: it waits for the lines that
	 * the shipper has read. */
	if (d->ship.lends)
		arch_fence_light();
	else
		arch_fence();
	const bool asleep = arch_load32(&c->asleep);
	FUR_POINT(ship__looked);
	FUR_POINT(ship__goes__on); /* until then a test can hold us */
	if (asleep) {
		arch_store32(&c->asleep, 0);
		event_wake_all_shared(&c->calls);
	}
}

bool ship_was_promoted(const struct durability *d)
{
	struct media_ship page;
	return d->ship.follows && media_ship_read(d->super, d->words, &page) == 0 &&
	       page.role == MEDIA_PRIMARY;
}

/* ----------------------------------------------------------------- the shipper */

static void change_state(struct durability *d, enum control_shipping state)
{
	/* Release: `acked` before it. */
	arch_store32_release(&d->control->ship.state, state);
	event_wake_all_shared(&d->control->ship.moved);
}

void ship_begin(struct durability *d)
{
	change_state(d, CONTROL_SHIPS);
}

void ship_fence(struct durability *d)
{
	change_state(d, CONTROL_FENCED);
}

void ship_promoted(struct durability *d)
{
	FUR_ASSERT(ring_tail(d) == ring_next(d));
	arch_store_release(&d->control->ship.acked, ring_tail(d));
}

int ship_fence_updates(const struct durability *d)
{
	/* Ours first: orders the caller's stores, and the state of ship_begin(), before this look
	 * (control_opened()). */
	arch_fence();
	if (!ship_lent(d) || arch_fence_others())
		return 0;
	return fur_fail(FUR_ESYS,
	        "this process may not make the fences of the heap's updates: allow it the system "
	        "call membarrier, as the program that updates the heap is allowed it");
}

int ship_close_gate(struct durability *d)
{
	change_state(d, CONTROL_HANDS_OVER);
	/* Orders the state before the caller's loads of the ring.  An update stores its marker, has
	 * a full fence in ship_call() or this one, and loads the state: so we find its marker, or
	 * it finds the state and waits for the log.  Without the fence neither might see the other,
	 * and the update would return without being shipped (INV-SH6). */
	return ship_fence_updates(d);
}

bool ship_drained(const struct durability *d, uint64_t durts)
{
	/* The whole ring: late updates, whose markers are not in the file yet, may have drawn most
	 * of the slots below a marker. */
	for (uint64_t k = 0; k < d->super->ring_slots; k++)
		if (arch_load_acquire(&durability_marker(d, durts + k)->durts) == durts + k)
			return false;
	return true;
}

int ship_read(const struct durability *d, uint64_t durts, struct media_marker *marker)
{
	const struct media_file file = durability_file(d);
	/* Acquire: orders this load before our loads of the marker's other fields and its record;
	 * pairs with the release in ring_put_marker(). */
	if (arch_load_acquire(&durability_marker(d, durts)->durts) != durts)
		return FUR_EBUSY;
	*marker = log_read_marker(&file, durts);
	/* Where commits write by system calls, it may be half written. */
	return log_marker_valid(&file, marker, durts) ? 0 : FUR_EBUSY;
}

void ship_tell(struct durability *d, uint64_t durts)
{
	/* Release: after the lineage, and in the order of our calls. */
	arch_store_release(&d->control->ship.newest, durts);
}

int ship_newest(const struct durability *d, uint64_t *lineage, uint64_t *durts)
{
	const struct control_ship *c = &d->control->ship;
	struct media_marker marker;
	/* Acquire: orders this load before those below, and pairs with the release in
	 * change_state(). */
	if (arch_load32_acquire(&c->state) == CONTROL_SHIPS_NOT)
		return ship_fail_behind(d);
	*lineage = arch_load(&c->lineage);
	/* No slot from `acked` on is used again (INV-SH1), and `acked` is loaded before each.  What
	 * has no marker yet is not durable, and the caller does not mean it
	 * (plant: ship-token-acked). */
	for (uint64_t at = ring_next_acquire(d); at > ship_acked(d); at--)
		if (ship_read(d, at - 1, &marker) == 0 && log_marker_commits(&marker)) {
			*durts = at - 1;
			return 0;
		}
	/* Acquire: after `acked`, which the shipper has moved after it has told this (INV-SH81). */
	*durts = arch_load_acquire(&c->newest);
	return 0;
}

void ship_acknowledge(struct durability *d, uint64_t durts)
{
	struct control *c = d->control;
	FUR_ASSERT(durts >= arch_load(&c->ship.acked));
	arch_store_release(&c->ship.acked, durts);
	FUR_POINT(ship__acknowledged);
	event_wake_all_shared(&c->ship.moved);
	/* A replayer sleeps while there is too little for it (server_sleep). */
	if (durts - arch_load_acquire(&c->tail) >= d->super->ring_slots / CONTROL_WAKE_PART)
		control_call(c);
}

int ship_await_updates(struct durability *d, uint64_t durts, const uint32_t *stopping, uint64_t ns)
{
	struct control_ship *c = &d->control->ship;
	const uint32_t ticket = event_prepare_shared(&c->calls);
	FUR_POINT(ship__sleeps);
	arch_store32(&c->asleep, 1);
	const int error = ship_fence_updates(d); /* see ship_call_shipper() */
	if (!error && arch_load_acquire(&durability_marker(d, durts)->durts) != durts &&
	        !arch_load32_acquire(stopping)) {
		FUR_POINT(ship__found__none);
		event_wait_shared(&c->calls, ticket, ns);
	}
	arch_store32(&c->asleep, 0);
	return error;
}
