/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rbtree.cpp - the IntSet benchmark (FUR, Figure 9): lookups, inserts and removes of random keys on
 * a red-black tree.
 *
 * Two mixes.  `random`: keys are drawn from twice as many as the tree starts with, so half of the
 * updates change nothing.  `authors`: that of the program which the FUR paper publishes
 * (github.com/inesc-id/FUR): keys are drawn from 4,000,000, and a thread removes the key that it
 * inserted last.  So every update changes the tree, next to a leaf for the most part, and nearly
 * all lookups miss.
 */
#include "rbtree.hpp"
#include "../baselines/peers.hpp"
#include "../common/group_tm.hpp"
#include "../common/runs.hpp"
#include "../common/stock.hpp"

#include <iostream>
#include <optional>
#include <random>

namespace
{

using bench::json;

enum Kind { LOOKUP, INSERT, REMOVE, KINDS };
const char *const kind_names[] = {"lookup", "insert", "remove"};

enum : uint64_t { AUTHORS_KEYS = 4000000 };

struct Workload {
	uint64_t keys = 10000;
	double update = 10;
	/* 0, or how many lookups wait together until their results are durable */
	unsigned batch = 0;
	std::string mix = "random";
	bool authors() const
	{
		return mix == "authors";
	}
	/* Keys are drawn from this many. */
	uint64_t range() const
	{
		return authors() ? uint64_t(AUTHORS_KEYS) : 2 * keys;
	}
	void add_to_run(tools::CommandLine &line);
	void check_run() const;
};

/* The options of a run.  --mix is none of them: it decides with which keys the tree starts. */
void Workload::add_to_run(tools::CommandLine &line)
{
	line.option("--update", update, "percentage of updates: half inserts, half removes");
	line.option("--batch", batch,
	        "libfur: lookups that end with tickets, and wait together; default: each waits at "
	        "its end");
}

void Workload::check_run() const
{
	if (!(update >= 0 && update <= 100))
		throw bench::Usage("--update: a percentage, 0 to 100");
}

/* Which transaction comes next, and on which key. */
class Choice
{
public:
	Choice(const Workload &w, uint64_t seed)
	    : random_(seed), update_(static_cast<uint64_t>(w.update / 100 * 4294967296.0)),
	      keys_(w.range())
	{
	}
	Kind kind()
	{
		uint64_t r = random_();
		return (r & 0xffffffff) >= update_ ? LOOKUP : r >> 63 ? INSERT : REMOVE;
	}
	int64_t key()
	{
		return static_cast<int64_t>(
		        (static_cast<unsigned __int128>(random_()) * keys_) >> 64);
	}

private:
	std::mt19937_64 random_;
	uint64_t update_, keys_;
};

/* The key that a thread has inserted last and not removed, for the mix `authors`. */
class Last
{
public:
	/* The next update, and its key: removes the last key, or inserts `key`. */
	Kind next(int64_t &key) const
	{
		if (key_ < 0)
			return INSERT;
		key = key_;
		return REMOVE;
	}
	/* `changed`: by how much a transaction on `key` has grown the set. */
	void done(int changed, int64_t key)
	{
		if (changed > 0)
			key_ = key;
		else if (changed < 0)
			key_ = -1;
	}

private:
	int64_t key_ = -1; /* none */
};

/* The set, on a transactional memory: the red-black tree. */
template <class Tm>
class TreeSet
{
public:
	using Self = typename Tm::Thread;
	TreeSet(Tm &tm, Self &self) : tree_(static_cast<rbtree::Tree *>(tm.root()))
	{
		if (!tree_)
			make(tm, self);
	}
	bool contains(Self &self, int64_t key)
	{
		return self.read([&](auto *tx) { return rbtree::contains(tx, tree_, key); });
	}
	/* contains(), but the result is durable only after the next self.wait(). */
	bool contains_later(Self &self, int64_t key) requires requires
	{
		self.wait();
	}
	{
		return self.read_later([&](auto *tx) { return rbtree::contains(tx, tree_, key); });
	}
	intset::Result insert(Self &self, int64_t key)
	{
		return self.update([&](auto *tx) { return rbtree::insert(tx, tree_, key); });
	}
	intset::Result remove(Self &self, int64_t key)
	{
		return self.update([&](auto *tx) { return rbtree::remove(tx, tree_, key); });
	}
	void stock(Self &self, unsigned thread)
	{
		stock_.take(self, thread, {{sizeof(rbtree::Node), FUR_CACHE_LINE}});
	}
	const char *verify(Self &self, uint64_t &size)
	{
		return self.read([&](auto *tx) { return rbtree::verify(tx, tree_, size); });
	}

private:
	void make(Tm &tm, Self &self)
	{
		tree_ = self.update([&](auto *tx) {
			auto *tree = static_cast<rbtree::Tree *>(
			        fur_alloc_aligned(tx, sizeof(rbtree::Tree), FUR_CACHE_LINE));
			if (tree) {
				fur_store(tx, &tree->root, nullptr);
				tm.set_root(tx, tree);
			}
			return tree;
		});
		if (!tree_)
			throw bench::Usage(
			        "the heap is too small for the tree: give it a larger --heap-mib");
	}

