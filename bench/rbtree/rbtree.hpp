/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rbtree.hpp - a set of integers as a red-black tree, written once, on fur_load and fur_store, for
 * every transactional memory.  After Cormen, Leiserson, Rivest, Stein, "Introduction to
 * Algorithms", chapter 13, with null leaves: where the book colours the sentinel's parent, the
 * deletion here carries the parent along.
 *
 * Right under snapshot isolation too: where an update relies on what it read and does not write, it
 * promotes the read, so that of two updates that would be right alone and wrong together one
 * aborts.  It promotes two reads: of a black node that makes a red neighbour lawful, and of a node
 * that is taken out (another update may be adding a child to it).  A node's words share a line, so
 * one stands for all.
 *
 * Every node has cache lines of its own.  The first nodes of a tree are its top, which each
 * transaction loads; without lines of their own, a store to a leaf next to one of them would
 * conflict with all transactions.
 *
 * Every function takes the open transaction first.  `Tx` is fur_ro, fur_update, or another system's
 * type with overloads of fur_load, fur_store, fur_alloc_aligned and fur_free.
 */
#ifndef RBTREE_HPP
#define RBTREE_HPP

#include "intset.hpp"
#include <cstdint>
#include <fur.h>
#if defined(FUR_EMULATED)
#include "../../emulator/emulated.h"
#endif

