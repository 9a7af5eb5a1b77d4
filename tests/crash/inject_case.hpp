/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inject_case.hpp - one case of inject-test: a scenario with one fault, and the verdict.
 *
 * The scenario: create a heap, work, close; work, die, and let several threads of fur-replayer's recover; the same with fur-replayer
 * --once; the same beside a serving fur-replayer, twice; work, die, and recover with fur_open.  Each of these stages is a process of its
 * own.
 *
 *   INV-T4  A call of fur.h that fails has a code that fits, has set a message, and holds nothing back: no memory, mapping, descriptor.
 *           With --remedies the message says what to do, too.
 *   INV-T5  Afterwards, with no fault, the heap opens, closes, and holds each acknowledged update, of the others all or nothing, and
 *           everything that was read.  POWER and TORN: so does what is on the disk.  If fur_create failed there is no file, or a heap.
 *           A fur-replayer that serves brings the heap up to date, or ends.
 *   INV-T6  A case ends.  One that does not within --patience seconds hangs: the longest wait in the library is ten.
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
	bool ignore_error, remedies, forgive_sleep; /* as the options of inject-test */
	std::atomic<bool> created, set_up;
	std::atomic<unsigned> findings;
	char finding[8][512];
};

/* The process of a case: runs the stages, then the verdict, in processes of its own process group.  What is wrong is in `c`. */
[[noreturn]] void run_case(Case *c);

#endif /* CRASH_INJECT_CASE_HPP */
