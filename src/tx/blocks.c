/* SPDX-License-Identifier: BSD-3-Clause
 *
 * blocks.c - which blocks memory checkers may let a program touch (blocks.h).
 */
#include "tx/blocks.h"
#include "base/checker.h"

#include <stdlib.h>

/* Remove what overlaps the bytes. */
static void forget_overlapping(struct noted_blocks *b, const uint8_t *at, uint64_t bytes)
{
	uint32_t kept = 0;
	for (uint32_t k = 0; k < b->n; k++) {
		const struct noted_block *one = &b->blocks[k];
		if (one->at >= at + bytes || at >= one->at + one->bytes)
			b->blocks[kept++] = *one;
	}
	b->n = kept;
}

/* Without memory for it, the block stays as it is: a mistake may pass, and none is made up, for
 * blocks_taken() has shown it. */
static void note_block(struct noted_blocks *b, struct noted_block block)
{
	enum { FIRST = 16 };
	forget_overlapping(b, block.at, block.bytes);
	if (b->n == b->most) {
		uint32_t most = b->most ? 2 * b->most : FIRST;
		struct noted_block *more = realloc(b->blocks, most * sizeof *more);
		if (!more)
			return;
		b->blocks = more;
		b->most = most;
	}
	b->blocks[b->n++] = block;
}

void blocks_taken(struct fur_update *tx, void *block, uint64_t bytes)
{
	checker_show(block, bytes);
	note_block(&tx->thread->noted, (struct noted_block){block, bytes, 0, false});
}

void blocks_freed(struct fur_update *tx, void *block, uint64_t bytes, uint64_t keep)
{
	note_block(&tx->thread->noted, (struct noted_block){block, bytes, keep, true});
}

void blocks_show(struct fur_thread *t)
{
	const struct noted_blocks *b = &t->noted;
	for (uint32_t k = 0; k < b->n; k++)
		checker_show(b->blocks[k].at, b->blocks[k].bytes);
}

void blocks_hide(struct fur_thread *t)
{
	const struct noted_blocks *b = &t->noted;
	if (arch_load(&t->engine->lock.snapshot)) /* which may see them */
		return;
	for (uint32_t k = 0; k < b->n; k++) {
		const struct noted_block *one = &b->blocks[k];
		if (one->freed)
			checker_hide(one->at + one->keep, one->bytes - one->keep);
	}
}

/* INV-MC2: is it this update's own, which another one has hidden?  Then show it. */
static bool show_own(const struct noted_blocks *b, const uint8_t *at)
{
	for (uint32_t k = 0; k < b->n; k++) {
		const struct noted_block *one = &b->blocks[k];
		if (!one->freed && at >= one->at && at < one->at + one->bytes) {
			checker_show(one->at, one->bytes);
			return true;
		}
	}
	return false;
}

bool blocks_are_hidden(struct fur_update *tx, const void *at, uint64_t bytes)
{
	return unlikely(checker_hidden(at, bytes)) &&
	       !(show_own(&tx->thread->noted, at) && !checker_hidden(at, bytes));
}
