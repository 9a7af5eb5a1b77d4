/* SPDX-License-Identifier: BSD-3-Clause
 *
 * seed.hpp - the run of one seed: simulate, cut the power if the plan asks for it, recover, and let
 * the oracle judge.
 */
#ifndef EXPLORE_SEED_HPP
#define EXPLORE_SEED_HPP

#include "plan.hpp"

#include <string>

namespace explore
{

/* The functions of one subject (subject.hpp). */
struct System {
	void (*make_heap)(const Options &, const std::string &path);
	void (*simulate)(void *);
	void (*unmap)(const Options &);
	std::string (*check_recovered)(const Options &, const std::string &path, bool crashed);
	/* With --ships: before the run, and after a power failure (shipping.hpp). */
	void (*make_primary)(const std::string &path);
	std::string (*check_shipped)(
	        const Options &, const std::string &initial, const std::string &failed);
};

struct Outcome {
	std::string wrong; /* empty: no violation */
	uint64_t accesses; /* that simulated threads made */
};

/* Runs on a copy of `heap`, the file `path`.  Once in a process. */
Outcome run_seed(const Options &o, const System &system, const Plan &plan, uint64_t seed,
        const std::string &heap, const std::string &path);

} // namespace explore

#endif /* EXPLORE_SEED_HPP */
