/* SPDX-License-Identifier: BSD-3-Clause
 *
 * batch.c - the workers of a group, which run the transactions that were submitted.
 *
 *     work()                    waits for transactions
 *       run_batch()             makes one update over several members of those that wait
 *         cut()                 takes them off the list
 *         run_transactions()    runs one after the other, while there is room in the logs
 *         batch_visible()       lets the next worker cut
 *         settle()              tells who waits
 */
#include "base/error.h"
#include "base/remedy.h"
#include "base/thread.h"
#include "group/group.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	DEFAULT_WORKERS = 2,
	DEFAULT_PARTS = 1024,
	MOST_PARTS = 65536,
	MOST_US = 1000000,
	LOG_FADES = 256
};

struct batch {
	struct fur_group *g;
	unsigned members[FUR_GROUP_MOST_PARTS], n_members;
	struct fur_submitted *first;
	unsigned taken; /* off the list */
	unsigned ran;   /* of these, in the run that counts */
	bool failed;    /* the next one has, in the body */
	bool ended;     /* it does not hold `cutting` any more */
	/* Why, unless its update tells: FUR_EINVAL or FUR_EABORTED, because this part refused */
	int error;
	unsigned part;
};

/* ------------------------------------------------------------------ options */

int batches_check_options(struct fur_group_options *o)
{
	if (!o->workers)
		o->workers = DEFAULT_WORKERS; /* one runs a batch while the other flushes */
	if (!o->batch_parts)
		o->batch_parts = DEFAULT_PARTS;
	if (o->workers <= BATCHES_MOST_WORKERS && o->batch_parts <= MOST_PARTS &&
	        o->batch_us <= MOST_US && !o->reserved)
		return 0;
	return fur_fail(FUR_EINVAL,
	        "fur_group_options: workers is %u, batch_parts %u, batch_us %u, reserved %u: use "
	        "at most %d, %d and %d, and 0",
	        o->workers, o->batch_parts, o->batch_us, o->reserved, BATCHES_MOST_WORKERS,
	        MOST_PARTS, MOST_US);
}

void batches_init(struct group_batches *b, const struct fur_group_options *o)
{
	pthread_mutex_init(&b->stopping, NULL);
	pthread_mutex_init(&b->cutting, NULL);
	pthread_mutex_init(&b->mutex, NULL);
	b->most_workers = o->workers;
	b->most_parts = o->batch_parts;
	b->wait_us = o->batch_us;
	b->most_taken = UINT32_MAX;
}

/* --------------------------------------------------------------------- body */

/* Is there room for the transaction?  A batch has half of each log, so that updates which come
 * after it need not wait for the replay of all of it. */
static bool has_room(const struct batch *b, fur_group_update *u, const struct fur_submitted *s)
{
	for (unsigned k = 0; k < s->n_members; k++) {
		uint64_t all;
		const uint64_t left = fur_update_room(fur_group_on(u, s->members[k]), &all);
		if (all - left + b->g->batches.logs[s->members[k]] > all / 2)
			return false;
	}
	return true;
}

/* What the transaction had of the logs: the next ones may need as much, for a while. */
static void note_logs(
        struct batch *b, fur_group_update *u, const struct fur_submitted *s, const uint64_t *left)
{
	for (unsigned k = 0; k < s->n_members; k++) {
		uint64_t *most = &b->g->batches.logs[s->members[k]];
		const uint64_t had =
		        left[k] - fur_update_room(fur_group_on(u, s->members[k]), NULL);
		*most = had > *most ? had : *most - *most / LOG_FADES;
	}
}

static bool run_part(struct batch *b, fur_update *tx, struct fur_submitted *s, unsigned k)
{
	const struct submitted_part *p = &s->parts[k];
	const void *before = p->after == FUR_NO_PART ? NULL : s->parts[p->after].result;
	memset(p->result, 0, p->result_bytes);
	return p->procedure(
	        tx, b->g->members[p->member].heap, p->params, p->params_bytes, before, p->result);
}

/* The part has refused.  Returns: true: the batch goes on. */
static bool refuse(struct batch *b, struct fur_submitted *s, unsigned k, bool stored)
{
	const bool may = k == 0 && s->may_refuse;
	b->part = k;
	s->refused = may && !stored;
	/* INV-GB3.  What it has stored can only be undone with the rest of the batch (plant:
	 * batch-refused-kept). */
	if (!s->refused)
		b->error = may ? FUR_EABORTED : FUR_EINVAL;
	return s->refused;
}

