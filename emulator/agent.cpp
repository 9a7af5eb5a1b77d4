/* SPDX-License-Identifier: BSD-3-Clause
 *
 * agent.cpp - a coherent agent: a device whose cores share memory with the host's over a coherent
 * link, as CCIX has it.  One of the two sides is the home, which has the memory.  The other side
 * requests lines from the home, and caches them.
 *
 *   - A line that the requesting side does not have takes `miss`, always.
 *   - A line that the home side lost to the other one takes `contended`.  Otherwise the home side
 *     takes the time that its own caches and memory take.
 *   - A read-modify-write of the requesting side is performed in the home's memory.  No line moves,
 *     so the operation takes `miss` no matter which threads use the line, and voids every cached
 *     copy of it.
 *
 * Threads of both sides are coroutines like any other, so the rest of the machine needs to know
 * nothing else of the agent: conflicts (INV-E2), store buffers (INV-E4) and write-backs (INV-E5)
 * are the same.
 */
#include "machine.hpp"

namespace emu
{

/* The cores of the side that the core is not on. */
static uint64_t far_cores(const Core &core)
{
	uint64_t agent = g.socket_cores[g.d->sockets];
	return core.agent ? ~agent : agent;
}

/* As reads of persistent memory are slower than of other memory, so they are over the link. */
static Time time_from_home(const Line &line)
{
	bool slower = line.region && g.d->pm_read > g.d->memory;
	return g.d->agent.miss + (slower ? g.d->pm_read - g.d->memory : 0);
}

Time time_over_link(const Core &core, const Line &line, bool write, uint64_t others)
{
	uint64_t far = others & far_cores(core);
	bool owned_far = line.owner >= 0 && (far >> line.owner & 1);
	Time near_time = core.agent ? g.d->agent.cached : 0;
	if (!core.requests) {
		bool lost = line.claimed || owned_far || (write && far);
		return lost ? g.d->agent.contended : near_time;
	}
	/* A side that requests a line to write it must be the only one that has it. */
	bool near_copy = (others & ~far) || in_l3(core.socket, line),
	     owned_near = line.owner >= 0 && g.cores[line.owner].agent == core.agent;
	if (near_copy && (write ? !far && owned_near : !owned_far))
		return near_time;
	return far ? g.d->agent.miss : time_from_home(line);
}

Time time_of_evicted(const Core &core, const Line &line, Time from_memory)
{
	if (core.requests)
		return time_from_home(line);
	return core.agent ? g.d->agent.cached : from_memory;
}

/* A transaction's store stays in its core's cache until the commit, so it cannot go home. */
bool goes_home(const Thread &t)
{
	return t.core->requests && g.d->agent.atomics_at_home && !tracking(t);
}

/* The operation is performed when it arrives, half of its time after it was issued.  The line is
 * claimed from its issue on: a core of the home that must fetch the line waits for it, and one that
 * has the line loses it when the operation is performed. */
void request_at_home(Thread &t, void *p, unsigned bytes)
{
	uint64_t address = reinterpret_cast<uintptr_t>(p) & g.line_mask;
	begin_access(t);
	if (t.stores && buffer_overlaps(t, p, bytes))
		perform_all(t);
	find_line(t, address)->claimed = true;
	t.clock += g.d->agent.miss / 2;
	begin_access(t);
	Line &line = *find_line(t, address);
	claim_read(t, line);
	line.claimed = true;
	line.requester = nullptr;
	line.sharers = 0;
	line.sockets = 0;
	line.owner = -1;
	t.clock += g.d->agent.miss - g.d->agent.miss / 2;
}

/* The core of this side for a thread: on the host as if it had just started. */
static Core &core_for(const Thread &t, enum emu_side side)
{
	if (side == EMU_HOST)
		return t.id == 0 ? g.cores[EMU_MAX_CORES]
		                 : g.cores[static_cast<unsigned>(t.id - 1) % g.d->cores()];
	Core *least = &g.cores[g.d->cores()];
	for (unsigned c = g.d->cores(); c < g.d->all_cores(); c++)
		if (g.cores[c].busy < least->busy)
			least = &g.cores[c];
	return *least;
}

} // namespace emu

using namespace emu;

bool emu_move(enum emu_side side)
{
	Thread *t = g.self;
	if (!t || !g.d->agent.cores)
		return false;
	end_overlap(*t);
	begin_access(*t);
	if (t->tx.active)
		abort_self(*t, EMU_DISALLOWED);
	perform_all(*t);
	if (t->core->agent == (side == EMU_AGENT))
		return true;
	set_idle(*t, true);
	t->core = &core_for(*t, side);
	set_idle(*t, false);
	t->asks = 0; /* it was the other core that asked */
	t->clock += g.d->wake;
	return true;
}

enum emu_side emu_where(void)
{
	return g.self && g.self->core->agent ? EMU_AGENT : EMU_HOST;
}
