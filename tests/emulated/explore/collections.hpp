/* SPDX-License-Identifier: BSD-3-Clause
 *
 * collections.hpp - the workload on sets, multimaps, values that own memory, keys of several parts,
 * and the calls that change or find many entries at once.  As in containers.hpp, the seed chooses
 * one of the containers for a run, and nodes are small.
 */
#ifndef EXPLORE_COLLECTIONS_HPP
#define EXPLORE_COLLECTIONS_HPP

#include "containers.hpp"

#include <array>
#include <optional>
#include <utility>

namespace explore
{

enum : uint64_t { COLLECTIONS = 6, MANY = 6 };

/* A value that owns blocks. */
struct Owner {
	fur::vector<uint64_t> list;
	fur::queue<uint64_t> jobs;
	FUR_MEMBERS(list, jobs)
};

struct Collections {
	alignas(128) fur::hash_set<fur::string, 2> tags;
	alignas(128) fur::ordered_set<uint64_t, 3> numbers;
	alignas(128) fur::ordered_multimap<uint64_t, uint64_t, 3> multi;
	alignas(128) fur::hash_map<uint64_t, Owner, 2> owners;
	alignas(128) fur::ordered_map<fur::string, Owner, 3> named;
	alignas(128) fur::ordered_map<std::pair<uint64_t, fur::string>, std::optional<uint64_t>,
	        3> pairs;
};

/* The number that chooses an operation, and the keys that it takes from it. */
struct Choice {
	explicit Choice(uint64_t r)
	    : what(r % 8), key((r >> 8) % MAP_KEYS), other((r >> 16) % MAP_KEYS), value(r >> 24)
	{
	}
	template <class Make>
	auto many(Make make) const
	{
		std::array<decltype(make(key)), MANY> keys;
		for (uint64_t n = 0; n < MANY; n++)
			keys[n] = make((key + n * (1 + other)) % MAP_KEYS);
		return keys;
	}
	uint64_t what, key, other, value;
};
inline uint64_t same(uint64_t number)
{
	return number;
}

template <class Tx, class Set, class Make>
void update_set(Tx *tx, Set &set, const Choice &c, Make make)
{
	const auto key = make(c.key), other = make(c.other);
	switch (c.what) {
	case 0:
	case 1:
	case 2: set.insert(tx, key); break;
	case 3: set.erase(tx, key); break;
	case 4:
		if (!set.contains(tx, other))
			set.insert(tx, key);
		break;
	case 5:
		set.erase_if(tx, [&](const auto &there) { return there == key || there == other; });
		break;
	case 6:
		if (auto at = set.find(tx, key); at != set.in(tx).end())
			set.erase(tx, at);
		break;
	default: {
		const auto keys = c.many(make);
		bool found[MANY];
		if (set.contains_many(tx, keys.data(), MANY, found) < MANY / 2)
			set.insert(tx, other);
	}
	}
}

template <class Tx, class Map, class Key>
void update_owners(Tx *tx, Map &map, const Choice &c, const Key &key, const Key &other)
{
	switch (c.what) {
	case 0:
	case 1:
	case 2: {
		Owner *owner = map.try_emplace(tx, key).first;
		if (owner->list.size(tx) > 4)
			owner->list.clear(tx);
		owner->list.push_back(tx, c.value);
		break;
	}
	case 3: {
		Owner *owner = map.try_emplace(tx, key).first;
		if (c.value % 2)
			owner->jobs.push(tx, c.value);
		else
			(void)owner->jobs.pop(tx);
		break;
	}
	case 4: map.erase(tx, key); break;
	case 5:
		if (!map.contains(tx, other))
			map.try_emplace(tx, key);
		break;
	case 6:
		if (auto at = map.find(tx, key); at != map.in(tx).end())
			map.erase(tx, at);
		break;
	default:
		map.erase_if(tx, [&](auto *in, const auto &entry) {
			return entry.second->list.size(in) > 3;
		});
	}
}

template <class Tx>
void update_multimap(Tx *tx, fur::ordered_multimap<uint64_t, uint64_t, 3> &map, const Choice &c)
{
	/* Few keys, with several values each. */
	const uint64_t key = c.key % 8, other = c.other % 8, value = c.value % 5;
	switch (c.what) {
	case 0:
	case 1:
	case 2:
	case 3: map.insert(tx, key, value); break;
	case 4: map.erase(tx, key); break;
	case 5: map.erase(tx, key, value); break;
	case 6:
		if (map.count(tx, other) < 2)
			map.insert(tx, key, value);
		break;
	default: map.delete_range(tx, key, other);
	}
}

template <class Tx, class Map>
void update_pairs(Tx *tx, Map &map, const Choice &c)
{
	const auto pair_of = [](uint64_t n) { return std::pair(n % 6, text_of(n)); };
	const auto key = pair_of(c.key), other = pair_of(c.other);
	switch (c.what) {
	case 0:
	case 1:
	case 2: map.insert_or_assign(tx, key, std::optional(c.value)); break;
	case 3: map.insert_or_assign(tx, key, std::nullopt); break;
	case 4: (void)map.get_or_insert(tx, key, std::optional(c.value)); break;
	case 5: map.erase(tx, key); break;
	case 6: map.delete_range(tx, key, other); break;
	default:
		if (const auto there = map.get(tx, other); there && *there)
			map.insert_or_assign(tx, key, std::optional(**there + 1));
	}
}

template <class Tx>
void update_collections(Tx *tx, Collections &all, uint64_t which, uint64_t r)
{
	const Choice c(r);
	switch (which) {
	case 0: update_set(tx, all.tags, c, text_of); break;
	case 1:
		if (c.what == 3)
			all.numbers.delete_range(tx, c.key, c.key + c.other % 4);
		else
			update_set(tx, all.numbers, c, same);
		break;
	case 2: update_multimap(tx, all.multi, c); break;
	case 3: update_owners(tx, all.owners, c, c.key, c.other); break;
	case 4: update_owners(tx, all.named, c, text_of(c.key), text_of(c.other)); break;
	default: update_pairs(tx, all.pairs, c);
	}
}

template <class Tx, class Map>
void walk(Tx *tx, const Map &map)
{
	for (const auto &entry : map.in(tx))
		(void)entry;
}

template <class Tx, class Map>
void read_owners(Tx *tx, const Map &map, const Choice &c)
{
	if (c.what % 2)
		return walk(tx, map);
	for (const auto &[key, owner] : map.in(tx)) {
		(void)owner->jobs.front(tx);
		for (const uint64_t number : owner->list.in(tx))
			(void)number;
	}
}

template <class Tx>
void read_collections(Tx *tx, const Collections &all, uint64_t which, uint64_t r)
{
	const Choice c(r);
	bool found[MANY];
	switch (which) {
	case 0:
		if (c.what % 2)
			return walk(tx, all.tags);
		(void)all.tags.contains_many(tx, c.many(text_of).data(), MANY, found);
		break;
	case 1:
		if (c.what % 2)
			return walk(tx, all.numbers);
		(void)all.numbers.contains_many(tx, c.many(same).data(), MANY, found);
		break;
	case 2:
		if (c.what % 2)
			return walk(tx, all.multi);
		(void)all.multi.count(tx, c.key % 8);
		break;
	case 3: read_owners(tx, all.owners, c); break;
	case 4: read_owners(tx, all.named, c); break;
	default:
		if (c.what % 2)
			return walk(tx, all.pairs);
		(void)all.pairs.get(tx, std::pair(c.key % 6, text_of(c.key)));
	}
}

/* Are they whole?  Adds the blocks that they own. */
inline std::string check_collections(const Collections &c, uint64_t &blocks)
{
	return first_wrong({check_one("hash_set", c.tags, blocks),
	        check_one("ordered_set", c.numbers, blocks), check_one("multimap", c.multi, blocks),
	        check_one("hash_map of owners", c.owners, blocks),
	        check_one("ordered_map of owners", c.named, blocks),
	        check_one("map of pairs", c.pairs, blocks)});
}

} // namespace explore

#endif /* EXPLORE_COLLECTIONS_HPP */
