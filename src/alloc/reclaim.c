/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reclaim.c - the last attempt of fur_alloc before it reports that the heap is full: it makes free
 * runs of chunks that have no block in use, but some in threads' stocks.  This is part of the
 * update that needs the memory, so an abort or a crash undoes it.
 *
 * It reads every stock.  So in hardware it exceeds the processor's capacity, and the update runs
 * again in software; this is rare.  It logs little: nothing for blocks on their chunk's
 * own list, and a word or two for each row of neighbours in a stock.  It takes the cheapest chunks
 * first, and leaves a quarter of the redo log to the program.  If logs are too small for this,
 * fur_alloc returns NULL although there is memory.
 *
 * It writes the word of each stock from which it takes blocks, and the word of the chunk's list
 * (INV-A3).  If another update takes or gives one of those blocks meanwhile, it writes one of these
 * words too, so the two conflict.
 */
#include "alloc/alloc_parts.h"

/* The chunks counted in one walk over the stocks.  Their counts are on the stack: an update must
 * not call malloc. */
enum { WINDOW = 1024 };

/* For each chunk of the window: how many free blocks it has outside its own list, and how many log
 * entries it takes to remove them from there. */
struct tally {
	uint64_t first; /* the number of the first chunk */
	struct {
		uint16_t blocks, entries;
	} chunks[WINDOW];
};

enum {
	ENTRY_BYTES = 16,  /* of the log, for one word */
	GIVE_ENTRIES = 32, /* at most, for a chunk that becomes a free run */
	KEEP_LOG_PART = 4, /* of the log, for the program's own stores */
};

static bool log_affords(const fur_update *tx, uint64_t entries)
{
	return log_room(tx) >= entries * ENTRY_BYTES + log_bytes(tx) / KEEP_LOG_PART;
}

/* ----------------------------------------------------------------- old lists */

static bool is_old_form(const void *base)
{
	return header(base)->lists == 0;
}

uint64_t *alloc_old_lists(fur_update *tx, const void *base, unsigned class)
{
	uint64_t *link = &header(base)->classes[class].depot, at, most = header(base)->chunks;
	for (; is_chunk_link(at = get_word(tx, link)); link = &chunk_list(base, at >> 1)->next)
		if (!sound_link(tx, base, class, at) || (most-- == 0 && !alloc_damaged(tx, at)))
			return NULL;
	return sound_link(tx, base, class, at) ? link : NULL;
}

/* An update finds an old list through the depot's word, even if chunks come before the list.  So
 * write that word too, as take_from_chunks() does (INV-A3). */
static void put_old_list(fur_update *tx, void *base, unsigned class, uint64_t *link, uint64_t list)
{
	uint64_t *depot = &header(base)->classes[class].depot;
	put_word(tx, link, list);
	put_word(tx, depot, get_word(tx, depot));
}

/* Give the blocks of old lists to their chunks.  Use at most half the log.  True: there is a run of
 * `want` chunks now. */
static bool sort_old_lists(fur_update *tx, void *base, uint64_t want)
{
	for (unsigned class = 0; class < CLASSES; class ++)
		for (;;) {
			uint64_t *link = alloc_old_lists(tx, base, class),
			         list = link ? get_word(tx, link) : 0;
			/* A list of BATCH_MOST blocks from as many chunks must still fit. */
			if (!list || log_room(tx) < log_bytes(tx) / 2 +
			                                    UINT64_C(5) * BATCH_MOST * ENTRY_BYTES)
				break;
			put_old_list(tx, base, class, link, get_word(tx, &block_at(list)->depth));
			alloc_give_list(tx, base, class, (struct stock){list, BATCH_MOST},
			        BATCH_MOST, BATCH_MOST);
			if (alloc_find_run(tx, base, want))
				return true;
		}
	return false;
}

/* -------------------------------------------------------------------- counting */

/* Count the list's blocks.  Each row of neighbours costs at most `entries` log entries, including
 * the list's own words. */
