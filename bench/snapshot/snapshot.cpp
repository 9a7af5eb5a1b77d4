/* SPDX-License-Identifier: BSD-3-Clause
 *
 * snapshot.cpp - what a snapshot costs the updates beside it, and what updates cost a scan in a
 * snapshot: in each round alone and beside each other, next to libfur's other ways to read.
 */
#include "../../tools/common/command_line.hpp"
#include "../../tools/common/json.hpp"
#include "../common/output.hpp"
#include "../common/processor.hpp"
#include "../common/round_trip.hpp"
#include "measures.hpp"
#include "peers.hpp"

#include <cerrno>
#include <iostream>
#include <optional>

namespace snapshot
{

namespace
{

class Benchmark
{
public:
	explicit Benchmark(const Settings &s) : s_(s), measures_(s, make_fur_store(s))
	{
		store_.fill();
	}
	/* Returns whether the snapshots have shown what they must. */
	bool run()
	{
		memory();
		for (unsigned n = 0; n < s_.rounds; n++) {
			trips_.take();
			rounds_.push_back(round(n));
		}
		sleep_for(SETTLES);
		facts_["memory_left_bytes"] = anonymous() - facts_["memory_before_bytes"];
		facts_["snapshots_revoked"] =
		        static_cast<double>(store_.heap().stats().snapshots_revoked);
		return verified_;
	}
	tools::Json json() const;
	void print() const;

private:
	static constexpr double SETTLES = 2; /* seconds after a snapshot's end */

	static double anonymous()
	{
		return static_cast<double>(anonymous_bytes());
	}
	void memory();
	Round round(unsigned number);
	void print_memory() const;

	const Settings &s_;
	Measures measures_;
	FurStore &store_ = measures_.store();
	bench::RoundTrips trips_;
	Rounds rounds_;
	Round facts_; /* of the whole run */
	bool verified_ = true;
};

/* One snapshot, from before the first updates beside it until 2 s after its end.  It must show what
 * it showed at first, and something else than the heap. */
void Benchmark::memory()
{
	fur::Thread self(store_.heap());
	measures_.updates(); /* the first stores to each page */
	facts_["memory_before_bytes"] = anonymous();
	double from = now();
	std::optional<fur::Snapshot> snapshot(std::in_place, self);
	facts_["first_begin_us"] = (now() - from) * 1e6;
	const uint64_t lines = store_.heap().stats().saved_lines;
	const uint64_t sum = store_.sum_in(self, *snapshot);
	const double before = anonymous();
	measures_.updates();
	const fur_stats stats = store_.heap().stats();
	const double open = anonymous(), saved = static_cast<double>(stats.saved_lines - lines);
	verified_ = store_.sum_in(self, *snapshot) == sum && store_.sum_now(self) != sum;
	snapshot.reset();
	sleep_for(SETTLES);
	facts_["saved_lines"] = saved;
	facts_["bytes_per_saved_line"] = static_cast<double>(stats.snapshot_bytes) / saved;
	facts_["anonymous_bytes_per_saved_line"] = (open - before) / saved;
	facts_["memory_open_bytes"] = open - facts_["memory_before_bytes"];
	facts_["memory_left_after_first_bytes"] = anonymous() - facts_["memory_before_bytes"];
}

/* Odd rounds run the phases in the opposite order. */
Round Benchmark::round(unsigned number)
{
	Round r;
	std::vector<std::function<void()>> phases = {
	        [&] { r["updates_per_second"] = measures_.updates(); },
	        [&] { measures_.sleeping(r); },
	        [&] { measures_.begin_and_end(r, false); },
	        [&] { measures_.begin_and_end(r, true); },
	};
	for (const Reader &reader : READERS)
		phases.insert(phases.begin() + 2, [&] { measures_.reading(r, reader); });
	if (number % 2)
		std::reverse(phases.begin(), phases.end());
	for (const auto &phase : phases)
		phase();
	over_updates_alone(r);
	return r;
}

/* ------------------------------------------------------------------- result */

tools::Json Benchmark::json() const
{
	tools::Json out = {{"workload", "snapshot"}, {"processor", bench::processor()},
	        {"keys", s_.keys}, {"value_bytes", s_.value_bytes}, {"writers", s_.writers},
	        {"seconds", s_.seconds}, {"zipf", s_.zipf}, {"sync", s_.sync},
	        {"settings", store_.settings()}, {"round_trip_ns", trips_.json()},
	        {"verified", verified_}};
	for (const auto &[name, value] : facts_)
		out[name] = value;
	for (const auto &figure : rounds_[0])
		out[figure.first] = median_of(rounds_, figure.first);
	out["rounds"] = json_of(rounds_);
	return out;
}

void Benchmark::print_memory() const
{
	auto mib = [&](const char *name) { return facts_.at(name) / (1 << 20); };
	printf("memory: %.0f lines saved, %.1f bytes of fur_stats.snapshot_bytes each, %.1f bytes "
	       "of "
	       "the process each\n",
	        facts_.at("saved_lines"), facts_.at("bytes_per_saved_line"),
	        facts_.at("anonymous_bytes_per_saved_line"));
	printf("memory: %.1f MiB more while it is open, %.2f MiB 2 s after its end, %.2f MiB 2 s "
	       "after "
	       "the last end\n",
	        mib("memory_open_bytes"), mib("memory_left_after_first_bytes"),
	        mib("memory_left_bytes"));
	printf("%.0f snapshots revoked; the first begin took %.1f us\n",
	        facts_.at("snapshots_revoked"), facts_.at("first_begin_us"));
}

void Benchmark::print() const
{
	auto row = [&](const char *what, const std::string &text) {
		printf("%-44s %s\n", what, text.c_str());
	};
	auto ratio = [&](const char *what, const std::string &name) {
		row(what, text_of(rounds_, name, 3));
	};
	printf("%lu keys, values of %lu bytes, %u writer%s, %u rounds of %g s, zipf %g: median "
	       "(least "
	       "to most)\n%s\n%s\n",
	        static_cast<unsigned long>(s_.keys), static_cast<unsigned long>(s_.value_bytes),
	        s_.writers, s_.writers == 1 ? "" : "s", s_.rounds, s_.seconds, s_.zipf,
	        store_.settings().c_str(), trips_.text().c_str());
	row("thousand updates/s alone", text_of(rounds_, "updates_per_second", 1, 1e3));
	ratio("ratio beside a snapshot that sleeps", "updates_beside_sleeping_snapshot");
	ratio("  in the second half", "updates_beside_sleeping_snapshot_second_half");
	ratio("ratio beside begin and end again and again", "updates_beside_begin_and_end");
	printf("\n%-26s %-26s %-24s %-24s\n", "all entries by", "million entries/s alone",
	        "ratio beside updates", "updates' ratio beside it");
	for (const Reader &reader : READERS) {
		const std::string name = reader.name;
		printf("%-26s %-26s %-24s %-24s\n", reader.what,
		        text_of(rounds_, name + "_entries_per_second", 2, 1e6).c_str(),
		        text_of(rounds_, name + "_beside_updates", 3).c_str(),
		        text_of(rounds_, "updates_beside_" + name, 3).c_str());
	}
	printf("\n%-26s %-22s %-22s %-26s %-26s\n", "microseconds", "p50 alone", "p99 alone",
	        "p50 beside updates", "p99 beside updates");
	for (const std::string call : {"begin", "end"})
		printf("%-26s %-22s %-22s %-26s %-26s\n", call.c_str(),
		        text_of(rounds_, call + "_us", 1).c_str(),
		        text_of(rounds_, call + "_p99_us", 1).c_str(),
		        text_of(rounds_, call + "_beside_updates_us", 1).c_str(),
		        text_of(rounds_, call + "_beside_updates_p99_us", 1).c_str());
	row("microseconds: end of the one that slept", text_of(rounds_, "end_after_sleep_us", 0));
	print_memory();
	printf("%s\n", verified_ ? "verified" : "NOT verified: a snapshot has changed");
}

int run(const Settings &s)
{
	if (s.peers && databases().empty())
		throw tools::WrongUsage(
		        "--peers: this program has none: install libsqlite3-dev, liblmdb-dev or "
		        "librocksdb-dev, then meson setup --reconfigure build");
	const auto tell = [&](const auto &result) {
		if (s.json != "-")
			result.print();
		if (!s.json.empty())
			bench::write_json(s.json, result.json());
	};
	if (s.peers) {
		Peers peers(s);
		peers.run();
		tell(peers);
		return 0;
	}
	Benchmark benchmark(s);
	const bool verified = benchmark.run();
	tell(benchmark);
	return verified ? 0 : 1;
}

} // namespace
} // namespace snapshot

