/* SPDX-License-Identifier: BSD-3-Clause
 *
 * specpmt.hpp - SpecPMT: a speculative log of new values, one fence a commit, data never flushed;
 * on a time-based software transactional memory as TinySTM is: encounter-time locking,
 * write-through, snapshots that are extended.  Durable opacity.  Sources: "SpecPMT: Speculative
 * Logging for Resolving Crash Consistency Overhead of Persistent Memory" (ASPLOS '23); "Dynamic
 * Performance Tuning of Word-Based Software Transactional Memory" (PPoPP '08).
 *
 * A body writes to the working copy in place, and to the log.  A commit draws its time, is
 * validated, closes the record with time and checksum, and releases its locks only when that is
 * durable: no thread reads data that a power failure could take back.  Recovery replays the records
 * in order of their times.
 *
 * SpecpmtPaperTm is the form that the FUR paper measures, as the program that it publishes has it
 * (github.com/inesc-id/FUR).  It is NOT durably opaque: a commit releases its locks first, and then
 * waits until the record is durable.  So a transaction can read data, and return, before that data
 * is durable; `explore --tm specpmt-paper --crash` shows it.  The wait is one delay, whatever the
 * record's length: the lines are written back at the same time.
 */
#ifndef BASELINES_SPECPMT_HPP
#define BASELINES_SPECPMT_HPP

#include "../common/software.hpp"

#include <algorithm>

namespace baselines
{

/* Versioned locks by line, hashed.  Free: time << 4 | incarnation << 1, which an abort raises, for
 * it puts old values back under an old time; held: owner << 1 | 1. */
class Locks
{
public:
	enum : uint64_t { SLOTS = 1 << 20, HELD = 1, INCARNATION = 2, INCARNATIONS = 14 };
	static uint64_t free_at(uint64_t time)
	{
		return time << 4;
	}
	static uint64_t time(uint64_t word)
	{
		return word >> 4;
	}
	std::atomic<uint64_t> &of(const uint64_t *p)
	{
		return slot_[line_hash(p, SLOTS)];
	}

private:
	Table<std::atomic<uint64_t>> slot_{SLOTS};
};

struct SpecpmtShared {
	struct alignas(ARCH_PAD) Thread {
		/* Its record has a time above this one and may not be out */
		std::atomic<uint64_t> committing{NEVER};
	};
	explicit SpecpmtShared(Medium &m) : thread(m.threads()), clock(m.first_stamp() + 1) {}
	Locks locks;
	std::vector<Thread> thread;
	alignas(ARCH_PAD) std::atomic<uint64_t> clock;
};

/* `Shared` has the locks and the clock; a `Kept` is told of each store, and may be full. */
template <class Shared, class Kept>
struct TimeBasedTx {
	struct Read {
		std::atomic<uint64_t> *lock;
		uint64_t seen;
	};
	struct Old {
		uint64_t *word, value;
	};
	Place place;
	Shared *shared;
	Kept *log;
	uint64_t held;     /* a lock of ours */
	uint64_t snapshot; /* the data that we read was current at this time */
	bool keeps_reads;  /* else the snapshot cannot be extended */
	std::vector<Read> reads, locked;
	std::vector<Old> undo;
	Restart restart;

	uint64_t load(const uint64_t *word)
	{
		/* A call takes 40 instructions; 24 of them go with the 4 loads of shared memory
		 * (docs/emulated-machine.md). */
		enum { INSTRUCTIONS = 40 - 4 * 6 };
		arch_instructions(INSTRUCTIONS);
		for (;;) {
			/* A processor loads lock and data together: neither address depends on
			 * the other's value. */
			arch_overlap_begin();
			std::atomic<uint64_t> &lock = shared->locks.of(word);
			uint64_t before = lock.load(std::memory_order_acquire);
			uint64_t value = __atomic_load_n(word, __ATOMIC_RELAXED);
			/* The value is read before the second look, which finds a transaction that
			 * has written it meanwhile. */
			std::atomic_thread_fence(std::memory_order_acquire);
			uint64_t after = lock.load(std::memory_order_relaxed);
			arch_overlap_end();
			if (before & Locks::HELD) {
				if (before != held)
					restart.now(FUR_ABORT_CONFLICT);
				return value;
			}
			if (after != before)
				continue;
			if (Locks::time(before) > snapshot) {
				extend();
				continue;
			}
			/* The words of a node come one after another. */
			if (keeps_reads && (reads.empty() || reads.back().lock != &lock))
				reads.push_back({&lock, before});
			return value;
		}
	}
	void store(uint64_t *word, uint64_t value)
	{
		std::atomic<uint64_t> &lock = shared->locks.of(word);
		uint64_t before = lock.load(std::memory_order_relaxed);
		while (before != held) {
			if (before & Locks::HELD)
				restart.now(FUR_ABORT_CONFLICT);
			if (Locks::time(before) > snapshot) {
				/* Written since: harmless if the data that we have read is
				 * unchanged. */
				extend();
				before = lock.load(std::memory_order_relaxed);
				continue;
			}
			if (lock.compare_exchange_strong(before, held)) {
				locked.push_back({&lock, before});
				break;
			}
		}
		if (!log->add(word, value))
			restart.now(FUR_ABORT_FULL);
		undo.push_back({word, *word});
		__atomic_store_n(word, value, __ATOMIC_RELAXED);
	}
	void promote(uint64_t *) {} /* its reads are validated */

