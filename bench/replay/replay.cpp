/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replay.cpp - the replay benchmark (FUR, Figure 10): how fast one thread carries logs over to the
 * heap, by how it finds the order of updates.
 *
 *     scan     the next record is the oldest at the head of any log: as NV-HTM, DudeTM and cc-HTM
 *              (bench/baselines/common/medium.hpp)
 *     linked   each record names the next: as SPHT (the same logs, with links)
 *     ring     the markers of the ring, one after the other: libfur's own recovery
 *
 * The logs are made in advance, with updates of 1 to 20 words at random addresses, each by one of
 * the --producers, drawn at random.  Only recovery from them is timed, with checksums.  Afterwards
 * the heap is compared with the logged data.
 */
#include "../baselines/common/medium.hpp"
#include "../common/driver.hpp"
#include "../common/round_trip.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* C lets a function and a struct share a name */
#define _Static_assert static_assert
extern "C" {
#include "api/attach.h"
#include "api/heap.h"
#include "replay/preload.h"
}
#undef _Static_assert
#pragma GCC diagnostic pop

#include <algorithm>
#include <iostream>
#include <random>
#include <sstream>
#include <sys/wait.h>

namespace
{

using bench::json;

enum : uint64_t {
	MOST_WORDS = 500,
	HEAP_BYTES = 128 << 20,
	KEPT_BYTES = 1 << 20,
	LEAST_LOGS_MIB = 16,
	/* Of updates that may have this many words: they have half of them */
	WORDS_PER_MIB = 62500
};

struct Workload {
	std::string scheme = "ring";
	unsigned producers = 1;
	uint64_t logs_mib = 0; /* of all producers together */
	/* Where the words of an update lie */
	std::string places = "random";
	unsigned words = 20;      /* of an update, at most */
	unsigned entry_bytes = 8; /* neighbours that are logged as one entry */
	std::string preload = "auto";
	unsigned unload_lines = REPLAY_UNLOAD_LINES;
	std::string compare;
	unsigned rounds = 9;
	/* 0: as many as fill the logs well; on an emulated machine a tenth */
	uint64_t updates = 0;

	/* How it replays, by the words of --preload and --unload-lines. */
	static replay_options way(const std::string &preload, unsigned unload_lines)
	{
		replay_options o = REPLAY_DEFAULTS;
		if (!preload_parse(preload.c_str(), &o))
			throw bench::Usage("--preload " + preload +
			                   ": use auto, N, sequential:N or batch:N, N from 0 to " +
			                   std::to_string(REPLAY_PRELOAD_MOST));
		o.unload_lines = unload_lines;
		if (unload_lines < 1 || unload_lines > REPLAY_UNLOAD_LINES ||
		        (unload_lines & (unload_lines - 1)))
			throw bench::Usage("--unload-lines " + std::to_string(unload_lines) +
			                   ": use a power of two from 1 to " +
			                   std::to_string(REPLAY_UNLOAD_LINES));
		return o;
	}
	replay_options replay() const
	{
		return way(preload, unload_lines);
	}
	std::vector<std::string> names() const
	{
		std::vector<std::string> all;
		std::stringstream list(compare);
		for (std::string name; std::getline(list, name, ',');)
			all.push_back(name);
		return all;
	}
	std::vector<replay_options> ways() const
	{
		std::vector<replay_options> all;
		for (const std::string &name : names()) {
			size_t slash = name.find('/');
			unsigned lines = unload_lines;
			if (slash != std::string::npos)
				lines = static_cast<unsigned>(atoi(name.c_str() + slash + 1));
			all.push_back(way(name.substr(0, slash), lines));
		}
		return all;
	}
	/* Of each producer: a power of two. */
	uint64_t log_bytes() const
	{
		uint64_t bytes = logs_mib << 20;
		while (bytes * producers > logs_mib << 20)
			bytes /= 2;
		return bytes;
	}
	/* That fit, though no producer has exactly its share. */
	uint64_t most_updates() const
	{
		return WORDS_PER_MIB * 2 * entry_bytes / (entry_bytes + 8) / words *
		       (log_bytes() * producers >> 20);
	}
};

/* The logged data: the same for every replayer with the same seed. */
class Updates
{
public:
	Updates(const Workload &w, uint64_t seed)
	    : number_(w.updates), producers_(w.producers), random_(seed), places_(w.places),
	      most_words_(w.words)
	{
		/* Spread over the heap, and not at the same places of their pages. */
		for (uint64_t k = 0; k < TABLES; k++)
			end_[k] = FIRST_WORD + k * ((WORDS - FIRST_WORD) / TABLES);
	}

