/* SPDX-License-Identifier: BSD-3-Clause
 *
 * spht.hpp - SPHT: hardware transactions that log as they write, made durable in groups
 * (group_commit.hpp).  Durable opacity; read-only transactions run in hardware too.  Source: "SPHT:
 * Scalable Persistent Hardware Transactions" (FAST '21).
 *
 * A hardware transaction writes its log in place, on the medium; an abort takes the log back as
 * well.
 */
#ifndef BASELINES_SPHT_HPP
#define BASELINES_SPHT_HPP

#include "../../common/hardware.hpp"
#include "group_commit.hpp"

namespace baselines
{

/* An update of SPHT, in hardware or under the lock, where it keeps the values that it
 * overwrites. */
struct spht_tx {
	struct Old {
		uint64_t *word, value;
	};
	Place place;
	Log *log;
	std::vector<Old> undo;
	bool locked = false, promotes = false;
	jmp_buf full;
	void (*refuse)(spht_tx *tx); /* the log has no room: does not return */

	uint64_t load(const uint64_t *word)
	{
		return __atomic_load_n(word, __ATOMIC_RELAXED);
	}
	void store(uint64_t *word, uint64_t value)
	{
		if (!log->add(word, value))
			refuse(this);
		if (locked)
			undo.push_back({word, *word});
		__atomic_store_n(word, value, __ATOMIC_RELAXED);
	}
	/* SPHT's reads are tracked.  SI-HTM's are not: a transactional store of the current value
	 * takes the line into the write set.  The value cannot have changed since it was read: a
	 * transaction that writes it waits for us before it commits, or this store aborts it. */
	void promote(uint64_t *word)
	{
		if (promotes && !locked)
			__atomic_store_n(word, load(word), __ATOMIC_RELAXED);
	}

	void roll_back()
	{
		for (; !undo.empty(); undo.pop_back())
			__atomic_store_n(undo.back().word, undo.back().value, __ATOMIC_RELAXED);
	}
};

/* The work of a thread of either SPHT outside the hardware transaction. */
class SphtSession : public Session
{
public:
	SphtSession(DurableTm &tm, GroupCommit &order) : Session(tm), order_(order)
	{
		tx_.place = Place::of(medium_, number_);
		tx_.log = &log_;
	}
	/* Carry all records over to the heap: the logs are empty then.  With no transaction
	 * open. */
	void reclaim()
	{
		order_.reclaim();
	}

protected:
	/* The body's result; if it throws, `thrown` is called first. */
	template <class Body, class F>
	auto or_else(Body &body, F thrown)
	{
		try {
			return body(&tx_);
		} catch (...) {
			thrown();
			throw;
		}
	}
	/* After the commit. */
	void finish(bool update, uint64_t stamp)
	{
		if (log_.entries() == 0) {
			order_.read_only(number_, stamp);
			spent(update ? FUR_PHASE_DURABILITY : FUR_PHASE_RO_WAIT);
			return;
		}
		order_.committed(number_, stamp);
		medium_.flush_entries(number_);
		/* The entries are durable before the stamp that makes them count. */
		medium_.drain();
		uint64_t position = medium_.seal(number_, stamp);
		medium_.drain();
		medium_.publish(number_);
		spent(FUR_PHASE_FLUSH);
		order_.written(number_, stamp, position);
		spent(FUR_PHASE_DURABILITY);
	}
	void make_room()
	{
		if (log_.empty())
			too_big();
		reclaim();
		counters_.reclaims++;
		spent(FUR_PHASE_ROOM);
	}

