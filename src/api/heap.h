/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap.h - an open heap: the parts, put together.  The contract of src/api.
 */
#ifndef FUR_API_HEAP_H
#define FUR_API_HEAP_H

#include "alloc/alloc.h"
#include "durability/durability.h"
#include "file/heap_file.h"
#include "htm/htm.h"
#include "replay/replay.h"

/* pages.c */
struct page_limit {
	uint64_t bytes; /* 0: none */
	uint64_t page_bytes;
	int statm, pagemap;
	pthread_mutex_t mutex; /* one thread counts and hands back; below, what it did */
	uint64_t times, bytes_handed_back;
};

enum thread_state { THREAD_FREE, THREAD_REGISTERED };

struct fur_heap {
	struct heap_file file;
	struct durability durability;
	struct htm htm;
	struct fur_thread *threads; /* [max_threads] */
	pthread_mutex_t registering;
	/* The calling thread's registration; its destructor gives the slot back */
	pthread_key_t self;
	struct page_limit page_limit;
	struct fur_info info;
	pid_t owner; /* that opened it */
	struct fur_heap *next_open;
};

/* Keep the heap's private pages within `bytes`, if not 0, from now on.   Errors: FUR_ESYS. */
FUR_MUST_USE int page_limit_start(struct fur_heap *heap, uint64_t bytes);
void page_limit_end(struct fur_heap *heap);

/* fork.c: the heaps that this process has open.   Errors: FUR_ENOMEM. */
FUR_MUST_USE int heaps_add(struct fur_heap *heap);
/* Take it out, unless in_use() says yes; NULL: without asking. Errors: FUR_EINVAL (it is not open;
 * `heap` may be no heap at all), FUR_EBUSY; without a message. */
int heaps_remove(struct fur_heap *heap, bool (*in_use)(struct fur_heap *heap));
bool heaps_have(const struct fur_heap *heap);

/* This process is a child of the one that opened the heap: INV-K1. */
void heap_disown(struct fur_heap *heap);

/* thread.c */
void thread_ended(void *thread); /* the destructor of `self` */
void thread_free_memory(struct fur_thread *thread);

/* struct fur_options with its defaults and what the environment overrides.   Errors: FUR_EINVAL. */
FUR_MUST_USE int options_complete(const struct fur_options *given, struct fur_options *completed);

/* Free what the parts of a heap have; `heap` is no longer in the list of open heaps. */
void heap_take_apart(struct fur_heap *heap);

#endif /* FUR_API_HEAP_H */
