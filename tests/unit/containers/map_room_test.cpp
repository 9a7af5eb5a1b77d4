/* SPDX-License-Identifier: BSD-3-Clause
 *
 * map_room_test.cpp - maps that shrink: memory that entries do not need any more, clearing in
 * parts, and keys that are alike, all with the smallest log; and keys that no map can hold.
 */
#include "small_log.hpp"

#include <fur_map.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

namespace
{

/* With a secret, as another program computes it. */
TEST(SecretHash, IsSipHash13)
{
	const uint64_t secret[2] = {0, 0};
	using Text = fur::stored<fur::string>;
	EXPECT_EQ(Text::secret_hash_of(secret, "a"), 0x407448d2b89b1813);
	EXPECT_EQ(Text::secret_hash_of(secret, "12345678"), 0x3489982430560a87);
	EXPECT_EQ(Text::secret_hash_of(secret, "exactly 16 bytes"), 0x23c2b8d07df6a903);
	EXPECT_EQ(Text::secret_hash_of(secret, "thirteen char"), 0x10b3dec77ca5cdda);
	const uint64_t other[2] = {0, 1};
	EXPECT_NE(Text::secret_hash_of(other, "a"), 0x407448d2b89b1813);
}

/* Keys and values in place and in blocks, chosen keys in a bucket, lists in buckets, narrow nodes.
 * Others: smaller tables, hashes that are alike in their first bits, and the widest nodes. */
using Types = TypesHere<
        ::testing::Types<fur::hash_map<uint64_t, uint64_t>, fur::hash_map<fur::string, fur::string>,
                fur::hash_map<Chosen, uint64_t>, fur::hash_map<WeakKey<EQUAL>, uint64_t>,
                fur::ordered_map<fur::string, fur::string, 3>>,
        ::testing::Types<fur::hash_map<uint64_t, uint64_t, 2>,
                fur::hash_map<WeakKey<ALIKE>, fur::string>,
                fur::hash_map<WeakKey<NARROW>, uint64_t>, fur::ordered_map<uint64_t, uint64_t>>>;
TYPED_TEST_SUITE(SmallLog, Types);

/* The parts of the size stay, and a last leaf. */
enum : uint64_t { REST = 2 };

TYPED_TEST(SmallLog, WhatIsErased_GoesBack)
{
	for (uint64_t n : {9, 300, 1500}) {
		this->insert(0, n);
		this->expect_whole(n);
		this->erase(0, n / 2);
		this->expect_whole(n - n / 2);
		this->insert(0, n / 2); /* from there on, the other way */
		while (n > 0)
			n--, this->erase(n, n + 1);
		this->expect_whole(0);
		EXPECT_LE(blocks_of(this->heap_), this->empty_ + REST);
	}
	this->update([&](fur_update *tx) { this->map_->clear(tx); });
	EXPECT_EQ(blocks_of(this->heap_), this->empty_);
}

/* One range of keys empties and fills again, next to others that stay. */
TYPED_TEST(SmallLog, APartThatEmptiesAndFillsAgain_TakesNoMoreRoom)
{
	this->insert(0, 200);
	const uint64_t before = blocks_of(this->heap_);
	uint64_t most = 0, rest = 0;
	for (int round = 0; round < 12; round++) {
		this->insert(200, 600);
		const uint64_t full = blocks_of(this->heap_);
		most = round == 0 ? full + full / 5 : most;
		EXPECT_LE(full, most);
		this->erase(200, 600);
		/* Those that stay lie more loosely, but not more and more so. */
		rest = round == 0 ? blocks_of(this->heap_) : rest;
		EXPECT_LE(blocks_of(this->heap_), rest + rest / 4);
		EXPECT_LE(rest, 3 * before);
	}
	this->expect_whole(200);
}

TYPED_TEST(SmallLog, GrowsAndShrinks_AsStdMapDoes)
{
	const uint64_t seed = seed_of_run();
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed));
	std::mt19937_64 random(seed);
	typename TestFixture::Model model;
	for (int phase = 0; phase < 6; phase++) {
		for (int k = 0; k < 500; k++) {
			const uint64_t n = random() % 400;
			const auto key = this->key(n);
			const bool grows = random() % 8 < (phase % 2 ? 1 : 7);
			this->update([&](fur_update *tx) {
				if (grows)
					EXPECT_EQ(this->map_->insert(tx, key, this->value(n)),
					        model.count(key) == 0);
				else
					EXPECT_EQ(this->map_->erase(tx, key), model.count(key));
			});
			if (grows)
				model.emplace(key, this->value(n));
			else
				model.erase(key);
		}
		this->reopen();
		this->expect_whole(model.size());
		fur::read(this->self_, [&](fur_ro *tx) {
			for (auto entry : this->map_->in(tx))
				EXPECT_TRUE(model.at(entry.first) == entry.second);
		});
	}
}

