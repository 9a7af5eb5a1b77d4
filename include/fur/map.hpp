/* SPDX-License-Identifier: BSD-3-Clause
 *
 * map.hpp - the calls that fur::hash_map and fur::ordered_map have in common.
 */
#ifndef FUR_MAP_HPP
#define FUR_MAP_HPP

#include <fur/string.hpp>

#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace fur::detail
{

/* For a loop that ends when its stores have taken effect: those of an update that has failed do
 * nothing.   Errors: Error, if it has. */
template <class Tx>
void check_update(Tx *tx)
{
	if constexpr (std::is_same_v<Tx, fur_update>)
		check(fur_update_error(tx));
}

/* For a parameter that braces must not become. */
template <class A, class B>
using if_same = std::enable_if_t<std::is_same_v<A, B>>;

/* The container, Map, has:
 *     const uint64_t *value_words(tx, key) const    the value's words; NULL: no such key
 *     uint64_t *words_to_change(tx, key)            the same, for an update that stores to them
 *     std::pair<uint64_t *, bool> add(tx, key, value)    the words, and whether it was added
 *     bool remove(tx, key)
 *     Iterator erase(tx, iterator)                  remove its entry; the next one
 *     void pass(tx, iterator &)                     go on from an entry that stays */
template <class Map, class K, class V>
class MapCalls
{
	using key_codec = stored<K>;
	using value_codec = stored<V>;

public:
	using key_type = typename key_codec::value;
	using mapped_type = typename value_codec::value;
	using value_type = std::pair<key_type, mapped_type>;
	using size_type = uint64_t;
	/* As they are passed: const T &, or std::string_view. */
	using key_view = typename key_codec::view;
	using mapped_view = typename value_codec::view;

	MapCalls() = default;
	MapCalls(const MapCalls &) = delete;
	MapCalls &operator=(const MapCalls &) = delete;

	/* contains, count - is there such a key? */
	template <class Tx>
	bool contains(Tx *tx, key_view key) const
	{
		return map().value_words(tx, key) != nullptr;
	}
	template <class Tx>
	size_type count(Tx *tx, key_view key) const
	{
		return contains(tx, key);
	}
	/* get - a copy of the key's value.   Returns: nothing if there is no such key. */
	template <class Tx>
	std::optional<mapped_type> get(Tx *tx, key_view key) const
	{
		const uint64_t *words = map().value_words(tx, key);
		return words ? std::optional<mapped_type>(value_codec::load(tx, words))
		             : std::nullopt;
	}
	/* at - the same.   Errors: std::out_of_range if there is no such key. */
	template <class Tx>
	mapped_type at(Tx *tx, key_view key) const
	{
		const uint64_t *words = map().value_words(tx, key);
		if (!words)
			throw std::out_of_range("fur: the map has no such key");
		return value_codec::load(tx, words);
	}
	/* lookup - the value where it lies, to read or store parts of it with fur_load() and
	 * fur_store().  The pointer is valid until the transaction ends or changes the map.
	 * Returns: NULL if there is no such key. */
	const V *lookup(fur_ro *tx, key_view key) const
	{
		return reinterpret_cast<const V *>(map().value_words(tx, key));
	}
	V *lookup(fur_update *tx, key_view key)
	{
		return reinterpret_cast<V *>(map().words_to_change(tx, key));
	}
	/* insert - add the key with this value, unless the key is there.
	 * Returns: whether it was added.   Errors: heap_full. */
	template <class Tx>
	bool insert(Tx *tx, key_view key, mapped_view value)
	{
		check_changes<Tx>();
		return map().add(tx, key, value).second;
	}
	/* insert_or_assign - give the key this value.
	 * Returns: whether the key was added.   Errors: heap_full. */
	template <class Tx>
	bool insert_or_assign(Tx *tx, key_view key, mapped_view value)
	{
		check_changes<Tx>();
		auto [words, added] = map().add(tx, key, value);
		if (!added)
			value_codec::assign(tx, words, value);
		return added;
	}
	/* get_or_insert - the key's value; if there is no such key, add it with this one.
	 * Returns: a copy of the value that the key has now.   Errors: heap_full. */
	template <class Tx>
	mapped_type get_or_insert(Tx *tx, key_view key, mapped_view value)
	{
		check_changes<Tx>();
		return value_codec::load(tx, map().add(tx, key, value).first);
	}
	/* try_emplace - add the key with a value that is made of `args`, unless the key is there.
	 * Returns: the value where it lies, as lookup() does, for an iterator's are copies; and
	 *          whether the key was added.
	 * Errors:  heap_full. */
	template <class Tx, class... Args>
	std::pair<V *, bool> try_emplace(Tx *tx, key_view key, Args &&...args)
	{
		check_changes<Tx>();
		const auto [words, added] =
		        map().add(tx, key, make_value(std::forward<Args>(args)...));
		return {reinterpret_cast<V *>(words), added};
	}
	/* modify - load the key's value, call change(mapped_type &), and store it.
	 * Returns: false, without a call, if there is no such key. */
	template <class Tx, class Change>
	bool modify(Tx *tx, key_view key, Change change)
	{
		check_changes<Tx>();
		uint64_t *words = map().words_to_change(tx, key);
		if (!words)
			return false;
		mapped_type value = value_codec::load(tx, words);
		change(value);
		value_codec::assign(tx, words, value);
		return true;
	}
	/* erase - remove the key and its value.   Returns: how many were removed, 0 or 1. */
	template <class Tx>
	size_type erase(Tx *tx, key_view key)
	{
		check_changes<Tx>();
		return map().remove(tx, key);
	}
	/* erase_if - remove the entries for which pred(value_type) is true.   Returns: how many.
	 * The log must have room for all of them, or it is FUR_ETOOBIG: fur::erase_if(thread, map,
	 * pred) takes several updates. */
	template <class Tx, class Pred>
	size_type erase_if(Tx *tx, Pred pred)
	{
		check_changes<Tx>();
		size_type gone = 0;
		const auto all = map().in(tx);
		for (auto at = all.begin(); at != all.end();) {
			if (pred(*at)) {
				at = map().erase(tx, at);
				gone++;
			} else {
				map().pass(tx, at);
			}
		}
		return gone;
	}
	static const key_type &key_of(const value_type &entry)
	{
		return entry.first;
	}
	/* fill()'s call for an element of its range. */
	template <class Tx, class Item>
	void put_item(Tx *tx, const Item &item)
	{
		insert_or_assign(tx, item.first, item.second);
	}
	template <class Tx>
	bool empty(Tx *tx) const
	{
		return map().size(tx) == 0;
	}
	template <class Key>
	void operator[](const Key &) const
	{
		static_assert(!sizeof(Key),
		        "libfur's maps have no operator[], for it cannot take the transaction: use "
		        "at(tx, key), get(tx, key), insert_or_assign(tx, key, value) or "
		        "modify(tx, key, change)");
	}

private:
	/* Members of a struct may be given in braces, as in its initialization. */
	template <class... Args>
	static mapped_type make_value(Args &&...args)
	{
		if constexpr (std::is_constructible_v<mapped_type, Args...>)
			return mapped_type(std::forward<Args>(args)...);
		else
			return mapped_type{std::forward<Args>(args)...};
	}
	const Map &map() const
	{
		return static_cast<const Map &>(*this);
	}
	Map &map()
	{
		return static_cast<Map &>(*this);
	}
};

/* The result of an iterator's ->.  It holds the pair that * has made. */
template <class Value>
struct Arrow {
	Value value;
	const Value *operator->() const
	{
		return &value;
	}
};

/* Call f(key, value), or f(entry): for a set, or because f wants it so. */
template <class F, class Entry, class = void>
struct takes_two : std::false_type {
};
template <class F, class Entry>
struct takes_two<F, Entry,
        std::void_t<decltype(std::declval<F &>()(std::declval<const Entry &>().first,
                std::declval<const Entry &>().second))>> : std::true_type {
};
/* A member, so that no call in the program means it: containers have base classes in this
 * namespace. */
struct Pass {
	template <class F, class Entry>
	static void to(F &f, const Entry &entry)
	{
		if constexpr (takes_two<F, Entry>::value)
			f(entry.first, entry.second);
		else
			f(entry);
	}
};

} // namespace fur::detail

