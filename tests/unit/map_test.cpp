/* SPDX-License-Identifier: BSD-3-Clause
 *
 * map_test.cpp - fur::hash_map and fur::ordered_map against std::map, with every node checked.
 */
#include "containers.hpp"

#include <atomic>
#include <thread>

namespace
{

template <int>
struct Numbered {
	uint64_t n;
	bool operator==(const Numbered &other) const
	{
		return n == other.n;
	}
	bool operator<(const Numbered &other) const
	{
		return n < other.n;
	}
};
/* The hash says only as many bits as the test wants. */
using Clash = Numbered<0>;
using Near = Numbered<1>;

} // namespace

template <>
struct fur::hash<Clash> {
	static uint64_t of(const Clash &)
	{
		return 0x123456789abcdef0;
	}
};
/* The first 40 bits are the same for all. */
template <>
struct fur::hash<Near> {
	static uint64_t of(const Near &key)
	{
		return UINT64_C(0xabcdef0123) << 24 | (key.n * 2654435761u >> 8 & 0xffffff);
	}
};
template <>
struct Sample<Clash> {
	static Clash key(uint64_t n)
	{
		return {n};
	}
};
template <>
struct Sample<Near> {
	static Near key(uint64_t n)
	{
		return {n};
	}
};

namespace
{

template <class M>
struct Kind;
template <class K, class V>
struct Kind<fur::hash_map<K, V>> {
	using Key = K;
	using Value = V;
	using Entries = typename RawHashMap<K, V>::Entries;
	enum { ORDERED = false };
	static uint64_t hash(const typename Raw<K>::value &key)
	{
		return fur::stored<K>::hash_of(key);
	}
	static uint64_t secret_hash(const uint64_t *secret, const typename Raw<K>::value &key)
	{
		return fur::stored<K>::secret_hash_of(secret, key);
	}
	static Entries walk(const void *map)
	{
		return RawHashMap<K, V>(map, hash, secret_hash).entries;
	}
};
template <class K, class V, unsigned FANOUT>
struct Kind<fur::ordered_map<K, V, FANOUT>> {
	using Key = K;
	using Value = V;
	using Entries = typename RawOrderedMap<K, V, FANOUT>::Entries;
	enum { ORDERED = true };
	static Entries walk(const void *map)
	{
		return RawOrderedMap<K, V, FANOUT>(map).entries;
	}
};

struct GaveUp {
};

template <class M>
class Maps : public ContainerHeap
{
protected:
	using Key = Sample<typename Kind<M>::Key>;
	using Value = Sample<typename Kind<M>::Value>;
	using Model = std::map<typename M::key_type, typename M::mapped_type>;

	Maps()
	{
		map_ = fur::root<M>(heap_, self_, "map");
		this->RecordProperty("seed", std::to_string(seed_));
	}
	void reopen()
	{
		ContainerHeap::reopen();
		map_ = fur::find_root<M>(heap_, self_, "map");
		ASSERT_NE(map_, nullptr);
	}
	/* Insert keys [from, to), some at a time. */
	void insert_range(uint64_t from, uint64_t to, Model *model = nullptr)
	{
		while (from < to)
			update([&](fur_update *tx) {
				for (int k = 0; k < 20 && from < to; k++, from++) {
					EXPECT_TRUE(map_->insert(
					        tx, Key::key(from), Value::value(from)));
					if (model)
						(*model)[Key::key(from)] = Value::value(from);
				}
			});
	}
	void clear()
	{
		update([&](fur_update *tx) { map_->clear(tx); });
	}
	/* The nodes, the iterators and the calls find what the model has. */
	void expect_same(const Model &model)
	{
		const Model walked = read([&](fur_ro *) { return Kind<M>::walk(map_); });
		EXPECT_TRUE(walked == model) << "the nodes: " << walked.size();
		read([&](fur_ro *tx) {
			EXPECT_EQ(map_->size(tx), model.size());
			EXPECT_EQ(map_->empty(tx), model.empty());
			Model seen;
			size_t n = 0;
			for (auto entry : map_->in(tx)) {
				seen.insert(entry);
				n++;
			}
			EXPECT_EQ(n, model.size());
			EXPECT_TRUE(seen == model) << "the iterators";
			for (const auto &[key, value] : model)
				ASSERT_TRUE(map_->get(tx, key) == value);
		});
	}
	/* One operation, on the map and on the model. */
	void random_operation(fur_update *tx, Model &model, uint64_t keys);
	void random_look(fur_update *tx, const Model &model, uint64_t keys);

