/* SPDX-License-Identifier: BSD-3-Clause
 *
 * explore.cpp - run libfur, or a system it is measured against, on the emulated machine under the
 * oracle, with one schedule for each seed.  With --crash, cut the power at a point chosen by the
 * seed, recover as the system does, and ask the oracle again.
 *
 *     explore --tm fur-opacity --workload intset --threads 4 --seeds 1..1000 --crash
 *
 * The seed and the options decide everything about a run: machine, number of retries, share of
 * updates, delays, schedule, crash.  Each seed runs in a process of its own.  Exit status: 0 no
 * violation, 1 a violation (with the steps that led to it and the command that repeats it), 2 wrong
 * usage.
 *
 * --plant BUG and --tm fur-paper run other programs, built from these files and a library with that
 * bug, or that protocol, in it.
 *
 *     explore.cpp           the command line, and the table of systems
 *     pool.hpp              many seeds, each in its process
 *     seed.hpp, plan.hpp    one seed, and the choices that it stands for
 *     subject.hpp           the interface of a system; fur_subject.hpp, baseline_subject.hpp
 *     worker.hpp, data.hpp  the workloads, and their data in the heap
 *     group.cpp             libfur with several heaps, and the workload over them
 *     recorded.hpp          transactions that report their accesses to the oracle
 *
 * The compiler instruments all of them; only code that simulate() calls runs on the machine.
 */
#include "../../../tools/common/command_line.hpp"
#include "baseline_subject.hpp"
#include "fur_subject.hpp"
#include "group.hpp"
#include "plants.hpp"
#include "pool.hpp"
#include "subject.hpp"

#include <filesystem>
#include <iostream>
#include <malloc.h>
#include <map>
#include <optional>

