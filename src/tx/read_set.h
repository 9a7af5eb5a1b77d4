/* SPDX-License-Identifier: BSD-3-Clause
 *
 * read_set.h - the words that a concurrent software update has loaded from the heap, and the value
 * that it found in each: the update may publish only while each word still has that value.
 *
 * A word that the update loads twice is here twice.  Finding out would cost more than a second
 * comparison.
 */
#ifndef FUR_READ_SET_H
#define FUR_READ_SET_H

#include "base/arch.h"

struct logged_read {
	uint64_t *word;
	uint64_t value;
};

struct read_set {
	struct logged_read *reads, *next;
	struct logged_read *end; /* of the room for more */
	uint64_t most;
};

static inline bool read_is_full(const struct read_set *set)
{
	return set->next == set->end;
}

/* Make the set empty. */
static inline void read_clear(struct read_set *set)
{
	set->next = set->reads;
}

/* Make room for more reads.  False: no memory. */
bool read_grow(struct read_set *set);

/* Add a read.  The caller has seen that there is room. */
static inline void read_put(struct read_set *set, uint64_t *word, uint64_t value)
{
	*set->next++ = (struct logged_read){word, value};
}

#endif /* FUR_READ_SET_H */
