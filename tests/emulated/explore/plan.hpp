/* SPDX-License-Identifier: BSD-3-Clause
 *
 * plan.hpp - a seed's plan: everything about a run that its seed decides, apart from the schedule
 * and the transactions.
 */
#ifndef EXPLORE_PLAN_HPP
#define EXPLORE_PLAN_HPP

#include "../../../tools/common/random.hpp"
#include "options.hpp"

#include <fur.h>

namespace explore
{

/* Seeds that are recorded need these numbers: the remainder, not tools::Random::below(). */
struct Random : tools::Random {
	uint64_t below(uint64_t n)
	{
		return next() % n;
	}
};

/* libfur: which updates have bodies that may run again. */
enum class Rerun { NEVER, SOMETIMES, ALWAYS };

struct Plan {
	std::string machine;
	unsigned pm_write_ns; /* 0: the machine's */
	fur_htm htm;
	uint32_t perturb, retries;
	unsigned update_percent;
	uint64_t crash_after; /* accesses; 0: no crash */
	/* 0: crash right then.  Otherwise crash a few accesses after the next return of a
	 * transaction: of any (1), or of one that has read from an update that has not returned
	 * (2).  The effects that this transaction returned must be durable. */
	unsigned crash_near_return;
	unsigned replay_threads, preload, unload_lines;
	bool batch; /* preloads batch-wise */
	Rerun rerun;
	unsigned aside_percent;    /* libfur: updates that avoid what the machine prefers */
	bool joins;                /* some updates contain a read-only transaction */
	bool tickets;              /* libfur: read-only transactions end with tickets */
	unsigned async_percent;    /* libfur: updates that end with tickets */
	unsigned snapshot_percent; /* libfur: read-only transactions that read in a snapshot */
	uint64_t snapshot_bytes;   /* fur_options.snapshot_bytes */
	unsigned moves_percent;    /* libfur: transactions before which updates move */
	uint32_t dset_most;        /* libfur: dependencies by version that a set names */
	/* Of a machine with a coherent agent: how many of the threads run there, and whether it has
	 * the memory. */
	unsigned on_agent;
	bool agent_is_home;
};

/* With --any: the options, with what the seed decides of them. */
Options options_of(const Options &o, uint64_t seed);

/* Spreads power failures over the first `longest` accesses of a run. */
Plan plan_of(const Options &o, uint64_t seed, uint64_t longest);

} // namespace explore

#endif /* EXPLORE_PLAN_HPP */