namespace explore
{

namespace
{

const std::map<std::string, System> systems = {
        {"fur-opacity", system_of<Fur>},
        {"fur-snapshot", system_of<Fur>},
        {"fur-paper", system_of<Fur>},
        {"spht", system_of<Baseline<baselines::SphtTm>>},
        {"spht-sihtm", system_of<Baseline<baselines::SphtSihtmTm>>},
        {"pisces", system_of<Baseline<baselines::PiscesTm>>},
        {"specpmt", system_of<Baseline<baselines::SpecpmtTm>>},
        {"specpmt-paper", system_of<Baseline<baselines::SpecpmtPaperTm>>},
};

int wrong_usage(const std::string &what)
{
	std::cerr << "explore: " << what << "; see --help\n";
	return 2;
}

void add_subject(tools::CommandLine &line, Options &o)
{
	line.option("--tm", o.tm,
	        "fur-opacity, fur-snapshot, fur-paper, spht, spht-sihtm, pisces, specpmt, "
	        "specpmt-paper");
	line.option("--workload", o.workload,
	        "bank, bulk, collections, containers, flags, intset, tables, tpcc, words, or "
	        "group, "
	        "of libfur: updates over several heaps");
}

void add_options(tools::CommandLine &line, Options &o)
{
	add_subject(line, o);
	line.option("--threads", o.threads, "simulated threads");
	line.option("--operations", o.operations, "transactions of each thread");
	line.option("--seeds", o.seeds, "from..to");
	line.flag("--crash", o.crash, "cut the power once in each run, recover, check");
	line.option("--crash-at", o.crash_at,
	        "the power failure, in accesses; default: chosen by the seed");
	line.flag("--replayer", o.replayer, "libfur: a replayer alongside the working process");
	line.flag("--dram", o.dram, "libfur: hand private pages back again and again");
	line.flag("--snapshots", o.snapshots,
	        "libfur: many read-only transactions read in snapshots, which may be revoked");
	line.flag("--moves", o.moves, "libfur: threads move updates between hardware and software");
	line.flag("--by-name", o.by_name,
	        "libfur: ask for the machine's hardware transactions by name, so that updates do "
	        "not move to software");
	line.flag("--ships", o.ships,
	        "libfur: a shipper beside the working process, which returns only what the "
	        "shipping log has; after a power failure, also check what a fail-over would use");
	line.flag("--handover", o.handover,
	        "libfur: the same with a process that returns what is durable here, until the "
	        "shipper lets another node take over; then check what that has, and what it has "
	        "not.  The run ends with that");
	line.option("--plant", o.plant, "a planted bug; 'list' names them");
	line.option("--isolation", o.isolation,
	        "isolation that the oracle checks: opacity, snapshot; default: that of --tm");
	line.option("--machine", o.machine,
	        "power9, tsx, tsx-tracked, epyc, weak, ccix-ndp, a description file, or all, which "
	        "takes the first three in turn");
	line.option("--retries", o.retries,
	        "libfur: attempts in hardware before an update does without; default: chosen by "
	        "the seed");
	line.option("--late", o.late,
	        "libfur: percent of the updates that end with tickets; default: chosen by the "
	        "seed");
	line.option("--pm-write-ns", o.pm_write_ns,
	        "from a line's write-back until it is durable, and until the thread's next one; "
	        "default: the machine's");
	line.option("--order", o.order,
	        "points that threads reach in this order, 'VARIABLE POINT < VARIABLE POINT ...'; "
	        "with --crash, 'crash' may be a step (emulator/emulated.h)");
	line.option("--recovery-order", o.recovery_order,
	        "--workload group: the same for the first recovery after a power failure");
	line.flag("--any", o.any,
	        "libfur: machine, workload, isolation, --replayer, --dram and --pm-write-ns by the "
	        "seed");
	line.option("--until-idle", o.until_idle,
	        "end after this many seeds in a row that brought no new pair of points of two "
	        "threads, one right after the other");
	line.option("--jobs", o.jobs, "processes at a time; default: one for each processor");
	line.option("--history", o.history, "file for the history of the run (one seed)");
	line.option("--must-find", o.must_find,
	        "there must be a violation: try this seed first, then --seeds; the exit status is "
	        "0 if there is one, or else 1");
	line.flag("--keep-going", o.keep_going, "do not stop at the first violation");
}

void list_plants()
{
	for (const auto &bug : planted_bugs)
		std::cout << bug.name << std::string(26 - strlen(bug.name), ' ') << bug.what
		          << "\n";
}

bool parse_seeds(Options &o)
{
	char end = 0;
	unsigned long long a, b;
	if (sscanf(o.seeds.c_str(), "%llu..%llu%c", &a, &b, &end) != 2 || a > b)
		return false;
	o.first = a, o.last = b;
	return true;
}

bool known_plant(const std::string &name)
{
	for (const auto &bug : planted_bugs)
		if (name == bug.name)
			return true;
	return false;
}

std::string mistake_in_order(const Options &o, const char *name, const std::string &text)
{
	char error[2000];
	if (text.empty())
		return "";
	const emu_order *order = emu_order_read(text.c_str(), error, sizeof error);
	if (!order)
		return std::string(name) + ": " + error;
	if (emu_order_has_crash(order) && !o.crash)
		return std::string(name) + " has a crash: use it with --crash";
	return "";
}

/* Nothing, or the first mistake in the options. */
std::string mistake_in(Options &o)
{
	if (!parse_seeds(o))
		return "--seeds " + o.seeds + ": use FROM..TO, such as 1..100";
	if (!systems.contains(o.tm))
		return "--tm " + o.tm +
		       ": use fur-opacity, fur-snapshot, fur-paper, spht, spht-sihtm, "
		       "pisces, specpmt or specpmt-paper";
	if (!workloads.contains(o.workload))
		return "--workload " + o.workload +
		       ": use bank, bulk, collections, containers, flags, group, intset, tables, "
		       "tpcc or words";
	if (!o.isolation.empty() && o.isolation != "opacity" && o.isolation != "snapshot")
		return "--isolation " + o.isolation + ": use opacity or snapshot";
	if (o.threads < 1 || o.threads >= MOST_THREADS)
		return "--threads: use 1 to " + std::to_string(MOST_THREADS - 1);
	if (!o.history.empty() && o.first != o.last)
		return "--history is of one seed: use --seeds N..N";
	if (o.machine != "all") {
		char error[512];
		emu_machine *m = emu_machine_read(o.machine.c_str(), error, sizeof error);
		if (!m)
			return std::string("--machine ") + error;
		emu_machine_free(m);
	}
	if ((o.workload == "containers" || o.workload == "collections") &&
	        o.tm.rfind("fur-", 0) != 0)
		return "--workload " + o.workload + " is for libfur: use --tm fur-opacity";
	if (o.workload == "group" && (o.tm != "fur-opacity" || o.ships || o.handover))
		return "--workload group is for --tm fur-opacity, without --ships and --handover";
	if (o.any && o.tm.rfind("fur-", 0) != 0)
		return "--any is for libfur: use --tm fur-opacity";
	if (o.handover && o.crash)
		return "--handover ends each run, without --crash";
	o.ships |= o.handover;
	if (o.ships && (o.tm.rfind("fur-", 0) != 0 || o.tm == "fur-paper"))
		return "--ships is for libfur: use --tm fur-opacity";
	if (o.ships && o.threads > 6) /* heap_write_ship_page(): 8 slots for each */
		return "--ships: the ring is made for 6 --threads";
	if (!o.plant.empty() && !known_plant(o.plant))
		return "--plant " + o.plant + ": see --plant list";
	if (!o.recovery_order.empty() && (o.workload != "group" || !o.crash))
		return "--recovery-order is for --workload group with --crash";
	return "";
}

/* The same of the orders: this is the program that has the points (run_variant()). */
std::string mistake_in_orders(const Options &o)
{
	const std::string mistake = mistake_in_order(o, "--order", o.order);
	return mistake.empty() ? mistake_in_order(o, "--recovery-order", o.recovery_order)
	                       : mistake;
}

/* Replaces this process by the program for --plant or --tm fur-paper, which lies next to it.  An
 * exit status if that fails; nothing if this program is the right one. */
std::optional<int> run_variant(const Options &o, char **argv)
{
	if (o.plant.empty() && o.tm != "fur-paper")
		return {};
	std::string name = o.plant.empty() ? o.tm : "plant-" + o.plant;
	std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
	std::string other =
	        (std::filesystem::path(self).parent_path() / ("explore-" + name)).string();
	if (self == other)
		return {};
	execv(other.c_str(), argv);
	return wrong_usage(other + ": " + strerror(errno));
}

int main(int argc, char **argv)
{
	tools::CommandLine line("explore",
	        "schedules and power failures of libfur on the emulated machine, checked");
	Options o;
	/* The oracle allocates and frees up to megabytes, several times in a run: glibc keeps
	 * the pages. */
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	add_options(line, o);
	if (auto status = tools::parse_or_exit_status(line, "explore", argc, argv))
		return *status;
	if (o.plant == "list") {
		list_plants();
		return 0;
	}
	if (std::string mistake = mistake_in(o); !mistake.empty())
		return wrong_usage(mistake);
	if (auto status = run_variant(o, argv))
		return *status;
	if (std::string mistake = mistake_in_orders(o); !mistake.empty())
		return wrong_usage(mistake);
	settle(o);
	return explore_seeds(o, o.workload == "group" ? group_system : systems.at(o.tm));
}

} // namespace

} // namespace explore

int main(int argc, char **argv)
{
	return explore::main(argc, argv);
}
