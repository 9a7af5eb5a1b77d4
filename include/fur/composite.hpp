/* SPDX-License-Identifier: BSD-3-Clause
 *
 * composite.hpp - keys and values that consist of several: std::pair, std::tuple, and std::array,
 * std::optional and std::variant of types that are not trivially copyable.
 *
 *     fur::ordered_map<std::pair<fur::string, uint64_t>, double> readings;
 *     readings.insert(tx, {"boiler", now}, 71.5);
 *     for (auto at = readings.lower_bound(tx, {"boiler", 0}); ...; ++at)
 *
 * Members are compared in their order, as those of std:: are.  Each has the codec of its own type:
 *
 *     T                      view                                       value
 *     std::pair<A, B>        std::pair of the views of A and B          std::pair of their values
 *     std::tuple<A, ...>     std::tuple of views                        std::tuple of values
 *     std::array<A, N>       N views, {a, b, ...} or a std::array       std::array of values
 *     std::optional<A>       std::optional of the view                  std::optional of the value
 *     std::variant<A, ...>   a view, or a std::variant of values        std::variant of values
 *
 * The view of a trivially copyable member is the member.
 *
 * In words of 8 bytes, whatever the compiler and its library do:
 *
 *     pair, tuple, array    the words of each member, the first one's first
 *     optional              0 or 1, and the words of the value, or 0
 *     variant               the index of the alternative, its words, and zeroes up to the longest
 *
 * A std::array, std::optional or std::variant that is trivially copyable is stored as its bytes.
 */
#ifndef FUR_COMPOSITE_HPP
#define FUR_COMPOSITE_HPP

#include <fur/string.hpp>

#include <array>
#include <optional>
#include <tuple>
#include <variant>

namespace fur
{

namespace detail
{

/* Of a type that may be a part of another one. */
template <class T>
constexpr size_t words_of_part()
{
	static_assert(!is_in_place<T>,
	        "libfur's containers, and structs with fur::string or containers inside, cannot be "
	        "a part of a std::pair, std::tuple, std::array, std::optional or std::variant: "
	        "use a struct with FUR_MEMBERS(...) in place of that");
	return static_cast<size_t>(stored<T>::WORDS);
}
/* What a caller passes for a part, in an object that it makes. */
template <class T>
using part_view = std::decay_t<typename stored<T>::view>;
template <class T>
using part_value = typename stored<T>::value;

template <class Tx>
void store_zeroes(Tx *tx, uint64_t *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fur_store(tx, &to[i], 0);
}

/* The base of a codec that has compare(). */
template <class Codec>
struct Compared : InParts {
	template <class Tx, class View>
	static bool less(Tx *tx, const uint64_t *at, const View &view)
	{
		return Codec::compare(tx, at, view) < 0;
	}
	template <class Tx, class View>
	static bool more(Tx *tx, const uint64_t *at, const View &view)
	{
		return Codec::compare(tx, at, view) > 0;
	}
};

/* std::pair and std::tuple. */
template <class View, class Value, class... Parts>
class PartsCodec : public Compared<PartsCodec<View, Value, Parts...>>
{
	enum : size_t { N = sizeof...(Parts) };
	static_assert(N > 0, "libfur's containers hold no empty std::tuple");
	template <size_t I>
	using codec = stored<std::tuple_element_t<I, std::tuple<Parts...>>>;
	using All = std::make_index_sequence<N>;
	/* Where part i begins. */
	static constexpr size_t begin(size_t i)
	{
		constexpr size_t words[] = {words_of_part<Parts>()...};
		size_t sum = 0;
		for (size_t k = 0; k < i; k++)
			sum += words[k];
		return sum;
	}

public:
	enum : size_t {
		WORDS = begin(N),
		MOST_BLOCKS = (size_t(stored<Parts>::MOST_BLOCKS) + ...)
	};
	using view = const View &;
	using value = Value;