TYPED_TEST(SmallLog, ClearInParts_EmptiesTheMap)
{
	this->insert(0, 1500);
	EXPECT_THROW(this->update([&](fur_update *tx) { this->map_->clear(tx); }), fur::Error);
	this->expect_whole(1500);
	fur::clear(this->self_, *this->map_);
	EXPECT_EQ(blocks_of(this->heap_), this->empty_);
	this->insert(0, 50);
	this->expect_whole(50);
	fur::clear(this->self_, *this->map_, 0);
	fur::clear(this->self_, *this->map_);
	EXPECT_EQ(blocks_of(this->heap_), this->empty_);
	this->insert(0, 700);
	fur::destroy(this->self_, this->map_, 7);
	fur::destroy(this->self_, static_cast<TypeParam *>(nullptr));
	EXPECT_EQ(blocks_of(this->heap_), this->empty_ - 1);
}

/* The name goes together with the map. */
TYPED_TEST(SmallLog, AMapGoesWithItsName)
{
	this->insert(0, 900);
	fur::clear(this->self_, *this->map_);
	this->update([&](fur_update *tx) {
		EXPECT_TRUE(fur::remove_root(tx, "map"));
		fur::destroy(tx, this->map_);
		EXPECT_FALSE(fur::remove_root(tx, "map"));
	});
	EXPECT_LT(blocks_of(this->heap_), this->empty_);
	EXPECT_EQ(fur::find_root<TypeParam>(this->self_, "map"), nullptr);
}

/* Each part leaves a map that goes on working, whatever comes between. */
TYPED_TEST(SmallLog, AKillBetweenTheParts_LeavesASmallerMap)
{
	this->insert(0, 800);
	this->heap_.close();
	this->in_killed_child([&] {
		fur::Heap heap = this->open(this->options_);
		fur::Thread self(heap);
		auto *map = fur::find_root<TypeParam>(self, "map");
		for (int part = 0; part < 20; part++)
			EXPECT_TRUE(fur::update(self, fur::rerun,
			        [&](fur_update *tx) { return map->clear_some(tx, 25); }));
		_exit(0);
	});
	this->heap_ = this->open(this->options_);
	this->self_ = fur::Thread(this->heap_);
	this->map_ = fur::find_root<TypeParam>(this->self_, "map");
	const uint64_t left =
	        fur::read(this->self_, [&](fur_ro *tx) { return this->map_->size(tx); });
	EXPECT_LT(left, 800u);
	EXPECT_GT(left, 100u);
	this->expect_whole(left);
	this->insert(0, 300);
	uint64_t n = 0;
	for (bool more = true; more; n++) {
		more = this->update(
		        [&](fur_update *tx) { return this->map_->clear_some(tx, 100); });
		if (n < 4)
			this->insert(1000 + 20 * n, 1020 + 20 * n);
	}
	EXPECT_EQ(blocks_of(this->heap_), this->empty_);
}

/* A scan goes on while leaves and buckets come and go. */
TYPED_TEST(SmallLog, AScanSeesOnceWhatStays)
{
	constexpr uint64_t STAY = 60;
	for (size_t batch : {1, 5}) {
		this->insert(0, STAY + 100);
		std::map<typename TestFixture::K, int> seen;
		typename TypeParam::cursor at;
		for (uint64_t round = 0; !at.done(); round++) {
			fur::read(this->self_, [&](fur_ro *tx) {
				at.advance(tx, *this->map_, batch,
				        [&](const auto &entry) { seen[entry.first]++; });
			});
			if (round < 4 && round % 2 == 0)
				this->erase(STAY, STAY + 100);
			else if (round < 4)
				this->insert(STAY, STAY + 100);
		}
		for (uint64_t n = 0; n < STAY; n++)
			EXPECT_EQ(seen[this->key(n)], 1) << n;
		for (const auto &entry : seen)
			EXPECT_EQ(entry.second, 1);
		fur::clear(this->self_, *this->map_);
	}
}