static void tally_list(fur_update *tx, struct tally *t, const void *base, unsigned class,
        uint64_t list, uint16_t entries)
{
	uint64_t before = 0;
	unsigned most = LIST_MOST;
	for (uint64_t at = list; at; at = get_word(tx, &block_at(at)->next)) {
		if (!sound_walk(tx, base, class, at, &most))
			return;
		uint64_t number = chunk_of(base, at), k = number - t->first;
		if (k < WINDOW) {
			t->chunks[k].blocks++;
			t->chunks[k].entries += number != before ? entries : 0;
		}
		before = number;
	}
}

static void tally_range(fur_update *tx, struct tally *t, const void *base, uint64_t from,
        uint64_t to, unsigned class)
{
	uint64_t k = chunk_of(base, from) - t->first;
	if (from != to && k < WINDOW && sound_range(tx, base, class, from, to)) {
		t->chunks[k].blocks += (uint16_t)((to - from) / class_bytes(class));
		t->chunks[k].entries += 2;
	}
}

static void tally_stock(
        fur_update *tx, struct tally *t, const void *base, unsigned class, uint64_t word)
{
	tally_list(tx, t, base, class, stock_of(tx, base, class, word).first, 2);
}

static void tally_class(fur_update *tx, struct tally *t, void *base, unsigned class)
{
	const struct class_state *s = &header(base)->classes[class];
	for (uint32_t i = 0; i < header(base)->threads; i++) {
		const struct cache *c = cache(base, i, class);
		tally_stock(tx, t, base, class, get_word(tx, &c->list));
		tally_stock(tx, t, base, class, get_word(tx, &c->full));
		tally_range(
		        tx, t, base, get_word(tx, &c->carve), get_word(tx, &c->carve_end), class);
	}
	tally_range(tx, t, base, get_word(tx, &s->carve), get_word(tx, &s->carve_end), class);
	const uint64_t *link = is_old_form(base) ? alloc_old_lists(tx, base, class) : NULL;
	unsigned most = LIST_MOST;
	for (uint64_t list = link ? get_word(tx, link) : 0; list;
	        list = get_word(tx, &block_at(list)->depth)) {
		if (!sound_walk(tx, base, class, list, &most))
			return;
		tally_list(tx, t, base, class, list, 4);
	}
}

/* Find the cheapest chunk of the window that has no block in use, or return 0.  Sets its count to
 * 0, so that no later call finds it again. */
static uint64_t take_cheapest_chunk(fur_update *tx, struct tally *t, const void *base)
{
	uint64_t best = 0, least = UINT64_MAX;
	const uint64_t chunks = chunks_now(tx, base);
	for (uint64_t k = 0; k < WINDOW && t->first + k < chunks; k++) {
		uint64_t kind = get_word(tx, &chunk(base, t->first + k)->kind),
		         found = t->chunks[k].blocks;
		if (kind_is_small(kind) && found && t->chunks[k].entries < least &&
		        found + listed_of(tx, base, t->first + k).count ==
		                blocks_in_chunk(kind_class(kind))) {
			best = t->first + k;
			least = t->chunks[k].entries;
		}
	}
	if (best)
		t->chunks[best - t->first].blocks = 0;
	return best;
}

/* -------------------------------------------------------------------- taking */

/* Remove the blocks of the chunk from the list.  Returns the rest. */
static struct stock list_without_chunk(
        fur_update *tx, const void *base, unsigned class, struct stock list, uint64_t number)
{
	uint64_t first = 0, kept = 0;
	unsigned most = LIST_MOST;
	bool passed = false;
	for (uint64_t at = list.first, next; at; at = next) {
		if (!sound_walk(tx, base, class, at, &most))
			return list;
		next = get_word(tx, &block_at(at)->next);
		if (chunk_of(base, at) == number) {
			passed = true;
			list.count--;
			continue;
		}
		if (kept && passed)
			put_word(tx, &block_at(kept)->next, at);
		first = first ? first : at;
		kept = at;
		passed = false;
	}
	if (kept && passed)
		put_word(tx, &block_at(kept)->next, 0);
	return (struct stock){first, list.count};
}

static void take_from_stock(
        fur_update *tx, void *base, unsigned class, uint64_t *word, uint64_t number)
{
	struct stock list = stock_of(tx, base, class, get_word(tx, word)),
	             rest = list_without_chunk(tx, base, class, list, number);
	if (rest.count != list.count)
		put_word(tx, word, stock_word(base, rest.first, rest.count));
}