	template <class Tx>
	static Value load(Tx *tx, const uint64_t *at)
	{
		return load_all(tx, at, All());
	}
	template <class Tx>
	static void create(Tx *tx, uint64_t *at, view parts)
	{
		each([&](auto i) {
			codec<i>::create(tx, at + begin(i), std::get<i>(parts));
			return true;
		});
	}
	template <class Tx>
	static void assign(Tx *tx, uint64_t *at, view parts)
	{
		each([&](auto i) {
			codec<i>::assign(tx, at + begin(i), std::get<i>(parts));
			return true;
		});
	}
	template <class Tx>
	static void destroy(Tx *tx, const uint64_t *at)
	{
		each([&](auto i) {
			codec<i>::destroy(tx, at + begin(i));
			return true;
		});
	}
	template <class Tx>
	static uint64_t blocks(Tx *tx, const uint64_t *at)
	{
		uint64_t sum = 0;
		each([&](auto i) {
			sum += codec<i>::blocks(tx, at + begin(i));
			return true;
		});
		return sum;
	}
	template <class Tx>
	static bool equal(Tx *tx, const uint64_t *at, view parts)
	{
		return each([&](auto i) {
			return codec<i>::equal(tx, at + begin(i), std::get<i>(parts));
		});
	}
	template <class Tx>
	static int compare(Tx *tx, const uint64_t *at, view parts)
	{
		int order = 0;
		each([&](auto i) {
			order = codec<i>::compare(tx, at + begin(i), std::get<i>(parts));
			return order == 0;
		});
		return order;
	}
	static bool is_key(view parts)
	{
		return each([&](auto i) { return codec<i>::is_key(std::get<i>(parts)); });
	}
	static void check_key(view parts)
	{
		each([&](auto i) {
			codec<i>::check_key(std::get<i>(parts));
			return true;
		});
	}
	/* The hash of the hashes of the parts. */
	static uint64_t hash_of(view parts)
	{
		uint64_t hashes[N];
		each([&](auto i) {
			hashes[i] = codec<i>::hash_of(std::get<i>(parts));
			return true;
		});
		return hash_bytes(hashes, sizeof hashes);
	}
	static uint64_t secret_hash_of(const uint64_t *secret, view parts)
	{
		uint64_t hashes[N];
		each([&](auto i) {
			hashes[i] = codec<i>::secret_hash_of(secret, std::get<i>(parts));
			return true;
		});
		return secret_hash_bytes(secret, hashes, sizeof hashes);
	}

private:
	/* f(i) for each part, as long as it returns true.   Returns: whether all did. */
	template <class F>
	static bool each(F f)
	{
		return each(f, All());
	}
	template <class F, size_t... I>
	static bool each(F &f, std::index_sequence<I...>)
	{
		return (f(std::integral_constant<size_t, I>()) && ...);
	}
	template <class Tx, size_t... I>
	static Value load_all(Tx *tx, const uint64_t *at, std::index_sequence<I...>)
	{
		return Value{codec<I>::load(tx, at + begin(I))...};
	}
};

/* What a caller passes for a std::array: {a, b, ...}, or a std::array of anything that converts. */
template <class T, size_t N>
struct ArrayView : std::array<part_view<T>, N> {
	template <class... A,
	        class = std::enable_if_t<sizeof...(A) == N &&
	                                 (std::is_convertible_v<A, part_view<T>> && ...)>>
	ArrayView(A &&...a) : std::array<part_view<T>, N>{{std::forward<A>(a)...}}
	{
	}
	template <class Other,
	        class = std::enable_if_t<std::is_convertible_v<const Other &, part_view<T>>>>
	ArrayView(const std::array<Other, N> &other)
	{
		for (size_t i = 0; i < N; i++)
			(*this)[i] = other[i];
	}
	operator std::array<part_value<T>, N>() const
	{
		std::array<part_value<T>, N> values;
		for (size_t i = 0; i < N; i++)
			values[i] = part_value<T>((*this)[i]);
		return values;
	}
};

template <class T, size_t N>
struct ArrayCodec : Compared<ArrayCodec<T, N>> {
	static_assert(N > 0, "libfur's containers hold no empty std::array");
	using codec = stored<T>;
	enum : size_t {
		PART = words_of_part<T>(),
		WORDS = N * PART,
		MOST_BLOCKS = N * codec::MOST_BLOCKS
	};
	using view = const ArrayView<T, N> &;
	using value = std::array<part_value<T>, N>;

