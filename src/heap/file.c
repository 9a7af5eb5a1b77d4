/* SPDX-License-Identifier: BSD-3-Clause
 *
 * file.c - making, opening and mapping heap files.
 */
#include "../arch/arch.h"
#include "../fur_error.h"
#include "heap.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + MEDIA_PAGE_BYTES - 1) & ~(uint64_t)(MEDIA_PAGE_BYTES - 1);
}

/* ------------------------------------------------------------------ create */

enum {
	DEFAULT_THREADS = 64,
	MOST_THREADS = 1024,
	LEAST_LOG_BYTES = 4096,
	LEAST_RING_SLOTS = 64,
};
static const uint64_t DEFAULT_HEAP_BYTES = 64 << 20, DEFAULT_LOG_BYTES = 1 << 20, DEFAULT_RING_SLOTS = 1 << 15;
static const uint64_t MOST_BYTES = UINT64_C(1) << 47;

static bool power_of_two(uint64_t n)
{
	return n && (n & (n - 1)) == 0;
}

static int check_options(const struct fur_options *o, struct media_super *s)
{
	s->max_threads = o->max_threads ? o->max_threads : DEFAULT_THREADS;
	s->heap_bytes = round_up(o->heap_bytes ? o->heap_bytes : DEFAULT_HEAP_BYTES);
	s->log_bytes = o->log_bytes ? o->log_bytes : DEFAULT_LOG_BYTES;
	s->ring_slots = o->ring_slots ? o->ring_slots : DEFAULT_RING_SLOTS;
	s->address = o->address;
	if (s->max_threads > MOST_THREADS)
		return fur_fail(FUR_EINVAL, "max_threads is %u: at most %d", s->max_threads, MOST_THREADS);
	if (!power_of_two(s->log_bytes) || s->log_bytes < LEAST_LOG_BYTES || s->log_bytes > UINT32_MAX)
		return fur_fail(FUR_EINVAL, "log_bytes is %llu: use a power of two from %d to 2 GiB",
		        (unsigned long long)s->log_bytes, LEAST_LOG_BYTES);
	if (!power_of_two(s->ring_slots) || s->ring_slots < LEAST_RING_SLOTS || s->ring_slots < 2 * s->max_threads ||
	        s->ring_slots > UINT32_MAX)
		return fur_fail(FUR_EINVAL, "ring_slots is %llu: use a power of two, at least %d and twice max_threads",
		        (unsigned long long)s->ring_slots, LEAST_RING_SLOTS);
	if (s->heap_bytes > MOST_BYTES || s->heap_bytes < alloc_least_bytes(s->max_threads))
		return fur_fail(FUR_EINVAL, "heap_bytes is %llu: for %u threads use at least %llu",
		        (unsigned long long)s->heap_bytes, s->max_threads, (unsigned long long)alloc_least_bytes(s->max_threads));
	if (s->address % MEDIA_PAGE_BYTES)
		return fur_fail(
		        FUR_EINVAL, "address is 0x%llx: use a multiple of 0x%x", (unsigned long long)s->address, MEDIA_PAGE_BYTES);
	return 0;
}

static void lay_out(struct media_super *s)
{
	memcpy(s->magic, MEDIA_MAGIC, sizeof s->magic);
	s->version = MEDIA_VERSION;
	s->endian = MEDIA_ENDIAN;
	s->slot_bytes = MEDIA_SLOT_BYTES;
	s->control_offset = MEDIA_PAGE_BYTES;
	s->control_bytes = round_up(CONTROL_BYTES(s->max_threads));
	s->ring_offset = s->control_offset + s->control_bytes;
	s->logs_offset = s->ring_offset + round_up(s->ring_slots * MEDIA_SLOT_BYTES);
	s->heap_offset = s->logs_offset + round_up(s->max_threads * s->log_bytes);
	s->file_bytes = s->heap_offset + s->heap_bytes + MEDIA_PAGE_BYTES; /* the trailer */
}

/* Somewhere the kernel puts nothing by itself, spread by the file's own number so that two heaps rarely want the same place: from 16
 * TiB on, in steps of 64 GiB or the heap's size. */
static uint64_t choose_address(const struct media_super *s)
{
	uint64_t number, step = UINT64_C(64) << 30;
	memcpy(&number, s->uuid, 8);
	while (step < s->heap_bytes)
		step *= 2;
	uint64_t from = UINT64_C(16) << 40, places = (UINT64_C(64) << 40) / step;
	return from + number % (places ? places : 1) * step;
}

