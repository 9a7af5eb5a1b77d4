/* SPDX-License-Identifier: BSD-3-Clause
 *
 * write_set.h - the words that a software update has stored to, and their new values.  The update's
 * own loads look here first, because its stores reach the heap only when it publishes them.
 *
 * A word is an aligned 8-byte word of the heap.  A mask tells which of its bits the update has
 * stored.
 */
#ifndef FUR_WRITE_SET_H
#define FUR_WRITE_SET_H

#include "base/arch.h"

struct written {
	uint64_t *word;
	uint64_t value; /* the bits outside `mask` mean nothing */
	uint64_t mask;
	/* While the update holds the word's stamp: the version that this had, or
	 * WRITTEN_ANOTHER_HOLDS: another word of the set has it (stm/stamps.h) */
	uint64_t version;
};

#define WRITTEN_ANOTHER_HOLDS UINT64_MAX

enum { WRITE_FILTER_LOG = 5, WRITE_FILTER = 1 << WRITE_FILTER_LOG };

struct write_set {
	/* A Bloom filter with one bit for each word: most loads find in one look that the update
	 * has not stored to the word. */
	uint64_t filter[WRITE_FILTER];
	struct written *words; /* in the order of their first store */
	uint64_t *table;       /* a hash table: generation << 32 | index in `words` */
	uint32_t n, most;      /* words, and how many fit; the table has twice as many slots */
	uint32_t generation;   /* entries of other generations are empty */
	bool no_memory;        /* it could not grow: it does not try again until it is cleared */
};

static inline uint64_t write_hash(const uint64_t *word)
{
	return ((uintptr_t)word >> 3) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint64_t write_filter_word(uint64_t hash)
{
	return hash >> (64 - WRITE_FILTER_LOG);
}

static inline uint64_t write_filter_bit(uint64_t hash)
{
	return UINT64_C(1) << (hash >> (58 - WRITE_FILTER_LOG) & 63);
}

/* False: the update has not stored to the word. */
static inline bool write_maybe(const struct write_set *set, uint64_t hash)
{
	return set->filter[write_filter_word(hash)] & write_filter_bit(hash);
}

/* The entry of the word, or NULL. */
struct written *write_find(const struct write_set *set, const uint64_t *word);

/* Add the bits of `mask` to the word's entry; the first store makes the entry.  False: no memory
 * for a new entry.  A word that has one needs none. */
bool write_put(struct write_set *set, uint64_t *word, uint64_t value, uint64_t mask);

/* Make the set empty. */
void write_clear(struct write_set *set);
void write_fini(struct write_set *set);

#endif /* FUR_WRITE_SET_H */