	template <class Tx>
	static value load(Tx *tx, const uint64_t *at)
	{
		value values;
		for (size_t i = 0; i < N; i++)
			values[i] = codec::load(tx, at + i * PART);
		return values;
	}
	template <class Tx>
	static void create(Tx *tx, uint64_t *at, view parts)
	{
		for (size_t i = 0; i < N; i++)
			codec::create(tx, at + i * PART, parts[i]);
	}
	template <class Tx>
	static void assign(Tx *tx, uint64_t *at, view parts)
	{
		for (size_t i = 0; i < N; i++)
			codec::assign(tx, at + i * PART, parts[i]);
	}
	template <class Tx>
	static void destroy(Tx *tx, const uint64_t *at)
	{
		for (size_t i = 0; i < N; i++)
			codec::destroy(tx, at + i * PART);
	}
	template <class Tx>
	static uint64_t blocks(Tx *tx, const uint64_t *at)
	{
		uint64_t sum = 0;
		for (size_t i = 0; i < N; i++)
			sum += codec::blocks(tx, at + i * PART);
		return sum;
	}
	template <class Tx>
	static bool equal(Tx *tx, const uint64_t *at, view parts)
	{
		bool same = true;
		for (size_t i = 0; i < N && same; i++)
			same = codec::equal(tx, at + i * PART, parts[i]);
		return same;
	}
	template <class Tx>
	static int compare(Tx *tx, const uint64_t *at, view parts)
	{
		int order = 0;
		for (size_t i = 0; i < N && !order; i++)
			order = codec::compare(tx, at + i * PART, parts[i]);
		return order;
	}
	static bool is_key(view parts)
	{
		bool good = true;
		for (size_t i = 0; i < N && good; i++)
			good = codec::is_key(parts[i]);
		return good;
	}
	static void check_key(view parts)
	{
		for (const auto &part : parts)
			codec::check_key(part);
	}
	static uint64_t hash_of(view parts)
	{
		return hash_words(8 * N, [&](size_t i) { return codec::hash_of(parts[i]); });
	}
	static uint64_t secret_hash_of(const uint64_t *secret, view parts)
	{
		return secret_hash_words(secret, 8 * N,
		        [&](size_t i) { return codec::secret_hash_of(secret, parts[i]); });
	}
};

template <class T>
struct OptionalCodec : Compared<OptionalCodec<T>> {
	using codec = stored<T>;
	enum : size_t {
		PART = words_of_part<T>(),
		WORDS = 1 + PART,
		MOST_BLOCKS = codec::MOST_BLOCKS
	};
	using view = const std::optional<part_view<T>> &;
	using value = std::optional<part_value<T>>;

