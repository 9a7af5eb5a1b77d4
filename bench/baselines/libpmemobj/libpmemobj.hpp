/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libpmemobj.hpp - PMDK's undo-log transactions, which isolate nothing, under a reader-writer lock.
 * The same red-black tree.
 *
 * A pool may be mapped elsewhere the next time, so pointers are stored as offsets from its start;
 * fur_load and fur_store turn them into addresses and back.
 *
 * Snapshots are the cost of a transaction: each is an entry of the undo log, written back and
 * fenced.  So a block is snapshot as a whole, at the first store to it: blocks have an allocation
 * class of their own, without headers and aligned to their size, from which a word's block follows.
 */
#ifndef BENCH_LIBPMEMOBJ_HPP
#define BENCH_LIBPMEMOBJ_HPP

#include "../../common/tm.hpp"
#include "../peer_file.hpp"

#include <cstdlib>
#include <libpmemobj.h>
#include <memory>
#include <mutex>
#include <shared_mutex>

namespace bench
{

struct obj_tx {
	static constexpr uintptr_t BLOCK_BYTES = FUR_CACHE_LINE;
	/* With the entry's header of 24 bytes this is a line of the undo log, and all that the
	 * tree's nodes have. */
	static constexpr size_t USED_BYTES = 40;
	PMEMobjpool *pool;
	uint64_t alloc_flags;

	char *base() const
	{
		return reinterpret_cast<char *>(pool);
	}
};

/* An error inside a transaction ends the transaction, and the run. */
struct PmemobjError : std::runtime_error {
	explicit PmemobjError(const char *what)
	    : runtime_error(std::string(what) + ": " + pmemobj_errormsg())
	{
	}
};

template <class T>
inline T fur_load(obj_tx *tx, const T *p)
{
	if constexpr (std::is_pointer_v<T>) {
		uint64_t offset;
		memcpy(&offset, p, sizeof offset);
		return offset ? reinterpret_cast<T>(tx->base() + offset) : nullptr;
	} else {
		return *p;
	}
}
/* Without a snapshot. */
template <class T>
inline void put(obj_tx *tx, T *p, T value)
{
	if constexpr (std::is_pointer_v<T>) {
		uint64_t offset =
		        value ? static_cast<uint64_t>(
		                        reinterpret_cast<const char *>(value) - tx->base())
		              : 0;
		memcpy(static_cast<void *>(p), &offset, sizeof offset);
	} else {
		*p = value;
	}
}
inline void snapshot(const void *from, size_t bytes)
{
	if (pmemobj_tx_xadd_range_direct(from, bytes, POBJ_XADD_NO_ABORT))
		throw PmemobjError("pmemobj_tx_xadd_range_direct");
}
template <class T>
inline void fur_store(obj_tx *tx, T *p, std::type_identity_t<T> value)
{
	auto block = reinterpret_cast<uintptr_t>(p) & ~(obj_tx::BLOCK_BYTES - 1);
	snapshot(reinterpret_cast<void *>(block), obj_tx::USED_BYTES);
	put(tx, p, value);
}
inline void *fur_alloc(obj_tx *tx, size_t bytes)
{
	if (bytes > obj_tx::USED_BYTES)
		return nullptr;
	PMEMoid block = pmemobj_tx_xalloc(obj_tx::BLOCK_BYTES, 0, tx->alloc_flags);
	return OID_IS_NULL(block) ? nullptr : tx->base() + block.off;
}
/* Every block is aligned to its size. */
inline void *fur_alloc_aligned(obj_tx *tx, size_t bytes, size_t alignment)
{
	return alignment <= obj_tx::BLOCK_BYTES ? fur_alloc(tx, bytes) : nullptr;
}
inline void fur_promote(obj_tx *, void *) {} /* updates are alone */
inline void fur_free(obj_tx *, void *p)
{
	if (pmemobj_tx_xfree(pmemobj_oid(p), POBJ_XFREE_NO_ABORT))
		throw PmemobjError("pmemobj_tx_free");
}

class LibpmemobjTm
{
public:
	static constexpr bool rolls_back = false;
	explicit LibpmemobjTm(const TmOptions &o) : file_(o), asked_(o.pm), bytes_(o.heap_bytes)
	{
		if (bytes_ < PMEMOBJ_MIN_POOL)
			throw Usage("--heap-mib " + std::to_string(bytes_ >> 20) +
			            " is too small: libpmemobj makes pools of at least " +
			            std::to_string(PMEMOBJ_MIN_POOL >> 20));
		/* Read by the library when it first maps a file: whether that is persistent memory,
		 * or to be synced. */
		if (asked_ != FUR_PM_AUTO)
			setenv("PMEM_IS_PMEM_FORCE", asked_ == FUR_PM_EMULATED ? "1" : "0", 1);
		static const char layout[] = "libfur-bench";
		pool_.reset(file_.exists() ? pmemobj_open(file_.path(), layout)
		                           : pmemobj_create(file_.path(), layout, bytes_, 0600));
		if (!pool_)
			throw Usage(std::string(file_.path()) +
			            ": libpmemobj cannot open it: " + pmemobj_errormsg());
		pobj_alloc_class_desc blocks = {
		        obj_tx::BLOCK_BYTES, obj_tx::BLOCK_BYTES, 4096, POBJ_HEADER_NONE, 0};
		if (pmemobj_ctl_set(pool_.get(), "heap.alloc_class.new.desc", &blocks))
			throw PmemobjError("heap.alloc_class.new.desc");
		alloc_flags_ = POBJ_CLASS_ID(blocks.class_id) | POBJ_XALLOC_NO_ABORT;
		PMEMoid root = pmemobj_root(pool_.get(), sizeof *root_);
		if (OID_IS_NULL(root))
			throw PmemobjError("pmemobj_root");
		root_ = static_cast<void **>(pmemobj_direct(root));
	}

