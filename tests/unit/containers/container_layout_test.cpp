/* SPDX-License-Identifier: BSD-3-Clause
 *
 * container_layout_test.cpp - the containers' words on the medium, for contents that never change:
 * a heap that an older program has made stays readable.  Decoded from the format comments of the
 * headers; hashes from an implementation in another language.
 */
#include "containers.hpp"
#include "internals.hpp"

#include <fur/table.hpp>
#include <fur_map.h>

__extension__ typedef __int128 Int128;

struct LayoutShop {
	uint64_t a, b;
};
struct LayoutUser {
	fur::string name;
	fur::vector<uint64_t> logins;
	uint64_t born;
	FUR_MEMBERS(name, logins, born)
};
struct LayoutOrder {
	uint64_t id;
	std::string name;
	uint32_t day;
	FUR_MEMBERS(id, name, day)
};
static uint64_t layout_sum(const LayoutShop &shop)
{
	return shop.a + shop.b;
}
using LayoutOrders = fur::table<LayoutOrder, fur::hash_unique<&LayoutOrder::id>,
        fur::ordered_index<&LayoutOrder::name, &LayoutOrder::day>,
        fur::hash_index<&LayoutOrder::day>, fur::ordered_unique<&LayoutOrder::name>>;
using LayoutShops = fur::table<LayoutShop, fur::ordered_unique<&LayoutShop::a>,
        fur::hash_unique<&LayoutShop::b>, fur::ordered_index<layout_sum>>;
namespace elsewhere
{
/* The same under another name. */
struct Person {
	fur::string name;
	fur::vector<uint64_t> logins;
	uint64_t born;
	FUR_MEMBERS(name, logins, born)
};
} // namespace elsewhere

