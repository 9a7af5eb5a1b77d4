/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pisces.hpp - Pisces: software transactions with two versions of the data that is being written:
 * the memory's, and that of the owner's write set, which is its redo log.  Durable snapshot
 * isolation; readers never wait for a commit and never abort.  Source: "Pisces: A Scalable and
 * Efficient Persistent Transactional Memory" (ATC '19).
 *
 *   begin    a start time, published
 *   load     memory; or the owner's new value, if that committed no later than we began
 *   store    take ownership of the line, or abort; the value goes into the write set
 *   commit   the write set durable; an end time; wait for all who began before that; write back to
 *            memory, flush, release
 *
 * Memory changes only when every transaction left may see the change.  So a load of a line that no
 * transaction owns is right without a second look.
 */
#ifndef BASELINES_PISCES_HPP
#define BASELINES_PISCES_HPP

#include "../common/software.hpp"

namespace baselines
{

/* Owners by line, hashed.  A slot belongs to one thread as a whole, until all it has written there
 * is written back. */
class Owners
{
public:
	enum : uint64_t { SLOTS = 1 << 20, NO_ENTRY = (1 << 24) - 1 };
	/* 0: no owner.  Otherwise the owner, its transaction, and the newest entry of its write set
	 * in this slot. */
	static uint64_t word(unsigned thread, uint64_t transaction, uint64_t entry)
	{
		return uint64_t(thread + 1) << 56 | (transaction & 0xffffffff) << 24 | entry;
	}
	static unsigned thread(uint64_t word)
	{
		return static_cast<unsigned>(word >> 56) - 1;
	}
	static uint64_t entry(uint64_t word)
	{
		return word & NO_ENTRY;
	}
	std::atomic<uint64_t> &of(const uint64_t *p)
	{
		return slot_[line_hash(p, SLOTS)];
	}

private:
	Table<std::atomic<uint64_t>> slot_{SLOTS};
};

struct PiscesShared;

/* A thread as others see it. */
struct alignas(ARCH_PAD) PiscesThread {
	enum : uint64_t { STARTING = 1, LAST = UINT64_MAX };
	/* 0: not; STARTING: about to be; else start time << 1 | 1 */
	std::atomic<uint64_t> active{0};
	/* Of the update that is committing */
	std::atomic<uint64_t> end{LAST};
	/* Order of its records above this: data perhaps not durable yet */
	alignas(ARCH_PAD) std::atomic<uint64_t> unflushed{LAST};
	/* Of an entry of its write set: the one before it in the same slot */
	Table<std::atomic<uint32_t>> next;
};

struct PiscesShared {
	explicit PiscesShared(Medium &m)
	    : medium(m), thread(m.threads()), order(m.first_stamp() + 1)
	{
		for (auto &t : thread)
			t.next.make(m.header().log_bytes / sizeof(Entry));
	}
	Medium &medium;
	Owners owners;
	std::vector<PiscesThread> thread;
	alignas(ARCH_PAD) std::atomic<uint64_t> clock{1};
	/* Of records: one that overwrites another's line has a higher number */
	alignas(ARCH_PAD) std::atomic<uint64_t> order;
	alignas(ARCH_PAD) std::mutex ending;
};

struct pisces_tx {
	Place place;
	PiscesShared *shared;
	Log *log;
	PiscesThread *self;
	unsigned me;
	uint64_t start = 0, number = 0; /* start time; of this transaction in its thread */
	std::vector<std::atomic<uint64_t> *> owned;
	Restart restart;

