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
