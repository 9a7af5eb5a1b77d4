/* SPDX-License-Identifier: BSD-3-Clause
 *
 * near_program.hpp - the options, the report of the result and the exit status of a benchmark of
 * near memory.
 */
#ifndef BENCH_NEAR_PROGRAM_HPP
#define BENCH_NEAR_PROGRAM_HPP

#include "../../bench/common/output.hpp"
#include "../../tools/common/command_line.hpp"
#include "../../tools/common/json.hpp"

#include "near/kernel.h"

#include <cstdio>
#include <exception>
#include <string>

namespace bench
{

struct NearSettings {
	std::string machine = "threads", json;
	unsigned tasklets = 1, host_threads = 1;
	uint64_t seed = 1;
};

/* `seeded`: the text after --seed. */
inline void add_near_options(tools::CommandLine &line, NearSettings &s, const char *seeded)
{
	line.option("--machine", s.machine,
	        "threads (of this process; threads:coherent: elements that share a memory), or an "
	        "emulated machine: upmem, pul-ndp:dram, pul-ndp:nvm, or a file that describes one");
	line.option("--tasklets", s.tasklets, "tasklets of each element")
	        .range(1, NEAR_MOST_TASKLETS);
	line.option("--host-threads", s.host_threads, "threads of this process for the elements")
	        .range(1, 64);
	line.option("--seed", s.seed, seeded);
	line.option("--json", s.json, "write the result to this file; - is standard output");
}

/* Print the throughput, of `work` in `units` a second, or write the JSON of --json. */
inline void report_near(const NearSettings &s, const tools::Json &result, const std::string &work,
        const char *units)
{
	if (s.json != "-")
		printf("%s on %s: %.0f %s a second\n", work.c_str(), s.machine.c_str(),
		        result["throughput"].get<double>(), units);
	if (!s.json.empty())
		write_json(s.json, result);
}

/* The exit status of run(), whose exceptions are reported. */
template <class Run>
int near_exit_status(const char *program, const NearSettings &s, Run run)
{
	try {
		return run();
	} catch (const tools::WrongUsage &e) {
		fprintf(stderr, "%s: %s\n", program, e.what());
		return tools::EXIT_WRONG_USAGE;
	} catch (const std::exception &e) {
		fprintf(stderr, "%s: %s: %s\n", program, s.machine.c_str(), e.what());
		return 1;
	}
}

} // namespace bench

#endif /* BENCH_NEAR_PROGRAM_HPP */
