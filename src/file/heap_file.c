/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_file.c - making, opening and mapping heap files.
 */
#include "file/heap_file.h"
#include "base/arch.h"
#include "base/error.h"
#include "base/memory.h"
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
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* ------------------------------------------------------------------ create */

enum {
	DEFAULT_THREADS = 64,
	MOST_THREADS = 1024,
	LEAST_LOG_BYTES = 4096,
	LEAST_RING_SLOTS = 64,
};
static const uint64_t DEFAULT_HEAP_BYTES = 64 << 20, DEFAULT_LOG_BYTES = 1 << 20,
                      DEFAULT_RING_SLOTS = 1 << 15;
static const uint64_t MOST_BYTES = UINT64_C(1) << 47;
/* Where a heap may be mapped.  Below 4 GiB lie the page at 0, programs linked at a fixed address
 * with their data and brk(2), and all that is mapped for 32-bit pointers; a heap there would hide
 * null pointers, or never find its place free.  The end is that of the address space that Linux
 * gives a process on x86-64 and on POWER, less a page. */
static const uint64_t LEAST_ADDRESS = UINT64_C(4) << 30,
                      ADDRESSES_END = (UINT64_C(1) << 47) - MEDIA_PAGE_BYTES;

static bool power_of_two(uint64_t n)
{
	return n && (n & (n - 1)) == 0;
}

static bool address_fits(uint64_t address, uint64_t heap_bytes)
{
	return address % MEDIA_PAGE_BYTES == 0 && address >= LEAST_ADDRESS &&
	       heap_bytes <= ADDRESSES_END && address <= ADDRESSES_END - heap_bytes;
}

static int check_options(const struct fur_options *o, struct media_super *s)
{
	/* Before it is rounded up, which may overflow. */
	if (o->heap_bytes > MOST_BYTES)
		return fur_fail(FUR_EINVAL, "heap_bytes is %llu: use at most %llu",
		        (unsigned long long)o->heap_bytes, (unsigned long long)MOST_BYTES);
	if ((o->file_mode & ~0777u) || (o->file_mode && (o->file_mode & 0600) != 0600))
		return fur_fail(FUR_EINVAL,
		        "file_mode is %#o: use permission bits that let the owner read and write, "
		        "as 0640",
		        o->file_mode);
	s->max_threads = o->max_threads ? o->max_threads : DEFAULT_THREADS;
	s->heap_bytes =
	        round_up(o->heap_bytes ? o->heap_bytes : DEFAULT_HEAP_BYTES, MEDIA_PAGE_BYTES);
	s->log_bytes = o->log_bytes ? o->log_bytes : DEFAULT_LOG_BYTES;
	s->ring_slots = o->ring_slots ? o->ring_slots : DEFAULT_RING_SLOTS;
	s->address = o->address;
	if (s->max_threads > MOST_THREADS)
		return fur_fail(
		        FUR_EINVAL, "max_threads is %u: at most %d", s->max_threads, MOST_THREADS);
	if (!power_of_two(s->log_bytes) || s->log_bytes < LEAST_LOG_BYTES ||
	        s->log_bytes > UINT32_MAX)
		return fur_fail(FUR_EINVAL,
		        "log_bytes is %llu: use a power of two from %d to 2 GiB",
		        (unsigned long long)s->log_bytes, LEAST_LOG_BYTES);
	if (!power_of_two(s->ring_slots) || s->ring_slots < LEAST_RING_SLOTS ||
	        s->ring_slots < 2 * s->max_threads || s->ring_slots > UINT32_MAX)
		return fur_fail(FUR_EINVAL,
		        "ring_slots is %llu: use a power of two, at least %d and twice max_threads",
		        (unsigned long long)s->ring_slots, LEAST_RING_SLOTS);
	if (s->heap_bytes < heap_least_bytes(s->max_threads))
		return fur_fail(FUR_EINVAL, "heap_bytes is %llu: for %u threads use at least %llu",
		        (unsigned long long)s->heap_bytes, s->max_threads,
		        (unsigned long long)heap_least_bytes(s->max_threads));
	if (s->address && !address_fits(s->address, s->heap_bytes))
		return fur_fail(FUR_EINVAL,
		        "address is 0x%llx: use a multiple of 0x%x, from 0x%llx on, so that the "
		        "heap ends by 0x%llx",
		        (unsigned long long)s->address, MEDIA_PAGE_BYTES,
		        (unsigned long long)LEAST_ADDRESS, (unsigned long long)ADDRESSES_END);
	return 0;
}

