/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stored.hpp - how libfur's containers keep keys and values: as whole words of 8 bytes.
 *
 * stored<T> is the codec for T.  Every trivially copyable type has one; fur::string has its own
 * (string.hpp), and so have types that consist of several others (composite.hpp).  Callers pass a
 * `view`, and get a `value` back:
 *
 *     T                            view                  value
 *     a trivially copyable type    const T &             T
 *     fur::string                  std::string_view      std::string
 *     std::pair and the like       a pair of views       a pair of values
 *     what owns blocks             const T &, empty      const T *, where it lies (owned.hpp)
 *
 * `at` always points to WORDS words in the heap, and `tx` is any transaction's.  Words
 * that are all zero are a valid, empty value of every T, and own no memory.
 */
#ifndef FUR_STORED_HPP
#define FUR_STORED_HPP

#include <fur.hpp>
#include <fur/members.hpp>

#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/random.h>
#include <type_traits>
#include <utility>

namespace fur
{

class string;

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
	static_assert(!std::is_same_v<Tx, fur_ro> && !std::is_same_v<Tx, fur_reader>,
	        "this call changes the container: make it inside fur::update(), whose body gets a "
	        "fur_update *");
}

template <class Tx>
constexpr bool is_fur = std::is_same_v<Tx, fur_ro> || std::is_same_v<Tx, fur_reader> ||
                        std::is_same_v<Tx, fur_update>;

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

/* log_left - how much the update can still log, in bytes; `all`: the size of its log.  Only
 * libfur's updates have a log that may be too small. */
template <class Tx>
uint64_t log_left(Tx *tx, uint64_t *all)
{
	if constexpr (std::is_same_v<Tx, fur_update>)
		return fur_update_room(tx, all);
	return *all = UINT64_MAX;
}
/* May an update that does its work in steps take another one?  Even the smallest log has room for
 * each step in three quarters of its size. */
