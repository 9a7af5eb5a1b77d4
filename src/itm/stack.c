/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stack.c - which memory is a stack of the calling thread.
 *
 * Two parts of it are known to be the thread's alone, and need no lock (INV-I1):
 *
 *    frames     between the stack pointer and the place where the transaction began: of functions
 *               that it has called, whatever stack it runs on.  When the transaction is undone,
 *               they are no more, and the frames of the rollback lie there; so they are not undone.
 *    own stack  that of the thread, if the transaction began there.  Its variables are undone.
 *
 * All other memory may be anything: a coroutine's stack, or a signal's, may lie next to memory of
 * malloc(), and a mapping may lie in the range that the main thread's stack may still grow to.
 * Such memory takes the lock.  So a transaction on another stack than the thread's own is right,
 * and only its function's own variables cost the lock.
 */
#include "itm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Where the mapping begins that has the byte before `end`, or `end` if there is none. */
static uint8_t *mapping_before(uint8_t *end)
{
	/* c: no cancellation point. */
	FILE *maps = fopen("/proc/self/maps", "rce");
	char *line = NULL;
	size_t room = 0;
	uint8_t *found = end;
	while (maps && found == end && getline(&line, &room, maps) > 0) {
		void *from, *to;
		if (sscanf(line, "%p-%p", &from, &to) == 2 && (uint8_t *)from < end &&
		        end <= (uint8_t *)to)
			found = from;
	}
	free(line);
	if (maps)
		fclose(maps);
	return found;
}

/* The main thread's stack is as large as it has grown so far.  Below that, up to its limit, there
 * may be other mappings, and with `ulimit -s unlimited` even memory of malloc(). */
static uint8_t *end_of_grown_stack(const struct itm_thread *t)
{
	uint8_t *low = mapping_before(t->own_stack_high);
	return low > t->own_stack_least ? low : t->own_stack_least;
}

void itm_stack_find(struct itm_thread *t)
{
	enum { GROWS_MOST = 64 << 20 };
	pthread_attr_t attributes;
	void *low;
	size_t bytes;
	t->own_stack_least = t->own_stack_low = t->own_stack_high = NULL;
	if (pthread_getattr_np(pthread_self(), &attributes))
		return;
	if (!pthread_attr_getstack(&attributes, &low, &bytes)) {
		t->own_stack_least = t->own_stack_low = low;
		t->own_stack_high = (uint8_t *)low + bytes;
	}
	pthread_attr_destroy(&attributes);
	if (!t->own_stack_high || syscall(SYS_gettid) != getpid())
		return;
	if (bytes > GROWS_MOST)
		t->own_stack_least = t->own_stack_high - GROWS_MOST;
	t->own_stack_low = end_of_grown_stack(t);
}

void itm_stack_note(struct itm_thread *t, uint8_t *stack)
{
	if (unlikely(stack < t->own_stack_low && stack >= t->own_stack_least))
		t->own_stack_low = end_of_grown_stack(t);
	bool own = stack >= t->own_stack_low && stack < t->own_stack_high;
	t->stack_low = own ? t->own_stack_low : stack;
	t->stack_bytes = own ? (uint64_t)(t->own_stack_high - t->own_stack_low) : 0;
}
