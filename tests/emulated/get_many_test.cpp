/* SPDX-License-Identifier: BSD-3-Clause
 *
 * get_many_test.cpp - what get_many() of the maps saves on the emulated machine, where a miss takes
 * as long as the description says.
 */
#include "machine_fixture.hpp"

#include <fur/hash_map.hpp>
#include <fur/ordered_map.hpp>
#include <fur/string.hpp>

#include <memory>

namespace
{

/* A transaction of the test's own: it fills a map in plain memory, before the machine runs. */
struct Plain {
	std::vector<std::unique_ptr<std::aligned_storage_t<FUR_CACHE_LINE, FUR_CACHE_LINE>[]>> all;
};
template <class T>
T fur_load(Plain *, const T *p)
{
	return *p;
}
template <class T>
void fur_store(Plain *, T *p, typename fur_detail::identity<T>::type value)
{
	*p = value;
}
void *fur_alloc_aligned(Plain *plain, size_t bytes, size_t)
{
	plain->all.emplace_back(new std::aligned_storage_t<FUR_CACHE_LINE,
	        FUR_CACHE_LINE>[bytes / FUR_CACHE_LINE + 1]);
	return plain->all.back().get();
}
void *fur_alloc(Plain *plain, size_t bytes)
{
	return fur_alloc_aligned(plain, bytes, 1);
}
void fur_free(Plain *, void *) {}
void fur_promote(Plain *, void *) {}

template <class K>
K key(uint64_t n)
{
	return K(n * 0x9e3779b97f4a7c15);
}
template <>
std::string key<std::string>(uint64_t n)
{
	return "a key of more than twelve characters: " + std::to_string(n * 0x9e3779b97f4a7c15);
}

/* How many times as long one get() after the other takes as get_many(). */
template <class Map>
double gain(const std::string &machine)
{
	enum : uint64_t { KEYS = 20000, CALL = 100, CALLS = 4 };
	using Key = typename Map::key_type;
	Plain plain;
	auto map = std::make_unique<Map>();
	for (uint64_t n = 0; n < KEYS; n++)
		map->insert(&plain, key<Key>(n), n);
	/* Each is looked up once, so its leaf is in no cache; the first ones bring the nodes above
	 * there. */
	enum : uint64_t { FIRST = CALL * CALLS, THEN = 2 * FIRST, END = 3 * FIRST };
	std::vector<Key> keys;
	for (uint64_t n = 0; n < END; n++)
		keys.push_back(key<Key>(n * 17 % KEYS));
	std::vector<uint64_t> found(keys.size());
	run({machine}, {[&] {
		fur_ro *tx = nullptr; /* a plain transaction's loads do not look at it */
		const auto one_by_one = [&](uint64_t at, uint64_t end) {
			for (; at < end; at++)
				found[at] = map->get(tx, keys[at]).value_or(KEYS);
		};
		one_by_one(0, FIRST);
		const uint64_t from = emu_ticks();
		one_by_one(FIRST, THEN);
		const uint64_t between = emu_ticks();
		for (uint64_t at = THEN; at < END; at += CALL)
			map->get_many(tx, &keys[at], CALL,
			        [&](size_t i, uint64_t value) { found[at + i] = value; });
		result[0] = between - from;
		result[1] = emu_ticks() - between;
	}});
	for (uint64_t n = 0; n < keys.size(); n++)
		EXPECT_EQ(found[n], n * 17 % KEYS);
	return static_cast<double>(result[0]) / static_cast<double>(result[1]);
}

TEST(GetMany, WaitsForManyMissesAtOnce)
{
	for (const char *machine : {"epyc", "tsx", "power9"}) {
		EXPECT_GE((gain<fur::ordered_map<uint64_t, uint64_t>>(machine)), 2) << machine;
		EXPECT_GE((gain<fur::hash_map<uint64_t, uint64_t>>(machine)), 2) << machine;
		EXPECT_GE((gain<fur::hash_map<fur::string, uint64_t>>(machine)), 2) << machine;
		EXPECT_GE((gain<fur::ordered_map<fur::string, uint64_t>>(machine)), 2) << machine;
	}
}

} // namespace
