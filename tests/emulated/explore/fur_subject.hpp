/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_subject.hpp - libfur as a subject of the exploration (subject.hpp).
 */
#ifndef EXPLORE_FUR_SUBJECT_HPP
#define EXPLORE_FUR_SUBJECT_HPP

#include "data.hpp"
#include "internals.hpp"
#include "recorded.hpp"
#include "run.hpp"
#include "shipping.hpp"

#include <atomic>
#include <fcntl.h>
#include <fur_bulk.h>
#include <memory>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#ifdef FUR_LAB
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as in internals.hpp */
#define _Static_assert static_assert      /* NOLINT */
extern "C" {
#include "errand.h"
#include "lab_bulk.h"
}
#undef _Static_assert
#pragma GCC diagnostic pop
#endif

namespace explore
{

inline void must(int result)
{
	if (result)
		die(std::string("explore: ") + fur_errormsg());
}

/* The power will fail: until then a thread has nothing to do. */
[[noreturn]] inline void await_end()
{
	const timespec time = {0, 1000};
	run.ended++;
	for (;;)
		syscall(SYS_nanosleep, &time, nullptr);
}

inline bool has_lost_its_place(int result)
{
	return result == FUR_EFENCED && unseen([] { return run.o->handover; });
}

/* Of a transaction, which ends its thread's work if another node has taken over. */
inline void must_unless_fenced(int result)
{
	if (has_lost_its_place(result)) {
		oracle::fenced();
		await_end();
	}
	must(result);
}

class Fur
{
public:
	static void make(const Options &o, const std::string &path)
	{
		fur_options f = options(o, FUR_HTM_NONE);
		fur_heap *heap;
		must(fur_create(path.c_str(), &f, &heap));
		must(fur_close(heap));
	}
	Fur(const Options &o, const char *path, fur_htm htm, uint32_t retries)
	{
		fur_options f = options(o, htm);
		if (o.ships && !o.handover)
			f.ack = FUR_ACK_REPLICATED;
		if (fur_open(path, &f, &heap_))
			throw std::runtime_error(fur_errormsg());
		heap_->engine.retries = retries;
		if (run.snapshot_bytes)
			heap_->engine.snapshot_bytes = run.snapshot_bytes;
		/* Few records as there are, let bulk updates pass over them again and again. */
		if (run.seed % 2)
			heap_->engine.bulk.commit_may_map = 0;
		if (heap_->durability.ship.on) {
			unseen([&] {
				shipping_log.start();
				return 0;
			});
		}
	}
	~Fur()
	{
		must(fur_close(heap_));
	}
	Fur(const Fur &) = delete;

