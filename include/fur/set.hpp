/* SPDX-License-Identifier: BSD-3-Clause
 *
 * set.hpp - fur::hash_set<K> and fur::ordered_set<K>: sets in the heap.  docs/containers.md says
 * which types keys can have.
 *
 *     struct Club { fur::ordered_set<fur::string> members; };
 *     fur::update(self, [&](fur_update *tx) { club->members.insert(tx, "ada"); });
 *     fur::read(self, [&](fur_ro *tx) {
 *             for (const std::string &name : club->members.in(tx))
 *                     std::cout << name << '\n';
 *     });
 *
 * They are a fur::hash_map and a fur::ordered_map whose values take no room; what these headers say
 * of growth, isolation and the words on the medium holds for them.  A set that is all zero is
 * empty.
 */
#ifndef FUR_SET_HPP
#define FUR_SET_HPP

#include <fur/hash_map.hpp>
#include <fur/ordered_map.hpp>

namespace fur
{

namespace detail
{

/* The value of a key in a set. */
struct NoValue {
};

} // namespace detail

template <>
struct stored<detail::NoValue> {
	enum : size_t { WORDS = 0, MOST_BLOCKS = 0 };
	using view = const detail::NoValue &;
	using value = detail::NoValue;

	template <class Tx>
	static value load(Tx *, const uint64_t *)
	{
		return {};
	}
	template <class Tx>
	static void create(Tx *, uint64_t *, view)
	{
	}
	template <class Tx>
	static void destroy(Tx *, const uint64_t *)
	{
	}
	template <class Tx>
	static uint64_t blocks(Tx *, const uint64_t *)
	{
		return 0;
	}
};

namespace detail::base /* iterator.hpp */
{

/* At a key, by the map's iterator to its entry. */
template <class It>
class KeyIterator : public Steps<KeyIterator<It>>
{
public:
	using iterator_category = typename It::iterator_category;
	using value_type = typename It::value_type::first_type;
	using difference_type = ptrdiff_t;
	using pointer = Arrow<value_type>;
	using reference = value_type;

	KeyIterator() = default;
	explicit KeyIterator(const It &at) : at_(at) {}
	value_type operator*() const
	{
		return at_.key();
	}
	pointer operator->() const
	{
		return {**this};
	}
	KeyIterator &operator++()
	{
		++at_;
		return *this;
	}
	KeyIterator &operator--()
	{
		--at_;
		return *this;
	}
	bool operator==(const KeyIterator &other) const
	{
		return at_ == other.at_;
	}
	/* For the set. */
	const It &of_map() const
	{
		return at_;
	}

private:
	It at_;
};

/* The calls that the sets have in common, on a map without values. */
template <class Map>
class KeySet
{
public:
	using owns_blocks = void; /* for codecs */
	static constexpr bool OWNS_VALUES = false;
	using key_type = typename Map::key_type;
	using value_type = key_type;
	using key_view = typename Map::key_view;
	using size_type = typename Map::size_type;
	template <class Tx>
	using iterator = KeyIterator<typename Map::template iterator<Tx>>;

