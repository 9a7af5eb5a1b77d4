/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shadow.c - write-backs, fences and syncs, as they reach the media (shadow.h).  Keeps INV-PE1,
 * INV-PE2 and INV-PE3, which shared.h states.
 */
#include "shadow.h"
#include "model.h"
#include "region.h"

#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	LINE = ARCH_FLUSH_LINE,
	WORDS = LINE / 8,
	RECENT = 32,
	PAGE = 4096,
	SYNC_BYTES = 65536, /* read from a file at a time */
};

/* The state of the calling thread. */
static __thread struct self {
	struct pme_thread *shared;
	struct pme_write_back *under_way;
	uint32_t id, fence;
	uint64_t random;
	uintptr_t recent[RECENT]; /* some of the lines that it has written back */
	struct model_thread model;
} self __attribute__((tls_model("initial-exec")));
static pthread_key_t thread_end_key;

static void add_to_count(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static void note_finding(struct pme_finding *finding, uint32_t region, uint64_t offset)
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
	/* INV-PE3.  Acquire: the calling function does nothing before this look. */
	if (__builtin_expect(__atomic_load_n(&region_control->failed, __ATOMIC_ACQUIRE) != 0, 0))
		wait_for_the_end();
}

static uint64_t next_random(void)
{
	return pme_mix(self.random += UINT64_C(0x9e3779b97f4a7c15));
}

