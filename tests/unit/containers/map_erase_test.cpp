/* SPDX-License-Identifier: BSD-3-Clause
 *
 * map_erase_test.cpp - maps as the standard library has them: try_emplace, erase by iterator, by
 * predicate and by range, in one update and in parts; and a hash map's walk by numbers.
 */
#include "small_log.hpp"

#include <atomic>
#include <thread>

namespace
{

/* With a log that has room for loops over a whole map. */
template <class M>
class Erasing : public SmallLog<M>
{
protected:
	using typename SmallLog<M>::K;
	using typename SmallLog<M>::Model;

	Erasing() : SmallLog<M>(large()) {}
	static fur::Options large()
	{
		fur::Options o = small_options();
		o.heap_bytes = 4 << 20;
		o.log_bytes = 1 << 20;
		o.ring_slots = 1024;
		return o;
	}
	Model fill(uint64_t n)
	{
		Model model;
		for (uint64_t k = 0; k < n; k++)
			model.emplace(this->key(k), this->value(k));
		fur::fill(this->self_, *this->map_, model.begin(), model.end());
		return model;
	}
	void expect_same(const Model &model)
	{
		this->expect_whole(model.size());
		fur::read(this->self_, [&](fur_ro *tx) {
			for (const auto &[key, value] : model)
				EXPECT_TRUE(this->map_->get(tx, key) == value);
		});
	}
};

/* Keys and values in place and in blocks, lists in buckets, narrow nodes.  Others: hashes that are
 * alike in their first bits, small tables, and the widest nodes. */
using Types = TypesHere<
        ::testing::Types<fur::hash_map<uint64_t, uint64_t>, fur::hash_map<fur::string, fur::string>,
                fur::hash_map<WeakKey<EQUAL>, uint64_t>,
                fur::ordered_map<fur::string, fur::string, 3>>,
        ::testing::Types<fur::hash_map<WeakKey<ALIKE>, fur::string>,
                fur::hash_map<WeakKey<NARROW>, uint64_t, 2>, fur::ordered_map<uint64_t, uint64_t>>>;
TYPED_TEST_SUITE(Erasing, Types);

TYPED_TEST(Erasing, TryEmplaceAndGetOrInsert_KeepWhatIsThere)
{
	typename TestFixture::Model model;
	for (uint64_t n = 0; n < 400; n++) {
		const auto key = this->key(n * 7 % 150);
		const auto value = this->value(n);
		const auto was = model.emplace(key, value);
		this->update([&](fur_update *tx) {
			if (n % 2) {
				EXPECT_TRUE(this->map_->get_or_insert(tx, key, value) ==
				            was.first->second);
				return;
			}
			const auto [at, added] = this->map_->try_emplace(tx, key, value);
			EXPECT_EQ(added, was.second);
			EXPECT_EQ(at, this->map_->lookup(tx, key));
		});
	}
	this->expect_same(model);
}

/* The loop of the standard library: each entry comes once, and what stays is there. */
TYPED_TEST(Erasing, ALoopThatErases_MeetsEachEntryOnce)
{
	for (uint64_t n : {0, 1, 9, 40, 700})
		for (unsigned stays : {0, 2, 10, 1000}) { /* every second, tenth, ... */
			auto model = this->fill(n);
			std::map<typename TestFixture::K, int> met;
			this->update([&](fur_update *tx) {
				met.clear();
				uint64_t k = 0;
				auto at = this->map_->in(tx).begin();
				while (at != this->map_->in(tx).end()) {
					met[at->first]++;
					if (stays && k++ % stays == 0)
						++at;
					else
						at = this->map_->erase(tx, at);
				}
			});
			EXPECT_EQ(met.size(), n);
			for (const auto &[key, times] : met)
				EXPECT_EQ(times, 1);
			const uint64_t left = stays ? (n + stays - 1) / stays : 0;
			this->expect_whole(left);
			if (left <= 1) {
				EXPECT_LE(blocks_of(this->heap_), this->empty_ + 12);
			}
			fur::clear(this->self_, *this->map_);
		}
}

TYPED_TEST(Erasing, ErasingWhatFindHasFound_GoesOnWithTheNext)
{
	auto model = this->fill(300);
	for (uint64_t n = 0; n < 300; n += 2)
		this->update([&](fur_update *tx) {
			auto at = this->map_->find(tx, this->key(n));
			auto next = at;
			++next;
			const bool last = next == this->map_->in(tx).end();
			const auto key = last ? this->key(n) : next->first;
			at = this->map_->erase(tx, at);
			EXPECT_EQ(at == this->map_->in(tx).end(), last);
			if (!last) {
				EXPECT_TRUE(at->first == key);
			}
			model.erase(this->key(n));
		});
	this->expect_same(model);
}

TYPED_TEST(Erasing, EraseIf_RemovesWhatThePredicateSays)
{
	for (unsigned stays : {2, 9, 1000}) {
		auto model = this->fill(800);
		std::vector<typename TestFixture::K> keep;
		for (uint64_t n = 0; n < 800; n += stays)
			keep.push_back(this->key(n));
		std::sort(keep.begin(), keep.end());
		const auto goes = [&](const auto &entry) {
			return !std::binary_search(keep.begin(), keep.end(), entry.first);
		};
		EXPECT_EQ(this->update([&](fur_update *tx) {
			return fur::erase_if(tx, *this->map_, goes);
		}),
		        800 - keep.size());
		for (auto at = model.begin(); at != model.end();)
			at = goes(*at) ? model.erase(at) : std::next(at);
		this->expect_same(model);
		if (stays == 1000) {
			EXPECT_LE(blocks_of(this->heap_), this->empty_ + 12);
		}
		fur::clear(this->self_, *this->map_);
	}
}

template <class M>
class ErasingInParts : public SmallLog<M>
{
};
TYPED_TEST_SUITE(ErasingInParts, Types);

TYPED_TEST(ErasingInParts, EraseIf_FitsTheSmallestLog)
{
	for (size_t batch : {0, 3, 1000}) {
		this->insert(0, 900);
		std::set<typename TestFixture::K> goes;
		for (uint64_t n = 0; n < 900; n++)
			if (n % 9)
				goes.insert(this->key(n));
		const auto pred = [&](const auto &entry) { return goes.count(entry.first) > 0; };
		EXPECT_THROW(this->update([&](fur_update *tx) { this->map_->erase_if(tx, pred); }),
		        fur::Error);
		this->expect_whole(900);
		EXPECT_EQ(fur::erase_if(this->self_, *this->map_, pred, batch), 800u);
		this->expect_whole(100);
		EXPECT_EQ(fur::erase_if(this->self_, *this->map_, pred), 0u);
		EXPECT_EQ(
		        fur::erase_if(this->self_, *this->map_, [](const auto &) { return true; }),
		        100u);
		EXPECT_LE(blocks_of(this->heap_), this->empty_ + 12);
		fur::clear(this->self_, *this->map_);
	}
}

/* ------------------------------------------------------------------------ ranges */

template <class M>
class Ranges : public SmallLog<M>
{
protected:
	using typename SmallLog<M>::Model;

