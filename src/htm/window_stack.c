/* SPDX-License-Identifier: BSD-3-Clause
 *
 * window_stack.c - the stack on which POWER's window runs (power.c, INV-W1, INV-W3), and on which a
 * signal may interrupt it.
 *
 * Linux rolls a transaction back (treclaim) before it delivers a signal.  Then it writes the
 * handler's frame below a stack pointer: the one of tbegin. if the thread was in transactional
 * state, the current one if it was suspended (Documentation/arch/powerpc/transactional_memory.rst,
 * "Signals").  So if a signal interrupts the window, and its handler was not installed with
 * SA_ONSTACK, the handler runs on the window's stack.  This is safe:
 *  - No frame to which an abort returns lies on that stack.  power_window() keeps r1 on the
 *    window's stack whenever the thread is suspended.  Otherwise the kernel would write the
 *    handler's frame below the r1 of power_commit(), over the frame of power_begin(), to which the
 *    abort returns.
 *  - When the handler returns, the window continues inside a doomed transaction (INV-W2), which
 *    tresume. ends.
 *  - The stack has room.  A handler's frame holds two contexts, about 5 KiB; systems recommend 8 to
 *    32 KiB for a handler's stack (SIGSTKSZ).  The window itself needs a few.
 *  - A handler that needs more than the rest meets the guard page, and the process ends with
 *    SIGSEGV.  Without a guard it would overwrite the memory below.
 */
#include "htm/htm.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	STACK_BYTES = 262144,
	/* We touch the window's part in advance, because a page fault there would abort the
	 * transaction.  A handler may fault: the kernel has already rolled the transaction back. */
	TOUCHED_BYTES = 16384,
	/* ELFv2: r1 is a multiple of 16, and a callee stores to the frame header above it. */
	HEADER_BYTES = 256
};

static size_t guard_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

void *window_stack_new(void)
{
	size_t guard = guard_bytes();
	uint8_t *low =
	        mmap(NULL, guard + STACK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (low == MAP_FAILED)
		return NULL;
	if (mprotect(low + guard, STACK_BYTES, PROT_READ | PROT_WRITE)) {
		munmap(low, guard + STACK_BYTES);
		return NULL;
	}
	uint8_t *end = low + guard + STACK_BYTES;
	memset(end - TOUCHED_BYTES, 0, TOUCHED_BYTES);
	return end - HEADER_BYTES;
}

void window_stack_delete(void *stack)
{
	size_t guard = guard_bytes();
	if (stack)
		munmap((uint8_t *)stack + HEADER_BYTES - STACK_BYTES - guard, guard + STACK_BYTES);
}