	rbtree::Tree *tree_;
	bench::Stock stock_;
};

/* The tree, or the set that the system brings. */
template <class Tm>
struct SetOf {
	using Set = TreeSet<Tm>;
	static_assert(intset::IntegerSet<Set, Tm>);
};
template <class Tm>
requires requires
{
	typename Tm::Set;
}
struct SetOf<Tm> {
	using Set = typename Tm::Set;
};

template <class Tm>
class IntSet
{
public:
	IntSet(Tm &tm, const Workload &w, uint64_t seed) : tm_(tm), workload_(w), seed_(seed)
	{
		bench::aside([&] {
			typename Tm::Thread self(tm);
			set_.emplace(tm, self);
			fill(self);
			bench::empty_logs(self);
		});
	}

	void run(unsigned thread, const std::function<void()> &start, const std::atomic<bool> &stop,
	        bench::Progress &progress)
	{
		typename Tm::Thread self(tm_);
		Choice choice(workload_, seed_ * 1000003 + thread + 1);
		int64_t grown = 0;
		const bool authors = workload_.authors();
		Last last;
		unsigned unanswered = 0;
		if constexpr (requires { set_->stock(self, thread); })
			set_->stock(self, thread);
		start();
		while (!stop.load(std::memory_order_relaxed)) {
			Kind kind = choice.kind();
			int64_t key = choice.key();
			if (authors && kind != LOOKUP)
				kind = last.next(key);
			int changed = 0;
			if (kind == LOOKUP && workload_.batch)
				lookup_later(self, key, unanswered);
			else
				changed = one(self, kind, key);
			if (authors)
				last.done(changed, key);
			grown += changed;
			progress.count(kind);
		}
		grown_ += grown;
	}

	/* Empty, or what is wrong; counts the keys. */
	std::string verify(uint64_t &size)
	{
		const char *wrong = nullptr;
		bench::aside([&] {
			typename Tm::Thread self(tm_);
			wrong = set_->verify(self, size);
		});
		if (wrong)
			return wrong;
		uint64_t expected = filled_ + static_cast<uint64_t>(grown_.load());
		if (size != expected)
			return "the set has " + std::to_string(size) + " keys, the threads say " +
			       std::to_string(expected);
		return "";
	}

private:
	/* Up to `keys` keys; a set found in a heap that is reused is verified first. */
	void fill(typename Tm::Thread &self)
	{
		const char *wrong = set_->verify(self, filled_);
		if (wrong)
			throw std::runtime_error(
			        std::string("the set in the heap is damaged: ") + wrong);
		Choice choice(workload_, seed_);
		while (filled_ < workload_.keys)
			filled_ += static_cast<uint64_t>(one(self, INSERT, choice.key()));
	}

	/* One of a batch of lookups; the last one waits for all. */
	void lookup_later(typename Tm::Thread &self, int64_t key, unsigned &unanswered)
	{
		if constexpr (requires { set_->contains_later(self, key); }) {
			found_ = set_->contains_later(self, key);
			if (++unanswered < workload_.batch)
				return;
			unanswered = 0;
			self.wait();
		}
	}

