/* SPDX-License-Identifier: BSD-3-Clause
 *
 * phases.hpp - the parts of a round: writers, and what other threads do beside them.
 */
#ifndef BENCH_SNAPSHOT_PHASES_HPP
#define BENCH_SNAPSHOT_PHASES_HPP

#include "../../tools/common/random.hpp"
#include "../commits/store.hpp"
#include "../common/pin.hpp"
#include "../common/zipf.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <fstream>
#include <functional>
#include <malloc.h>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace snapshot
{

using commits::Seen;
using commits::Store;

struct Settings {
	std::string path = "/dev/shm/fur-bench-snapshot", htm = "none", json;
	uint64_t keys = 1000000, value_bytes = 8, snapshot_mib = 0, address = 0;
	unsigned writers = 1, readers = 1, rounds = 9;
	double seconds = 1, zipf = 0;
	uint64_t most_mib = 8192;
	bool peers = false, sync = false;
};

inline uint64_t now_ns()
{
	return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
	        std::chrono::steady_clock::now().time_since_epoch())
	                                     .count());
}

/* In seconds. */
inline double now()
{
	return static_cast<double>(now_ns()) * 1e-9;
}

inline void sleep_for(double seconds)
{
	std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/* The value below which the given share of all lies; 0.5: the median. */
inline double quantile(std::vector<double> all, double share)
{
	if (all.empty())
		return 0;
	std::sort(all.begin(), all.end());
	const double at = share * static_cast<double>(all.size() - 1);
	const auto below = static_cast<size_t>(at), above = std::min(below + 1, all.size() - 1);
	return all[below] + (at - static_cast<double>(below)) * (all[above] - all[below]);
}

/* Bytes of this process's memory that no file has, without what malloc() keeps for later. */
inline uint64_t anonymous_bytes()
{
	malloc_trim(0);
	std::ifstream in("/proc/self/smaps_rollup");
	for (std::string line; std::getline(in, line);)
		if (line.compare(0, 10, "Anonymous:") == 0)
			return std::stoull(line.substr(10)) << 10;
	throw std::runtime_error("/proc/self/smaps_rollup: no line Anonymous");
}

/* Keys drawn at random, by Zipf's law if theta is not 0.  Frequent keys are no neighbours. */
class Keys
{
public:
	Keys(uint64_t n, double theta) : n_(n), ranks_(n, theta) {}
	uint64_t draw(tools::Random &random) const
	{
		/* A prime above all n, so that each rank has a key of its own. */
		constexpr uint64_t PRIME = 2654435761;
		const uint64_t rank = ranks_.draw(random);
		return ranks_.uniform() ? rank : rank * PRIME % n_;
	}

private:
	uint64_t n_;
	bench::Zipf ranks_;
};

/* Threads that put a new value under random keys, on cores in turn, as long as the object lives. */
class Writers
{
public:
	Writers(Store &store, const Keys &keys, const Settings &s, unsigned threads)
	    : counts_(threads)
	{
		for (unsigned t = 0; t < threads; t++)
			threads_.emplace_back([this, &store, &keys, bytes = s.value_bytes, t] {
				bench::pin(t);
				work(store, keys, bytes, counts_[t]);
			});
		/* The first updates of a thread are not counted. */
		for (const Count &c : counts_)
			while (c.updates == 0 && !c.failure && !c.refused)
				sleep_for(0.0005);
		all_have_begun_ = true;
		sleep_for(threads ? std::min(s.seconds / 10, 0.1) : 0);
	}
	~Writers()
	{
		stop();
	}
	Writers(const Writers &) = delete;

	uint64_t updates() const
	{
		uint64_t all = 0;
		for (const Count &c : counts_)
			all += c.updates;
		return all;
	}
	/* Has an update found no room? */
	bool refused() const
	{
		return std::any_of(counts_.begin(), counts_.end(),
		        [](const Count &c) -> bool { return c.refused; });
	}
	/* Throws what a writer has thrown. */
	void end()
	{
		stop();
		for (const Count &c : counts_)
			if (c.thrown)
				std::rethrow_exception(c.thrown);
	}

private:
	struct alignas(128) Count {
		std::atomic<uint64_t> updates{0};
		std::exception_ptr thrown;
		std::atomic<bool> failure{false}; /* `thrown` is set */
		std::atomic<bool> refused{false};
	};
	void work(Store &store, const Keys &keys, uint64_t bytes, Count &mine)
	{
		static std::atomic<uint64_t> started{0};
		tools::Random random{++started};
		std::vector<uint64_t> value(bytes / sizeof(uint64_t));
		try {
			const Store::Put put = store.connect();
			while (!stop_) {
				value[0] = random.next();
				try {
					put(keys.draw(random), value.data());
				} catch (const commits::Full &) {
					mine.refused = true;
					sleep_for(0.001);
					continue;
				}
				mine.updates.store(mine.updates + 1, std::memory_order_relaxed);
				/* Who goes on at once can keep another from its first update for as
				 * long as SQLite waits for its lock. */
				while (!all_have_begun_ && !stop_)
					sleep_for(0.0005);
			}
		} catch (...) {
			mine.thrown = std::current_exception();
			mine.failure = true;
		}
	}
	void stop()
	{
		stop_ = true;
		for (std::thread &t : threads_)
			t.join();
		threads_.clear();
	}

	std::atomic<bool> stop_{false}, all_have_begun_{false};
	std::vector<Count> counts_;
	std::vector<std::thread> threads_;
};

/* One phase: body(writers, number) in each of `readers` threads on the next cores, beside `threads`
 * writers. */
inline void beside(Store &store, const Keys &keys, const Settings &s, unsigned threads,
        unsigned readers, const std::function<void(const Writers &, unsigned)> &body)
{
	Writers writers(store, keys, s, threads);
	std::vector<std::exception_ptr> thrown(readers);
	std::vector<std::thread> others;
	for (unsigned r = 0; r < readers; r++)
		others.emplace_back([&, r] {
			bench::pin(threads + r);
			try {
				body(writers, r);
			} catch (...) {
				thrown[r] = std::current_exception();
			}
		});
	for (std::thread &t : others)
		t.join();
	writers.end();
	for (const std::exception_ptr &t : thrown)
		if (t)
			std::rethrow_exception(t);
}

/* The writers' rate since the object was made. */
class Rate
{
public:
	explicit Rate(const Writers &w) : writers_(w), from_(now()), before_(w.updates()) {}
	double seconds() const
	{
		return now() - from_;
	}
	double updates_per_second() const
	{
		return static_cast<double>(writers_.updates() - before_) / seconds();
	}

private:
	const Writers &writers_;
	double from_;
	uint64_t before_;
};

struct Reading {
	double updates = 0, entries = 0; /* a second */
	uint64_t reads = 0;
	bool refused = false; /* an update has found no room */
};

/* Runs at the end of a phase, while its writers run, and its read is open. */
using AtEnd = std::function<void()>;

/* Read all entries of a store again and again in `s.readers` threads, each to the end of the read
 * in which the time is over.  make_reader() runs in the thread that reads. */
inline Reading read_beside(
        Store &store, const Keys &keys, const Settings &s, unsigned threads,
        const std::function<Store::Read()> &make_reader, const AtEnd &at_end = [] {})
{
	std::vector<Reading> all(s.readers);
	beside(store, keys, s, threads, s.readers, [&](const Writers &writers, unsigned reader) {
		Reading &mine = all[reader];
		const Store::Read read = make_reader();
		const Rate rate(writers);
		while (rate.seconds() < s.seconds) {
			if (read().entries != s.keys)
				throw std::runtime_error("a read has not found all keys");
			mine.reads++;
		}
		mine.updates = rate.updates_per_second();
		mine.entries = static_cast<double>(mine.reads * s.keys) / rate.seconds();
		mine.refused = writers.refused();
		at_end();
	});
	Reading result;
	for (const Reading &r : all) {
		result.updates += r.updates / s.readers;
		result.entries += r.entries;
		result.reads += r.reads;
		result.refused = result.refused || r.refused;
	}
	return result;
}

/* Updates a second beside a thread that sleeps.  On a busy machine it takes longer, until there is
 * an update: the others are divided by it. */
inline double updates_alone(
        Store &store, const Keys &keys, const Settings &s, unsigned threads,
        const AtEnd &at_end = [] {})
{
	double result = 0;
	beside(store, keys, s, threads, 1, [&](const Writers &writers, unsigned) {
		const Rate rate(writers);
		do
			sleep_for(s.seconds);
		while ((result = rate.updates_per_second()) == 0);
		at_end();
	});
	return result;
}

/* Figures by their names: of one round, and of all. */
using Round = std::map<std::string, double>;
using Rounds = std::vector<Round>;

inline std::vector<double> all_of(const Rounds &rounds, const std::string &name)
{
	std::vector<double> all;
	for (const Round &r : rounds)
		all.push_back(r.at(name));
	return all;
}

inline double median_of(const Rounds &rounds, const std::string &name)
{
	return quantile(all_of(rounds, name), 0.5);
}

/* "0.97 (0.95 to 0.99)": the median, least and most of all rounds, divided by `unit`. */
inline std::string text_of(
        const Rounds &rounds, const std::string &name, int digits, double unit = 1)
{
	const std::vector<double> all = all_of(rounds, name);
	char text[96];
	snprintf(text, sizeof text, "%.*f (%.*f to %.*f)", digits, quantile(all, 0.5) / unit,
	        digits, quantile(all, 0) / unit, digits, quantile(all, 1) / unit);
	return text;
}

} // namespace snapshot

#endif /* BENCH_SNAPSHOT_PHASES_HPP */
