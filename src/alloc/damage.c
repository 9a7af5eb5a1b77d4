/* SPDX-License-Identifier: BSD-3-Clause
 *
 * damage.c - what the allocator does when its lists contradict each other: the file is damaged, or
 * the program has freed a block twice or stored to one that it had freed.  It looks before it uses
 * what it reads, so the update fails, and the program does not crash.
 */
#include "alloc/alloc_parts.h"
#include "file/heap_file.h"
#include "htm/htm.h"

#include <stdio.h>

__attribute__((cold, noinline)) bool alloc_damaged(fur_update *tx, uint64_t at)
{
	const struct durability *d = tx->thread->durability;
	const uint64_t offset = at - (uintptr_t)tx->base;
	char where[64];
	/* A hardware transaction cannot keep the message.  The body runs again in software, and
	 * comes here again. */
	if (tx->mode == TX_HARDWARE)
		tx->thread->engine->ops->abort(FUR_ABORT_USER);
	if (offset < header(tx->base)->bytes)
		snprintf(where, sizeof where, "at byte %llu of the heap",
		        (unsigned long long)offset);
	else
		snprintf(where, sizeof where, "where they lead to 0x%llx", (unsigned long long)at);
	tx_fail_saying(tx, fur_fail(FUR_ECORRUPT,
	                           "%s: the allocator's lists are damaged %s: look at the file "
	                           "with fur-check, and restore it from a copy",
	                           heap_path(d->file), where));
	return false;
}

/* ------------------------------------------------------------ when it opens */

static bool chunk_is(const void *base, uint64_t number, uint64_t kind)
{
	const struct heap_header *h = header(base);
	return number >= h->first_chunk && number < h->chunks &&
	       (chunk(base, number)->kind & ~CHUNK_CUT) == kind;
}

static bool block_fits(const void *base, unsigned class, uint64_t address)
{
	const uint64_t within = (address - (uintptr_t)base) % CHUNK_BYTES;
	return chunk_is(base, chunk_of(base, address), small_kind(class)) &&
	       within % class_bytes(class) == 0 && within + class_bytes(class) <= CHUNK_BYTES;
}

static bool depot_fits(const void *base, unsigned class, uint64_t link)
{
	if (is_chunk_link(link))
		return chunk_is(base, link >> 1, small_kind(class)) &&
		       chunk_list(base, link >> 1)->prev == 0;
	return link == 0 || (header(base)->lists == 0 && block_fits(base, class, link));
}

static bool range_fits(const void *base, unsigned class, uint64_t from, uint64_t to)
{
	return from == to || (from < to && chunk_of(base, to - 1) == chunk_of(base, from) &&
	                             block_fits(base, class, from));
}

static int fail_heads(const char *what, uint64_t number)
{
	return fur_fail(FUR_ECORRUPT,
	        "the allocator is damaged: its list of %s %llu does not begin where its header "
	        "says: look at the file with fur-check, and restore it from a copy",
	        what, (unsigned long long)number);
}

int alloc_check_heads(const void *base)
{
	const struct heap_header *h = header(base);
	if (h->free_runs &&
	        (!chunk_is(base, h->free_runs, CHUNK_FREE) || chunk(base, h->free_runs)->prev != 0))
		return fail_heads("free runs, at chunk", h->free_runs);
	for (unsigned class = 0; class < CLASSES; class ++) {
		const struct class_state *s = &h->classes[class];
		if (!depot_fits(base, class, s->depot) ||
		        !range_fits(base, class, s->carve, s->carve_end))
			return fail_heads("free blocks of size", class_bytes(class));
	}
	return 0;
}
