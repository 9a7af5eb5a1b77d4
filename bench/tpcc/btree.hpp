/* SPDX-License-Identifier: BSD-3-Clause
 *
 * btree.hpp - B+trees of fan-out 8 from 8-byte keys to 8-byte values, on fur_load and fur_store,
 * for every transactional memory.
 *
 * Child i of an inner node holds the keys from key[i] on, up to key[i + 1]; key[0] of an inner node
 * is not looked at.  No leaf is empty, but that of an empty tree; an empty one is taken out of its
 * parent, and nodes are not merged otherwise.  No sibling links: scans come from above.  Every node
 * has cache lines of its own, so that only transactions that use the same node conflict.
 *
 * Free of write skew, so right under snapshot isolation: an update that changes the leaf of a key
 * (by a split of that leaf, or its removal) writes that leaf, and so does every insertion and
 * removal of a key in it, and every replacement of its value.  Likewise one level up: a node that
 * gains or loses a child is written, also when it is itself split or taken out.  If one update
 * relies on data that another changes, both write a common node.
 */
#ifndef TPCC_BTREE_HPP
#define TPCC_BTREE_HPP

#include <cstdint>
#include <fur.h>

namespace btree
{

enum : uint64_t { FANOUT = 8, MOST_LEVELS = 24 };

struct Node {
	uint64_t leaf, count;
	uint64_t key[FANOUT];
	uint64_t value[FANOUT]; /* of an inner node: child pointers */
};

struct alignas(128) Tree {
	Node *root;
};

struct NoMemory {
};

template <class Tx>
Node *child(Tx *tx, const Node *node, uint64_t i)
{
	return reinterpret_cast<Node *>(fur_load(tx, &node->value[i]));
}

/* In an inner node: the child that a key belongs to. */
template <class Tx>
uint64_t route(Tx *tx, const Node *node, uint64_t count, uint64_t key)
{
	uint64_t i = 1;
	while (i < count && fur_load(tx, &node->key[i]) <= key)
		i++;
	return i - 1;
}

/* In a leaf: the first place whose key is not smaller. */
template <class Tx>
uint64_t place(Tx *tx, const Node *leaf, uint64_t count, uint64_t key)
{
	uint64_t i = 0;
	while (i < count && fur_load(tx, &leaf->key[i]) < key)
		i++;
	return i;
}

/* From the root to the leaf of a key. */
struct Path {
	Node *node[MOST_LEVELS];
	uint64_t index[MOST_LEVELS], count[MOST_LEVELS];
	unsigned levels = 0;
};

template <class Tx>
Node *descend(Tx *tx, const Tree *tree, uint64_t key, Path &path)
{
	Node *at = fur_load(tx, &tree->root);
	while (at && !fur_load(tx, &at->leaf)) {
		uint64_t count = fur_load(tx, &at->count), i = route(tx, at, count, key);
		path.node[path.levels] = at;
		path.index[path.levels] = i;
		path.count[path.levels++] = count;
		at = child(tx, at, i);
	}
	return at;
}

/* The leaf that has the key at `i`; NULL: no leaf has it. */
template <class Tx>
Node *leaf_of(Tx *tx, const Tree *tree, uint64_t key, uint64_t &i)
{
	Path path;
	Node *leaf = descend(tx, tree, key, path);
	if (!leaf)
		return nullptr;
	uint64_t count = fur_load(tx, &leaf->count);
	i = place(tx, leaf, count, key);
	return i != count && fur_load(tx, &leaf->key[i]) == key ? leaf : nullptr;
}

template <class Tx>
bool find(Tx *tx, const Tree *tree, uint64_t key, uint64_t &value)
{
	uint64_t i;
	Node *leaf = leaf_of(tx, tree, key, i);
	if (!leaf)
		return false;
	value = fur_load(tx, &leaf->value[i]);
	return true;
}

/* The smallest key from `key` on. */
template <class Tx>
bool next(Tx *tx, const Tree *tree, uint64_t key, uint64_t &found, uint64_t &value)
{
	Path path;
	Node *leaf = descend(tx, tree, key, path);
	if (!leaf)
		return false;
	uint64_t count = fur_load(tx, &leaf->count), i = place(tx, leaf, count, key);
	while (i == count) {
		/* All of this leaf is smaller: the first leaf to its right. */
		while (path.levels &&
		        path.index[path.levels - 1] + 1 == path.count[path.levels - 1])
			path.levels--;
		if (!path.levels)
			return false;
		leaf = child(tx, path.node[path.levels - 1], path.index[path.levels - 1] + 1);
		while (!fur_load(tx, &leaf->leaf))
			leaf = child(tx, leaf, 0);
		count = fur_load(tx, &leaf->count);
		i = 0;
	}
	found = fur_load(tx, &leaf->key[i]);
	value = fur_load(tx, &leaf->value[i]);
	return true;
}

/* The largest key up to `key`. */
template <class Tx>
bool last(Tx *tx, const Tree *tree, uint64_t key, uint64_t &found, uint64_t &value)
{
	Path path;
	Node *leaf = descend(tx, tree, key, path);
	if (!leaf)
		return false;
	uint64_t count = fur_load(tx, &leaf->count), i = place(tx, leaf, count, key);
	if (i == count || fur_load(tx, &leaf->key[i]) != key) {
		if (i == 0) {
			while (path.levels && path.index[path.levels - 1] == 0)
				path.levels--;
			if (!path.levels)
				return false;
			leaf = child(
			        tx, path.node[path.levels - 1], path.index[path.levels - 1] - 1);
			while (!fur_load(tx, &leaf->leaf))
				leaf = child(tx, leaf, fur_load(tx, &leaf->count) - 1);
			i = fur_load(tx, &leaf->count);
		}
		i--;
	}
	found = fur_load(tx, &leaf->key[i]);
	value = fur_load(tx, &leaf->value[i]);
	return true;
}

template <class Tx>
Node *new_node(Tx *tx, bool leaf)
{
	auto *node = static_cast<Node *>(fur_alloc_aligned(tx, sizeof(Node), FUR_CACHE_LINE));
	if (!node)
		throw NoMemory();
	fur_store(tx, &node->leaf, uint64_t(leaf));
	return node;
}

template <class Tx>
void put_at(Tx *tx, Node *node, uint64_t count, uint64_t i, uint64_t key, uint64_t value)
{
	for (uint64_t k = count; k > i; k--) {
		fur_store(tx, &node->key[k], fur_load(tx, &node->key[k - 1]));
		fur_store(tx, &node->value[k], fur_load(tx, &node->value[k - 1]));
	}
	fur_store(tx, &node->key[i], key);
	fur_store(tx, &node->value[i], value);
	fur_store(tx, &node->count, count + 1);
}

/* Move the upper half of a full node to a new one. */
template <class Tx>
Node *split(Tx *tx, Node *node)
{
	Node *right = new_node(tx, fur_load(tx, &node->leaf) != 0);
	for (uint64_t k = FANOUT / 2; k < FANOUT; k++) {
		fur_store(tx, &right->key[k - FANOUT / 2], fur_load(tx, &node->key[k]));
		fur_store(tx, &right->value[k - FANOUT / 2], fur_load(tx, &node->value[k]));
	}
	fur_store(tx, &right->count, uint64_t(FANOUT / 2));
	fur_store(tx, &node->count, uint64_t(FANOUT / 2));
	return right;
}

/* False: the key is there. */
template <class Tx>
bool insert(Tx *tx, Tree *tree, uint64_t key, uint64_t value)
{
	Path path;
	Node *node = descend(tx, tree, key, path);
	if (!node) {
		node = new_node(tx, true);
		put_at(tx, node, 0, 0, key, value);
		fur_store(tx, &tree->root, node);
		return true;
	}
	uint64_t count = fur_load(tx, &node->count), i = place(tx, node, count, key);
	if (i < count && fur_load(tx, &node->key[i]) == key)
		return false;
	/* Up as long as nodes are full. */
	for (;;) {
		if (count < FANOUT) {
			put_at(tx, node, count, i, key, value);
			return true;
		}
		Node *right = split(tx, node);
		if (i <= FANOUT / 2)
			put_at(tx, node, FANOUT / 2, i, key, value);
		else
			put_at(tx, right, FANOUT / 2, i - FANOUT / 2, key, value);
		key = fur_load(tx, &right->key[0]);
		value = reinterpret_cast<uint64_t>(right);
		if (!path.levels) {
			Node *root = new_node(tx, false);
			put_at(tx, root, 0, 0, 0, reinterpret_cast<uint64_t>(node));
			put_at(tx, root, 1, 1, key, value);
			fur_store(tx, &tree->root, root);
			return true;
		}
		path.levels--;
		node = path.node[path.levels];
		count = path.count[path.levels];
		i = path.index[path.levels] + 1;
	}
}

/* Give a key another value.  False: the key is not there.  The leaf's count is promoted: a split or
 * a removal may move the entry without a store to its old place, but it stores the count. */
template <class Tx>
bool replace(Tx *tx, Tree *tree, uint64_t key, uint64_t value)
{
	uint64_t i;
	Node *leaf = leaf_of(tx, tree, key, i);
	if (!leaf)
		return false;
	fur_promote(tx, &leaf->count);
	fur_store(tx, &leaf->value[i], value);
	return true;
}

template <class Tx>
void take_out(Tx *tx, Node *node, uint64_t count, uint64_t i)
{
	for (uint64_t k = i; k + 1 < count; k++) {
		fur_store(tx, &node->key[k], fur_load(tx, &node->key[k + 1]));
		fur_store(tx, &node->value[k], fur_load(tx, &node->value[k + 1]));
	}
	fur_store(tx, &node->count, count - 1);
}

/* False: the key is not there. */
template <class Tx>
bool remove(Tx *tx, Tree *tree, uint64_t key)
{
	Path path;
	Node *node = descend(tx, tree, key, path);
	if (!node)
		return false;
	uint64_t count = fur_load(tx, &node->count), i = place(tx, node, count, key);
	if (i == count || fur_load(tx, &node->key[i]) != key)
		return false;
	take_out(tx, node, count, i);
	/* Up as long as nodes are empty. */
	while (count == 1) {
		fur_free(tx, node);
		if (!path.levels) {
			fur_store(tx, &tree->root, nullptr);
			return true;
		}
		path.levels--;
		node = path.node[path.levels];
		count = path.count[path.levels];
		take_out(tx, node, count, path.index[path.levels]);
	}
	return true;
}

/* f(key, value) for all, in order; and is the tree one?  Returns what is wrong, or null. */
template <class Tx, class F>
const char *each(Tx *tx, const Node *node, uint64_t low, uint64_t high, F &&f)
{
	uint64_t count = fur_load(tx, &node->count);
	bool leaf = fur_load(tx, &node->leaf) != 0;
	if (reinterpret_cast<uintptr_t>(node) % FUR_CACHE_LINE)
		return "a node shares its cache lines";
	if (count == 0 || count > FANOUT)
		return "a node has no entries, or too many";
	for (uint64_t i = 0; i < count; i++) {
		uint64_t key = fur_load(tx, &node->key[i]), value = fur_load(tx, &node->value[i]);
		uint64_t from = leaf || i ? key : low,
		         upto = i + 1 < count ? fur_load(tx, &node->key[i + 1]) : high;
		if ((leaf || i) && (key < low || key >= high || (i + 1 < count && key >= upto)))
			return "keys are out of order";
		if (leaf)
			f(key, value);
		else if (const char *wrong =
		                 each(tx, reinterpret_cast<const Node *>(value), from, upto, f))
			return wrong;
	}
	return nullptr;
}

template <class Tx, class F>
const char *each(Tx *tx, const Tree *tree, F &&f)
{
	const Node *root = fur_load(tx, &tree->root);
	return root ? each(tx, root, 0, UINT64_MAX, f) : nullptr;
}

} // namespace btree

#endif /* TPCC_BTREE_HPP */
