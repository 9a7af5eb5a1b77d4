/* SPDX-License-Identifier: BSD-3-Clause
 *
 * map_composite_test.cpp - containers of std::pair, std::tuple, std::array, std::optional and
 * std::variant against their std:: models.
 */
#include "composites.hpp"
#include "map_cases.hpp"

#include <cmath>

namespace
{

using fur::string;
using Reading = std::pair<string, uint64_t>;

/* A pair, a variant, an array.  Others: the tuple and the optional, which the ordered maps have. */
using HashTypes =
        TypesHere<::testing::Types<fur::hash_map<Reading, uint64_t>,
                          fur::hash_map<std::variant<string, uint32_t>, std::array<string, 2>>>,
                ::testing::Types<fur::hash_map<Int128, std::tuple<string, uint32_t, string>>,
                        fur::hash_map<std::array<string, 2>, std::optional<string>>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(CompositeHash, Maps, HashTypes);

/* A pair, a tuple, a number of 128 bits, an optional. */
using OrderedTypes = TypesHere<
        ::testing::Types<fur::ordered_map<Reading, string, 4>,
                fur::ordered_map<std::tuple<uint8_t, string, Int128>, std::optional<string>>>,
        ::testing::Types<fur::ordered_map<std::optional<string>, std::variant<string, uint32_t>, 3>,
                fur::ordered_map<std::variant<string, int32_t>, std::pair<uint32_t, uint32_t>, 5>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(CompositeOrdered, Maps, OrderedTypes);

/* A key is passed as views of its parts, not as a copy. */
static_assert(std::is_same_v<fur::ordered_map<Reading, double>::key_view,
        const std::pair<std::string_view, uint64_t> &>);
static_assert(std::is_same_v<fur::hash_map<std::tuple<string, Int128>, double>::key_view,
        const std::tuple<std::string_view, Int128> &>);
/* What is trivially copyable is stored as its bytes, as before. */
static_assert(fur::stored<std::optional<uint32_t>>::WORDS == 1);
static_assert(fur::stored<std::array<uint16_t, 5>>::WORDS == 2);
static_assert(fur::stored<std::variant<uint32_t, float>>::WORDS == 1);

class Composites : public ContainerHeap
{
protected:
	/* Random values in random places, and no block is left. */
	template <class T, class Value>
	void expect_vector_agrees(Value value)
	{
		const uint64_t before = blocks_of(heap_);
		auto *vector = update([](fur_update *tx) { return fur::make<fur::vector<T>>(tx); });
		std::vector<typename fur::stored<T>::value> model;
		for (int round = 0; round < 400; round++) {
			const auto some = value(below(100));
			update([&](fur_update *tx) {
				if (model.empty() || below(4) == 0) {
					vector->push_back(tx, some);
					model.push_back(some);
				} else {
					const uint64_t i = below(model.size());
					vector->set(tx, i, some);
					model[i] = some;
				}
			});
		}
		read([&](fur_ro *tx) {
			ASSERT_EQ(vector->size(tx), model.size());
			for (size_t i = 0; i < model.size(); i++)
				EXPECT_TRUE(vector->get(tx, i) == model[i]) << i;
			const uint64_t blocks = expect_verified(tx, *vector);
			EXPECT_EQ(before + 1 + blocks, blocks_of(heap_));
		});
		update([&](fur_update *tx) { fur::destroy(tx, vector); });
		EXPECT_EQ(blocks_of(heap_), before);
	}
};

TEST_F(Composites, Assigned_FreeWhatTheyHad)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed_));
	using Variant = std::variant<string, uint64_t, std::pair<string, string>>;
	using Value = std::variant<std::string, uint64_t, std::pair<std::string, std::string>>;
	const auto text = [](uint64_t n) { return std::string(n % 40, 'x'); };
	expect_vector_agrees<Variant>([&](uint64_t n) {
		return n % 3 == 0   ? Value(std::in_place_index<0>, text(n))
		       : n % 3 == 1 ? Value(std::in_place_index<1>, n)
		                    : Value(std::in_place_index<2>, text(n), text(n + 1));
	});
	expect_vector_agrees<std::optional<Reading>>([&](uint64_t n) {
		using Some = std::optional<std::pair<std::string, uint64_t>>;
		return n % 2 ? Some(std::pair(text(n), n)) : Some();
	});
	expect_vector_agrees<std::array<std::optional<string>, 2>>([&](uint64_t n) {
		using Some = std::optional<std::string>;
		return std::array{n % 2 ? Some(text(n)) : Some(), Some(text(n + 3))};
	});
}

