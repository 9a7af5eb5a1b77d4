/* SPDX-License-Identifier: BSD-3-Clause
 *
 * system.cpp - threads, locks, sleeping and time, as the simulated program sees them.  For the
 * program and for the libraries that it uses, these definitions precede the C library's; outside a
 * simulation they call those.
 *
 * Like any system call, each of them aborts a hardware transaction.
 */
#include "machine.hpp"

#include <cerrno>
#include <cstdarg>
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

using namespace emu;

template <class F>
static F real_function(F, const char *name)
{
	return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}
#define REAL(name)                                                                                 \
	([] {                                                                                      \
		static auto *found = real_function(&name, #name);                                  \
		return found;                                                                      \
	}())

/* Enter the system: the thread's stores are performed, and a transaction aborts.  A suspended
 * transaction may enter it. */
static Thread &enter_system()
{
	Thread &t = *g.self;
	begin_access(t);
	if (tracking(t))
		abort_self(t, EMU_DISALLOWED);
	perform_all(t);
	return t;
}

/* ---------------------------------------------------- queues of waiting threads */

namespace
{
struct Waiters {
	int first; /* 1 + thread */
	int next[EMU_MAX_THREADS];
	int owner; /* of a mutex: 1 + thread */
};
Table<Waiters> waiters;
} // namespace

static Waiters &waiters_at(const volatile void *p)
{
	uint64_t key = reinterpret_cast<uintptr_t>(p);
	Waiters *w = waiters.find(key);
	return w ? *w : *waiters.add(key);
}

static void wait_at(Waiters &w, Thread &t)
{
	int *place = &w.first;
	while (*place)
		place = &w.next[*place - 1];
	*place = t.id + 1;
	w.next[t.id] = 0;
	block_thread(t);
}

static Thread *wake_one(Waiters &w, const Thread &by)
{
	if (!w.first)
		return nullptr;
	Thread *t = g.threads[w.first - 1];
	w.first = w.next[t->id];
	wake_thread(*t, by.clock);
	return t;
}

/* Pass a mutex to the thread that has waited longest, if any waits. */
static void hand_over(Waiters &mutex, const Thread &by)
{
	Thread *next = wake_one(mutex, by);
	mutex.owner = next ? next->id + 1 : 0;
}

/* The thread waits no longer. */
static void leave_queues(const Thread &t)
{
	for (uint64_t k = 0; waiters.entries && k <= waiters.mask; k++) {
		Waiters *w = waiters.entries[k].value;
		for (int *place = w ? &w->first : nullptr; place && *place;
		        place = &w->next[*place - 1])
			if (*place == t.id + 1) {
				*place = w->next[t.id];
				break;
			}
	}
}

/* Enter the system for a mutex, which takes an atomic operation. */
static Thread &enter_for_mutex()
{
	Thread &t = enter_system();
	charge(t, g.d->atomic);
	return t;
}

static uint64_t ns_of(const struct timespec *ts)
{
	return static_cast<uint64_t>(ts->tv_sec) * 1000000000u + static_cast<uint64_t>(ts->tv_nsec);
}

static void sleep_ns(uint64_t ns)
{
	Thread &t = enter_system();
	set_idle(t, true);
	t.clock += ns * 1000 + g.d->wake;
	begin_access(t);
	set_idle(t, false);
}

static long futex_call(uint32_t *word, int operation, uint32_t value)
{
	Thread &t = enter_system();
	Waiters &w = waiters_at(word);
	switch (operation & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
		if (*static_cast<volatile uint32_t *>(word) != value) {
			errno = EAGAIN;
			return -1;
		}
		wait_at(w, t);
		return 0;
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET: {
		long n = 0;
		while (static_cast<uint32_t>(n) < value && wake_one(w, t))
			n++;
		return n;
	}
	default: errno = ENOSYS; return -1;
	}
}

/* ------------------------------------------------------------------ interposed */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-declarations"
#pragma GCC diagnostic ignored "-Wnonnull-compare"
#pragma GCC diagnostic ignored "-Wredundant-decls"
#pragma GCC visibility push(default) /* so that the program's libraries find them */
extern "C" {

long syscall(long number, ...) noexcept
{
	va_list args;
	long a[6];
	va_start(args, number);
	for (long &x : a)
		x = va_arg(args, long);
	va_end(args);
	if (g.self && number == SYS_futex)
		return futex_call(reinterpret_cast<uint32_t *>(a[0]), static_cast<int>(a[1]),
		        static_cast<uint32_t>(a[2]));
	if (g.self && number == SYS_nanosleep)
		return sleep_ns(ns_of(reinterpret_cast<struct timespec *>(a[0]))), 0;
	return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int nanosleep(const struct timespec *ts, struct timespec *rest)
{
	if (!g.self)
		return REAL(nanosleep)(ts, rest);
	sleep_ns(ns_of(ts));
	return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *ts, struct timespec *rest)
{
	if (!g.self)
		return REAL(clock_nanosleep)(clock, flags, ts, rest);
	uint64_t ns = ns_of(ts), now = g.self->clock / 1000;
	sleep_ns(!(flags & TIMER_ABSTIME) ? ns : ns > now ? ns - now : 0);
	return 0;
}

int usleep(useconds_t us)
{
	if (!g.self)
		return REAL(usleep)(us);
	sleep_ns(static_cast<uint64_t>(us) * 1000);
	return 0;
}

int clock_gettime(clockid_t clock, struct timespec *ts) noexcept
{
	if (!g.self)
		return REAL(clock_gettime)(clock, ts);
	charge(*g.self, 20000);
	uint64_t ns = g.self->clock / 1000;
	*ts = {static_cast<time_t>(ns / 1000000000u), static_cast<long>(ns % 1000000000u)};
	return 0;
}

/* The same numbers in each process.  libfur draws a heap's address from them, and hashes addresses:
 * with other numbers, a run of the same seed would take another course. */
ssize_t getrandom(void *to, size_t bytes, unsigned)
{
	static Random numbers{1};
	for (size_t at = 0; at < bytes; at += 8) {
		uint64_t number = numbers.next();
		memcpy(static_cast<uint8_t *>(to) + at, &number, bytes - at < 8 ? bytes - at : 8);
	}
	return static_cast<ssize_t>(bytes);
}

int sched_yield(void) noexcept
{
	if (!g.self)
		return REAL(sched_yield)();
	Thread &t = enter_system();
	t.clock += 500000;
	begin_access(t);
	return 0;
}

/* --------------------------------------------------------------------- threads */

static pthread_t handle_of(const Thread &t)
{
	return static_cast<pthread_t>(t.id + 1);
}

static Thread *thread_of(pthread_t handle)
{
	return handle >= 1 && handle <= static_cast<pthread_t>(g.thread_count)
	               ? g.threads[handle - 1]
	               : nullptr;
}

static void run_destructors();

struct Start {
	void *(*f)(void *);
	void *argument;
};

static void *start_thread(void *argument)
{
	Start start = *static_cast<Start *>(argument);
	__libc_free(argument);
	void *result = start.f(start.argument);
	run_destructors();
	return result;
}

int pthread_create(
        pthread_t *out, const pthread_attr_t *attributes, void *(*f)(void *), void *argument)
{
	if (!g.self)
		return REAL(pthread_create)(out, attributes, f, argument);
	enter_system();
	auto *start = static_cast<Start *>(__libc_malloc(sizeof(Start)));
	*start = {f, argument};
	Thread *t = new_thread(start_thread, start);
	if (!t) {
		__libc_free(start);
		return EAGAIN;
	}
	*out = handle_of(*t);
	return 0;
}

int pthread_join(pthread_t which, void **result)
{
	if (!g.self)
		return REAL(pthread_join)(which, result);
	Thread &me = enter_system(), *t = thread_of(which);
	if (!t || t == &me)
		return ESRCH;
	while (t->state != State::DONE) {
		t->joiner = me.id;
		block_thread(me);
	}
	if (result)
		*result = t->result;
	t->state = State::FREE;
	return 0;
}

void emu_kill(pthread_t which)
{
	const Thread &me = enter_system();
	Thread *t = thread_of(which);
	if (!t || t == &me || t->state == State::DONE || t->state == State::FREE)
		return;
	t->killed = true;
	if (t->state == State::BLOCKED) {
		leave_queues(*t);
		wake_thread(*t, me.clock);
	}
}

int pthread_detach(pthread_t which)
{
	if (!g.self)
		return REAL(pthread_detach)(which);
	Thread *t = thread_of(which);
	if (!t)
		return ESRCH;
	t->detached = true;
	if (t->state == State::DONE)
		t->state = State::FREE;
	return 0;
}

pthread_t pthread_self(void) noexcept
{
	return g.self ? handle_of(*g.self) : REAL(pthread_self)();
}

int pthread_setaffinity_np(pthread_t which, size_t bytes, const cpu_set_t *set) noexcept
{
	return g.self ? 0 : REAL(pthread_setaffinity_np)(which, bytes, set);
}

int pthread_setcancelstate(int state, int *old)
{
	if (!g.self)
		return REAL(pthread_setcancelstate)(state, old);
	if (old)
		*old = PTHREAD_CANCEL_ENABLE;
	return 0;
}

/* ------------------------------------------------------------ locks, conditions */

int pthread_mutex_lock(pthread_mutex_t *mutex) noexcept
{
	if (!g.self)
		return REAL(pthread_mutex_lock)(mutex);
	Thread &t = enter_for_mutex();
	Waiters &w = waiters_at(mutex);
	if (!w.owner)
		w.owner = t.id + 1;
	else
		wait_at(w, t); /* hand_over() makes it the owner */
	return 0;
}

int pthread_mutex_trylock(pthread_mutex_t *mutex) noexcept
{
	if (!g.self)
		return REAL(pthread_mutex_trylock)(mutex);
	Thread &t = enter_for_mutex();
	Waiters &w = waiters_at(mutex);
	if (w.owner)
		return EBUSY;
	w.owner = t.id + 1;
	return 0;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex) noexcept
{
	if (!g.self)
		return REAL(pthread_mutex_unlock)(mutex);
	Thread &t = enter_for_mutex();
	hand_over(waiters_at(mutex), t);
	return 0;
}

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	if (!g.self)
		return REAL(pthread_cond_wait)(condition, mutex);
	Thread &t = enter_system();
	hand_over(waiters_at(mutex), t);
	wait_at(waiters_at(condition), t);
	return pthread_mutex_lock(mutex);
}

int pthread_cond_signal(pthread_cond_t *condition) noexcept
{
	if (!g.self)
		return REAL(pthread_cond_signal)(condition);
	Thread &t = enter_system();
	wake_one(waiters_at(condition), t);
	return 0;
}

int pthread_cond_broadcast(pthread_cond_t *condition) noexcept
{
	if (!g.self)
		return REAL(pthread_cond_broadcast)(condition);
	Thread &t = enter_system();
	while (wake_one(waiters_at(condition), t))
		;
	return 0;
}

/* ---------------------------------------------------------- thread-specific data
 *
 * Keys come from the C library; the machine keeps the values of simulated threads. */

static void (*destructors[MAX_LOCALS])(void *);

int pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) noexcept
{
	int error = REAL(pthread_key_create)(key, destructor);
	if (!error && *key < MAX_LOCALS)
		destructors[*key] = destructor;
	return error;
}

int pthread_key_delete(pthread_key_t key) noexcept
{
	if (key < MAX_LOCALS) {
		destructors[key] = nullptr;
		for (int k = 0; k < g.thread_count; k++)
			g.threads[k]->specific[key] = nullptr;
	}
	return REAL(pthread_key_delete)(key);
}

void *pthread_getspecific(pthread_key_t key) noexcept
{
	return g.self && key < MAX_LOCALS ? g.self->specific[key] : REAL(pthread_getspecific)(key);
}

int pthread_setspecific(pthread_key_t key, const void *value) noexcept
{
	if (!g.self || key >= MAX_LOCALS)
		return REAL(pthread_setspecific)(key, value);
	g.self->specific[key] = const_cast<void *>(value);
	return 0;
}
}
#pragma GCC visibility pop
#pragma GCC diagnostic pop

static void run_destructors()
{
	for (unsigned key = 0; key < MAX_LOCALS; key++) {
		void *value = g.self->specific[key];
		g.self->specific[key] = nullptr;
		if (value && destructors[key])
			destructors[key](value);
	}
}

/* A reference to this function links this file's definitions into the program. */
void emu::use_system()
{
	/* A power failure has ended the last run, and with it the threads that held a mutex, or
	 * waited: in memory that outlives a run, the next one finds all of them free. */
	for (size_t i = 0; waiters.entries && i <= waiters.mask; i++)
		if (waiters.entries[i].value)
			*waiters.entries[i].value = {};
}