	M *map_;
};

template <class M>
void Maps<M>::random_operation(fur_update *tx, Model &model, uint64_t keys)
{
	const auto key = Key::key(below(keys));
	const auto value = Value::value(below(1000)), other = Value::value(below(1000));
	switch (below(8)) {
	case 0:
	case 1: ASSERT_EQ(map_->insert(tx, key, value), model.emplace(key, value).second); break;
	case 2:
		ASSERT_EQ(map_->insert_or_assign(tx, key, value), model.count(key) == 0);
		model[key] = value;
		break;
	case 3: {
		const auto change = [&](auto &old) { old = old == value ? other : value; };
		ASSERT_EQ(map_->modify(tx, key, change), model.count(key) == 1);
		if (model.count(key))
			change(model[key]);
		break;
	}
	case 4:
	case 5: ASSERT_EQ(map_->erase(tx, key), model.erase(key)); break;
	default: random_look(tx, model, keys);
	}
}

template <class M>
void Maps<M>::random_look(fur_update *tx, const Model &model, uint64_t keys)
{
	const auto key = Key::key(below(keys));
	const auto at = model.find(key);
	const bool there = at != model.end();
	ASSERT_EQ(map_->contains(tx, key), there);
	ASSERT_EQ(map_->count(tx, key), there);
	ASSERT_EQ(map_->get(tx, key).has_value(), there);
	ASSERT_EQ(map_->lookup(tx, key) != nullptr, there);
	const auto found = map_->find(tx, key);
	ASSERT_EQ(found != map_->in(tx).end(), there);
	if (!there) {
		ASSERT_THROW((void)map_->at(tx, key), std::out_of_range);
		return;
	}
	ASSERT_TRUE(map_->at(tx, key) == at->second);
	ASSERT_TRUE(found->first == key && (*found).second == at->second);
}

using Types = ::testing::Types<fur::hash_map<uint64_t, uint64_t>, fur::hash_map<int64_t, uint8_t>,
        fur::hash_map<uint64_t, Wide>, fur::hash_map<fur::string, fur::string>,
        fur::hash_map<uint64_t, fur::string>, fur::hash_map<fur::string, Wide>,
        fur::ordered_map<uint64_t, uint64_t>, fur::ordered_map<int64_t, uint8_t, 3>,
        fur::ordered_map<uint64_t, Wide, 3>, fur::ordered_map<fur::string, fur::string>,
        fur::ordered_map<fur::string, uint64_t, 5>, fur::ordered_map<fur::string, Wide, 3>,
        fur::ordered_map<int64_t, fur::string, 4>>;
TYPED_TEST_SUITE(Maps, Types);

TYPED_TEST(Maps, RandomOperations_AgreeWithStdMap)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(this->seed_));
	typename TestFixture::Model model;
	for (uint64_t keys : {10u, 300u, 1000u}) {
		for (int round = 0; round < 120 && !this->HasFailure(); round++) {
			auto changed = model;
			const bool gives_up = this->below(8) == 0;
			try {
				this->update([&](fur_update *tx) {
					for (int k = 0; k < 20; k++)
						this->random_operation(tx, changed, keys);
					if (gives_up)
						throw GaveUp();
				});
				model = changed;
			} catch (const GaveUp &) {
			}
			if (round % 30 == 0 || keys == 10)
				this->expect_same(model);
		}
		this->expect_same(model);
	}
	this->reopen();
	this->expect_same(model);
}

TYPED_TEST(Maps, Empty)
{
	const auto key = TestFixture::Key::key(1);
	this->expect_same({});
	this->read([&](fur_ro *tx) {
		EXPECT_TRUE(this->map_->in(tx).begin() == this->map_->in(tx).end());
		EXPECT_TRUE(this->map_->find(tx, key) == this->map_->in(tx).end());
		EXPECT_EQ(this->map_->lookup(tx, key), nullptr);
		EXPECT_THROW((void)this->map_->at(tx, key), std::out_of_range);
	});
	this->update([&](fur_update *tx) {
		EXPECT_EQ(this->map_->erase(tx, key), 0u);
		EXPECT_FALSE(this->map_->modify(tx, key, [](auto &) { FAIL(); }));
		this->map_->clear(tx);
	});
	this->expect_same({});
}

