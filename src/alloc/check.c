/* SPDX-License-Identifier: BSD-3-Clause
 *
 * check.c - is the allocator's state consistent (heap_layout.h, INV-A1, INV-A2, INV-A4)?  The check
 * trusts nothing that it reads.
 */
#include "alloc/alloc.h"
#include "alloc/alloc_classes.h"
#include "base/error.h"
#include "media/heap_layout.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct checker {
	const void *base;
	const struct heap_header *h;
	const struct chunk *table;
	const struct chunk_list *lists;
	uint64_t chunks; /* that the allocator has */
	uint64_t listed; /* chunks on the classes' lists */
	uint8_t *seen;   /* one byte per 16 of the heap, set where a free block begins */
	struct alloc_census *census;
	void (*tell)(void *arg, const char *problem);
	void *arg;
	uint64_t problems;
};

/* Report one more problem.  Returns an error, for callers that cannot go on after it. */
__attribute__((format(printf, 2, 3))) static int report_problem(
        struct checker *c, const char *format, ...)
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

static bool is_small_block(const struct checker *c, uint64_t address, unsigned class)
{
	uint64_t offset = address - (uintptr_t)c->base;
	if (offset >= c->chunks * CHUNK_BYTES)
		return false;
	return (c->table[offset / CHUNK_BYTES].kind & ~CHUNK_CUT) ==
	               (CHUNK_SMALL | (uint64_t) class << 8) &&
	       offset % CHUNK_BYTES % class_bytes(class) == 0;
}

static int see_free(struct checker *c, uint64_t address, unsigned class)
{
	if (!is_small_block(c, address, class))
		return report_problem(c,
		        "a free list of %llu-byte blocks holds 0x%llx, which is none",
		        (unsigned long long)class_bytes(class), (unsigned long long)address);
	uint8_t *mark = &c->seen[(address - (uintptr_t)c->base) / 16];
	if (*mark)
		return report_problem(
		        c, "the block at 0x%llx is free twice", (unsigned long long)address);
	*mark = 1;
	c->census->free_blocks++;
	return 0;
}

static int see_list(struct checker *c, uint64_t list, unsigned class, uint64_t *count)
{
	int error = 0;
	for (*count = 0; list && !error;
	        list = error ? 0 : ((const struct free_block *)(uintptr_t)list)->next, ++*count)
		error = see_free(c, list, class);
	return error;
}

/* A thread's list, in the new form or the old form. */
static int see_stock(struct checker *c, uint64_t word, unsigned class)
{
	uint64_t first = word & 1 ? (uintptr_t)c->base + (word & ((UINT64_C(1) << 48) - 2)) : word,
	         count;
	int error = see_list(c, first, class, &count);
	if (!error && word & 1 && count != word >> 48)
		error = report_problem(c, "a thread's list of %llu-byte blocks has %llu, not %llu",
		        (unsigned long long)class_bytes(class), (unsigned long long)count,
		        (unsigned long long)(word >> 48));
	return error;
}

static int see_range(struct checker *c, uint64_t at, uint64_t end, unsigned class)
{
	if (at > end || end - at > CHUNK_BYTES)
		return report_problem(c, "a carved range runs from 0x%llx to 0x%llx",
		        (unsigned long long)at, (unsigned long long)end);
	int error = 0;
	for (; at < end && !error; at += class_bytes(class))
		error = see_free(c, at, class);
	return error;
}

static int see_old_lists(struct checker *c, uint64_t list, unsigned class)
{
	uint64_t count;
	int error = 0;
	while (list && !error) {
		error = see_list(c, list, class, &count);
		list = error ? 0 : ((const struct free_block *)(uintptr_t)list)->depth;
	}
	return error;
}

/* Check that a chunk's own list has as many blocks as its word records, from the first to the last;
 * that all are this chunk's; and that they are fewer than all its blocks, unless the class keeps
 * chunks (INV-A4). */
static int see_chunk_list(struct checker *c, uint64_t number, unsigned class)
{
	uint64_t word = c->lists[number].blocks, count = word >> 40, bytes = class_bytes(class),
	         chunk = number * CHUNK_BYTES, n = 0;
	uint64_t at = (word & 0xfffff) * 16, last = (word >> 20 & 0xfffff) * 16;
	if (count == 0 || count > blocks_in_chunk(class) - !class_keeps_chunks(class))
		return report_problem(c, "chunk %llu is listed with %llu free blocks",
		        (unsigned long long)number, (unsigned long long)count);
	while (n++ < count) {
		if (at >= CHUNK_BYTES || at % bytes)
			return report_problem(c, "the free list of chunk %llu leaves it",
			        (unsigned long long)number);
		uint64_t address = (uintptr_t)c->base + chunk + at, next;
		int error = see_free(c, address, class);
		if (error)
			return error;
		next = ((const struct free_block *)(uintptr_t)address)->next;
		if ((n == count) != (next == 0) || (n == count && at != last))
			return report_problem(c,
			        "the free list of chunk %llu does not have its %llu blocks",
			        (unsigned long long)number, (unsigned long long)count);
		at = next - (uintptr_t)c->base - chunk;
	}
	return 0;
}

