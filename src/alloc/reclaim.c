/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reclaim.c - what fur_alloc does before it says that the heap is full: chunks of which nothing is
 * in use, and some blocks are in threads' stocks, become free runs.  Part of the update that needs
 * them: an abort or a crash undoes it.
 *
 * It reads every stock, so in hardware it exceeds the processor's capacity and runs again under the
 * fallback lock; it is rare.  What it logs is bounded: nothing for blocks on their chunk's own
 * list, a word or two for each row of neighbours in a stock.  It takes the cheapest chunks first
 * and leaves a quarter of the redo log for the program; where logs are so small that this does not
 * suffice, fur_alloc returns NULL although there is memory.
 *
 * Each stock that it takes blocks from has its word written, and so has the list of the chunk
 * (INV-A3): an update that takes or gives one of the blocks meanwhile writes one of these words
 * too.
 */
#include "alloc/alloc_parts.h"

/* Chunks looked at in one walk over the stocks.  Their counts lie on the stack: malloc has no place
 * in an update. */
enum { WINDOW = 1024 };

/* What of each chunk is free outside its own list: blocks, and what it costs to take them out of
 * there, in log entries. */
struct tally {
	uint64_t first; /* chunk's number */
	struct {
		uint16_t blocks, entries;
	} chunks[WINDOW];
};

enum {
	ENTRY_BYTES = 16,  /* of the log, for one word */
	GIVE_ENTRIES = 32, /* at most, for a chunk that becomes a free run */
	KEEP_LOG_PART = 4, /* of the log, for what the program stores */
};

static bool affords(const fur_update *tx, uint64_t entries)
{
	return log_room(tx) >= entries * ENTRY_BYTES + log_bytes(tx) / KEEP_LOG_PART;
}

/* ----------------------------------------------------------------- old lists */

static bool old_form(const void *base)
{
	return header(base)->lists == 0;
}

/* The word that has the address of the class's first old list, or 0: behind the last chunk that has
 * free blocks. */
static uint64_t *old_lists(void *base, unsigned class)
{
	uint64_t *link = &header(base)->classes[class].depot;
	while (is_chunk_link(get(link)))
		link = &chunk_list(base, get(link) >> 1)->next;
	return link;
}

/* An old list was found through the depot's word, whatever chunks stand before it: from_chunks()
 * writes that one. */
static void put_old_list(fur_update *tx, void *base, unsigned class, uint64_t *link, uint64_t list)
{
	uint64_t *depot = &header(base)->classes[class].depot;
	put(tx, link, list);
	put(tx, depot, get(depot));
}

/* Give the blocks of old lists to their chunks, as far as half the log allows.  True: there is a
 * run of `want` chunks now. */
static bool sort_old_lists(fur_update *tx, void *base, uint64_t want)
{
	for (unsigned class = 0; class < CLASSES; class ++)
		for (;;) {
			uint64_t *link = old_lists(base, class), list = get(link);
			/* A list of BATCH_MOST blocks from as many chunks must still fit. */
			if (!list ||
			        log_room(tx) < log_bytes(tx) / 2 + BATCH_MOST * 5 * ENTRY_BYTES)
				break;
			put_old_list(tx, base, class, link, get(&block_at(list)->depth));
			alloc_give_list(tx, base, class, (struct stock){list, BATCH_MOST},
			        BATCH_MOST, BATCH_MOST);
			if (alloc_find_run(base, want))
				return true;
		}
	return false;
}

/* -------------------------------------------------------------------- counting */

/* Count the list's blocks; each row of neighbours costs at most so many entries, the list's own
 * words included. */
static void tally_list(struct tally *t, const void *base, uint64_t list, uint16_t entries)
{
	uint64_t before = 0;
	for (uint64_t at = list; at; at = get(&block_at(at)->next)) {
		uint64_t number = chunk_of(base, at), k = number - t->first;
		if (k < WINDOW) {
			t->chunks[k].blocks++;
			t->chunks[k].entries += number != before ? entries : 0;
		}
		before = number;
	}
}

static void tally_range(
        struct tally *t, const void *base, uint64_t from, uint64_t to, unsigned class)
{
	uint64_t k = chunk_of(base, from) - t->first;
	if (from != to && k < WINDOW) {
		t->chunks[k].blocks += (uint16_t)((to - from) / class_bytes(class));
		t->chunks[k].entries += 2;
	}
}

static void tally_class(struct tally *t, void *base, unsigned class)
{
	const struct class_state *s = &header(base)->classes[class];
	for (uint32_t i = 0; i < header(base)->threads; i++) {
		const struct cache *c = cache(base, i, class);
		tally_list(t, base, stock_of(base, get(&c->list)).first, 2);
		tally_list(t, base, stock_of(base, get(&c->full)).first, 2);
		tally_range(t, base, get(&c->carve), get(&c->carve_end), class);
	}
	tally_range(t, base, get(&s->carve), get(&s->carve_end), class);
	for (uint64_t list = old_form(base) ? get(old_lists(base, class)) : 0; list;
	        list = get(&block_at(list)->depth))
		tally_list(t, base, list, 4);
}

