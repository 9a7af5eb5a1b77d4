/* SPDX-License-Identifier: BSD-3-Clause
 *
 * map_order_test.cpp - the order of fur::ordered_map: bounds, iterators both ways, keys at one
 * spot.
 */
#include "maps.hpp"

namespace
{

template <class M>
class OrderedMaps : public Maps<M>
{
};
using OrderedTypes = ::testing::Types<fur::ordered_map<uint64_t, uint64_t>,
        fur::ordered_map<int64_t, Wide, 3>, fur::ordered_map<fur::string, fur::string, 3>,
        fur::ordered_map<fur::string, uint8_t>>;
TYPED_TEST_SUITE(OrderedMaps, OrderedTypes);

TYPED_TEST(OrderedMaps, BothWays_InOrder)
{
	for (uint64_t n : {0, 1, 15, 16, 17, 400}) {
		typename TestFixture::Model model;
		this->insert_range(0, n, &model);
		this->read([&](fur_ro *tx) {
			const auto all = this->map_->in(tx);
			EXPECT_EQ(all.size(), n);
			EXPECT_TRUE(std::equal(all.begin(), all.end(), model.begin(), model.end(),
			        [](const auto &a, const auto &b) {
				        return a.first == b.first && a.second == b.second;
			        }));
			auto at = all.end();
			for (auto back = model.rbegin(); back != model.rend(); ++back) {
				EXPECT_TRUE(at != all.begin());
				--at;
				EXPECT_EQ(at.key(), back->first);
			}
			EXPECT_TRUE(at == all.begin());
			size_t reverse = 0;
			for (auto back = all.rbegin(); back != all.rend(); ++back, reverse++)
				EXPECT_EQ(back->first,
				        std::next(model.rbegin(), static_cast<long>(reverse))
				                ->first);
			EXPECT_EQ(reverse, n);
		});
		this->clear();
	}
}

/* Ordered by the price alone, though == compares both. */
struct Priced {
	uint64_t price, id;
	bool operator<(const Priced &other) const
	{
		return price < other.price;
	}
	bool operator==(const Priced &other) const
	{
		return price == other.price && id == other.id;
	}
};

class OrderOfKeys : public ContainerHeap
{
};

TEST_F(OrderOfKeys, IsThatOfLess_AsInStdMap)
{
	auto *map = fur::root<fur::ordered_map<Priced, uint64_t>>(self_, "map");
	std::map<Priced, uint64_t> model;
	for (uint64_t n = 0; n < 200; n++) {
		const Priced key{n * 7 % 40, n};
		update([&](fur_update *tx) {
			EXPECT_EQ(map->insert(tx, key, n), model.count(key) == 0);
			if (n % 3 == 0)
				map->erase(tx, {n % 40, 0});
		});
		model.emplace(key, n);
		if (n % 3 == 0)
			model.erase({n % 40, 0});
	}
	read([&](fur_ro *tx) {
		expect_verified(tx, *map);
		EXPECT_EQ(map->size(tx), model.size());
		for (const auto &[key, value] : map->in(tx))
			EXPECT_EQ(model.at(key), value);
	});
}

TEST_F(OrderOfKeys, AnUpdateTooLargeForItsLog_SaysSo)
{
	auto *map = fur::root<fur::ordered_map<uint64_t, uint64_t>>(self_, "map");
	try {
		update([&](fur_update *tx) {
			for (uint64_t n = 0; n < 1000000; n++)
				map->insert(tx, n, n);
		});
		FAIL() << "it fits";
	} catch (const fur::Error &e) {
		EXPECT_EQ(e.code(), FUR_ETOOBIG);
	}
	read([&](fur_ro *tx) { EXPECT_TRUE(map->empty(tx)); });
}

TYPED_TEST(OrderedMaps, Bounds_AtAndBetweenKeys)
{
	typename TestFixture::Model model;
	for (uint64_t n = 0; n < 300; n += 2)
		model[TestFixture::Key::key(n)] = TestFixture::Value::value(n);
	fur::fill(this->self_, *this->map_, model.begin(), model.end());
	for (int round = 0; round < 2; round++) {
		this->read([&](fur_ro *tx) {
			for (uint64_t n = 0; n < 302; n++) {
				const auto key = TestFixture::Key::key(n);
				const auto lower = model.lower_bound(key),
				           upper = model.upper_bound(key);
				const auto end = this->map_->in(tx).end();
				auto at = this->map_->lower_bound(tx, key);
				ASSERT_EQ(at == end, lower == model.end());
				if (lower != model.end()) {
					EXPECT_EQ(at->first, lower->first);
				}
				if (lower != model.begin()) {
					EXPECT_EQ((--at)->first, std::prev(lower)->first);
				}
				at = this->map_->upper_bound(tx, key);
				ASSERT_EQ(at == end, upper == model.end());
				if (upper != model.end()) {
					EXPECT_EQ((at++)->first, upper->first);
				}
				at = this->map_->floor(tx, key);
				ASSERT_EQ(at == end, upper == model.begin());
				if (upper != model.begin()) {
					EXPECT_EQ(at->first, std::prev(upper)->first);
					EXPECT_EQ(++at == end, upper == model.end());
				}
			}
		});
		/* With holes: nodes of few entries, and first keys that are gone. */
		this->update([&](fur_update *tx) {
			for (uint64_t n = 0; n < 300; n++)
				if (n % 5) {
					this->map_->erase(tx, TestFixture::Key::key(n));
					model.erase(TestFixture::Key::key(n));
				}
		});
		this->expect_same(model);
	}
}

TYPED_TEST(OrderedMaps, ACursorFromAKey_BeginsThere)
{
	typename TestFixture::Model model;
	this->insert_range(0, 100, &model);
	for (uint64_t n : {0, 1, 50, 99, 100, 101}) {
		typename TestFixture::Model seen,
		        wanted(model.lower_bound(TestFixture::Key::key(n)), model.end());
		typename TypeParam::cursor at(TestFixture::Key::key(n));
		while (!at.done())
			this->read([&](fur_ro *tx) {
				at.advance(tx, *this->map_, 9, [&](auto &e) { seen.insert(e); });
			});
		EXPECT_TRUE(seen == wanted);
	}
}

/* Insert next to the last key, wherever a node may be full: the tree must not grow by a level with
 * each key. */
TYPED_TEST(OrderedMaps, InsertionsAtOneSpot_KeepTheTreeLow)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(this->seed_));
	std::vector<typename TypeParam::key_type> keys;
	for (uint64_t n = 0; n < 3000; n++)
		keys.push_back(TestFixture::Key::key(n));
	std::sort(keys.begin(), keys.end());
	typename TestFixture::Model model;
	size_t low = 0, high = keys.size();
	while (low < high) {
		const bool from_below = this->below(16) == 0 ? this->below(2) : low % 2;
		const auto &key = from_below ? keys[low++] : keys[--high];
		this->update([&](fur_update *tx) {
			this->map_->insert(tx, key, TestFixture::Value::value(1));
			/* Also chains of nodes with one child. */
			if (low > 2 && low % 3 == 0)
				this->map_->erase(tx, keys[low - 2]);
		});
		model[key] = TestFixture::Value::value(1);
		if (low > 2 && low % 3 == 0)
			model.erase(keys[low - 2]);
	}
	this->expect_same(model);
}

} // namespace
