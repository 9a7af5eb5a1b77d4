/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tide_log.cpp - the benchmark of PIM-TIDE's command log: a rank of a machine of many runs batches
 * of TPC-C; then the threads of all ranks keep such batches, on an emulated host.
 */
#include "log_times.hpp"
#include "rank_options.hpp"
#include "whole.hpp"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace
{

using tools::Json;

struct Settings : tide::RankSettings {
	tide::LogHost host;
	bool verify = false;
};

/* Is the data of the rank what its log brings back? */
bool is_brought_back(const Settings &s, const tide::Tide &rank)
{
	fur::Options o;
	o.pm = FUR_PM_EMULATED;
	fur::Heap heap = fur::Heap::open(s.host.path, o);
	tide::CommandLog log(heap.get());
	tide::Tide again(options_of(s));
	s.workload.load(again);
	log.replay(again, s.batches);
	return tide::warehouses(again) == tide::warehouses(rank);
}

int run(Settings s)
{
	tide::Whole whole(s.workload, options_of(s), s.of, 0, s.seed);
	tide::Recorder recorder;
	whole.keep_with(recorder);
	for (unsigned k = 0; k < s.batches; k++)
		whole.run_batch();
	const tide::Whole::Times t = whole.times(s.of);
	s.host.ranks = s.of / s.modules;
	s.host.seed = s.seed;
	const tide::LogTimes log = tide::log_times(s.host, recorder);
	Json r;
	r["machine"] = s.machine;
	r["host"] = s.host.machine;
	r["modules"] = s.modules;
	r["of"] = s.of;
	r["batches"] = s.batches;
	r["batch_us"] = t.batch();
	r["slowest_us"] = t.slowest;
	r["parts_us"] = log.parts;
	r["turns_us"] = log.turns;
	r["log_bytes"] = log.bytes;
	r["unlogged_throughput"] = t.throughput();
	/* The parts are kept while the modules run. */
	const double batch_us = std::max(t.slowest, log.parts) + t.batch() - t.slowest + log.turns;
	r["throughput"] = t.transactions * 1e6 / batch_us;
	r["verified"] = !s.verify || is_brought_back(s, whole.rank());
	remove(s.host.path.c_str());
	bench::report_near(s, r, "TPC-C with the command log", "transactions");
	if (r["verified"] == false)
		fprintf(stderr, "tide-log: the log does not bring the data back\n");
	return r["verified"] == true ? 0 : 1;
}

void add_options(tools::CommandLine &line, Settings &s)
{
	add_rank_options(line, s);
	line.option("--host", s.host.machine, "an emulated machine, or a file that describes one");
	line.option("--log", s.host.path, "the log's heap, which is made anew and removed");
	line.flag("--one-heap", s.host.one_heap,
	        "a heap for the logs of all ranks; otherwise each has one");
	line.flag("--verify", s.verify, "see whether the log brings the data back");
}

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	s.machine = "upmem-sdk";
	s.tasklets = TIDE_TASKLETS;
	s.modules = 64;
	s.of = 2048;
	s.workload.name = "tpcc";
	s.host.path = "/tmp/tide-log-" + std::to_string(getpid()) + ".fur";
	tools::CommandLine line("tide-log", "TPC-C on modules, with the command log.");
	add_options(line, s);
	if (auto status = tools::parse_or_exit_status(line, "tide-log", argc, argv))
		return *status;
	return bench::near_exit_status("tide-log", s, [&] { return run(s); });
}
