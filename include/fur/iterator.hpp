/* SPDX-License-Identifier: BSD-3-Clause
 *
 * iterator.hpp - the operators that the containers' iterators have in common.
 *
 * The containers use it; programs need not.
 */
#ifndef FUR_ITERATOR_HPP
#define FUR_ITERATOR_HPP

/* Of base classes alone: a call without a namespace, whose argument is of a class, also means the
 * functions of the namespace that its base is of, and a program may have one of that name. */
namespace fur::detail::base
{

/* A base of It, which has ++it and ==. */
template <class It>
struct ForwardSteps {
	friend It operator++(It &it, int)
	{
		It before = it;
		++it;
		return before;
	}
	friend bool operator!=(const It &a, const It &b)
	{
		return !(a == b);
	}
};

/* The same for an It that also has --it. */
template <class It>
struct Steps : ForwardSteps<It> {
	friend It operator--(It &it, int)
	{
		It before = it;
		--it;
		return before;
	}
};

} // namespace fur::detail::base

#endif /* FUR_ITERATOR_HPP */
