/* SPDX-License-Identifier: BSD-3-Clause
 *
 * transaction.hpp - transactions over a Store, with snapshot isolation.
 *
 * A transaction never waits: it issues requests, a round of them at once, and the caller comes back
 * until ready() says that all are served.  commit() and abort() begin requests too, and ended()
 * does what is left.  One thread uses a transaction at a time.
 */
#ifndef LAB_OLTPIM_TRANSACTION_HPP
#define LAB_OLTPIM_TRANSACTION_HPP

#include "history.hpp"
#include "numbers.hpp"
#include "store.hpp"
#include "tuples.hpp"

#include <memory>
#include <stdexcept>
#include <vector>

namespace oltpim
{

/* Makes commits durable. */
class Keeper
{
public:
	virtual ~Keeper() = default;
	/* The rows that a transaction with this number makes, changes and removes; they are durable
	 * on return. */
	virtual void keep(
	        unsigned worker, uint64_t csn, const std::vector<const Tuple *> &rows) = 0;
};

/* What the transactions of a run share. */
struct Database {
	Store &store;
	Numbers &numbers;
	std::atomic<uint64_t> transactions{1}; /* the next one's number; 0 has loaded the records */
	std::atomic<uint64_t> clock{1};        /* of begins and returns, if there is a history */
	/* The entry that a row has in a secondary index, if there is one: for histories */
	uint64_t (*entry_of)(const Tuple &row) = nullptr;
	Keeper *keeper = nullptr; /* NULL: nothing is durable */
};

class Transaction
{
public:
	/* `history`: NULL, or where it is added when it has committed. */
	Transaction(Database &db, Tuples &tuples, unsigned worker, unsigned slot, History *history)
	    : db_(db), tuples_(tuples), worker_(worker), slot_(slot), history_(history)
	{
	}

	void begin()
	{
		number_ = db_.transactions.fetch_add(1, std::memory_order_relaxed);
		done_ = {};
		done_.transaction = number_;
		if (history_)
			done_.began = db_.clock.fetch_add(1);
		done_.begin = db_.numbers.begin(slot_);
		state_ = ACTIVE;
		failed_ = false;
	}

	/* Add a request to the round; returns its number there. */
	unsigned get(uint64_t key);
	unsigned scan(uint64_t first, uint64_t last);
	/* As scan(), and finds no more than one. */
	unsigned first(uint64_t first, uint64_t last);
	/* The row that an entry of a secondary index names: target(), or found_target(). */
	unsigned read(uint64_t target);
	/* The value of an entry is the target that it names. */
	unsigned insert(uint64_t key, uint64_t value)
	{
		return add_write(OLTPIM_INSERT, key, value);
	}
	unsigned update(uint64_t key, uint64_t value)
	{
		return add_write(OLTPIM_UPDATE, key, value);
	}
	unsigned remove(uint64_t key)
	{
		return add_write(OLTPIM_REMOVE, key, 0);
	}
	/* The same with a row, which is copied. */
	template <class Row>
	unsigned insert_row(uint64_t key, const Row &row)
	{
		return add_row(OLTPIM_INSERT, key, &row, sizeof(row));
	}
	template <class Row>
	unsigned update_row(uint64_t key, const Row &row)
	{
		return add_row(OLTPIM_UPDATE, key, &row, sizeof(row));
	}
	void issue();

	/* Is the round served?  Then its results are there. */
	bool ready()
	{
		/* Acquire: Round::pending. */
		if (round_.pending.load(std::memory_order_acquire))
			return false;
		if (round_.n)
			take_replies();
		return true;
	}
	/* A request met another transaction's version, or an object that is there, or not, against
	 * its purpose: the transaction can only abort(). */
	bool failed() const
	{
		return failed_;
	}
	/* Requests of the last round */
	unsigned replies() const
	{
		return static_cast<unsigned>(results_.size());
	}
	/* Of the last round.  A tuple that is not there has value 0. */
	oltpim_status status(unsigned request) const
	{
		return results_[request].status;
	}
	bool found(unsigned request) const
	{
		return results_[request].count != 0;
	}
	uint64_t value(unsigned request) const
	{
		return results_[request].value;
	}
	/* NULL: it is not there. */
	const Tuple *tuple(unsigned request) const
	{
		return results_[request].tuple;
	}
	/* Of a scan of rows: the nth that was found */
	const Tuple *found_tuple(unsigned request, unsigned nth) const
	{
		return reinterpret_cast<const Tuple *>(scanned_[request].tuples[nth]);
	}
	/* Of a scan: tuples found, and the sum of their values */
	uint64_t count(unsigned request) const
	{
		return results_[request].count;
	}
	/* Of a scan of a secondary index: what its nth entry names */
	uint64_t found_target(unsigned request, unsigned nth) const
	{
		return scanned_[request].tuples[nth];
	}
	/* Of a write: the row that an entry is to name */
	uint64_t target(unsigned request) const
	{
		return results_[request].value;
	}

	void commit();
	void abort();
	/* Has the commit or abort returned?  It goes on when the caller comes back. */
	bool ended();

	uint64_t number() const
	{
		return number_;
	}

private:
	enum State { ENDED, ACTIVE, DRAWN, COMMITTING, ABORTING, SETTLING };
	struct Result {
		uint64_t value = 0;
		const Tuple *tuple = nullptr;
		uint32_t count = 0;
		oltpim_status status = OLTPIM_DONE;
	};
	static_assert(sizeof(Result) == 24);
	struct Written {
		unsigned place;
		uint32_t object;
		Tuple *tuple; /* NULL: an entry, which its module keeps */
	};

	Request &add(oltpim_kind kind, unsigned place);
	unsigned add_write(oltpim_kind kind, uint64_t key, uint64_t value);
	unsigned add_row(oltpim_kind kind, uint64_t key, const void *row, size_t bytes);
	void fetch_replies() const;
	void take_replies();
	Result take_found(uint64_t key, const uint64_t *found, uint64_t n);
	Result take_row(const Request &r);
	void add_to_history(const Tuple &t);
	void add_lookup(const Request &r);
	void add_kept(unsigned place, uint32_t object);
	Result take_write(const Request &r);
	void link(Tuple *tuple, Tuple *before, const Request &r);
	unsigned add_scan(oltpim_kind kind, uint64_t first, uint64_t last);
	void collect(const oltpim_written &w);
	void keep();
	void finalise();
	void finish_commit();
	void finish_abort();

	Database &db_;
	Tuples &tuples_;
	const unsigned worker_, slot_;
	History *const history_;
	std::unique_ptr<oltpim_scanned[]> scanned_; /* replies of scans, if there was one */
	std::vector<Result> results_;
	std::vector<Written> written_;
	std::vector<const Tuple *> kept_; /* rows of written_ */
	State state_ = ENDED;
	bool failed_ = false;
	uint64_t number_ = 0;
	Done done_;
	Round round_;
};

} // namespace oltpim

#endif /* LAB_OLTPIM_TRANSACTION_HPP */
