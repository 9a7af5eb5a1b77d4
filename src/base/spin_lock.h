/* SPDX-License-Identifier: BSD-3-Clause
 *
 * spin_lock.h - a lock for a few instructions, in a word that is 0 while it is free. */
#ifndef FUR_SPIN_LOCK_H
#define FUR_SPIN_LOCK_H

#include "base/arch.h"

/* `backoff`: new, or one that knows more of whom it waits for (durability_backoff()). */
static inline void spin_lock(uint64_t *word, struct arch_backoff backoff)
{
	/* The compare-and-swap orders what the holder before us did before our steps. */
	while (arch_load(word) || !arch_cas(word, 0, 1))
		arch_backoff(&backoff);
}

static inline void spin_unlock(uint64_t *word)
{
	/* Release: who holds it next finds what we did. */
	arch_store_release(word, 0);
}

#endif /* FUR_SPIN_LOCK_H */
