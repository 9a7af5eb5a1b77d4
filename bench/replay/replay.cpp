/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replay.cpp - the replay benchmark (FUR, Figure 10): how fast one thread carries logs over to the heap, by how it finds the order of updates.
 *
 *     scan     the next is the oldest at the head of any log: as NV-HTM, DudeTM and cc-HTM (bench/baselines/common/medium.hpp)
 *     linked   each record says which is next: as SPHT (the same logs, with links)
 *     ring     the markers of the ring, one after the other: libfur's own recovery
 *
 * --threads is the number of threads that wrote the logs: they are made in advance, with updates of 1 to 20 words at random addresses, each by a
 * thread drawn at random.  What is timed is recovery from them, checksums and all.  The heap is compared with what was logged afterwards.
 */
#include "../baselines/common/medium.hpp"
#include "../common/driver.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* C lets a function and a struct share a name */
#define _Static_assert static_assert
extern "C" {
#include "../../src/fur_heap.h"
}
#undef _Static_assert
#pragma GCC diagnostic pop

#include <random>
#include <sys/wait.h>

namespace
{

using bench::json;

enum : uint64_t { MOST_WORDS = 20, HEAP_BYTES = 128 << 20, LOG_BYTES = 128 << 20, KEPT_BYTES = 1 << 20 };

struct Workload {
	uint64_t updates = 0; /* 0: what fills the logs well; on an emulated machine a tenth of that */
};

/* What was logged: the same for every replayer with the same seed. */
class Updates
{
      public:
	Updates(const bench::Options &o, uint64_t number) : number_(number), threads_(o.threads), random_(o.seed) {}

	/* f(thread, words, word[], value[]), for each; words are numbered from the start of the heap. */
	template <class F>
	void each(F &&f)
	{
		for (uint64_t k = 0; k < number_; k++) {
			auto thread = static_cast<unsigned>(below(threads_));
			uint64_t words = 1 + below(MOST_WORDS), word[MOST_WORDS], value[MOST_WORDS];
			for (uint64_t n = 0; n < words; n++) {
				/* Above what the allocator keeps at the heap's start. */
				word[n] = (KEPT_BYTES + below(HEAP_BYTES - KEPT_BYTES)) / 8;
				value[n] = random_();
			}
			f(thread, words, word, value);
		}
	}