namespace rbtree
{

/* Random keys go left as often as right: a branch that no processor predicts.  The emulated
 * machine, which predicts all branches, is told of it. */
inline void branch_on_key()
{
#if defined(FUR_EMULATED)
	emu_unpredictable_branch();
#endif
}

enum Colour : uint64_t { BLACK, RED };

struct Node {
	int64_t key;
	Node *left, *right, *parent;
	Colour colour;
};

struct Tree {
	Node *root;
};

template <class Tx>
Node *find(Tx *tx, const Tree *tree, int64_t key)
{
	Node *at = fur_load(tx, &tree->root);
	while (at) {
		int64_t here = fur_load(tx, &at->key);
		if (here == key)
			break;
		branch_on_key();
		at = key < here ? fur_load(tx, &at->left) : fur_load(tx, &at->right);
	}
	return at;
}

template <class Tx>
bool contains(Tx *tx, const Tree *tree, int64_t key)
{
	return find(tx, tree, key) != nullptr;
}

template <class Tx>
bool is_red(Tx *tx, const Node *node)
{
	return node && fur_load(tx, &node->colour) == RED;
}

/* A word is stored only where it changes: a store is a log entry, and a conflict. */
template <class Tx>
void paint(Tx *tx, Node *node, Colour colour)
{
	if (fur_load(tx, &node->colour) != colour)
		fur_store(tx, &node->colour, colour);
}

/* The update relies on the node's being as it was read. */
template <class Tx>
void rely_on(Tx *tx, Node *node)
{
	if (node)
		fur_promote(tx, &node->colour);
}

/* Put `with` where `node` hangs from `parent`. */
template <class Tx>
void replace_child(Tx *tx, Tree *tree, Node *parent, Node *node, Node *with)
{
	if (!parent)
		fur_store(tx, &tree->root, with);
	else if (fur_load(tx, &parent->left) == node)
		fur_store(tx, &parent->left, with);
	else
		fur_store(tx, &parent->right, with);
}

/* Left and right are mirror images: `near` is the side `node` gives up, as a pointer to member. */
template <class Tx>
void rotate(Tx *tx, Tree *tree, Node *node, Node *Node::*down, Node *Node::*up)
{
	/* `up`'s child rises over node; its `down` child moves under node. */
	Node *child = fur_load(tx, &(node->*up)), *inner = fur_load(tx, &(child->*down)),
	     *parent = fur_load(tx, &node->parent);
	fur_store(tx, &(node->*up), inner);
	if (inner)
		fur_store(tx, &inner->parent, node);
	fur_store(tx, &child->parent, parent);
	replace_child(tx, tree, parent, node, child);
	fur_store(tx, &(child->*down), node);
	fur_store(tx, &node->parent, child);
}

template <class Tx>
void repair_insert(Tx *tx, Tree *tree, Node *node)
{
	Node *parent;
	while ((parent = fur_load(tx, &node->parent)) && is_red(tx, parent)) {
		Node *grand = fur_load(tx, &parent->parent);
		bool left = fur_load(tx, &grand->left) == parent;
		Node *Node::*near = left ? &Node::left : &Node::right,
		     *Node::*far = left ? &Node::right : &Node::left;
		Node *uncle = fur_load(tx, &(grand->*far));
		if (is_red(tx, uncle)) {
			paint(tx, parent, BLACK);
			paint(tx, uncle, BLACK);
			paint(tx, grand, RED);
			node = grand;
			continue;
		}
		rely_on(tx, uncle); /* black, under a grandparent that turns red */
		if (fur_load(tx, &(parent->*far)) == node) {
			rotate(tx, tree, parent, near, far);
			node = parent;
			parent = fur_load(tx, &node->parent);
		}
		paint(tx, parent, BLACK);
		paint(tx, grand, RED);
		rotate(tx, tree, grand, far, near);
	}
	rely_on(tx, parent); /* black, over a red node */
	paint(tx, fur_load(tx, &tree->root), BLACK);
}

using intset::Result;

template <class Tx>
Result insert(Tx *tx, Tree *tree, int64_t key)
{
	Node *parent = nullptr, *at = fur_load(tx, &tree->root);
	int64_t here = 0;
	while (at) {
		parent = at;
		here = fur_load(tx, &at->key);
		if (here == key)
			return Result::UNCHANGED;
		branch_on_key();
		at = key < here ? fur_load(tx, &at->left) : fur_load(tx, &at->right);
	}
	auto *node = static_cast<Node *>(fur_alloc_aligned(tx, sizeof(Node), FUR_CACHE_LINE));
	if (!node)
		return Result::NO_MEMORY;
	fur_store(tx, &node->key, key);
	fur_store(tx, &node->left, nullptr);
	fur_store(tx, &node->right, nullptr);
	fur_store(tx, &node->parent, parent);
	fur_store(tx, &node->colour, RED);
	if (!parent)
		fur_store(tx, &tree->root, node);
	else
		fur_store(tx, key < here ? &parent->left : &parent->right, node);
	repair_insert(tx, tree, node);
	return Result::CHANGED;
}

/* `node`, which may be null, hangs from `parent` and lacks one black. */
template <class Tx>
void repair_remove(Tx *tx, Tree *tree, Node *node, Node *parent)
{
	while (parent && !is_red(tx, node)) {
		bool left = fur_load(tx, &parent->left) == node;
		Node *Node::*near = left ? &Node::left : &Node::right,
		     *Node::*far = left ? &Node::right : &Node::left;
		Node *sibling = fur_load(tx, &(parent->*far));
		if (is_red(tx, sibling)) {
			paint(tx, sibling, BLACK);
			paint(tx, parent, RED);
			rotate(tx, tree, parent, near, far);
			sibling = fur_load(tx, &(parent->*far));
		}
		Node *inner = fur_load(tx, &(sibling->*near)),
		     *outer = fur_load(tx, &(sibling->*far));
		if (!is_red(tx, inner) && !is_red(tx, outer)) {
			rely_on(tx, inner); /* black, both, under a sibling that turns red */
			rely_on(tx, outer);
			paint(tx, sibling, RED);
			node = parent;
			parent = fur_load(tx, &node->parent);
			continue;
		}
		if (!is_red(tx, outer)) {
			rely_on(tx, outer); /* as above */
			paint(tx, inner, BLACK);
			paint(tx, sibling, RED);
			rotate(tx, tree, sibling, far, near);
			outer = sibling;
			sibling = inner;
		}
		paint(tx, sibling, fur_load(tx, &parent->colour));
		paint(tx, parent, BLACK);
		paint(tx, outer, BLACK);
		rotate(tx, tree, parent, near, far);
		return;
	}
	if (node)
		paint(tx, node, BLACK);
}

/* Unlink a node that has one child at most; repair. */
template <class Tx>
void unlink(Tx *tx, Tree *tree, Node *node)
{
	Node *left = fur_load(tx, &node->left), *child = left ? left : fur_load(tx, &node->right),
	     *parent = fur_load(tx, &node->parent);
	rely_on(tx, node); /* it is removed: no other update may add a child to it */
	replace_child(tx, tree, parent, node, child);
	if (child)
		fur_store(tx, &child->parent, parent);
	if (fur_load(tx, &node->colour) == BLACK)
		repair_remove(tx, tree, child, parent);
}

template <class Tx>
Result remove(Tx *tx, Tree *tree, int64_t key)
{
	Node *node = find(tx, tree, key);
	if (!node)
		return Result::UNCHANGED;
	Node *next = fur_load(tx, &node->right);
	if (next && fur_load(tx, &node->left)) {
		/* Two children: its successor has one at most, and gives its key. */
		while (Node *left = fur_load(tx, &next->left))
			next = left;
		fur_store(tx, &node->key, fur_load(tx, &next->key));
		node = next;
	}
	unlink(tx, tree, node);
	fur_free(tx, node);
	return Result::CHANGED;
}

/* ------------------------------------------------------------ verification */

/* What is wrong with the tree, or null.  `size` counts its nodes. */
template <class Tx>
const char *verify(Tx *tx, const Node *node, const Node *parent, const int64_t *low,
        const int64_t *high, int &black, uint64_t &size)
{
	black = 1;
	if (!node)
		return nullptr;
	if (reinterpret_cast<uintptr_t>(node) % FUR_CACHE_LINE)
		return "a node shares its cache line";
	int64_t key = fur_load(tx, &node->key);
	size++;
	if (fur_load(tx, &node->parent) != parent)
		return "a parent link is wrong";
	if ((low && key <= *low) || (high && key >= *high))
		return "keys are out of order";
	if (is_red(tx, node) && is_red(tx, parent))
		return "a red node has a red parent";
	int left, right;
	const char *wrong = verify(tx, fur_load(tx, &node->left), node, low, &key, left, size);
	if (!wrong)
		wrong = verify(tx, fur_load(tx, &node->right), node, &key, high, right, size);
	if (!wrong && left != right)
		wrong = "two paths have different numbers of black nodes";
	black = left + !is_red(tx, node);
	return wrong;
}

template <class Tx>
const char *verify(Tx *tx, const Tree *tree, uint64_t &size)
{
	int black;
	size = 0;
	const Node *root = fur_load(tx, &tree->root);
	if (is_red(tx, root))
		return "the root is red";
	return verify(tx, root, static_cast<const Node *>(nullptr), nullptr, nullptr, black, size);
}

} // namespace rbtree

#endif /* RBTREE_HPP */
