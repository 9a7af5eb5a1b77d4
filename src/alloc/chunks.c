/* SPDX-License-Identifier: BSD-3-Clause
 *
 * chunks.c - runs of free chunks, and each chunk's list of free blocks.
 */
#include "alloc/alloc_parts.h"

/* ---------------------------------------------------------- runs of chunks */

/* Is this the head of a free run, whose `prev` is that one? */
static bool is_free_run(fur_update *tx, const void *base, uint64_t number, uint64_t prev)
{
	const struct heap_header *h = header(base);
	if (number < h->first_chunk || number >= h->chunks)
		return false;
	const struct chunk *c = chunk(base, number);
	return get_word(tx, &c->kind) == CHUNK_FREE &&
	       get_word(tx, &c->run) - 1 < h->chunks - number && get_word(tx, &c->prev) == prev;
}

/* Does the last chunk of a free run say what its head says? */
static bool ends_as_it_begins(fur_update *tx, const void *base, uint64_t number)
{
	uint64_t run = get_word(tx, &chunk(base, number)->run);
	const struct chunk *last = chunk(base, number + run - 1);
	return get_word(tx, &last->kind) == CHUNK_FREE && get_word(tx, &last->run) == run;
}

/* May the run be taken off the list?  Looks at its neighbours there. */
static bool sound_run(fur_update *tx, const void *base, uint64_t number)
{
	const struct heap_header *h = header(base);
	if (number < h->first_chunk || number >= h->chunks)
		return alloc_damaged(tx, chunk_address(base, number));
	uint64_t next = get_word(tx, &chunk(base, number)->next),
	         prev = get_word(tx, &chunk(base, number)->prev);
	if (!is_free_run(tx, base, number, prev) || !ends_as_it_begins(tx, base, number) ||
	        (next && !is_free_run(tx, base, next, number)) || prev >= h->chunks ||
	        get_word(tx, prev ? &chunk(base, prev)->next : &h->free_runs) != number)
		return alloc_damaged(tx, chunk_address(base, number));
	return true;
}

/* The run is sound. */
static void unlink_run(fur_update *tx, void *base, uint64_t number)
{
	uint64_t next = get_word(tx, &chunk(base, number)->next),
	         prev = get_word(tx, &chunk(base, number)->prev);
	put_word(tx, prev ? &chunk(base, prev)->next : &header(base)->free_runs, next);
	if (next)
		put_word(tx, &chunk(base, next)->prev, prev);
}

static void link_run(fur_update *tx, void *base, uint64_t number)
{
	uint64_t first = get_word(tx, &header(base)->free_runs);
	if (first && !is_free_run(tx, base, first, 0)) {
		alloc_damaged(tx, chunk_address(base, first));
		return;
	}
	put_word(tx, &chunk(base, number)->next, first);
	put_word(tx, &chunk(base, number)->prev, 0);
	if (first)
		put_word(tx, &chunk(base, first)->prev, number);
	put_word(tx, &header(base)->free_runs, number);
}

/* Mark [number, number + run) as one free run, at its head and its last chunk. */
static void mark_free(fur_update *tx, void *base, uint64_t number, uint64_t run)
{
	put_word(tx, &chunk(base, number)->kind, CHUNK_FREE);
	put_word(tx, &chunk(base, number)->run, run);
	if (run == 1)
		return;
	put_word(tx, &chunk(base, number + run - 1)->kind, CHUNK_FREE);
	put_word(tx, &chunk(base, number + run - 1)->run, run);
}

uint64_t alloc_find_run(fur_update *tx, const void *base, uint64_t want)
{
	/* A run has one `prev`, and that of the first is 0.  So the list is no circle if each run's
	 * is the one before. */
	for (uint64_t at = get_word(tx, &header(base)->free_runs), prev = 0; at;
	        prev = at, at = get_word(tx, &chunk(base, at)->next)) {
		if (!is_free_run(tx, base, at, prev))
			return alloc_damaged(tx, chunk_address(base, at));
		if (get_word(tx, &chunk(base, at)->run) >= want)
			return at;
	}
	return 0;
}

uint64_t alloc_take_run(fur_update *tx, void *base, uint64_t want, uint64_t kind)
{
	FUR_ASSERT(want > 0);
	uint64_t at = alloc_find_run(tx, base, want);
	if (!at || !sound_run(tx, base, at))
		return 0;
	uint64_t run = get_word(tx, &chunk(base, at)->run), taken = at + run - want;
	put_word(tx, &chunk(base, at + run - 1)->kind, CHUNK_INNER);
	if (run == want)
		unlink_run(tx, base, at);
	else
		mark_free(tx, base, at, run - want);
	put_word(tx, &chunk(base, taken)->kind, kind);
	put_word(tx, &chunk(base, taken)->run, want);
	return taken;
}