int main(int argc, char **argv)
{
	snapshot::Settings s;
	std::string value_bytes;
	tools::CommandLine line("snapshot",
	        "Updates of random keys of an ordered map, alone and beside a snapshot that "
	        "sleeps; "
	        "scans in snapshots, alone and beside updates, next to libfur's other ways to "
	        "read; "
	        "the time that a snapshot takes to begin and to end, and its memory.");
	line.option("--keys", s.keys, "entries of the map").range(1000, 1e9);
	line.option("--writers", s.writers, "threads that update").range(1, 60);
	line.option("--seconds", s.seconds, "length of each phase").range(0.001, 3600);
	line.option("--rounds", s.rounds, "measurements of each").range(1, 1000);
	line.option("--path", s.path, "the heap file; the run removes it");
	line.option("--snapshot-mib", s.snapshot_mib,
	        "fur_options.snapshot_bytes; default: enough for each line of the heap");
	line.option("--htm", s.htm,
	            "libfur's hardware transactions: none, or the best that there are")
	        .one_of({"none", "auto"});
	line.flag("--peers", s.peers,
	        "instead: long reads beside 1 and 2 writers, by libfur and by the databases that "
	        "the program was built with, in FILE.peers");
	line.option("--most-mib", s.most_mib,
	            "with --peers: to which LMDB's file may grow, at most half of the free space")
	        .range(1, 1 << 20);
	line.flag("--sync", s.sync,
	        "each update is durable by a sync: name a FILE on a disk; default: none is synced");
	snapshot::add_common_options(line, s, value_bytes);
	if (auto status = tools::parse_or_exit_status(line, "snapshot", argc, argv))
		return *status;
	s.value_bytes = std::stoull(value_bytes);
	try {
		return snapshot::run(s);
	} catch (const tools::WrongUsage &e) {
		std::cerr << "snapshot: " << e.what() << "\n";
		return tools::EXIT_WRONG_USAGE;
	} catch (const std::exception &e) {
		std::cerr << "snapshot: " << e.what() << "\n";
		return 1;
	}
}
