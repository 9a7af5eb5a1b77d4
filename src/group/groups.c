/* SPDX-License-Identifier: BSD-3-Clause
 *
 * groups.c - the list of open groups, and the copies of them that fork() leaves to the child.  The
 * heaps of a copy are refused as those of any child (api/fork.c); the child only closes it.
 */
#include "base/error.h"
#include "group/group.h"

#include <unistd.h>

static struct {
	/* Taken before the mutex of a group */
	pthread_mutex_t mutex;
	struct fur_group *first;
	bool handlers; /* the fork handlers are installed */
} groups = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void before_fork(void)
{
	pthread_mutex_lock(&groups.mutex);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&groups.mutex);
}

static void after_fork_in_child(void)
{
	for (struct fur_group *g = groups.first; g; g = g->next_open)
		g->forked = true;
	pthread_mutex_unlock(&groups.mutex);
}

int group_check_fork(struct fur_group *g)
{
	/* The C library runs no handlers for a child of _Fork() or clone(): heap functions find
	 * that out for each member. */
	return g->forked
	               ? fur_fail(FUR_EFORK, "this process is a child of fork(): the group is its "
	                                     "parent's")
	               : 0;
}

/* The link that points to the group, or the last one.  The caller holds the mutex. */
static struct fur_group **find_group(const struct fur_group *g)
{
	struct fur_group **at = &groups.first;
	while (*at && *at != g)
		at = &(*at)->next_open;
	return at;
}

bool groups_has(const struct fur_group *g)
{
	pthread_mutex_lock(&groups.mutex);
	const bool found = *find_group(g);
	pthread_mutex_unlock(&groups.mutex);
	return found;
}

int groups_add(struct fur_group *g)
{
	pthread_mutex_lock(&groups.mutex);
	/* The C library removes the handlers when libfur is unloaded. */
	if (!groups.handlers)
		groups.handlers =
		        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
	const bool installed = groups.handlers;
	if (installed) {
		g->next_open = groups.first;
		groups.first = g;
	}
	pthread_mutex_unlock(&groups.mutex);
	return installed ? 0
	                 : fur_fail(FUR_ENOMEM, "no memory for a fork handler: free some memory");
}

int groups_remove(struct fur_group *g)
{
	int error = 0;
	pthread_mutex_lock(&groups.mutex);
	struct fur_group **at = find_group(g);
	if (!*at) {
		error = FUR_EINVAL;
	} else if (g->forked || g->owner != getpid()) {
		/* A thread that the child does not have may hold the group's mutex (INV-K2). */
		g->forked = true;
		*at = g->next_open;
	} else {
		pthread_mutex_lock(&g->mutex);
		const bool used = g->threads;
		pthread_mutex_unlock(&g->mutex);
		if (used)
			error = FUR_EBUSY;
		else
			*at = g->next_open;
	}
	pthread_mutex_unlock(&groups.mutex);
	return error;
}

/* ------------------------------------------------------------------- threads */

void group_note_thread(struct fur_group_thread *t)
{
	struct fur_group *g = t->group;
	pthread_mutex_lock(&g->mutex);
	t->next = g->threads;
	g->threads = t;
	pthread_mutex_unlock(&g->mutex);
}

void group_forget_thread(const struct fur_group_thread *t)
{
	struct fur_group *g = t->group;
	pthread_mutex_lock(&g->mutex);
	struct fur_group_thread **at = &g->threads;
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	pthread_mutex_unlock(&g->mutex);
}

bool groups_forget_thread(const struct fur_group_thread *t)
{
	pthread_mutex_lock(&groups.mutex);
	bool found = false;
	for (struct fur_group *g = groups.first; !found && g; g = g->next_open) {
		if (g->forked)
			continue;
		pthread_mutex_lock(&g->mutex);
		struct fur_group_thread *one = g->threads;
		while (one && !(one == t && one->owner == this_thread()))
			one = one->next;
		found = one;
		pthread_mutex_unlock(&g->mutex);
		if (found)
			group_forget_thread(t);
	}
	pthread_mutex_unlock(&groups.mutex);
	return found;
}
