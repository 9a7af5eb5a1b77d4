/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory.h - memory on cache lines or on pages of its own, and rounding.
 */
#ifndef FUR_MEMORY_H
#define FUR_MEMORY_H

#include "base/arch.h"

/* Linux 5.14; older kernels answer EINVAL. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* `n` rounded up to a multiple of `to`, a power of two.  The caller must rule out overflow. */
static inline uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) & ~(to - 1);
}

/* Allocate memory on lines, of ARCH_PAD bytes, that it shares with no other memory.  Zeroes the
 * memory, and so touches it, because a page fault would abort a hardware transaction.  Returns NULL
 * if there is no memory.  The caller frees it with free(). */
void *memory_padded(uint64_t bytes);

/* Map memory that is zero; a page that no one touches costs nothing.  Returns NULL if there is
 * none.  The caller frees it with memory_unmap(). */
void *memory_map(uint64_t bytes);

/* Free what memory_map(bytes) has returned.  Does nothing with NULL. */
void memory_unmap(void *memory, uint64_t bytes);

#endif /* FUR_MEMORY_H */
