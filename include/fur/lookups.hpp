/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lookups.hpp - what get_many() of the maps and interleave() need: groups of searches that take
 * each step in turn.  A search asks for the memory that its next step loads; so all wait at once.
 * (Group prefetching: Chen, Ailamaki, Gibbons, Mowry, ICDE 2004.)
 */
#ifndef FUR_LOOKUPS_HPP
#define FUR_LOOKUPS_HPP

#include <fur/stored.hpp>

namespace fur::detail
{

/* GROUP: searches in a group.  With more they would wait for each other, for a core has about as
 * many lines on their way.  PREFETCH_MOST: bytes that a search asks for at once. */
enum : size_t { GROUP = 16, PREFETCH_MOST = 512 };

template <class Tx>
void prefetch(Tx *tx, const uint64_t *at, size_t words)
{
	fur_prefetch(tx, at, 8 * words < PREFETCH_MOST ? 8 * words : +PREFETCH_MOST);
}

/* Do this codec's keys or values have blocks that can be asked for: Codec::prefetch(tx, words)? */
template <class Codec, class = void>
struct has_prefetch : std::false_type {
};
template <class Codec>
struct has_prefetch<Codec, std::void_t<decltype(Codec::prefetch(std::declval<fur_ro *>(),
                                   std::declval<const uint64_t *>()))>> : std::true_type {
};

} // namespace fur::detail

#endif /* FUR_LOOKUPS_HPP */
