/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bank.hpp - a workload for the checker, and runs whose order a seed gives.  Transfers read two
 * accounts and then store both; audits read some accounts, and then the same ones again.
 */
#ifndef LAB_OLTPIM_BANK_HPP
#define LAB_OLTPIM_BANK_HPP

#include "../../tools/common/random.hpp"
#include "transaction.hpp"

#include <algorithm>

namespace oltpim
{

/* Something that has transactions of its own, one after the other. */
class Client
{
public:
	virtual ~Client() = default;
	/* Do what can be done without waiting; false: it has ended all its transactions. */
	virtual bool step() = 0;
};

/* Insert the keys from `first` on, each with this value, as transaction 0 with number 0. */
inline void load_keys(Database &db, Tuples &tuples, uint64_t first, uint64_t n, uint64_t value)
{
	const auto round = std::make_unique<Round>();
	const auto serve = [&] {
		round->pending.store(round->n);
		db.store.issue(*round, 0);
		while (round->pending.load(std::memory_order_acquire)) /* Round::pending */
			for (unsigned part = 0; part < db.store.parts(); part++)
				db.store.help_part(part);
	};
	for (uint64_t from = 0; from < n; from += round->n) {
		round->n = static_cast<unsigned>(std::min(n - from, uint64_t{Round::MOST}));
		for (unsigned k = 0; k < round->n; k++) {
			const uint64_t key = first + from + k;
			Request &r = round->requests[k];
			r.kind = OLTPIM_INSERT;
			r.number = k & 0xffff;
			r.place = db.store.place_of(key);
			r.write = {
			        key, 0, 0, reinterpret_cast<uint64_t>(tuples.make(key, 0, value))};
		}
		serve();
		for (unsigned k = 0; k < round->n; k++) {
			Request &r = round->requests[k];
			if (r.reply.written.status != OLTPIM_DONE)
				throw std::runtime_error("the records do not fit the modules: "
				                         "raise --room, or use more modules");
			r.kind = OLTPIM_COMMIT;
			r.commit = {r.reply.written.object, 0, 0};
		}
		serve();
	}
}

class BankClient : public Client
{
public:
	BankClient(Database &db, Tuples &tuples, unsigned worker, unsigned slot, History *history,
	        uint64_t accounts, unsigned transactions, uint64_t seed)
	    : transaction_(db, tuples, worker, slot, history), accounts_(accounts),
	      left_(transactions), random_{seed}
	{
	}

	bool step() override
	{
		switch (state_) {
		case IDLE:
			if (left_ == 0)
				return false;
			choose();
			read();
			state_ = FIRST;
			break;
		case FIRST:
			if (transaction_.ready())
				second_round();
			break;
		case SECOND:
			if (transaction_.ready())
				end(!transaction_.failed());
			break;
		case ENDING:
			if (transaction_.ended())
				state_ = IDLE;
			break;
		}
		return true;
	}
	unsigned aborts() const
	{
		return aborts_;
	}

private:
	static constexpr unsigned AUDITED = 4;

	void choose()
	{
		transfers_ = random_.below(3) != 0;
		keys_.clear();
		while (keys_.size() < (transfers_ ? 2 : std::min<uint64_t>(AUDITED, accounts_))) {
			const uint64_t key = random_.below(accounts_);
			if (std::find(keys_.begin(), keys_.end(), key) == keys_.end())
				keys_.push_back(key);
		}
		transaction_.begin();
	}
	void read()
	{
		for (const uint64_t key : keys_)
			transaction_.get(key);
		transaction_.issue();
	}
	void second_round()
	{
		if (!transfers_) {
			read();
		} else {
			const uint64_t from = transaction_.value(0), to = transaction_.value(1);
			transaction_.update(keys_[0], from - 1);
			transaction_.update(keys_[1], to + 1);
			transaction_.issue();
		}
		state_ = SECOND;
	}
	void end(bool succeeded)
	{
		if (succeeded) {
			left_--;
			transaction_.commit();
		} else {
			aborts_++;
			transaction_.abort();
		}
		state_ = ENDING;
	}

	enum State { IDLE, FIRST, SECOND, ENDING } state_ = IDLE;
	Transaction transaction_;
	const uint64_t accounts_;
	unsigned left_, aborts_ = 0;
	tools::Random random_;
	bool transfers_ = false;
	std::vector<uint64_t> keys_;
};

/* Run the clients to their ends.  The seed chooses who does the next step: a client, or a part of
 * the store. */
inline void run_by_seed(Store &store, const std::vector<Client *> &clients, uint64_t seed)
{
	tools::Random random{seed};
	std::vector<Client *> running = clients;
	while (!running.empty()) {
		const uint64_t who = random.below(running.size() + store.parts());
		if (who >= running.size())
			store.help_part(static_cast<unsigned>(who - running.size()));
		else if (!running[who]->step())
			running.erase(running.begin() + static_cast<ptrdiff_t>(who));
	}
}

} // namespace oltpim

#endif /* LAB_OLTPIM_BANK_HPP */
