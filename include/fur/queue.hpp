/* SPDX-License-Identifier: BSD-3-Clause
 *
 * queue.hpp - fur::queue<T>: first in, first out, in the heap.  docs/containers.md says which types
 * elements can have.
 *
 *     fur::update(self, [&](fur_update *tx) { jobs->push(tx, job); });
 *     auto job = fur::update(self, [&](fur_update *tx) { return jobs->pop(tx); });
 *
 * A queue that is all zero is empty.  Producers and consumers use different lines as long as the
 * queue has more than a block of elements: an update that pops then conflicts with none that
 * pushes.
 *
 * On the medium, in words of 8 bytes:
 *
 *     queue     0 address of the ends, or 0
 *     ends      line 0: number of elements ever popped, address of the first block;
 *               line 1: number of elements ever pushed, address of the last block
 *     block     0 the next block, or 0       1.. elements: element n of all has place n % BLOCK
 */
#ifndef FUR_QUEUE_HPP
#define FUR_QUEUE_HPP

#include <fur/owned.hpp>

#include <optional>

namespace fur
{

template <class T>
class queue
{
	using codec = stored<T>;
	enum : size_t {
		BLOCK = 32,
		BLOCK_WORDS = 1 + BLOCK * codec::WORDS,
		LINE = FUR_CACHE_LINE / 8,
		FIRST = 0,
		LAST = LINE,
		ENDS_WORDS = 2 * LINE
	};

public:
	using owns_blocks = void; /* for codecs */
	using value_type = typename codec::value;
	using value_view = typename codec::view; /* as it is passed: const T &, or a string_view */
	using size_type = uint64_t;

	queue() = default;
	queue(const queue &) = delete;
	queue &operator=(const queue &) = delete;

	template <class Tx>
	size_type size(Tx *tx) const
	{
		const uint64_t *ends = ends_of(tx);
		return ends ? fur_load(tx, &ends[LAST]) - fur_load(tx, &ends[FIRST]) : 0;
	}
	template <class Tx>
	bool empty(Tx *tx) const
	{
		return size(tx) == 0;
	}
	/* push - add an element at the end.
	 * Returns: where it lies, if elements own memory (T *); otherwise nothing.
	 * Errors:  heap_full. */
	template <class Tx>
	detail::place_of<T> push(Tx *tx, value_view value)
	{
		detail::check_changes<Tx>();
		uint64_t *ends = ends_of(tx) ? ends_of(tx) : make_ends(tx);
		auto *block = detail::pointer<uint64_t>(fur_load(tx, &ends[LAST + 1]));
		const uint64_t n = fur_load(tx, &ends[LAST]);
		const bool full = n % BLOCK == 0 && n > 0;
		uint64_t *last = full ? new_block(tx) : block;
		/* First of all: an update whose log is full goes on, but its stores do nothing from
		 * then on, and a pop() must not find a block without its element. */
		uint64_t *words = place(last, n);
		codec::create(tx, words, value);
		if (full) {
			fur_store(tx, block, detail::word_of(last));
			fur_store(tx, &ends[LAST + 1], detail::word_of(last));
		}
		fur_store(tx, &ends[LAST], n + 1);
		if constexpr (detail::is_in_place<T>)
			return reinterpret_cast<T *>(words);
	}
	/* pop - remove the first element.
	 * Returns: it, or nothing if the queue is empty.  If elements own memory: whether there was
	 *          one; look at front() before. */
	template <class Tx>
	std::conditional_t<detail::is_in_place<T>, bool, std::optional<value_type>> pop(Tx *tx)
	{
		detail::check_changes<Tx>();
		const First first = find_first(tx);
		if (!first.block)
			return {};
		uint64_t *ends = ends_of(tx), *words = place(first.block, first.n);
		if (first.done) {
			fur_store(tx, &ends[FIRST + 1], detail::word_of(first.block));
			fur_free(tx, first.done);
		}
		const auto remove = [&] {
			codec::destroy(tx, words);
			fur_store(tx, &ends[FIRST], first.n + 1);
		};
		if constexpr (detail::is_in_place<T>) {
			remove();
			return true;
		} else {
			std::optional<value_type> value(codec::load(tx, words));
			remove();
			return value;
		}
	}
	/* front - the first element.   Returns: nothing if the queue is empty. */
	template <class Tx>
	std::optional<value_type> front(Tx *tx) const
	{
		const First first = find_first(tx);
		return first.block ? std::optional<value_type>(
		                             codec::load(tx, place(first.block, first.n)))
		                   : std::nullopt;
	}
	/* clear - remove all elements, and free their memory; for large ones as fur::vector's. */
	template <class Tx>
	void clear(Tx *tx)
	{
		detail::check_changes<Tx>();
		/* Not until it is empty: in an update whose log is full it would never be. */
		for (size_type n = size(tx); n > 0; n--)
			pop(tx);
		if (uint64_t *ends = ends_of(tx)) {
			/* A push meanwhile stores to the number of pushes: it conflicts. */
			fur_promote(tx, &ends[LAST]);
			fur_store(tx, &ends_, 0);
			fur_free(tx, detail::pointer<void>(fur_load(tx, &ends[LAST + 1])));
			fur_free(tx, ends);
		}
	}

