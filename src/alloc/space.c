/* SPDX-License-Identifier: BSD-3-Clause
 *
 * space.c - how full the heap is, by its chunk table, while transactions run.
 */
#include "alloc/alloc_parts.h"

/* The length of the run that begins at chunk `number`.  An update may change the table while we
 * walk, so we may stand inside a run, or read a length that belonged to another one.  Then we go to
 * the next chunk, and soon find the head of a run again. */
static uint64_t run_at(const struct chunk *at, uint64_t number, uint64_t chunks)
{
	uint64_t kind = arch_load(&at->kind) & 0xff, run = 1;
	if (kind == CHUNK_LARGE || kind == CHUNK_FREE)
		run = arch_load(&at->run);
	return run && run <= chunks - number ? run : 1;
}

struct alloc_space alloc_space(const void *base, uint64_t heap_bytes)
{
	const struct heap_header *h = header(base);
	const uint64_t grown = arch_load(&h->grown), chunks = grown ? grown : h->chunks;
	uint64_t free_chunks = 0, run;
	for (uint64_t k = h->first_chunk; k < chunks; k += run) {
		const struct chunk *at = chunk(base, k);
		run = run_at(at, k, chunks);
		if ((arch_load(&at->kind) & 0xff) == CHUNK_FREE)
			free_chunks += run;
	}
	return (struct alloc_space){(chunks - h->first_chunk - free_chunks) * CHUNK_BYTES,
	        heap_bytes - h->first_chunk * CHUNK_BYTES};
}