static void take_from_range(
        fur_update *tx, void *base, uint64_t *from, uint64_t *to, uint64_t number)
{
	if (get_word(tx, from) != get_word(tx, to) &&
	        chunk_of(base, get_word(tx, from)) == number) {
		put_word(tx, from, 0);
		put_word(tx, to, 0);
	}
}

static void take_from_old_lists(fur_update *tx, void *base, unsigned class, uint64_t number)
{
	uint64_t *link = alloc_old_lists(tx, base, class);
	unsigned most = LIST_MOST;
	for (uint64_t list = link ? get_word(tx, link) : 0, after; list; list = after) {
		if (!sound_walk(tx, base, class, list, &most))
			return;
		struct stock all = {list, BATCH_MOST},
		             rest = list_without_chunk(tx, base, class, all, number);
		after = get_word(tx, &block_at(list)->depth);
		if (rest.count != all.count) {
			if (rest.first && rest.first != list)
				put_word(tx, &block_at(rest.first)->depth, after);
			put_old_list(tx, base, class, link, rest.first ? rest.first : after);
		}
		if (rest.first)
			link = &block_at(rest.first)->depth;
	}
}

/* Take all the chunk's blocks out of stocks and lists, and make it a free run. */
static void take_chunk(fur_update *tx, void *base, uint64_t number)
{
	unsigned class = kind_class(get_word(tx, &chunk(base, number)->kind));
	struct class_state *s = &header(base)->classes[class];
	for (uint32_t i = 0; i < header(base)->threads; i++) {
		struct cache *c = cache(base, i, class);
		take_from_stock(tx, base, class, &c->list, number);
		take_from_stock(tx, base, class, &c->full, number);
		take_from_range(tx, base, &c->carve, &c->carve_end, number);
	}
	take_from_range(tx, base, &s->carve, &s->carve_end, number);
	if (is_old_form(base))
		take_from_old_lists(tx, base, class, number);
	alloc_give_chunk(tx, base, class, number);
}

/* Some classes keep chunks that have all their blocks: give those chunks back.  True: there is a
 * run of `want` chunks now. */
static bool give_kept_chunks(fur_update *tx, void *base, uint64_t want)
{
	for (unsigned class = 0; class < CLASSES; class ++) {
		if (!class_keeps_chunks(class))
			continue;
		uint64_t link = get_word(tx, &header(base)->classes[class].depot), next,
		         most = header(base)->chunks;
		for (; is_chunk_link(link) && log_affords(tx, GIVE_ENTRIES); link = next) {
			if (!sound_link(tx, base, class, link) ||
			        (most-- == 0 && !alloc_damaged(tx, chunk_address(base, link >> 1))))
				return false;
			next = get_word(tx, &chunk_list(base, link >> 1)->next);
			if (listed_of(tx, base, link >> 1).count != blocks_in_chunk(class))
				continue;
			alloc_give_chunk(tx, base, class, link >> 1);
			if (alloc_find_run(tx, base, want))
				return true;
		}
	}
	return false;
}

bool alloc_reclaim(fur_update *tx, void *base, uint64_t want)
{
	FUR_ASSERT(want > 0);
	if (want > header(base)->chunks || tx->error)
		return false;
	if ((is_old_form(base) && sort_old_lists(tx, base, want)) ||
	        give_kept_chunks(tx, base, want))
		return true;
	const uint64_t chunks = chunks_now(tx, base);
	for (uint64_t first = header(base)->first_chunk; first < chunks; first += WINDOW) {
		struct tally t = {.first = first};
		for (unsigned class = 0; class < CLASSES; class ++)
			tally_class(tx, &t, base, class);
		for (uint64_t number; (number = take_cheapest_chunk(tx, &t, base));) {
			/* take_cheapest_chunk() does not change `entries`. */
			if (!log_affords(tx, t.chunks[number - first].entries + GIVE_ENTRIES))
				return false;
			take_chunk(tx, base, number);
			if (alloc_find_run(tx, base, want))
				return true;
		}
	}
	return false;
}