	/* clear_some - a part of clear(): remove up to `most` elements, or fewer if a quarter of
	 * the log is full.   Returns: whether there is more to do. */
	template <class Tx>
	bool clear_some(Tx *tx, size_type most)
	{
		detail::check_changes<Tx>();
		for (First first; (first = find_first(tx)).block != nullptr;) {
			if (detail::clear_value_some<T>(tx, place(first.block, first.n), most))
				return true;
			pop(tx);
			if (most-- <= 1 || !detail::room_for_a_step(tx))
				return true;
		}
		clear(tx);
		return false;
	}

	/* verify - as fur::hash_map's. */
	template <class Tx>
	const char *verify(Tx *tx, uint64_t &blocks) const
	{
		const uint64_t *ends = ends_of(tx);
		blocks = ends != nullptr;
		if (!ends)
			return nullptr;
		uint64_t n = fur_load(tx, &ends[FIRST]), pushed = fur_load(tx, &ends[LAST]);
		auto *block = detail::pointer<uint64_t>(fur_load(tx, &ends[FIRST + 1]));
		if (n % BLOCK == 0 && n > 0) { /* it is used up, or the only one */
			blocks++;
			if (fur_load(tx, block))
				block = detail::pointer<uint64_t>(fur_load(tx, block));
			else if (n != pushed)
				return "a queue has too few blocks";
			else
				return nullptr;
		}
		for (blocks++; n < pushed; n++) {
			if (const char *wrong =
			                detail::verify_value<T>(tx, place(block, n), blocks))
				return wrong;
			if (n % BLOCK == BLOCK - 1 && n + 1 < pushed) {
				block = detail::pointer<uint64_t>(fur_load(tx, block));
				if (!block)
					return "a queue has too few blocks";
				blocks++;
			}
		}
		return fur_load(tx, block) ? "a queue has too many blocks" : nullptr;
	}

private:
	struct First {
		uint64_t *block; /* NULL: the queue is empty */
		uint64_t n;
		uint64_t
		        *done; /* the block before, of which nothing is left; NULL: there is none */
	};

	template <class Tx>
	uint64_t *ends_of(Tx *tx) const
	{
		return detail::pointer<uint64_t>(fur_load(tx, &ends_));
	}
	static uint64_t *place(uint64_t *block, uint64_t n)
	{
		return block + 1 + n % BLOCK * codec::WORDS;
	}
	template <class Tx>
	static uint64_t *new_block(Tx *tx)
	{
		uint64_t *block = detail::new_node(tx, BLOCK_WORDS);
		fur_store(tx, block, 0);
		return block;
	}
	template <class Tx>
	uint64_t *make_ends(Tx *tx)
	{
		uint64_t *ends = detail::new_node(tx, ENDS_WORDS);
		const uint64_t block = detail::word_of(new_block(tx));
		for (size_t end : {+FIRST, +LAST}) {
			fur_store(tx, &ends[end], 0);
			fur_store(tx, &ends[end + 1], block);
		}
		fur_store(tx, &ends_, detail::word_of(ends));
		return ends;
	}
	/* A block that has a next one is full, so only in the last block does it matter how much
	 * has been pushed. */
	template <class Tx>
	First find_first(Tx *tx) const
	{
		const uint64_t *ends = ends_of(tx);
		if (!ends)
			return {nullptr, 0, nullptr};
		const uint64_t n = fur_load(tx, &ends[FIRST]);
		auto *block = detail::pointer<uint64_t>(fur_load(tx, &ends[FIRST + 1]));
		auto *next = detail::pointer<uint64_t>(fur_load(tx, block));
		if (next && n % BLOCK == 0 && n > 0) /* nothing is left of the first block */
			return {next, n, block};
		if (!next && n == fur_load(tx, &ends[LAST]))
			return {nullptr, n, nullptr};
		return {block, n, nullptr};
	}

	uint64_t ends_ = 0;
};

} // namespace fur

#endif /* FUR_QUEUE_HPP */
