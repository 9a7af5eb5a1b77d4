/* SPDX-License-Identifier: BSD-3-Clause
 *
 * unload.h - write the lines back that a replay has stored to.
 *
 * The lines wait in 1,024 places.  A place holds a block: some neighbouring lines, of which those
 * leave together, by one call for each run of neighbours, that were stored to.  So a line that
 * several entries store to is written back once, with everything that was stored to it meanwhile.
 *
 *   INV-R10  A line that was stored to waits in a place, or its write-back was started after the
 *           store.  unload_rest() leaves no line waiting; the caller drains after it, before the
 *           tail moves (INV-R1).
 */
#ifndef FUR_UNLOAD_H
#define FUR_UNLOAD_H

#include "base/error.h"
#include "pm/pm.h"

enum {
	UNLOAD_PLACES = 1024, /* a power of two */
	UNLOAD_MASK_BITS = 16,
};

struct unload {
	struct pm *pm;
	uint8_t *image;
	unsigned block_shift; /* log2 of the lines of a block; at most UNLOAD_MASK_BITS of them */
	/* Indexed by the block's number: that number, above a bit for each of its lines that waits;
	 * 0: empty */
	uint64_t places[UNLOAD_PLACES];
	/* Bits: the places that are not empty.  A short replay fills few. */
	uint64_t filled[UNLOAD_PLACES / 64];
};

/* `image` begins at a page; `lines` a power of two, at most UNLOAD_MASK_BITS. */
void unload_begin(struct unload *u, struct pm *pm, uint8_t *image, unsigned lines);

/* Start the write-back of the lines of a place. */
void unload_place(struct unload *u, uint64_t place);

/* Start the write-back of all lines that wait, neighbours together even across blocks. */
void unload_rest(struct unload *u);

/* The bytes [offset, offset + bytes) of the image were stored to: note their lines.  A block keeps
 * its place until another block needs that place. */
static inline void unload_note(struct unload *u, uint64_t offset, uint64_t bytes)
{
	uint64_t line = offset / ARCH_FLUSH_LINE, last = (offset + bytes - 1) / ARCH_FLUSH_LINE;
	const uint64_t in_block = (UINT64_C(1) << u->block_shift) - 1;
	for (;;) {
		uint64_t block = line >> u->block_shift, end = line | in_block,
		         index = block % UNLOAD_PLACES, *place = &u->places[index];
		if (end > last)
			end = last;
		/* From bit line & in_block to bit end & in_block. */
		uint64_t lines = ((UINT64_C(2) << (end - line)) - 1) << (line & in_block);
		if (*place >> UNLOAD_MASK_BITS != block) {
			/* (INV-R10) */
			unload_place(u, *place);
			*place = block << UNLOAD_MASK_BITS;
		}
		*place |= lines;
		/* Also if the place has the block: an empty place looks like block 0's. */
		u->filled[index / 64] |= UINT64_C(1) << index % 64;
		if (end == last)
			return;
		line = end + 1;
	}
}

#endif /* FUR_UNLOAD_H */
