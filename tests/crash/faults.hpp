/* SPDX-License-Identifier: BSD-3-Clause
 *
 * faults.hpp - calls that fail on demand.  The linker's --wrap puts faults.cpp between the library
 * and the system.  It counts the library's calls, by role and kind, over all processes of a case,
 * and fails the calls that the plan names.
 *
 *   INV-T1  A call that fails has not been made.  At a call that kills, the process dies first.
 *   INV-T2  Only armed processes count and fail: programs and fur-replayer.  The test looks at
 *           heaps from processes that are not armed.
 *   INV-T3  POWER and TORN: from call n on no fdatasync succeeds.  `image` is the file as it was
 *           when the last successful one began, so the disk holds at least that.
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

/* Processes that run at the same time count apart, so that call n is nearly the same in each
 * run. */
enum Role { PROGRAM, SERVER, ROLES };

enum Mode {
	ONCE,   /* call n fails */
	STICKY, /* all from call n on */
	KILL,   /* at call n the process is killed */
	/* fcntl: call n fails as if another held the lock (EAGAIN), or two waited for each other
	 * (EDEADLK) */
	BUSY,
	POWER, /* fdatasync: as STICKY, and the power fails in the end */
	TORN,  /* the same, and before that the kernel has written some pages unasked */
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

/* From now on this process counts its calls in `state`, and they fail as its plan says.  Null: no
 * call counts or fails. */
void arm(State *state, Role role);

/* Blocks and mappings that the library has taken in this process and not given back. */
struct Holdings {
	long blocks, mappings;
	bool operator==(const Holdings &) const = default;
};
Holdings holdings();

} // namespace faults

#endif /* CRASH_FAULTS_HPP */