static void lay_out(struct media_super *s)
{
	memcpy(s->magic, MEDIA_MAGIC, sizeof s->magic);
	s->version = MEDIA_VERSION;
	s->endian = MEDIA_ENDIAN;
	s->slot_bytes = MEDIA_SLOT_BYTES;
	s->control_offset = MEDIA_PAGE_BYTES;
	s->control_bytes = round_up(CONTROL_BYTES(s->max_threads), MEDIA_PAGE_BYTES);
	s->ring_offset = s->control_offset + s->control_bytes;
	s->logs_offset =
	        s->ring_offset + round_up(s->ring_slots * MEDIA_SLOT_BYTES, MEDIA_PAGE_BYTES);
	s->heap_offset = s->logs_offset + round_up(s->max_threads * s->log_bytes, MEDIA_PAGE_BYTES);
	s->file_bytes = s->heap_offset + s->heap_bytes + MEDIA_PAGE_BYTES; /* the trailer */
}

/* Somewhere the kernel puts nothing by itself, spread by the file's own number so that two heaps
 * rarely want the same place: from 16 TiB on, in steps of 64 GiB or the heap's size. */
static uint64_t choose_address(const struct media_super *s)
{
	uint64_t number, step = UINT64_C(64) << 30;
	memcpy(&number, s->uuid, 8);
	while (step < s->heap_bytes)
		step *= 2;
	uint64_t from = UINT64_C(16) << 40, places = (UINT64_C(64) << 40) / step;
	return from + number % (places ? places : 1) * step;
}

/* The file system's room for a new file, UINT64_MAX if it does not say. */
static uint64_t room_left(int fd)
{
	struct statvfs fs;
	if (fstatvfs(fd, &fs) || fs.f_blocks == 0)
		return UINT64_MAX;
	return (uint64_t)(geteuid() == 0 ? fs.f_bfree : fs.f_bavail) * fs.f_frsize;
}

static int fail_full(uint64_t bytes, uint64_t left)
{
	return fur_fail(FUR_ENOSPC,
	        "the heap file needs %llu bytes and the file system has %llu left: choose a "
	        "smaller heap_bytes, "
	        "fewer or smaller logs, or another place; nothing was created",
	        (unsigned long long)bytes, (unsigned long long)left);
}

/* Refuse beforehand a file that cannot fit: an attempt would leave other programs without room for
 * a moment, and beyond RLIMIT_FSIZE the kernel sends SIGXFSZ, which ends the process. */
static int check_room(int fd, const struct media_super *s)
{
	struct rlimit most;
	uint64_t left = room_left(fd);
	if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
	        s->file_bytes > most.rlim_cur)
		return fur_fail(FUR_ENOSPC,
		        "the heap file needs %llu bytes and this process may write files of at "
		        "most %llu: raise the limit "
		        "(RLIMIT_FSIZE, ulimit -f), or choose a smaller heap_bytes, fewer or "
		        "smaller logs; nothing was created",
		        (unsigned long long)s->file_bytes, (unsigned long long)most.rlim_cur);
	return s->file_bytes > left ? fail_full(s->file_bytes, left) : 0;
}

static int allocate(int fd, const struct media_super *s)
{
	int error = posix_fallocate(fd, 0, (off_t)s->file_bytes);
	if (error == 0)
		return 0;
	if (error == ENOSPC || error == EFBIG || error == EDQUOT)
		return fail_full(s->file_bytes, room_left(fd));
	return fur_fail(FUR_ESYS,
	        "cannot allocate %llu bytes: %s: check the disk, or choose another place; nothing "
	        "was created",
	        (unsigned long long)s->file_bytes, strerror(error));
}

