/* SPDX-License-Identifier: BSD-3-Clause
 *
 * alloc.h - the transactional allocator of a heap.  The contract of src/alloc.
 */
#ifndef FUR_ALLOC_H
#define FUR_ALLOC_H

#include <fur.h>

/* Is this an alignment that alloc_aligned() accepts? */
static inline bool is_alignment(uint64_t bytes)
{
	return bytes && !(bytes & (bytes - 1)) && bytes <= FUR_MOST_ALIGNMENT;
}

/* fur_alloc, fur_alloc_aligned, fur_free and fur_usable_bytes for the heap at `base`; `thread` is
 * the calling thread's index.  alloc_block() and alloc_aligned() return NULL if the heap is full,
 * or if the update has failed, before or during this call.  The alignment is a power of two up to
 * FUR_MOST_ALIGNMENT.  If a block is certainly not allocated, alloc_free() does nothing and returns
 * false.  alloc_usable_bytes() is the only one of them that also works outside any update: `tx` is
 * NULL then. */
void *alloc_block(fur_update *tx, void *base, uint32_t thread, uint64_t bytes);
void *alloc_aligned(
        fur_update *tx, void *base, uint32_t thread, uint64_t bytes, uint64_t alignment);
FUR_MUST_USE bool alloc_free(fur_update *tx, void *base, uint32_t thread, void *block);
uint64_t alloc_usable_bytes(fur_update *tx, const void *base, const void *block);
uint64_t *alloc_roots(void *base);

/* The block that contains an address below `heap_bytes`, for messages: transactions may run
 * meanwhile.  False: the address lies in no block, or among the allocator's own data. */
struct alloc_place {
	uint64_t offset, bytes; /* of the block, in the heap */
	bool inside;            /* false: it lies among the allocator's own data */
};
bool alloc_place_of(const void *base, const void *at, struct alloc_place *place);

/* Hide the free runs of chunks from memory checkers (base/checker.h).  No transaction may be
 * running. */
void alloc_hide_free(const void *base);

/* Check all the allocator's structures, and count the blocks and chunks in use.  No transaction may
 * be running.  Errors: FUR_ECORRUPT, with the first problem in the message; FUR_ENOMEM. */
struct alloc_census {
	uint64_t blocks, block_bytes; /* allocated, large ones included */
	uint64_t free_blocks;         /* small blocks on free lists, or in carved ranges */
	uint64_t chunks, free_chunks;
};
FUR_MUST_USE int alloc_check(const void *base, struct alloc_census *census);

/* The same, but call tell() for each problem, for at most ALLOC_MOST_PROBLEMS of them.
 * Errors: FUR_ECORRUPT, without a message; FUR_ENOMEM. */
enum { ALLOC_MOST_PROBLEMS = 100 };
FUR_MUST_USE int alloc_check_all(const void *base, struct alloc_census *census,
        void (*tell)(void *arg, const char *problem), void *arg);

/* Can each list of the allocator begin where its header says?  Takes a time that does not depend on
 * the heap's size.  The heap is recovered, and no transaction may be running.  Lists that are
 * damaged further down are found when an update gets there.  Errors: FUR_ECORRUPT. */
FUR_MUST_USE int alloc_check_heads(const void *base);

/* How much of the heap's memory for blocks is in use, in bytes: the chunks that are not free.  A
 * chunk of 64 KiB counts as a whole if one of its blocks is in use, or if its size keeps it.  Looks
 * at each chunk.  `heap_bytes`: the heap's size now.  Transactions may run meanwhile; the result is
 * approximate then. */
struct alloc_space {
	uint64_t used_bytes, bytes;
};
struct alloc_space alloc_space(const void *base, uint64_t heap_bytes);

#endif /* FUR_ALLOC_H */
