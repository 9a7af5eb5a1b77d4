/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tm.hpp - the transactional memories a workload can run on, behind one interface:
 *
 *     class SomeTm {
 *         SomeTm(const TmOptions &);              throws Usage for what cannot run here class
 *         Thread { Thread(SomeTm &); read(body), update(body): run body(tx) as a transaction,
 *         return what it returns;
 *                        update_or_abort(body): an update, rolled back if body(tx) returns false;
 *                        was it committed? };
 *         static constexpr bool rolls_back;       else there is no update_or_abort void *root();
 *         void set_root(tx, void *); one word from which the workload finds its data void
 *         begin_run();                       counts start here void describe(json &), void
 *         results(json &) class Set;                              only where it has a set of
 *         integers of its own (bench/rbtree/intset.hpp), and
 *                                                 then read, update and root are not needed
 *     };
 *
 * and, for its transaction types, overloads of fur_load, fur_store, fur_alloc and fur_free.
 * Workloads are written on those alone.
 */
#ifndef BENCH_TM_HPP
#define BENCH_TM_HPP

#include "../../tools/common/json.hpp"
#include "hardware.hpp"
#include "machine.hpp"
#include <atomic>
#include <cstdint>
#include <cstring>
#include <fur.hpp>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace bench
{

using json = tools::Json;

/* The command line asks for what cannot be: one line, exit status 2. */
struct Usage : std::runtime_error {
	using runtime_error::runtime_error;
};

struct TmOptions {
	unsigned threads = 1;
	std::string heap; /* file; empty: one of its own in /dev/shm, removed at the end */
	bool reuse = false;
	uint64_t heap_bytes = 0, log_bytes = 0, ring_slots = 0; /* 0: the default */
	enum fur_pm pm = FUR_PM_EMULATED;
	uint32_t pm_latency_ns = 0, pm_gap_ns = 0, pm_read_ns = 0;
	uint64_t dram_bytes = 0; /* MiB until Options::check() */
	/* An emulated one: its write-backs take their time by themselves */
	bool machine_has_pm = false;
	bool phases = false;
	enum fur_isolation isolation = FUR_OPACITY;
	/* Conflicts of hardware transactions before the lock, libfur's default; none: always under
	 * it */
	unsigned retries = 20;

	std::string path() const
	{
		return heap.empty() ? "/dev/shm/fur-bench-" + std::to_string(getpid()) : heap;
	}
};

/* ---------------------------------------------------- plain memory: none, htm */

/* An allocator for memory that is not persistent: per thread, and all its state is ordinary memory,
 * so that a hardware transaction rolls it back. */
class PlainHeap
{
public:
	explicit PlainHeap(uint64_t bytes) : bytes_(bytes)
	{
		/* Populated: a page fault aborts a hardware transaction. */
		void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
		        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (p == MAP_FAILED)
			throw Usage("no memory for a heap of " + std::to_string(bytes) + " bytes");
		base_ = static_cast<char *>(p);
	}
	~PlainHeap()
	{
		munmap(base_, bytes_);
	}
	PlainHeap(const PlainHeap &) = delete;

	/* A piece for one thread; in a transaction it is taken back by an abort. */
	char *take(uint64_t bytes)
	{
		uint64_t at = next_.fetch_add(bytes);
		return at + bytes <= bytes_ ? base_ + at : nullptr;
	}
	uint64_t bytes() const
	{
		return bytes_;
	}

private:
	char *base_;
	uint64_t bytes_;
	std::atomic<uint64_t> next_{0};
};

struct alignas(128) plain_tx {
	static constexpr unsigned CLASSES = 256; /* of 16 bytes */
	PlainHeap *heap = nullptr;
	char *at = nullptr, *end = nullptr;
	void *free_list[CLASSES] = {};
};

template <class T>
inline T fur_load(plain_tx *, const T *p)
{
	T value;
	__atomic_load(p, &value, __ATOMIC_RELAXED);
	return value;
}
template <class T>
inline void fur_store(plain_tx *, T *p, std::type_identity_t<T> value)
{
	__atomic_store(p, &value, __ATOMIC_RELAXED);
}
/* Blocks carry their class in the word before them. */
inline void *fur_alloc(plain_tx *tx, size_t bytes)
{
	uint64_t cls = (bytes + 8 + 15) / 16;
	if (cls >= plain_tx::CLASSES)
		return nullptr;
	char *block = static_cast<char *>(tx->free_list[cls]);
	if (block) {
		memcpy(&tx->free_list[cls], block, 8);
		return block;
	}
	if (static_cast<uint64_t>(tx->end - tx->at) < cls * 16) {
		enum { PIECE = 1 << 16 };
		if (!(tx->at = tx->heap->take(PIECE))) {
			tx->end = nullptr;
			return nullptr;
		}
		tx->end = tx->at + PIECE;
	}
	memcpy(tx->at, &cls, 8);
	block = tx->at + 8;
	tx->at += cls * 16;
	return block;
}
inline void fur_promote(plain_tx *, void *) {} /* all its reads are tracked */
inline void fur_free(plain_tx *tx, void *p)
{
	uint64_t cls;
	memcpy(&cls, static_cast<char *>(p) - 8, 8);
	memcpy(p, &tx->free_list[cls], 8);
	tx->free_list[cls] = p;
}

class PlainTm
{
public:
	static constexpr bool rolls_back = false;
	explicit PlainTm(const TmOptions &o) : heap_(o.heap_bytes) {}
	void *root()
	{
		return root_;
	}
	void set_root(plain_tx *, void *p)
	{
		root_ = p;
	}

protected:
	PlainHeap heap_;

private:
	void *root_ = nullptr;
};

/* No synchronisation at all: what one thread could reach. */
class NoneTm : public PlainTm
{
public:
	explicit NoneTm(const TmOptions &o) : PlainTm(o)
	{
		if (o.threads > 1)
			throw Usage(
			        "--tm none has no synchronisation: it runs with --threads 1 only");
	}
	class Thread
	{
	public:
		explicit Thread(NoneTm &tm)
		{
			tx_.heap = &tm.heap_;
		}
		template <class Body>
		auto read(Body &&body)
		{
			return body(&tx_);
		}
		template <class Body>
		auto update(Body &&body)
		{
			return body(&tx_);
		}

	private:
		plain_tx tx_;
	};
	void begin_run() {}
	void describe(json &j)
	{
		j["htm"] = "none", j["pm"] = "volatile";
	}
	void results(json &j)
	{
		j["lock_commits"] = 0, j["aborts"] = json::object(),
		j["phases_ns"] = json::object();
	}
};

/* RTM with a lock to fall back on; nothing durable.  The limit for anything built on this
 * hardware. */
class HtmTm : public PlainTm
{
public:
	explicit HtmTm(const TmOptions &o) : PlainTm(o), retries_(o.retries)
	{
		if (!hardware_transactions_work())
			throw Usage("--tm htm needs Intel TSX (RTM), which this processor does not "
			            "have: use none, fur-opacity or "
			            "fur-snapshot");
	}
	struct Counters {
		uint64_t aborts[FUR_ABORT_CAUSES] = {}, locked = 0;
	};

	class Thread
	{
	public:
		explicit Thread(HtmTm &tm) : tm_(tm), number_(tm.threads_++)
		{
			tx_.heap = &tm.heap_;
		}
		~Thread()
		{
			for (int c = 0; c < FUR_ABORT_CAUSES; c++)
				tm_.aborts_[c] += counters_.aborts[c];
			tm_.locked_ += counters_.locked;
		}
		template <class Body>
		auto read(Body &&body)
		{
			return update(body);
		}
		template <class Body>
		auto update(Body &&body)
		{
			Attempts attempts(tm_.retries_, number_);
			while (attempts.left()) {
				while (tm_.lock_.load(std::memory_order_acquire))
					spin();
				attempts.begin();
				unsigned status = tsx_begin();
				if (status == TSX_STARTED) {
					if (tm_.lock_.load(std::memory_order_relaxed))
						tsx_abort(1 + FUR_ABORT_LOCK);
					auto result = body(&tx_);
					tsx_end();
					return result;
				}
				fur_abort_cause cause = abort_cause(status);
				counters_.aborts[cause]++;
				attempts.aborted(cause, tm_.lock_.load(std::memory_order_relaxed));
			}
			while (tm_.lock_.exchange(true))
				while (tm_.lock_.load(std::memory_order_relaxed))
					sched_yield();
			auto result = body(&tx_);
			tm_.lock_.store(false, std::memory_order_release);
			counters_.locked++;
			return result;
		}

	private:
		HtmTm &tm_;
		const uint32_t number_;
		plain_tx tx_;
		Counters counters_;
	};
	void begin_run()
	{
		for (auto &n : aborts_)
			n = 0;
		locked_ = 0;
	}
	void describe(json &j)
	{
		j["htm"] = machine_htm(), j["pm"] = "volatile";
	}
	void results(json &j)
	{
		j["aborts"] = json::object();
		for (int c = 0; c < FUR_ABORT_CAUSES; c++)
			j["aborts"][fur_abort_name(static_cast<fur_abort_cause>(c))] =
			        aborts_[c].load();
		j["lock_commits"] = locked_.load();
		j["phases_ns"] = json::object();
	}

private:
	alignas(128) std::atomic<bool> lock_{false};
	alignas(128) std::atomic<uint64_t> aborts_[FUR_ABORT_CAUSES] = {};
	std::atomic<uint64_t> locked_{0};
	std::atomic<uint32_t> threads_{0};
	const unsigned retries_;
};

/* -------------------------------------------------------------------- libfur */

class FurTm
{
public:
	static constexpr bool rolls_back = true;
	explicit FurTm(const TmOptions &o) : path_(o.path()), heap_(make(o))
	{
		/* Without a name it goes when we do, however that is. */
		if (o.heap.empty())
			::unlink(path_.c_str());
	}
	FurTm(const FurTm &) = delete;

	class Thread
	{
	public:
		explicit Thread(FurTm &tm) : thread_(tm.heap_) {}
		template <class Body>
		auto read(Body &&body)
		{
			return fur::read(thread_, body);
		}
		template <class Body>
		auto update(Body &&body)
		{
			return fur::update(thread_, body);
		}
		template <class Body>
		bool update_or_abort(Body &&body)
		{
			fur_update *tx;
			fur::check(fur_begin_update(thread_, &tx));
			if (!body(tx)) {
				fur_abort(tx);
				return false;
			}
			fur::check(fur_commit(tx));
			return true;
		}

	private:
		fur::Thread thread_;
	};
	void *root()
	{
		return heap_.root<void>(0);
	}
	void set_root(fur_update *tx, void *p)
	{
		fur_set_root(tx, 0, p);
	}
	void begin_run()
	{
		before_ = heap_.stats();
	}
	void describe(json &j)
	{
		fur_info i = heap_.info();
		j["htm"] = fur_htm_name(i.htm);
		j["htm_reason"] = i.htm_reason;
		j["isolation"] = fur_isolation_name(i.isolation);
		j["pm"] = fur_pm_name(i.pm);
		j["pm_reason"] = i.pm_reason;
		j["heap_bytes"] = i.heap_bytes;
	}
	void results(json &j)
	{
		fur_stats s = heap_.stats();
		j["aborts"] = json::object();
		for (int c = 0; c < FUR_ABORT_CAUSES; c++)
			j["aborts"][fur_abort_name(static_cast<fur_abort_cause>(c))] =
			        s.aborts[c] - before_.aborts[c];
		j["lock_commits"] = s.lock_commits - before_.lock_commits;
		j["phases_ns"] = json::object();
		for (int p = 0; p < FUR_PHASES; p++)
			j["phases_ns"][fur_phase_name(static_cast<fur_phase>(p))] =
			        s.phase_ns[p] - before_.phase_ns[p];
		j["heap_updates"] = s.update_commits - before_.update_commits;
		j["heap_ro"] = s.ro_commits - before_.ro_commits;
		j["replays"] = s.replays - before_.replays;
		j["bytes_handed_back"] = s.bytes_handed_back;
		j["times_handed_back"] = s.times_handed_back;
		j["long_readers"] = s.long_readers;
	}

private:
	fur::Heap make(const TmOptions &t)
	{
		fur::Options o;
		o.heap_bytes = t.heap_bytes;
		o.log_bytes = t.log_bytes;
		o.dram_bytes = t.dram_bytes;
		o.ring_slots = t.ring_slots;
		/* One more for the thread that sets up, and one for what it does aside. */
		o.max_threads = t.threads + 2 < 8 ? 8 : t.threads + 2;
		o.isolation = t.isolation;
		o.pm = t.pm;
		o.pm_latency_ns =
		        t.pm_latency_ns && !t.machine_has_pm ? t.pm_latency_ns : FUR_NO_LATENCY;
		o.pm_gap_ns = t.machine_has_pm ? 0 : t.pm_gap_ns;
		o.phase_times = t.phases;
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

#endif /* BENCH_TM_HPP */
