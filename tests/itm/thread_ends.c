/* SPDX-License-Identifier: BSD-3-Clause
 *
 * thread_ends.c - a thread that ends inside a transaction.  In C, because GCC's C++ commits a
 * transaction that pthread_exit() unwinds.
 */
#include "thread_ends.h"

#include <pthread.h>

__attribute__((transaction_pure)) static void end(void)
{
	pthread_exit(NULL);
}

void *end_reading(void *at)
{
	const struct two_words *words = at;
	long *in_heap = words->in_heap, *outside = words->outside;
	long sum;
	__transaction_atomic
	{
		sum = *in_heap + *outside;
		end();
	}
	return (void *)sum;
}

void *end_inside(void *at)
{
	struct two_words *words = at;
	__transaction_atomic
	{
		*words->in_heap = 1000;
		*words->outside = 1000;
		end();
	}
	return NULL;
}
