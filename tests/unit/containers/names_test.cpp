/* SPDX-License-Identifier: BSD-3-Clause
 *
 * names_test.cpp - a program's functions have names that functions of fur::detail also have, and it
 * calls them without a namespace, with containers and iterators.
 */
#include <fur.hpp>
#include <fur/hash_map.hpp>
#include <fur/multimap.hpp>
#include <fur/ordered_map.hpp>
#include <fur/set.hpp>
#include <fur/string.hpp>
#include <fur/table.hpp>
#include <fur/vector.hpp>
#include <gtest/gtest.h>
#include <type_traits>
#include <utility>

/* As general as those of fur::detail: if these were found too, the calls would be ambiguous. */
namespace program
{

template <class T, class F>
int each_owner(T &, F &&)
{
	return 1;
}
template <class Tx, class T>
int clear_object(Tx *, T &)
{
	return 1;
}
template <class Tx, class T>
int clear_some_of(Tx *, T &, uint64_t)
{
	return 1;
}
template <class Tx, class T>
int verify_object(Tx *, const T &, uint64_t &)
{
	return 1;
}

/* auto: its type asks for its body. */
template <class T>
auto call_all(fur_update *tx, T &t)
{
	uint64_t n = 0;
	return each_owner(t, n) + clear_object(tx, t) + clear_some_of(tx, t, n) +
	       verify_object(tx, t, n);
}

} // namespace program

struct NamesRow {
	int n;
};

template <class Container>
class Names : public testing::Test
{
};
using All = testing::Types<fur::hash_map<int, fur::string>, fur::ordered_map<fur::string, int>,
        fur::hash_set<int>, fur::ordered_set<int>, fur::ordered_multimap<int, int>,
        fur::vector<int>, fur::table<NamesRow, fur::hash_unique<&NamesRow::n>>>;
TYPED_TEST_SUITE(Names, All, );

TYPED_TEST(Names, AreThoseOfTheProgram)
{
	alignas(TypeParam) static unsigned char bytes[sizeof(TypeParam)]; /* none is loaded */
	EXPECT_EQ(program::call_all(nullptr, reinterpret_cast<TypeParam &>(bytes)), 4);
	using Iterator = decltype(std::declval<const TypeParam &>()
	                                  .in(static_cast<fur_update *>(nullptr))
	                                  .begin());
	static_assert(
	        std::is_same_v<decltype(program::call_all(nullptr, std::declval<Iterator &>())),
	                int>);
}
