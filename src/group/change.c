/* SPDX-License-Identifier: BSD-3-Clause
 *
 * change.c - heaps join and leave a group: fur_group_add(), fur_group_remove().
 *
 * A heap joins in four steps, each durable before the next (INV-GM1): the group's file says that it
 * joins; its superblock says that it is a member; a new heap gets its name; the group's file says
 * that it has joined.  It leaves in three: the file says that it leaves, the superblock that it is
 * no member, the file that it has left.  complete_step() of members.c completes what a crash has
 * interrupted.
 */
#include "base/error.h"
#include "base/remedy.h"
#include "durability/ship.h"
#include "group/group.h"
#include "group/group_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------- joins */

/* A heap that is to join. */
struct newcomer {
	char *whole;      /* where it is */
	const char *path; /* in the group's file: the same, or its end */
	struct heap_file file;
	const char *name; /* of a new heap, which it gets at the end; else NULL */
	bool named;
};

const char *group_relative_path(const struct fur_group *g, const char *whole)
{
	const size_t directory = (size_t)(strrchr(g->path, '/') + 1 - g->path);
	return strncmp(g->path, whole, directory) == 0 ? whole + directory : whole;
}

/* Before the lock, which an open member has. */
static int check_new(const struct fur_group *g, const char *path)
{
	struct heap_file file;
	int error = heap_open_file(path, HEAP_LOCK_NONE, &file);
	if (error)
		return error;
	const uint64_t k = group_find_heap(g, file.geometry.uuid);
	if (k < g->limit)
		error = fur_fail(FUR_EGROUP,
		        "the heap is member %u of the group already, or a copy of that one: add "
		        "another heap",
		        (unsigned)k);
	heap_close_file(&file);
	return error;
}

/* A heap that is in no group, or has left this one: a crash may have come before its superblock
 * said so. */
static int check_group(const struct fur_group *g, struct heap_file *file)
{
	const struct media_super *s = &file->geometry;
	if (!media_is_member(s))
		return 0;
	if (memcmp(s->more.group, g->id, sizeof g->id) == 0 && s->more.group_member < g->limit &&
	        g->members[s->more.group_member].state == GROUP_REMOVED)
		return heap_leave(file);
	return fur_fail(FUR_EGROUP,
	        "the heap is a member of another group: take it out of that one "
	        "first, with fur-group remove");
}

static int open_old(const struct fur_group *g, const char *path, struct newcomer *n)
{
	n->whole = realpath(path, NULL);
	if (!n->whole)
		return heap_open_failed(errno);
	int error = check_new(g, n->whole);
	if (!error)
		error = heap_open_file(n->whole, HEAP_LOCK_WORKER, &n->file);
	if (error)
		return error;
	/* INV-F1: first what does not change the file. */
	error = heap_may_join(&n->file);
	return error ? error : check_group(g, &n->file);
}

static int make_new(const char *path, const struct fur_options *o, struct newcomer *n)
{
	int error = group_whole_path(path, &n->whole);
	if (!error)
		error = heap_create_file(n->whole, o, &n->file);
	n->name = n->whole;
	return error ? error : heap_may_join(&n->file);
}

/* The first two steps. */
static int announce(struct fur_group *g, struct newcomer *n, unsigned k)
{
	struct group_member *m = &g->members[k];
	struct heap_membership membership = {.members = g->most, .member = k};
	memcpy(membership.group, g->id, sizeof membership.group);
	char *path = strdup(n->path);
	if (!path)
		return fur_fail(FUR_ENOMEM, "no memory for a path: free some memory");
	pthread_mutex_lock(&g->mutex);
	m->path = path;
	memcpy(m->uuid, n->file.geometry.uuid, sizeof m->uuid);
	m->state = GROUP_JOINING;
	/* Release: who sees it has a member's place that is set. */
	arch_store_release(&g->limit, k + 1);
	pthread_mutex_unlock(&g->mutex);
	const int error = group_file_replace(g);
	return error ? error : heap_join(&n->file, &membership);
}

