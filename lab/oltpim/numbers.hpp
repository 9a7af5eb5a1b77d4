/* SPDX-License-Identifier: BSD-3-Clause
 *
 * numbers.hpp - commit numbers (CSN), and the numbers at which transactions begin.
 *
 * A transaction sees the versions whose commit number is at most its begin.  A writer draws its
 * number, has all modules finalise its versions, and then settles the number.
 *
 * As published, a transaction begins at the counter itself.  That breaks INV-CN1, because a number
 * is drawn before its versions are finalised, and INV-CN2, because the counter is the number that
 * the next writer draws.
 *
 *   INV-CN1  A transaction begins at a number of which, and of all below which, every version is
 *            finalised in every module: it sees all of another transaction, or nothing.
 *   INV-CN2  No writer draws a number that a transaction which has begun sees: a second read gives
 *            what the first gave, and an update that passes the test of the first updater replaces
 *            the version that its transaction has read.
 *   INV-CN3  `settled` rises in order: to a number whose versions are finalised, by one.
 *   INV-CN4  A writer returns when `settled` has reached its number: the next transaction sees it.
 */
#ifndef LAB_OLTPIM_NUMBERS_HPP
#define LAB_OLTPIM_NUMBERS_HPP

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace oltpim
{

enum class Protocol {
	MENDED,
	PUBLISHED, /* begins at the counter */
	STRICT,    /* begins below the counter: INV-CN2 holds, INV-CN1 does not */
};

class Numbers
{
public:
	/* Each worker has `each` slots, and a slot has one transaction at a time.  Slots are
	 * numbered through, worker by worker.  `settled`: the newest commit of before. */
	Numbers(Protocol protocol, unsigned workers, unsigned each, uint64_t settled = 0)
	    : protocol_(protocol), each_(each), next_(settled + 1), settled_(settled),
	      over_(ring_of(workers * each)), workers_(workers)
	{
		for (Worker &w : workers_)
			w.begins.assign(each, NOT_ANY);
	}

	/* The number at which the slot's transaction begins.  Only its worker calls this. */
	uint64_t begin(unsigned slot)
	{
		Worker &w = workers_[slot / each_];
		/* oldest() reads the counter, and then this store or not.  If not, then the second
		 * load here is later than that of oldest(), and yields no less.  Sequential
		 * consistency orders this store before the load; without it oldest() could miss
		 * a transaction that begins below its result, whose versions are then collected. */
		if (w.active++ == 0)
			w.oldest.store(now());
		return w.begins[slot % each_] = now();
	}

	/* The worker's bound stays for a while: it may be too low, and does no harm then. */
	void end(unsigned slot)
	{
		Worker &w = workers_[slot / each_];
		w.begins[slot % each_] = NOT_ANY;
		w.active--;
		if (w.active == 0 || ++w.ends % ENDS == 0)
			w.oldest.store(*std::min_element(w.begins.begin(), w.begins.end()));
	}

	/* No transaction, now or later, begins at a lower number (INV-CN6). */
	uint64_t oldest() const
	{
		uint64_t least = now();
		for (const Worker &w : workers_)
			least = std::min(least, w.oldest.load());
		return least;
	}

	/* All numbers drawn so far are below. */
	uint64_t next() const
	{
		return next_.load();
	}

	/* The writer's commit number.  It has written all its versions. */
	uint64_t draw()
	{
		return next_.fetch_add(1);
	}

	/* The versions with this number are finalised in all modules. */
	void settle(uint64_t number);

	uint64_t settled() const
	{
		return settled_.load();
	}

	/* May a writer with this number return?  As published: at once. */
	bool may_return(uint64_t number) const;

private:
	static constexpr uint64_t NOT_ANY = ~uint64_t{0};

	/* A slot has at most one number that is not settled, so two such numbers are less than
	 * `slots` apart and have different places. */
	static size_t ring_of(unsigned slots)
	{
		return size_t{2} * slots + 2;
	}

	static constexpr unsigned ENDS = 16;

	struct alignas(64) Worker {
		std::atomic<uint64_t> oldest{NOT_ANY}; /* at most its transactions' begins */
		unsigned active = 0, ends = 0;
		std::vector<uint64_t> begins;
	};

	uint64_t now() const
	{
		if (protocol_ == Protocol::MENDED)
			return settled_.load();
		return next_.load() - (protocol_ == Protocol::STRICT);
	}

	const Protocol protocol_;
	const unsigned each_;
	alignas(64) std::atomic<uint64_t> next_;
	alignas(64) std::atomic<uint64_t> settled_;
	std::vector<std::atomic<uint64_t>> over_;
	std::vector<Worker> workers_;
};

} // namespace oltpim

#endif /* LAB_OLTPIM_NUMBERS_HPP */
