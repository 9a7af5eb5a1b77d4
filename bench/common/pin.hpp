/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pin.hpp - threads on cores.
 */
#ifndef BENCH_PIN_HPP
#define BENCH_PIN_HPP

#include <pthread.h>
#include <sched.h>

namespace bench
{

/* Pin the calling thread to one of the cores that it may run on: to the one of this number, counted
 * in turn.  The threads that it creates later inherit the core, so create them before. */
inline void pin(unsigned number)
{
	cpu_set_t all, one;
	if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) == 0)
		return;
	unsigned want = number % static_cast<unsigned>(CPU_COUNT(&all));
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && want-- == 0) {
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			pthread_setaffinity_np(pthread_self(), sizeof one, &one);
			return;
		}
}

} // namespace bench

#endif /* BENCH_PIN_HPP */
