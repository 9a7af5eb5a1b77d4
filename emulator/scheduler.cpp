/* SPDX-License-Identifier: BSD-3-Clause
 *
 * scheduler.cpp - simulated threads are coroutines; the one with the smallest clock runs (INV-E1).
 * A run's beginning and end, and the calls that concern the run as a whole, are also here.
 */
#include "device.h"
#include "machine.hpp"

#include <cerrno>
#include <cxxabi.h>
#include <sys/mman.h>
#include <time.h>

namespace emu
{

Machine g;

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

/* ------------------------------------------------- the ready threads: a heap */

/* INV-E1: the smallest clock, ties broken by the seed (add_ready, give_way). */
static bool ready_before(const Ready &a, const Ready &b)
{
	return a.clock != b.clock ? a.clock < b.clock : a.tie < b.tie;
}

static void sift_down(int i)
{
	Ready moved = g.ready[i];
	for (int child; (child = 2 * i + 1) < g.waiting; i = child) {
		if (child + 1 < g.waiting && ready_before(g.ready[child + 1], g.ready[child]))
			child++;
		if (!ready_before(g.ready[child], moved))
			break;
		g.ready[i] = g.ready[child];
	}
	g.ready[i] = moved;
}

static void set_next()
{
	g.next = g.waiting ? g.ready[0].clock : NEVER;
	if (g.next > g.limit)
		g.next = g.limit; /* so that a thread that spins alone stops there as well */
}

static void add_ready(Thread &t)
{
	int i = g.waiting++;
	Ready entry = {t.clock, t.tie = static_cast<uint32_t>(g.random.next()), t.id};
	for (int up; i && ready_before(entry, g.ready[up = (i - 1) / 2]); i = up)
		g.ready[i] = g.ready[up];
	g.ready[i] = entry;
	set_next();
}

void hasten(Thread &t, Time then)
{
	int i = 0;
	while (i < g.waiting && g.ready[i].id != t.id)
		i++;
	if (i == g.waiting || then >= t.clock)
		return;
	Ready entry = {t.clock = then, t.tie, t.id};
	for (int up; i && ready_before(entry, g.ready[up = (i - 1) / 2]); i = up)
		g.ready[i] = g.ready[up];
	g.ready[i] = entry;
	set_next();
}

static Thread &take_ready()
{
	Thread &t = *g.threads[g.ready[0].id];
	g.ready[0] = g.ready[--g.waiting];
	if (g.waiting)
		sift_down(0);
	set_next();
	return t;
}

/* ------------------------------------------------------------------ switching */

/* The C++ runtime keeps its record of exceptions in flight per OS thread; each simulated thread has
 * a copy. */
static void **exception_state()
{
	static void **of_this_thread = reinterpret_cast<void **>(abi::__cxa_get_globals());
	return of_this_thread;
}

static void note_arrival(transfer_t from)
{
	/* The thread that jumped here has left a place for the context to which it will return. */
	*static_cast<fcontext_t *>(from.data) = from.fctx;
}

static void jump_to(Thread &t, fcontext_t &leaving, void **keep)
{
	void **current = exception_state();
	if (keep)
		memcpy(keep, current, sizeof t.exceptions);
	memcpy(current, t.exceptions, sizeof t.exceptions);
	g.self = &t;
	g.counters.switches++;
	note_arrival(jump_fcontext(t.context, &leaving));
}

static void after_switch(Thread &t)
{
	if (t.killed) {
		if (t.tx.active)
			doom(t, EMU_DISALLOWED);
		finish_thread(t);
	}
	if (t.tx.doomed && !t.tx.suspended)
		rewind(t);
}

/* INV-E1: the thread with the smallest clock runs. */
void give_way(Thread &t)
{
	if (t.clock > g.limit && g.next >= g.limit)
		end_run(EMU_LATE);
	Ready mine = {t.clock, t.tie = static_cast<uint32_t>(g.random.next()), t.id};
	if (!g.waiting || ready_before(mine, g.ready[0]))
		return;
	Thread &next = *g.threads[g.ready[0].id];
	g.ready[0] = mine;
	sift_down(0);
	set_next();
	jump_to(next, t.context, t.exceptions);
	after_switch(t);
}

void wait_until(Thread &t, Time then)
{
	t.clock = then;
	if (&t == g.self && t.clock > g.next)
		give_way(t);
}

static void run_next_thread(Thread &t)
{
	if (!g.waiting)
		end_run(EMU_DEADLOCK);
	if (g.ready[0].clock > g.limit)
		end_run(EMU_LATE);
	jump_to(take_ready(), t.context, t.exceptions);
}

void set_idle(Thread &t, bool is)
{
	if (t.idle == is)
		return;
	t.idle = is;
	Core &c = *t.core;
	c.busy += is ? -1u : 1u;
	const auto &factors = g.d->smt_slowdown;
	size_t n = c.busy ? c.busy : 1;
	double factor = &c == &g.cores[EMU_MAX_CORES] ? 1.0
	                : c.agent /* its cores have one hardware thread */
	                        ? static_cast<double>(n)
	                        : factors[(n < factors.size() ? n : factors.size()) - 1];
	c.slowdown = static_cast<uint32_t>(factor * 1024);
}

void block_thread(Thread &t)
{
	end_overlap(t);
	perform_all(t);
	t.state = State::BLOCKED;
	set_idle(t, true);
	run_next_thread(t);
	after_switch(t);
}

void wake_thread(Thread &t, Time at)
{
	if (t.state != State::BLOCKED)
		return;
	t.state = State::READY;
	at += g.d->wake;
	if (t.clock < at)
		t.clock = at;
	set_idle(t, false);
	add_ready(t);
}

/* ------------------------------------------------------------------ life */

static void thread_main(transfer_t from)
{
	note_arrival(from);
	Thread &t = *g.self;
	if (!t.killed)
		t.result = t.start(t.argument);
	finish_thread(*g.self);
}

static uint8_t *map_stack(size_t bytes)
{
	void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (p == MAP_FAILED)
		abort();
	return static_cast<uint8_t *>(p);
}

Thread *new_thread(void *(*start)(void *), void *argument)
{
	int id = g.thread_count;
	for (int k = 1; k < g.thread_count && id == g.thread_count; k++)
		if (g.threads[k]->state == State::FREE)
			id = k;
	if (id == EMU_MAX_THREADS)
		return nullptr;
	if (id == g.thread_count) {
		g.threads[id] = static_cast<Thread *>(__libc_calloc(1, sizeof(Thread)));
		if (!g.threads[id])
			return nullptr;
		g.thread_count++;
	}
	Thread &t = *g.threads[id];
	uint32_t epoch = t.epoch;
	Transaction tx = t.tx;
	Array<WriteBack> write_backs = t.write_backs;
	memset(static_cast<void *>(&t), 0, sizeof t);
	t.tx = tx; /* keep its arrays, which are empty */
	t.write_backs = write_backs;
	t.epoch = epoch;
	t.id = id;
	t.start = start;
	t.argument = argument;
	t.joiner = -1;
	t.until_stall = g.options.perturb
	                        ? 1 + static_cast<uint32_t>(g.random.below(2 * g.options.perturb))
	                        : 0;
	t.stack = g.stacks + static_cast<size_t>(id) * STACK_BYTES;
	t.context = make_fcontext(t.stack + STACK_BYTES - 64, STACK_BYTES - 64, thread_main);
	/* Thread 0 starts the others and waits for them: it has a core of its own.  The others fill
	 * first the cores, then the cores' further hardware threads. */
	t.core = id == 0 ? &g.cores[EMU_MAX_CORES]
	                 : &g.cores[static_cast<unsigned>(id - 1) % g.d->cores()];
	t.clock = g.self ? g.self->clock : 0;
	t.state = State::READY;
	t.idle = true;
	set_idle(t, false);
	add_ready(t);
	return &t;
}

void finish_thread(Thread &t)
{
	perform_all(t);
	if (t.id == 0)
		end_run(EMU_DONE);
	set_idle(t, true);
	t.state = t.detached ? State::FREE : State::DONE;
	if (t.joiner >= 0)
		wake_thread(*g.threads[t.joiner], t.clock);
	run_next_thread(t);
	__builtin_unreachable();
}

void end_run(emu_end how)
{
	Thread *t = g.self;
	g.end = how;
	g.counters.ns = t->clock / 1000;
	g.observed = t->clock;
	g.self = nullptr;
	fcontext_t nowhere;
	jump_fcontext(g.outside, &nowhere);
	__builtin_unreachable();
}

/* ------------------------------------------------------------------- a run */

struct Main {
	void (*f)(void *);
	void *arg;
};

static void *run_main(void *argument)
{
	auto *main = static_cast<Main *>(argument);
	main->f(main->arg);
	return nullptr;
}

template <class F>
static void each_cache(F f)
{
	for (Cache &l3 : g.l3)
		f(l3);
	for (Core &core : g.cores)
		f(core.l1), f(core.l2);
}

static void map_tags()
{
	if (g.tags)
		munmap(g.tags, g.tags_bytes);
	size_t n = 0;
	each_cache([&n](const Cache &cache) { n += cache.entries(); });
	g.tags_bytes = n * sizeof *g.tags;
	void *p = mmap(
	        nullptr, g.tags_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		abort();
	g.tags = static_cast<uint32_t *>(p);
	uint32_t *next = g.tags;
	each_cache([&next](Cache &cache) {
		cache.tags = next;
		next += cache.entries();
	});
}

static void reset_cores(const Description &d)
{
	memset(g.directories, 0, sizeof g.directories);
	memset(g.socket_cores, 0, sizeof g.socket_cores);
	for (unsigned s = 0; s < MAX_SOCKETS; s++) {
		g.l3[s] = {};
		if (s < d.sockets)
			g.l3[s].make(d.l3_lines, d.l3_ways);
		else if (s < d.all_sockets())
			g.l3[s].make(d.agent.cache_lines, d.agent.cache_ways);
	}
	for (unsigned c = 0; c <= EMU_MAX_CORES; c++) {
		Core &core = g.cores[c];
		core = {};
		core.slowdown = 1024;
		if (c >= d.all_cores() && c != EMU_MAX_CORES)
			continue;
		core.agent = c >= d.cores() && c != EMU_MAX_CORES;
		core.requests = d.agent.cores && core.agent != d.agent.is_home;
		/* The agent's cores share its cache, and have none of their own. */
		core.l1.make(core.agent ? 1 : d.l1_lines, core.agent ? 1 : d.l1_ways);
		core.l2.make(core.agent ? 1 : d.l2_lines, core.agent ? 1 : d.l2_ways);
		core.socket = c == EMU_MAX_CORES ? 0
		              : core.agent       ? d.sockets
		                                 : c / d.cores_per_socket;
		g.socket_cores[core.socket] |= UINT64_C(1) << c;
		core.directory = &g.directories[c == EMU_MAX_CORES ? c : c / d.read_lines_cores];
	}
	map_tags();
}

/* Addresses mean nothing to the next run: it numbers its lines anew. */
static void reset_lines()
{
	for (size_t i = 0; g.lines.entries && i <= g.lines.mask; i++)
		if (Line *line = g.lines.entries[i].value) {
			forget_durable(*line);
			__libc_free(line);
		}
	__libc_free(g.lines.entries);
	g.lines = {};
	g.next_line = 0;
	g.write_backs = 0;
	memset(g.stored_lately, 0, sizeof g.stored_lately);
}

static void reset_machine(const emu_machine *m, const emu_options &o)
{
	const Description &d = m->d;
	g.described = m;
	g.d = &d;
	g.options = o;
	g.random = {o.seed * 2 + 1};
	g.crash_at = o.crash_after;
	g.counters = {};
	g.waiting = g.thread_count = 0;
	g.next = g.any_store_ready = NEVER;
	for (Time &at : g.store_ready)
		at = NEVER;
	g.limit = o.limit_ns ? o.limit_ns * 1000 : NEVER - 1;
	g.line_mask = ~static_cast<uint64_t>(d.line_bytes - 1);
	g.errno_page = reinterpret_cast<uint8_t *>(
	        reinterpret_cast<uintptr_t>(&errno) & ~static_cast<uintptr_t>(4095));
	reset_cores(d);
	reset_lines();
	reset_order(o.order);
	for (int k = 0; k < EMU_MAX_THREADS; k++) {
		__libc_free(g.threads[k]);
		g.threads[k] = nullptr;
	}
	if (!g.stacks)
		g.stacks = map_stack(STACK_BYTES * EMU_MAX_THREADS);
}

} // namespace emu

using namespace emu;

enum emu_end emu_run(const struct emu_machine *m, const struct emu_options *options,
        void (*f)(void *), void *arg)
{
	use_system();
	reset_allocator();
	reset_machine(m, *options);
	start_helper();
	Main main = {f, arg};
	new_thread(run_main, &main);
	Thread &first = take_ready();
	void *kept[2];
	jump_to(first, g.outside, kept);
	memcpy(exception_state(), kept, sizeof kept);
	g.self = nullptr;
	if (g.end == EMU_CRASHED)
		make_images();
	return g.end;
}

struct emu_counters emu_count(void)
{
	return g.counters;
}

const struct emu_machine *emu_current_machine(void)
{
	return g.described;
}

int emu_thread(void)
{
	return g.self ? g.self->id : -1;
}

void emu_crash_in(uint64_t accesses)
{
	g.crash_at = g.counters.accesses + accesses;
}

void emu_on_event(void (*f)(enum emu_event, int, int, void *), void *arg)
{
	g.on_event = f;
	g.on_event_arg = arg;
}

void emu_unseen(void (*f)(void *), void *arg)
{
	const Thread *before = g.unseen;
	if (g.self)
		g.unseen = g.self;
	Away away;
	f(arg);
	g.unseen = before;
}

uint64_t emu_ticks(void)
{
	Thread *t = g.self;
	if (!t && g.unseen) {
		/* Each look at the clock takes a nanosecond, so a loop that waits for a time
		 * ends. */
		enum { LOOK = 1000 };
		return g.unseen->clock + (g.unseen_ticks += LOOK);
	}
	if (!t) {
		struct timespec now;
		clock_gettime(CLOCK_MONOTONIC, &now);
		return (static_cast<uint64_t>(now.tv_sec) * 1000000000u +
		               static_cast<uint64_t>(now.tv_nsec)) *
		       1000;
	}
	charge(*t, step_time(*t, g.d->instruction));
	return t->clock + g.unseen_ticks;
}

uint64_t emu_time(void)
{
	return g.self ? g.self->clock : g.observed;
}

void emu_work(uint64_t ns)
{
	if (g.self)
		charge(*g.self, ns * 1000);
}

uint64_t emu_device_enter(void)
{
	if (!g.self)
		return 0;
	full_fence(false);
	/* A call that begins at this time may find the device busy with one that begins later, if
	 * the thread of the earlier one has not run yet. */
	if (g.self->clock > g.next)
		give_way(*g.self);
	return g.self->clock + g.unseen_ticks;
}

void emu_device_until(uint64_t ps)
{
	Thread *t = g.self;
	if (t && ps > t->clock + g.unseen_ticks) {
		wait_until(*t, ps - g.unseen_ticks);
		begin_access(*t);
	}
}

void emu_instructions(unsigned n)
{
	Thread *t = g.self;
	if (t)
		charge(*t, t->core->agent ? n * g.d->agent.cycle
		                          : n * g.d->thousand_instructions / 1000);
}

void emu_unpredictable_branch(void)
{
	if (g.self)
		charge(*g.self, step_time(*g.self, g.d->unpredictable_branch));
}

void emu_pause(void)
{
	Thread *t = g.self;
	if (!t)
		return;
	end_overlap(*t);
	if (t->tx.active && !t->tx.suspended) {
		charge(*t, g.d->pause); /* an abort may end it before it is over */
	} else {
		set_idle(*t, true);
		wait_until(*t, t->clock + g.d->pause);
		set_idle(*t, false);
	}
	begin_access(*t);
}

void *emu_local(struct emu_key *key, size_t bytes)
{
	static uint32_t used;
	static void *outside[MAX_LOCALS];
	if (!key->index) {
		if (used == MAX_LOCALS)
			abort();
		key->index = ++used;
	}
	void **place = (g.self ? g.self->local : outside) + key->index - 1;
	if (!*place)
		*place = aligned_alloc(256, (bytes + 255) & ~static_cast<size_t>(255)),
		memset(*place, 0, bytes);
	return *place;
}

unsigned emu_line_bytes(void)
{
	return g.d ? g.d->line_bytes : 128;
}
