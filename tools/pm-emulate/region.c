/* SPDX-License-Identifier: BSD-3-Clause
 *
 * region.c - finds the launcher's memory, a file's region in it, and the region of an address
 * (region.h).
 */
#include "region.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINE = ARCH_FLUSH_LINE, MAPPINGS = 1024, CHUNK = 65536 };

struct pme_control *region_control;
static int memory_open = -1;
static ino_t memory_inode;
static char memory_path[64];
static struct region_view views[PME_REGIONS];

/* The mapped ranges.  A thread that changes them holds mappings_mutex.  Readers take no lock:
 * `bytes` is set last and cleared first, and a program that flushes a range while it unmaps it is
 * wrong anyway. */
static struct region_mapping mappings[MAPPINGS];
static uint64_t mappings_used;
static pthread_mutex_t mappings_mutex = PTHREAD_MUTEX_INITIALIZER;

/* The descriptor of the shared memory.  Its number is out of the way of the program's own, and it
 * is opened again if the program closes every descriptor. */
static int memory_fd(void)
{
	struct stat st;
	if (memory_open >= 0 && fstat(memory_open, &st) == 0 && st.st_ino == memory_inode)
		return memory_open;
	int low = open(memory_path, O_RDWR | O_CLOEXEC);
	memory_open = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, 500);
	if (memory_open < 0)
		memory_open = low;
	else
		close(low);
	memory_inode = memory_open >= 0 && fstat(memory_open, &st) == 0 ? st.st_ino : 0;
	return memory_open;
}

void *region_map_memory(uint64_t at, uint64_t bytes)
{
	/* Not mmap(), which preload.c defines. */
	void *p = (void *)syscall(
	        SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd(), at);
	return p == MAP_FAILED ? NULL : p;
}

_Noreturn void region_give_up(const char *what)
{
	fprintf(stderr, "pm-emulate: %s\n", what);
	_exit(1);
}

/* ----------------------------------------------------------------- regions */

void region_lock(void)
{
	/* The mutex is robust: its holder may have been killed.  The holder changed media word by
	 * word, so a change that it left half done is a state that persistent memory could be in
	 * (INV-PE1). */
	if (pthread_mutex_lock(&region_control->mutex) == EOWNERDEAD)
		pthread_mutex_consistent(&region_control->mutex);
}

void region_unlock(void)
{
	pthread_mutex_unlock(&region_control->mutex);
}

static uint64_t region_at(uint32_t region)
{
	return PME_REGION_AT + region * PME_REGION_BYTES;
}

struct region_view *region_view_mapped(uint32_t region)
{
	return &views[region];
}

/* Make at least the first `bytes` of the region visible.  A view that was too short stays mapped,
 * for another thread may be using it. */
struct region_view *region_view(uint32_t region, uint64_t bytes)
{
	struct region_view *v = &views[region];
	if (v->bytes < bytes) {
		bytes = (bytes + CHUNK - 1) & ~(uint64_t)(CHUNK - 1);
		v->medium = region_map_memory(region_at(region), bytes);
		v->lines = region_map_memory(
		        region_at(region) + PME_LINES_AT, bytes / LINE * sizeof(struct pme_line));
		if (!v->medium || !v->lines)
			region_give_up("no memory for the copy of a file");
		v->bytes = bytes;
	}
	return v;
}

static bool identify_file(int fd, struct pme_region *r)
{
	struct statx s;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &s) ||
	        !S_ISREG(s.stx_mode))
		return false;
	r->device = (uint64_t)s.stx_dev_major << 32 | s.stx_dev_minor;
	r->inode = s.stx_ino;
	/* The time of birth, where the file system knows it: inode numbers of removed files are
	 * used again. */
	r->born_ns = s.stx_mask & STATX_BTIME
	                     ? (uint64_t)s.stx_btime.tv_sec * 1000000000 + s.stx_btime.tv_nsec
	                     : 0;
	r->bytes = s.stx_size;
	return true;
}

