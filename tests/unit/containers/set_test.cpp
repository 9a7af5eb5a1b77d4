/* SPDX-License-Identifier: BSD-3-Clause
 *
 * set_test.cpp - fur::hash_set, fur::ordered_set and fur::ordered_multimap against std::set, and
 * maps in another order than that of <.
 */
#include "containers.hpp"

#include <cmath>

namespace
{

template <class T>
struct SampleOf : Sample<T> {
};
template <>
struct SampleOf<std::string> : Sample<fur::string> {
};
/* Some with the same first part. */
template <class A, class B>
struct SampleOf<std::pair<A, B>> {
	static std::pair<A, B> key(uint64_t n)
	{
		return {SampleOf<A>::key(n % 5), SampleOf<B>::key(n)};
	}
};
template <class A>
struct SampleOf<std::array<A, 2>> {
	static std::array<A, 2> key(uint64_t n)
	{
		return {SampleOf<A>::key(n % 5), SampleOf<A>::key(n)};
	}
};
template <class T>
auto sample(uint64_t n)
{
	return SampleOf<T>::key(n);
}

/* ------------------------------------------------------------------------- sets */

template <class S>
class Sets : public ContainerHeap
{
protected:
	using K = typename S::key_type;

	Sets() : set_(fur::root<S>(self_, "set")) {}
	static auto key(uint64_t n)
	{
		return sample<K>(n);
	}
	void expect_same(const std::set<K> &model)
	{
		read([&](fur_ro *tx) {
			expect_verified(tx, *set_);
			EXPECT_EQ(set_->size(tx), model.size());
			EXPECT_EQ(set_->in(tx).size(), model.size());
			EXPECT_EQ(set_->empty(tx), model.empty());
			std::set<K> seen;
			for (const K &k : set_->in(tx))
				EXPECT_TRUE(seen.insert(k).second);
			EXPECT_TRUE(seen == model);
		});
	}
	S *set_;
};
/* Elements in place, in blocks, and of several parts. */
using SetTypes =
        TypesHere<::testing::Types<fur::hash_set<uint64_t>, fur::ordered_set<fur::string, 3>,
                          fur::hash_set<std::pair<fur::string, uint64_t>>>,
                ::testing::Types<fur::hash_set<fur::string>, fur::ordered_set<int64_t>,
                        fur::ordered_set<std::pair<fur::string, std::array<fur::string, 2>>, 3>>>;
TYPED_TEST_SUITE(Sets, SetTypes);

TYPED_TEST(Sets, AgreeWithStdSet)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(this->seed_));
	std::set<typename TestFixture::K> model;
	for (uint64_t keys : {10u, 500u}) {
		for (int round = 0; round < 150; round++)
			this->update([&](fur_update *tx) {
				for (int k = 0; k < 20; k++) {
					const auto key = this->key(this->below(keys));
					const auto found = this->set_->find(tx, key);
					const bool there = model.count(key);
					EXPECT_EQ(this->set_->contains(tx, key), there);
					EXPECT_EQ(this->set_->count(tx, key), there);
					EXPECT_EQ(found != this->set_->in(tx).end(), there);
					switch (this->below(3)) {
					case 0:
						EXPECT_EQ(this->set_->erase(tx, key),
						        model.erase(key));
						break;
					case 1:
						if (there) {
							EXPECT_TRUE(*found == key);
							this->set_->erase(tx, found);
							model.erase(key);
						}
						break;
					default:
						EXPECT_EQ(this->set_->insert(tx, key),
						        model.insert(key).second);
					}
				}
			});
		this->expect_same(model);
	}
	this->reopen();
	this->set_ = fur::find_root<TypeParam>(this->self_, "set");
	this->expect_same(model);
}

