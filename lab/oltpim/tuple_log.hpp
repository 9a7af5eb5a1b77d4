/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tuple_log.hpp - the rows that transactions commit, in a heap: modules and tuples are volatile.
 *
 *     TupleLog log(heap, workers, numbers, most_bytes);
 *     Database db{store, numbers, ...};
 *     db.keeper = &log;
 *
 *   INV-CN10  A commit's rows are durable in the log before a module is told to finalise one of its
 *             versions: what a transaction reads, and what a caller is told, stays after a failure.
 *   INV-CN11  A removal stays in the table while a list has an older row of its key, or may get
 *             one: otherwise that row would be the newest of its key.
 *
 * A block has a commit: its number, and of each row the key and the contents, or that it is
 * removed.  A worker whose list has more bytes than it may have cuts it off: one update folds the
 * oldest block into the table, which has the newest row of each key, and frees the block.  So the
 * heap has at most the table and the lists' limits, and each failure leaves a block in its list or
 * in the table.
 *
 * As in the paper, what lies in modules is not logged: recovery folds all blocks into the table,
 * derives the rows' entries of a secondary index, and loads the modules anew; chains have one
 * version then.
 */
#ifndef LAB_OLTPIM_TUPLE_LOG_HPP
#define LAB_OLTPIM_TUPLE_LOG_HPP

#include "log/block_log.hpp"
#include "transaction.hpp"

#include <atomic>
#include <deque>
#include <fur/hash_map.hpp>
#include <fur/string.hpp>
#include <memory>
#include <string_view>

namespace oltpim
{

/* The newest row of each key, or that it is removed, in the heap's root 1 */
class RowTable
{
public:
	/* A removal that the table has */
	struct Removal {
		uint64_t key, csn;
	};

	/* Errors: fur::Error. */
	explicit RowTable(fur_heap *heap);
	/* Take what is new in a block of the log; add its removals to `removals`. */
	void fold(fur_update *tx, lab::Bytes &block, std::vector<Removal> &removals);
	/* Forget the removal, unless the key has a newer row. */
	void forget(const Removal &removal);
	/* Call use(key, number, tuple) for each row; the tuple, new from `tuples`, is NULL if the
	 * row is removed. */
	template <class Use>
	void each(Tuples &tuples, Use use)
	{
		fur::read(self_, [&](fur_ro *tx) {
			for (auto [key, bytes] : rows_->in(tx)) {
				uint64_t csn = 0;
				Tuple *tuple = row_of(tuples, key, bytes, csn);
				use(key, csn, tuple);
			}
		});
	}
	/* Keys, those of removals included */
	size_t size();

private:
	/* Of the commit that the table has for the key; 0: none, or it was loaded */
	uint64_t number_of(fur_update *tx, uint64_t key) const;
	static Tuple *row_of(Tuples &tuples, uint64_t key, std::string_view bytes, uint64_t &csn);

	using Rows = fur::hash_map<uint64_t, fur::string>;
	fur::Thread self_;
	Rows *rows_ = nullptr;
};

class TupleLog : public Keeper
{
public:
	/* Each worker has a list of the log, which it appends to from one thread, of at most `most`
	 * bytes.  The lists are empty: recover() has folded what they had. */
	TupleLog(fur_heap *heap, unsigned workers, const Numbers &numbers, uint64_t most);
	/* Errors: fur::Error; fur::heap_full. */
	void keep(unsigned worker, uint64_t csn, const std::vector<const Tuple *> &rows) override;
	/* Keep what is loaded, with number 0; entries of secondary indexes need not be kept. */
	void keep_loaded(const std::vector<Record> &records);

private:
	/* A block of a list.  The number of its commit is above `settled`: it was not finalised. */
	struct Kept {
		uint64_t settled, bytes;
	};
	/* Of one worker */
	struct alignas(64) Writer {
		Writer(fur_heap *heap, unsigned list) : log(heap, list), table(heap) {}
		lab::BlockLog log;
		RowTable table;
		lab::Bytes block;
		std::deque<Kept> kept; /* in the list */
		uint64_t bytes = 0;    /* of the list */
		std::deque<RowTable::Removal> removals;
	};
	/* All commits in the worker's list have numbers above it */
	struct alignas(64) Bound {
		std::atomic<uint64_t> number{~uint64_t{0}};
	};
	void cut(unsigned worker);
	uint64_t least_above() const;

	fur_heap *const heap_;
	const Numbers &numbers_;
	const uint64_t most_;
	std::vector<std::unique_ptr<Writer>> writers_; /* made by their threads */
	std::vector<Bound> bounds_;                    /* of workers */
};

struct Recovered {
	std::vector<Record> records; /* by rising keys */
	uint64_t newest = 0;         /* commit number */
};

/* What the log has.  Its lists are empty then.  `entry_of`: NULL, or as in Database.
 * Errors: fur::Error. */
Recovered recover(fur_heap *heap, Tuples &tuples, uint64_t (*entry_of)(const Tuple &));

} // namespace oltpim

#endif /* LAB_OLTPIM_TUPLE_LOG_HPP */
