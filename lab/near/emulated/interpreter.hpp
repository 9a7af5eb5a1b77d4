/* SPDX-License-Identifier: BSD-3-Clause
 *
 * interpreter.hpp - execute one instruction of a tasklet.
 *
 *   INV-NI1  A load or a store of a tasklet touches its element's scratchpad only, at an address
 *            that its size divides: everything else is a fault, and changes nothing.
 */
#ifndef FUR_EMULATED_NEAR_INTERPRETER_HPP
#define FUR_EMULATED_NEAR_INTERPRETER_HPP

#include "near/near.h"
#include "program.hpp"

#include <cstring>

namespace near_emu
{

struct Registers {
	uint32_t x[33] = {}; /* x[NO_REGISTER] takes what x0 swallows */
	uint32_t pc = 0;     /* index */
};

/* What transfers use of a scratchpad: a byte of flags for each of its bytes. */
enum : uint8_t { FILLING = 1, LEAVING = 2 };

struct Scratch {
	uint8_t *bytes = nullptr;
	uint8_t *use = nullptr; /* NULL: transfers are never under way */
	uint32_t size = 0;
};

enum class Step : uint8_t { NEXT, LOAD, JUMP, MULTIPLY, DIVIDE, CALL, FAULT };

struct StepFault {
	near_fault_kind kind = NEAR_FAULT_NONE;
	uint32_t address = 0;
};

template <class T>
bool is_wrong(const Scratch &s, uint32_t at, uint8_t flags, StepFault &fault)
{
	if (at > s.size - sizeof(T) || at % sizeof(T)) { /* INV-NI1 */
		fault = {NEAR_FAULT_SCRATCH, at + SCRATCH_BASE};
		return true;
	}
	if (!s.use)
		return false;
	T used, mask;
	memset(&mask, flags, sizeof(mask));
	memcpy(&used, s.use + at, sizeof(used));
	if (!(used & mask))
		return false;
	fault = {
	        flags == FILLING ? NEAR_FAULT_CONSUMED : NEAR_FAULT_OVERWRITTEN, at + SCRATCH_BASE};
	return true;
}

template <class T, class As>
Step load(const Scratch &s, Registers &r, const Insn &i, StepFault &fault)
{
	const uint32_t at = r.x[i.rs1] + static_cast<uint32_t>(i.imm) - SCRATCH_BASE;
	if (is_wrong<T>(s, at, FILLING, fault)) [[unlikely]]
		return Step::FAULT;
	T value;
	memcpy(&value, s.bytes + at, sizeof(value));
	r.x[i.rd] = static_cast<uint32_t>(static_cast<As>(value));
	r.pc++;
	return Step::LOAD;
}

template <class T>
Step store(const Scratch &s, Registers &r, const Insn &i, StepFault &fault)
{
	const uint32_t at = r.x[i.rs1] + static_cast<uint32_t>(i.imm) - SCRATCH_BASE;
	if (is_wrong<T>(s, at, FILLING | LEAVING, fault)) [[unlikely]]
		return Step::FAULT;
	const T value = static_cast<T>(r.x[i.rs2]);
	memcpy(s.bytes + at, &value, sizeof(value));
	r.pc++;
	return Step::NEXT;
}

inline Step branch(Registers &r, const Insn &i, bool taken)
{
	r.pc = taken ? static_cast<uint32_t>(i.imm) : r.pc + 1;
	return taken ? Step::JUMP : Step::NEXT;
}

inline Step jump_to_register(Registers &r, const Insn &i, uint32_t n, StepFault &fault)
{
	const uint32_t to = (r.x[i.rs1] + static_cast<uint32_t>(i.imm)) & ~1u;
	const uint32_t offset = to - CODE_BASE;
	if (offset % 4 || offset / 4 >= n) {
		fault = {NEAR_FAULT_INSTRUCTION, to};
		return Step::FAULT;
	}
	r.x[i.rd] = CODE_BASE + 4 * (r.pc + 1);
	r.pc = offset / 4;
	return Step::JUMP;
}

/* x / 0 is -1, x % 0 is x, and the one overflow is its own result: no instruction traps. */
inline uint32_t divide(Op op, uint32_t a, uint32_t b)
{
	const int32_t sa = static_cast<int32_t>(a), sb = static_cast<int32_t>(b);
	const bool overflow = a == 0x80000000 && sb == -1;
	switch (op) {
	case OP_DIV: return b == 0 ? ~0u : overflow ? a : static_cast<uint32_t>(sa / sb);
	case OP_DIVU: return b == 0 ? ~0u : a / b;
	case OP_REM: return b == 0 ? a : overflow ? 0 : static_cast<uint32_t>(sa % sb);
	default: return b == 0 ? a : a % b;
	}
}

inline uint32_t multiply(Op op, uint32_t a, uint32_t b)
{
	const int64_t sa = static_cast<int32_t>(a), sb = static_cast<int32_t>(b);
	switch (op) {
	case OP_MULH: return static_cast<uint32_t>(sa * sb >> 32);
	case OP_MULHSU: return static_cast<uint32_t>(sa * static_cast<int64_t>(b) >> 32);
	default: return static_cast<uint32_t>(uint64_t{a} * b >> 32); /* OP_MULHU */
	}
}

/* The instructions that only compute: X(op, value). */
#define NEAR_COMPUTING(X)                                                                          \
	X(OP_LUI, imm)                                                                             \
	X(OP_AUIPC, imm)                                                                           \
	X(OP_ADDI, a + imm)                                                                        \
	X(OP_SLTI, sa < i.imm)                                                                     \
	X(OP_SLTIU, a < imm)                                                                       \
	X(OP_XORI, a ^ imm)                                                                        \
	X(OP_ORI, a | imm)                                                                         \
	X(OP_ANDI, a &imm)                                                                         \
	X(OP_SLLI, a << imm)                                                                       \
	X(OP_SRLI, a >> imm)                                                                       \
	X(OP_SRAI, static_cast<uint32_t>(sa >> imm))                                               \
	X(OP_ADD, a + b)                                                                           \
	X(OP_SUB, a - b)                                                                           \
	X(OP_SLL, a << (b & 31))                                                                   \
	X(OP_SLT, sa < sb)                                                                         \
	X(OP_SLTU, a < b)                                                                          \
	X(OP_XOR, a ^ b)                                                                           \
	X(OP_SRL, a >> (b & 31))                                                                   \
	X(OP_SRA, static_cast<uint32_t>(sa >> (b & 31)))                                           \
	X(OP_OR, a | b)                                                                            \
	X(OP_AND, a &b)

/* Those that do something else: X(op, the step it was). */
#define NEAR_OTHERS(X)                                                                             \
	X(OP_JAL, jump(r, i))                                                                      \
	X(OP_JALR, jump_to_register(r, i, instructions, fault))                                    \
	X(OP_BEQ, branch(r, i, a == b))                                                            \
	X(OP_BNE, branch(r, i, a != b))                                                            \
	X(OP_BLT, branch(r, i, sa < sb))                                                           \
	X(OP_BGE, branch(r, i, sa >= sb))                                                          \
	X(OP_BLTU, branch(r, i, a < b))                                                            \
	X(OP_BGEU, branch(r, i, a >= b))                                                           \
	X(OP_LB, (load<uint8_t, int8_t>(s, r, i, fault)))                                          \
	X(OP_LH, (load<uint16_t, int16_t>(s, r, i, fault)))                                        \
	X(OP_LW, (load<uint32_t, uint32_t>(s, r, i, fault)))                                       \
	X(OP_LBU, (load<uint8_t, uint8_t>(s, r, i, fault)))                                        \
	X(OP_LHU, (load<uint16_t, uint16_t>(s, r, i, fault)))                                      \
	X(OP_SB, store<uint8_t>(s, r, i, fault))                                                   \
	X(OP_SH, store<uint16_t>(s, r, i, fault))                                                  \
	X(OP_SW, store<uint32_t>(s, r, i, fault))                                                  \
	X(OP_MUL, product(r, i, a *b))                                                             \
	X(OP_MULH, product(r, i, multiply(i.op, a, b)))                                            \
	X(OP_MULHSU, product(r, i, multiply(i.op, a, b)))                                          \
	X(OP_MULHU, product(r, i, multiply(i.op, a, b)))                                           \
	X(OP_DIV, quotient(r, i, divide(i.op, a, b)))                                              \
	X(OP_DIVU, quotient(r, i, divide(i.op, a, b)))                                             \
	X(OP_REM, quotient(r, i, divide(i.op, a, b)))                                              \
	X(OP_REMU, quotient(r, i, divide(i.op, a, b)))                                             \
	X(OP_FENCE, product(r, i, 0))                                                              \
	X(OP_CALL, Step::CALL)

inline Step jump(Registers &r, const Insn &i)
{
	r.x[i.rd] = CODE_BASE + 4 * (r.pc + 1);
	r.pc = static_cast<uint32_t>(i.imm);
	return Step::JUMP;
}

inline Step product(Registers &r, const Insn &i, uint32_t value)
{
	r.x[i.rd] = value;
	r.pc++;
	return Step::MULTIPLY;
}

inline Step quotient(Registers &r, const Insn &i, uint32_t value)
{
	r.x[i.rd] = value;
	r.pc++;
	return Step::DIVIDE;
}

/* Execute the instruction at r.pc.  Step::CALL: the caller does it, and moves the pc.  After
 * Step::FAULT the pc is still that of the instruction. */
[[gnu::always_inline]] inline Step step(
        const Insn *code, uint32_t instructions, const Scratch &s, Registers &r, StepFault &fault)
{
	const Insn i = code[r.pc];
	const uint32_t a = r.x[i.rs1], b = r.x[i.rs2], imm = static_cast<uint32_t>(i.imm);
	const int32_t sa = static_cast<int32_t>(a), sb = static_cast<int32_t>(b);
	uint32_t value;
#define NEAR_COMPUTE(op, result)                                                                   \
	case op:                                                                                   \
		value = result;                                                                    \
		break;
#define NEAR_DO(op, result)                                                                        \
	case op: return result;
	switch (i.op) {
		NEAR_COMPUTING(NEAR_COMPUTE)
		NEAR_OTHERS(NEAR_DO)
	default: fault = {NEAR_FAULT_INSTRUCTION, CODE_BASE + 4 * r.pc}; return Step::FAULT;
	}
#undef NEAR_COMPUTE
#undef NEAR_DO
	r.x[i.rd] = value;
	r.pc++;
	return Step::NEXT;
}

} // namespace near_emu

#endif /* FUR_EMULATED_NEAR_INTERPRETER_HPP */
