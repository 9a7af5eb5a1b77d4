/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stored.hpp - how libfur's containers keep keys and values: as whole words of 8 bytes.
 *
 * stored<T> is the codec for T.  Every trivially copyable type has one; fur::string has its own
 * (string.hpp).  Callers pass a `view`, and get a `value` back:
 *
 *     T                            view                  value
 *     a trivially copyable type    const T &             T
 *     fur::string                  std::string_view      std::string
 *
 * `at` always points to WORDS words in the heap, and `tx` is a fur_ro * or a fur_update *.  Words
 * that are all zero are a valid, empty value of every T, and own no memory.
 */
#ifndef FUR_STORED_HPP
#define FUR_STORED_HPP

#include <fur.hpp>

#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>

namespace fur
{

/* heap_full - thrown by containers when the heap is full.  If the update had failed before, as when
 * it is too large for its log, they throw an Error with the code of that.  Let either leave the
 * body of the update, which is then rolled back: the container may be half changed. */
struct heap_full : std::bad_alloc {
	const char *what() const noexcept override
	{
		return "the heap is full: remove something, or give it more room (fur_grow, "
		       "fur-resize)";
	}
};

namespace detail
{

/* no_room - the container cannot go on, because fur_alloc() has returned NULL.  A transaction type
 * that has a no_room() of its own is left in its own way.  Does not return. */
template <class Tx>
[[noreturn]] void no_room(Tx *tx)
{
	if constexpr (std::is_same_v<Tx, fur_update>)
		if (int error = fur_update_error(tx))
			throw Error(error, fur_strerror(error));
	throw heap_full();
}

/* A call that changes something is not for a read-only transaction. */
template <class Tx>
constexpr void check_changes()
{
	static_assert(!std::is_same_v<Tx, fur_ro>,
	        "this call changes the container: make it inside fur::update(), whose body gets a "
	        "fur_update *");
}

template <class Tx>
constexpr bool is_fur = std::is_same_v<Tx, fur_ro> || std::is_same_v<Tx, fur_update>;

/* Containers run on other transactions too, which know fur_load() and fur_store() of a word. */
template <class Tx>
void load_words(Tx *tx, uint64_t *to, const uint64_t *from, size_t n)
{
	if constexpr (is_fur<Tx>)
		if (n > 1)
			return fur_read(tx, to, from, 8 * n);
	for (size_t i = 0; i < n; i++)
		to[i] = fur_load(tx, &from[i]);
}

template <class Tx>
void store_words(Tx *tx, uint64_t *to, const uint64_t *from, size_t n)
{
	if constexpr (is_fur<Tx>)
		if (n > 1)
			return fur_write(tx, to, from, 8 * n);
	for (size_t i = 0; i < n; i++)
		fur_store(tx, &to[i], from[i]);
}

template <class Tx>
void move_words(Tx *tx, uint64_t *to, const uint64_t *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fur_store(tx, &to[i], fur_load(tx, &from[i]));
}

/* Memory for a node, on cache lines of its own: transactions that use different nodes do not
 * conflict.  Contents undefined. */
template <class Tx>
uint64_t *new_node(Tx *tx, size_t words)
{
	void *node = fur_alloc_aligned(tx, 8 * words, FUR_CACHE_LINE);
	if (!node)
		no_room(tx);
	return static_cast<uint64_t *>(node);
}

template <class T>
T *pointer(uint64_t word)
{
	return reinterpret_cast<T *>(static_cast<uintptr_t>(word));
}
inline uint64_t word_of(const void *p)
{
	return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(p));
}

/* The product's two halves, folded.  A part of the format of hash maps. */
inline uint64_t mix(uint64_t a, uint64_t b)
{
	__extension__ typedef unsigned __int128 wide;
	const wide product = static_cast<wide>(a) * b;
	return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

/* The hash of `bytes` bytes.  word_at(i) returns the eight from 8 * i on, with zeroes behind the
 * last byte. */
template <class WordAt>
uint64_t hash_words(size_t bytes, WordAt word_at)
{
	constexpr uint64_t A = 0x9e3779b97f4a7c15, B = 0xd6e8feb86659fd93;
	uint64_t hash = bytes ^ A;
	for (size_t at = 0; at < bytes; at += 8)
		hash = mix(hash ^ word_at(at / 8), B);
	return mix(hash ^ B, A);
}
/* Word i of `bytes` bytes, as hash_words() wants it. */
inline uint64_t word_in(const void *from, size_t bytes, size_t i)
{
	uint64_t word = 0;
	const size_t rest = bytes - 8 * i;
	memcpy(&word, static_cast<const char *>(from) + 8 * i, rest < 8 ? rest : 8);
	return word;
}
inline uint64_t hash_bytes(const void *from, size_t bytes)
{
	return hash_words(bytes, [=](size_t i) { return word_in(from, bytes, i); });
}

} // namespace detail

/* hash - the hash of a key, a part of the heap's format: it must not change while heaps have maps
 * with such keys.  Specialise it for a type with padding, or with several representations of one
 * value, as floating-point numbers:
 *     template <> struct fur::hash<Point> { static uint64_t of(const Point &p); };  */
template <class T>
struct hash {
	static_assert(std::has_unique_object_representations_v<T>,
	        "fur::hash: equal keys of this type may differ in their bytes (padding, floating "
	        "point): specialise fur::hash for it");
	static uint64_t of(const T &key)
	{
		return detail::hash_bytes(&key, sizeof key);
	}
};

template <class T>
struct stored {
	static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>,
	        "libfur's containers hold trivially copyable types and fur::string: a std::string "
	        "or a std::vector keeps its contents outside the heap, where a restart loses them");
	static_assert(std::is_copy_constructible_v<T>,
	        "libfur's containers hold no types that contain fur::string or containers: erase() "
	        "would not free their blocks; let the value be a pointer to a struct that "
	        "fur::make() has made, and fur::destroy() it before you erase the key");
	static_assert(alignof(T) <= 8, "libfur's containers align keys and values to 8 bytes");

