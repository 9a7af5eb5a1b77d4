/* SPDX-License-Identifier: BSD-3-Clause
 *
 * arch_emulated.c - the functions of src/base/arch.h on the emulated machine.  To sleep they call
 * the system, for which the machine stands in (system.cpp).
 */
#include "base/arch.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PS_PER_NS = 1000 };

uint64_t arch_now_ns(void)
{
	return emu_ticks() / PS_PER_NS;
}

double arch_ticks_per_ns(void)
{
	return PS_PER_NS;
}

uint64_t arch_ticks_to_ns(uint64_t ticks)
{
	return ticks / PS_PER_NS;
}

uint64_t arch_ns_to_ticks(uint64_t ns)
{
	return ns * PS_PER_NS;
}

/* The machine's futex has no timeouts.  Sleep briefly instead, as arch_backoff() does. */
static void nap(void)
{
	struct timespec time = {.tv_nsec = 5000};
	syscall(SYS_nanosleep, &time, NULL);
}

bool arch_futex_wait_for(uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
	(void)word, (void)expected, (void)timeout_ns;
	nap();
	return false;
}

void arch_futex_wait_shared(uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
	if (timeout_ns)
		nap();
	else
		syscall(SYS_futex, word, FUTEX_WAIT, expected, NULL, NULL, 0);
}

void arch_backoff(struct arch_backoff *b)
{
	enum { SPINS = 256 };
	if (++b->turns <= SPINS) {
		emu_pause();
	} else {
		/* The machine never deschedules a thread.  Sleep at once, and briefly, so that
		 * virtual time is not wasted. */
		struct timespec nap = {.tv_nsec = 5000};
		syscall(SYS_nanosleep, &nap, NULL);
	}
}

void arch_write_back(const void *start, size_t bytes)
{
	emu_write_back(start, bytes);
}

void arch_write_back_fence(void)
{
	emu_write_back_fence();
}

struct arch_cpu arch_cpu_detect(void)
{
	struct arch_cpu cpu = {0};
	const struct emu_machine *m = emu_current_machine();
	if (emu_thread() < 0)
		return cpu; /* native, as in recovery: no transactional memory */
	bool htm = emu_machine_has_htm(m);
	cpu.power_htm = cpu.suspend = htm && emu_machine_is_power(m);
	cpu.rtm = htm && !cpu.power_htm;
	cpu.tsxldtrk = cpu.rtm && emu_machine_suspends_loads(m);
	return cpu;
}

uint32_t arch_cores(void)
{
	/* Outside the machine, as in recovery, a program has one thread. */
	return emu_thread() < 0 ? 1 : emu_machine_threads(emu_current_machine());
}

uint32_t arch_all_cores(void)
{
	return arch_cores();
}

/* The machine pins its threads to its hardware threads in turn. */
uint32_t arch_core(void)
{
	return emu_thread() < 0 ? 0 : (uint32_t)emu_thread() % arch_cores();
}
