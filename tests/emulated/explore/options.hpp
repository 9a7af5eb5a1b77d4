/* SPDX-License-Identifier: BSD-3-Clause
 *
 * options.hpp - the options of the command line, which every part of explore reads.
 */
#ifndef EXPLORE_OPTIONS_HPP
#define EXPLORE_OPTIONS_HPP

#include "../oracle.hpp"

#include <cstdint>
#include <string>

namespace explore
{

enum { MOST_THREADS = 16 };

struct Options {
	std::string tm = "fur-opacity", workload = "intset", isolation, plant, machine = "all",
	            history, order, seeds = "1..100";
	unsigned threads = 4, operations = 30, jobs = 0, retries = 0, pm_write_ns = 0, late = 0;
	unsigned until_idle = 0; /* seeds without a new pair of points, then the end; 0: never */
	uint64_t first = 1, last = 100, crash_at = 0;
	uint64_t must_find = 0; /* the seed to begin with; 0: there should be no violation */
	bool crash = false, keep_going = false, replayer = false, dram = false, snapshots = false,
	     moves = false, ships = false, handover = false, by_name = false;
	/* machine, workload, isolation, replayer, dram and pm_write_ns by the seed */
	bool any = false;
	bool snapshot = false;                                /* opens the heap with FUR_SNAPSHOT */
	oracle::Isolation asked = oracle::Isolation::OPACITY; /* the oracle checks this one */
	std::string recovery_order; /* last: simulated threads read the fields above */
};

/* Sets options that follow from others. */
void settle(Options &o);

/* The command line that repeats one seed. */
std::string repeat_command(const Options &o, uint64_t seed, uint64_t crash_at);

/* explore itself cannot go on: exit status 3. */
[[noreturn]] void die(const std::string &what);

} // namespace explore

#endif /* EXPLORE_OPTIONS_HPP */
