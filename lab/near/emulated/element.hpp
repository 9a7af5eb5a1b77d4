/* SPDX-License-Identifier: BSD-3-Clause
 *
 * element.hpp - elements and their tasklets, and the two ways to run a rank of them.
 *
 *   INV-NE1  Nothing outside an element, or a coherent rank, changes how it runs: not the number of
 *            threads of this process, not their order, not the time of day.
 */
#ifndef FUR_EMULATED_NEAR_ELEMENT_HPP
#define FUR_EMULATED_NEAR_ELEMENT_HPP

#include "description.hpp"
#include "interpreter.hpp"

#include <deque>

namespace near_emu
{

/* A transfer that was begun, in its engine's queue. */
struct Transfer {
	uint32_t scratch = 0, memory = 0, bytes = 0; /* scratch: from the beginning */
	bool issued = false;
	Time done = 0; /* until it is issued, when it was asked for */
};

struct Tasklet {
	Registers r;
	unsigned me = 0;
	uint64_t ready = 0; /* cycle, or picosecond, from which it can go on */
	bool returned = false, waits = false;
};

struct Element {
	unsigned number = 0;
	uint8_t *memory = nullptr;
	Scratch scratch;
	std::vector<uint8_t> scratch_bytes, use;
	std::vector<Tasklet> tasklets;
	near_fault_report fault = {};
	uint64_t instructions = 0, transfers = 0, transferred = 0, cycles = 0;
};

struct Run {
	const Description *d = nullptr;
	const Program *program = nullptr;
	unsigned elements = 1;
	uint64_t memory_bytes = 0;
	uint64_t most_instructions = 0; /* of an element, or of a coherent rank's element */
};

/* The registers of a call (near/kernel_calls.h). */
struct Call {
	explicit Call(const Insn &i, const Registers &r)
	    : which(i.imm & 7), detail(i.imm >> 8 & 3), rd(i.rd), scratch(r.x[i.rs1]),
	      memory(r.x[i.rs2]), bytes(r.x[i.imm >> 16 & 31])
	{
	}
	int which, detail;
	uint8_t rd;
	uint32_t scratch, memory, bytes; /* scratch: also the bit, or the code */
};

/* Report a fault of the tasklet, if the element has none yet. */
void report(Element &e, const Tasklet &t, near_fault_kind kind, uint32_t address);

/* Is the transfer one that the machine can do?  Else report it.  Makes call.scratch
 * an offset. */
bool check_transfer(const Run &run, Element &e, const Tasklet &t, Call &call);

/* near_me() and the like. */
void store_place(const Run &run, const Element &e, Tasklet &t, const Call &call);

/* Run an element with memory of its own until its tasklets have returned or one is faulty. */
void run_exclusive(const Run &run, Element &e);

/* Run a rank whose elements share a memory. */
void run_coherent(const Run &run, std::vector<Element> &elements);

} // namespace near_emu

#endif /* FUR_EMULATED_NEAR_ELEMENT_HPP */
