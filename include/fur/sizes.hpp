/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sizes.hpp - the size of a container, in parts on lines of their own, so that updates that insert
 * and remove different keys rarely store to the same word.
 *
 * The containers use it; programs need not.
 */
#ifndef FUR_SIZES_HPP
#define FUR_SIZES_HPP

#include <fur/stored.hpp>

namespace fur::detail
{

/* In a container: the address of the parts, or 0 as long as the container needs none. */
class Sizes
{
	enum : size_t { PARTS = 16, STEP = FUR_CACHE_LINE / 8 };

public:
	template <class Tx>
	bool exist(Tx *tx) const
	{
		return fur_load(tx, &parts_) != 0;
	}
	/* The sum of the parts is the size from now on. */
	template <class Tx>
	void make(Tx *tx, uint64_t size)
	{
		uint64_t *parts = new_node(tx, PARTS * STEP);
		for (size_t k = 0; k < PARTS; k++)
			fur_store(tx, &parts[k * STEP], k == 0 ? size : 0);
		fur_store(tx, &parts_, word_of(parts));
	}
	/* `which` spreads the updates over the parts. */
	template <class Tx>
	void add(Tx *tx, uint64_t which, int64_t difference)
	{
		uint64_t *parts = pointer<uint64_t>(fur_load(tx, &parts_));
		if (!parts)
			return;
		/* A part may fall below zero, for a key's removal may go to another part than its
		 * insertion.  The sum does not. */
		uint64_t *part = &parts[which % PARTS * STEP];
		fur_store(tx, part, fur_load(tx, part) + static_cast<uint64_t>(difference));
	}
	template <class Tx>
	uint64_t sum(Tx *tx) const
	{
		const uint64_t *parts = pointer<const uint64_t>(fur_load(tx, &parts_));
		uint64_t sum = 0;
		for (size_t k = 0; parts && k < PARTS; k++)
			sum += fur_load(tx, &parts[k * STEP]);
		return sum;
	}
	template <class Tx>
	void destroy(Tx *tx)
	{
		if (auto *parts = pointer<uint64_t>(fur_load(tx, &parts_))) {
			fur_store(tx, &parts_, 0);
			fur_free(tx, parts);
		}
	}

private:
	uint64_t parts_ = 0;
};

} // namespace fur::detail

#endif /* FUR_SIZES_HPP */
