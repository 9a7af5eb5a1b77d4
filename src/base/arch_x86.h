/* SPDX-License-Identifier: BSD-3-Clause
 *
 * arch_x86.h - x86-64: total store order, so loads are ordered with loads, stores with stores and
 * loads with later stores; only a store and a later load may pass each other.  Source: Intel SDM
 * volume 3, 9.2 "Memory ordering".
 */
#ifndef FUR_ARCH_X86_H
#define FUR_ARCH_X86_H

#include <stdint.h>

#define ARCH_FLUSH_LINE    64 /* what clwb writes back */
#define ARCH_HAS_TSX       1
#define ARCH_HAS_POWER_HTM 0

static inline void arch_pause(void)
{
	__asm__ volatile("pause" ::: "memory");
}

static inline uint64_t arch_ticks(void)
{
	uint32_t low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/* mfence instead of a locked add: the fence must also drain the store buffer inside a hardware
 * transaction, where a locked add would put its stack line into the write set. */
static inline void arch_fence(void)
{
	__asm__ volatile("mfence" ::: "memory");
}

static inline void arch_fence_light(void)
{
	__asm__ volatile("" ::: "memory");
}

/* Orders the store before any later load.  One locked exchange is cheaper than a store and
 * mfence. */
static inline void arch_store_fence(uint64_t *p, uint64_t value)
{
	__atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);
}

/* A locked instruction is a full fence (Intel SDM volume 3, "Memory ordering"). */
static inline void arch_fence_after_rmw(void) {}

/* A gap between two loads of a word.  Allowed inside a hardware transaction, where `pause` aborts.
 * lfence orders the load before it against the load after it: with more than one in flight, an
 * invalidation of the line counts as a conflict and aborts the transaction. */
static inline void arch_gap(void)
{
	enum { GAP = 60 };
	uint64_t began = arch_ticks();
	while (arch_ticks() - began < GAP)
		;
	__asm__ volatile("lfence" ::: "memory");
}

#endif /* FUR_ARCH_X86_H */
