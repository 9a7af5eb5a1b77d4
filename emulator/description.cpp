/* SPDX-License-Identifier: BSD-3-Clause
 *
 * description.cpp - reads machine descriptions.
 */
#include "description.hpp"
#include "toml_reader.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace emu
{
namespace
{

class Reader : private TomlReader
{
public:
	using TomlReader::TomlReader;

	Description read()
	{
		Description d;
		enter("");
		d.name = text("name");
		d.power = choice("isa", {"x86", "power"}) == 1;
		enter("cores");
		d.sockets = count("sockets", 1, MAX_SOCKETS);
		d.cores_per_socket = count("per_socket", 1, EMU_MAX_CORES);
		d.smt = count("smt", 1, 8);
		if (d.cores() > EMU_MAX_CORES || d.cores() * d.smt >= EMU_MAX_THREADS)
			fail(table_->at("per_socket"),
			        "cores and threads: at most " + std::to_string(EMU_MAX_CORES) +
			                " cores and " + std::to_string(EMU_MAX_THREADS - 1) +
			                " hardware threads");
		d.smt_slowdown = numbers("smt_slowdown", d.smt, 1);
		d.thousand_instructions = ps(1000 / positive("instructions_per_ns"));
		enter("cache");
		d.line_bytes = power_of_two("line_bytes", 32, 256);
		d.l1_lines = count("l1_lines", 1, 1 << 20);
		d.l1_ways = ways("l1_ways", d.l1_lines);
		d.l2_lines = count("l2_lines", 1, 1 << 24);
		d.l2_ways = ways("l2_ways", d.l2_lines);
		d.l3_lines = count("l3_lines", 1, 1 << 26);
		d.l3_ways = ways("l3_ways", d.l3_lines);
		d.outstanding = count("outstanding", 1, 64);
		d.recent_lines = count("recent_lines", 0, MAX_RECENT);
		enter("latency_ns");
		d.instruction = time("instruction"), d.issue = time("issue"),
		d.recent = time("recent"), d.l1 = time("l1"), d.l2 = time("l2"), d.l3 = time("l3");
		d.clean_same_socket = time("clean_same_socket"), d.memory = time("memory");
		d.transfer_same_socket = time("transfer_same_socket"),
		d.transfer_other_socket = time("transfer_other_socket");
		d.atomic = time("atomic"), d.fence = time("fence"),
		d.light_fence = time("light_fence");
		d.pause = time("pause"), d.wake = time("wake");
		d.unpredictable_branch = time("unpredictable_branch");
		if (d.instruction + d.l1 == 0)
			fail(table_->at("instruction"),
			        "instruction and l1 are both 0: time would stand still");
		if (d.recent_lines && d.recent == 0)
			fail(table_->at("recent"), "recent is 0: time would stand still");
		if (d.pause == 0)
			fail(table_->at("pause"), "pause is 0: a spinning thread would stop time");
		enter("store_buffer");
		d.store_entries = count("entries", 1, 256);
		d.store_linger = time("linger_ns");
		read_htm(d);
		enter("pm");
		d.pm_read = time("read_ns"), d.pm_write = time("write_ns"),
		d.pm_write_gap = time("write_gap_ns");
		read_agent(d);
		refuse_unknown(file_);
		return d;
	}

private:
	/* A machine without transactions has none of the other keys. */
	void read_htm(Description &d)
	{
		enter("htm");
		d.htm = static_cast<Htm>(choice("kind", {"none", "tsx", "power"}));
		if (d.htm == Htm::NONE)
			return;
		if ((d.htm == Htm::POWER) != d.power)
			fail(get("kind"),
			        "kind must be none, or that of the isa: tsx of x86, power "
			        "of power");
		d.begin = time("begin_ns"), d.commit = time("commit_ns"),
		d.abort = time("abort_ns");
		std::vector<double> pair = numbers("suspend_resume_ns", 2, 0);
		d.suspend_resume[0] = ps(pair[0]), d.suspend_resume[1] = ps(pair[1]);
		d.suspend = time("suspend_ns");
		if (d.suspend > std::min(d.suspend_resume[0], d.suspend_resume[1]))
			fail(get("suspend_ns"),
			        "suspend_ns is part of suspend_resume_ns: at most its smaller "
			        "value");
		d.read_lines = count("read_lines", 0, 1 << 30);
		d.read_lines_cores = count("read_lines_cores", 1, EMU_MAX_CORES);
		if (d.cores_per_socket % d.read_lines_cores)
			fail(get("read_lines_cores"), "read_lines_cores must divide per_socket, " +
			                                      std::to_string(d.cores_per_socket));
		d.read_lines_owners = count("read_lines_owners", 0, EMU_MAX_THREADS);
		d.write_lines = count("write_lines", 0, 1 << 30);
		d.suspends = static_cast<Suspend>(choice("suspend", {"none", "loads", "all"}));
		d.rollback_only = flag("rollback_only");
	}

	/* The only table that a description may leave out. */
	void read_agent(Description &d)
	{
		if (!file_.contains("agent"))
			return;
		enter("agent");
		Agent &a = d.agent;
		a.cores = count("cores", 1, EMU_MAX_CORES);
		if (d.all_cores() > EMU_MAX_CORES || d.sockets == MAX_SOCKETS ||
		        d.cores() * d.smt + a.cores >= EMU_MAX_THREADS)
			fail(get("cores"), "cores and threads, with the host's: at most " +
			                           std::to_string(EMU_MAX_CORES) + " cores, " +
			                           std::to_string(EMU_MAX_THREADS - 1) +
			                           " hardware threads, and " +
			                           std::to_string(MAX_SOCKETS - 1) +
			                           " sockets of the host");
		a.cycle = ps(1000 / positive("mhz"));
		a.cache_lines = count("cache_lines", 1, 1 << 24);
		a.cache_ways = ways("cache_ways", a.cache_lines);
		a.is_home = choice("home", {"host", "device"}) == 1;
		a.atomics_at_home = choice("atomics", {"at_home", "in_cache"}) == 0;
		a.cached = ps(positive("cached_ns"));
		a.miss = time("miss_ns"), a.contended = time("host_contended_ns");
		if (a.miss < a.cached)
			fail(get("miss_ns"), "miss_ns is the time of a line that is not cached: at "
			                     "least cached_ns");
	}
};

Description read_description(const std::string &machine)
{
	bool file = machine.find_first_of("/.") != std::string::npos;
	std::string path = file ? machine : std::string(FUR_MACHINES) + "/" + machine + ".toml";
	std::ifstream probe(path);
	if (!probe && !file)
		throw std::runtime_error(machine + ": no such machine: use power9, tsx, "
		                                   "tsx-tracked, epyc, xeon-5320, xeon-4216, "
		                                   "ccix-ndp, or a file that describes one");
	if (!probe)
		throw std::runtime_error(path + ": " + strerror(errno));
	try {
		return Reader(path, toml::parse(probe, path)).read();
	} catch (const toml::parse_error &e) {
		throw std::runtime_error(path + ":" + std::to_string(e.source().begin.line) + ": " +
		                         std::string(e.description()));
	}
}

} // namespace
} // namespace emu

