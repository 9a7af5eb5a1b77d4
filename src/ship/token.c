/* SPDX-License-Identifier: BSD-3-Clause
 *
 * token.c - tokens: what stands for the updates up to one, at the primary and at its standbys
 * (fur_ship.h).
 *
 * The primary's durTSs count the updates of its file, and a lineage tells which file counts.  A
 * working primary learns its lineage from its shipper, which alone has read it in the stream; it
 * stays in the control region until the heap is opened again (INV-SH81).  In the ship page it would
 * be that of the position there, which may be older.
 */
#include "api/heap.h"
#include "base/error.h"
#include "base/event.h"
#include "durability/nondurable.h"
#include "durability/ship.h"
#include "media/heap_layout.h"

#include <fur_ship.h>

/* ---------------------------------------------------------------------- get */

static int fail_role(const struct fur_heap *heap, const char *function)
{
	return fur_fail(FUR_EINVAL,
	        "%s: %s: the heap's updates are not shipped: fur-ship --init lets them be",
	        heap_path(&heap->file), function);
}

static int fail_no_follower(const struct fur_heap *heap, const char *function)
{
	return fur_fail(FUR_EINVAL, "%s: %s: %s", heap_path(&heap->file), function,
	        ship_was_promoted(&heap->durability)
	                ? "the heap has become a primary since it was opened: close it, and open "
	                  "it again"
	                : "the heap is a standby, and nothing follows: call fur_follow() first");
}

static int fail_nested(const char *function)
{
	return fur_fail(FUR_ENESTED,
	        "%s was called while this thread has a transaction open: end that first", function);
}

/* What readers find at a standby. */
static int token_of_standby(struct fur_heap *heap, fur_token *token)
{
	struct standby *s = &heap->standby;
	pthread_mutex_lock(&s->mutex);
	const bool known = s->known;
	*token = (fur_token){s->lineage, s->durts};
	pthread_mutex_unlock(&s->mutex);
	return known ? 0 : fail_no_follower(heap, "fur_get_token");
}

static int token_of_primary(struct durability *d, fur_token *token)
{
	/* As in fur_sync(): after this, what the token is for has its markers in the file. */
	nondurable_wait_announced(d);
	int error = async_wait_all(d);
	if (!error)
		error = durability_check(d);
	if (!error)
		error = ship_check_fence(d);
	return error ? error : ship_newest(d, &token->lineage, &token->durts);
}

FUR_API int fur_get_token(fur_thread *t, fur_token *token)
{
	if (!t || !token)
		return fur_fail(FUR_EINVAL, "fur_get_token: thread and token must not be NULL");
	*token = (fur_token){0, 0};
	const int error = heap_check_handle(t->heap, "fur_get_token");
	if (error)
		return error;
	if (this_thread()->open)
		return fail_nested("fur_get_token");
	struct durability *d = t->durability;
	if (d->ship.follows)
		return token_of_standby(t->heap, token);
	return d->ship.on ? token_of_primary(d, token) : fail_role(t->heap, "fur_get_token");
}

/* --------------------------------------------------------------------- wait */

static int fail_lost(void)
{
	return fur_fail(FUR_ELOST, "a fail-over has lost updates that the token stands for: read "
	                           "what there is, and make them again");
}

static int fail_fenced(void)
{
	return fur_fail(FUR_ELOST,
	        "another heap has taken this one's place in the shipping log, and has not what the "
	        "token stands for: close this heap, let it follow the other one, with fur-standby, "
	        "and make the updates again there");
}

static int fail_unknown(const fur_token *token)
{
	return fur_fail(FUR_ELOST,
	        "the token's lineage %llu has ended, and this heap has not seen where: read what "
	        "there is, and see whether it has the updates",
	        (unsigned long long)token->lineage);
}