TYPED_TEST(Maps, ClearAndDestroy_LeaveNoBlock)
{
	const uint64_t before = blocks_of(this->heap_);
	for (uint64_t n : {1, 8, 9, 500}) {
		this->insert_range(0, n);
		EXPECT_GT(blocks_of(this->heap_), before);
		this->clear();
		EXPECT_EQ(blocks_of(this->heap_), before) << n;
		this->expect_same({});
	}
	typename TestFixture::Model model;
	this->insert_range(0, 100, &model);
	this->expect_same(model);
	this->update([&](fur_update *tx) { fur::destroy(tx, this->map_); });
	EXPECT_EQ(blocks_of(this->heap_), before - 1);
}

/* An ordered map gives back the nodes as they become empty; strings go in either map. */
TYPED_TEST(Maps, ErasingAll_ThenClear_LeavesNoBlock)
{
	const uint64_t before = blocks_of(this->heap_);
	for (int round = 0; round < 3; round++) {
		this->insert_range(0, 300);
		std::vector<uint64_t> order;
		for (uint64_t n = 0; n < 300; n++)
			order.push_back(n);
		std::shuffle(order.begin(), order.end(), this->random_);
		for (uint64_t n : order)
			this->update([&](fur_update *tx) {
				EXPECT_EQ(this->map_->erase(tx, TestFixture::Key::key(n)), 1u);
			});
		this->expect_same({});
		if (Kind<TypeParam>::ORDERED) {
			EXPECT_EQ(blocks_of(this->heap_), before + 1) << "more than the size";
		}
	}
	this->clear();
	EXPECT_EQ(blocks_of(this->heap_), before);
}

TYPED_TEST(Maps, Scan_WhileTheMapChanges_SeesOnceWhatStays)
{
	constexpr uint64_t STAY = 400;
	for (size_t batch : {1, 7, 100}) {
		this->insert_range(0, STAY);
		std::map<typename TypeParam::key_type, int> seen;
		std::optional<typename TypeParam::key_type> last;
		uint64_t next = STAY;
		typename TypeParam::cursor at;
		while (!at.done()) {
			this->read([&](fur_ro *tx) {
				at.advance(tx, *this->map_, batch, [&](const auto &entry) {
					seen[entry.first]++;
					if (Kind<TypeParam>::ORDERED && last) {
						EXPECT_LT(*last, entry.first);
					}
					last = entry.first;
				});
			});
			if (next >= 1500)
				continue; /* or the scan would never end */
			this->insert_range(next, next + 20);
			this->update([&](fur_update *tx) {
				for (uint64_t n = next; n < next + 20; n += 2)
					this->map_->erase(tx, TestFixture::Key::key(n));
			});
			next += 20;
		}
		for (uint64_t n = 0; n < STAY; n++)
			EXPECT_EQ(seen[TestFixture::Key::key(n)], 1);
		for (const auto &entry : seen)
			EXPECT_EQ(entry.second, 1);
		this->clear();
	}
}

TYPED_TEST(Maps, Scan_SeesAll_WhateverTheBatch)
{
	typename TestFixture::Model model;
	this->insert_range(0, 250, &model);
	for (size_t batch : {0, 1, 3, 250, 100000}) {
		typename TestFixture::Model seen;
		fur::scan(
		        this->self_, *this->map_,
		        [&](const auto &key, const auto &value) {
			        EXPECT_TRUE(seen.emplace(key, value).second);
		        },
		        batch);
		EXPECT_TRUE(seen == model) << batch;
	}
}

TYPED_TEST(Maps, Fill_AssignsAll)
{
	for (size_t batch : {0, 1, 64, 1000}) {
		typename TestFixture::Model model;
		for (uint64_t n = 0; n < 200; n++)
			model[TestFixture::Key::key(n)] = TestFixture::Value::value(n + batch);
		fur::fill(this->self_, *this->map_, model.begin(), model.end(), batch);
		this->expect_same(model);
	}
}

/* Keys in falling order, in rising order and from the middle outwards keep a tree low. */
TYPED_TEST(Maps, KeysInEveryOrder)
{
	std::vector<typename TypeParam::key_type> keys;
	for (uint64_t n = 0; n < 400; n++)
		keys.push_back(TestFixture::Key::key(n));
	std::sort(keys.begin(), keys.end());
	typename TestFixture::Model model;
	for (const auto &key : keys)
		model[key] = TestFixture::Value::value(7);
	for (int order = 0; order < 4; order++) {
		for (size_t i = 0; i < keys.size(); i++) {
			const size_t half = keys.size() / 2, n = keys.size(),
			             at = order == 0   ? i
			                  : order == 1 ? n - 1 - i
			                  : order == 2 ? (i % 2 ? half + i / 2 : half - 1 - i / 2)
			                               : (i % 2 ? n - 1 - i / 2 : i / 2);
			this->update([&](fur_update *tx) {
				this->map_->insert(tx, keys[at], TestFixture::Value::value(7));
			});
		}
		this->expect_same(model);
		this->clear();
	}
}