/* The functions for any map. */
TYPED_TEST(Sets, FillScanEraseClearDestroy)
{
	const uint64_t before = blocks_of(this->heap_);
	std::set<typename TestFixture::K> model, seen;
	for (uint64_t n = 0; n < 400; n++)
		model.insert(this->key(n));
	fur::fill(this->self_, *this->set_, model.begin(), model.end());
	this->expect_same(model);
	fur::scan(
	        this->self_, *this->set_,
	        [&](const auto &key) { EXPECT_TRUE(seen.insert(key).second); }, 30);
	EXPECT_TRUE(seen == model);
	const auto middle = *std::next(model.begin(), 200);
	const auto low = [&](const auto &key) { return key < middle; };
	EXPECT_EQ(this->update([&](fur_update *tx) {
		return fur::erase_if(
		        tx, *this->set_, [&](const auto &key) { return key == middle; });
	}),
	        1u);
	EXPECT_EQ(fur::erase_if(this->self_, *this->set_, low, 30), 200u);
	model.erase(model.begin(), std::next(model.begin(), 201));
	this->expect_same(model);
	fur::clear(this->self_, *this->set_);
	EXPECT_EQ(blocks_of(this->heap_), before);
	fur::destroy(this->self_, this->set_);
	EXPECT_EQ(blocks_of(this->heap_), before - 1);
}

class OrderOfSets : public ContainerHeap
{
};

TEST_F(OrderOfSets, BoundsAndRanges)
{
	auto *set = fur::root<fur::ordered_set<uint64_t, 4>>(self_, "set");
	update([&](fur_update *tx) {
		for (uint64_t n = 0; n < 100; n++)
			set->insert(tx, 10 * n);
		EXPECT_EQ(*set->lower_bound(tx, 11), 20u);
		EXPECT_EQ(*set->upper_bound(tx, 20), 30u);
		EXPECT_EQ(*set->floor(tx, 29), 20u);
		EXPECT_EQ(*set->in(tx).rbegin(), 990u);
		EXPECT_EQ(set->delete_range(tx, 15, 980), 96u);
		auto at = set->in(tx).end();
		EXPECT_EQ(*--at, 990u);
		EXPECT_EQ(*--at, 980u);
		EXPECT_EQ(*--at, 10u);
	});
	EXPECT_EQ(fur::delete_range(self_, *set, 0, 985), 3u);
	fur::ordered_set<uint64_t, 4>::cursor at(989);
	read([&](fur_ro *tx) {
		at.advance(tx, *set, 10, [&](uint64_t key) { EXPECT_EQ(key, 990u); });
	});
	EXPECT_TRUE(at.done());
}

TEST_F(OrderOfSets, AHashSetScansByNumbers)
{
	auto *set = fur::root<fur::hash_set<uint64_t>>(self_, "set");
	std::vector<uint64_t> keys(500);
	for (uint64_t n = 0; n < keys.size(); n++)
		keys[n] = n;
	fur::fill(self_, *set, keys.begin(), keys.end());
	std::set<uint64_t> seen;
	uint64_t at = 0, calls = 0;
	do {
		at = read([&](fur_ro *tx) {
			return set->scan(tx, at, 20, [&](uint64_t key) { seen.insert(key); });
		});
		calls++;
	} while (at);
	EXPECT_EQ(seen.size(), 500u);
	EXPECT_GT(calls, 10u);
}

/* ------------------------------------------------------------------------ multimap */

template <class M>
class MultiMaps : public ContainerHeap
{
protected:
	using Key = typename M::key_type;
	using Value = typename M::mapped_type;
	using Model = std::set<std::pair<Key, Value>>;

