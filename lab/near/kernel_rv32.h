/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kernel_rv32.h - kernel.h for the emulated elements: each call is one instruction of RISC-V's
 * opcode custom-0, which the interpreter (lab/near/emulated) executes.
 *
 * An instruction of the R4 format has the registers of a transfer: rs1 is the place in the
 * scratchpad, rs2 the address in memory, rs3 the size.  The "memory" clobbers keep the compiler
 * from moving loads and stores of the scratchpad across the calls; without them it could read a
 * preload's target before the wait.
 */
#ifndef FUR_NEAR_KERNEL_RV32_H
#define FUR_NEAR_KERNEL_RV32_H

#include "near/kernel_calls.h"

#define NEAR_INSN3(call, f2, rs1, rs2, rs3)                                                        \
	__asm__ volatile(".insn r4 0x0b, %0, %1, x0, %2, %3, %4"                                   \
	                 :                                                                         \
	                 : "i"(call), "i"(f2), "r"(rs1), "r"(rs2), "r"(rs3)                        \
	                 : "memory")
#define NEAR_INSN1(call, f2, rs1)                                                                  \
	__asm__ volatile(".insn r4 0x0b, %0, %1, x0, %2, x0, x0"                                   \
	                 :                                                                         \
	                 : "i"(call), "i"(f2), "r"(rs1)                                            \
	                 : "memory")
#define NEAR_INSN0(call, f2)                                                                       \
	__asm__ volatile(".insn r4 0x0b, %0, %1, x0, x0, x0, x0"                                   \
	                 :                                                                         \
	                 : "i"(call), "i"(f2)                                                      \
	                 : "memor"                                                                 \
	                   "y")

#define NEAR_PLACE(which)                                                                          \
	unsigned value;                                                                            \
	__asm__(".insn r4 0x0b, 0, %1, %0, x0, x0, x0" : "=r"(value) : "i"(which));                \
	return value

/* near_start is the entry; the loader sets sp and gp.  Only one kernel is in an image. */
#define NEAR_KERNEL(name, shared_type)                                                             \
	static void name##_body(shared_type *shared);                                              \
	shared_type near_shared __attribute__((aligned(8), section(".bss.near_shared")));          \
	void near_start(void);                                                                     \
	__attribute__((noreturn)) void near_start(void)                                            \
	{                                                                                          \
		name##_body(&near_shared);                                                         \
		NEAR_INSN0(NEAR_CALL_END, 0);                                                      \
		__builtin_unreachable();                                                           \
	}                                                                                          \
	static void name##_body(shared_type *shared)

static inline unsigned near_me(void)
{
	NEAR_PLACE(0);
}

static inline unsigned near_tasklets(void)
{
	NEAR_PLACE(1);
}

static inline unsigned near_element(void)
{
	NEAR_PLACE(2);
}

static inline unsigned near_elements(void)
{
	NEAR_PLACE(3);
}

static inline void near_local_read(void *to, uint32_t from, uint32_t bytes)
{
	NEAR_INSN3(NEAR_CALL_READ, 0, to, from, bytes);
}

static inline void near_local_write(uint32_t to, const void *from, uint32_t bytes)
{
	NEAR_INSN3(NEAR_CALL_WRITE, 0, from, to, bytes);
}

static inline void near_preload(void *to, uint32_t from, uint32_t bytes)
{
	NEAR_INSN3(NEAR_CALL_PRELOAD, 0, to, from, bytes);
}

static inline void near_unload(uint32_t to, const void *from, uint32_t bytes)
{
	NEAR_INSN3(NEAR_CALL_UNLOAD, 0, from, to, bytes);
}

static inline void near_wait(unsigned transfers)
{
	/* `transfers` is a constant: the conditions cost nothing. */
	if (transfers & 1)
		NEAR_INSN0(NEAR_CALL_WAIT, 1);
	if (transfers & 2)
		NEAR_INSN0(NEAR_CALL_WAIT, 2);
}

static inline void near_acquire(uint32_t bit)
{
	NEAR_INSN1(NEAR_CALL_SYNC, 0, bit);
}

static inline void near_release(uint32_t bit)
{
	NEAR_INSN1(NEAR_CALL_SYNC, 1, bit);
}

static inline void near_barrier(void)
{
	NEAR_INSN0(NEAR_CALL_SYNC, 2);
}

static inline __attribute__((noreturn)) void near_fault(uint32_t code)
{
	NEAR_INSN1(NEAR_CALL_END, 1, code);
	__builtin_unreachable();
}

#endif /* FUR_NEAR_KERNEL_RV32_H */
