/* SPDX-License-Identifier: BSD-3-Clause
 *
 * claims.cpp - the latency of the table of record locks (claims/claims.h): one thread that claims
 * and releases records in order, at random and in batches; and two threads, of which a share of the
 * requests is for the same record.
 */
#include "../../bench/common/driver.hpp"
#include "../../bench/common/machine.hpp"
#include "../../bench/common/processor.hpp"
#include "../../tools/common/random.hpp"
#include "locks.hpp"

#include <algorithm>
#include <atomic>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <pthread.h>
#include <sched.h>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace
{

using tools::Random;

struct Settings {
	uint64_t requests = 1000000, records = 1000000;
	unsigned rounds = 5, batch = 512, group = 10;
	unsigned buckets_log2 = CLAIMS_BUCKETS_LOG2;
};

/* ------------------------------------------------------------------ one measurement */

/* Of two threads natively: only groups in which the other one runs.  On a busy machine it often
 * does not, and a thread that runs alone would be taken for one that is not held up. */
struct Samples {
	std::vector<uint64_t> ticks;       /* of each group of claims and releases */
	std::vector<double> mean_ns;       /* of a claim and its release, of each round */
	std::vector<double> mean99_ns;     /* the same, without the slowest 1 % of the groups */
	uint64_t groups = 0, together = 0; /* groups in all; with the other thread running */
	uint64_t busy = 0, asked = 0;      /* claims that found the bucket occupied, out of all */
};

/* Has the other thread ended a request since the last look? */
class Other
{
public:
	void note_request()
	{
		arch_store(&done_, ++own_);
	}
	bool has_run()
	{
#if defined(FUR_EMULATED)
		return true; /* a thread of the machine is never descheduled */
#else
		uint64_t before = seen_;
		seen_ = arch_load(&done_);
		return seen_ != before;
#endif
	}

private:
	alignas(ARCH_PAD) uint64_t done_ = 0;
	uint64_t own_ = 0;
	alignas(ARCH_PAD) uint64_t seen_ = 0;
};

/* What two looks at the clock take, one right after the other. */
uint64_t ticks_of_the_clock()
{
	std::vector<uint64_t> samples(10001);
	for (uint64_t &sample : samples) {
		uint64_t before = arch_ticks();
		sample = arch_ticks() - before;
	}
	std::nth_element(samples.begin(), samples.begin() + 5000, samples.end());
	return samples[5000];
}

/* Nanoseconds of a request, of the fastest `share` of the groups.  Those in which the thread was
 * descheduled are few, and long. */
double mean_of(std::vector<uint64_t> ticks, double share, const Settings &s)
{
	std::sort(ticks.begin(), ticks.end());
	ticks.resize(1 + static_cast<size_t>(share * static_cast<double>(ticks.size() - 1)));
	return static_cast<double>(std::accumulate(ticks.begin(), ticks.end(), uint64_t(0))) /
	       arch_ticks_per_ns() / static_cast<double>(ticks.size() * s.group);
}

/* One round.  `next` returns the record of each request; `other`: null if there is none. */
template <class Next>
void measure_round(
        claims *c, const Settings &s, uint64_t owner, Next &next, Other *other, Samples &samples)
{
	const size_t first = samples.ticks.size();
	for (uint64_t k = 0; k < s.requests; k += s.group) {
		if (other)
			other->has_run();
		uint64_t before = arch_ticks();
		for (uint64_t j = k; j < k + s.group; j++) {
			uint64_t bucket = claims_hash(c, next(j));
			claims_take(c, bucket, owner);
			claims_release(c, bucket, owner);
		}
		uint64_t ticks = arch_ticks() - before;
		bool together = !other || other->has_run();
		samples.groups++;
		samples.together += together;
		/* At least one, so that there is something to report. */
		if (together || (k + s.group >= s.requests && samples.ticks.size() == first))
			samples.ticks.push_back(ticks);
	}
	bench::aside([&] {
		std::vector<uint64_t> ticks(
		        samples.ticks.begin() + static_cast<long>(first), samples.ticks.end());
		samples.mean_ns.push_back(mean_of(ticks, 1, s));
		samples.mean99_ns.push_back(mean_of(ticks, 0.99, s));
	});
}

/* How often the bucket is occupied: counted apart, because the second call takes time. */
template <class Next>
void count_busy(
        claims *c, const Settings &s, uint64_t owner, Next &next, Other &other, Samples &samples)
{
	for (uint64_t k = 0; k < s.requests; k += s.group) {
		uint64_t busy = 0;
		other.has_run();
		for (uint64_t j = k; j < k + s.group; j++) {
			uint64_t bucket = claims_hash(c, next(j));
			if (claims_try(c, bucket, owner) == CLAIMS_BUSY) {
				busy++;
				claims_take(c, bucket, owner);
			}
			claims_release(c, bucket, owner);
		}
		if (other.has_run()) {
			samples.busy += busy;
			samples.asked += s.group;
		}
	}
}

template <class Next>
Samples measure_alone(claims *c, const Settings &s, Next next)
{
	Samples samples;
	samples.ticks.reserve(s.rounds * (s.requests / s.group + 1));
	for (unsigned round = 0; round < s.rounds; round++)
		measure_round(c, s, claims_owner(CLAIMS_WORKER, 1), next, nullptr, samples);
	return samples;
}

/* ------------------------------------------------------------------------- batches */

/* As many different buckets as a batch has records, in order. */
std::vector<uint64_t> batch_of(const claims *c, const Settings &s, Random &random)
{
	std::set<uint64_t> buckets;
	while (buckets.size() < s.batch)
		buckets.insert(claims_hash(c, random.below(s.records)));
	return {buckets.begin(), buckets.end()};
}

/* Claims batches of records, each in the order of the buckets, as a bulk update does; then releases
 * them.  With `ahead` by the calls for batches. */
Samples measure_batches(claims *c, Settings s, bool ahead)
{
	const uint64_t owner = claims_owner(CLAIMS_WORKER, 1);
	Samples samples;
	Random random{7};
	s.group = s.batch;
	for (unsigned round = 0; round < s.rounds; round++) {
		std::vector<uint64_t> ticks;
		for (uint64_t done = 0; done < s.requests; done += s.batch) {
			std::vector<uint64_t> buckets;
			bench::aside([&] { buckets = batch_of(c, s, random); });
			uint64_t before = arch_ticks();
			if (ahead) {
				claims_take_batch(c, buckets.data(), buckets.size(), owner);
				claims_release_batch(c, buckets.data(), buckets.size(), owner);
			} else {
				for (uint64_t bucket : buckets)
					claims_take(c, bucket, owner);
				for (uint64_t bucket : buckets)
					claims_release(c, bucket, owner);
			}
			ticks.push_back(arch_ticks() - before);
		}
		bench::aside([&] {
			samples.mean_ns.push_back(mean_of(ticks, 1, s));
			samples.mean99_ns.push_back(mean_of(ticks, 0.99, s));
		});
	}
	return samples;
}

/* ----------------------------------------------------------------------- two threads */

/* Pin the calling thread to one of the cores that the program was given.  Native threads only: the
 * emulated machine places its threads itself. */
void pin_to([[maybe_unused]] unsigned core)
{
#if !defined(FUR_EMULATED)
	static const cpu_set_t allowed = [] {
		cpu_set_t set;
		CPU_ZERO(&set);
		sched_getaffinity(0, sizeof set, &set);
		return set;
	}();
	cpu_set_t one;
	CPU_ZERO(&one);
	for (unsigned k = 0, seen = 0; k < CPU_SETSIZE; k++)
		if (CPU_ISSET(k, &allowed) && seen++ == core)
			CPU_SET(k, &one);
	if (CPU_COUNT(&one))
		pthread_setaffinity_np(pthread_self(), sizeof one, &one);
#endif
}

/* A share of the requests is for record 0, the others for half of the records. */
struct Shared {
	unsigned percent;
	uint64_t first, records;
	Random random;

	uint64_t operator()(uint64_t)
	{
		if (random.below(100) < percent)
			return 0;
		return first + random.below(records);
	}
};

Samples measure_contended(claims *c, const Settings &s, unsigned percent)
{
	const uint64_t half = s.records / 2;
	Samples samples;
	samples.ticks.reserve(s.rounds * (s.requests / s.group + 1));
	std::atomic<bool> runs{false}, over{false};
	Other other;
	std::thread second([&] {
		pin_to(1);
		Shared next{percent, half, half, Random{2}};
		const uint64_t owner = claims_owner(CLAIMS_WORKER, 2);
		runs = true;
		while (!over.load(std::memory_order_relaxed)) {
			uint64_t bucket = claims_hash(c, next(0));
			claims_take(c, bucket, owner);
			claims_release(c, bucket, owner);
			other.note_request();
		}
	});
	std::thread measured([&] {
		pin_to(0);
		Shared next{percent, 1, half - 1, Random{1}};
		const uint64_t owner = claims_owner(CLAIMS_WORKER, 1);
		while (!runs)
			bench::spin();
		for (unsigned round = 0; round < s.rounds; round++) {
			measure_round(c, s, owner, next, &other, samples);
			count_busy(c, s, owner, next, other, samples);
		}
		over = true;
	});
	measured.join();
	second.join();
	return samples;
}

/* --------------------------------------------------------------------------- results */

/* Quantiles of ns a request, and how many groups lie in each bin: of 1 ns below 200 ns, then 5 %
 * wider each. */
tools::Json distribution(std::vector<uint64_t> &ticks, uint64_t clock, uint64_t group)
{
	std::vector<double> ns;
	ns.reserve(ticks.size());
	for (uint64_t t : ticks)
		ns.push_back(static_cast<double>(t > clock ? t - clock : 0) / arch_ticks_per_ns() /
		             static_cast<double>(group));
	std::sort(ns.begin(), ns.end());
	tools::Json r = tools::Json::object(), bins = tools::Json::array();
	for (auto [name, share] : {std::pair{"p10_ns", 0.1}, {"median_ns", 0.5}, {"p90_ns", 0.9},
	             {"p99_ns", 0.99}, {"p999_ns", 0.999}})
		r[name] = ns[static_cast<size_t>(share * static_cast<double>(ns.size() - 1))];
	double low = 0, high = 1;
	for (auto at = ns.begin(); at != ns.end();) {
		auto end = std::lower_bound(at, ns.end(), high);
		if (end != at)
			bins.push_back(std::vector<double>{low, high, double(end - at)});
		at = end;
		low = high;
		high = high < 200 ? high + 1 : high * 1.05;
	}
	r["bins"] = bins;
	return r;
}

double percent(uint64_t part, uint64_t whole)
{
	return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

tools::Json case_of(const std::string &name, Samples &samples, uint64_t clock, const Settings &s)
{
	tools::Json r = {
	        {"case", name}, {"mean_ns", samples.mean_ns}, {"mean99_ns", samples.mean99_ns}};
	if (samples.asked) {
		r["together_percent"] = percent(samples.together, samples.groups);
		r["busy_percent"] = percent(samples.busy, samples.asked);
	}
	r["groups"] = distribution(samples.ticks, clock, s.group);
	return r;
}

tools::Json measure_all(claims *c, const Settings &s, uint64_t seed)
{
	tools::Json cases = tools::Json::array();
	const uint64_t clock = ticks_of_the_clock();
	auto add = [&](const std::string &name, Samples samples) {
		bench::aside([&] { cases.push_back(case_of(name, samples, clock, s)); });
	};
	Random random{seed};
	add("sequential", measure_alone(c, s, [&](uint64_t k) { return k % s.records; }));
	add("random", measure_alone(c, s, [&](uint64_t) { return random.below(s.records); }));
	for (unsigned percent : {0u, 25u, 50u, 75u, 100u})
		add("two threads, " + std::to_string(percent) + " % shared",
		        measure_contended(c, s, percent));
	for (bool ahead : {false, true}) {
		Samples samples = measure_batches(c, s, ahead);
		cases.push_back({{"case", ahead ? "batches" : "batches, one by one"},
		        {"mean_ns", samples.mean_ns}, {"mean99_ns", samples.mean99_ns}});
	}
	return cases;
}

/* A number, or the median of an array. */
double median_of(const tools::Json &values)
{
	std::vector<double> all;
	for (const auto &[number, value] : values.items())
		all.push_back(value.get<double>());
	if (all.empty())
		return values.get<double>();
	std::nth_element(all.begin(), all.begin() + static_cast<long>(all.size() / 2), all.end());
	return all[all.size() / 2];
}

void print(const tools::Json &cases)
{
	const std::pair<const char *, const char *> columns[] = {{"mean_ns", "mean"},
	        {"mean99_ns", "mean99"}, {"median_ns", "median"}, {"p99_ns", "p99"},
	        {"together_percent", "both %"}, {"busy_percent", "busy %"}};
	std::cout << std::fixed << std::setprecision(1) << std::left << std::setw(28)
	          << "ns a claim and release" << std::right;
	for (const auto &[name, title] : columns)
		std::cout << std::setw(8) << title;
	for (const auto &[number, one] : cases.items()) {
		tools::Json cells = one;
		for (const auto &[name, value] : one.items())
			if (name == "groups")
				cells.update(value);
		std::cout << "\n"
		          << std::left << std::setw(28) << one["case"].get<std::string>()
		          << std::right;
		for (const auto &[column, title] : columns)
			for (const auto &[name, value] : cells.items())
				if (name == column)
					std::cout << std::setw(8) << median_of(value);
	}
	std::cout << "\n";
}

int run(const bench::Options &o, const Settings &s)
{
	if (s.batch > s.records / 4 || s.batch >> s.buckets_log2)
		throw bench::Usage("--batch " + std::to_string(s.batch) +
		                   ": use at most a quarter of the records, and at most one record "
		                   "for each bucket");
	bench::Locks table(s.buckets_log2, false);
	pin_to(0);
	tools::Json cases = measure_all(table.get(), s, o.seed);
	struct claims_count left = claims_count(table.get());
	if (left.held || left.waiting)
		throw std::runtime_error("claims remain in the table: a bug of libfur: report it");
	tools::Json r = {{"benchmark", "claims"}, {"machine", o.machine},
	        {"processor", o.machine == "native" ? bench::processor() : ""},
	        {"requests", s.requests}, {"rounds", s.rounds}, {"records", s.records},
	        {"buckets", left.buckets}, {"batch", s.batch}, {"group", s.group},
	        {"verified", true}};
	r["cases"] = cases;
	int status = 0;
	bench::aside([&] {
		if (o.json_path != "-")
			print(cases);
		if (!o.json_path.empty())
			status = bench::report(o, r);
	});
	return status;
}

void add_options(tools::CommandLine &line, bench::Options &o, Settings &s)
{
	line.option("--machine", o.machine,
	        "native, or an emulated machine: power9, tsx, epyc, or a file that describes one");
	line.option("--requests", s.requests, "claims of each round").range(1000, 100000000);
	line.option("--rounds", s.rounds, "measurements of each case").range(1, 1000);
	line.option("--records", s.records, "number of records").range(2, 1000000000);
	line.option("--buckets-log2", s.buckets_log2,
	            "the table has 2 to the power of this buckets")
	        .range(1, CLAIMS_MOST_LOG2);
	line.option("--group", s.group,
	            "requests between two looks at the clock; 1 gives each request's latency on a "
	            "machine whose clock is fine enough")
	        .range(1, 1000);
	line.option("--batch", s.batch, "records that the batch calls take at a time")
	        .range(1, 100000);
	line.option("--seed", o.seed, "seed of the random numbers");
	line.option("--json", o.json_path,
	        "write the result, with histograms, to this file; -: to standard output in place "
	        "of the table");
}

} // namespace

int main(int argc, char **argv)
{
	static Settings s; /* not on the stack, for the reason that machine_emulated.cpp gives */
	bench::Options o;
	o.threads = o.most_threads = 2;
	tools::CommandLine line("claims",
	        "The latency of the table of record locks: one thread, in order, at random and in "
	        "batches; two threads that share a part of their requests.");
	add_options(line, o, s);
	if (auto status = tools::parse_or_exit_status(line, "claims", argc, argv))
		return *status;
	try {
		return bench::on_machine(
		        o, argv, [](bench::Options &given) { return run(given, s); });
	} catch (const bench::Usage &e) {
		std::cerr << "claims: " << e.what() << "\n";
		return tools::EXIT_WRONG_USAGE;
	} catch (const std::exception &e) {
		std::cerr << "claims: " << e.what() << "\n";
		return 1;
	}
}
