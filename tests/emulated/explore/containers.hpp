/* SPDX-License-Identifier: BSD-3-Clause
 *
 * containers.hpp - the workload on libfur's containers (include/fur).  The seed chooses one of them
 * for a run.  Nodes are small, so that a few keys split them, and tables grow and get others below
 * them.
 */
#ifndef EXPLORE_CONTAINERS_HPP
#define EXPLORE_CONTAINERS_HPP

#include <fur/root.hpp>
#include <initializer_list>

namespace explore
{

enum : uint64_t { CONTAINERS = 6, MAP_KEYS = 40 };

struct Containers {
	alignas(128) fur::hash_map<uint64_t, uint64_t, 2> hash;
	alignas(128) fur::ordered_map<uint64_t, uint64_t, 3> ordered;
	alignas(128) fur::hash_map<fur::string, fur::string, 2> text;
	alignas(128) fur::ordered_map<fur::string, fur::string, 3> ordered_text;
	alignas(128) fur::vector<fur::string> vector;
	alignas(128) fur::queue<uint64_t> queue;
};

/* Text of 4 to 32 bytes, so some of it in blocks. */
inline std::string text_of(uint64_t number)
{
	return std::string(number % 8 * 4, 't') + "k" + std::to_string(100 + number % 900);
}

template <class Tx, class Map, class Key, class Value>
void update_map(Tx *tx, Map &map, uint64_t r, const Key &key, const Key &other, const Value &value)
{
	switch (r % 8) {
	case 0:
	case 1:
	case 2: map.insert_or_assign(tx, key, value); break;
	case 3:
	case 4: map.erase(tx, key); break;
	case 5: /* each key relies on the other one */
		if (!map.contains(tx, other))
			map.insert(tx, key, value);
		break;
	case 6:
		if (auto there = map.get(tx, key); there && map.erase(tx, key))
			map.insert(tx, other, *there);
		break;
	default: map.modify(tx, key, [&](auto &there) { there = value; });
	}
}

template <class Tx>
void update_containers(Tx *tx, Containers &c, uint64_t which, uint64_t r)
{
	const uint64_t key = (r >> 8) % MAP_KEYS, other = (r >> 16) % MAP_KEYS, value = r >> 24;
	switch (which) {
	case 0: update_map(tx, c.hash, r, key, other, value); break;
	case 1: update_map(tx, c.ordered, r, key, other, value); break;
	case 2: update_map(tx, c.text, r, text_of(key), text_of(other), text_of(value)); break;
	case 3:
		update_map(tx, c.ordered_text, r, text_of(key), text_of(other), text_of(value));
		break;
	case 4:
		if (r % 4 < 2 || c.vector.empty(tx))
			c.vector.push_back(tx, text_of(value));
		else if (r % 4 == 2)
			c.vector.pop_back(tx);
		else
			c.vector.set(tx, key % c.vector.size(tx), text_of(value));
		break;
	default:
		if (r % 2)
			c.queue.push(tx, value);
		else
			(void)c.queue.pop(tx);
	}
}

template <class Tx, class Map, class Key>
void read_map(Tx *tx, const Map &map, uint64_t r, const Key &key, const Key &other)
{
	if (r % 4 == 0) {
		for (const auto &entry : map.in(tx))
			(void)entry;
		return;
	}
	(void)map.get(tx, key);
	(void)map.contains(tx, other);
}

template <class Tx>
void read_containers(Tx *tx, const Containers &c, uint64_t which, uint64_t r)
{
	const uint64_t key = (r >> 8) % MAP_KEYS, other = (r >> 16) % MAP_KEYS;
	switch (which) {
	case 0: read_map(tx, c.hash, r, key, other); break;
	case 1: read_map(tx, c.ordered, r, key, other); break;
	case 2: read_map(tx, c.text, r, text_of(key), text_of(other)); break;
	case 3: read_map(tx, c.ordered_text, r, text_of(key), text_of(other)); break;
	case 4:
		for (const auto &element : c.vector.in(tx))
			(void)element;
		break;
	default: (void)c.queue.front(tx); (void)c.queue.size(tx);
	}
}

/* What is wrong with a container, by its own check.  Adds the blocks that it owns. */
template <class Container>
std::string check_one(const char *name, const Container &container, uint64_t &blocks)
{
	uint64_t n = 0;
	const char *wrong = container.verify(static_cast<fur_ro *>(nullptr), n);
	blocks += n;
	return wrong ? std::string("the ") + name + ": " + wrong : "";
}
/* The first of the texts that says something. */
inline std::string first_wrong(std::initializer_list<std::string> texts)
{
	for (const std::string &text : texts)
		if (!text.empty())
			return text;
	return "";
}

/* Are they whole?  Adds the blocks that they own. */
inline std::string check_containers(const Containers &c, uint64_t &blocks)
{
	return first_wrong({check_one("hash_map", c.hash, blocks),
	        check_one("ordered_map", c.ordered, blocks),
	        check_one("hash_map of strings", c.text, blocks),
	        check_one("ordered_map of strings", c.ordered_text, blocks),
	        check_one("vector", c.vector, blocks), check_one("queue", c.queue, blocks)});
}

} // namespace explore

#endif /* EXPLORE_CONTAINERS_HPP */
