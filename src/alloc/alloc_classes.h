/* SPDX-License-Identifier: BSD-3-Clause
 *
 * alloc_classes.h - the size classes of small blocks, and how kinds and links of chunks are
 * encoded.
 */
#ifndef FUR_ALLOC_CLASSES_H
#define FUR_ALLOC_CLASSES_H

#include "media/heap_layout.h"

#include <stddef.h>

/* The classes hold blocks of 16, 32, ... 128 bytes, then four sizes for each doubling up to 16384.
 * For a power of two A from 16 on, each multiple of A up to 4A is a size, and all sizes above 4A
 * are multiples of A.  So the class of a multiple of A has a size that is also one. */
static inline unsigned class_of(uint64_t bytes)
{
	if (bytes <= 128)
		return bytes ? (unsigned)((bytes - 1) / 16) : 0;
	unsigned octave = 63 - (unsigned)__builtin_clzll(bytes - 1); /* 7: 129..256 */
	return 8 + (octave - 7) * 4 + (unsigned)((bytes - 1) >> (octave - 2) & 3);
}

static inline uint64_t class_bytes(unsigned class)
{
	if (class < 8)
		return (class + UINT64_C(1)) * 16;
	unsigned octave = 7 + (class - 8) / 4, step = (class - 8) % 4 + 1;
	return (UINT64_C(1) << octave) + step * (UINT64_C(1) << (octave - 2));
}

static inline uint64_t blocks_in_chunk(unsigned class)
{
	return CHUNK_BYTES / class_bytes(class);
}

/* Chunks of few blocks would keep becoming free runs, and then small chunks again.  So their class
 * keeps them until the heap is full (reclaim.c). */
static inline bool class_keeps_chunks(unsigned class)
{
	return blocks_in_chunk(class) < KEEP_CHUNKS_BELOW;
}

/* How many blocks a thread takes or gives at once. */
static inline uint64_t batch_of(unsigned class)
{
	uint64_t n = BATCH_BYTES / class_bytes(class);
	return n > BATCH_MOST ? BATCH_MOST : n < BATCH_LEAST ? BATCH_LEAST : n;
}

/* chunk.kind of a SMALL chunk is CHUNK_SMALL | class << 8, with or without CHUNK_CUT. */
static inline unsigned kind_class(uint64_t kind)
{
	return (unsigned)(kind >> 8 & 0xff);
}

/* False also for a class that does not exist: damage, which no caller may count with. */
static inline bool kind_is_small(uint64_t kind)
{
	return (kind & 0xff) == CHUNK_SMALL && kind_class(kind) < CLASSES;
}

static inline uint64_t small_kind(unsigned class)
{
	return CHUNK_SMALL | (uint64_t) class << 8;
}

/* class_state.depot and chunk_list.next contain a chunk's number in a form that cannot be an old
 * list's address. */
static inline uint64_t chunk_link(uint64_t number)
{
	return number << 1 | 1;
}

static inline bool is_chunk_link(uint64_t link)
{
	return link & 1;
}

#endif /* FUR_ALLOC_CLASSES_H */
