/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory.c - memory on cache lines of its own, and on pages of its own.
 */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *memory_padded(uint64_t bytes)
{
	bytes = round_up(bytes, ARCH_PAD);
	void *p = aligned_alloc(ARCH_PAD, bytes);
	if (p)
		memset(p, 0, bytes);
	return p;
}

void *memory_map(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

void memory_unmap(void *memory, uint64_t bytes)
{
	if (memory)
		munmap(memory, bytes);
}