	/* Under the lock, which the caller takes, and leave() gives back: the body's result, or
	 * nothing if it would not be kept. */
	template <class Watch, class Body, class Keep, class Leave>
	auto locked(bool update, Body &body, Keep keep, Leave leave) -> Result<Body, spht_tx>
	{
		tx_.locked = true;
		tx_.refuse = [](spht_tx *tx) { longjmp(tx->full, 1); };
		if (setjmp(tx_.full)) {
			/* Rolled back, out of the lock, and again from the start. */
			tx_.roll_back();
			Watch::aborted();
			tx_.locked = false;
			counters_.aborts[FUR_ABORT_FULL]++;
			log_.begin();
			order_.end(number_);
			leave();
			make_room();
			return std::nullopt;
		}
		order_.begin(number_, update);
		log_.begin();
		auto result = or_else(body, [&] {
			tx_.roll_back();
			Watch::aborted();
			order_.end(number_);
			leave();
		});
		bool kept = keep(result);
		uint64_t stamp = 0;
		if (kept) {
			stamp = order_.commit_stamp(number_);
			Watch::visible();
			tx_.undo.clear();
			counters_.locked++;
		} else {
			tx_.roll_back();
			Watch::aborted();
			counters_.aborts[FUR_ABORT_USER]++;
		}
		tx_.locked = false;
		leave();
		spent(update ? FUR_PHASE_BODY : FUR_PHASE_RO_BODY);
		if (kept)
			finish(update, stamp);
		else
			order_.end(number_);
		return result;
	}

	GroupCommit &order_;
	spht_tx tx_;
};

template <class Watch = Nobody>
class SphtTm : public DurableTm
{
public:
	explicit SphtTm(const TmOptions &o)
	    : DurableTm(o, "spht", Medium::Working::PRIVATE, true), order_(medium),
	      retries_(bench::hardware_transactions_work() ? o.retries : 0)
	{
		if (retries_)
			htm = bench::machine_htm();
	}

	class Thread : public SphtSession, public Transacts<Thread>
	{
		friend class Transacts<Thread>;

	public:
		explicit Thread(SphtTm &tm) : SphtSession(tm, tm.order_), tm_(tm) {}

	private:
		/* The body's result; nothing if the hardware has rolled it back, as it asked
		 * for. */
		template <class Body, class Keep>
		auto transact(bool update, Body &body, Keep keep) -> Result<Body, spht_tx>
		{
			mark();
			tx_.refuse = [](spht_tx *) { tsx_abort(1 + FUR_ABORT_FULL); };
			bench::Attempts attempts(tm_.retries_, number_);
			while (attempts.left()) {
				wait_for_lock();
				log_.begin();
				attempts.begin();
				order_.begin(number_, update);
				unsigned status = tsx_begin();
				if (status == TSX_STARTED) {
					/* Tracked: a thread that takes the lock aborts us. */
					if (tm_.lock_.load(std::memory_order_relaxed))
						tsx_abort(1 + FUR_ABORT_LOCK);
					/* An exception aborts; in the end the body throws it under
					 * the lock. */
					auto result = or_else(
					        body, [] { tsx_abort(1 + FUR_ABORT_FAULT); });
					if (!keep(result))
						tsx_abort(1 + FUR_ABORT_USER);
					uint64_t stamp = order_.commit_stamp(number_);
					tsx_end();
					spent(update ? FUR_PHASE_BODY : FUR_PHASE_RO_BODY);
					finish(update, stamp);
					return result;
				}
				order_.end(number_);
				fur_abort_cause cause = bench::abort_cause(status);
				counters_.aborts[cause]++;
				if (cause == FUR_ABORT_USER)
					return std::nullopt;
				if (cause == FUR_ABORT_FULL)
					make_room();
				attempts.aborted(cause, tm_.lock_.load(std::memory_order_relaxed));
			}
			spent(update ? FUR_PHASE_BODY : FUR_PHASE_RO_BODY);
			for (;;) {
				struct arch_backoff backoff = {};
				while (tm_.lock_.exchange(true))
					while (tm_.lock_.load(std::memory_order_relaxed))
						arch_backoff(&backoff);
				spent(FUR_PHASE_LOCK);
				auto result =
				        this->template locked<Watch>(update, body, keep, [this] {
					        tm_.lock_.store(false, std::memory_order_release);
				        });
				if (result)
					return result;
			}
		}
		void wait_for_lock()
		{
			struct arch_backoff backoff = {};
			while (tm_.lock_.load(std::memory_order_acquire))
				arch_backoff(&backoff);
		}
		using Session::counters_, Session::log_, Session::number_, SphtSession::order_,
		        SphtSession::tx_;
		SphtTm &tm_;
	};

private:
	GroupCommit order_;
	const unsigned retries_;
	alignas(ARCH_PAD) std::atomic<bool> lock_{false};
};

} // namespace baselines

#endif /* BASELINES_SPHT_HPP */
