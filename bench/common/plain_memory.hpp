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
	explicit PlainHeap(uint64_t bytes) : bytes_(bytes)
	{
		/* Populated: a page fault aborts a hardware transaction. */
		void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
		        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (p == MAP_FAILED)
			throw Usage("no memory for a heap of " + std::to_string(bytes) + " bytes");
		base_ = static_cast<char *>(p);
	}
	~PlainHeap()
	{
		munmap(base_, bytes_);
	}
	PlainHeap(const PlainHeap &) = delete;

	/* A piece for one thread; the abort of a hardware transaction takes it back. */
	char *take(uint64_t bytes)
	{
		uint64_t at = next_.fetch_add(bytes);
		return at + bytes <= bytes_ ? base_ + at : nullptr;
	}
	uint64_t bytes() const
	{
		return bytes_;
	}

private:
	char *base_;
	uint64_t bytes_;
	std::atomic<uint64_t> next_{0};
};

struct alignas(128) plain_tx {
	static constexpr unsigned CLASSES = 256; /* of 16 bytes */
	PlainHeap *heap = nullptr;
	char *at = nullptr, *end = nullptr;
	void *free_list[CLASSES] = {};
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
/* Blocks carry their class in the word before them. */
inline void *fur_alloc(plain_tx *tx, size_t bytes)
{
	uint64_t cls = (bytes + 8 + 15) / 16;
	if (cls >= plain_tx::CLASSES)
		return nullptr;
	char *block = static_cast<char *>(tx->free_list[cls]);
	if (block) {
		memcpy(&tx->free_list[cls], block, 8);
		return block;
	}
	if (static_cast<uint64_t>(tx->end - tx->at) < cls * 16) {
		enum { PIECE = 1 << 16 };
		if (!(tx->at = tx->heap->take(PIECE))) {
			tx->end = nullptr;
			return nullptr;
		}
		tx->end = tx->at + PIECE;
	}
	memcpy(tx->at, &cls, 8);
	block = tx->at + 8;
	tx->at += cls * 16;
	return block;
}
inline void fur_promote(plain_tx *, void *) {} /* all its reads are tracked */
inline void fur_free(plain_tx *tx, void *p)
{
	uint64_t cls;
	memcpy(&cls, static_cast<char *>(p) - 8, 8);
	memcpy(p, &tx->free_list[cls], 8);
	tx->free_list[cls] = p;
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