/* Threads that fill and empty, and one that clears: no reader meets what is freed. */
template <class M>
void crowd(fur_heap *heap, uint64_t keys, uint64_t rounds)
{
	using Key = Sample<typename M::key_type>;
	fur::Thread self(heap);
	auto *map = fur::root<M>(self, "map");
	std::vector<std::thread> threads;
	for (uint64_t t = 0; t < 3; t++)
		threads.emplace_back([&, t] {
			fur::Thread me(heap);
			std::mt19937_64 random(t);
			for (uint64_t n = 0; n < rounds; n++) {
				const auto key = Key::key(random() % keys);
				const bool grows = random() % 8 < (n / 100 % 2 ? 1 : 7);
				fur::update(me, fur::rerun, [&](fur_update *tx) {
					if (grows)
						map->insert(tx, key, n);
					else
						map->erase(tx, key);
				});
				if (t == 0 && n % 150 == 149)
					fur::clear(me, *map, 5);
				if (n % 32 == 0)
					fur::read(
					        me, [&](fur_ro *tx) { expect_verified(tx, *map); });
			}
		});
	for (auto &t : threads)
		t.join();
	fur::read(self, [&](fur_ro *tx) { expect_verified(tx, *map); });
	fur::destroy(self, map);
	EXPECT_LE(blocks_of(heap), 3u);
}
class ShrinkingCrowd : public HeapFile, public ::testing::WithParamInterface<fur_isolation>
{
protected:
	template <class M>
	void run(uint64_t keys)
	{
		fur::Heap heap = create(container_options(GetParam()));
		crowd<M>(heap, keys, 600);
	}
};
TEST_P(ShrinkingCrowd, HashMap)
{
	run<fur::hash_map<uint64_t, uint64_t, 3>>(100);
}
TEST_P(ShrinkingCrowd, HashMap_OfFewKeys)
{
	run<fur::hash_map<uint64_t, uint64_t>>(12);
}
TEST_P(ShrinkingCrowd, HashMap_WithBuckets)
{
	run<fur::hash_map<WeakKey<ALIKE>, uint64_t>>(30);
}
TEST_P(ShrinkingCrowd, HashMap_OfEqualHashes)
{
	run<fur::hash_map<WeakKey<EQUAL>, uint64_t>>(24);
}
TEST_P(ShrinkingCrowd, OrderedMap)
{
	run<fur::ordered_map<uint64_t, uint64_t, 3>>(60);
}
INSTANTIATE_TEST_SUITE_P(Isolations, ShrinkingCrowd, ::testing::Values(FUR_OPACITY, FUR_SNAPSHOT),
        [](const auto &how) { return how.param == FUR_OPACITY ? "opacity" : "snapshot"; });

/* --------------------------------------------------------------------- growth, and its cost */

using Numbers = SmallLog<fur::hash_map<uint64_t, uint64_t>>;

/* Tables are not doubled beyond what the smallest log can hold. */
TEST_F(Numbers, AMapGrowsWithTheSmallestLog)
{
	insert(0, 30000);
	expect_whole(30000);
	fur::clear(self_, *map_);
	EXPECT_EQ(blocks_of(heap_), empty_);
}

/* A full leaf is split for one key more, and not joined when that goes again. */
TEST_F(Numbers, AKeyThatComesAndGoes_SplitsOnce)
{
	insert(0, 100);
	const uint64_t size = 100;
	for (uint64_t n = 1000; n < 1200; n++) {
		insert(n, n + 1);
		erase(n, n + 1);
		const uint64_t blocks = blocks_of(heap_);
		for (int again = 0; again < 3; again++) {
			insert(n, n + 1);
			EXPECT_EQ(blocks_of(heap_), blocks) << n;
			erase(n, n + 1);
			EXPECT_EQ(blocks_of(heap_), blocks) << n;
		}
	}
	expect_whole(size);
}

using ChosenKeys = SmallLog<fur::hash_map<Chosen, uint64_t>>;
using RawChosen = RawHashMap<Chosen, uint64_t>;

RawChosen raw_of(const void *map)
{
	return {map, [](const Chosen &key) { return fur::stored<Chosen>::hash_of(key); },
	        [](const uint64_t *secret, const Chosen &key) {
		        return fur::stored<Chosen>::secret_hash_of(secret, key);
	        }};
}

