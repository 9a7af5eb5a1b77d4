/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fault.c - where in the program a signal was raised.
 */
#include "base/fault.h"

#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#if defined(__GLIBC__)
#include <execinfo.h>
#endif

uintptr_t fault_code(const void *context)
{
	const ucontext_t *c = context;
#if defined(__x86_64__)
	return (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
#elif defined(__powerpc64__)
	enum { NIP = 32 }; /* PT_NIP of <asm/ptrace.h> */
	return (uintptr_t)c->uc_mcontext.gp_regs[NIP];
#else
	return (uintptr_t)c->uc_mcontext.pc;
#endif
}

unsigned fault_callers(uintptr_t code, uintptr_t *callers, unsigned most)
{
	unsigned found = 0;
	/* On POWER the unwinder may read a wild address behind a signal's frame, and so end the
	 * process before abort() does (seen under QEMU). */
#if defined(__GLIBC__) && !defined(__powerpc64__)
	enum { FRAMES = 32 };
	void *frames[FRAMES];
	int n = backtrace(frames, FRAMES), k = 0;
	/* The first frames are the handler's. */
	while (k < n && (uintptr_t)frames[k] != code)
		k++;
	for (k++; k < n && found < most; k++)
		callers[found++] = (uintptr_t)frames[k] - 1; /* where it returns: after it */
#else
	(void)code, (void)callers, (void)most;
#endif
	return found;
}

/* A program that is linked at fixed addresses: addr2line takes those. */
static int is_fixed(const void *image)
{
	const ElfW(Ehdr) *elf = image;
	return elf->e_type == ET_EXEC;
}

void fault_append(char *text, size_t bytes, const char *format, ...)
{
	const size_t used = strlen(text);
	va_list args;
	va_start(args, format);
	vsnprintf(text + used, bytes - used, format, args);
	va_end(args);
}

void fault_describe(uintptr_t code, char *text, size_t bytes)
{
	Dl_info of;
	if (!dladdr((const void *)code, &of) || !of.dli_fname || !of.dli_fbase) {
		fault_append(text, bytes, "%#lx", (unsigned long)code);
		return;
	}
	const uintptr_t from = is_fixed(of.dli_fbase) ? 0 : (uintptr_t)of.dli_fbase;
	fault_append(text, bytes, "%s+%#lx", of.dli_fname, (unsigned long)(code - from));
	if (of.dli_sname)
		fault_append(text, bytes, " (%s+%#lx)", of.dli_sname,
		        (unsigned long)(code - (uintptr_t)of.dli_saddr));
}
