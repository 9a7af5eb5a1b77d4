/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shadow.c - see shadow.h, and shared.h for the invariants.
 */
#include "shadow.h"
#include "model.h"
#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LINE = ARCH_FLUSH_LINE, WORDS = LINE / 8, MAPPINGS = 1024, CHUNK = 65536, RECENT = 32 };

static struct pme_control *control; /* null: not started by pm-emulate */
static int memory = -1;
static ino_t memory_inode;
static char memory_path[64];

/* A region as this process sees it. */
static struct view {
	uint8_t *medium;
	struct pme_line *lines;
	uint64_t bytes;
} views[PME_REGIONS];

/* Mapped ranges.  Written under `mapping`; read by anybody: `bytes` is set last and cleared first, and a program that flushes a range
 * while it unmaps it is wrong anyway. */
static struct mapping {
	uintptr_t base;
	uint64_t bytes, offset;
	uint32_t region;
} mappings[MAPPINGS];
static uint64_t mappings_used;
static pthread_mutex_t mapping = PTHREAD_MUTEX_INITIALIZER;

/* The calling thread. */
static __thread struct self {
	struct pme_thread *shared;
	struct pme_write_back *under_way;
	uint32_t id, fence;
	uint64_t random;
	uintptr_t recent[RECENT]; /* lines it has written back, some of them */
	struct model_thread model;
} self __attribute__((tls_model("initial-exec")));
static pthread_key_t ends;

/* The shared memory's descriptor.  Out of the way of the program's own, and opened again when the program has closed all it has. */
static int memory_fd(void)
{
	struct stat st;
	if (memory >= 0 && fstat(memory, &st) == 0 && st.st_ino == memory_inode)
		return memory;
	int low = open(memory_path, O_RDWR | O_CLOEXEC);
	memory = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, 500);
	if (memory < 0)
		memory = low;
	else
		close(low);
	memory_inode = memory >= 0 && fstat(memory, &st) == 0 ? st.st_ino : 0;
	return memory;
}

static void *map_memory(uint64_t at, uint64_t bytes)
{
	/* Not mmap(): that is preload.c's. */
	void *p = (void *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd(), at);
	return p == MAP_FAILED ? NULL : p;
}

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "pm-emulate: %s\n", what);
	_exit(1);
}