/* No list: as many nodes as other keys take. */
TEST_F(ChosenKeys, CostWhatOthersCost)
{
	ASSERT_EQ(fur::stored<Chosen>::hash_of(chosen(1)), fur::stored<Chosen>::hash_of(chosen(2)));
	insert(0, 3000);
	expect_whole(3000);
	const RawChosen raw = raw_of(map_);
	EXPECT_EQ(raw.entries.size(), 3000u);
	EXPECT_EQ(raw.buckets, 1u);
	EXPECT_EQ(raw.longest_list, 1u);
	EXPECT_LE(raw.leaves, 1500u);
	EXPECT_LE(blocks_of(heap_), empty_ + 1700);
	erase(0, 2998);
	const RawChosen few = raw_of(map_);
	EXPECT_EQ(few.buckets, 0u);
	EXPECT_EQ(few.entries.size(), 2u);
}

/* Before there were buckets, such keys were in a list below 60 bits of tables. */
class OldList : public ChosenKeys
{
protected:
	enum : uint64_t { LISTED = 20, LEAF_WORDS = 2 + 8 * 2 + 8 };

	uint64_t *node(size_t words)
	{
		return update([&](fur_update *tx) {
			void *p = fur_alloc_aligned(tx, 8 * words, FUR_CACHE_LINE);
			const std::vector<uint64_t> zeroes(words);
			fur_write(tx, p, zeroes.data(), 8 * words);
			return static_cast<uint64_t *>(p);
		});
	}
	static uint64_t word_of(const void *p)
	{
		return reinterpret_cast<uintptr_t>(p);
	}
	void store(uint64_t *at, uint64_t word)
	{
		update([&](fur_update *tx) { fur_store(tx, at, word); });
	}
	/* The slot below 60 bits of the hash. */
	uint64_t *deep_slot(uint64_t hash)
	{
		auto *slot = reinterpret_cast<uint64_t *>(map_);
		uint64_t *parts = node(16 * FUR_CACHE_LINE / 8);
		store(parts, LISTED);
		store(slot + 1, word_of(parts));
		for (unsigned used = 0; used < 60; used++) {
			uint64_t *table = node(3), *empty = node(LEAF_WORDS);
			store(empty + 1, used + 1);
			store(slot, word_of(table) | 1);
			const bool right = hash >> (63 - used) & 1;
			store(table + 1 + !right, word_of(empty));
			slot = table + 1 + right;
		}
		return slot;
	}
	uint64_t *list_of(uint64_t hash)
	{
		uint64_t *leaf = nullptr;
		for (uint64_t n = 0; n < LISTED; n += 8) {
			uint64_t *next = leaf;
			leaf = node(LEAF_WORDS);
			update([&](fur_update *tx) {
				uint64_t tags = 0;
				for (uint64_t k = 0; k < 8 && n + k < LISTED; k++) {
					fur_store(tx, &leaf[2 + 2 * k], chosen(n + k).a);
					fur_store(tx, &leaf[3 + 2 * k], chosen(n + k).b);
					fur_store(tx, &leaf[18 + k], n + k);
					tags |= (0x80 | (hash & 127)) << 8 * k;
				}
				fur_store(tx, &leaf[0], tags);
				fur_store(tx, &leaf[1], word_of(next) | 60);
			});
		}
		return leaf;
	}
};

TEST_F(OldList, Works)
{
	const uint64_t hash = fur::stored<Chosen>::hash_of(chosen(0));
	uint64_t *slot = deep_slot(hash);
	store(slot, word_of(list_of(hash)));
	reopen();
	expect_whole(LISTED);
	EXPECT_EQ(raw_of(map_).longest_list, 3u);
	insert(LISTED, 40);
	expect_whole(40);
	erase(3, 40);
	expect_whole(3);
	insert(3, 12);
	expect_whole(12);
	erase(0, 12);
	expect_whole(0);
	/* It is more than one update's log has room for, so others go on. */
	for (int round = 0; round < 8; round++) {
		insert(0, 1);
		erase(0, 1);
	}
	EXPECT_LE(blocks_of(heap_), empty_ + REST);
	insert(0, 40);
	fur::clear(self_, *map_);
	EXPECT_EQ(blocks_of(heap_), empty_);
}

/* -------------------------------------------------------------------------------- from C */

class CMapInParts : public HeapFile, public ::testing::WithParamInterface<fur_map_kind>
{
};

