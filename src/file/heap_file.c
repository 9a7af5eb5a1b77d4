/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_file.c - opening, mapping and closing heap files.  create.c makes them; super.c checks their
 * superblocks.
 */
#include "base/checker.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/remedy.h"
#include "base/system.h"
#include "file/file_parts.h"
#include "media/heap_layout.h"

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
	return fail_system(FUR_ESYS, CALL_MAP, error, NULL, "cannot map the file");
}

int file_map_shared(struct heap_file *file)
{
	const uint64_t bytes = file->geometry.file_bytes;
	FUR_ASSERT(file->fd >= 0 && !file->super);
	/* MAP_SYNC succeeds only on DAX.  It guarantees that the file system's metadata is also
	 * durable; flushing from user space needs that. */
	void *p = mmap(
	        NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, file->fd, 0);
	file->dax = p != MAP_FAILED;
	if (!file->dax)
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, FILE_SHARED, file->fd, 0);
	if (p == MAP_FAILED)
		return file_map_failed(errno);
	file->super = p;
	file->file_bytes = bytes;
	arch_persistent(p, bytes);
	return 0;
}

/* Defined in a program that was built with ThreadSanitizer.  Its mmap() replaces an address that it
 * does not accept by 0, and with MAP_FIXED_NOREPLACE that is a place: the program ends.  Without
 * the flag the kernel takes the address for a hint, as kernels before 4.17 do. */
extern void __tsan_init(void) __attribute__((weak)); /* NOLINT: the name is not ours */

static bool under_tsan(void)
{
	return __tsan_init != NULL;
}

/* Does the heap lie beyond the addresses that this kernel gives a process?  Linux gives at least 47
 * bits, but for some kernels for aarch64, with 36 to 42.  mmap() then returns ENOMEM, as it does at
 * a limit on memory.  So ask for one page there, and for one anywhere. */
static bool beyond_address_space(const struct media_super *s)
{
	enum { FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };
	const size_t bytes = MEDIA_PAGE_BYTES;
	void *last = (void *)(uintptr_t)(s->address + s->heap_bytes - bytes);
	void *page = mmap(last, bytes, PROT_NONE, FLAGS | MAP_FIXED_NOREPLACE, -1, 0);
	bool refused = page == MAP_FAILED && errno == ENOMEM;
	if (refused)
		page = mmap(NULL, bytes, PROT_NONE, FLAGS, -1, 0);
	if (page == MAP_FAILED)
		return false;
	munmap(page, bytes);
	return refused;
}

/* mmap() has failed. */
static int heap_map_failed(const struct media_super *s, int error)
{
	void *want = (void *)(uintptr_t)s->address;
	if (error == ENOMEM && beyond_address_space(s))
		return fur_fail(FUR_EADDRESS,
		        "the heap belongs at %p to %p, "
		        "beyond the addresses that this kernel gives a process: "
		        "use a kernel with 48-bit addresses, "
		        "or create the heap with a lower fur_options.address",
		        want, (void *)((uint8_t *)want + s->heap_bytes));
	return fail_system(FUR_ESYS, CALL_MAP_HEAP, error, NULL, "cannot map %llu bytes at %p",
	        (unsigned long long)s->heap_bytes, want);
}

static int fail_taken(void *want, void *end)
{
	if (under_tsan())
		return fur_fail(FUR_EADDRESS,
		        "the heap belongs at %p to %p, where ThreadSanitizer lets nothing be "
		        "mapped, or where something else is mapped (another heap?): "
		        "close that first, or create the heap with a lower fur_options.address, "
		        "as 0x1000000000",
		        want, end);
	return fur_fail(FUR_EADDRESS,
	        "the heap belongs at %p to %p, "
	        "where this process has something else mapped (another heap?): "
	        "close that first, or create the heap with another fur_options.address",
	        want, end);
}

/* The part of the heap in which `part` lies, in whole pages. */
static struct file_part pages_of(const struct heap_part *part)
{
	const uint64_t page = MEDIA_PAGE_BYTES;
	return (struct file_part){part->from / page * page, round_up(part->to, page)};
}

int heap_let_store(const struct heap_file *file, uint64_t now)
{
	struct heap_part parts[HEAP_PARTS];
	const struct media_super *s = &file->geometry;
	/* A heap that is mapped twice is not stored to at `base`. */
	if (!file->mapped_bytes || file->writable != file->base || !media_grows(s))
		return 0;
	heap_parts(s->heap_bytes, s->max_threads, now, parts);
	for (int k = 0; k < HEAP_PARTS; k++) {
		const struct file_part pages = pages_of(&parts[k]);
		if (mprotect(
		            file->base + pages.from, pages.to - pages.from, PROT_READ | PROT_WRITE))
			return fail_system(FUR_ESYS, CALL_MAP_HEAP, errno, "the heap is as it was",
			        "%s: cannot let %llu bytes of the heap be stored to",
			        heap_path(file), (unsigned long long)now);
	}
	return 0;
}

void *file_map_private(const struct heap_file *file, int fd, int flags)
{
	const struct media_super *s = &file->geometry;
	return mmap((void *)(uintptr_t)s->address, s->heap_bytes,
	        PROT_READ | (media_grows(s) ? 0 : PROT_WRITE), MAP_PRIVATE | MAP_NORESERVE | flags,
	        fd, (off_t)s->heap_offset);
}

