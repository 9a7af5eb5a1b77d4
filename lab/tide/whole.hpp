/* SPDX-License-Identifier: BSD-3-Clause
 *
 * whole.hpp - a machine of many ranks, of which one is run.
 *
 * Transactions are drawn for all modules, and batches are cut as if all ran: the rank gets its
 * parts, also of transactions that it shares with other ranks.  No module waits for another
 * during a batch, so it does what it does in the whole machine.  The time of the whole machine's
 * batch is that of its slowest module, and of the host's copies.
 *
 * The host copies to all ranks at once, a thread for each; those that share a channel wait for each
 * other.  It makes the next batch while the modules run (the paper's section 3.3), at no time.
 */
#ifndef LAB_TIDE_WHOLE_HPP
#define LAB_TIDE_WHOLE_HPP

#include "workload.hpp"

#include <optional>

namespace tide
{

class Whole
{
public:
	/* `modules`: of the machine; its rank begins with module `first`. */
	Whole(const Workload &w, const Options &rank, unsigned modules, unsigned first,
	        uint64_t seed);
	/* Execute the next batch. */
	void run_batch();

	/* Of the rank's batches, not of the whole machine's */
	void keep_with(Keeper &keeper)
	{
		rank_.keep_with(keeper);
	}
	const Tide &rank() const
	{
		return rank_;
	}
	struct Times {
		double transactions = 0; /* of a batch */
		/* Of a batch, in microseconds: the modules of the rank, the slowest of them, and
		 * the slowest of as many as the machine has, drawn again and again from all modules
		 * and batches of this run */
		double mean = 0, slowest_seen = 0, slowest = 0;
		double copies = 0, handing = 0; /* copies; handing memory over, and polls */
		double batch() const
		{
			return slowest + copies + handing;
		}
		double throughput() const
		{
			return transactions * 1e6 / batch();
		}
	};
	/* Of a machine of `modules` such modules, with as many transactions each; no times without
	 * an emulated machine. */
	Times times(unsigned modules) const;
	uint64_t transactions() const /* of the whole machine */
	{
		return transactions_;
	}

private:
	Options machine() const;
	Transaction draw();
	std::optional<Transaction> of_rank(const Transaction &t) const;

	const Workload workload_;
	const Options options_; /* of the rank */
	const unsigned modules_, first_;
	tools::Random random_;
	Tide rank_;
	Room room_; /* of the whole machine's batch */
	std::optional<Transaction> next_;
	uint64_t drawn_ = 0, batches_ = 0, transactions_ = 0;
	std::vector<uint64_t> cycles_;          /* of each module in each batch */
	near_counters loaded_ = {}, done_ = {}; /* before the first batch; after the last one */
};

/* What the largest of n of these is on average, each drawn from all of them. */
double largest_of(std::vector<double> values, unsigned n);

} // namespace tide

#endif /* LAB_TIDE_WHOLE_HPP */
