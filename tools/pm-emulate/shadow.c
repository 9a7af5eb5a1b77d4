/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shadow.c - see shadow.h, and shared.h for the invariants.
 */
#include "shadow.h"
#include "model.h"
#include "region.h"

#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LINE = ARCH_FLUSH_LINE, WORDS = LINE / 8, RECENT = 32 };

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
	/* INV-PE3.  Acquire: nothing below is done before the look. */
	if (__builtin_expect(__atomic_load_n(&region_control->failed, __ATOMIC_ACQUIRE) != 0, 0))
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

/* Hold this thread up now and then, so that others overtake it between a store and its
 * durability. */
static void perturb(void)
{
	if (!region_control->settings.perturb)
		return;
	uint64_t r = next_random();
	nap(r % 1024 == 0 ? 2000000 : r % 32 == 0 ? 10000 + (r >> 32) % 190000 : 0);
}

/* This was the chosen flush or fence.  From here on other threads may run for a moment, but nothing
 * they write back gets out, and no call returns that would tell them so: what they store is what
 * lay in a cache.  The launcher kills all processes at once: nobody lives to see that another has
 * died. */
static void fail_if_chosen(enum pme_fail kind, uint64_t number)
{
	if (__builtin_expect(region_control->settings.fail != kind ||
	                             region_control->settings.fail_at != number,
	            1))
		return;
	/* Time for others to build on what this thread has stored and not made durable: nothing of
	 * that may be acknowledged. */
	if (region_control->settings.perturb)
		nap(next_random() % 500000);
	__atomic_store_n(&region_control->failed, 1, __ATOMIC_SEQ_CST);
	wait_for_the_end();
}

/* ----------------------------------------------------------------- threads */

static void left_under_way(const struct pme_write_back *w)
{
	find(&region_control->counters.unfenced, w->region, w->offset);
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
	/* Release: the slot is as it should be found before somebody takes it. */
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
		pthread_setspecific(ends, t);
		return;
	}
	region_give_up("more than 1024 threads flush: run the program with fewer");
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

/* ------------------------------------------------------- write-backs, fences */

