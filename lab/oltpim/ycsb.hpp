/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ycsb.hpp - transactions of YCSB as the paper on OLTPim has them: ten requests, all of one kind.
 */
#ifndef LAB_OLTPIM_YCSB_HPP
#define LAB_OLTPIM_YCSB_HPP

#include "../../bench/common/zipf.hpp"
#include "measured_client.hpp"

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

class YcsbClient : public MeasuredClient
{
public:
	/* `first_insert`, `insert_step`: the keys that it inserts */
	YcsbClient(Database &db, Tuples &tuples, unsigned worker, unsigned slot, History *history,
	        const Mix &mix, const Keys &keys, uint64_t first_insert, uint64_t insert_step,
	        Clock clock, uint64_t seed)
	    : MeasuredClient(db, tuples, worker, slot, history, clock, seed), mix_(mix),
	      keys_(keys), insert_(first_insert), insert_step_(insert_step)
	{
	}

private:
	void choose() override
	{
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
	bool add_round(unsigned round) override
	{
		if (round == 0)
			issued_ = 0;
		if (issued_ == mix_.requests)
			return false;
		const unsigned end = mix_.at_once ? mix_.requests : issued_ + 1;
		for (; issued_ < end; issued_++)
			add(chosen_[issued_]);
		return true;
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

	const Mix &mix_;
	const Keys &keys_;
	uint64_t insert_;
	const uint64_t insert_step_;
	bool writes_ = false;
	unsigned issued_ = 0;
	std::vector<uint64_t> chosen_;
};

} // namespace oltpim

#endif /* LAB_OLTPIM_YCSB_HPP */
