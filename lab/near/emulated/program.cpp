/* SPDX-License-Identifier: BSD-3-Clause
 *
 * program.cpp - reads ELF executables of RV32 and decodes their instructions: "The RISC-V
 * Instruction Set Manual, Volume I", RV32I and the extension M.
 */
#include "program.hpp"

#include <cstring>
#include <elf.h>
#include <stdexcept>

namespace near_emu
{
namespace
{

int32_t sign_extended(uint32_t value, unsigned bits)
{
	return static_cast<int32_t>(value << (32 - bits)) >> (32 - bits);
}

int32_t imm_i(uint32_t w)
{
	return static_cast<int32_t>(w) >> 20;
}

int32_t imm_s(uint32_t w)
{
	return sign_extended(w >> 25 << 5 | (w >> 7 & 31), 12);
}

int32_t imm_b(uint32_t w)
{
	return sign_extended(
	        (w >> 31 & 1) << 12 | (w >> 7 & 1) << 11 | (w >> 25 & 63) << 5 | (w >> 8 & 15) << 1,
	        13);
}

int32_t imm_j(uint32_t w)
{
	return sign_extended((w >> 31 & 1) << 20 | (w >> 12 & 255) << 12 | (w >> 20 & 1) << 11 |
	                             (w >> 21 & 1023) << 1,
	        21);
}

/* The index that a jump leads to; n, where OP_BAD is, if it leads out of the code. */
int32_t target(uint32_t at, int32_t offset, uint32_t n)
{
	const uint32_t to = at * 4 + static_cast<uint32_t>(offset);
	return static_cast<int32_t>(to % 4 || to / 4 >= n ? n : to / 4);
}

Op op_of_register(uint32_t w, bool multiply)
{
	static const Op plain[] = {OP_ADD, OP_SLL, OP_SLT, OP_SLTU, OP_XOR, OP_SRL, OP_OR, OP_AND};
	static const Op m[] = {
	        OP_MUL, OP_MULH, OP_MULHSU, OP_MULHU, OP_DIV, OP_DIVU, OP_REM, OP_REMU};
	const uint32_t funct3 = w >> 12 & 7, funct7 = w >> 25;
	if (funct7 == 0)
		return plain[funct3];
	if (funct7 == 1 && multiply)
		return m[funct3];
	if (funct7 == 32 && funct3 == 0)
		return OP_SUB;
	if (funct7 == 32 && funct3 == 5)
		return OP_SRA;
	return OP_BAD;
}

Op op_of_immediate(uint32_t w)
{
	static const Op ops[] = {
	        OP_ADDI, OP_SLLI, OP_SLTI, OP_SLTIU, OP_XORI, OP_SRLI, OP_ORI, OP_ANDI};
	const uint32_t funct3 = w >> 12 & 7, funct7 = w >> 25;
	if (funct3 == 5 && funct7 == 32)
		return OP_SRAI;
	if ((funct3 == 1 || funct3 == 5) && funct7 != 0)
		return OP_BAD;
	return ops[funct3];
}

} // namespace

Insn decode(uint32_t w, uint32_t at, uint32_t n, bool multiply)
{
	static const Op branches[] = {
	        OP_BEQ, OP_BNE, OP_BAD, OP_BAD, OP_BLT, OP_BGE, OP_BLTU, OP_BGEU};
	static const Op loads[] = {OP_LB, OP_LH, OP_LW, OP_BAD, OP_LBU, OP_LHU, OP_BAD, OP_BAD};
	static const Op stores[] = {OP_SB, OP_SH, OP_SW, OP_BAD, OP_BAD, OP_BAD, OP_BAD, OP_BAD};
	const uint32_t funct3 = w >> 12 & 7, rd = w >> 7 & 31;
	Insn i;
	i.rd = static_cast<uint8_t>(rd ? rd : NO_REGISTER);
	i.rs1 = w >> 15 & 31, i.rs2 = w >> 20 & 31;
	switch (w & 127) {
	case 0x37: i.op = OP_LUI, i.imm = static_cast<int32_t>(w & 0xfffff000); break;
	case 0x17:
		i.op = OP_AUIPC;
		i.imm = static_cast<int32_t>(CODE_BASE + at * 4 + (w & 0xfffff000));
		break;
	case 0x6f: i.op = OP_JAL, i.imm = target(at, imm_j(w), n); break;
	case 0x67: i.op = funct3 ? OP_BAD : OP_JALR, i.imm = imm_i(w); break;
	case 0x63: i.op = branches[funct3], i.imm = target(at, imm_b(w), n); break;
	case 0x03: i.op = loads[funct3], i.imm = imm_i(w); break;
	case 0x23: i.op = stores[funct3], i.imm = imm_s(w); break;
	case 0x13:
		i.op = op_of_immediate(w);
		i.imm = funct3 == 1 || funct3 == 5 ? static_cast<int32_t>(i.rs2) : imm_i(w);
		break;
	case 0x33: i.op = op_of_register(w, multiply); break;
	case 0x0f:
		/* Its rd is reserved. */
		i.op = funct3 ? OP_BAD : OP_FENCE, i.rd = NO_REGISTER;
		break;
	case 0x0b:
		i.op = OP_CALL;
		i.imm = static_cast<int32_t>(funct3 | (w >> 25 & 3) << 8 | (w >> 27) << 16);
		break;
	default: break;
	}
	return i;
}

namespace
{

/* A structure of the file, checked to lie inside. */
template <class T>
T structure_at(const unsigned char *elf, size_t bytes, uint64_t offset)
{
	if (offset > bytes || sizeof(T) > bytes - offset)
		throw std::runtime_error("the image is cut off");
	T t;
	memcpy(&t, elf + offset, sizeof(t));
	return t;
}

void add_code(Program &p, const unsigned char *from, uint32_t bytes, bool multiply)
{
	const uint32_t n = bytes / 4;
	for (uint32_t k = 0; k < n; k++) {
		uint32_t word;
		memcpy(&word, from + k * 4, 4);
		p.code.push_back(decode(word, k, n, multiply));
	}
	p.code.emplace_back();
}

} // namespace

Program read_program(const unsigned char *elf, size_t bytes, bool multiply)
{
	const auto head = structure_at<Elf32_Ehdr>(elf, bytes, 0);
	if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_machine != EM_RISCV ||
	        head.e_ident[EI_CLASS] != ELFCLASS32)
		throw std::runtime_error("the image is no ELF executable of RV32");
	Program p;
	for (unsigned k = 0; k < head.e_phnum; k++) {
		const auto part = structure_at<Elf32_Phdr>(
		        elf, bytes, head.e_phoff + uint64_t{k} * sizeof(Elf32_Phdr));
		if (part.p_type != PT_LOAD || part.p_memsz == 0)
			continue;
		if (part.p_offset > bytes || part.p_filesz > bytes - part.p_offset)
			throw std::runtime_error("the image is cut off");
		if (part.p_vaddr == CODE_BASE && p.code.empty()) {
			add_code(p, elf + part.p_offset, part.p_filesz, multiply);
			continue;
		}
		const uint32_t at = part.p_vaddr - SCRATCH_BASE;
		if (part.p_vaddr < SCRATCH_BASE || at > 1u << 28 || part.p_memsz > 1u << 28)
			throw std::runtime_error("the image has data outside the scratchpad");
		if (p.data.size() < at + part.p_memsz)
			p.data.resize(at + part.p_memsz);
		memcpy(&p.data[at], elf + part.p_offset, part.p_filesz);
	}
	p.entry = (head.e_entry - CODE_BASE) / 4;
	if (p.code.empty() || p.entry >= p.instructions())
		throw std::runtime_error("the image has no code where it begins");
	return p;
}

} // namespace near_emu
