/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ycsb.hpp - transactions of YCSB as the paper on OLTPim has them: ten requests, all of one kind.
 */
#ifndef LAB_OLTPIM_YCSB_HPP
#define LAB_OLTPIM_YCSB_HPP

#include "../../bench/common/zipf.hpp"
#include "bank.hpp"

#include <vector>

namespace oltpim
{

/* Keys by Zipf's law, spread over all keys; theta 0: uniform. */
class Keys
{
public:
	Keys(uint64_t n, double theta) : n_(n), ranks_(n, theta) {}
	uint64_t draw(tools::Random &random) const
	{
		const uint64_t rank = ranks_.draw(random);
		return ranks_.uniform() ? rank : hash_of(rank, 0) % n_;
	}

private:
	const uint64_t n_;
	const bench::Zipf ranks_;
};

struct Mix {
	unsigned percent = 0; /* of transactions that write */
	bool inserts = false; /* they insert; else update */
	unsigned scan = 0;    /* keys; the others scan; 0: they get */
	unsigned requests = 10;
	bool at_once = true; /* all of a transaction's requests in one round */
	unsigned shift = 0;  /* R of hash_of() */
};

/* What a client has done since the measurement began. */
struct Measured {
	uint64_t committed = 0, aborted = 0;
	std::vector<uint64_t> latencies; /* of committed ones, from their first begin, in ps */
};

class YcsbClient : public Client
{
public:
	using Clock = uint64_t (*)(); /* picoseconds */

	/* `first_insert`, `insert_step`: the keys that it inserts */
	YcsbClient(Database &db, Tuples &tuples, unsigned worker, unsigned slot, const Mix &mix,
	        const Keys &keys, uint64_t first_insert, uint64_t insert_step, Clock clock,
	        uint64_t seed)
	    : transaction_(db, tuples, worker, slot, nullptr), mix_(mix), keys_(keys),
	      insert_(first_insert), insert_step_(insert_step), clock_(clock), random_{seed}
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
			if (!failures_)
				choose();
			attempt();
		} else if (state_ == ROUND && transaction_.ready()) {
			if (transaction_.failed())
				end(false);
			else if (issued_ < mix_.requests)
				next_round();
			else
				end(true);
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

private:
	void choose()
	{
		began_ = clock_();
		writes_ = random_.below(100) < mix_.percent;
		chosen_.clear();
		while (chosen_.size() < mix_.requests)
			if (writes_ && mix_.inserts)
				chosen_.push_back(insert_), insert_ += insert_step_;
			else
				add_distinct(keys_.draw(random_));
	}
	void add_distinct(uint64_t key)
	{
		if (!writes_ || std::find(chosen_.begin(), chosen_.end(), key) == chosen_.end())
			chosen_.push_back(key);
	}
	void attempt()
	{
		transaction_.begin();
		issued_ = 0;
		next_round();
	}
	void next_round()
	{
		const unsigned end = mix_.at_once ? mix_.requests : issued_ + 1;
		for (; issued_ < end; issued_++)
			add(chosen_[issued_]);
		transaction_.issue();
		state_ = ROUND;
	}
	void add(uint64_t key)
	{
		if (writes_ && mix_.inserts)
			transaction_.insert(key, key);
		else if (writes_)
			transaction_.update(key, random_.next());
		else if (mix_.scan)
			add_scan(key, key + mix_.scan - 1);
		else
			transaction_.get(key);
	}
	/* A module has 2^shift neighbours: a scan may need two. */
	void add_scan(uint64_t first, uint64_t last)
	{
		const uint64_t border = (last >> mix_.shift) << mix_.shift;
		if (border > first) {
			transaction_.scan(first, border - 1);
			transaction_.scan(border, last);
		} else {
			transaction_.scan(first, last);
		}
	}
	void end(bool succeeded)
	{
		succeeded_ = succeeded;
		if (succeeded)
			transaction_.commit();
		else
			transaction_.abort();
		state_ = ENDING;
	}
	void ended()
	{
		if (measures_) {
			measured_.committed += succeeded_;
			measured_.aborted += !succeeded_;
			if (succeeded_)
				measured_.latencies.push_back(clock_() - began_);
		}
		/* Transactions that go on at once meet the same ones again, and again none of them
		 * gets all of its records. */
		failures_ = succeeded_ ? 0 : failures_ + 1;
		pause_ = succeeded_ ? 0 : random_.below(uint64_t{1} << std::min(failures_, 10u));
		state_ = IDLE;
	}

	enum State { IDLE, ROUND, ENDING } state_ = IDLE;
	Transaction transaction_;
	const Mix &mix_;
	const Keys &keys_;
	uint64_t insert_;
	const uint64_t insert_step_;
	const Clock clock_;
	tools::Random random_;
	bool writes_ = false, succeeded_ = false, stopped_ = false, measures_ = false;
	unsigned issued_ = 0, failures_ = 0;
	uint64_t pause_ = 0; /* steps, after an abort */
	uint64_t began_ = 0;
	std::vector<uint64_t> chosen_;
	Measured measured_;
};

} // namespace oltpim

#endif /* LAB_OLTPIM_YCSB_HPP */