namespace fur
{

/* scan - call f(key, value) for all entries of a map, or f(key) for those of a set, in as many
 * short read-only transactions as it takes, of some `batch` entries each: updates wait for none of
 * them for long.  An entry that is in the map all the time is seen once; one that is added or
 * removed meanwhile, once or not at all.
 * Errors: Error, with FUR_ENESTED inside a transaction, and whatever f throws. */
template <class Map, class F>
void scan(fur_thread *thread, const Map &map, F &&f, size_t batch = 1000)
{
	for (typename Map::cursor at; !at.done();)
		read(thread, [&](fur_ro *tx) {
			at.advance(tx, map, batch ? batch : 1,
			        [&](const auto &entry) { detail::Pass::to(f, entry); });
		});
}

/* fill - insert_or_assign() the pairs of [first, last), or insert() the keys of a set, `batch` of
 * them in an update.  What comes in the order of an ordered map's keys fills its leaves.  A batch
 * may run again: the iterators must allow several passes.
 * Durable: the pairs so far, with each update.
 * Errors:  heap_full; Error, with FUR_ENESTED inside a transaction. */
template <class Map, class Input>
void fill(fur_thread *thread, Map &map, Input first, Input last, size_t batch = 64)
{
	while (first != last)
		first = update(thread, rerun, [&, first](fur_update *tx) {
			Input at = first;
			for (size_t n = 0; at != last && (n < batch || n == 0); ++at, n++)
				map.put_item(tx, *at);
			return at;
		});
}

/* erase_if - remove the entries for which pred(entry) is true, within the caller's update: see
 * the member of that name. */
template <class Tx, class Map, class Pred>
auto erase_if(Tx *tx, Map &map, Pred pred) -> decltype(map.erase_if(tx, pred))
{
	return map.erase_if(tx, pred);
}
/* erase_if(thread, ...) - the same for a map of any size, with any log: it walks as scan() does,
 * and removes what it finds in updates of some `batch` entries, or fewer if the log is small, which
 * call pred() again.  It is not atomic: an entry that is added meanwhile may stay.  After a crash,
 * or an exception, call it again.
 * Durable: what is removed so far, with each update.
 * Returns: how many it has removed.
 * Errors:  Error, with FUR_ENESTED inside a transaction, and whatever pred throws. */
template <class Map, class Pred>
uint64_t erase_if(fur_thread *thread, Map &map, Pred pred, size_t batch = 1000)
{
	uint64_t gone = 0;
	for (typename Map::cursor at; !at.done();) {
		std::vector<std::decay_t<decltype(Map::key_of(
		        std::declval<const typename Map::value_type &>()))>>
		        some;
		read(thread, [&](fur_ro *tx) {
			at.advance(tx, map, batch ? batch : 1, [&](const auto &entry) {
				if (pred(entry))
					some.push_back(Map::key_of(entry));
			});
		});
		for (size_t k = 0; k < some.size();) {
			const auto part = [&](fur_update *tx) {
				size_t next = k;
				uint64_t n = 0;
				do {
					auto found = map.find(tx, some[next++]);
					if (found != map.in(tx).end() && pred(*found)) {
						map.erase(tx, found);
						n++;
					}
				} while (next < some.size() && detail::room_for_a_step(tx));
				return std::pair<size_t, uint64_t>(next, n);
			};
			const auto [next, n] = update(thread, rerun, part);
			k = next;
			gone += n;
		}
	}
	return gone;
}

/* delete_range - remove the entries of an ordered map with first <= key < last, in as many updates
 * as it takes: each removes some `batch` of them, or fewer if the log is small.  So it takes ranges
 * of any size, with any log; it is not atomic.  After a crash, or an exception, call it again.
 * Durable: what is removed so far, with each update.
 * Returns: how many it has removed.
 * Errors:  Error, with FUR_ENESTED inside a transaction. */
template <class Map>
uint64_t delete_range(fur_thread *thread, Map &map, typename Map::key_view first,
        typename Map::key_view last, size_t batch = 1000)
{
	uint64_t gone = 0, n;
	do {
		n = update(thread, rerun, [&](fur_update *tx) {
			return map.delete_some(tx, first, last, batch ? batch : 1);
		});
		gone += n;
	} while (n > 0);
	return gone;
}

/* clear - remove all entries of a map, in as many updates as it takes: each removes some `batch` of
 * them, or fewer if the log is small.  So it empties a map of any size, with any log; it is not
 * atomic.  A crash, or an exception, leaves a map with fewer entries, which can be used, and
 * cleared, as any other.  Other threads see it shrink; if they keep adding entries, it goes on.
 * Durable: what is removed so far, with each update.   Errors: Error. */
template <class Map>
void clear(fur_thread *thread, Map &map, size_t batch = 1000)
{
	while (update(thread, rerun, [&](fur_update *tx) { return map.clear_some(tx, batch); }))
		;
}

/* destroy - clear() a map that make() or root() has made, and free it with the last part: for maps
 * that are too large for destroy(tx, map).  Nothing may lead to the map any more, or a crash would
 * leave a name, or a pointer, of freed memory; but then a crash leaks what is left.  To be safe
 * from both, clear() the map, and call remove_root(tx, name) and destroy(tx, map) in one
 * update.
 * NULL is allowed.
 * Durable: before return.   Errors: Error. */
template <class Map>
void destroy(fur_thread *thread, Map *map, size_t batch = 1000)
{
	const auto part = [=](fur_update *tx) {
		if (map->clear_some(tx, batch))
			return true;
		destroy(tx, map);
		return false;
	};
	while (map && update(thread, rerun, part))
		;
}

} // namespace fur

#endif /* FUR_MAP_HPP */
