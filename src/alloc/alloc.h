/* SPDX-License-Identifier: BSD-3-Clause
 *
 * alloc.h - the transactional allocator of a heap.  The contract of src/alloc.
 */
#ifndef FUR_ALLOC_H
#define FUR_ALLOC_H

#include <fur.h>

/* fur_alloc, fur_free, fur_usable_bytes for the heap at `base`, by the thread in `slot`.
 * alloc_block returns NULL if the update has failed, before or here.  alloc_free says false for a
 * block that is certainly not allocated. */
void *alloc_block(fur_update *tx, void *base, uint32_t slot, uint64_t bytes);
FUR_MUST_USE bool alloc_free(fur_update *tx, void *base, uint32_t slot, void *block);
uint64_t alloc_usable_bytes(const void *base, const void *block);
uint64_t *alloc_roots(void *base);

/* A check of all the allocator's structures; counts what is in use.  No transaction may be running.
 * Errors: FUR_ECORRUPT, with what is wrong; FUR_ENOMEM. */
struct alloc_census {
	uint64_t blocks, block_bytes; /* allocated, large ones included */
	uint64_t free_blocks;         /* small blocks on free lists, or carved off for a thread */
	uint64_t chunks, free_chunks;
};
FUR_MUST_USE int alloc_check(const void *base, struct alloc_census *census);

/* The same, and tell() for each problem, up to so many.   Errors: FUR_ECORRUPT, FUR_ENOMEM. */
enum { ALLOC_MOST_PROBLEMS = 100 };
FUR_MUST_USE int alloc_check_all(const void *base, struct alloc_census *census,
        void (*tell)(void *arg, const char *problem), void *arg);

#endif /* FUR_ALLOC_H */
