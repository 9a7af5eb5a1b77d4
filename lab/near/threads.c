/* SPDX-License-Identifier: BSD-3-Clause
 *
 * threads.c - the native back end: an element's tasklets are threads of this process.
 *
 * A launch starts a manager thread for the rank.  It runs the elements in waves, of as many
 * elements as near_options.host_threads says; elements with coherent memory run in one wave.
 *
 * Transfers that a kernel begins are delayed as long as the rules allow, until the wait, so that a
 * kernel that breaks a rule computes a wrong result or is faulty every time, not by chance:
 *
 *   INV-NT1  Until the wait the target of a preload is filled with NEAR_POISON, and the memory is
 *            not read.  If it is not full of it at the wait, it has been stored to (INV-NM3).
 *   INV-NT2  Until the wait the memory that an unload writes is as it was.  If its source has
 *            another sum at the wait, it has been stored to (INV-NM3).
 */
#include "base/error.h"
#include "base/memory.h"
#include "base/remedy.h"
#include "base/thread.h"
#include "near/backend.h"
#include "near/kernel.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	MOST_ELEMENTS = 64,
	SCRATCH_BYTES = 65536,
	LOCKS = 256,
	NOTHING = -1, /* what a tasklet waits for, if no lock; a lock is its number */
	BARRIER = -2,
};

static const uint64_t MEMORY_BYTES = 64 << 20;

struct transfer {
	uint8_t *scratch;
	uint32_t memory, bytes;
	uint64_t sum; /* of an unload's source */
};

struct fifo {
	struct transfer at[NEAR_FIFO];
	unsigned first, n;
};

struct tasklet {
	struct near_place place;
	struct element *element;
	struct fifo preloads, unloads;
	int waits_for;
	bool returned;
	pthread_t thread;
};

/* The tasklets that share locks and barriers: those of an element, or of a rank. */
struct group {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct tasklet *tasklets; /* [n] */
	unsigned n;
	struct tasklet *holders[LOCKS];
	struct near_fault_report fault;
};

struct element {
	struct rank *rank;
	struct group *group;
	uint8_t *memory;
	void *shared;
	atomic_ullong transfers, bytes;
};

struct rank {
	struct machine *machine;
	const struct near_kernel *kernel;
	struct element *elements; /* [shape.elements] */
	struct group *groups;     /* one for each element, or one */
	struct tasklet *tasklets; /* [elements * launched] */
	uint8_t *memory;
	uint64_t mapped;
	unsigned launched;
	pthread_t manager;
	atomic_bool ended;
	struct near_counters counters;
};

struct machine {
	struct near_shape shape;
	unsigned wave;
	struct rank *ranks;
};

static _Thread_local struct tasklet *self;

/* ----------------------------------------------------------------- waiting */

/* Does the tasklet go on by itself? */
static bool is_awake(const struct tasklet *t)
{
	return !t->returned && t->waits_for == NOTHING;
}

static void open_barrier_if_full(struct group *g)
{
	for (unsigned k = 0; k < g->n; k++)
		if (!g->tasklets[k].returned && g->tasklets[k].waits_for != BARRIER)
			return;
	for (unsigned k = 0; k < g->n; k++)
		if (g->tasklets[k].waits_for == BARRIER)
			g->tasklets[k].waits_for = NOTHING;
	pthread_cond_broadcast(&g->changed);
}

/* The mutex is held. */
static void report(
        struct group *g, const struct tasklet *t, enum near_fault_kind kind, uint32_t address)
{
	if (g->fault.kind == NEAR_FAULT_NONE)
		g->fault = (struct near_fault_report){.kind = kind,
		        .element = t->place.element,
		        .tasklet = t->place.me,
		        .address = address};
	pthread_cond_broadcast(&g->changed);
}

/* End this tasklet's thread: the body is not returned to. */
static void __attribute__((noreturn)) stop_with(struct group *g)
{
	pthread_mutex_unlock(&g->mutex);
	pthread_exit(NULL);
}

static void __attribute__((noreturn)) fail(enum near_fault_kind kind, uint32_t address)
{
	struct group *g = self->element->group;
	pthread_mutex_lock(&g->mutex);
	report(g, self, kind, address);
	stop_with(g);
}

