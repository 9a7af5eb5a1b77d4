/* SPDX-License-Identifier: BSD-3-Clause
 *
 * description.hpp - a machine as its file describes it.  machines/power9.toml explains each value.
 */
#ifndef FUR_EMULATED_DESCRIPTION_HPP
#define FUR_EMULATED_DESCRIPTION_HPP

#include "emulated.h"

#include <string>
#include <vector>

namespace emu
{

using Time = uint64_t; /* virtual, in picoseconds */

constexpr unsigned MAX_SOCKETS = 4, MAX_RECENT = 64;

enum class Htm { NONE, TSX, POWER };
enum class Suspend { NONE, LOADS, ALL };

/* A coherent agent: a device with cores of its own, whose caches and the host's are coherent.  One
 * of the two sides is the home, which has the memory; the other one requests lines from it. */
struct Agent {
	unsigned cores = 0; /* 0: the machine has no agent, and the rest says nothing */
	bool is_home = false;
	bool atomics_at_home = false; /* of the side that requests */
	unsigned cache_lines = 0, cache_ways = 0;
	Time cycle = 0, cached = 0, miss = 0, contended = 0;
};

struct Description {
	std::string name;
	bool power = true;
	unsigned sockets = 1, cores_per_socket = 1, smt = 1;
	std::vector<double> smt_slowdown;
	Time thousand_instructions = 0;
	unsigned line_bytes = 128, l1_lines = 256, l1_ways = 8, l2_lines = 4096, l2_ways = 8,
	         l3_lines = 8192, l3_ways = 8, outstanding = 8, recent_lines = 0;
	Time instruction = 0, issue = 0, recent = 0, l1 = 0, l2 = 0, l3 = 0, clean_same_socket = 0,
	     memory = 0, transfer_same_socket = 0, transfer_other_socket = 0, atomic = 0, fence = 0,
	     light_fence = 0, pause = 0, wake = 0, unpredictable_branch = 0;
	unsigned store_entries = 32;
	Time store_linger = 0;
	Htm htm = Htm::POWER;
	Time begin = 0, commit = 0, abort = 0, suspend = 0, suspend_resume[2] = {};
	unsigned read_lines = 0, read_lines_cores = 1, read_lines_owners = 0, write_lines = 0;
	Suspend suspends = Suspend::ALL;
	bool rollback_only = true;
	Time pm_read = 0, pm_write = 0, pm_write_gap = 0;
	Agent agent;

	/* Of the host. */
	unsigned cores() const
	{
		return sockets * cores_per_socket;
	}
	/* With the agent's, which follow the host's: its cores, and one socket for all of them. */
	unsigned all_cores() const
	{
		return cores() + agent.cores;
	}
	unsigned all_sockets() const
	{
		return sockets + (agent.cores ? 1 : 0);
	}
};

} // namespace emu

struct emu_machine {
	emu::Description d;
};

#endif /* FUR_EMULATED_DESCRIPTION_HPP */
