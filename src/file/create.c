/* SPDX-License-Identifier: BSD-3-Clause
 *
 * create.c - making a heap file, in this order: check the options, lay the file out, open a file
 * that has no name, lock it, check that it fits, find an address for the heap, allocate the blocks,
 * write the first contents, map the file.  heap_name_file() names the file when the heap is open
 * (INV-F3).
 */
#include "base/error.h"
#include "base/memory.h"
#include "base/remedy.h"
#include "base/system.h"
#include "file/file_parts.h"
#include "media/heap_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

/* -------------------------------------------------------- options and layout */

enum { DEFAULT_THREADS = 64 };
static const uint64_t DEFAULT_HEAP_BYTES = 64 << 20, DEFAULT_LOG_BYTES = 1 << 20,
                      DEFAULT_RING_SLOTS = 1 << 15;

/* Is each number, given or default, within its bounds?   Errors: FUR_EINVAL. */
static int check_sizes(const struct media_super *s)
{
	if (s->max_threads > FILE_MOST_THREADS)
		return fur_fail(FUR_EINVAL, "max_threads is %u: at most %d", s->max_threads,
		        FILE_MOST_THREADS);
	if (!power_of_two(s->log_bytes) || s->log_bytes < FILE_LEAST_LOG_BYTES ||
	        s->log_bytes > UINT32_MAX)
		return fur_fail(FUR_EINVAL,
		        "log_bytes is %llu: use a power of two from %d to 2 GiB",
		        (unsigned long long)s->log_bytes, FILE_LEAST_LOG_BYTES);
	if (!power_of_two(s->ring_slots) || s->ring_slots < FILE_LEAST_RING_SLOTS ||
	        s->ring_slots < UINT64_C(2) * s->max_threads || s->ring_slots > UINT32_MAX)
		return fur_fail(FUR_EINVAL,
		        "ring_slots is %llu: use a power of two, at least %d and twice max_threads",
		        (unsigned long long)s->ring_slots, FILE_LEAST_RING_SLOTS);
	const uint32_t stocks = media_stocks(s);
	if (s->heap_bytes < heap_least_bytes(stocks))
		return fur_fail(FUR_EINVAL, "heap_bytes is %llu: for %u threads use at least %llu",
		        (unsigned long long)s->heap_bytes, stocks,
		        (unsigned long long)heap_least_bytes(stocks));
	if (s->address && !address_fits(s->address, s->heap_bytes))
		return fur_fail(FUR_EINVAL,
		        "address is 0x%llx: use a multiple of 0x%x, from 0x%llx on, "
		        "so that the heap ends by 0x%llx",
		        (unsigned long long)s->address, MEDIA_PAGE_BYTES,
		        (unsigned long long)FILE_LEAST_ADDRESS,
		        (unsigned long long)FILE_ADDRESSES_END);
	return 0;
}

/* The heap begins with the size that it has now, and the tables for the largest size on top. */
static void let_grow(struct media_super *s, uint64_t most)
{
	uint64_t tables = heap_meta_bytes(most, s->max_threads) -
	                  heap_meta_bytes(s->heap_bytes, s->max_threads),
	         now = s->heap_bytes + tables;
	s->heap_bytes = most;
	if (now >= most)
		return;
	s->more.features = MEDIA_GROWS;
	s->grown[0][0] = s->grown[1][0] = media_tail_encode(now / MEDIA_PAGE_BYTES);
}

