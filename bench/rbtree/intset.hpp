/* SPDX-License-Identifier: BSD-3-Clause
 *
 * intset.hpp - what a set of integers answers, whatever it is made of:
 *
 *     class SomeSet {
 *         SomeSet(Tm &, Tm::Thread &);       the one in the heap, or a new one bool
 *         contains(Tm::Thread &, int64_t key); Result insert(Tm::Thread &, int64_t key),
 *         remove(Tm::Thread &, int64_t key); const char *verify(Tm::Thread &, uint64_t &size);
 *         null, or what is wrong; counts the keys
 *     };
 *
 * Each call is a transaction.  Keys are not negative.
 */
#ifndef INTSET_HPP
#define INTSET_HPP

namespace intset
{

enum class Result { UNCHANGED, CHANGED, NO_MEMORY };

} // namespace intset

#endif /* INTSET_HPP */
