/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tm.hpp - the interface between workloads and the systems that they run on.
 *
 * A system is a class with the members that the concepts below name.  A workload is written once,
 * on fur_load(), fur_store(), fur_promote(), fur_alloc(), fur_alloc_aligned() and fur_free(), which
 * each system overloads for its transactions; require_transactional_memory() checks a system where
 * a workload is built on it (systems.hpp, peers.hpp).
 */
#ifndef BENCH_TM_HPP
#define BENCH_TM_HPP

#include "../../tools/common/json.hpp"

#include <concepts>
#include <cstdint>
#include <fur.hpp>
#include <stdexcept>
#include <string>
#include <unistd.h>

namespace bench
{

using json = tools::Json;

/* The command line asks for something impossible: one line, exit status 2. */
struct Usage : std::runtime_error {
	using runtime_error::runtime_error;
};

struct TmOptions {
	unsigned threads = 1;
	std::string heap; /* empty: a file of its own in /dev/shm, removed at the end */
	bool reuse = false;
	uint64_t heap_bytes = 0, log_bytes = 0, ring_slots = 0; /* 0: the default */
	enum fur_pm pm = FUR_PM_EMULATED;
	uint32_t pm_latency_ns = 0, pm_gap_ns = 0, pm_read_ns = 0;
	uint64_t dram_bytes = 0; /* MiB until Options::check() */
	/* The emulated machine has persistent memory, and lets write-backs take their time */
	bool machine_has_pm = false;
	bool phases = false;
	/* libfur: the heap is a member of a group (group_tm.hpp) */
	bool member = false;
	enum fur_isolation isolation = FUR_OPACITY;
	/* Conflicts of hardware transactions before the lock is taken; libfur's default.  0: every
	 * transaction takes the lock */
	unsigned retries = 20;
	/* Of a workload that is cut over several: the members of a group; the sizes are those of
	 * each */
	unsigned heaps = 1;
	unsigned workers = 0; /* threads of a group's own, fur_group_options.workers */

