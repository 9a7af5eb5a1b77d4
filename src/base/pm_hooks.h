/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pm_hooks.h - tools/pm-emulate sees a program's write-backs by replacing libpmem's functions.
 * Where libfur executes the instructions itself, it looks for pm-emulate's own functions in the
 * process, once, before main(), and calls these instead.
 *
 * For the one file that implements arch_write_back().
 */
#ifndef FUR_PM_HOOKS_H
#define FUR_PM_HOOKS_H

#include "base/arch.h"

#include <dlfcn.h>

/* NULL, unless the program runs under pm-emulate. */
static void (*emulated_write_back)(const void *, size_t);
static void (*emulated_fence)(void);

__attribute__((constructor)) static void find_pm_emulate(void)
{
	*(void **)&emulated_write_back = dlsym(RTLD_DEFAULT, "pm_emulate_write_back");
	*(void **)&emulated_fence = dlsym(RTLD_DEFAULT, "pm_emulate_fence");
}

/* arch_write_back(), with `one` to write back the line of an address. */
static inline void write_back_lines(const void *start, size_t bytes, void (*one)(const void *line))
{
	if (unlikely(emulated_write_back != NULL)) {
		emulated_write_back(start, bytes);
		return;
	}
	uintptr_t line = (uintptr_t)start & ~(uintptr_t)(ARCH_FLUSH_LINE - 1);
	for (; line < (uintptr_t)start + bytes; line += ARCH_FLUSH_LINE)
		one((const void *)line);
}

#endif /* FUR_PM_HOOKS_H */