/* Wait for `what`, with the mutex held, until another tasklet lets this one go on. */
static void sleep_for(struct group *g, int what)
{
	self->waits_for = what;
	if (what == BARRIER)
		open_barrier_if_full(g);
	bool awake = false;
	for (unsigned k = 0; k < g->n; k++)
		awake |= is_awake(&g->tasklets[k]);
	if (!awake)
		report(g, self, NEAR_FAULT_DEADLOCK, 0);
	while (self->waits_for != NOTHING && g->fault.kind == NEAR_FAULT_NONE)
		pthread_cond_wait(&g->changed, &g->mutex);
	if (g->fault.kind != NEAR_FAULT_NONE)
		stop_with(g);
}

/* ----------------------------------------------------------------- transfers */

static uint64_t sum_of(const uint8_t *from, uint32_t bytes)
{
	uint64_t sum = 1469598103934665603u;
	for (uint32_t k = 0; k < bytes; k++)
		sum = (sum ^ from[k]) * 1099511628211u;
	return sum;
}

static void check_transfer(const void *scratch, uint32_t memory, uint32_t bytes)
{
	const struct near_shape *s = &self->element->rank->machine->shape;
	const uint32_t low = s->transfer_align - 1;
	if (bytes == 0 || bytes > s->transfer_most || (bytes & low) || (memory & low) ||
	        ((uintptr_t)scratch & low))
		fail(NEAR_FAULT_TRANSFER, memory);
	if (memory > s->memory_bytes || bytes > s->memory_bytes - memory)
		fail(NEAR_FAULT_MEMORY, memory);
	atomic_fetch_add_explicit(&self->element->transfers, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&self->element->bytes, bytes, memory_order_relaxed);
}

/* Carry out the oldest preload (INV-NT1). */
static void finish_preload(struct fifo *f)
{
	const struct transfer t = f->at[f->first];
	for (uint32_t k = 0; k < t.bytes; k++)
		if (t.scratch[k] != NEAR_POISON)
			fail(NEAR_FAULT_OVERWRITTEN, t.memory);
	memcpy(t.scratch, self->element->memory + t.memory, t.bytes);
	f->first = (f->first + 1) % NEAR_FIFO;
	f->n--;
}

/* Carry out the oldest unload (INV-NT2). */
static void finish_unload(struct fifo *f)
{
	const struct transfer t = f->at[f->first];
	if (sum_of(t.scratch, t.bytes) != t.sum)
		fail(NEAR_FAULT_OVERWRITTEN, t.memory);
	memcpy(self->element->memory + t.memory, t.scratch, t.bytes);
	f->first = (f->first + 1) % NEAR_FIFO;
	f->n--;
}

static struct transfer *next_of(struct fifo *f)
{
	return &f->at[(f->first + f->n++) % NEAR_FIFO];
}

/* ----------------------------------------------------------------- the kernel's calls */

const struct near_place *near_native_place(void)
{
	return &self->place;
}

void near_native_read(void *to, uint32_t from, uint32_t bytes)
{
	check_transfer(to, from, bytes);
	memcpy(to, self->element->memory + from, bytes);
}

void near_native_write(uint32_t to, const void *from, uint32_t bytes)
{
	check_transfer(from, to, bytes);
	memcpy(self->element->memory + to, from, bytes);
}

void near_native_preload(void *to, uint32_t from, uint32_t bytes)
{
	check_transfer(to, from, bytes);
	if (self->preloads.n == NEAR_FIFO)
		finish_preload(&self->preloads);
	*next_of(&self->preloads) = (struct transfer){to, from, bytes, 0};
	memset(to, NEAR_POISON, bytes); /* INV-NT1 */
}

void near_native_unload(uint32_t to, const void *from, uint32_t bytes)
{
	check_transfer(from, to, bytes);
	if (self->unloads.n == NEAR_FIFO)
		finish_unload(&self->unloads);
	/* finish_unload() only reads it. */
	*next_of(&self->unloads) =
	        (struct transfer){(uint8_t *)(uintptr_t)from, to, bytes, sum_of(from, bytes)};
}

void near_native_wait(unsigned transfers)
{
	while ((transfers & NEAR_UNLOADS) && self->unloads.n)
		finish_unload(&self->unloads);
	while ((transfers & NEAR_PRELOADS) && self->preloads.n)
		finish_preload(&self->preloads);
}