	bool valid() const
	{
		arch_overlap_begin();
		bool all = std::all_of(reads.begin(), reads.end(), [this](const Read &r) {
			uint64_t now = r.lock->load(std::memory_order_acquire);
			return now == r.seen || (now == held && was(r.lock) == r.seen);
		});
		arch_overlap_end();
		return all;
	}
	void roll_back()
	{
		for (; !undo.empty(); undo.pop_back())
			__atomic_store_n(undo.back().word, undo.back().value, __ATOMIC_RELAXED);
		for (const Read &l : locked) {
			bool spent = (l.seen & Locks::INCARNATIONS) == Locks::INCARNATIONS;
			l.lock->store(spent ? Locks::free_at(shared->clock.fetch_add(1) + 1)
			                    : l.seen + Locks::INCARNATION,
			        std::memory_order_release);
		}
		locked.clear();
	}

private:
	/* The previous value of a lock that we hold. */
	uint64_t was(const std::atomic<uint64_t> *lock) const
	{
		for (const Read &l : locked)
			if (l.lock == lock)
				return l.seen;
		return 0;
	}
	void extend()
	{
		uint64_t now = shared->clock.load(std::memory_order_acquire);
		if (!keeps_reads || !valid())
			restart.now(FUR_ABORT_CONFLICT);
		snapshot = now;
	}
};

struct specpmt_tx : TimeBasedTx<SpecpmtShared, Log> {
};

/* When a commit releases its locks. */
enum class Release { WHEN_DURABLE, BEFORE };

template <class Watch, Release release>
class SpecpmtForm : public DurableTm
{
public:
	explicit SpecpmtForm(const TmOptions &o)
	    : DurableTm(delays(o), release == Release::WHEN_DURABLE ? "specpmt" : "specpmt-paper",
	              Medium::Working::PRIVATE),
	      shared_(medium)
	{
		if (release == Release::BEFORE)
			isolation = "opacity, not durably";
	}

	class Thread : public SoftwareSession<Thread, specpmt_tx, Watch>
	{
	public:
		using Base = SoftwareSession<Thread, specpmt_tx, Watch>;
		explicit Thread(SpecpmtForm &tm)
		    : Base(tm), shared_(tm.shared_), self_(shared_.thread[number_])
		{
			tx_.shared = &shared_, tx_.held = uint64_t(number_ + 1) << 1 | Locks::HELD;
		}

		void begin(bool update)
		{
			tx_.reads.clear();
			/* A reader goes without at first. */
			tx_.keeps_reads = update || failed_;
			failed_ = true;
			tx_.snapshot = shared_.clock.load(std::memory_order_acquire);
		}
		bool commit_read()
		{
			failed_ = false;
			return true;
		}
		bool commit_update()
		{
			self_.committing.store(shared_.clock.load(std::memory_order_relaxed),
			        std::memory_order_relaxed);
			/* Visible to a reclaiming thread before our time is drawn. */
			arch_fence();
			uint64_t time = shared_.clock.fetch_add(1) + 1;
			Watch::visible();
			/* No other update has drawn a time since our snapshot: nothing to check. */
			if (time != tx_.snapshot + 1 && !tx_.valid()) {
				Watch::withdrawn();
				self_.committing.store(NEVER, std::memory_order_release);
				return false;
			}
			if constexpr (release == Release::BEFORE)
				release_locks(time);
			medium_.flush_entries(number_);
			medium_.seal(number_, time);
			medium_.drain();
			medium_.publish(number_);
			self_.committing.store(NEVER, std::memory_order_release);
			if constexpr (release == Release::WHEN_DURABLE)
				release_locks(time);
			failed_ = false;
			this->spent(FUR_PHASE_FLUSH);
			return true;
		}
		void roll_back()
		{
			tx_.roll_back();
		}
		void reclaim()
		{
			uint64_t upto = shared_.clock.load();
			arch_fence();
			for (unsigned n = 0, all = medium_.entered(); n < all; n++)
				upto = std::min(upto, shared_.thread[n].committing.load(
				                              std::memory_order_acquire));
			medium_.reclaim(upto, Medium::Reclaim::REPLAY);
		}

	private:
		using Base::medium_, Base::number_, Base::tx_;
		/* From here on others read what this update has written. */
		void release_locks(uint64_t time)
		{
			for (const specpmt_tx::Read &l : tx_.locked)
				l.lock->store(Locks::free_at(time), std::memory_order_release);
			tx_.locked.clear();
			tx_.undo.clear();
		}
		SpecpmtShared &shared_;
		SpecpmtShared::Thread &self_;
		bool failed_ = false; /* the attempt before this one */
	};

private:
	/* BEFORE: no time between two lines.  On an emulated machine on_machine() sees to it. */
	static TmOptions delays(TmOptions o)
	{
		if (release == Release::BEFORE && !o.machine_has_pm)
			o.pm_gap_ns = 0;
		return o;
	}
	SpecpmtShared shared_;
};

template <class Watch = Nobody>
using SpecpmtTm = SpecpmtForm<Watch, Release::WHEN_DURABLE>;
template <class Watch = Nobody>
using SpecpmtPaperTm = SpecpmtForm<Watch, Release::BEFORE>;

} // namespace baselines

#endif /* BASELINES_SPECPMT_HPP */
