/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_tm.hpp - libfur as a system of the benchmarks.
 */
#ifndef BENCH_FUR_TM_HPP
#define BENCH_FUR_TM_HPP

#include "internals.hpp"
#include "tm.hpp"

namespace bench
{

/* A thread that is registered with a heap: its transactions there. */
class FurThread
{
public:
	explicit FurThread(fur_thread *thread) : thread_(thread) {}
	template <class Body>
	auto read(Body &&body)
	{
		if constexpr (std::is_invocable_v<Body &, fur_reader *>)
			return fur::read(thread_, fur::rerun, body);
		else
			return fur::read(thread_, body);
	}
	/* Without the wait, for which the caller calls wait(). */
	template <class Body>
	auto read_later(Body &&body)
	{
		if constexpr (std::is_invocable_v<Body &, fur_reader *>)
			return fur::read(thread_, fur::rerun, ticket_, body);
		else
			return fur::read(thread_, ticket_, body);
	}
	/* Wait until all that read_later() has returned is durable. */
	void wait()
	{
		fur::wait(thread_, ticket_);
	}
	template <class Body>
	auto update(Body &&body)
	{
		return fur::update(thread_, fur::rerun, body);
	}
	template <class Body>
	bool update_or_abort(Body &&body)
	{
		/* fur::update() would throw for fur_abort(). */
		auto aborting = [&](fur_update *tx) {
			if (!body(tx))
				fur_abort(tx);
		};
		fur::detail::Run<decltype(aborting)> run{aborting};
		const struct fur_run how = {sizeof how, nullptr, fur::detail::leave_body};
		int result = fur_update_run(
		        thread_, fur::detail::call_body<decltype(aborting)>, &run, &how);
		if (result == FUR_EABORTED && !run.thrown)
			return false;
		if (run.thrown)
			std::rethrow_exception(run.thrown);
		fur::check(result);
		return true;
	}

	/* Replay what is in the log: it and the ring are empty then. */
	void reclaim()
	{
		struct arch_backoff backoff = {};
		struct durability *d = &thread_->heap->durability;
		uint64_t before;
		do {
			before = ring_tail(d);
			fur::check(durability_replay(d, &backoff));
		} while (ring_tail(d) != before);
	}

private:
	fur_thread *thread_;
	fur_ticket ticket_{};
};

/* ------------------------------------------------------------- options, counts */

inline fur::Options fur_heap_options(const TmOptions &t)
{
	fur::Options o;
	o.heap_bytes = t.heap_bytes;
	o.log_bytes = t.log_bytes;
	o.dram_bytes = t.dram_bytes;
	o.ring_slots = t.ring_slots;
	/* One more for the thread that sets up, and one for its aside(). */
	o.max_threads = t.threads + 2 < 8 ? 8 : t.threads + 2;
	o.isolation = t.isolation;
	o.pm = t.pm;
	o.phase_times = t.phases;
	/* Software updates hash addresses.  At an address drawn at random, a run on an emulated
	 * machine would not repeat. */
	if (t.machine_has_pm && !t.reuse)
		o.address = UINT64_C(0x300000000000);
	return o;
}

/* What is measured of a heap's domain, if the machine has no such memory. */
inline void fur_emulate_pm(fur_heap *heap, const TmOptions &o)
{
	if (!o.machine_has_pm)
		pm_emulate(&heap->durability.pm, o.pm_latency_ns, o.pm_gap_ns);
}

/* Without the values of the moment: to find them, libfur would look at each slot of the ring, on an
 * emulated machine too. */
inline fur_stats fur_counters(const fur_heap *heap)
{
	fur_stats s{};
	s.size = offsetof(fur_stats, ring_used_slots);
	fur::check(fur_get_stats(heap, &s));
	return s;
}

inline void describe_fur(json &j, const fur_info &i)
{
	j["htm"] = fur_name(FUR_NAME_HTM, i.htm);
	j["htm_reason"] = i.htm_reason;
	j["isolation"] = fur_name(FUR_NAME_ISOLATION, i.isolation);
	j["pm"] = fur_name(FUR_NAME_PM, i.pm);
	j["pm_reason"] = i.pm_reason;
	j["heap_bytes"] = i.heap_bytes;
}

inline void count_fur(json &j, const fur_stats &s, const fur_stats &before)
{
	j["aborts"] = aborts_by_cause([&](int c) { return s.aborts[c] - before.aborts[c]; });
	j["lock_commits"] = s.lock_commits - before.lock_commits;
	j["phases_ns"] = times_by_phase([&](int p) { return s.phase_ns[p] - before.phase_ns[p]; });
	j["heap_updates"] = s.update_commits - before.update_commits;
	j["software_commits"] = s.software_commits - before.software_commits;
	j["serial_commits"] = s.serial_commits - before.serial_commits;
	j["defeats"] = s.defeats - before.defeats;
	j["heap_ro"] = s.ro_commits - before.ro_commits;
	j["replays"] = s.replays - before.replays;
	j["bytes_handed_back"] = s.bytes_handed_back;
	j["times_handed_back"] = s.times_handed_back;
	j["long_readers"] = s.long_readers;
}

/* ---------------------------------------------------------------------- one heap */

class FurTm
{
public:
	static constexpr bool rolls_back = true;
	explicit FurTm(const TmOptions &o) : path_(o.path()), heap_(make(o))
	{
		fur_emulate_pm(heap_, o);
		/* Without a name the file disappears with this process, however that ends. */
		if (o.heap.empty())
			::unlink(path_.c_str());
	}
	FurTm(const FurTm &) = delete;

	class Thread : public FurThread
	{
	public:
		explicit Thread(FurTm &tm) : FurThread(fur::Thread(tm.heap_)) {}
	};
	/* This process is the copy of the one that made the heap, which waits meanwhile, and has
	 * the heap's file mapped privately (runs.cpp): it may use the heap. */
	void adopt()
	{
		heap_.get()->owner = getpid();
	}
	void *root()
	{
		return root_at_rest(heap_, 0);
	}
	void set_root(fur_update *tx, void *p)
	{
		fur_set_root(tx, 0, p);
	}
	void begin_run()
	{
		before_ = fur_counters(heap_);
	}
	void describe(json &j)
	{
		describe_fur(j, heap_.info());
	}
	void results(json &j)
	{
		count_fur(j, fur_counters(heap_), before_);
	}

private:
	fur::Heap make(const TmOptions &t)
	{
		const fur::Options o = fur_heap_options(t);
		try {
			if (t.reuse && access(path_.c_str(), F_OK) == 0)
				return fur::Heap::open(path_, o);
			return fur::Heap::create(path_, o);
		} catch (const fur::Error &e) {
			throw Usage(e.what());
		}
	}
	std::string path_;
	fur::Heap heap_;
	fur_stats before_{};
};

} // namespace bench

#endif /* BENCH_FUR_TM_HPP */