	Model filled(uint64_t n)
	{
		Model model;
		for (uint64_t k = 0; k < n; k++)
			model.emplace(this->key(k), this->value(k));
		fur::fill(this->self_, *this->map_, model.begin(), model.end(), 4);
		return model;
	}
	static uint64_t forget(
	        Model &model, const typename M::key_type &first, const typename M::key_type &last)
	{
		const uint64_t before = model.size();
		if (first < last)
			model.erase(model.lower_bound(first), model.lower_bound(last));
		return before - model.size();
	}
	void expect_same(const Model &model)
	{
		this->expect_whole(model.size());
		fur::read(this->self_, [&](fur_ro *tx) {
			const auto all = this->map_->in(tx);
			EXPECT_TRUE(std::equal(all.begin(), all.end(), model.begin(), model.end(),
			        [](const auto &a, const auto &b) {
				        return a.first == b.first && a.second == b.second;
			        }));
		});
	}
};
/* Keys and values in place and in blocks, in the widest nodes and in the narrowest. */
using OrderedTypes = TypesHere<::testing::Types<fur::ordered_map<uint64_t, uint64_t>,
                                       fur::ordered_map<fur::string, fur::string, 3>>,
        ::testing::Types<fur::ordered_map<uint64_t, uint64_t, 3>,
                fur::ordered_map<fur::string, fur::string>>>;
TYPED_TEST_SUITE(Ranges, OrderedTypes);

TYPED_TEST(Ranges, DeleteRange_AgreesWithStdMap)
{
	const uint64_t seed = seed_of_run();
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed));
	std::mt19937_64 random(seed);
	for (int round = 0; round < 10; round++) {
		auto model = this->filled(round % 2 ? 500 : 60);
		while (!model.empty()) {
			const auto first = this->key(random() % 600),
			           last = this->key(random() % 600);
			const uint64_t n = random() % 3, gone = this->forget(model, first, last);
			if (n == 0)
				EXPECT_EQ(fur::delete_range(this->self_, *this->map_, first, last),
				        gone);
			else if (n == 1)
				EXPECT_EQ(fur::delete_range(
				                  this->self_, *this->map_, first, last, 1 + n % 5),
				        gone);
			else if (gone <= 5)
				EXPECT_EQ(this->update([&](fur_update *tx) {
					return this->map_->delete_range(tx, first, last);
				}),
				        gone);
			else
				EXPECT_EQ(
				        fur::delete_range(this->self_, *this->map_, first, last, 0),
				        gone);
			this->expect_same(model);
			if (model.size() < 10 || random() % 20 == 0) {
				fur::clear(this->self_, *this->map_);
				model.clear();
			}
		}
		EXPECT_EQ(blocks_of(this->heap_), this->empty_);
	}
}

