/* SPDX-License-Identifier: BSD-3-Clause
 *
 * steps.cpp - print the registers before each instruction of a program, as the interpreter has
 * them: the pc, x1, ... x31.
 *
 *     near-steps ELF rv32i|rv32im
 *
 * Ends where the interpreter reports a fault, and prints which: ecall is one.
 */
#include "../emulated/interpreter.hpp"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

using namespace near_emu;

int main(int argc, char **argv)
try {
	if (argc != 3) {
		fprintf(stderr, "usage: near-steps ELF rv32i|rv32im\n");
		return 2;
	}
	std::ifstream in(argv[1], std::ios::binary);
	const std::string elf{std::istreambuf_iterator<char>(in), {}};
	const Program p = read_program(reinterpret_cast<const unsigned char *>(elf.data()),
	        elf.size(), std::string(argv[2]) == "rv32im");
	std::vector<uint8_t> bytes(65536);
	std::copy(p.data.begin(), p.data.end(), bytes.begin());
	const Scratch scratch{bytes.data(), nullptr, static_cast<uint32_t>(bytes.size())};
	Registers r;
	r.pc = p.entry;
	StepFault fault;
	Step what;
	do {
		printf("%08x", CODE_BASE + 4 * r.pc);
		for (int k = 1; k < 32; k++)
			printf(" %08x", r.x[k]);
		printf("\n");
		what = step(p.code.data(), p.instructions(), scratch, r, fault);
	} while (what < Step::CALL);
	printf("fault %d %08x\n", static_cast<int>(fault.kind), fault.address);
	return 0;
} catch (const std::exception &e) {
	fprintf(stderr, "near-steps: %s\n", e.what());
	return 1;
}
