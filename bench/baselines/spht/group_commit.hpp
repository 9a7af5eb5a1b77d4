/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group_commit.hpp - SPHT's durability: a total order of updates by their stamps, one durable word
 * that says up to which they count, moved by the last of a group for all of it; and forward links,
 * so that replay need not compare the logs.  Source: "SPHT: Scalable Persistent Hardware
 * Transactions" (FAST '21), sections 3.2 and 3.3.
 *
 * state[i].time is a stamp that thread i's next update cannot be below: low on purpose while its
 * transaction runs, then its stamp; and a bit, STABLE: there is nothing of thread i under way below
 * that.
 *
 * Scans end at medium_.entered(): a thread that enters later draws later stamps.
 */
#ifndef BASELINES_GROUP_COMMIT_HPP
#define BASELINES_GROUP_COMMIT_HPP

#include "../common/session.hpp"

namespace baselines
{

class GroupCommit
{
public:
	explicit GroupCommit(Medium &m)
	    : medium_(m), state_(m.threads()), first_((m.first_stamp() >> 8) + 1),
	      base_(arch_ticks()), durable_(m.header().durable)
	{
	}

	/* A time no two threads get. */
	uint64_t stamp(unsigned me) const
	{
		return (first_ + arch_ticks() - base_) << 8 | me;
	}
	/* The stamp of a transaction that is about to commit.  After all its accesses: one that
	 * conflicts with it, and comes later, must find a later time; so its loads have been made
	 * (lfence; dsb and isb, as dmb does not hold up the counter) and its stores are performed
	 * (the fence).  aarch64's counter may tick only every 40 ns: the wait for the next tick
	 * gives that transaction a later one. */
	uint64_t commit_stamp(unsigned me) const
	{
		arch_fence();
#if defined(__x86_64__) && !defined(FUR_EMULATED)
		__builtin_ia32_lfence();
#elif defined(__aarch64__)
		__asm__ volatile("dsb ish\n\tisb" ::: "memory");
#endif
		const uint64_t mine = stamp(me);
#if defined(__aarch64__)
		while (stamp(me) == mine)
			arch_pause();
#endif
		return mine;
	}

	/* A transaction is about to run. */
	void begin(unsigned me, bool update)
	{
		state_[me].update.store(update ? RUNNING : NONE, std::memory_order_relaxed);
		/* Visible to threads that commit meanwhile, before our first load. */
		arch_store_fence(&state_[me].time, stamp(me) << 1);
	}
	/* It has ended, with nothing to be made durable. */
	void end(unsigned me)
	{
		state_[me].update.store(NONE, std::memory_order_relaxed);
		arch_store_release(&state_[me].time, arch_load(&state_[me].time) | STABLE);
	}

	/* A transaction that wrote nothing returns: everything it can have read is durable then. */
	void read_only(unsigned me, uint64_t mine)
	{
		state_[me].update.store(NONE, std::memory_order_relaxed);
		arch_store_release(&state_[me].time, mine << 1 | STABLE);
		for (unsigned other = 0, all = medium_.entered(); other < all; other++)
			if (other != me) {
				/* The threads' states do not depend on one another. */
				arch_overlap_begin();
				wait_stable(other, mine);
				wait_counted(state_[other], mine);
			}
		arch_overlap_end();
	}

	/* An update has committed: its stamp is known, its record is not yet out. */
	void committed(unsigned me, uint64_t mine)
	{
		arch_store_release(&state_[me].time, mine << 1);
	}
	/* Its record is out, at this position of its log: return when it counts. */
	void written(unsigned me, uint64_t mine, uint64_t position)
	{
		State &self = state_[me];
		self.newest.store(1 + position, std::memory_order_release);
		arch_store_release(&self.time, mine << 1 | STABLE);
		for (unsigned other = 0, all = medium_.entered(); other < all; other++)
			if (other != me) {
				arch_overlap_begin();
				wait_stable(other, mine);
			}
		arch_overlap_end();
		link(me, mine, position);
		self.update.store(LINKED, std::memory_order_release);
		struct arch_backoff backoff = {};
		while (durable() < mine) {
			/* An update that is newer will speak for us.  It may end without: look
			 * again. */
			if (newer_update(me, mine))
				arch_backoff(&backoff);
			else
				close(mine);
		}
		self.update.store(NONE, std::memory_order_release);
	}