struct emu_machine *emu_machine_read(const char *machine, char *error, size_t error_bytes)
{
	try {
		return new emu_machine{emu::read_description(machine)};
	} catch (const std::exception &e) {
		snprintf(error, error_bytes, "%s", e.what());
		return nullptr;
	}
}

void emu_machine_free(struct emu_machine *m)
{
	delete m;
}

const char *emu_machine_name(const struct emu_machine *m)
{
	return m->d.name.c_str();
}

unsigned emu_machine_threads(const struct emu_machine *m)
{
	return m->d.cores() * m->d.smt;
}

unsigned emu_machine_agent_threads(const struct emu_machine *m)
{
	return m->d.agent.cores;
}

void emu_machine_set_home(struct emu_machine *m, enum emu_side home)
{
	m->d.agent.is_home = home == EMU_AGENT;
}

enum emu_side emu_machine_home(const struct emu_machine *m)
{
	return m->d.agent.is_home ? EMU_AGENT : EMU_HOST;
}

bool emu_machine_has_htm(const struct emu_machine *m)
{
	return m->d.htm != emu::Htm::NONE;
}

bool emu_machine_is_power(const struct emu_machine *m)
{
	return m->d.power;
}

bool emu_machine_suspends_loads(const struct emu_machine *m)
{
	return emu_machine_has_htm(m) && m->d.suspends == emu::Suspend::LOADS;
}

void emu_machine_set_pm_write_ns(struct emu_machine *m, double ns)
{
	m->d.pm_write = static_cast<emu::Time>(ns * 1000);
}

void emu_machine_set_pm_read_ns(struct emu_machine *m, double ns)
{
	m->d.pm_read = static_cast<emu::Time>(ns * 1000);
}

double emu_machine_pm_read_ns(const struct emu_machine *m)
{
	return static_cast<double>(m->d.pm_read) / 1000;
}

double emu_machine_pm_write_ns(const struct emu_machine *m)
{
	return static_cast<double>(m->d.pm_write) / 1000;
}

void emu_machine_set_pm_gap_ns(struct emu_machine *m, double ns)
{
	m->d.pm_write_gap = static_cast<emu::Time>(ns * 1000);
}

double emu_machine_pm_gap_ns(const struct emu_machine *m)
{
	return static_cast<double>(m->d.pm_write_gap) / 1000;
}