	uint64_t load(const uint64_t *word)
	{
		/* A call takes 25 instructions if the line has no owner; 18 of them go with the 3
		 * loads of shared memory (docs/emulated-machine.md). */
		enum { INSTRUCTIONS = 25 - 3 * 6 };
		arch_instructions(INSTRUCTIONS);
		for (;;) {
			/* A processor loads owner and data together: neither address depends on
			 * the other's value. */
			arch_overlap_begin();
			std::atomic<uint64_t> &slot = shared->owners.of(word);
			uint64_t owner = slot.load(std::memory_order_acquire);
			uint64_t unowned = memory(word);
			arch_overlap_end();
			if (owner == 0)
				return unowned;
			unsigned who = Owners::thread(owner);
			if (who == me)
				return written(*log, *self, Owners::entry(owner), word)
				        .value_or(memory(word));
			const PiscesThread &other = shared->thread[who];
			uint64_t end = other.end.load(std::memory_order_acquire);
			std::optional<uint64_t> value;
			if (end <= start)
				value = written(
				        shared->medium.log(who), other, Owners::entry(owner), word);
			/* Orders the reads of the other's write set before the second look, without
			 * which they may be of its next transaction. */
			std::atomic_thread_fence(std::memory_order_acquire);
			if (slot.load(std::memory_order_relaxed) != owner)
				continue;
			/* Not found, or to end after we began: the memory is as it was then, for it
			 * waits for us. */
			return value.value_or(memory(word));
		}
	}
	void store(uint64_t *word, uint64_t value)
	{
		std::atomic<uint64_t> &slot = own(word);
		uint64_t owner = slot.load(std::memory_order_relaxed);
		for (uint64_t e = Owners::entry(owner); e != Owners::NO_ENTRY;
		        e = self->next[e].load(std::memory_order_relaxed))
			if (log->entry(e).address == reinterpret_cast<uint64_t>(word)) {
				__atomic_store_n(&log->entry(e).value, value, __ATOMIC_RELAXED);
				return;
			}
		uint64_t entry = log->entries();
		if (!log->add(word, value))
			restart.now(FUR_ABORT_FULL);
		self->next[entry].store(
		        static_cast<uint32_t>(Owners::entry(owner)), std::memory_order_relaxed);
		slot.store(Owners::word(me, number, entry), std::memory_order_release);
	}
	/* Own the line, and write nothing. */
	void promote(uint64_t *word)
	{
		own(word);
	}

private:
	static uint64_t memory(const uint64_t *word)
	{
		return __atomic_load_n(word, __ATOMIC_RELAXED);
	}
	/* Look for the word in a slot's chain of a write set. */
	static std::optional<uint64_t> written(
	        Log &log, const PiscesThread &t, uint64_t entry, const uint64_t *word)
	{
		for (unsigned steps = 0;
		        entry != Owners::NO_ENTRY && entry < t.next.size() && steps < t.next.size();
		        steps++) {
			Entry &e = log.entry(entry);
			if (__atomic_load_n(&e.address, __ATOMIC_RELAXED) ==
			        reinterpret_cast<uint64_t>(word))
				return __atomic_load_n(&e.value, __ATOMIC_RELAXED);
			entry = t.next[entry].load(std::memory_order_relaxed);
		}
		return std::nullopt;
	}
	std::atomic<uint64_t> &own(const uint64_t *word)
	{
		std::atomic<uint64_t> &slot = shared->owners.of(word);
		uint64_t owner = slot.load(std::memory_order_relaxed);
		if (owner && Owners::thread(owner) == me)
			return slot;
		/* A line that is free now has no writer that ended after we began: that writer
		 * would be waiting for us. */
		if (owner || !slot.compare_exchange_strong(
		                     owner, Owners::word(me, number, Owners::NO_ENTRY)))
			restart.now(FUR_ABORT_CONFLICT);
		owned.push_back(&slot);
		return slot;
	}
};

template <class Watch = Nobody>
class PiscesTm : public DurableTm
{
public:
	explicit PiscesTm(const TmOptions &o)
	    : DurableTm(o, "pisces", Medium::Working::SHARED), shared_(medium)
	{
		isolation = "snapshot";
	}

	class Thread : public SoftwareSession<Thread, pisces_tx, Watch>
	{
	public:
		using Base = SoftwareSession<Thread, pisces_tx, Watch>;
		explicit Thread(PiscesTm &tm)
		    : Base(tm), shared_(tm.shared_), self_(shared_.thread[number_])
		{
			tx_.shared = &shared_, tx_.self = &self_, tx_.me = number_;
		}