	class Thread
	{
	public:
		explicit Thread(Fur &fur)
		{
			must(fur_thread_register(fur.heap_, nullptr, &self_));
			registered();
		}
		explicit Thread(fur_thread *self) : self_(self)
		{
			registered();
		}
		template <class Body>
		void read(Body body)
		{
			if (repeatable_) {
				optimistically(body, nullptr);
				return;
			}
			fur_ro *tx;
			must_unless_fenced(fur_begin_ro(self_, &tx));
			body(tx);
			must_unless_fenced(fur_end_ro(tx, nullptr));
		}
		template <class Body>
		fur_ticket read_later(Body body)
		{
			fur_ro *tx;
			fur_ticket ticket;
			if (repeatable_) {
				optimistically(body, &ticket);
				return ticket;
			}
			must_unless_fenced(fur_begin_ro(self_, &tx));
			body(tx);
			must_unless_fenced(fur_end_ro(tx, &ticket));
			return ticket;
		}
		/* As the library does by what hardware updates have lost. */
		void move_updates(bool to_software)
		{
			if (!self_->engine->ops || self_->engine->updates_active)
				return;
			if (to_software)
				updates_to_software(self_->engine);
			else
				updates_to_hardware(self_->engine);
		}
		/* Can a snapshot be read here? */
		bool has_snapshots() const
		{
			return !self_->engine->updates_active;
		}
		/* Runs the body several times in one snapshot, which other threads' updates
		 * outlive. fixed() is called when the snapshot has begun.  False: libfur has
		 * revoked it. */
		template <class Fixed, class Body>
		bool read_in_snapshot(unsigned runs, Fixed fixed, Body body)
		{
			auto reading = [&](fur_reader *tx) { body(tx); };
			using Reading = decltype(reading);
			fur_snapshot *snapshot;
			int result = 0;
			must_unless_fenced(fur_snapshot_begin(self_, &snapshot));
			fixed();
			for (unsigned k = 0; k < runs && !result; k++) {
				nap(k * 37);
				fur::detail::Run<Reading, fur_reader> call{reading};
				const struct fur_run how = {sizeof how, nullptr,
				        k & 1 ? fur::detail::leave_body : nullptr};
				result = fur_snapshot_run(self_, snapshot,
				        fur::detail::call_reader<Reading>, &call, &how);
			}
			must_unless_fenced(fur_snapshot_end(snapshot));
			if (result != FUR_ETOOOLD)
				must_unless_fenced(result);
			return result == 0;
		}
		void wait(fur_ticket ticket)
		{
			must_unless_fenced(fur_wait(self_, ticket));
		}
		/* False: another thread's runs, or it was cancelled. */
		bool bulk(const fur_bulk &job, bool by_operator)
		{
			int result = FUR_ENOENT;
#ifdef FUR_LAB
			const lab_operator_call call = {"explore", nullptr, 0};
			if (by_operator)
				result = lab_bulk_run(self_, &job, &call, nullptr, nullptr);
#else
			(void)by_operator;
#endif
			if (result == FUR_ENOENT) /* no such process at this moment */
				result = fur_bulk_run(self_, &job, nullptr);
			if (result == FUR_EBUSY || result == FUR_EABORTED)
				return false;
			/* Perhaps it is committed, and waits until its block is free: INV-SH7
			 * is not for it. */
			if (has_lost_its_place(result))
				await_end();
			must(result);
			return true;
		}
		void sync()
		{
			must_unless_fenced(fur_sync(self_->heap));
		}
		/* `ticket`: the update ends with it; NULL: it waits. */
		template <class Body>
		bool update_or_abort(Body body, fur_ticket *ticket = nullptr)
		{
			if (repeatable_)
				return run_or_abort(body, ticket);
			fur_update *tx;
			must_unless_fenced(fur_begin_update(self_, &tx));
			if (!body(tx)) {
				fur_abort(tx);
				return false;
			}
			must_unless_fenced(
			        ticket ? fur_commit(tx, ticket) : fur_commit(tx, nullptr));
			return true;
		}
		/* Whether the body may run again, how libfur leaves it then, and whether the update
		 * avoids what the machine prefers: hardware, or else software. */
		void choose(uint64_t random)
		{
			repeatable_ = run.rerun == Rerun::ALWAYS ||
			              (run.rerun == Rerun::SOMETIMES && (random & 1));
			leaving_ = random >> 1 & 1;
			if ((random >> 8) % 100 >= run.aside_percent)
				return;
			if (self_->engine->ops) {
				self_->policy.skip = 1;
			} else {
				self_->policy.alone = UINT32_MAX;
				self_->policy.meetings = self_->engine->meetings;
			}
		}
		template <class Reads>
		void join(Reads reads)
		{
			fur_ro *tx;
			must_unless_fenced(fur_join_ro(self_, &tx));
			reads(tx);
			must_unless_fenced(fur_end_ro(tx, nullptr));
		}

