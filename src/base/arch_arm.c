/* SPDX-License-Identifier: BSD-3-Clause
 *
 * arch_arm.c - the calls of arch.h that aarch64 implements its own way: write-back.  libfur uses no
 * transactional memory here: no processor that one can buy has Arm's (TME).
 */
#if !defined(__aarch64__) || !defined(__AARCH64EL__)
#error "arch_arm.c is for little-endian aarch64: build the file of this processor"
#endif
#include "base/arch.h"
#include "base/pm_hooks.h"

#include <sys/auxv.h>

/* Between two write-backs, in bytes.  A power of two. */
static uintptr_t step = 16; /* the shortest line that the architecture allows */

/* To the point of coherency: what all observers of memory see.  Without FEAT_DPB there is no other
 * instruction, and nothing lies between that point and persistent memory. */
static void clean_to_coherency(const void *line)
{
	for (uintptr_t k = 0; k < ARCH_FLUSH_LINE; k += step)
		__asm__ volatile("dc cvac, %0" : : "r"((uintptr_t)line + k) : "memory");
}

/* To the point of persistence, beyond which a store survives a power failure: dc cvap, spelled so
 * that an assembler for Armv8.0 takes it.  Where the system has a point of persistence, a system
 * cache may lie between the two points, and dc cvac would leave the store there. */
static void clean_to_persistence(const void *line)
{
	for (uintptr_t k = 0; k < ARCH_FLUSH_LINE; k += step)
		__asm__ volatile("sys #3, c7, c12, #1, %0" : : "r"((uintptr_t)line + k) : "memory");
}

static void (*clean)(const void *line) = clean_to_coherency;

__attribute__((constructor)) static void choose_clean(void)
{
	/* AT_HWCAP bit, from the kernel's asm/hwcap.h.  Without it dc cvap is undefined. */
	enum { HWCAP_POINT_OF_PERSISTENCE = 1 << 16, MIN_LINE_SHIFT = 16, MIN_LINE_MASK = 15 };
	uint64_t type;
	if (getauxval(AT_HWCAP) & HWCAP_POINT_OF_PERSISTENCE)
		clean = clean_to_persistence;
	/* CTR_EL0.DminLine: log2 of the words in the shortest line of all data caches.  Where the
	 * cores differ, the kernel reports the least. */
	__asm__("mrs %0, ctr_el0" : "=r"(type));
	step = (uintptr_t)4 << (type >> MIN_LINE_SHIFT & MIN_LINE_MASK);
}

/* A store and a write-back of its line, by one thread, need no barrier between them: they are
 * performed in program order (Arm Architecture Reference Manual, "Ordering and completion of data
 * and instruction cache instructions"). */
void arch_write_back(const void *start, size_t bytes)
{
	write_back_lines(start, bytes, clean);
}

/* Only a dsb waits until write-backs are complete; a dmb orders them, and does not wait.  The dsb
 * must be for loads and stores: one for stores alone (st) waits for no write-back.  And it must be
 * for the full system (sy): `ish` covers the processors that run this operating system, and the
 * medium is no processor.  Linux's own write-back to persistent memory ends with dsb sy as well
 * (arch/arm64/mm/cache.S, dcache_clean_pop).  With less a commit could return before its marker is
 * durable. */
void arch_write_back_fence(void)
{
	if (unlikely(emulated_fence != NULL)) {
		emulated_fence();
		return;
	}
	__asm__ volatile("dsb sy" ::: "memory");
}

struct arch_cpu arch_cpu_detect(void)
{
	return (struct arch_cpu){0};
}
