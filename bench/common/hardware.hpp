/* SPDX-License-Identifier: BSD-3-Clause
 *
 * hardware.hpp - hardware transactions for systems other than libfur: plain ones with explicit
 * aborts, those of RTM, or of the emulated machine.
 */
#ifndef BENCH_HARDWARE_HPP
#define BENCH_HARDWARE_HPP

#include "htm/tsx_insn.h"
#include "internals.hpp"
#include "machine.hpp"

#include <fur.h>

#if !defined(TSX_STARTED)
/* A processor without: nothing ever starts. */
#define TSX_STARTED (~0u)
enum { TSX_EXPLICIT = 1 << 0, TSX_CONFLICT = 1 << 2, TSX_CAPACITY = 1 << 3 };
inline unsigned tsx_begin()
{
	return 0;
}
inline void tsx_end() {}
#define tsx_abort(code) ((void)(code))
#endif

namespace bench
{

/* An explicit abort's code holds its cause: 1 + fur_abort_cause. */
inline fur_abort_cause abort_cause(unsigned status)
{
	return status & TSX_EXPLICIT   ? static_cast<fur_abort_cause>((status >> 24) - 1)
	       : status & TSX_CAPACITY ? FUR_ABORT_CAPACITY
	       : status & TSX_CONFLICT ? FUR_ABORT_CONFLICT
	                               : FUR_ABORT_FAULT;
}

/* The attempts at one transaction, with libfur's patience: while any are left, begin(), and
 * aborted() if it was. */
class Attempts
{
public:
	Attempts(unsigned budget, uint32_t who) : left_(budget > 0), budget_(budget), who_(who) {}
	/* If not, take the lock. */
	bool left() const
	{
		return left_;
	}
	void begin()
	{
		began_ = arch_ticks();
	}
	/* Waits as is due. */
	void aborted(fur_abort_cause cause, bool lock_held)
	{
		if (htm_is_conflict(cause) && lock_held)
			cause = FUR_ABORT_LOCK;
		htm_action action = htm_decide(cause, &history_, budget_);
		if (action == HTM_RETRY || action == HTM_RETRY_SOON)
			htm_pause(action, &history_, began_, who_);
		left_ = action != HTM_TAKE_LOCK;
	}

private:
	bool left_;
	htm_history history_ = {};
	uint64_t began_ = 0;
	const unsigned budget_;
	const uint32_t who_;
};

/* Does the processor list them, and does one commit? */
inline bool hardware_transactions_work()
{
	if (!machine_htm())
		return false;
	for (int k = 0; k < 1000; k++)
		if (tsx_begin() == TSX_STARTED) {
			tsx_end();
			return true;
		}
	return false;
}

} // namespace bench

#endif /* BENCH_HARDWARE_HPP */
