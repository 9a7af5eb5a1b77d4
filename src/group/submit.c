/* SPDX-License-Identifier: BSD-3-Clause
 *
 * submit.c - transactions for the workers (batch.c): fur_group_submit() and fur_group_wait().
 */
#include "base/error.h"
#include "group/group.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGNMENT = 16 };

static size_t aligned(size_t bytes)
{
	return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

/* ------------------------------------------------------------------- checks */

static int check_part(const struct fur_group *g, const struct fur_part *parts, unsigned k)
{
	const struct fur_part *p = &parts[k];
	if (!p->procedure || (p->params_bytes && !p->params))
		return fur_fail(FUR_EINVAL,
		        "fur_group_submit: part %u has no procedure, or params_bytes without "
		        "params",
		        k);
	if (k && p->after != FUR_NO_PART && p->after >= k)
		return fur_fail(FUR_EINVAL,
		        "fur_group_submit: part %u comes after part %u: name an earlier one, or "
		        "FUR_NO_PART",
		        k, p->after);
	if (!k && p->after != FUR_NO_PART && p->after)
		return fur_fail(FUR_EINVAL, "fur_group_submit: the first part comes after none");
	if (p->member >= g->most || !g->members[p->member].path)
		return fur_fail(FUR_EINVAL,
		        "%s: the group has no member %u: fur-group list shows them", g->path,
		        p->member);
	const struct group_member *m = &g->members[p->member];
	if (!m->heap)
		return fur_fail(FUR_ENOENT,
		        "%s: member %u (%s) is missing: bring it back, and open the group again",
		        g->path, p->member, m->path);
	return durability_check(&m->heap->durability);
}

static int check(fur_group *g, const struct fur_part *parts, unsigned n)
{
	if (!g)
		return fur_fail(FUR_EINVAL, "fur_group_submit: group must not be NULL");
	int error = group_check_fork(g);
	if (error)
		return error;
	if (!parts || n == 0 || n > g->batches.most_parts)
		return fur_fail(FUR_EINVAL,
		        "fur_group_submit: a transaction has 1 to %u parts, for it is not divided: "
		        "fur_group_options.batch_parts sets the limit",
		        g->batches.most_parts);
	if (this_thread()->open)
		return fur_fail(FUR_ENESTED, "fur_group_submit was called while this thread has a "
		                             "transaction open: end that first");
	pthread_mutex_lock(&g->mutex);
	for (unsigned k = 0; k < n && !error; k++)
		error = check_part(g, parts, k);
	pthread_mutex_unlock(&g->mutex);
	return error;
}

/* --------------------------------------------------------------------- copy */

static struct fur_submitted *allocate(const struct fur_part *parts, unsigned n)
{
	const size_t head =
	        aligned(sizeof(struct fur_submitted) + n * sizeof(struct submitted_part));
	size_t bytes = head;
	for (unsigned k = 0; k < n; k++)
		bytes += aligned(parts[k].params_bytes) + aligned(parts[k].result_bytes);
	struct fur_submitted *s = calloc(1, bytes);
	if (!s)
		return NULL;
	uint8_t *at = (uint8_t *)s + head;
	for (unsigned k = 0; k < n; k++) {
		s->parts[k].params = at;
		at += aligned(parts[k].params_bytes);
		s->parts[k].result = at;
		at += aligned(parts[k].result_bytes);
	}
	return s;
}

static int copy(const struct fur_part *parts, unsigned n, struct fur_submitted **out)
{
	struct fur_submitted *s = allocate(parts, n);
	int error = s ? 0
	              : fur_fail(FUR_ENOMEM, "no memory for the transaction: free some memory, or "
	                                     "wait for those submitted");
	if (error)
		return error;
	s->owner = getpid();
	s->n = n;
	s->may_refuse = true;
	for (unsigned k = 0; k < n && !error; k++) {
		const struct fur_part *from = &parts[k];
		struct submitted_part *p = &s->parts[k];
		p->member = from->member;
		p->after = k ? from->after : FUR_NO_PART;
		p->procedure = from->procedure;
		p->params_bytes = from->params_bytes;
		p->result_bytes = from->result_bytes;
		p->copy_to = from->result;
		if (p->params_bytes)
			memcpy(p->params, from->params, p->params_bytes);
		/* Each comes after an earlier one, and so after the first. */
		s->may_refuse = s->may_refuse && (k == 0 || p->after != FUR_NO_PART);
		if (!members_add(s->members, &s->n_members, p->member))
			error = fur_fail(FUR_EINVAL,
			        "fur_group_submit: a transaction touches at most %d members",
			        FUR_GROUP_MOST_PARTS);
	}
	if (error)
		free(s);
	else
		*out = s;
	return error;
}

/* ------------------------------------------------------------------- submit */

/* While the workers are being stopped, wait until they have ended: they would leave the list. */
static void lock_list(struct group_batches *b)
{
	pthread_mutex_lock(&b->mutex);
	while (b->stops) {
		pthread_mutex_unlock(&b->mutex);
		pthread_mutex_lock(&b->stopping);
		pthread_mutex_unlock(&b->stopping);
		pthread_mutex_lock(&b->mutex);
	}
}

static int append(fur_group *g, struct fur_submitted *s)
{
	struct group_batches *b = &g->batches;
	lock_list(b);
	const int error = batches_start(g);
	if (!error) {
		if (b->first)
			b->last->next = s;
		else
			b->first = s;
		b->last = s;
		arch_store(&b->parts, b->parts + s->n);
	}
	pthread_mutex_unlock(&b->mutex);
	if (!error)
		event_wake_one(&b->arrived);
	return error;
}

FUR_API int fur_group_submit(
        fur_group *group, const struct fur_part *parts, unsigned n, fur_submitted **submitted)
{
	struct fur_submitted *s = NULL;
	if (submitted)
		*submitted = NULL;
	int error = check(group, parts, n);
	if (!error)
		error = copy(parts, n, &s);
	if (error)
		return error;
	s->holders = submitted ? 2 : 1;
	error = append(group, s);
	if (error)
		free(s);
	else if (submitted)
		*submitted = s;
	return error;
}

/* --------------------------------------------------------------------- wait */

static int result_of(const struct fur_submitted *s)
{
	if (s->error == FUR_EABORTED)
		return fur_fail(FUR_EABORTED,
		        "a part refused the transaction, which has done nothing in any member");
	if (s->error)
		return fur_fail(s->error, "%s", s->message ? s->message : fur_strerror(s->error));
	for (unsigned k = 0; k < s->n; k++)
		if (s->parts[k].copy_to && s->parts[k].result_bytes)
			memcpy(s->parts[k].copy_to, s->parts[k].result, s->parts[k].result_bytes);
	return 0;
}

FUR_API int fur_group_wait(fur_submitted *s)
{
	if (!s)
		return fur_fail(FUR_EINVAL, "fur_group_wait: submitted must not be NULL");
	/* The group may be closed: nothing of it is looked at. */
	if (s->owner != getpid())
		return fur_fail(FUR_EFORK, "this process is a child of fork(): the transaction is "
		                           "its parent's, which waits for it");
	if (this_thread()->open)
		return fur_fail(FUR_ENESTED,
		        "fur_group_wait was called while this thread has a transaction open, for "
		        "which the batch may wait: end that first");
	/* Acquire: the results are the worker's. */
	event_await(&s->ended, arch_load32_acquire(&s->done));
	const int error = result_of(s);
	submitted_drop(s);
	return error;
}
