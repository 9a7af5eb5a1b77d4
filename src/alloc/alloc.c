/* SPDX-License-Identifier: BSD-3-Clause
 *
 * alloc.c - the transactional allocator: fur_alloc and fur_free are ordinary updates of the
 * structures in media/heap_layout.h.
 *
 * The allocator may hand out a freed block again as soon as the update that freed it has committed.
 * By then that update's isolation wait has outlasted every reader that could still see the block.
 * And the next owner's update depends on that update (INV-D3), so recovery never keeps the next
 * owner's update without it.
 *
 * Each thread works on stocks of its own.  A thread that has too many blocks of a class gives some
 * back to the chunks they are from.  A thread that has none takes free blocks from chunks, or
 * carves a new range.  So allocation rarely makes updates conflict.  Memory also moves from one
 * size to another, because a chunk that has all its blocks back becomes a free run of chunks again.
 *
 * A chunk cannot become free while some of its blocks are in stocks.  When the heap is full,
 * reclaim.c looks for chunks whose other blocks are all free, and takes those blocks out of the
 * stocks.
 */
#include "alloc/alloc_parts.h"
#include "tx/blocks.h"
#include "update/fresh.h"

uint64_t *alloc_roots(void *base)
{
	return header(base)->roots;
}

/* ------------------------------------------------------------ small blocks */

/* The most chunks and blocks that one update gives to, or takes from, the lists that threads
 * share. */
enum { SHARE_CHUNKS = 8, SHARE_BLOCKS = 32 };
/* STOCK_LEAST: every redo log has room for a stock of this size; see stock_most().
 * STOCK_MUST_SHRINK: a stock of this size must shrink even if the log is short of room, because the
 * count has 16 bits. */
enum { STOCK_LEAST = 4, STOCK_LOG_PART = 256, STOCK_MUST_SHRINK = 32768 };

/* The most blocks that a thread keeps in stock: two batches, but fewer if logs are small, because
 * reclaim.c may have to log a word for every block in stock. */
static uint64_t stock_most(const fur_update *tx, unsigned class)
{
	uint64_t most = 2 * batch_of(class), logged = log_bytes(tx) / STOCK_LOG_PART;
	return most < logged ? most : logged > STOCK_LEAST ? logged : STOCK_LEAST;
}

static void *pop_block(fur_update *tx, void *base, struct cache *c, unsigned class)
{
	struct stock list = stock_of(tx, base, class, get_word(tx, &c->list));
	/* 0: the update has just failed, so take_from_cache() has stored nothing */
	if (!list.first || !sound_block(tx, base, class, list.first))
		return NULL;
	put_word(tx, &c->list,
	        stock_word(base, get_word(tx, &block_at(list.first)->next), list.count - 1));
	return block_at(list.first);
}

static void *carve_block(fur_update *tx, void *base, struct cache *c, unsigned class)
{
	uint64_t at = get_word(tx, &c->carve);
	if (!sound_range(tx, base, class, at, get_word(tx, &c->carve_end)))
		return NULL;
	put_word(tx, &c->carve, at + class_bytes(class));
	return block_at(at);
}

/* Give this thread a new range, from the class's newest chunk or from a new chunk.  False: there is
 * no chunk. */
static bool refill_range(fur_update *tx, void *base, struct cache *c, unsigned class)
{
	struct class_state *s = &header(base)->classes[class];
	uint64_t bytes = class_bytes(class), at = get_word(tx, &s->carve),
	         end = get_word(tx, &s->carve_end), kind = small_kind(class);
	if (at == end) {
		uint64_t number = alloc_take_run(tx, base, 1, kind);
		if (!number)
			return false;
		at = chunk_address(base, number);
		end = at + blocks_in_chunk(class) * bytes;
		put_word(tx, &s->carve_end, end);
	} else if (!sound_range(tx, base, class, at, end)) {
		return false;
	}
	uint64_t upto = at + batch_of(class) * bytes;
	if (upto >= end) {
		upto = end;
		put_word(tx, &chunk(base, chunk_of(base, at))->kind, kind | CHUNK_CUT);
	}
	put_word(tx, &s->carve, upto);
	put_word(tx, &c->carve, at);
	put_word(tx, &c->carve_end, upto);
	return true;
}

