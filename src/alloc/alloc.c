/* SPDX-License-Identifier: BSD-3-Clause
 *
 * alloc.c - the transactional allocator: fur_alloc and fur_free are ordinary updates of the
 * structures in media/heap_layout.h.
 *
 * A block freed by an update may be handed out again as soon as that update has committed: its
 * isolation wait has outlived every reader that could still see the block, and the next owner's
 * update depends on this one (INV-D3), so recovery cannot keep the new owner's without the old
 * one's.
 *
 * Threads work on stocks of their own.  A thread that has too many blocks of a class gives some
 * back to the chunks they are from; one that has none takes what chunks have, or carves a new
 * range.  So updates that allocate rarely conflict for it, and memory moves from one size to
 * another: a chunk that has all its blocks back is a free run of chunks again.
 *
 * Blocks in stocks keep their chunks.  When the heap is full, reclaim.c looks for chunks of which
 * nothing else is left.
 */
#include "alloc/alloc_parts.h"

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
	if (run == 1)
		return;
	put(tx, &chunk(base, number + run - 1)->kind, CHUNK_FREE);
	put(tx, &chunk(base, number + run - 1)->run, run);
}

uint64_t alloc_find_run(const void *base, uint64_t want)
{
	uint64_t at = get(&header(base)->free_runs);
	while (at && get(&chunk(base, at)->run) < want)
		at = get(&chunk(base, at)->next);
	return at;
}

/* Take `want` chunks from the end of the first free run that has them; its head and links stay.
 * The first chunk's number, or 0. */
