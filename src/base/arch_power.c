/* SPDX-License-Identifier: BSD-3-Clause
 *
 * arch_power.c - the calls of arch.h that ppc64le implements its own way: write-back, and which
 * transactional memory the processor has.
 */
#if !defined(__powerpc64__) || !defined(__LITTLE_ENDIAN__)
#error "arch_power.c is for ppc64le: build the file of this processor"
#endif
#include "base/arch.h"
#include "base/pm_hooks.h"

#include <sys/auxv.h>

/* libfur's own code, not libpmem's: dcbf with hwsync is right on every POWER.  dcbst with lwsync is
 * not, because lwsync does not order the write-back of dcbst. */
static void dcbf(const void *line)
{
	__asm__ volatile("dcbf 0, %0" : : "r"(line) : "memory");
}

void arch_write_back(const void *start, size_t bytes)
{
	write_back_lines(start, bytes, dcbf);
}

void arch_write_back_fence(void)
{
	if (unlikely(emulated_fence != NULL)) {
		emulated_fence();
		return;
	}
	__asm__ volatile("sync" ::: "memory");
}

/* AT_HWCAP2 bits, from the kernel's asm/cputable.h. */
enum { HWCAP2_HTM = 0x40000000, HWCAP2_HTM_NO_SUSPEND = 0x00080000 };

struct arch_cpu arch_cpu_detect(void)
{
	struct arch_cpu cpu = {0};
	unsigned long hwcap2 = getauxval(AT_HWCAP2);
	cpu.power_htm = hwcap2 & HWCAP2_HTM;
	cpu.suspend = cpu.power_htm && !(hwcap2 & HWCAP2_HTM_NO_SUSPEND);
	return cpu;
}
