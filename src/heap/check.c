/* SPDX-License-Identifier: BSD-3-Clause
 *
 * check.c - does the allocator's state hold together (layout.h, INV-A1 and INV-A2)?  Trusts nothing it reads.
 */
#include "../fur_error.h"
#include "alloc_classes.h"
#include "heap.h"
#include "layout.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct checker {
	const void *base;
	const struct heap_header *h;
	const struct chunk *table;
	uint8_t *seen; /* a byte for every 16 of the heap: a block found free starts here */
	struct alloc_census *census;
	void (*tell)(void *arg, const char *problem);
	void *arg;
	uint64_t problems;
};

/* One more problem.  Returns an error, for those who cannot go on behind it. */
__attribute__((format(printf, 2, 3))) static int bad(struct checker *c, const char *format, ...)
{
	char text[256];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (c->problems++ < ALLOC_MOST_PROBLEMS)
		c->tell(c->arg, text);
	return FUR_ECORRUPT;
}

static bool small_block(const struct checker *c, uint64_t address, unsigned class)
{
	uint64_t offset = address - (uintptr_t)c->base;
	if (offset >= c->h->chunks * CHUNK_BYTES)
		return false;
	return c->table[offset / CHUNK_BYTES].kind == (CHUNK_SMALL | (uint64_t) class << 8) &&
	       offset % CHUNK_BYTES % class_bytes(class) == 0;
}

static int see_free(struct checker *c, uint64_t address, unsigned class)
{
	if (!small_block(c, address, class))
		return bad(c, "a free list of %llu-byte blocks holds 0x%llx, which is none", (unsigned long long)class_bytes(class),
		        (unsigned long long)address);
	uint8_t *mark = &c->seen[(address - (uintptr_t)c->base) / 16];
	if (*mark)
		return bad(c, "the block at 0x%llx is free twice", (unsigned long long)address);
	*mark = 1;
	c->census->free_blocks++;
	return 0;
}

static int see_list(struct checker *c, uint64_t list, unsigned class)
{
	int error = 0;
	for (; list && !error; list = error ? 0 : ((const struct free_block *)(uintptr_t)list)->next)
		error = see_free(c, list, class);
	return error;
}

static int see_range(struct checker *c, uint64_t at, uint64_t end, unsigned class)
{
	if (at > end || end - at > CHUNK_BYTES)
		return bad(c, "a carved range runs from 0x%llx to 0x%llx", (unsigned long long)at, (unsigned long long)end);
	int error = 0;
	for (; at < end && !error; at += class_bytes(class))
		error = see_free(c, at, class);
	return error;
}

static int see_depot(struct checker *c, uint64_t list, unsigned class)
{
	int error = 0;
	while (list && !error) {
		error = see_list(c, list, class);
		list = error ? 0 : ((const struct free_block *)(uintptr_t)list)->depth;
	}
	return error;
}

/* Each list by itself: one that is broken says nothing about the others. */
static void check_class(struct checker *c, unsigned class)
{
	const struct class_state *s = &c->h->classes[class];
	see_range(c, s->carve, s->carve_end, class);
	see_depot(c, s->depot, class);
	for (uint32_t i = 0; i < c->h->threads; i++) {
		const struct cache *k = &((const struct thread_caches *)((uintptr_t)c->base + caches_offset()))[i].classes[class];
		see_list(c, k->list, class);
		see_list(c, k->full, class);
		see_range(c, k->carve, k->carve_end, class);
	}
}

