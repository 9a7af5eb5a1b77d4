/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tide.hpp - the host of PIM-TIDE: batches of transactions for the modules of one rank.
 *
 * A transaction is local, with one part, or distributed, with a part for each of several modules.
 * The host gives the distributed transactions of a batch one order, and each module executes its
 * parts in that order (INV-TD1); local transactions come after them, in any order.  So all modules
 * agree on an order of all transactions, without a word between them.
 *
 *   INV-TD5  All parts of a transaction are in one batch.
 *
 * Numbering::PRINTED numbers as the published host does: a part's rank is its place among all that
 * its module's tasklets are given, local ones too, and each module cuts its own batches.
 */
#ifndef LAB_TIDE_HPP
#define LAB_TIDE_HPP

#include "kernels/tide.h"
#include "near/near_machine.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

extern "C" const struct near_kernel tide_kernel, tide_many_locks_kernel;

namespace tide
{

struct Part {
	unsigned module = 0;
	tide_record record = {};
};

struct Transaction {
	std::vector<Part> parts;
	bool distributed() const
	{
		return parts.size() > 1 || ordered;
	}
	/* Even if it is local, it takes part in the order of the distributed ones. */
	bool ordered = false;
};

/* Of a part: what it returned, and the module's turn in which it took effect. */
struct Outcome {
	unsigned module = 0;
	tide_result result = {};
};

enum class Numbering { DENSE, PRINTED };

struct Options {
	std::string machine = "threads";
	unsigned modules = 1, tasklets = TIDE_TASKLETS, records = TIDE_RECORDS, host_threads = 1;
	Numbering numbering = Numbering::DENSE;
	bool printed_commit = false;
	bool trees = false; /* TPC-C's rows are found by trees */
	/* tide_many_locks.c; the machine needs a scratchpad of 512 KiB */
	bool many_locks = false;
	uint64_t most_instructions = 0; /* of near_options */
};

/* How full a batch is. */
class Room
{
public:
	explicit Room(const Options &o)
	    : tasklets_(o.tasklets), records_(o.records), load_(o.modules)
	{
	}
	/* Whole (INV-TD5). */
	bool fits(const Transaction &t) const;
	/* Returns the part's place among those of its kind that its module has. */
	unsigned add(const Transaction &t, const Part &p);
	void clear();

private:
	/* Parts that a module has been given. */
	struct Load {
		unsigned distributed = 0, local = 0;
	};
	const unsigned tasklets_, records_;
	std::vector<Load> load_;
};

struct Counts {
	uint64_t transactions = 0, batches = 0;
	uint64_t commits[2] = {}, aborts[2] = {}; /* of parts; the second: distributed ones */
};

/* What is to survive of each batch.  If a call throws, no result of the batch is released. */
class Keeper
{
public:
	virtual ~Keeper() = default;
	/* Of a batch that the modules execute now: TIDE_TASKLETS queues of each module */
	virtual void keep_parts(const std::vector<tide_queue> &queues) = 0;
	/* The modules have ended it: TIDE_RECORDS results of each queue. */
	virtual void keep_turns(
	        const std::vector<tide_queue> &queues, const std::vector<tide_result> &results) = 0;
};

class Tide
{
public:
	explicit Tide(const Options &options);

	/* The same words in the memory of every module. */
	void fill(uint64_t at, const std::vector<uint32_t> &words);
	/* The words of each module, one after the other. */
	std::vector<uint32_t> words(uint64_t at, size_t count) const;

	/* To be executed by the next batches, in this order.  Returns the transaction's number. */
	size_t submit(Transaction transaction);
	/* Execute one batch.  Returns how many transactions have ended with it. */
	size_t run_batch();
	void run_all()
	{
		while (ended_ < transactions_.size())
			run_batch();
	}
	/* From now on the keeper, which outlives the system, gets each batch.  Not with
	 * Numbering::PRINTED, which gives no order. */
	void keep_with(Keeper &keeper);
	/* What the parts of a transaction returned, in the order of its parts.   Errors:
	 * std::runtime_error if its results are not released. */
	const std::vector<Outcome> &outcome(size_t transaction) const;
	/* The transactions of the last batch, by their numbers, in their order. */
	const std::vector<size_t> &last_batch() const
	{
		return batch_;
	}

	Counts counts() const;
	near_counters counters() const
	{
		return near_.counters();
	}
	near_channel channel() const
	{
		return near_.channel();
	}
	/* Of each module, for the last batch */
	std::vector<uint64_t> cycles() const
	{
		return near_.cycles();
	}
	const near_shape &shape() const
	{
		return near_.shape();
	}
	bool trees() const
	{
		return options_.trees;
	}
	unsigned modules() const
	{
		return options_.modules;
	}

private:
	/* Where a part is in a batch: the nth record of its kind of a tasklet of its module. */
	struct Place {
		size_t transaction, part;
		unsigned tasklet;
		size_t nth;
		uint32_t rank;
	};

	tide_queue &queue_of(unsigned module, unsigned tasklet)
	{
		return matrix_[size_t(module) * TIDE_TASKLETS + tasklet];
	}
	void choose();
	void choose_as_printed();
	void place(size_t transaction, size_t part, unsigned tasklet, uint32_t rank);
	size_t slot_of(const Place &p);
	void push_queues();
	void pull_results();
	void release();

	Options options_;
	bench::NearMachine near_;
	std::deque<Transaction> transactions_;
	std::vector<std::vector<Outcome>> outcomes_;
	std::vector<size_t> left_; /* parts of each transaction that have not ended */
	std::deque<size_t> waiting_;
	/* As printed: the parts that each module waits to execute, and how many it has executed */
	std::vector<std::deque<std::pair<size_t, size_t>>> queues_;
	std::vector<uint64_t> prior_;
	/* Of a batch */
	std::vector<size_t> batch_;
	std::vector<Place> places_;
	Room room_;
	std::vector<tide_queue> matrix_;
	std::vector<tide_result> results_;
	Keeper *keeper_ = nullptr;
	uint64_t ended_ = 0, batches_ = 0;
};

} // namespace tide

#endif /* LAB_TIDE_HPP */
