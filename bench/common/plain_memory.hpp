/* SPDX-License-Identifier: BSD-3-Clause
 *
 * plain_memory.hpp - memory that is neither persistent nor synchronised, for the systems none and
 * htm.
 */
#ifndef BENCH_PLAIN_MEMORY_HPP
#define BENCH_PLAIN_MEMORY_HPP

#include "tm.hpp"

#include <atomic>
#include <cstring>
#include <sys/mman.h>
#include <type_traits>

namespace bench
{

/* An allocator for memory that is not persistent: per thread, and all its state is ordinary memory,
 * so that a hardware transaction rolls it back. */
class PlainHeap
{
public:
	enum : uint64_t { PIECE = 1 << 16 };
	explicit PlainHeap(uint64_t bytes) : mapped_(bytes + PIECE)
	{
		/* Populated: a page fault aborts a hardware transaction. */
		map_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
		        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (map_ == MAP_FAILED)
			throw Usage("no memory for a heap of " + std::to_string(bytes) + " bytes");
		auto start = reinterpret_cast<uintptr_t>(map_);
		next_ = (start + PIECE - 1) / PIECE * PIECE;
		end_ = start + mapped_;
	}
	~PlainHeap()
	{
		munmap(map_, mapped_);
	}
	PlainHeap(const PlainHeap &) = delete;

	/* A piece for one thread, aligned to its size; the abort of a hardware transaction takes it
	 * back. */
	char *take()
	{
		uintptr_t at = next_.fetch_add(PIECE);
		return at + PIECE <= end_ ? reinterpret_cast<char *>(at) : nullptr;
	}

private:
	void *map_;
	uint64_t mapped_;
	uintptr_t end_;
	std::atomic<uintptr_t> next_;
};

/* Each thread takes pieces, one size class to a piece, whose first word holds the class.  Blocks
 * are multiples of 16 bytes, and aligned to the largest power of two that divides their size. */
struct alignas(128) plain_tx {
	static constexpr unsigned CLASSES = 256; /* of 16 bytes */
	PlainHeap *heap = nullptr;
	struct {
		void *freed;
		char *at, *end; /* not yet cut into blocks */
	} stock[CLASSES] = {};
};

template <class T>
inline T fur_load(plain_tx *, const T *p)
{
	T value;
	__atomic_load(p, &value, __ATOMIC_RELAXED);
	return value;
}
template <class T>
inline void fur_store(plain_tx *, T *p, std::type_identity_t<T> value)
{
	__atomic_store(p, &value, __ATOMIC_RELAXED);
}
inline void *fur_alloc(plain_tx *tx, size_t bytes)
{
	uint64_t cls = (bytes + 15) / 16, size = cls * 16;
	if (cls == 0 || cls >= plain_tx::CLASSES)
		return nullptr;
	auto &stock = tx->stock[cls];
	if (char *block = static_cast<char *>(stock.freed)) {
		memcpy(&stock.freed, block, 8);
		return block;
	}
	if (static_cast<uint64_t>(stock.end - stock.at) < size) {
		char *piece = tx->heap->take();
		if (!piece)
			return nullptr;
		memcpy(piece, &cls, 8);
		stock.at = piece + (size & -size);
		stock.end = piece + PlainHeap::PIECE;
	}
	char *block = stock.at;
	stock.at += size;
	return block;
}
/* With FUR_CACHE_LINE, the block shares no line with another one, as libfur's. */
inline void *fur_alloc_aligned(plain_tx *tx, size_t bytes, size_t alignment)
{
	return fur_alloc(tx, (bytes + alignment - 1) & ~(alignment - 1));
}
inline void fur_promote(plain_tx *, void *) {} /* all its reads are tracked */
inline void fur_free(plain_tx *tx, void *p)
{
	uint64_t cls;
	auto piece = reinterpret_cast<uintptr_t>(p) / PlainHeap::PIECE * PlainHeap::PIECE;
	memcpy(&cls, reinterpret_cast<void *>(piece), 8);
	memcpy(p, &tx->stock[cls].freed, 8);
	tx->stock[cls].freed = p;
}

class PlainTm
{
public:
	static constexpr bool rolls_back = false;
	explicit PlainTm(const TmOptions &o) : heap_(o.heap_bytes) {}
	void *root()
	{
		return root_;
	}
	void set_root(plain_tx *, void *p)
	{
		root_ = p;
	}

protected:
	PlainHeap heap_;

private:
	void *root_ = nullptr;
};

} // namespace bench

#endif /* BENCH_PLAIN_MEMORY_HPP */
