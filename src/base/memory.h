/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory.h - memory whose lines are nobody else's, and rounding.
 */
#ifndef FUR_MEMORY_H
#define FUR_MEMORY_H

#include "base/arch.h"

/* Linux 5.14; older kernels answer EINVAL. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* `n` rounded up to a multiple of `to`, a power of two.  The caller excludes an overflow. */
static inline uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) & ~(to - 1);
}

/* Memory for free(): zeroed, and so touched (a page fault in a hardware transaction aborts it),
 * with no line, of ARCH_PAD bytes, that other memory has a part of.  NULL: there is none. */
void *memory_padded(uint64_t bytes);

#endif /* FUR_MEMORY_H */
