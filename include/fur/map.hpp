/* SPDX-License-Identifier: BSD-3-Clause
 *
 * map.hpp - the calls that fur::hash_map and fur::ordered_map have in common.
 */
#ifndef FUR_MAP_HPP
#define FUR_MAP_HPP

#include <fur/lookups.hpp>
#include <fur/owned.hpp>

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

/* Call f(tx, key, value), or f(key, value), or f(entry): for a set, or because f wants it so. */
template <class F, class Entry, class = void>
struct takes_two : std::false_type {
};
template <class F, class Entry>
struct takes_two<F, Entry,
        std::void_t<decltype(std::declval<F &>()(std::declval<const Entry &>().first,
                std::declval<const Entry &>().second))>> : std::true_type {
};
template <class Tx, class F, class Entry, class = void>
struct takes_tx_and_two : std::false_type {
};
template <class Tx, class F, class Entry>
struct takes_tx_and_two<Tx, F, Entry,
        std::void_t<decltype(std::declval<F &>()(std::declval<Tx *>(),
                std::declval<const Entry &>().first, std::declval<const Entry &>().second))>>
    : std::true_type {
};
/* Members, so that no call in the program means them: containers have base classes in this
 * namespace. */
struct Pass {
	template <class Tx, class F, class Entry>
	static void to(Tx *tx, F &f, const Entry &entry)
	{
		if constexpr (takes_tx_and_two<Tx, F, Entry>::value)
			f(tx, entry.first, entry.second);
		else if constexpr (takes_two<F, Entry>::value)
			f(entry.first, entry.second);
		else
			f(entry);
	}
	/* pred(tx, entry), or pred(entry). */
	template <class Tx, class Pred, class Entry>
	static bool holds(Tx *tx, Pred &pred, const Entry &entry)
	{
		if constexpr (std::is_invocable_v<Pred &, Tx *, const Entry &>) {
			return pred(tx, entry);
		} else {
			static_assert(std::is_invocable_v<Pred &, const Entry &>,
			        "the predicate takes an entry, or a transaction of any kind and an "
			        "entry: [](auto *tx, const auto &entry) { ... }");
			return pred(entry);
		}
	}
	/* For functions that remove an entry in parts: free what its value owns, up to `most`
	 * entries.   Returns: whether the entry must not be removed in this update. */
	template <class Map, class Key>
	static bool value_waits(fur_update *tx, Map &map, const Key &key, uint64_t most)
	{
		if constexpr (Map::OWNS_VALUES) {
			auto *value = map.lookup(tx, key);
			return value && clear_value_some<std::remove_pointer_t<decltype(value)>>(
			                        tx, reinterpret_cast<uint64_t *>(value), most);
		}
		return false;
	}
};

