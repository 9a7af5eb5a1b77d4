/* SPDX-License-Identifier: BSD-3-Clause
 *
 * arch.c - the calls of arch.h that every real processor implements alike: time and sleeping.
 */
#include "base/arch.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t arch_now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static double ticks_per_ns;
static pthread_once_t ticks_once = PTHREAD_ONCE_INIT;

static void measure_ticks(void)
{
	/* 5 ms bounds the error of two clock readings (about 50 ns each) to about 20 parts in a
	 * million. */
	uint64_t ns0 = arch_now_ns(), ticks0 = arch_ticks(), ns1;
	do
		ns1 = arch_now_ns();
	while (ns1 - ns0 < 5000000);
	ticks_per_ns = (double)(arch_ticks() - ticks0) / (double)(ns1 - ns0);
}

double arch_ticks_per_ns(void)
{
	pthread_once(&ticks_once, measure_ticks);
	return ticks_per_ns;
}

uint64_t arch_ticks_to_ns(uint64_t ticks)
{
	return (uint64_t)((double)ticks / arch_ticks_per_ns());
}

uint64_t arch_ns_to_ticks(uint64_t ns)
{
	return (uint64_t)((double)ns * arch_ticks_per_ns());
}

bool arch_lend_fences(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0) == 0;
}

bool arch_fence_others(void)
{
	/* A thread that runs takes an interrupt, and one that does not has had a full fence when it
	 * was switched out (membarrier(2)). */
	return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0) == 0;
}

static bool futex_wait(int how, uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
	struct timespec timeout = {
	        (time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
	long result =
	        syscall(SYS_futex, word, how, expected, timeout_ns ? &timeout : NULL, NULL, 0);
	return result == 0 || errno != ETIMEDOUT;
}

bool arch_futex_wait_for(uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
	return futex_wait(FUTEX_WAIT_PRIVATE, word, expected, timeout_ns);
}

void arch_futex_wait_shared(uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
	futex_wait(FUTEX_WAIT, word, expected, timeout_ns);
}

void arch_backoff(struct arch_backoff *b)
{
	enum { SPINS = 256, YIELDS = 64 };
	uint32_t spins = b->spins > SPINS ? b->spins : SPINS;
	b->turns++;
	if (b->turns <= spins) {
		arch_pause();
	} else if (b->turns <= spins + YIELDS) {
		sched_yield();
	} else {
		/* The awaited thread is descheduled or slow.  50 us is short compared to a time
		 * slice and long compared to a usual wait. */
		struct timespec nap = {.tv_nsec = 50000};
		/* Not nanosleep(): that is a cancellation point.  If a thread were cancelled here,
		 * other threads would wait for it forever. */
		syscall(SYS_nanosleep, &nap, NULL);
	}
}

uint32_t arch_cores(void)
{
	/* A kernel for more processors than the set has room for answers EINVAL. */
	for (unsigned most = CPU_SETSIZE; most <= 1u << 20; most *= 2) {
		cpu_set_t *cores = CPU_ALLOC(most);
		const size_t bytes = CPU_ALLOC_SIZE(most);
		if (!cores)
			break;
		const bool known = sched_getaffinity(0, bytes, cores) == 0;
		const bool larger = !known && errno == EINVAL;
		const uint32_t n = known ? (uint32_t)CPU_COUNT_S(bytes, cores) : 0;
		CPU_FREE(cores);
		if (!larger)
			return n ? n : 1;
	}
	return arch_all_cores();
}

uint32_t arch_all_cores(void)
{
	long n = sysconf(_SC_NPROCESSORS_CONF);
	return n > 0 ? (uint32_t)n : 1;
}

uint32_t arch_core(void)
{
	int core = sched_getcpu();
	return core >= 0 ? (uint32_t)core : 0;
}