/* Word by word: INV-PE1.  Atomics, so that it is not made a memcpy(). */
static void copy_line(uint64_t *to, const uint64_t *from)
{
	for (int k = 0; k < WORDS; k++)
		__atomic_store_n(
		        &to[k], __atomic_load_n(&from[k], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* The calling thread's write-backs reach the medium, each unless a later one of the same line
 * has. */
static void complete(void)
{
	region_lock();
	for (uint32_t k = 0; k < self.shared->n; k++) {
		const struct pme_write_back *w = &self.under_way[k];
		struct region_view *v = region_view(w->region, w->offset + LINE);
		struct pme_line *line = &v->lines[w->offset / LINE];
		if (line->number >= w->number)
			continue;
		copy_line((uint64_t *)(v->medium + w->offset), w->content);
		/* Release: killed here, the launcher must not take the line for out before it
		 * is. */
		__atomic_store_n(&line->number, w->number, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&self.shared->n, 0, __ATOMIC_RELEASE);
	region_unlock();
}

/* Now and then a line leaves the cache by itself, as it is: one that this thread has written back
 * before, for it is likely to have been stored to since. */
static void evict(void)
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

/* What is worth reporting of a write-back that begins. */
static void look(uint32_t region, uint64_t offset, struct region_view *v, const uint64_t *content)
{
	struct pme_line *line = &v->lines[offset / LINE];
	if (line->thread == self.id && line->fence == self.fence)
		find(&region_control->counters.again, region, offset);
	else if (!memcmp(v->medium + offset, content, LINE))
		find(&region_control->counters.unchanged, region, offset);
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
	/* The number before the content is read, both in this order for everybody: of two
	 * write-backs of a line the one with the higher number has whatever the thread of the lower
	 * one had stored before its own. */
	w->number = __atomic_add_fetch(&region_control->number, 1, __ATOMIC_SEQ_CST);
	copy_line(w->content, from);
	look(region, offset, region_view_mapped(region), w->content);
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
	fail_if_chosen(PME_AT_FLUSH,
	        __atomic_add_fetch(&region_control->counters.flushes, 1, __ATOMIC_RELAXED));
	uintptr_t at = (uintptr_t)start & ~(uintptr_t)(LINE - 1), end = (uintptr_t)start + bytes;
	const struct region_mapping *m = NULL;
	uint64_t lines = 0, fetched = 0;
	for (; at < end; at += LINE) {
		if (!m || at - m->base >= m->bytes)
			m = region_mapping_at(at);
		if (!m) {
			count(&region_control->counters.outside, 1);
			return;
		}
		uint64_t offset = m->offset + (at - m->base);
		begin_write_back(m->region, offset, (const void *)at);
		self.recent[at / LINE % RECENT] = at;
		fetched += model_miss(m->region, offset);
		lines++;
	}
	count(&region_control->counters.lines, lines);
	count(&region_control->counters.fetched, fetched);
	count(&region_control->counters.read_wait_ns, model_read(fetched));
	model_write(&self.model, lines);
}

void shadow_fence(void)
{
	start_of_call();
	evict();
	perturb();
	fail_if_chosen(PME_AT_FENCE,
	        __atomic_add_fetch(&region_control->counters.fences, 1, __ATOMIC_RELAXED));
	if (!self.shared->n)
		count(&region_control->counters.idle_fences, 1);
	count(&region_control->counters.write_wait_ns, model_wait(&self.model));
	complete(); /* INV-PE2 */
	self.fence = (self.fence + 1) % PME_UNFENCED;
	/* What a fence is for: nothing the program does later is seen before. */
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
		count(&region_control->counters.fetched, fetched);
		count(&region_control->counters.read_wait_ns, model_read(fetched));
	}
}

/* -------------------------------------------------------------------- syncs */

static void sync_line(struct region_view *v, uint64_t offset, const void *from, uint64_t number)
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
	count(&region_control->counters.syncs, 1);
	fail_if_chosen(PME_AT_FENCE,
	        __atomic_add_fetch(&region_control->counters.fences, 1, __ATOMIC_RELAXED));
	/* Before the content is read, as in begin_write_back(). */
	return __atomic_add_fetch(&region_control->number, 1, __ATOMIC_SEQ_CST);
}

void shadow_sync_range(const void *start, size_t bytes)
{
	uintptr_t at = (uintptr_t)start & ~(uintptr_t)(LINE - 1), end = (uintptr_t)start + bytes;
	const struct region_mapping *m = NULL;
	uint64_t number = begin_sync();
	region_lock();
	for (; at < end; at += LINE) {
		if (!m || at - m->base >= m->bytes)
			m = region_mapping_at(at);
		if (!m)
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
	uint64_t number = begin_sync(), content[4096 / 8];
	region_lock();
	int region = region_of_file(fd, false);
	uint64_t bytes = region < 0 ? 0 : region_control->region[region].bytes;
	struct region_view *v = bytes ? region_view((uint32_t)region, bytes) : NULL;
	for (uint64_t at = v ? region_next_data(fd, (uint32_t)region, 0) : bytes; at < bytes;
	        at = region_next_data(fd, (uint32_t)region, at)) {
		uint64_t n = sizeof content - at % sizeof content;
		memset(content, 0, sizeof content);
		if (pread(fd, content, n, (off_t)at) < 0)
			break;
		for (uint64_t k = 0; k < n; k += LINE)
			sync_line(v, at + k, (uint8_t *)content + k, number);
		at += n;
	}
	region_unlock();
	stop_if_failed();
}

/* ---------------------------------------------------------------- beginning */

/* Priority 101: before the program's own constructors, which may map files. */
__attribute__((constructor(101))) static void begin(void)
{
	if (!region_begin())
		return;
	pthread_key_create(&ends, thread_ends);
	pthread_atfork(NULL, NULL, in_the_child);
	model_init(&region_control->settings);
}

__attribute__((destructor)) static void end(void)
{
	if (region_control && self.shared)
		thread_ends(self.shared);
}