	template <class Tx>
	static value load(Tx *tx, const uint64_t *at)
	{
		return fur_load(tx, at) ? value(codec::load(tx, at + 1)) : value();
	}
	template <class Tx>
	static void create(Tx *tx, uint64_t *at, view part)
	{
		if (part)
			codec::create(tx, at + 1, *part);
		else
			store_zeroes(tx, at + 1, PART);
		fur_store(tx, at, part.has_value());
	}
	template <class Tx>
	static void assign(Tx *tx, uint64_t *at, view part)
	{
		const bool there = fur_load(tx, at) != 0;
		if (there && part) {
			codec::assign(tx, at + 1, *part);
		} else if (part) {
			create(tx, at, part);
		} else if (there) {
			fur_store(tx, at, 0);
			codec::destroy(tx, at + 1);
			store_zeroes(tx, at + 1, PART);
		}
	}
	template <class Tx>
	static void destroy(Tx *tx, const uint64_t *at)
	{
		if (fur_load(tx, at))
			codec::destroy(tx, at + 1);
	}
	template <class Tx>
	static uint64_t blocks(Tx *tx, const uint64_t *at)
	{
		return fur_load(tx, at) ? codec::blocks(tx, at + 1) : 0;
	}
	template <class Tx>
	static bool equal(Tx *tx, const uint64_t *at, view part)
	{
		const bool there = fur_load(tx, at) != 0;
		return there == part.has_value() && (!there || codec::equal(tx, at + 1, *part));
	}
	/* No value is smaller than all values. */
	template <class Tx>
	static int compare(Tx *tx, const uint64_t *at, view part)
	{
		const bool there = fur_load(tx, at) != 0;
		return there && part ? codec::compare(tx, at + 1, *part)
		                     : there - static_cast<int>(part.has_value());
	}
	static bool is_key(view part)
	{
		return !part || codec::is_key(*part);
	}
	static void check_key(view part)
	{
		if (part)
			codec::check_key(*part);
	}
	/* Of 0, or of 1 and the hash of the value. */
	static uint64_t hash_of(view part)
	{
		const uint64_t words[] = {part.has_value(), part ? codec::hash_of(*part) : 0};
		return hash_bytes(words, part ? 16 : 8);
	}
	static uint64_t secret_hash_of(const uint64_t *secret, view part)
	{
		const uint64_t words[] = {
		        part.has_value(), part ? codec::secret_hash_of(secret, *part) : 0};
		return secret_hash_bytes(secret, words, part ? 16 : 8);
	}
};

/* f(i) for the index of a variant of N alternatives.   Errors: std::bad_variant_access. */
template <size_t N, size_t I = 0, class F>
decltype(auto) with_index(size_t index, F &&f)
{
	if (index == I)
		return f(std::integral_constant<size_t, I>());
	if constexpr (I + 1 < N)
		return with_index<N, I + 1>(index, f);
	throw std::bad_variant_access();
}

/* What a caller passes for a std::variant: what its views can be made of, or a std::variant of
 * as many types that convert. */
template <class... Parts>
struct VariantView : std::variant<part_view<Parts>...> {
	using Base = std::variant<part_view<Parts>...>;
	enum : size_t { N = sizeof...(Parts) };

	using Base::Base;
	VariantView() = default;
	template <class... Other, class = std::enable_if_t<sizeof...(Other) == N>>
	VariantView(const std::variant<Other...> &other)
	    : Base(with_index<N>(other.index(),
	              [&](auto i) { return Base(std::in_place_index<i>, std::get<i>(other)); }))
	{
	}
	operator std::variant<part_value<Parts>...>() const
	{
		using Value = std::variant<part_value<Parts>...>;
		return with_index<N>(this->index(), [&](auto i) {
			return Value(std::in_place_index<i>,
			        std::variant_alternative_t<i, Value>(
			                std::get<i>(static_cast<const Base &>(*this))));
		});
	}
};

template <class... Parts>
class VariantCodec : public Compared<VariantCodec<Parts...>>
{
	enum : size_t { N = sizeof...(Parts) };
	template <size_t I>
	using codec = stored<std::tuple_element_t<I, std::tuple<Parts...>>>;
	static constexpr size_t largest(std::initializer_list<size_t> sizes)
	{
		size_t most = 0;
		for (size_t size : sizes)
			most = size > most ? size : most;
		return most;
	}

public:
	enum : size_t {
		WORDS = 1 + largest({words_of_part<Parts>()...}),
		MOST_BLOCKS = largest({size_t(stored<Parts>::MOST_BLOCKS)...})
	};
	using view = const VariantView<Parts...> &;
	using value = std::variant<part_value<Parts>...>;

