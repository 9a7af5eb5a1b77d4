/* SPDX-License-Identifier: BSD-3-Clause
 *
 * grow.c - the allocator takes more of a heap that grows (INV-A5).
 *
 * It takes it in small steps, as a part of the update that needs memory, so an abort or a crash
 * gives it back.  The blocks of the file come first, and stay: durability_grow() allocates them
 * outside any transaction, mostly before an update needs them (api/grow.c).
 */
#include "alloc/alloc_parts.h"
#include "htm/htm.h"

/* The least number of chunks that the allocator takes at once. */
enum { STEP_CHUNKS = 64 };

/* Let the file have blocks for at least this many chunks. */
static int grow_file(const fur_update *tx, uint64_t least)
{
	struct durability *d = tx->thread->durability;
	const uint64_t bytes = least * CHUNK_BYTES;
	if (bytes <= durability_heap_bytes(d))
		return 0;
	/* A hardware transaction cannot make system calls.  The body runs again in software, as
	 * after a failure. */
	if (tx->mode == TX_HARDWARE)
		tx->thread->engine->ops->abort(FUR_ABORT_USER);
	return durability_grow(d, bytes, durability_next_size(d, bytes));
}

bool alloc_extend(fur_update *tx, void *base, uint64_t want, int *error)
{
	struct heap_header *h = header(base);
	if (!arch_load(&h->grown))
		return false;
	uint64_t have = get_word(tx, &h->grown), last = 0;
	if (tx->error)
		return false;
	if (have <= h->first_chunk || have > h->chunks)
		return alloc_damaged(tx, (uintptr_t)&h->grown);
	if (get_word(tx, &chunk(base, have - 1)->kind) == CHUNK_FREE)
		last = get_word(tx, &chunk(base, have - 1)->run);
	/* alloc_find_run() has found no run that is long enough. */
	if (last >= want)
		return alloc_damaged(tx, chunk_address(base, have - 1));
	uint64_t need = want - last;
	if (need > h->chunks - have)
		return false;
	*error = grow_file(tx, have + need);
	if (*error)
		return false;
	uint64_t most = durability_heap_bytes(tx->thread->durability) / CHUNK_BYTES - have,
	         step = need > STEP_CHUNKS ? need : STEP_CHUNKS;
	step = step < most ? step : most;
	put_word(tx, &h->grown, have + step);
	put_word(tx, &chunk(base, have)->run, step);
	alloc_give_run(tx, base, have);
	return !tx->error;
}
