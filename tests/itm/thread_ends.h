/* SPDX-License-Identifier: BSD-3-Clause
 *
 * thread_ends.h - a thread that ends inside a transaction.
 */
#ifndef THREAD_ENDS_H
#define THREAD_ENDS_H

#ifdef __cplusplus
extern "C" {
#endif

struct two_words {
	long *in_heap, *outside;
};

/* For pthread_create(): store to both words of a struct two_words, and end before the commit. */
void *end_inside(void *at);
/* The same; it only loads from both. */
void *end_reading(void *at);

#ifdef __cplusplus
}
#endif

#endif /* THREAD_ENDS_H */
