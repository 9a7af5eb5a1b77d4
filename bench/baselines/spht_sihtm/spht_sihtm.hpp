/* SPDX-License-Identifier: BSD-3-Clause
 *
 * spht_sihtm.hpp - SI-HTM's transactions with SPHT's durability, unchanged: the naive union of
 * FUR's section 2.4.  Durable snapshot isolation.  Updates are rollback-only transactions, whose
 * loads have no limit; before one commits it suspends itself and waits for every transaction active
 * at that moment.  Read-only ones run outside hardware.  On the emulated POWER only.  Source:
 * "Stretching the capacity of Hardware Transactional Memory in IBM POWER architectures" (PPoPP
 * '19).
 */
#ifndef BASELINES_SPHT_SIHTM_HPP
#define BASELINES_SPHT_SIHTM_HPP

#include "../spht/spht.hpp"

#if defined(FUR_EMULATED)
#include "../../../emulator/emulated.h"

namespace baselines
{

template <class Watch = Nobody>
class SphtSihtmTm : public DurableTm
{
public:
	explicit SphtSihtmTm(const TmOptions &o)
	    : DurableTm(o, "spht-sihtm", Medium::Working::PRIVATE, true), order_(medium),
	      retries_(o.retries), active_(medium.threads())
	{
		htm = "power", isolation = "snapshot";
	}

	class Thread : public SphtSession
	{
	public:
		explicit Thread(SphtSihtmTm &tm)
		    : SphtSession(tm, tm.order_), tm_(tm), active_(tm.active_[number_].state)
		{
			tx_.promotes = true;
		}
		template <class Body>
		auto read(Body &&body)
		{
			mark();
			log_.begin();
			/* This is inside because of the lock: a thread that waits for the lock must
			 * not hold up threads that have committed. */
			activate(false);
			auto result = body(&tx_);
			arch_store_release(&active_, 0);
			uint64_t stamp = order_.commit_stamp(number_);
			spent(FUR_PHASE_RO_BODY);
			finish(false, stamp);
			return result;
		}
		template <class Body>
		auto update(Body &&body)
		{
			return *transact(body, [](auto &) { return true; });
		}
		template <class Body>
		bool update_or_abort(Body &&body)
		{
			return transact(body, [](bool kept) { return kept; }).value_or(false);
		}

	private:
		enum : uint64_t { ACTIVE = 1, COMMITTING = 2, STATE = 3 };

		template <class Body, class Keep>
		auto transact(Body &body, Keep keep) -> Result<Body, spht_tx>
		{
			mark();
			tx_.refuse = [](spht_tx *) { emu_tabort(1 + FUR_ABORT_FULL); };
			bench::Attempts attempts(tm_.retries_, number_);
			while (attempts.left()) {
				log_.begin();
				activate(true);
				attempts.begin();
				uint64_t status = emu_tbegin(EMU_ROLLBACK_ONLY);
				if (status == EMU_STARTED) {
					/* An exception aborts; in the end the body throws it under
					 * the lock. */
					auto result = this->or_else(
					        body, [] { emu_tabort(1 + FUR_ABORT_FAULT); });
					if (!keep(result))
						emu_tabort(1 + FUR_ABORT_USER);
					/* Outside the transaction from here on: the stores that
					 * follow stay, and go to lines that the transaction has not
					 * touched. */
					emu_tsuspend();
					uint64_t stamp = wait_isolated();
					emu_tresume();
					emu_tend();
					arch_store_release(&active_, 0);
					spent(FUR_PHASE_BODY);
					finish(true, stamp);
					return result;
				}
				arch_store_release(&active_, 0);
				order_.end(number_);
				fur_abort_cause cause = cause_of(status);
				counters_.aborts[cause]++;
				if (cause == FUR_ABORT_USER)
					return std::nullopt;
				if (cause == FUR_ABORT_FULL)
					make_room();
				attempts.aborted(cause, arch_load(&tm_.lock_));
			}
			spent(FUR_PHASE_BODY);
			for (;;) {
				tm_.lock();
				spent(FUR_PHASE_LOCK);
				auto result = this->template locked<Watch>(
				        true, body, keep, [this] { tm_.unlock(); });
				if (result)
					return result;
			}
		}
		/* Appear in active_, with the lock free. */
		void activate(bool update)
		{
			for (;;) {
				struct arch_backoff backoff = {};
				while (arch_load_acquire(&tm_.lock_))
					arch_backoff(&backoff);
				order_.begin(number_, update);
				/* Visible before the lock is read, and before the first load: a
				 * thread that takes the lock, or commits, finds us, or we find
				 * it. */
				arch_store_fence(&active_, (round_ += 4) | ACTIVE);
				if (!arch_load_acquire(&tm_.lock_))
					return;
				arch_store_release(&active_, 0);
				order_.end(number_);
			}
		}
		/* Suspended.  Everything read so far is read; and every transaction that may have
		 * read data that we overwrite ends.  No variable here has its address taken: it
		 * would be on the transaction's own stack. */
		uint64_t wait_isolated()
		{
			arch_store_release(&active_, round_ | COMMITTING);
			/* Our stores are performed, so that a load of them aborts us, before
			 * active_ is read. */
			arch_fence();
			for (unsigned other = 0, all = tm_.medium.entered(); other < all; other++) {
				arch_overlap_begin();
				uint64_t seen = arch_load_acquire(&tm_.active_[other].state);
				if (other == number_ || (seen & STATE) != ACTIVE)
					continue;
				while (arch_load_acquire(&tm_.active_[other].state) == seen &&
				        !emu_tcheck())
					arch_pause();
			}
			arch_overlap_end();
			return order_.commit_stamp(number_);
		}
		static fur_abort_cause cause_of(uint64_t status)
		{
			switch ((status & 0xff) - 1) {
			case EMU_EXPLICIT: return static_cast<fur_abort_cause>((status >> 8) - 1);
			case EMU_CAPACITY_READ:
			case EMU_CAPACITY_WRITE: return FUR_ABORT_CAPACITY;
			case EMU_CONFLICT_PLAIN: return FUR_ABORT_PLAIN;
			case EMU_CONFLICT:
			case EMU_SELF_CONFLICT: return FUR_ABORT_CONFLICT;
			default: return FUR_ABORT_FAULT;
			}
		}
		using Session::counters_, Session::log_, Session::number_, SphtSession::order_,
		        SphtSession::tx_;
		SphtSihtmTm &tm_;
		uint64_t &active_, round_ = 0;
	};

private:
	struct alignas(ARCH_PAD) Active {
		/* A number that changes, and ACTIVE or COMMITTING; 0: neither */
		uint64_t state = 0;
	};
	/* Alone: no transaction is active or about to commit. */
	void lock()
	{
		struct arch_backoff backoff = {};
		while (!arch_cas(&lock_, 0, 1))
			arch_backoff(&backoff);
		/* The atomic operation has made the lock visible: a newcomer finds it taken. */
		for (unsigned t = 0, all = medium.entered(); t < all; t++)
			while (arch_load_acquire(&active_[t].state))
				arch_backoff(&backoff);
	}
	void unlock()
	{
		arch_store_release(&lock_, 0);
	}
	GroupCommit order_;
	const unsigned retries_;
	std::vector<Active> active_;
	alignas(ARCH_PAD) uint64_t lock_ = 0;
};

} // namespace baselines
#endif

#endif /* BASELINES_SPHT_SIHTM_HPP */
