/* SPDX-License-Identifier: BSD-3-Clause
 *
 * set_many_test.cpp - contains_many() of sets, maps and multimaps; and fur::erase() of all that a
 * multimap has for a key.
 */
#include "containers.hpp"

#include <memory>

namespace
{

class SetMany : public ContainerHeap
{
protected:
	/* Both forms, for keys that are there or not, and some twice. */
	template <class Tx, class C, class Key>
	static void expect_same(
	        Tx *tx, const C &c, const std::vector<Key> &keys, const std::vector<bool> &expected)
	{
		const auto n =
		        static_cast<uint64_t>(std::count(expected.begin(), expected.end(), true));
		const std::unique_ptr<bool[]> out(new bool[keys.size() + 1]);
		std::fill_n(out.get(), keys.size() + 1, true);
		EXPECT_EQ(c.contains_many(tx, keys.data(), keys.size(), out.get()), n);
		EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out.get()));
		EXPECT_TRUE(out[keys.size()]) << "it has written beyond the last key";
		std::vector<bool> met(keys.size());
		EXPECT_EQ(c.contains_many(tx, keys.data(), keys.size(),
		                  [&](size_t i) {
			                  EXPECT_FALSE(met.at(i)) << "it comes twice";
			                  met.at(i) = true;
		                  }),
		        n);
		EXPECT_TRUE(met == expected);
		c.prefetch_many(tx, keys.data(), keys.size());
	}
	/* Numbers 0, 2, 4 and so on are in the container; key(n) is passed to it. */
	template <class C, class Insert, class KeyOf>
	void expect_many(Insert insert, KeyOf key)
	{
		auto *c = fur::root<C>(self_, "container");
		for (const uint64_t entries : {0, 1, 9, 400}) {
			update([&](fur_update *tx) {
				for (uint64_t k = 0; k < entries; k++)
					insert(tx, *c, 2 * k);
			});
			for (const size_t n : {0, 1, 15, 16, 17, 100}) {
				std::vector<decltype(key(0))> keys;
				std::vector<bool> expected;
				while (keys.size() < n) {
					const uint64_t number = below(2 * entries + 3);
					keys.push_back(key(number));
					expected.push_back(number % 2 == 0 && number < 2 * entries);
				}
				read([&](fur_ro *tx) { expect_same(tx, *c, keys, expected); });
				fur::read(self_, fur::rerun, [&](fur_reader *tx) {
					expect_same(tx, *c, keys, expected);
				});
				update([&](fur_update *tx) {
					expect_same(tx, *c, keys, expected);
				});
			}
		}
	}
	template <class K>
	static auto key_of(uint64_t n)
	{
		return typename fur::stored<K>::value(Sample<K>::key(n));
	}
	template <class S, class K>
	void expect_many_of_set()
	{
		SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed_));
		expect_many<S>(
		        [](fur_update *tx, S &set, uint64_t n) { set.insert(tx, key_of<K>(n)); },
		        key_of<K>);
	}
};

TEST_F(SetMany, AHashSetOfNumbers)
{
	expect_many_of_set<fur::hash_set<uint64_t>, uint64_t>();
}
TEST_F(SetMany, AHashSetOfStrings)
{
	expect_many_of_set<fur::hash_set<fur::string>, fur::string>();
}
TEST_F(SetMany, AnOrderedSetOfNumbers)
{
	expect_many_of_set<fur::ordered_set<uint64_t>, uint64_t>();
}
TEST_F(SetMany, AnOrderedSetOfStrings)
{
	expect_many_of_set<fur::ordered_set<fur::string, 3>, fur::string>();
}
TEST_F(SetMany, AMap)
{
	using Map = fur::hash_map<fur::string, uint64_t>;
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed_));
	expect_many<Map>([](fur_update *tx, Map &map,
	                         uint64_t n) { map.insert(tx, key_of<fur::string>(n), n); },
	        key_of<fur::string>);
}
/* The keys of a multimap are its entries. */
TEST_F(SetMany, TheEntriesOfAMultimap)
{
	using Map = fur::ordered_multimap<fur::string, uint64_t, 4>;
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed_));
	const auto entry = [](uint64_t n) {
		return std::pair<std::string, uint64_t>(Sample<fur::string>::key(n % 7), n);
	};
	expect_many<Map>([&](fur_update *tx, Map &map,
	                         uint64_t n) { map.insert(tx, entry(n).first, entry(n).second); },
	        entry);
}

/* With the smallest log, in which the entries of a key do not fit one update. */
class MultimapErase : public HeapFile
{
};

TEST_F(MultimapErase, TakesAsManyUpdatesAsItNeeds)
{
	using Map = fur::ordered_multimap<fur::string, fur::string>;
	fur::Options o = small_options();
	o.heap_bytes = 16 << 20;
	fur::Heap heap = create(o);
	fur::Thread self(heap);
	auto *map = fur::root<Map>(self, "map");
	const auto value = [](uint64_t n) { return std::string(40, 'v') + std::to_string(n); };
	std::vector<std::pair<std::string, std::string>> entries;
	for (const char *key : {"a", "b", "c"})
		for (uint64_t n = 0; n < 1500; n++)
			entries.emplace_back(key, value(n));
	for (const size_t batch : {0, 1, 7, 1000}) {
		fur::fill(self, *map, entries.begin(), entries.end(), 4);
		try {
			fur::update(self, [&](fur_update *tx) { map->erase(tx, "b"); });
			ADD_FAILURE() << "it fits the log, so this test shows nothing";
		} catch (const fur::Error &e) {
			EXPECT_EQ(e.code(), FUR_ETOOBIG);
		}
		EXPECT_EQ(fur::erase(self, *map, "b", batch), 1500u);
		EXPECT_EQ(fur::erase(self, *map, "b", batch), 0u);
		fur::read(self, [&](fur_ro *tx) {
			expect_verified(tx, *map);
			EXPECT_EQ(map->size(tx), 3000u);
			EXPECT_EQ(map->count(tx, "a"), 1500u);
			EXPECT_EQ(map->count(tx, "b"), 0u);
			EXPECT_EQ(map->count(tx, "c"), 1500u);
		});
	}
	EXPECT_EQ(fur::update(self, fur::rerun,
	                  [&](fur_update *tx) { return map->erase_some(tx, "a", 3); }),
	        std::pair(uint64_t(3), true));
	EXPECT_EQ(fur::erase(self, *map, "a"), 1497u);
	EXPECT_EQ(fur::update(self, fur::rerun,
	                  [&](fur_update *tx) { return map->erase_some(tx, "a", 3); }),
	        std::pair(uint64_t(0), false));
}

} // namespace