	private:
		void registered()
		{
			run.thread_of[self_->index] = emu_thread();
			self_->window.commit.dset.most = run.dset_most;
		}
		template <class Body>
		void optimistically(Body &body, fur_ticket *ticket)
		{
			auto reading = [&](fur_reader *tx) { body(tx); };
			fur::detail::Run<decltype(reading), fur_reader> call{reading};
			const struct fur_run how = {
			        sizeof how, ticket, leaving_ ? fur::detail::leave_body : nullptr};
			must_unless_fenced(fur_read_run(
			        self_, fur::detail::call_reader<decltype(reading)>, &call, &how));
			if (call.thrown)
				std::rethrow_exception(call.thrown);
		}
		template <class Body>
		bool run_or_abort(Body &body, fur_ticket *ticket)
		{
			auto aborting = [&](fur_update *tx) {
				if (!body(tx))
					fur_abort(tx);
			};
			using Aborting = decltype(aborting);
			int result;
			if (leaving_) {
				fur::detail::Run<Aborting> call{aborting};
				result = run_body(fur::detail::call_body<Aborting>, &call,
				        fur::detail::leave_body, ticket);
			} else {
				auto call = [](fur_update *tx, void *arg) {
					(*static_cast<Aborting *>(arg))(tx);
				};
				result = run_body(call, &aborting, nullptr, ticket);
			}
			if (result == FUR_EABORTED)
				return false;
			must_unless_fenced(result);
			return true;
		}
		int run_body(void (*body)(fur_update *, void *), void *arg, void (*leave)(),
		        fur_ticket *ticket)
		{
			const struct fur_run how = {sizeof how, ticket, leave};
			return fur_update_run(self_, body, arg, &how);
		}
		fur_thread *self_ = nullptr;
		bool repeatable_ = false, leaving_ = false;
	};
	void *root() const
	{
		return root_at_rest(heap_, 0);
	}
	void set_root(fur_update *tx, void *p)
	{
		fur_set_root(tx, 0, p);
	}
	char *base() const
	{
		return static_cast<char *>(heap_base(heap_));
	}
	uint64_t bytes() const
	{
		return heap_size(heap_);
	}
	/* Replays with this many threads even when there is little to replay. */
	static void replay_with(fur_heap *heap, unsigned threads, unsigned preload, bool batch,
	        unsigned unload_lines)
	{
		replay_options how = replay_soon(threads, preload);
		how.strategy = batch ? REPLAY_BATCH : REPLAY_SEQUENTIAL;
		how.unload_lines = unload_lines;
		heap->durability.replay_options = how;
	}
	void replay_with(unsigned threads, unsigned preload, bool batch, unsigned unload_lines)
	{
		replay_with(heap_, threads, preload, batch, unload_lines);
	}
	uint64_t blocks(std::string &wrong) const
	{
		alloc_census census;
		if (alloc_check(heap_base(heap_), &census))
			wrong = std::string("the allocator: ") + fur_errormsg();
		return census.blocks;
	}
	uint64_t unfinished() const
	{
		return header(heap_base(heap_))->bulk != 0;
	}
	static oracle::Becomes becomes(const fur_update *tx)
	{
		switch (tx->mode) {
		case TX_IN_PLACE: return oracle::Becomes::VISIBLE_NOW;
		case TX_SERIAL:
		case TX_CONCURRENT: return oracle::Becomes::PUBLISHED;
		default: return oracle::Becomes::VISIBLE_LATER;
		}
	}
	/* What a process alongside this one has: an open file of its own, and no nondurable[]. */
	struct Beside {
		explicit Beside(const durability &worker, const char *path = run.path)
		    : d(std::make_unique<durability>(worker))
		{
			d->replays_for_worker = true;
			d->redo = nullptr;
			d->nondurable = nullptr;
			d->pm.fd = ::open(path, O_RDWR);
		}
		~Beside()
		{
			::close(d->pm.fd);
		}
		Beside(const Beside &) = delete;
		std::unique_ptr<durability> d;
	};
	static void nap(uint64_t turns)
	{
		timespec time = {0, static_cast<long>(turns * 7919 % 1000)};
		syscall(SYS_nanosleep, &time, nullptr);
	}
	/* Replays as fur-replayer does, or carries out errands while another thread replays (lab).
	 * It leaves and returns, so workers find it present, absent, or present and not
	 * answering. */
	void act_as_replayer(const std::atomic<bool> &over)
	{
#ifdef FUR_LAB
		if (run.work == Work::BULK)
			return act_as_operator(over);
#endif
		const Beside beside(heap_->durability);
		for (uint64_t turns = 0; !over; turns++) {
			take_turn(beside.d.get(), turns);
			nap(turns);
		}
	}
	/* Its turn with this heap. */
	static void take_turn(durability *d, uint64_t turns)
	{
		if (turns % 16 == 0)
			must(heap_lock_try(d->pm.fd, HEAP_LOCK_REPLAYER));
		d->control->replayer_pid = 1;
		if (control_try_take(d) == 0) {
			must(replay_live(d));
			control_give_back(d);
		}
		if (turns % 16 == 11)
			heap_lock_give_back(d->pm.fd, HEAP_LOCK_REPLAYER);
	}
	/* Ships the next updates that are there, if there are any. */
	static bool ship_some(durability *d, uint64_t &shipped, Random &random)
	{
		enum { MOST_UPDATES = 8 };
		const uint64_t most = shipped + 1 + random.below(MOST_UPDATES);
		uint64_t end = shipped;
		media_marker marker;
		while (end < most && ship_read(d, end, &marker) == 0)
			end++;
		if (end == shipped)
			return false;
		nap(random.next()); /* on the way to the log */
		unseen([&] {
			shipping_log.append(*d, shipped, end);
			return 0;
		});
		nap(random.next());
		ship_acknowledge(d, shipped = end);
		return true;
	}
	/* Ships as fur-ship does, to a log that answers late.  Ends when it has all. */
	void act_as_shipper(const std::atomic<bool> &over)
	{
		if (unseen([] { return run.o->handover; }))
			return hand_over(over);
		const Beside beside(heap_->durability);
		durability *d = beside.d.get();
		Random random{run.seed * 31 + 7};
		uint64_t shipped = ship_acked(d);
		/* If it sleeps until a call, no call may be lost. */
		const uint64_t sleep_ns = random.below(2) * 2000;
		ship_begin(d);
		for (;;) {
			if (ship_some(d, shipped, random))
				continue;
			if (over && shipped == ring_next(&heap_->durability))
				return;
			must(ship_await_updates(d, shipped, &stopping_, sleep_ns));
		}
	}
	/* The same until it lets another node take over, as shipper.c does: it closes the gate,
	 * ships until nothing is left in the ring, and asks the node, which claims. */
	void hand_over(const std::atomic<bool> &over)
	{
		const Beside beside(heap_->durability);
		durability *d = beside.d.get();
		Random random{run.seed * 31 + 7};
		uint64_t shipped = ship_acked(d);
		const uint64_t close_at = shipped + random.below(run.threads * run.operations / 2);
		bool closed = false;
		ship_begin(d);
		for (;;) {
			ship_some(d, shipped, random);
			if (!closed && (shipped >= close_at || over)) {
				must(ship_close_gate(d));
				closed = true;
				point_gate_closed();
			}
			if (closed && ship_drained(d, shipped))
				break;
			nap(random.next());
		}
		point_handed_over();
		/* Updates that have begun before go on. */
		for (uint64_t more = random.below(3); more; more--) {
			nap(random.next());
			ship_some(d, shipped, random);
		}
		nap(random.next()); /* the node has claimed */
		ship_fence(d);
		while (run.ended < run.threads)
			nap(random.next());
		emu_crash_in(1);
		await_end();
	}
	void end_shipper()
	{
		arch_store32_release(&stopping_, 1);
		ship_call_shipper(&heap_->durability);
	}
	static void make_primary(const std::string &path)
	{
		ShippingLog::make_primary(path);
	}
	static void drop_role(const std::string &path)
	{
		ShippingLog::drop_role(path);
	}
#ifdef FUR_LAB
	void act_as_operator(const std::atomic<bool> &over)
	{
		std::thread replays([&] {
			emu_move(EMU_AGENT);
			const Beside beside(heap_->durability);
			for (uint64_t turns = 0; !over; turns++) {
				if (control_try_take(beside.d.get()) == 0) {
					must(replay_live(beside.d.get()));
					control_give_back(beside.d.get());
				}
				nap(turns);
			}
		});
		const Beside beside(heap_->durability);
		durability *d = beside.d.get();
		const errand_serve_calls calls = {
		        [](void *, const char *, const void *, size_t) { return 0; },
		        [](void *, errand_serve_batch *batch) { return map_batch(*batch); },
		        nullptr};
		auto errand = std::make_unique<errand_server>();
		errand->d = d;
		errand->calls = &calls;
		errand->limit = 3; /* several batches */
		for (uint64_t turns = 0; !over; turns++) {
			if (turns % 16 == 0) {
				must(heap_lock_try(d->pm.fd, HEAP_LOCK_LAB));
				errand_serve_start(d, 1);
			}
			if (turns % 16 < 11)
				carry_out(errand.get());
			if (turns % 16 == 11) {
				heap_lock_give_back(d->pm.fd, HEAP_LOCK_LAB);
				forget(errand.get());
			}
			nap(turns);
		}
		forget(errand.get());
		replays.join();
	}
	static void carry_out(errand_server *errand)
	{
		if ((!errand->number && !errand_serve_accept(errand)) ||
		        control_try_take(errand->d))
			return;
		const bool more = errand_serve_exchange(errand);
		control_give_back(errand->d);
		point_exchanged();
		if (!more || !errand_serve_map(errand))
			errand_serve_end(errand);
	}
	/* As if its process had died. */
	static void forget(errand_server *errand)
	{
		errand->number = 0;
		errand_serve_end(errand);
	}
	static int map_batch(errand_serve_batch &batch)
	{
		for (uint64_t k = 0; k < batch.n; k++)
			batch.changed[k] = map_by_operator(
			        batch.records + k * batch.bytes, batch.bytes, batch.numbers[k]);
		return 0;
	}
#endif
	static void unmap(const Options &o)
	{
		munmap(reinterpret_cast<void *>(ADDRESS), heap_bytes(o));
	}