	enum : size_t { WORDS = (sizeof(T) + 7) / 8 };
	using view = const T &;
	using value = T;

	template <class Tx>
	static T load(Tx *tx, const uint64_t *at)
	{
		uint64_t words[WORDS];
		T value;
		detail::load_words(tx, words, at, WORDS);
		memcpy(static_cast<void *>(&value), words, sizeof value);
		return value;
	}
	/* Into words that hold no value. */
	template <class Tx>
	static void create(Tx *tx, uint64_t *at, view value)
	{
		uint64_t words[WORDS] = {};
		memcpy(words, &value, sizeof value);
		detail::store_words(tx, at, words, WORDS);
	}
	/* In place of the value that is there. */
	template <class Tx>
	static void assign(Tx *tx, uint64_t *at, view value)
	{
		create(tx, at, value);
	}
	/* Free the blocks that the value owns.  The words stay as they are. */
	template <class Tx>
	static void destroy(Tx *, const uint64_t *)
	{
	}
	/* How many blocks does the value own? */
	template <class Tx>
	static uint64_t blocks(Tx *, const uint64_t *)
	{
		return 0;
	}
	template <class Tx>
	static bool equal(Tx *tx, const uint64_t *at, view value)
	{
		return load(tx, at) == value;
	}
	/* Is the stored value smaller? */
	template <class Tx>
	static bool less(Tx *tx, const uint64_t *at, view value)
	{
		return load(tx, at) < value;
	}
	/* Is the stored value larger? */
	template <class Tx>
	static bool more(Tx *tx, const uint64_t *at, view value)
	{
		return value < load(tx, at);
	}
	static uint64_t hash_of(view value)
	{
		return hash<T>::of(value);
	}
};

} // namespace fur

#endif /* FUR_STORED_HPP */
