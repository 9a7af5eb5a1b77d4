/* SPDX-License-Identifier: BSD-3-Clause
 *
 * layout.h - what lies in a heap: the allocator's structures, at the heap's start.  On media; sizes frozen.
 *
 *      header | thread caches | chunk table | chunks of 64 KiB ...
 *
 * Addresses in the heap are stored as pointers, for the heap is always mapped at the same place.  All of it is read and written inside
 * transactions only, so an abort or a crash leaks nothing and needs no code here.
 *
 *   INV-A1  A chunk is META, SMALL (blocks of one class), the head of a LARGE run, the head or the last of a FREE run, or INNER.
 *   INV-A2  A small block is in exactly one place: in use, on one list, in one carved range, or not yet carved from its chunk.
 *   INV-A3  Every operation that takes a block or a run from a list writes the word it found it through: two that race conflict, also
 *           under snapshot isolation, where reads alone would not.
 */
#ifndef FUR_HEAP_LAYOUT_H
#define FUR_HEAP_LAYOUT_H

#include <fur.h>

enum {
	CHUNK_BYTES = 65536,
	CLASSES = 36,
	SMALL_MOST = 16384,  /* larger blocks are runs of chunks */
	BATCH_BYTES = 16384, /* what a thread takes or gives at once, ... */
	BATCH_MOST = 256,    /* ... in blocks at most */
	BATCH_LEAST = 2,
};
#define HEAP_MAGIC UINT64_C(0x31706165482d7566)

/* The first words of a free block.  `depth`: blocks of its list from here down; in the head of a list in the depot it is the next list
 * instead, for those are always one batch deep. */
struct free_block {
	uint64_t next;
	uint64_t depth;
};

/* One thread's stock of one class: two lists, so that alloc and free taking turns at a batch's edge do not go to the depot each time,
 * and a range not yet cut into blocks. */
struct cache {
	uint64_t list;
	uint64_t full; /* a list one batch deep, or 0 */
	uint64_t carve, carve_end;
};

struct class_state {
	uint64_t depot;            /* full lists, shared */
	uint64_t carve, carve_end; /* of the newest chunk */
};

struct heap_header {
	uint64_t magic;
	uint64_t bytes;
	uint64_t threads;
	uint64_t chunks;      /* in the heap, META ones included */
	uint64_t table;       /* offset of the chunk table */
	uint64_t first_chunk; /* that is not META */
	uint64_t free_runs;   /* chunk number of the first free run, or 0 */
	uint64_t reserved[9];
	uint64_t roots[FUR_ROOTS];
	struct class_state classes[CLASSES];
};
_Static_assert(sizeof(struct heap_header) == 128 + 512 + CLASSES * 24, "frozen");

struct thread_caches {
	struct cache classes[CLASSES];
};
_Static_assert(sizeof(struct thread_caches) == CLASSES * 32, "frozen, and a multiple of 128: threads share no line");

enum chunk_kind { CHUNK_INNER = 0, CHUNK_META, CHUNK_SMALL, CHUNK_LARGE, CHUNK_FREE };

struct chunk {
	uint64_t kind;       /* and, for SMALL, the class << 8 */
	uint64_t run;        /* chunks in the run; at the head of LARGE, head and last of FREE */
	uint64_t next, prev; /* head of FREE: chunk numbers, or 0 */
};
_Static_assert(sizeof(struct chunk) == 32, "frozen");

#endif /* FUR_HEAP_LAYOUT_H */