	MultiMaps() : map_(fur::root<M>(self_, "map")) {}
	void expect_same(const Model &model)
	{
		read([&](fur_ro *tx) {
			expect_verified(tx, *map_);
			EXPECT_EQ(map_->size(tx), model.size());
			const auto all = map_->in(tx);
			EXPECT_TRUE(std::equal(all.begin(), all.end(), model.begin(), model.end()));
		});
	}
	/* The model's entries of a key, one after the other. */
	static std::vector<std::pair<Key, Value>> of(const Model &model, const Key &key)
	{
		std::vector<std::pair<Key, Value>> some;
		for (const auto &entry : model)
			if (entry.first == key)
				some.push_back(entry);
		return some;
	}
	void look(fur_update *tx, const Model &model, const Key &key, const Value &value)
	{
		const auto some = of(model, key);
		const auto range = map_->equal_range(tx, key);
		EXPECT_TRUE(std::equal(range.begin(), range.end(), some.begin(), some.end()));
		EXPECT_EQ(map_->count(tx, key), some.size());
		EXPECT_EQ(map_->contains(tx, key), !some.empty());
		EXPECT_EQ(map_->contains(tx, key, value), model.count({key, value}));
		EXPECT_EQ(map_->find(tx, key) != map_->in(tx).end(), !some.empty());
		if (!some.empty()) {
			EXPECT_TRUE(*map_->find(tx, key) == some.front());
			EXPECT_TRUE(*map_->floor(tx, key) == some.back());
		}
	}
	M *map_;
};
/* Keys and values in place, in blocks, and of several parts. */
using MultiTypes = TypesHere<::testing::Types<fur::ordered_multimap<uint64_t, int64_t, 3>,
                                     fur::ordered_multimap<fur::string, uint64_t>,
                                     fur::ordered_multimap<std::array<fur::string, 2>,
                                             std::pair<uint64_t, fur::string>>>,
        ::testing::Types<fur::ordered_multimap<int64_t, fur::string>,
                fur::ordered_multimap<std::pair<fur::string, uint64_t>, uint64_t, 4>>>;
TYPED_TEST_SUITE(MultiMaps, MultiTypes);

TYPED_TEST(MultiMaps, AgreeWithStdSet)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(this->seed_));
	using K = typename TestFixture::Key;
	using V = typename TestFixture::Value;
	typename TestFixture::Model model;
	for (int round = 0; round < 150; round++) {
		this->update([&](fur_update *tx) {
			for (int k = 0; k < 8; k++) {
				const auto key = sample<K>(this->below(12));
				const auto value = sample<V>(this->below(30));
				this->look(tx, model, key, value);
				const auto some = this->of(model, key);
				const uint64_t what = this->below(40);
				if (what == 0) {
					EXPECT_EQ(this->map_->erase(tx, key), some.size());
					for (const auto &entry : some)
						model.erase(entry);
				} else if (what < 8) {
					EXPECT_EQ(this->map_->erase(tx, key, value),
					        model.erase({key, value}));
				} else if (what < 12 && !some.empty()) {
					this->map_->erase(tx, this->map_->find(tx, key));
					model.erase(some.front());
				} else {
					EXPECT_EQ(this->map_->insert(tx, key, value),
					        model.emplace(key, value).second);
				}
			}
		});
		if (round % 10 == 0)
			this->expect_same(model);
	}
	this->reopen();
	this->map_ = fur::find_root<TypeParam>(this->self_, "map");
	this->expect_same(model);
}

TYPED_TEST(MultiMaps, FillScanEraseRangesClear)
{
	using K = typename TestFixture::Key;
	using V = typename TestFixture::Value;
	const uint64_t before = blocks_of(this->heap_);
	typename TestFixture::Model model, seen;
	for (uint64_t n = 0; n < 400; n++)
		model.emplace(sample<K>(n % 20), sample<V>(n));
	fur::fill(this->self_, *this->map_, model.begin(), model.end());
	this->expect_same(model);
	fur::scan(
	        this->self_, *this->map_,
	        [&](const K &key, const V &value) { EXPECT_TRUE(seen.emplace(key, value).second); },
	        30);
	EXPECT_TRUE(seen == model);
	const auto some = [](const auto &entry) { return entry.second < sample<V>(9); };
	const auto kept = [&] {
		for (auto at = model.begin(); at != model.end();)
			at = some(*at) ? model.erase(at) : std::next(at);
		return model.size();
	};
	const uint64_t gone = fur::erase_if(this->self_, *this->map_, some, 30);
	EXPECT_EQ(400 - gone, kept());
	this->expect_same(model);
	const auto part = [&](size_t percent) {
		return std::next(
		        model.begin(), static_cast<ptrdiff_t>(model.size() * percent / 100));
	};
	const K first = part(15)->first, last = part(80)->first;
	uint64_t n = 0;
	for (auto at = model.begin(); at != model.end();)
		if (!(at->first < first) && at->first < last)
			at = model.erase(at), n++;
		else
			++at;
	EXPECT_GT(n, 0u);
	EXPECT_EQ(fur::delete_range(this->self_, *this->map_, first, last, 30), n);
	this->expect_same(model);
	this->update([&](fur_update *tx) { this->map_->clear(tx); });
	EXPECT_EQ(blocks_of(this->heap_), before);
}