	/* size - the number of keys; see the map's. */
	template <class Tx>
	size_type size(Tx *tx) const
	{
		return map_.size(tx);
	}
	template <class Tx>
	bool empty(Tx *tx) const
	{
		return map_.empty(tx);
	}
	/* contains, count - is the key in the set? */
	template <class Tx>
	bool contains(Tx *tx, key_view key) const
	{
		return map_.contains(tx, key);
	}
	template <class Tx>
	size_type count(Tx *tx, key_view key) const
	{
		return map_.count(tx, key);
	}
	/* contains_many - look for `n` keys at once: call f(size_t i) for each keys[i] that is in
	 * the set, in any order; or, with a bool *, set out[i].  See get_many() of the maps.
	 * Returns: how many of the keys are there; a key that is given twice counts twice. */
	template <class Tx, class Key, class F>
	size_type contains_many(Tx *tx, const Key *keys, size_t n, F f_or_out) const
	{
		return map_.contains_many(tx, keys, n, f_or_out);
	}
	/* prefetch_many - bring these keys into the caches; see the map's. */
	template <class Tx, class Key>
	void prefetch_many(Tx *tx, const Key *keys, size_t n) const
	{
		map_.prefetch_many(tx, keys, n);
	}
	/* find - an iterator to the key, or in(tx).end(). */
	template <class Tx>
	iterator<Tx> find(Tx *tx, key_view key) const
	{
		return iterator<Tx>(map_.find(tx, key));
	}
	/* insert - add the key.   Returns: whether it was added: it was not there.
	 * Errors: heap_full. */
	template <class Tx>
	bool insert(Tx *tx, key_view key)
	{
		return map_.insert(tx, key, NoValue());
	}
	/* erase - remove the key.   Returns: how many were removed, 0 or 1. */
	template <class Tx>
	size_type erase(Tx *tx, key_view key)
	{
		return map_.erase(tx, key);
	}
	/* erase - remove the key of an iterator.   Returns: an iterator to the next one. */
	template <class Tx, class It, class = if_same<It, iterator<Tx>>>
	It erase(Tx *tx, const It &at)
	{
		return It(map_.erase(tx, at.of_map()));
	}
	/* erase_if - remove the keys for which pred(key) is true; see the map's. */
	template <class Tx, class Pred>
	size_type erase_if(Tx *tx, Pred pred)
	{
		return map_.erase_if(tx, [&](const auto &entry) { return pred(entry.first); });
	}
	/* clear, clear_some - remove all keys, or a part of them; see the map's. */
	template <class Tx>
	void clear(Tx *tx)
	{
		map_.clear(tx);
	}
	template <class Tx>
	bool clear_some(Tx *tx, size_type most)
	{
		return map_.clear_some(tx, most);
	}
	/* verify - as the map's. */
	template <class Tx>
	const char *verify(Tx *tx, uint64_t &blocks) const
	{
		return map_.verify(tx, blocks);
	}

	/* A place in the set that outlives transactions: see fur::scan() (map.hpp). */
	class cursor
	{
	public:
		/* At the beginning, or, in an ordered set, at the first key that is not before
		 * `from`. */
		cursor() = default;
		explicit cursor(key_view from) : at_(from) {}
		bool done() const
		{
			return at_.done();
		}
		/* advance - call f(key) for the next keys; see the map's. */
		template <class Tx, class F>
		void advance(Tx *tx, const KeySet &set, size_t most, F &&f)
		{
			at_.advance(tx, set.map_, most, [&](const auto &entry) { f(entry.first); });
		}

	private:
		typename Map::cursor at_;
	};

	static const key_type &key_of(const key_type &key)
	{
		return key;
	}
	/* fill()'s call for an element of its range. */
	template <class Tx, class Item>
	void put_item(Tx *tx, const Item &item)
	{
		insert(tx, item);
	}

protected:
	Map map_;
};

/* The same for a map in order. */
template <class Map>
class OrderedKeySet : public KeySet<Map>
{
	using Base = KeySet<Map>;
	using Base::map_;
	template <class Tx>
	class View;

public:
	using typename Base::key_view;
	using typename Base::size_type;
	template <class Tx>
	using iterator = typename Base::template iterator<Tx>;