void alloc_give_run(fur_update *tx, void *base, uint64_t number)
{
	const uint64_t chunks = chunks_now(tx, base), first = header(base)->first_chunk;
	uint64_t run = get_word(tx, &chunk(base, number)->run), after = number + run;
	if (number < first || number >= chunks || run - 1 >= chunks - number) {
		alloc_damaged(tx, chunk_address(base, number));
		return;
	}
	/* Chunks that are no longer the end of a run become INNER (INV-A1). */
	if (after < chunks && get_word(tx, &chunk(base, after)->kind) == CHUNK_FREE) {
		if (!sound_run(tx, base, after))
			return;
		run += get_word(tx, &chunk(base, after)->run);
		unlink_run(tx, base, after);
		put_word(tx, &chunk(base, after)->kind, CHUNK_INNER);
	}
	if (get_word(tx, &chunk(base, number - 1)->kind) == CHUNK_FREE) {
		uint64_t before = get_word(tx, &chunk(base, number - 1)->run);
		if (!sound_run(tx, base, number - before))
			return;
		put_word(tx, &chunk(base, number)->kind, CHUNK_INNER);
		put_word(tx, &chunk(base, number - 1)->kind, CHUNK_INNER);
		number -= before;
		run += before;
		unlink_run(tx, base, number);
	}
	mark_free(tx, base, number, run);
	link_run(tx, base, number);
}

void alloc_give_used_run(fur_update *tx, void *base, uint64_t number)
{
	arch_store(&tx->log->frees_a_run, 1);
	alloc_give_run(tx, base, number);
}

/* -------------------------------------------------- the free lists of chunks */

/* Put a chunk at the front of its class's list of chunks that have free blocks. */
static void list_chunk(fur_update *tx, void *base, unsigned class, uint64_t number)
{
	FUR_ASSERT(class < CLASSES);
	struct chunk_list *l = chunk_list(base, number);
	struct class_state *s = &header(base)->classes[class];
	uint64_t first = get_word(tx, &s->depot);
	if (!sound_link(tx, base, class, first))
		return;
	put_word(tx, &l->next, first);
	put_word(tx, &l->prev, 0);
	if (is_chunk_link(first))
		put_word(tx, &chunk_list(base, first >> 1)->prev, number);
	put_word(tx, &s->depot, chunk_link(number));
}

static void unlist_chunk(fur_update *tx, void *base, unsigned class, uint64_t number)
{
	struct chunk_list *l = chunk_list(base, number);
	uint64_t next = get_word(tx, &l->next), prev = get_word(tx, &l->prev);
	if (!sound_link(tx, base, class, next) ||
	        (prev && !sound_link(tx, base, class, chunk_link(prev))))
		return;
	uint64_t *from = prev ? &chunk_list(base, prev)->next : &header(base)->classes[class].depot;
	if (get_word(tx, from) != chunk_link(number) ||
	        (is_chunk_link(next) &&
	                get_word(tx, &chunk_list(base, next >> 1)->prev) != number)) {
		alloc_damaged(tx, chunk_address(base, number));
		return;
	}
	put_word(tx, from, next);
	if (is_chunk_link(next))
		put_word(tx, &chunk_list(base, next >> 1)->prev, prev);
	/* An update that takes the chunk's neighbour off the list writes this word too (INV-A3). */
	put_word(tx, &l->next, 0);
}

void alloc_give_chunk(fur_update *tx, void *base, unsigned class, uint64_t number)
{
	FUR_ASSERT(class < CLASSES);
	if (listed_of(tx, base, number).count)
		unlist_chunk(tx, base, class, number);
	put_word(tx, &chunk_list(base, number)->blocks, 0);
	put_word(tx, &chunk(base, number)->run, 1); /* in an old heap, `blocks` is this word */
	alloc_give_used_run(tx, base, number);
}

/* An update that finds the heap full must give back all kept chunks at once.  A small log has no
 * room for that, so with a small log no class keeps chunks. */
enum { KEEP_CHUNKS_LOG = 65536 };
static bool keeps_chunks(const fur_update *tx, unsigned class)
{
	return class_keeps_chunks(class) && log_bytes(tx) >= KEEP_CHUNKS_LOG;
}

void alloc_give_blocks(
        fur_update *tx, void *base, unsigned class, uint64_t first, uint64_t last, uint64_t n)
{
	FUR_ASSERT(n > 0);
	uint64_t number = chunk_of(base, first);
	struct listed l = listed_of(tx, base, number);
	if (l.count + n > blocks_in_chunk(class)) {
		alloc_damaged(tx, first);
		return;
	}
	if (l.count + n == blocks_in_chunk(class) && !keeps_chunks(tx, class)) {
		alloc_give_chunk(tx, base, class, number);
		return;
	}
	put_word(tx, &block_at(last)->next, l.first);
	if (!l.count) {
		list_chunk(tx, base, class, number);
		l.last = last;
	}
	put_word(tx, &chunk_list(base, number)->blocks,
	        listed_word((struct listed){first, l.last, l.count + n}));
}

struct stock alloc_give_list(
        fur_update *tx, void *base, unsigned class, struct stock list, unsigned runs, uint64_t most)
{
	for (; runs && most && list.first; runs--) {
		if (!sound_block(tx, base, class, list.first))
			break;
		uint64_t first = list.first, last = first,
		         next = get_word(tx, &block_at(first)->next), n = 1;
		for (; n < most && next && chunk_of(base, next) == chunk_of(base, first); n++) {
			if (!sound_block(tx, base, class, next))
				return list;
			last = next;
			next = get_word(tx, &block_at(next)->next);
		}
		alloc_give_blocks(tx, base, class, first, last, n);
		list = (struct stock){next, list.count - n};
		most -= n;
	}
	return list;
}
