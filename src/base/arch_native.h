/* SPDX-License-Identifier: BSD-3-Clause
 *
 * arch_native.h - the parts of the machine that are the same on every real processor (arch.h).
 */
#ifndef FUR_ARCH_NATIVE_H
#define FUR_ARCH_NATIVE_H

#include <stdbool.h>
#include <stddef.h>

static inline void arch_prefetch(const void *p)
{
	__builtin_prefetch(p);
}

static inline void arch_prefetch_to_write(const void *p)
{
#if defined(__x86_64__)
	/* For the processors that every x86-64 compiler must serve, the builtin only asks to read:
	 * a store to a line that another core has would wait as without it.  An x86-64 processor
	 * without the instruction takes it for a no-op (0F 0D in the opcode map, Intel SDM
	 * volume 2). */
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

bool arch_lend_fences(void);
bool arch_fence_others(void);

static inline void arch_overlap_begin(void) {}

static inline void arch_overlap_end(void) {}

static inline void arch_instructions(unsigned n)
{
	(void)n;
}

static inline void arch_persistent(void *base, size_t bytes)
{
	(void)base;
	(void)bytes;
}

static inline void arch_persistent_gone(void *base)
{
	(void)base;
}

#define ARCH_THREAD_LOCAL_DECLARE(type, name)                                                      \
	extern __thread type name##_variable __attribute__((tls_model("initial-exec")));           \
	static inline type *name(void)                                                             \
	{                                                                                          \
		return &name##_variable;                                                           \
	}
#define ARCH_THREAD_LOCAL_DEFINE(type, name) __thread type name##_variable;

#endif /* FUR_ARCH_NATIVE_H */
