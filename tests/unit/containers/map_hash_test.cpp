/* SPDX-License-Identifier: BSD-3-Clause
 *
 * map_hash_test.cpp - fur::hash_map against std::map, and keys whose hashes are alike.
 */
#include "map_cases.hpp"

namespace
{

/* Nodes of the smallest entries, and keys and values that own blocks.  Others: values of part of a
 * word and of several, and blocks of the key or of the value alone. */
using HashTypes = TypesHere<::testing::Types<fur::hash_map<uint64_t, uint64_t>,
                                    fur::hash_map<fur::string, fur::string>>,
        ::testing::Types<fur::hash_map<int64_t, uint8_t>, fur::hash_map<uint64_t, Wide>,
                fur::hash_map<uint64_t, fur::string>, fur::hash_map<fur::string, Wide>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Hash, Maps, HashTypes);

template <class M>
class Collisions : public Maps<M>
{
};
using CollisionTypes =
        ::testing::Types<fur::hash_map<Clash, uint64_t>, fur::hash_map<Near, fur::string>>;
TYPED_TEST_SUITE(Collisions, CollisionTypes);

TYPED_TEST(Collisions, KeysThatAgreeInTheirHash)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(this->seed_));
	using K = typename Kind<TypeParam>::Key;
	using Raw = RawHashMap<K, typename Kind<TypeParam>::Value>;
	const uint64_t before = blocks_of(this->heap_);
	typename TestFixture::Model model;
	this->insert_range(0, 60, &model);
	this->expect_same(model);
	if (std::is_same_v<K, Clash>) {
		const Raw raw(this->map_, Kind<TypeParam>::hash, Kind<TypeParam>::secret_hash);
		EXPECT_EQ(raw.longest_list, 8u) << "60 keys of one hash";
	}
	for (int round = 0; round < 200; round++)
		this->update([&](fur_update *tx) {
			for (int k = 0; k < 5; k++)
				this->random_operation(tx, model, 80);
		});
	this->expect_same(model);
	for (size_t batch : {1, 5, 100})
		EXPECT_TRUE(this->scanned(batch) == model) << batch;
	this->reopen();
	this->expect_same(model);
	this->clear();
	EXPECT_EQ(blocks_of(this->heap_), before);
}

using CountedMap = Maps<fur::hash_map<uint64_t, uint64_t>>;

/* After a clear() the leaves are wider than the part of the map that the cursor has seen. */
TEST_F(CountedMap, ACursorAfterAClear_SeesNothingTwice)
{
	insert_range(0, 300);
	std::map<uint64_t, int> seen;
	fur::hash_map<uint64_t, uint64_t>::cursor at;
	const auto look = [&](size_t most) {
		read([&](fur_ro *tx) {
			at.advance(tx, *map_, most, [&](const auto &e) { seen[e.first]++; });
		});
	};
	look(100);
	EXPECT_FALSE(at.done());
	clear();
	insert_range(0, 12);
	while (!at.done())
		look(1);
	EXPECT_GE(seen.size(), 100u);
	for (const auto &entry : seen)
		EXPECT_EQ(entry.second, 1) << entry.first;
}

} // namespace
