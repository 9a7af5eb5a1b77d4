/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_heap.h - an open heap: the parts, put together.
 */
#ifndef FUR_HEAP_HANDLE_H
#define FUR_HEAP_HANDLE_H

#include "durability/durability.h"
#include "heap/heap.h"
#include "htm/htm.h"
#include "replayer/replay.h"

/* fur_pages.c */
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

/* fur_fork.c: the heaps that this process has open.   Errors: FUR_ENOMEM. */
FUR_MUST_USE int heaps_add(struct fur_heap *heap);
/* Take it out, unless in_use() says yes; NULL: without asking. Errors: FUR_EINVAL (it is not open;
 * `heap` may be no heap at all), FUR_EBUSY; without a message. */
int heaps_remove(struct fur_heap *heap, bool (*in_use)(struct fur_heap *heap));
bool heaps_have(const struct fur_heap *heap);

/* This process is a child of the one that opened the heap: INV-K1. */
void heap_disown(struct fur_heap *heap);

/* fur_thread.c */
void thread_ended(void *thread); /* the destructor of `self` */
void thread_free_memory(struct fur_thread *thread);

/* Point a durability at an opened file, nothing replayed yet.   Errors: FUR_ECORRUPT, FUR_EINVAL,
 * FUR_ENOMEM. */
FUR_MUST_USE int durability_attach(struct durability *d, const struct heap_file *file,
        const struct fur_options *options, char *reason, size_t reason_bytes);
void durability_detach(struct durability *d);

/* Replay if the heap was not closed; `result` says what was done.  All in the file: needs no
 * mapping of the heap. */
FUR_MUST_USE int heap_recover(struct durability *d, struct replay_result *result, bool *recovered);

/* Say in the file that it is open, or closed; durable before return. */
FUR_MUST_USE int heap_set_state(struct durability *d, uint64_t state);

#endif /* FUR_HEAP_HANDLE_H */
