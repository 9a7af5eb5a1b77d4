/* SPDX-License-Identifier: BSD-3-Clause
 *
 * alloc_parts.h - where the allocator's structures lie, and how the files of this folder
 * read and write them.
 *
 * If the update has failed, its stores do nothing.  So no loop of the allocator may rely on its own
 * stores for its end.
 */
#ifndef FUR_ALLOC_PARTS_H
#define FUR_ALLOC_PARTS_H

#include "alloc/alloc.h"
#include "alloc/alloc_classes.h"
#include "base/error.h"
#include "media/heap_layout.h"
#include "update/update.h"

/* Read a word that updates change.  The caller runs in the body of `tx`, whose own stores the load
 * must see.
 * Plain loads read the words that never change once the heap is formatted: of the header, bytes,
 * threads, chunks, table, first_chunk and lists, and whether `grown` is 0. */
static inline uint64_t get_word(fur_update *tx, const uint64_t *word)
{
	FUR_ASSERT(tx);
	return fur_load(tx, word);
}

/* The same, but also outside any update: `tx` is NULL there. */
static inline uint64_t get_word_anywhere(fur_update *tx, const uint64_t *word)
{
	return tx ? get_word(tx, word) : arch_load(word);
}

static inline void put_word(fur_update *tx, uint64_t *word, uint64_t value)
{
	fur_store_bits(tx, word, value, 8);
}

/* How many bytes the update may still log, after a replay if necessary; 0 if the update has
 * failed. */
static inline uint64_t log_room(const fur_update *tx)
{
	uint64_t used = tx->log->write_at - tx->log->open_at,
	         most = tx->thread->durability->super->log_bytes;
	return tx->error || used > most ? 0 : most - used;
}

static inline uint64_t log_bytes(const fur_update *tx)
{
	return tx->thread->durability->super->log_bytes;
}

/* --------------------------------------------------------------- addresses */

static inline struct cache *cache(const void *base, uint32_t thread, unsigned class)
{
	FUR_ASSERT(class < CLASSES);
	const uint64_t stocks = header(base)->threads;
	struct thread_caches *all = (struct thread_caches *)((uintptr_t)base + caches_offset());
	/* Transactions that share one conflict, as with all other words: media_stocks(). */
	return &all[thread < stocks ? thread : thread % stocks].classes[class];
}

static inline struct chunk_list *chunk_list(const void *base, uint64_t number)
{
	FUR_ASSERT(number < header(base)->chunks);
	return (struct chunk_list *)((uintptr_t)base + lists_offset(header(base))) + number;
}

static inline uint64_t chunk_address(const void *base, uint64_t number)
{
	return (uintptr_t)base + number * CHUNK_BYTES;
}

static inline uint64_t chunk_of(const void *base, uint64_t address)
{
	return (address - (uintptr_t)base) / CHUNK_BYTES;
}

static inline struct free_block *block_at(uint64_t address)
{
	return (struct free_block *)(uintptr_t)address;
}

/* ------------------------------------------------------------------ damage */

/* The contents of the heap have no checksums (docs/damage.md).  So no address and no number that
 * the allocator reads from its lists is used before one of these functions has looked at it, and
 * each walk along a list has a bound. */

/* The update fails with FUR_ECORRUPT: the allocator's data at `at`, an address in the heap or not,
 * contradict each other.  In a hardware transaction that aborts it, and the update runs again in
 * software.  Returns false. */
bool alloc_damaged(fur_update *tx, uint64_t at);

static inline bool is_chunk_of(fur_update *tx, const void *base, unsigned class, uint64_t number)
{
	return number < header(base)->chunks &&
	       (get_word(tx, &chunk(base, number)->kind) & ~CHUNK_CUT) == small_kind(class);
}

/* Is this the address of a block of the class, in use or free? */
static inline bool is_block(fur_update *tx, const void *base, unsigned class, uint64_t address)
{
	const uint32_t within = (uint32_t)(address - (uintptr_t)base) % CHUNK_BYTES,
	               bytes = (uint32_t)class_bytes(class);
	return is_chunk_of(tx, base, class, chunk_of(base, address)) && within % bytes == 0 &&
	       within + bytes <= CHUNK_BYTES;
}

static inline bool sound_block(fur_update *tx, const void *base, unsigned class, uint64_t address)
{
	return likely(is_block(tx, base, class, address)) || alloc_damaged(tx, address);
}

/* Do the class's blocks of one chunk fill the range, which is not empty? */
static inline bool sound_range(
        fur_update *tx, const void *base, unsigned class, uint64_t from, uint64_t to)
{
	return likely(from < to && chunk_of(base, to - 1) == chunk_of(base, from) &&
	               is_block(tx, base, class, from)) ||
	       alloc_damaged(tx, from);
}

/* class_state.depot or chunk_list.next of the class: 0, or what it may name. */
static inline bool sound_link(fur_update *tx, const void *base, unsigned class, uint64_t link)
{
	if (!link ||
	        (is_chunk_link(link) ? is_chunk_of(tx, base, class, link >> 1)
	                             : !header(base)->lists && is_block(tx, base, class, link)))
		return true;
	return alloc_damaged(tx, is_chunk_link(link) ? chunk_address(base, link >> 1) : link);
}

/* No list is longer: a stock's count has 16 bits. */
enum { LIST_MOST = 65535 };

