/* SPDX-License-Identifier: BSD-3-Clause
 *
 * google_main.hpp - main() of a program of Google Benchmark; the context that it prints has the
 * round trip between two cores.
 */
#ifndef BENCH_GOOGLE_MAIN_HPP
#define BENCH_GOOGLE_MAIN_HPP

#include "round_trip.hpp"

#include <benchmark/benchmark.h>

int main(int argc, char **argv)
{
	bench::RoundTrips trips;
	trips.take();
	benchmark::AddCustomContext("round_trip", trips.text());
	benchmark::Initialize(&argc, argv);
	if (benchmark::ReportUnrecognizedArguments(argc, argv))
		return 1;
	benchmark::RunSpecifiedBenchmarks();
	benchmark::Shutdown();
	return 0;
}

#endif /* BENCH_GOOGLE_MAIN_HPP */