static bool run_transaction(struct batch *b, fur_group_update *u, struct fur_submitted *s)
{
	uint64_t left[FUR_GROUP_MOST_PARTS];
	s->refused = false;
	for (unsigned k = 0; k < s->n_members; k++)
		left[k] = fur_update_room(fur_group_on(u, s->members[k]), NULL);
	for (unsigned k = 0; k < s->n && !s->refused; k++) {
		fur_update *tx = fur_group_on(u, s->parts[k].member);
		const uint64_t before = fur_update_room(tx, NULL);
		const bool accepts = run_part(b, tx, s, k);
		if (fur_update_error(tx))
			return false;
		if (!accepts && !refuse(b, s, k, fur_update_room(tx, NULL) != before))
			return false;
	}
	note_logs(b, u, s, left);
	return true;
}

static void run_transactions(fur_group_update *u, void *arg)
{
	struct batch *b = arg;
	struct fur_submitted *s = b->first;
	b->failed = false;
	b->error = 0;
	for (b->ran = 0; s && (b->ran == 0 || has_room(b, u, s)); s = s->next) {
		if (!run_transaction(b, u, s)) {
			b->failed = true;
			if (b->error)
				(void)fur_group_abort(u);
			return;
		}
		b->ran++;
	}
}

/* ---------------------------------------------------------------------- cut */

bool members_add(unsigned members[FUR_GROUP_MOST_PARTS], unsigned *n, unsigned member)
{
	for (unsigned k = 0; k < *n; k++)
		if (members[k] == member)
			return true;
	if (*n == FUR_GROUP_MOST_PARTS)
		return false;
	members[(*n)++] = member;
	return true;
}

static bool add_members(struct batch *b, const struct fur_submitted *s)
{
	const unsigned had = b->n_members;
	for (unsigned k = 0; k < s->n_members; k++)
		if (!members_add(b->members, &b->n_members, s->members[k])) {
			b->n_members = had;
			return false;
		}
	return true;
}

/* Take as many transactions off the list as may be in a batch.  The caller holds `cutting`. */
static void cut(struct batch *b)
{
	struct group_batches *q = &b->g->batches;
	struct fur_submitted **end = &b->first, *s;
	uint64_t parts = 0;
	pthread_mutex_lock(&q->mutex);
	while ((s = q->first) && b->taken < q->most_taken &&
	        (!b->taken || parts + s->n <= q->most_parts) && add_members(b, s)) {
		parts += s->n;
		b->taken++;
		q->first = s->next;
		*end = s;
		end = &s->next;
	}
	*end = NULL;
	arch_store(&q->parts, q->parts - parts);
	pthread_mutex_unlock(&q->mutex);
	q->most_taken = UINT32_MAX;
}

/* The first `n` transactions will be told, or have been; the others come first in the next batch
 * (INV-GB1; model: CUTEARLY, RESTBEHIND; plants: batch-cuts-early, batch-rest-behind). */
static void end_cut(struct batch *b, unsigned n)
{
	struct group_batches *q = &b->g->batches;
	struct fur_submitted **end = &b->first;
	uint64_t parts = 0;
	for (unsigned k = 0; k < n; k++)
		end = &(*end)->next;
	struct fur_submitted *rest = *end, *last = rest;
	*end = NULL;
	if (rest) {
		for (parts = rest->n; last->next; parts += last->n)
			last = last->next;
		pthread_mutex_lock(&q->mutex);
		last->next = q->first;
		if (!q->first)
			q->last = last;
		q->first = rest;
		arch_store(&q->parts, q->parts + parts);
		pthread_mutex_unlock(&q->mutex);
	}
	b->ended = true;
	pthread_mutex_unlock(&q->cutting);
	if (rest)
		event_wake_one(&q->arrived);
}

static void batch_visible(struct together *g)
{
	struct batch *b = ((struct fur_group_update *)g)->arg;
	end_cut(b, b->ran);
}

/* --------------------------------------------------------------------- tell */

void submitted_drop(struct fur_submitted *s)
{
	/* A full fence: what the other holder has done with it comes before free(). */
	if (arch_fetch_add32(&s->holders, UINT32_MAX) != 1)
		return;
	free(s->message);
	free(s);
}

static void tell(struct fur_submitted *s, int error)
{
	s->error = error ? error : s->refused ? FUR_EABORTED : 0;
	if (error && error != FUR_EABORTED)
		s->message = strdup(fur_errormsg());
	/* Release: who waits reads the result. */
	arch_store32_release(&s->done, 1);
	event_wake_all(&s->ended);
	submitted_drop(s);
}

