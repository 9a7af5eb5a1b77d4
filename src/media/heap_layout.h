/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_layout.h - the allocator's structures, which lie at the start of the heap.  They are on
 * media, so their sizes are frozen.
 *
 *      header | thread caches | chunk table | free lists of chunks | chunks of 64 KiB ...
 *
 * Roots and list links are stored as pointers, because the heap is always mapped at the same
 * address.  Code reads and writes these structures inside transactions only.  So an abort or a
 * crash leaks nothing, and needs no code of the allocator.
 *
 *   INV-A1  A chunk is META, SMALL (blocks of one class), the head of a LARGE run, the head or the
 *           last of a FREE run, or INNER.
 *   INV-A2  A small block is in exactly one place: in use, on a thread's list, on its chunk's list,
 *           in one carved range, or not yet carved from its chunk.
 *   INV-A3  Every operation that takes a block or a run from a list writes the word through which
 *           it found that block or run.  So two operations that race conflict, even under snapshot
 *           isolation, where reads alone do not conflict.
 *   INV-A4  A SMALL chunk is on its class's list of chunks exactly while its own list has blocks.
 *           The update that frees the chunk's last used block makes the chunk a FREE run.  Classes
 *           with few blocks in a chunk are an exception: they keep such a chunk until the heap is
 *           full.
 *
 *   INV-A5  In a heap that grows, the allocator has the chunks below heap_header.grown.  Those
 *           above it are all zero in both tables, on no list, and in no run.  The update that
 *           needs more chunks moves `grown`, up to the heap's size now (INV-F5).
 *
 * Both tables have room for the largest size.  The file has blocks for the parts of them that the
 * heap's size now needs.
 *
 * A heap that was made before HEAP_MAGIC_2 has no room for the free lists of chunks: they lie in
 * the words of the chunk table that a SMALL chunk does not use.  Its threads' lists may have the
 * old form (cache.list), and the class's list of chunks may end in lists of blocks from many chunks
 * (class_state.depot).  The allocator uses such lists up and makes no new ones.
 */
#ifndef FUR_HEAP_LAYOUT_H
#define FUR_HEAP_LAYOUT_H

#include <fur.h>
#include <stddef.h>

enum {
	CHUNK_BYTES = 65536,
	CLASSES = 36,
	SMALL_MOST = 16384,  /* larger blocks are runs of chunks */
	BATCH_BYTES = 16384, /* of blocks that a thread takes or gives at once ... */
	BATCH_MOST = 256,    /* ... but no more blocks than this */
	BATCH_LEAST = 2,
	/* Classes with fewer blocks in a chunk keep their chunks: see INV-A4 */
	KEEP_CHUNKS_BELOW = 32,
};
#define HEAP_MAGIC_1 UINT64_C(0x31706165482d7566)
#define HEAP_MAGIC_2 UINT64_C(0x32706165482d7566)

/* The first words of a free block.  `depth` is used in old heaps only: in the head of a thread's
 * list it is the number of blocks, in the head of a list in class_state.depot it is the next such
 * list. */
struct free_block {
	uint64_t next;
	uint64_t depth;
};

/* One thread's stock of one class: a list of free blocks, and a range not yet cut into blocks.  A
 * list is one word: number of blocks << 48 | offset of the first in the heap | 1; or 0; or, in the
 * old form, the address of the first block. */
struct cache {
	uint64_t list;
	uint64_t full; /* one more list, in old heaps */
	uint64_t carve, carve_end;
};

struct class_state {
	/* 0, or the first chunk that has free blocks: number << 1 | 1; or an old list */
	uint64_t depot;
	uint64_t carve, carve_end; /* of the newest chunk */
};

/* Of a standby (src/ship/follow.h): its position in the stream, behind the newest frame that it has
 * applied whole; and the newest update that it has applied, which may lie in the frame behind that
 * position.  All zero: no standby has written them.  The stream never contains these words. */
struct heap_position {
	uint64_t term, lineage, frame_no, chain;
	uint64_t offset; /* of the frame in the log */
	uint64_t durts;  /* of the frame's last update, as the primary counts */
};
struct heap_applied {
	uint64_t node; /* whose term it is */
	uint64_t lineage, durts;
	uint64_t gap; /* 0 */
};

struct heap_header {
	uint64_t magic;
	uint64_t bytes;
	uint64_t threads;     /* that have a stock: media_stocks() */
	uint64_t chunks;      /* in the heap, META ones included */
	uint64_t table;       /* offset of the chunk table */
	uint64_t first_chunk; /* that is not META */
	uint64_t free_runs;   /* chunk number of the first free run, or 0 */
	/* Offset of the free lists of chunks; 0: in the chunk table, see above */
	uint64_t lists;
	/* Chunks that the allocator has, META ones included; 0: all, the heap does not grow */
	uint64_t grown;
	/* Offset of the block with the results of a bulk update that has not ended; 0: none */
	uint64_t bulk;
	struct heap_position position;
	uint64_t roots[FUR_ROOTS];
	struct class_state classes[CLASSES];
	struct heap_applied applied;
};
_Static_assert(offsetof(struct heap_header, roots) == 128, "frozen");
_Static_assert(sizeof(struct heap_header) == 128 + 512 + CLASSES * 24 + 32,
        "frozen, and a multiple of 128: no room is left before the stocks");

