/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pauses.cpp - how long threads wait for each other: for a long update, for a reader that pauses in
 * its transaction, and among many threads.  Each part compares windows of one run, with and without
 * the cause of the waiting.
 */
#include "crowd.hpp"
#include "disturbed.hpp"

namespace
{

void check(const bench::Options &o, const pauses::Settings &s)
{
	if (s.part != "long-update" && s.part != "many-threads" && s.part != "scan")
		throw bench::Usage(s.part + ": use long-update, many-threads or scan");
	for (auto [name, ms] : {std::pair{"--long-ms", s.long_ms}, {"--pause-ms", s.pause_ms}})
		if (!(ms > 0 && ms <= 10000))
			throw bench::Usage(
			        std::string(name) + ": use more than 0, and at most 10000");
	if (o.tm != "fur-opacity" && o.tm != "fur-snapshot")
		throw bench::Usage("--tm " + o.tm + ": use fur-opacity or fur-snapshot");
	if (s.counters % 8)
		throw bench::Usage(
		        "--counters " + std::to_string(s.counters) + ": use a multiple of 8");
}

int run(bench::Options &o, const pauses::Settings &s)
{
	check(o, s);
	if (s.part == "long-update")
		return pauses::run_disturbed<pauses::LongUpdate>(o, s);
	if (s.part == "scan")
		return pauses::run_disturbed<pauses::Scan>(o, s);
	return pauses::run_crowd(o, s);
}

void add_options(tools::CommandLine &line, bench::Options &o, pauses::Settings &s)
{
	for (const char *other : {"--machine", "--reuse", "--pm-read-ns", "--dram-mib"})
		line.remove(other);
	line.argument("part", s.part, "long-update, many-threads or scan").required();
	line.at("--tm").describe("fur-opacity or fur-snapshot");
	o.threads = 1000;
	line.at("--threads").describe("number of threads of many-threads").shown_default = "1000";
	line.at("--seconds")
	        .describe("length of the measured part of each window, after a warm-up of a "
	                  "quarter of it, at most 0.5 s");
	line.option("--rounds", s.rounds, "windows of each of the two modes").range(1, 1000);
	line.option("--readers", s.readers,
	            "threads with short read-only transactions; not for "
	            "many-threads")
	        .range(1, 500);
	line.option("--long-ms", s.long_ms, "long-update: length of the body of a long update");
	line.option("--body", s.body,
	            "long-update: scan: half of the time loads and stores, half computing; spin: "
	            "one "
	            "store, then computing")
	        .one_of({"scan", "spin"});
	line.option("--pause-ms", s.pause_ms, "scan: length of the pause within a scan");
	line.option("--counters", s.counters, "many-threads: number of shared counters")
	        .range(8, 65536);
}

} // namespace

int main(int argc, char **argv)
{
	pauses::Settings settings;
	return bench::main_of(
	        "pauses", argc, argv,
	        [&](tools::CommandLine &line, bench::Options &o) {
		        add_options(line, o, settings);
	        },
	        [&](bench::Options &o) { return run(o, settings); });
}
