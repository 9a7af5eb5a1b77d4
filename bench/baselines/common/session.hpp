/* SPDX-License-Identifier: BSD-3-Clause
 *
 * session.hpp - the common part of the baselines' threads: counters, the times of phases, and
 * rolling a body back in software.
 */
#ifndef BASELINES_SESSION_HPP
#define BASELINES_SESSION_HPP

#include "allocator.hpp"

#include <csetjmp>
#include <optional>

namespace baselines
{

/* The events of a transaction that an observer cannot see from outside, all on the calling thread.
 * Benchmarks have no observer. */
struct Nobody {
	/* The update that is committing becomes visible, after all that did so far */
	static void visible() {}
	static void withdrawn() {} /* it does not after all */
	static void pending() {}   /* from here on a power failure may leave it done */
	static void aborted() {}   /* the attempt has been rolled back by software */
};

struct Counters {
	uint64_t aborts[FUR_ABORT_CAUSES] = {}, locked = 0, reclaims = 0, phase_ns[FUR_PHASES] = {};
	void operator+=(const Counters &other)
	{
		for (int c = 0; c < FUR_ABORT_CAUSES; c++)
			aborts[c] += other.aborts[c];
		for (int p = 0; p < FUR_PHASES; p++)
			phase_ns[p] += other.phase_ns[p];
		locked += other.locked, reclaims += other.reclaims;
	}
};

/* A durable baseline: its medium, and the sum of the counters of its threads. */
class DurableTm
{
public:
	static constexpr bool rolls_back = true;
	DurableTm(const TmOptions &o, const char *system, Medium::Working working,
	        bool durable_counts = false)
	    : medium(o, system, working, durable_counts), phases(o.phases), system_(system)
	{
		auto *root = reinterpret_cast<Root *>(medium.heap());
		if (root->pieces == 0)
			root->pieces = Place::first_piece(medium);
		if (medium.heap_bytes() / PIECE <= Place::first_piece(medium))
			throw Usage("the heap has " + std::to_string(medium.heap_bytes()) +
			            " bytes: give it a larger --heap-mib");
	}
	void *root()
	{
		return reinterpret_cast<void *>(reinterpret_cast<Root *>(medium.heap())->data);
	}
	template <WordTx Tx>
	void set_root(Tx *tx, void *p)
	{
		tx->store(&reinterpret_cast<Root *>(medium.heap())->data,
		        reinterpret_cast<uint64_t>(p));
	}
	void begin_run()
	{
		std::lock_guard guard(summing_);
		sum_ = {};
	}
	void describe(bench::json &j)
	{
		j["isolation"] = isolation;
		j["htm"] = htm;
		medium.describe(j);
	}
	void results(bench::json &j)
	{
		j["aborts"] = bench::aborts_by_cause([&](int c) { return sum_.aborts[c]; });
		j["lock_commits"] = sum_.locked;
		j["phases_ns"] = bench::times_by_phase([&](int p) { return sum_.phase_ns[p]; });
		j["replays"] = sum_.reclaims;
	}

	Medium medium;
	const bool phases;
	const char *isolation = "opacity", *htm = "none";

private:
	friend class Session;
	const char *system_;
	std::mutex summing_;
	Counters sum_;
};

/* One thread's part. */
class Session
{
public:
	explicit Session(DurableTm &tm)
	    : medium_(tm.medium), number_(tm.medium.enter()), log_(tm.medium.log(number_)), tm_(tm),
	      timing_(tm.phases)
	{
	}
	~Session()
	{
		{
			std::lock_guard guard(tm_.summing_);
			tm_.sum_ += counters_;
		}
		medium_.leave(number_);
	}
	Session(const Session &) = delete;

protected:
	/* The time since the last mark was spent in this phase. */
	void spent(fur_phase phase)
	{
		if (!timing_)
			return;
		uint64_t now = arch_ticks();
		counters_.phase_ns[phase] += arch_ticks_to_ns(now - mark_);
		mark_ = now;
	}
	void mark()
	{
		if (timing_)
			mark_ = arch_ticks();
	}
	[[noreturn]] void too_big()
	{
		throw std::runtime_error("a transaction does not fit a thread's redo log");
	}

	Medium &medium_;
	unsigned number_;
	Log &log_;
	Counters counters_;

private:
	DurableTm &tm_;
	const bool timing_;
	uint64_t mark_ = 0;
};

/* The result of a body; none if the hardware rolled it back together with the transaction. */
template <class Body, class Tx>
using Result = std::optional<std::invoke_result_t<Body &, Tx *>>;

/* The public members of a thread whose transact(update, body, keep) runs a transaction: it commits
 * if keep(result) is true, and rolls back otherwise. */
template <class Self>
class Transacts
{
public:
	template <class Body>
	auto read(Body &&body)
	{
		return *self().transact(false, body, [](auto &) { return true; });
	}
	template <class Body>
	auto update(Body &&body)
	{
		return *self().transact(true, body, [](auto &) { return true; });
	}
	template <class Body>
	bool update_or_abort(Body &&body)
	{
		return self().transact(true, body, [](bool kept) { return kept; }).value_or(false);
	}

private:
	Self &self()
	{
		return static_cast<Self &>(*this);
	}
};

} // namespace baselines

#endif /* BASELINES_SESSION_HPP */