static bool has_stock(fur_update *tx, const struct cache *c)
{
	return get_word(tx, &c->list) || get_word(tx, &c->full) ||
	       get_word(tx, &c->carve) != get_word(tx, &c->carve_end);
}

/* Take a block from a cache that has some. */
static void *take_from_cache(fur_update *tx, void *base, struct cache *c, unsigned class)
{
	FUR_ASSERT(has_stock(tx, c));
	if (!get_word(tx, &c->list) && get_word(tx, &c->carve) != get_word(tx, &c->carve_end))
		return carve_block(tx, base, c, class);
	if (!get_word(tx, &c->list)) {
		put_word(tx, &c->list, get_word(tx, &c->full));
		put_word(tx, &c->full, 0);
	}
	return pop_block(tx, base, c, class);
}

/* Take an old list, whole.  False: it is damaged. */
static bool take_old_list(
        fur_update *tx, void *base, struct cache *c, unsigned class, uint64_t list)
{
	uint64_t count = 0;
	for (uint64_t at = list; at; at = get_word(tx, &block_at(at)->next)) {
		if (!sound_block(tx, base, class, at))
			return false;
		if (++count > LIST_MOST)
			return alloc_damaged(tx, list);
	}
	put_word(tx, &header(base)->classes[class].depot, get_word(tx, &block_at(list)->depth));
	put_word(tx, &c->list, stock_word(base, list, count));
	return true;
}

/* Take the free blocks of the first chunks on the class's list.  False: there are none. */
static bool take_from_chunks(fur_update *tx, void *base, struct cache *c, unsigned class)
{
	struct class_state *s = &header(base)->classes[class];
	uint64_t link = get_word(tx, &s->depot), first = 0, count = 0, enough = batch_of(class);
	if (!link || !sound_link(tx, base, class, link))
		return false;
	if (!is_chunk_link(link))
		return take_old_list(tx, base, c, class, link);
	for (unsigned k = 0;
	        k < SHARE_CHUNKS && is_chunk_link(link) && count < SHARE_BLOCKS && count < enough;
	        k++) {
		struct listed l = listed_of(tx, base, link >> 1);
		struct chunk_list *from = chunk_list(base, link >> 1);
		if (!sound_block(tx, base, class, l.first) || !sound_block(tx, base, class, l.last))
			return false;
		link = get_word(tx, &from->next);
		if (!sound_link(tx, base, class, link))
			return false;
		put_word(tx, &from->blocks, 0);
		put_word(tx, &from->next, 0);
		if (first)
			put_word(tx, &block_at(l.last)->next, first);
		first = l.first;
		count += l.count;
	}
	put_word(tx, &s->depot, link);
	if (is_chunk_link(link))
		put_word(tx, &chunk_list(base, link >> 1)->prev, 0);
	put_word(tx, &c->list, stock_word(base, first, count));
	return true;
}

/* Find any thread's cache that has stock, or return NULL.  Used when the heap is full, because
 * blocks that other threads have in stock are memory too. */
static struct cache *find_other_stock(fur_update *tx, void *base, unsigned class)
{
	for (uint32_t i = 0; i < header(base)->threads; i++)
		if (has_stock(tx, cache(base, i, class)))
			return cache(base, i, class);
	return NULL;
}