static int fill(int fd, struct media_super *s)
{
	uint8_t *file = mmap(NULL, s->file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return fur_fail(FUR_ESYS,
		        "cannot map the new file: %s: free some memory, or raise the limits on it "
		        "(ulimit -v, vm.max_map_count); "
		        "nothing was created",
		        strerror(errno));
	heap_format(file + s->heap_offset, s->heap_bytes, s->max_threads);
	/* The first lap of the ring starts at ring_slots: no slot of a zeroed ring says so, and no
	 * dependency reaches below 0. */
	s->state = MEDIA_CLOSED;
	s->tail[0][0] = s->tail[1][0] = media_tail_encode(s->ring_slots);
	s->checksum = media_super_checksum(s);
	memcpy(file, s, sizeof *s);
	munmap(file, s->file_bytes);
	if (fsync(fd))
		return fur_fail(errno == ENOSPC || errno == EDQUOT ? FUR_ENOSPC : FUR_ESYS,
		        "cannot write the new file: %s: make room, check the disk, or choose "
		        "another place; nothing was created",
		        strerror(errno));
	return 0;
}

/* A directory has no room for a name, or the file system none for an inode: as full as for the
 * contents. */
static int fail_create(int error)
{
	if (error == ENOSPC || error == EDQUOT)
		return fur_fail(FUR_ENOSPC, "the file system has no room for another file: make "
		                            "room, or choose another place; nothing was "
		                            "created");
	return fur_fail(
	        FUR_ESYS, "cannot create: %s: check the path and its permissions", strerror(error));
}

/* A file without a name, if the file system has them; else one with a name of its own,
 * file->temporary.  A crash leaves that behind. */
static int open_new(const char *path, uint32_t mode, struct heap_file *file)
{
	char name[PATH_MAX];
	snprintf(name, sizeof name, "%s", path);
	file->fd = open(dirname(name), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (file->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
		static const char suffix[] = ".XXXXXX";
		file->temporary = malloc(strlen(path) + sizeof suffix);
		if (!file->temporary)
			return fur_fail(FUR_ENOMEM, "no memory for the path: free some memory");
		strcpy(file->temporary, path);
		strcat(file->temporary, suffix);
		file->fd = mkostemp(file->temporary, O_CLOEXEC);
		if (file->fd < 0) {
			free(file->temporary);
			file->temporary = NULL;
		}
	}
	if (file->fd < 0)
		return fail_create(errno);
	/* In both cases, and whatever the umask says. */
	if (fchmod(file->fd, mode ? mode : 0600))
		return fur_fail(FUR_ESYS,
		        "cannot set the new file's mode: %s: choose another place, or another "
		        "file_mode; nothing was created",
		        strerror(errno));
	return 0;
}

static int map_heap(struct heap_file *file, const struct media_super *s);
static int map_shared(struct heap_file *file, uint64_t bytes);

/* Map the heap where it shall be for ever.  An address chosen at random may be taken; then another
 * is not. */
static int choose_place(struct heap_file *file, struct media_super *s)
{
	enum { TRIES = 16 };
	const uint64_t wanted = s->address;
	int error = FUR_EADDRESS;
	for (int tries = 0; error == FUR_EADDRESS && tries < (wanted ? 1 : TRIES); tries++) {
		if (getrandom(s->uuid, sizeof s->uuid, 0) != sizeof s->uuid)
			return fur_fail(FUR_ESYS,
			        "no random number for the heap: %s: try again; nothing was created",
			        strerror(errno));
		s->address = wanted ? wanted : choose_address(s);
		if (!address_fits(s->address, s->heap_bytes))
			return fur_fail(FUR_EINVAL,
			        "heap_bytes is %llu: no address space holds that; use less",
			        (unsigned long long)s->heap_bytes);
		error = map_heap(file, s);
	}
	return error;
}

int heap_create_file(const char *path, const struct fur_options *options, struct heap_file *file)
{
	struct media_super s = {0};
	*file = (struct heap_file){.fd = -1};
	int error = check_options(options, &s);
	if (error)
		return error;
	if (!s.address && !address_fits(LEAST_ADDRESS, s.heap_bytes))
		return fur_fail(FUR_EINVAL,
		        "heap_bytes is %llu: no address space holds that; use less",
		        (unsigned long long)s.heap_bytes);
	if (access(path, F_OK) == 0)
		return fur_fail(FUR_EEXIST, "the file exists: open it, or remove it first");
	lay_out(&s);
	error = open_new(path, options->file_mode, file);
	if (!error)
		error = heap_lock_file(file->fd, HEAP_LOCK_WORKER);
	/* Before an address is looked for: there may be none for a heap that could not fit
	 * anyway. */
	if (!error)
		error = check_room(file->fd, &s);
	if (!error)
		error = choose_place(file, &s);
	if (!error)
		error = allocate(file->fd, &s);
	if (!error)
		error = fill(file->fd, &s);
	file->geometry = s;
	if (!error)
		error = map_shared(file, s.file_bytes);
	if (error)
		heap_close_file(file);
	return error;
}

/* -------------------------------------------------------------------- name */

/* Never over another file.   Errors: FUR_EEXIST, FUR_ENOSPC, FUR_ESYS. */
static int link_name(const struct heap_file *file, const char *path)
{
	char proc[64];
	snprintf(proc, sizeof proc, "/proc/self/fd/%d", file->fd);
	/* Before Linux 6.10 an empty path is for privileged processes only, and ENOENT for others:
	 * those need /proc. */
	int failed = file->temporary ? link(file->temporary, path)
	                             : linkat(file->fd, "", AT_FDCWD, path, AT_EMPTY_PATH);
	if (failed && !file->temporary && errno != EEXIST && access(proc, F_OK))
		return fur_fail(FUR_ESYS,
		        "cannot name the new file: %s, and /proc is not mounted: mount it",
		        strerror(errno));
	if (failed && !file->temporary && errno != EEXIST)
		failed = linkat(AT_FDCWD, proc, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
	if (failed && errno == EEXIST)
		return fur_fail(FUR_EEXIST, "the file exists: open it, or remove it first");
	return failed ? fail_create(errno) : 0;
}

/* A name is durable when its directory is.  One that may not be read cannot be synced by itself:
 * then its whole file system is. */
static int sync_name(int fd, const char *path)
{
	char directory[PATH_MAX];
	snprintf(directory, sizeof directory, "%s", path);
	int dir = open(dirname(directory), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int failed = dir >= 0 ? fsync(dir) : syncfs(fd), error = errno;
	if (dir >= 0)
		close(dir);
	/* A file system that does not sync directories says EINVAL. */
	if (!failed || (dir >= 0 && (error == EINVAL || error == EROFS)))
		return 0;
	if (error == ENOSPC || error == EDQUOT)
		return fail_create(error);
	return fur_fail(FUR_ESYS,
	        "cannot make the new file's name durable: %s: check the disk, or choose another "
	        "place; nothing was created",
	        strerror(error));
}

static bool same_file(int fd, const char *path)
{
	struct stat a, b;
	return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* Map it again in the same places, by its name, so that /proc/PID/maps and all that read it say so;
 * nobody uses the mappings yet. */
static int map_by_name(struct heap_file *file, const char *path)
{
	const int shared = file->dax ? MAP_SHARED_VALIDATE | MAP_SYNC : MAP_SHARED;
	const struct media_super *s = &file->geometry;
	int fd = same_file(file->fd, path) ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0 || !same_file(fd, path)) {
		if (fd >= 0)
			close(fd);
		return 0; /* renamed or removed meanwhile; it works without */
	}
	bool failed = mmap(file->super, file->file_bytes, PROT_READ | PROT_WRITE,
	                      shared | MAP_FIXED, fd, 0) == MAP_FAILED ||
	              mmap(file->base, s->heap_bytes, PROT_READ | PROT_WRITE,
	                      MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd,
	                      (off_t)s->heap_offset) == MAP_FAILED;
	close(fd); /* no lock goes with it: they are another open file's */
	return failed ? fur_fail(FUR_ESYS,
	                        "cannot map the file: %s: free some memory, or raise the limits on "
	                        "it (ulimit -v, "
	                        "vm.max_map_count)",
	                        strerror(errno))
	              : 0;
}

int heap_name_file(struct heap_file *file, const char *path)
{
	int error = link_name(file, path);
	if (error)
		return error;
	if (file->temporary) {
		unlink(file->temporary);
		free(file->temporary);
		file->temporary = NULL;
	}
	error = sync_name(file->fd, path);
	if (!error)
		error = map_by_name(file, path);
	/* We hold the worker's lock, so nobody has opened it; and a file that came in its place is
	 * another's. */
	if (error && same_file(file->fd, path))
		unlink(path);
	return error;
}

/* -------------------------------------------------------------------- open */

/* Why the lock was refused.  No libfur process that works on a heap or replays it takes a read
 * lock. */
static int fail_locked(int fd, enum heap_lock byte)
{
	int64_t pid;
	int read = heap_lock_read_by(fd, byte, &pid);
	if (read < 0)
		return read;
	if (read) {
		char who[32] = "a process";
		if (pid > 0)
			snprintf(who, sizeof who, "process %lld", (long long)pid);
		return fur_fail(FUR_EBUSY,
		        "%s holds a read lock on the file, as fur-check does while it looks: wait "
		        "for its end, or end it; "
		        "whoever may read a file can lock it so: give it mode 0600 if that shall "
		        "not be",
		        who);
	}
	if (byte == HEAP_LOCK_REPLAYER)
		return fur_fail(FUR_EBUSY,
		        "a replayer serves this heap already: one is enough, stop that first");
	return fur_fail(FUR_EBUSY,
	        "the heap is open in another process, or twice in this one: close it there first");
}

int heap_lock_file(int fd, enum heap_lock byte)
{
	enum { LOOKS = 100 };
	int error = byte == HEAP_LOCK_NONE ? 0 : heap_lock_try(fd, byte);
	/* A replayer that has waited for the worker's end holds this lock for a moment. */
	for (int looks = 0; error == FUR_EBUSY && byte == HEAP_LOCK_WORKER && looks < LOOKS;
	        looks++) {
		int replayer = heap_lock_held(fd, HEAP_LOCK_REPLAYER);
		if (replayer < 0)
			return replayer;
		if (!replayer)
			break;
		usleep(1000);
		error = heap_lock_try(fd, byte);
	}
	return error == FUR_EBUSY ? fail_locked(fd, byte) : error;
}

/* Do the regions lie in the file one behind the other, each as large as its parts?  A right
 * checksum says that libfur wrote these numbers, not that it was this libfur. */
static bool regions_fit(const struct media_super *s)
{
	const uint64_t offset[] = {
	        s->control_offset, s->ring_offset, s->logs_offset, s->heap_offset, s->file_bytes};
	const uint64_t trailer = s->version < 2 ? 0 : MEDIA_PAGE_BYTES;
	const uint64_t bytes[] = {s->control_bytes, s->ring_slots * MEDIA_SLOT_BYTES,
	        s->max_threads * s->log_bytes, s->heap_bytes + trailer};
	if (s->control_offset < sizeof *s || s->control_bytes < CONTROL_BYTES(s->max_threads) ||
	        s->file_bytes > 2 * MOST_BYTES)
		return false;
	for (int k = 0; k < 4; k++)
		if (offset[k] % MEDIA_PAGE_BYTES || offset[k] > offset[k + 1] ||
		        bytes[k] > offset[k + 1] - offset[k])
			return false;
	return true;
}

int heap_check_super(const struct media_super *s, uint64_t file_bytes)
{
	if (memcmp(s->magic, MEDIA_MAGIC, sizeof s->magic))
		return fur_fail(FUR_ENOTHEAP, "not a libfur heap: check the path");
	if (s->endian != MEDIA_ENDIAN)
		return fur_fail(
		        FUR_EVERSION, "made on a machine of the other byte order: open it there");
	if (s->version < MEDIA_OLDEST || s->version > MEDIA_VERSION)
		return fur_fail(FUR_EVERSION,
		        "heap format version %u, this library reads versions %u to %u: use the "
		        "libfur that made it",
		        s->version, MEDIA_OLDEST, MEDIA_VERSION);
	if (s->checksum != media_super_checksum(s))
		return fur_fail(FUR_ECORRUPT,
		        "the superblock is damaged (checksum): fur-check --repair "
		        "may mend it; else restore the file from a copy");
	if (s->slot_bytes != MEDIA_SLOT_BYTES || !power_of_two(s->log_bytes) ||
	        s->log_bytes < LEAST_LOG_BYTES || s->log_bytes > UINT32_MAX ||
	        !power_of_two(s->ring_slots) || s->ring_slots < LEAST_RING_SLOTS ||
	        s->ring_slots < 2 * (uint64_t)s->max_threads || s->ring_slots > UINT32_MAX ||
	        s->max_threads == 0 || s->max_threads > MOST_THREADS ||
	        s->heap_bytes > MOST_BYTES || !address_fits(s->address, s->heap_bytes) ||
	        s->heap_bytes < heap_least_bytes(s->max_threads) || !regions_fit(s))
		return fur_fail(FUR_ECORRUPT,
		        "the superblock is damaged (sizes): restore the file from a copy");
	if (file_bytes < s->file_bytes)
		return fur_fail(FUR_ECORRUPT,
		        "truncated: %llu bytes of %llu are there: restore the file from a copy",
		        (unsigned long long)file_bytes, (unsigned long long)s->file_bytes);
	return 0;
}

int heap_read_super(int fd, struct media_super *s, uint64_t *file_bytes)
{
	struct stat st;
	if (fstat(fd, &st))
		return fur_fail(FUR_ESYS, "cannot stat the file: %s: check the disk and the mount",
		        strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fur_fail(FUR_ENOTHEAP, "not a regular file: check the path");
	if (st.st_size == 0)
		return fur_fail(FUR_ENOTHEAP,
		        "the file is empty, not a libfur heap: remove it and create one");
	/* A file of version 1 that was cut short may end where its superblock did. */
	const ssize_t least = offsetof(struct media_super, forget);
	memset(s, 0, sizeof *s);
	const ssize_t n = st.st_size < least ? 0 : pread(fd, s, sizeof *s, 0);
	if (n < 0)
		return fur_fail(FUR_ESYS,
		        "cannot read the file: %s: check the disk, or restore the file from a copy",
		        strerror(errno));
	if (n < least)
		return fur_fail(FUR_ENOTHEAP,
		        "too short (%lld bytes) for a libfur heap: check the path",
		        (long long)st.st_size);
	*file_bytes = (uint64_t)st.st_size;
	return 0;
}

/* A file that has been copied may have lost blocks that held zeros only; a store to one on a full
 * file system would end the process. Changes no byte. */
static int fill_holes(int fd, uint64_t bytes)
{
	struct stat st;
	if (fstat(fd, &st))
		return fur_fail(FUR_ESYS, "cannot stat the file: %s: check the disk and the mount",
		        strerror(errno));
	/* A few blocks of the file system's own count too, so no hole is looked for as well.  What
	 * was never written counts as one. */
	if ((uint64_t)st.st_blocks * 512 >= bytes && lseek(fd, 0, SEEK_HOLE) >= (off_t)bytes)
		return 0;
	/* Not posix_fallocate(): where the file system cannot, that reads and writes each block,
	 * next to a process that may write them, too. */
	if (fallocate(fd, 0, 0, (off_t)bytes) == 0 || (errno != ENOSPC && errno != EDQUOT))
		return 0;
	return fur_fail(FUR_ENOSPC, "the file has holes (copied with cp --sparse?), and the file "
	                            "system has no room to fill them: make room");
}

static int map_shared(struct heap_file *file, uint64_t bytes)
{
	/* MAP_SYNC succeeds on DAX only, and promises what flushing from user space needs: the file
	 * system's metadata is durable too. */
	void *p = mmap(
	        NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, file->fd, 0);
	file->dax = p != MAP_FAILED;
	if (!file->dax)
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
	if (p == MAP_FAILED)
		return fur_fail(FUR_ESYS,
		        "cannot map the file: %s: free some memory, or raise the limits on it "
		        "(ulimit -v, vm.max_map_count)",
		        strerror(errno));
	file->super = p;
	file->file_bytes = bytes;
	arch_persistent(p, bytes);
	return 0;
}

int heap_open_file(const char *path, enum heap_lock lock, struct heap_file *file)
{
	*file = (struct heap_file){.fd = open(path, O_RDWR | O_CLOEXEC)};
	if (file->fd < 0) {
		if (errno == ENOENT)
			return fur_fail(FUR_ENOENT,
			        "no such file: create the heap first, or check the path");
		return fur_fail(FUR_ESYS, "cannot open: %s: check the path and its permissions",
		        strerror(errno));
	}
	/* Checked before it is locked: "not a heap" is the better answer for a foreign file; and
	 * again by nobody else's leave, for no process changes what check_super() looks at. */
	uint64_t file_bytes, tail;
	int error = heap_read_super(file->fd, &file->geometry, &file_bytes);
	if (!error)
		error = heap_check_super(&file->geometry, file_bytes);
	if (!error)
		error = heap_lock_file(file->fd, lock);
	if (!error && lock != HEAP_LOCK_NONE)
		error = fill_holes(file->fd, file->geometry.file_bytes);
	/* Not what has been appended to it. */
	if (!error)
		error = map_shared(file, file->geometry.file_bytes);
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
	int bad_a = media_tail_decode(file->super->tail[0][0], &a),
	    bad_b = media_tail_decode(file->super->tail[1][0], &b);
	if (bad_a != bad_b)
		return fur_fail(FUR_ECORRUPT, "one of the two copies of the log's tail is damaged: "
		                              "mend it with fur-check --repair");
	const struct media_file view = media_file_of(&file->geometry, file->super);
	if (media_tail(&view, tail))
		return fur_fail(
		        FUR_ECORRUPT, "the log's tail is damaged: restore the file from a copy");
	return 0;
}

/* --------------------------------------------------------------------- map */

static int map_heap(struct heap_file *file, const struct media_super *s)
{
	void *want = (void *)(uintptr_t)s->address;
	void *p = mmap(want, s->heap_bytes, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_FIXED_NOREPLACE | MAP_NORESERVE, file->fd, (off_t)s->heap_offset);
	if (p == MAP_FAILED && errno != EEXIST)
		return fur_fail(FUR_ESYS,
		        "cannot map %llu bytes at %p: %s: free some memory, or raise the limits on "
		        "it (ulimit -v, "
		        "vm.max_map_count)",
		        (unsigned long long)s->heap_bytes, want, strerror(errno));
	if (p != want) { /* a kernel before 4.17 takes the address for a hint */
		if (p != MAP_FAILED)
			munmap(p, s->heap_bytes);
		return fur_fail(FUR_EADDRESS,
		        "the heap belongs at %p to %p, where this process has something else "
		        "mapped (another heap?): close "
		        "that first, or create the heap with another fur_options.address",
		        want, (void *)((uint8_t *)want + s->heap_bytes));
	}
	file->base = p;
	file->mapped_bytes = s->heap_bytes;
	return 0;
}

int heap_map(struct heap_file *file)
{
	return file->mapped_bytes ? 0 : map_heap(file, &file->geometry);
}

void heap_populate(const struct heap_file *file)
{
	/* A first store to a copy-on-write page faults, and a fault aborts a hardware transaction
	 * with no cause given: touch all now.  Where the kernel cannot, stores under the fallback
	 * lock will do it, page by page. */
	madvise(file->base, file->geometry.heap_bytes, MADV_POPULATE_WRITE);
	madvise((uint8_t *)file->super, file->geometry.logs_offset, MADV_POPULATE_WRITE);
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
		close(file->fd); /* and with it the lock */
	*file = (struct heap_file){.fd = -1};
}
