/* SPDX-License-Identifier: BSD-3-Clause
 *
 * map.hpp - the calls that fur::hash_map and fur::ordered_map have in common.
 */
#ifndef FUR_MAP_HPP
#define FUR_MAP_HPP

#include <fur/owned.hpp>

#include <optional>
#include <stdexcept>
#include <utility>

namespace fur::detail
{

/* The container, Map, has:
 *     const uint64_t *value_words(tx, key) const    the value's words; NULL: no such key
 *     uint64_t *words_to_change(tx, key)            the same, for an update that stores to them
 *     std::pair<uint64_t *, bool> add(tx, key, value)    the words, and whether it was added
 *     bool remove(tx, key) */
template <class Map, class K, class V>
class MapCalls
{
	using key_codec = stored<K>;
	using value_codec = stored<V>;

	static_assert(!is_in_place<K>,
	        "a container, or a struct with fur::string or containers inside, cannot be a key: "
	        "use a std::pair or std::tuple of types like fur::string");
	/* Values that lie in the map as a V can be looked up. */
	static constexpr bool LIES = !std::is_base_of_v<InParts, value_codec>;

public:
	using owns_blocks = void; /* for codecs */
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
		static_assert(LIES,
		        "a std::pair, or the like, does not lie in the heap as it is: use "
		        "get(tx, key) and modify(tx, key, change), or a struct as the value");
		return reinterpret_cast<const V *>(map().value_words(tx, key));
	}
	V *lookup(fur_update *tx, key_view key)
	{
		static_assert(LIES,
		        "a std::pair, or the like, does not lie in the heap as it is: use "
		        "get(tx, key) and modify(tx, key, change), or a struct as the value");
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
	/* modify - load the key's value, call change(mapped_type &), and store it.
	 * Returns: false, without a call, if there is no such key. */
	template <class Tx, class Change>
	bool modify(Tx *tx, key_view key, Change change)
	{
		check_changes<Tx>();
		static_assert(!is_in_place<V>,
		        "a value that owns memory is changed where it lies: use lookup(tx, key)");
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

} // namespace fur::detail

namespace fur
{

/* scan - call f(key, value) for all entries of a map, or f(fur_ro *, key, value), which needs the
 * transaction to read values that own memory; in as many short read-only transactions as it
 * takes, of some `batch` entries each: updates wait for none of them for long.  An entry that is in
 * the map all the time is seen once; one that is added or removed meanwhile, once or not at all.
 * Errors: Error, with FUR_ENESTED inside a transaction, and whatever f throws. */
template <class Map, class F>
void scan(fur_thread *thread, const Map &map, F &&f, size_t batch = 1000)
{
	for (typename Map::cursor at; !at.done();)
		read(thread, [&](fur_ro *tx) {
			at.advance(tx, map, batch ? batch : 1, [&](const auto &entry) {
				if constexpr (std::is_invocable_v<F &, fur_ro *,
				                      decltype(entry.first),
				                      decltype(entry.second)>)
					f(tx, entry.first, entry.second);
				else
					f(entry.first, entry.second);
			});
		});
}

/* fill - insert_or_assign() the pairs of [first, last), `batch` of them in an update.  Pairs in the
 * order of an ordered map's keys fill its leaves.  A batch may run again: the iterators must allow
 * several passes.
 * Durable: the pairs so far, with each update.
 * Errors:  heap_full; Error, with FUR_ENESTED inside a transaction. */
template <class Map, class Input>
void fill(fur_thread *thread, Map &map, Input first, Input last, size_t batch = 64)
{
	while (first != last)
		first = update(thread, rerun, [&, first](fur_update *tx) {
			Input at = first;
			for (size_t n = 0; at != last && (n < batch || n == 0); ++at, n++)
				map.insert_or_assign(tx, at->first, at->second);
			return at;
		});
}

/* clear - remove all entries of a container, or of all containers in a struct that names its
 * members, in as many updates as it takes: each removes some `batch` of them, or fewer if the log
 * is small.  So it empties a container of any size, with any log, also one whose values are
 * containers; it is not atomic.  A crash, or an exception, leaves a container with fewer entries,
 * which can be used, and cleared, as any other.  Other threads see it shrink; if they keep adding
 * entries, it goes on.
 * Durable: what is removed so far, with each update.   Errors: Error. */
template <class T>
void clear(fur_thread *thread, T &object, size_t batch = 1000)
{
	static_assert(detail::has_clear_some<T>::value || detail::has_members<T>::value,
	        "fur::clear is for containers, and for structs that name their members by "
	        "FUR_MEMBERS(...)");
	while (update(thread, rerun,
	        [&](fur_update *tx) { return detail::clear_some_of(tx, object, batch); }))
		;
}

/* destroy - clear() an object that make() or root() has made, and free it with the last part: for
 * containers that are too large for destroy(tx, object).  Nothing may lead to the object any more,
 * or a crash would leave a name, or a pointer, of freed memory; but then a crash leaks what is
 * left.  To be safe from both, clear() the object, and call remove_root(tx, name) and
 * destroy(tx, object) in one update.
 * NULL is allowed.
 * Durable: before return.   Errors: Error. */
template <class T>
void destroy(fur_thread *thread, T *object, size_t batch = 1000)
{
	const auto part = [=](fur_update *tx) {
		if (detail::clear_some_of(tx, *object, batch))
			return true;
		destroy(tx, object);
		return false;
	};
	while (object && update(thread, rerun, part))
		;
}

/* erase - remove a key and its value, for values that are containers, or contain them, and may be
 * too large for map.erase(tx, key): as clear() in several updates, of which the last one removes
 * the key.  In between others see a smaller value.
 * Returns: how many keys were removed, 0 or 1.
 * Durable: before return.   Errors: Error. */
template <class Map>
uint64_t erase(fur_thread *thread, Map &map, typename Map::key_view key, size_t batch = 1000)
{
	std::optional<uint64_t> removed;
	while (!removed)
		removed = update(thread, rerun, [&](fur_update *tx) -> std::optional<uint64_t> {
			auto *value = map.lookup(tx, key);
			if (value && detail::clear_some_of(tx, *value, batch))
				return std::nullopt;
			return map.erase(tx, key);
		});
	return *removed;
}

} // namespace fur

#endif /* FUR_MAP_HPP */
