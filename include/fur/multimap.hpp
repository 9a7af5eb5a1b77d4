/* SPDX-License-Identifier: BSD-3-Clause
 *
 * multimap.hpp - fur::ordered_multimap<K, V>: several values for a key, in the heap, in the order
 * of the keys, and of the values of each key.  Both have types that keys can have
 * (docs/containers.md).
 *
 *     struct Library { fur::ordered_multimap<fur::string, uint64_t> by_author; };
 *     fur::update(self, [&](fur_update *tx) { library->by_author.insert(tx, "Ada", book); });
 *     fur::read(self, [&](fur_ro *tx) {
 *             for (auto [author, book] : library->by_author.equal_range(tx, "Ada"))
 *                     print(book);
 *     });
 *
 * An entry is a pair of key and value, which is there once, as in LMDB's sorted duplicates, and not
 * as in std::multimap, which keeps the order of insertion.  So one step finds an entry whose key
 * and value are known, such as that of an index; and an update stores to no counter of insertions,
 * at which those of other threads would meet it.  To keep the order of insertion, let the value
 * begin with a number that grows.
 *
 * It is a fur::ordered_map whose keys are the pairs, and whose values take no room; what that
 * header says of growth, isolation and the words on the medium holds for it.
 */
#ifndef FUR_MULTIMAP_HPP
#define FUR_MULTIMAP_HPP

#include <fur/set.hpp>

namespace fur
{

namespace detail
{

/* A key and a value, as a key. */
template <class K, class V>
struct Dup {
};

/* A view of a T as it is kept, or none: a pointer to a T that lies in memory as it is; a copy of a
 * std::string_view, or of views of several parts, which may be of a value that is no view. */
template <class T, bool = std::is_same_v<typename stored<T>::view, const T &> &&
                          !std::is_base_of_v<InParts, stored<T>>>
class Kept
{
	using View = typename stored<T>::view;

public:
	Kept() = default;
	explicit Kept(View view) : view_(view) {}
	View get() const
	{
		return *view_;
	}

private:
	std::optional<std::decay_t<View>> view_;
};
template <class T>
class Kept<T, true>
{
public:
	Kept() = default;
	explicit Kept(const T &view) : to_(&view) {}
	const T &get() const
	{
		return *to_;
	}

private:
	const T *to_ = nullptr;
};

/* Where a place is among the values of a key. */
enum class Side { AT_VALUE, BEFORE, BEHIND };

/* As a Dup is passed; or a place before or behind all values of a key. */
template <class K, class V>
struct DupView {
	using Pair = std::pair<typename stored<K>::value, typename stored<V>::value>;
	using KeyView = typename stored<K>::view;
	using ValueView = typename stored<V>::view;

	Kept<K> key;
	Kept<V> value;
	Side side = Side::AT_VALUE;

	DupView(KeyView k, ValueView v) : key(k), value(v) {}
	DupView(KeyView k, Side s) : key(k), side(s) {}
	DupView(const Pair &pair) : key(pair.first), value(pair.second) {}
	operator Pair() const
	{
		return Pair(key.get(), value.get());
	}
};

} // namespace detail

template <class K, class V>
struct stored<detail::Dup<K, V>> {
	using key_codec = stored<K>;
	using value_codec = stored<V>;
	using view = detail::DupView<K, V>;
	using value = typename view::Pair;
	enum : size_t {
		VALUE = key_codec::WORDS,
		WORDS = VALUE + +value_codec::WORDS,
		MOST_BLOCKS = +key_codec::MOST_BLOCKS + +value_codec::MOST_BLOCKS
	};

