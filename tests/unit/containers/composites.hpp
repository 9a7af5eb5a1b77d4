/* SPDX-License-Identifier: BSD-3-Clause
 *
 * composites.hpp - keys and values that consist of several, by number, and their words, decoded
 * from the format comment of composite.hpp without its code.
 */
#ifndef COMPOSITES_HPP
#define COMPOSITES_HPP

#include "maps.hpp"

#include <optional>
#include <tuple>
#include <variant>

__extension__ typedef __int128 Int128;

template <>
struct Sample<Int128> {
	/* Both signs, and numbers that differ in the upper half only. */
	static Int128 key(uint64_t n)
	{
		const auto upper = static_cast<int64_t>(n % 5) - 2;
		return static_cast<Int128>(upper) * (static_cast<Int128>(1) << 64) +
		       static_cast<Int128>(n);
	}
	static Int128 value(uint64_t n)
	{
		return -key(n);
	}
};
/* Keys of several have first parts in common. */
template <class A, class B>
struct Sample<std::pair<A, B>> {
	static auto key(uint64_t n)
	{
		return std::pair(Sample<A>::key(n % 20), Sample<B>::key(n));
	}
	static auto value(uint64_t n)
	{
		return std::pair(Sample<A>::value(n + 1), Sample<B>::value(n));
	}
};
template <class A, class B, class C>
struct Sample<std::tuple<A, B, C>> {
	static auto key(uint64_t n)
	{
		return std::tuple(Sample<A>::key(n % 3), Sample<B>::key(n % 20), Sample<C>::key(n));
	}
	static auto value(uint64_t n)
	{
		return std::tuple(
		        Sample<A>::value(n), Sample<B>::value(n / 2), Sample<C>::value(n + 7));
	}
};
template <class A>
struct Sample<std::array<A, 2>> {
	static auto key(uint64_t n)
	{
		return std::array{Sample<A>::key(n % 20), Sample<A>::key(n)};
	}
	static auto value(uint64_t n)
	{
		return std::array{Sample<A>::value(n), Sample<A>::value(n + 1)};
	}
};
template <class A>
struct Sample<std::optional<A>> {
	using Value = typename fur::stored<std::optional<A>>::value;
	static Value key(uint64_t n)
	{
		return n ? Value(Sample<A>::key(n)) : Value();
	}
	static Value value(uint64_t n)
	{
		return n % 3 ? Value(Sample<A>::value(n)) : Value();
	}
};
template <class A, class B>
struct Sample<std::variant<A, B>> {
	using Value = typename fur::stored<std::variant<A, B>>::value;
	static Value key(uint64_t n)
	{
		return n % 2 ? Value(std::in_place_index<0>, Sample<A>::key(n))
		             : Value(std::in_place_index<1>, Sample<B>::key(n));
	}
	static Value value(uint64_t n)
	{
		return n % 3 ? Value(std::in_place_index<0>, Sample<A>::value(n))
		             : Value(std::in_place_index<1>, Sample<B>::value(n));
	}
};

template <class A, class B>
struct Raw<std::pair<A, B>> {
	enum : size_t { WORDS = size_t(Raw<A>::WORDS) + Raw<B>::WORDS };
	using value = std::pair<typename Raw<A>::value, typename Raw<B>::value>;
	static value of(const uint64_t *words)
	{
		return {Raw<A>::of(words), Raw<B>::of(words + Raw<A>::WORDS)};
	}
};
template <class A, class B, class C>
struct Raw<std::tuple<A, B, C>> {
	enum : size_t { WORDS = size_t(Raw<A>::WORDS) + Raw<B>::WORDS + Raw<C>::WORDS };
	using value =
	        std::tuple<typename Raw<A>::value, typename Raw<B>::value, typename Raw<C>::value>;
	static value of(const uint64_t *words)
	{
		return {Raw<A>::of(words), Raw<B>::of(words + Raw<A>::WORDS),
		        Raw<C>::of(words + Raw<A>::WORDS + Raw<B>::WORDS)};
	}
};
template <>
struct Raw<std::array<fur::string, 2>> {
	enum : size_t { WORDS = 4 };
	using value = std::array<std::string, 2>;
	static value of(const uint64_t *words)
	{
		return {Raw<fur::string>::of(words), Raw<fur::string>::of(words + 2)};
	}
};
template <>
struct Raw<std::optional<fur::string>> {
	enum : size_t { WORDS = 3 };
	using value = std::optional<std::string>;
	static value of(const uint64_t *words)
	{
		EXPECT_LE(words[0], 1u);
		EXPECT_TRUE(words[0] || (words[1] | words[2]) == 0);
		return words[0] ? value(Raw<fur::string>::of(words + 1)) : value();
	}
};
template <class B>
struct Raw<std::variant<fur::string, B>> {
	enum : size_t { WORDS = 3 };
	static_assert(Raw<B>::WORDS == 1);
	using value = std::variant<std::string, typename Raw<B>::value>;
	static value of(const uint64_t *words)
	{
		EXPECT_LE(words[0], 1u);
		if (words[0] == 0)
			return value(std::in_place_index<0>, Raw<fur::string>::of(words + 1));
		EXPECT_EQ(words[2], 0u);
		return value(std::in_place_index<1>, Raw<B>::of(words + 1));
	}
};

#endif /* COMPOSITES_HPP */
