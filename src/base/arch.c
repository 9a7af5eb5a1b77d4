/* SPDX-License-Identifier: BSD-3-Clause
 *
 * arch.c - the parts of arch.h that are calls: clock calibration, sleeping, processor detection.
 */
#include "base/arch.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t arch_now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static double ticks_per_ns;
static pthread_once_t ticks_once = PTHREAD_ONCE_INIT;

static void ticks_measure(void)
{
	/* 5 ms bounds the error of two clock readings (some 50 ns each) to about 20 parts in a
	 * million. */
	uint64_t ns0 = arch_now_ns(), ticks0 = arch_ticks(), ns1;
	do
		ns1 = arch_now_ns();
	while (ns1 - ns0 < 5000000);
	ticks_per_ns = (double)(arch_ticks() - ticks0) / (double)(ns1 - ns0);
}

double arch_ticks_per_ns(void)
{
	pthread_once(&ticks_once, ticks_measure);
	return ticks_per_ns;
}

uint64_t arch_ticks_to_ns(uint64_t ticks)
{
	return (uint64_t)((double)ticks / arch_ticks_per_ns());
}

uint64_t arch_ns_to_ticks(uint64_t ns)
{
	return (uint64_t)((double)ns * arch_ticks_per_ns());
}

void arch_futex_wait(uint32_t *word, uint32_t expected)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

void arch_futex_wake_one(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void arch_futex_wake_all(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void arch_futex_wait_shared(uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
	struct timespec timeout = {
	        (time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
	syscall(SYS_futex, word, FUTEX_WAIT, expected, timeout_ns ? &timeout : NULL, NULL, 0);
}

void arch_futex_wake_all_shared(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void arch_backoff(struct arch_backoff *b)
{
	enum { SPINS = 256, YIELDS = 64 };
	b->turns++;
	if (b->turns <= SPINS) {
		arch_pause();
	} else if (b->turns <= SPINS + YIELDS) {
		sched_yield();
	} else {
		/* Whoever is waited for is descheduled or slow: 50 us is short beside a time slice
		 * and long beside a wait. */
		struct timespec nap = {.tv_nsec = 50000};
		/* Not nanosleep(): that is a cancellation point, and a thread cancelled here would
		 * leave others waiting for it. */
		syscall(SYS_nanosleep, &nap, NULL);
	}
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <libpmem.h>

/* Calls of libpmem's, and tools/pm-emulate counts on that: it stands in for them. */
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
		 * useless alone, may stay listed.  There xbegin aborts at once, with status 0, and
		 * does not trap. */
		cpu.tsx_off = !cpu.rtm && (cpu.tsxldtrk || (d >> 11 & 1));
	}
	return cpu;
}
#else
#include <dlfcn.h>
#include <sys/auxv.h>

/* tools/pm-emulate stands in for libpmem's calls.  These are none of them, so its own are looked
 * for, once, before main(). */
static void (*emulated_write_back)(const void *, size_t);
static void (*emulated_fence)(void);

__attribute__((constructor)) static void find_emulation(void)
{
	*(void **)&emulated_write_back = dlsym(RTLD_DEFAULT, "pm_emulate_write_back");
	*(void **)&emulated_fence = dlsym(RTLD_DEFAULT, "pm_emulate_fence");
}

/* libfur's own, not libpmem's: dcbf and hwsync are right on every POWER.  dcbst with lwsync is not:
 * it leaves the line out of the fence. */
void arch_write_back(const void *start, size_t bytes)
{
	if (__builtin_expect(emulated_write_back != NULL, 0)) {
		emulated_write_back(start, bytes);
		return;
	}
	uintptr_t line = (uintptr_t)start & ~(uintptr_t)(ARCH_FLUSH_LINE - 1);
	for (; line < (uintptr_t)start + bytes; line += ARCH_FLUSH_LINE)
		__asm__ volatile("dcbf 0, %0" : : "r"(line) : "memory");
}

void arch_write_back_fence(void)
{
	if (__builtin_expect(emulated_fence != NULL, 0)) {
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
#endif
