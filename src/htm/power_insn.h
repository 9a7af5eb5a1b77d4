/* SPDX-License-Identifier: BSD-3-Clause
 *
 * power_insn.h - the transactional instructions of POWER8 and POWER9.  One file of a program
 * includes it: power.c, or the file that stands in its place.  Source: Power ISA 3.0B, Book II,
 * chapter 5.
 */
#ifndef FUR_POWER_INSN_H
#define FUR_POWER_INSN_H

#include <stdint.h>

#if defined(FUR_EMULATED)
#include "emulated.h"

static inline bool power_tbegin(int rollback_only)
{
	return emu_tbegin(rollback_only ? EMU_ROLLBACK_ONLY : EMU_TX) == EMU_STARTED;
}

static inline uint64_t texasr(void)
{
	return emu_texasr();
}

static inline void power_tabort(uint64_t code)
{
	emu_tabort((uint8_t)code);
}

static inline void power_tend(void)
{
	emu_tend();
}

/* The emulated machine restores the stack at an abort, so the window may run on it. */
static inline void power_window(void (*run)(void *), void *arg, void *stack)
{
	(void)stack;
	emu_tsuspend();
	run(arg);
	emu_tresume();
}
#else
/* power_window(run, arg, stack): suspend, run(arg) on that stack, resume.  ELFv2: r3.. arguments,
 * the callee keeps r31, r2 is the TOC. r1 is the window's stack before tsuspend. and until after
 * tresume.: if a thread is suspended, Linux writes a signal's frame below the thread's current r1,
 * and must not write it to the caller's stack (window_stack.c).  The code stores nothing between
 * the switch of r1 and the switch of the state. */
void power_window(void (*run)(void *), void *arg, void *stack);
__asm__(".text\n"
        ".globl power_window\n"
        ".hidden power_window\n"
        ".type power_window, @function\n"
        ".p2align 4\n"
        "power_window:\n"
        "	mflr 0\n"
        "	std 0, 16(1)\n"
        "	std 31, -8(1)\n" /* the protected zone below r1: ours until we return */
        "	std 2, 24(1)\n"
        "	mr 31, 1\n"
        "	mr 12, 3\n"
        "	mtctr 12\n"
        "	mr 3, 4\n"
        "	mr 1, 5\n"
        "	tsuspend.\n"
        "	bctrl\n"
        "	tresume.\n"
        "	mr 1, 31\n"
        "	ld 2, 24(1)\n"
        "	ld 31, -8(1)\n"
        "	ld 0, 16(1)\n"
        "	mtlr 0\n"
        "	blr\n"
        ".size power_window, .-power_window\n");

/* True: inside the transaction.  False, at any later time: it aborted, and registers and memory are
 * as they were. */
#define power_tbegin(rollback_only)                                                                \
	__extension__({                                                                            \
		uint64_t started_;                                                                 \
		__asm__ volatile("tbegin. %1\n\t"                                                  \
		                 "beq- 1f\n\t"                                                     \
		                 "li %0, 1\n\t"                                                    \
		                 "b 2f\n"                                                          \
		                 "1:\tli %0, 0\n"                                                  \
		                 "2:"                                                              \
		                 : "=r"(started_)                                                  \
		                 : "i"(rollback_only)                                              \
		                 : "cr0", "memory");                                               \
		started_;                                                                          \
	})

static inline uint64_t texasr(void)
{
	uint64_t value;
	/* Not __TM_is_*: GCC 12's helpers read the wrong half on little-endian */
	__asm__ volatile("mfspr %0, 130" : "=r"(value));
	return value;
}

static inline void power_tabort(uint64_t code)
{
	__asm__ volatile("tabort. %0" ::"r"(code) : "cr0", "memory");
}

static inline void power_tend(void)
{
	__asm__ volatile("tend." ::: "cr0", "memory");
}
#endif

#endif /* FUR_POWER_INSN_H */