/* The table must tile the heap; free runs must be on the list, and nothing else. */
static int check_table(struct checker *c)
{
	uint64_t runs = 0, listed = 0, prev = 0;
	for (uint64_t k = 0; k < c->h->chunks;) {
		const struct chunk *at = &c->table[k];
		uint64_t kind = at->kind & 0xff, run = kind == CHUNK_META || kind == CHUNK_SMALL ? 1 : at->run;
		if (kind < CHUNK_META || kind > CHUNK_FREE || run == 0 || run > c->h->chunks - k ||
		        (kind == CHUNK_META) != (k < c->h->first_chunk) || at->kind >> 8 >= CLASSES)
			return bad(c, "chunk %llu is of kind %llu, run %llu", (unsigned long long)k, (unsigned long long)at->kind,
			        (unsigned long long)run);
		for (uint64_t j = 1; j < run; j++)
			if (c->table[k + j].kind != (kind == CHUNK_FREE && j == run - 1 ? CHUNK_FREE : CHUNK_INNER))
				return bad(c, "chunk %llu lies inside the run at %llu and is of kind %llu",
				        (unsigned long long)(k + j), (unsigned long long)k,
				        (unsigned long long)c->table[k + j].kind);
		if (kind == CHUNK_FREE) {
			runs++;
			c->census->free_chunks += run;
		} else if (kind == CHUNK_LARGE) {
			c->census->blocks++;
			c->census->block_bytes += run * CHUNK_BYTES;
		}
		k += run;
	}
	for (uint64_t k = c->h->free_runs; k; prev = k, k = c->table[k].next)
		if (k >= c->h->chunks || c->table[k].kind != CHUNK_FREE || c->table[k].prev != prev || ++listed > runs)
			return bad(c, "the list of free runs is broken at chunk %llu", (unsigned long long)k);
	return listed == runs ? 0
	                      : bad(c, "%llu free runs, %llu on the list", (unsigned long long)runs, (unsigned long long)listed);
}

/* What is carved and not free is in use. */
static void count_used(struct checker *c)
{
	for (uint64_t k = c->h->first_chunk; k < c->h->chunks; k++) {
		if ((c->table[k].kind & 0xff) != CHUNK_SMALL)
			continue;
		uint64_t bytes = class_bytes((unsigned)(c->table[k].kind >> 8));
		for (uint64_t j = 0; j < CHUNK_BYTES / bytes; j++)
			if (!c->seen[(k * CHUNK_BYTES + j * bytes) / 16]) {
				c->census->blocks++;
				c->census->block_bytes += bytes;
			}
	}
}

int alloc_check_header(const void *base, uint64_t bytes, uint32_t threads)
{
	const struct heap_header *h = base;
	if (h->magic != HEAP_MAGIC || h->bytes != bytes || h->threads != threads || h->chunks != bytes / CHUNK_BYTES ||
	        h->table != caches_offset() + threads * sizeof(struct thread_caches))
		return fur_fail(
		        FUR_ECORRUPT, "the allocator is damaged: its header does not fit this file: restore the file from a copy");
	return 0;
}

int alloc_check_all(const void *base, struct alloc_census *census, void (*tell)(void *arg, const char *problem), void *arg)
{
	struct checker c = {.base = base, .h = base, .census = census, .tell = tell, .arg = arg};
	memset(census, 0, sizeof *census);
	c.table = (const struct chunk *)((uintptr_t)base + c.h->table);
	c.seen = calloc(c.h->bytes / 16, 1);
	if (!c.seen)
		return fur_fail(FUR_ENOMEM, "no memory to check the heap");
	census->chunks = c.h->chunks;
	/* What is a block follows from the table. */
	if (check_table(&c) == 0)
		for (unsigned class = 0; class < CLASSES; class ++)
			check_class(&c, class);
	if (c.problems == 0)
		count_used(&c);
	free(c.seen);
	return c.problems ? FUR_ECORRUPT : 0;
}

static void keep_first(void *arg, const char *problem)
{
	bool *told = arg;
	if (!*told)
		fur_fail(FUR_ECORRUPT, "the allocator is damaged: %s", problem);
	*told = true;
}

int alloc_check(const void *base, struct alloc_census *census)
{
	bool told = false;
	return alloc_check_all(base, census, keep_first, &told);
}
