/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine.hpp - where a benchmark runs: natively, or on an emulated machine.  A benchmark is built
 * twice from the same sources; `NAME --machine power9` starts NAME-emulated, which has the machine
 * in it.
 */
#ifndef BENCH_MACHINE_HPP
#define BENCH_MACHINE_HPP

#include <functional>
#include <string>

namespace bench
{

struct Options;

/* Run on the machine the options name; throws Usage if it is not known, or too small. */
int on_machine(Options &o, char **argv, const std::function<int(Options &)> &run);

/* Prepare or inspect data: on an emulated machine no time passes, and nothing of it is counted. */
void aside(const std::function<void()> &f);

/* The kind of hardware transactions it lists, tsx or power, or null.  Every one of them may still
 * abort. */
const char *machine_htm();

/* Move the calling thread to the coherent agent of an emulated machine.  False: the machine has
 * none, and the thread stays. */
bool to_agent();
/* How many threads the agent has cores for; 0: there is no agent. */
unsigned agent_threads();
/* The side that has the memory: host or device. */
const char *home_side();

/* One turn of a loop that waits for another thread. */
void spin();

} // namespace bench

#endif /* BENCH_MACHINE_HPP */
