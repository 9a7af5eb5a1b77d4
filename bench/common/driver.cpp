/* SPDX-License-Identifier: BSD-3-Clause
 *
 * driver.cpp - see driver.hpp.
 */
#include "round_trip.hpp"
#include "runs.hpp"

#include <barrier>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <mutex>
#include <thread>

namespace bench
{

void Options::add_to(tools::CommandLine &line)
{
	line.option("--tm", tm,
	        "system to run: none, htm, spht, pisces, specpmt, fur-opacity, fur-snapshot; not "
	        "durably opaque: specpmt-paper (returns data that is not durable); only on the "
	        "emulated POWER: spht-sihtm, fur-paper (Algorithm 1 as printed); only in rbtree: "
	        "lmdb, libpmemobj");
	line.option("--machine", machine,
	        "native, or an emulated machine: power9, tsx, tsx-tracked, epyc, ccix-ndp, or a "
	        "file that describes one");
	line.option("--threads", threads, "number of threads, pinned to cores in turn");
	line.option("--most-threads", most_threads,
	        "make the system for runs of up to this many threads, at most the machine's; "
	        "default: --threads");
	line.option("--seconds", seconds,
	        "length of the measured window; in virtual time on an emulated machine");
	line.option("--seed", seed, "seed of the random numbers");
	line.option("--heap", tm_options.heap,
	        "heap file; default: a file in /dev/shm, removed at the end");
	line.flag("--reuse", tm_options.reuse, "open the heap file if it exists");
	line.option("--heap-mib", tm_options.heap_bytes,
	        "heap size in MiB; default: enough for the workload");
	line.option("--log-mib", tm_options.log_bytes,
	        "size of each thread's log in MiB, a power of two; default: the library's");
	line.option("--ring-slots", tm_options.ring_slots,
	        "slots of the marker ring, a power of two; default: the library's.  Nothing is "
	        "replayed until a log or the ring is full");
	line.option("--pm", pm, "persistence domain: auto, pmem, eadr, emulated, sync");
	line.option("--pm-latency-ns", tm_options.pm_latency_ns,
	        "domain emulated: write latency of a line, added to the real write-back");
	line.option("--pm-gap-ns", tm_options.pm_gap_ns,
	        "domain emulated: time between two lines of a thread; equal to the latency, it "
	        "makes write-backs serial");
	line.option("--dram-mib", tm_options.dram_bytes,
	        "libfur: release private pages above this many MiB; default: no limit");
	line.option("--pm-read-ns", tm_options.pm_read_ns,
	        "emulated machine: time to read a line that no cache holds; default: from its "
	        "description");
	line.option("--json", json_path,
	        "write the result as JSON to this file, - for standard output");
	line.option("--runs", runs,
	        "emulated machine: load once, then make a run for each line of this file, - for "
	        "standard input.  A line has the options of its run, such as --threads and "
	        "--seconds; the rest is fixed by the command line.  Prints a line of JSON for each "
	        "run; for one that failed, with its error and status");
	line.flag("--phases", tm_options.phases,
	        "measure the time in each phase; costs about ten nanoseconds per transaction");
}

void Options::check_run() const
{
	if (threads < 1 || threads > 1000)
		throw Usage("--threads " + std::to_string(threads) + ": use 1 to 1000");
	if (threads > most_threads)
		throw Usage("--threads " + std::to_string(threads) + ": the system is made for " +
		            std::to_string(most_threads) + ": use at most as many, or raise " +
		            (in_child() ? "the command line's --threads" : "--most-threads"));
	if (!(seconds > 0 && seconds <= 86400))
		throw Usage("--seconds: use more than 0, and at most a day (86400)");
}

void Options::check_runs() const
{
	if (machine == "native")
		throw Usage("--runs: works on an emulated machine only: add --machine, or start a "
		            "program for each run");
	if (!json_path.empty() && json_path != "-")
		throw Usage(
		        "--json " + json_path + ": --runs prints its results: leave --json out");
	/* Pages that libfur hands back it reads from the file again, which has nothing of what a
	 * child has replayed. */
	if (tm_options.dram_bytes)
		throw Usage("--dram-mib: not with --runs: leave one of them out");
}

void Options::check()
{
	static const char *const domains[] = {"auto", "pmem", "eadr", "emulated", "sync"};
	if (!most_threads)
		most_threads = threads;
	check_run();
	if (!runs.empty())
		check_runs();
	if (tm_options.pm_read_ns && machine == "native")
		throw Usage("--pm-read-ns: works on an emulated machine only: add --machine, or "
		            "leave it out");
	bool known = false;
	for (int k = 0; k < 5; k++)
		if (pm == domains[k]) {
			tm_options.pm = static_cast<fur_pm>(k);
			known = true;
		}
	if (!known)
		throw Usage("--pm " + pm + ": use auto, pmem, eadr, emulated or sync");
	tm_options.threads = most_threads;
	tm_options.isolation = tm == "fur-snapshot" ? FUR_SNAPSHOT : FUR_OPACITY;
	tm_options.heap_bytes <<= 20;
	if (tm_options.log_bytes > 2048)
		throw Usage(
		        "--log-mib " + std::to_string(tm_options.log_bytes) + ": use at most 2048");
	tm_options.log_bytes <<= 20;
	tm_options.dram_bytes <<= 20;
	if (peer_package(tm))
		check_peer();
}

const char *peer_package(const std::string &tm)
{
	return tm == "lmdb" ? "liblmdb-dev" : tm == "libpmemobj" ? "libpmemobj-dev" : nullptr;
}

void Options::check_peer() const
{
	if (machine != "native")
		throw Usage("--machine " + machine + ": --tm " + tm + " runs natively only");
	if (tm_options.pm == FUR_PM_PMEM || tm_options.pm == FUR_PM_EADR)
		throw Usage("--pm " + pm + ": --tm " + tm + " supports auto, emulated and sync");
	if (tm_options.pm_latency_ns || tm_options.pm_gap_ns)
		throw Usage("--pm-latency-ns, --pm-gap-ns: no latency can be added to the "
		            "write-backs of --tm " +
		            tm);
}

using Clock = std::chrono::steady_clock;

static double since(Clock::time_point t)
{
	return std::chrono::duration<double>(Clock::now() - t).count();
}

/* Sleep, with a line of progress on a terminal. */
static void sleep_for(double seconds, const char *what)
{
	bool terminal = isatty(2);
	auto started = Clock::now();
	while (since(started) < seconds) {
		if (terminal)
			fprintf(stderr, "\r%s %.0f of %.0f s ", what, since(started), seconds);
		double left = seconds - since(started);
		std::this_thread::sleep_for(
		        std::chrono::duration<double>(left < 0.2 ? (left > 0 ? left : 0) : 0.2));
	}
	if (terminal)
		fprintf(stderr, "\r%40s\r", "");
}

static Window look(const std::vector<Progress> &all)
{
	Window w;
	for (const Progress &p : all)
		for (int k = 0; k < MAX_KINDS; k++)
			w.done[k] += p.done[k].load(std::memory_order_relaxed);
	return w;
}

/* Before and after the window.  A native program has one run, an emulated one takes none. */
static RoundTrips trips;

Window run_threads(const Options &o, const Body &body)
{
	std::vector<Progress> progress(o.threads);
	std::atomic<bool> stop{false};
	std::barrier start(static_cast<std::ptrdiff_t>(o.threads) + 1);
	std::exception_ptr failure;
	std::mutex failing;
	std::vector<std::thread> threads;
	if (o.machine == "native")
		trips.take();
	for (unsigned i = 0; i < o.threads; i++)
		threads.emplace_back([&, i] {
			pin(i);
			bool started = false;
			try {
				body(
				        i,
				        [&] {
					        started = true;
					        start.arrive_and_wait();
				        },
				        stop, progress[i]);
			} catch (...) {
				std::lock_guard guard(failing);
				failure = std::current_exception();
				stop = true;
			}
			/* The others need not wait for one that has failed before. */
			if (!started)
				start.arrive_and_drop();
		});
	start.arrive_and_wait();
	sleep_for(o.warm_up_seconds(), "warming up");
	Window before = look(progress);
	auto started = Clock::now();
	sleep_for(o.seconds, "measuring");
	Window after = look(progress);
	after.seconds = since(started);
	stop = true;
	for (auto &t : threads)
		t.join();
	if (failure)
		std::rethrow_exception(failure);
	if (o.machine == "native")
		trips.take();
	Window all = look(progress);
	for (int k = 0; k < MAX_KINDS; k++) {
		after.done[k] -= before.done[k];
		after.whole_run[k] = all.done[k];
	}
	return after;
}

ProgressBar::ProgressBar(const char *what, uint64_t steps)
    : what_(what), steps_(steps), every_(steps / 200 + 1), terminal_(isatty(2))
{
}

ProgressBar::~ProgressBar()
{
	if (terminal_)
		fprintf(stderr, "\r%60s\r", "");
}

void ProgressBar::show() const
{
	if (!terminal_)
		return;
	int percent = static_cast<int>(100 * done_ / (steps_ ? steps_ : 1)),
	    filled = percent * 40 / 100;
	fprintf(stderr, "\r%s [%.*s%*s] %d %%", what_, filled,
	        "########################################", 40 - filled, "", percent);
}

json common_result(const Options &o, const char *workload, const Window &window,
        const char *const *kinds, unsigned n)
{
	json r;
	uint64_t total = 0;
	r["workload"] = workload;
	r["tm"] = o.tm;
	r["machine"] = o.machine;
	r["threads"] = o.threads;
	r["seconds"] = window.seconds;
	r["seed"] = o.seed;
	r["pm_latency_ns"] = o.tm_options.pm_latency_ns;
	r["pm_gap_ns"] = o.tm_options.pm_gap_ns;
	if (o.machine == "native")
		r["round_trip_ns"] = trips.json();
	for (unsigned k = 0; k < n; k++) {
		r["commits"][kinds[k]] = window.done[k];
		r["run_commits"][kinds[k]] = window.whole_run[k];
		total += window.done[k];
	}
	r["throughput"] = static_cast<double>(total) / window.seconds;
	return r;
}

static int failed(const std::string &name, const char *why, int status)
{
	if (in_child())
		fail_child(why, status);
	std::cerr << name << ": " << why << "\n";
	return status;
}

static void print_text(const json &r)
{
	for (const auto &[key, value] : r.items())
		std::cout << key << std::string(key.size() < 16 ? 16 - key.size() : 1, ' ')
		          << (value.is_string() ? value.get<std::string>() : value.dump()) << "\n";
}

int report(const Options &o, const json &result)
{
	if (in_child())
		end_child(result);
	if (o.json_path.empty()) {
		print_text(result);
	} else if (o.json_path == "-") {
		std::cout << result.dump() << "\n";
	} else {
		std::ofstream file(o.json_path);
		file << result.dump(2) << "\n";
		if (!file.flush())
			throw std::runtime_error(
			        o.json_path +
			        ": cannot write the result: check the path and the space left");
	}
	return result["verified"].get<bool>() ? 0 : 1;
}

int main_of(const std::string &name, int argc, char **argv,
        const std::function<void(tools::CommandLine &, Options &)> &add,
        const std::function<int(Options &)> &run)
{
	tools::CommandLine line(name, "");
	Options o;
	o.add_to(line);
	add(line, o);
	if (auto status = tools::parse_or_exit_status(line, name, argc, argv))
		return *status;
	try {
		o.check();
		return on_machine(o, argv, run);
	} catch (const Usage &e) {
		return failed(name, e.what(), 2);
	} catch (const std::exception &e) {
		return failed(name, e.what(), 1);
	}
}

} // namespace bench