/* The others.  Becomes the owner of the file. */
static int complete(struct fur_group *g, struct newcomer *n, const struct fur_options *o,
        unsigned k, struct fur_heap **out)
{
	struct replay_result replayed;
	struct fur_heap *heap;
	int error = heap_begin_opening(&n->file, o, &heap);
	n->file.fd = -1;
	if (error)
		return error;
	error = group_recover(heap, &replayed);
	if (!error)
		error = heap_finish_opening(heap, n->name, &replayed);
	if (error) {
		heap_give_up_opening(heap);
		return error;
	}
	n->named = n->name;
	g->members[k].state = GROUP_MEMBER;
	error = group_file_replace(g);
	if (error) {
		g->members[k].state = GROUP_JOINING;
		const int unclosed = heap_close(heap);
		return unclosed ? unclosed : error;
	}
	*out = heap;
	return 0;
}

/* After a failure: the heap is no member, and its index is free.  Where that fails too, the next
 * fur_group_open() sees whether it is one. */
static void undo(struct fur_group *g, struct newcomer *n, unsigned k, int code)
{
	char cause[768];
	snprintf(cause, sizeof cause, "%s", fur_errormsg());
	int error = 0;
	if (n->named)
		unlink(n->whole);
	else if (!n->name && n->file.fd < 0)
		error = heap_open_file(n->whole, HEAP_LOCK_WORKER, &n->file);
	/* In the mapping, not the geometry: a write may have failed after it changed the file. */
	if (!error && !n->name && media_is_member(n->file.super))
		error = heap_leave(&n->file);
	if (!error) {
		group_forget_member(g, k, GROUP_NONE);
		error = group_file_replace(g);
	}
	fur_fail(code, "%s", cause);
}

static void show_heap(struct fur_group *g, unsigned k, struct fur_heap *heap)
{
	pthread_mutex_lock(&g->mutex);
	/* Release: fur_group_heap(), which does without the mutex, finds a heap that is open. */
	__atomic_store_n(&g->members[k].heap, heap, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&g->mutex);
}

static void show_member(struct fur_group *g, unsigned k, struct fur_heap *heap, unsigned *member)
{
	heap->group = g;
	show_heap(g, k, heap);
	*member = k;
}

static int add(
        struct fur_group *g, const char *path, const struct fur_options *create, unsigned *member)
{
	struct newcomer n = {.file.fd = -1};
	struct fur_options o;
	struct fur_heap *heap = NULL;
	const unsigned k = (unsigned)g->limit;
	if (k == g->most)
		return fur_fail(FUR_ENOSPC,
		        "%u heaps have joined the group, as many as it was made for: make a group "
		        "with a larger fur_group_options.most_members",
		        (unsigned)g->most);
	int error = create ? options_complete(create, &o) : 0;
	if (!error)
		error = create ? make_new(path, &o, &n) : open_old(g, path, &n);
	if (!error) {
		n.path = group_relative_path(g, n.whole);
		error = announce(g, &n, k);
		if (!error)
			error = complete(g, &n, create ? &o : &g->options, k, &heap);
		if (error)
			undo(g, &n, k, error);
	}
	if (!error && heap)
		show_member(g, k, heap, member);
	if (n.file.fd >= 0)
		heap_close_file(&n.file);
	free(n.whole);
	return error ? fur_fail_at(error, path) : 0;
}

FUR_API int fur_group_add(
        fur_group *group, const char *path, const struct fur_options *create, unsigned *member)
{
	int cancel;
	if (!group || !path || !member)
		return fur_fail(
		        FUR_EINVAL, "fur_group_add: group, heap_path and member must not be NULL");
	int error = group_check_fork(group);
	if (error)
		return error;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* as in fur_open() */
	pthread_mutex_lock(&group->changing);
	error = add(group, path, create, member);
	pthread_mutex_unlock(&group->changing);
	pthread_setcancelstate(cancel, &cancel);
	return error;
}

/* ------------------------------------------------------------------ leaves */

/* Replay what the log of a member has now.  Updates go on. */
static int replay_present(struct durability *d)
{
	struct arch_backoff backoff = {0};
	struct ship_patience patience = {0};
	const uint64_t end = ring_next(d);
	int error = durability_check(d);
	while (!error && ring_tail(d) < end)
		error = ship_replay(d, &backoff, &patience);
	return error;
}

/* No thread is registered with the member that leaves, so no update that is in flight has a part in
 * it: after this no log names it. */