/* Check the list of the class's chunks that have free blocks, and the old lists after it. */
static int see_depot(struct checker *c, uint64_t link, unsigned class)
{
	uint64_t prev = 0;
	for (; is_chunk_link(link); prev = link >> 1, link = c->lists[link >> 1].next) {
		uint64_t number = link >> 1;
		if (number >= c->chunks ||
		        (c->table[number].kind & ~CHUNK_CUT) !=
		                (CHUNK_SMALL | (uint64_t) class << 8) ||
		        c->lists[number].prev != prev)
			return report_problem(c,
			        "the list of chunks with free %llu-byte blocks is broken at chunk "
			        "%llu",
			        (unsigned long long)class_bytes(class), (unsigned long long)number);
		/* A loop in the list ends at a block that was seen before. */
		int error = see_chunk_list(c, number, class);
		if (error)
			return error;
		c->listed++;
	}
	return see_old_lists(c, link, class);
}

/* Check that every chunk with free blocks is on a list.  Called after all classes are checked. */
static void check_listed(struct checker *c)
{
	uint64_t have = 0;
	for (uint64_t k = c->h->first_chunk; k < c->chunks; k++)
		if (kind_is_small(c->table[k].kind) && c->lists[k].blocks >> 40)
			have++;
		else if (c->h->lists && c->lists[k].blocks)
			report_problem(c, "chunk %llu, of kind %llu, has a free list",
			        (unsigned long long)k, (unsigned long long)c->table[k].kind);
	if (have != c->listed)
		report_problem(c, "%llu chunks have free blocks, %llu are on lists",
		        (unsigned long long)have, (unsigned long long)c->listed);
}

/* Check each list, even after a broken one: that tells nothing about the others. */
static void check_class(struct checker *c, unsigned class)
{
	const struct class_state *s = &c->h->classes[class];
	see_range(c, s->carve, s->carve_end, class);
	see_depot(c, s->depot, class);
	for (uint32_t i = 0; i < c->h->threads; i++) {
		const struct cache *k =
		        &((const struct thread_caches *)((uintptr_t)c->base + caches_offset()))[i]
		                 .classes[class];
		see_stock(c, k->list, class);
		see_stock(c, k->full, class);
		see_range(c, k->carve, k->carve_end, class);
	}
}

/* The table must tile the heap; the list must have all free runs, and nothing else. */
static int check_table(struct checker *c)
{
	uint64_t runs = 0, listed = 0, prev = 0;
	for (uint64_t k = 0; k < c->chunks;) {
		const struct chunk *at = &c->table[k];
		uint64_t kind = at->kind & 0xff,
		         run = kind == CHUNK_META || kind == CHUNK_SMALL ? 1 : at->run;
		if (kind < CHUNK_META || kind > CHUNK_FREE || run == 0 || run > c->chunks - k ||
		        (kind == CHUNK_META) != (k < c->h->first_chunk) ||
		        kind_class(at->kind) >= CLASSES || at->kind >> 17 ||
		        (kind != CHUNK_SMALL && at->kind != kind))
			return report_problem(c, "chunk %llu is of kind %llu, run %llu",
			        (unsigned long long)k, (unsigned long long)at->kind,
			        (unsigned long long)run);
		for (uint64_t j = 1; j < run; j++)
			if (c->table[k + j].kind !=
			        (kind == CHUNK_FREE && j == run - 1 ? CHUNK_FREE : CHUNK_INNER))
				return report_problem(c,
				        "chunk %llu lies inside the run at %llu and is of kind "
				        "%llu",
				        (unsigned long long)k + j, (unsigned long long)k,
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
		if (k >= c->chunks || c->table[k].kind != CHUNK_FREE || c->table[k].prev != prev ||
		        ++listed > runs)
			return report_problem(c, "the list of free runs is broken at chunk %llu",
			        (unsigned long long)k);
	return listed == runs ? 0
	                      : report_problem(c, "%llu free runs, %llu on the list",
	                                (unsigned long long)runs, (unsigned long long)listed);
}

/* Count the blocks that are carved and not free: they are in use. */
static void count_used(struct checker *c)
{
	for (uint64_t k = c->h->first_chunk; k < c->chunks; k++) {
		if (!kind_is_small(c->table[k].kind))
			continue;
		uint64_t bytes = class_bytes(kind_class(c->table[k].kind));
		for (uint64_t j = 0; j < CHUNK_BYTES / bytes; j++)
			if (!c->seen[(k * CHUNK_BYTES + j * bytes) / 16]) {
				c->census->blocks++;
				c->census->block_bytes += bytes;
			}
	}
}

int alloc_check_all(const void *base, struct alloc_census *census,
        void (*tell)(void *arg, const char *problem), void *arg)
{
	struct checker c = {.base = base, .h = base, .census = census, .tell = tell, .arg = arg};
	memset(census, 0, sizeof *census);
	c.table = (const struct chunk *)((uintptr_t)base + c.h->table);
	c.lists = (const struct chunk_list *)((uintptr_t)base + lists_offset(c.h));
	c.chunks = c.h->grown ? c.h->grown : c.h->chunks;
	c.seen = calloc(c.chunks * CHUNK_BYTES / 16, 1);
	if (!c.seen)
		return fur_fail(FUR_ENOMEM, "no memory to check the heap: free some memory");
	census->chunks = c.chunks;
	/* Only a sound table tells where blocks are. */
	if (check_table(&c) == 0)
		for (unsigned class = 0; class < CLASSES; class ++)
			check_class(&c, class);
	if (c.problems == 0)
		check_listed(&c);
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
