/* SPDX-License-Identifier: BSD-3-Clause
 *
 * allocator.hpp - transactional memory allocation for the baselines.  Its state lies in the heap
 * and the transaction reads and writes it like any data, so rollback, logging and recovery cover
 * the allocator too.
 *
 * Each thread takes pieces of 64 KiB, one size class to a piece, whose first word holds the class;
 * it keeps the blocks that it frees.  Blocks are multiples of 64 bytes, and aligned to the largest
 * power of two that divides their size.
 */
#ifndef BASELINES_ALLOCATOR_HPP
#define BASELINES_ALLOCATOR_HPP

#include "medium.hpp"

namespace baselines
{

/* Word access, which is all that a system offers here. */
template <class Tx>
concept WordTx = requires(Tx *tx, uint64_t *word, uint64_t value)
{
	{
		tx->load(word)
		} -> std::same_as<uint64_t>;
	tx->store(word, value);
};

template <class T>
constexpr unsigned shift_of(const T *p)
{
	return static_cast<unsigned>(reinterpret_cast<uintptr_t>(p) & 7) * 8;
}
template <class T>
uint64_t *word_of(const T *p)
{
	return reinterpret_cast<uint64_t *>(reinterpret_cast<uintptr_t>(p) & ~uintptr_t(7));
}

template <WordTx Tx, class T>
T fur_load(Tx *tx, const T *p)
{
	static_assert(sizeof(T) <= 8);
	uint64_t word = tx->load(word_of(p)) >> (sizeof(T) == 8 ? 0 : shift_of(p));
	T value;
	memcpy(&value, &word, sizeof value); /* little-endian */
	return value;
}
template <WordTx Tx, class T>
void fur_store(Tx *tx, T *p, std::type_identity_t<T> value)
{
	uint64_t bits = 0;
	memcpy(&bits, &value, sizeof value);
	if constexpr (sizeof(T) < 8) {
		uint64_t mask = ((uint64_t(1) << 8 * sizeof(T)) - 1) << shift_of(p);
		bits = (tx->load(word_of(p)) & ~mask) | bits << shift_of(p);
	}
	tx->store(word_of(p), bits);
}
template <WordTx Tx>
void fur_promote(Tx *tx, void *p)
{
	tx->promote(word_of(static_cast<char *>(p)));
}

enum : uint64_t { PIECE = 1 << 16, LINE = 64, CLASSES = 64 };

struct Arena {
	uint64_t free[CLASSES],
	        /* First of the freed blocks; the next one never used: 0, or at its piece's end:
	         * none */
	        fresh[CLASSES];
};

/* The start of the heap. */
struct Root {
	uint64_t data, pieces; /* the workload's; given out so far */
	uint64_t gap[14];
	Arena arena[];
};

/* The data that a transaction allocates with. */
struct Place {
	Root *root;
	Arena *arena;
	uint64_t pieces; /* that there are */
	static Place of(Medium &m, unsigned thread)
	{
		auto *root = reinterpret_cast<Root *>(m.heap());
		return {root, &root->arena[thread], m.heap_bytes() / PIECE};
	}
	/* The pieces that the root occupies at the start of the heap. */
	static uint64_t first_piece(const Medium &m)
	{
		return (sizeof(Root) + m.threads() * sizeof(Arena) + PIECE - 1) / PIECE;
	}
};

/* Where in a piece its first block begins: after the word that holds the class, and aligned. */
inline uint64_t first_block(uint64_t cls)
{
	return cls * LINE & -(cls * LINE);
}

template <WordTx Tx>
void *fur_alloc(Tx *tx, size_t bytes)
{
	uint64_t cls = (bytes + LINE - 1) / LINE;
	Place &at = tx->place;
	if (cls == 0 || cls >= CLASSES)
		return nullptr;
	if (uint64_t block = tx->load(&at.arena->free[cls])) {
		tx->store(&at.arena->free[cls], tx->load(reinterpret_cast<uint64_t *>(block)));
		return reinterpret_cast<void *>(block);
	}
	uint64_t block = tx->load(&at.arena->fresh[cls]),
	         base = reinterpret_cast<uint64_t>(at.root);
	if (block == 0 || block / PIECE != (block + cls * LINE - 1) / PIECE || block % PIECE == 0) {
		uint64_t piece = tx->load(&at.root->pieces);
		if (piece >= at.pieces)
			return nullptr;
		tx->store(&at.root->pieces, piece + 1);
		block = base + piece * PIECE;
		tx->store(reinterpret_cast<uint64_t *>(block), cls);
		block += first_block(cls);
	}
	tx->store(&at.arena->fresh[cls], block + cls * LINE);
	return reinterpret_cast<void *>(block);
}

/* With FUR_CACHE_LINE, the block shares no line with another one, as libfur's. */
template <WordTx Tx>
void *fur_alloc_aligned(Tx *tx, size_t bytes, size_t alignment)
{
	return fur_alloc(tx, (bytes + alignment - 1) & ~(alignment - 1));
}

template <WordTx Tx>
void fur_free(Tx *tx, void *p)
{
	if (!p)
		return;
	auto *block = static_cast<uint64_t *>(p);
	uint64_t cls = tx->load(
	        reinterpret_cast<uint64_t *>(reinterpret_cast<uintptr_t>(p) / PIECE * PIECE));
	tx->store(block, tx->load(&tx->place.arena->free[cls]));
	tx->store(&tx->place.arena->free[cls], reinterpret_cast<uint64_t>(p));
}

/* How large a block is. */
inline uint64_t usable_bytes(const void *p)
{
	return *reinterpret_cast<uint64_t *>(reinterpret_cast<uintptr_t>(p) / PIECE * PIECE) * LINE;
}

/* Blocks allocated and not freed, for a heap at rest. */
inline uint64_t blocks_in_use(const Medium &m)
{
	auto *root = reinterpret_cast<const Root *>(m.heap());
	uint64_t used = 0;
	for (uint64_t piece = Place::first_piece(m); piece < root->pieces; piece++) {
		auto *start = reinterpret_cast<const uint64_t *>(m.heap() + piece * PIECE);
		used += (PIECE - first_block(*start)) / (*start * LINE);
	}
	for (unsigned t = 0; t < m.threads(); t++)
		for (uint64_t cls = 1; cls < CLASSES; cls++) {
			for (uint64_t block = root->arena[t].free[cls]; block;
			        block = *reinterpret_cast<uint64_t *>(block))
				used--;
			if (uint64_t fresh = root->arena[t].fresh[cls]; fresh % PIECE)
				used -= (PIECE - fresh % PIECE) / (cls * LINE);
		}
	return used;
}

} // namespace baselines

#endif /* BASELINES_ALLOCATOR_HPP */
