/* SPDX-License-Identifier: BSD-3-Clause
 *
 * run.c - updates whose body is a function: it runs again if the update is defeated.
 */
#include "base/error.h"
#include "base/struct.h"
#include "update/update.h"

/* The body has ended the update itself, or libfur has. */
static int body_ended(const struct fur_thread *t)
{
	if (unlikely(engine_forked(t->engine))) /* the body has forked, and this is the child */
		return tx_refuse(t->engine);
	return t->software.defeated ? UPDATE_DEFEATED : t->update.error;
}

/* Run the body once.  Returns: UPDATE_DEFEATED, or the result of fur_commit(). */
static __attribute__((noinline)) int run_once(
        struct fur_thread *t, void (*body)(fur_update *, void *), void *arg)
{
	jmp_buf restart;
	fur_update *begun, *tx = &t->update;
	t->software.defeated = false;
	int error = update_begin(t, &begun);
	if (error)
		return error;
	if (tx->mode == TX_CONCURRENT && !t->software.leave) {
		t->software.restart = &restart;
		if (setjmp(restart))
			return UPDATE_DEFEATED;
	}
	body(tx, arg);
	if (t->software.defeated || tx->depth == 0)
		return body_ended(t);
	return update_commit(tx);
}

/* `async`: as fur_commit() with a ticket. */
static int run_until_committed(struct fur_thread *t, void (*body)(fur_update *, void *), void *arg,
        void (*leave)(void), bool async)
{
	fur_update *unused;
	if (unlikely(!tx_is_outermost(t, &unused)))
		return update_refuse_outermost(t, &unused, "fur_update_run", "fur_join_update()");
	struct software_body *s = &t->software;
	s->leave = leave;
	s->repeatable = true;
	s->defeats = 0;
	t->window.commit.async = async;
	int error;
	while ((error = run_once(t, body, arg)) == UPDATE_DEFEATED)
		continue;
	return error;
}

FUR_API int fur_update_run(
        fur_thread *t, void (*body)(fur_update *, void *), void *arg, const struct fur_run *given)
{
	struct fur_run how = {0};
	int error = fur_run_take(given, &how);
	if (error)
		return error;
	if (how.ticket)
		*how.ticket = (fur_ticket){0};
	if (!body)
		return fur_fail(FUR_EINVAL, "fur_update_run: body must not be NULL");
	error = run_until_committed(t, body, arg, how.leave, how.ticket != NULL);
	if (!error && how.ticket)
		*how.ticket = ticket_of(t, ++t->tickets);
	return error;
}

FUR_API int fur_begin_update_leaving(
        fur_thread *t, fur_update **update, void (*leave)(void), bool again)
{
	if (update)
		*update = NULL;
	if (!leave)
		return fur_fail(FUR_EINVAL, "fur_begin_update_leaving: leave must not be NULL");
	if (unlikely(!tx_is_outermost(t, update)))
		return update_refuse_outermost(t, update, "fur_begin_update_leaving", NULL);
	struct software_body *s = &t->software;
	s->leave = leave;
	s->repeatable = true;
	s->defeated = false;
	if (!again)
		s->defeats = 0;
	t->window.commit.async = false;
	return update_begin(t, update);
}