TYPED_TEST(Maps, AFullHeap_LeavesTheMapAsItWas)
{
	typename TestFixture::Model model;
	this->insert_range(0, 50, &model);
	std::vector<void *> ballast;
	bool full = false;
	for (size_t bytes : {1 << 16, 1 << 12, 64}) {
		full = false;
		while (!full)
			this->update([&](fur_update *tx) {
				void *p = fur_alloc(tx, bytes);
				if (p)
					ballast.push_back(p);
				full = !p;
			});
	}
	full = false;
	for (uint64_t n = 50; n < 4000 && !full; n++) {
		try {
			this->update([&](fur_update *tx) {
				this->map_->insert(
				        tx, TestFixture::Key::key(n), TestFixture::Value::value(n));
			});
			model[TestFixture::Key::key(n)] = TestFixture::Value::value(n);
		} catch (const fur::heap_full &e) {
			EXPECT_NE(std::string(e.what()).find("full"), std::string::npos);
			full = true;
		}
	}
	EXPECT_TRUE(full);
	this->expect_same(model);
	for (void *p : ballast)
		this->update([&](fur_update *tx) { fur_free(tx, p); });
	this->insert_range(5000, 5100, &model);
	this->expect_same(model);
}

/* The body goes on after its log was full: it meets no node that is half made. */
TYPED_TEST(Maps, AnUpdateTooLargeForItsLog_FailsAndLeavesTheMapAsItWas)
{
	typename TestFixture::Model model;
	fur::Options o = container_options();
	o.log_bytes = 4096;
	this->heap_.close();
	for (uint64_t extra = 0; extra < 12; extra++) {
		unlink(this->path_.c_str());
		this->heap_ = this->create(o);
		this->self_ = fur::Thread(this->heap_);
		leave_traces(this->self_, 8);
		this->map_ = fur::root<TypeParam>(this->heap_, this->self_, "map");
		uint64_t *words = this->update(
		        [&](fur_update *tx) { return fur::make_array<uint64_t>(tx, 64); });
		const auto body = [&](fur_update *tx) {
			for (uint64_t k = 0; k < extra; k++)
				fur_store(tx, &words[2 * k], k);
			for (uint64_t n = 0; n < 500; n++)
				this->map_->insert_or_assign(
				        tx, TestFixture::Key::key(n), TestFixture::Value::value(n));
		};
		EXPECT_ANY_THROW(this->update(body));
		EXPECT_ANY_THROW(fur::update(this->self_, fur::rerun, body));
		this->expect_same({});
		this->heap_.close();
	}
	this->heap_ = this->open(o);
}

/* ------------------------------------------------------------------------------ ordered only */

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

namespace
{

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

} // namespace

TEST_F(OrderOfKeys, IsThatOfLess_AsInStdMap)
{
	auto *map = fur::root<fur::ordered_map<Priced, uint64_t>>(heap_, self_, "map");
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
		uint64_t blocks;
		EXPECT_STREQ(map->verify(tx, blocks), nullptr);
		EXPECT_EQ(map->size(tx), model.size());
		for (const auto &[key, value] : map->in(tx))
			EXPECT_EQ(model.at(key), value);
	});
}

TEST_F(OrderOfKeys, AnUpdateTooLargeForItsLog_SaysSo)
{
	auto *map = fur::root<fur::ordered_map<uint64_t, uint64_t>>(heap_, self_, "map");
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
			/* Chains of nodes with one child, too. */
			if (low > 2 && low % 3 == 0)
				this->map_->erase(tx, keys[low - 2]);
		});
		model[key] = TestFixture::Value::value(1);
		if (low > 2 && low % 3 == 0)
			model.erase(keys[low - 2]);
	}
	this->expect_same(model);
}

/* --------------------------------------------------------------------------------- hash only */

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
	for (size_t batch : {1, 5, 100}) {
		typename TestFixture::Model seen;
		fur::scan(
		        this->self_, *this->map_,
		        [&](const auto &key, const auto &value) {
			        EXPECT_TRUE(seen.emplace(key, value).second);
		        },
		        batch);
		EXPECT_TRUE(seen == model);
	}
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

/* ----------------------------------------------------------------------------------- threads */

template <class M>
class CrowdedMap : public HeapFile
{
public:
	enum : uint64_t { THREADS = 4 };
	using Key = Sample<typename Kind<M>::Key>;