TEST_P(CMapInParts, ChosenKeysAndLongOnes)
{
	fur::Options o = small_options();
	o.heap_bytes = 16 << 20;
	fur::Heap heap = create(o);
	fur::Thread self(heap);
	fur_map *map;
	ASSERT_EQ(fur_map_root(self, "map", GetParam(), &map), 0);
	const uint64_t empty = blocks_of(heap);
	const auto key_of = [](uint64_t n) {
		return n % 2 ? text_of(chosen(n)) : Sample<fur::string>::key(n);
	};
	const auto fill = [&] {
		for (uint64_t n = 0; n < 1200; n++)
			fur::update(self, fur::rerun, [&](fur_update *tx) {
				const std::string key = key_of(n), value(n % 50, 'v');
				EXPECT_GE(fur_map_put(tx, map, key.data(), key.size(), value.data(),
				                  value.size()),
				        0);
			});
	};
	fill();
	for (uint64_t n = 0; n < 1200; n++)
		fur::update(self, fur::rerun, [&](fur_update *tx) {
			const std::string key = key_of(n);
			EXPECT_EQ(fur_map_remove(tx, map, key.data(), key.size()), 1) << n;
		});
	EXPECT_LE(blocks_of(heap), empty + REST);
	fill();
	EXPECT_EQ(fur_map_clear_in_parts(self, map), 0) << fur_errormsg();
	EXPECT_EQ(blocks_of(heap), empty);
	fill();
	EXPECT_EQ(fur_map_clear_in_parts(nullptr, map), FUR_EINVAL);
	EXPECT_EQ(fur_map_clear_in_parts(self, nullptr), FUR_EINVAL);
	fur::read(self, [&](fur_ro *) {
		EXPECT_EQ(fur_map_clear_in_parts(self, map), FUR_ENESTED);
		EXPECT_EQ(fur_map_destroy_in_parts(self, map), FUR_ENESTED);
	});
	EXPECT_EQ(fur_map_destroy_in_parts(self, nullptr), 0);
	EXPECT_EQ(fur_map_destroy_in_parts(self, map), 0) << fur_errormsg();
	EXPECT_EQ(blocks_of(heap), empty - 1);
	EXPECT_EQ(fur_map_clear_in_parts(self, map), FUR_EINVAL) << "it is destroyed";
}
INSTANTIATE_TEST_SUITE_P(Kinds, CMapInParts, ::testing::Values(FUR_MAP_HASH, FUR_MAP_ORDERED),
        [](const auto &kind) { return kind.param == FUR_MAP_HASH ? "hash" : "ordered"; });

/* ---------------------------------------------------------------- keys that no map can hold */

struct Real {
	double x;
	bool operator==(const Real &other) const
	{
		return x == other.x;
	}
};
/* Its comparisons throw as long as `left` counts down to 0. */
struct Moody {
	uint64_t n;
	static inline uint64_t left = UINT64_MAX;
	static void compare()
	{
		if (left-- == 0)
			throw std::domain_error("not today");
	}
	bool operator==(const Moody &other) const
	{
		compare();
		return n == other.n;
	}
	bool operator<(const Moody &other) const
	{
		compare();
		return n < other.n;
	}
};

} // namespace

template <>
struct fur::hash<Real> {
	static uint64_t of(const Real &key)
	{
		const double same = key.x == 0 ? 0.0 : key.x; /* -0.0 is equal to 0.0 */
		return fur::detail::hash_bytes(&same, sizeof same);
	}
};
template <>
struct fur::hash<Moody> {
	static uint64_t of(const Moody &key)
	{
		return key.n % 4; /* so that keys are compared */
	}
};

namespace
{

/* Its < is no order. */
struct Unordered {
	uint64_t n;
	bool operator<(const Unordered &other) const
	{
		return fur::detail::mix(n + 1, other.n + 7) % 2;
	}
};

class OddKeys : public ContainerHeap
{
protected:
	static constexpr double NAN_KEY = std::numeric_limits<double>::quiet_NaN();

