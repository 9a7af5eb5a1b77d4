/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory_copy.c - a file in memory for a copy of a heap (memfd_create(2)).  It has no name, so only
 * this process and its children can reach it, and the kernel frees it when they have ended.
 */
#include "base/error.h"
#include "base/remedy.h"
#include "base/system.h"
#include "file/file_parts.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int fail_memory(int error)
{
	return fail_system(error == ENOMEM || error == ENOSPC ? FUR_ENOMEM : FUR_ESYS, CALL_MEMORY,
	        error, "there is no copy", "cannot make a copy of the heap in memory");
}

int file_check_memory(uint64_t bytes)
{
	uint64_t most;
	if (!system_may_write(bytes, &most))
		return 0;
	return fur_fail(FUR_ENOSPC,
	        "the copy of the heap in memory needs %llu bytes "
	        "and this process may write files of at most %llu: "
	        "raise the limit (RLIMIT_FSIZE, ulimit -f); there is no copy",
	        (unsigned long long)bytes, (unsigned long long)most);
}

/* With the original's mode: a copy of the copy also gets that mode. */
static int make_file(const struct heap_file *original, struct heap_file *copy)
{
	struct stat st;
	int error = file_stat(original->fd, &st);
	if (error)
		return error;
	copy->fd = system_open_memory("libfur-copy");
	if (copy->fd < 0 || fchmod(copy->fd, st.st_mode & 0777))
		return fail_memory(errno);
	error = system_set_length(copy->fd, copy->geometry.file_bytes);
	return error ? fail_memory(error) : 0;
}

int heap_fill_memory_copy(const struct heap_file *original, const struct heap_file *copy)
{
	const off_t end = (off_t)copy->geometry.file_bytes;
	int error = 0;
	for (off_t at = 0, hole; at < end && !error; at = hole) {
		at = lseek(original->fd, at, SEEK_DATA);
		hole = at < 0 ? end : lseek(original->fd, at, SEEK_HOLE);
		hole = hole < 0 || hole > end ? end : hole;
		if (at >= 0 && at < hole)
			error = system_allocate(copy->fd, 0, (uint64_t)at, (uint64_t)hole);
	}
	/* A kernel that cannot: then the writer of the copy takes the memory. */
	return error && error != EOPNOTSUPP && error != ENOSYS ? fail_memory(error) : 0;
}

int heap_create_memory_copy(const struct heap_file *original, struct heap_file *copy)
{
	*copy = (struct heap_file){.fd = -1, .geometry = original->geometry, .in_memory = true};
	/* As in heap_create_copy(). */
	memcpy(copy->geometry.grown, original->super->grown, sizeof copy->geometry.grown);
	int error = file_check_memory(copy->geometry.file_bytes);
	if (!error)
		error = make_file(original, copy);
	if (!error)
		error = file_map_shared(copy);
	if (error)
		heap_close_file(copy);
	return error;
}
