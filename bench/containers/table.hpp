/* SPDX-License-Identifier: BSD-3-Clause
 *
 * table.hpp - a hash table of a program's own: slots that point to chains of nodes.  It looks n
 * keys up in three ways: one by one; in groups by hand, as get_many() of the maps does; and by
 * coroutines that fur::interleave() runs.
 */
#ifndef BENCH_CONTAINERS_TABLE_HPP
#define BENCH_CONTAINERS_TABLE_HPP

#include <fur/interleave.hpp>

#include <algorithm>
#include <bit>

namespace containers
{

class Table
{
public:
	/* Call it once, for up to `keys` keys. */
	void make_slots(fur_update *tx, uint64_t keys)
	{
		const uint64_t n = std::bit_ceil(keys);
		fur_store(tx, &slots_, fur::make_array<Node *>(tx, n));
		fur_store(tx, &mask_, n - 1);
	}
	/* The key is not there yet. */
	void insert(fur_update *tx, uint64_t key, uint64_t value)
	{
		Node **slot = slot_of(tx, key);
		fur_store(tx, slot, fur::make<Node>(tx, key, value, fur_load(tx, slot)));
	}
	/* Each calls f(value) for those of the n keys that are there. */
	template <class Tx, class F>
	void one_by_one(Tx *tx, const uint64_t *keys, size_t n, F f) const
	{
		for (size_t i = 0; i < n; i++)
			if (const Node *node =
			                find(tx, fur_load(tx, slot_of(tx, keys[i])), keys[i]))
				f(fur_load(tx, &node->value));
	}
	template <class Tx, class F>
	void grouped(Tx *tx, const uint64_t *keys, size_t n, F f) const
	{
		for (size_t from = 0; from < n; from += GROUP)
			group(tx, keys + from, std::min<size_t>(n - from, GROUP), f);
	}
	template <class Tx, class F>
	void interleaved(Tx *tx, const uint64_t *keys, size_t n, F f) const
	{
		fur::interleave(n, [&](size_t i) -> fur::task {
			Node *const *slot = slot_of(tx, keys[i]);
			co_await fur::prefetch(tx, slot, sizeof(Node *));
			for (const Node *node = fur_load(tx, slot); node;
			        node = fur_load(tx, &node->next)) {
				co_await fur::prefetch(tx, node, sizeof(Node));
				if (fur_load(tx, &node->key) != keys[i])
					continue;
				f(fur_load(tx, &node->value));
				break;
			}
		});
	}

private:
	enum : size_t { GROUP = 16 }; /* as many as interleave() has under way */
	struct Node {
		uint64_t key, value;
		Node *next;
	};

	/* The benchmark's keys are hashes already. */
	template <class Tx>
	Node **slot_of(Tx *tx, uint64_t key) const
	{
		return fur_load(tx, &slots_) + (key & fur_load(tx, &mask_));
	}
	template <class Tx>
	static const Node *find(Tx *tx, const Node *node, uint64_t key)
	{
		while (node && fur_load(tx, &node->key) != key)
			node = fur_load(tx, &node->next);
		return node;
	}
	/* At most GROUP keys: all searches take each step in turn. */
	template <class Tx, class F>
	void group(Tx *tx, const uint64_t *keys, size_t n, F f) const
	{
		Node *const *slots[GROUP];
		struct Search {
			const Node *node;
			uint64_t key;
		} open[GROUP];
		for (size_t i = 0; i < n; i++) {
			slots[i] = slot_of(tx, keys[i]);
			fur_prefetch(tx, slots[i], sizeof(Node *));
		}
		size_t left = 0;
		const auto wait = [&](const Node *node, uint64_t key) {
			if (!node)
				return;
			fur_prefetch(tx, node, sizeof(Node));
			open[left++] = {node, key};
		};
		for (size_t i = 0; i < n; i++)
			wait(fur_load(tx, slots[i]), keys[i]);
		while (left) {
			const size_t some = left;
			left = 0;
			for (size_t i = 0; i < some; i++) {
				const auto [node, key] = open[i];
				if (fur_load(tx, &node->key) == key)
					f(fur_load(tx, &node->value));
				else
					wait(fur_load(tx, &node->next), key);
			}
		}
	}

	uint64_t mask_ = 0;
	Node **slots_ = nullptr;
};

} // namespace containers

#endif /* BENCH_CONTAINERS_TABLE_HPP */
