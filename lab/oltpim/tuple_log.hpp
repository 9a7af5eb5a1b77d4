/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tuple_log.hpp - the rows that transactions commit, in a heap: modules and tuples are volatile.
 *
 *     TupleLog log(heap, workers);
 *     Database db{store, numbers, ...};
 *     db.keeper = &log;
 *
 *   INV-CN10  A commit's rows are durable in the log before a module is told to finalise one of its
 *             versions: what a transaction reads, and what a caller is told, stays after a failure.
 *
 * A block has a commit: its number, and of each row the key and the contents, or that it is
 * removed.  As in the paper, what lies in modules is not logged: recovery takes the newest row of
 * each key, derives its entry of a secondary index from it, and loads the modules anew; chains have
 * one version then.
 */
#ifndef LAB_OLTPIM_TUPLE_LOG_HPP
#define LAB_OLTPIM_TUPLE_LOG_HPP

#include "log/block_log.hpp"
#include "transaction.hpp"

#include <memory>

namespace oltpim
{

class TupleLog : public Keeper
{
public:
	/* Each worker has a list of the log, which it appends to from one thread. */
	TupleLog(fur_heap *heap, unsigned workers);
	/* Errors: fur::Error. */
	void keep(unsigned worker, uint64_t csn, const std::vector<const Tuple *> &rows) override;
	/* Keep what is loaded, with number 0; entries of secondary indexes need not be kept. */
	void keep_loaded(const std::vector<Record> &records);

private:
	/* Of one worker */
	struct alignas(64) Writer {
		Writer(fur_heap *heap, unsigned list) : log(heap, list) {}
		lab::BlockLog log;
		lab::Bytes block;
	};
	fur_heap *const heap_;
	std::vector<std::unique_ptr<Writer>> writers_; /* made by their threads */
};

struct Recovered {
	std::vector<Record> records; /* by rising keys */
	uint64_t newest = 0;         /* commit number */
};

/* What the log has.  `entry_of`: NULL, or as in Database.   Errors: fur::Error. */
Recovered recover(fur_heap *heap, Tuples &tuples, uint64_t (*entry_of)(const Tuple &));

} // namespace oltpim

#endif /* LAB_OLTPIM_TUPLE_LOG_HPP */