static int allocate(int fd, const struct media_super *s)
{
	int error = posix_fallocate(fd, 0, (off_t)s->file_bytes);
	if (error == 0)
		return 0;
	struct statvfs fs;
	unsigned long long left = fstatvfs(fd, &fs) ? 0 : (unsigned long long)fs.f_bavail * fs.f_frsize;
	if (error == ENOSPC || error == EFBIG || error == EDQUOT)
		return fur_fail(FUR_ENOSPC,
		        "the heap file needs %llu bytes and the file system has %llu left: choose a smaller heap_bytes, "
		        "fewer or smaller logs, or another place; nothing was created",
		        (unsigned long long)s->file_bytes, left);
	return fur_fail(FUR_ESYS, "cannot allocate %llu bytes: %s", (unsigned long long)s->file_bytes, strerror(error));
}

static int fill(int fd, struct media_super *s)
{
	uint8_t *file = mmap(NULL, s->file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return fur_fail(FUR_ESYS, "cannot map the new file: %s", strerror(errno));
	alloc_format(file + s->heap_offset, s->heap_bytes, s->max_threads);
	/* The first lap of the ring starts at ring_slots: no slot of a zeroed ring says so, and no dependency reaches below 0. */
	s->state = MEDIA_CLOSED;
	s->tail[0][0] = s->tail[1][0] = media_tail_encode(s->ring_slots);
	s->checksum = media_super_checksum(s);
	memcpy(file, s, sizeof *s);
	munmap(file, s->file_bytes);
	if (fsync(fd))
		return fur_fail(errno == ENOSPC || errno == EDQUOT ? FUR_ENOSPC : FUR_ESYS, "cannot write the new file: %s",
		        strerror(errno));
	return 0;
}

/* An unnamed file, if the file system has them; else one with a name of its own, given in `name`. */
static int open_unnamed(const char *path, char *name, size_t name_bytes)
{
	snprintf(name, name_bytes, "%s", path);
	int fd = open(dirname(name), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
	name[0] = '\0';
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
		return fd;
	snprintf(name, name_bytes, "%s.XXXXXX", path);
	fd = mkostemp(name, O_CLOEXEC);
	return fd;
}

/* A directory has no room for a name, or the file system none for an inode: as full as for the contents. */
static int fail_create(int error)
{
	if (error == ENOSPC || error == EDQUOT)
		return fur_fail(FUR_ENOSPC,
		        "the file system has no room for another file: make room, or choose another place; nothing was "
		        "created");
	return fur_fail(FUR_ESYS, "cannot create: %s: check the path and its permissions", strerror(error));
}

/* Give the file its name: it exists whole, or not at all (INV-F3).  Never over another file. */
static int publish(int fd, const char *unnamed, const char *path)
{
	char proc[64];
	snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
	int failed = unnamed[0] ? link(unnamed, path) : linkat(AT_FDCWD, proc, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
	int error = errno;
	if (!failed) {
		/* The name is durable when its directory is. */
		char directory[PATH_MAX];
		snprintf(directory, sizeof directory, "%s", path);
		int dir = open(dirname(directory), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir >= 0) {
			if (fsync(dir) && errno != EINVAL && errno != EROFS)
				failed = 1, error = errno;
			close(dir);
		}
		if (failed)
			unlink(path);
	}
	if (!failed)
		return 0;
	if (error == EEXIST)
		return fur_fail(FUR_EEXIST, "the file exists: open it, or remove it first");
	return fail_create(error);
}

int heap_create_file(const char *path, const struct fur_options *options)
{
	struct media_super s = {0};
	char unnamed[PATH_MAX];
	int error = check_options(options, &s);
	if (error)
		return error;
	if (access(path, F_OK) == 0)
		return fur_fail(FUR_EEXIST, "the file exists: open it, or remove it first");
	if (getrandom(s.uuid, sizeof s.uuid, 0) != sizeof s.uuid)
		return fur_fail(FUR_ESYS, "no random number for the heap: %s", strerror(errno));
	lay_out(&s);
	if (!s.address)
		s.address = choose_address(&s);
	int fd = open_unnamed(path, unnamed, sizeof unnamed);
	if (fd < 0)
		return fail_create(errno);
	if (!(error = allocate(fd, &s)) && !(error = fill(fd, &s)))
		error = publish(fd, unnamed, path);
	if (unnamed[0])
		unlink(unnamed);
	close(fd);
	return error;
}

/* -------------------------------------------------------------------- open */

static int lock_file(int fd, enum heap_lock byte)
{
	enum { LOOKS = 100 };
	int error = byte == HEAP_LOCK_NONE ? 0 : heap_lock_try(fd, byte);
	/* A replayer that has waited for the worker's end holds this lock for a moment. */
	for (int looks = 0;
	        error == FUR_EBUSY && byte == HEAP_LOCK_WORKER && looks < LOOKS && heap_lock_held(fd, HEAP_LOCK_REPLAYER);
	        looks++) {
		usleep(1000);
		error = heap_lock_try(fd, byte);
	}
	if (error == FUR_EBUSY && byte == HEAP_LOCK_REPLAYER)
		return fur_fail(error, "a replayer serves this heap already: one is enough, stop that first");
	if (error == FUR_EBUSY)
		return fur_fail(error, "the heap is open in another process, or twice in this one: close it there first");
	return error ? fur_fail(error, "cannot lock: %s", strerror(errno)) : 0;
}

/* Do the regions lie in the file one behind the other, each as large as its parts?  A right checksum says that libfur wrote these numbers,
 * not that it was this libfur. */
static bool regions_fit(const struct media_super *s)
{
	const uint64_t offset[] = {s->control_offset, s->ring_offset, s->logs_offset, s->heap_offset, s->file_bytes};
	const uint64_t trailer = s->version < 2 ? 0 : MEDIA_PAGE_BYTES;
	const uint64_t bytes[] = {
	        s->control_bytes, s->ring_slots * MEDIA_SLOT_BYTES, s->max_threads * s->log_bytes, s->heap_bytes + trailer};
	if (s->control_offset < sizeof *s || s->control_bytes < CONTROL_BYTES(s->max_threads) || s->file_bytes > 2 * MOST_BYTES)
		return false;
	for (int k = 0; k < 4; k++)
		if (offset[k] % MEDIA_PAGE_BYTES || offset[k] > offset[k + 1] || bytes[k] > offset[k + 1] - offset[k])
			return false;
	return true;
}

int heap_check_super(const struct media_super *s, uint64_t file_bytes)
{
	if (memcmp(s->magic, MEDIA_MAGIC, sizeof s->magic))
		return fur_fail(FUR_ENOTHEAP, "not a libfur heap: check the path");
	if (s->endian != MEDIA_ENDIAN)
		return fur_fail(FUR_EVERSION, "made on a machine of the other byte order: open it there");
	if (s->version < MEDIA_OLDEST || s->version > MEDIA_VERSION)
		return fur_fail(FUR_EVERSION,
		        "heap format version %u, this library reads versions %u to %u: use the libfur that made it", s->version,
		        MEDIA_OLDEST, MEDIA_VERSION);
	if (s->checksum != media_super_checksum(s))
		return fur_fail(FUR_ECORRUPT,
		        "the superblock is damaged (checksum): fur-check --repair may mend it; else restore the file from a copy");
	if (s->slot_bytes != MEDIA_SLOT_BYTES || !power_of_two(s->log_bytes) || s->log_bytes < LEAST_LOG_BYTES ||
	        s->log_bytes > UINT32_MAX || !power_of_two(s->ring_slots) || s->ring_slots < LEAST_RING_SLOTS ||
	        s->ring_slots < 2 * (uint64_t)s->max_threads || s->ring_slots > UINT32_MAX || s->max_threads == 0 ||
	        s->max_threads > MOST_THREADS || s->heap_bytes > MOST_BYTES || s->address % MEDIA_PAGE_BYTES ||
	        s->heap_bytes < alloc_least_bytes(s->max_threads) || !regions_fit(s))
		return fur_fail(FUR_ECORRUPT, "the superblock is damaged (sizes): restore the file from a copy");
	if (file_bytes < s->file_bytes)
		return fur_fail(FUR_ECORRUPT, "truncated: %llu bytes of %llu are there: restore the file from a copy",
		        (unsigned long long)file_bytes, (unsigned long long)s->file_bytes);
	return 0;
}

int heap_read_super(int fd, struct media_super *s, uint64_t *file_bytes)
{
	struct stat st;
	if (fstat(fd, &st))
		return fur_fail(FUR_ESYS, "cannot stat: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fur_fail(FUR_ENOTHEAP, "not a regular file: check the path");
	if (st.st_size == 0)
		return fur_fail(FUR_ENOTHEAP, "the file is empty, not a libfur heap: remove it and create one");
	/* A file of version 1 that was cut short may end where its superblock did. */
	const ssize_t least = offsetof(struct media_super, forget);
	memset(s, 0, sizeof *s);
	if (st.st_size < least || pread(fd, s, sizeof *s, 0) < least)
		return fur_fail(FUR_ENOTHEAP, "too short (%lld bytes) for a libfur heap: check the path", (long long)st.st_size);
	*file_bytes = (uint64_t)st.st_size;
	return 0;
}

static int map_shared(struct heap_file *file)
{
	/* MAP_SYNC succeeds on DAX only, and promises what flushing from user space needs: the file system's metadata is durable too. */
	void *p = mmap(NULL, file->file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, file->fd, 0);
	file->dax = p != MAP_FAILED;
	if (!file->dax)
		p = mmap(NULL, file->file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
	if (p == MAP_FAILED)
		return fur_fail(FUR_ESYS, "cannot map the file: %s", strerror(errno));
	file->super = p;
	arch_persistent(p, file->file_bytes);
	return 0;
}

int heap_open_file(const char *path, enum heap_lock lock, struct heap_file *file)
{
	memset(file, 0, sizeof *file);
	file->fd = open(path, O_RDWR | O_CLOEXEC);
	if (file->fd < 0) {
		if (errno == ENOENT)
			return fur_fail(FUR_ENOENT, "no such file: create the heap first, or check the path");
		return fur_fail(FUR_ESYS, "cannot open: %s: check the path and its permissions", strerror(errno));
	}
	/* Checked before it is locked: "not a heap" is the better answer for a foreign file; and again by nobody else's leave, for no
	 * process changes what check_super() looks at. */
	int error = heap_read_super(file->fd, &file->geometry, &file->file_bytes);
	if (!error)
		error = heap_check_super(&file->geometry, file->file_bytes);
	if (!error && !(error = lock_file(file->fd, lock)))
		error = map_shared(file);
	uint64_t tail;
	if (!error)
		error = heap_tail(file, &tail);
	if (error)
		heap_close_file(file);
	return error;
}

int heap_tail(const struct heap_file *file, uint64_t *tail)
{
	uint64_t a, b;
	/* If one of them does not even decode, the other may be right. */
	int bad_a = media_tail_decode(file->super->tail[0][0], &a), bad_b = media_tail_decode(file->super->tail[1][0], &b);
	if (bad_a != bad_b)
		return fur_fail(
		        FUR_ECORRUPT, "one of the two copies of the log's tail is damaged: mend it with fur-check --repair");
	const struct media_file view = {&file->geometry, file->super};
	if (media_tail(&view, tail))
		return fur_fail(FUR_ECORRUPT, "the log's tail is damaged: restore the file from a copy");
	return 0;
}

/* --------------------------------------------------------------------- map */

int heap_map(struct heap_file *file)
{
	const struct media_super *s = &file->geometry;
	void *want = (void *)(uintptr_t)s->address;
	void *p = mmap(want, s->heap_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED_NOREPLACE | MAP_NORESERVE, file->fd,
	        (off_t)s->heap_offset);
	if (p == MAP_FAILED && errno != EEXIST)
		return fur_fail(
		        FUR_ESYS, "cannot map %llu bytes at %p: %s", (unsigned long long)s->heap_bytes, want, strerror(errno));
	if (p != want) { /* a kernel before 4.17 takes the address for a hint */
		if (p != MAP_FAILED)
			munmap(p, s->heap_bytes);
		return fur_fail(FUR_EADDRESS,
		        "the heap belongs at %p to %p, where this process has something else mapped (another heap?): close "
		        "that first, or create the heap with another fur_options.address",
		        want, (void *)((uint8_t *)want + s->heap_bytes));
	}
	file->base = p;
	return 0;
}

void heap_populate(const struct heap_file *file)
{
	/* A first store to a copy-on-write page faults, and a fault aborts a hardware transaction with no cause given: touch all
	 * now.  Where the kernel cannot, stores under the fallback lock will do it, page by page. */
	madvise(file->base, file->geometry.heap_bytes, MADV_POPULATE_WRITE);
	madvise((uint8_t *)file->super, file->geometry.logs_offset, MADV_POPULATE_WRITE);
}

void heap_close_file(struct heap_file *file)
{
	if (file->base)
		munmap(file->base, file->geometry.heap_bytes);
	if (file->super) {
		arch_persistent_gone(file->super);
		munmap(file->super, file->file_bytes);
	}
	if (file->fd >= 0)
		close(file->fd); /* and with it the lock */
	memset(file, 0, sizeof *file);
	file->fd = -1;
}
