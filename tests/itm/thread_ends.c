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