/* A loop that ends when its stores have taken effect must end without. */
TYPED_TEST(Ranges, ARangeTooLargeForTheLog_SaysSo)
{
	const auto model = this->filled(1500);
	const auto first = model.begin()->first, last = model.rbegin()->first;
	try {
		this->update([&](fur_update *tx) { this->map_->delete_range(tx, first, last); });
		FAIL() << "it fits";
	} catch (const fur::Error &e) {
		EXPECT_EQ(e.code(), FUR_ETOOBIG);
	}
	this->expect_same(model);
	EXPECT_EQ(fur::delete_range(this->self_, *this->map_, first, last), 1499u);
	this->expect_whole(1);
}

TYPED_TEST(Ranges, AKillBetweenTheParts_LeavesLess_AndTheNextRunGoesOn)
{
	auto model = this->filled(600);
	const auto first = std::next(model.begin(), 50)->first,
	           last = std::next(model.begin(), 550)->first;
	this->heap_.close();
	this->in_killed_child([&] {
		fur::Heap heap = this->open(this->options_);
		fur::Thread self(heap);
		auto *map = fur::find_root<TypeParam>(self, "map");
		for (int part = 0; part < 20; part++)
			EXPECT_GT(fur::update(self, fur::rerun,
			                  [&](fur_update *tx) {
				                  return map->delete_some(tx, first, last, 10);
			                  })
			                  .first,
			        0u);
		_exit(0);
	});
	this->heap_ = this->open(this->options_);
	this->self_ = fur::Thread(this->heap_);
	this->map_ = fur::find_root<TypeParam>(this->self_, "map");
	const uint64_t left =
	        fur::read(this->self_, [&](fur_ro *tx) { return this->map_->size(tx); });
	EXPECT_LT(left, 600u);
	EXPECT_GT(left, 300u);
	this->expect_whole(left);
	EXPECT_EQ(fur::delete_range(this->self_, *this->map_, first, last), left - 100);
	this->forget(model, first, last);
	this->expect_same(model);
}

/* -------------------------------------------------------------- walks by numbers */

template <class M>
class ByNumber : public SmallLog<M>
{
};
/* Tables of several widths, and buckets.  Others: more kinds of keys that are alike. */
using HashTypes = TypesHere<::testing::Types<fur::hash_map<uint64_t, uint64_t>,
                                    fur::hash_map<fur::string, fur::string, 2>,
                                    fur::hash_map<WeakKey<EQUAL>, uint64_t>>,
        ::testing::Types<fur::hash_map<WeakKey<ALIKE>, uint64_t>, fur::hash_map<Chosen, uint64_t>>>;
TYPED_TEST_SUITE(ByNumber, HashTypes);

/* What stays is passed on, whatever grows and shrinks between the calls, by one process or by
 * several. */
