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

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* C lets a function and a struct share a name */
#define _Static_assert static_assert
extern "C" {
#include "api/attach.h"
#include "api/heap.h"
}
#undef _Static_assert
#pragma GCC diagnostic pop

#include <iostream>
#include <random>
#include <sys/wait.h>

namespace
{

using bench::json;

enum : uint64_t {
	MOST_WORDS = 20,
	HEAP_BYTES = 128 << 20,
	KEPT_BYTES = 1 << 20,
	LEAST_LOGS_MIB = 16,
	UPDATES_PER_MIB = 3125
};

struct Workload {
	std::string scheme = "ring";
	unsigned producers = 1;
	uint64_t logs_mib = 0; /* of all producers together */
	unsigned preload = REPLAY_DEFAULTS.preload;
	/* 0: as many as fill the logs well; on an emulated machine a tenth */
	uint64_t updates = 0;

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
		return UPDATES_PER_MIB * (log_bytes() * producers >> 20);
	}
};

/* The logged data: the same for every replayer with the same seed. */
class Updates
{
public:
	Updates(const Workload &w, uint64_t seed)
	    : number_(w.updates), producers_(w.producers), random_(seed)
	{
	}

	/* f(producer, words, word[], value[]), for each; words are numbered from the start of the
	 * heap. */
	template <class F>
	void each(F &&f)
	{
		for (uint64_t k = 0; k < number_; k++) {
			auto producer = static_cast<unsigned>(below(producers_));
			uint64_t words = 1 + below(MOST_WORDS), word[MOST_WORDS], value[MOST_WORDS];
			for (uint64_t n = 0; n < words; n++) {
				/* Above the allocator's data at the start of the heap. */
				word[n] = (KEPT_BYTES + below(HEAP_BYTES - KEPT_BYTES)) / 8;
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
	uint64_t number_, producers_;
	std::mt19937_64 random_;
};

struct Replayed {
	uint64_t updates = 0, entries = 0, ns = 0;
};

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
	    : path_(o.tm_options.heap), threads_(o.threads), preload_(w.preload)
	{
		fur_options_init(&options_);
		options_.heap_bytes = HEAP_BYTES;
		options_.log_bytes = w.log_bytes();
		options_.max_threads = w.producers;
		options_.ring_slots = 64;
		while (options_.ring_slots < w.updates + 1)
			options_.ring_slots *= 2;
		options_.htm = FUR_HTM_NONE;
		options_.no_populate = true;
		options_.pm = o.tm_options.pm;
		options_.pm_latency_ns = o.tm_options.pm_latency_ns && !o.tm_options.machine_has_pm
		                                 ? o.tm_options.pm_latency_ns
		                                 : FUR_NO_LATENCY;
		options_.pm_gap_ns = o.tm_options.machine_has_pm ? 0 : o.tm_options.pm_gap_ns;
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
		durability_.replay_options.threads = threads_;
		durability_.replay_options.preload = preload_;
		if (replay_unless_closed(&durability_, &result_, &recovered) || !recovered)
			throw std::runtime_error(
			        recovered ? fur_errormsg() : path_ + ": nothing to recover");
	}
	Replayed replayed() const
	{
		return {result_.updates, result_.entries, result_.ns};
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
	int write_all(Updates &updates)
	{
		fur_heap *heap;
		if (fur_create(path_.c_str(), &options_, &heap)) {
			fprintf(stderr, "replay: %s\n", fur_errormsg());
			return 1;
		}
		durability &d = heap->durability;
		d.limit = options_.max_threads;
		auto *base = static_cast<uint8_t *>(fur_base(heap));
		commit c{};
		bool failed = false;
		for (uint32_t t = 0; t < options_.max_threads; t++)
			failed |= redo_init(&d.redo[t], &d, t) != 0;
		updates.each([&](unsigned producer, uint64_t words, const uint64_t *word,
		                     const uint64_t *value) {
			redo_log &log = d.redo[producer];
			redo_begin(&log, &d, REDO_UNDO);
			for (uint64_t n = 0; n < words; n++)
				failed |= !redo_append(
				        &log, &d, word[n] * 8, base + word[n] * 8, &value[n], 8);
			c.me = producer;
			c.id++;
			c.durts = 0;
			nondurable_announce(&d, &c);
			failed = failed || durability_commit(&d, &c);
		});
		return failed || d.control->replays;
	}
	std::string path_;
	unsigned threads_, preload_;
	fur_options options_;
	heap_file file_{};
	durability durability_{};
	replay_result result_{};
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

/* Of all threads, with opening: the figure to compare by where other processes use the processors
 * too. */
double cpu_seconds()
{
	timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

template <class Replayer>
int run_on(const bench::Options &o, const Workload &w)
{
	Replayer replayer(o, w);
	Updates updates(w, o.seed);
	bench::aside([&] { replayer.write(updates); });
	double cpu = cpu_seconds();
	replayer.open();
	cpu = cpu_seconds() - cpu;
	Replayed done = replayer.replayed();
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
	r["seconds"] = static_cast<double>(done.ns) / 1e9;
	r["cpu_seconds"] = cpu;
	r["seed"] = o.seed;
	r["pm_latency_ns"] = o.tm_options.pm_latency_ns;
	r["pm_gap_ns"] = o.tm_options.pm_gap_ns;
	r["pm_read_ns"] = o.tm_options.pm_read_ns;
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
	if (w.preload > REPLAY_PRELOAD_MOST)
		throw bench::Usage("--preload " + std::to_string(w.preload) + ": use 0 to " +
		                   std::to_string(REPLAY_PRELOAD_MOST));
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
		                "how far ahead to prefetch lines: of logs, in updates; of the "
		                "heap, in entries; 0: no prefetching.  Only for ring; the others "
		                "prefetch the heap lines of the updates at the logs' heads");
		        line.option("--updates", w.updates,
		                "number of updates in the logs; default: as many as fit, on an "
		                "emulated machine a tenth of that");
	        },
	        [&](bench::Options &o) { return run(o, w); });
}
