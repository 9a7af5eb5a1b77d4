/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock.c - isolation of the memory outside the heap: one lock for all of it, which many
 * transactions share that load, and one has for itself that stores (INV-I1, INV-I2).
 *
 * A thread that shares the lock sets a flag of its own, so threads that only load write no common
 * line.  The thread that has the lock for itself has the mutex, has set `exclusive`, and has then
 * found every other thread's flag reset.  Each side stores its own word before it loads the
 * other's, with a full fence in between; otherwise both could find the other's word reset.
 *
 * In a hardware transaction these are transactional loads and stores: no other thread sees them,
 * and another thread that takes the lock conflicts with them, so the hardware aborts the
 * transaction.
 */
#include "itm.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct itm_lock_words itm_lock_words = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* seq_cst: the store comes before the load of the other side's word. */
static void set(uint32_t *word)
{
	__atomic_exchange_n(word, 1, __ATOMIC_SEQ_CST);
}

/* Release: who finds it reset finds the transaction's stores in memory. */
static void reset(uint32_t *word)
{
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

static bool is_set(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST) != 0;
}

/* The child of fork() has the calling thread alone.  Transactions of other threads, which may have
 * had the lock, do not end there. */
void itm_lock_forked(void)
{
	struct itm_thread *mine = itm_self;
	for (struct itm_thread *t = itm_threads(); t; t = t->next)
		if (t != mine)
			reset(&t->shared);
	if (mine && mine->lock == ITM_LOCK_EXCLUSIVE)
		return;
	/* Destroying a mutex that is locked, or that threads wait for, is undefined. */
	itm_lock_words.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	reset(&itm_lock_words.exclusive);
}

static bool shared_by_another(const struct itm_thread *t)
{
	for (const struct itm_thread *other = itm_threads(); other; other = other->next)
		if (other != t && is_set(&other->shared))
			return true;
	return false;
}

static bool try_shared(struct itm_thread *t)
{
	set(&t->shared);
	if (likely(!is_set(&itm_lock_words.exclusive)))
		return true;
	reset(&t->shared);
	return false;
}

static bool try_exclusive(struct itm_thread *t)
{
	if (pthread_mutex_trylock(&itm_lock_words.mutex))
		return false;
	set(&itm_lock_words.exclusive);
	if (!shared_by_another(t))
		return true;
	reset(&itm_lock_words.exclusive);
	pthread_mutex_unlock(&itm_lock_words.mutex);
	return false;
}

bool itm_lock_try(struct itm_thread *t, enum itm_lock wanted)
{
	if (wanted == ITM_LOCK_SHARED) {
		if (!try_shared(t))
			return false;
	} else {
		if (!try_exclusive(t))
			return false;
		reset(&t->shared);
	}
	t->lock = wanted;
	return true;
}

/* A thread that shares the lock may wait for the disk: then do not take its core. */
static void wait_for_sharers(const struct itm_thread *t)
{
	enum { YIELDS = 100, NAP_NS = 50000 };
	const struct timespec nap = {.tv_nsec = NAP_NS};
	for (unsigned looks = 0; shared_by_another(t); looks++) {
		if (looks < YIELDS)
			sched_yield();
		else
			/* Not nanosleep(), which is a cancellation point. */
			syscall(SYS_nanosleep, &nap, NULL);
	}
}

/* Threads that wait for the exclusive lock queue at the mutex.  So do those that wait to share it:
 * a stream of exclusive transactions does not keep them out. */
void itm_lock_wait(struct itm_thread *t, enum itm_lock wanted)
{
	if (t->lock >= wanted || itm_lock_try(t, wanted))
		return;
	pthread_mutex_lock(&itm_lock_words.mutex);
	if (wanted == ITM_LOCK_SHARED) {
		set(&t->shared);
		pthread_mutex_unlock(&itm_lock_words.mutex);
	} else {
		/* From here on no thread begins to share it; those that do end without us. */
		set(&itm_lock_words.exclusive);
		wait_for_sharers(t);
	}
	t->lock = wanted;
}

void itm_lock_release(struct itm_thread *t)
{
	if (t->lock == ITM_LOCK_SHARED) {
		reset(&t->shared);
	} else if (t->lock == ITM_LOCK_EXCLUSIVE) {
		reset(&itm_lock_words.exclusive);
		pthread_mutex_unlock(&itm_lock_words.mutex);
	}
	t->lock = ITM_LOCK_NONE;
}