template <class Tx>
bool room_for_a_step(Tx *tx)
{
	uint64_t all;
	const uint64_t left = log_left(tx, &all);
	return left >= all / 4 * 3;
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
/* The same with a secret: SipHash-1-3 (Aumasson and Bernstein, INDOCRYPT 2012).  A party that
 * chooses keys without knowing the secret cannot make them collide.  Also part of the format. */
template <class WordAt>
uint64_t secret_hash_words(const uint64_t *secret, size_t bytes, WordAt word_at)
{
	uint64_t a = secret[0] ^ 0x736f6d6570736575, b = secret[1] ^ 0x646f72616e646f6d,
	         c = secret[0] ^ 0x6c7967656e657261, d = secret[1] ^ 0x7465646279746573;
	const auto left = [](uint64_t word, int n) { return word << n | word >> (64 - n); };
	const auto round = [&] {
		a += b, b = left(b, 13) ^ a, a = left(a, 32);
		c += d, d = left(d, 16) ^ c;
		a += d, d = left(d, 21) ^ a;
		c += b, b = left(b, 17) ^ c, c = left(c, 32);
	};
	const auto take = [&](uint64_t word) {
		d ^= word;
		round();
		a ^= word;
	};
	for (size_t i = 0; i < bytes / 8; i++)
		take(word_at(i));
	take((bytes % 8 ? word_at(bytes / 8) : 0) | static_cast<uint64_t>(bytes) << 56);
	c ^= 0xff;
	for (int n = 0; n < 3; n++)
		round();
	return a ^ b ^ c ^ d;
}
/* Two words that no stranger can guess. */
inline void make_secret(uint64_t *secret)
{
	const size_t bytes = 2 * sizeof *secret;
	if (getrandom(secret, bytes, 0) == static_cast<ssize_t>(bytes))
		return;
	/* A sandbox forbids the call.  Addresses are random too, though less so. */
	secret[0] = mix(word_of(secret), 0x9e3779b97f4a7c15);
	secret[1] = mix(word_of(__builtin_return_address(0)), secret[0]);
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
inline uint64_t secret_hash_bytes(const uint64_t *secret, const void *from, size_t bytes)
{
	return secret_hash_words(secret, bytes, [=](size_t i) { return word_in(from, bytes, i); });
}

template <class T, class = bool>
struct has_equal : std::false_type {
};
template <class T>
struct has_equal<T, decltype(bool(std::declval<const T &>() == std::declval<const T &>()))>
    : std::true_type {
};
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
	using of_bytes = T; /* specialisations have none */
	static uint64_t of(const T &key)
	{
		return detail::hash_bytes(&key, sizeof key);
	}
};
namespace detail
{
template <class T, class = T>
struct hashes_bytes : std::false_type {
};
template <class T>
struct hashes_bytes<T, typename hash<T>::of_bytes> : std::true_type {
};
} // namespace detail

namespace detail
{

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;
template <class T>
constexpr bool is_int128 = std::is_same_v<T, int128> || std::is_same_v<T, uint128>;

/* Its bytes are the value. */
template <class T>
constexpr bool is_plain = std::is_trivially_copyable_v<T> &&std::is_copy_constructible_v<T> &&
                                  std::is_default_constructible_v<T> &&
                          (alignof(T) <= 8 || is_int128<T>);

/* It owns blocks, and lies in nodes as it is: a container, or a struct with such members. */
template <class T>
constexpr bool is_in_place =
        !is_plain<T> && !std::is_same_v<T, string> && (is_owner<T>::value || has_members<T>::value);
template <class T>
struct OwnedCodec; /* owned.hpp */
/* The base of codecs whose values do not lie in the heap as a T. */
struct InParts {
};

/* Which names has a class of the standard library? */
template <class T, class = void>
struct has_allocator : std::false_type {
};
template <class T>
struct has_allocator<T, std::void_t<typename T::allocator_type>> : std::true_type {
};
template <class T, class = void>
struct has_key : std::false_type {
};
template <class T>
struct has_key<T, std::void_t<typename T::key_type>> : std::true_type {
};
template <class T, class = void>
struct has_element : std::false_type {
};
template <class T>
struct has_element<T, std::void_t<typename T::element_type>> : std::true_type {
};
template <class T, class = void>
struct is_span : std::false_type {
};
template <class T>
struct is_span<T, std::void_t<typename T::element_type, typename T::iterator>> : std::true_type {
};
template <class T>
struct is_text : std::is_same<T, const char *> {
};
template <class C, class Traits>
struct is_text<std::basic_string_view<C, Traits>> : std::true_type {
};
template <class C, class Traits, class A>
struct is_text<std::basic_string<C, Traits, A>> : std::true_type {
};

/* Why has a type no codec?  The first of these that is true. */
enum class Flaw {
	NONE,
	REFERENCE,
	CONST,
	TEXT,
	FUNCTION,
	SMART_POINTER,
	MAP,
	SEQUENCE,
	VIRTUAL,
	DESTRUCTOR,
	OWNER,
	COPY,
	DEFAULT,
	ALIGNMENT
};
template <class T>
constexpr Flaw flaw_of()
{
	using Target = std::remove_pointer_t<T>;
	if constexpr (std::is_reference_v<T>)
		return Flaw::REFERENCE;
	else if constexpr (std::is_const_v<T> || std::is_volatile_v<T>)
		return Flaw::CONST;
	else if constexpr (is_text<T>::value)
		return Flaw::TEXT;
	else if constexpr (std::is_function_v<Target> || std::is_member_pointer_v<T>)
		return Flaw::FUNCTION;
	else if constexpr (is_span<T>::value)
		return Flaw::SEQUENCE;
	else if constexpr (is_plain<T>)
		return Flaw::NONE;
	else if constexpr (has_allocator<T>::value)
		return has_key<T>::value ? Flaw::MAP : Flaw::SEQUENCE;
	else if constexpr (has_element<T>::value)
		return Flaw::SMART_POINTER;
	else if constexpr (std::is_polymorphic_v<T>)
		return Flaw::VIRTUAL;
	else if constexpr (!std::is_trivially_destructible_v<T>)
		return Flaw::DESTRUCTOR;
	else if constexpr (!std::is_copy_constructible_v<T>)
		return Flaw::OWNER;
	else if constexpr (!std::is_trivially_copyable_v<T>)
		return Flaw::COPY;
	else if constexpr (!std::is_default_constructible_v<T>)
		return Flaw::DEFAULT;
	else
		return Flaw::ALIGNMENT;
}
template <class T>
constexpr bool check_plain()
{
	constexpr Flaw flaw = flaw_of<T>();
	static_assert(flaw != Flaw::REFERENCE,
	        "libfur's containers hold no references: let the value be the object itself, or a "
	        "fur::ptr to one that fur::make() has made");
	static_assert(flaw != Flaw::CONST,
	        "libfur's containers hold no const types: leave out the const");
	static_assert(flaw != Flaw::TEXT,
	        "libfur's containers hold no std::string, std::string_view or const char *, which "
	        "keep their text outside the heap, where a restart loses it: use fur::string");
	static_assert(flaw != Flaw::FUNCTION,
	        "libfur's containers hold no pointers to functions or members, which mean nothing "
	        "in the next run of the program: use an enum, and choose by it");
	static_assert(flaw != Flaw::SMART_POINTER,
	        "libfur's containers hold no std::unique_ptr or std::shared_ptr, which point "
	        "outside the heap: let the value be the object itself, or a fur::ptr to one that "
	        "fur::make() has made");
	static_assert(flaw != Flaw::MAP,
	        "libfur's containers hold no map or set of the standard library, which keeps its "
	        "contents outside the heap, where a restart loses them: use fur::ordered_map, "
	        "fur::hash_map, fur::ordered_set or fur::hash_set");
	static_assert(flaw != Flaw::SEQUENCE,
	        "libfur's containers hold no std::vector, std::deque, std::list or std::span, "
	        "which keep their contents outside the heap, where a restart loses them: use "
	        "fur::vector or "
	        "fur::queue");
	static_assert(flaw != Flaw::VIRTUAL,
	        "libfur's containers hold no types with virtual functions, which mean nothing in "
	        "the next run of the program: use a struct with an enum that tells the kind");
	static_assert(flaw != Flaw::DESTRUCTOR,
	        "libfur's containers hold no types with a destructor: such a type, or a member of "
	        "it, keeps something outside the heap: use fur::string, libfur's containers and "
	        "plain structs as members");
	static_assert(flaw != Flaw::OWNER,
	        "libfur's containers hold structs with fur::string and containers inside only if "
	        "they know them, for erase() would not free their blocks otherwise: write "
	        "FUR_MEMBERS(a, b, ...) with all members at the end of the struct");
	static_assert(flaw != Flaw::COPY,
	        "libfur's containers hold no structs that are not trivially copyable, as those "
	        "with "
	        "a std::pair or std::tuple inside, or with a copy constructor of their own: use "
	        "plain structs as members");
	static_assert(flaw != Flaw::DEFAULT,
	        "libfur's containers make values before they load them: give the type a default "
	        "constructor");
	static_assert(flaw != Flaw::ALIGNMENT,
	        "libfur's containers align keys and values to 8 bytes: leave out the alignas, or "
	        "let the value be a fur::ptr to an object that fur::make() has made");
	return flaw == Flaw::NONE;
}

template <class T>
constexpr bool check_named();
/* May it be a member of a struct that names its members? */
template <class M>
constexpr bool check_member()
{
	if constexpr (std::is_array_v<M>)
		return check_member<std::remove_extent_t<M>>();
	else if constexpr (is_std_array<M>::value)
		return check_member<typename M::value_type>();
	else if constexpr (has_members<M>::value)
		return check_named<M>();
	else if constexpr (!is_owner<M>::value)
		return check_plain<M>();
	return true;
}
template <class... M>
constexpr bool check_each(std::tuple<M &...> *)
{
	return (check_member<M>() && ...);
}
/* If the struct names its members: all of them, and each is allowed. */
template <class T>
constexpr bool check_named()
{
	if constexpr (has_members<T>::value) {
		using Members = decltype(std::declval<T &>().fur_members());
		return check_members<T>() && check_each(static_cast<Members *>(nullptr));
	}
	return true;
}

/* The bytes of a trivially copyable type. */
template <class T>
struct PlainCodec {
	static_assert(check_plain<T>() && check_named<T>());

	/* MOST_BLOCKS: a value owns at most this many blocks. */
	enum : size_t { WORDS = (sizeof(T) + 7) / 8, MOST_BLOCKS = 0 };
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
	/* Below 0: the stored value is smaller; above 0: it is larger. */
	template <class Tx>
	static int compare(Tx *tx, const uint64_t *at, view value)
	{
		const T there = load(tx, at);
		return there < value ? -1 : value < there;
	}
	static uint64_t hash_of(view value)
	{
		return hash<T>::of(value);
	}
	/* Can a map find it again?  NaN, for one, differs from itself. */
	static bool is_key(view value)
	{
		if constexpr (detail::has_equal<T>::value)
			return static_cast<bool>(value == value);
		return true;
	}
	/* For a call that would add it. */
	static void check_key(view value)
	{
		if (!is_key(value))
			throw std::invalid_argument(
			        "fur: a key that is not equal to itself, such as NaN, cannot be "
			        "in a map, for no call would find it: check keys before you "
			        "insert them");
	}
	/* Another one, for keys whose hashes are alike.  A hash of the program's is only mixed:
	 * equal ones stay equal. */
	static uint64_t secret_hash_of(const uint64_t *secret, view value)
	{
		if constexpr (detail::hashes_bytes<T>::value)
			return detail::secret_hash_bytes(secret, &value, sizeof value);
		else
			return detail::secret_hash_words(
			        secret, 8, [&](size_t) { return hash_of(value); });
	}
};

} // namespace detail

template <class T>
struct stored
    : std::conditional_t<detail::is_in_place<T>, detail::OwnedCodec<T>, detail::PlainCodec<T>> {
};

} // namespace fur

#endif /* FUR_STORED_HPP */
