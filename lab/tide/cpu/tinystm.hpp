/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tinystm.hpp - the transactional memory of the paper's baseline, TinySTM: that of SpecPMT
 * (bench/baselines/specpmt) without its log.  Encounter-time locking by line, write-through,
 * snapshots that are extended, one clock.  Nothing is durable.
 *
 * What differs from TinySTM 1.0: a lock is of 64 bytes, and not of 32; an attempt that has failed
 * waits a little, longer each time.  Both let fewer attempts fail.
 */
#ifndef LAB_TIDE_TINYSTM_HPP
#define LAB_TIDE_TINYSTM_HPP

#include "../../../bench/baselines/specpmt/specpmt.hpp"

namespace tide
{

struct TinyShared {
	baselines::Locks locks;
	alignas(ARCH_PAD) std::atomic<uint64_t> clock{1};
};

/* Of a transaction's stores. */
struct NoLog {
	static bool add(const uint64_t *, uint64_t)
	{
		return true;
	}
};

class TinyStm
{
public:
	using Tx = baselines::TimeBasedTx<TinyShared, NoLog>;

	class Thread
	{
	public:
		Thread(TinyShared &shared, unsigned number) : random_(number * 2 + 1)
		{
			tx_.shared = &shared, tx_.log = &none_;
			tx_.held = uint64_t(number + 1) << 1 | baselines::Locks::HELD;
		}
		/* Run body(tx) as often as it takes. */
		template <class Body>
		void run(bool update, Body &&body)
		{
			failed_ = 0;
			if (setjmp(tx_.restart.to)) {
				tx_.roll_back();
				back_off();
			}
			do {
				begin(update);
				body(&tx_);
			} while (!commit());
		}
		uint64_t aborts() const
		{
			return aborts_;
		}

	private:
		void begin(bool update)
		{
			tx_.reads.clear();
			/* A reader goes without at first. */
			tx_.keeps_reads = update || failed_;
			tx_.snapshot = tx_.shared->clock.load(std::memory_order_acquire);
		}
		bool commit()
		{
			if (tx_.locked.empty())
				return true;
			const uint64_t time = tx_.shared->clock.fetch_add(1) + 1;
			/* No other update has drawn a time since our snapshot: nothing to check. */
			if (time != tx_.snapshot + 1 && !tx_.valid()) {
				tx_.roll_back();
				back_off();
				return false;
			}
			for (const Tx::Read &l : tx_.locked)
				l.lock->store(
				        baselines::Locks::free_at(time), std::memory_order_release);
			tx_.locked.clear();
			tx_.undo.clear();
			return true;
		}
		/* Longer each time, and not the same for all. */
		void back_off()
		{
			aborts_++;
			failed_ += failed_ < 10;
			random_ = random_ * 6364136223846793005u + 1442695040888963407u;
			for (uint64_t turns = (random_ >> 33) & ((uint64_t(4) << failed_) - 1);
			        turns; turns--)
				arch_pause();
		}

		Tx tx_{};
		NoLog none_;
		uint64_t random_, aborts_ = 0;
		unsigned failed_ = 0; /* attempts in a row */
	};
};

} // namespace tide

#endif /* LAB_TIDE_TINYSTM_HPP */