static void nap_ns(uint64_t ns)
{
	if (ns)
		syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* Delay this thread now and then, so that others overtake it between a store and its durability. */
static void perturb_thread(void)
{
	if (!region_control->settings.perturb)
		return;
	uint64_t r = next_random();
	nap_ns(r % 1024 == 0 ? 2000000 : r % 32 == 0 ? 10000 + (r >> 32) % 190000 : 0);
}

/* If this is the chosen flush or fence, let the power fail.  Other threads may still run for a
 * moment.  But none of their write-backs reaches the medium, and no call returns that would say so
 * (INV-PE3): their stores only lay in a cache.  The launcher kills all processes at once, so none
 * lives to see another one die. */
static void fail_if_chosen(enum pme_fail kind, uint64_t number)
{
	if (__builtin_expect(region_control->settings.fail != kind ||
	                             region_control->settings.fail_at != number,
	            1))
		return;
	/* Give other threads time to build on this thread's stores, which are not durable: they may
	 * acknowledge nothing of that. */
	if (region_control->settings.perturb)
		nap_ns(next_random() % 500000);
	__atomic_store_n(&region_control->failed, 1, __ATOMIC_SEQ_CST);
	wait_for_the_end();
}

/* ----------------------------------------------------------------- threads */

static void left_under_way(const struct pme_write_back *w)
{
	note_finding(&region_control->counters.unfenced, w->region, w->offset);
	region_view_mapped(w->region)->lines[w->offset / LINE].fence = PME_UNFENCED;
}

static void thread_ends(void *slot)
{
	struct pme_thread *t = slot;
	for (uint32_t k = 0; k < t->n; k++)
		left_under_way(&self.under_way[k]);
	t->n = 0;
	t->fence = self.fence + 1;
	syscall(SYS_munmap, self.under_way, PME_UNDER_WAY_BYTES);
	self.shared = NULL;
	/* Release: the thread that takes the slot next finds it as this one leaves it. */
	__atomic_store_n(&t->process, 0, __ATOMIC_RELEASE);
}

static void become_a_thread(void)
{
	for (uint32_t k = 0; k < PME_THREADS; k++) {
		struct pme_thread *t = &region_control->thread[k];
		uint32_t nobody = 0;
		if (t->process ||
		        !__atomic_compare_exchange_n(&t->process, &nobody, (uint32_t)getpid(),
		                false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		if (!(self.under_way = region_map_memory(
		              PME_UNDER_WAY_AT + k * PME_UNDER_WAY_BYTES, PME_UNDER_WAY_BYTES)))
			region_give_up("no memory for a thread's write-backs");
		self.shared = t;
		self.id = k + 1;
		self.fence = t->fence % PME_UNFENCED;
		self.random =
		        region_control->settings.seed * UINT64_C(0x2545f4914f6cdd1d) + self.id;
		pthread_setspecific(thread_end_key, t);
		return;
	}
	region_give_up("more than 1024 threads flush: run the program with fewer");
}

/* A child has its parent's mappings, but nothing under way. */
static void in_the_child(void)
{
	memset(&self, 0, sizeof self);
	pthread_setspecific(thread_end_key, NULL);
}

static void start_of_call(void)
{
	stop_if_failed();
	if (!self.shared)
		become_a_thread();
}

/* ------------------------------------------------------- write-backs, fences */

/* Copy word by word (INV-PE1).  The accesses are atomic so that the compiler does not turn the loop
 * into memcpy(). */
static void copy_line(uint64_t *to, const uint64_t *from)
{
	for (int k = 0; k < WORDS; k++)
		__atomic_store_n(
		        &to[k], __atomic_load_n(&from[k], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* Complete the calling thread's write-backs: each reaches the medium, unless a later one of the
 * same line has already. */
static void complete_write_backs(void)
{
	region_lock();
	for (uint32_t k = 0; k < self.shared->n; k++) {
		const struct pme_write_back *w = &self.under_way[k];
		struct region_view *v = region_view(w->region, w->offset + LINE);
		struct pme_line *line = &v->lines[w->offset / LINE];
		if (line->number >= w->number)
			continue;
		copy_line((uint64_t *)(v->medium + w->offset), w->content);
		/* Release: if this process is killed here, the launcher must not take the line for
		 * written before it is. */
		__atomic_store_n(&line->number, w->number, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&self.shared->n, 0, __ATOMIC_RELEASE);
	region_unlock();
}

/* Now and then evict a line: it reaches the medium as it is, without a write-back.  Choose one that
 * this thread has written back before, for it is likely to have stored to it since. */
static void evict_line(void)
{
	if (!region_control->settings.perturb)
		return;
	uint64_t r = next_random();
	uintptr_t at = self.recent[r >> 32 & (RECENT - 1)];
	const struct region_mapping *m = r % 8 == 0 && at ? region_mapping_at(at) : NULL;
	if (!m)
		return;
	uint64_t offset = m->offset + (at - m->base), content[WORDS];
	region_lock();
	struct region_view *v = region_view(m->region, offset + LINE);
	uint64_t number = __atomic_add_fetch(&region_control->number, 1, __ATOMIC_SEQ_CST);
	copy_line(content, (const void *)at);
	copy_line((uint64_t *)(v->medium + offset), content);
	__atomic_store_n(&v->lines[offset / LINE].number, number, __ATOMIC_RELEASE);
	region_unlock();
}

/* Note the findings about a write-back that begins. */
static void look_at_write_back(
        uint32_t region, uint64_t offset, struct region_view *v, const uint64_t *content)
{
	struct pme_line *line = &v->lines[offset / LINE];
	if (line->thread == self.id && line->fence == self.fence)
		note_finding(&region_control->counters.again, region, offset);
	else if (!memcmp(v->medium + offset, content, LINE))
		note_finding(&region_control->counters.unchanged, region, offset);
	line->thread = self.id;
	line->fence = self.fence;
}

/* The mapping of the line at `at`; `last` is that of the line before, or NULL. */
static const struct region_mapping *mapping_of_line(const struct region_mapping *last, uintptr_t at)
{
	return last && at - last->base < last->bytes ? last : region_mapping_at(at);
}

static void begin_write_back(uint32_t region, uint64_t offset, const void *from)
{
	if (self.shared->n == PME_UNDER_WAY)
		complete_write_backs();
	struct pme_write_back *w = &self.under_way[self.shared->n];
	w->region = region;
	w->offset = offset;
	/* Draw the number before reading the content, as every thread does.  So of two write-backs
	 * of a line, the one with the higher number contains every store that the thread of the
	 * other one made before its own write-back (INV-PE2). */
	w->number = __atomic_add_fetch(&region_control->number, 1, __ATOMIC_SEQ_CST);
	copy_line(w->content, from);
	look_at_write_back(region, offset, region_view_mapped(region), w->content);
	/* Release: the launcher relies on the entries below n. */
	__atomic_store_n(&self.shared->n, self.shared->n + 1, __ATOMIC_RELEASE);
}

void shadow_flush(const void *start, size_t bytes)
{
	if (!bytes)
		return;
	start_of_call();
	evict_line();
	perturb_thread();
	fail_if_chosen(PME_AT_FLUSH,
	        __atomic_add_fetch(&region_control->counters.flushes, 1, __ATOMIC_RELAXED));
	uintptr_t at = (uintptr_t)start & ~(uintptr_t)(LINE - 1), end = (uintptr_t)start + bytes;
	const struct region_mapping *m = NULL;
	uint64_t lines = 0, fetched = 0;
	for (; at < end; at += LINE) {
		if (!(m = mapping_of_line(m, at))) {
			add_to_count(&region_control->counters.outside, 1);
			return;
		}
		uint64_t offset = m->offset + (at - m->base);
		begin_write_back(m->region, offset, (const void *)at);
		self.recent[at / LINE % RECENT] = at;
		fetched += model_miss(m->region, offset);
		lines++;
	}
	add_to_count(&region_control->counters.lines, lines);
	add_to_count(&region_control->counters.fetched, fetched);
	add_to_count(&region_control->counters.read_wait_ns, model_read(fetched));
	model_write(&self.model, lines);
}

void shadow_fence(void)
{
	start_of_call();
	evict_line();
	perturb_thread();
	fail_if_chosen(PME_AT_FENCE,
	        __atomic_add_fetch(&region_control->counters.fences, 1, __ATOMIC_RELAXED));
	if (!self.shared->n)
		add_to_count(&region_control->counters.idle_fences, 1);
	add_to_count(&region_control->counters.write_wait_ns, model_wait(&self.model));
	complete_write_backs(); /* INV-PE2 */
	self.fence = (self.fence + 1) % PME_UNFENCED;
	/* The purpose of a fence: none of the program's later stores is seen before it. */
	arch_fence();
	stop_if_failed();
}

void shadow_read(const void *start, size_t bytes)
{
	uintptr_t at = (uintptr_t)start & ~(uintptr_t)(LINE - 1), end = (uintptr_t)start + bytes;
	const struct region_mapping *m =
	        bytes && region_control->settings.read_ns ? region_mapping_at(at) : NULL;
	uint64_t fetched = 0;
	for (; m && at < end && at - m->base < m->bytes; at += LINE)
		fetched += model_miss(m->region, m->offset + (at - m->base));
	if (fetched) {
		add_to_count(&region_control->counters.fetched, fetched);
		add_to_count(&region_control->counters.read_wait_ns, model_read(fetched));
	}
}

/* -------------------------------------------------------------------- syncs */

/* INV-PE1, as complete_write_backs(). */
static void sync_line(struct region_view *v, uint64_t offset, const void *from, uint64_t number)
{
	if (!memcmp(v->medium + offset, from, LINE))
		return;
	copy_line((uint64_t *)(v->medium + offset), from);
	__atomic_store_n(&v->lines[offset / LINE].number, number, __ATOMIC_RELEASE);
}

static void sync_block(struct region_view *v, uint64_t offset, const uint8_t *from, uint64_t bytes,
        uint64_t number)
{
	for (uint64_t k = 0; k < bytes; k += PAGE) {
		uint64_t n = bytes - k < PAGE ? bytes - k : PAGE;
		if (!memcmp(v->medium + offset + k, from + k, n))
			continue;
		for (uint64_t line = k; line < k + n; line += LINE)
			sync_line(v, offset + line, from + line, number);
	}
}

/* For --fail-at a sync counts as a fence. */
static uint64_t begin_sync(void)
{
	start_of_call();
	perturb_thread();
	add_to_count(&region_control->counters.syncs, 1);
	fail_if_chosen(PME_AT_FENCE,
	        __atomic_add_fetch(&region_control->counters.fences, 1, __ATOMIC_RELAXED));
	/* Draw the number before reading the content, as begin_write_back() does. */
	return __atomic_add_fetch(&region_control->number, 1, __ATOMIC_SEQ_CST);
}

void shadow_sync_range(const void *start, size_t bytes)
{
	uintptr_t at = (uintptr_t)start & ~(uintptr_t)(LINE - 1), end = (uintptr_t)start + bytes;
	const struct region_mapping *m = NULL;
	uint64_t number = begin_sync();
	region_lock();
	for (; at < end; at += LINE) {
		if (!(m = mapping_of_line(m, at)))
			break;
		sync_line(region_view_mapped(m->region), m->offset + (at - m->base),
		        (const void *)at, number);
	}
	region_unlock();
	stop_if_failed();
}

void shadow_sync_file(int fd)
{
	if (!region_is_known(fd))
		return;
	/* Static: a thread's stack may be small.  The lock guards it. */
	static uint64_t content[SYNC_BYTES / 8];
	uint64_t number = begin_sync();
	region_lock();
	int region = region_of_file(fd, false);
	uint64_t bytes = region < 0 ? 0 : region_control->region[region].bytes;
	struct region_view *v = bytes ? region_view((uint32_t)region, bytes) : NULL;
	for (uint64_t at = v ? region_next_data(fd, (uint32_t)region, 0) : bytes; at < bytes;
	        at = region_next_data(fd, (uint32_t)region, at)) {
		uint64_t n = sizeof content - at % sizeof content;
		ssize_t got = pread(fd, content, n, (off_t)at);
		if (got < 0)
			break;
		memset((uint8_t *)content + got, 0, n - (uint64_t)got);
		sync_block(v, at, (const uint8_t *)content, n, number);
		at += n;
	}
	region_unlock();
	stop_if_failed();
}

/* ---------------------------------------------------------------- beginning */

/* Priority 101: it runs before the program's own constructors, which may map files. */
__attribute__((constructor(101))) static void library_begin(void)
{
	if (!region_begin())
		return;
	pthread_key_create(&thread_end_key, thread_ends);
	pthread_atfork(NULL, NULL, in_the_child);
	model_init(&region_control->settings);
}

__attribute__((destructor)) static void library_end(void)
{
	if (region_control && self.shared)
		thread_ends(self.shared);
}