/* sound_block() for each block of a walk along a list that may be a circle.  `most` begins as
 * LIST_MOST. */
static inline bool sound_walk(
        fur_update *tx, const void *base, unsigned class, uint64_t address, unsigned *most)
{
	return sound_block(tx, base, class, address) &&
	       ((*most)-- != 0 || alloc_damaged(tx, address));
}

/* ------------------------------------------------------------------- lists */

/* A thread's list of free blocks, and the word that encodes it (heap_layout.h). */
struct stock {
	uint64_t first, count;
};

static inline uint64_t stock_word(const void *base, uint64_t first, uint64_t count)
{
	return first ? count << 48 | (first - (uintptr_t)base) | 1 : 0;
}

/* Nothing has looked at `first` yet. */
static inline struct stock stock_of(fur_update *tx, const void *base, unsigned class, uint64_t word)
{
	if (word & 1)
		return (struct stock){
		        (uintptr_t)base + (word & ((UINT64_C(1) << 48) - 2)), word >> 48};
	if (!word || !sound_block(tx, base, class, word))
		return (struct stock){0, 0};
	return (struct stock){word, get_word(tx, &block_at(word)->depth)};
}

/* A chunk's own list of free blocks, and the word that encodes it: their addresses, and how
 * many. */
struct listed {
	uint64_t first, last, count;
};

static inline uint64_t listed_word(struct listed l)
{
	return l.count << 40 | l.last % CHUNK_BYTES / 16 << 20 | l.first % CHUNK_BYTES / 16;
}

static inline struct listed listed_of(fur_update *tx, const void *base, uint64_t number)
{
	uint64_t word = get_word(tx, &chunk_list(base, number)->blocks),
	         at = chunk_address(base, number);
	const struct listed l = {
	        at + (word & 0xfffff) * 16, at + (word >> 20 & 0xfffff) * 16, word >> 40};
	if (l.count == 0)
		return (struct listed){0, 0, 0};
	if (unlikely(l.count > CHUNK_BYTES / 16 || l.first - at >= CHUNK_BYTES ||
	             l.last - at >= CHUNK_BYTES)) {
		alloc_damaged(tx, at);
		return (struct listed){0, 0, 0};
	}
	return l;
}

/* The number of chunks that the allocator has now (INV-A5). */
static inline uint64_t chunks_now(fur_update *tx, const void *base)
{
	const uint64_t *grown = &header(base)->grown;
	return arch_load(grown) ? get_word_anywhere(tx, grown) : header(base)->chunks;
}

/* ----------------------------------------------------------------- chunks.c */

/* The number of the first chunk of a run of at least `want` free chunks, or 0. */
uint64_t alloc_find_run(fur_update *tx, const void *base, uint64_t want);

/* Take `want` chunks from the end of the first free run that is long enough.  The run's head and
 * links stay as they are.  Returns the number of the first chunk taken, or 0. */
uint64_t alloc_take_run(fur_update *tx, void *base, uint64_t want, uint64_t kind);

/* Give `n` free blocks of one chunk, linked from first to last, to their chunk's list.  If the
 * chunk then has all its blocks, give the chunk to the heap. */
void alloc_give_blocks(
        fur_update *tx, void *base, unsigned class, uint64_t first, uint64_t last, uint64_t n);

/* The same for a list of blocks from any chunks, run by run: at most `runs` runs and `most` blocks.
 * A run consists of consecutive blocks of the list that are from one chunk.  Returns the rest of
 * the list. */
struct stock alloc_give_list(fur_update *tx, void *base, unsigned class, struct stock list,
        unsigned runs, uint64_t most);

/* Make a chunk part of a free run.  The chunk has no block in use, and none on any list but the
 * chunk's own. */
void alloc_give_chunk(fur_update *tx, void *base, unsigned class, uint64_t number);

/* Make a run of chunks that is not in use free, merged with the free runs before and after it.  Its
 * first chunk has its length. */
void alloc_give_run(fur_update *tx, void *base, uint64_t number);

/* Give back a run that was in use (INV-FM2).  Chunks that the allocator has just got by growth were
 * not, and no log has entries for them. */
void alloc_give_used_run(fur_update *tx, void *base, uint64_t number);

/* ------------------------------------------------------------------ debug.c */

/* Is this small block free?  Looks through all free blocks of its class. */
bool alloc_find_free(fur_update *tx, const void *base, unsigned class, uint64_t address);

/* ------------------------------------------------------------------- grow.c */

/* Let the allocator have more chunks, until there is a run of `want` of them; let the heap grow if
 * necessary.  In a hardware transaction that aborts it, and the update runs again in software.
 * False: the heap does not grow so far, or *error says why it could not, or the update has
 * failed. */
bool alloc_extend(fur_update *tx, void *base, uint64_t want, int *error);

/* ---------------------------------------------------------------- reclaim.c */

/* The word that contains the address of the class's first old list, or 0.  On the class's list, old
 * lists follow the last chunk that has free blocks.  NULL: the class's list is damaged. */
uint64_t *alloc_old_lists(fur_update *tx, const void *base, unsigned class);

/* Make free runs of chunks that have no block in use, until there is a run of `want` chunks.
 * False: no such run can be made. */
bool alloc_reclaim(fur_update *tx, void *base, uint64_t want);

#endif /* FUR_ALLOC_PARTS_H */