namespace
{

constexpr uint64_t LINE_WORDS = 16, DEPTHS = 127;

static_assert(FUR_CACHE_LINE == 8 * LINE_WORDS);
static_assert(sizeof(fur::string) == 16 && alignof(fur::string) == 8);
static_assert(sizeof(fur::hash_map<uint64_t, uint64_t>) == 16);
static_assert(sizeof(fur::ordered_map<fur::string, uint64_t, 7>) == 16);
static_assert(sizeof(fur::hash_set<uint64_t>) == 16);
static_assert(sizeof(fur::ordered_set<fur::string>) == 16);
static_assert(sizeof(fur::ordered_multimap<uint64_t, fur::string>) == 16);
static_assert(sizeof(LayoutOrders) == 64 && sizeof(LayoutShops) == 48);
static_assert(std::is_standard_layout_v<LayoutShops>);
static_assert(sizeof(fur::vector<uint8_t>) == 16);
static_assert(sizeof(fur::queue<fur::string>) == 8);
static_assert(sizeof(fur::ptr<char>) == 8);
static_assert(sizeof(LayoutUser) == 40 && std::is_standard_layout_v<LayoutUser>);
static_assert(std::is_standard_layout_v<fur::string> && std::is_standard_layout_v<fur::ptr<int>>);
static_assert(std::is_trivially_destructible_v<fur::ordered_map<int, int>>);

class ContainerLayout : public HeapFile
{
protected:
	ContainerLayout() : heap_(create(container_options())), self_(heap_) {}
	template <class C>
	C *made()
	{
		return update([](fur_update *tx) { return fur::make<C>(tx); });
	}
	template <class Body>
	auto update(Body &&body)
	{
		return fur::update(self_, body);
	}
	/* As a program finds it that opens the file. */
	const uint64_t *words_of(const void *object)
	{
		heap_.close();
		heap_ = open(container_options());
		return static_cast<const uint64_t *>(object);
	}
	fur::Heap heap_;
	fur::Thread self_;
};

TEST(ContainerHash, IsFrozen)
{
	using Number = fur::stored<uint64_t>;
	EXPECT_EQ(Number::hash_of(0), 0x1f96742f53d78ec7);
	EXPECT_EQ(Number::hash_of(1), 0x19250cbfe1a04666);
	EXPECT_EQ(Number::hash_of(42), 0x80582f8cbc51b70e);
	EXPECT_EQ(Number::hash_of(UINT64_MAX), 0x9499b72da2d417e4);
	EXPECT_EQ(fur::stored<uint8_t>::hash_of(7), 0x467c64c0922ca457u);
	using Text = fur::stored<fur::string>;
	EXPECT_EQ(Text::hash_of(""), 0x9d9ec8084f581e51);
	EXPECT_EQ(Text::hash_of("a"), 0x9122fc7eb0ce6480);
	EXPECT_EQ(Text::hash_of("nuts"), 0xf5b401bf6a46778f);
	EXPECT_EQ(Text::hash_of("exactly 12 c"), 0x625f0adceb030e3eu);
	EXPECT_EQ(Text::hash_of("thirteen char"), 0xa9c70f63e02bc6e9);
	EXPECT_EQ(Text::hash_of(std::string_view("a\0b", 3)), 0xce533fce8d3714c4);
}

TEST(ContainerHash, OfSeveral_IsFrozen)
{
	using fur::stored, fur::string;
	using std::string_view;
	EXPECT_EQ((stored<std::pair<string, uint64_t>>::hash_of({"boiler", 42})),
	        0x9007de25846c743du);
	EXPECT_EQ((stored<std::tuple<string, uint8_t, Int128>>::hash_of({"a", uint8_t(7), -1})),
	        0x95fb77e459f44bc7);
	EXPECT_EQ((stored<std::array<string, 2>>::hash_of({"a", "nuts"})), 0x13eab6e17c8db6bau);
	EXPECT_EQ(stored<std::optional<string>>::hash_of({}), 0x1f96742f53d78ec7);
	EXPECT_EQ(stored<std::optional<string>>::hash_of("nuts"), 0xc4e57d63f9dba4cc);
	EXPECT_EQ(stored<std::optional<uint32_t>>::hash_of(7u), 0x551f212b7e5aa0b7);
	EXPECT_EQ((stored<std::variant<string, uint32_t>>::hash_of(7u)), 0x551f212b7e5aa0b7);
	EXPECT_EQ((stored<std::variant<string, uint32_t>>::hash_of(string_view("nuts"))),
	        0x6d5e3f552b078283);
	EXPECT_EQ((stored<std::variant<uint8_t, uint32_t>>::hash_of(7u)), 0x551f212b7e5aa0b7);
}

TEST(ContainerTypeHash, OfSeveral_IsFrozen)
{
	using fur::string, fur::type_hash;
	EXPECT_EQ((type_hash<std::pair<string, uint64_t>>::of()), 0x932b0a063e2773dau);
	EXPECT_EQ((type_hash<std::tuple<string, uint64_t>>::of()), 0x932b0a063e2773dau);
	EXPECT_EQ(type_hash<std::tuple<string>>::of(), 0x8b98f3769c044598);
	EXPECT_EQ((type_hash<std::array<string, 2>>::of()), 0xe62a8eff6968d2ff);
	EXPECT_EQ(type_hash<std::optional<string>>::of(), 0xd062919640ed08b1);
	EXPECT_EQ((type_hash<std::variant<string, uint64_t>>::of()), 0x3dacf8e83c091837u);
	EXPECT_EQ(type_hash<Int128>::of(), 0x9bc1096007f3fef8);
	EXPECT_EQ(type_hash<fur::detail::uint128>::of(), 0x7db9832a84b962edu);
	EXPECT_EQ(type_hash<LayoutUser>::of(), 0x11e7c08c85b66b15u);
	EXPECT_EQ(type_hash<elsewhere::Person>::of(), 0x11e7c08c85b66b15u);
	/* Trivially copyable, and without names: as ever. */
	using Words = std::array<uint64_t, 3>;
	EXPECT_EQ(type_hash<Words>::of(), fur::detail::hash_of_name<Words>());
}

TEST(ContainerTypeHash, IsFrozen)
{
	EXPECT_EQ(fur::type_hash<uint64_t>::of(), 0xbdaa8a6cb4304af7);
	EXPECT_EQ(fur::type_hash<int>::of(), 0x53d178b39e5437f6u);
	EXPECT_EQ(fur::type_hash<double>::of(), 0x8d7fa92715b2ed7f);
	EXPECT_EQ(fur::type_hash<char *>::of(), 0xd9961b45edd32519);
	EXPECT_EQ(fur::type_hash<uint64_t[3]>::of(), 0xb2520f302de91c1a);
	EXPECT_EQ(fur::type_hash<LayoutShop>::of(), 0x094b5f9e96fe617fu);
	EXPECT_EQ(fur::type_hash<fur::string>::of(), 0x5a97c0b8eb1e53aeu);
	EXPECT_EQ(fur::type_hash<fur::vector<uint64_t>>::of(), 0x67ce68fa1b69ce24u);
	EXPECT_EQ((fur::type_hash<fur::hash_map<fur::string, uint64_t>>::of()), 0xdb2c4c980d1f6d99);
	EXPECT_EQ((fur::type_hash<fur::ordered_map<uint64_t, fur::string>>::of()),
	        0xc02eb7f6f5b6716b);
	EXPECT_EQ(fur::type_hash<fur::queue<uint64_t>>::of(), 0xebc39ed3156fd948);
	EXPECT_EQ(fur::type_hash<fur::ptr<char>>::of(), 0x9fd7e15666bb1953);
}

TEST(ContainerTypeHash, OfATable_IsFrozen)
{
	EXPECT_EQ(fur::type_hash<LayoutOrders>::of(), 0x627085f1b3d4c15fu);
	EXPECT_EQ(fur::type_hash<LayoutShops>::of(), 0x732c7307700e2734u);
}

TEST_F(ContainerLayout, String)
{
	auto *empty = made<fur::string>(), *inside = made<fur::string>(),
	     *outside = made<fur::string>();
	update([&](fur_update *tx) {
		empty->assign(tx, "something that needs a block");
		empty->assign(tx, "");
		inside->assign(tx, "exactly 12 c");
		outside->assign(tx, "thirteen char");
	});
	const uint64_t *words = words_of(empty);
	EXPECT_EQ(words[0] | words[1], 0u);
	words = words_of(inside);
	EXPECT_EQ(words[0], 0x636178650000000cu);  /* "exac", 12 */
	EXPECT_EQ(words[1], 0x63203231'20796c74u); /* "tly 12 c" */
	words = words_of(outside);
	EXPECT_EQ(words[0], 0x726968740000000du); /* "thir", 13 */
	EXPECT_EQ(memcmp(address(words[1]), "thirteen char", 13), 0);
}

TEST_F(ContainerLayout, Vector)
{
	using Strings = fur::vector<fur::string>;
	auto *bytes = made<fur::vector<uint8_t>>();
	auto *strings = made<Strings>();
	update([&](fur_update *tx) {
		for (unsigned n = 0; n < 25; n++)
			bytes->push_back(tx, static_cast<uint8_t>(n + 1));
		for (const char *text : {"a", "b", "c"})
			strings->push_back(tx, text);
		strings->pop_back(tx);
	});
	const uint64_t *words = words_of(bytes);
	EXPECT_EQ(words[0], 25u);
	const uint64_t *directory = address(words[1]);
	for (size_t k = 0; k < 48; k++)
		EXPECT_EQ(directory[k] != 0, k < 3) << k; /* 8 elements, 16, 32 */
	for (unsigned n = 0; n < 25; n++)
		EXPECT_EQ(n < 8    ? address(directory[0])[n]
		          : n < 24 ? address(directory[1])[n - 8]
		                   : address(directory[2])[n - 24],
		        n + 1);
	words = words_of(strings);
	EXPECT_EQ(words[0], 2u);
	const uint64_t *elements = address(address(words[1])[0]);
	EXPECT_EQ(elements[0], 0x6100000001u); /* "a", 1 */
	EXPECT_EQ(elements[1], 0u);
	EXPECT_EQ(elements[2], 0x6200000001u); /* "b", 1 */
}

TEST_F(ContainerLayout, OfSeveral)
{
	using fur::string;
	using Tuple = std::tuple<string, uint16_t, Int128, std::optional<string>>;
	using Either = std::variant<uint32_t, string>;
	auto *tuples = made<fur::vector<Tuple>>();
	auto *eithers = made<fur::vector<std::pair<uint8_t, Either>>>();
	auto *arrays = made<fur::vector<std::array<string, 2>>>();
	auto *plain = made<fur::vector<std::array<uint16_t, 3>>>();
	update([&](fur_update *tx) {
		tuples->push_back(tx, {"exac", uint16_t(7), -2, "nuts"});
		tuples->push_back(tx, {"", uint16_t(8), 3, std::nullopt});
		eithers->push_back(tx, {uint8_t(1), std::string_view("nuts")});
		eithers->set(tx, 0, {uint8_t(1), std::string_view("a")});
		eithers->push_back(tx, {uint8_t(2), std::string_view("thirteen char")});
		eithers->set(tx, 1, {uint8_t(3), 9u});
		arrays->push_back(tx, {"a", "nuts"});
		plain->push_back(tx, {1, 2, 3});
	});
	const uint64_t *words = words_of(tuples);
	const uint64_t *elements = address(address(words[1])[0]);
	const uint64_t nuts = 0x7374756e00000004u;
	const uint64_t want[] = {0x6361786500000004u, 0, 7, UINT64_MAX - 1, UINT64_MAX, 1, nuts, 0,
	        0, 0, 8, 3, 0, 0, 0, 0};
	for (size_t i = 0; i < std::size(want); i++)
		EXPECT_EQ(elements[i], want[i]) << i;
	elements = address(address(reinterpret_cast<const uint64_t *>(eithers)[1])[0]);
	const uint64_t pairs[] = {1, 1, 0x6100000001u, 0, 3, 0, 9, 0};
	for (size_t i = 0; i < std::size(pairs); i++)
		EXPECT_EQ(elements[i], pairs[i]) << i;
	elements = address(address(reinterpret_cast<const uint64_t *>(arrays)[1])[0]);
	EXPECT_EQ(elements[0], 0x6100000001u);
	EXPECT_EQ(elements[2], nuts);
	elements = address(address(reinterpret_cast<const uint64_t *>(plain)[1])[0]);
	EXPECT_EQ(elements[0], 0x000300020001u);
}

/* A struct lies in a leaf as it is. */
TEST_F(ContainerLayout, Owned)
{
	auto *map = made<fur::ordered_map<uint64_t, LayoutUser, 4>>();
	update([&](fur_update *tx) {
		LayoutUser fresh{};
		fresh.born = 1815;
		map->insert(tx, 30, fresh);
		LayoutUser *user = map->lookup(tx, 30);
		user->name.assign(tx, "nuts");
		user->logins.push_back(tx, 17);
	});
	const uint64_t *leaf = address(*words_of(map) - 1);
	EXPECT_EQ(leaf[1], 30u);
	const uint64_t *user = leaf + 1 + 4;
	EXPECT_EQ(user[0], 0x7374756e00000004u);
	EXPECT_EQ(user[2], 1u);
	EXPECT_EQ(address(address(user[3])[0])[0], 17u);
	EXPECT_EQ(user[4], 1815u);
}

/* The containers one behind the other; a row is the std::tuple of its members, or its bytes. */
TEST_F(ContainerLayout, Table)
{
	auto *orders = made<LayoutOrders>();
	auto *shops = made<LayoutShops>();
	update([&](fur_update *tx) {
		orders->insert(tx, {42, "nuts", 7});
		shops->insert(tx, {30, 12});
	});
	const uint64_t nuts = 0x7374756e00000004u;
	const uint64_t *words = words_of(orders);
	const uint64_t *leaf = address(words[0]), *row = leaf + 2 + 8;
	EXPECT_EQ(leaf[2], 42u);
	EXPECT_EQ(row[0], 42u);
	EXPECT_EQ(row[1], nuts);
	EXPECT_EQ(row[3], 7u);
	leaf = address(words[2] - 1); /* the key's parts, then the primary key */
	EXPECT_EQ(leaf[1], nuts);
	EXPECT_EQ(leaf[3], 7u);
	EXPECT_EQ(leaf[4], 42u);
	leaf = address(words[4]); /* a set for each key */
	EXPECT_EQ(leaf[2], 7u);
	EXPECT_EQ(address(leaf[2 + 8] - 1)[1], 42u);
	leaf = address(words[6] - 1);
	EXPECT_EQ(leaf[1], nuts);
	EXPECT_EQ(leaf[1 + 15 * 2], 42u);
	words = reinterpret_cast<const uint64_t *>(shops);
	row = address(words[0] - 1) + 1 + 15;
	EXPECT_EQ(row[0], 30u);
	EXPECT_EQ(row[1], 12u);
	EXPECT_EQ(address(words[2])[2], 12u);
	EXPECT_EQ(address(words[2])[2 + 8], 30u);
	EXPECT_EQ(address(words[4] - 1)[1], 42u); /* what the function returns */
	EXPECT_EQ(address(words[4] - 1)[2], 30u);
}

TEST_F(ContainerLayout, Queue)
{
	auto *queue = made<fur::queue<uint64_t>>(), *empty = made<fur::queue<uint64_t>>();
	update([&](fur_update *tx) {
		for (uint64_t n = 0; n < 40; n++)
			queue->push(tx, 100 + n);
		queue->pop(tx);
		queue->pop(tx);
	});
	const uint64_t *ends = address(*words_of(queue));
	EXPECT_EQ(ends[0], 2u);
	EXPECT_EQ(ends[LINE_WORDS], 40u);
	const uint64_t *first = address(ends[1]), *last = address(ends[LINE_WORDS + 1]);
	EXPECT_EQ(address(first[0]), last);
	EXPECT_EQ(last[0], 0u);
	for (uint64_t n = 2; n < 32; n++)
		EXPECT_EQ(first[1 + n], 100 + n);
	for (uint64_t n = 32; n < 40; n++)
		EXPECT_EQ(last[1 + n - 32], 100 + n);
	EXPECT_EQ(*words_of(empty), 0u);
}

TEST_F(ContainerLayout, HashMap_OfOneLeaf)
{
	auto *map = made<fur::hash_map<uint64_t, Wide>>();
	update([&](fur_update *tx) {
		map->insert(tx, 0, Sample<Wide>::value(5));
		map->insert(tx, 1, Sample<Wide>::value(6));
		map->insert(tx, 42, Sample<Wide>::value(7));
		map->erase(tx, 1);
	});
	const uint64_t *words = words_of(map);
	EXPECT_EQ(words[1], 0u); /* no parts of the size */
	EXPECT_EQ(words[0] & DEPTHS, 0u);
	const uint64_t *leaf = address(words[0]);
	EXPECT_EQ(leaf[0], 0x8e00c7u); /* the lowest 7 bits of the hashes, | 0x80 */
	EXPECT_EQ(leaf[1], 0u);
	EXPECT_EQ(leaf[2], 0u);
	EXPECT_EQ(leaf[4], 42u);
	for (uint64_t k = 0; k < 8; k++) {
		EXPECT_EQ(leaf[10 + k], 5 * (k + 1));
		EXPECT_EQ(leaf[10 + 16 + k], 7 * (k + 1));
	}
}

/* Every key is found by the bits of its hash, the highest first. */
TEST_F(ContainerLayout, HashMap_OfManyLeaves)
{
	auto *map = made<fur::hash_map<fur::string, uint64_t>>();
	for (uint64_t n = 0; n < 500; n++)
		update([&](fur_update *tx) { map->insert(tx, Sample<fur::string>::key(n), n); });
	const uint64_t *words = words_of(map);
	EXPECT_EQ(raw_size(words[1], 0), 500u);
	unsigned deepest = 0;
	for (uint64_t n = 0; n < 500; n++) {
		const std::string key = Sample<fur::string>::key(n);
		const uint64_t hash = fur::stored<fur::string>::hash_of(key);
		uint64_t word = words[0], rest = hash, used = 0;
		while (const uint64_t bits = word & DEPTHS) {
			word = address(word - bits)[1 + (rest >> (64 - bits))];
			rest <<= bits;
			used += bits;
		}
		const uint64_t *leaf = address(word);
		EXPECT_LE(leaf[1], used);
		deepest = std::max(deepest, static_cast<unsigned>(leaf[1]));
		unsigned found = 0;
		for (size_t k = 0; k < 8; k++)
			if ((leaf[0] >> 8 * k & 0xff) == (hash & 127) + 128 &&
			        Raw<fur::string>::of(leaf + 2 + 2 * k) == key && leaf[18 + k] == n)
				found++;
		EXPECT_EQ(found, 1u) << n;
	}
	EXPECT_GE(deepest, 6u);
}

TEST_F(ContainerLayout, OrderedMap)
{
	auto *map = made<fur::ordered_map<uint64_t, uint64_t, 4>>();
	update([&](fur_update *tx) {
		for (uint64_t key : {30, 10, 20})
			map->insert(tx, key, key + 1);
	});
	const uint64_t *words = words_of(map);
	EXPECT_EQ(words[0] & 1, 1u);
	EXPECT_EQ(words[1], 0u);
	const uint64_t *leaf = address(words[0] - 1);
	EXPECT_EQ(leaf[0], 0xedcba98765430213u); /* 3 entries, at places 1, 2, 0 */
	EXPECT_EQ(leaf[1], 30u);
	EXPECT_EQ(leaf[2], 10u);
	EXPECT_EQ(leaf[3], 20u);
	EXPECT_EQ(leaf[5], 31u);
	EXPECT_EQ(leaf[6], 11u);
	EXPECT_EQ(leaf[7], 21u);
	self_ = fur::Thread(heap_);
	update([&](fur_update *tx) {
		for (uint64_t key : {40, 50, 60})
			map->insert(tx, key, key + 1);
		map->erase(tx, 20);
	});
	words = words_of(map);
	EXPECT_EQ(words[0] & 1, 0u);
	EXPECT_EQ(raw_size(words[1], 0), 5u);
	const uint64_t *inner = address(words[0]);
	EXPECT_EQ(inner[0] & 15, 2u);
	const uint64_t second = inner[0] >> 8 & 15, first = inner[0] >> 4 & 15;
	EXPECT_EQ(inner[1 + second], 50u);
	EXPECT_EQ(inner[1 + first], 0u);
	EXPECT_EQ(inner[5 + first], reinterpret_cast<uintptr_t>(leaf) | 1);
	const uint64_t *right = address(inner[5 + second] - 1);
	EXPECT_EQ(right[0] & 15, 2u);
	EXPECT_EQ(right[1], 50u);
	EXPECT_EQ(right[2], 60u);
	EXPECT_EQ(right[5], 51u);
	/* 20 is gone; its place is the first free one. */
	EXPECT_EQ(leaf[0], 0xedcba98765423013u);
}

TEST_F(ContainerLayout, NamedRoots)
{
	auto *shop = fur::root<LayoutShop>(self_, "shop");
	const uint64_t *names = words_of(root_at_rest(heap_, 63));
	const uint64_t *leaf = address(names[0] - 1);
	EXPECT_EQ(leaf[0], 0xedcba98765432101u);
	EXPECT_EQ(leaf[1], 0x706f687300000004u); /* "shop", 4 */
	EXPECT_EQ(leaf[2], 0u);
	EXPECT_EQ(address(leaf[1 + 30]), reinterpret_cast<const uint64_t *>(shop));
	EXPECT_EQ(leaf[1 + 31], 0x094b5f9e96fe617fu);
	self_ = fur::Thread(heap_);
}

/* A word, and the container of C++. */
TEST_F(ContainerLayout, MapsOfC)
{
	for (fur_map_kind kind : {FUR_MAP_HASH, FUR_MAP_ORDERED}) {
		fur_map *map = nullptr;
		const char *name = kind == FUR_MAP_HASH ? "hash" : "ordered";
		ASSERT_EQ(fur_map_root(self_, name, kind, &map), 0);
		fur::update(self_, [&](fur_update *tx) {
			for (uint64_t n = 0; n < 100; n++) {
				const std::string key = Sample<fur::string>::key(n);
				EXPECT_EQ(fur_map_put(tx, map, key.data(), key.size(), "v", 1), 1);
			}
		});
		const auto *words = reinterpret_cast<const uint64_t *>(map);
		EXPECT_EQ(words[0], UINT64_C(0x70616d7275660000) | kind);
		EXPECT_EQ(usable_at_rest(heap_, map), 128u);
		EXPECT_EQ(reinterpret_cast<uintptr_t>(map) % FUR_CACHE_LINE, 0u);
		auto hash = [](const std::string &key) {
			return fur::stored<fur::string>::hash_of(key);
		};
		auto secret_hash = [](const uint64_t *secret, const std::string &key) {
			return fur::stored<fur::string>::secret_hash_of(secret, key);
		};
		const auto entries =
		        kind == FUR_MAP_HASH
		                ? RawHashMap<fur::string, fur::string>(words + 1, hash, secret_hash)
		                          .entries
		                : RawOrderedMap<fur::string, fur::string, 15>(words + 1).entries;
		EXPECT_EQ(entries.size(), 100u);
		for (const auto &[key, value] : entries)
			EXPECT_EQ(value, "v");
	}
	/* The types that stand beside the names. */
	const auto *names =
	        static_cast<const fur::detail::Names *>(root_at_rest(heap_, FUR_ROOTS - 1));
	fur::read(self_, [&](fur_ro *tx) {
		EXPECT_EQ(names->at(tx, "hash").type, 0x549ca31a6b321717u);
		EXPECT_EQ(names->at(tx, "ordered").type, 0xb6c51aa4ea789340u);
	});
}

} // namespace