static void *alloc_small(fur_update *tx, void *base, uint32_t thread, unsigned class, int *error)
{
	struct cache *c = cache(base, thread, class);
	if (!has_stock(tx, c) && !take_from_chunks(tx, base, c, class) &&
	        !refill_range(tx, base, c, class) &&
	        !(alloc_extend(tx, base, 1, error) && refill_range(tx, base, c, class))) {
		struct cache *other = find_other_stock(tx, base, class);
		if (other)
			c = other;
		else if (!alloc_reclaim(tx, base, 1) || !refill_range(tx, base, c, class))
			return NULL;
	}
	/* If the update has failed, here or before, the cache may have no stock. */
	return tx->error ? NULL : take_from_cache(tx, base, c, class);
}

/* Give some blocks of a stock that is too large back to their chunks, beginning with the blocks
 * freed last: their lines are in the processor's cache. */
static void shrink_stock(fur_update *tx, void *base, struct cache *c, unsigned class, uint64_t most)
{
	struct stock list = stock_of(tx, base, class, get_word(tx, &c->list));
	/* The program's own stores come first: if they have used half the log, a later update that
	 * logs less gives these blocks back. */
	if (log_room(tx) < log_bytes(tx) / 2 && list.count < STOCK_MUST_SHRINK)
		return;
	/* Shrink to half of `most`.  Otherwise a program that alternately allocates and frees at
	 * the limit would shrink the stock each time. */
	uint64_t give = list.count - most / 2;
	list = alloc_give_list(
	        tx, base, class, list, SHARE_CHUNKS, give < SHARE_BLOCKS ? give : SHARE_BLOCKS);
	put_word(tx, &c->list, stock_word(base, list.first, list.count));
}

static void free_small(
        fur_update *tx, void *base, uint32_t thread, unsigned class, uint64_t address)
{
	struct cache *c = cache(base, thread, class);
	struct stock list = stock_of(tx, base, class, get_word(tx, &c->list));
	uint64_t most = stock_most(tx, class);
	put_word(tx, &block_at(address)->next, list.first);
	put_word(tx, &c->list, stock_word(base, address, list.count + 1));
	if (list.count >= most && !tx->error)
		shrink_stock(tx, base, c, class, most);
}

/* ------------------------------------------------------------------ blocks */

void *alloc_block(fur_update *tx, void *base, uint32_t thread, uint64_t bytes)
{
	void *block = NULL;
	uint64_t usable = 0;
	int error = 0;
	if (tx->error || bytes > header(base)->bytes)
		return NULL;
	if (bytes <= SMALL_MOST) {
		usable = class_bytes(class_of(bytes));
		block = alloc_small(tx, base, thread, class_of(bytes), &error);
	} else {
		uint64_t want = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES,
		         number = alloc_take_run(tx, base, want, CHUNK_LARGE);
		if (!number &&
		        (alloc_extend(tx, base, want, &error) || alloc_reclaim(tx, base, want)))
			number = alloc_take_run(tx, base, want, CHUNK_LARGE);
		block = number ? block_at(chunk_address(base, number)) : NULL;
		usable = want * CHUNK_BYTES;
		if (block)
			fresh_note(tx, block, usable);
	}
	/* There is memory up to the largest size, but the disk is full or has failed: the commit
	 * reports that. */
	if (!block && error)
		tx_fail_saying(tx, error);
	/* If the allocator itself has filled the log, the block is still in its old place. */
	if (tx->error || !block)
		return NULL;
	if (unlikely(tx->flags & TX_CHECKED))
		blocks_taken(tx, block, usable);
	return block;
}

/* Bytes rounded up to the alignment have a class whose size is a multiple of the alignment
 * (alloc_classes.h), and chunks begin at multiples of the largest alignment.  So every block of
 * that class begins and ends at a multiple of the alignment.  Nothing in the heap records that a
 * block was allocated so: it is an ordinary block of its class. */
_Static_assert(FUR_MOST_ALIGNMENT == CHUNK_BYTES, "a chunk lies at a multiple of its size");
_Static_assert(FUR_CACHE_LINE == ARCH_PAD, "one idea of how far apart unrelated words lie");

