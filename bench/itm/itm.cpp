/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itm.cpp - the price of GCC's transactions: a red-black tree with fur_load and fur_store
 * (bench/rbtree/rbtree.hpp), and one of plain loads and assignments (tree.hpp), on equal heaps.  A
 * look-up is a read-only transaction in both, and each update inserts a key or removes it.
 */
#include "../common/google_main.hpp"
#include "../rbtree/rbtree.hpp"
#include "tree.hpp"

#include <benchmark/benchmark.h>
#include <fur.hpp>
#include <memory>
#include <random>
#include <unistd.h>

namespace
{

constexpr long KEYS = 20000; /* half of them are in the tree */

class Heap
{
public:
	Heap() : path_("/dev/shm/fur-itm-" + std::to_string(getpid())), heap(create(path_))
	{
		fur::Thread self(heap);
		fur::check(fur_itm_use(heap));
		fur::update(self, [&](fur_update *tx) {
			by_hand = fur::make<rbtree::Tree>(tx);
			by_gcc = fur::make<tree::Tree>(tx);
		});
	}
	~Heap()
	{
		if (fur_itm_use(nullptr))
			return; /* NULL is not refused */
		unlink(path_.c_str());
	}
	static fur::Heap create(const std::string &path)
	{
		fur::Options o;
		o.pm = FUR_PM_EMULATED;
		return fur::Heap::create(path, o);
	}

private:
	std::string path_;

public:
	fur::Heap heap;
	rbtree::Tree *by_hand;
	tree::Tree *by_gcc;
};
std::unique_ptr<Heap> shared;

bool look_up_by_gcc(const tree::Tree *tree, long key)
{
	const tree::Node *at;
	__transaction_atomic
	{
		at = tree->root;
		while (at && at->key != key)
			at = at->child[key > at->key];
	}
	return at != nullptr;
}

void update_by_gcc(tree::Tree *tree, bool insert, long key)
{
	__transaction_atomic
	{
		if (insert)
			tree::insert(tree, key);
		else
			tree::remove(tree, key);
	}
}

bool look_up_by_hand(fur_thread *self, const rbtree::Tree *tree, long key)
{
	return fur::read(
	        self, fur::rerun, [&](auto *tx) { return rbtree::contains(tx, tree, key); });
}

void update_by_hand(fur_thread *self, rbtree::Tree *tree, bool insert, long key)
{
	fur::update(self, fur::rerun, [&](fur_update *tx) {
		if (insert)
			rbtree::insert(tx, tree, key);
		else
			rbtree::remove(tx, tree, key);
	});
}

void make_trees(const benchmark::State &)
{
	shared = std::make_unique<Heap>();
	fur::Thread self(shared->heap);
	for (long key = 0; key < KEYS; key += 2) {
		/* Not in order, which would make trees of another shape than random keys do. */
		long mixed = key * 7919 % KEYS;
		update_by_hand(self, shared->by_hand, true, mixed);
		update_by_gcc(shared->by_gcc, true, mixed);
	}
}

void drop_trees(const benchmark::State &)
{
	shared.reset();
}

/* `updates` of 100 operations are updates. */
void run(benchmark::State &state, unsigned updates, bool gcc)
{
	std::mt19937_64 random(static_cast<unsigned>(state.thread_index()));
	fur::Thread self(shared->heap);
	const Heap *heap = shared.get();
	for (auto _ : state) {
		long key = static_cast<long>(random() % KEYS);
		bool insert = random() % 2;
		if (random() % 100 >= updates)
			benchmark::DoNotOptimize(gcc ? look_up_by_gcc(heap->by_gcc, key)
			                             : look_up_by_hand(self, heap->by_hand, key));
		else if (gcc)
			update_by_gcc(heap->by_gcc, insert, key);
		else
			update_by_hand(self, heap->by_hand, insert, key);
	}
}
void look_up(benchmark::State &state, bool gcc)
{
	run(state, 0, gcc);
}
void update(benchmark::State &state, bool gcc)
{
	run(state, 100, gcc);
}
void mixed(benchmark::State &state, bool gcc)
{
	run(state, 10, gcc);
}

#define ITM_BENCHMARK(function, name, gcc)                                                         \
	BENCHMARK_CAPTURE(function, name, gcc)                                                     \
	        ->Setup(make_trees)                                                                \
	        ->Teardown(drop_trees)                                                             \
	        ->ThreadRange(1, 2)                                                                \
	        ->UseRealTime()
ITM_BENCHMARK(look_up, by_hand, false);
ITM_BENCHMARK(look_up, by_gcc, true);
ITM_BENCHMARK(update, by_hand, false);
ITM_BENCHMARK(update, by_gcc, true);
ITM_BENCHMARK(mixed, by_hand, false);
ITM_BENCHMARK(mixed, by_gcc, true);

} // namespace