	void TestBody() override {}
	/* Each thread changes few keys, and keeps account of the sum of all values. */
	void run(Crowd how, uint64_t keys, uint64_t rounds)
	{
		fur::Heap heap = create(container_options(how.isolation));
		fur::Thread self(heap);
		auto *map = fur::root<M>(heap, self, "map");
		const uint64_t seed = seed_of_run();
		SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed));
		std::vector<std::thread> threads;
		for (uint64_t t = 0; t < THREADS; t++)
			threads.emplace_back([&, t] {
				fur::Thread me(heap);
				std::mt19937_64 random(seed + t);
				for (uint64_t n = 0; n < rounds; n++)
					step(me, map, how.rerun, random(), keys);
			});
		for (auto &t : threads)
			t.join();
		const auto all = fur::read(self, [&](fur_ro *) { return Kind<M>::walk(map); });
		uint64_t sum = 0;
		for (const auto &[key, value] : all)
			sum += value;
		EXPECT_EQ(sum, sum_.load());
		EXPECT_EQ(all.size(), size_.load());
		fur::update(self, [&](fur_update *tx) { fur::destroy(tx, map); });
		EXPECT_LE(blocks_of(heap), 3u) << "the map of roots, and its strings";
	}

private:
	struct Change {
		uint64_t sum, size;
	};
	/* One update with up to three operations. */
	static Change change(fur_update *tx, M *map, uint64_t random, uint64_t keys)
	{
		Change done{0, 0};
		for (int k = 0; k < 3; k++, random /= keys * 8) {
			const auto key = Key::key(random / 8 % keys);
			switch (random % 8) {
			case 0:
			case 1:
				if (map->insert(tx, key, 5)) {
					done.sum += 5;
					done.size++;
				}
				break;
			case 2:
			case 3: {
				const auto old = map->get(tx, key);
				const uint64_t removed = map->erase(tx, key);
				EXPECT_EQ(removed, old.has_value());
				done.sum -= old.value_or(0);
				done.size -= removed;
				break;
			}
			case 4: {
				const auto old = map->get(tx, key);
				EXPECT_EQ(map->insert_or_assign(tx, key, 9), !old);
				done.sum += 9 - old.value_or(0);
				done.size += !old;
				break;
			}
			default:
				if (auto *value = random % 2 ? map->lookup(tx, key) : nullptr) {
					fur_store(tx, value, fur_load(tx, value) + 1);
					done.sum++;
				} else if (map->modify(tx, key, [](auto &v) { v += 3; })) {
					done.sum += 3;
				}
			}
		}
		return done;
	}
	void step(fur_thread *me, M *map, bool rerun, uint64_t random, uint64_t keys)
	{
		const auto body = [&](fur_update *tx) { return change(tx, map, random, keys); };
		const Change done =
		        rerun ? fur::update(me, fur::rerun, body) : fur::update(me, body);
		sum_ += done.sum;
		size_ += done.size;
		if (random % 16 == 0)
			fur::read(me, [&](fur_ro *tx) {
				std::set<typename M::key_type> seen;
				for (auto entry : map->in(tx))
					EXPECT_TRUE(seen.insert(entry.first).second);
				EXPECT_EQ(map->size(tx), seen.size());
			});
	}
	std::atomic<uint64_t> sum_{0}, size_{0};
};

class Crowds : public ::testing::TestWithParam<Crowd>
{
protected:
	template <class M>
	void run(uint64_t keys, uint64_t rounds)
	{
		CrowdedMap<M>().run(GetParam(), keys, rounds);
	}
};

TEST_P(Crowds, HashMap_FewKeys)
{
	run<fur::hash_map<uint64_t, uint64_t>>(6, 500);
}
TEST_P(Crowds, HashMap_ThatGrows)
{
	run<fur::hash_map<fur::string, uint64_t>>(500, 500);
}
TEST_P(Crowds, HashMap_OfEqualHashes)
{
	run<fur::hash_map<Clash, uint64_t>>(20, 300);
}
TEST_P(Crowds, OrderedMap_FewKeys)
{
	run<fur::ordered_map<uint64_t, uint64_t>>(6, 500);
}
TEST_P(Crowds, OrderedMap_ThatGrows)
{
	run<fur::ordered_map<fur::string, uint64_t, 3>>(500, 500);
}
TEST_P(Crowds, OrderedMap_OfSmallNodes)
{
	run<fur::ordered_map<int64_t, uint64_t, 3>>(20, 500);
}

INSTANTIATE_TEST_SUITE_P(Modes, Crowds, ::testing::ValuesIn(CROWDS), crowd_name);

} // namespace
