/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tuple_log.cpp - tuple_log.hpp.
 */
#include "tuple_log.hpp"

#include <algorithm>
#include <map>

namespace oltpim
{

namespace
{

/* Before the bytes of a row */
struct Row {
	uint64_t key, value;
	uint32_t payload, is_removed;
};

void put_row(lab::Bytes &block, const Tuple &t)
{
	block.put(Row{t.key, t.value, t.is_removed ? 0 : t.payload, t.is_removed});
	if (!t.is_removed)
		block.put_bytes(t.row(), t.payload);
}

/* The newest of a key */
struct Newest {
	uint64_t csn = 0;
	Tuple *tuple = nullptr; /* NULL: removed */
};

void take_block(lab::Bytes &block, Tuples &tuples, std::map<uint64_t, Newest> &rows, uint64_t &most)
{
	const auto csn = block.take<uint64_t>();
	most = std::max(most, csn);
	while (!block.at_end()) {
		const auto r = block.take<Row>();
		std::vector<unsigned char> bytes(r.payload);
		block.take_bytes(bytes.data(), bytes.size());
		const auto [at, is_new] = rows.try_emplace(r.key);
		Newest &n = at->second;
		if (!is_new && n.csn > csn)
			continue;
		if (n.tuple)
			tuples.give(n.tuple);
		n.csn = csn;
		n.tuple = r.is_removed ? nullptr
		                       : tuples.make(r.key, 0, r.value, bytes.data(), r.payload);
	}
}

} // namespace

TupleLog::TupleLog(fur_heap *heap, unsigned workers) : heap_(heap), writers_(workers) {}

void TupleLog::keep(unsigned worker, uint64_t csn, const std::vector<const Tuple *> &rows)
{
	if (!writers_[worker])
		writers_[worker] = std::make_unique<Writer>(heap_, worker);
	Writer &w = *writers_[worker];
	w.block.clear();
	w.block.put(csn);
	for (const Tuple *t : rows)
		put_row(w.block, *t);
	w.log.append(w.block);
}

void TupleLog::keep_loaded(const std::vector<Record> &records)
{
	constexpr size_t ROUND = 256;
	std::vector<const Tuple *> rows;
	for (const Record &r : records) {
		if (!oltpim_is_entry(r.key))
			rows.push_back(reinterpret_cast<const Tuple *>(r.content));
		if (rows.size() < ROUND && &r != &records.back())
			continue;
		keep(0, 0, rows);
		rows.clear();
	}
}

Recovered recover(fur_heap *heap, Tuples &tuples, uint64_t (*entry_of)(const Tuple &))
{
	Recovered r;
	std::map<uint64_t, Newest> rows;
	for (unsigned list = 0; list < lab::BlockLog::LISTS; list++)
		for (lab::Bytes &block : lab::BlockLog(heap, list).blocks())
			take_block(block, tuples, rows, r.newest);
	std::vector<Record> entries;
	for (const auto &[key, n] : rows) {
		if (!n.tuple)
			continue;
		r.records.push_back({key, reinterpret_cast<uint64_t>(n.tuple)});
		const uint64_t entry = entry_of ? entry_of(*n.tuple) : NO_KEY;
		if (entry != NO_KEY)
			entries.push_back({entry, key});
	}
	/* Trees of entries are behind all others. */
	std::sort(entries.begin(), entries.end(),
	        [](const Record &a, const Record &b) { return a.key < b.key; });
	r.records.insert(r.records.end(), entries.begin(), entries.end());
	return r;
}

} // namespace oltpim
