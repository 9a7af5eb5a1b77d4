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
	struct logged_read *reads;
	uint64_t n, most;
};

/* Make room for more reads.  False: no memory. */
bool read_grow(struct read_set *set);

static inline bool read_put(struct read_set *set, uint64_t *word, uint64_t value)
{
	if (unlikely(set->n == set->most) && !read_grow(set))
		return false;
	set->reads[set->n++] = (struct logged_read){word, value};
	return true;
}

#endif /* FUR_READ_SET_H */