namespace base /* iterator.hpp */
{

/* The container, Map, has:
 *     const uint64_t *value_words(tx, key) const    the value's words; NULL: no such key
 *     uint64_t *words_to_change(tx, key)            the same, for an update that stores to them
 *     std::pair<uint64_t *, bool> add(tx, key, value)    the words, and whether it was added
 *     bool remove(tx, key)
 *     Iterator erase(tx, iterator)                  remove its entry; the next one
 *     void pass(tx, iterator &)                     go on from an entry that stays
 *     void find_group(tx, n, key_of, words) const   value_words() of key_of(0) to key_of(n - 1), at
 *                                                   most GROUP keys (lookups.hpp) */
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
	/* Values lie in the map as they are, and own memory. */
	static constexpr bool OWNS_VALUES = is_in_place<V>;
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
	/* get_many - look for `n` keys at once, and call f(size_t i, mapped_type value) for each
	 * keys[i] that is there, in any order.  In a map that is larger than the processor's caches
	 * a search waits for memory at each level; here up to 16 searches wait together.  In an
	 * update it reads what as many calls of get() would.
	 * `keys` are of any type that get() takes.
	 * Returns: how many of the keys are there; a key that is given twice counts twice. */
	template <class Tx, class Key, class F>
	size_type get_many(Tx *tx, const Key *keys, size_t n, F f) const
	{
		return find_many(tx, keys, n, [&](size_t i, const uint64_t *words) {
			f(i, value_codec::load(tx, words));
		});
	}
	/* The same into out[i]; nothing: there is no such key. */
	template <class Tx, class Key>
	size_type get_many(Tx *tx, const Key *keys, size_t n, std::optional<mapped_type> *out) const
	{
		for (size_t i = 0; i < n; i++)
			out[i].reset();
		return get_many(tx, keys, n,
		        [&](size_t i, auto &&value) { out[i].emplace(std::move(value)); });
	}
	/* contains_many - as get_many() without the values: call f(size_t i) for each keys[i] that
	 * is there, in any order; or set out[i] to whether it is.
	 * Returns: how many of the keys are there; a key that is given twice counts twice. */
	template <class Tx, class Key, class F>
	size_type contains_many(Tx *tx, const Key *keys, size_t n, F f) const
	{
		return find_many(tx, keys, n, [&](size_t i, const uint64_t *) { f(i); });
	}
	template <class Tx, class Key>
	size_type contains_many(Tx *tx, const Key *keys, size_t n, bool *out) const
	{
		for (size_t i = 0; i < n; i++)
			out[i] = false;
		return contains_many(tx, keys, n, [=](size_t i) { out[i] = true; });
	}
	/* find_many - get_many() for bindings: call found(i, words) with the words of the value
	 * where it lies.  find_many() owns nothing, so libfur may leave it by longjmp(). */
	template <class Tx, class Key, class Found>
	size_type find_many(Tx *tx, const Key *keys, size_t n, Found found) const
	{
		const uint64_t *words[GROUP];
		size_type n_found = 0;
		for (size_t from = 0; from < n; from += GROUP) {
			const size_t some = n - from < GROUP ? n - from : +GROUP;
			const Key *first = keys + from;
			map().find_group(
			        tx, some, [=](size_t i) -> const Key & { return first[i]; }, words);
			ask_for_values(tx, words, some);
			for (size_t i = 0; i < some; i++)
				if (words[i]) {
					found(from + i, words[i]);
					n_found++;
				}
		}
		return n_found;
	}
	/* prefetch_many - bring these keys' entries into the caches, for an update of them that
	 * follows.  In a transaction of its own: an update would depend on all that it reads. */
	template <class Tx, class Key>
	void prefetch_many(Tx *tx, const Key *keys, size_t n) const
	{
		find_many(tx, keys, n, [](size_t, const uint64_t *) {});
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
	/* get_or_insert - the key's value; if there is no such key, add it with this one.
	 * Returns: what get() does for the value that the key has now.   Errors: heap_full. */
	template <class Tx>
	mapped_type get_or_insert(Tx *tx, key_view key, mapped_view value)
	{
		check_changes<Tx>();
		return value_codec::load(tx, map().add(tx, key, value).first);
	}
	/* try_emplace - add the key with a value that is made of `args`, unless the key is there.
	 * Without args, a value that owns memory is empty; one that is passed must be.
	 * Returns: the value where it lies, as lookup() does, for an iterator's are copies; and
	 *          whether the key was added.
	 * Errors:  heap_full. */
	template <class Tx, class... Args>
	std::pair<V *, bool> try_emplace(Tx *tx, key_view key, Args &&...args)
	{
		check_changes<Tx>();
		static_assert(LIES,
		        "a std::pair, or the like, does not lie in the heap as it is: use "
		        "get_or_insert(tx, key, value) or insert(tx, key, value), or a struct as "
		        "the value");
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
	/* erase_if - remove the entries for which pred(value_type) is true, or pred(tx,
	 * value_type).   Returns: how many.
	 * The log must have room for all of them, or it is FUR_ETOOBIG: fur::erase_if(thread, map,
	 * pred) takes several updates. */
	template <class Tx, class Pred>
	size_type erase_if(Tx *tx, Pred pred)
	{
		auto at = map().in(tx).begin();
		return erase_from(
		        tx, at, [&](const auto &entry) { return +Pass::holds(tx, pred, *entry); });
	}
	/* erase_from - for fur_map.h: remove the entries from the iterator on for which which(at)
	 * is 1, and keep those for which it is 0.  At the first for which it is negative it stops:
	 * `at` is there then, or else at the end.   Returns: how many. */
	template <class Tx, class It, class Which>
	size_type erase_from(Tx *tx, It &at, Which which)
	{
		check_changes<Tx>();
		size_type gone = 0;
		for (const auto end = map().in(tx).end(); at != end;) {
			const int decision = which(at);
			if (decision < 0)
				break;
			if (decision) {
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
	template <class Tx>
	static void ask_for_values(Tx *tx, const uint64_t *const *words, size_t n)
	{
		if constexpr (!Map::IS_SMALL)
			for (size_t i = 0; i < n; i++)
				if (words[i])
					prefetch(tx, words[i], value_codec::WORDS);
		if constexpr (has_prefetch<value_codec>::value)
			for (size_t i = 0; i < n; i++)
				if (words[i])
					value_codec::prefetch(tx, words[i]);
	}
	/* Members of a struct may be given in braces, as in its initialization. */
	template <class... Args>
	static decltype(auto) make_value(Args &&...args)
	{
		if constexpr (is_in_place<V> && (std::is_same_v<std::decay_t<Args>, V> && ...) &&
		              sizeof...(Args) == 1)
			return (static_cast<const V &>(args), ...); /* it is not copied */
		else if constexpr (is_in_place<V>)
			return V{std::forward<Args>(args)...};
		else if constexpr (std::is_constructible_v<mapped_type, Args...>)
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

} // namespace base

} // namespace fur::detail

namespace fur
{

namespace detail
{

/* Updates, each of which returns how many entries it has removed, and whether there are more.
 * Returns: the sum. */
template <class Part>
uint64_t in_parts(fur_thread *thread, Part part)
{
	uint64_t gone = 0;
	for (bool more = true; more;) {
		const auto done = update(thread, rerun, part);
		gone += done.first;
		more = done.second;
	}
	return gone;
}

} // namespace detail

/* scan - call f(key, value) for all entries of a map, or f(key) for those of a set, in as many
 * short read-only transactions as it takes, of some `batch` entries each: updates wait for none of
 * them for long.  To read values that own memory, f takes the transaction: f(fur_ro *, key, value).
 * An entry that is in the map all the time is seen once; one that is added or removed meanwhile,
 * once or not at all.
 * Errors: Error, with FUR_ENESTED inside a transaction, and whatever f throws. */
template <class Map, class F>
void scan(fur_thread *thread, const Map &map, F &&f, size_t batch = 1000)
{
	for (typename Map::cursor at; !at.done();)
		read(thread, [&](fur_ro *tx) {
			at.advance(tx, map, batch ? batch : 1,
			        [&](const auto &entry) { detail::Pass::to(tx, f, entry); });
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
 * call pred() again.  It is not atomic: an entry that is added meanwhile may stay.
 * pred(auto *tx, entry) gets the transaction, a fur_ro * or a fur_update *, to read values that own
 * memory.  One that owns more than an update can free takes several, as in erase(): from the first
 * on it goes, without further calls of pred().
 * After a crash, or an exception, call it again; a value that owns memory may be smaller then.
 * Durable: what is removed so far, with each update.
 * Returns: how many it has removed.
 * Errors:  Error, with FUR_ENESTED inside a transaction, and whatever pred throws. */
template <class Map, class Pred>
uint64_t erase_if(fur_thread *thread, Map &map, Pred pred, size_t batch = 1000)
{
	struct Progress {
		size_t next;
		uint64_t removed;
		bool begun; /* a part of the next one's value is gone */
	};
	uint64_t gone = 0;
	for (typename Map::cursor at; !at.done();) {
		std::vector<std::decay_t<decltype(Map::key_of(
		        std::declval<const typename Map::value_type &>()))>>
		        some;
		read(thread, [&](fur_ro *tx) {
			at.advance(tx, map, batch ? batch : 1, [&](const auto &entry) {
				if (detail::Pass::holds(tx, pred, entry))
					some.push_back(Map::key_of(entry));
			});
		});
		for (Progress done{0, 0, false}; done.next < some.size(); gone += done.removed) {
			const auto part = [&, done](fur_update *tx) {
				Progress now{done.next, 0, done.begun};
				do {
					auto found = map.find(tx, some[now.next]);
					if (found != map.in(tx).end() &&
					        (now.begun ||
					                detail::Pass::holds(tx, pred, *found))) {
						now.begun = detail::Pass::value_waits(
						        tx, map, some[now.next], batch);
						if (now.begun)
							return now;
						map.erase(tx, found);
						now.removed++;
					}
					now.begun = false;
				} while (++now.next < some.size() && detail::room_for_a_step(tx));
				return now;
			};
			done = update(thread, rerun, part);
		}
	}
	return gone;
}

/* delete_range - remove the entries of an ordered map with first <= key < last, in as many updates
 * as it takes: each removes some `batch` of them, or fewer if the log is small.  So it takes ranges
 * of any size, with any log, also of values that are containers; it is not atomic.  After a crash,
 * or an exception, call it again.
 * Durable: what is removed so far, with each update.
 * Returns: how many it has removed.
 * Errors:  Error, with FUR_ENESTED inside a transaction. */
template <class Map>
uint64_t delete_range(fur_thread *thread, Map &map, typename Map::key_view first,
        typename Map::key_view last, size_t batch = 1000)
{
	return detail::in_parts(thread, [&](fur_update *tx) {
		return map.delete_some(tx, first, last, batch ? batch : 1);
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
			if (detail::Pass::value_waits(tx, map, key, batch))
				return std::nullopt;
			return map.erase(tx, key);
		});
	return *removed;
}

} // namespace fur

#endif /* FUR_MAP_HPP */
