/* SPDX-License-Identifier: BSD-3-Clause
 *
 * containers.hpp - what the parts of this benchmark have in common.
 */
#ifndef BENCH_CONTAINERS_HPP
#define BENCH_CONTAINERS_HPP

#include "../../tools/common/json.hpp"
#include "../../tools/common/random.hpp"
#include "../common/round_trip.hpp"

#include <fur.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <unistd.h>
#include <vector>

namespace containers
{

using tools::Random;

struct Settings {
	std::string directory = "/dev/shm";
	uint64_t keys = 1000000;
	unsigned rounds = 9;
	double seconds = 0.3;
	std::string json; /* the file; empty: a table on standard output */
	bool fill = false, get_many = false, table = false;
};

inline double now()
{
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
	        .count();
}

/* Key k of all.  They are in no order, and all over the range. */
inline uint64_t key_of(uint64_t k)
{
	k = (k ^ k >> 31) * 0x7fb5d329728ea185;
	return (k ^ k >> 27) * 0x81dadef4bc2dd44d;
}

[[noreturn]] inline void die(const std::string &what)
{
	fprintf(stderr, "containers: %s\n", what.c_str());
	_exit(3);
}

inline fur::Options options(uint64_t bytes, uint64_t most)
{
	fur::Options o;
	o.heap_bytes = bytes;
	o.max_bytes = most;
	o.pm = FUR_PM_EMULATED;
	return o;
}

inline double median(std::vector<double> values)
{
	std::sort(values.begin(), values.end());
	return values.empty() ? 0 : values[values.size() / 2];
}

/* get_many.cpp: --get-many */
tools::Json measure_get_many(const Settings &s);
/* tables.cpp: --table */
tools::Json measure_table(const Settings &s);

} // namespace containers

#endif /* BENCH_CONTAINERS_HPP */
