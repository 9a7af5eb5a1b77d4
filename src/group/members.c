/* SPDX-License-Identifier: BSD-3-Clause
 *
 * members.c - all members of a group are opened, and recovered, together.
 */
#include "base/error.h"
#include "group/group.h"
#include "group/group_file.h"
#include "replay/apply.h"
#include "replay/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *group_member_path(const struct fur_group *g, unsigned member)
{
	const char *path = g->members[member].path, *slash = strrchr(g->path, '/');
	const size_t before = *path == '/' || !slash ? 0 : (size_t)(slash + 1 - g->path),
	             bytes = strlen(path) + 1;
	char *whole = malloc(before + bytes);
	if (!whole) {
		fur_fail(FUR_ENOMEM, "no memory for a path: free some memory");
		return NULL;
	}
	memcpy(whole, g->path, before);
	memcpy(whole + before, path, bytes);
	return whole;
}

/* ------------------------------------------------------------- whose it is */

static bool is_of_group(const struct fur_group *g, unsigned member, const struct media_super *s)
{
	return media_is_member(s) && memcmp(s->more.group, g->id, sizeof g->id) == 0 &&
	       s->more.group_member == member;
}

/* Also one that joins or leaves: does its superblock say so? */
static bool is_member(const struct fur_group *g, unsigned member, const struct heap_file *file)
{
	const struct media_super *s = &file->geometry;
	return is_of_group(g, member, s) &&
	       memcmp(s->uuid, g->members[member].uuid, sizeof s->uuid) == 0;
}

int group_check_member(const struct fur_group *g, unsigned member, const struct heap_file *file)
{
	const struct media_super *s = &file->geometry;
	if (!is_of_group(g, member, s))
		return fur_fail(FUR_EGROUP,
		        "this is not member %u of %s: the heap %s; bring the right file back, or "
		        "tell where the members are, with fur-group rebuild",
		        member, g->path,
		        media_is_member(s) ? "is another member, or one of another group"
		                           : "is in no group");
	if (!is_member(g, member, file))
		return fur_fail(FUR_EGROUP,
		        "this is another heap than the one that became member %u of %s (by its "
		        "UUID): bring that one back, or make the group's file again, with "
		        "fur-group rebuild",
		        member, g->path);
	return 0;
}

/* ---------------------------------------------------------------- the files */

struct opening {
	struct fur_group *g;
	struct heap_file *files;        /* [most] */
	struct replay_result *replayed; /* [most] */
	/* Of open_some() */
	uint64_t next; /* of the members */
	uint64_t failed;
};

void group_forget_member(struct fur_group *g, unsigned member, enum group_state state)
{
	struct group_member *m = &g->members[member];
	/* Threads that name the member tell its path, under the mutex. */
	pthread_mutex_lock(&g->mutex);
	/* Not `heap`, which is NULL: fur_group_heap() loads it without the mutex. */
	FUR_ASSERT(!m->heap);
	free(m->path);
	m->path = NULL;
	memset(m->uuid, 0, sizeof m->uuid);
	m->state = state;
	m->taken = false;
	while (g->limit && g->members[g->limit - 1].state == GROUP_NONE)
		g->limit--;
	pthread_mutex_unlock(&g->mutex);
}

/* A crash has interrupted that the heap joins, or leaves (INV-GM1).  Where its superblock has
 * changed, it has joined; where that may still be changed, it leaves.  *file is closed if it is no
 * member now. */
static int complete_step(struct fur_group *g, unsigned k, struct heap_file *file)
{
	struct group_member *m = &g->members[k];
	const bool leaves = m->state == GROUP_LEAVING, there = file->fd >= 0;
	bool stays = there && is_member(g, k, file);
	/* It was closed before; another program may have opened it since, and died. */
	if (stays && leaves && file->super->state == MEDIA_CLOSED) {
		const int error = heap_leave(file);
		if (error)
			return error;
		stays = false;
	}
	if (stays) {
		m->state = GROUP_MEMBER;
		return 0;
	}
	heap_close_file(file);
	/* No update has ever had a part in one that has not joined: its index is free. */
	group_forget_member(g, k, leaves ? GROUP_REMOVED : GROUP_NONE);
	return 0;
}

static int fail_missing(const struct fur_group *g, unsigned member)
{
	return fur_fail(FUR_ENOENT,
	        "this is where member %u of %s should be, and there is no file: bring it back, or "
	        "tell where it is, with fur-group rebuild; fur_group_options.partial opens the "
	        "group without it, if no update needs it",
	        member, g->path);
}

/* Open a member's file, if it is not open.  file->fd is -1 if there is none. */
static int open_file(struct fur_group *g, unsigned k, bool partial, struct heap_file *file)
{
	const bool whole = g->members[k].state == GROUP_MEMBER;
	char *path = group_member_path(g, k);
	if (!path)
		return FUR_ENOMEM;
	int error = file->fd < 0 ? heap_open_file(path, HEAP_LOCK_WORKER, file) : 0;
	if (error == FUR_ENOENT)
		error = whole && !partial ? fail_missing(g, k) : 0;
	else if (!error && whole)
		error = group_check_member(g, k, file);
	if (!error && !whole)
		error = complete_step(g, k, file);
	if (error)
		heap_close_file(file);
	error = error ? fur_fail_at(error, path) : 0;
	free(path);
	return error;
}

