/* SPDX-License-Identifier: BSD-3-Clause
 *
 * description.cpp - reads descriptions of near-memory machines.
 */
#include "description.hpp"
#include "../../../emulator/toml_reader.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace near_emu
{
namespace
{

class Reader : private emu::TomlReader
{
public:
	using TomlReader::TomlReader;

	Description read(const std::string &memory)
	{
		Description d;
		enter("");
		d.name = text("name");
		enter("near");
		read_near(d);
		if (d.coherent)
			read_coherent(d, memory);
		else
			read_exclusive(d, memory);
		refuse_unknown(file_);
		return d;
	}

private:
	double per_byte(const char *key)
	{
		return 1e6 / positive(key);
	}

	void read_near(Description &d)
	{
		d.coherent = choice("share", {"exclusive", "coherent"}) == 1;
		d.isa = choice("isa", {"rv32i", "rv32im"}) ? "rv32im" : "rv32i";
		d.ranks = count("ranks", 1, 1024);
		d.elements = count("elements", 1, 64);
		d.tasklets = count("tasklets", 1, d.coherent ? 1 : 24);
		d.memory_bytes = count("memory_bytes", 4096, 1u << 31);
		d.scratch_bytes = count("scratch_bytes", 4096, 1 << 24);
		d.program_instructions = count("program_instructions", 1, 1 << 20);
		d.mhz = positive("mhz");
		d.locks = count("locks", 1, 256);
		d.transfer_align = power_of_two("transfer_align", 1, 64);
		d.transfer_most = count("transfer_most", 1, 1 << 20);
		d.switching = time("switch_ns"), d.poll = time("poll_ns");
		if (d.poll == 0)
			fail(get("poll_ns"), "poll_ns is 0: a host that polls would stop time");
		d.push_ps_per_byte = per_byte("push_bytes_per_us");
		d.pull_ps_per_byte = per_byte("pull_bytes_per_us");
		d.channels = count("channels", 1, 64);
		d.channel_ps_per_byte = per_byte("channel_bytes_per_us");
		d.control_bytes = count("control_bytes", 0, 4096);
	}

	Line line(const char *key)
	{
		std::vector<double> values = numbers(key, 2, 0);
		return {values[0], values[1]};
	}

	void read_exclusive(Description &d, const std::string &memory)
	{
		if (!memory.empty())
			throw std::runtime_error(path_ + ": no memory '" + memory +
			                         "': the machine has one kind, leave it out");
		enter("pipeline");
		d.revolve = count("revolve_cycles", 1, 64);
		enter("dma");
		d.dma_read = line("read_cycles"), d.dma_write = line("write_cycles");
		d.dma_busy = number(get("busy_cycles"), "busy_cycles", 0);
		if (d.dma_busy > std::min(d.dma_read.fixed, d.dma_write.fixed))
			fail(get("busy_cycles"),
			        "busy_cycles is part of the fixed cycles: at most their smaller "
			        "value");
	}

	void read_coherent(Description &d, const std::string &memory)
	{
		enter("core");
		d.load = count("load_cycles", 1, 64), d.jump = count("jump_cycles", 1, 64);
		d.multiply = count("multiply_cycles", 1, 64);
		d.divide = count("divide_cycles", 1, 256);
		enter("engine");
		d.fifo = count("fifo", 1, 1024);
		d.request = count("request_cycles", 0, 10000);
		d.size = count("size_cycles", 0, 10000);
		d.status = count("status_cycles", 0, 10000);
		d.lock = count("lock_cycles", 0, 10000);
		d.engine_latency = time("latency_ns"), d.engine_gap = time("gap_ns");
		d.engine_ps_per_byte = per_byte("bytes_per_us");
		read_memories(d, memory);
	}

	/* All of them, so that a mistake in one that was not chosen is also found. */
	void read_memories(Description &d, const std::string &chosen)
	{
		enter("memory");
		const toml::table &memories = *table_;
		std::vector<Memory> all;
		for (const auto &[key, node] : memories) {
			seen_.insert(&node);
			table_ = node.as_table();
			if (!table_)
				fail(node, "[memory] must have a table for each memory");
			section_ = "memory.NAME";
			Memory m;
			m.name = key.str();
			m.read = time("read_ns"), m.write = time("write_ns");
			m.gap = time("gap_ns"), m.ps_per_byte = per_byte("bytes_per_us");
			all.push_back(m);
		}
		/* The table has them by name; in the file the first is the one to use. */
		const Memory *first = nullptr;
		uint32_t least = UINT32_MAX;
		std::string names;
		for (const Memory &m : all) {
			uint32_t at = memories.get(m.name)->source().begin.line;
			if (chosen.empty() ? at < least : m.name == chosen)
				first = &m, least = at;
			names += (names.empty() ? "" : ", ") + m.name;
		}
		if (!first)
			throw std::runtime_error(
			        path_ + ": no memory '" + chosen + "': use one of " + names);
		d.memory = *first;
	}
};

} // namespace

Description read_description(const std::string &machine)
{
	const size_t colon = machine.rfind(':');
	const std::string base = machine.substr(0, colon);
	const std::string memory = colon == std::string::npos ? "" : machine.substr(colon + 1);
	const bool file = base.find_first_of("/.") != std::string::npos;
	const std::string path = file ? base : std::string(FUR_MACHINES) + "/" + base + ".toml";
	std::ifstream probe(path);
	if (!probe && !file)
		throw std::runtime_error(base + ": no such machine: use upmem, upmem-sdk, pul-ndp, "
		                                "or a file that describes one");
	if (!probe)
		throw std::runtime_error(path + ": " + strerror(errno));
	try {
		return Reader(path, toml::parse(probe, path)).read(memory);
	} catch (const toml::parse_error &e) {
		throw std::runtime_error(path + ":" + std::to_string(e.source().begin.line) + ": " +
		                         std::string(e.description()));
	}
}

} // namespace near_emu