static void count(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static void find(struct pme_finding *finding, uint32_t region, uint64_t offset)
{
	uint64_t n = __atomic_fetch_add(&finding->n, 1, __ATOMIC_RELAXED);
	if (n < PME_SAMPLES)
		finding->sample[n] = (struct pme_sample){region, offset};
}

/* ------------------------------------------------------------ power failure */

static _Noreturn void wait_for_the_end(void)
{
	for (;;)
		syscall(SYS_nanosleep, &(struct timespec){.tv_sec = 1}, NULL);
}

static void stop_if_failed(void)
{
	/* INV-P3.  Acquire: nothing below is done before the look. */
	if (__builtin_expect(__atomic_load_n(&control->failed, __ATOMIC_ACQUIRE) != 0, 0))
		wait_for_the_end();
}

static uint64_t next_random(void)
{
	uint64_t x = self.random += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static void nap(uint64_t ns)
{
	if (ns)
		syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* Hold this thread up now and then, so that others overtake it between a store and its durability. */
static void perturb(void)
{
	if (!control->settings.perturb)
		return;
	uint64_t r = next_random();
	nap(r % 1024 == 0 ? 2000000 : r % 32 == 0 ? 10000 + (r >> 32) % 190000 : 0);
}

/* This was the chosen flush or fence.  From here on other threads may run for a moment, but nothing they write back gets out, and no call
 * returns that would tell them so: what they store is what lay in a cache.  Other processes are the launcher's to kill. */
static void fail_if_chosen(enum pme_fail kind, uint64_t number)
{
	if (__builtin_expect(control->settings.fail != kind || control->settings.fail_at != number, 1))
		return;
	/* Time for others to build on what this thread has stored and not made durable: nothing of that may be acknowledged. */
	if (control->settings.perturb)
		nap(next_random() % 500000);
	__atomic_store_n(&control->failed, 1, __ATOMIC_SEQ_CST);
	kill(getpid(), SIGKILL);
	wait_for_the_end();
}

/* ----------------------------------------------------------------- threads */

static void left_under_way(const struct pme_write_back *w)
{
	find(&control->counters.unfenced, w->region, w->offset);
	views[w->region].lines[w->offset / LINE].fence = PME_UNFENCED;
}

static void thread_ends(void *slot)
{
	struct pme_thread *t = slot;
	for (uint32_t k = 0; k < t->n; k++)
		left_under_way(&self.under_way[k]);
	t->n = 0;
	syscall(SYS_munmap, self.under_way, PME_UNDER_WAY_BYTES);
	self.shared = NULL;
	/* Release: the slot is as it should be found before somebody takes it. */
	__atomic_store_n(&t->process, 0, __ATOMIC_RELEASE);
}

static void become_a_thread(void)
{
	for (uint32_t k = 0; k < PME_THREADS; k++) {
		struct pme_thread *t = &control->thread[k];
		uint32_t nobody = 0;
		if (t->process || !__atomic_compare_exchange_n(
		                          &t->process, &nobody, (uint32_t)getpid(), false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		if (!(self.under_way = map_memory(PME_UNDER_WAY_AT + k * PME_UNDER_WAY_BYTES, PME_UNDER_WAY_BYTES)))
			give_up("no memory for a thread's write-backs");
		self.shared = t;
		self.id = k + 1;
		self.random = control->settings.seed * UINT64_C(0x2545f4914f6cdd1d) + self.id;
		pthread_setspecific(ends, t);
		return;
	}
	give_up("more than 1024 threads flush: run the program with fewer");
}

/* A child has its parent's mappings, and nothing under way. */
static void in_the_child(void)
{
	memset(&self, 0, sizeof self);
	pthread_setspecific(ends, NULL);
}

static void start_of_call(void)
{
	stop_if_failed();
	if (!self.shared)
		become_a_thread();
}

/* ----------------------------------------------------------------- regions */

static void lock(void)
{
	/* Robust: whoever held it may have been killed.  What it was doing was done in words, and may be left half done (INV-P1). */
	if (pthread_mutex_lock(&control->mutex) == EOWNERDEAD)
		pthread_mutex_consistent(&control->mutex);
}

static void unlock(void)
{
	pthread_mutex_unlock(&control->mutex);
}

static uint64_t region_at(uint32_t region)
{
	return PME_REGION_AT + region * PME_REGION_BYTES;
}

/* See at least the first `bytes` of the region.  A view that was too short stays mapped: somebody may be using it. */
static struct view *view_of(uint32_t region, uint64_t bytes)
{
	struct view *v = &views[region];
	if (v->bytes < bytes) {
		bytes = (bytes + CHUNK - 1) & ~(uint64_t)(CHUNK - 1);
		v->medium = map_memory(region_at(region), bytes);
		v->lines = map_memory(region_at(region) + PME_LINES_AT, bytes / LINE * sizeof(struct pme_line));
		if (!v->medium || !v->lines)
			give_up("no memory for the copy of a file");
		v->bytes = bytes;
	}
	return v;
}

static bool identify(int fd, struct pme_region *r)
{
	struct statx s;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &s) || !S_ISREG(s.stx_mode))
		return false;
	r->device = (uint64_t)s.stx_dev_major << 32 | s.stx_dev_minor;
	r->inode = s.stx_ino;
	/* Where the file system knows it: numbers of files that are gone are used again. */
	r->born_ns = s.stx_mask & STATX_BTIME ? (uint64_t)s.stx_btime.tv_sec * 1000000000 + s.stx_btime.tv_nsec : 0;
	r->bytes = s.stx_size;
	return true;
}

static int region_like(const struct pme_region *r)
{
	for (uint32_t k = 0; k < control->regions; k++) {
		const struct pme_region *have = &control->region[k];
		if (have->device == r->device && have->inode == r->inode && have->born_ns == r->born_ns)
			return (int)k;
	}
	return -1;
}

static void path_of(int fd, char *path, size_t bytes)
{
	char link[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, bytes - 1);
	path[n > 0 ? n : 0] = '\0';
}

bool shadow_wants(int fd)
{
	char path[PME_PATH_BYTES];
	struct stat st;
	int mode = fcntl(fd, F_GETFL);
	if (mode < 0 || (mode & O_ACCMODE) != O_RDWR || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return false;
	path_of(fd, path, sizeof path);
	if (!strncmp(path, "/memfd:", 7))
		return false; /* memory, however it is called */
	const char *only = control->settings.only;
	for (; *only; only += strlen(only) + 1)
		if (!fnmatch(only, path, 0))
			return true;
	return only == control->settings.only;
}

/* Where the next byte that is not in a hole is, at or after `at`; UINT64_MAX: nowhere.  Moves the file's offset and puts it back: a
 * descriptor of our own would take the program's POSIX locks with it when it is closed. */
static uint64_t next_data(int fd, uint64_t at)
{
	off_t was = lseek(fd, 0, SEEK_CUR), data = lseek(fd, (off_t)at, SEEK_DATA);
	if (data < 0 && errno != ENXIO)
		data = (off_t)at; /* a file system that does not know holes */
	lseek(fd, was, SEEK_SET);
	return data < 0 ? UINT64_MAX : (uint64_t)data;
}

/* From the file, as it is, to the medium, as it was when it was mapped first: [from, to).  Holes stay holes. */
static void copy_first(int fd, struct view *v, uint64_t from, uint64_t to)
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

/* The region of a file, made if need be; brought up to the file's length.  Under the lock. */
static int region_of(int fd, bool make)
{
	struct pme_region like;
	if (!identify(fd, &like) || like.bytes > PME_MOST_BYTES)
		return -1;
	int k = region_like(&like);
	if (k < 0 && (!make || control->regions == PME_REGIONS))
		return -1;
	if (k < 0) {
		k = (int)control->regions;
		control->region[k] = like;
		control->region[k].bytes = 0;
		control->regions++;
	}
	struct pme_region *r = &control->region[k];
	if (r->bytes < like.bytes) {
		copy_first(fd, view_of((uint32_t)k, like.bytes), r->bytes, like.bytes);
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
		give_up("more than 1024 mappings of files: name those that count with --file");
	mappings[k].base = base, mappings[k].offset = offset, mappings[k].region = region;
	/* Release: whoever sees the length sees the rest. */
	__atomic_store_n(&mappings[k].bytes, bytes, __ATOMIC_RELEASE);
	if (k >= mappings_used)
		__atomic_store_n(&mappings_used, k + 1, __ATOMIC_RELEASE);
}

static const struct mapping *mapping_at(uintptr_t address)
{
	uint64_t used = __atomic_load_n(&mappings_used, __ATOMIC_ACQUIRE);
	for (uint64_t k = 0; k < used; k++) {
		/* Acquire pairs with the release in add_mapping(). */
		uint64_t bytes = __atomic_load_n(&mappings[k].bytes, __ATOMIC_ACQUIRE);
		if (address - mappings[k].base < bytes)
			return &mappings[k];
	}
	return NULL;
}

void shadow_map(void *base, size_t bytes, int fd, uint64_t offset)
{
	stop_if_failed();
	lock();
	int region = region_of(fd, true);
	if (region >= 0) {
		path_of(fd, control->region[region].path, PME_PATH_BYTES);
		view_of((uint32_t)region, offset + bytes);
	}
	unlock();
	if (region < 0)
		give_up("a file is longer than 2 TiB, or more than 64 are mapped: name those that count with --file");
	pthread_mutex_lock(&mapping);
	add_mapping((uintptr_t)base, bytes, offset, (uint32_t)region);
	pthread_mutex_unlock(&mapping);
}

void shadow_unmap(const void *base, size_t bytes)
{
	uintptr_t from = (uintptr_t)base, to = from + bytes;
	pthread_mutex_lock(&mapping);
	for (uint64_t k = 0; k < mappings_used; k++) {
		struct mapping m = mappings[k];
		if (!m.bytes || m.base >= to || m.base + m.bytes <= from)
			continue;
		mappings[k].bytes = 0;
		if (m.base < from)
			add_mapping(m.base, from - m.base, m.offset, m.region);
		if (m.base + m.bytes > to)
			add_mapping(to, m.base + m.bytes - to, m.offset + (to - m.base), m.region);
	}
	pthread_mutex_unlock(&mapping);
}

void shadow_move(const void *from, size_t bytes, void *to, size_t new_bytes)
{
	const struct mapping *m = mapping_at((uintptr_t)from);
	if (!m)
		return;
	uint64_t offset = m->offset + ((uintptr_t)from - m->base);
	uint32_t region = m->region;
	shadow_unmap(from, bytes);
	lock();
	view_of(region, offset + new_bytes);
	unlock();
	pthread_mutex_lock(&mapping);
	add_mapping((uintptr_t)to, new_bytes, offset, region);
	pthread_mutex_unlock(&mapping);
}

bool shadow_is_persistent(const void *base, size_t bytes)
{
	for (uintptr_t at = (uintptr_t)base, end = at + bytes; at < end;) {
		const struct mapping *m = mapping_at(at);
		if (!m)
			return false;
		at = m->base + m->bytes;
	}
	return true;
}

/* ------------------------------------------------------- write-backs, fences */

/* Word by word: INV-P1.  Atomics, so that it is not made a memcpy(). */
static void copy_line(uint64_t *to, const uint64_t *from)
{
	for (int k = 0; k < WORDS; k++)
		__atomic_store_n(&to[k], __atomic_load_n(&from[k], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* The calling thread's write-backs reach the medium, each unless a later one of the same line has. */
static void complete(void)
{
	lock();
	for (uint32_t k = 0; k < self.shared->n; k++) {
		const struct pme_write_back *w = &self.under_way[k];
		struct view *v = view_of(w->region, w->offset + LINE);
		struct pme_line *line = &v->lines[w->offset / LINE];
		if (line->number >= w->number)
			continue;
		copy_line((uint64_t *)(v->medium + w->offset), w->content);
		/* Release: killed here, the launcher must not take the line for out before it is. */
		__atomic_store_n(&line->number, w->number, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&self.shared->n, 0, __ATOMIC_RELEASE);
	unlock();
}

/* Now and then a line leaves the cache by itself, as it is: one that this thread has written back before, for it is likely to have been
 * stored to since. */
static void evict(void)
{
	if (!control->settings.perturb)
		return;
	uint64_t r = next_random();
	uintptr_t at = self.recent[r >> 32 & (RECENT - 1)];
	const struct mapping *m = r % 8 == 0 && at ? mapping_at(at) : NULL;
	if (!m)
		return;
	uint64_t offset = m->offset + (at - m->base), content[WORDS];
	lock();
	struct view *v = view_of(m->region, offset + LINE);
	uint64_t number = __atomic_add_fetch(&control->number, 1, __ATOMIC_SEQ_CST);
	copy_line(content, (const void *)at);
	copy_line((uint64_t *)(v->medium + offset), content);
	__atomic_store_n(&v->lines[offset / LINE].number, number, __ATOMIC_RELEASE);
	unlock();
}

/* What is worth reporting of a write-back that begins. */
static void look(uint32_t region, uint64_t offset, struct view *v, const uint64_t *content)
{
	struct pme_line *line = &v->lines[offset / LINE];
	if (line->thread == self.id && line->fence == self.fence)
		find(&control->counters.again, region, offset);
	else if (!memcmp(v->medium + offset, content, LINE))
		find(&control->counters.unchanged, region, offset);
	line->thread = self.id;
	line->fence = self.fence;
}

static void begin_write_back(uint32_t region, uint64_t offset, const void *from)
{
	if (self.shared->n == PME_UNDER_WAY)
		complete();
	struct pme_write_back *w = &self.under_way[self.shared->n];
	w->region = region;
	w->offset = offset;
	/* The number before the content is read, both in this order for everybody: of two write-backs of a line the one with the higher
	 * number has whatever the thread of the lower one had stored before its own. */
	w->number = __atomic_add_fetch(&control->number, 1, __ATOMIC_SEQ_CST);
	copy_line(w->content, from);
	look(region, offset, &views[region], w->content);
	/* Release: the launcher counts on what lies below n. */
	__atomic_store_n(&self.shared->n, self.shared->n + 1, __ATOMIC_RELEASE);
}

void shadow_flush(const void *start, size_t bytes)
{
	if (!bytes)
		return;
	start_of_call();
	evict();
	perturb();
	fail_if_chosen(PME_AT_FLUSH, __atomic_add_fetch(&control->counters.flushes, 1, __ATOMIC_RELAXED));
	uintptr_t at = (uintptr_t)start & ~(uintptr_t)(LINE - 1), end = (uintptr_t)start + bytes;
	const struct mapping *m = NULL;
	uint64_t lines = 0, fetched = 0;
	for (; at < end; at += LINE) {
		if (!m || at - m->base >= m->bytes)
			m = mapping_at(at);
		if (!m) {
			count(&control->counters.outside, 1);
			return;
		}
		uint64_t offset = m->offset + (at - m->base);
		begin_write_back(m->region, offset, (const void *)at);
		self.recent[at / LINE % RECENT] = at;
		fetched += model_miss(m->region, offset);
		lines++;
	}
	count(&control->counters.lines, lines);
	count(&control->counters.fetched, fetched);
	count(&control->counters.read_wait_ns, model_read(fetched));
	model_write(&self.model, lines);
}

void shadow_fence(void)
{
	start_of_call();
	evict();
	perturb();
	fail_if_chosen(PME_AT_FENCE, __atomic_add_fetch(&control->counters.fences, 1, __ATOMIC_RELAXED));
	if (!self.shared->n)
		count(&control->counters.idle_fences, 1);
	count(&control->counters.write_wait_ns, model_wait(&self.model));
	complete(); /* INV-P2 */
	self.fence = (self.fence + 1) % PME_UNFENCED;
	/* What a fence is for: nothing the program does later is seen before. */
	arch_fence();
	stop_if_failed();
}

void shadow_read(const void *start, size_t bytes)
{
	uintptr_t at = (uintptr_t)start & ~(uintptr_t)(LINE - 1), end = (uintptr_t)start + bytes;
	const struct mapping *m = bytes && control->settings.read_ns ? mapping_at(at) : NULL;
	uint64_t fetched = 0;
	for (; m && at < end && at - m->base < m->bytes; at += LINE)
		fetched += model_miss(m->region, m->offset + (at - m->base));
	if (fetched) {
		count(&control->counters.fetched, fetched);
		count(&control->counters.read_wait_ns, model_read(fetched));
	}
}

/* -------------------------------------------------------------------- syncs */

static void sync_line(struct view *v, uint64_t offset, const void *from, uint64_t number)
{
	if (!memcmp(v->medium + offset, from, LINE))
		return;
	copy_line((uint64_t *)(v->medium + offset), from);
	__atomic_store_n(&v->lines[offset / LINE].number, number, __ATOMIC_RELEASE);
}

/* A sync is a fence, too, for --fail-at. */
static uint64_t begin_sync(void)
{
	start_of_call();
	perturb();
	count(&control->counters.syncs, 1);
	fail_if_chosen(PME_AT_FENCE, __atomic_add_fetch(&control->counters.fences, 1, __ATOMIC_RELAXED));
	/* Before the content is read, as in begin_write_back(). */
	return __atomic_add_fetch(&control->number, 1, __ATOMIC_SEQ_CST);
}

void shadow_sync_range(const void *start, size_t bytes)
{
	uintptr_t at = (uintptr_t)start & ~(uintptr_t)(LINE - 1), end = (uintptr_t)start + bytes;
	const struct mapping *m = NULL;
	uint64_t number = begin_sync();
	lock();
	for (; at < end; at += LINE) {
		if (!m || at - m->base >= m->bytes)
			m = mapping_at(at);
		if (!m)
			break;
		sync_line(&views[m->region], m->offset + (at - m->base), (const void *)at, number);
	}
	unlock();
	stop_if_failed();
}

/* The file's next data, or the medium's, whichever comes first: where both have holes they agree. */
static uint64_t next_of_both(int fd, uint32_t region, uint64_t at)
{
	uint64_t a = next_data(fd, at), b = next_data(memory_fd(), region_at(region) + at);
	b = b < region_at(region) + PME_MOST_BYTES ? b - region_at(region) : UINT64_MAX;
	return (a < b ? a : b) & ~(uint64_t)(LINE - 1);
}

void shadow_sync_file(int fd)
{
	struct pme_region like;
	if (!identify(fd, &like) || region_like(&like) < 0)
		return; /* no file of ours */
	uint64_t number = begin_sync(), content[4096 / 8];
	lock();
	int region = region_of(fd, false);
	uint64_t bytes = region < 0 ? 0 : control->region[region].bytes;
	struct view *v = bytes ? view_of((uint32_t)region, bytes) : NULL;
	for (uint64_t at = v ? next_of_both(fd, (uint32_t)region, 0) : bytes; at < bytes;
	        at = next_of_both(fd, (uint32_t)region, at)) {
		uint64_t n = sizeof content - at % sizeof content;
		memset(content, 0, sizeof content);
		if (pread(fd, content, n, (off_t)at) < 0)
			break;
		for (uint64_t k = 0; k < n; k += LINE)
			sync_line(v, at + k, (uint8_t *)content + k, number);
		at += n;
	}
	unlock();
	stop_if_failed();
}

/* ---------------------------------------------------------------- beginning */

bool shadow_active(void)
{
	return control != NULL;
}

/* Priority 101: before the program's own constructors, which may map files. */
__attribute__((constructor(101))) static void begin(void)
{
	const char *path = getenv(PME_ENVIRONMENT);
	if (!path || strlen(path) >= sizeof memory_path)
		return;
	strcpy(memory_path, path);
	if (memory_fd() < 0)
		return;
	struct pme_control *c = map_memory(0, sizeof *c);
	if (!c)
		give_up("no memory");
	pthread_key_create(&ends, thread_ends);
	pthread_atfork(NULL, NULL, in_the_child);
	model_init(&c->settings);
	__atomic_fetch_add(&c->attached, 1, __ATOMIC_SEQ_CST);
	control = c;
}

__attribute__((destructor)) static void end(void)
{
	if (control && self.shared)
		thread_ends(self.shared);
}
