/* SPDX-License-Identifier: BSD-3-Clause
 *
 * world.hpp - the settings of a run, the heap, and the one place through which every update goes.
 */
#ifndef BENCH_PAUSES_WORLD_HPP
#define BENCH_PAUSES_WORLD_HPP

#include "../../tools/common/random.hpp"
#include "../common/driver.hpp"
#include "../common/fur_tm.hpp"
#include "windows.hpp"

#include <vector>

namespace pauses
{

using Self = bench::FurTm::Thread;

struct Settings {
	std::string part, body = "scan";
	double long_ms = 10, pause_ms = 10;
	unsigned readers = 1, rounds = 5;
	uint64_t counters = 64;
};

/* Run body(tx) as an update.  The body may run several times, and changes nothing but the heap. */
template <class Body>
auto update(Self &self, Body &&body)
{
	return self.update(body);
}

template <class Body>
auto read(Self &self, Body &&body)
{
	return self.read(body);
}

/* An array in the heap, a multiple of 8 words, on lines of its own.  Each update sets a few words,
 * so that it fits a small log. */
inline uint64_t *make_words(Self &self, size_t words, uint64_t value)
{
	auto *made = update(self, [&](fur_update *tx) {
		return static_cast<uint64_t *>(fur_alloc(tx, words * sizeof value));
	});
	if (!made)
		throw std::runtime_error("the heap is too small: give it a larger --heap-mib");
	for (size_t first = 0; first < words; first += 64)
		update(self, [&](fur_update *tx) {
			for (size_t k = first; k < std::min(first + 64, words); k++)
				fur_store(tx, &made[k], value);
		});
	return made;
}

inline uint64_t sum_of(Self &self, const uint64_t *words, size_t n)
{
	return read(self, [&](fur_ro *tx) {
		uint64_t sum = 0;
		for (size_t k = 0; k < n; k++)
			sum += fur_load(tx, &words[k]);
		return sum;
	});
}

/* Data outside the heap, for the same accesses without a transaction. */
struct NoTransaction {
};
inline uint64_t fur_load(NoTransaction *, const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}
inline void fur_store(NoTransaction *, uint64_t *p, uint64_t value)
{
	__atomic_store_n(p, value, __ATOMIC_RELAXED);
}

/* The start of every result. */
inline json describe(const bench::Options &o, const Settings &s, bench::FurTm &tm, const Crew &crew,
        unsigned threads)
{
	json r;
	r["workload"] = "pauses";
	r["part"] = s.part;
	r["tm"] = o.tm;
	r["threads"] = threads;
	r["cores"] = cores().size();
	r["pinned"] = crew.pinned();
	r["seconds"] = o.seconds;
	r["rounds"] = s.rounds;
	r["seed"] = o.seed;
	r["pm_latency_ns"] = o.tm_options.pm_latency_ns;
	r["round_trip_ns"] = crew.round_trips().json();
	tm.describe(r);
	return r;
}

} // namespace pauses

#endif /* BENCH_PAUSES_WORLD_HPP */
