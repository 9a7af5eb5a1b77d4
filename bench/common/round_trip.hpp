/* SPDX-License-Identifier: BSD-3-Clause
 *
 * round_trip.hpp - how long a cache line takes from one core to another and back.  Two cores of a
 * virtual machine may share a cache at one moment and no socket at the next.  That changes the
 * throughput of two threads more than most changes of a program do, so each result has it.
 */
#ifndef BENCH_ROUND_TRIP_HPP
#define BENCH_ROUND_TRIP_HPP

#include "../../tools/common/json.hpp"
#include "pin.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace bench
{

/* Nanoseconds from a store by one core to its load of the other's answer: the median of nine
 * batches.  Takes less than a millisecond where no other process wants the cores. */
inline double round_trip_ns()
{
	constexpr uint32_t TRIPS = 100, BATCHES = 9;
	using Clock = std::chrono::steady_clock;
	struct alignas(128) Line {
		std::atomic<uint32_t> trips{0};
	} there, back;
	std::vector<double> batches;
	std::thread far([&] {
		pin(1);
		for (uint32_t k = 1; k <= TRIPS * BATCHES; k++) {
			while (there.trips.load(std::memory_order_acquire) < k)
				;
			back.trips.store(k, std::memory_order_release);
		}
	});
	std::thread near([&] {
		pin(0);
		for (uint32_t k = 1; k <= TRIPS * BATCHES;) {
			const auto began = Clock::now();
			for (unsigned n = 0; n < TRIPS; n++, k++) {
				there.trips.store(k, std::memory_order_release);
				while (back.trips.load(std::memory_order_acquire) < k)
					;
			}
			batches.push_back(
			        std::chrono::duration<double, std::nano>(Clock::now() - began)
			                .count() /
			        TRIPS);
		}
	});
	near.join();
	far.join();
	std::nth_element(batches.begin(), batches.begin() + BATCHES / 2, batches.end());
	return batches[BATCHES / 2];
}

/* The round trips of a run, taken between its measurements. */
class RoundTrips
{
public:
	/* Call it while the run's own threads wait.  Does nothing on a single core. */
	void take()
	{
		cpu_set_t all;
		if (sched_getaffinity(0, sizeof all, &all) == 0 && CPU_COUNT(&all) > 1)
			add(round_trip_ns());
	}
	/* Nanoseconds: least, median and most; null if none was taken. */
	tools::Json json() const
	{
		if (ns_.empty())
			return nullptr;
		return {{"least", ns_.front()}, {"median", median()}, {"most", ns_.back()}};
	}
	std::string text() const
	{
		char line[80] = "one core";
		if (!ns_.empty())
			snprintf(line, sizeof line,
			        "round trip between two cores %.0f ns (%.0f to %.0f)", median(),
			        ns_.front(), ns_.back());
		return line;
	}

private:
	void add(double ns)
	{
		ns_.insert(std::upper_bound(ns_.begin(), ns_.end(), ns), ns);
	}
	double median() const
	{
		return ns_[ns_.size() / 2];
	}
	std::vector<double> ns_; /* in order */
};

} // namespace bench

#endif /* BENCH_ROUND_TRIP_HPP */