/* Take the sizes from the options, or their defaults, and check them. */
static int take_sizes(const struct fur_options *o, struct media_super *s)
{
	/* Check this before rounding it up, which may overflow. */
	if (o->heap_bytes > FILE_MOST_HEAP_BYTES)
		return fur_fail(FUR_EINVAL, "heap_bytes is %llu: use at most %llu",
		        (unsigned long long)o->heap_bytes,
		        (unsigned long long)FILE_MOST_HEAP_BYTES);
	if ((o->file_mode & ~0777u) || (o->file_mode && (o->file_mode & 0600) != 0600))
		return fur_fail(FUR_EINVAL,
		        "file_mode is %#o: "
		        "use permission bits that let the owner read and write, as 0640",
		        o->file_mode);
	s->max_threads = o->max_threads ? o->max_threads : DEFAULT_THREADS;
	s->heap_bytes =
	        round_up(o->heap_bytes ? o->heap_bytes : DEFAULT_HEAP_BYTES, MEDIA_PAGE_BYTES);
	if (o->max_bytes && (o->max_bytes < o->heap_bytes || o->max_bytes > FILE_MOST_HEAP_BYTES))
		return fur_fail(FUR_EINVAL,
		        "max_bytes is %llu: use heap_bytes (%llu) to %llu, or 0 for a heap that "
		        "does not grow",
		        (unsigned long long)o->max_bytes, (unsigned long long)s->heap_bytes,
		        (unsigned long long)FILE_MOST_HEAP_BYTES);
	s->log_bytes = o->log_bytes ? o->log_bytes : DEFAULT_LOG_BYTES;
	s->ring_slots = o->ring_slots ? o->ring_slots : DEFAULT_RING_SLOTS;
	s->address = o->address;
	/* Only `sync` writes records to slots; `auto` is `sync` unless the file is on persistent
	 * memory. */
	s->slot_bytes = o->pm == FUR_PM_SYNC || o->pm == FUR_PM_AUTO ? MEDIA_SLOT_WIDE_BYTES
	                                                             : MEDIA_SLOT_BYTES;
	int error = check_sizes(s);
	if (!error && round_up(o->max_bytes, MEDIA_PAGE_BYTES) > s->heap_bytes)
		let_grow(s, round_up(o->max_bytes, MEDIA_PAGE_BYTES));
	return error;
}

static void lay_out_regions(struct media_super *s)
{
	memcpy(s->magic, MEDIA_MAGIC, sizeof s->magic);
	s->version = MEDIA_VERSION;
	s->endian = MEDIA_ENDIAN;
	s->control_offset = MEDIA_PAGE_BYTES;
	s->control_bytes = round_up(CONTROL_BYTES(s->max_threads), MEDIA_PAGE_BYTES);
	s->ring_offset = s->control_offset + s->control_bytes;
	s->logs_offset = s->ring_offset + round_up(s->ring_slots * s->slot_bytes, MEDIA_PAGE_BYTES);
	s->heap_offset = s->logs_offset + round_up(s->max_threads * s->log_bytes, MEDIA_PAGE_BYTES);
	s->file_bytes = s->heap_offset + s->heap_bytes + MEDIA_PAGE_BYTES; /* the trailer */
	s->logs = media_tail_encode(0);
}

/* An address at which the kernel places nothing unless asked: from 16 TiB on, in steps of 64 GiB or
 * the heap's size.  The file's random number spreads the heaps, so that two of them rarely want the
 * same place.  `low`: from 64 GiB on, in steps of 4 GiB, for kernels with 39-bit addresses, as some
 * for aarch64.  These place programs from 341 GiB on, and other mappings from 512 GiB downwards. */
static uint64_t choose_address(const struct media_super *s, bool low)
{
	const uint64_t gib = UINT64_C(1) << 30, from = (low ? 64 : 16 << 10) * gib,
	               room = (low ? 256 : 64 << 10) * gib;
	uint64_t number, step = (low ? 4 : 64) * gib;
	memcpy(&number, s->uuid, 8);
	while (step < s->heap_bytes)
		step *= 2;
	uint64_t places = room / step;
	return from + number % (places ? places : 1) * step;
}

/* ------------------------------------------------------------------ contents */

static const char NOTHING[] = "nothing was created";

