/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory.cpp - loads and stores: how long they take, when they are performed (INV-E4), whom they
 * conflict with.
 *
 * Two ways for a store.  put() takes the value and buffers it: atomic stores go there, and so all
 * of fur_store.  A plain store is made by the program itself right after touch_write(), so it is
 * performed at once.  Where earlier stores must be seen first they are performed when another
 * thread looks at the line, and until then the order shows to nobody.
 */
#include "machine.hpp"

namespace emu
{

/* ------------------------------------------------------------------- lines */

static Line *new_line(uint64_t address)
{
	Line *line = g.lines.add(address);
	line->address = address;
	line->id = g.next_line++;
	line->owner = line->writer = line->early = -1;
	line->region = region_of(address);
	return line;
}

/* Perform all that is in the thread's buffer, without its waiting: sooner than need be, which is
 * allowed. */
static void perform_now(Thread &t)
{
	Time clock = t.clock;
	t.clock = NEVER / 2;
	perform_ready(t);
	t.clock = clock;
	t.next_ready = NEVER;
}

/* A plain store to this line was performed before what its thread had stored earlier.  Nobody has
 * seen it yet; now somebody looks. */
static void settle(Line &line, Thread &t)
{
	Thread &early = *g.threads[line.early];
	line.early = -1;
	if (early.stores && early.store[0].number < line.early_number) {
		perform_now(early);
		if (t.tx.doomed && !t.tx.suspended)
			rewind(t); /* by one of those stores */
	}
}

Line *find_line(Thread &t, uint64_t address)
{
	auto &found = t.lines[address / g.d->line_bytes % LINE_CACHE];
	if (found.address != address) {
		Line *line = g.lines.find(address);
		found.line = line ? line : new_line(address);
		found.address = address;
	}
	Line &line = *found.line;
	if (__builtin_expect(line.early >= 0 && line.early != t.id, 0))
		settle(line, t);
	return &line;
}

/* ----------------------------------------------------------------- latency */

static unsigned core_number(const Core &c)
{
	return static_cast<unsigned>(&c - g.cores);
}

/* What it takes to bring the line to the core, to read or to own it. */
static Time miss(const Core &core, const Line &line, bool write)
{
	uint64_t me = UINT64_C(1) << core_number(core), others = line.sharers & ~me;
	if (line.owner >= 0 && static_cast<unsigned>(line.owner) != core_number(core))
		return g.cores[line.owner].socket == core.socket ? g.d->transfer_same_socket
		                                                 : g.d->transfer_other_socket;
	if (write && others) {
		/* Copies elsewhere must go; the furthest decides. */
		for (uint64_t rest = others; rest; rest &= rest - 1)
			if (g.cores[__builtin_ctzll(rest)].socket != core.socket)
				return g.d->transfer_other_socket;
		return g.d->transfer_same_socket;
	}
	if (line.sockets & 1u << core.socket)
		return g.d->l3;
	if (others)
		return g.d->transfer_other_socket;
	return line.region ? g.d->pm_read : g.d->memory;
}

static bool has(const Core &core, const Line &line, bool write)
{
	unsigned me = core_number(core);
	return write ? line.owner == static_cast<int>(me) : (line.sharers >> me & 1) != 0;
}

static void take(const Core &core, Line &line, bool write)
{
	unsigned me = core_number(core);
	uint64_t bit = UINT64_C(1) << me;
	line.sockets |= static_cast<uint16_t>(1u << core.socket);
	if (write) {
		line.sharers = bit;
		line.owner = static_cast<int16_t>(me);
	} else {
		line.sharers |= bit;
		if (line.owner != static_cast<int>(me))
			line.owner = -1;
	}
}

/* When the core has the line, asked for now.  One core at a time can own it: writers queue up for a
 * hot line, and so do readers behind a writer. */
static Time had_at(const Core &core, Line &line, Time now, bool write)
{
	Time at = (line.busy > now ? line.busy : now) + miss(core, line, write);
	if (write)
		line.busy = at;
	return at;
}

static void fill(Core &core, const Line &line)
{
	core.l1.touch(line.id);
	core.l2.touch(line.id);
}

/* The line was asked for: how long until it is there? */
static Time rest_of_way(Thread &t, const Line &line)
{
	for (unsigned k = 0; k < t.asks; k++)
		if (t.asked[k].line == &line) {
			Time at = t.asked[k].at;
			t.asked[k] = t.asked[--t.asks];
			return at > t.clock ? at - t.clock : 0;
		}
	return 0;
}

/* Time for an access that is waited for. */
static Time access_time(Thread &t, Line &line, bool write)
{
	Core &core = *t.core;
	if (Time rest = t.asks ? rest_of_way(t, line) : 0; rest && has(core, line, write))
		return rest;
	if (has(core, line, write)) {
		if (core.l1.touch(line.id))
			return g.d->l1;
		return core.l2.touch(line.id) ? g.d->l2 : g.d->l3;
	}
	Time at = had_at(core, line, t.clock, write);
	take(core, line, write);
	fill(core, line);
	return at - t.clock;
}

/* ------------------------------------------------------------ store buffer */

static void write_memory(uint8_t *at, uint64_t value, unsigned bytes)
{
	switch (bytes) {
	case 8: *reinterpret_cast<volatile uint64_t *>(at) = value; break;
	case 4: *reinterpret_cast<volatile uint32_t *>(at) = static_cast<uint32_t>(value); break;
	case 2: *reinterpret_cast<volatile uint16_t *>(at) = static_cast<uint16_t>(value); break;
	default: *at = static_cast<uint8_t>(value);
	}
}

static uint64_t read_memory(const uint8_t *at, unsigned bytes)
{
	switch (bytes) {
	case 8: return *reinterpret_cast<const volatile uint64_t *>(at);
	case 4: return *reinterpret_cast<const volatile uint32_t *>(at);
	case 2: return *reinterpret_cast<const volatile uint16_t *>(at);
	default: return *at;
	}
}

static void perform(Thread &t, const Store &s)
{
	claim_write(t, *s.line, s.transactional);
	if (s.transactional) {
		if (!t.tx.active || t.tx.doomed)
			return; /* claiming it aborted us: capacity */
		remember(t, s.at, s.bytes);
	}
	write_memory(s.at, s.value, s.bytes);
	take(*t.core, *s.line, true);
	if (s.line->region && !s.transactional)
		maybe_evict(*s.line);
}

static bool overlap(const Store &s, const uint8_t *at, size_t bytes)
{
	return s.at < at + bytes && at < s.at + s.bytes;
}

/* May store i, of the oldest epoch, be performed before those that were made before it? */
static bool may_pass(const Thread &t, unsigned i)
{
	for (unsigned k = 0; k < i; k++)
		if (overlap(t.store[k], t.store[i].at, t.store[i].bytes))
			return false;
	return true;
}

void perform_ready(Thread &t)
{
	/* Performing one may doom its own transaction, which takes others out of the buffer: start
	 * over each time. */
	for (bool more = true; more;) {
		more = false;
		t.next_ready = NEVER;
		for (unsigned i = 0; i < t.stores && t.store[i].epoch == t.store[0].epoch; i++) {
			if (!may_pass(t, i))
				continue;
			if (t.store[i].ready > t.clock) {
				if (t.store[i].ready < t.next_ready)
					t.next_ready = t.store[i].ready;
				continue;
			}
			Store s = t.store[i];
			memmove(&t.store[i], &t.store[i + 1], (--t.stores - i) * sizeof s);
			perform(t, s);
			more = true;
			break;
		}
	}
	if (&t == g.self && t.tx.doomed && !t.tx.suspended)
		rewind(t);
}

void perform_early(Thread &t, const Line &line)
{
	for (unsigned i = 0; i < t.stores; i++)
		if (t.store[i].line == &line) {
			perform_now(t);
			return;
		}
}

void perform_all(Thread &t)
{
	while (t.stores) {
		perform_ready(t);
		if (t.stores)
			wait_until(t, t.next_ready);
	}
}

void put(Thread &t, void *p, uint64_t value, unsigned bytes)
{
	Line *line = find_line(t, reinterpret_cast<uintptr_t>(p) & g.line_mask);
	bool transactional = tracking(t);
	charge(t, g.d->instruction + g.d->l1);
	if (t.stores == g.d->store_entries) {
		Time first = t.store[0].ready;
		if (t.clock < first)
			wait_until(t, first);
		perform_ready(t);
	}
	if (!g.d->power)
		t.epoch++; /* total store order */
	Time ready = t.clock, extra = g.d->store_linger ? g.random.below(g.d->store_linger) : 0;
	if (!has(*t.core, *line, true))
		ready = had_at(*t.core, *line, ready, true);
	if (g.options.perturb && g.random.one_in(4))
		extra += g.random.below(UINT64_C(1000) << g.random.below(13));
	Store &s = t.store[t.stores++];
	s = {static_cast<uint8_t *>(p), value, line, ready + extra, t.pushed++, t.epoch,
	        static_cast<uint8_t>(bytes), transactional};
	if (s.ready < t.next_ready || t.stores == 1)
		t.next_ready = s.ready;
	fill(*t.core, *line);
	g.counters.transactional += transactional;
}

/* Its own newest store to exactly these bytes, if it is still in the buffer; false if a store
 * overlaps otherwise. */
static bool forward(const Thread &t, const uint8_t *at, unsigned bytes, const Store **found)
{
	*found = nullptr;
	for (unsigned i = t.stores; i--;)
		if (overlap(t.store[i], at, bytes)) {
			if (t.store[i].at != at || t.store[i].bytes != bytes)
				return false;
			*found = &t.store[i];
			return true;
		}
	return true;
}

uint64_t get(Thread &t, const void *p, unsigned bytes)
{
	auto *at = static_cast<const uint8_t *>(p);
	const Store *own = nullptr;
	if (t.stores && !forward(t, at, bytes, &own))
		perform_all(t);
	Line *line = find_line(t, reinterpret_cast<uintptr_t>(p) & g.line_mask);
	g.counters.transactional += tracking(t);
	if (own) {
		uint64_t value = own->value;
		charge(t, g.d->instruction + g.d->l1);
		return value;
	}
	claim_read(t, *line);
	charge(t, g.d->instruction + access_time(t, *line, false));
	return read_memory(at, bytes);
}

/* ------------------------------------------------------------ plain accesses */

static bool buffered(const Thread &t, const void *p, size_t bytes)
{
	for (unsigned i = 0; i < t.stores; i++)
		if (overlap(t.store[i], static_cast<const uint8_t *>(p), bytes))
			return true;
	return false;
}

/* An access may cross lines. */
template <class F>
static void each_line(Thread &t, const void *p, size_t bytes, F f)
{
	uintptr_t at = reinterpret_cast<uintptr_t>(p), end = at + bytes;
	while (at < end) {
		uintptr_t line_end = (at & g.line_mask) + g.d->line_bytes,
		          upto = line_end < end ? line_end : end;
		f(*find_line(t, at & g.line_mask), reinterpret_cast<uint8_t *>(at), upto - at);
		at = upto;
	}
}

void touch_read(Thread &t, const void *p, size_t bytes, bool exclusive)
{
	if (t.stores && buffered(t, p, bytes))
		perform_all(t);
	g.counters.transactional += tracking(t);
	each_line(t, p, bytes, [&t, exclusive](Line &line, uint8_t *, size_t) {
		claim_read(t, line);
		charge(t, g.d->instruction + access_time(t, line, exclusive));
	});
}

void touch_write(Thread &t, void *p, size_t bytes)
{
	bool transactional = tracking(t);
	if (t.stores && buffered(t, p, bytes))
		perform_all(t);
	/* On POWER a plain store may pass those before it, unless a barrier lies between. */
	bool early = t.stores && (!g.d->power || t.store[0].epoch != t.epoch);
	g.counters.transactional += transactional;
	each_line(t, p, bytes, [&](Line &line, uint8_t *at, size_t n) {
		charge(t, g.d->instruction + g.d->l1);
		if (!has(*t.core, line, true)) {
			/* The store waits in the buffer, not the thread; but others wait for the
			 * line. */
			had_at(*t.core, line, t.clock, true);
			fill(*t.core, line);
		}
		claim_write(t, line, transactional);
		if (t.tx.doomed && !t.tx.suspended)
			rewind(t);
		if (early) {
			line.early = static_cast<int16_t>(t.id);
			line.early_number = t.pushed;
		}
		if (transactional)
			remember(t, at, n);
		take(*t.core, line, true);
		if (line.region && !transactional)
			maybe_evict(line);
	});
}

void stall(Thread &t)
{
	t.until_stall = 1 + static_cast<uint32_t>(g.random.below(2 * g.options.perturb));
	t.clock += g.random.below(UINT64_C(1000) << g.random.below(13));
}

} // namespace emu

