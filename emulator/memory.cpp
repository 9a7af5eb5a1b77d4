/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory.cpp - loads and stores: how long they take, when they are performed (INV-E4), and which
 * transactions they conflict with.
 *
 * There are two kinds of stores.  An atomic store, and so every fur_store, is made by
 * buffer_store(), which puts it into the thread's store buffer.  A plain store is made by the
 * program itself, right after touch_write() has returned, and so is performed immediately.  Where
 * earlier stores must be seen before it, the machine performs them when another thread looks at the
 * line (settle_line): no thread can see the order before that.
 */
#include "machine.hpp"

namespace emu
{

/* ------------------------------------------------------------------- lines */

static Line *new_line(uint64_t address, const Core &user)
{
	Line *line = g.lines.add(address);
	line->address = address;
	line->id = g.next_line++;
	line->owner = line->writer = line->early = -1;
	line->region = region_of(address);
	line->user = &user;
	return line;
}

static void perform_until(Thread &t, Time now);

/* Perform all stores in the thread's buffer without making it wait.  That is sooner than necessary,
 * which INV-E4 allows. */
static void perform_now(Thread &t)
{
	perform_until(t, NEVER);
}

/* A plain store to this line was performed before earlier stores of its thread.  Until now no other
 * thread could see that; now `t` looks at the line, so the earlier stores are performed first
 * (INV-E4). */
static void settle_line(Line &line, Thread &t)
{
	Thread &early = *g.threads[line.early];
	line.early = -1;
	if (early.stores && early.store[0].number < line.early_number) {
		perform_now(early);
		if (t.tx.doomed && !t.tx.suspended)
			rewind(t); /* one of those stores aborted it */
	}
}

/* Another core accesses the line than before. */
static void change_user(Line &line, const Core &core)
{
	line.user = line.handed_over ? nullptr : &core;
	line.handed_over = true;
}

Line *find_line(Thread &t, uint64_t address)
{
	auto &found = t.lines[address / g.d->line_bytes % LINE_CACHE];
	if (found.address != address) {
		Line *line = g.lines.find(address);
		found.line = line ? line : new_line(address, *t.core);
		found.address = address;
	}
	Line &line = *found.line;
	if (__builtin_expect(line.early >= 0 && line.early != t.id, 0))
		settle_line(line, t);
	if (line.user != t.core)
		change_user(line, *t.core);
	return &line;
}

/* ----------------------------------------------------------------- latency */

static unsigned core_number(const Core &c)
{
	return static_cast<unsigned>(&c - g.cores);
}

bool in_l3(unsigned socket, const Line &line)
{
	return (line.sockets >> socket & 1) && g.l3[socket].has(line.id);
}

/* The cores with a copy.  A line that the L3 has evicted is in none of its socket's caches. */
static uint64_t cores_with(const Line &line)
{
	uint64_t cores = 0;
	for (unsigned s = 0; s < g.d->all_sockets(); s++)
		if (in_l3(s, line))
			cores |= g.socket_cores[s];
	return line.sharers & cores;
}

static Time time_from_memory(const Line &line)
{
	return line.region ? g.d->pm_read : g.d->memory;
}

/* The time that it takes to bring the line to the core, for reading or for writing. */
static Time time_of_miss(const Core &core, const Line &line, bool write)
{
	uint64_t me = UINT64_C(1) << core_number(core), others = cores_with(line) & ~me;
	if (g.d->agent.cores) {
		if (Time over_link = time_over_link(core, line, write, others))
			return over_link;
		others &= ~g.socket_cores[g.d->sockets];
	}
	if (line.owner >= 0 && (others >> line.owner & 1))
		return g.cores[line.owner].socket == core.socket ? g.d->transfer_same_socket
		                                                 : g.d->transfer_other_socket;
	if (write && others) {
		/* The copies in other cores must go.  The most distant one determines the time. */
		for (uint64_t rest = others; rest; rest &= rest - 1)
			if (g.cores[__builtin_ctzll(rest)].socket != core.socket)
				return g.d->transfer_other_socket;
		return g.d->transfer_same_socket;
	}
	if (others & g.socket_cores[core.socket])
		return g.d->clean_same_socket;
	if (in_l3(core.socket, line))
		return g.d->l3;
	return others ? g.d->transfer_other_socket : time_from_memory(line);
}

static bool core_has(const Core &core, const Line &line, bool write)
{
	unsigned me = core_number(core);
	return write ? line.owner == static_cast<int>(me) : (line.sharers >> me & 1) != 0;
}

static void take_line(const Core &core, Line &line, bool write)
{
	unsigned me = core_number(core);
	uint64_t bit = UINT64_C(1) << me;
	auto socket = static_cast<uint16_t>(1u << core.socket);
	if (!core.requests)
		line.claimed = false;
	if (write) {
		/* The copies elsewhere are void, those in the other sockets' L3 too. */
		line.sockets = socket;
		line.sharers = bit;
		line.owner = static_cast<int16_t>(me);
	} else {
		line.sockets |= socket;
		line.sharers |= bit;
		if (line.owner != static_cast<int>(me))
			line.owner = -1;
	}
}

/* When the core has the line if it asks now.  One core at a time can own a line: writers queue up
 * for a hot line, and readers queue up behind a writer. */
static Time queue_for_line(const Core &core, Line &line, Time now, bool write)
{
	Time at = (line.busy > now ? line.busy : now) + time_of_miss(core, line, write);
	if (write)
		line.busy = at;
	if (write || line.requester != &core)
		line.requester = write ? &core : nullptr;
	return at;
}

/* The same for a thread of the core.  A line that a store has requested is not requested again: the
 * core's further accesses to it share the store's request, and wait for the rest of its way.  A
 * store that misses waits for its line in a fill buffer of the L1, and a core has one fill buffer
 * for a line (x86: J. McCalpin in the Intel forum, "How does WC-buffer relate to LFB?", and Intel's
 * Optimization Reference Manual, from memory; AMD calls it a miss address buffer).  The L2 of a
 * POWER9 gathers the stores to a line [m of power9.toml].  A line that has arrived stays until
 * another core requests it. */
static Time request_line(const Thread &t, Line &line, bool write)
{
	const Core &core = *t.core;
	const bool mine = line.requester == &core;
	for (unsigned i = t.stores; i--;)
		if (t.store[i].line == &line) {
			if (t.store[i].arrives > t.clock)
				return t.store[i].arrives;
			if (mine)
				return t.clock;
			break;
		}
	if (mine && line.busy > t.clock) /* for a sibling's store */
		return line.busy;
	return queue_for_line(core, line, t.clock, write);
}

/* Was the line in the L3?  Now it is. */
static bool touch_l3(const Core &core, const Line &line)
{
	const bool there = g.l3[core.socket].touch(line.id);
	g.counters.l3_fills += !there;
	return there;
}

static void fill_caches(Core &core, const Line &line)
{
	core.l1.touch(line.id);
	core.l2.touch(line.id);
	touch_l3(core, line);
}

/* A core may store to a line that it owns, but that has left all caches.  The thread does not wait:
 * the line comes while the store is in the buffer.  The thread's next access finds it in the L1. */
static void fetch_evicted(Core &core, const Line &line)
{
	if (!core.agent && !core.l1.has(line.id) && !core.l2.has(line.id) &&
	        !g.l3[core.socket].has(line.id))
		fill_caches(core, line);
}

/* How long until the line arrives that was requested earlier?  0 if it was not, or is there. */
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

/* The time of an access that its thread waits for. */
static Time access_time(Thread &t, Line &line, bool write)
{
	Core &core = *t.core;
	if (Time rest = t.asks ? rest_of_way(t, line) : 0; rest && core_has(core, line, write))
		return rest;
	if (core_has(core, line, write)) {
		if (!core.agent && core.l1.touch(line.id))
			return g.d->l1;
		if (!core.agent && core.l2.touch(line.id))
			return g.d->l2;
		if (touch_l3(core, line))
			return core.agent ? g.d->agent.cached : g.d->l3;
		return time_of_evicted(core, line, time_from_memory(line));
	}
	Time at = request_line(t, line, write),
	     soonest = t.clock + (core.agent ? g.d->agent.cached : g.d->l1);
	take_line(core, line, write);
	fill_caches(core, line);
	return (at > soonest ? at : soonest) - t.clock;
}

/* ------------------------------------------------------- lines under way */

/* Make room for one more request.  Lines that have arrived need no room; if none has, wait for the
 * first. */
static void make_room_to_ask(Thread &t)
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

static bool in_l1(const Core &core, const Line &line)
{
	return core_has(core, line, false) && core.l1.has(line.id);
}

/* A load of an overlap that misses occupies a request.  Called before the load and its conflicts,
 * because the thread may have to wait until a request is free (INV-E1). */
static void wait_for_request(Thread &t, const Line &line)
{
	if (!t.overlaps || in_l1(*t.core, line))
		return;
	make_room_to_ask(t);
	find_line(t, line.address); /* other threads may have run: settle the line again */
}

/* When the line arrives that is already under way; 0: it is not. */
static Time arrival_under_way(const Thread &t, const Line &line)
{
	for (unsigned k = 0; k < t.asks; k++)
		if (t.asked[k].line == &line && t.asked[k].at > t.clock)
			return t.asked[k].at;
	return 0;
}

/* Until the thread can go on after issuing an access of an overlap.  The first takes what it takes
 * elsewhere, so an overlap of one load saves nothing. */
static void charge_issue(Thread &t)
{
	charge(t, t.to_issue);
	t.to_issue = g.d->issue;
}

static void arrives(Thread &t, Time at)
{
	if (at > t.overlap_until)
		t.overlap_until = at;
}

/* A load of an overlap: its line arrives while the thread goes on. */
static void issue_load(Thread &t, Line &line)
{
	charge_issue(t);
	Core &core = *t.core;
	Time at = core_has(core, line, false) ? arrival_under_way(t, line) : 0;
	if (!at) {
		bool miss = !in_l1(core, line);
		at = t.clock + slowed(t, access_time(t, line, false));
		/* If a sibling's abort has just taken the line from the core, no request may be
		 * free. */
		if (miss && t.asks < g.d->outstanding)
			t.asked[t.asks++] = {&line, at};
	}
	arrives(t, at);
}

/* Is the line one of the last `recent_lines` that the thread has accessed?  Now it is the first. */
static bool touch_recent(Thread &t, const Line &line)
{
	const unsigned n = g.d->recent_lines;
	unsigned k = 0;
	while (k < n && t.recent[k] != &line)
		k++;
	if (k == 0)
		return n != 0;
	memmove(t.recent + 1, t.recent, (k < n ? k : n - 1) * sizeof *t.recent);
	if (n)
		t.recent[0] = &line;
	return k < n;
}

/* Does the core store to the line, and no other core access it?  It has the thread's bookkeeping,
 * as the write set of a transaction. */
static bool is_private(const Core &core, const Line &line)
{
	return line.user == &core && core_has(core, line, true);
}

/* Does a load hit the L1, in a line that the thread has accessed just now, or in a private one? */
static bool hits_at_hand(Thread &t, const Line &line, bool exclusive)
{
	Core &core = *t.core;
	const bool at_hand = touch_recent(t, line) || is_private(core, line);
	return at_hand && core_has(core, line, exclusive) && !arrival_under_way(t, line) &&
	       core.l1.has(line.id) && core.l1.touch(line.id);
}

/* The time of a load, or of the load of a read-modify-write.  A core that executes out of order
 * has the address of a recent line, as of another field of a record, long before the thread needs
 * the value, so the thread does not wait for the L1.  The same holds for a private line, whose
 * address comes from the thread's registers or its stack, not from shared memory. */
static void charge_load(Thread &t, Line &line, bool exclusive)
{
	if (t.core->agent)
		charge(t, access_time(t, line, exclusive));
	else if (hits_at_hand(t, line, exclusive))
		charge(t, g.d->recent);
	else if (t.overlaps)
		issue_load(t, line);
	else
		charge(t, g.d->instruction + access_time(t, line, exclusive));
}

/* The time of a store, and of a load of a store in the buffer: as fast as the L1. */
static void charge_buffered(Thread &t, const Line &line)
{
	if (t.core->agent) {
		charge(t, g.d->agent.cycle);
	} else if (touch_recent(t, line) ||
	           (is_private(*t.core, line) && t.core->l1.has(line.id))) {
		charge(t, g.d->recent);
	} else if (t.overlaps) {
		charge_issue(t);
		arrives(t, t.clock + slowed(t, g.d->l1));
	} else {
		charge(t, g.d->instruction + g.d->l1);
	}
}

void end_overlap(Thread &t)
{
	if (!t.overlaps)
		return;
	t.overlaps = false;
	/* No other thread runs here, but before the next access (INV-E1). */
	if (t.overlap_until > t.clock)
		t.clock = t.overlap_until;
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

static void perform_store(Thread &t, const Store &s)
{
	claim_write(t, *s.line, s.transactional);
	if (s.transactional) {
		if (!t.tx.active || t.tx.doomed)
			return; /* claim_write() aborted us: capacity */
		remember_old(t, s.at, s.bytes);
	}
	write_memory(s.at, s.value, s.bytes);
	take_line(*t.core, *s.line, true);
	if (s.line->region && !s.transactional)
		maybe_evict(*s.line);
}

static bool store_overlaps(const Store &s, const uint8_t *at, size_t bytes)
{
	return s.at < at + bytes && at < s.at + s.bytes;
}

/* May store i, of the oldest epoch, be performed before the stores that precede it?  Not if it
 * overlaps one: a thread's stores to one word are performed in order. */
static bool store_may_pass(const Thread &t, unsigned i)
{
	for (unsigned k = 0; k < i; k++)
		if (store_overlaps(t.store[k], t.store[i].at, t.store[i].bytes))
			return false;
	return true;
}

/* INV-E4: perform the stores of `t` whose time has come, those of one epoch in any order.  The
 * caller is another thread, or calls rewind() if one of them has aborted it. */
static void perform_until(Thread &t, Time now)
{
	Time &ready = g.store_ready[t.id];
	/* Performing a store may doom its own transaction, which removes others from the buffer:
	 * start over after each. */
	for (bool more = true; more;) {
		more = false;
		ready = NEVER;
		for (unsigned i = 0; i < t.stores && t.store[i].epoch == t.store[0].epoch; i++) {
			if (!store_may_pass(t, i))
				continue;
			if (t.store[i].ready > now) {
				if (t.store[i].ready < ready)
					ready = t.store[i].ready;
				continue;
			}
			Store s = t.store[i];
			memmove(&t.store[i], &t.store[i + 1], (--t.stores - i) * sizeof s);
			perform_store(t, s);
			more = true;
			break;
		}
	}
}

/* INV-E4: a store is performed when it is ready, although its thread may be far ahead by then, as
 * one that resumes a transaction is. */
void perform_ready_of_all(Thread &t)
{
	for (;;) {
		int first = 0;
		for (int k = 1; k < g.thread_count; k++)
			if (g.store_ready[k] < g.store_ready[first])
				first = k;
		g.any_store_ready = g.store_ready[first];
		if (g.any_store_ready > t.clock)
			break;
		perform_until(*g.threads[first], g.any_store_ready);
	}
	if (t.tx.doomed && !t.tx.suspended)
		rewind(t);
}

void perform_early(Thread &t, const Line &line)
{
	for (unsigned i = 0; i < t.stores; i++)
		if (t.store[i].line == &line) {
			perform_now(t);
			if (t.tx.doomed && !t.tx.suspended)
				rewind(t);
			return;
		}
}

/* A thread that waits for its stores lets none of them linger. */
static void hurry(Thread &t)
{
	for (unsigned i = 0; i < t.stores; i++) {
		Store &s = t.store[i];
		s.ready = s.soonest;
		if (s.ready < g.store_ready[t.id])
			g.store_ready[t.id] = s.ready;
	}
	if (g.store_ready[t.id] < g.any_store_ready)
		g.any_store_ready = g.store_ready[t.id];
}

void perform_all(Thread &t)
{
	hurry(t);
	while (t.stores) {
		perform_ready_of_all(t);
		if (t.stores)
			wait_until(t, g.store_ready[t.id]);
	}
}

void buffer_store(Thread &t, void *p, uint64_t value, unsigned bytes)
{
	Line *line = find_line(t, reinterpret_cast<uintptr_t>(p) & g.line_mask);
	bool transactional = tracking(t);
	charge_buffered(t, *line);
	if (t.stores == g.d->store_entries) {
		Time first = t.store[0].ready;
		if (t.clock < first)
			wait_until(t, first);
		perform_ready_of_all(t);
	}
	if (!g.d->power)
		t.epoch++; /* total store order: each store is an epoch (INV-E4) */
	Time soonest = t.clock, linger = g.d->store_linger ? g.random.below(g.d->store_linger) : 0;
	if (!core_has(*t.core, *line, true))
		soonest = request_line(t, *line, true);
	const Time arrives = soonest;
	if (g.options.perturb && g.random.one_in(4))
		soonest += g.random.below(UINT64_C(1000) << g.random.below(13));
	Store &s = t.store[t.stores++];
	s = {static_cast<uint8_t *>(p), value, line, soonest + linger, soonest, arrives, t.pushed++,
	        t.epoch, static_cast<uint8_t>(bytes), transactional};
	if (s.ready < g.store_ready[t.id])
		g.store_ready[t.id] = s.ready;
	if (s.ready < g.any_store_ready)
		g.any_store_ready = s.ready;
	fill_caches(*t.core, *line);
	g.counters.transactional += transactional;
}

/* Find the thread's newest store to exactly these bytes, if the buffer still has it.  Returns false
 * if a store overlaps them in any other way. */
static bool forward_store(const Thread &t, const uint8_t *at, unsigned bytes, const Store **found)
{
	*found = nullptr;
	for (unsigned i = t.stores; i--;)
		if (store_overlaps(t.store[i], at, bytes)) {
			if (t.store[i].at != at || t.store[i].bytes != bytes)
				return false;
			*found = &t.store[i];
			return true;
		}
	return true;
}

uint64_t load_value(Thread &t, const void *p, unsigned bytes)
{
	auto *at = static_cast<const uint8_t *>(p);
	const Store *own = nullptr;
	if (t.stores && !forward_store(t, at, bytes, &own))
		perform_all(t);
	Line *line = find_line(t, reinterpret_cast<uintptr_t>(p) & g.line_mask);
	g.counters.transactional += tracking(t);
	if (own) {
		uint64_t value = own->value;
		charge_buffered(t, *line);
		return value;
	}
	wait_for_request(t, *line);
	claim_read(t, *line);
	charge_load(t, *line, false);
	return read_memory(at, bytes);
}

/* ------------------------------------------------------------ plain accesses */

bool buffer_overlaps(const Thread &t, const void *p, size_t bytes)
{
	for (unsigned i = 0; i < t.stores; i++)
		if (store_overlaps(t.store[i], static_cast<const uint8_t *>(p), bytes))
			return true;
	return false;
}

/* Call f for each line of an access; an access may cross lines. */
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
	if (t.stores && buffer_overlaps(t, p, bytes))
		perform_all(t);
	g.counters.transactional += tracking(t);
	each_line(t, p, bytes, [&t, exclusive](Line &line, uint8_t *, size_t) {
		wait_for_request(t, line);
		claim_read(t, line);
		charge_load(t, line, exclusive);
	});
}

void touch_write(Thread &t, void *p, size_t bytes, bool at_home)
{
	bool transactional = tracking(t);
	if (t.stores && buffer_overlaps(t, p, bytes))
		perform_all(t);
	/* On POWER a plain store may pass earlier stores, unless a barrier lies between
	 * (INV-E4). */
	bool early = t.stores && (!g.d->power || t.store[0].epoch != t.epoch);
	g.counters.transactional += transactional;
	each_line(t, p, bytes, [&](Line &line, uint8_t *at, size_t n) {
		if (!at_home)
			charge_buffered(t, line);
		if (!at_home && !core_has(*t.core, line, true)) {
			/* The store waits in the buffer and the thread goes on; but other cores
			 * wait for the line. */
			request_line(t, line, true);
			fill_caches(*t.core, line);
		} else if (!at_home) {
			fetch_evicted(*t.core, line);
		}
		claim_write(t, line, transactional);
		if (t.tx.doomed && !t.tx.suspended)
			rewind(t);
		if (early) {
			line.early = static_cast<int16_t>(t.id);
			line.early_number = t.pushed;
		}
		if (transactional)
			remember_old(t, at, n);
		if (!at_home)
			take_line(*t.core, line, true);
		if (line.region && !transactional)
			maybe_evict(line);
	});
}

void full_fence(bool write_backs)
{
	Thread *t = g.self;
	if (!t)
		return;
	end_overlap(*t);
	begin_access(*t);
	perform_all(*t);
	if (write_backs)
		complete_write_backs(*t);
	t->epoch++;
	charge(*t, step_time(*t, g.d->fence));
}

void stall_thread(Thread &t)
{
	t.until_stall = 1 + static_cast<uint32_t>(g.random.below(2 * g.options.perturb));
	t.clock += g.random.below(UINT64_C(1000) << g.random.below(13));
}

} // namespace emu

