/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tuple_log.cpp - tuple_log.hpp.
 *
 * The tests compile a plant into this file: PLANT_FORGETS breaks INV-CN11.
 */
#include "tuple_log.hpp"

#include <algorithm>
#include <string>

namespace oltpim
{

namespace
{

/* Before the bytes of a row */
struct Contents {
	uint64_t key, value;
	uint32_t payload, is_removed;
};

/* What the table has of a row, before its bytes */
struct Head {
	uint64_t csn;
	Contents row;
};

Head head_of(std::string_view bytes)
{
	Head h;
	memcpy(&h, bytes.data(), sizeof(h));
	return h;
}

void put_row(lab::Bytes &block, const Tuple &t)
{
	block.put(Contents{t.key, t.value, t.is_removed ? 0 : t.payload, t.is_removed});
	if (!t.is_removed)
		block.put_bytes(t.row(), t.payload);
}

} // namespace

/* ----------------------------------------------------------------- the table */

RowTable::RowTable(fur_heap *heap) : self_(heap)
{
	rows_ = fur::update(self_, [](fur_update *tx) {
		auto *there = fur::root<Rows>(tx, 1);
		if (!there) {
			there = fur::make<Rows>(tx);
			fur_set_root(tx, 1, there);
		}
		return there;
	});
}

uint64_t RowTable::number_of(fur_update *tx, uint64_t key) const
{
	const auto there = rows_->get(tx, key);
	return there ? head_of(*there).csn : 0;
}

void RowTable::fold(fur_update *tx, lab::Bytes &block, std::vector<Removal> &removals)
{
	Head h = {};
	h.csn = block.take<uint64_t>();
	while (!block.at_end()) {
		h.row = block.take<Contents>();
		std::string bytes(sizeof(h) + h.row.payload, '\0');
		memcpy(bytes.data(), &h, sizeof(h));
		block.take_bytes(bytes.data() + sizeof(h), h.row.payload);
		if (number_of(tx, h.row.key) > h.csn)
			continue;
		rows_->insert_or_assign(tx, h.row.key, bytes);
		if (h.row.is_removed)
			removals.push_back({h.row.key, h.csn});
	}
}

void RowTable::forget(const Removal &removal)
{
	fur::update(self_, [&](fur_update *tx) {
		if (number_of(tx, removal.key) == removal.csn)
			rows_->erase(tx, removal.key);
	});
}

Tuple *RowTable::row_of(Tuples &tuples, uint64_t key, std::string_view bytes, uint64_t &csn)
{
	const Head h = head_of(bytes);
	csn = h.csn;
	return h.row.is_removed
	               ? nullptr
	               : tuples.make(key, 0, h.row.value, bytes.data() + sizeof(h), h.row.payload);
}

size_t RowTable::size()
{
	return fur::read(self_, [&](fur_ro *tx) { return rows_->size(tx); });
}

/* ------------------------------------------------------------------- the log */

TupleLog::TupleLog(fur_heap *heap, unsigned workers, const Numbers &numbers, uint64_t most)
    : heap_(heap), numbers_(numbers), most_(most), writers_(workers), bounds_(workers)
{
}

void TupleLog::keep(unsigned worker, uint64_t csn, const std::vector<const Tuple *> &rows)
{
	if (!writers_[worker])
		writers_[worker] = std::make_unique<Writer>(heap_, worker);
	Writer &w = *writers_[worker];
	const uint64_t settled = numbers_.settled();
	if (w.kept.empty())
		bounds_[worker].number.store(settled); /* see least_above() */
	w.block.clear();
	w.block.put(csn);
	for (const Tuple *t : rows)
		put_row(w.block, *t);
	w.log.append(w.block);
	w.kept.push_back({settled, w.block.size()});
	w.bytes += w.block.size();
	while (w.bytes > most_)
		cut(worker);
}

/* Every commit that a list has, or gets from now on, has a larger number.  Sequential consistency:
 * if the number of a commit is at most the one that is loaded first, the commit was kept before it
 * was settled, so that its worker's bound is loaded with the commit in mind, or the commit is in
 * the table.  In another order a commit that is kept and settled between the loads could be
 * missed. */
uint64_t TupleLog::least_above() const
{
	uint64_t least = numbers_.settled();
	for (const Bound &b : bounds_)
		least = std::min(least, b.number.load());
	return least;
}

void TupleLog::cut(unsigned worker)
{
	Writer &w = *writers_[worker];
	std::vector<RowTable::Removal> removals;
	w.log.cut([&](fur_update *tx, lab::Bytes &block) {
		removals.clear();
		w.table.fold(tx, block, removals);
	});
	w.bytes -= w.kept.front().bytes;
	w.kept.pop_front();
	bounds_[worker].number.store(w.kept.empty() ? ~uint64_t{0} : w.kept.front().settled);
	w.removals.insert(w.removals.end(), removals.begin(), removals.end());
#ifdef PLANT_FORGETS
	const uint64_t bound = ~uint64_t{0};
#else
	const uint64_t bound = least_above(); /* INV-CN11 */
#endif
	/* The newest removal stays for its number: recovery finds the newest commit. */
	for (; !w.removals.empty() && w.removals.front().csn < bound; w.removals.pop_front())
		w.table.forget(w.removals.front());
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

/* ------------------------------------------------------------------ recovery */

namespace
{

void fold_lists(fur_heap *heap, RowTable &table)
{
	std::vector<RowTable::Removal> removals;
	for (unsigned list = 0; list < lab::BlockLog::LISTS; list++) {
		lab::BlockLog log(heap, list);
		while (log.cut([&](fur_update *tx, lab::Bytes &block) {
			removals.clear();
			table.fold(tx, block, removals);
		})) {
		}
	}
}

} // namespace

Recovered recover(fur_heap *heap, Tuples &tuples, uint64_t (*entry_of)(const Tuple &))
{
	Recovered r;
	RowTable table(heap);
	fold_lists(heap, table);
	std::vector<Record> entries;
	std::vector<RowTable::Removal> removals;
	table.each(tuples, [&](uint64_t key, uint64_t csn, Tuple *tuple) {
		r.newest = std::max(r.newest, csn);
		if (!tuple) {
			removals.push_back({key, csn});
			return;
		}
		r.records.push_back({key, reinterpret_cast<uint64_t>(tuple)});
		const uint64_t entry = entry_of ? entry_of(*tuple) : NO_KEY;
		if (entry != NO_KEY)
			entries.push_back({entry, key});
	});
	for (const RowTable::Removal &removal : removals)
		if (removal.csn < r.newest)
			table.forget(removal); /* INV-CN11: all lists are empty */
	const auto by_key = [](const Record &a, const Record &b) { return a.key < b.key; };
	std::sort(r.records.begin(), r.records.end(), by_key);
	/* Trees of entries are behind all others. */
	std::sort(entries.begin(), entries.end(), by_key);
	r.records.insert(r.records.end(), entries.begin(), entries.end());
	return r;
}

} // namespace oltpim