void near_native_acquire(uint32_t bit)
{
	struct group *g = self->element->group;
	if (bit >= LOCKS)
		fail(NEAR_FAULT_LOCK, bit);
	pthread_mutex_lock(&g->mutex);
	while (g->holders[bit])
		sleep_for(g, (int)bit);
	g->holders[bit] = self;
	pthread_mutex_unlock(&g->mutex);
}

void near_native_release(uint32_t bit)
{
	struct group *g = self->element->group;
	if (self->unloads.n) /* INV-NM4 */
		fail(NEAR_FAULT_RELEASED, bit);
	pthread_mutex_lock(&g->mutex);
	if (bit >= LOCKS || g->holders[bit] != self) {
		report(g, self, NEAR_FAULT_LOCK, bit);
		stop_with(g);
	}
	g->holders[bit] = NULL;
	for (unsigned k = 0; k < g->n; k++)
		if (g->tasklets[k].waits_for == (int)bit)
			g->tasklets[k].waits_for = NOTHING;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->mutex);
}

void near_native_barrier(void)
{
	struct group *g = self->element->group;
	if (self->unloads.n) /* INV-NM4 */
		fail(NEAR_FAULT_RELEASED, 0);
	pthread_mutex_lock(&g->mutex);
	sleep_for(g, BARRIER);
	pthread_mutex_unlock(&g->mutex);
}

void near_native_fault(uint32_t code)
{
	fail(NEAR_FAULT_KERNEL, code);
}

/* ----------------------------------------------------------------- running */

static void *run_tasklet(void *arg)
{
	self = arg;
	struct group *g = self->element->group;
	self->element->rank->kernel->run(self->element->shared);
	pthread_mutex_lock(&g->mutex);
	if (self->preloads.n || self->unloads.n) /* INV-NM4 */
		report(g, self, NEAR_FAULT_UNFINISHED, 0);
	self->returned = true;
	open_barrier_if_full(g);
	bool awake = false, waits = false;
	for (unsigned k = 0; k < g->n; k++) {
		awake |= is_awake(&g->tasklets[k]);
		waits |= !g->tasklets[k].returned;
	}
	if (waits && !awake)
		report(g, self, NEAR_FAULT_DEADLOCK, 0);
	pthread_mutex_unlock(&g->mutex);
	return NULL;
}

/* Run tasklets [from, to) of the rank, and wait for their ends. */
static void run_wave(struct rank *r, unsigned from, unsigned to)
{
	unsigned started = from;
	while (started < to &&
	        !thread_start(&r->tasklets[started].thread, run_tasklet, &r->tasklets[started]))
		started++;
	for (unsigned k = started; k < to; k++) {
		struct group *g = r->tasklets[k].element->group;
		pthread_mutex_lock(&g->mutex);
		report(g, &r->tasklets[k], NEAR_FAULT_STUCK, 0);
		pthread_mutex_unlock(&g->mutex);
	}
	for (unsigned k = from; k < started; k++)
		pthread_join(r->tasklets[k].thread, NULL);
}

static void *manage(void *arg)
{
	struct rank *r = arg;
	const struct near_shape *s = &r->machine->shape;
	const unsigned wave = s->coherent ? s->elements : r->machine->wave;
	for (unsigned k = 0; k < s->elements; k += wave) {
		unsigned end = k + wave < s->elements ? k + wave : s->elements;
		run_wave(r, k * r->launched, end * r->launched);
	}
	/* Release: poll() reads what the tasklets have stored. */
	atomic_store_explicit(&r->ended, true, memory_order_release);
	return NULL;
}

static unsigned groups_of(const struct near_shape *s)
{
	return s->coherent ? 1 : s->elements;
}