static uint64_t take_run(fur_update *tx, void *base, uint64_t want, uint64_t kind)
{
	uint64_t at = alloc_find_run(base, want);
	if (!at)
		return 0;
	uint64_t run = get(&chunk(base, at)->run), taken = at + run - want;
	put(tx, &chunk(base, at + run - 1)->kind, CHUNK_INNER);
	if (run == want)
		unlink_run(tx, base, at);
	else
		mark_free(tx, base, at, run - want);
	put(tx, &chunk(base, taken)->kind, kind);
	put(tx, &chunk(base, taken)->run, want);
	return taken;
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

/* -------------------------------------------------- the free lists of chunks */

static void list_chunk(fur_update *tx, void *base, unsigned class, uint64_t number)
{
	struct chunk_list *l = chunk_list(base, number);
	struct class_state *s = &header(base)->classes[class];
	uint64_t first = get(&s->depot);
	put(tx, &l->next, first);
	put(tx, &l->prev, 0);
	if (is_chunk_link(first))
		put(tx, &chunk_list(base, first >> 1)->prev, number);
	put(tx, &s->depot, chunk_link(number));
}

static void unlist_chunk(fur_update *tx, void *base, unsigned class, uint64_t number)
{
	struct chunk_list *l = chunk_list(base, number);
	uint64_t next = get(&l->next), prev = get(&l->prev);
	put(tx, prev ? &chunk_list(base, prev)->next : &header(base)->classes[class].depot, next);
	if (is_chunk_link(next))
		put(tx, &chunk_list(base, next >> 1)->prev, prev);
	/* The update that takes its neighbour off the list writes this word too (INV-A3). */
	put(tx, &l->next, 0);
}

void alloc_give_chunk(fur_update *tx, void *base, unsigned class, uint64_t number)
{
	if (listed_of(base, number).count)
		unlist_chunk(tx, base, class, number);
	put(tx, &chunk_list(base, number)->blocks, 0);
	put(tx, &chunk(base, number)->run, 1); /* in an old heap that was the same word */
	give_run(tx, base, number);
}

/* Where logs are small, nothing is put off that an update would have to do at once when the heap is
 * full. */
enum { KEEP_CHUNKS_LOG = 65536 };
static bool keeps_chunks(const fur_update *tx, unsigned class)
{
	return class_keeps_chunks(class) && log_bytes(tx) >= KEEP_CHUNKS_LOG;
}

void alloc_give_blocks(
        fur_update *tx, void *base, unsigned class, uint64_t first, uint64_t last, uint64_t n)
{
	uint64_t number = chunk_of(base, first);
	struct listed l = listed_of(base, number);
	if (l.count + n == blocks_in_chunk(class) && !keeps_chunks(tx, class)) {
		alloc_give_chunk(tx, base, class, number);
		return;
	}
	put(tx, &block_at(last)->next, l.first);
	if (!l.count) {
		list_chunk(tx, base, class, number);
		l.last = last;
	}
	put(tx, &chunk_list(base, number)->blocks,
	        listed_word((struct listed){first, l.last, l.count + n}));
}

struct stock alloc_give_list(
        fur_update *tx, void *base, unsigned class, struct stock list, unsigned runs, uint64_t most)
{
	for (; runs && most && list.first; runs--) {
		uint64_t first = list.first, last = first, next = get(&block_at(first)->next),
		         n = 1;
		for (; n < most && next && chunk_of(base, next) == chunk_of(base, first); n++) {
			last = next;
			next = get(&block_at(next)->next);
		}
		alloc_give_blocks(tx, base, class, first, last, n);
		list = (struct stock){next, list.count - n};
		most -= n;
	}
	return list;
}

/* ------------------------------------------------------------ small blocks */

/* How much one update gives or takes of what threads share: so many chunks, and blocks. */
enum { SHARE_CHUNKS = 8, SHARE_BLOCKS = 32 };
/* A stock that no redo log is too small for: see stock_most().  And one that must shrink, whatever
 * the log: its count has 16 bits. */
enum { STOCK_LEAST = 4, STOCK_LOG_PART = 256, STOCK_MUST_SHRINK = 32768 };

/* Two batches.  Fewer where logs are small: reclaim.c may have to log a word for every block that
 * threads have in stock. */
static uint64_t stock_most(const fur_update *tx, unsigned class)
{
	uint64_t most = 2 * batch_of(class), logged = log_bytes(tx) / STOCK_LOG_PART;
	return most < logged ? most : logged > STOCK_LEAST ? logged : STOCK_LEAST;
}

static void *pop(fur_update *tx, void *base, struct cache *c)
{
	struct stock list = stock_of(base, get(&c->list));
	if (!list.first) /* the update has failed just now: from_cache() has stored nothing */
		return NULL;
	put(tx, &c->list, stock_word(base, get(&block_at(list.first)->next), list.count - 1));
	return block_at(list.first);
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
	uint64_t bytes = class_bytes(class), at = get(&s->carve), end = get(&s->carve_end),
	         kind = CHUNK_SMALL | (uint64_t) class << 8;
	if (at == end) {
		uint64_t number = take_run(tx, base, 1, kind);
		if (!number)
			return false;
		at = chunk_address(base, number);
		end = at + blocks_in_chunk(class) * bytes;
		put(tx, &s->carve_end, end);
	}
	uint64_t upto = at + batch_of(class) * bytes;
	if (upto >= end) {
		upto = end;
		put(tx, &chunk(base, chunk_of(base, at))->kind, kind | CHUNK_CUT);
	}
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
static void *from_cache(fur_update *tx, void *base, struct cache *c, unsigned class)
{
	if (!get(&c->list) && get(&c->carve) != get(&c->carve_end))
		return carve(tx, c, class_bytes(class));
	if (!get(&c->list)) {
		put(tx, &c->list, get(&c->full));
		put(tx, &c->full, 0);
	}
	return pop(tx, base, c);
}

/* An old list, whole. */
static void take_old_list(
        fur_update *tx, void *base, struct cache *c, struct class_state *s, uint64_t list)
{
	uint64_t count = 1;
	for (uint64_t at = list; (at = get(&block_at(at)->next));)
		count++;
	put(tx, &s->depot, get(&block_at(list)->depth));
	put(tx, &c->list, stock_word(base, list, count));
}

/* What the first chunks have that have any. */
static bool from_chunks(fur_update *tx, void *base, struct cache *c, unsigned class)
{
	struct class_state *s = &header(base)->classes[class];
	uint64_t link = get(&s->depot), first = 0, count = 0, enough = batch_of(class);
	if (!link)
		return false;
	if (!is_chunk_link(link)) {
		take_old_list(tx, base, c, s, link);
		return true;
	}
	for (unsigned k = 0;
	        k < SHARE_CHUNKS && is_chunk_link(link) && count < SHARE_BLOCKS && count < enough;
	        k++) {
		struct listed l = listed_of(base, link >> 1);
		struct chunk_list *from = chunk_list(base, link >> 1);
		link = get(&from->next);
		put(tx, &from->blocks, 0);
		put(tx, &from->next, 0);
		if (first)
			put(tx, &block_at(l.last)->next, first);
		first = l.first;
		count += l.count;
	}
	put(tx, &s->depot, link);
	if (is_chunk_link(link))
		put(tx, &chunk_list(base, link >> 1)->prev, 0);
	put(tx, &c->list, stock_word(base, first, count));
	return true;
}

/* The heap is full: what other threads have in stock is memory too. */
static struct cache *other_stock(void *base, unsigned class)
{
	for (uint32_t i = 0; i < header(base)->threads; i++)
		if (stocked(cache(base, i, class)))
			return cache(base, i, class);
	return NULL;
}

static void *alloc_small(fur_update *tx, void *base, uint32_t slot, unsigned class)
{
	struct cache *c = cache(base, slot, class);
	if (!stocked(c) && !from_chunks(tx, base, c, class) && !refill(tx, base, c, class)) {
		struct cache *other = other_stock(base, class);
		if (other)
			c = other;
		else if (!alloc_reclaim(tx, base, 1) || !refill(tx, base, c, class))
			return NULL;
	}
	/* An update that has failed, here at the latest, has stocked nothing. */
	return tx->error ? NULL : from_cache(tx, base, c, class);
}

/* Give some of a stock that is too large back to the chunks, the last freed first: their lines are
 * in the cache. */
static void shrink(fur_update *tx, void *base, struct cache *c, unsigned class, uint64_t most)
{
	struct stock list = stock_of(base, get(&c->list));
	/* The program's own stores come first.  What stays is given back by an update that frees
	 * less. */
	if (log_room(tx) < log_bytes(tx) / 2 && list.count < STOCK_MUST_SHRINK)
		return;
	/* Down to half of what is too much, so that turns of alloc and free at the edge do not come
	 * here each time. */
	uint64_t give = list.count - most / 2;
	list = alloc_give_list(
	        tx, base, class, list, SHARE_CHUNKS, give < SHARE_BLOCKS ? give : SHARE_BLOCKS);
	put(tx, &c->list, stock_word(base, list.first, list.count));
}

static void free_small(fur_update *tx, void *base, uint32_t slot, unsigned class, uint64_t address)
{
	struct cache *c = cache(base, slot, class);
	struct stock list = stock_of(base, get(&c->list));
	uint64_t most = stock_most(tx, class);
	put(tx, &block_at(address)->next, list.first);
	put(tx, &c->list, stock_word(base, address, list.count + 1));
	if (list.count >= most && !tx->error)
		shrink(tx, base, c, class, most);
}

/* ------------------------------------------------------------------ blocks */

void *alloc_block(fur_update *tx, void *base, uint32_t slot, uint64_t bytes)
{
	void *block = NULL;
	if (tx->error || bytes > header(base)->bytes)
		return NULL;
	if (bytes <= SMALL_MOST) {
		block = alloc_small(tx, base, slot, class_of(bytes));
	} else {
		uint64_t want = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES,
		         number = take_run(tx, base, want, CHUNK_LARGE);
		if (!number && alloc_reclaim(tx, base, want))
			number = take_run(tx, base, want, CHUNK_LARGE);
		block = number ? block_at(chunk_address(base, number)) : NULL;
	}
	/* The log may have been filled here.  The block is then still where it was. */
	return tx->error ? NULL : block;
}

/* What the chunk of an address says about it; kind INNER for what is no block. */
struct found {
	uint64_t kind, number, bytes;
	unsigned class;
	bool cut; /* SMALL: all the chunk's blocks have been given to threads */
};

static struct found find(const void *base, const void *block)
{
	const struct heap_header *h = header(base);
	uint64_t offset = (uint64_t)((uintptr_t)block - (uintptr_t)base),
	         within = offset % CHUNK_BYTES;
	struct found f = {CHUNK_INNER, offset / CHUNK_BYTES, 0, 0, false};
	if (offset >= h->chunks * CHUNK_BYTES)
		return f;
	uint64_t kind = get(&chunk(base, f.number)->kind);
	f.class = kind_class(kind);
	if (kind_is_small(kind) && within % class_bytes(f.class) == 0 &&
	        within / class_bytes(f.class) < blocks_in_chunk(f.class)) {
		f.kind = CHUNK_SMALL;
		f.bytes = class_bytes(f.class);
		f.cut = kind & CHUNK_CUT;
	} else if (kind == CHUNK_LARGE && within == 0) {
		f.kind = CHUNK_LARGE;
		f.bytes = get(&chunk(base, f.number)->run) * CHUNK_BYTES;
	}
	return f;
}

/* Is this small block certainly not allocated?  Blocks further down a list, or in another thread's
 * range, are not noticed: looking there would make updates conflict. */
static bool free_already(const void *base, uint32_t slot, const struct found *f, uint64_t address)
{
	const struct cache *c = cache(base, slot, f->class);
	uint64_t carve = get(&c->carve), end = get(&c->carve_end);
	if (address == stock_of(base, get(&c->list)).first || (address >= carve && address < end))
		return true;
	/* The class's own range is another's to write: it is read only for a block that may be in
	 * it, one of the newest chunk behind this thread's range. */
	if (f->cut || (carve && chunk_of(base, carve - 1) == f->number && address < carve))
		return false;
	const struct class_state *s = &header(base)->classes[f->class];
	return address >= get(&s->carve) && address < get(&s->carve_end);
}

bool alloc_free(fur_update *tx, void *base, uint32_t slot, void *block)
{
	struct found f = find(base, block);
	if (f.kind == CHUNK_INNER ||
	        (f.kind == CHUNK_SMALL && free_already(base, slot, &f, (uintptr_t)block)))
		return false;
	if (f.kind == CHUNK_SMALL)
		free_small(tx, base, slot, f.class, (uintptr_t)block);
	else
		give_run(tx, base, f.number);
	return true;
}

uint64_t alloc_usable_bytes(const void *base, const void *block)
{
	return find(base, block).bytes;
}
