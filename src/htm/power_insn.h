/* SPDX-License-Identifier: BSD-3-Clause
 *
 * power_insn.h - the transactional instructions of POWER8 and POWER9, and their status.  Included
 * by one file of a program: power.c, or what stands in its place.  Source: Power ISA 3.0B, Book II,
 * chapter 5; TEXASR: 5.3.2.
 */
#ifndef FUR_POWER_INSN_H
#define FUR_POWER_INSN_H

#include "htm/htm.h"

#define TEXASR_BIT(n)    (UINT64_C(1) << (63 - (n)))
#define TEXASR_FOOTPRINT TEXASR_BIT(10)
#define TEXASR_PLAIN     TEXASR_BIT(12) /* "non-transactional conflict" */
#define TEXASR_CONFLICTS (TEXASR_BIT(11) | TEXASR_BIT(13) | TEXASR_BIT(14))
#define TEXASR_ABORT     TEXASR_BIT(31)

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

/* The machine puts the stack back by itself: the window may run on it. */
static inline void power_window(void (*run)(struct fur_thread *), struct fur_thread *t, void *stack)
{
	(void)stack;
	emu_tsuspend();
	run(t);
	emu_tresume();
}
#else
/* power_window(run, t, stack): suspend, run(t) on that stack, resume.  ELFv2: r3.. arguments, r31
 * kept over the call, r2 the TOC.  r1 is the window's stack before tsuspend. and until after
 * tresume.: Linux writes the frame of a signal below the current r1 of a thread that is suspended,
 * and must not write it to this stack (window_stack.c).  Nothing is stored while r1 and the state
 * do not go together. */
void power_window(void (*run)(struct fur_thread *), struct fur_thread *t, void *stack);
__asm__(".text\n"
        ".globl power_window\n"
        ".hidden power_window\n"
        ".type power_window, @function\n"
        ".p2align 4\n"
        "power_window:\n"
        "	mflr 0\n"
        "	std 0, 16(1)\n"
        "	std 31, -8(1)\n" /* the protected zone below r1, ours until we return */
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

/* True: inside the transaction.  False, at any later time: it aborted, registers and memory as they
 * were. */
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

/* ------------------------------------------------- causes of aborts as status */

/* The low byte of tabort.'s register becomes TEXASR bits 0:7; its last bit says "persistent", so
 * the cause goes above it. */
static inline void power_abort_with(enum fur_abort_cause cause)
{
	power_tabort((uint64_t)(1 + cause) << 1);
	/* Outside a transaction tabort. does nothing; inside it does not come here. */
	__builtin_trap();
}

/* The status when begin() found the lock held and made no attempt: as if aborted for it. */
#define POWER_STATUS(cause) ((uint64_t)(1 + (cause)) << 57 | TEXASR_ABORT)

static inline enum fur_abort_cause power_classify(uint64_t status)
{
	uint64_t code = status >> 57;
	if (status & TEXASR_ABORT)
		return code >= 1 && code <= FUR_ABORT_CAUSES ? (enum fur_abort_cause)(code - 1)
		                                             : FUR_ABORT_FAULT;
	if (status & TEXASR_FOOTPRINT)
		return FUR_ABORT_CAPACITY;
	if (status & TEXASR_PLAIN)
		return FUR_ABORT_PLAIN;
	if (status & TEXASR_CONFLICTS)
		return FUR_ABORT_CONFLICT;
	/* The kernel's codes: reschedule, signal, page fault; and whatever is persistent */
	return FUR_ABORT_FAULT;
}

#endif /* FUR_POWER_INSN_H */
