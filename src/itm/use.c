/* SPDX-License-Identifier: BSD-3-Clause
 *
 * use.c - the heap that the process uses, the threads that use it, and failures.
 */
#include "itm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__thread struct itm_thread *itm_self;

/* The named heap.  fur_itm_use() runs when no transaction does, so a thread that begins one needs
 * only to see that `calls` has changed since its last. */
static struct {
	fur_heap *heap;
	uint8_t *base;
	uint64_t bytes;
	uint64_t calls; /* of fur_itm_use() */
} named;

static struct itm_thread *threads;
static void (*on_failure)(int error, const char *message);
static pthread_key_t ends;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int once_error;

/* ---------------------------------------------------------------- failures */

FUR_API void fur_itm_on_failure(void (*report)(int error, const char *message))
{
	__atomic_store_n(&on_failure, report, __ATOMIC_RELEASE);
}

void itm_fail(int error, const char *message)
{
	void (*report)(int, const char *) = __atomic_load_n(&on_failure, __ATOMIC_ACQUIRE);
	if (report)
		report(error, message);
	else
		fprintf(stderr, "libfur-itm: %s\n", message);
	abort();
}

void itm_fail_as_libfur(int error)
{
	char message[1024];
	snprintf(message, sizeof message, "a transaction failed: %s", fur_errormsg());
	itm_fail(error, message);
}

void itm_fail_in_store(struct itm_thread *t)
{
	itm_fail_as_libfur(fur_abort(t->update));
}

struct itm_thread *itm_inside(const char *function)
{
	if (likely(itm_self && itm_self->depth))
		return itm_self;
	char message[256];
	snprintf(message, sizeof message,
	        "%s was called outside a transaction: call it in a __transaction_atomic block, in "
	        "code that is compiled with -fgnu-tm",
	        function);
	itm_fail(FUR_ENOTX, message);
}

/* ---------------------------------------------------------------- the heap */

fur_heap *itm_heap(void)
{
	return named.heap;
}

FUR_API int fur_itm_use(fur_heap *heap)
{
	struct fur_info info = {.size = sizeof info};
	named.heap = NULL;
	__atomic_add_fetch(&named.calls, 1, __ATOMIC_RELEASE);
	if (!heap)
		return 0;
	int error = fur_get_info(heap, &info);
	if (error)
		return error;
	named.base = (void *)(uintptr_t)info.address;
	named.bytes = info.max_bytes;
	named.heap = heap;
	__atomic_add_fetch(&named.calls, 1, __ATOMIC_RELEASE);
	return 0;
}

/* ---------------------------------------------------------------- threads */

static void thread_ends(void *thread)
{
	struct itm_thread *t = thread;
	itm_thread_over(t);
	itm_self = NULL;
	t->use = 0;
	__atomic_store_n(&t->taken, 0, __ATOMIC_RELEASE);
}

/* In a child of fork(), the other threads' structs stay taken: such a thread may have been in the
 * middle of a change to its own. */
static void make_key(void)
{
	once_error = pthread_key_create(&ends, thread_ends);
	/* The C library removes the handler when libfur-itm is unloaded. */
	if (!once_error)
		once_error = pthread_atfork(NULL, NULL, itm_lock_forked);
}

struct itm_thread *itm_threads(void)
{
	return __atomic_load_n(&threads, __ATOMIC_ACQUIRE);
}

/* A thread that has ended leaves its struct behind: others may be looking at it. */
static struct itm_thread *find_left(void)
{
	for (struct itm_thread *t = itm_threads(); t; t = t->next) {
		uint32_t taken = 0;
		if (__atomic_compare_exchange_n(
		            &t->taken, &taken, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return t;
	}
	return NULL;
}

static struct itm_thread *make(void)
{
	struct itm_thread *t = aligned_alloc(FUR_CACHE_LINE, sizeof *t);
	if (!t)
		return NULL;
	memset(t, 0, sizeof *t);
	t->taken = 1;
	t->next = itm_threads();
	while (!__atomic_compare_exchange_n(
	        &threads, &t->next, t, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		continue;
	return t;
}

static struct itm_thread *enter(void)
{
	pthread_once(&once, make_key);
	struct itm_thread *t = once_error ? NULL : find_left();
	if (!once_error && !t)
		t = make();
	if (!t || pthread_setspecific(ends, t))
		itm_fail(FUR_ENOMEM, "no memory for a thread that begins its first transaction");
	itm_stack_find(t);
	itm_self = t;
	return t;
}

/* The first transaction of this thread, or the first since the process uses another heap. */
static __attribute__((noinline)) void prepare(struct itm_thread *t, uint64_t calls)
{
	if (!named.heap)
		itm_fail(FUR_EINVAL, "a transaction began, and the process has named no heap: call "
		                     "fur_itm_use() with an open heap before the first "
		                     "transaction");
	int error = fur_thread_register(named.heap, NULL, &t->thread);
	if (error)
		itm_fail_as_libfur(error);
	t->use = calls;
}

struct itm_thread *itm_thread_ready(void)
{
	struct itm_thread *t = itm_self;
	if (unlikely(!t))
		t = enter();
	/* Acquire: the fields of `named` are those of this call, or of a later one. */
	uint64_t calls = __atomic_load_n(&named.calls, __ATOMIC_ACQUIRE);
	if (unlikely(t->use != calls || !named.heap))
		prepare(t, calls);
	t->heap_base = named.base;
	t->heap_bytes = named.bytes;
	return t;
}
