/* SPDX-License-Identifier: BSD-3-Clause
 *
 * get_many_test.cpp - get_many() of the maps finds what get() finds, in each kind of transaction.
 */
#include "maps.hpp"

#include <atomic>
#include <limits>
#include <thread>

namespace
{

template <class M>
class GetMany : public ContainerHeap
{
protected:
	using Key = typename M::key_type;
	using Value = typename M::mapped_type;

	GetMany() : map_(fur::root<M>(self_, "map"))
	{
		RecordProperty("seed", std::to_string(seed_));
	}
	static Key key(uint64_t n)
	{
		return Key(Sample<typename KeyOf<M>::type>::key(n));
	}
	static Value value(uint64_t n)
	{
		return Value(Sample<typename KeyOf<M>::mapped>::value(n));
	}
	/* Entries number `from` to `to` - 1, which have every second key, some at a time. */
	void insert(uint64_t from, uint64_t to)
	{
		while (from < to)
			update([&](fur_update *tx) {
				for (int k = 0; k < 20 && from < to; k++, from++)
					map_->insert(tx, key(2 * from), value(from));
			});
	}
	/* `n` keys for a map of this number of entries, there or not, and some twice. */
	std::vector<Key> draw(size_t n, uint64_t entries)
	{
		std::vector<Key> keys;
		while (keys.size() < n)
			keys.push_back(key(below(2 * entries + 1)));
		return keys;
	}
	template <class Tx>
	void expect_same(Tx *tx, const std::vector<Key> &keys)
	{
		std::vector<std::optional<Value>> found(keys.size(), value(1)), calls(keys.size());
		uint64_t there = 0;
		EXPECT_EQ(map_->get_many(tx, keys.data(), keys.size(),
		                  [&](size_t i, const Value &v) {
			                  EXPECT_FALSE(calls.at(i)) << "it comes twice";
			                  calls.at(i) = v;
		                  }),
		        map_->get_many(tx, keys.data(), keys.size(), found.data()));
		for (size_t i = 0; i < keys.size(); i++) {
			const auto one = map_->get(tx, keys[i]);
			there += one.has_value();
			EXPECT_TRUE(found[i] == one && calls[i] == one) << i;
		}
		EXPECT_EQ(
		        map_->get_many(tx, keys.data(), keys.size(), [](size_t, Value) {}), there);
		map_->prefetch_many(tx, keys.data(), keys.size());
	}

	M *map_;

private:
	template <class>
	struct KeyOf;
	template <class K, class V, unsigned N>
	struct KeyOf<fur::hash_map<K, V, N>> {
		using type = K;
		using mapped = V;
	};
	template <class K, class V, unsigned N, class C>
	struct KeyOf<fur::ordered_map<K, V, N, C>> {
		using type = K;
		using mapped = V;
	};
};

/* Keys in place and in blocks, keys that are alike, another order, values of each size.  Others:
 * other widths of tables and nodes, and other pairs of these keys and values. */
using Types = TypesHere<
        ::testing::Types<fur::hash_map<uint64_t, uint64_t>, fur::hash_map<fur::string, fur::string>,
                fur::hash_map<Clash, uint64_t>, fur::ordered_map<int64_t, uint8_t, 3>,
                fur::ordered_map<uint64_t, uint64_t, 15, std::greater<>>,
                fur::ordered_map<fur::string, Wide, 3>>,
        ::testing::Types<fur::hash_map<fur::string, uint64_t, 1>, fur::hash_map<int64_t, Wide>,
                fur::hash_map<Near, fur::string>, fur::ordered_map<uint64_t, uint64_t>,
                fur::ordered_map<uint64_t, Wide, 3>, fur::ordered_map<Near, uint64_t, 4>,
                fur::ordered_map<fur::string, fur::string>>>;
TYPED_TEST_SUITE(GetMany, Types);

TYPED_TEST(GetMany, AgreesWithGet)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(this->seed_));
	uint64_t entries = 0;
	for (const uint64_t more : {0, 1, 8, 300, 1200}) {
		this->insert(entries, entries + more);
		entries += more;
		for (const size_t n : {0, 1, 15, 16, 17, 100}) {
			const auto keys = this->draw(n, entries);
			this->read([&](fur_ro *tx) { this->expect_same(tx, keys); });
			fur::read(this->self_, fur::rerun,
			        [&](fur_reader *tx) { this->expect_same(tx, keys); });
		}
	}
}

TYPED_TEST(GetMany, InAnUpdate_FindsItsStores)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(this->seed_));
	this->insert(0, 100);
	const auto keys = this->draw(50, 110);
	const auto body = [&](fur_update *tx) {
		for (uint64_t n = 95; n < 105; n++)
			this->map_->insert_or_assign(tx, this->key(2 * n), this->value(n + 1));
		this->map_->erase(tx, this->key(2));
		this->expect_same(tx, keys);
	};
	this->update(body);
	fur::update(this->self_, fur::rerun, body);
}