	uint64_t durable() const
	{
		return arch_load_acquire(&durable_);
	}

	/* Carry the records that count over to the heap, and make room in the logs.  The calling
	 * thread must not have a transaction open. */
	void reclaim()
	{
		/* An update that has begun may be about to write a link into a record that goes:
		 * wait for those, and the next will look at the floor. */
		medium_.reclaim(durable(), Medium::Reclaim::REPLAY, [this] {
			/* After reclaim()'s fence: a newcomer finds the new floor. */
			for (unsigned t = 0, all = medium_.entered(); t < all; t++) {
				State &s = state_[t];
				struct arch_backoff backoff = {};
				uint64_t time = arch_load_acquire(&s.time) & ~STABLE;
				while (s.update.load(std::memory_order_acquire) == RUNNING &&
				        (arch_load_acquire(&s.time) & ~STABLE) == time)
					arch_backoff(&backoff);
			}
		});
	}

private:
	enum : uint64_t { STABLE = 1 };
	/* An update is under way, and will link its record, or has */
	enum Update : uint64_t { NONE, RUNNING, LINKED };
	struct alignas(ARCH_PAD) State {
		uint64_t time = STABLE; /* stamp << 1 | STABLE */
		std::atomic<uint64_t> update{NONE};
		std::atomic<uint64_t> newest{0}; /* 1 + position of this thread's last record */
	};

	/* Until this thread has nothing under way below `mine`. */
	void wait_stable(unsigned other, uint64_t mine) const
	{
		struct arch_backoff backoff = {};
		for (;;) {
			uint64_t time = arch_load_acquire(&state_[other].time);
			if ((time & STABLE) || time >> 1 > mine)
				return;
			arch_backoff(&backoff);
		}
	}
	/* Wait until the records that this thread wrote below `mine` count: one may be written
	 * while its group is not closed. */
	void wait_counted(const State &other, uint64_t mine) const
	{
		struct arch_backoff backoff = {};
		uint64_t time = arch_load_acquire(&other.time);
		if (time >> 1 < mine)
			while (durable() < time >> 1 &&
			        other.update.load(std::memory_order_acquire) != NONE &&
			        arch_load_acquire(&other.time) == time)
				arch_backoff(&backoff);
	}
	bool newer_update(unsigned me, uint64_t mine) const
	{
		unsigned other = 0, all = medium_.entered();
		arch_overlap_begin();
		while (other < all &&
		        !(other != me && arch_load_acquire(&state_[other].time) >> 1 > mine &&
		                state_[other].update.load(std::memory_order_relaxed)))
			other++;
		arch_overlap_end();
		return other < all;
	}
	/* Everything up to `mine` is written: say so, for good. */
	void close(uint64_t mine)
	{
		std::lock_guard guard(closing_);
		if (durable() >= mine)
			return;
		arch_store(&medium_.header().durable, mine);
		medium_.flush(&medium_.header().durable, sizeof(uint64_t));
		medium_.drain();
		arch_store_release(&durable_, mine);
	}

	/* Forward linking: put where we are into the record before ours.  All older records are
	 * written by now (wait_stable). */
	void link(unsigned me, uint64_t mine, uint64_t position)
	{
		Record *best = nullptr;
		for (unsigned other = 0, all = medium_.entered(); other < all; other++)
			if (Record *r = last_before(other, mine);
			        r && (!best || r->stamp > best->stamp))
				best = r;
		if (best)
			__atomic_store_n(&best->link, Link::to(me, position), __ATOMIC_RELEASE);
	}
	/* A thread's last record below this stamp: it may have gone on since.  Null: none that is
	 * still there. */
	Record *last_before(unsigned thread, uint64_t mine)
	{
		Log &log = medium_.log(thread);
		uint64_t at = state_[thread].newest.load(std::memory_order_acquire);
		if (at-- == 0)
			return nullptr;
		for (;;) {
			if (at < log.floor())
				return nullptr;
			Record *r = log.record(at);
			if (r->stamp < mine)
				return r;
			if (r->back == 0)
				return nullptr;
			at -= r->back;
		}
	}

	Medium &medium_;
	std::vector<State> state_;
	const uint64_t first_, base_;
	alignas(ARCH_PAD) uint64_t durable_;
	std::mutex closing_;
};

} // namespace baselines

#endif /* BASELINES_GROUP_COMMIT_HPP */