/* The chunk of the window that is free and costs least, or 0.  It is struck off. */
static uint64_t cheapest(struct tally *t, const void *base)
{
	uint64_t best = 0, least = UINT64_MAX;
	for (uint64_t k = 0; k < WINDOW && t->first + k < header(base)->chunks; k++) {
		uint64_t kind = get(&chunk(base, t->first + k)->kind), found = t->chunks[k].blocks;
		if (kind_is_small(kind) && found && t->chunks[k].entries < least &&
		        found + listed_of(base, t->first + k).count ==
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

/* The list without the blocks of the chunk. */
static struct stock without(fur_update *tx, const void *base, struct stock list, uint64_t number)
{
	uint64_t first = 0, kept = 0;
	bool passed = false;
	for (uint64_t at = list.first, next; at; at = next) {
		next = get(&block_at(at)->next);
		if (chunk_of(base, at) == number) {
			passed = true;
			list.count--;
			continue;
		}
		if (kept && passed)
			put(tx, &block_at(kept)->next, at);
		first = first ? first : at;
		kept = at;
		passed = false;
	}
	if (kept && passed)
		put(tx, &block_at(kept)->next, 0);
	return (struct stock){first, list.count};
}

static void take_from_stock(fur_update *tx, void *base, uint64_t *word, uint64_t number)
{
	struct stock list = stock_of(base, get(word)), rest = without(tx, base, list, number);
	if (rest.count != list.count)
		put(tx, word, stock_word(base, rest.first, rest.count));
}

static void take_from_range(
        fur_update *tx, void *base, uint64_t *from, uint64_t *to, uint64_t number)
{
	if (get(from) != get(to) && chunk_of(base, get(from)) == number) {
		put(tx, from, 0);
		put(tx, to, 0);
	}
}

static void take_from_old_lists(fur_update *tx, void *base, unsigned class, uint64_t number)
{
	uint64_t *link = old_lists(base, class);
	for (uint64_t list = get(link), after; list; list = after) {
		struct stock all = {list, BATCH_MOST}, rest = without(tx, base, all, number);
		after = get(&block_at(list)->depth);
		if (rest.count != all.count) {
			if (rest.first && rest.first != list)
				put(tx, &block_at(rest.first)->depth, after);
			put_old_list(tx, base, class, link, rest.first ? rest.first : after);
		}
		if (rest.first)
			link = &block_at(rest.first)->depth;
	}
}

static void take_chunk(fur_update *tx, void *base, uint64_t number)
{
	unsigned class = kind_class(get(&chunk(base, number)->kind));
	struct class_state *s = &header(base)->classes[class];
	for (uint32_t i = 0; i < header(base)->threads; i++) {
		struct cache *c = cache(base, i, class);
		take_from_stock(tx, base, &c->list, number);
		take_from_stock(tx, base, &c->full, number);
		take_from_range(tx, base, &c->carve, &c->carve_end, number);
	}
	take_from_range(tx, base, &s->carve, &s->carve_end, number);
	if (old_form(base))
		take_from_old_lists(tx, base, class, number);
	alloc_give_chunk(tx, base, class, number);
}

/* Chunks that have all their blocks, of the classes that keep them. */
static bool give_kept_chunks(fur_update *tx, void *base, uint64_t want)
{
	for (unsigned class = 0; class < CLASSES; class ++) {
		if (!class_keeps_chunks(class))
			continue;
		uint64_t link = get(&header(base)->classes[class].depot), next;
		for (; is_chunk_link(link) && affords(tx, GIVE_ENTRIES); link = next) {
			next = get(&chunk_list(base, link >> 1)->next);
			if (listed_of(base, link >> 1).count != blocks_in_chunk(class))
				continue;
			alloc_give_chunk(tx, base, class, link >> 1);
			if (alloc_find_run(base, want))
				return true;
		}
	}
	return false;
}

bool alloc_reclaim(fur_update *tx, void *base, uint64_t want)
{
	if (want > header(base)->chunks)
		return false;
	if ((old_form(base) && sort_old_lists(tx, base, want)) || give_kept_chunks(tx, base, want))
		return true;
	for (uint64_t first = header(base)->first_chunk; first < header(base)->chunks;
	        first += WINDOW) {
		struct tally t = {.first = first};
		for (unsigned class = 0; class < CLASSES; class ++)
			tally_class(&t, base, class);
		for (uint64_t number; (number = cheapest(&t, base));) {
			/* `entries` was not struck off */
			if (!affords(tx, t.chunks[number - first].entries + GIVE_ENTRIES))
				return false;
			take_chunk(tx, base, number);
			if (alloc_find_run(base, want))
				return true;
		}
	}
	return false;
}
