/* SPDX-License-Identifier: BSD-3-Clause
 *
 * history.hpp - what committed transactions have read and written, and the checker of it.
 *
 * A version is named by its key and the transaction that wrote it.  The order of a key's versions
 * follows from what each replaced.  The checker uses neither commit numbers nor the order in which
 * the host saw replies, except for the clock of begins and returns.
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

struct Read {
	uint64_t key, writer;
};

struct Write {
	uint64_t key, before; /* the writer of the version that it replaced */
};

struct Done {
	uint64_t transaction = 0, begin = 0, csn = 0;
	uint64_t began = 0, returned = 0; /* by the clock */
	std::vector<Read> reads;          /* in their order; not of own versions */
	std::vector<Write> writes;
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
