/* SPDX-License-Identifier: BSD-3-Clause
 *
 * allocator.cpp - memory for simulated threads.  Where two things lie decides whether they share a
 * line, so what a simulated thread allocates comes from an arena of its own: the same addresses, up
 * to its base, whatever the process has done before.
 *
 * A block of 2^k bytes with a header; freed blocks are used again.  In a transaction freeing does
 * nothing: it could not be undone, and the block is lost instead.  Outside a simulation all is the
 * C library's.
 */
#include "machine.hpp"

#include <cerrno>
#include <sys/mman.h>

using namespace emu;

extern "C" void *__libc_memalign(size_t, size_t);

namespace
{

constexpr size_t ARENA_BYTES = UINT64_C(1) << 42, RUN_BYTES = 16 << 20, HEADER = 16, CLASSES = 42;

struct Header {
	uint64_t size_class;
	uint64_t offset; /* of the memory given out, from the block's start */
};

uint8_t *arena;
size_t used;
void *free_blocks[CLASSES];

bool ours(const void *p)
{
	return arena && static_cast<size_t>(static_cast<const uint8_t *>(p) - arena) < ARENA_BYTES;
}

Header *header_of(void *p)
{
	return reinterpret_cast<Header *>(static_cast<uint8_t *>(p) - HEADER);
}

size_t usable(void *p)
{
	return (size_t(1) << header_of(p)->size_class) - header_of(p)->offset;
}

void *take(size_t alignment, size_t bytes)
{
	size_t offset = alignment > HEADER ? alignment : HEADER, size_class = 5;
	while ((size_t(1) << size_class) < bytes + offset)
		size_class++;
	size_t size = size_t(1) << size_class;
	uint8_t *block =
	        static_cast<uint8_t *>(size_class < CLASSES ? free_blocks[size_class] : nullptr);
	if (block) {
		memcpy(&free_blocks[size_class], block, sizeof(void *));
	} else {
		/* Blocks are aligned to their size, so offsets are alignments. */
		used = (used + size - 1) & ~(size - 1);
		if (size_class >= CLASSES || used + size > ARENA_BYTES) {
			errno = ENOMEM;
			return nullptr;
		}
		block = arena + used;
		used += size;
	}
	*header_of(block + offset) = {size_class, offset};
	return block + offset;
}

void *allocate(size_t alignment, size_t bytes)
{
	Away away;
	return take(alignment, bytes);
}

} // namespace

/* A run begins on fresh memory; what earlier ones have allocated stays where it is. */
void emu::reset_allocator()
{
	if (!arena) {
		void *p = mmap(nullptr, ARENA_BYTES * 2, PROT_READ | PROT_WRITE,
		        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED)
			abort();
		/* Aligned to the largest block. */
		arena = reinterpret_cast<uint8_t *>(
		        (reinterpret_cast<uintptr_t>(p) + ARENA_BYTES - 1) & ~(ARENA_BYTES - 1));
	}
	used = (used + RUN_BYTES - 1) & ~(RUN_BYTES - 1);
	memset(free_blocks, 0, sizeof free_blocks);
}

#pragma GCC visibility push(default)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-declarations"
extern "C" {

void *malloc(size_t bytes)
{
	return g.self ? allocate(HEADER, bytes) : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
	if (!g.self)
		return __libc_calloc(n, bytes);
	size_t all;
	if (__builtin_mul_overflow(n, bytes, &all)) {
		errno = ENOMEM;
		return nullptr;
	}
	void *p = allocate(HEADER, all);
	Away away;
	return p ? memset(p, 0, all) : nullptr;
}

void free(void *p)
{
	if (!p)
		return;
	if (!ours(p)) {
		__libc_free(p);
		return;
	}
	if (g.self && tracking(*g.self))
		return;
	Away away;
	Header h = *header_of(p);
	uint8_t *block = static_cast<uint8_t *>(p) - h.offset;
	memcpy(block, &free_blocks[h.size_class], sizeof(void *));
	free_blocks[h.size_class] = block;
}

void *realloc(void *p, size_t bytes)
{
	if (!p)
		return malloc(bytes);
	if (!ours(p))
		return __libc_realloc(p, bytes);
	if (usable(p) >= bytes)
		return p;
	void *bigger = allocate(HEADER, bytes);
	if (bigger) {
		{
			Away away;
			memcpy(bigger, p, usable(p));
		}
		free(p);
	}
	return bigger;
}

void *memalign(size_t alignment, size_t bytes)
{
	return g.self ? allocate(alignment, bytes) : __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	return memalign(alignment, bytes);
}

int posix_memalign(void **p, size_t alignment, size_t bytes)
{
	*p = memalign(alignment, bytes);
	return *p ? 0 : ENOMEM;
}
}
#pragma GCC diagnostic pop
#pragma GCC visibility pop
