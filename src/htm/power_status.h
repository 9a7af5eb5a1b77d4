/* SPDX-License-Identifier: BSD-3-Clause
 *
 * power_status.h - causes of aborts in TEXASR, the status of an aborted transaction on POWER.
 * Source: Power ISA 3.0B, Book II, 5.3.2.
 */
#ifndef FUR_POWER_STATUS_H
#define FUR_POWER_STATUS_H

#include "htm/power_insn.h"

#include <fur.h>

#define TEXASR_BIT(n)    (UINT64_C(1) << (63 - (n)))
#define TEXASR_FOOTPRINT TEXASR_BIT(10)
#define TEXASR_PLAIN     TEXASR_BIT(12) /* "non-transactional conflict" */
#define TEXASR_CONFLICTS (TEXASR_BIT(11) | TEXASR_BIT(13) | TEXASR_BIT(14))
#define TEXASR_ABORT     TEXASR_BIT(31)

/* The low byte of tabort.'s register becomes TEXASR bits 0:7; its last bit means "persistent", so
 * the cause is stored above it. */
static inline void power_abort_with(enum fur_abort_cause cause)
{
	power_tabort((uint64_t)(1 + cause) << 1);
	/* Outside a transaction tabort. does nothing; inside, it does not return. */
	__builtin_trap();
}

/* The status of an attempt that begin() did not start, because `shut` was set: as if `cause` had
 * aborted it. */
#define POWER_STATUS(cause) ((uint64_t)(1 + (cause)) << 57 | TEXASR_ABORT)

static inline enum fur_abort_cause power_classify(uint64_t status)
{
	uint64_t code = status >> 57;
	if (status & TEXASR_ABORT)
		return code >= 1 && code <= FUR_ABORT_CAUSES ? (enum fur_abort_cause)(code - 1)
		                                             : FUR_ABORT_FAULT;
	if (status & TEXASR_FOOTPRINT)
		return FUR_ABORT_CAPACITY;
	if (status & TEXASR_PLAIN)
		return FUR_ABORT_PLAIN;
	if (status & TEXASR_CONFLICTS)
		return FUR_ABORT_CONFLICT;
	/* The kernel's codes: reschedule, signal, page fault; and every persistent abort */
	return FUR_ABORT_FAULT;
}

#endif /* FUR_POWER_STATUS_H */
