/* SPDX-License-Identifier: BSD-3-Clause
 *
 * intset.hpp - the interface of a set of integers, whatever it is made of.
 */
#ifndef INTSET_HPP
#define INTSET_HPP

#include <concepts>
#include <cstdint>

namespace intset
{

enum class Result { UNCHANGED, CHANGED, NO_MEMORY };

/* A set in the heap of a system.  The constructor finds it, or makes it.  Each call is a
 * transaction; keys are not negative. */
template <class Set, class System>
concept IntegerSet = std::constructible_from<Set, System &, typename System::Thread &> &&
        requires(Set &set, typename System::Thread &self, int64_t key, uint64_t &size)
{
	{
		set.contains(self, key)
		} -> std::same_as<bool>;
	{
		set.insert(self, key)
		} -> std::same_as<Result>;
	{
		set.remove(self, key)
		} -> std::same_as<Result>;
	/* Null, or what is wrong; counts the keys */
	{
		set.verify(self, size)
		} -> std::same_as<const char *>;
};

} // namespace intset

#endif /* INTSET_HPP */
