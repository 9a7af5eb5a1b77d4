/* SPDX-License-Identifier: BSD-3-Clause
 *
 * clock_shim.c - preloaded: clocks that jump.  The wall clock by years, both ways, at each look;
 * the monotonic one forward, as after a virtual machine stood still.  libfur itself may not look at
 * the wall clock at all: then the program ends with status 99.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static uint64_t next_random(void)
{
	static uint64_t state = 88172645463325252u;
	uint64_t r = __atomic_fetch_add(&state, 0x9e3779b97f4a7c15u, __ATOMIC_RELAXED);
	r = (r ^ (r >> 30)) * 0xbf58476d1ce4e5b9u;
	return r ^ (r >> 27);
}

static void refuse_libfur(const void *caller, const char *what)
{
	Dl_info info;
	if (!dladdr(caller, &info) || !info.dli_fname || !strstr(info.dli_fname, "libfur.so"))
		return;
	fprintf(stderr, "clock_shim: libfur calls %s\n", what);
	_exit(99);
}

static int64_t wall_seconds(void)
{
	enum { SOME_YEARS = 20 * 365 * 86400 };
	return (int64_t)SOME_YEARS + (int64_t)(next_random() % SOME_YEARS);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ts)
{
	static int64_t ahead;
	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI) {
		refuse_libfur(__builtin_return_address(0), "clock_gettime(CLOCK_REALTIME)");
		*ts = (struct timespec){.tv_sec = wall_seconds()};
		return 0;
	}
	long result = syscall(SYS_clock_gettime, clock, ts);
	/* Now and then it is a few seconds later than it was. */
	if (next_random() % 64 == 0)
		__atomic_fetch_add(&ahead, 1 + (int64_t)(next_random() % 10), __ATOMIC_RELAXED);
	if (clock == CLOCK_MONOTONIC)
		ts->tv_sec += __atomic_load_n(&ahead, __ATOMIC_RELAXED);
	return (int)result;
}

__attribute__((visibility("default"))) int gettimeofday(
        struct timeval *restrict tv, void *restrict zone)
{
	(void)zone;
	refuse_libfur(__builtin_return_address(0), "gettimeofday()");
	*tv = (struct timeval){.tv_sec = wall_seconds()};
	return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *out)
{
	refuse_libfur(__builtin_return_address(0), "time()");
	time_t now = wall_seconds();
	if (out)
		*out = now;
	return now;
}