static int replay_others(struct fur_group *g, unsigned member)
{
	int error = 0;
	for (unsigned k = 0; !error && k < g->limit; k++)
		if (k != member && g->members[k].heap) {
			struct fur_heap *heap = g->members[k].heap;
			error = heap_name_failure(&heap->file, replay_present(&heap->durability));
		}
	return error;
}

/* From now on threads do not find it.   Errors: FUR_EBUSY. */
static int take_heap(struct fur_group *g, unsigned k, struct fur_heap **heap)
{
	struct group_member *m = &g->members[k];
	int error = 0;
	pthread_mutex_lock(&g->mutex);
	*heap = m->heap;
	if (m->heap && heap_has_users(m->heap))
		error = fur_fail(FUR_EBUSY,
		        "%s: a thread is registered with member %u (%s), or a snapshot of it is "
		        "open, or it has a follower: end that first",
		        g->path, k, m->path);
	if (!error) {
		m->taken |= m->heap != NULL;
		/* Atomic for fur_group_heap(); it orders nothing. */
		__atomic_store_n(&m->heap, NULL, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&g->mutex);
	return error;
}

static int leave_file(struct fur_group *g, unsigned k, struct heap_file *file)
{
	struct group_member *m = &g->members[k];
	int error = group_check_member(g, k, file);
	/* It has left, and a call before this one has failed after that. */
	if (error && m->state == GROUP_LEAVING)
		return 0;
	if (!error && file->super->state != MEDIA_CLOSED)
		error = fur_fail(FUR_EBUSY,
		        "the heap was not closed, and its log may need other members: close the "
		        "group and open it again, which replays the log, and take it out then");
	if (!error) {
		m->state = GROUP_LEAVING;
		error = group_file_replace(g);
	}
	return error ? error : heap_leave(file);
}

/* Its handle is closed. */
static int leave(struct fur_group *g, unsigned k)
{
	struct heap_file file;
	char *path = group_member_path(g, k);
	if (!path)
		return FUR_ENOMEM;
	int error = heap_open_file(path, HEAP_LOCK_WORKER, &file);
	if (!error) {
		error = leave_file(g, k, &file);
		heap_close_file(&file);
	}
	error = error ? fur_fail_at(error, path) : 0;
	free(path);
	return error;
}

/* The last step: the file says so before this process forgets it, so that a call that fails can be
 * made again. */
static int forget(struct fur_group *g, unsigned k)
{
	struct group_member *m = &g->members[k];
	const enum group_state was = m->state;
	m->state = GROUP_REMOVED;
	const int error = group_file_replace(g);
	if (error)
		m->state = was;
	else
		group_forget_member(g, k, GROUP_REMOVED);
	return error;
}

static int remove_member(struct fur_group *g, unsigned k)
{
	struct fur_heap *heap;
	if (k >= g->limit || !g->members[k].path)
		return fur_fail(FUR_EINVAL, "%s: there is no member %u: fur-group list shows them",
		        g->path, k);
	/* The workers are registered with it, perhaps. */
	batches_stop(g);
	int error = take_heap(g, k, &heap);
	if (error)
		return error;
	if (heap) {
		error = replay_others(g, k);
		if (error) {
			show_heap(g, k, heap);
			return error;
		}
		error = heap_close(heap);
	}
	/* One that is missing: no log of the others needs it, or the group would not be open. */
	if (!error && g->members[k].taken)
		error = leave(g, k);
	return error ? error : forget(g, k);
}

FUR_API int fur_group_remove(fur_group *group, unsigned member)
{
	int cancel;
	if (!group)
		return fur_fail(FUR_EINVAL, "fur_group_remove: group must not be NULL");
	int error = group_check_fork(group);
	if (error)
		return error;
	/* It might be a transaction for which the replay waits. */
	if (this_thread()->open)
		return fur_fail(FUR_ENESTED, "fur_group_remove was called while this thread has a "
		                             "transaction open: end that first");
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* as in fur_open() */
	pthread_mutex_lock(&group->changing);
	error = remove_member(group, member);
	pthread_mutex_unlock(&group->changing);
	pthread_setcancelstate(cancel, &cancel);
	return error;
}
