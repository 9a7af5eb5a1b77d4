/* SPDX-License-Identifier: BSD-3-Clause
 *
 * arch_emulated.h - the processor of src/base/arch.h that is the emulated machine (emulated.h).
 * Whether it is a POWER or a TSX machine is known only at run time.  Loads, stores and atomic
 * operations need nothing here: the sources are compiled so that the machine sees them all.
 */
#ifndef FUR_ARCH_EMULATED_H
#define FUR_ARCH_EMULATED_H

#include "emulated.h"

#define ARCH_FLUSH_LINE    ((uint64_t)emu_line_bytes())
#define ARCH_HAS_TSX       1
#define ARCH_HAS_POWER_HTM 1

static inline void arch_pause(void)
{
	emu_pause();
}

static inline uint64_t arch_ticks(void)
{
	return emu_ticks();
}

static inline void arch_fence(void)
{
	emu_fence();
}

static inline void arch_fence_light(void)
{
	emu_fence_light();
}

static inline void arch_store_fence(uint64_t *p, uint64_t value)
{
	__atomic_store_n(p, value, __ATOMIC_RELAXED);
	emu_fence();
}

static inline bool arch_lend_fences(void)
{
	return true;
}

static inline bool arch_fence_others(void)
{
	emu_fence_others();
	return true;
}

/* The machine takes every atomic read-modify-write for a full fence (INV-E4). */
static inline void arch_fence_after_rmw(void) {}

static inline void arch_gap(void)
{
	emu_pause();
}

static inline void arch_prefetch(const void *p)
{
	emu_prefetch(p, false);
}

static inline void arch_prefetch_to_write(const void *p)
{
	emu_prefetch(p, true);
}

static inline void arch_overlap_begin(void)
{
	emu_overlap_begin();
}

static inline void arch_overlap_end(void)
{
	emu_overlap_end();
}

static inline void arch_instructions(unsigned n)
{
	emu_instructions(n);
}

static inline void arch_persistent(void *base, size_t bytes)
{
	emu_persistent(base, bytes);
}

static inline void arch_persistent_gone(void *base)
{
	emu_persistent_gone(base);
}

#define ARCH_THREAD_LOCAL_DECLARE(type, name)                                                      \
	extern struct emu_key name##_key;                                                          \
	static inline type *name(void)                                                             \
	{                                                                                          \
		return (type *)emu_local(&name##_key, sizeof(type));                               \
	}
#define ARCH_THREAD_LOCAL_DEFINE(type, name) struct emu_key name##_key;

#endif /* FUR_ARCH_EMULATED_H */