struct thread_caches {
	struct cache classes[CLASSES];
};
_Static_assert(sizeof(struct thread_caches) == CLASSES * UINT64_C(32),
        "frozen, and a multiple of 128: threads share no line");

enum chunk_kind { CHUNK_INNER = 0, CHUNK_META, CHUNK_SMALL, CHUNK_LARGE, CHUNK_FREE };

/* Set in `kind`, alongside SMALL and the class, when the last range of the chunk has been given to
 * a thread.  Never set in old chunks. */
#define CHUNK_CUT (UINT64_C(1) << 16)

/* Every fur_free reads this structure.  So that of a SMALL chunk is written only twice: when the
 * chunk begins, and when it is cut up. */
struct chunk {
	uint64_t kind;       /* and, for SMALL, the class << 8 */
	uint64_t run;        /* chunks in the run; at the head of LARGE, head and last of FREE */
	uint64_t next, prev; /* head of FREE: chunk numbers, or 0 */
};
_Static_assert(sizeof(struct chunk) == 32, "frozen");

/* The blocks of a SMALL chunk that have been freed, by their offsets in it / 16.  In an old heap
 * this structure overlays the run, next and prev of struct chunk. */
struct chunk_list {
	/* Number of blocks << 40 | the last << 20 | the first; below 1 << 40: none */
	uint64_t blocks;
	uint64_t next, prev; /* of class_state.depot: next likewise, prev a chunk's number or 0 */
	uint64_t unused;
};
_Static_assert(sizeof(struct chunk_list) == sizeof(struct chunk),
        "frozen, and both tables have the same stride");

static inline uint64_t caches_offset(void)
{
	return (sizeof(struct heap_header) + 127) & ~UINT64_C(127);
}

static inline uint64_t lists_offset(const struct heap_header *h)
{
	return h->lists ? h->lists : h->table + offsetof(struct chunk, run);
}

static inline struct heap_header *header(const void *base)
{
	return (struct heap_header *)(uintptr_t)base;
}

static inline struct chunk *chunk(const void *base, uint64_t number)
{
	return (struct chunk *)((uintptr_t)base + header(base)->table) + number;
}

/* Write the first contents of a heap of `bytes` bytes for `threads` threads to `image`, which is
 * all zero.  `now`: the size that it begins with; less than `bytes` if it grows. */
void heap_format(void *image, uint64_t bytes, uint64_t now, uint32_t threads);
/* The size of the smallest heap for `threads` threads. */
uint64_t heap_least_bytes(uint32_t threads);
/* The bytes at the start of a heap of `bytes` bytes that the allocator's structures take. */
uint64_t heap_meta_bytes(uint64_t bytes, uint32_t threads);

/* The parts of a heap of at most `bytes` bytes that its size `now` uses: the header and two tables
 * in part, and the chunks.  Parts are in order, and may touch. */
enum { HEAP_PARTS = 3 };
struct heap_part {
	uint64_t from, to;
};
void heap_parts(uint64_t bytes, uint32_t threads, uint64_t now, struct heap_part part[HEAP_PARTS]);

/* Do the runs that heap_trim() and heap_widen() change agree with their neighbours in the list, so
 * that these two stay within the heap?  Its header fits (heap_check_header).  Errors:
 * FUR_ECORRUPT. */
FUR_MUST_USE int heap_check_ends(const void *image);

/* Make the formatted, closed heap at `image` end at `now` bytes, and grow again from there.
 * Returns 0, or the least size that it can have, if that is more. */
uint64_t heap_trim(void *image, uint64_t now);

/* Let the formatted, closed heap at `image` become `bytes` large, which is more than so far.  Its
 * tables become longer.  So they need the lowest chunks, and those must be free.  Returns 0, or the
 * largest size for which there is room, if that is less: then nothing has changed. */
uint64_t heap_widen(void *image, uint64_t bytes);

/* The magic that a heap of the old form must get before it is used, or 0 if it needs no change.
 * Updates leave parts of the new form in such a heap.  Without the new magic, an older library
 * would take them for damage or, worse, for its own form. */
uint64_t heap_new_magic(const void *image);

/* Does the heap's header agree with the superblock?  `bytes`: the largest size; `grows`: the heap
 * can grow.  Errors: FUR_ECORRUPT. */
FUR_MUST_USE int heap_check_header(const void *base, uint64_t bytes, bool grows, uint32_t threads);

#endif /* FUR_HEAP_LAYOUT_H */
