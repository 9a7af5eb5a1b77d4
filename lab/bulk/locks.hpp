/* SPDX-License-Identifier: BSD-3-Clause
 *
 * locks.hpp - a table of record locks (claims/claims.h) in this process's memory.
 */
#ifndef BENCH_LOCKS_HPP
#define BENCH_LOCKS_HPP

#include "../../bench/common/machine.hpp"

#include "claims/claims.hpp"

#include <new>

namespace bench
{

class Locks
{
public:
	/* `cold`: on an emulated machine, no cache has a line of it. */
	explicit Locks(unsigned buckets_log2 = CLAIMS_BUCKETS_LOG2, bool cold = true)
	    : memory_(operator new(claims_bytes(buckets_log2), std::align_val_t(ARCH_PAD)))
	{
		if (cold)
			aside([&] { claims_format(get(), buckets_log2); });
		else
			claims_format(get(), buckets_log2);
	}
	~Locks()
	{
		operator delete(memory_, std::align_val_t(ARCH_PAD));
	}
	Locks(const Locks &) = delete;
	claims *get() const
	{
		return static_cast<claims *>(memory_);
	}

private:
	void *memory_;
};

} // namespace bench

#endif /* BENCH_LOCKS_HPP */