/* Nothing of the batch has become visible.  Whose fault is it?  Returns: 1: the first one's, which
 * ends; 0: not known, and the next batch is smaller (INV-GB2; model: BLAMEFIRST, NOSHRINK; plant:
 * batch-blames-first). */
static unsigned blame(struct batch *b)
{
	const unsigned sound = b->failed ? b->ran : b->taken / 2;
	if (sound == 0)
		return 1;
	b->g->batches.most_taken = sound;
	return 0;
}

/* The batch has ended with this error, or 0. */
static void settle(struct batch *b, int error)
{
	if (!b->ended)
		end_cut(b, error ? blame(b) : b->ran);
	while (b->first) {
		struct fur_submitted *s = b->first;
		b->first = s->next;
		tell(s, error);
	}
}

/* ------------------------------------------------------------------- workers */

/* Returns: FUR_EFORK: a procedure has forked, and this is the child; else 0. */
static int run_batch(struct fur_group *g, struct fur_group_thread **self)
{
	struct batch b = {.g = g};
	int error = 0;
	pthread_mutex_lock(&g->batches.cutting);
	cut(&b);
	if (!b.taken) { /* another worker has */
		pthread_mutex_unlock(&g->batches.cutting);
		return 0;
	}
	if (!*self)
		error = fur_group_register(g, self);
	if (!error)
		error = group_run_serial(
		        *self, b.members, b.n_members, run_transactions, &b, batch_visible);
	if (error == FUR_EFORK)
		return error;
	if (error && b.failed && b.error == FUR_EINVAL)
		error = fur_fail(FUR_EINVAL,
		        "part %u of the transaction refused, and it was rolled back: only the "
		        "first part may refuse, and only if each other one comes after it",
		        b.part);
	settle(&b, error);
	return 0;
}

static bool must_end(const struct group_batches *q)
{
	return arch_load32(&q->stops) && !arch_load(&q->parts);
}

/* Wait until there is something to run, and then for more.  Returns false: the worker ends. */
static bool await_batch(struct group_batches *q)
{
	event_await(&q->arrived, arch_load(&q->parts) || arch_load32(&q->stops));
	const uint64_t began = q->wait_us ? arch_ticks() : 0, most = q->wait_us * 1000ull;
	uint64_t waited = 0;
	while (waited < most && arch_load(&q->parts) < q->most_parts && !arch_load32(&q->stops)) {
		const uint32_t ticket = event_prepare(&q->arrived);
		if (arch_load(&q->parts) < q->most_parts && !arch_load32(&q->stops))
			event_wait(&q->arrived, ticket, most - waited);
		waited = arch_ticks_to_ns(arch_ticks_between(began, arch_ticks()));
	}
	return !must_end(q);
}

static void *work(void *arg)
{
	struct fur_group *g = arg;
	struct fur_group_thread *self = NULL;
	while (await_batch(&g->batches))
		if (run_batch(g, &self))
			return NULL;
	if (self)
		(void)fur_group_unregister(self);
	return NULL;
}

int batches_start(struct fur_group *g)
{
	struct group_batches *q = &g->batches;
	while (q->workers < q->most_workers) {
		const int failed = thread_start(&q->threads[q->workers], work, g);
		if (failed && !q->workers)
			return fail_system(FUR_ESYS, CALL_THREAD, failed, NULL,
			        "%s: cannot start a worker of the group", g->path);
		if (failed)
			break;
		q->workers++;
	}
	return 0;
}

void batches_stop(struct fur_group *g)
{
	struct group_batches *q = &g->batches;
	const struct fur_thread *open = this_thread()->open;
	if (g->forked || g->owner != getpid() || (open && open->heap->group == g))
		return;
	pthread_mutex_lock(&q->stopping);
	pthread_mutex_lock(&q->mutex);
	arch_store32(&q->stops, 1);
	const uint32_t workers = q->workers;
	pthread_mutex_unlock(&q->mutex);
	event_wake_all(&q->arrived);
	for (uint32_t k = 0; k < workers; k++)
		pthread_join(q->threads[k], NULL);
	pthread_mutex_lock(&q->mutex);
	q->workers = 0;
	arch_store32(&q->stops, 0);
	pthread_mutex_unlock(&q->mutex);
	pthread_mutex_unlock(&q->stopping);
}
