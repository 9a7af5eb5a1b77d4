/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_layout.c - format an empty heap, and check that a heap fits its file.
 */
#include "media/heap_layout.h"
#include "base/error.h"

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

void heap_format(void *image, uint64_t bytes, uint32_t threads)
{
	struct heap_header *h = image;
	h->magic = HEAP_MAGIC_2;
	h->bytes = bytes;
	h->threads = threads;
	h->chunks = bytes / CHUNK_BYTES;
	h->lists = meta_bytes(bytes, threads, &h->table);
	h->first_chunk =
	        (h->lists + h->chunks * sizeof(struct chunk_list) + CHUNK_BYTES - 1) / CHUNK_BYTES;
	for (uint64_t k = 0; k < h->first_chunk; k++)
		chunk(image, k)->kind = CHUNK_META;
	uint64_t run = h->chunks - h->first_chunk;
	*chunk(image, h->first_chunk) = (struct chunk){.kind = CHUNK_FREE, .run = run};
	if (run > 1)
		*chunk(image, h->chunks - 1) = (struct chunk){.kind = CHUNK_FREE, .run = run};
	h->free_runs = h->first_chunk;
}

uint64_t heap_new_magic(const void *image)
{
	return header(image)->magic == HEAP_MAGIC_1 ? HEAP_MAGIC_2 : 0;
}

int heap_check_header(const void *base, uint64_t bytes, uint32_t threads)
{
	const struct heap_header *h = base;
	bool magic = h->magic == HEAP_MAGIC_2 || (h->magic == HEAP_MAGIC_1 && !h->lists);
	if (!magic || h->bytes != bytes || h->threads != threads ||
	        h->chunks != bytes / CHUNK_BYTES ||
	        h->table != caches_offset() + threads * sizeof(struct thread_caches) ||
	        (h->lists && h->lists != h->table + h->chunks * sizeof(struct chunk)))
		return fur_fail(FUR_ECORRUPT, "the allocator is damaged: its header does not fit "
		                              "this file: restore the file from a copy");
	return 0;
}