static int threads_launch(void *machine, unsigned rank, unsigned tasklets)
{
	struct machine *m = machine;
	struct rank *r = &m->ranks[rank];
	const unsigned n = m->shape.elements * tasklets;
	r->tasklets = calloc(n, sizeof(*r->tasklets));
	if (!r->tasklets)
		return fur_fail(FUR_ENOMEM, "no memory for %u tasklets: launch fewer", n);
	r->launched = tasklets;
	for (unsigned k = 0; k < n; k++)
		r->tasklets[k] = (struct tasklet){
		        .place = {k % tasklets, tasklets, k / tasklets, m->shape.elements},
		        .element = &r->elements[k / tasklets],
		        .waits_for = NOTHING};
	const unsigned groups = groups_of(&m->shape);
	for (unsigned k = 0; k < groups; k++) {
		struct group *g = &r->groups[k];
		g->n = n / groups;
		g->tasklets = &r->tasklets[(size_t)k * g->n];
		g->fault = (struct near_fault_report){0};
		memset(g->holders, 0, sizeof(g->holders));
	}
	atomic_store_explicit(&r->ended, false, memory_order_relaxed);
	int error = thread_start(&r->manager, manage, r);
	if (error) {
		free(r->tasklets);
		r->tasklets = NULL;
		return fail_system(FUR_ESYS, CALL_THREAD, error, NULL, "cannot start a thread");
	}
	r->counters.launches++;
	return 0;
}

static enum near_state threads_poll(void *machine, unsigned rank, struct near_fault_report *fault)
{
	struct machine *m = machine;
	struct rank *r = &m->ranks[rank];
	if (!atomic_load_explicit(&r->ended, memory_order_acquire))
		return NEAR_RUNNING;
	pthread_join(r->manager, NULL);
	free(r->tasklets);
	r->tasklets = NULL;
	for (unsigned k = 0; k < groups_of(&m->shape); k++)
		if (r->groups[k].fault.kind != NEAR_FAULT_NONE) {
			*fault = r->groups[k].fault;
			return NEAR_FAULTED;
		}
	return NEAR_DONE;
}

/* ----------------------------------------------------------------- load, push, pull, count */

static int threads_load(void *machine, unsigned rank, const struct near_kernel *kernel)
{
	struct machine *m = machine;
	struct rank *r = &m->ranks[rank];
	r->kernel = kernel;
	r->counters = (struct near_counters){.static_bytes = kernel->shared_bytes};
	for (unsigned k = 0; k < m->shape.elements; k++) {
		struct element *e = &r->elements[k];
		memset(e->shared, 0, SCRATCH_BYTES);
		atomic_store_explicit(&e->transfers, 0, memory_order_relaxed);
		atomic_store_explicit(&e->bytes, 0, memory_order_relaxed);
	}
	return 0;
}

static uint8_t *row_of(const struct rank *r, const struct near_copy *c, unsigned row)
{
	const struct element *e = &r->elements[row];
	return (c->space == NEAR_SHARED ? (uint8_t *)e->shared : e->memory) + c->offset;
}

static void threads_push(
        void *machine, unsigned rank, const struct near_copy *c, const void *matrix)
{
	struct rank *r = &((struct machine *)machine)->ranks[rank];
	for (unsigned k = 0; k < c->rows; k++)
		memcpy(row_of(r, c, k), (const uint8_t *)matrix + k * c->bytes, c->bytes);
	r->counters.pushed_bytes += c->rows * c->bytes;
}

static void threads_pull(void *machine, unsigned rank, const struct near_copy *c, void *matrix)
{
	struct rank *r = &((struct machine *)machine)->ranks[rank];
	for (unsigned k = 0; k < c->rows; k++)
		memcpy((uint8_t *)matrix + k * c->bytes, row_of(r, c, k), c->bytes);
	r->counters.pulled_bytes += c->rows * c->bytes;
}

static void threads_count(void *machine, unsigned rank, struct near_counters *counters)
{
	const struct machine *m = machine;
	const struct rank *r = &m->ranks[rank];
	*counters = r->counters;
	for (unsigned k = 0; k < m->shape.elements; k++) {
		counters->transfers +=
		        atomic_load_explicit(&r->elements[k].transfers, memory_order_relaxed);
		counters->transferred_bytes +=
		        atomic_load_explicit(&r->elements[k].bytes, memory_order_relaxed);
	}
}

/* ----------------------------------------------------------------- opening */

static void close_rank(const struct near_shape *s, struct rank *r)
{
	for (unsigned k = 0; r->elements && k < s->elements; k++)
		free(r->elements[k].shared);
	for (unsigned k = 0; r->groups && k < groups_of(s); k++) {
		pthread_mutex_destroy(&r->groups[k].mutex);
		pthread_cond_destroy(&r->groups[k].changed);
	}
	if (r->memory)
		munmap(r->memory, r->mapped);
	free(r->elements);
	free(r->groups);
}

