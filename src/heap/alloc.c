/* SPDX-License-Identifier: BSD-3-Clause
 *
 * alloc.c - the transactional allocator: fur_alloc and fur_free are ordinary updates of the structures in layout.h.
 *
 * A block freed by an update may be handed out again as soon as that update has committed: its isolation wait has outlived every
 * reader that could still see the block, and the next owner's update depends on this one (INV-D3), so recovery cannot keep the new
 * owner's without the old one's.
 *
 * Threads work on caches of their own and meet only once a batch, so updates that allocate rarely conflict for it.
 */
#include "alloc_classes.h"
#include "heap.h"
#include "layout.h"

#include <string.h>

static uint64_t get(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void put(fur_update *tx, uint64_t *word, uint64_t value)
{
	fur_store_bits(tx, word, value, 8);
}

/* --------------------------------------------------------------- addresses */

static struct heap_header *header(const void *base)
{
	return (struct heap_header *)(uintptr_t)base;
}

static struct cache *cache(const void *base, uint32_t slot, unsigned class)
{
	struct thread_caches *all = (struct thread_caches *)((uintptr_t)base + caches_offset());
	return &all[slot].classes[class];
}

static struct chunk *chunk(const void *base, uint64_t number)
{
	return (struct chunk *)((uintptr_t)base + header(base)->table) + number;
}

static uint64_t chunk_address(const void *base, uint64_t number)
{
	return (uintptr_t)base + number * CHUNK_BYTES;
}

static struct free_block *block_at(uint64_t address)
{
	return (struct free_block *)(uintptr_t)address;
}

/* ------------------------------------------------------------------ format */

static uint64_t meta_bytes(uint64_t bytes, uint32_t threads, uint64_t *table)
{
	*table = caches_offset() + threads * sizeof(struct thread_caches);
	return *table + bytes / CHUNK_BYTES * sizeof(struct chunk);
}

uint64_t alloc_least_bytes(uint32_t threads)
{
	/* The structures, and some chunks to work with. */
	uint64_t table, meta = meta_bytes(UINT64_C(64) * CHUNK_BYTES, threads, &table);
	return (meta / CHUNK_BYTES + 1 + 8) * CHUNK_BYTES;
}

void alloc_format(void *image, uint64_t bytes, uint32_t threads)
{
	struct heap_header *h = image;
	h->magic = HEAP_MAGIC;
	h->bytes = bytes;
	h->threads = threads;
	h->chunks = bytes / CHUNK_BYTES;
	h->first_chunk = (meta_bytes(bytes, threads, &h->table) + CHUNK_BYTES - 1) / CHUNK_BYTES;
	for (uint64_t k = 0; k < h->first_chunk; k++)
		chunk(image, k)->kind = CHUNK_META;
	uint64_t run = h->chunks - h->first_chunk;
	*chunk(image, h->first_chunk) = (struct chunk){.kind = CHUNK_FREE, .run = run};
	if (run > 1)
		*chunk(image, h->chunks - 1) = (struct chunk){.kind = CHUNK_FREE, .run = run};
	h->free_runs = h->first_chunk;
}

uint64_t *alloc_roots(void *base)
{
	return header(base)->roots;
}

/* ---------------------------------------------------------- runs of chunks */

static void unlink_run(fur_update *tx, void *base, uint64_t number)
{
	uint64_t next = get(&chunk(base, number)->next), prev = get(&chunk(base, number)->prev);
	put(tx, prev ? &chunk(base, prev)->next : &header(base)->free_runs, next);
	if (next)
		put(tx, &chunk(base, next)->prev, prev);
}

static void link_run(fur_update *tx, void *base, uint64_t number)
{
	uint64_t first = get(&header(base)->free_runs);
	put(tx, &chunk(base, number)->next, first);
	put(tx, &chunk(base, number)->prev, 0);
	if (first)
		put(tx, &chunk(base, first)->prev, number);
	put(tx, &header(base)->free_runs, number);
}

/* Mark [number, number + run) as one free run, head and last. */
static void mark_free(fur_update *tx, void *base, uint64_t number, uint64_t run)
{
	put(tx, &chunk(base, number)->kind, CHUNK_FREE);
	put(tx, &chunk(base, number)->run, run);
	put(tx, &chunk(base, number + run - 1)->kind, CHUNK_FREE);
	put(tx, &chunk(base, number + run - 1)->run, run);
}

/* Take `want` chunks from the end of the first free run that has them; its head and links stay.  The first chunk's number, or 0. */
static uint64_t take_run(fur_update *tx, void *base, uint64_t want, uint64_t kind)
{
	for (uint64_t at = get(&header(base)->free_runs); at; at = get(&chunk(base, at)->next)) {
		uint64_t run = get(&chunk(base, at)->run);
		if (run < want)
			continue;
		uint64_t taken = at + run - want;
		put(tx, &chunk(base, at + run - 1)->kind, CHUNK_INNER);
		if (run == want)
			unlink_run(tx, base, at);
		else
			mark_free(tx, base, at, run - want);
		put(tx, &chunk(base, taken)->kind, kind);
		put(tx, &chunk(base, taken)->run, want);
		return taken;
	}
	return 0;
}

static void give_run(fur_update *tx, void *base, uint64_t number)
{
	uint64_t run = get(&chunk(base, number)->run), after = number + run;
	/* Merged parts become INNER where they no longer are an end (INV-A1). */
	if (after < header(base)->chunks && get(&chunk(base, after)->kind) == CHUNK_FREE) {
		run += get(&chunk(base, after)->run);
		unlink_run(tx, base, after);
		put(tx, &chunk(base, after)->kind, CHUNK_INNER);
	}
	if (get(&chunk(base, number - 1)->kind) == CHUNK_FREE) {
		uint64_t before = get(&chunk(base, number - 1)->run);
		put(tx, &chunk(base, number)->kind, CHUNK_INNER);
		put(tx, &chunk(base, number - 1)->kind, CHUNK_INNER);
		number -= before;
		run += before;
		unlink_run(tx, base, number);
	}
	mark_free(tx, base, number, run);
	link_run(tx, base, number);
}

/* ------------------------------------------------------------ small blocks */

static void *pop(fur_update *tx, uint64_t *list)
{
	uint64_t address = get(list);
	put(tx, list, get(&block_at(address)->next));
	return block_at(address);
}

static void *carve(fur_update *tx, struct cache *c, uint64_t bytes)
{
	uint64_t at = get(&c->carve);
	put(tx, &c->carve, at + bytes);
	return block_at(at);
}

/* A new range for this thread, from the class's newest chunk, or from a new one. */
static bool refill(fur_update *tx, void *base, struct cache *c, unsigned class)
{
	struct class_state *s = &header(base)->classes[class];
	uint64_t bytes = class_bytes(class), at = get(&s->carve), end = get(&s->carve_end);
	if (at == end) {
		uint64_t number = take_run(tx, base, 1, CHUNK_SMALL | (uint64_t) class << 8);
		if (!number)
			return false;
		at = chunk_address(base, number);
		end = at + CHUNK_BYTES / bytes * bytes;
		put(tx, &s->carve_end, end);
	}
	uint64_t upto = at + batch_of(class) * bytes;
	if (upto > end)
		upto = end;
	put(tx, &s->carve, upto);
	put(tx, &c->carve, at);
	put(tx, &c->carve_end, upto);
	return true;
}

static bool stocked(const struct cache *c)
{
	return get(&c->list) || get(&c->full) || get(&c->carve) != get(&c->carve_end);
}

/* From whatever the cache has; it must be stocked. */
static void *from_cache(fur_update *tx, struct cache *c, unsigned class)
{
	if (!get(&c->list) && get(&c->carve) != get(&c->carve_end))
		return carve(tx, c, class_bytes(class));
	if (!get(&c->list)) {
		put(tx, &c->list, get(&c->full));
		put(tx, &c->full, 0);
	}
	return pop(tx, &c->list);
}

static bool from_depot(fur_update *tx, void *base, struct cache *c, unsigned class)
{
	struct class_state *s = &header(base)->classes[class];
	uint64_t list = get(&s->depot);
	if (!list)
		return false;
	put(tx, &s->depot, get(&block_at(list)->depth));
	put(tx, &block_at(list)->depth, batch_of(class));
	put(tx, &c->list, list);
	return true;
}

static void *alloc_small(fur_update *tx, void *base, uint32_t slot, unsigned class)
{
	struct cache *mine = cache(base, slot, class);
	if (stocked(mine) || from_depot(tx, base, mine, class) || refill(tx, base, mine, class))
		return from_cache(tx, mine, class);
	/* The heap is full: what other threads have in stock is memory too. */
	for (uint32_t i = 0; i < header(base)->threads; i++)
		if (stocked(cache(base, i, class)))
			return from_cache(tx, cache(base, i, class), class);
	return NULL;
}

static void free_small(fur_update *tx, void *base, uint32_t slot, unsigned class, uint64_t address)
{
	struct cache *c = cache(base, slot, class);
	uint64_t list = get(&c->list), depth = list ? get(&block_at(list)->depth) : 0;
	if (depth == batch_of(class)) {
		uint64_t full = get(&c->full);
		if (full) {
			struct class_state *s = &header(base)->classes[class];
			put(tx, &block_at(full)->depth, get(&s->depot));
			put(tx, &s->depot, full);
		}
		put(tx, &c->full, list);
		list = depth = 0;
	}
	put(tx, &block_at(address)->next, list);
	put(tx, &block_at(address)->depth, depth + 1);
	put(tx, &c->list, address);
}

/* ------------------------------------------------------------------ blocks */

void *alloc_block(fur_update *tx, void *base, uint32_t slot, uint64_t bytes)
{
	if (bytes <= SMALL_MOST)
		return alloc_small(tx, base, slot, class_of(bytes));
	if (bytes > header(base)->bytes)
		return NULL;
	uint64_t number = take_run(tx, base, (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES, CHUNK_LARGE);
	return number ? block_at(chunk_address(base, number)) : NULL;
}

/* What the chunk of an address says about it; kind INNER for what is no block. */
struct found {
	uint64_t kind, number, bytes;
	unsigned class;
};

static struct found find(const void *base, const void *block)
{
	const struct heap_header *h = header(base);
	uint64_t offset = (uint64_t)((uintptr_t)block - (uintptr_t)base), within = offset % CHUNK_BYTES;
	struct found f = {CHUNK_INNER, offset / CHUNK_BYTES, 0, 0};
	if (offset >= h->chunks * CHUNK_BYTES)
		return f;
	uint64_t kind = get(&chunk(base, f.number)->kind);
	f.class = (unsigned)(kind >> 8);
	if ((kind & 0xff) == CHUNK_SMALL && within % class_bytes(f.class) == 0 &&
	        within / class_bytes(f.class) < CHUNK_BYTES / class_bytes(f.class)) {
		f.kind = CHUNK_SMALL;
		f.bytes = class_bytes(f.class);
	} else if (kind == CHUNK_LARGE && within == 0) {
		f.kind = CHUNK_LARGE;
		f.bytes = get(&chunk(base, f.number)->run) * CHUNK_BYTES;
	}
	return f;
}

bool alloc_free(fur_update *tx, void *base, uint32_t slot, void *block)
{
	struct found f = find(base, block);
	if (f.kind == CHUNK_SMALL)
		free_small(tx, base, slot, f.class, (uintptr_t)block);
	else if (f.kind == CHUNK_LARGE)
		give_run(tx, base, f.number);
	return f.kind != CHUNK_INNER;
}

uint64_t alloc_usable_bytes(const void *base, const void *block)
{
	return find(base, block).bytes;
}
