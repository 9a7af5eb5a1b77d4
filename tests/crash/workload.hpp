/* SPDX-License-Identifier: BSD-3-Clause
 *
 * workload.hpp - work whose every acknowledged step can be checked after a kill.
 *
 * Update k of thread t, one transaction: moves money between two accounts, inserts or removes a key
 * of a red-black tree, replaces a block of memory by a new one that contains (t, k), and sets
 * counter[t] = k.  (seed, t, k) alone decides the update, so the counters determine the contents
 * that the heap must have.  Around it the thread writes to memory that outlives it: `intended` = k
 * before, `acknowledged` = k after fur_commit has returned.
 *
 * LATE: three of four updates end with a ticket; the thread acknowledges them after a wait for a
 * ticket or for the heap, and with an update that waits.
 *
 * BULK: thread 0 now and then adds 1 to the upper halves of some words, all in one bulk update, and
 * then sets those of other words to the same number, in portions.  Each update adds 1 to the lower
 * half of one word of both kinds.
 *
 * Reads, one transaction each: look a key up; or read another thread's counter, and, after
 * fur_end_ro has returned, write down what was `seen`: from then on it must survive.  Half of the
 * latter end with a ticket: then the thread writes down the counters of several together, after one
 * wait.
 *
 * Snapshots (snapshots.hpp): each shows exactly the result of the updates up to its counters, among
 * them all that were acknowledged or `seen` before it began; what it has `shown` must survive.
 */
#ifndef CRASH_WORKLOAD_HPP
#define CRASH_WORKLOAD_HPP

#include "../../bench/rbtree/rbtree.hpp"
#include "internals.hpp"
#include "structures.hpp"

#include <algorithm>
#include <atomic>
#include <fur.hpp>
#include <fur_bulk.h>
#include <set>
#include <string>
#include <sys/mman.h>
#include <vector>
#ifdef FUR_LAB
#include "lab_bulk.h"
#endif