TEST_F(OrderOfSets, AMultimapRefusesNan)
{
	auto *map = fur::root<fur::ordered_multimap<double, double>>(self_, "map");
	EXPECT_THROW(
	        update([&](fur_update *tx) { map->insert(tx, 1, NAN); }), std::invalid_argument);
	EXPECT_THROW(
	        update([&](fur_update *tx) { map->insert(tx, NAN, 1); }), std::invalid_argument);
	update([&](fur_update *tx) {
		map->insert(tx, 1, 2);
		EXPECT_EQ(map->erase(tx, NAN), 0u);
		EXPECT_FALSE(map->contains(tx, 1, NAN));
		EXPECT_EQ(map->delete_range(tx, 0, NAN), 0u);
		EXPECT_EQ(map->size(tx), 1u);
	});
}

/* --------------------------------------------------------------------------- orders */

/* By the last digit, then by the number. */
struct LastDigit {
	bool operator()(uint64_t a, uint64_t b) const
	{
		return a % 10 != b % 10 ? a % 10 < b % 10 : a < b;
	}
};
/* Shorter texts first. */
struct BySize {
	bool operator()(std::string_view a, std::string_view b) const
	{
		return a.size() != b.size() ? a.size() < b.size() : a < b;
	}
};

template <class M, class Model>
void in_this_order(fur_thread *self, M *map, std::mt19937_64 &random)
{
	using K = typename M::key_type;
	Model model;
	for (int round = 0; round < 100; round++)
		fur::update(self, [&](fur_update *tx) {
			for (int k = 0; k < 20; k++) {
				const K key = sample<K>(random() % 300),
				        to = sample<K>(random() % 300);
				const auto lower = model.lower_bound(key);
				const auto found = map->lower_bound(tx, key);
				ASSERT_EQ(found == map->in(tx).end(), lower == model.end());
				if (lower != model.end()) {
					EXPECT_TRUE(found->first == lower->first);
				}
				switch (random() % 16) {
				case 0:
					if (model.key_comp()(key, to)) {
						const auto last = model.lower_bound(to);
						const auto n = std::distance(lower, last);
						EXPECT_EQ(map->delete_range(tx, key, to),
						        static_cast<uint64_t>(n));
						model.erase(lower, last);
					}
					break;
				case 1:
				case 2:
				case 3:
				case 4: EXPECT_EQ(map->erase(tx, key), model.erase(key)); break;
				default:
					EXPECT_EQ(map->insert(tx, key, 5),
					        model.emplace(key, 5).second);
				}
			}
		});
	fur::read(self, [&](fur_ro *tx) {
		expect_verified(tx, *map);
		const auto all = map->in(tx);
		EXPECT_TRUE(std::equal(all.begin(), all.end(), model.begin(), model.end(),
		        [](const auto &a, const auto &b) { return a.first == b.first; }));
		EXPECT_EQ(all.size(), model.size());
	});
}

