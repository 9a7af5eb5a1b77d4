/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_scan.h - a long read in a child process.  This call may change before 1.0: fur_open_copy() in
 * a process of its own does the same, without fork()'s rules.
 */
#ifndef FUR_SCAN_H
#define FUR_SCAN_H

#include <fur.h>

#ifdef __cplusplus
extern "C" {
#endif

/* fur_scan - run scan(copy, arg) in a child process, on a copy of the heap as of one instant, and
 * set *result to what it returns.  For reads that take long or sleep: no update waits for them.
 * The copy is made as by fur_open_copy(), and the same functions work on it.  It contains
 * every update whose fur_commit() had returned when fur_scan() was called.  All that it contains is
 * durable, so the scan may publish what it reads.
 * The calling thread waits until the scan has returned.  Other threads go on; while the copy is
 * made, one that needs room in the log waits as for fur_backup().  To go on as well, call
 * fur_scan() in a thread of its own.  The heap must stay open until fur_scan() returns.
 * The child is made by fork().  It has copies of the program's memory and descriptors, and only the
 * calling thread: a mutex that another thread holds stays locked there.  glibc's malloc() works.
 * `heap` is closed in the child, and the copy lies at its address.  What the scan writes to memory
 * stays in the child, unless the memory is shared (MAP_SHARED): return larger results through that,
 * or through a pipe.  The child ends by _exit(): flush what the scan has printed.  It is killed if
 * the calling thread's process ends.
 * The scan registers its thread with the copy and begins read-only transactions, as readers of a
 * heap do; it may also load from the copy without them, because nothing changes it.
 * The child takes the memory for the copy.  Where memory is short, as in a container with a limit,
 * the kernel ends the child before other processes, and fur_scan() returns FUR_ESYS.
 * Errors:  FUR_ENESTED inside a transaction; FUR_EBUSY (another thread is making a copy; a replayer
 *          does not yield for ten seconds); FUR_ENOMEM or FUR_ENOSPC, as for fur_open_copy();
 *          FUR_ESYS (no process could be made, or it ended before the scan returned); FUR_EINVAL;
 *          FUR_EFORK; FUR_EIO, or the code for which the heap has failed.  *result is as it was
 *          then, and so is the heap. */
FUR_API FUR_MUST_USE int fur_scan(
        fur_heap *heap, int (*scan)(fur_heap *copy, void *arg), void *arg, int *result);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* FUR_SCAN_H */
