/* SPDX-License-Identifier: BSD-3-Clause
 *
 * owned.hpp - containers, and structs that contain fur::string and containers, as values of maps
 * and elements of vectors and queues: what they own goes with them.
 *
 *     fur::hash_map<uint64_t, User> users;     // User: see members.hpp
 *     users.insert(tx, 7, {});
 *     users.lookup(tx, 7)->name.assign(tx, "Ada");
 *     users.erase(tx, 7);                      // frees the name, too
 *
 * They lie in the map's nodes as they are: the view is a const T & to one that owns nothing yet,
 * such as T{}, and the value is a const T * to where it lies.
 */
#ifndef FUR_OWNED_HPP
#define FUR_OWNED_HPP

#include <fur/composite.hpp>

#include <stdexcept>

namespace fur::detail
{

template <class T, class = void>
struct has_clear_some : std::false_type {
};
template <class T>
struct has_clear_some<T, std::void_t<decltype(std::declval<T &>().clear_some(
                                 std::declval<fur_update *>(), uint64_t(1)))>> : std::true_type {
};

/* The words of a string. */
inline const uint64_t *words_of_string(const string &text)
{
	return reinterpret_cast<const uint64_t *>(&text);
}

/* Free what an object owns.  A struct may do so itself, by clear(fur_update *). */
template <class Tx, class T>
void clear_object(Tx *tx, T &object)
{
	if constexpr (has_members<T>::value && has_clear<T>::value)
		object.clear(tx);
	else
		each_owner(object, [&](auto &owner) {
			if constexpr (std::is_same_v<decltype(owner), string &>)
				stored<string>::destroy(tx, words_of_string(owner));
			else
				owner.clear(tx);
			return true;
		});
}
/* clear_some() of a container, or of the containers in a struct.
 * Returns: whether there is more to do. */
template <class Tx, class T>
bool clear_some_of(Tx *tx, T &object, uint64_t most)
{
	if constexpr (has_clear_some<T>::value)
		return object.clear_some(tx, most);
	const bool had_room = room_for_a_step(tx);
	return !each_owner(object, [&](auto &owner) {
		if constexpr (has_clear_some<std::decay_t<decltype(owner)>>::value)
			return !owner.clear_some(tx, most) && (!had_room || room_for_a_step(tx));
		return true;
	});
}
/* As verify() of the containers; adds to `blocks`. */
template <class Tx, class T>
const char *verify_object(Tx *tx, const T &object, uint64_t &blocks)
{
	const char *wrong = nullptr;
	each_owner(object, [&](auto &owner) {
		if constexpr (std::is_same_v<decltype(owner), const string &>) {
			blocks += stored<string>::blocks(tx, words_of_string(owner));
		} else {
			uint64_t own = 0;
			wrong = owner.verify(tx, own);
			blocks += own;
		}
		return !wrong;
	});
	return wrong;
}

/* What calls return that add an element. */
template <class T>
using place_of = std::conditional_t<is_in_place<T>, T *, void>;

template <class T>
constexpr bool check_owned()
{
	static_assert(alignof(T) <= 8,
	        "libfur's containers align keys and values to 8 bytes: leave out the alignas, or "
	        "let the value be a fur::ptr to an object that fur::make() has made");
	return is_owner<T>::value || check_named<T>();
}

template <class T>
struct OwnedCodec {
	static_assert(check_owned<T>());

	/* MOST_BLOCKS: see clear_some(). */
	enum : size_t { WORDS = (sizeof(T) + 7) / 8, MOST_BLOCKS = 0 };
	using view = const T &;
	using value = const T *;

	template <class Tx>
	static value load(Tx *, const uint64_t *at)
	{
		return object(at);
	}
	/* Errors: std::invalid_argument if `value` owns anything: two objects would. */
	template <class Tx>
	static void create(Tx *tx, uint64_t *at, view value)
	{
		check_fresh(value);
		uint64_t words[WORDS] = {};
		memcpy(words, &value, sizeof value);
		store_words(tx, at, words, WORDS);
	}
	template <class Tx>
	static void assign(Tx *tx, uint64_t *at, view value)
	{
		check_fresh(value);
		destroy(tx, at);
		create(tx, at, value);
	}
	template <class Tx>
	static void destroy(Tx *tx, const uint64_t *at)
	{
		clear_object(tx, *const_cast<T *>(object(at)));
	}
	/* See clear_some_of(). */
	template <class Tx>
	static bool clear_some(Tx *tx, uint64_t *at, uint64_t most)
	{
		return clear_some_of(tx, *const_cast<T *>(object(at)), most);
	}
	template <class Tx>
	static const char *verify(Tx *tx, const uint64_t *at, uint64_t &blocks)
	{
		return verify_object(tx, *object(at), blocks);
	}

private:
	static const T *object(const uint64_t *at)
	{
		return reinterpret_cast<const T *>(at);
	}
	static void check_fresh(view value)
	{
		const bool fresh = each_owner(value, [](const auto &owner) {
			static constexpr char zero[sizeof owner] = {};
			return memcmp(&owner, zero, sizeof zero) == 0;
		});
		if (!fresh)
			throw std::invalid_argument(
			        "fur: an object that owns memory of the heap cannot be copied into "
			        "a container: insert an empty one, and fill it there");
	}
};

/* For a container of values of type V, before it removes one, whose words are `at`.
 * Returns: whether it must not be removed in this update. */
template <class V, class Tx>
bool clear_value_some(Tx *tx, uint64_t *at, uint64_t most)
{
	if constexpr (is_in_place<V>) {
		const bool had_room = room_for_a_step(tx);
		return OwnedCodec<V>::clear_some(tx, at, most) ||
		       (had_room && !room_for_a_step(tx));
	}
	return false;
}
template <class V, class Tx>
const char *verify_value(Tx *tx, const uint64_t *at, uint64_t &blocks)
{
	if constexpr (is_in_place<V>)
		return OwnedCodec<V>::verify(tx, at, blocks);
	else
		blocks += stored<V>::blocks(tx, at);
	return nullptr;
}

} // namespace fur::detail

#endif /* FUR_OWNED_HPP */