namespace crash
{

/* The parts of an update, in addition to setting its counter, if not all of them. */
enum Parts : unsigned {
	BANK = 1,
	TREE = 2,
	BLOCKS_OF_MEMORY = 4,
	EVERYTHING = 7,
	LARGE = 8,
	GROWTH = 16,
	CONTAINERS = 32,
	BULK = 64,
	OPERATORS = 128, /* those of BULK by an operator of lab/, while a process has it */
	LATE = 256
};
enum {
	THREADS = 4,
	WATCHERS = 2,
	ACCOUNTS = 64,
	BLOCKS = 8,
	KEYS_PER_THREAD = 2000,
	OPENING_BALANCE = 1000
};
/* LARGE: at regular intervals an update replaces the large block of its thread too.  Every other
 * one is so large that its stores are not logged (fresh memory). */
enum { LARGE_EVERY = 3, LARGE_WORDS = 768, VERY_LARGE_WORDS = 3072 };
/* GROWTH: at regular intervals an update adds a block to those that its thread keeps: up to
 * ADD_MOST of 16 to 400 KiB, so the heap becomes a few MiB larger with every ten of them. */
enum { ADD_EVERY = 8, ADD_MOST = 128 };

/* BULK: words that are changed as a whole, and in portions (the log holds fewer), and updates of
 * thread 0 from one bulk update to the next. */
enum : uint64_t {
	BULK_WORDS = 128,
	EACH_WORDS = 512,
	BULK_EVERY = 16,
	BULK_ONE = UINT64_C(1) << 32
};

/* In memory shared with the process that kills. */
struct alignas(128) Acknowledged {
	std::atomic<uint64_t> intended, acknowledged, seen[THREADS];
	std::atomic<uint64_t> reads, found;
};
/* What one thread has found in its snapshots. */
struct alignas(128) Shown {
	std::atomic<uint64_t> counter[THREADS], bulk, each;
	std::atomic<uint64_t> snapshots, revoked, beside; /* beside: updates while they were open */
	std::atomic<bool> open, is_wrong;
	char wrong[160];
};
struct Shared {
	Acknowledged thread[THREADS];
	Shown shown[WATCHERS];
	std::atomic<uint64_t> bulk_intended, bulk_acknowledged;
	std::atomic<uint64_t> by_operator; /* records that an operator has mapped */
	std::atomic<bool> running, stop;
};
/* Record the updates that may not be lost from now on. */
inline void note(Shared *to, const Shared *from)
{
	for (unsigned t = 0; t < THREADS; t++) {
		to->thread[t].acknowledged.store(from->thread[t].acknowledged);
		for (unsigned seen = 0; seen < THREADS; seen++)
			to->thread[t].seen[seen].store(from->thread[t].seen[seen]);
	}
	to->bulk_acknowledged.store(from->bulk_acknowledged);
	for (unsigned w = 0; w < WATCHERS; w++) {
		for (unsigned t = 0; t < THREADS; t++)
			to->shown[w].counter[t].store(from->shown[w].counter[t]);
		to->shown[w].bulk.store(from->shown[w].bulk);
		to->shown[w].each.store(from->shown[w].each);
	}
}
/* Record the updates that had begun by now. */
inline void note_intended(Shared *to, const Shared *from)
{
	for (unsigned t = 0; t < THREADS; t++)
		to->thread[t].intended.store(from->thread[t].intended);
	to->bulk_intended.store(from->bulk_intended);
}
inline Shared *make_shared_memory()
{
	void *p = mmap(
	        nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? nullptr : new (p) Shared{};
}

/* In the heap, at root 0. */
struct Line {
	int64_t value, gap[15];
};
struct Block {
	uint64_t thread, k, check[10];
};
/* Only its first words and its last word are stored. */
struct AddedBlock {
	AddedBlock *next;
	uint64_t thread, k;
};
struct Data {
	rbtree::Tree tree;
	Line account[ACCOUNTS];
	Line counter[THREADS];
	Block *block[THREADS][BLOCKS];
	uint64_t *large[THREADS];
	AddedBlock *added[THREADS]; /* newest first */
	Structures<THREADS> structures;
	uint64_t bulk[BULK_WORDS], each[EACH_WORDS];
};

inline uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* Update k of thread t. */
struct Step {
	int64_t key;
	bool insert;
	unsigned from, to, block;
	int64_t amount;
	Step(uint64_t seed, uint64_t t, uint64_t k)
	{
		uint64_t r = mix(mix(seed * 31 + t) + k);
		key = static_cast<int64_t>(t * KEYS_PER_THREAD + r % KEYS_PER_THREAD);
		insert = r >> 20 & 1;
		from = r >> 21 & (ACCOUNTS - 1);
		to = r >> 28 & (ACCOUNTS - 1);
		block = r >> 36 & (BLOCKS - 1);
		amount = r >> 40 & 63;
	}
};

inline Data *set_up(fur_thread *self)
{
	return fur::update(self, [&](fur_update *tx) {
		auto *data = static_cast<Data *>(fur_alloc(tx, sizeof(Data)));
		std::vector<char> zero(sizeof(Data));
		fur_write(tx, data, zero.data(), zero.size());
		for (auto &a : data->account)
			fur_store(tx, &a.value, OPENING_BALANCE);
		fur_set_root(tx, 0, data);
		return data;
	});
}

/* The same, in updates that fit a redo log of 4 KiB.  Nothing may kill it midway. */
inline Data *set_up_in_pieces(fur_thread *self)
{
	auto *data = fur::update(self, [&](fur_update *tx) {
		auto *place = static_cast<Data *>(fur_alloc(tx, sizeof(Data)));
		fur_set_root(tx, 0, place);
		return place;
	});
	const std::vector<char> zero(1024);
	for (size_t at = 0; at < sizeof(Data); at += zero.size())
		fur::update(self, [&](fur_update *tx) {
			fur_write(tx, reinterpret_cast<char *>(data) + at, zero.data(),
			        std::min(zero.size(), sizeof(Data) - at));
		});
	for (unsigned from = 0; from < ACCOUNTS; from += 16)
		fur::update(self, [&](fur_update *tx) {
			for (unsigned a = from; a < from + 16; a++)
				fur_store(tx, &data->account[a].value, OPENING_BALANCE);
		});
	return data;
}

inline uint64_t large_word(uint64_t t, uint64_t k, uint64_t i)
{
	return mix(t * 1000003 + k * 4099 + i);
}

inline uint64_t large_words(uint64_t k)
{
	return k % (2 * LARGE_EVERY) ? LARGE_WORDS : VERY_LARGE_WORDS;
}

inline void replace_large_block(fur_update *tx, Data *data, uint64_t t, uint64_t k)
{
	uint64_t fresh[VERY_LARGE_WORDS], bytes = 8 * large_words(k);
	for (uint64_t i = 0; i < large_words(k); i++)
		fresh[i] = large_word(t, k, i);
	auto *place = static_cast<uint64_t *>(fur_alloc(tx, bytes));
	fur_write(tx, place, fresh, bytes);
	fur_free(tx, fur_load(tx, &data->large[t]));
	fur_store(tx, &data->large[t], place);
}

/* Does update k add a block? */
inline bool adds_block(uint64_t k, unsigned parts)
{
	return parts & GROWTH && k % ADD_EVERY == 0 && k / ADD_EVERY <= ADD_MOST;
}

inline uint64_t added_words(uint64_t t, uint64_t k)
{
	return 2048 + mix(t * 1000003 + k) % 49152;
}

inline uint64_t *last_word(AddedBlock *block, uint64_t t, uint64_t k)
{
	return reinterpret_cast<uint64_t *>(block) + added_words(t, k) - 1;
}

inline void add_block(fur_update *tx, Data *data, uint64_t t, uint64_t k)
{
	auto *block = static_cast<AddedBlock *>(fur_alloc(tx, added_words(t, k) * 8));
	if (!block)
		throw std::runtime_error(std::string("the heap did not grow: ") + fur_errormsg());
	fur_store(tx, &block->next, fur_load(tx, &data->added[t]));
	fur_store(tx, &block->thread, t);
	fur_store(tx, &block->k, k);
	fur_store(tx, last_word(block, t, k), mix(t + k));
	fur_store(tx, &data->added[t], block);
}

inline uint64_t bulk_word(uint64_t t, uint64_t k)
{
	return mix(t * 7919 + k) % BULK_WORDS;
}
inline uint64_t each_word(uint64_t t, uint64_t k)
{
	return mix(t * 7919 + k) % EACH_WORDS;
}
inline void add_one(fur_update *tx, uint64_t *word)
{
	fur_store(tx, word, fur_load(tx, word) + 1);
}

/* Set the upper halves of `n` words to `round`.  Returns how many an operator has mapped. */
inline uint64_t set_round(fur_thread *self, uint64_t *words, uint64_t n, uint64_t round,
        fur_bulk_atomic atomic, bool by_operator)
{
	const fur_extent all = {words, sizeof(uint64_t), n};
	fur_bulk job;
	fur_bulk_init(&job);
	job.map = [](void *copy, size_t, uint64_t, void *to) {
		auto *word = static_cast<uint64_t *>(copy);
		*word = *static_cast<uint64_t *>(to) * BULK_ONE + *word % BULK_ONE;
		return true;
	};
	job.arg = &round;
	job.bytes = sizeof(uint64_t);
	job.extents = &all;
	job.n = 1;
	job.atomic = atomic;
	uint64_t mapped = 0;
	int error = FUR_ENOENT;
#ifdef FUR_LAB
	const lab_operator_call call = {"set_round", &round, sizeof round};
	if (by_operator)
		error = lab_bulk_run(self, &job, &call, nullptr, &mapped);
#else
	(void)by_operator;
#endif
	if (error == FUR_ENOENT) /* no such process at this moment */
		error = fur_bulk_run(self, &job, nullptr);
	fur::check(error);
	return mapped;
}

/* The next bulk updates. */
inline void bulk_update(fur_thread *self, Data *data, Shared *shared, bool by_operator)
{
	uint64_t round = data->bulk[0] / BULK_ONE + 1;
	shared->bulk_intended.store(round, std::memory_order_relaxed);
	shared->by_operator +=
	        set_round(self, data->bulk, BULK_WORDS, round, FUR_BULK_WHOLE, by_operator);
	shared->by_operator +=
	        set_round(self, data->each, EACH_WORDS, round, FUR_BULK_EACH, by_operator);
	shared->bulk_acknowledged.store(round, std::memory_order_relaxed);
}

/* `ticket`: the update ends with it; NULL: it waits. */
inline void update_once(fur_thread *self, Data *data, uint64_t seed, uint64_t t, uint64_t k,
        unsigned parts = EVERYTHING, fur_ticket *ticket = nullptr)
{
	Step s(seed, t, k);
	auto body = [&](fur_update *tx) {
		/* The check half way, so that a torn update cannot hide behind an even sum. */
		if (parts & BANK)
			fur_store(tx, &data->account[s.from].value,
			        fur_load(tx, &data->account[s.from].value) - s.amount);
		if (parts & TREE && s.insert)
			(void)rbtree::insert(tx, &data->tree, s.key);
		else if (parts & TREE)
			rbtree::remove(tx, &data->tree, s.key);
		if (parts & BLOCKS_OF_MEMORY) {
			Block fresh{t, k, {}};
			for (uint64_t i = 0; i < 10; i++)
				fresh.check[i] = mix(t * 1000003 + k + i);
			auto *place = static_cast<Block *>(fur_alloc(tx, sizeof(Block)));
			fur_write(tx, place, &fresh, sizeof fresh);
			fur_free(tx, fur_load(tx, &data->block[t][s.block]));
			fur_store(tx, &data->block[t][s.block], place);
		}
		if (parts & LARGE && k % LARGE_EVERY == 0)
			replace_large_block(tx, data, t, k);
		if (adds_block(k, parts))
			add_block(tx, data, t, k);
		if (parts & CONTAINERS)
			data->structures.change(tx, t, k);
		if (parts & BULK) {
			add_one(tx, &data->bulk[bulk_word(t, k)]);
			add_one(tx, &data->each[each_word(t, k)]);
		}
		if (parts & BANK)
			fur_store(tx, &data->account[s.to].value,
			        fur_load(tx, &data->account[s.to].value) + s.amount);
		fur_store(tx, &data->counter[t].value, static_cast<int64_t>(k));
	};
	/* Without hardware transactions: concurrent updates next to serial ones. */
	bool rerun = mix(seed + k) % 4 != 0;
	if (rerun && ticket)
		fur::update(self, fur::rerun, *ticket, body);
	else if (rerun)
		fur::update(self, fur::rerun, body);
	else if (ticket)
		fur::update(self, *ticket, body);
	else
		fur::update(self, body);
}

/* The update, and whether it is durable now. */
inline bool update_perhaps_late(fur_heap *heap, fur_thread *self, Data *data, uint64_t seed,
        uint64_t t, uint64_t k, unsigned parts)
{
	fur_ticket ticket;
	uint64_t r = mix(seed + 3 * k);
	bool late = parts & LATE && r % 4 != 0;
	update_once(self, data, seed, t, k, parts, late ? &ticket : nullptr);
	if (!late)
		return true;
	if ((r >> 8) % 64 == 0)
		fur::check(fur_sync(heap));
	else if ((r >> 8) % 8 == 1)
		fur::wait(self, ticket);
	else
		return false;
	return true;
}

/* Another thread's counters that a thread has read and not written down yet. */
class Unanswered
{
public:
	void read(fur_thread *self, const Data *data, unsigned other)
	{
		saw_[other] = fur::read(self, ticket_,
		        [&](fur_ro *tx) { return fur_load(tx, &data->counter[other].value); });
	}
	void answer(fur_thread *self, Acknowledged &mine)
	{
		fur::wait(self, ticket_);
		for (unsigned t = 0; t < THREADS; t++)
			if (auto saw = static_cast<uint64_t>(saw_[t]); saw > mine.seen[t])
				mine.seen[t].store(saw, std::memory_order_relaxed);
	}

private:
	int64_t saw_[THREADS] = {};
	fur_ticket ticket_{};
};

/* The child's thread: works until killed, or `stop`, or for `steps` transactions.  `early`: it
 * acknowledges before the commit, a bug that the check must find. */
inline void work(fur_heap *heap, Shared *shared, uint64_t seed, unsigned t, unsigned threads,
        unsigned update_percent, bool early, const std::atomic<bool> &stop,
        unsigned parts = EVERYTHING, uint64_t steps = UINT64_MAX)
{
	fur::Thread self(heap);
	auto *data = static_cast<Data *>(root_at_rest(heap, 0));
	Acknowledged &mine = shared->thread[t];
	Unanswered unanswered;
	uint64_t k = static_cast<uint64_t>(data->counter[t].value), r = mix(seed + t + k);
	while (steps-- && !stop.load(std::memory_order_relaxed)) {
		r = r * 6364136223846793005u + 1442695040888963407u;
		if ((r >> 33) % 100 < update_percent) {
			k++;
			mine.intended.store(k, std::memory_order_relaxed);
			if (early)
				mine.acknowledged.store(k, std::memory_order_relaxed);
			if (update_perhaps_late(heap, self, data, seed, t, k, parts))
				mine.acknowledged.store(k, std::memory_order_relaxed);
			if (parts & BULK && t == 0 && k % BULK_EVERY == 0)
				bulk_update(self, data, shared, parts & OPERATORS);
			continue;
		}
		if ((r >> 20) % 16 == 8) {
			unanswered.read(self, data, (r >> 24) % threads);
			if ((r >> 26) % 4 == 0)
				unanswered.answer(self, mine);
		} else if ((r >> 20) % 8 == 0) {
			unsigned other = (r >> 24) % threads;
			int64_t saw = fur::read(self, [&](fur_ro *tx) {
				return fur_load(tx, &data->counter[other].value);
			});
			mine.seen[other].store(
			        static_cast<uint64_t>(saw), std::memory_order_relaxed);
		} else {
			int64_t key = static_cast<int64_t>((r >> 24) % (THREADS * KEYS_PER_THREAD));
			if (fur::read(self, [&](fur_ro *tx) {
				    return rbtree::contains(tx, &data->tree, key);
			    }))
				mine.found.store(mine.found.load(std::memory_order_relaxed) + 1,
				        std::memory_order_relaxed);
		}
		mine.reads.store(
		        mine.reads.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
	}
}

/* The calling thread begins a transaction and leaves it open, to end inside it: an update whose
 * stores must never become visible, or a read-only transaction that must not keep any thread
 * waiting. */
inline void leave_transaction_open(fur_heap *heap, unsigned t, bool update)
{
	fur::Thread self(heap);
	auto *data = static_cast<Data *>(root_at_rest(heap, 0));
	if (!update) {
		fur_ro *ro;
		fur::check(fur_begin_ro(self, &ro));
		return;
	}
	fur_update *tx;
	fur::check(fur_begin_update(self, &tx));
	fur_store(tx, &data->account[t].value, INT64_MIN);
	fur_store(tx, &data->counter[t].value, INT64_MAX);
	fur_store(tx, &data->block[t][0], static_cast<Block *>(fur_alloc(tx, sizeof(Block))));
}

/* ------------------------------------------------------------------ the check */

/* Every acknowledged update of thread t is there, if the heap has `is`; of the updates that were
 * not acknowledged, only such as it had begun; and every update that a transaction has seen.
 * Empty, or what is wrong. */
inline std::string check_counter(const Shared *shared, unsigned t, uint64_t is)
{
	uint64_t acked = shared->thread[t].acknowledged, intended = shared->thread[t].intended;
	if (is < acked)
		return "thread " + std::to_string(t) + " was told that update " +
		       std::to_string(acked) + " is durable; the heap has " + std::to_string(is);
	if (is > intended)
		return "thread " + std::to_string(t) + " had begun update " +
		       std::to_string(intended) + "; the heap has " + std::to_string(is);
	for (unsigned reader = 0; reader < THREADS; reader++)
		if (shared->thread[reader].seen[t] > is)
			return "thread " + std::to_string(reader) + " has read update " +
			       std::to_string(shared->thread[reader].seen[t]) + " of thread " +
			       std::to_string(t) + "; the heap has " + std::to_string(is);
	for (const Shown &shown : shared->shown)
		if (shown.counter[t] > is)
			return "a snapshot has shown update " + std::to_string(shown.counter[t]) +
			       " of thread " + std::to_string(t) + "; the heap has " +
			       std::to_string(is);
	return "";
}
/* The sum of the rounds of all words that are changed in portions. */
template <class Tx>
uint64_t sum_of_rounds(Tx *tx, const Data *data)
{
	uint64_t sum = 0;
	for (const uint64_t &word : data->each)
		sum += fur_load(tx, &word) / BULK_ONE;
	return sum;
}

/* The contents that the heap must have, carried from kill to kill. */
class Expected
{
public:
	explicit Expected(uint64_t seed, unsigned parts = EVERYTHING) : seed_(seed), parts_(parts)
	{
	}

	/* Null, or what is wrong with the heap after recovery. */
	std::string check(fur_heap *heap, const Shared *shared)
	{
		auto *data = static_cast<const Data *>(root_at_rest(heap, 0));
		if (!data)
			return "the data's root is gone";
		auto *tx = static_cast<fur_ro *>(nullptr);
		uint64_t reachable = 0;
		std::string wrong = check_words(tx, data, shared);
		if (wrong.empty())
			wrong = check_blocks(tx, data, reachable);
		if (wrong.empty())
			wrong = check_memory(heap, reachable);
		return wrong;
	}
	/* The parts of it that take least time. */
	template <class Tx>
	std::string check_words(Tx *tx, const Data *data, const Shared *shared)
	{
		std::string wrong;
		for (unsigned t = 0; t < THREADS && wrong.empty(); t++)
			wrong = check_counter(tx, data, shared, t);
		if (wrong.empty())
			wrong = check_accounts(tx, data);
		if (wrong.empty())
			wrong = check_bulk(tx, data, shared);
		return wrong;
	}
	/* All that check_words() leaves, which must have been called; `reachable` grows by the
	 * blocks that must be allocated. */
	template <class Tx>
	std::string check_blocks(Tx *tx, const Data *data, uint64_t &reachable) const
	{
		std::string wrong = check_tree(tx, data);
		reachable += 1 + keys_.size();
		if (wrong.empty())
			wrong = structures_.check(tx, data->structures, reachable);
		for (unsigned t = 0; t < THREADS && wrong.empty(); t++) {
			wrong = check_large(tx, data, t);
			reachable += newest_large_[t] != 0;
			if (wrong.empty())
				wrong = check_added(tx, data, t, reachable);
			for (unsigned b = 0; b < BLOCKS && wrong.empty(); b++)
				wrong = check_block(tx, data, t, b, reachable);
		}
		return wrong;
	}
	/* Does this state come before the other one? */
	bool before(const Expected &other) const
	{
		return std::equal(counter_, counter_ + THREADS, other.counter_,
		        [](uint64_t a, uint64_t b) { return a <= b; });
	}
	uint64_t updates() const
	{
		uint64_t n = 0;
		for (uint64_t c : counter_)
			n += c;
		return n;
	}

private:
	template <class Tx>
	std::string check_counter(Tx *tx, const Data *data, const Shared *shared, unsigned t)
	{
		uint64_t is = static_cast<uint64_t>(fur_load(tx, &data->counter[t].value));
		std::string wrong = crash::check_counter(shared, t, is);
		if (!wrong.empty())
			return wrong;
		if (is < counter_[t])
			return "the heap had update " + std::to_string(counter_[t]) +
			       " of thread " + std::to_string(t) + "; it has " + std::to_string(is);
		for (; counter_[t] < is; counter_[t]++)
			apply(t, counter_[t] + 1);
		return "";
	}
	void apply(unsigned t, uint64_t k)
	{
		Step s(seed_, t, k);
		if (parts_ & BANK) {
			balance_[s.from] -= s.amount;
			balance_[s.to] += s.amount;
		}
		if (parts_ & TREE && s.insert)
			keys_.insert(s.key);
		else if (parts_ & TREE)
			keys_.erase(s.key);
		if (parts_ & BLOCKS_OF_MEMORY)
			newest_[t][s.block] = k;
		if (parts_ & LARGE && k % LARGE_EVERY == 0)
			newest_large_[t] = k;
		if (parts_ & CONTAINERS)
			structures_.change(t, k);
		if (parts_ & BULK)
			count_bulk(t, k);
	}
	void count_bulk(unsigned t, uint64_t k)
	{
		bulk_[bulk_word(t, k)]++;
		each_[each_word(t, k)]++;
	}
	template <class Tx>
	std::string check_bulk(Tx *tx, const Data *data, const Shared *shared) const
	{
		const uint64_t round = fur_load(tx, &data->bulk[0]) / BULK_ONE;
		if (round < shared->bulk_acknowledged || round > shared->bulk_intended)
			return "the heap has " + std::to_string(round) + " bulk updates; " +
			       std::to_string(shared->bulk_acknowledged) +
			       " are acknowledged, of " + std::to_string(shared->bulk_intended);
		for (uint64_t k = 0; k < BULK_WORDS; k++) {
			const uint64_t is = fur_load(tx, &data->bulk[k]);
			if (is != round * BULK_ONE + bulk_[k])
				return "word " + std::to_string(k) + " of " +
				       std::to_string(round) + " bulk updates has " +
				       std::to_string(is / BULK_ONE) + " of them, and " +
				       std::to_string(is % BULK_ONE) + " of " +
				       std::to_string(bulk_[k]) + " other updates";
		}
		std::string wrong = check_each(tx, data, shared, round);
		for (const Shown &shown : shared->shown)
			if (wrong.empty() &&
			        (shown.bulk > round || shown.each > sum_of_rounds(tx, data)))
				wrong = "a snapshot has shown more of the bulk updates: " +
				        std::to_string(shown.bulk) + ", and " +
				        std::to_string(shown.each) + " changes of words";
		return wrong;
	}
	/* A portion is durable before the next one begins. */
	template <class Tx>
	std::string check_each(Tx *tx, const Data *data, const Shared *shared, uint64_t most) const
	{
		for (uint64_t k = 0; k < EACH_WORDS; k++) {
			const uint64_t is = fur_load(tx, &data->each[k]), round = is / BULK_ONE;
			if (round < shared->bulk_acknowledged || round > most ||
			        is % BULK_ONE != each_[k])
				return "word " + std::to_string(k) + " has " +
				       std::to_string(round) + " bulk updates, and " +
				       std::to_string(is % BULK_ONE) + " of " +
				       std::to_string(each_[k]) + " other updates; " +
				       std::to_string(shared->bulk_acknowledged) +
				       " bulk updates are acknowledged; the word before has " +
				       std::to_string(most);
			most = round;
		}
		return "";
	}
	template <class Tx>
	std::string check_accounts(Tx *tx, const Data *data) const
	{
		for (unsigned a = 0; a < ACCOUNTS; a++) {
			const int64_t is = fur_load(tx, &data->account[a].value);
			if (is != balance_[a] + OPENING_BALANCE)
				return "account " + std::to_string(a) + " holds " +
				       std::to_string(is) + ", the updates give " +
				       std::to_string(balance_[a] + OPENING_BALANCE);
		}
		return "";
	}
	template <class Tx>
	std::string check_tree(Tx *tx, const Data *data) const
	{
		uint64_t size;
		if (const char *wrong = rbtree::verify(tx, &data->tree, size))
			return std::string("the tree: ") + wrong;
		if (size != keys_.size())
			return "the tree has " + std::to_string(size) + " keys, the updates give " +
			       std::to_string(keys_.size());
		for (int64_t key : keys_)
			if (!rbtree::contains(tx, &data->tree, key))
				return "key " + std::to_string(key) + " is missing";
		return "";
	}
	template <class Tx>
	std::string check_large(Tx *tx, const Data *data, unsigned t) const
	{
		const uint64_t *large = fur_load(tx, &data->large[t]), k = newest_large_[t];
		if (!large != !k)
			return "a large block is missing, or should not be";
		for (uint64_t i = 0; large && i < large_words(k); i++)
			if (fur_load(tx, &large[i]) != large_word(t, k, i))
				return "a large block is torn, or not the newest";
		return "";
	}
	/* Counts the blocks. */
	template <class Tx>
	std::string check_added(Tx *tx, const Data *data, unsigned t, uint64_t &blocks) const
	{
		AddedBlock *block = fur_load(tx, &data->added[t]);
		for (uint64_t k = counter_[t]; k; k--) {
			if (!adds_block(k, parts_))
				continue;
			if (!block)
				return "an added block is missing";
			if (fur_load(tx, &block->thread) != t || fur_load(tx, &block->k) != k ||
			        fur_load(tx, last_word(block, t, k)) != mix(t + k))
				return "an added block is torn";
			block = fur_load(tx, &block->next);
			blocks++;
		}
		return block ? "there is an added block too many" : "";
	}
	template <class Tx>
	std::string check_block(
	        Tx *tx, const Data *data, unsigned t, unsigned b, uint64_t &blocks) const
	{
		const Block *at = fur_load(tx, &data->block[t][b]);
		if (!at != !newest_[t][b])
			return "a block is missing, or should not be";
		if (!at)
			return "";
		blocks++;
		Block block;
		fur_read(tx, &block, at, sizeof block);
		if (block.thread != t || block.k != newest_[t][b])
			return "a block is not the newest";
		for (uint64_t i = 0; i < 10; i++)
			if (block.check[i] != mix(t * 1000003 + block.k + i))
				return "a block is torn";
		return "";
	}
	/* Only reachable blocks are allocated. */
	static std::string check_memory(fur_heap *heap, uint64_t reachable)
	{
		/* A bulk update that did not end leaves a block, until a thread registers. */
		reachable += header(heap_base(heap))->bulk != 0;
		alloc_census census;
		if (alloc_check(heap_base(heap), &census))
			return fur_errormsg();
		if (census.blocks != reachable)
			return std::to_string(census.blocks) + " blocks are allocated, " +
			       std::to_string(reachable) + " are reachable";
		return "";
	}

	uint64_t seed_;
	unsigned parts_;
	uint64_t counter_[THREADS] = {}, newest_[THREADS][BLOCKS] = {}, newest_large_[THREADS] = {};
	int64_t balance_[ACCOUNTS] = {};
	uint64_t bulk_[BULK_WORDS] = {}, each_[EACH_WORDS] = {};
	std::set<int64_t> keys_;
	ExpectedStructures<THREADS> structures_;
};

} // namespace crash

#endif /* CRASH_WORKLOAD_HPP */