	template <class Tx>
	static value load(Tx *tx, const uint64_t *at)
	{
		return with_index<N>(fur_load(tx, at), [&](auto i) {
			return value(std::in_place_index<i>, codec<i>::load(tx, at + 1));
		});
	}
	template <class Tx>
	static void create(Tx *tx, uint64_t *at, view part)
	{
		with_index<N>(part.index(), [&](auto i) {
			constexpr size_t words = codec<i>::WORDS;
			codec<i>::create(tx, at + 1, get<i>(part));
			store_zeroes(tx, at + 1 + words, WORDS - 1 - words);
		});
		fur_store(tx, at, part.index());
	}
	template <class Tx>
	static void assign(Tx *tx, uint64_t *at, view part)
	{
		if (part.index() == fur_load(tx, at)) {
			with_index<N>(part.index(),
			        [&](auto i) { codec<i>::assign(tx, at + 1, get<i>(part)); });
		} else {
			destroy(tx, at);
			create(tx, at, part);
		}
	}
	template <class Tx>
	static void destroy(Tx *tx, const uint64_t *at)
	{
		with_index<N>(fur_load(tx, at), [&](auto i) { codec<i>::destroy(tx, at + 1); });
	}
	template <class Tx>
	static uint64_t blocks(Tx *tx, const uint64_t *at)
	{
		return with_index<N>(fur_load(tx, at),
		        [&](auto i) -> uint64_t { return codec<i>::blocks(tx, at + 1); });
	}
	template <class Tx>
	static bool equal(Tx *tx, const uint64_t *at, view part)
	{
		return fur_load(tx, at) == part.index() &&
		       with_index<N>(part.index(), [&](auto i) -> bool {
			       return codec<i>::equal(tx, at + 1, get<i>(part));
		       });
	}
	/* By the index, then by the values. */
	template <class Tx>
	static int compare(Tx *tx, const uint64_t *at, view part)
	{
		const uint64_t index = fur_load(tx, at);
		if (index != part.index())
			return index < part.index() ? -1 : 1;
		return with_index<N>(part.index(),
		        [&](auto i) -> int { return codec<i>::compare(tx, at + 1, get<i>(part)); });
	}
	static bool is_key(view part)
	{
		return with_index<N>(part.index(),
		        [&](auto i) -> bool { return codec<i>::is_key(get<i>(part)); });
	}
	static void check_key(view part)
	{
		with_index<N>(part.index(), [&](auto i) { codec<i>::check_key(get<i>(part)); });
	}
	/* Of the index and the hash of the value. */
	static uint64_t hash_of(view part)
	{
		const uint64_t words[] = {
		        part.index(), with_index<N>(part.index(), [&](auto i) -> uint64_t {
			        return codec<i>::hash_of(get<i>(part));
		        })};
		return hash_bytes(words, sizeof words);
	}
	static uint64_t secret_hash_of(const uint64_t *secret, view part)
	{
		const uint64_t words[] = {
		        part.index(), with_index<N>(part.index(), [&](auto i) -> uint64_t {
			        return codec<i>::secret_hash_of(secret, get<i>(part));
		        })};
		return secret_hash_bytes(secret, words, sizeof words);
	}

private:
	template <size_t I>
	static const auto &get(view part)
	{
		return std::get<I>(static_cast<const typename VariantView<Parts...>::Base &>(part));
	}
};

} // namespace detail

template <class A, class B>
struct stored<std::pair<A, B>>
    : detail::PartsCodec<std::pair<detail::part_view<A>, detail::part_view<B>>,
              std::pair<detail::part_value<A>, detail::part_value<B>>, A, B> {
};
template <class... A>
struct stored<std::tuple<A...>> : detail::PartsCodec<std::tuple<detail::part_view<A>...>,
                                          std::tuple<detail::part_value<A>...>, A...> {
};
template <class A, size_t N>
struct stored<std::array<A, N>>
    : std::conditional_t<detail::is_plain<std::array<A, N>>, detail::PlainCodec<std::array<A, N>>,
              detail::ArrayCodec<A, N>> {
};
template <class A>
struct stored<std::optional<A>>
    : std::conditional_t<detail::is_plain<std::optional<A>>, detail::PlainCodec<std::optional<A>>,
              detail::OptionalCodec<A>> {
};
template <class... A>
struct stored<std::variant<A...>>
    : std::conditional_t<detail::is_plain<std::variant<A...>>,
              detail::PlainCodec<std::variant<A...>>, detail::VariantCodec<A...>> {
};

/* Trivially copyable ones have bytes that no code sets: their hashes are those of the others. */
template <class A>
struct hash<std::optional<A>> {
	static uint64_t of(const std::optional<A> &key)
	{
		return detail::OptionalCodec<A>::hash_of(key);
	}
};
template <class... A>
struct hash<std::variant<A...>> {
	static uint64_t of(const std::variant<A...> &key)
	{
		return detail::VariantCodec<A...>::hash_of(key);
	}
};

} // namespace fur

#endif /* FUR_COMPOSITE_HPP */
