/* SPDX-License-Identifier: BSD-3-Clause
 *
 * measured_client.hpp - a client of a benchmark: transactions one after the other, each in rounds
 * of requests, and again after an abort.
 */
#ifndef LAB_OLTPIM_MEASURED_CLIENT_HPP
#define LAB_OLTPIM_MEASURED_CLIENT_HPP

#include "bank.hpp"

#include <vector>

namespace oltpim
{

/* What a client has done since the measurement began. */
struct Measured {
	uint64_t committed = 0, aborted = 0;
	uint64_t rolled_back = 0;        /* by their own choice: TPC-C */
	std::vector<uint64_t> latencies; /* of committed ones, from their first begin, in ps */
};

class MeasuredClient : public Client
{
public:
	using Clock = uint64_t (*)(); /* picoseconds */

	MeasuredClient(Database &db, Tuples &tuples, unsigned worker, unsigned slot,
	        History *history, Clock clock, uint64_t seed)
	    : transaction_(db, tuples, worker, slot, history), random_{seed}, clock_(clock)
	{
	}

	/* False: it has ended its transaction after stop(). */
	bool step() override
	{
		if (state_ == IDLE) {
			if (stopped_)
				return false;
			if (pause_ && pause_--)
				return true;
			attempt();
		} else if (state_ == ROUND && transaction_.ready()) {
			if (transaction_.failed())
				end(ABORTED);
			else
				next_round();
		} else if (state_ == ENDING && transaction_.ended()) {
			ended();
		}
		return true;
	}
	/* What ends from now on is not counted. */
	void stop()
	{
		stopped_ = true;
		measures_ = false;
	}
	/* Count from now on. */
	void measure()
	{
		measures_ = true;
	}
	const Measured &measured() const
	{
		return measured_;
	}

protected:
	/* A new transaction: what it is to do. */
	virtual void choose() = 0;
	/* Add the requests of a round of it, from 0 on.  False: it has done all. */
	virtual bool add_round(unsigned round) = 0;
	/* After its last round: does it abort by its own choice? */
	virtual bool rolls_back() const
	{
		return false;
	}
	virtual void committed() {}

	Transaction transaction_;
	tools::Random random_;

private:
	enum Outcome { COMMITTED, ABORTED, ROLLED_BACK };

	void attempt()
	{
		if (!failures_) {
			began_ = clock_();
			choose();
		}
		transaction_.begin();
		round_ = 0;
		next_round();
	}
	void next_round()
	{
		if (add_round(round_++)) {
			transaction_.issue();
			state_ = ROUND;
		} else {
			end(rolls_back() ? ROLLED_BACK : COMMITTED);
		}
	}
	void end(Outcome outcome)
	{
		outcome_ = outcome;
		if (outcome == COMMITTED)
			transaction_.commit();
		else
			transaction_.abort();
		state_ = ENDING;
	}
	void ended()
	{
		const bool failed = outcome_ == ABORTED;
		if (outcome_ == COMMITTED)
			committed();
		if (measures_) {
			measured_.committed += outcome_ == COMMITTED;
			measured_.aborted += failed;
			measured_.rolled_back += outcome_ == ROLLED_BACK;
			if (outcome_ == COMMITTED)
				measured_.latencies.push_back(clock_() - began_);
		}
		/* Transactions that go on at once meet the same ones again, and again none of them
		 * gets all of its records. */
		failures_ = failed ? failures_ + 1 : 0;
		pause_ = failed ? random_.below(uint64_t{1} << std::min(failures_, 10u)) : 0;
		state_ = IDLE;
	}

	enum State { IDLE, ROUND, ENDING } state_ = IDLE;
	const Clock clock_;
	Outcome outcome_ = COMMITTED;
	bool stopped_ = false, measures_ = false;
	unsigned round_ = 0, failures_ = 0;
	uint64_t pause_ = 0; /* steps, after an abort */
	uint64_t began_ = 0;
	Measured measured_;
};

} // namespace oltpim

#endif /* LAB_OLTPIM_MEASURED_CLIENT_HPP */