	class Thread
	{
	public:
		explicit Thread(LibpmemobjTm &tm) : tm_(tm), tx_{tm.pool_.get(), tm.alloc_flags_} {}
		template <class Body>
		auto read(Body &&body)
		{
			std::shared_lock guard(tm_.lock_, std::defer_lock);
			acquire(guard);
			return body(&tx_);
		}
		/* An update is durable before the lock is free, so no thread reads data that is not
		 * durable. */
		template <class Body>
		auto update(Body &&body)
		{
			std::unique_lock guard(tm_.lock_, std::defer_lock);
			acquire(guard);
			if (pmemobj_tx_begin(tx_.pool, nullptr, TX_PARAM_NONE))
				throw PmemobjError("pmemobj_tx_begin");
			End end;
			auto result = body(&tx_);
			pmemobj_tx_commit();
			return result;
		}

	private:
		/* A transaction is shorter than sleeping and waking up: spin first. */
		template <class Guard>
		static void acquire(Guard &guard)
		{
			enum { SPINS = 1000 };
			for (int k = 0; k < SPINS; k++) {
				if (guard.try_lock())
					return;
				spin();
			}
			guard.lock();
		}
		struct End {
			~End()
			{
				if (pmemobj_tx_stage() == TX_STAGE_WORK) /* left by an exception */
					pmemobj_tx_abort(ECANCELED);
				(void)pmemobj_tx_end();
			}
		};
		LibpmemobjTm &tm_;
		obj_tx tx_;
	};
	void *root()
	{
		obj_tx tx = {pool_.get(), 0};
		return fur_load(&tx, root_);
	}
	void set_root(obj_tx *tx, void *p)
	{
		snapshot(root_, sizeof *root_); /* not one of our blocks */
		put(tx, root_, p);
	}

	void begin_run() {}
	void describe(json &j)
	{
		j["library"] = "libpmemobj " + std::to_string(PMEMOBJ_MAJOR_VERSION) + "." +
		               std::to_string(PMEMOBJ_MINOR_VERSION);
		j["htm"] = "none";
		j["isolation"] = "opacity"; /* the lock's */
		j["pm"] = fur_name(FUR_NAME_PM, asked_);
		j["pm_reason"] = asked_ == FUR_PM_EMULATED
		                         ? "PMEM_IS_PMEM_FORCE=1: the file is taken for persistent "
		                           "memory, lines are written back; "
		                           "survives a killed process, NOT a power failure"
		                 : asked_ == FUR_PM_SYNC
		                         ? "PMEM_IS_PMEM_FORCE=0: msync in place of each write-back"
		                         : "libpmemobj's own choice by what the file is on";
		j["settings"] = "a reader-writer lock around transactions, which spins before it "
		                "sleeps; blocks of 64 bytes "
		                "without headers, snapshot as a whole";
		j["heap_bytes"] = bytes_;
	}
	void results(json &j)
	{
		no_counts(j);
	}

private:
	struct Close {
		void operator()(PMEMobjpool *pool) const
		{
			pmemobj_close(pool);
		}
	};
	PeerFile file_; /* goes after the pool */
	enum fur_pm asked_;
	uint64_t bytes_, alloc_flags_ = 0;
	std::unique_ptr<PMEMobjpool, Close> pool_;
	void **root_ = nullptr; /* a word of the pool */
	alignas(128) std::shared_mutex lock_;
};

} // namespace bench

#endif /* BENCH_LIBPMEMOBJ_HPP */