static int region_like(const struct pme_region *r)
{
	for (uint32_t k = 0; k < region_control->regions; k++) {
		const struct pme_region *have = &region_control->region[k];
		if (have->device == r->device && have->inode == r->inode &&
		        have->born_ns == r->born_ns)
			return (int)k;
	}
	return -1;
}

bool region_is_known(int fd)
{
	struct pme_region like;
	return identify_file(fd, &like) && region_like(&like) >= 0;
}

static void path_of(int fd, char *path, size_t bytes)
{
	char link[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, bytes - 1);
	path[n > 0 ? n : 0] = '\0';
}

/* Does the pattern match the path?  A file without a name yet, "#NUMBER (deleted)" of O_TMPFILE,
 * may receive any name in its directory. */
static bool path_matches(const char *pattern, const char *path)
{
	const char *name = strrchr(path, '/'), *last = strrchr(pattern, '/');
	if (!name || name[1] != '#' || !last)
		return !fnmatch(pattern, path, 0);
	char directory[PME_PATH_BYTES], directories[PME_PATH_BYTES];
	snprintf(directory, sizeof directory, "%.*s", (int)(name - path), path);
	snprintf(directories, sizeof directories, "%.*s", (int)(last - pattern), pattern);
	return !fnmatch(directories, directory, 0);
}