using namespace emu;

bool emu_hot_line(unsigned rank, const void **line, unsigned *aborts)
{
	/* Called rarely, so it looks through all lines each time.  Of equals, the line that was
	 * touched first wins. */
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

void emu_prefetch(const void *p, bool to_write)
{
	Thread *t = g.self;
	/* In a transaction a prefetch would be an access like any other.  No caller needs that. */
	if (!t || own_stack(*t, p) || tracking(*t))
		return;
	begin_access(*t);
	charge(*t, step_time(*t, g.d->instruction));
	Line *line = find_line(*t, reinterpret_cast<uintptr_t>(p) & g.line_mask);
	if (core_has(*t->core, *line, to_write)) {
		fill_caches(*t->core, *line);
		return;
	}
	make_room_to_ask(*t);
	claim_read(*t, *line);
	t->asked[t->asks++] = {line, request_line(*t, *line, to_write)};
	take_line(*t->core, *line, to_write);
	fill_caches(*t->core, *line);
}

void emu_fence(void)
{
	full_fence(g.d && g.d->power); /* hwsync covers dcbf */
}

void emu_fence_others(void)
{
	emu_fence();
	for (int k = 0; g.self && k < g.thread_count; k++) {
		Thread &t = *g.threads[k];
		if (&t != g.self) {
			perform_now(t);
			t.epoch++;
		}
	}
}

void emu_fence_light(void)
{
	Thread *t = g.self;
	if (!t)
		return;
	if (g.d->power)
		end_overlap(*t); /* lwsync also orders loads with loads */
	t->epoch++;
	charge(*t, step_time(*t, g.d->light_fence));
}

void emu_overlap_begin(void)
{
	Thread *t = g.self;
	if (!t || t->overlaps || t->core->agent)
		return; /* the agent executes in order */
	t->overlaps = true;
	t->to_issue = g.d->instruction;
	t->overlap_until = 0;
}

void emu_overlap_begin_in_order(void)
{
	if (g.self && !g.d->power)
		emu_overlap_begin();
}

void emu_overlap_end(void)
{
	if (g.self)
		end_overlap(*g.self);
}
