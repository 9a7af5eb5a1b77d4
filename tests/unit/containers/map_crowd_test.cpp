/* SPDX-License-Identifier: BSD-3-Clause
 *
 * map_crowd_test.cpp - threads on one fur::hash_map or fur::ordered_map.
 */
#include "maps.hpp"

#include <atomic>
#include <thread>

namespace
{

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
		auto *map = fur::root<M>(self, "map");
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
