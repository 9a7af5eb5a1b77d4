/* SPDX-License-Identifier: BSD-3-Clause
 *
 * arch_x86.c - the calls of arch.h that x86-64 implements its own way: write-back, and which
 * transactional memory the processor has.
 */
#if !defined(__x86_64__)
#error "arch_x86.c is for x86-64: build the file of this processor"
#endif
#include "base/arch.h"

#include <cpuid.h>

#if defined(FUR_LIBPMEM)
#include <libpmem.h>

/* Call libpmem: tools/pm-emulate replaces its functions, and so sees every write-back. */
void arch_write_back(const void *start, size_t bytes)
{
	pmem_flush(start, bytes);
}

void arch_write_back_fence(void)
{
	pmem_drain();
}
#else
#include "base/pm_hooks.h"

/* Intel SDM volume 2 and AMD APM volume 3.  clwb keeps the line in the cache; clflushopt and
 * clflush evict it.  clflush is serialised by itself, so the fence after it is superfluous. */
static void clwb(const void *line)
{
	__asm__ volatile("clwb %0" : : "m"(*(const char *)line) : "memory");
}

static void clflushopt(const void *line)
{
	__asm__ volatile("clflushopt %0" : : "m"(*(const char *)line) : "memory");
}

static void clflush(const void *line)
{
	__asm__ volatile("clflush %0" : : "m"(*(const char *)line) : "memory");
}

static void (*write_back)(const void *line) = clflush;

__attribute__((constructor)) static void choose_write_back(void)
{
	unsigned a, b, c, d;
	/* Leaf 7: EBX bit 24 CLWB, bit 23 CLFLUSHOPT. */
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return;
	if (b >> 24 & 1)
		write_back = clwb;
	else if (b >> 23 & 1)
		write_back = clflushopt;
}

void arch_write_back(const void *start, size_t bytes)
{
	write_back_lines(start, bytes, write_back);
}

/* sfence orders clwb and clflushopt before all later stores (Intel SDM volume 2, CLWB).  Without it
 * a marker could reach the medium before the log. */
void arch_write_back_fence(void)
{
	if (unlikely(emulated_fence != NULL)) {
		emulated_fence();
		return;
	}
	__asm__ volatile("sfence" ::: "memory");
}
#endif

struct arch_cpu arch_cpu_detect(void)
{
	struct arch_cpu cpu = {0};
	unsigned a, b, c, d;
	/* Leaf 7: EBX bit 11 RTM, EDX bit 16 TSXLDTRK, EDX bit 11 RTM_ALWAYS_ABORT (Intel SDM
	 * volume 2, CPUID). */
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
		cpu.rtm = (b >> 11 & 1) && !(d >> 11 & 1);
		cpu.tsxldtrk = d >> 16 & 1;
		/* Microcode, the kernel (tsx=off) or a hypervisor hides RTM; TSXLDTRK, which is
		 * useless alone, may stay listed.  On such a machine xbegin does not trap: it
		 * aborts at once, with status 0. */
		cpu.tsx_off = !cpu.rtm && (cpu.tsxldtrk || (d >> 11 & 1));
	}
	return cpu;
}
