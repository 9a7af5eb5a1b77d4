/* SPDX-License-Identifier: BSD-3-Clause
 *
 * emulated.cpp - what snapshots and scans in them cost updates, and updates the scans, on an
 * emulated machine of many cores, or with hardware transactions.
 */
#include "../../tools/common/json.hpp"
#include "../common/driver.hpp"
#include "../common/output.hpp"
#include "measures.hpp"

#include <iostream>
#include <unistd.h>

namespace snapshot
{

namespace
{

Round figures_of(Measures &m)
{
	Round r;
	r["updates_per_second"] = m.updates();
	m.sleeping(r);
	/* The others stop all updates, or need a process of their own. */
	for (const Reader &reader : READERS)
		if (reader.way == Way::SNAPSHOT || reader.way == Way::OPTIMISTIC)
			m.reading(r, reader);
	m.begin_and_end(r, true);
	over_updates_alone(r);
	const fur_stats stats = m.store().heap().stats();
	r["saved_lines"] = static_cast<double>(stats.saved_lines);
	r["snapshots_revoked"] = static_cast<double>(stats.snapshots_revoked);
	return r;
}

void print(const Settings &s, const std::string &machine, const Round &figures)
{
	printf("%s: %lu keys, values of %lu bytes, %u writers, %u readers, %g s, FUR_HTM=%s\n",
	        machine.c_str(), static_cast<unsigned long>(s.keys),
	        static_cast<unsigned long>(s.value_bytes), s.writers, s.readers, s.seconds,
	        s.htm.c_str());
	for (const auto &[name, value] : figures)
		printf("%-46s %.6g\n", name.c_str(), value);
}

/* In a run of the machine. */
int run(const Settings &s, const std::string &machine)
{
	Measures measures(s, make_fur_store(s));
	bench::aside([&] { measures.store().fill(); });
	const Round figures = figures_of(measures);
	if (s.json != "-")
		print(s, machine, figures);
	if (!s.json.empty()) {
		tools::Json out = {{"workload", "snapshot"}, {"machine", machine}, {"keys", s.keys},
		        {"value_bytes", s.value_bytes}, {"writers", s.writers},
		        {"readers", s.readers}, {"seconds", s.seconds}, {"zipf", s.zipf},
		        {"htm", s.htm}};
		for (const auto &[name, value] : figures)
			out[name] = value;
		bench::write_json(s.json, out);
	}
	return 0;
}

} // namespace
} // namespace snapshot

int main(int argc, char **argv)
{
	/* Not on the stack, which lies elsewhere in each process (machine_emulated.cpp). */
	static snapshot::Settings s;
	bench::Options o;
	std::string value_bytes;
	o.machine = "epyc";
	s.keys = 100000, s.seconds = 0.01, s.path += "-" + std::to_string(getpid());
	tools::CommandLine line("snapshot-emulated",
	        "Updates of random keys of an ordered map on an emulated machine: beside a "
	        "snapshot that sleeps, beside scans in snapshots, beside snapshots that begin and "
	        "end; scans alone and beside updates.  Times are virtual.");
	line.option("--machine", o.machine, "power9, tsx, epyc, or a file that describes one");
	line.option("--keys", s.keys, "entries of the map").range(1000, 1e8);
	line.option("--writers", s.writers, "threads that update").range(1, 500);
	line.option("--readers", s.readers, "threads that scan").range(1, 500);
	line.option("--seconds", s.seconds, "length of each phase").range(0.0001, 100);
	line.option("--seed", o.seed, "seed of the machine's schedule");
	line.option("--htm", s.htm, "libfur's hardware transactions")
	        .one_of({"none", "auto", "tsx", "power"});
	snapshot::add_common_options(line, s, value_bytes);
	if (auto status = tools::parse_or_exit_status(line, "snapshot-emulated", argc, argv))
		return *status;
	s.value_bytes = std::stoull(value_bytes);
	/* Software updates hash addresses: at an address drawn at random, no run repeats. */
	s.address = UINT64_C(0x300000000000);
	o.threads = o.most_threads = s.writers + s.readers;
	try {
		return bench::on_machine(
		        o, argv, [&](bench::Options &) { return snapshot::run(s, o.machine); });
	} catch (const bench::Usage &e) {
		std::cerr << "snapshot-emulated: " << e.what() << "\n";
		return tools::EXIT_WRONG_USAGE;
	} catch (const std::exception &e) {
		std::cerr << "snapshot-emulated: " << e.what() << "\n";
		return 1;
	}
}
