/* SPDX-License-Identifier: BSD-3-Clause
 *
 * arch_power.h - ppc64le: weakly ordered.  hwsync orders everything; lwsync all but a store before
 * a later load.  Source: Power ISA 3.0B, Book II, 4.6.3 "Memory barrier instructions".
 */
#ifndef FUR_ARCH_POWER_H
#define FUR_ARCH_POWER_H

#include <stdint.h>

#define ARCH_FLUSH_LINE    128 /* what dcbf writes back */
#define ARCH_HAS_TSX       0
#define ARCH_HAS_POWER_HTM 1

static inline void arch_pause(void)
{
	/* Lower this hardware thread's priority for a moment, then restore it: we may be waiting
	 * for its SMT sibling. */
	__asm__ volatile("or 31,31,31; or 2,2,2" ::: "memory");
}

static inline uint64_t arch_ticks(void)
{
	uint64_t ticks;
	__asm__ volatile("mfspr %0, 268" : "=r"(ticks));
	return ticks;
}

static inline void arch_fence(void)
{
	__asm__ volatile("sync" ::: "memory");
}

static inline void arch_fence_light(void)
{
	__asm__ volatile("lwsync" ::: "memory");
}

static inline void arch_store_fence(uint64_t *p, uint64_t value)
{
	__atomic_store_n(p, value, __ATOMIC_RELAXED);
	arch_fence();
}

/* A sequentially consistent read-modify-write begins with hwsync, which orders the accesses before
 * it before those after it. */
static inline void arch_fence_after_rmw(void) {}

static inline void arch_gap(void)
{
	arch_pause();
}

#endif /* FUR_ARCH_POWER_H */
