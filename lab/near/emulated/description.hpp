/* SPDX-License-Identifier: BSD-3-Clause
 *
 * description.hpp - a near-memory machine as its file describes it.  machines/upmem.toml and
 * machines/pul-ndp.toml explain each value.
 */
#ifndef FUR_EMULATED_NEAR_DESCRIPTION_HPP
#define FUR_EMULATED_NEAR_DESCRIPTION_HPP

#include <cstdint>
#include <string>

namespace near_emu
{

using Time = uint64_t; /* virtual, in picoseconds */

/* fixed + bytes * each cycles. */
struct Line {
	double fixed = 0, each = 0;
};

struct Memory {
	std::string name;
	Time read = 0, write = 0, gap = 0;
	double ps_per_byte = 0;
};

struct Description {
	std::string name, isa;
	bool coherent = false;
	unsigned ranks = 1, elements = 1, tasklets = 1;
	uint64_t memory_bytes = 0;
	uint32_t scratch_bytes = 0, program_instructions = 0, locks = 0, transfer_align = 1,
	         transfer_most = 0;
	double mhz = 1;
	Time switching = 0, poll = 0;
	double push_ps_per_byte = 0, pull_ps_per_byte = 0;
	unsigned channels = 1, control_bytes = 0;
	double channel_ps_per_byte = 0;
	/* exclusive */
	unsigned revolve = 1;
	Line dma_read, dma_write;
	double dma_busy = 0;
	/* coherent */
	unsigned load = 1, jump = 1, multiply = 1, divide = 1;
	unsigned fifo = 1, request = 0, size = 0, status = 0, lock = 0;
	Time engine_latency = 0, engine_gap = 0;
	double engine_ps_per_byte = 0;
	Memory memory;

	Time cycle() const
	{
		return static_cast<Time>(1e6 / mhz + 0.5);
	}
};

/* `machine` is the name of a file of emulator/machines, or a path; ":MEMORY" after it chooses one
 * of the machine's memories, else the first.  Throws std::runtime_error. */
Description read_description(const std::string &machine);

} // namespace near_emu

#endif /* FUR_EMULATED_NEAR_DESCRIPTION_HPP */
