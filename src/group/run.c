/* SPDX-License-Identifier: BSD-3-Clause
 *
 * run.c - transactions over several members: fur_group_run() and fur_group_read_run().
 */
#include "base/error.h"
#include "base/struct.h"
#include "group/group.h"
#include "update/together.h"
#include "update/update.h"

#include <string.h>

_Static_assert((int)TOGETHER_MOST == (int)FUR_GROUP_MOST_PARTS, "");

struct fur_group_reader {
	struct together together;
	void (*body)(fur_group_reader *, void *);
	void *arg;
};

static void pass_gate(struct together *g, bool enters)
{
	struct fur_group_update *u = (struct fur_group_update *)g;
	if (enters)
		group_gate_enter(u->thread);
	else
		group_gate_leave(u->thread);
}

/* Insert a part behind those of lower members.  Errors: FUR_EINVAL: it is there. */
static int add_part(struct together *g, unsigned member, struct fur_thread *t, const char *function)
{
	unsigned at = g->n;
	while (at && g->parts[at - 1].member > member)
		at--;
	if (at && g->parts[at - 1].member == member)
		return fur_fail(FUR_EINVAL, "%s: member %u is named twice: name each once",
		        function, member);
	memmove(&g->parts[at + 1], &g->parts[at], (g->n - at) * sizeof g->parts[0]);
	g->parts[at] = (struct together_part){.thread = t, .member = member};
	g->n++;
	return 0;
}

static int take_members(struct together *g, fur_group_thread *thread, const unsigned *members,
        unsigned n, const char *function)
{
	int error = 0;
	g->n = 0;
	for (unsigned k = 0; k < n && !error; k++) {
		struct fur_thread *t;
		error = group_touch(thread, members[k], &t);
		if (!error)
			error = add_part(g, members[k], t, function);
	}
	return error;
}

/* The checks of all functions.  Nothing of `g` changes before they are passed: an update may be
 * open there. */
static int check(const fur_group_thread *thread, const unsigned *members, unsigned n,
        const void *needed, const char *name, const char *function)
{
	const int error = group_check_thread(thread, function);
	if (error)
		return error;
	if (!members || !needed || n == 0 || n > FUR_GROUP_MOST_PARTS)
		return fur_fail(FUR_EINVAL,
		        "%s: members and %s must not be NULL, and a transaction is over 1 to %d "
		        "members",
		        function, name, FUR_GROUP_MOST_PARTS);
	if (this_thread()->open)
		return fur_fail(FUR_ENESTED,
		        "%s was called while this thread has a transaction open: end that first",
		        function);
	return 0;
}

/* Of a function that runs a body. */
static int begin(struct together *g, fur_group_thread *thread, const unsigned *members, unsigned n,
        const void *body, const struct fur_run *given, struct fur_run *how, const char *function)
{
	int error = check(thread, members, n, body, "body", function);
	if (!error)
		error = fur_run_take(given, how);
	if (!error && how->ticket)
		error = fur_fail(FUR_EINVAL,
		        "%s: a transaction over several members gives no ticket: it waits",
		        function);
	return error ? error : take_members(g, thread, members, n, function);
}

static struct fur_thread *find(const struct together *g, unsigned member)
{
	for (unsigned k = 0; k < g->n; k++)
		if (g->parts[k].member == member)
			return g->parts[k].thread;
	return NULL;
}

/* ------------------------------------------------------------------- updates */

static void run_body(void *arg)
{
	struct fur_group_update *u = arg;
	u->body(u, u->arg);
}

/* `visible`: NULL, or that of an update that begins serial. */
static int run_update(fur_group_thread *thread, const unsigned *members, unsigned n,
        void (*body)(fur_group_update *update, void *arg), void *arg, const struct fur_run *given,
        void (*visible)(struct together *g))
{
	/* Not on the stack: a thread may end inside the body. */
	struct fur_group_update *u = thread ? &thread->update : NULL;
	struct fur_run how = {0};
	const int error = begin(u ? &u->together : NULL, thread, members, n,
	        (const void *)(uintptr_t)body, given, &how, "fur_group_run");
	if (error || !u)
		return error;
	u->together.gate = pass_gate;
	u->together.begins_serial = visible != NULL;
	u->together.visible = visible;
	u->body = body;
	u->arg = arg;
	return together_run(&u->together, run_body, u, how.leave, &thread->group->next_update_id);
}

FUR_API int fur_group_run(fur_group_thread *thread, const unsigned *members, unsigned n,
        void (*body)(fur_group_update *update, void *arg), void *arg, const struct fur_run *given)
{
	return run_update(thread, members, n, body, arg, given, NULL);
}

int group_run_serial(fur_group_thread *t, const unsigned *members, unsigned n,
        void (*body)(fur_group_update *update, void *arg), void *arg,
        void (*visible)(struct together *g))
{
	return run_update(t, members, n, body, arg, NULL, visible);
}

FUR_API fur_update *fur_group_on(fur_group_update *update, unsigned member)
{
	struct fur_thread *t = update ? find(&update->together, member) : NULL;
	return t ? &t->update : NULL;
}

FUR_API int fur_group_abort(fur_group_update *u)
{
	if (!u || u->thread->owner != this_thread() || !group_update_is_open(u))
		return fur_fail(FUR_ENOTX, "fur_group_abort: no update is open: call it in the "
		                           "body of fur_group_run()");
	const int error = group_check_fork(u->thread->group);
	if (error)
		return error;
	for (unsigned k = 0; k < u->together.n; k++)
		tx_fail(&u->together.parts[k].thread->update, FUR_EABORTED);
	return together_roll_back(&u->together);
}

/* ------------------------------------------------------------------- readers */

static void run_reader(void *arg)
{
	struct fur_group_reader *r = arg;
	r->body(r, r->arg);
}

FUR_API int fur_group_read_run(fur_group_thread *thread, const unsigned *members, unsigned n,
        void (*body)(fur_group_reader *reader, void *arg), void *arg, const struct fur_run *given)
{
	struct fur_group_reader r;
	struct fur_run how = {0};
	const int error = begin(&r.together, thread, members, n, (const void *)(uintptr_t)body,
	        given, &how, "fur_group_read_run");
	if (error)
		return error;
	r.body = body;
	r.arg = arg;
	return together_read(&r.together, run_reader, &r, how.leave);
}

FUR_API fur_reader *fur_group_reads(fur_group_reader *reader, unsigned member)
{
	struct fur_thread *t = reader ? find(&reader->together, member) : NULL;
	return t ? &t->reader : NULL;
}

/* ----------------------------------------------------------------- snapshots */

FUR_API int fur_group_snapshot(
        fur_group_thread *thread, const unsigned *members, unsigned n, fur_snapshot **snapshots)
{
	static const char function[] = "fur_group_snapshot";
	struct together g;
	struct engine *engines[TOGETHER_MOST];
	fur_snapshot *taken[TOGETHER_MOST];
	int error = check(thread, members, n, snapshots, "snapshots", function);
	for (unsigned k = 0; snapshots && n <= FUR_GROUP_MOST_PARTS && k < n; k++)
		snapshots[k] = NULL;
	if (!error)
		error = take_members(&g, thread, members, n, function);
	if (error)
		return error;
	for (unsigned k = 0; k < n; k++)
		engines[k] = g.parts[k].thread->engine;
	error = snapshots_begin(engines, n, taken);
	for (unsigned k = 0; k < n && !error; k++)
		for (unsigned m = 0; m < n; m++)
			if (g.parts[m].member == members[k])
				snapshots[k] = taken[m];
	return error;
}
