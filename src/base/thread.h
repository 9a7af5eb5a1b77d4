/* SPDX-License-Identifier: BSD-3-Clause
 *
 * thread.h - threads of libfur's own.
 */
#ifndef FUR_THREAD_H
#define FUR_THREAD_H

#include <pthread.h>

/* pthread_create(), with all signals blocked in the new thread: the program's own threads must
 * handle its signals.  Returns: 0 or an errno. */
int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

#endif /* FUR_THREAD_H */
