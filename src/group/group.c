/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group.c - the life of a group: fur_group_create(), fur_group_open(), fur_group_close(); and what
 * it tells of its members.
 */
#include "group/group.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/remedy.h"
#include "base/struct.h"
#include "group/group_file.h"
#include "replay/apply.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { DEFAULT_MOST = 64 };

/* ------------------------------------------------------------------ handle */

static int take_options(const struct fur_group_options *given, struct fur_group_options *o,
        struct fur_options *heap)
{
	const struct fur_struct theirs = {
	        "fur_group_options", (void *)(uintptr_t)given, FUR_GROUP_OPTIONS_LEAST_BYTES};
	*o = (struct fur_group_options){.size = sizeof *o};
	int error = given ? fur_struct_take(&theirs, o, sizeof *o) : 0;
	if (!error)
		error = options_complete(o->heap, heap);
	if (error)
		return error;
	if (!o->most_members)
		o->most_members = DEFAULT_MOST;
	if (o->most_members < MEDIA_PARTS_LEAST || o->most_members > FUR_GROUP_MOST_MEMBERS)
		return fur_fail(FUR_EINVAL, "most_members is %u: use %d to %d", o->most_members,
		        MEDIA_PARTS_LEAST, FUR_GROUP_MOST_MEMBERS);
	return batches_check_options(o);
}

static int random_bytes(void *to, size_t bytes)
{
	ssize_t n;
	do
		n = getrandom(to, bytes, 0);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)bytes ? 0
	                           : fail_system(FUR_ESYS, CALL_RANDOM, errno, NULL,
	                                     "no random number for the group");
}

static int make_key(struct fur_group *g)
{
	return pthread_key_create(&g->self, group_thread_ended)
	               ? fur_fail(FUR_ESYS, "no thread-specific key left: close other heaps")
	               : 0;
}

/* libfur never destroys the mutexes: in a child of fork(), a thread that the child does not have
 * may hold them (INV-K2). */
static int group_new(
        const struct fur_group_options *o, const struct fur_options *heap, struct fur_group **out)
{
	struct fur_group *g = memory_padded(sizeof *g);
	if (!g)
		return fur_fail(FUR_ENOMEM, "no memory for the group: free some memory");
	int error = random_bytes(&g->next_update_id, sizeof g->next_update_id);
	if (!error)
		error = make_key(g);
	if (error) {
		free(g);
		return error;
	}
	pthread_mutex_init(&g->mutex, NULL);
	pthread_mutex_init(&g->changing, NULL);
	batches_init(&g->batches, o);
	g->fd = -1;
	g->lends = arch_lend_fences();
	g->owner = getpid();
	g->options = *heap;
	*out = g;
	return 0;
}

static void group_free(struct fur_group *g)
{
	pthread_key_delete(g->self);
	if (g->fd >= 0)
		close(g->fd); /* releases the lock */
	/* Of a child of fork(): its parent's threads. */
	while (g->threads) {
		struct fur_group_thread *t = g->threads;
		g->threads = t->next;
		free(t);
	}
	group_file_free(g);
	free(g->path);
	free(g);
}

/* ------------------------------------------------------------------ create */

int group_whole_path(const char *path, char **out)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	char directory[PATH_MAX], real[PATH_MAX], *whole = malloc(PATH_MAX);
	if (!whole)
		return fur_fail(FUR_ENOMEM, "no memory for the path: free some memory");
	const int length = slash ? (int)(slash - path) : 0;
	const int there =
	        snprintf(directory, sizeof directory, "%.*s%s", length, path, slash ? "/" : ".");
	if (there >= (int)sizeof directory || !*name) {
		free(whole);
		return fur_fail(FUR_EINVAL, "the path names no file, or is too long: check it");
	}
	if (!realpath(directory, real)) {
		free(whole);
		return fail_system(FUR_ESYS, CALL_CREATE, errno, NULL, "cannot create the file");
	}
	if (snprintf(whole, PATH_MAX, "%s/%s", strcmp(real, "/") ? real : "", name) >= PATH_MAX) {
		free(whole);
		return fur_fail(FUR_EINVAL, "the path is too long: use a shorter one");
	}
	*out = whole;
	return 0;
}

static int create_file(struct fur_group *g, const char *path, const struct fur_group_options *o)
{
	int error = group_whole_path(path, &g->path);
	if (!error)
		error = group_file_allocate(g, o->most_members);
	if (!error)
		error = random_bytes(g->id, sizeof g->id);
	if (error)
		return fur_fail_at(error, path);
	error = group_file_make(g);
	return error ? error : groups_add(g);
}

/* fur_group_create(), fur_group_open(): what `begin` makes of a new group. */
static int new_group(const char *function, const char *path,
        const struct fur_group_options *options, fur_group **out,
        int (*begin)(struct fur_group *, const char *path, const struct fur_group_options *))
{
	struct fur_group_options o;
	struct fur_options heap;
	struct fur_group *g = NULL;
	int cancel;
	if (out)
		*out = NULL;
	if (!path || !out)
		return fur_fail(FUR_EINVAL, "%s: path and group must not be NULL", function);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* as in fur_open() */
	int error = take_options(options, &o, &heap);
	if (!error)
		error = group_new(&o, &heap, &g);
	if (!g) {
		if (error)
			fur_fail_at(error, path);
	} else {
		error = begin(g, path, &o);
		if (error)
			group_free(g);
		else
			*out = g;
	}
	pthread_setcancelstate(cancel, &cancel);
	return error;
}