	/* f(producer, words, word[], value[]), for each; words are numbered from the start of the
	 * heap. */
	template <class F>
	void each(F &&f)
	{
		for (uint64_t k = 0; k < number_; k++) {
			auto producer = static_cast<unsigned>(below(producers_));
			uint64_t words = 1 + below(most_words_), word[MOST_WORDS],
			         value[MOST_WORDS];
			uint64_t next = places_ == "appended"
			                        ? append(words)
			                        : FIRST_WORD + below(WORDS - words - FIRST_WORD);
			for (uint64_t n = 0; n < words; n++) {
				word[n] = places_ == "random"
				                  ? FIRST_WORD + below(WORDS - FIRST_WORD)
				                  : next + n;
				value[n] = random_();
			}
			f(producer, words, word, value);
		}
	}

private:
	uint64_t below(uint64_t n)
	{
		return static_cast<uint64_t>((static_cast<unsigned __int128>(random_()) * n) >> 64);
	}
	/* To a table drawn at random, as new orders are to a district's. */
	uint64_t append(uint64_t words)
	{
		uint64_t &end = end_[below(TABLES)];
		if (end + words > WORDS)
			end = FIRST_WORD;
		end += words;
		return end - words;
	}
	enum : uint64_t {
		FIRST_WORD = KEPT_BYTES / 8, /* above the allocator's data */
		WORDS = HEAP_BYTES / 8,
		TABLES = 80
	};
	uint64_t number_, producers_;
	std::mt19937_64 random_;
	std::string places_;
	uint64_t most_words_, end_[TABLES];
};

struct Replayed {
	uint64_t updates = 0, entries = 0, ns = 0;
};

/* One way to replay: medians of the rounds. */
struct Compared {
	double seconds, ratio; /* how many times as fast as the first */
};

/* Of all threads: the figure to compare by where other processes also use the processors. */
double cpu_seconds()
{
	timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

/* --------------------------------------------------------------- scan, linked */

class Merged
{
public:
	Merged(const bench::Options &o, const Workload &w)
	    : o_(o.tm_options), linked_(w.scheme == "linked")
	{
		o_.heap_bytes = HEAP_BYTES;
		o_.log_bytes = w.log_bytes();
		o_.threads = w.producers;
	}
	void write(Updates updates)
	{
		o_.reuse = false;
		baselines::Medium medium(o_, "replay", baselines::Medium::Working::SHARED, false);
		auto *heap = reinterpret_cast<uint64_t *>(medium.heap());
		baselines::Record *last = nullptr;
		uint64_t stamp = medium.first_stamp();
		updates.each([&](unsigned producer, uint64_t words, const uint64_t *word,
		                     const uint64_t *value) {
			baselines::Log &log = medium.log(producer);
			log.begin();
			for (uint64_t n = 0; n < words; n++)
				if (!log.add(&heap[word[n]], value[n]))
					throw bench::Usage("--updates: they do not fit the logs");
			medium.flush_entries(producer);
			uint64_t position = medium.seal(producer, ++stamp);
			medium.publish(producer);
			if (last && linked_)
				last->link = baselines::Link::to(producer, position);
			last = log.record(position);
		});
		medium.drain();
	}
	void open()
	{
		o_.reuse = true;
		medium_.emplace(o_, "replay", baselines::Medium::Working::SHARED, false);
	}
	Replayed replayed() const
	{
		auto &r = medium_->recovered();
		return {r.records, r.entries, r.ns};
	}
	static std::vector<uint32_t> distances()
	{
		return {};
	}
	static std::vector<Compared> compare(const std::vector<replay_options> &, unsigned)
	{
		return {};
	}
	const uint64_t *heap() const
	{
		return reinterpret_cast<const uint64_t *>(medium_->heap());
	}

private:
	bench::TmOptions o_;
	bool linked_;
	std::optional<baselines::Medium> medium_;
};

/* ----------------------------------------------------------------------- ring */

class Ring
{
public:
	Ring(const bench::Options &o, const Workload &w)
	    : path_(o.tm_options.heap), replay_(w.replay()), entry_words_(w.entry_bytes / 8)
	{
		replay_.threads = o.threads;
		fur_options_init(&options_);
		options_.heap_bytes = HEAP_BYTES;
		options_.log_bytes = w.log_bytes();
		options_.max_threads = w.producers;
		options_.ring_slots = 64;
		while (options_.ring_slots < w.updates + 1)
			options_.ring_slots *= 2;
		options_.htm = FUR_HTM_NONE;
		options_.pm = o.tm_options.pm;
		if (!o.tm_options.machine_has_pm) {
			latency_ns_ = o.tm_options.pm_latency_ns;
			gap_ns_ = o.tm_options.pm_gap_ns;
		}
	}
	/* In a process that ends without closing the heap. */
	void write(Updates updates)
	{
		pid_t child = fork();
		if (child == 0)
			_exit(write_all(updates));
		int status = 1;
		if (child < 0 || waitpid(child, &status, 0) < 0 || status)
			throw std::runtime_error(path_ + ": the logs could not be written");
	}
	void open()
	{
		char reason[160];
		bool recovered = false;
		if (heap_open_file(path_.c_str(), HEAP_LOCK_WORKER, &file_) ||
		        heap_attach(&durability_, &file_, &options_, reason, sizeof reason))
			throw std::runtime_error(fur_errormsg());
		pm_emulate(&durability_.pm, latency_ns_, gap_ns_);
		durability_.replay_options = replay_;
		first_ = durability_.tail;
		if (replay_unless_closed(&durability_, &result_, &recovered) || !recovered)
			throw std::runtime_error(
			        recovered ? fur_errormsg() : path_ + ": nothing to recover");
	}
	Replayed replayed() const
	{
		return {result_.updates, result_.entries, result_.ns};
	}
	/* Recover again and again, each time another way, and all ways in each round, so that what
	 * else the machine does meets all of them.  Of each way the seconds, and how many times as
	 * fast as the first it is: medians. */
	std::vector<Compared> compare(const std::vector<replay_options> &ways, unsigned rounds)
	{
		std::vector<std::vector<double>> seconds(ways.size()), ratio(ways.size());
		for (unsigned r = 0; r < rounds; r++)
			for (size_t k = 0; k < ways.size(); k++) {
				const size_t way = r % 2 ? ways.size() - 1 - k : k;
				seconds[way].push_back(again(ways[way]));
			}
		std::vector<Compared> all;
		for (size_t way = 0; way < ways.size(); way++) {
			for (unsigned r = 0; r < rounds; r++)
				ratio[way].push_back(seconds[0][r] / seconds[way][r]);
			all.push_back({middle(seconds[way]), middle(ratio[way])});
		}
		return all;
	}
	/* The distances that the recovery ended with: of inspection, of replay. */
	std::vector<uint32_t> distances() const
	{
		return {preload_distance(&durability_, PRELOAD_READS),
		        preload_distance(&durability_, PRELOAD_WRITES)};
	}
	const uint64_t *heap() const
	{
		return reinterpret_cast<const uint64_t *>(durability_.image);
	}
	~Ring()
	{
		if (durability_.super)
			durability_detach(&durability_);
		if (file_.super)
			heap_close_file(&file_);
	}

private:
	static double middle(std::vector<double> of)
	{
		std::sort(of.begin(), of.end());
		return of[of.size() / 2];
	}
	/* The seconds of a recovery of the same logs; of one thread, its processor time. */
	double again(const replay_options &how)
	{
		const replay_result before = result_;
		durability_.replay_options = how;
		durability_.replay_options.threads = replay_.threads;
		durability_.tail = first_;
		const double cpu = cpu_seconds();
		if (replay_recover(&durability_, &result_))
			throw std::runtime_error(fur_errormsg());
		const double seconds = replay_.threads == 1 ? cpu_seconds() - cpu
		                                            : static_cast<double>(result_.ns) / 1e9;
		if (result_.updates != before.updates || result_.entries != before.entries)
			throw std::runtime_error("another recovery replayed other updates");
		durability_.replay_options = replay_;
		return seconds;
	}
	int write_all(Updates &updates)
	{
		fur_heap *heap;
		if (fur_create(path_.c_str(), &options_, &heap)) {
			fprintf(stderr, "replay: %s\n", fur_errormsg());
			return 1;
		}
		durability &d = heap->durability;
		d.limit = options_.max_threads;
		pm_emulate(&d.pm, latency_ns_, gap_ns_);
		auto *base = static_cast<uint8_t *>(heap_base(heap));
		commit c{};
		bool failed = false;
		for (uint32_t t = 0; t < options_.max_threads; t++)
			failed |= redo_init(&d.redo[t], &d, t) != 0;
		updates.each([&](unsigned producer, uint64_t words, const uint64_t *word,
		                     const uint64_t *value) {
			redo_log &log = d.redo[producer];
			redo_begin(&log, &d, REDO_UNDO);
			for (uint64_t n = 0; n < words; n += entry_words_)
				failed |= !redo_append(&log, &d, word[n] * 8, base + word[n] * 8,
				        &value[n], 8 * std::min(entry_words_, words - n));
			c.me = producer;
			c.id++;
			c.durts = 0;
			nondurable_announce(&d, &c);
			failed = failed || durability_await(&d, &c, durability_persist(&d, &c));
		});
		return failed || d.control->replays;
	}
	std::string path_;
	replay_options replay_;
	uint64_t entry_words_;
	uint32_t latency_ns_ = 0, gap_ns_ = 0;
	fur_options options_;
	heap_file file_{};
	durability durability_{};
	replay_result result_{};
	uint64_t first_ = 0; /* the tail before the first recovery */
};

/* ------------------------------------------------------------------------ run */

/* How many words are not as the last update that wrote them left them. */
uint64_t wrong_words(Updates updates, const uint64_t *heap)
{
	std::vector<uint64_t> expected(HEAP_BYTES / 8);
	updates.each([&](unsigned, uint64_t words, const uint64_t *word, const uint64_t *value) {
		for (uint64_t n = 0; n < words; n++)
			expected[word[n]] = value[n];
	});
	uint64_t wrong = 0;
	for (uint64_t k = KEPT_BYTES / 8; k < HEAP_BYTES / 8; k++)
		wrong += expected[k] != heap[k];
	return wrong;
}

template <class Replayer>
int run_on(const bench::Options &o, const Workload &w)
{
	Replayer replayer(o, w);
	Updates updates(w, o.seed);
	bench::aside([&] { replayer.write(updates); });
	bench::RoundTrips trips;
	if (o.machine == "native")
		trips.take();
	double cpu = cpu_seconds();
	replayer.open();
	cpu = cpu_seconds() - cpu;
	Replayed done = replayer.replayed();
	const std::vector<Compared> ways = replayer.compare(w.ways(), w.rounds);
	uint64_t wrong = 0;
	bench::aside([&] { wrong = wrong_words(updates, replayer.heap()); });
	if (wrong || done.updates != w.updates)
		std::cerr << "replay: not verified: " << wrong << " words are wrong, "
		          << done.updates << " updates of " << w.updates << " were replayed\n";
	json r;
	r["workload"] = "replay";
	r["scheme"] = w.scheme;
	r["machine"] = o.machine;
	r["producers"] = w.producers;
	r["threads"] = o.threads;
	r["preload"] = w.preload;
	r["distances"] = replayer.distances();
	r["unload_lines"] = w.unload_lines;
	r["places"] = w.places;
	r["words"] = w.words;
	r["entry_bytes"] = w.entry_bytes;
	for (size_t k = 0; k < ways.size(); k++) {
		r["compare"][w.names()[k]]["seconds"] = ways[k].seconds;
		r["compare"][w.names()[k]]["ratio"] = ways[k].ratio;
	}
	r["seconds"] = static_cast<double>(done.ns) / 1e9;
	r["cpu_seconds"] = cpu;
	r["seed"] = o.seed;
	r["pm_latency_ns"] = o.tm_options.pm_latency_ns;
	r["pm_gap_ns"] = o.tm_options.pm_gap_ns;
	r["pm_read_ns"] = o.tm_options.pm_read_ns;
	if (o.machine == "native")
		r["round_trip_ns"] = trips.json();
	r["updates"] = done.updates;
	r["entries"] = done.entries;
	r["throughput"] = static_cast<double>(done.entries) / static_cast<double>(done.ns) * 1e9;
	r["verified"] = wrong == 0 && done.updates == w.updates;
	return bench::report(o, r);
}

void check(Workload &w, unsigned threads, bool native)
{
	if (w.scheme != "scan" && w.scheme != "linked" && w.scheme != "ring")
		throw bench::Usage("--scheme " + w.scheme + ": use ring, linked or scan");
	if (w.producers < 1 || w.producers > 64)
		throw bench::Usage("--producers " + std::to_string(w.producers) + ": use 1 to 64");
	if (threads > REPLAY_THREADS_MOST || (threads > 1 && w.scheme != "ring"))
		throw bench::Usage("--threads " + std::to_string(threads) + ": use 1 to " +
		                   std::to_string(REPLAY_THREADS_MOST) +
		                   " with --scheme ring, 1 with the others");
	if (w.places != "random" && w.places != "neighbours" && w.places != "appended")
		throw bench::Usage("--places " + w.places + ": use random, neighbours or appended");
	if (w.words < 1 || w.words > MOST_WORDS)
		throw bench::Usage("--words " + std::to_string(w.words) + ": use 1 to " +
		                   std::to_string(MOST_WORDS));
	if (w.entry_bytes < 8 || w.entry_bytes % 8 || w.entry_bytes > 8 * MOST_WORDS ||
	        (w.entry_bytes > 8 && (w.places == "random" || w.scheme != "ring")))
		throw bench::Usage(
		        "--entry-bytes " + std::to_string(w.entry_bytes) +
		        ": use a multiple of 8 up to " + std::to_string(8 * MOST_WORDS) +
		        ", and more than 8 with neighbouring words and --scheme ring only");
	(void)w.replay();
	(void)w.ways();
	if (!w.compare.empty() && (w.scheme != "ring" || w.rounds < 1))
		throw bench::Usage("--compare: use it with --scheme ring, and 1 round at least");
	if (w.logs_mib < LEAST_LOGS_MIB || (w.logs_mib & (w.logs_mib - 1)))
		throw bench::Usage("--log-mib " + std::to_string(w.logs_mib) +
		                   ": use a power of two from " + std::to_string(LEAST_LOGS_MIB) +
		                   " to 2048");
	if (w.updates > w.most_updates())
		throw bench::Usage("--updates: use at most " + std::to_string(w.most_updates()) +
		                   ", or they do not fit the logs");
	if (w.updates == 0)
		w.updates = native ? w.most_updates() : w.most_updates() / 10;
}

int run(bench::Options &o, Workload &w)
{
	w.logs_mib = o.tm_options.log_bytes >> 20;
	check(w, o.threads, o.machine == "native");
	if (o.tm_options.heap.empty())
		o.tm_options.heap = "/dev/shm/fur-replay-" + std::to_string(getpid());
	else if (access(o.tm_options.heap.c_str(), F_OK) == 0)
		throw bench::Usage(
		        o.tm_options.heap +
		        ": the file exists: name another one, since this benchmark makes new logs");
	struct Removed {
		const std::string &path;
		~Removed()
		{
			unlink(path.c_str());
		}
	} removed{o.tm_options.heap};
	return w.scheme == "ring" ? run_on<Ring>(o, w) : run_on<Merged>(o, w);
}

} // namespace

int main(int argc, char **argv)
{
	alignas(128) static Workload w; /* not on the stack, see machine_emulated.cpp */
	return bench::main_of(
	        "replay", argc, argv,
	        [&](tools::CommandLine &line, bench::Options &o) {
		        for (const char *other : {"--tm", "--seconds", "--reuse", "--heap-mib",
		                     "--ring-slots", "--phases"})
			        line.remove(other);
		        o.tm_options.log_bytes = 128;
		        line.at("--log-mib")
		                .describe("size of all producers' logs together in MiB, a power of "
		                          "two")
		                .shown_default = "128";
		        line.option("--scheme", w.scheme,
		                "how replay finds the order of updates: ring, linked, scan");
		        line.option("--producers", w.producers,
		                "number of threads that wrote the logs");
		        line.at("--threads").describe("threads that replay (with --scheme ring)");
		        line.option("--preload", w.preload,
		                "how far ahead to prefetch lines, of logs in updates, of the heap "
		                "in entries: N, sequential:N or batch:N; 0: no prefetching; auto: "
		                "measured.  Only for ring; the others prefetch the heap lines of "
		                "the updates at the logs' heads");
		        line.option("--unload-lines", w.unload_lines,
		                "neighbouring lines that are written back together, at most: a "
		                "power of two up to 16; 1: each line alone");
		        line.option("--compare", w.compare,
		                "after that recover from the same logs again, in each of these "
		                "ways, for example 16/1,batch:16,auto: a --preload, and "
		                "--unload-lines after a slash");
		        line.option("--rounds", w.rounds, "how often each of them");
		        line.option("--words", w.words, "words of an update, at most");
		        line.option("--entry-bytes", w.entry_bytes,
		                "size of the log's entries, where neighbouring words are stored");
		        line.option("--places", w.places,
		                "where the words of an update lie: random; neighbours; appended "
		                "(neighbours, at the end of one of 80 tables)");
		        line.option("--updates", w.updates,
		                "number of updates in the logs; default: as many as fit, on an "
		                "emulated machine a tenth of that");
	        },
	        [&](bench::Options &o) { return run(o, w); });
}
