/* SPDX-License-Identifier: BSD-3-Clause
 *
 * write_set.c - the hash table of a write set.
 */
#include "tx/write_set.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_WORDS = 128 };

/* The slot of the word, or the empty slot where its entry belongs. */
static uint64_t *slot_of(const struct write_set *set, const uint64_t *word, uint64_t hash)
{
	uint64_t last = 2 * (uint64_t)set->most - 1;
	for (uint64_t k = hash >> 20 & last;; k = (k + 1) & last) {
		uint64_t *slot = &set->table[k];
		if (*slot >> 32 != set->generation || set->words[(uint32_t)*slot].word == word)
			return slot;
	}
}

struct written *write_find(const struct write_set *set, const uint64_t *word)
{
	if (set->n == 0)
		return NULL;
	const uint64_t *slot = slot_of(set, word, write_hash(word));
	return *slot >> 32 == set->generation ? &set->words[(uint32_t)*slot] : NULL;
}

/* Once memory is out, each further attempt would cost the time of a system call, and the update
 * fails anyway. */
static bool grow(struct write_set *set)
{
	if (set->no_memory)
		return false;
	uint32_t most = set->most ? 2 * set->most : FIRST_WORDS;
	struct written *words = realloc(set->words, most * sizeof *words);
	uint64_t *table = words ? calloc(2 * (uint64_t)most, sizeof *table) : NULL;
	set->words = words ? words : set->words;
	set->no_memory = !table;
	if (!table)
		return false;
	free(set->table);
	set->table = table;
	set->most = most;
	set->generation = 1;
	for (uint32_t i = 0; i < set->n; i++)
		*slot_of(set, words[i].word, write_hash(words[i].word)) = UINT64_C(1) << 32 | i;
	return true;
}

bool write_put(struct write_set *set, uint64_t *word, uint64_t value, uint64_t mask)
{
	if (unlikely(set->n == set->most) && !write_find(set, word) && !grow(set))
		return false;
	uint64_t hash = write_hash(word), *slot = slot_of(set, word, hash);
	if (*slot >> 32 != set->generation) {
		set->words[set->n] = (struct written){word, value, mask, WRITTEN_ANOTHER_HOLDS};
		set->filter[write_filter_word(hash)] |= write_filter_bit(hash);
		*slot = (uint64_t)set->generation << 32 | set->n++;
		return true;
	}
	struct written *w = &set->words[(uint32_t)*slot];
	w->value = (w->value & ~mask) | (value & mask);
	w->mask |= mask;
	return true;
}

void write_clear(struct write_set *set)
{
	set->no_memory = false;
	if (set->n == 0)
		return;
	memset(set->filter, 0, sizeof set->filter);
	set->n = 0;
	/* After 2^32 updates an old entry would look new. */
	if (unlikely(++set->generation == 0)) {
		memset(set->table, 0, 2 * (uint64_t)set->most * sizeof *set->table);
		set->generation = 1;
	}
}

void write_fini(struct write_set *set)
{
	free(set->words);
	free(set->table);
	*set = (struct write_set){.n = 0};
}