TYPED_TEST(ByNumber, Scan_PassesOnWhatStays)
{
	constexpr uint64_t STAY = 120;
	for (int churn : {0, 1, 2}) {
		this->insert(0, STAY);
		for (uint64_t round = 0; round < 6; round++) {
			std::map<typename TestFixture::K, int> seen;
			uint64_t at = 0, calls = 0;
			bool more = round % 2;
			if (more && churn)
				this->insert(STAY, STAY + 300);
			do {
				at = fur::read(this->self_, [&](fur_ro *tx) {
					return this->map_->scan(
					        tx, at, round, [&](const auto &key, const auto &) {
						        seen[key]++;
					        });
				});
				if (calls < 6 && churn) {
					if (more)
						this->erase(STAY, STAY + 300);
					else
						this->insert(STAY, STAY + 300);
					more = !more;
				}
				if (churn == 2)
					this->reopen();
				ASSERT_LT(++calls, 1000u);
			} while (at);
			for (uint64_t n = 0; n < STAY; n++)
				EXPECT_GE(seen[this->key(n)], 1) << n;
			if (churn == 0) {
				EXPECT_EQ(seen.size(), STAY);
				for (const auto &entry : seen)
					EXPECT_EQ(entry.second, 1);
			}
			if (more && churn)
				this->erase(STAY, STAY + 300);
		}
		fur::clear(this->self_, *this->map_);
	}
}

/* A client may send any number. */
TYPED_TEST(ByNumber, Scan_TakesAnyNumber)
{
	this->insert(0, 200);
	std::mt19937_64 random(seed_of_run());
	for (int n = 0; n < 2000; n++)
		fur::read(this->self_, [&](fur_ro *tx) {
			const uint64_t from = random() >> random() % 64;
			const uint64_t next = this->map_->scan(tx, from, 3, [](const auto &) {});
			EXPECT_TRUE(next == 0 || next > from);
		});
}

/* ------------------------------------------------------------------------ threads */

/* One update in one of the ways to add and to remove.  Returns by how much the map has grown. */
template <class M>
uint64_t change(fur_update *tx, M *map, uint64_t what, uint64_t key)
{
	switch (what % 8) {
	case 0: {
		auto at = map->find(tx, key);
		if (at == map->in(tx).end())
			return 0;
		map->erase(tx, at);
		return static_cast<uint64_t>(-1);
	}
	case 1:
		if constexpr (!std::is_same_v<M, fur::hash_map<uint64_t, uint64_t>>)
			return 0 - map->delete_range(tx, key, key + 20);
		else
			return 0 - map->erase(tx, key);
	case 2:
		return 0 -
		       map->erase_if(tx, [&](const auto &e) { return e.first % 37 == key % 37; });
	case 3: {
		const auto [at, added] = map->try_emplace(tx, key, 0u);
		fur_store(tx, at, fur_load(tx, at) + 1);
		return added;
	}
	default: return map->insert(tx, key, 1);
	}
}
/* Threads that change a map; each keeps account. */
template <class M>
void crowd(fur_heap *heap, bool rerun)
{
	constexpr uint64_t KEYS = 150, ROUNDS = 400;
	fur::Thread self(heap);
	auto *map = fur::root<M>(self, "map");
	std::atomic<uint64_t> size{0};
	const uint64_t seed = seed_of_run();
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed));
	std::vector<std::thread> threads;
	for (uint64_t t = 0; t < 3; t++)
		threads.emplace_back([&, t] {
			fur::Thread me(heap);
			std::mt19937_64 random(seed + t);
			for (uint64_t n = 0; n < ROUNDS; n++) {
				const uint64_t what = random(), key = random() % KEYS;
				const auto body = [&](fur_update *tx) {
					return change(tx, map, what, key);
				};
				size += rerun ? fur::update(me, fur::rerun, body)
				              : fur::update(me, body);
				if (n % 64 == 0)
					fur::read(
					        me, [&](fur_ro *tx) { expect_verified(tx, *map); });
			}
		});
	for (auto &t : threads)
		t.join();
	fur::read(self, [&](fur_ro *tx) {
		expect_verified(tx, *map);
		EXPECT_EQ(map->size(tx), size.load());
	});
	fur::destroy(self, map);
	EXPECT_LE(blocks_of(heap), 3u);
}
class ErasingCrowd : public HeapFile, public ::testing::WithParamInterface<Crowd>
{
};
TEST_P(ErasingCrowd, HashMap)
{
	crowd<fur::hash_map<uint64_t, uint64_t>>(
	        create(container_options(GetParam().isolation)), GetParam().rerun);
}
TEST_P(ErasingCrowd, OrderedMap)
{
	crowd<fur::ordered_map<uint64_t, uint64_t, 4>>(
	        create(container_options(GetParam().isolation)), GetParam().rerun);
}
INSTANTIATE_TEST_SUITE_P(Modes, ErasingCrowd, ::testing::ValuesIn(CROWDS), crowd_name);

} // namespace