int heap_map(struct heap_file *file)
{
	const struct media_super *s = &file->geometry;
	void *want = (void *)(uintptr_t)s->address;
	if (file->mapped_bytes)
		return 0;
	FUR_ASSERT(s->address % MEDIA_PAGE_BYTES == 0 && s->heap_offset % MEDIA_PAGE_BYTES == 0);
	const int there = under_tsan() ? 0 : MAP_FIXED_NOREPLACE;
	void *p = file_map_private(file, file->fd, there);
	if (p == MAP_FAILED && errno != EEXIST)
		return heap_map_failed(s, errno);
	if (p != want) { /* a kernel before 4.17 takes the address for a hint */
		if (p != MAP_FAILED)
			munmap(p, s->heap_bytes);
		return fail_taken(want, (uint8_t *)want + s->heap_bytes);
	}
	/* A parent may have hidden bytes of a heap that it has there (fur_scan). */
	checker_show(p, s->heap_bytes);
	file->base = file->writable = p;
	file->mapped_bytes = s->heap_bytes;
	/* A new file is not mapped yet.  Otherwise the size may have changed since the geometry was
	 * read. */
	int error = heap_let_store(file, media_heap_bytes(s, file->super ? file->super : s));
	if (error) {
		munmap(p, s->heap_bytes);
		file->base = file->writable = NULL;
		file->mapped_bytes = 0;
	}
	return error;
}

void heap_advise_growth(const struct heap_file *file)
{
	const struct media_super *s = &file->geometry;
	uint8_t *image = (uint8_t *)file->super + s->heap_offset;
	/* It may be damaged: nothing has checked it yet. */
	const uint64_t grown = arch_load(&header(image)->grown);
	if (!media_grows(s) || grown >= s->heap_bytes / CHUNK_BYTES)
		return;
	const uint64_t used = grown * CHUNK_BYTES, bytes = s->heap_bytes - used;
	madvise(image + used, bytes, MADV_RANDOM);
	if (file->mapped_bytes)
		madvise(file->base + used, bytes, MADV_RANDOM);
}

void heap_populate(const struct heap_file *file)
{
	FUR_ASSERT(file->mapped_bytes && file->super);
	/* The first store to a copy-on-write page faults, and a fault aborts a hardware transaction
	 * without telling the cause.  So touch all pages now.  If the kernel cannot do that, stores
	 * in place touch them, page by page. */
	struct file_part parts[FILE_PARTS_MOST];
	const uint64_t heap = file->geometry.heap_offset, page = MEDIA_PAGE_BYTES;
	for (unsigned k = 1, n = file_parts(&file->geometry, file->super, parts); k < n; k++) {
		uint64_t from = parts[k].from / page * page, to = round_up(parts[k].to, page);
		if (from < heap + file->geometry.heap_bytes)
			madvise(file->base + (from - heap),
			        (to < heap + file->mapped_bytes ? to : heap + file->mapped_bytes) -
			                from,
			        MADV_POPULATE_WRITE);
	}
	madvise((uint8_t *)file->super, file->geometry.logs_offset, MADV_POPULATE_WRITE);
}

/* -------------------------------------------------------------------- open */

void file_keep_path(struct heap_file *file, const char *path)
{
	const size_t bytes = strlen(path) + 1;
	FUR_ASSERT(!file->path);
	file->path = malloc(bytes);
	if (file->path)
		memcpy(file->path, path, bytes);
}

int heap_open_failed(int error)
{
	if (error == ENOENT)
		return fur_fail(
		        FUR_ENOENT, "no such file: create the heap first, or check the path");
	return fail_system(FUR_ESYS, CALL_OPEN, error, NULL, "cannot open");
}

int heap_open_file(const char *path, enum heap_lock lock, struct heap_file *file)
{
	const int fd = system_open(path, O_RDWR, 0);
	*file = (struct heap_file){.fd = -1};
	return fd < 0 ? heap_open_failed(errno) : heap_take_file(fd, path, lock, file);
}

int heap_take_file(int fd, const char *path, enum heap_lock lock, struct heap_file *file)
{
	uint64_t file_bytes = 0, tail;
	*file = (struct heap_file){.fd = fd};
	/* Check before locking, so that a foreign file is refused as "not a heap".  No second check
	 * is necessary under the lock, because no process changes the fields that
	 * heap_check_super() reads, but for the heap's size, which only grows. */
	int error = heap_read_super(file->fd, &file->geometry, &file_bytes);
	if (!error)
		error = heap_check_super(&file->geometry, file_bytes);
	if (!error)
		error = heap_lock_file(file->fd, lock);
	/* Map as many bytes as the superblock records, and none that were appended to the file. */
	if (!error)
		error = file_map_shared(file);
	if (!error && lock != HEAP_LOCK_NONE)
		error = file_fill_holes(file->fd, &file->geometry, file->super);
	if (!error && lock != HEAP_LOCK_NONE)
		error = file_unshare(file);
	if (!error)
		error = heap_tail(file, &tail);
	if (error)
		heap_close_file(file);
	else
		file_keep_path(file, path);
	if (!error)
		heap_advise_growth(file);
	return error;
}

/* The kernel takes a mapping away for one thread of a process at a time, which takes long where it
 * has many pages; but it lets several threads give the pages back first. */
static void unmap(void *at, uint64_t bytes)
{
	madvise(at, bytes, MADV_DONTNEED);
	munmap(at, bytes);
}

void heap_close_file(struct heap_file *file)
{
	if (file->mapped_bytes && file->writable != file->base)
		unmap(file->writable, file->mapped_bytes);
	if (file->mapped_bytes) {
		checker_show(file->base, file->mapped_bytes);
		unmap(file->base, file->mapped_bytes);
	}
	if (file->super) {
		arch_persistent_gone(file->super);
		unmap(file->super, file->file_bytes);
	}
	if (file->temporary) {
		unlink(file->temporary);
		free(file->temporary);
	}
	free(file->path);
	if (file->fd >= 0)
		close(file->fd); /* releases the lock */
	*file = (struct heap_file){.fd = -1};
}
