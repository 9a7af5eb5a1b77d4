/* SPDX-License-Identifier: BSD-3-Clause
 *
 * faults.hpp - calls that fail on demand.  The linker's --wrap puts faults.cpp between the library and the system: it counts the
 * library's calls, role by role and kind by kind, over all processes of a case, and lets those fail that the plan names.
 *
 *   INV-T1  A call that fails has not been made.  At a call that kills, the process dies before it.
 *   INV-T2  Only processes that are armed count and fail: those that do what a program and fur-replayer do.  The test's own looks at
 *           a heap are not disturbed.
 *   INV-T3  POWER and TORN: from call n on no fdatasync succeeds, and `image` has the file as it was when the last one before began:
 *           all that the disk is bound to have.
 */
#ifndef CRASH_FAULTS_HPP
#define CRASH_FAULTS_HPP

#include <atomic>
#include <string>

namespace faults
{

enum Kind {
	MALLOC,
	CALLOC,
	REALLOC,
	ALIGNED_ALLOC,
	POSIX_MEMALIGN,
	MMAP,
	MADVISE,
	OPEN,
	MKOSTEMP,
	LINK,
	FSTAT,
	FTRUNCATE,
	FALLOCATE,
	PREAD,
	PWRITE,
	FSYNC,
	FDATASYNC,
	FCNTL,
	GETRANDOM,
	PTHREAD_CREATE,
	PTHREAD_KEY_CREATE,
	PTHREAD_SETSPECIFIC,
	KINDS
};
const char *name(int kind);

/* Processes that run beside each other count apart, so that call n is the same one in each run, or nearly. */
enum Role { PROGRAM, SERVER, ROLES };

enum Mode {
	ONCE,   /* call n fails */
	STICKY, /* all from call n on */
	KILL,   /* at call n the process is killed */
	BUSY,   /* fcntl: call n fails as if another held the lock (EAGAIN), or two waited for each other (EDEADLK) */
	POWER,  /* fdatasync: as STICKY, and the power fails in the end */
	TORN,   /* the same, and before that the kernel has written some pages by itself */
	MODES
};
const char *name_of_mode(int mode);

struct Plan {
	int role = PROGRAM, kind = KINDS; /* KINDS: nothing fails */
	unsigned n = 0;
	int mode = ONCE;
};

/* In memory shared by all processes of a case. */
struct State {
	Plan plan;
	char image[64]; /* POWER, TORN: the path of INV-T3 */
	std::atomic<unsigned> calls[ROLES][KINDS], failed;
};

/* What counts here, and fails, from now on.  Null: nothing. */
void arm(State *state, Role role);

/* Blocks and mappings that the library has made in this process and not given back. */
struct Holdings {
	long blocks, mappings;
	bool operator==(const Holdings &) const = default;
};
Holdings holdings();

} // namespace faults

#endif /* CRASH_FAULTS_HPP */