void *alloc_aligned(fur_update *tx, void *base, uint32_t thread, uint64_t bytes, uint64_t alignment)
{
	FUR_ASSERT(is_alignment(alignment));
	if (bytes > header(base)->bytes) /* and the sum below cannot overflow */
		return NULL;
	uint64_t least = bytes ? bytes : 1;
	return alloc_block(tx, base, thread, (least + alignment - 1) & ~(alignment - 1));
}

/* What the chunk of an address records about the block there.  Kind INNER: no block begins there.
 * find_block() also runs outside any update; `tx` is NULL then. */
struct found {
	uint64_t kind, number, bytes;
	unsigned class;
	bool cut; /* SMALL: all the chunk's blocks have been given to threads */
};

static struct found find_block(fur_update *tx, const void *base, const void *block)
{
	const struct heap_header *h = header(base);
	uint64_t offset = (uint64_t)((uintptr_t)block - (uintptr_t)base),
	         within = offset % CHUNK_BYTES;
	struct found f = {CHUNK_INNER, offset / CHUNK_BYTES, 0, 0, false};
	if (offset >= h->chunks * CHUNK_BYTES)
		return f;
	uint64_t kind = get_word_anywhere(tx, &chunk(base, f.number)->kind);
	f.class = kind_class(kind);
	if (kind_is_small(kind) && within % class_bytes(f.class) == 0 &&
	        within / class_bytes(f.class) < blocks_in_chunk(f.class)) {
		f.kind = CHUNK_SMALL;
		f.bytes = class_bytes(f.class);
		f.cut = kind & CHUNK_CUT;
	} else if (kind == CHUNK_LARGE && within == 0) {
		f.kind = CHUNK_LARGE;
		f.bytes = get_word_anywhere(tx, &chunk(base, f.number)->run) * CHUNK_BYTES;
	}
	return f;
}

/* Is this small block certainly not allocated?  Does not notice free blocks further down a list, or
 * in another thread's range: a look there would make updates conflict. */
static bool is_free_already(
        fur_update *tx, const void *base, uint32_t thread, const struct found *f, uint64_t address)
{
	const struct cache *c = cache(base, thread, f->class);
	uint64_t carve = get_word(tx, &c->carve), end = get_word(tx, &c->carve_end);
	if (address == stock_of(tx, base, f->class, get_word(tx, &c->list)).first ||
	        (address >= carve && address < end))
		return true;
	/* Any thread may write the class's own range, so read that only for a block that may lie in
	 * it: a block of the newest chunk, and after this thread's range. */
	if (f->cut || (carve && chunk_of(base, carve - 1) == f->number && address < carve))
		return false;
	const struct class_state *s = &header(base)->classes[f->class];
	return address >= get_word(tx, &s->carve) && address < get_word(tx, &s->carve_end);
}

/* The first bytes of a free block that the allocator uses. */
static uint64_t kept_bytes(const void *base, const struct found *f)
{
	if (f->kind != CHUNK_SMALL)
		return 0;
	return header(base)->lists ? sizeof(uint64_t) : sizeof(struct free_block);
}

bool alloc_free(fur_update *tx, void *base, uint32_t thread, void *block)
{
	struct found f = find_block(tx, base, block);
	if (f.kind == CHUNK_INNER ||
	        (f.kind == CHUNK_SMALL &&
	                (is_free_already(tx, base, thread, &f, (uintptr_t)block) ||
	                        (unlikely(tx->find_free) &&
	                                alloc_find_free(tx, base, f.class, (uintptr_t)block)))))
		return false;
	if (unlikely(tx->flags & TX_CHECKED))
		blocks_freed(tx, block, f.bytes, kept_bytes(base, &f));
	if (f.kind == CHUNK_SMALL)
		free_small(tx, base, thread, f.class, (uintptr_t)block);
	else
		alloc_give_used_run(tx, base, f.number);
	return true;
}

uint64_t alloc_usable_bytes(fur_update *tx, const void *base, const void *block)
{
	return find_block(tx, base, block).bytes;
}