bool region_wants(int fd)
{
	char path[PME_PATH_BYTES];
	struct stat st;
	int mode = fcntl(fd, F_GETFL);
	if (mode < 0 || (mode & O_ACCMODE) != O_RDWR || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return false;
	path_of(fd, path, sizeof path);
	if (!strncmp(path, "/memfd:", 7))
		return false; /* memory, whatever its name */
	const char *only = region_control->settings.only;
	for (; *only; only += strlen(only) + 1)
		if (path_matches(only, path))
			return true;
	return only == region_control->settings.only;
}

/* The place of the next byte that is not in a hole, at or after `at`; UINT64_MAX: there is none.
 * This moves the file's offset and puts it back: closing a descriptor of our own would release the
 * program's POSIX locks on the file. */
static uint64_t next_data(int fd, uint64_t at)
{
	off_t was = lseek(fd, 0, SEEK_CUR), data = lseek(fd, (off_t)at, SEEK_DATA);
	if (data < 0 && errno != ENXIO)
		data = (off_t)at; /* the file system does not know holes */
	lseek(fd, was, SEEK_SET);
	return data < 0 ? UINT64_MAX : (uint64_t)data;
}

/* Copy [from, to) from the file to the medium, as it is at the first mapping.  Holes stay holes. */
static void copy_first(int fd, struct region_view *v, uint64_t from, uint64_t to)
{
	for (uint64_t at = next_data(fd, from); at < to; at = next_data(fd, at)) {
		uint64_t n = CHUNK - at % CHUNK;
		if (n > to - at)
			n = to - at;
		if (pread(fd, v->medium + at, n, (off_t)at) <= 0)
			return;
		at += n;
	}
}

/* The region of a file, brought up to the file's length; `make`: create it if need be.  The caller
 * holds the lock. */
int region_of_file(int fd, bool make)
{
	struct pme_region like;
	if (!identify_file(fd, &like) || like.bytes > PME_MOST_BYTES)
		return -1;
	int k = region_like(&like);
	if (k < 0 && (!make || region_control->regions == PME_REGIONS))
		return -1;
	if (k < 0) {
		k = (int)region_control->regions;
		region_control->region[k] = like;
		region_control->region[k].bytes = 0;
		region_control->regions++;
	}
	struct pme_region *r = &region_control->region[k];
	if (r->bytes < like.bytes) {
		copy_first(fd, region_view((uint32_t)k, like.bytes), r->bytes, like.bytes);
		r->bytes = like.bytes;
	}
	return k;
}

/* ---------------------------------------------------------------- mappings */

static void add_mapping(uintptr_t base, uint64_t bytes, uint64_t offset, uint32_t region)
{
	uint64_t k = 0;
	while (k < MAPPINGS && mappings[k].bytes)
		k++;
	if (k == MAPPINGS)
		region_give_up(
		        "more than 1024 mappings of files: name those that count with --file");
	mappings[k].base = base, mappings[k].offset = offset, mappings[k].region = region;
	/* Release: a thread that sees the length also sees the rest. */
	__atomic_store_n(&mappings[k].bytes, bytes, __ATOMIC_RELEASE);
	if (k >= mappings_used)
		__atomic_store_n(&mappings_used, k + 1, __ATOMIC_RELEASE);
}

const struct region_mapping *region_mapping_at(uintptr_t address)
{
	uint64_t used = __atomic_load_n(&mappings_used, __ATOMIC_ACQUIRE);
	for (uint64_t k = 0; k < used; k++) {
		/* Acquire: pairs with the release in add_mapping(). */
		uint64_t bytes = __atomic_load_n(&mappings[k].bytes, __ATOMIC_ACQUIRE);
		if (address - mappings[k].base < bytes)
			return &mappings[k];
	}
	return NULL;
}

void region_map(void *base, size_t bytes, int fd, uint64_t offset)
{
	region_lock();
	int region = region_of_file(fd, true);
	if (region >= 0) {
		path_of(fd, region_control->region[region].path, PME_PATH_BYTES);
		region_view((uint32_t)region, offset + bytes);
	}
	region_unlock();
	if (region < 0)
		region_give_up("a file is longer than 2 TiB, or more than 64 are mapped: name "
		               "those that count with --file");
	pthread_mutex_lock(&mappings_mutex);
	add_mapping((uintptr_t)base, bytes, offset, (uint32_t)region);
	pthread_mutex_unlock(&mappings_mutex);
}

void region_unmap(const void *base, size_t bytes)
{
	uintptr_t from = (uintptr_t)base, to = from + bytes;
	pthread_mutex_lock(&mappings_mutex);
	for (uint64_t k = 0; k < mappings_used; k++) {
		struct region_mapping m = mappings[k];
		if (!m.bytes || m.base >= to || m.base + m.bytes <= from)
			continue;
		mappings[k].bytes = 0;
		if (m.base < from)
			add_mapping(m.base, from - m.base, m.offset, m.region);
		if (m.base + m.bytes > to)
			add_mapping(to, m.base + m.bytes - to, m.offset + (to - m.base), m.region);
	}
	pthread_mutex_unlock(&mappings_mutex);
}

void region_move(const void *from, size_t bytes, void *to, size_t new_bytes)
{
	const struct region_mapping *m = region_mapping_at((uintptr_t)from);
	if (!m)
		return;
	uint64_t offset = m->offset + ((uintptr_t)from - m->base);
	uint32_t region = m->region;
	region_unmap(from, bytes);
	region_lock();
	region_view(region, offset + new_bytes);
	region_unlock();
	pthread_mutex_lock(&mappings_mutex);
	add_mapping((uintptr_t)to, new_bytes, offset, region);
	pthread_mutex_unlock(&mappings_mutex);
}

bool region_is_persistent(const void *base, size_t bytes)
{
	for (uintptr_t at = (uintptr_t)base, end = at + bytes; at < end;) {
		const struct region_mapping *m = region_mapping_at(at);
		if (!m)
			return false;
		at = m->base + m->bytes;
	}
	return true;
}

/* The next data of the file or of the medium, whichever precedes: where both have holes they
 * agree. */
uint64_t region_next_data(int fd, uint32_t region, uint64_t at)
{
	uint64_t a = next_data(fd, at), b = next_data(memory_fd(), region_at(region) + at);
	b = b < region_at(region) + PME_MOST_BYTES ? b - region_at(region) : UINT64_MAX;
	return (a < b ? a : b) & ~(uint64_t)(LINE - 1);
}

bool region_begin(void)
{
	const char *path = getenv(PME_ENVIRONMENT);
	if (!path || strlen(path) >= sizeof memory_path)
		return false;
	memcpy(memory_path, path, strlen(path) + 1);
	struct pme_control *c = memory_fd() < 0 ? NULL : region_map_memory(0, sizeof *c);
	if (!c)
		return false;
	__atomic_fetch_add(&c->attached, 1, __ATOMIC_SEQ_CST);
	region_control = c;
	return true;
}
