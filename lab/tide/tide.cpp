/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tide.cpp - benchmarks of PIM-TIDE: Bank, TPC-C, and schedules that show its flaws.
 */
#include "rank_options.hpp"
#include "schedules.hpp"
#include "whole.hpp"

#include <cstdio>

namespace
{

using tools::Json;

struct Settings : tide::RankSettings {
	std::string tm = "pim-tide";
	unsigned schedules = 100, first = 0;
	bool trees = false, many_locks = false;
};

tide::Options variant_of(const Settings &s)
{
	tide::Options o = tide::options_of(s);
	o.trees = s.trees;
	o.many_locks = s.many_locks;
	if (s.tm == "pim-tide-paper") {
		o.numbering = tide::Numbering::PRINTED;
		o.printed_commit = true;
	}
	return o;
}

/* As many as fill the batches, if all are local; their parts otherwise go to later batches. */
void submit_all(const Settings &s, tide::Tide &system)
{
	tools::Random random{s.seed};
	for (unsigned k = 0; k < s.batches * s.records * s.tasklets; k++)
		for (unsigned module = 0; module < s.modules; module++)
			system.submit(s.workload.draw(random, s.modules, module));
}

double share(uint64_t part, uint64_t rest)
{
	const auto all = static_cast<double>(part + rest);
	return all > 0 ? static_cast<double>(part) / all : 0;
}

/* The counts of a run, without the load before it. */
near_counters since(const near_counters &before, near_counters n)
{
	n.host_ps -= before.host_ps;
	n.push_ps -= before.push_ps;
	n.pull_ps -= before.pull_ps;
	n.switch_ps -= before.switch_ps;
	return n;
}

/* What was asked for, and what the modules that ran have counted. */
void add_counts(Json &r, const Settings &s, const tide::Counts &c, const near_counters &n)
{
	r["workload"] = s.workload.name;
	r["tm"] = s.tm;
	r["machine"] = s.machine;
	r["modules"] = s.modules;
	r["tasklets"] = s.tasklets;
	r["abort_rate"] = share(c.aborts[0] + c.aborts[1], c.commits[0] + c.commits[1]);
	r["distributed_parts"] = c.commits[1];
	r["instructions"] = n.instructions;
	r["transfers"] = n.transfers;
	r["program_instructions"] = n.program_instructions;
}

Json result_of(const Settings &s, const tide::Tide &system, const near_counters &n)
{
	const tide::Counts c = system.counts();
	auto per_second = [&](uint64_t ps) {
		return ps ? static_cast<double>(c.transactions) / (static_cast<double>(ps) / 1e12)
		          : 0;
	};
	Json r;
	add_counts(r, s, c, n);
	r["transactions"] = c.transactions;
	r["batches"] = c.batches;
	r["throughput"] = per_second(n.host_ps);
	r["kernel_throughput"] = per_second(n.kernel_ps);
	r["host_us"] = static_cast<double>(n.host_ps) / 1e6;
	r["kernel_us"] = static_cast<double>(n.kernel_ps) / 1e6;
	r["push_us"] = static_cast<double>(n.push_ps) / 1e6;
	r["pull_us"] = static_cast<double>(n.pull_ps) / 1e6;
	r["switch_us"] = static_cast<double>(n.switch_ps) / 1e6;
	return r;
}

Json json_of(unsigned modules, const tide::Whole::Times &t)
{
	Json r;
	r["of"] = modules;
	r["throughput"] = t.throughput();
	r["batch_us"] = t.batch();
	r["slowest_us"] = t.slowest;
	r["copies_us"] = t.copies;
	r["handing_us"] = t.handing;
	return r;
}

/* A rank of a larger machine, for the time of all its modules; and of machines of half as many, and
 * so on. */
int run_rank_of_machine(const Settings &s)
{
	tide::Whole whole(s.workload, variant_of(s), s.of, s.first, s.seed);
	for (unsigned k = 0; k < s.batches; k++)
		whole.run_batch();
	const tide::Tide &rank = whole.rank();
	const tide::Whole::Times t = whole.times(s.of);
	const near_counters n = rank.counters();
	tide::Workload::Money money;
	const std::string wrong = s.workload.wrong(rank, &money);
	Json r;
	add_counts(r, s, rank.counts(), n);
	r["first"] = s.first;
	r["transactions"] = whole.transactions();
	r["batches"] = s.batches;
	r["throughput"] = t.throughput();
	r["mean_us"] = t.mean;
	r["slowest_seen_us"] = t.slowest_seen;
	r["transferred_bytes"] = n.transferred_bytes;
	r["paid"] = money.paid;
	r["received"] = money.received;
	for (unsigned modules = s.of; modules >= s.modules; modules /= 2)
		r["machines"].push_back(json_of(modules, whole.times(modules)));
	r["verified"] = wrong.empty();
	bench::report_near(s, r, s.workload.name, "transactions");
	if (!wrong.empty())
		fprintf(stderr, "tide: %s\n", wrong.c_str());
	return wrong.empty() ? 0 : 1;
}

int run_workload(const Settings &s)
{
	tide::Tide system(variant_of(s));
	s.workload.load(system);
	submit_all(s, system);
	const near_counters before = system.counters();
	system.run_all();
	Json result = result_of(s, system, since(before, system.counters()));
	const std::string wrong = s.workload.wrong(system);
	result["verified"] = wrong.empty();
	bench::report_near(s, result, s.workload.name, "transactions");
	if (!wrong.empty())
		fprintf(stderr, "tide: %s\n", wrong.c_str());
	return wrong.empty() ? 0 : 1;
}

/* Exit status 1: a schedule has shown that the variant is not serialisable. */
int run_schedules(const Settings &s)
{
	enum : unsigned { TRANSACTIONS = 40, LEAST_MODULES = 2 };
	tide::Options o = variant_of(s);
	o.modules = std::max(s.modules, unsigned(LEAST_MODULES));
	o.most_instructions = 2000000;
	unsigned found = 0;
	for (uint64_t seed = s.seed; seed < s.seed + s.schedules; seed++) {
		const std::string what = tide::violation_of(
		        o, tide::drawn_transactions(seed, o.modules, TRANSACTIONS));
		if (!what.empty() && !found++)
			printf("%s, seed %llu: %s\n", s.tm.c_str(),
			        static_cast<unsigned long long>(seed), what.c_str());
	}
	printf("%s: %u of %u schedules are not serialisable\n", s.tm.c_str(), found, s.schedules);
	return found ? 1 : 0;
}

void add_options(tools::CommandLine &line, Settings &s)
{
	tide::Workload &w = s.workload;
	add_rank_options(line, s);
	line.option("--tm", s.tm, "pim-tide, or pim-tide-paper: as published, with its flaws")
	        .one_of({"pim-tide", "pim-tide-paper"});
	line.option("--workload", w.name,
	            "bank, tpcc, or schedules: search for one that is not serialisable")
	        .one_of({"bank", "tpcc", "schedules"});
	line.option("--first", s.first, "with --of: the number of the rank's first module")
	        .range(0, 4095);
	line.option("--accounts", w.accounts, "accounts of a transaction of bank")
	        .range(2, BANK_MOST);
	line.flag(
	        "--deterministic", w.deterministic, "local transactions keep to the order as well");
	line.flag("--many-locks", s.many_locks,
	        "65,536 locks; the machine needs a scratchpad of 512 KiB");
	line.flag("--trees", s.trees, "tpcc finds rows by trees");
	line.option("--schedules", s.schedules, "schedules to search").range(1, 1000000);
}

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	s.tasklets = TIDE_TASKLETS;
	s.batches = 2;
	tools::CommandLine line(
	        "tide", "Transactions on modules of a near-memory machine: transactions a second.");
	add_options(line, s);
	if (auto status = tools::parse_or_exit_status(line, "tide", argc, argv))
		return *status;
	return bench::near_exit_status("tide", s, [&] {
		if (s.of && (s.workload.name != "tpcc" || s.tm != "pim-tide"))
			throw tools::WrongUsage("--of: use it with --workload tpcc --tm pim-tide");
		return s.workload.name == "schedules" ? run_schedules(s)
		       : s.of                         ? run_rank_of_machine(s)
		                                      : run_workload(s);
	});
}