static void threads_close(void *machine)
{
	struct machine *m = machine;
	for (unsigned k = 0; m->ranks && k < m->shape.ranks; k++)
		close_rank(&m->shape, &m->ranks[k]);
	free(m->ranks);
	free(m);
}

static bool open_rank(struct machine *m, struct rank *r)
{
	const struct near_shape *s = &m->shape;
	const unsigned groups = groups_of(s);
	r->machine = m;
	r->mapped = s->memory_bytes * groups;
	void *memory = mmap(NULL, r->mapped, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	r->memory = memory == MAP_FAILED ? NULL : memory;
	r->elements = calloc(s->elements, sizeof(*r->elements));
	r->groups = calloc(groups, sizeof(*r->groups));
	for (unsigned k = 0; r->groups && k < groups; k++) {
		pthread_mutex_init(&r->groups[k].mutex, NULL);
		pthread_cond_init(&r->groups[k].changed, NULL);
	}
	if (!r->memory || !r->elements || !r->groups)
		return false;
	for (unsigned k = 0; k < s->elements; k++) {
		struct element *e = &r->elements[k];
		e->rank = r;
		e->group = &r->groups[s->coherent ? 0 : k];
		e->memory = r->memory + (s->coherent ? 0 : k * s->memory_bytes);
		e->shared = memory_padded(SCRATCH_BYTES);
		if (!e->shared)
			return false;
	}
	return true;
}

static int check_options(const struct near_options *o, bool *coherent)
{
	const char *name = o->machine ? o->machine : "exclusive";
	*coherent = strcmp(name, "coherent") == 0;
	if (!*coherent && strcmp(name, "exclusive") != 0)
		return fur_fail(FUR_EINVAL,
		        "%s: the back end `threads` has no such machine: use exclusive or coherent",
		        name);
	if (o->elements > MOST_ELEMENTS || o->ranks > MOST_ELEMENTS)
		return fur_fail(FUR_EINVAL,
		        "%u ranks of %u elements: the back end `threads` has at most %u of each",
		        o->ranks, o->elements, MOST_ELEMENTS);
	if (o->memory_bytes > UINT32_MAX)
		return fur_fail(FUR_EINVAL,
		        "%llu bytes of memory: a kernel's addresses have 32 bits, use less than "
		        "4 GiB",
		        (unsigned long long)o->memory_bytes);
	return 0;
}

static int threads_open(const struct near_options *o, struct near_shape *shape, void **machine)
{
	bool coherent;
	int error = check_options(o, &coherent);
	if (error)
		return error;
	struct machine *m = calloc(1, sizeof(*m));
	if (!m)
		return fur_fail(FUR_ENOMEM, "no memory for a near-memory machine: free some");
	m->wave = o->host_threads ? o->host_threads : 1;
	m->shape = (struct near_shape){.ranks = o->ranks ? o->ranks : 1,
	        .elements = o->elements ? o->elements : 1,
	        .tasklets = NEAR_MOST_TASKLETS,
	        .coherent = coherent,
	        .memory_bytes = o->memory_bytes ? o->memory_bytes : MEMORY_BYTES,
	        .scratch_bytes = SCRATCH_BYTES,
	        .transfer_align = coherent ? 1 : 8,
	        .transfer_most = coherent ? SCRATCH_BYTES : 2048,
	        .locks = LOCKS};
	m->ranks = calloc(m->shape.ranks, sizeof(*m->ranks));
	bool enough = m->ranks;
	for (unsigned k = 0; enough && k < m->shape.ranks; k++)
		enough = open_rank(m, &m->ranks[k]);
	if (!enough) {
		threads_close(m);
		return fur_fail(FUR_ENOMEM,
		        "no memory for %u ranks of %u elements: use fewer, or less memory_bytes",
		        o->ranks, o->elements);
	}
	*shape = m->shape;
	*machine = m;
	return 0;
}

const struct near_backend near_threads = {
        .name = "threads",
        .open = threads_open,
        .load = threads_load,
        .push = threads_push,
        .pull = threads_pull,
        .launch = threads_launch,
        .poll = threads_poll,
        .count = threads_count,
        .close = threads_close,
};