		void begin(bool)
		{
			tx_.number++;
			self_.end.store(PiscesThread::LAST, std::memory_order_relaxed);
			/* Seen before the clock is read: an update that ends meanwhile waits for
			 * us, whatever time we get. */
			self_.active.store(PiscesThread::STARTING, std::memory_order_relaxed);
			arch_fence();
			tx_.start = shared_.clock.load(std::memory_order_acquire);
			self_.active.store(tx_.start << 1 | 1, std::memory_order_release);
		}
		/* The data that it read became durable before it could be read. */
		bool commit_read()
		{
			deactivate();
			release();
			return true;
		}
		bool commit_update()
		{
			/* Our number is above that of every update whose effect we have seen, and
			 * below the bound that others will see drained from now on. */
			self_.unflushed.store(shared_.order.load(std::memory_order_relaxed),
			        std::memory_order_relaxed);
			arch_fence();
			uint64_t order = shared_.order.fetch_add(1) + 1;
			Watch::pending();
			medium_.flush_entries(number_);
			medium_.seal(number_, order);
			medium_.drain();
			this->spent(FUR_PHASE_FLUSH);
			uint64_t end = end_now();
			deactivate();
			wait_for_older(end);
			this->spent(FUR_PHASE_ISOLATION);
			write_back();
			self_.unflushed.store(PiscesThread::LAST, std::memory_order_release);
			release();
			/* Until then others find the write set through the log's head. */
			medium_.publish(number_);
			this->spent(FUR_PHASE_FLUSH);
			return true;
		}
		void roll_back()
		{
			release();
			deactivate();
		}
		/* Records whose data is durable are of no more use. */
		void reclaim()
		{
			uint64_t upto = shared_.order.load();
			arch_fence();
			for (unsigned n = 0, all = medium_.entered(); n < all; n++)
				upto = std::min(upto, shared_.thread[n].unflushed.load(
				                              std::memory_order_acquire));
			medium_.reclaim(upto, Medium::Reclaim::DROP);
		}

	private:
		using Base::medium_, Base::number_, Base::log_, Base::tx_;

		/* For readers the end time and the clock change as one: a reader of the new clock
		 * finds the end time, and for a reader of the old clock that time is in the
		 * future. */
		uint64_t end_now()
		{
			std::lock_guard guard(shared_.ending);
			uint64_t end = shared_.clock.load(std::memory_order_relaxed) + 1;
			self_.end.store(end, std::memory_order_release);
			Watch::visible();
			shared_.clock.store(end, std::memory_order_release);
			return end;
		}
		void deactivate()
		{
			self_.active.store(0, std::memory_order_release);
		}
		void wait_for_older(uint64_t end)
		{
			/* The clock is visible before active is read: a transaction that the scan
			 * does not find has begun at `end` or later, or not yet. */
			arch_fence();
			for (unsigned n = 0, all = medium_.entered(); n < all; n++) {
				const PiscesThread &t = shared_.thread[n];
				struct arch_backoff backoff = {};
				/* The threads' states do not depend on one another. */
				arch_overlap_begin();
				for (;;) {
					uint64_t active = t.active.load(std::memory_order_acquire);
					if (!active || (active != PiscesThread::STARTING &&
					                       active >> 1 >= end))
						break;
					arch_backoff(&backoff);
				}
			}
			arch_overlap_end();
		}
		void write_back()
		{
			uint64_t entries = log_.entries();
			for (uint64_t n = 0; n < entries; n++) {
				auto *word = reinterpret_cast<uint64_t *>(log_.entry(n).address);
				__atomic_store_n(word, log_.entry(n).value, __ATOMIC_RELAXED);
			}
			for (uint64_t n = 0; n < entries; n++) {
				uint64_t line = log_.entry(n).address / ARCH_FLUSH_LINE;
				if (n == 0 || log_.entry(n - 1).address / ARCH_FLUSH_LINE != line)
					medium_.flush(
					        reinterpret_cast<uint64_t *>(log_.entry(n).address),
					        sizeof(uint64_t));
			}
			/* Durable before release: the next transaction that overwrites the line has
			 * a record of its own, and then ours may be reclaimed. */
			medium_.drain();
		}
		void release()
		{
			for (auto *slot : tx_.owned)
				slot->store(0, std::memory_order_release);
			tx_.owned.clear();
		}

		PiscesShared &shared_;
		PiscesThread &self_;
	};

private:
	PiscesShared shared_;
};

} // namespace baselines

#endif /* BASELINES_PISCES_HPP */