static void close_files(const struct opening *o)
{
	for (unsigned k = 0; k < o->g->most; k++)
		if (o->files[k].fd >= 0)
			heap_close_file(&o->files[k]);
}

static void open_some(void *arg, unsigned thread)
{
	struct opening *o = arg;
	uint64_t k;
	(void)thread;
	while ((k = arch_fetch_add(&o->next, 1)) < o->g->limit) {
		char *path = o->g->members[k].path ? group_member_path(o->g, (unsigned)k) : NULL;
		const int error = path ? heap_open_file(path, HEAP_LOCK_WORKER, &o->files[k]) : 0;
		if (error && error != FUR_ENOENT)
			arch_store(&o->failed, 1);
		free(path);
	}
}

/* Threads open several files at a time: to look for holes takes long on tmpfs, and a disk can read
 * for several.  This thread then opens in order what is not open, so the error is that of the first
 * member that fails.  If a file was refused, this thread closes all of them first, and opens all
 * again: two members may be one file, and the later one must then find it taken. */
static int open_files(struct opening *o, bool partial)
{
	struct fur_group *g = o->g;
	const unsigned threads = apply_threads_for_heaps(g->limit, UINT64_MAX);
	int error = 0;
	bool completed = false;
	if (threads > 1)
		apply_on_threads(threads, open_some, o);
	if (o->failed)
		close_files(o);
	for (unsigned k = 0; !error && k < g->most; k++) {
		const enum group_state state = g->members[k].state;
		if (!g->members[k].path)
			continue;
		error = open_file(g, k, partial, &o->files[k]);
		completed |= state != g->members[k].state;
	}
	return error || !completed ? error : group_file_replace(g);
}

/* ----------------------------------------------------------------- the heaps */

static int begin_all(struct fur_group *g, struct opening *o)
{
	int error = 0;
	for (unsigned k = 0; !error && k < g->limit; k++) {
		if (o->files[k].fd < 0)
			continue;
		char *path = group_member_path(g, k);
		struct heap_file file = o->files[k];
		o->files[k].fd = -1; /* the heap's from now on */
		error = heap_begin_opening(&file, &g->options, &g->members[k].heap);
		if (error)
			g->members[k].heap = NULL;
		error = error && path ? fur_fail_at(error, path) : error;
		free(path);
	}
	return error;
}

static struct join_member join_member_of(struct fur_heap *heap)
{
	struct durability *d = &heap->durability;
	heap->info.recovered = d->words->state != MEDIA_CLOSED;
	return (struct join_member){
	        .d = d, .member = d->super->more.group_member, .recover = heap->info.recovered};
}

int group_recover(struct fur_heap *heap, struct replay_result *replayed)
{
	struct join_member m = join_member_of(heap);
	const int error = replay_join(&m, 1, true);
	*replayed = m.result;
	return error;
}

/* Together, so that an update over several members survives in all, or in none (INV-GU5). */
static int recover_all(struct fur_group *g, struct opening *o)
{
	bool complete = true;
	unsigned n = 0;
	struct join_member *all = calloc(g->most, sizeof *all);
	if (!all)
		return fur_fail(FUR_ENOMEM, "no memory to open a group: free some memory");
	for (unsigned k = 0; k < g->limit; k++)
		if (g->members[k].heap)
			all[n++] = join_member_of(g->members[k].heap);
		else if (g->members[k].path)
			complete = false;
	const int error = n ? replay_join(all, n, complete) : 0;
	for (unsigned k = 0; k < n; k++)
		o->replayed[all[k].member] = all[k].result;
	free(all);
	return error;
}

static int finish_all(struct fur_group *g, const struct opening *o)
{
	int error = 0;
	for (unsigned k = 0; !error && k < g->limit; k++) {
		struct fur_heap *heap = g->members[k].heap;
		if (!heap)
			continue;
		error = heap_name_failure(
		        &heap->file, heap_finish_opening(heap, NULL, &o->replayed[k]));
		heap->group = g;
	}
	return error;
}

static void give_up_all(struct fur_group *g)
{
	for (unsigned k = 0; k < g->limit; k++)
		if (g->members[k].heap) {
			heap_give_up_opening(g->members[k].heap);
			g->members[k].heap = NULL;
		}
}

int group_open_members(struct fur_group *g, bool partial)
{
	struct opening o = {.g = g,
	        .files = calloc(g->most, sizeof *o.files),
	        .replayed = calloc(g->most, sizeof *o.replayed)};
	int error = o.files && o.replayed
	                    ? 0
	                    : fur_fail(FUR_ENOMEM, "no memory to open a group: free some memory");
	for (unsigned k = 0; o.files && k < g->most; k++)
		o.files[k].fd = -1;
	if (!error)
		error = open_files(&o, partial);
	if (!error)
		error = begin_all(g, &o);
	if (!error)
		error = recover_all(g, &o);
	if (!error)
		error = finish_all(g, &o);
	if (error)
		give_up_all(g);
	if (o.files)
		close_files(&o);
	free(o.files);
	free(o.replayed);
	return error;
}
