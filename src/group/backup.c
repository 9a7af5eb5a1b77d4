/* SPDX-License-Identifier: BSD-3-Clause
 *
 * backup.c - fur_group_backup(): copies of all members, as one consistent set, and a group file.
 */
#include "replay/backup.h"
#include "base/error.h"
#include "file/text_file.h"
#include "group/group.h"
#include "group/group_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Is the name taken, by the group's file or by a member before `end`? */
static bool is_taken(const struct fur_group *copy, uint64_t end, const char *name)
{
	bool taken = strcmp(base_name(copy->path), name) == 0;
	for (uint64_t k = 0; !taken && k < end; k++)
		taken = copy->members[k].path && strcmp(copy->members[k].path, name) == 0;
	return taken;
}

/* The member's in the copy: its file's, and where that is another's, the index behind it. */
static int name_member(struct fur_group *copy, const struct fur_group *g, unsigned k)
{
	char name[PATH_MAX];
	struct group_member *m = &copy->members[k];
	const char *base = base_name(g->members[k].path);
	m->state = g->members[k].state;
	memcpy(m->uuid, g->members[k].uuid, sizeof m->uuid);
	snprintf(name, sizeof name, "%s", base);
	if (is_taken(copy, k, name) &&
	        snprintf(name, sizeof name, "%s.%u", base, k) >= (int)sizeof name)
		return fur_fail(FUR_EINVAL, "a member's name is too long: use a shorter one");
	m->path = strdup(name);
	return m->path ? 0 : fur_fail(FUR_ENOMEM, "no memory for a path: free some memory");
}

/* The group that the copies are. */
static int plan(struct fur_group *copy, const struct fur_group *g, const char *directory)
{
	int error = group_file_allocate(copy, g->most);
	copy->path = malloc(PATH_MAX);
	if (!error && !copy->path)
		error = fur_fail(FUR_ENOMEM, "no memory for a path: free some memory");
	if (!error &&
	        snprintf(copy->path, PATH_MAX, "%s/%s", directory, base_name(g->path)) >= PATH_MAX)
		error = fur_fail(FUR_EINVAL, "the path is too long: use a shorter one");
	if (!error && access(copy->path, F_OK) == 0)
		error = fur_fail_at(fur_fail(FUR_EEXIST, "the file exists: choose another "
		                                         "directory"),
		        copy->path);
	memcpy(copy->id, g->id, sizeof copy->id);
	copy->limit = g->limit;
	for (unsigned k = 0; !error && k < g->limit; k++)
		if (g->members[k].heap)
			error = name_member(copy, g, k);
		else if (!g->members[k].path)
			copy->members[k].state = g->members[k].state;
		else
			error = fur_fail(FUR_ENOENT,
			        "member %u (%s) is missing: bring it back, and open the group "
			        "again; there is no copy",
			        k, g->members[k].path);
	return error;
}

static int shut(void *group)
{
	return group_gate_shut(group);
}

static void open_again(void *group)
{
	group_gate_open(group);
}

static int copy_members(struct fur_group *g, const struct fur_group *copy)
{
	int error = 0;
	unsigned n = 0;
	struct backup_member *members = calloc(g->most, sizeof *members);
	for (unsigned k = 0; members && !error && k < g->limit; k++)
		if (g->members[k].heap) {
			struct fur_heap *heap = g->members[k].heap;
			char *path = group_member_path(copy, k);
			error = path ? 0 : FUR_ENOMEM;
			members[n++] = (struct backup_member){&heap->durability, &heap->file, path};
		}
	const struct backup_set set = {members, n, shut, open_again, g};
	if (!members)
		error = fur_fail(FUR_ENOMEM, "no memory to copy a group: free some memory");
	if (!error)
		error = backup_together(&set);
	for (unsigned k = 0; k < n; k++)
		free((char *)(uintptr_t)members[k].path);
	free(members);
	return error;
}

static int back_up(struct fur_group *g, const char *directory)
{
	struct fur_group copy = {.fd = -1};
	int error = plan(&copy, g, directory);
	if (!error && (error = text_file_directory(directory)))
		fur_fail_at(error, directory);
	if (!error)
		error = copy_members(g, &copy);
	/* Last: where it is, there is the whole group. */
	if (!error)
		error = group_file_make(&copy);
	if (copy.fd >= 0)
		close(copy.fd);
	group_file_free(&copy);
	free(copy.path);
	return error;
}

FUR_API int fur_group_backup(fur_group *group, const char *directory)
{
	int cancel;
	if (!group || !directory)
		return fur_fail(
		        FUR_EINVAL, "fur_group_backup: group and directory must not be NULL");
	int error = group_check_fork(group);
	if (error)
		return error;
	/* The copies would wait for this thread's transaction. */
	if (this_thread()->open)
		return fur_fail(FUR_ENESTED, "fur_group_backup was called while this thread has a "
		                             "transaction open: end that first");
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* as in fur_backup() */
	pthread_mutex_lock(&group->changing);
	error = back_up(group, directory);
	pthread_mutex_unlock(&group->changing);
	pthread_setcancelstate(cancel, &cancel);
	return error;
}