	template <class Tx>
	static value load(Tx *tx, const uint64_t *at)
	{
		return {key_codec::load(tx, at), value_codec::load(tx, at + VALUE)};
	}
	template <class Tx>
	static void create(Tx *tx, uint64_t *at, const view &dup)
	{
		key_codec::create(tx, at, dup.key.get());
		value_codec::create(tx, at + VALUE, dup.value.get());
	}
	template <class Tx>
	static void destroy(Tx *tx, const uint64_t *at)
	{
		key_codec::destroy(tx, at);
		value_codec::destroy(tx, at + VALUE);
	}
	template <class Tx>
	static uint64_t blocks(Tx *tx, const uint64_t *at)
	{
		return key_codec::blocks(tx, at) + value_codec::blocks(tx, at + VALUE);
	}
	template <class Tx>
	static bool less(Tx *tx, const uint64_t *at, const view &dup)
	{
		if (key_codec::less(tx, at, dup.key.get()))
			return true;
		if (key_codec::more(tx, at, dup.key.get()))
			return false;
		return dup.side == detail::Side::AT_VALUE
		               ? value_codec::less(tx, at + VALUE, dup.value.get())
		               : dup.side == detail::Side::BEHIND;
	}
	template <class Tx>
	static bool more(Tx *tx, const uint64_t *at, const view &dup)
	{
		if (key_codec::more(tx, at, dup.key.get()))
			return true;
		if (key_codec::less(tx, at, dup.key.get()))
			return false;
		return dup.side == detail::Side::AT_VALUE
		               ? value_codec::more(tx, at + VALUE, dup.value.get())
		               : dup.side == detail::Side::BEFORE;
	}
	static bool is_key(const view &dup)
	{
		return key_codec::is_key(dup.key.get()) &&
		       (dup.side != detail::Side::AT_VALUE || value_codec::is_key(dup.value.get()));
	}
	static void check_key(const view &dup)
	{
		key_codec::check_key(dup.key.get());
		value_codec::check_key(dup.value.get());
	}
};

/* FANOUT as in fur::ordered_map. */
template <class K, class V, unsigned FANOUT = 15>
class ordered_multimap
    : public detail::base::OrderedKeySet<ordered_map<detail::Dup<K, V>, detail::NoValue, FANOUT>>
{
	using Base = detail::base::OrderedKeySet<
	        ordered_map<detail::Dup<K, V>, detail::NoValue, FANOUT>>;
	static_assert(!detail::is_in_place<K> && !detail::is_in_place<V>,
	        "a container, or a struct with fur::string or containers inside, has no order, so "
	        "a multimap cannot hold it: use a std::pair or std::tuple of types like "
	        "fur::string, or a fur::ordered_map with a fur::vector of such structs for each "
	        "key");
	using Dup = detail::DupView<K, V>;
	static constexpr detail::Side BEFORE = detail::Side::BEFORE, BEHIND = detail::Side::BEHIND;

public:
	using key_type = typename stored<K>::value;
	using mapped_type = typename stored<V>::value;
	using key_view = typename stored<K>::view;
	using mapped_view = typename stored<V>::view;
	using typename Base::size_type;
	using typename Base::value_type; /* a pair */
	template <class Tx>
	using iterator = typename Base::template iterator<Tx>;

	/* The entries of a key: a range, and as std::pair with its two ends. */
	template <class Tx>
	struct Range {
		iterator<Tx> first, second;
		iterator<Tx> begin() const
		{
			return first;
		}
		iterator<Tx> end() const
		{
			return second;
		}
	};

	/* contains - is there an entry of the key, or this one? */
	template <class Tx>
	bool contains(Tx *tx, key_view key) const
	{
		return find(tx, key) != this->in(tx).end();
	}
	template <class Tx>
	bool contains(Tx *tx, key_view key, mapped_view value) const
	{
		return Base::contains(tx, Dup(key, value));
	}
	/* count - the number of the key's entries, which it walks through. */
	template <class Tx>
	size_type count(Tx *tx, key_view key) const
	{
		size_type n = 0;
		const auto [first, last] = equal_range(tx, key);
		for (auto at = first; at != last; ++at)
			n++;
		return n;
	}
	/* find - an iterator to the key's first entry, or to this one; or in(tx).end(). */
	template <class Tx>
	iterator<Tx> find(Tx *tx, key_view key) const
	{
		const auto [first, last] = equal_range(tx, key);
		return first != last ? first : this->in(tx).end();
	}
	template <class Tx>
	iterator<Tx> find(Tx *tx, key_view key, mapped_view value) const
	{
		return Base::find(tx, Dup(key, value));
	}
	template <class Tx>
	iterator<Tx> find(Tx *tx, const value_type &entry) const
	{
		return Base::find(tx, entry);
	}
	/* lower_bound, upper_bound - an iterator to the first entry whose key is not smaller than
	 * `key`, or larger; or in(tx).end(). */
	template <class Tx>
	iterator<Tx> lower_bound(Tx *tx, key_view key) const
	{
		return Base::lower_bound(tx, Dup(key, BEFORE));
	}
	template <class Tx>
	iterator<Tx> upper_bound(Tx *tx, key_view key) const
	{
		return Base::lower_bound(tx, Dup(key, BEHIND));
	}
	/* equal_range - the key's entries, in the order of their values. */
	template <class Tx>
	Range<Tx> equal_range(Tx *tx, key_view key) const
	{
		return {lower_bound(tx, key), upper_bound(tx, key)};
	}
	/* floor - an iterator to the last entry whose key is not larger than `key`; or
	 * in(tx).end(). */
	template <class Tx>
	iterator<Tx> floor(Tx *tx, key_view key) const
	{
		return Base::floor(tx, Dup(key, BEHIND));
	}
	/* insert - add an entry.   Returns: whether it was added: it was not there.
	 * Errors: heap_full; std::invalid_argument for NaN as key or value. */
	template <class Tx>
	bool insert(Tx *tx, key_view key, mapped_view value)
	{
		return Base::insert(tx, Dup(key, value));
	}
	/* erase - remove all entries of the key, this entry, or that of an iterator.
	 * Returns: how many were removed; or an iterator to the next one. */
	template <class Tx>
	size_type erase(Tx *tx, key_view key)
	{
		return Base::delete_range(tx, Dup(key, BEFORE), Dup(key, BEHIND));
	}
	template <class Tx>
	size_type erase(Tx *tx, key_view key, mapped_view value)
	{
		return Base::erase(tx, Dup(key, value));
	}
	template <class Tx, class It, class = detail::if_same<It, iterator<Tx>>>
	It erase(Tx *tx, const It &at)
	{
		return Base::erase(tx, at);
	}
	/* erase_some - a part of erase(tx, key), as delete_some().
	 * Returns: how many entries; and whether the key may have more. */
	template <class Tx>
	std::pair<size_type, bool> erase_some(Tx *tx, key_view key, size_type most)
	{
		return Base::delete_some(tx, Dup(key, BEFORE), Dup(key, BEHIND), most);
	}
	/* delete_range, delete_some - remove the entries with first <= key < last; see
	 * fur::ordered_map. */
	template <class Tx>
	size_type delete_range(Tx *tx, key_view first, key_view last)
	{
		return Base::delete_range(tx, Dup(first, BEFORE), Dup(last, BEFORE));
	}
	template <class Tx>
	std::pair<size_type, bool> delete_some(
	        Tx *tx, key_view first, key_view last, size_type most)
	{
		return Base::delete_some(tx, Dup(first, BEFORE), Dup(last, BEFORE), most);
	}

	/* A place that outlives transactions: see fur::scan() (map.hpp). */
	class cursor
	{
	public:
		bool done() const
		{
			return at_.done();
		}
		/* advance - call f(value_type) for the next entries, `most` at most. */
		template <class Tx, class F>
		void advance(Tx *tx, const ordered_multimap &map, size_t most, F &&f)
		{
			at_.advance(tx, map, most, f);
		}

	private:
		typename Base::cursor at_;
	};
	/* fill()'s call for an element of its range. */
	template <class Tx, class Item>
	void put_item(Tx *tx, const Item &item)
	{
		insert(tx, item.first, item.second);
	}
};

/* erase - remove all entries of a key, in as many updates as it takes, as delete_range() does: each
 * removes some `batch` of them, or fewer if the log is small.
 * Returns: how many it has removed.
 * Durable: what is removed so far, with each update.
 * Errors:  Error, with FUR_ENESTED inside a transaction. */
template <class K, class V, unsigned FANOUT>
uint64_t erase(fur_thread *thread, ordered_multimap<K, V, FANOUT> &map,
        typename ordered_multimap<K, V, FANOUT>::key_view key, size_t batch = 1000)
{
	return detail::in_parts(
	        thread, [&](fur_update *tx) { return map.erase_some(tx, key, batch ? batch : 1); });
}

} // namespace fur

#endif /* FUR_MULTIMAP_HPP */
