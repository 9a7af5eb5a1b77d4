/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory.c - memory on cache lines of its own: memory_padded().
 */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

void *memory_padded(uint64_t bytes)
{
	bytes = round_up(bytes, ARCH_PAD);
	void *p = aligned_alloc(ARCH_PAD, bytes);
	if (p)
		memset(p, 0, bytes);
	return p;
}