using namespace emu;

bool emu_hot_line(unsigned rank, const void **line, unsigned *aborts)
{
	/* Asked seldom: look through all of them each time.  Ties go by the order of first
	 * touch. */
	auto hotter = [](const Line &a, const Line &b) {
		return a.aborts != b.aborts ? a.aborts > b.aborts : a.id < b.id;
	};
	const Line *best = nullptr;
	for (unsigned r = 0; r <= rank; r++) {
		const Line *last = best;
		best = nullptr;
		for (size_t i = 0; g.lines.entries && i <= g.lines.mask; i++)
			if (const Line *l = g.lines.entries[i].value;
			        l && l->aborts && (!last || hotter(*last, *l)) &&
			        (!best || hotter(*l, *best)))
				best = l;
		if (!best)
			return false;
	}
	*line = reinterpret_cast<const void *>(best->address);
	*aborts = best->aborts;
	return true;
}

/* Room for one more line on its way: those that have come do not count, and the first to come is
 * waited for if need be. */
static void room_to_ask(Thread &t)
{
	unsigned n = 0, first = 0;
	for (unsigned k = 0; k < t.asks; k++)
		if (t.asked[k].at > t.clock)
			t.asked[n++] = t.asked[k];
	t.asks = n;
	if (n < g.d->outstanding)
		return;
	for (unsigned k = 1; k < n; k++)
		if (t.asked[k].at < t.asked[first].at)
			first = k;
	wait_until(t, t.asked[first].at);
	t.asked[first] = t.asked[--t.asks];
}

void emu_prefetch(const void *p, bool to_write)
{
	Thread *t = g.self;
	/* In a transaction it would be an access like any other: nobody asks for that. */
	if (!t || own_stack(*t, p) || tracking(*t))
		return;
	enter(*t);
	charge(*t, g.d->instruction);
	Line *line = find_line(*t, reinterpret_cast<uintptr_t>(p) & g.line_mask);
	if (has(*t->core, *line, to_write)) {
		fill(*t->core, *line);
		return;
	}
	room_to_ask(*t);
	claim_read(*t, *line);
	t->asked[t->asks++] = {line, had_at(*t->core, *line, t->clock, to_write)};
	take(*t->core, *line, to_write);
	fill(*t->core, *line);
}

void emu_fence(void)
{
	Thread *t = g.self;
	if (!t)
		return;
	enter(*t);
	perform_all(*t);
	if (g.d->power)
		complete_write_backs(*t); /* hwsync covers dcbf */
	t->epoch++;
	charge(*t, g.d->fence);
}

void emu_fence_light(void)
{
	Thread *t = g.self;
	if (!t)
		return;
	t->epoch++;
	charge(*t, g.d->light_fence);
}
