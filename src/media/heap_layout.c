/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_layout.c - format an empty heap, and check that a heap fits its file.
 */
#include "media/heap_layout.h"
#include "base/arch.h"
#include "base/error.h"

#include <string.h>

static uint64_t meta_bytes(uint64_t bytes, uint32_t threads, uint64_t *table)
{
	*table = caches_offset() + threads * sizeof(struct thread_caches);
	return *table + bytes / CHUNK_BYTES * sizeof(struct chunk);
}

uint64_t heap_least_bytes(uint32_t threads)
{
	/* The structures and eight chunks to work with. */
	uint64_t table, meta = meta_bytes(UINT64_C(64) * CHUNK_BYTES, threads, &table);
	return (meta / CHUNK_BYTES + 1 + 8) * CHUNK_BYTES;
}

uint64_t heap_meta_bytes(uint64_t bytes, uint32_t threads)
{
	uint64_t table, lists = meta_bytes(bytes, threads, &table),
	                end = lists + bytes / CHUNK_BYTES * sizeof(struct chunk_list);
	return (end + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
}

void heap_parts(uint64_t bytes, uint32_t threads, uint64_t now, struct heap_part part[HEAP_PARTS])
{
	uint64_t table, lists = meta_bytes(bytes, threads, &table), chunks = now / CHUNK_BYTES;
	part[0] = (struct heap_part){0, table + chunks * sizeof(struct chunk)};
	part[1] = (struct heap_part){lists, lists + chunks * sizeof(struct chunk_list)};
	part[2] = (struct heap_part){heap_meta_bytes(bytes, threads), now};
}

/* A heap that grows begins with few of its chunks: so `grown` tells how much has been used. */
enum { FIRST_CHUNKS = 8 };

void heap_format(void *image, uint64_t bytes, uint64_t now, uint32_t threads)
{
	struct heap_header *h = image;
	h->magic = HEAP_MAGIC_2;
	h->bytes = bytes;
	h->threads = threads;
	h->chunks = bytes / CHUNK_BYTES;
	h->lists = meta_bytes(bytes, threads, &h->table);
	h->first_chunk = heap_meta_bytes(bytes, threads) / CHUNK_BYTES;
	h->grown = now < bytes ? h->first_chunk + FIRST_CHUNKS : 0;
	for (uint64_t k = 0; k < h->first_chunk; k++)
		chunk(image, k)->kind = CHUNK_META;
	uint64_t end = h->grown ? h->grown : h->chunks, run = end - h->first_chunk;
	*chunk(image, h->first_chunk) = (struct chunk){.kind = CHUNK_FREE, .run = run};
	if (run > 1)
		*chunk(image, end - 1) = (struct chunk){.kind = CHUNK_FREE, .run = run};
	h->free_runs = h->first_chunk;
}

/* Take the run at chunk `at` off the list of free runs. */
static void unlink_run(void *image, uint64_t at)
{
	struct chunk *run = chunk(image, at);
	*(run->prev ? &chunk(image, run->prev)->next : &header(image)->free_runs) = run->next;
	if (run->next)
		chunk(image, run->next)->prev = run->prev;
}

static bool run_begins_at(const void *image, uint64_t at, uint64_t end)
{
	return at >= header(image)->first_chunk && at < end && chunk(image, at)->kind == CHUNK_FREE;
}

/* Do the free run at chunk `at`, below chunk `end`, and its neighbours in the list agree? */
static bool run_fits(const void *image, uint64_t at, uint64_t end)
{
	if (!run_begins_at(image, at, end))
		return false;
	const struct chunk *run = chunk(image, at);
	if (run->run == 0 || run->run > end - at)
		return false;
	const struct chunk *last = chunk(image, at + run->run - 1);
	if (last->kind != CHUNK_FREE || last->run != run->run)
		return false;
	if (run->prev ? !run_begins_at(image, run->prev, end) || chunk(image, run->prev)->next != at
	              : header(image)->free_runs != at)
		return false;
	return run->next == 0 ||
	       (run_begins_at(image, run->next, end) && chunk(image, run->next)->prev == at);
}

int heap_check_ends(const void *image)
{
	const struct heap_header *h = image;
	const uint64_t end = h->grown ? h->grown : h->chunks;
	const struct chunk *last = chunk(image, end - 1);
	bool fits = h->free_runs == 0 || run_begins_at(image, h->free_runs, end);
	if (fits && run_begins_at(image, h->first_chunk, end))
		fits = run_fits(image, h->first_chunk, end);
	if (fits && run_begins_at(image, end - 1, end))
		fits = last->run <= end && run_fits(image, end - last->run, end) &&
		       chunk(image, end - last->run)->run == last->run;
	if (!fits)
		return fur_fail(FUR_ECORRUPT,
		        "the allocator is damaged: its lists of free runs contradict each other: "
		        "look at the file with fur-check, and restore it from a copy");
	return 0;
}

uint64_t heap_trim(void *image, uint64_t now)
{
	struct heap_header *h = image;
	uint64_t end = h->grown ? h->grown : h->chunks, to = now / CHUNK_BYTES, at = end;
	const struct chunk *last = chunk(image, end - 1);
	if (last->kind == CHUNK_FREE)
		at -= last->run;
	if (at < h->first_chunk + FIRST_CHUNKS)
		at = h->first_chunk + FIRST_CHUNKS;
	if (to < at)
		return at * CHUNK_BYTES;
	if (to >= end) {
		h->grown = end;
		return 0;
	}
	uint64_t head = end - last->run;
	*chunk(image, end - 1) = (struct chunk){0};
	if (head == to) {
		unlink_run(image, head);
		*chunk(image, head) = (struct chunk){0};
	} else {
		chunk(image, head)->run = to - head;
		if (to - head > 1)
			*chunk(image, to - 1) =
			        (struct chunk){.kind = CHUNK_FREE, .run = to - head};
	}
	h->grown = to;
	return 0;
}

/* Make the first `n` chunks of the free run at chunk `at` no part of it. */
static void cut_run(void *image, uint64_t at, uint64_t n)
{
	const struct chunk was = *chunk(image, at);
	unlink_run(image, at);
	if (n == was.run)
		return;
	struct chunk *head = chunk(image, at + n), *last = chunk(image, at + was.run - 1);
	*last = *head = (struct chunk){.kind = CHUNK_FREE, .run = was.run - n};
	head->next = header(image)->free_runs;
	if (head->next)
		chunk(image, head->next)->prev = at + n;
	header(image)->free_runs = at + n;
}

uint64_t heap_widen(void *image, uint64_t bytes)
{
	struct heap_header *h = image;
	const uint64_t end = h->grown ? h->grown : h->chunks, old = h->first_chunk,
	               first = heap_meta_bytes(bytes, h->threads) / CHUNK_BYTES;
	const struct chunk *lowest = chunk(image, old);
	uint64_t room = old, table;
	FUR_ASSERT(h->lists && bytes >= h->bytes && bytes % CHUNK_BYTES == 0);
	if (lowest->kind == CHUNK_FREE)
		room += lowest->run < end - old ? lowest->run : end - old - 1;
	if (first > room)
		return (room * CHUNK_BYTES - h->table) /
		       (sizeof(struct chunk) + sizeof(struct chunk_list)) * CHUNK_BYTES;
	if (first > old)
		cut_run(image, old, first - old);
	/* The longer table of chunks needs the place of the lists: move these first. */
	const uint64_t from = h->lists, to = meta_bytes(bytes, h->threads, &table),
	               moved = h->chunks * sizeof(struct chunk_list);
	uint8_t *at = image;
	memmove(at + to, at + from, moved);
	memset(at + from, 0, to - from);
	memset(at + to + moved, 0, first * CHUNK_BYTES - to - moved);
	h->lists = to;
	h->bytes = bytes;
	h->chunks = bytes / CHUNK_BYTES;
	h->grown = end;
	h->first_chunk = first;
	for (uint64_t k = old; k < first; k++)
		*chunk(image, k) = (struct chunk){.kind = CHUNK_META};
	return 0;
}

uint64_t heap_new_magic(const void *image)
{
	return header(image)->magic == HEAP_MAGIC_1 ? HEAP_MAGIC_2 : 0;
}

int heap_check_header(const void *base, uint64_t bytes, bool grows, uint32_t threads)
{
	const struct heap_header *h = base;
	const uint64_t grown = arch_load(&h->grown); /* a replay may be at work */
	bool grown_fits = grows ? grown > h->first_chunk && grown <= h->chunks : grown == 0;
	/* Past the tables, which lie one after the other; the old form may leave room there. */
	uint64_t tables = lists_offset(h) + h->chunks * sizeof(struct chunk_list),
	         first = (tables + CHUNK_BYTES - 1) / CHUNK_BYTES;
	bool first_fits = h->first_chunk < h->chunks &&
	                  (h->lists ? h->first_chunk == first : h->first_chunk >= first);
	bool magic = h->magic == HEAP_MAGIC_2 || (h->magic == HEAP_MAGIC_1 && !h->lists);
	if (!magic || !first_fits || !grown_fits || h->bytes != bytes || h->threads != threads ||
	        h->chunks != bytes / CHUNK_BYTES ||
	        h->table != caches_offset() + threads * sizeof(struct thread_caches) ||
	        (h->lists && h->lists != h->table + h->chunks * sizeof(struct chunk)))
		return fur_fail(FUR_ECORRUPT, "the allocator is damaged: its header does not fit "
		                              "this file: restore the file from a copy");
	return 0;
}
