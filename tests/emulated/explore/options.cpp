/* SPDX-License-Identifier: BSD-3-Clause
 *
 * options.cpp - see options.hpp.
 */
#include "options.hpp"

#include <algorithm>
#include <iostream>
#include <thread>
#include <unistd.h>

namespace explore
{

void settle(Options &o)
{
	bool asked = o.isolation == "snapshot";
	o.snapshot = o.tm == "fur-snapshot" || o.tm == "spht-sihtm" || o.tm == "pisces" ||
	             (o.tm == "fur-paper" && asked);
	o.asked = asked || (o.isolation.empty() && o.snapshot) ? oracle::Isolation::SNAPSHOT
	                                                       : oracle::Isolation::OPACITY;
	if (!o.jobs)
		o.jobs = std::max(1u, std::thread::hardware_concurrency());
}

std::string repeat_command(const Options &o, uint64_t seed, uint64_t crash_at)
{
	std::string c = "explore --tm " + o.tm + " --workload " + o.workload + " --threads " +
	                std::to_string(o.threads) + " --seeds " + std::to_string(seed) + ".." +
	                std::to_string(seed) + " --operations " + std::to_string(o.operations);
	if (o.machine != "all")
		c += " --machine " + o.machine;
	if (o.crash)
		c += " --crash --crash-at " + std::to_string(crash_at);
	if (!o.isolation.empty())
		c += " --isolation " + o.isolation;
	if (!o.plant.empty())
		c += " --plant " + o.plant;
	if (o.retries)
		c += " --retries " + std::to_string(o.retries);
	if (o.late)
		c += " --late " + std::to_string(o.late);
	if (o.pm_write_ns)
		c += " --pm-write-ns " + std::to_string(o.pm_write_ns);
	if (o.dram)
		c += " --dram";
	if (o.replayer)
		c += " --replayer";
	if (o.snapshots)
		c += " --snapshots";
	if (o.moves)
		c += " --moves";
	if (o.handover)
		c += " --handover";
	else if (o.ships)
		c += " --ships";
	if (o.by_name)
		c += " --by-name";
	if (!o.order.empty())
		c += " --order '" + o.order + "'";
	if (!o.recovery_order.empty())
		c += " --recovery-order '" + o.recovery_order + "'";
	return c;
}

void die(const std::string &what)
{
	std::cerr << what << std::endl;
	_exit(3);
}

} // namespace explore