	/* By how much the set has grown. */
	int one(typename Tm::Thread &self, Kind kind, int64_t key)
	{
		if (kind == LOOKUP) {
			found_ = set_->contains(self, key);
			return 0;
		}
		intset::Result r =
		        kind == INSERT ? set_->insert(self, key) : set_->remove(self, key);
		if (r == intset::Result::NO_MEMORY)
			throw bench::Usage("the heap is too small for " +
			                   std::to_string(workload_.keys) +
			                   " keys: give it a larger --heap-mib");
		return r == intset::Result::UNCHANGED ? 0 : kind == INSERT ? 1 : -1;
	}

	Tm &tm_;
	const Workload &workload_;
	uint64_t seed_;
	std::optional<typename SetOf<Tm>::Set> set_;
	uint64_t filled_ = 0;
	alignas(128) std::atomic<int64_t> grown_{0};
	/* So that a lookup is not optimised away */
	static inline thread_local volatile bool found_;
};

template <class Tm>
void check_run_on(const Workload &w)
{
	using Set = typename SetOf<Tm>::Set;
	w.check_run();
	if constexpr (!requires(Set & set, typename Tm::Thread & self) {
		              set.contains_later(self, 0);
	              })
		if (w.batch)
			throw bench::Usage("--batch is for libfur: use --tm fur-opacity");
}

template <class Tm>
int run_on(bench::Options &o, Workload &w)
{
	bench::RunOptions of_run{[&](tools::CommandLine &line) { w.add_to_run(line); },
	        [&] { check_run_on<Tm>(w); }};
	of_run.check();
	Tm tm(o.tm_options);
	IntSet<Tm> set(tm, w, o.seed);
	if (auto status = bench::each_run(o, of_run, [&] { bench::adopt(tm); }))
		return *status;
	tm.begin_run();
	bench::Window window = bench::run_threads(o,
	        [&](unsigned i, auto &start, auto &stop, auto &p) { set.run(i, start, stop, p); });
	uint64_t size = 0;
	std::string wrong = set.verify(size);
	if (!wrong.empty())
		std::cerr << "rbtree: not verified: " << wrong << "\n";

	json r = bench::common_result(o, "rbtree", window, kind_names, KINDS);
	tm.describe(r);
	r["keys"] = w.keys;
	r["update_percent"] = w.update;
	r["mix"] = w.mix;
	r["batch"] = uint64_t(w.batch);
	r["keys_at_end"] = size;
	tm.results(r);
	r["verified"] = wrong.empty();
	return bench::report(o, r);
}

int run(bench::Options &o, Workload &w)
{
	if (w.keys < 1 || w.keys > (uint64_t(1) << 40))
		throw bench::Usage("--keys: use 1 to 2^40");
	if (w.mix != "random" && !w.authors())
		throw bench::Usage("--mix " + w.mix + ": use random or authors");
	if (w.authors() && w.keys > AUTHORS_KEYS / 2)
		throw bench::Usage("--keys " + std::to_string(w.keys) +
		                   ": --mix authors draws keys from " +
		                   std::to_string(AUTHORS_KEYS) + ": use at most half as many");
	/* A line per node in every allocator, twice the keys at most, and room for threads'
	 * stocks. */
	if (!o.tm_options.heap_bytes)
		o.tm_options.heap_bytes = 2 * w.keys * FUR_CACHE_LINE + (uint64_t(32) << 20) +
		                          uint64_t(o.most_threads) * (1 << 18);
	auto on = [&]<class Tm>() { return run_on<Tm>(o, w); };
	return o.tm_options.member ? bench::on_member(o, on) : bench::on_system_or_peer(o, on);
}

} // namespace

int main(int argc, char **argv)
{
	alignas(128) static Workload w; /* not on the stack, see machine_emulated.cpp */
	return bench::main_of(
	        "rbtree", argc, argv,
	        [&](tools::CommandLine &line, bench::Options &o) {
		        line.option("--keys", w.keys, "number of keys in the tree at the start");
		        line.option("--mix", w.mix,
		                "random: keys from twice as many as --keys, so that half of the "
		                "updates change nothing; authors: as the FUR paper's published "
		                "program, keys from 4,000,000, and each thread removes the key "
		                "that it inserted last, so that every update changes the tree");
		        bench::add_member(line, o.tm_options);
		        w.add_to_run(line);
	        },
	        [&](bench::Options &o) { return run(o, w); });
}
