/* SPDX-License-Identifier: BSD-3-Clause
 *
 * history.hpp - what committed transactions have read and written, and the checker of it.
 *
 * A version is named by its key and the transaction that wrote it.  The order of a key's versions
 * follows from what each replaced.  The checker uses neither commit numbers nor the order in which
 * the host saw replies, except for the clock of begins and returns.
 *
 * Rows that were found through a secondary index are reads as all others.  Besides, the checker
 * compares what a lookup found with the rows that its transaction read, by whatever way: those that
 * belong in the range, and no other (INV-CN9).
 */
#ifndef LAB_OLTPIM_HISTORY_HPP
#define LAB_OLTPIM_HISTORY_HPP

#include <cstdint>
#include <string>
#include <vector>

namespace oltpim
{

/* `before` of a version that replaced nothing */
constexpr uint64_t NO_WRITER = ~uint64_t{0} - 1;
/* Of a row that is not there, and of an entry that a row does not have */
constexpr uint64_t NO_KEY = ~uint64_t{0};

struct Read {
	uint64_t key, writer;
	uint64_t entry = NO_KEY; /* that this version of the row has in a secondary index */
};

/* Of a secondary index */
struct Lookup {
	uint64_t first, last;
	size_t most;
	std::vector<uint64_t> targets; /* that its entries name */
};

/* What was read at a target: a row, or NO_KEY. */
struct Row {
	uint64_t target, key;
};

struct Write {
	uint64_t key, before; /* the writer of the version that it replaced */
};

struct Done {
	uint64_t transaction = 0, begin = 0, csn = 0;
	uint64_t began = 0, returned = 0; /* by the clock */
	std::vector<Read> reads;          /* in their order; not of own versions */
	std::vector<Write> writes;
	std::vector<Lookup> lookups;
	std::vector<Row> rows;
};

class History
{
public:
	void add(Done &&d)
	{
		done_.push_back(std::move(d));
	}
	const std::vector<Done> &done() const
	{
		return done_;
	}

private:
	std::vector<Done> done_;
};

enum class Flaw {
	FRACTURED,  /* a transaction sees one of another's versions, and misses one */
	UNREPEATED, /* it reads a key twice, and sees two versions */
	LOST,       /* it replaces a version that is not the one that it has read */
	DIRTY,      /* it reads a version of a transaction that did not commit */
	STALE,      /* it misses a version whose transaction had returned before it began */
	COLLECTED,  /* it reads a tuple that was given back */
	FORKED,     /* two committed transactions replaced the same version */
	ASTRAY,     /* a lookup finds a row that does not belong there, or finds it twice */
	UNINDEXED,  /* a lookup misses a row that the transaction sees, and that belongs there */
	FLAWS,
};

const char *flaw_name(Flaw flaw);

struct Violation {
	Flaw flaw;
	std::string text;
};

/* Check the histories of all workers of a run. */
std::vector<Violation> check_histories(const std::vector<const History *> &histories);

} // namespace oltpim

#endif /* LAB_OLTPIM_HISTORY_HPP */
