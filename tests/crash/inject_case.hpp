/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inject_case.hpp - one case of inject-test: a scenario with one fault, and the verdict.
 *
 * The stages of the scenario, each a process of its own:
 *   1. create a heap, work, close;
 *   2. work and die; replay_recover() with several threads;
 *   3. work and die; fur-replayer --once;
 *   4. two programs work and die, one after the other, while fur-replayer serves the heap;
 *   5. work and die; fur_open recovers, work, close.
 *
 *   INV-T4  A call of fur.h that fails returns a code that fits, sets a message, and keeps no
 *           memory, mapping or descriptor.  With --remedies the message also tells the user what to
 *           do.
 *   INV-T5  Afterwards, without a fault, the heap opens and closes.  It holds every acknowledged
 *           update, every update that a transaction has read, and of the others all or nothing.
 *           POWER and TORN: the same of the file on the disk.  If fur_create failed there is no
 *           file, or a whole heap.  A serving fur-replayer brings the heap up to date, or ends.
 *   INV-T6  A case ends.  After --patience seconds it counts as hanging; the longest wait in the
 *           library is ten seconds.
 */
#ifndef CRASH_INJECT_CASE_HPP
#define CRASH_INJECT_CASE_HPP

#include "faults.hpp"
#include "workload.hpp"

/* In memory shared by all processes of a case. */
struct Case {
	faults::State faults;
	crash::Shared work;
	fur_pm domain;
	char path[64];
	bool ignore_error, remedies; /* as the options of inject-test */
	std::atomic<bool> created, set_up;
	std::atomic<unsigned> findings;
	char finding[8][512];
};

/* The process of a case: runs the stages and the verdict, all in one process group of its own, and
 * leaves its findings in `c`. */
[[noreturn]] void run_case(Case *c);

#endif /* CRASH_INJECT_CASE_HPP */
