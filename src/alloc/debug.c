/* SPDX-License-Identifier: BSD-3-Clause
 *
 * debug.c - answers of the allocator to the debugging aids: is a block free, which block contains
 * an address, and which memory is free?
 *
 * alloc_find_free() reads the free blocks as part of the update that calls fur_free().  So it sees
 * one state of them, the update's own calls included, and an update that takes or gives one of them
 * meanwhile conflicts with it.
 */
#include "alloc/alloc_parts.h"
#include "base/checker.h"

/* ---------------------------------------------------------- is a block free? */

static bool on_list(fur_update *tx, const void *base, unsigned class, uint64_t first, unsigned most,
        uint64_t address)
{
	for (uint64_t at = first; at; at = get_word(tx, &block_at(at)->next)) {
		if (at == address)
			return true;
		if (!sound_walk(tx, base, class, at, &most))
			return false;
	}
	return false;
}

/* A thread's list. */
static bool in_stock(
        fur_update *tx, const void *base, unsigned class, uint64_t word, uint64_t address)
{
	const struct stock list = stock_of(tx, base, class, word);
	return on_list(tx, base, class, list.first, LIST_MOST, address);
}

static bool in_range(fur_update *tx, const uint64_t *from, const uint64_t *to, uint64_t address)
{
	return address >= get_word(tx, from) && address < get_word(tx, to);
}

static bool on_old_list(fur_update *tx, const void *base, unsigned class, uint64_t address)
{
	const uint64_t *link = alloc_old_lists(tx, base, class);
	unsigned most = LIST_MOST;
	for (uint64_t list = link ? get_word(tx, link) : 0; list && !tx->error;
	        list = get_word(tx, &block_at(list)->depth)) {
		if (!sound_walk(tx, base, class, list, &most))
			return false;
		if (on_list(tx, base, class, list, LIST_MOST, address))
			return true;
	}
	return false;
}

bool alloc_find_free(fur_update *tx, const void *base, unsigned class, uint64_t address)
{
	const struct heap_header *h = header(base);
	const struct class_state *s = &h->classes[class];
	const struct listed l = listed_of(tx, base, chunk_of(base, address));
	if (on_list(tx, base, class, l.first, (unsigned)l.count, address) ||
	        in_range(tx, &s->carve, &s->carve_end, address) ||
	        (h->lists == 0 && on_old_list(tx, base, class, address)))
		return true;
	for (uint32_t i = 0; i < h->threads; i++) {
		const struct cache *c = cache(base, i, class);
		if (in_stock(tx, base, class, get_word(tx, &c->list), address) ||
		        in_stock(tx, base, class, get_word(tx, &c->full), address) ||
		        in_range(tx, &c->carve, &c->carve_end, address))
			return true;
	}
	return false;
}

/* ---------------------------------------------------------------- a place */

/* The first chunk of the run in use that contains chunk `number`, or 0. */
static uint64_t head_of_run(const void *base, uint64_t number)
{
	const uint64_t first = header(base)->first_chunk;
	for (uint64_t k = number; k >= first; k--) {
		uint64_t kind = arch_load(&chunk(base, k)->kind) & 0xff;
		if (kind == CHUNK_LARGE)
			return arch_load(&chunk(base, k)->run) > number - k ? k : 0;
		if (kind != CHUNK_INNER)
			return 0;
	}
	return 0;
}

bool alloc_place_of(const void *base, const void *at, struct alloc_place *place)
{
	const struct heap_header *h = header(base);
	const uint64_t offset = (uint64_t)((const uint8_t *)at - (const uint8_t *)base),
	               number = offset / CHUNK_BYTES;
	*place = (struct alloc_place){.inside = number >= h->first_chunk};
	if (!place->inside || number >= h->chunks)
		return false;
	const uint64_t kind = arch_load(&chunk(base, number)->kind);
	if (kind_is_small(kind)) {
		const uint64_t bytes = class_bytes(kind_class(kind)),
		               k = offset % CHUNK_BYTES / bytes;
		place->offset = number * CHUNK_BYTES + k * bytes;
		place->bytes = bytes;
		return k < blocks_in_chunk(kind_class(kind));
	}
	const uint64_t head = head_of_run(base, number);
	if (!head)
		return false;
	place->offset = head * CHUNK_BYTES;
	place->bytes = arch_load(&chunk(base, head)->run) * CHUNK_BYTES;
	return true;
}

/* --------------------------------------------------------------- free memory */

void alloc_hide_free(const void *base)
{
	const struct heap_header *h = header(base);
	const uint64_t chunks = chunks_now(NULL, base);
	for (uint64_t k = h->first_chunk, run; k < chunks; k += run) {
		const struct chunk *at = chunk(base, k);
		run = 1;
		if ((at->kind & 0xff) != CHUNK_FREE && at->kind != CHUNK_LARGE)
			continue;
		run = at->run && at->run <= chunks - k ? at->run : 1;
		if (at->kind == CHUNK_FREE)
			checker_hide(block_at(chunk_address(base, k)), run * CHUNK_BYTES);
	}
}
