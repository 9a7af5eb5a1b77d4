/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_file.c - opening, mapping and closing heap files.  create.c makes them; super.c checks their
 * superblocks.
 */
#include "base/error.h"
#include "base/memory.h"
#include "file/file_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* --------------------------------------------------------------------- map */

int file_map_failed(int error)
{
	return fur_fail(FUR_ESYS,
	        "cannot map the file: %s: "
	        "free some memory, or raise the limits on it (ulimit -v, vm.max_map_count)",
	        strerror(error));
}

int file_map_shared(struct heap_file *file)
{
	const uint64_t bytes = file->geometry.file_bytes;
	FUR_ASSERT(file->fd >= 0 && !file->super);
	/* MAP_SYNC succeeds only on DAX.  It guarantees that the file system's metadata is durable
	 * too; flushing from user space needs that. */
	void *p = mmap(
	        NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, file->fd, 0);
	file->dax = p != MAP_FAILED;
	if (!file->dax)
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
	if (p == MAP_FAILED)
		return file_map_failed(errno);
	file->super = p;
	file->file_bytes = bytes;
	arch_persistent(p, bytes);
	return 0;
}

int heap_map(struct heap_file *file)
{
	const struct media_super *s = &file->geometry;
	void *want = (void *)(uintptr_t)s->address;
	if (file->mapped_bytes)
		return 0;
	FUR_ASSERT(s->address % MEDIA_PAGE_BYTES == 0 && s->heap_offset % MEDIA_PAGE_BYTES == 0);
	void *p = mmap(want, s->heap_bytes, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_FIXED_NOREPLACE | MAP_NORESERVE, file->fd, (off_t)s->heap_offset);
	if (p == MAP_FAILED && errno != EEXIST)
		return fur_fail(FUR_ESYS,
		        "cannot map %llu bytes at %p: %s: "
		        "free some memory, or raise the limits on it (ulimit -v, vm.max_map_count)",
		        (unsigned long long)s->heap_bytes, want, strerror(errno));
	if (p != want) { /* a kernel before 4.17 takes the address for a hint */
		if (p != MAP_FAILED)
			munmap(p, s->heap_bytes);
		return fur_fail(FUR_EADDRESS,
		        "the heap belongs at %p to %p, "
		        "where this process has something else mapped (another heap?): "
		        "close that first, or create the heap with another fur_options.address",
		        want, (void *)((uint8_t *)want + s->heap_bytes));
	}
	file->base = p;
	file->mapped_bytes = s->heap_bytes;
	return 0;
}

void heap_populate(const struct heap_file *file)
{
	FUR_ASSERT(file->mapped_bytes && file->super);
	/* The first store to a copy-on-write page faults, and a fault aborts a hardware transaction
	 * without telling the cause.  So touch all pages now.  If the kernel cannot do that, stores
	 * in place touch them, page by page. */
	madvise(file->base, file->geometry.heap_bytes, MADV_POPULATE_WRITE);
	madvise((uint8_t *)file->super, file->geometry.logs_offset, MADV_POPULATE_WRITE);
}

/* -------------------------------------------------------------------- open */

/* A copy of a file may lack blocks that contained only zeros.  On a full file system a store to
 * such a block would end the process.  Allocate them; no byte changes. */
static int fill_holes(int fd, uint64_t bytes)
{
	struct stat st;
	int error = file_stat(fd, &st);
	if (error)
		return error;
	/* st_blocks includes a few blocks of the file system's own, so look for a hole as well.
	 * Allocated blocks that were never written count as a hole. */
	if ((uint64_t)st.st_blocks * 512 >= bytes && lseek(fd, 0, SEEK_HOLE) >= (off_t)bytes)
		return 0;
	/* Not posix_fallocate(): if the file system cannot allocate, it reads and writes each
	 * block, and another process may be writing the block too. */
	if (fallocate(fd, 0, 0, (off_t)bytes) == 0 || (errno != ENOSPC && errno != EDQUOT))
		return 0;
	return fur_fail(FUR_ENOSPC, "the file has holes (copied with cp --sparse?), "
	                            "and the file system has no room to fill them: make room");
}

static int fail_open(int error)
{
	if (error == ENOENT)
		return fur_fail(
		        FUR_ENOENT, "no such file: create the heap first, or check the path");
	return fur_fail(
	        FUR_ESYS, "cannot open: %s: check the path and its permissions", strerror(error));
}

int heap_open_file(const char *path, enum heap_lock lock, struct heap_file *file)
{
	uint64_t file_bytes = 0, tail;
	*file = (struct heap_file){.fd = open(path, O_RDWR | O_CLOEXEC)};
	if (file->fd < 0)
		return fail_open(errno);
	/* Check before locking, so that a foreign file is refused as "not a heap".  No second check
	 * is necessary under the lock, because no process changes the fields that
	 * heap_check_super() reads. */
	int error = heap_read_super(file->fd, &file->geometry, &file_bytes);
	if (!error)
		error = heap_check_super(&file->geometry, file_bytes);
	if (!error)
		error = heap_lock_file(file->fd, lock);
	if (!error && lock != HEAP_LOCK_NONE)
		error = fill_holes(file->fd, file->geometry.file_bytes);
	/* Map as many bytes as the superblock records, and none that were appended to the file. */
	if (!error)
		error = file_map_shared(file);
	if (!error)
		error = heap_tail(file, &tail);
	if (error)
		heap_close_file(file);
	return error;
}

void heap_close_file(struct heap_file *file)
{
	if (file->mapped_bytes)
		munmap(file->base, file->mapped_bytes);
	if (file->super) {
		arch_persistent_gone(file->super);
		munmap(file->super, file->file_bytes);
	}
	if (file->temporary) {
		unlink(file->temporary);
		free(file->temporary);
	}
	if (file->fd >= 0)
		close(file->fd); /* releases the lock */
	*file = (struct heap_file){.fd = -1};
}