TYPED_TEST(GetMany, InASnapshot_FindsWhatThereWas)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(this->seed_));
	if (this->heap_.info().htm == FUR_HTM_POWER)
		GTEST_SKIP() << "snapshots need opacity there";
	using Found = std::vector<std::optional<typename TestFixture::Value>>;
	this->insert(0, 300);
	const auto keys = this->draw(100, 300);
	const auto get = [&](auto *tx) {
		Found found(keys.size());
		this->map_->get_many(tx, keys.data(), keys.size(), found.data());
		return found;
	};
	const Found before = this->read(get);
	const fur::Snapshot snapshot(this->self_);
	for (const auto &key : keys)
		this->update([&](fur_update *tx) { this->map_->erase(tx, key); });
	this->insert(301, 600);
	EXPECT_TRUE(snapshot.read(this->self_, get) == before);
	EXPECT_TRUE(this->read(get) == Found(keys.size()));
}

/* Keys of any type that get() takes. */
TEST_F(ContainerHeap, GetMany_TakesWhatGetTakes)
{
	using Names = fur::hash_map<fur::string, uint64_t>;
	using Numbers = fur::ordered_map<double, uint64_t>;
	using Pairs = fur::ordered_map<std::pair<uint32_t, fur::string>, uint64_t>;
	auto *names = fur::root<Names>(self_, "names");
	auto *numbers = fur::root<Numbers>(self_, "numbers");
	auto *pairs = fur::root<Pairs>(self_, "pairs");
	update([&](fur_update *tx) {
		names->insert(tx, "one", 1);
		numbers->insert(tx, 2.0, 2);
		pairs->insert(tx, {3, "a text of more than twelve characters"}, 3);
	});
	read([&](fur_ro *tx) {
		std::optional<uint64_t> found[3];
		const char *const texts[] = {"one", "two", "one"};
		EXPECT_EQ(names->get_many(tx, texts, 3, found), 2u);
		EXPECT_TRUE(found[0] == 1u && !found[1] && found[2] == 1u);
		const float floats[] = {std::numeric_limits<float>::quiet_NaN(), 2, 3};
		EXPECT_EQ(numbers->get_many(tx, floats, 3, found), 1u);
		EXPECT_TRUE(!found[0] && found[1] == 2u && !found[2]);
		const std::pair<uint32_t, std::string> both[] = {
		        {3, "a text"}, {3, "a text of more than twelve characters"}, {4, ""}};
		EXPECT_EQ(pairs->get_many(tx, both, 3, found), 1u);
		EXPECT_TRUE(!found[0] && found[1] == 3u && !found[2]);
	});
}

/* Updates move amounts between the entries under the searches of optimistic readers. */
TEST_F(ContainerHeap, GetMany_BesideUpdates_SeesOneState)
{
	enum : uint64_t { KEYS = 40, EACH = 100, ROUNDS = 400 };
	struct Both {
		fur::hash_map<fur::string, uint64_t> hash;
		fur::ordered_map<fur::string, uint64_t, 3> ordered;
	};
	auto *both = fur::root<Both>(self_, "both");
	const auto name = [](uint64_t n) {
		return "an entry with the number " + std::to_string(n);
	};
	std::vector<std::string> names;
	for (uint64_t n = 0; n < KEYS; n++)
		names.push_back(name(n));
	for (const std::string &n : names)
		update([&](fur_update *tx) {
			both->hash.insert(tx, n, EACH);
			both->ordered.insert(tx, n, EACH);
		});
	std::atomic<bool> stop{false};
	std::thread mover([&] {
		fur::Thread me(heap_);
		std::mt19937_64 random(seed_);
		while (!stop)
			fur::update(me, fur::rerun, [&](fur_update *tx) {
				const auto &from = names[random() % KEYS],
				           &to = names[random() % KEYS];
				const auto move = [&](auto &map) {
					map.modify(tx, from, [](uint64_t &v) { v--; });
					/* Anew, so that nodes change. */
					const uint64_t v = map.get(tx, to).value();
					map.erase(tx, to);
					map.insert(tx, to, v + 1);
				};
				move(both->hash);
				move(both->ordered);
			});
	});
	for (uint64_t n = 0; n < ROUNDS; n++) {
		const auto sums = fur::read(self_, fur::rerun, [&](fur_reader *tx) {
			uint64_t hash = 0, ordered = 0;
			both->hash.get_many(tx, names.data(), KEYS,
			        [&](size_t, uint64_t value) { hash += value; });
			both->ordered.get_many(tx, names.data(), KEYS,
			        [&](size_t, uint64_t value) { ordered += value; });
			return std::pair(hash, ordered);
		});
		EXPECT_EQ(sums.first, KEYS * EACH);
		EXPECT_EQ(sums.second, KEYS * EACH);
	}
	stop = true;
	mover.join();
}

} // namespace