FUR_API int fur_group_create(
        const char *path, const struct fur_group_options *options, fur_group **group)
{
	return new_group("fur_group_create", path, options, group, create_file);
}

/* -------------------------------------------------------------------- open */

static int open_file(struct fur_group *g, const char *path)
{
	g->path = realpath(path, NULL);
	const int error = g->path ? group_file_open(g)
	                  : errno == ENOENT
	                          ? fur_fail(FUR_ENOENT, "no such file: create the group first, "
	                                                 "or check the path")
	                          : fail_system(FUR_ESYS, CALL_OPEN, errno, NULL, "cannot open");
	return error ? fur_fail_at(error, path) : 0;
}

static int open_members(struct fur_group *g, const char *path, const struct fur_group_options *o)
{
	int error = open_file(g, path);
	if (!error)
		error = groups_add(g);
	if (!error) {
		error = group_open_members(g, o->partial);
		if (error)
			groups_remove(g);
	}
	return error;
}

FUR_API int fur_group_open(
        const char *path, const struct fur_group_options *options, fur_group **group)
{
	return new_group("fur_group_open", path, options, group, open_members);
}

/* ------------------------------------------------------------------- close */

static int fail_used(const struct fur_group *g, const char *path)
{
	return fur_fail(FUR_EBUSY,
	        "%s: a thread is registered with %s%s, or a snapshot of it is open, or it has a "
	        "follower: end that, then close; fur_group_unregister() ends a thread's "
	        "registrations",
	        g->path, path ? "its member " : "the group", path ? path : "");
}

/* All or none. */
static int check_unused(struct fur_group *g)
{
	for (uint64_t k = 0; k < g->limit; k++)
		if (g->members[k].heap && heap_has_users(g->members[k].heap))
			return fail_used(g, g->members[k].path);
	return 0;
}

struct closing {
	struct fur_group *g;
	uint64_t next; /* of the members */
	pthread_mutex_t mutex;
	int error; /* of the lowest member that fails */
	uint64_t member;
	char *message;
};

static void close_some(void *arg, unsigned thread)
{
	struct closing *c = arg;
	uint64_t k;
	(void)thread;
	while ((k = arch_fetch_add(&c->next, 1)) < c->g->limit) {
		struct fur_heap *heap = c->g->members[k].heap;
		const int error = heap ? heap_close(heap) : 0;
		if (!error)
			continue;
		pthread_mutex_lock(&c->mutex);
		if (!c->error || k < c->member) {
			c->error = error;
			c->member = k;
			free(c->message);
			c->message = strdup(fur_errormsg()); /* which belongs to the thread */
		}
		pthread_mutex_unlock(&c->mutex);
	}
}

/* Several at a time: unmapping a large heap takes as long as a part of its recovery.  A child of
 * fork() starts no threads. */
static int close_members(struct fur_group *g)
{
	struct closing c = {.g = g, .mutex = PTHREAD_MUTEX_INITIALIZER};
	uint64_t n = 0, bytes = 0;
	for (uint64_t k = 0; k < g->limit && g->owner == getpid(); k++)
		if (g->members[k].heap) {
			bytes += durability_heap_bytes(&g->members[k].heap->durability);
			n++;
		}
	apply_on_threads(apply_threads_for_heaps(n, bytes), close_some, &c);
	if (c.error)
		fur_fail(c.error, "%s", c.message ? c.message : fur_strerror(c.error));
	free(c.message);
	return c.error;
}

static int close_group(struct fur_group *g)
{
	if (groups_has(g))
		batches_stop(g);
	int error = groups_remove(g), failed;
	if (error == FUR_EINVAL)
		return fur_fail(error, "fur_group_close: this group is not open: it was closed "
		                       "before, or is no group");
	if (error)
		return fail_used(g, NULL);
	error = check_unused(g);
	if (error) {
		failed = groups_add(g); /* the handlers are installed */
		return failed ? failed : error;
	}
	error = close_members(g);
	group_free(g);
	return error;
}

FUR_API int fur_group_close(fur_group *group)
{
	int cancel;
	if (!group)
		return fur_fail(FUR_EINVAL, "fur_group_close: group must not be NULL");
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* as in fur_open() */
	const int error = close_group(group);
	pthread_setcancelstate(cancel, &cancel);
	return error;
}

/* ----------------------------------------------------------------- members */

FUR_API fur_heap *fur_group_heap(const fur_group *group, unsigned member)
{
	/* Without the mutex: in a child of fork() a thread that is not there may hold it. */
	return group && member < group->most
	               ? __atomic_load_n(&group->members[member].heap, __ATOMIC_ACQUIRE)
	               : NULL;
}

FUR_API unsigned fur_group_members(const fur_group *group)
{
	/* Acquire: the members below it are set. */
	return group ? (unsigned)arch_load_acquire(&group->limit) : 0;
}
