/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tsx_insn.h - the TSX instructions, as bytes, so that one binary carries them and decides at run
 * time.  With FUR_TSX_TRAPS an undefined instruction (ud2) stands before each of them: the
 * processor raises SIGILL there, even if it supports the instruction that follows, and a handler
 * reads the bytes after ud2 and emulates that instruction (tests/softtsx).  Everything else
 * compiles as in the library.  Source: Intel SDM volume 1, chapter 16 "Programming with Intel TSX";
 * volume 2 for the encodings.
 */
#ifndef FUR_TSX_INSN_H
#define FUR_TSX_INSN_H

#if defined(FUR_EMULATED) || defined(__x86_64__)
#include <stdint.h>

#define TSX_STARTED (~0u)
enum {
	TSX_EXPLICIT = 1 << 0,
	TSX_RETRY = 1 << 1,
	TSX_CONFLICT = 1 << 2,
	TSX_CAPACITY = 1 << 3,
	TSX_NESTED = 1 << 5
};

#if defined(FUR_EMULATED)
#include "emulated.h"

static inline __attribute__((always_inline)) unsigned tsx_begin(void)
{
	uint64_t status = emu_tbegin(EMU_TX);
	switch (status & 0xff) {
	case EMU_STARTED: return TSX_STARTED;
	case 1 + EMU_EXPLICIT: return TSX_EXPLICIT | (unsigned)(status >> 8) << 24;
	case 1 + EMU_CONFLICT:
	case 1 + EMU_CONFLICT_PLAIN: return TSX_CONFLICT | TSX_RETRY;
	case 1 + EMU_CAPACITY_READ:
	case 1 + EMU_CAPACITY_WRITE: return TSX_CAPACITY;
	case 1 + EMU_NESTED: return TSX_NESTED;
	default: return 0;
	}
}

static inline void tsx_end(void)
{
	emu_tend();
}

static inline void tsx_abort(unsigned code)
{
	emu_tabort((uint8_t)code);
}

static inline void tsx_suspend_loads(void)
{
	emu_suspend_loads();
}

static inline void tsx_resume_loads(void)
{
	emu_resume_loads();
}
#else
#if defined(FUR_TSX_TRAPS)
#define TSX_TRAP ".byte 0x0f, 0x0b\n\t" /* ud2 */
#else
#define TSX_TRAP ""
#endif

/* Returns TSX_STARTED.  If the transaction aborts, returns a second time, with the abort's status;
 * all registers except eax, and all memory, are as they were.  The calling function may have
 * returned meanwhile, because an abort restores the stack too. */
static inline __attribute__((always_inline)) unsigned tsx_begin(void)
{
	unsigned status = TSX_STARTED;
	__asm__ volatile(TSX_TRAP ".byte 0xc7, 0xf8\n\t.long 0" /* xbegin to the next instruction */
	                 : "+a"(status)::"memory");
	return status;
}

static inline __attribute__((always_inline)) void tsx_end(void)
{
	__asm__ volatile(TSX_TRAP ".byte 0x0f, 0x01, 0xd5" /* xend */ ::: "memory");
}

/* xabort takes an immediate. */
#define tsx_abort(code)                                                                            \
	__asm__ volatile(TSX_TRAP ".byte 0xc6, 0xf8, %c0" /* xabort */ ::"i"(code) : "memory")

/* Suspends load tracking only: stores stay transactional.  A nested suspend aborts, and so does
 * xend while suspended. */
static inline __attribute__((always_inline)) void tsx_suspend_loads(void)
{
	__asm__ volatile(TSX_TRAP ".byte 0xf2, 0x0f, 0x01, 0xe8" /* xsusldtrk */ ::: "memory");
}

static inline __attribute__((always_inline)) void tsx_resume_loads(void)
{
	__asm__ volatile(TSX_TRAP ".byte 0xf2, 0x0f, 0x01, 0xe9" /* xresldtrk */ ::: "memory");
}
#endif
#endif

#endif /* FUR_TSX_INSN_H */