	/* in - the keys in a transaction, as a range in their order.  It and its iterators are
	 * valid until the transaction ends or changes the set. */
	template <class Tx>
	View<Tx> in(Tx *tx) const
	{
		return {tx, this};
	}
	/* lower_bound, upper_bound, floor - an iterator to the first key that is not before `key`;
	 * to the first one behind it; to the last one that is not behind it; or in(tx).end(). */
	template <class Tx>
	iterator<Tx> lower_bound(Tx *tx, key_view key) const
	{
		return iterator<Tx>(map_.lower_bound(tx, key));
	}
	template <class Tx>
	iterator<Tx> upper_bound(Tx *tx, key_view key) const
	{
		return iterator<Tx>(map_.upper_bound(tx, key));
	}
	template <class Tx>
	iterator<Tx> floor(Tx *tx, key_view key) const
	{
		return iterator<Tx>(map_.floor(tx, key));
	}
	/* delete_range, delete_some - remove the keys with first <= key < last; see the map's. */
	template <class Tx>
	size_type delete_range(Tx *tx, key_view first, key_view last)
	{
		return map_.delete_range(tx, first, last);
	}
	template <class Tx>
	std::pair<size_type, bool> delete_some(
	        Tx *tx, key_view first, key_view last, size_type most)
	{
		return map_.delete_some(tx, first, last, most);
	}

private:
	template <class Tx>
	class View
	{
	public:
		using iterator = OrderedKeySet::iterator<Tx>;
		using reverse_iterator = std::reverse_iterator<iterator>;

		View(Tx *tx, const OrderedKeySet *set) : tx_(tx), set_(set) {}
		iterator begin() const
		{
			return iterator(set_->map_.in(tx_).begin());
		}
		iterator end() const
		{
			return iterator(set_->map_.in(tx_).end());
		}
		reverse_iterator rbegin() const
		{
			return reverse_iterator(end());
		}
		reverse_iterator rend() const
		{
			return reverse_iterator(begin());
		}
		iterator find(key_view key) const
		{
			return set_->find(tx_, key);
		}
		iterator lower_bound(key_view key) const
		{
			return set_->lower_bound(tx_, key);
		}
		iterator upper_bound(key_view key) const
		{
			return set_->upper_bound(tx_, key);
		}
		iterator floor(key_view key) const
		{
			return set_->floor(tx_, key);
		}
		size_type size() const
		{
			return set_->size(tx_);
		}

	private:
		Tx *tx_;
		const OrderedKeySet *set_;
	};
};

} // namespace detail::base

/* hash_set - TABLE_BITS as in fur::hash_map. */
template <class K, unsigned TABLE_BITS = 9>
class hash_set : public detail::base::KeySet<hash_map<K, detail::NoValue, TABLE_BITS>>
{
	using Base = detail::base::KeySet<hash_map<K, detail::NoValue, TABLE_BITS>>;
	using Base::map_;
	template <class Tx>
	class View;

public:
	using typename Base::size_type;
	template <class Tx>
	using iterator = typename Base::template iterator<Tx>;

	/* in - the keys in a transaction, as a range in no useful order.  It and its iterators are
	 * valid until the transaction ends or changes the set. */
	template <class Tx>
	View<Tx> in(Tx *tx) const
	{
		return {tx, this};
	}
	/* scan - call f(key) for the keys from place `from` on, and return the place to go on from;
	 * see fur::hash_map. */
	template <class Tx, class F>
	uint64_t scan(Tx *tx, uint64_t from, size_t most, F &&f) const
	{
		return map_.scan(tx, from, most, [&](const auto &entry) { f(entry.first); });
	}

private:
	template <class Tx>
	class View
	{
	public:
		View(Tx *tx, const hash_set *set) : tx_(tx), set_(set) {}
		iterator<Tx> begin() const
		{
			return iterator<Tx>(set_->map_.in(tx_).begin());
		}
		iterator<Tx> end() const
		{
			return iterator<Tx>();
		}
		size_type size() const
		{
			return set_->size(tx_);
		}

	private:
		Tx *tx_;
		const hash_set *set_;
	};
};

/* ordered_set - FANOUT and Compare as in fur::ordered_map. */
template <class K, unsigned FANOUT = 15, class Compare = std::less<>>
class ordered_set
    : public detail::base::OrderedKeySet<ordered_map<K, detail::NoValue, FANOUT, Compare>>
{
};

} // namespace fur

#endif /* FUR_SET_HPP */