/* Returns: 1: it is there; 0: not yet; or FUR_ELOST. */
static int look_at_standby(struct fur_heap *heap, const fur_token *token)
{
	struct standby *s = &heap->standby;
	int found = -1;
	pthread_mutex_lock(&s->mutex);
	const bool follows = s->follower, known = s->known;
	if (!known || token->lineage > s->lineage)
		found = 0;
	else if (token->lineage == s->lineage)
		found = token->durts <= s->durts;
	else if (token->durts == 0) /* the state before its first update */
		found = 1;
	for (unsigned k = 0; found < 0 && k < sizeof s->ended / sizeof *s->ended; k++)
		if (s->ended[k].lineage == token->lineage && s->ended[k].durts)
			found = token->durts <= s->ended[k].durts ? 1 : FUR_ELOST;
	pthread_mutex_unlock(&s->mutex);
	if (found == FUR_ELOST)
		return fail_lost();
	if (found < 0)
		return fail_unknown(token);
	return found || follows ? found : fail_no_follower(heap, "fur_wait_token");
}

/* A heap that has been promoted has in its header where the lineage before ended: its follower
 * has applied all of that, and stored its position. */
static int look_at_ended(const struct fur_heap *heap, const fur_token *token)
{
	const struct heap_applied *a = &header(heap->file.base)->applied;
	if (!token->durts)
		return 1;
	if (!a->durts || a->lineage != token->lineage)
		return fail_unknown(token);
	return token->durts <= a->durts ? 1 : fail_lost();
}

static int look_at_primary(struct fur_heap *heap, const fur_token *token)
{
	struct durability *d = &heap->durability;
	const struct control_ship *c = &d->control->ship;
	/* Acquire: orders this load before those below; pairs with the releases in ship.c.  Of a
	 * fenced heap `acked` has its last value. */
	const uint32_t state = arch_load32_acquire(&c->state);
	if (state == CONTROL_SHIPS_NOT)
		return 0;
	const uint64_t lineage = arch_load(&c->lineage);
	if (token->lineage < lineage)
		return look_at_ended(heap, token);
	if (token->lineage == lineage && (!token->durts || token->durts < ship_acked(d)))
		return 1;
	if (state == CONTROL_FENCED)
		return fail_fenced();
	return 0;
}

static int fail_late(const struct fur_heap *heap)
{
	const struct durability *d = &heap->durability;
	if (!d->ship.follows && arch_load32(&d->control->ship.state) != CONTROL_SHIPS)
		return ship_fail_behind(d);
	return fur_fail(FUR_EBEHIND,
	        d->ship.follows ? "what the token stands for is not here yet: try again; "
	                          "fur_get_follow_state() tells if the log can be reached"
	                        : "the shipping log does not have what the token stands for yet: "
	                          "try again, and see whether fur-ship reaches the log");
}

/* Wait for a change.  INV-EV1: the ticket is drawn before the look. */
static int look_and_wait(struct fur_heap *heap, const fur_token *token, uint64_t until_ns)
{
	struct durability *d = &heap->durability;
	uint32_t *moved = d->ship.follows ? &heap->standby.moved : &d->control->ship.moved;
	const uint32_t ticket =
	        d->ship.follows ? event_prepare(moved) : event_prepare_shared(moved);
	int found = d->ship.follows ? look_at_standby(heap, token) : look_at_primary(heap, token);
	const uint64_t now = arch_now_ns();
	if (!found)
		found = durability_check(d);
	if (found)
		return found;
	if (now >= until_ns)
		return fail_late(heap);
	uint64_t ns = until_ns - now;
	if (d->ship.follows) {
		event_wait(moved, ticket, ns);
		return 0;
	}
	/* SYNC: the shipper does not see late updates before a flush has written them. */
	if (async_pending(d))
		found = async_try_flush(d);
	/* Other events of the heap do not wake us. */
	if (!found)
		event_wait_shared(moved, ticket, ns < SHIP_REST_NS ? ns : SHIP_REST_NS);
	return found;
}

FUR_API int fur_wait_token(fur_heap *heap, const fur_token *token, uint32_t timeout_ms)
{
	int error = heap_check_handle(heap, "fur_wait_token");
	if (!error && !token)
		error = fur_fail(FUR_EINVAL, "fur_wait_token: token must not be NULL");
	if (!error && this_thread()->open)
		error = fail_nested("fur_wait_token");
	if (!error && !heap->durability.ship.on && !heap->durability.ship.follows)
		error = fail_role(heap, "fur_wait_token");
	if (error)
		return error;
	const uint64_t until_ns = arch_now_ns() + UINT64_C(1000000) * timeout_ms;
	int found = 0;
	while (!found)
		found = look_and_wait(heap, token, until_ns);
	return found > 0 ? 0 : found;
}
