/* SPDX-License-Identifier: BSD-3-Clause
 *
 * data.hpp - the data that a workload finds in the heap: made once, copied for each run, and
 * checked after it.
 */
#ifndef EXPLORE_DATA_HPP
#define EXPLORE_DATA_HPP

#include "../../../bench/rbtree/rbtree.hpp"
#include "../../../bench/tpcc/consistency.hpp"
#include "../../../bench/tpcc/load.hpp"
#include "collections.hpp"
#include "options.hpp"
#include "run.hpp"

#include <algorithm>
#include <fur.hpp>

namespace explore
{

enum { KEYS = 24, ACCOUNTS = 8, FLAGS = 3, OPENING = 1000 };
/* Large blocks, in which updates use a few words, on lines of their own. */
enum { TABLES = 3, TABLE_WORDS = 6, TABLE_STEP = 40, TABLE_BYTES = 20000 };

const tpcc::Scale MICRO = {3, 20, 1, 3, 5, true, true};

struct alignas(128) Line {
	uint64_t value, gap[15];
};
/* A record of a bulk update: from `first` to `last`, which are equal, on two lines. */
enum { BULK_RECORDS = 6, BULK_BYTES = 72 };
struct alignas(128) BulkRecord {
	uint64_t gap[8], first, inside[7], last, rest[15];
};
static_assert(offsetof(BulkRecord, last) - offsetof(BulkRecord, first) == BULK_BYTES - 8);
/* What a bulk update makes of the words of a record; that with the last number is a thread's own
 * word.  Some stay as they are. */
inline uint64_t bulk_result(uint64_t number, uint64_t value)
{
	return number == BULK_RECORDS ? value + 1 : value % 4 == 3 ? value : value + 100;
}
/* The same by an operator, in another process.  It keeps nothing: at the publication, a record has
 * the value that it was mapped from, or the oracle finds that the result is not of that value. */
inline bool map_by_operator(void *copy, size_t bytes, uint64_t number)
{
	auto *word = static_cast<uint64_t *>(copy);
	uint64_t *last = &word[bytes / 8 - 1];
	const uint64_t value = *word;
	if (number != BULK_RECORDS) {
		run.bulk_torn |= value != *last;
		*last = bulk_result(number, value);
	}
	*word = bulk_result(number, value);
	return *word != value;
}

struct Data {
	tpcc::Database *database; /* tpcc only */
	Containers *containers;   /* containers only */
	rbtree::Tree tree;
	BulkRecord *bulk;         /* [BULK_RECORDS]; bulk only */
	Collections *collections; /* collections only */
	uint64_t gap[11];
	/* An update that has read one writes the other: write skew, where isolation allows it */
	Line pair[2];
	Line newest[MOST_THREADS]; /* number of the thread's last update */
	/* [a][0]; and for a < FLAGS a flag in [a][1], and words after it.  Two to 128 bytes */
	uint64_t account[ACCOUNTS][8];
	uint64_t *table[TABLES][16]; /* [t][0]; NULL: there is none.  Its words are equal. */
};

/* Let *place lead to a block of `count` objects of zeroes. */
template <class Tx, class T>
void make_zeroed(Tx *tx, T **place, size_t count = 1)
{
	auto *made = static_cast<uint64_t *>(fur_alloc_aligned(tx, count * sizeof(T), 128));
	for (size_t n = 0; n < count * sizeof(T) / 8; n++)
		fur_store(tx, made + n, 0);
	fur_store(tx, place, reinterpret_cast<T *>(made));
}

/* What every run starts with: some keys, some money. */
template <class Subject, class Thread>
void fill_heap(const Options &o, Subject &subject, Thread &self)
{
	auto one = [&](auto &&body) {
		self.update_or_abort([&](auto *tx) {
			body(tx);
			return true;
		});
	};
	Data *data = nullptr;
	one([&](auto *tx) { data = static_cast<Data *>(fur_alloc(tx, sizeof(Data))); });
	auto *word = reinterpret_cast<uint64_t *>(data);
	/* In steps: a log holds no more */
	for (size_t done = 0, step = 64; done < sizeof(Data) / 8; done += step)
		one([&](auto *tx) {
			for (size_t n = done; n < std::min(done + step, sizeof(Data) / 8); n++)
				fur_store(tx, word + n, 0);
		});
	one([&](auto *tx) {
		for (auto &a : data->account)
			fur_store(tx, &a[0], OPENING);
		subject.set_root(tx, data);
	});
	for (int64_t key = 0; key < KEYS; key += 2)
		one([&](auto *tx) { (void)rbtree::insert(tx, &data->tree, key); });
	if (o.workload == "containers")
		one([&](auto *tx) { make_zeroed(tx, &data->containers); });
	if (o.workload == "collections")
		one([&](auto *tx) { make_zeroed(tx, &data->collections); });
	if (o.workload == "bulk")
		one([&](auto *tx) { make_zeroed(tx, &data->bulk, BULK_RECORDS); });
	if (o.workload == "tpcc") {
		auto *database = tpcc::load(one, 1, MICRO, 1, [] {});
		one([&](auto *tx) { fur_store(tx, &data->database, database); });
	}
}

/* The heap from which every run starts. */
template <class Subject>
void make_heap(const Options &o, const std::string &path)
{
	Subject::make(o, path);
	Subject subject(o, path.c_str(), FUR_HTM_NONE, 0);
	typename Subject::Thread self(subject);
	fill_heap(o, subject, self);
}

/* Whether the data holds together, whatever the transactions were.  Nothing, or what is wrong. */
template <class Subject>
std::string check_structure(const Subject &subject, const Data *data)
{
	/* No other thread runs, so a transaction of any type reads the heap as it is */
	auto *tx = static_cast<fur_ro *>(nullptr);
	uint64_t size, money = 0, flags = 0;
	if (const char *wrong = rbtree::verify(tx, &data->tree, size))
		return std::string("the tree: ") + wrong;
	for (auto &a : data->account) {
		money += a[0];
		flags += a[1];
	}
	if (flags % 2)
		return "an odd number of flags is set: " + std::to_string(flags);
	if (money != uint64_t(ACCOUNTS) * OPENING)
		return "the accounts hold " + std::to_string(money) + ", not " +
		       std::to_string(ACCOUNTS * OPENING);
	std::string damage;
	uint64_t blocks = subject.blocks(damage);
	if (!damage.empty())
		return damage;
	if (data->database) {
		const char *wrong = tpcc::check(tx, data->database);
		return wrong ? wrong : "";
	}
	uint64_t reachable = 1 + size;
	if (data->containers)
		if (std::string wrong = check_containers(*data->containers, reachable);
		        !wrong.empty())
			return wrong;
	if (data->collections)
		if (std::string wrong = check_collections(*data->collections, reachable);
		        !wrong.empty())
			return wrong;
	reachable += (data->containers != nullptr) + (data->collections != nullptr);
	for (int k = 0; data->bulk && k < BULK_RECORDS; k++)
		if (data->bulk[k].first != data->bulk[k].last)
			return "the words of a bulk update's record differ";
	/* A power failure may leave a bulk update's block, until a thread registers. */
	if constexpr (requires { subject.unfinished(); })
		reachable += subject.unfinished();
	reachable += data->bulk != nullptr;
	for (auto &t : data->table) {
		reachable += t[0] != nullptr;
		for (uint64_t k = 0; t[0] && k < TABLE_WORDS; k++)
			if (t[0][k * TABLE_STEP] != t[0][0])
				return "the words of a table differ";
	}
	if (blocks != reachable)
		return std::to_string(blocks) + " blocks are allocated, " +
		       std::to_string(reachable) + " are reachable";
	return "";
}

} // namespace explore

#endif /* EXPLORE_DATA_HPP */
