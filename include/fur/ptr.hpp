/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ptr.hpp - fur::ptr<T>: a pointer that lies in the heap and points into it.
 *
 *     struct Node { uint64_t key; fur::ptr<Node> next; };
 *     fur::update(self, [&](fur_update *tx) { node->next.set(tx, other); });
 *
 * A plain T * with fur_load() and fur_store() does the same: a heap is always mapped at the same
 * address.  But a fur::ptr cannot be read or assigned without the transaction by mistake.
 */
#ifndef FUR_PTR_HPP
#define FUR_PTR_HPP

#include <fur.hpp>

namespace fur
{

template <class T>
class ptr
{
public:
	constexpr ptr() = default;
	/* For objects that are being made: fur::make<Node>(tx, key, fur::ptr<Node>(next)). */
	constexpr explicit ptr(T *to) : to_(to) {}

	template <class Tx>
	T *get(Tx *tx) const
	{
		return fur_load(tx, &to_);
	}
	template <class Tx>
	void set(Tx *tx, T *to)
	{
		fur_store(tx, &to_, to);
	}
	template <class Never = void>
	T *operator->() const
	{
		static_assert(!std::is_void_v<Never>,
		        "fur::ptr has no ->, for it cannot take the transaction: use get(tx)");
		return nullptr;
	}

private:
	T *to_ = nullptr;
};

} // namespace fur

#endif /* FUR_PTR_HPP */
