/* SPDX-License-Identifier: BSD-3-Clause
 *
 * jumping_clock.c - for LD_PRELOAD: the wall clock of a process differs from the machine's by as
 * many seconds as the file $FUR_CLOCK says (8 bytes), which may change at any time, also while a
 * thread waits until a time of this clock.  CLOCK_MONOTONIC is as it is.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

enum { SLICE_NS = 10000000, A_YEAR_S = 31536000, NS = 1000000000 };

static const volatile int64_t *difference;

/* NOLINTNEXTLINE: before any other thread is there */
__attribute__((constructor)) static void map_clock(void)
{
	const char *const name = getenv("FUR_CLOCK");
	const int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *const at = mmap(NULL, sizeof *difference, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	difference = at == MAP_FAILED ? NULL : at;
}

/* ---------------------------------------------------------------- what time it is */

PUBLIC int clock_gettime(clockid_t clock, struct timespec *t)
{
	const long error = syscall(SYS_clock_gettime, clock, t);
	if (!error && difference && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		t->tv_sec += *difference;
	return (int)error;
}

PUBLIC int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	struct timespec now;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	*t = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
	return 0;
}

PUBLIC int timespec_get(struct timespec *t, int base)
{
	return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, t) == 0 ? base : 0;
}

PUBLIC time_t time(time_t *to)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (to)
		*to = now.tv_sec;
	return now.tv_sec;
}

/* ------------------------------------------------------------------ waits until then */

/* How long it is from now until `until`, at most a slice, as a time of the machine's clock.  False:
 * it is over. */
static int slice_until(const struct timespec *until, struct timespec *slice)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	const int64_t s = until->tv_sec - now.tv_sec, ns = until->tv_nsec - now.tv_nsec;
	if (s < 0 || (s == 0 && ns <= 0))
		return 0;
	syscall(SYS_clock_gettime, CLOCK_REALTIME, slice);
	slice->tv_nsec += s == 0 && ns < SLICE_NS ? ns : SLICE_NS;
	slice->tv_sec += slice->tv_nsec / NS;
	slice->tv_nsec %= NS;
	return 1;
}

typedef int (*wait_fn)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

static wait_fn original(void)
{
	static wait_fn found;
	if (!found)
		found = (wait_fn)dlsym(RTLD_NEXT, "pthread_cond_timedwait");
	return found;
}

PUBLIC int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m,
        const struct timespec *restrict until)
{
	struct timespec slice;
	/* A condition of CLOCK_MONOTONIC: no machine has run that long. */
	if (!difference || until->tv_sec < A_YEAR_S)
		return original()(c, m, until);
	while (slice_until(until, &slice)) {
		const int error = original()(c, m, &slice);
		if (error != ETIMEDOUT)
			return error;
	}
	return ETIMEDOUT;
}

PUBLIC int cnd_timedwait(
        cnd_t *restrict c, mtx_t *restrict m, const struct timespec *restrict until)
{
	const int error = pthread_cond_timedwait((pthread_cond_t *)c, (pthread_mutex_t *)m, until);
	return error == ETIMEDOUT ? thrd_timedout : error ? thrd_error : thrd_success;
}