	template <class M>
	void comparisons_that_throw()
	{
		auto *map = fur::root<M>(self_, "moody");
		const uint64_t empty = blocks_of(heap_);
		for (uint64_t n = 0; n < 40; n++)
			update([&](fur_update *tx) { map->insert(tx, {n}, n); });
		const uint64_t before = blocks_of(heap_);
		uint64_t thrown = 0;
		for (uint64_t after = 0; after < 30; after++) {
			Moody::left = after;
			try {
				update([&](fur_update *tx) {
					for (uint64_t n = 40; n < 60; n++)
						map->insert(tx, {n}, n);
					map->erase(tx, {5});
				});
			} catch (const std::domain_error &) {
				thrown++;
			}
			Moody::left = UINT64_MAX;
			EXPECT_EQ(blocks_of(heap_), before);
			read([&](fur_ro *tx) {
				expect_verified(tx, *map);
				EXPECT_EQ(map->size(tx), 40u);
			});
		}
		EXPECT_EQ(thrown, 30u);
		fur::clear(self_, *map);
		EXPECT_EQ(blocks_of(heap_), empty);
	}
};

TEST_F(OddKeys, AnOrderedMapRefusesNan)
{
	auto *map = fur::root<fur::ordered_map<double, uint64_t>>(self_, "map");
	for (uint64_t n = 0; n < 100; n++)
		update([&](fur_update *tx) { map->insert(tx, static_cast<double>(n), n); });
	EXPECT_THROW(update([&](fur_update *tx) { map->insert_or_assign(tx, NAN_KEY, 7); }),
	        std::invalid_argument);
	EXPECT_THROW(update([&](fur_update *tx) { map->insert(tx, -NAN_KEY, 7); }),
	        std::invalid_argument);
	update([&](fur_update *tx) {
		EXPECT_EQ(map->erase(tx, NAN_KEY), 0u);
		EXPECT_FALSE(map->modify(tx, NAN_KEY, [](auto &) { FAIL(); }));
		EXPECT_EQ(map->lookup(tx, NAN_KEY), nullptr);
		EXPECT_FALSE(map->insert(tx, -0.0, 7)) << "it is equal to 0.0";
	});
	read([&](fur_ro *tx) {
		const auto end = map->in(tx).end();
		EXPECT_FALSE(map->contains(tx, NAN_KEY));
		EXPECT_TRUE(map->find(tx, NAN_KEY) == end);
		EXPECT_TRUE(map->lower_bound(tx, NAN_KEY) == end);
		EXPECT_TRUE(map->upper_bound(tx, NAN_KEY) == end);
		EXPECT_TRUE(map->floor(tx, NAN_KEY) == end);
		EXPECT_EQ(map->size(tx), 100u);
		for (uint64_t n = 0; n < 100; n++)
			EXPECT_EQ(map->get(tx, static_cast<double>(n)), n);
	});
}

TEST_F(OddKeys, AHashMapRefusesNan)
{
	auto *map = fur::root<fur::hash_map<Real, uint64_t>>(self_, "map");
	EXPECT_THROW(update([&](fur_update *tx) { map->insert(tx, {NAN_KEY}, 7); }),
	        std::invalid_argument);
	update([&](fur_update *tx) {
		EXPECT_TRUE(map->insert(tx, {0.0}, 1));
		EXPECT_FALSE(map->insert(tx, {-0.0}, 2));
		EXPECT_EQ(map->erase(tx, {NAN_KEY}), 0u);
		EXPECT_FALSE(map->contains(tx, {NAN_KEY}));
		EXPECT_EQ(map->size(tx), 1u);
	});
}

TEST_F(OddKeys, ALessThatIsNoOrder_DamagesOnlyItsMap)
{
	auto *map = fur::root<fur::ordered_map<Unordered, uint64_t, 4>>(self_, "map");
	const uint64_t empty = blocks_of(heap_);
	std::mt19937_64 random(7);
	for (int n = 0; n < 3000; n++)
		update([&](fur_update *tx) {
			const Unordered key{random() % 200};
			if (random() % 3)
				map->insert_or_assign(tx, key, 1);
			else
				map->erase(tx, key);
			(void)map->find(tx, key);
			(void)map->floor(tx, key);
		});
	fur::clear(self_, *map);
	EXPECT_EQ(blocks_of(heap_), empty);
}

TEST_F(OddKeys, AComparisonThatThrows_RollsTheUpdateBack)
{
	comparisons_that_throw<fur::ordered_map<Moody, uint64_t, 3>>();
}
TEST_F(OddKeys, AComparisonThatThrows_RollsTheUpdateBack_InAHashMap)
{
	comparisons_that_throw<fur::hash_map<Moody, uint64_t>>();
}

} // namespace