TEST_F(Composites, OfAName_AreARangeOfKeys)
{
	auto *map = fur::root<fur::ordered_map<Reading, double>>(self_, "readings");
	const std::string name(100, 'b');
	update([&](fur_update *tx) {
		for (uint64_t time = 0; time < 10; time++) {
			map->insert(tx, {"boiler", time}, 1.5);
			map->insert(tx, {name, time}, 2.5);
			map->insert(tx, {"a", time}, 3.5);
		}
		EXPECT_FALSE(map->insert(tx, {name, 3}, 0));
	});
	read([&](fur_ro *tx) {
		uint64_t next = 4;
		auto at = map->lower_bound(tx, {name, 4});
		for (; at != map->in(tx).end() && at->first.first == name; ++at)
			EXPECT_EQ(at->first.second, next++);
		EXPECT_EQ(next, 10u);
		EXPECT_EQ(at->first, std::pair(std::string("boiler"), uint64_t(0)));
		EXPECT_EQ(map->floor(tx, {name, UINT64_MAX})->first.second, 9u);
		EXPECT_EQ(map->at(tx, {"boiler", 3}), 1.5);
	});
}

TEST_F(Composites, WithNaNInside_AreNoKeys)
{
	auto *map = fur::root<fur::ordered_map<std::pair<string, double>, int>>(self_, "map");
	auto *some =
	        fur::root<fur::ordered_map<std::tuple<std::optional<double>>, int>>(self_, "some");
	const double nan = std::nan("");
	EXPECT_THROW(update([&](fur_update *tx) {
		map->insert(tx, {"a", nan}, 1);
	}),
	        std::invalid_argument);
	EXPECT_THROW(
	        update([&](fur_update *tx) { some->insert(tx, {nan}, 1); }), std::invalid_argument);
	update([&](fur_update *tx) {
		EXPECT_TRUE(map->insert(tx, {"a", 0.0}, 1));
		EXPECT_FALSE(map->insert(tx, {"a", -0.0}, 1));
		EXPECT_EQ(map->erase(tx, {"a", nan}), 0u);
		EXPECT_TRUE(some->insert(tx, {std::nullopt}, 1));
	});
}

/* A trivially copyable optional or variant has bytes that no code sets. */
TEST_F(Composites, OfTrivialTypes_AreKeysOfHashMaps)
{
	using Some = std::optional<uint32_t>;
	using Either = std::variant<uint8_t, uint32_t>;
	auto *map = fur::root<fur::hash_map<Some, uint64_t>>(self_, "some");
	auto *either = fur::root<fur::hash_map<Either, uint64_t>>(self_, "either");
	alignas(Some) unsigned char bytes[sizeof(Some)];
	for (uint32_t round = 0; round < 2; round++)
		update([&](fur_update *tx) {
			for (uint32_t n = 0; n < 100; n++) {
				memset(bytes, round ? 0xff : 0, sizeof bytes);
				const Some &key = *new (bytes) Some(n ? Some(n) : Some());
				EXPECT_EQ(map->insert(tx, key, n), round == 0);
				const Either other =
				        n % 2 ? Either(uint8_t(n)) : Either(uint32_t(n));
				EXPECT_EQ(either->insert(tx, other, n), round == 0);
			}
		});
	read([&](fur_ro *tx) {
		EXPECT_EQ(map->size(tx), 100u);
		EXPECT_EQ(map->at(tx, std::nullopt), 0u);
		EXPECT_EQ(map->at(tx, 99u), 99u);
		EXPECT_FALSE(either->contains(tx, uint32_t(1)));
	});
}

/* Keys that a stranger has chosen: alike in their hashes, and in buckets. */
TEST_F(Composites, WhosePartsAreAlike_AreFound)
{
	auto *map = fur::root<fur::hash_map<std::pair<Clash, string>, uint64_t>>(self_, "map");
	auto *alike = fur::root<fur::hash_map<std::pair<Clash, Clash>, uint64_t>>(self_, "alike");
	update([&](fur_update *tx) {
		for (uint64_t n = 0; n < 100; n++) {
			EXPECT_TRUE(map->insert(tx, {Clash{n}, "a"}, n));
			EXPECT_TRUE(alike->insert(tx, {Clash{n}, Clash{n}}, n));
		}
	});
	read([&](fur_ro *tx) {
		expect_verified(tx, *map);
		expect_verified(tx, *alike);
		for (uint64_t n = 0; n < 100; n++) {
			EXPECT_EQ(map->at(tx, {Clash{n}, "a"}), n);
			EXPECT_EQ(alike->at(tx, {Clash{n}, Clash{n}}), n);
		}
	});
}

} // namespace
