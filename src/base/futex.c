/* SPDX-License-Identifier: BSD-3-Clause
 *
 * futex.c - the futex calls of arch.h that are the same on every machine.  A wait with a timeout
 * is not: each machine has its own.
 */
#include "base/arch.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

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

void arch_futex_wake_all_shared(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}
