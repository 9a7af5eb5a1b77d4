/* SPDX-License-Identifier: BSD-3-Clause
 *
 * arch_arm.h - aarch64: weakly ordered.  Any two accesses to different words may pass each other,
 * unless a barrier, an acquire or a release lies between.  A store becomes visible to all other
 * threads at once.  `ish` is the domain of all processors that run one operating system, hence of
 * all threads.  Source: Arm Architecture Reference Manual (DDI 0487), "Definition of the Arm memory
 * model" and "Memory barriers".
 */
#ifndef FUR_ARCH_ARM_H
#define FUR_ARCH_ARM_H

#include <stdint.h>

/* libfur writes back in steps of at most this many bytes; arch_arm.c takes smaller steps where the
 * processor's lines are shorter.  With longer lines it writes some of them back twice. */
#define ARCH_FLUSH_LINE    64
#define ARCH_HAS_TSX       0
#define ARCH_HAS_POWER_HTM 0

/* Not `yield`: only processors with several threads to a core heed it, and on the others, nearly
 * all, it is a nop.  isb refills the pipeline, tens of cycles, about what `pause` takes on x86;
 * meanwhile the loop loads nothing. */
static inline void arch_pause(void)
{
	__asm__ volatile("isb" ::: "memory");
}

/* The processor may read the counter before earlier accesses are performed.  libfur only measures
 * with it, and orders nothing by it.  All processors read the same counter. */
static inline uint64_t arch_ticks(void)
{
	uint64_t ticks;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
}

static inline void arch_fence(void)
{
	__asm__ volatile("dmb ish" ::: "memory");
}

/* ishld orders earlier loads before all later accesses, ishst earlier stores before later stores.
 * Only a store and a later load stay unordered.  dmb ish would be right as well, but it waits until
 * earlier stores have left the store buffer: mostly those of the update's body, which may miss. */
static inline void arch_fence_light(void)
{
	__asm__ volatile("dmb ishld\n\tdmb ishst" ::: "memory");
}

/* stlr is not enough: a later plain load may pass it. */
static inline void arch_store_fence(uint64_t *p, uint64_t value)
{
	__atomic_store_n(p, value, __ATOMIC_RELAXED);
	arch_fence();
}

/* The compiler's sequentially consistent read-modify-write is ldaxr with stlxr, or one instruction
 * like ldaddal (FEAT_LSE).  stlxr orders only the accesses before it, ldaxr only those after it.
 * So a plain store before the pair and a plain access after it may change places, and the order
 * that ring_draw() promises would not hold.  We know of no code that relies on more than C11's
 * order: it stores with release before such an operation, or loads with sequential consistency
 * after it.  But the runs on the emulated machine, our evidence, would not show such code, because
 * there every read-modify-write is a full fence.
 * After the pair, and not before: so the pair's own store also comes before later loads. */
static inline void arch_fence_after_rmw(void)
{
	arch_fence();
}

static inline void arch_gap(void)
{
	arch_pause();
}

#endif /* FUR_ARCH_ARM_H */
