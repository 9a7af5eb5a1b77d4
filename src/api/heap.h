/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap.h - an open heap: all its parts, put together.  The contract of src/api.
 */
#ifndef FUR_API_HEAP_H
#define FUR_API_HEAP_H

#include "alloc/alloc.h"
#include "durability/durability.h"
#include "file/heap_file.h"
#include "htm/htm.h"
#include "replay/replay.h"

/* fur_options.dram_bytes, at work (pages.c). */
struct page_limit {
	uint64_t bytes; /* 0: no limit */
	uint64_t page_bytes;
	int statm, pagemap;
	pthread_mutex_t mutex; /* held by the thread that counts pages and hands them back */
	uint64_t times, bytes_handed_back; /* under the mutex: what such threads did */
};

/* fur_thread.state: of a place in fur_heap.threads. */
enum thread_state { THREAD_FREE, THREAD_REGISTERED };

struct fur_heap {
	struct heap_file file;
	struct durability durability;
	struct htm htm;
	struct fur_thread *threads;  /* [max_threads] */
	pthread_mutex_t registering; /* over the states of `threads` */
	/* The calling thread's registration; the key's destructor ends it */
	pthread_key_t self;
	struct page_limit page_limit;
	struct fur_info info;
	pid_t owner; /* the process that opened it */
	struct fur_heap *next_open;
};

/* ------------------------------------------------------------ heap.c, info.c */

/* A handle for an open file, and what it needs of the system.  Takes the file over, also if it
 * fails.   Errors: FUR_ENOMEM, FUR_ESYS. */
FUR_MUST_USE int heap_new(struct heap_file *file, struct fur_heap **out);

/* Put its parts together: log, transactions, mapping, page limit.  Writes nothing to the file, and
 * refuses it if anything is wrong with it but what recovery finds (INV-F1).
 * Errors: FUR_ECORRUPT, FUR_EINVAL, FUR_EADDRESS, FUR_ENOMEM, FUR_ESYS. */
FUR_MUST_USE int heap_put_together(struct fur_heap *heap, const struct fur_options *o);

/* Free the handle, the file, and the parts, as far as they were put together.  The heap is no
 * longer in the list of open heaps. */
void heap_take_apart(struct fur_heap *heap);

/* What fur_get_info() returns, from now on. */
void heap_fill_info(struct fur_heap *heap, const struct replay_result *replayed);

/* ------------------------------------------------------------------- pages.c */

/* Keep the heap's private pages within `bytes`, if that is not 0.   Errors: FUR_ESYS. */
FUR_MUST_USE int page_limit_start(struct fur_heap *heap, uint64_t bytes);
void page_limit_end(struct fur_heap *heap);

/* -------------------------------------------------------------------- fork.c */

/* The list of the heaps that this process has open.   Errors: FUR_ENOMEM. */
FUR_MUST_USE int heaps_add(struct fur_heap *heap);
/* Take a heap off the list, unless in_use() returns true; NULL: do not ask.
 * Errors, without a message: FUR_EINVAL (it is not open; `heap` may be no heap at all),
 * FUR_EBUSY. */
int heaps_remove(struct fur_heap *heap, bool (*in_use)(struct fur_heap *heap));
bool heaps_have(const struct fur_heap *heap);

/* This process is a child of the one that opened the heap: INV-K1. */
void heap_disown(struct fur_heap *heap);

/* ------------------------------------------------------------------ thread.c */

void thread_ended(void *thread); /* the destructor of `self` */
void thread_free_memory(struct fur_thread *thread);

/* ----------------------------------------------------------------- options.c */

/* The program's options, with the defaults for those that are zero, and with what the environment
 * overrides; NULL: all defaults.   Errors: FUR_EINVAL. */
FUR_MUST_USE int options_complete(const struct fur_options *given, struct fur_options *completed);

#endif /* FUR_API_HEAP_H */
