/* SPDX-License-Identifier: BSD-3-Clause
 *
 * program.hpp - a kernel's code, decoded, and what its scratchpad begins with.
 */
#ifndef FUR_EMULATED_NEAR_PROGRAM_HPP
#define FUR_EMULATED_NEAR_PROGRAM_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace near_emu
{

/* lab/near/kernel.ld has the same. */
constexpr uint32_t CODE_BASE = 0x08000000, SCRATCH_BASE = 0x10000000, GLOBAL_POINTER = 0x10000800;

enum Op : uint8_t {
	OP_BAD,  /* also behind the last instruction */
	OP_CALL, /* of near/kernel_rv32.h: imm is funct3, funct2 << 8, rs3 << 16 */
	OP_LB,
	OP_LH,
	OP_LW,
	OP_LBU,
	OP_LHU,
	OP_SB,
	OP_SH,
	OP_SW,
	OP_LUI, /* from here on, instructions that use no memory: see is_local() */
	OP_AUIPC,
	OP_JAL,
	OP_JALR,
	OP_BEQ,
	OP_BNE,
	OP_BLT,
	OP_BGE,
	OP_BLTU,
	OP_BGEU,
	OP_ADDI,
	OP_SLTI,
	OP_SLTIU,
	OP_XORI,
	OP_ORI,
	OP_ANDI,
	OP_SLLI,
	OP_SRLI,
	OP_SRAI,
	OP_ADD,
	OP_SUB,
	OP_SLL,
	OP_SLT,
	OP_SLTU,
	OP_XOR,
	OP_SRL,
	OP_SRA,
	OP_OR,
	OP_AND,
	OP_MUL,
	OP_MULH,
	OP_MULHSU,
	OP_MULHU,
	OP_DIV,
	OP_DIVU,
	OP_REM,
	OP_REMU,
	OP_FENCE,
};

/* Does the instruction use nothing but its tasklet's registers? */
inline bool is_local(Op op)
{
	return op >= OP_LUI;
}

constexpr uint8_t NO_REGISTER = 32; /* where results go that x0 swallows */

struct Insn {
	Op op = OP_BAD;
	uint8_t rd = NO_REGISTER, rs1 = 0, rs2 = 0;
	int32_t imm = 0; /* of jumps: the index of the target */
};

struct Program {
	std::vector<Insn> code;    /* one OP_BAD more than instructions() */
	std::vector<uint8_t> data; /* of the scratchpad, from its beginning */
	uint32_t entry = 0;        /* index */

	uint32_t instructions() const
	{
		return static_cast<uint32_t>(code.size() - 1);
	}
};

/* Decode the instruction with index `at`; `n` is the number of instructions. */
Insn decode(uint32_t word, uint32_t at, uint32_t n, bool multiply);

/* Read an ELF executable.  Throws std::runtime_error. */
Program read_program(const unsigned char *elf, size_t bytes, bool multiply);

} // namespace near_emu

#endif /* FUR_EMULATED_NEAR_PROGRAM_HPP */
