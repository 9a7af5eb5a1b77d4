/* SPDX-License-Identifier: BSD-3-Clause
 *
 * thread.c - threads of a group: fur_group_register(), fur_group_unregister(),
 * fur_group_thread_of().  A thread registers with a member when it first touches it.
 */
#include "base/error.h"
#include "base/memory.h"
#include "group/group.h"

#include <stdlib.h>

int group_check_thread(const fur_group_thread *t, const char *function)
{
	if (!t)
		return fur_fail(FUR_EINVAL, "%s: thread must not be NULL", function);
	const int error = group_check_fork(t->group);
	if (error)
		return error;
	return t->owner == this_thread() ? 0 : tx_foreign(function, FUR_EINVAL);
}

/* ------------------------------------------------------------ registration */

FUR_API int fur_group_register(fur_group *group, fur_group_thread **thread)
{
	if (thread)
		*thread = NULL;
	if (!group || !thread)
		return fur_fail(
		        FUR_EINVAL, "fur_group_register: group and thread must not be NULL");
	int error = group_check_fork(group);
	if (error)
		return error;
	if ((*thread = pthread_getspecific(group->self)))
		return 0;
	struct fur_group_thread *t = memory_padded(sizeof *t);
	if (!t || pthread_setspecific(group->self, t)) {
		free(t);
		return fur_fail(FUR_ENOMEM, "no memory to register a thread: free some memory");
	}
	t->group = group;
	t->owner = this_thread();
	t->update.thread = t;
	group_note_thread(t);
	*thread = t;
	return 0;
}

FUR_API int fur_group_unregister(fur_group_thread *t)
{
	int error = group_check_thread(t, "fur_group_unregister");
	if (error)
		return error;
	struct fur_group *g = t->group;
	pthread_mutex_lock(&g->mutex);
	for (unsigned k = 0; !error && k < g->limit; k++)
		if (t->of[k] && thread_has_open(t->of[k]))
			error = fur_fail(FUR_ENESTED,
			        "this thread has a transaction open on a member of the group: end "
			        "it before unregistering");
	for (unsigned k = 0; !error && k < g->limit; k++)
		if (t->of[k])
			error = fur_thread_unregister(t->of[k]);
	pthread_mutex_unlock(&g->mutex);
	if (error)
		return error;
	group_forget_thread(t);
	pthread_setspecific(g->self, NULL);
	free(t);
	return 0;
}

void group_thread_ended(void *thread)
{
	struct fur_group_thread *t = thread;
	if (!groups_forget_thread(thread))
		return;
	/* The destructors of its registrations with members may come before this, or after. */
	if (group_update_is_open(&t->update))
		(void)together_roll_back(&t->update.together);
	for (unsigned k = 0; k < FUR_GROUP_MOST_MEMBERS; k++)
		if (t->of[k])
			t->of[k]->noted_at = NULL;
	free(thread);
}

/* ----------------------------------------------------------------- members */

static int fail_no_member(const struct fur_group *g, unsigned member)
{
	return fur_fail(FUR_EINVAL, "%s: the group has no member %u: fur-group list shows them",
	        g->path, member);
}

/* Why a member has no heap here. */
static int fail_absent(const struct fur_group *g, unsigned member)
{
	const struct group_member *m = &g->members[member];
	if (!m->path)
		return fail_no_member(g, member);
	if (m->taken)
		return fur_fail(FUR_EINVAL,
		        "%s: member %u (%s) leaves the group: if fur_group_remove() has failed, "
		        "call it again, or open the group again",
		        g->path, member, m->path);
	return fur_fail(FUR_ENOENT,
	        "%s: member %u (%s) is missing: bring it back, and open the group again", g->path,
	        member, m->path);
}

int group_touch(struct fur_group_thread *t, unsigned member, struct fur_thread **thread)
{
	struct fur_group *g = t->group;
	*thread = NULL;
	if (member >= g->most)
		return fail_no_member(g, member);
	/* INV-GM4: it needs no mutex, and an update takes none for its members. */
	if ((*thread = t->of[member]))
		return 0;
	/* The mutex keeps fur_group_remove() from closing the heap meanwhile. */
	pthread_mutex_lock(&g->mutex);
	const struct group_member *m = &g->members[member];
	int error = m->heap ? fur_thread_register(m->heap, NULL, thread) : fail_absent(g, member);
	if (!error) {
		t->of[member] = *thread;
		(*thread)->noted_at = &t->of[member];
	}
	pthread_mutex_unlock(&g->mutex);
	return error;
}

FUR_API int fur_group_thread_of(fur_group_thread *t, unsigned member, fur_thread **thread)
{
	if (thread)
		*thread = NULL;
	if (!thread)
		return fur_fail(FUR_EINVAL, "fur_group_thread_of: thread must not be NULL");
	const int error = group_check_thread(t, "fur_group_thread_of");
	return error ? error : group_touch(t, member, thread);
}
