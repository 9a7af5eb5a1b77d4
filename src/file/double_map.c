/* SPDX-License-Identifier: BSD-3-Clause
 *
 * double_map.c - the heap mapped twice, for FUR_DEBUG=plain-stores: once at its address, without
 * the right to write, for the program; and once elsewhere, where libfur stores.
 *
 * Private pages cannot be mapped twice, so both mappings are of a file in memory.  It begins as a
 * copy of the heap in the file, and nothing else refers to it.
 */
#include "base/error.h"
#include "base/remedy.h"
#include "base/system.h"
#include "file/file_parts.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int fail_map(int error)
{
	return fail_system(error == ENOMEM || error == ENOSPC ? FUR_ENOMEM : FUR_ESYS, CALL_MEMORY,
	        error, "or run without that aid",
	        "FUR_DEBUG=plain-stores cannot map the heap a second time");
}

static bool all_zero(const uint8_t *page)
{
	return page[0] == 0 && !memcmp(page, page + 1, MEDIA_PAGE_BYTES - 1);
}

/* Copy the heap of the file.  A page of zeros takes no memory. */
static void copy_heap(const struct heap_file *file, uint8_t *to)
{
	struct file_part parts[FILE_PARTS_MOST];
	const uint8_t *image = (const uint8_t *)file->super + file->geometry.heap_offset;
	const uint64_t heap = file->geometry.heap_offset, end = heap + file->mapped_bytes;
	for (unsigned k = 0, n = file_parts(&file->geometry, file->super, parts); k < n; k++) {
		uint64_t at = parts[k].from < heap
		                      ? heap
		                      : parts[k].from / MEDIA_PAGE_BYTES * MEDIA_PAGE_BYTES;
		for (; at < parts[k].to && at < end; at += MEDIA_PAGE_BYTES)
			if (!all_zero(image + (at - heap)))
				memcpy(to + (at - heap), image + (at - heap), MEDIA_PAGE_BYTES);
	}
}

/* Map the file in memory `fd` twice, and copy the heap there between the two. */
static int map_both(struct heap_file *file, int fd)
{
	const size_t bytes = file->mapped_bytes;
	const int failed = system_set_length(fd, bytes);
	if (failed)
		return fail_map(failed);
	uint8_t *second =
	        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (second == MAP_FAILED)
		return fail_map(errno);
	copy_heap(file, second);
	/* If the kernel refuses, a child has the mapping until it ends: that costs addresses. */
	madvise(second, bytes, MADV_DONTFORK);
	if (mmap(file->base, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0) ==
	        MAP_FAILED) {
		int error = errno;
		munmap(second, bytes);
		return fail_map(error);
	}
	file->writable = second;
	return 0;
}

int heap_map_twice(struct heap_file *file)
{
	FUR_ASSERT(file->mapped_bytes && file->writable == file->base);
	int error = file_check_memory(file->mapped_bytes);
	if (error)
		return error;
	int fd = system_open_memory("libfur-debug");
	if (fd < 0)
		return fail_map(errno);
	error = map_both(file, fd);
	close(fd);
	return error;
}

void heap_forget_writable(struct heap_file *file)
{
	file->writable = file->base;
}