      private:
	uint64_t below(uint64_t n)
	{
		return static_cast<uint64_t>((static_cast<unsigned __int128>(random_()) * n) >> 64);
	}
	uint64_t number_, threads_;
	std::mt19937_64 random_;
};

/* Of each thread: a power of two. */
uint64_t log_bytes(unsigned threads)
{
	uint64_t bytes = LOG_BYTES;
	while (bytes * threads > LOG_BYTES)
		bytes /= 2;
	return bytes;
}

struct Replayed {
	uint64_t updates = 0, entries = 0, ns = 0;
};

/* --------------------------------------------------------------- scan, linked */

class Merged
{
      public:
	Merged(const bench::Options &o, bool linked) : o_(o.tm_options), linked_(linked)
	{
		o_.heap_bytes = HEAP_BYTES;
		o_.log_bytes = log_bytes(o.threads);
	}
	void write(Updates updates)
	{
		o_.reuse = false;
		baselines::Medium medium(o_, "replay", baselines::Medium::Working::SHARED, false);
		auto *heap = reinterpret_cast<uint64_t *>(medium.heap());
		baselines::Record *last = nullptr;
		uint64_t stamp = medium.first_stamp();
		updates.each([&](unsigned thread, uint64_t words, const uint64_t *word, const uint64_t *value) {
			baselines::Log &log = medium.log(thread);
			log.begin();
			for (uint64_t n = 0; n < words; n++)
				if (!log.add(&heap[word[n]], value[n]))
					throw bench::Usage("--updates: they do not fit the logs");
			medium.flush_entries(thread);
			uint64_t position = medium.seal(thread, ++stamp);
			medium.publish(thread);
			if (last && linked_)
				last->link = baselines::Link::to(thread, position);
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
	Ring(const bench::Options &o, uint64_t updates) : path_(o.tm_options.heap)
	{
		fur_options_init(&options_);
		options_.heap_bytes = HEAP_BYTES;
		options_.log_bytes = log_bytes(o.threads);
		options_.max_threads = o.threads;
		options_.ring_slots = 64;
		while (options_.ring_slots < updates + 1)
			options_.ring_slots *= 2;
		options_.htm = FUR_HTM_NONE;
		options_.no_populate = true;
		options_.pm = o.tm_options.pm;
		options_.pm_latency_ns =
		        o.tm_options.pm_latency_ns && !o.tm_options.machine_has_pm ? o.tm_options.pm_latency_ns : FUR_NO_LATENCY;
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
		if (fur_open(path_.c_str(), &options_, &heap_))
			throw std::runtime_error(fur_errormsg());
	}
	Replayed replayed() const
	{
		fur_info info;
		info.size = sizeof info;
		fur_get_info(heap_, &info);
		return {info.replayed_updates, info.replayed_entries, info.replay_ns};
	}
	const uint64_t *heap() const
	{
		return static_cast<const uint64_t *>(fur_base(heap_));
	}
	~Ring()
	{
		if (heap_ && fur_close(heap_))
			std::terminate();
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
		dset nobody = {0, nullptr};
		bool failed = false;
		uint64_t id = 0;
		for (uint32_t t = 0; t < options_.max_threads; t++)
			failed |= redo_init(&d.redo[t], &d, t) != 0;
		updates.each([&](unsigned thread, uint64_t words, const uint64_t *word, const uint64_t *value) {
			redo_log &log = d.redo[thread];
			redo_begin(&log, &d);
			for (uint64_t n = 0; n < words; n++)
				failed |= !redo_append(&log, &d, word[n] * 8, base + word[n] * 8, &value[n], 8);
			arch_store(&d.nondurable[thread].id, ++id);
			failed = failed || durability_commit(&d, thread, &nobody, 0, false, nullptr);
		});
		return failed || d.replays;
	}
	std::string path_;
	fur_options options_;
	fur_heap *heap_ = nullptr;
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
int run_on(const bench::Options &o, Replayer replayer, const Updates &updates, uint64_t number)
{
	bench::aside([&] { replayer.write(updates); });
	replayer.open();
	Replayed done = replayer.replayed();
	uint64_t wrong = 0;
	bench::aside([&] { wrong = wrong_words(updates, replayer.heap()); });
	if (wrong || done.updates != number)
		std::cerr << "replay: not verified: " << wrong << " words are wrong, " << done.updates << " updates of " << number
		          << " were replayed\n";
	json r;
	r["workload"] = "replay";
	r["tm"] = o.tm;
	r["machine"] = o.machine;
	r["threads"] = o.threads;
	r["seconds"] = static_cast<double>(done.ns) / 1e9;
	r["seed"] = o.seed;
	r["pm_latency_ns"] = o.tm_options.pm_latency_ns;
	r["pm_gap_ns"] = o.tm_options.pm_gap_ns;
	r["updates"] = done.updates;
	r["entries"] = done.entries;
	r["throughput"] = static_cast<double>(done.entries) / static_cast<double>(done.ns) * 1e9;
	r["verified"] = wrong == 0 && done.updates == number;
	return bench::report(o, r);
}

int run(bench::Options &o, const Workload &w)
{
	if (o.tm != "scan" && o.tm != "linked" && o.tm != "ring")
		throw bench::Usage("--tm " + o.tm + ": use scan, linked or ring");
	if (o.threads > 64)
		throw bench::Usage("--threads: use 1 to 64");
	if (w.updates > 400000)
		throw bench::Usage(
		        "--updates: 400,000 at most, or they do not fit the logs of " + std::to_string(LOG_BYTES >> 20) + " MiB");
	uint64_t number = w.updates ? w.updates : o.machine == "native" ? 400000 : 40000;
	if (o.tm_options.heap.empty())
		o.tm_options.heap = "/dev/shm/fur-replay-" + std::to_string(getpid());
	else if (access(o.tm_options.heap.c_str(), F_OK) == 0)
		throw bench::Usage(o.tm_options.heap + ": the file exists: the logs are made anew, give another name");
	struct Removed {
		const std::string &path;
		~Removed()
		{
			unlink(path.c_str());
		}
	} removed{o.tm_options.heap};
	o.tm_options.threads = o.threads;
	Updates updates(o, number);
	if (o.tm == "ring")
		return run_on(o, Ring(o, number), updates, number);
	return run_on(o, Merged(o, o.tm == "linked"), updates, number);
}

} // namespace

int main(int argc, char **argv)
{
	Workload w;
	return bench::main_of(
	        "replay", argc, argv,
	        [&](CLI::App &app, bench::Options &o) {
		        o.tm = "ring";
		        app.get_option("--tm")->description("how the order is found: scan, linked, ring")->default_str("ring");
		        app.get_option("--threads")->description("threads that wrote the logs");
		        app.add_option("--updates", w.updates, "in the logs; default: 400,000, on an emulated machine 40,000");
	        },
	        [&](bench::Options &o) { return run(o, w); });
}
