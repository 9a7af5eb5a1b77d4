/* SPDX-License-Identifier: BSD-3-Clause
 *
 * driver.hpp - the parts that all workloads share: the command line, pinned threads, the measured
 * window, the result.
 *
 * Throughput is measured over a window in the middle: threads run from a common start and warm up;
 * then the driver reads their counters twice.
 */
#ifndef BENCH_DRIVER_HPP
#define BENCH_DRIVER_HPP

#include "../../tools/common/command_line.hpp"
#include "machine.hpp"
#include "tm.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace bench
{

struct Options {
	std::string tm = "fur-opacity", machine = "native", json_path, pm = "emulated";
	/* A file with the options of several runs (runs.hpp), - for standard input */
	std::string runs;
	/* Of a run; and the most that the system is made for, 0: as many */
	unsigned threads = 1, most_threads = 0;
	double seconds = 2;
	uint64_t seed = 1;
	TmOptions tm_options;
	/* Of a machine with a coherent agent: the side that has the memory, host or device; empty:
	 * as described.  The workload adds an option for it.  Static, so that the other options
	 * keep their lines: an emulated run depends on them. */
	inline static std::string home;

	/* The options every workload has. */
	void add_to(tools::CommandLine &line);
	/* Errors the parser cannot see; throws Usage. */
	void check();
	void check_run() const; /* only those of one run */
	double warm_up_seconds() const
	{
		return seconds < 2 ? seconds / 4 : 0.5;
	}

private:
	void check_peer() const;
	void check_runs() const;
};

/* Libraries that are systems for the IntSet, natively only (bench/baselines/peers.hpp): the package
 * one comes in; null: no peer. */
const char *peer_package(const std::string &tm);

enum { MAX_KINDS = 8 };

/* Counts of one thread by kind of transaction, which the driver reads while the thread runs. */
struct alignas(128) Progress {
	std::atomic<uint64_t> done[MAX_KINDS] = {};
	void count(unsigned kind)
	{
		done[kind].store(
		        done[kind].load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
	}
};

struct Window {
	double seconds = 0;
	uint64_t done[MAX_KINDS] = {};
	/* With warm-up and end: aborts and phases are counted over this */
	uint64_t whole_run[MAX_KINDS] = {};
};

/* Run body(thread number, start, stop flag, progress) on `threads` pinned threads for the options'
 * seconds; returns the measured window.  The body prepares itself, and calls start(), which returns
 * when all have: time runs from then on.  An exception in a thread ends the run and is thrown
 * on. */
using Body = std::function<void(
        unsigned, const std::function<void()> &, const std::atomic<bool> &, Progress &)>;
Window run_threads(const Options &o, const Body &body);

/* The progress of a long step, on a terminal. */
class ProgressBar
{
public:
	ProgressBar(const char *what, uint64_t steps);
	~ProgressBar();
	void step()
	{
		if (++done_ % every_ == 0)
			show();
	}

private:
	void show() const;
	const char *what_;
	uint64_t steps_, every_, done_ = 0;
	bool terminal_;
};

/* The start of every result; `kinds`: the names of the kinds that the window counts. */
json common_result(const Options &o, const char *workload, const Window &window,
        const char *const *kinds, unsigned n);

/* Print the result: JSON where asked for, a text to read otherwise.  Returns the exit status; in
 * the child of a line of --runs it does not return. */
int report(const Options &o, const json &result);

/* main() for a workload: parses, runs, turns exceptions into one line and an exit status. */
int main_of(const std::string &name, int argc, char **argv,
        const std::function<void(tools::CommandLine &, Options &)> &add,
        const std::function<int(Options &)> &run);

} // namespace bench

#endif /* BENCH_DRIVER_HPP */