static int write_first_contents(int fd, struct media_super *s)
{
	uint8_t *file = mmap(NULL, s->file_bytes, PROT_READ | PROT_WRITE, FILE_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return fail_system(FUR_ESYS, CALL_MAP, errno, NOTHING, "cannot map the new file");
	heap_format(file + s->heap_offset, s->heap_bytes, media_heap_bytes(s, s), s->max_threads);
	/* The first lap of the ring starts at durTS ring_slots: no slot of a zeroed ring contains
	 * such a durTS, and no dependency reaches below 0. */
	/* Zeroes that are written: the first write to a block that is only allocated costs the file
	 * system a change of its metadata, and so the commit a sync of that. */
	if (s->slot_bytes == MEDIA_SLOT_WIDE_BYTES)
		memset(file + s->ring_offset, 0, s->ring_slots * s->slot_bytes);
	s->state = MEDIA_CLOSED;
	s->tail[0][0] = s->tail[1][0] = media_tail_encode(s->ring_slots);
	s->checksum = media_super_checksum(s);
	if (s->more.features)
		s->more.checksum = media_more_checksum(s);
	memcpy(file, s, sizeof *s);
	munmap(file, s->file_bytes);
	const int error = system_sync(fd);
	return error ? fail_system(remedy_code(error), CALL_SYNC, error, NOTHING,
	                       "cannot write the new file")
	             : 0;
}

/* ----------------------------------------------------------------- a new file */

/* A directory without room for a name, or a file system without room for an inode, is as full as
 * one without room for the contents. */
static int fail_create(enum system_call call, int error)
{
	return fail_system(remedy_code(error), call, error, NOTHING,
	        call == CALL_NAME ? "cannot name the new file" : "cannot create the file");
}

/* Open a file without a name, if the file system can make one.  Otherwise open a file with a
 * temporary name, file->temporary; a crash leaves that file behind. */
static int open_new_file(const char *path, uint32_t mode, struct heap_file *file)
{
	char name[PATH_MAX];
	snprintf(name, sizeof name, "%s", path);
	file->fd = system_open(dirname(name), O_TMPFILE | O_RDWR, 0600);
	if (file->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
		static const char suffix[] = ".XXXXXX";
		const size_t length = strlen(path);
		file->temporary = malloc(length + sizeof suffix);
		if (!file->temporary)
			return fur_fail(FUR_ENOMEM, "no memory for the path: free some memory");
		memcpy(file->temporary, path, length);
		memcpy(file->temporary + length, suffix, sizeof suffix);
		file->fd = system_open_temporary(file->temporary);
		if (file->fd < 0) {
			free(file->temporary);
			file->temporary = NULL;
		}
	}
	if (file->fd < 0)
		return fail_create(CALL_CREATE, errno);
	/* In both cases, set the mode independently of the umask. */
	if (fchmod(file->fd, mode ? mode : 0600))
		return fail_system(
		        FUR_ESYS, CALL_MODE, errno, NOTHING, "cannot set the new file's mode");
	return 0;
}

static int fail_exists(void)
{
	return fur_fail(FUR_EEXIST, "the file exists: open it, or remove it first");
}

static int fail_no_address(const struct media_super *s)
{
	return fur_fail(FUR_EINVAL, "heap_bytes is %llu: no address space holds that; use less",
	        (unsigned long long)s->heap_bytes);
}

/* Map the heap at its permanent address.  If the program chose the address, try no other.  If
 * libfur chose it, and it is taken or beyond the address space, try another one; after half of the
 * tries, a low one. */
static int choose_place(struct heap_file *file)
{
	enum { TRIES = 16 };
	struct media_super *s = &file->geometry;
	const uint64_t wanted = s->address;
	int error = FUR_EADDRESS;
	for (int tries = 0; error == FUR_EADDRESS && tries < (wanted ? 1 : TRIES); tries++) {
		ssize_t n;
		do
			n = getrandom(s->uuid, sizeof s->uuid, 0);
		while (n < 0 && errno == EINTR);
		if (n != sizeof s->uuid)
			return fail_system(FUR_ESYS, CALL_RANDOM, errno, NOTHING,
			        "no random number for the heap");
		s->address = wanted ? wanted : choose_address(s, tries >= TRIES / 2);
		if (!address_fits(s->address, s->heap_bytes))
			return fail_no_address(s);
		error = heap_map(file);
	}
	return error;
}

int heap_create_file(const char *path, const struct fur_options *options, struct heap_file *file)
{
	struct media_super *s = &file->geometry;
	*file = (struct heap_file){.fd = -1};
	int error = take_sizes(options, s);
	if (error)
		return error;
	if (!s->address && !address_fits(FILE_LEAST_ADDRESS, s->heap_bytes))
		return fail_no_address(s);
	if (access(path, F_OK) == 0)
		return fail_exists();
	lay_out_regions(s);
	error = open_new_file(path, options->file_mode, file);
	if (!error)
		error = heap_lock_file(file->fd, HEAP_LOCK_WORKER);
	/* Check the room before looking for an address, so that a heap that cannot fit is refused
	 * for that reason, and not for lack of an address. */
	if (!error)
		error = file_check_room(file->fd, s);
	if (!error)
		error = choose_place(file);
	if (!error)
		error = file_allocate(file->fd, s);
	if (!error)
		error = write_first_contents(file->fd, s);
	if (!error)
		error = file_map_shared(file);
	if (!error)
		error = file_unshare(file); /* nothing is shared: only for copied_on_write */
	if (error)
		heap_close_file(file);
	return error;
}

/* -------------------------------------------------------------------- name */

/* Give the file with the temporary name its name.  A file system without hard links may be able to
 * rename without replacing.  Returns an errno. */
static int name_temporary(struct heap_file *file, const char *path)
{
	if (link(file->temporary, path) == 0) {
		unlink(file->temporary);
	} else {
		const int error = errno;
		if (error == EEXIST)
			return error;
		if (renameat2(AT_FDCWD, file->temporary, AT_FDCWD, path, RENAME_NOREPLACE))
			return errno == EEXIST ? EEXIST : error;
	}
	free(file->temporary);
	file->temporary = NULL;
	return 0;
}

/* Never replaces another file.   Errors: FUR_EEXIST, FUR_ENOSPC, FUR_ESYS. */
static int link_name(struct heap_file *file, const char *path)
{
	char proc[64];
	if (file->temporary) {
		const int error = name_temporary(file, path);
		return error == EEXIST ? fail_exists() : error ? fail_create(CALL_NAME, error) : 0;
	}
	snprintf(proc, sizeof proc, "/proc/self/fd/%d", file->fd);
	/* Before Linux 6.10 only privileged processes may use an empty path; others get ENOENT, and
	 * need /proc. */
	int failed = linkat(file->fd, "", AT_FDCWD, path, AT_EMPTY_PATH);
	if (failed && errno == ENOENT && access(proc, F_OK))
		return fur_fail(FUR_ESYS,
		        "cannot name the new file: %s, and /proc is not mounted: mount it",
		        strerror(errno));
	if (failed && errno != EEXIST)
		failed = linkat(AT_FDCWD, proc, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
	if (failed && errno == EEXIST)
		return fail_exists();
	return failed ? fail_create(CALL_NAME, errno) : 0;
}

/* If this process may not read the directory, it cannot sync the directory alone, and syncs the
 * whole file system. */
int file_sync_name(int fd, const char *path, const char *outcome)
{
	char directory[PATH_MAX];
	snprintf(directory, sizeof directory, "%s", path);
	int dir = system_open(dirname(directory), O_RDONLY | O_DIRECTORY, 0);
	int error = dir >= 0 ? system_sync(dir) : system_sync_file_system(fd);
	if (dir >= 0)
		close(dir);
	/* A file system that does not sync directories returns EINVAL. */
	if (!error || (dir >= 0 && (error == EINVAL || error == EROFS)))
		return 0;
	return fail_system(remedy_code(error), CALL_SYNC, error, outcome,
	        "cannot make the new file's name durable");
}

static bool same_file(int fd, int other)
{
	struct stat a, b;
	return fstat(fd, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* Is this the path's file, and its last part no symbolic link? */
static bool is_named(int fd, const char *path)
{
	struct stat a, b;
	return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* Map the file again, by its name and in the same places, so that /proc/PID/maps and the tools that
 * read it show the name.  Nothing uses the mappings yet.  A heap that is mapped twice is a copy in
 * memory, which has no name. */
static int map_by_name(struct heap_file *file, const char *path)
{
	const int shared = file->dax ? MAP_SHARED_VALIDATE | MAP_SYNC : FILE_SHARED;
	const struct media_super *s = &file->geometry;
	/* O_NONBLOCK: another file may have the name by now, of any type. */
	int fd = is_named(file->fd, path) ? system_open(path, O_RDWR | O_NONBLOCK, 0) : -1;
	if (fd < 0 || !same_file(fd, file->fd)) {
		if (fd >= 0)
			close(fd);
		return 0; /* renamed or removed meanwhile: the mappings are good as they are */
	}
	bool failed = mmap(file->super, file->file_bytes, PROT_READ | PROT_WRITE,
	                      shared | MAP_FIXED, fd, 0) == MAP_FAILED ||
	              (file->writable == file->base &&
	                      file_map_private(file, fd, MAP_FIXED) == MAP_FAILED);
	int error = errno;
	close(fd); /* releases no lock: our locks belong to another open file */
	return failed ? file_map_failed(error)
	              : heap_let_store(file, media_heap_bytes(s, file->super));
}

static int name_durably(struct heap_file *file, const char *path)
{
	int error = link_name(file, path);
	return error ? error : file_sync_name(file->fd, path, NOTHING);
}

/* We hold the worker's lock, so no process has opened the file.  If the name now belongs to another
 * file, leave that alone. */
static void remove_name(const struct heap_file *file, const char *path)
{
	if (is_named(file->fd, path))
		unlink(path);
}

int heap_name_file(struct heap_file *file, const char *path)
{
	FUR_ASSERT(file->fd >= 0 && file->super && file->mapped_bytes);
	int error = name_durably(file, path);
	if (!error)
		error = map_by_name(file, path);
	if (error)
		remove_name(file, path);
	else
		file_keep_path(file, path);
	return error;
}

/* -------------------------------------------------------------------- copies */

int heap_create_copy(const char *path, const struct heap_file *original, struct heap_file *copy)
{
	*copy = (struct heap_file){.fd = -1, .geometry = original->geometry};
	/* The size may have changed since the geometry was read.  The copy's logs are empty. */
	memcpy(copy->geometry.grown, original->super->grown, sizeof copy->geometry.grown);
	copy->geometry.logs = media_tail_encode(0);
	int error = access(path, F_OK) == 0 ? fail_exists() : open_new_file(path, 0, copy);
	if (!error)
		error = file_set_copy_mode(original->fd, copy->fd);
	if (!error)
		error = heap_lock_file(copy->fd, HEAP_LOCK_WORKER);
	if (!error)
		error = file_check_room(copy->fd, &copy->geometry);
	if (!error)
		error = file_allocate(copy->fd, &copy->geometry);
	if (!error)
		error = file_map_shared(copy);
	if (error)
		heap_close_file(copy);
	return error;
}

int heap_name_copy(struct heap_file *copy, const char *path)
{
	FUR_ASSERT(copy->fd >= 0 && copy->super);
	int error = name_durably(copy, path);
	if (error)
		remove_name(copy, path);
	return error;
}

/* ------------------------------------------------------------------ other sizes */

uint64_t heap_most_bytes(const struct media_super *s)
{
	const uint64_t most = FILE_ADDRESSES_END - s->address;
	FUR_ASSERT(address_fits(s->address, s->heap_bytes));
	return most < FILE_MOST_HEAP_BYTES ? most : FILE_MOST_HEAP_BYTES;
}

static void set_threads(struct media_super *s, uint32_t threads)
{
	const uint32_t stocks = media_stocks(s);
	s->max_threads = threads;
	s->more.stocks = stocks == threads ? 0 : stocks;
	s->more.features &= ~MEDIA_STOCKS;
	if (s->more.stocks)
		s->more.features |= MEDIA_STOCKS;
}

int heap_create_resized(const char *path, const struct heap_file *original,
        const struct heap_sizes *sizes, struct heap_file *file)
{
	struct media_super *s = &file->geometry;
	uint64_t now = round_up(sizes->heap_bytes, MEDIA_PAGE_BYTES);
	*file = (struct heap_file){.fd = -1, .geometry = original->geometry};
	s->log_bytes = sizes->log_bytes ? sizes->log_bytes : s->log_bytes;
	s->ring_slots = sizes->ring_slots ? sizes->ring_slots : s->ring_slots;
	if (sizes->max_threads)
		set_threads(s, sizes->max_threads);
	memcpy(s->grown, original->super->grown, sizeof s->grown);
	if (sizes->max_bytes && !now)
		now = media_heap_bytes(s, s);
	if (sizes->max_bytes)
		s->heap_bytes = round_up(sizes->max_bytes, MEDIA_PAGE_BYTES);
	if (now) {
		s->more.features |= MEDIA_GROWS;
		s->grown[0][0] = s->grown[1][0] = media_tail_encode(now / MEDIA_PAGE_BYTES);
	}
	int error = check_sizes(s);
	if (!error && now > s->heap_bytes)
		error = fur_fail(FUR_EINVAL,
		        "heap_bytes is %llu: the heap was made to have %llu at most: use less, or "
		        "let it have more, with --max-bytes",
		        (unsigned long long)now, (unsigned long long)s->heap_bytes);
	if (!error) {
		lay_out_regions(s);
		error = open_new_file(path, 0, file);
	}
	if (!error)
		error = file_keep_attributes(original->fd, file->fd);
	if (!error)
		error = heap_lock_file(file->fd, HEAP_LOCK_WORKER);
	if (!error)
		error = file_check_room(file->fd, s);
	if (!error)
		error = file_allocate(file->fd, s);
	if (!error)
		error = file_map_shared(file);
	if (error)
		heap_close_file(file);
	return error;
}

int heap_finish_resized(struct heap_file *file)
{
	struct media_super *s = &file->geometry;
	s->state = MEDIA_CLOSED;
	s->tail[0][0] = s->tail[1][0] = media_tail_encode(s->ring_slots);
	s->forget[0] = 0;
	s->checksum = media_super_checksum(s);
	s->more.checksum = s->more.features ? media_more_checksum(s) : 0;
	memcpy(file->super, s, sizeof *s);
	const int error = system_sync(file->fd);
	return error ? fail_system(remedy_code(error), CALL_SYNC, error, "the heap is as it was",
	                       "cannot write the new file")
	             : 0;
}

/* Give the file a name next to `path`, which nothing has yet.  A kill before heap_replace() has
 * moved it leaves this name: a whole heap, the new one or the old one. */
static int name_beside(struct heap_file *file, const char *path, char name[PATH_MAX])
{
	enum { TRIES = 100 };
	int error = FUR_EEXIST;
	for (int tries = 0; error == FUR_EEXIST && tries < TRIES; tries++) {
		uint32_t number;
		if (getrandom(&number, sizeof number, 0) != sizeof number)
			return fail_system(FUR_ESYS, CALL_RANDOM, errno, NOTHING,
			        "no random number for a name");
		if (snprintf(name, PATH_MAX, "%s.resized-%08x", path, number) >= PATH_MAX)
			return fur_fail(FUR_EINVAL, "the path is too long: use a shorter one");
		error = link_name(file, name);
	}
	return error;
}

static int fail_other_name(void)
{
	return fur_fail(FUR_EBUSY,
	        "another file has got the heap's name meanwhile: see which of the two is the right "
	        "one; nothing is changed");
}

/* Each step leaves the name with a whole heap.  Exchange the two names, and look at what has got
 * the other one: so no file is lost that gets the heap's name at the last moment.  A file system
 * that cannot do that looks first. */
static int move_over(const char *name, const char *path, const struct heap_file *original)
{
	if (!is_named(original->fd, path))
		return fail_other_name();
	if (renameat2(AT_FDCWD, name, AT_FDCWD, path, RENAME_EXCHANGE))
		return rename(name, path) ? fail_create(CALL_NAME, errno) : 0;
	if (is_named(original->fd, name))
		return unlink(name) ? fail_create(CALL_NAME, errno) : 0;
	return renameat2(AT_FDCWD, name, AT_FDCWD, path, RENAME_EXCHANGE)
	               ? fail_create(CALL_NAME, errno)
	               : fail_other_name();
}

int heap_replace(struct heap_file *file, const struct heap_file *original, const char *path)
{
	char name[PATH_MAX];
	int error = name_beside(file, path, name);
	if (error)
		return error;
	error = move_over(name, path, original);
	if (error && is_named(file->fd, name))
		unlink(name);
	return error ? error : file_sync_name(file->fd, path, NOTHING);
}
