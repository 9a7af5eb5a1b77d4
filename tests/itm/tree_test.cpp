/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tree_test.cpp - several threads change and search a tree of plain assignments, in transactions of
 * GCC.  Three judges:
 *
 *   history   Each update counts itself in the tree, so the count tells the order of all updates,
 *             and after which of them a search came.  Carried out in that order on a std::set, each
 *             operation must have the result that its transaction had.
 *   model     Without the count, each thread has keys of its own, and knows what they must be.
 *   kill      A process is killed while its threads change the tree.  After recovery each thread's
 *             keys are as after its last acknowledged operation, or after the one in flight.
 *
 * After each, the tree must be a red-black tree with the right keys.
 */
#include "../../bench/itm/tree.hpp"
#include "fixture.hpp"

#include <algorithm>
#include <csignal>
#include <gtest/gtest-spi.h>
#include <random>
#include <sched.h>
#include <set>
#include <sys/mman.h>

namespace
{

using tree::Tree;

enum { THREADS = 4, KEYS = 64, SEED = 7 };

struct Operation {
	enum Kind { INSERT, REMOVE, SEARCH } kind;
	long key;
	bool result;
	uint64_t clock; /* as the transaction left it */
};

class TreeTest : public HeapFile
{
protected:
	static fur::Options options()
	{
		fur::Options o = itm_options();
		o.heap_bytes = 4 << 20;
		return o;
	}
	static Tree *make_tree(fur_heap *heap)
	{
		Tree *made;
		fur::check(fur_itm_use(heap));
		__transaction_atomic
		{
			made = static_cast<Tree *>(fur_itm_alloc(sizeof *made));
			made->root = nullptr;
			made->clock = 0;
			fur_itm_set_root(0, made);
		}
		return made;
	}
	static void expect_keys(const Tree *tree, const std::set<long> &expected)
	{
		std::set<long> found;
		collect(tree->root, found);
		EXPECT_EQ(tree::verify(tree), nullptr);
		EXPECT_EQ(found, expected);
	}
	static void collect(const tree::Node *node, std::set<long> &keys)
	{
		if (!node)
			return;
		collect(node->child[0], keys);
		keys.insert(node->key);
		collect(node->child[1], keys);
	}
	template <class Work>
	static void in_threads(Work work)
	{
		std::vector<std::thread> threads;
		for (int t = 0; t < THREADS; t++)
			threads.emplace_back(work, t);
		for (std::thread &t : threads)
			t.join();
	}
};

/* ------------------------------------------------------------ transactions */

/* Let others run in the middle of a transaction now and then, so that they meet. */
PURE void maybe_yield()
{
	enum { EVERY = 5 };
	static thread_local unsigned calls;
	if (++calls % EVERY == 0)
		sched_yield();
}

bool change(Tree *tree, Operation::Kind kind, long key)
{
	bool result;
	__transaction_atomic
	{
		result = kind == Operation::INSERT ? tree::insert(tree, key)
		                                   : tree::remove(tree, key);
	}
	return result;
}

bool change_and_count(Tree *tree, Operation::Kind kind, long key, uint64_t &clock)
{
	bool result;
	uint64_t count;
	__transaction_atomic
	{
		count = ++tree->clock;
		maybe_yield();
		result = kind == Operation::INSERT ? tree::insert(tree, key)
		                                   : tree::remove(tree, key);
	}
	clock = count;
	return result;
}

/* Its only call is of pure code, so GCC finds out that it only reads. */
bool search(const Tree *tree, long key, uint64_t &clock)
{
	const tree::Node *at;
	uint64_t count;
	__transaction_atomic
	{
		count = tree->clock;
		maybe_yield();
		at = tree->root;
		while (at && at->key != key)
			at = at->child[key > at->key];
	}
	clock = count;
	return at != nullptr;
}

/* ------------------------------------------------------------ history */

/* Carry the operations out in their order.  Returns: the keys at the end. */
std::set<long> replay(const std::vector<Operation> &updates, const std::vector<Operation> &searches)
{
	std::set<long> model;
	size_t next = 0;
	for (uint64_t clock = 0; clock <= updates.size(); clock++) {
		if (clock) {
			const Operation &u = updates[clock - 1];
			EXPECT_EQ(u.clock, clock) << "two updates with one number, or a gap";
			bool result = u.kind == Operation::INSERT ? model.insert(u.key).second
			                                          : model.erase(u.key) != 0;
			EXPECT_EQ(u.result, result) << "update " << clock << ", key " << u.key;
		}
		for (; next < searches.size() && searches[next].clock == clock; next++)
			EXPECT_EQ(searches[next].result, model.count(searches[next].key) != 0)
			        << "search after " << clock << ", key " << searches[next].key;
	}
	EXPECT_EQ(next, searches.size());
	return model;
}

TEST_F(TreeTest, EachOperation_FitsAnOrderOfAll)
{
	enum { ROUNDS = 3000 };
	fur::Heap heap = create(options());
	Tree *tree = make_tree(heap);
	std::vector<Operation> done[THREADS];
	in_threads([&](int thread) {
		std::mt19937_64 random(SEED + static_cast<unsigned>(thread));
		for (int k = 0; k < ROUNDS; k++) {
			Operation o{};
			o.kind = static_cast<Operation::Kind>(random() % 3);
			o.key = static_cast<long>(random() % KEYS);
			o.result = o.kind == Operation::SEARCH
			                   ? search(tree, o.key, o.clock)
			                   : change_and_count(tree, o.kind, o.key, o.clock);
			done[thread].push_back(o);
		}
	});
	std::vector<Operation> updates, searches;
	for (auto &operations : done) {
		uint64_t before = 0;
		for (const Operation &o : operations) {
			EXPECT_GE(o.clock, before) << "a thread went back in time";
			before = o.clock;
			(o.kind == Operation::SEARCH ? searches : updates).push_back(o);
		}
	}
	auto earlier = [](const Operation &a, const Operation &b) { return a.clock < b.clock; };
	std::sort(updates.begin(), updates.end(), earlier);
	std::sort(searches.begin(), searches.end(), earlier);
	expect_keys(tree, replay(updates, searches));
	EXPECT_GT(heap.stats().ro_commits, 0u) << "searches ran as updates";
	EXPECT_GT(heap.stats().defeats, 0u) << "no two transactions have met";
	EXPECT_EQ(fur_itm_use(nullptr), 0);
}

/* The judge of histories finds an operation that has the result of another order. */
TEST_F(TreeTest, TheJudge_FindsAWrongResult)
{
	std::vector<Operation> updates = {{Operation::INSERT, 1, true, 1},
	                               {Operation::INSERT, 1, true, 2}},
	                       searches = {{Operation::SEARCH, 1, false, 0}};
	EXPECT_NONFATAL_FAILURE(replay(updates, searches), "update 2, key 1");
	updates[1].result = false;
	replay(updates, searches);
	searches[0].result = true;
	EXPECT_NONFATAL_FAILURE(replay(updates, searches), "search after 0, key 1");
}

/* ------------------------------------------------------------ model */

TEST_F(TreeTest, EachThread_FindsItsOwnKeys)
{
	enum { ROUNDS = 5000 };
	fur::Heap heap = create(options());
	Tree *tree = make_tree(heap);
	std::set<long> models[THREADS];
	std::atomic<int> wrong{0};
	in_threads([&](int thread) {
		std::mt19937_64 random(SEED + static_cast<unsigned>(thread));
		std::set<long> &model = models[thread];
		for (int k = 0; k < ROUNDS; k++) {
			long key = static_cast<long>(random() % KEYS) * THREADS + thread;
			bool expected;
			uint64_t clock;
			switch (random() % 3) {
			case 0:
				expected = model.insert(key).second;
				wrong += change(tree, Operation::INSERT, key) != expected;
				break;
			case 1:
				expected = model.erase(key) != 0;
				wrong += change(tree, Operation::REMOVE, key) != expected;
				break;
			default: wrong += search(tree, key, clock) != (model.count(key) != 0);
			}
		}
	});
	EXPECT_EQ(wrong, 0);
	std::set<long> all;
	for (const auto &model : models)
		all.insert(model.begin(), model.end());
	expect_keys(tree, all);
	EXPECT_EQ(fur_itm_use(nullptr), 0);
}

/* ------------------------------------------------------------ kill */

/* The operation with this number of a thread. */
void operation_of(int thread, uint64_t number, Operation::Kind &kind, long &key)
{
	std::mt19937_64 random(SEED + static_cast<unsigned>(thread) + number * THREADS);
	kind = random() % 2 ? Operation::INSERT : Operation::REMOVE;
	key = static_cast<long>(random() % KEYS) * THREADS + thread;
}

struct Progress {
	std::atomic<uint64_t> acknowledged[THREADS];
};

/* A thread's keys after this many of its operations. */
std::set<long> keys_after(int thread, uint64_t operations)
{
	std::set<long> keys;
	for (uint64_t n = 0; n < operations; n++) {
		Operation::Kind kind;
		long key;
		operation_of(thread, n, kind, key);
		if (kind == Operation::INSERT)
			keys.insert(key);
		else
			keys.erase(key);
	}
	return keys;
}

void change_until_killed(const std::string &path, const fur_options &o, Progress *progress)
{
	fur_heap *heap;
	fur::check(fur_create(path.c_str(), &o, &heap));
	fur::check(fur_itm_use(heap));
	Tree *tree;
	__transaction_atomic
	{
		tree = static_cast<Tree *>(fur_itm_alloc(sizeof *tree));
		tree->root = nullptr;
		fur_itm_set_root(0, tree);
	}
	std::vector<std::thread> threads;
	for (int t = 0; t < THREADS; t++)
		threads.emplace_back([=] {
			for (uint64_t n = 0;; n++) {
				Operation::Kind kind;
				long key;
				operation_of(t, n, kind, key);
				change(tree, kind, key);
				progress->acknowledged[t] = n + 1;
			}
		});
	for (;;)
		pause();
}

TEST_F(TreeTest, AKilledProcess_LosesNothingAcknowledged)
{
	enum { KILLS = 20, LEAST = 200 };
	void *shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
	        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(shared, MAP_FAILED);
	auto *progress = static_cast<Progress *>(shared);
	std::mt19937_64 random(SEED);
	for (int kill_number = 0; kill_number < KILLS; kill_number++) {
		for (auto &count : progress->acknowledged)
			count = 0;
		pid_t child = fork();
		ASSERT_GE(child, 0);
		if (child == 0)
			change_until_killed(path_, options(), progress);
		while (progress->acknowledged[0] < LEAST)
			usleep(100);
		usleep(static_cast<useconds_t>(random() % 2000));
		kill(child, SIGKILL);
		waitpid(child, nullptr, 0);

		fur::Heap heap = open(options());
		EXPECT_TRUE(heap.info().recovered);
		std::set<long> found[THREADS], all;
		fur::Thread self(heap);
		auto *tree = fur::read(self, [](fur_ro *tx) { return fur::root<Tree>(tx, 0); });
		collect(tree->root, all);
		EXPECT_EQ(tree::verify(tree), nullptr);
		for (long key : all)
			found[key % THREADS].insert(key);
		for (int t = 0; t < THREADS; t++) {
			uint64_t n = progress->acknowledged[t];
			EXPECT_TRUE(
			        found[t] == keys_after(t, n) || found[t] == keys_after(t, n + 1))
			        << "thread " << t << " after " << n << " operations";
		}
		heap.close();
		unlink(path_.c_str());
	}
	munmap(shared, sizeof(Progress));
}

} // namespace
