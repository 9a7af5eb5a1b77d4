/* SPDX-License-Identifier: BSD-3-Clause
 *
 * softtsx.hpp - Intel TSX in software: the TSX back end, compiled with an undefined instruction
 * before each of TSX's (FUR_TSX_TRAPS, src/htm/tsx_insn.h), raises SIGILL there, and the handler
 * acts as hardware would.  So the back end runs, and can be made to abort at each of its
 * instructions, on every x86-64 processor alike: one without TSX, one that has it, and one that
 * lists it and has it switched off.
 *
 * How: xbegin stops every other thread of the program (a signal parks it) and copies the memory
 * that may change: the regions it was told of, and the thread's stack.  xend lets the others go on.
 * An abort puts memory and registers back, eax set to the status, and goes on at xbegin's fallback
 * address.  So a transaction is atomic for every thread, readers included.  A reader that is active
 * while the world stands still cannot end, so an isolation wait inside the transaction always gives
 * up: the code after that is tested, not the wait.
 *
 * Ends the program with a message where hardware would always abort: xend while suspended, suspend
 * while suspended.
 */
#ifndef SOFTTSX_HPP
#define SOFTTSX_HPP

#include <cstddef>
#include <cstdint>

namespace softtsx
{

enum Status : unsigned {
	NO_ABORT = 0,
	CONFLICT = 1u << 2 | 1u << 1,
	CAPACITY = 1u << 3,
	FAULT = 1u << 31 /* stands for 0, no cause */
};

/* Once; before any thread. */
void install();

/* Every thread that runs transactions, or reads data that they change. */
void thread_begin();
void thread_end();
/* In the child of a fork: the forking thread is the only one there. */
void after_fork();

/* Memory that transactions change. */
void add_region(void *start, size_t bytes);
void clear_regions();

/* Abort: at xbegin, always, with this status; or at any instruction, one time in `one_in`, with a
 * random one, from a seed. */
void always_abort(Status status);
void random_aborts(uint64_t seed, unsigned one_in);

struct Counters {
	uint64_t begun, committed, aborted, suspends;
};
Counters counters();

} // namespace softtsx

#endif /* SOFTTSX_HPP */
