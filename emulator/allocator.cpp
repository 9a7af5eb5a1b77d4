/* SPDX-License-Identifier: BSD-3-Clause
 *
 * allocator.cpp - memory for simulated threads.  The places of two objects decide whether they
 * share a line, so simulated threads allocate from an arena of their own.  It hands out the same
 * addresses relative to its base in every run, whatever the process has done before.
 *
 * A block has 2^k bytes, a header included; freed blocks are used again.  In a transaction free()
 * does nothing, for it could not be undone: the block is lost instead.  Outside a simulation the C
 * library allocates.
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
	uint64_t offset; /* of the memory handed out, from the start of its block */
};

uint8_t *arena;
size_t arena_used;
void *free_blocks[CLASSES];

bool in_arena(const void *p)
{
	return arena && static_cast<size_t>(static_cast<const uint8_t *>(p) - arena) < ARENA_BYTES;
}

Header *header_of(void *p)
{
	return reinterpret_cast<Header *>(static_cast<uint8_t *>(p) - HEADER);
}

size_t usable_bytes(void *p)
{
	return (size_t(1) << header_of(p)->size_class) - header_of(p)->offset;
}

/* `zero`: set if the block has never been used, and is zero. */
void *take_block(size_t alignment, size_t bytes, bool &zero)
{
	size_t offset = alignment > HEADER ? alignment : HEADER, size_class = 5;
	while ((size_t(1) << size_class) < bytes + offset)
		size_class++;
	size_t size = size_t(1) << size_class;
	uint8_t *block =
	        static_cast<uint8_t *>(size_class < CLASSES ? free_blocks[size_class] : nullptr);
	zero = !block;
	if (block) {
		memcpy(&free_blocks[size_class], block, sizeof(void *));
	} else {
		/* A block is aligned to its size, so an offset that is a power of two is an
		 * alignment. */
		arena_used = (arena_used + size - 1) & ~(size - 1);
		if (size_class >= CLASSES || arena_used + size > ARENA_BYTES) {
			errno = ENOMEM;
			return nullptr;
		}
		block = arena + arena_used;
		arena_used += size;
	}
	*header_of(block + offset) = {size_class, offset};
	return block + offset;
}

void *allocate_block(size_t alignment, size_t bytes)
{
	bool zero;
	Away away;
	return take_block(alignment, bytes, zero);
}

} // namespace

/* Each run begins on fresh memory; blocks of earlier runs stay where they are. */
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
	arena_used = (arena_used + RUN_BYTES - 1) & ~(RUN_BYTES - 1);
	memset(free_blocks, 0, sizeof free_blocks);
}

#pragma GCC visibility push(default)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-declarations"
extern "C" {

void *malloc(size_t bytes)
{
	return g.self ? allocate_block(HEADER, bytes) : __libc_malloc(bytes);
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
	bool zero;
	Away away;
	void *p = take_block(HEADER, all, zero);
	return p && !zero ? memset(p, 0, all) : p;
}

void free(void *p)
{
	if (!p)
		return;
	if (!in_arena(p)) {
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
	if (!in_arena(p))
		return __libc_realloc(p, bytes);
	if (usable_bytes(p) >= bytes)
		return p;
	void *bigger = allocate_block(HEADER, bytes);
	if (bigger) {
		{
			Away away;
			memcpy(bigger, p, usable_bytes(p));
		}
		free(p);
	}
	return bigger;
}

void *memalign(size_t alignment, size_t bytes)
{
	return g.self ? allocate_block(alignment, bytes) : __libc_memalign(alignment, bytes);
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
