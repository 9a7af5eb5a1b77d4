/* SPDX-License-Identifier: BSD-3-Clause
 *
 * plan.cpp - see plan.hpp.
 */
#include "plan.hpp"

#include "internals.hpp"

namespace explore
{

static std::string machine_of(const Options &o, uint64_t seed)
{
	static const char *const in_turn[] = {"power9", "tsx", "power9", "tsx-tracked"};
	if (o.machine != "all")
		return o.machine;
	if (o.tm == "fur-paper" || o.tm == "spht-sihtm")
		return "power9"; /* they exist on POWER only */
	return in_turn[seed % 4];
}

static fur_htm htm_of(const std::string &machine)
{
	const auto kind = [&](const char *name) { return machine.find(name) != machine.npos; };
	return kind("power") ? FUR_HTM_POWER : kind("tsx") ? FUR_HTM_TSX : FUR_HTM_AUTO;
}

Options options_of(const Options &o, uint64_t seed)
{
	static const char *const machines[] = {"power9", "tsx", "tsx-tracked", "epyc"},
	                         *const workloads[] = {"bank", "intset", "flags", "tables", "words",
	                                 "containers"};
	if (!o.any)
		return o;
	Options one = o;
	Random r{seed * 104729 + 1};
	one.any = false;
	one.machine = machines[r.below(4)];
	one.tm = r.below(2) ? "fur-snapshot" : "fur-opacity";
	/* A run of tpcc takes as long as ten others. */
	one.workload = r.below(16) ? workloads[r.below(6)] : "tpcc";
	one.replayer = r.below(4) == 0;
	one.dram = r.below(4) == 0;
	/* Slow persistent memory: the longer a write-back, the more often the power fails when one
	 * update is durable, and another is not that it has read from. */
	one.pm_write_ns = r.below(4) == 0 ? 3000 : 0;
	settle(one);
	return one;
}

/* The order of the draws is part of a seed's meaning: keep it. */
Plan plan_of(const Options &o, uint64_t seed, uint64_t longest)
{
	static const uint32_t perturbs[] = {0, 400, 100, 30}, retries[] = {10, 3, 1};
	static const unsigned updates[] = {20, 50, 80}, preloads[] = {0, 1, 4, 16};
	Random r{seed * 7919};
	Plan p;
	p.machine = machine_of(o, seed);
	p.pm_write_ns = o.pm_write_ns;
	p.perturb = perturbs[r.below(4)];
	p.retries = retries[r.below(3)];
	if (o.retries)
		p.retries = o.retries;
	p.update_percent = updates[r.below(3)];
	p.htm = r.below(16) ? FUR_HTM_AUTO : FUR_HTM_NONE;
	if (o.by_name && p.htm == FUR_HTM_AUTO)
		p.htm = htm_of(p.machine);
	p.crash_near_return = static_cast<unsigned>(r.below(3));
	/* Drawn even if it is not used: --crash-at must not change the draws that follow. */
	uint64_t at = r.next();
	p.crash_after = 0;
	if (o.crash)
		p.crash_after = o.crash_at ? o.crash_at : 1 + at % longest;
	p.replay_threads = 1 + static_cast<unsigned>(r.below(3));
	p.preload = preloads[r.below(4)];
	static const Rerun reruns[] = {
	        Rerun::NEVER, Rerun::SOMETIMES, Rerun::ALWAYS, Rerun::ALWAYS};
	static const unsigned asides[] = {0, 0, 30, 80};
	p.rerun = reruns[r.below(4)];
	p.aside_percent = asides[r.below(4)];
	p.joins = r.below(2);
	p.tickets = r.below(3) == 0;
	static const unsigned asyncs[] = {0, 0, 0, 20, 90};
	p.async_percent = asyncs[r.below(5)];
	if (o.late)
		p.async_percent = o.late;
	p.on_agent = static_cast<unsigned>(r.below(o.threads));
	p.agent_is_home = r.below(2);
	static const unsigned lines[] = {1, 2, 16, 16};
	p.unload_lines = lines[r.below(4)];
	p.batch = r.below(2);
	if (r.below(3) == 0)
		p.preload = UINT32_MAX; /* measured */
	/* One byte: so little that snapshots are revoked. */
	static const unsigned snapshots[] = {20, 50, 100};
	p.snapshot_percent = o.snapshots ? snapshots[r.below(3)] : 0;
	p.snapshot_bytes = r.below(4) == 0;
	static const uint32_t named[] = {DSET_NAMED, DSET_NAMED, 1, 3};
	p.dset_most = named[r.below(4)];
	static const unsigned moves[] = {5, 20, 50};
	p.moves_percent = o.moves ? moves[r.below(3)] : 0;
	if (o.tm == "fur-paper") { /* it has only hardware updates, and the lock */
		p.rerun = Rerun::NEVER;
		p.aside_percent = 0;
		p.joins = false;
		p.tickets = false;
		p.async_percent = 0;
	}
	return p;
}

} // namespace explore
