/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tree.hpp - the red-black tree of bench/rbtree/rbtree.hpp, written as a program writes it that
 * does not know of libfur: with plain loads and assignments, which GCC turns into transactional
 * ones.  Only memory comes from fur_itm_alloc() and fur_itm_free().
 */
#ifndef ITM_TREE_HPP
#define ITM_TREE_HPP

#include <cstdint>
#include <fur_itm.h>

namespace tree
{

#define TREE_SAFE __attribute__((transaction_safe))

struct Node {
	long key;
	Node *child[2], *parent;
	long red;
};

struct Tree {
	Node *root;
	uint64_t clock; /* updates so far, if the program counts them */
};

TREE_SAFE inline bool is_red(const Node *node)
{
	return node && node->red;
}

TREE_SAFE inline Node *find(const Tree *tree, long key)
{
	Node *at = tree->root;
	while (at && at->key != key)
		at = at->child[key > at->key];
	return at;
}

TREE_SAFE inline void replace_child(Tree *tree, Node *parent, Node *node, Node *with)
{
	if (!parent)
		tree->root = with;
	else
		parent->child[parent->child[1] == node] = with;
}

/* The child on the other side rises over the node, which goes down on `side`. */
TREE_SAFE inline void rotate(Tree *tree, Node *node, int side)
{
	Node *up = node->child[!side], *inner = up->child[side], *parent = node->parent;
	node->child[!side] = inner;
	if (inner)
		inner->parent = node;
	up->parent = parent;
	replace_child(tree, parent, node, up);
	up->child[side] = node;
	node->parent = up;
}

TREE_SAFE inline void repair_insert(Tree *tree, Node *node)
{
	Node *parent;
	while ((parent = node->parent) && parent->red) {
		Node *grand = parent->parent;
		int side = grand->child[1] == parent;
		Node *uncle = grand->child[!side];
		if (is_red(uncle)) {
			parent->red = uncle->red = 0;
			grand->red = 1;
			node = grand;
			continue;
		}
		if (parent->child[!side] == node) {
			rotate(tree, parent, side);
			node = parent;
			parent = node->parent;
		}
		parent->red = 0;
		grand->red = 1;
		rotate(tree, grand, !side);
	}
	tree->root->red = 0;
}

/* Returns: true if it was not there. */
TREE_SAFE inline bool insert(Tree *tree, long key)
{
	Node *parent = nullptr;
	for (Node *at = tree->root; at; at = at->child[key > at->key]) {
		if (at->key == key)
			return false;
		parent = at;
	}
	Node *node = static_cast<Node *>(fur_itm_alloc_aligned(sizeof *node, FUR_CACHE_LINE));
	node->key = key;
	node->child[0] = node->child[1] = nullptr;
	node->parent = parent;
	node->red = 1;
	if (!parent)
		tree->root = node;
	else
		parent->child[key > parent->key] = node;
	repair_insert(tree, node);
	return true;
}

/* `node`, which may be null, hangs from `parent` and lacks one black. */
TREE_SAFE inline void repair_remove(Tree *tree, Node *node, Node *parent)
{
	while (parent && !is_red(node)) {
		int side = parent->child[1] == node;
		Node *sibling = parent->child[!side];
		if (sibling->red) {
			sibling->red = 0;
			parent->red = 1;
			rotate(tree, parent, side);
			sibling = parent->child[!side];
		}
		Node *inner = sibling->child[side], *outer = sibling->child[!side];
		if (!is_red(inner) && !is_red(outer)) {
			sibling->red = 1;
			node = parent;
			parent = node->parent;
			continue;
		}
		if (!is_red(outer)) {
			inner->red = 0;
			sibling->red = 1;
			rotate(tree, sibling, !side);
			outer = sibling;
			sibling = inner;
		}
		sibling->red = parent->red;
		parent->red = 0;
		outer->red = 0;
		rotate(tree, parent, side);
		return;
	}
	if (node)
		node->red = 0;
}

/* Returns: true if it was there. */
TREE_SAFE inline bool remove(Tree *tree, long key)
{
	Node *node = find(tree, key);
	if (!node)
		return false;
	if (node->child[0] && node->child[1]) {
		/* Its successor has one child at most, and gives its key. */
		Node *next = node->child[1];
		while (next->child[0])
			next = next->child[0];
		node->key = next->key;
		node = next;
	}
	Node *child = node->child[node->child[0] == nullptr], *parent = node->parent;
	replace_child(tree, parent, node, child);
	if (child)
		child->parent = parent;
	if (!node->red)
		repair_remove(tree, child, parent);
	fur_itm_free(node);
	return true;
}

/* What is wrong with the part of the tree below `node`, or null.  No transaction runs. */
inline const char *verify(
        const Node *node, const Node *parent, const long *low, const long *high, int &black)
{
	black = 1;
	if (!node)
		return nullptr;
	if (node->parent != parent)
		return "a parent link is wrong";
	if ((low && node->key <= *low) || (high && node->key >= *high))
		return "keys are out of order";
	if (node->red && is_red(parent))
		return "a red node has a red parent";
	int left, right;
	const char *wrong = verify(node->child[0], node, low, &node->key, left);
	if (!wrong)
		wrong = verify(node->child[1], node, &node->key, high, right);
	if (!wrong && left != right)
		wrong = "two paths have different numbers of black nodes";
	black = left + !node->red;
	return wrong;
}

inline const char *verify(const Tree *tree)
{
	int black;
	if (is_red(tree->root))
		return "the root is red";
	return verify(tree->root, nullptr, nullptr, nullptr, black);
}

} // namespace tree

#endif /* ITM_TREE_HPP */