TEST_F(OrderOfSets, AMapTakesAnOrder)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed_));
	in_this_order<fur::ordered_map<uint64_t, int, 15, LastDigit>,
	        std::map<uint64_t, int, LastDigit>>(self_,
	        fur::root<fur::ordered_map<uint64_t, int, 15, LastDigit>>(self_, "a"), random_);
	in_this_order<fur::ordered_map<fur::string, int, 3, BySize>,
	        std::map<std::string, int, BySize>>(self_,
	        fur::root<fur::ordered_map<fur::string, int, 3, BySize>>(self_, "b"), random_);
	in_this_order<fur::ordered_map<int64_t, int, 4, std::greater<>>,
	        std::map<int64_t, int, std::greater<>>>(self_,
	        fur::root<fur::ordered_map<int64_t, int, 4, std::greater<>>>(self_, "c"), random_);
	using Parts = fur::ordered_map<std::pair<fur::string, uint64_t>, int, 4, std::greater<>>;
	in_this_order<Parts, std::map<std::pair<std::string, uint64_t>, int, std::greater<>>>(
	        self_, fur::root<Parts>(self_, "d"), random_);
}

/* A heap keeps to the order in which it was made. */
TEST_F(OrderOfSets, AnotherOrderIsRefused)
{
	fur::root<fur::ordered_map<uint64_t, uint64_t>>(self_, "less");
	fur::root<fur::ordered_map<uint64_t, uint64_t, 15, std::greater<>>>(self_, "greater");
	fur::root<fur::ordered_set<uint64_t, 15, LastDigit>>(self_, "digit");
	using Greater = fur::ordered_map<uint64_t, uint64_t, 15, std::greater<>>;
	using Digit = fur::ordered_map<uint64_t, uint64_t, 15, LastDigit>;
	EXPECT_THROW(fur::root<Greater>(self_, "less"), fur::type_mismatch);
	EXPECT_THROW(fur::root<Digit>(self_, "greater"), fur::type_mismatch);
	EXPECT_THROW(fur::root<Digit>(self_, "digit"), fur::type_mismatch);
	EXPECT_THROW(fur::root<fur::ordered_set<uint64_t>>(self_, "digit"), fur::type_mismatch);
	EXPECT_THROW((fur::root<fur::ordered_multimap<uint64_t, uint64_t>>(self_, "less")),
	        fur::type_mismatch);
	EXPECT_NE((fur::find_root<fur::ordered_set<uint64_t, 15, LastDigit>>(self_, "digit")),
	        nullptr);
	EXPECT_NE((fur::find_root<Greater>(self_, "greater")), nullptr);
}

/* --------------------------------------------------------------------------- layout */

/* A key of a set takes the room of a key. */
TEST_F(OrderOfSets, AValueOfASetTakesNoRoom)
{
	auto *hashed = fur::root<fur::hash_set<uint64_t>>(self_, "hashed");
	auto *ordered = fur::root<fur::ordered_set<uint64_t>>(self_, "ordered");
	auto *multi = fur::root<fur::ordered_multimap<uint64_t, uint64_t, 7>>(self_, "multi");
	update([&](fur_update *tx) {
		for (uint64_t key : {20, 10}) {
			hashed->insert(tx, key);
			ordered->insert(tx, key);
			multi->insert(tx, 5, key);
		}
	});
	heap_.close();
	heap_ = open(container_options());
	const auto root_of = [](const void *set) { return static_cast<const uint64_t *>(set)[0]; };
	const uint64_t *leaf = address(root_of(hashed));
	EXPECT_EQ(leaf[2], 20u);
	EXPECT_EQ(leaf[3], 10u);
	EXPECT_EQ(usable_at_rest(heap_, leaf), 128u); /* 2 + 8 words, on a line */
	leaf = address(root_of(ordered) - 1);
	EXPECT_EQ(leaf[0], 0xedcba98765432012u); /* 2 entries, at places 1, 0 */
	EXPECT_EQ(leaf[1], 20u);
	EXPECT_EQ(leaf[2], 10u);
	EXPECT_EQ(usable_at_rest(heap_, leaf), 128u); /* 1 + 15 words */
	leaf = address(root_of(multi) - 1);
	EXPECT_EQ(leaf[1], 5u);
	EXPECT_EQ(leaf[2], 20u);
	EXPECT_EQ(leaf[3], 5u);
	EXPECT_EQ(leaf[4], 10u);
	EXPECT_EQ(usable_at_rest(heap_, leaf), 128u); /* 1 + 7 * 2 words */
	self_ = fur::Thread(heap_);
}

} // namespace
