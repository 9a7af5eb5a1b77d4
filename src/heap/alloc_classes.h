/* SPDX-License-Identifier: BSD-3-Clause
 *
 * alloc_classes.h - size classes of small blocks, and the places in a heap that follow from sizes.
 */
#ifndef FUR_ALLOC_CLASSES_H
#define FUR_ALLOC_CLASSES_H

#include "layout.h"

/* 16, 32, ... 128, then four a doubling to 16384. */
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
		return (class + 1) * 16;
	unsigned octave = 7 + (class - 8) / 4, step = (class - 8) % 4 + 1;
	return (UINT64_C(1) << octave) + step * (UINT64_C(1) << (octave - 2));
}

static inline uint64_t batch_of(unsigned class)
{
	uint64_t n = BATCH_BYTES / class_bytes(class);
	return n > BATCH_MOST ? BATCH_MOST : n < BATCH_LEAST ? BATCH_LEAST : n;
}

static inline uint64_t caches_offset(void)
{
	return (sizeof(struct heap_header) + 127) & ~UINT64_C(127);
}

#endif /* FUR_ALLOC_CLASSES_H */