	std::string path() const
	{
		return heap.empty() ? "/dev/shm/fur-bench-" + std::to_string(getpid()) : heap;
	}
};

/* ---------------------------------------------------------------- transactions */

/* The transaction that a system passes to the body of read(). */
template <class Tx>
concept ReadTransaction = requires(Tx *tx, const uint64_t *from)
{
	{
		fur_load(tx, from)
		} -> std::same_as<uint64_t>;
};

/* The transaction that a system passes to the body of update(). */
template <class Tx>
concept UpdateTransaction = ReadTransaction<Tx> && requires(Tx *tx, uint64_t *to, void *block)
{
	fur_store(tx, to, uint64_t(1));
	fur_promote(tx, block); /* conflicts as a store would, where reads are not tracked */
	{
		fur_alloc(tx, size_t(64)) /* null: no memory */
		} -> std::same_as<void *>;
	{
		/* The block shares no line with another one */
		fur_alloc_aligned(tx, size_t(40), size_t(FUR_CACHE_LINE))
		} -> std::same_as<void *>;
	fur_free(tx, block);
};

/* ---------------------------------------------------------------- systems */

/* Bodies for the checks, never run. */
struct ReadBody {
	template <ReadTransaction Tx>
	int operator()(Tx *tx) const;
};
struct UpdateBody {
	template <UpdateTransaction Tx>
	int operator()(Tx *tx) const;
};
struct UpdateOrAbortBody {
	template <UpdateTransaction Tx>
	bool operator()(Tx *tx) const;
};
template <class Tm>
struct SetRootBody {
	template <class Tx>
	requires requires(Tm &tm, Tx *tx, void *data)
	{
		tm.set_root(tx, data);
	}
	int operator()(Tx *tx) const;
};

/* A system that a benchmark can measure.  The constructor throws Usage for options that it cannot
 * run with; each thread constructs its own Thread. */
template <class System>
concept MeasuredSystem = std::constructible_from<System, const TmOptions &> &&
        std::constructible_from<typename System::Thread, System &> &&
        requires(System &system, json &result)
{
	system.begin_run();      /* counts start here */
	system.describe(result); /* adds the system's settings */
	system.results(result);  /* adds the counts since begin_run() */
};

/* A thread of a system with transactions: runs body(tx) as a transaction, as often as it takes, and
 * returns the body's result. */
template <class Thread>
concept TransactionalThread = requires(Thread &self, ReadBody read, UpdateBody update)
{
	{
		self.read(read)
		} -> std::same_as<int>;
	{
		self.update(update)
		} -> std::same_as<int>;
};

/* A thread that can also roll back: update_or_abort(body) rolls the update back if body(tx) returns
 * false, and returns whether it has committed. */
template <class Thread>
concept AbortingThread = requires(Thread &self, UpdateOrAbortBody body)
{
	{
		self.update_or_abort(body)
		} -> std::same_as<bool>;
};

template <class Tm>
concept TransactionalMemory = MeasuredSystem<Tm> && TransactionalThread<typename Tm::Thread> &&
        (!Tm::rolls_back || AbortingThread<typename Tm::Thread>)&&requires(
                Tm &tm, typename Tm::Thread &self, SetRootBody<Tm> set_root)
{
	/* One word, from which the workload finds its data; null in a new heap */
	{
		tm.root()
		} -> std::same_as<void *>;
	self.update(set_root);
};

/* Does not compile for a class that is no system, and tells which part is missing. */
template <class System>
consteval void require_measured_system()
{
	static_assert(
	        requires { typename System::Thread; },
	        "a system needs a class Thread, the part of one thread (bench/common/tm.hpp)");
	static_assert(std::constructible_from<System, const TmOptions &>,
	        "a system needs a constructor from const bench::TmOptions & (bench/common/tm.hpp)");
	static_assert(std::constructible_from<typename System::Thread, System &>,
	        "a system's Thread needs a constructor from the system (bench/common/tm.hpp)");
	static_assert(MeasuredSystem<System>,
	        "a system needs begin_run(), describe(json &) and results(json &) "
	        "(bench/common/tm.hpp)");
}
template <class Tm>
consteval void require_transactional_memory()
{
	require_measured_system<Tm>();
	static_assert(TransactionalThread<typename Tm::Thread>,
	        "a transactional memory's Thread needs read(body) and update(body), which call "
	        "body(tx) and return its result; and fur_load(), fur_store(), fur_promote(), "
	        "fur_alloc(), fur_alloc_aligned() and fur_free() for that tx "
	        "(bench/common/tm.hpp)");
	static_assert(
	        requires {
		        {
			        Tm::rolls_back
			        } -> std::convertible_to<bool>;
	        },
	        "a transactional memory needs static constexpr bool rolls_back: does its Thread "
	        "have update_or_abort(body)? (bench/common/tm.hpp)");
	static_assert(!Tm::rolls_back || AbortingThread<typename Tm::Thread>,
	        "a transactional memory with rolls_back needs bool Thread::update_or_abort(body) "
	        "(bench/common/tm.hpp)");
	static_assert(TransactionalMemory<Tm>,
	        "a transactional memory needs void *root() and set_root(tx, void *) "
	        "(bench/common/tm.hpp)");
}

/* The logs are empty after loading, so that a run that fits them replays nothing.  A system whose
 * Thread has no reclaim() has no logs. */
template <class Thread>
void empty_logs(Thread &self)
{
	if constexpr (requires { self.reclaim(); })
		self.reclaim();
}

/* ---------------------------------------------------------------- counts */

/* Parts of results(): an object with an entry for each cause of an abort, or each phase. */
template <class Count>
json aborts_by_cause(Count count)
{
	json j = json::object();
	for (int c = 0; c < FUR_ABORT_CAUSES; c++)
		j[fur_name(FUR_NAME_ABORT, static_cast<fur_abort_cause>(c))] = count(c);
	return j;
}
template <class Time>
json times_by_phase(Time time)
{
	json j = json::object();
	for (int p = 0; p < FUR_PHASES; p++)
		j[fur_name(FUR_NAME_PHASE, static_cast<fur_phase>(p))] = time(p);
	return j;
}
/* For a system that counts none of this. */
inline void no_counts(json &j)
{
	j["lock_commits"] = 0;
	j["aborts"] = json::object();
	j["phases_ns"] = json::object();
}

} // namespace bench

#endif /* BENCH_TM_HPP */
