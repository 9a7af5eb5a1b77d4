/* SPDX-License-Identifier: BSD-3-Clause
 *
 * runs.hpp - several runs on data that is loaded once: --runs.
 *
 * The program loads, and forks a child for each line of a file.  The child takes the options of its
 * line, makes its run and prints the result.  So each run starts from the same memory and, on an
 * emulated machine, from the same state of the machine: its result does not depend on the other
 * lines.
 */
#ifndef BENCH_RUNS_HPP
#define BENCH_RUNS_HPP

#include "driver.hpp"

#include <optional>

namespace bench
{

/* The options of the workload that a line may have, and the check of their values. */
struct RunOptions {
	std::function<void(tools::CommandLine &)> add;
	std::function<void()> check;
};

/* Call it when the data is loaded.  Without --runs it returns nothing, and the caller makes the run
 * of the command line.  With --runs it returns nothing in each child, with the line's options set;
 * in the program itself it returns the exit status when no line is left.  `adopt`: lets the system
 * accept the child as its process. */
std::optional<int> each_run(
        Options &o, const RunOptions &workload, const std::function<void()> &adopt);

/* Is this process the child of a line? */
bool in_child();

/* End the child: print the result of its run, or the reason why it has none. */
[[noreturn]] void end_child(const json &result);
[[noreturn]] void fail_child(const std::string &why, int status);

/* Let the copy of a system that a child has accept the child as its process. */
template <class Tm>
void adopt(Tm &tm)
{
	if constexpr (requires { tm.adopt(); })
		tm.adopt();
}

} // namespace bench

#endif /* BENCH_RUNS_HPP */