	static constexpr uint64_t ADDRESS = UINT64_C(0x300000000000);

	static fur_options options(const Options &o, fur_htm htm)
	{
		fur_options f;
		fur_options_init(&f);
		f.heap_bytes = heap_bytes(o);
		f.log_bytes = log_bytes(o);
		f.ring_slots = 64;
		f.max_threads = o.threads + 2;
		f.address = ADDRESS;
		f.htm = htm;
		f.pm = FUR_PM_EMULATED;
		f.dram_bytes = o.dram ? 1 : 0; /* a single page exceeds it */
		f.isolation = o.snapshot ? FUR_SNAPSHOT : FUR_OPACITY;
		return f;
	}

private:
	fur_heap *heap_ = nullptr;
	uint32_t stopping_ = 0; /* the shipper */
};

template <>
struct Facts<fur_update> {
	static size_t usable_bytes(const fur_update *tx, void *block)
	{
		auto *update = const_cast<fur_update *>(tx);
		/* Its loads may defeat a software update, which the machine must see. */
		if (tx->body.software)
			return fur_usable_bytes(update, block);
		return unseen([=] { return fur_usable_bytes(update, block); });
	}
	static bool promotes(const fur_update *tx)
	{
		return tx->mode != TX_IN_PLACE && tx->thread->engine->isolation == FUR_SNAPSHOT;
	}
};

} // namespace explore

#endif /* EXPLORE_FUR_SUBJECT_HPP */
