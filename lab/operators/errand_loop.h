/* SPDX-License-Identifier: BSD-3-Clause
 *
 * errand_loop.h - a process that carries out errands (errand.h) for a heap, alongside the program
 * that works on the heap, and a fur-replayer or none.  One thread does all: it sleeps until a
 * program asks.
 *
 *   INV-OP6  A heap has at most one process that carries out errands (HEAP_LOCK_LAB).  It holds the
 *            right to replay only to exchange a batch, replays nothing itself, and may die at any
 *            instant: the program sees from the lock that it has died.
 */
#ifndef LAB_ERRAND_LOOP_H
#define LAB_ERRAND_LOOP_H

#include "operators.h"

struct errand_loop;

/* Serve the heap that is open as `fd`, which belongs to `operating`, even after an error.  `path`
 * is for messages.  Errors: as fur_open(); FUR_EBUSY if another process serves it; those of
 * operators_load(). */
FUR_MUST_USE int errand_loop_start(int fd, const char *path, const char *const *files, size_t n,
        struct errand_loop **operating);

/* Carry out errands until errand_loop_stop() is called, or the file is removed (FUR_ENOENT);
 * operators run in the calling thread.  Errors: FUR_ECORRUPT, FUR_EIO, FUR_ESYS. */
FUR_MUST_USE int errand_loop_run(struct errand_loop *operating);

/* Make errand_loop_run() return, if no operator hangs.  Async-signal-safe. */
void errand_loop_stop(struct errand_loop *operating);

/* Take back what a program has asked for and has no answer to: it maps the records itself, and
 * programs find no operators any more (INV-OP1).  An operator that hangs may still run.
 * Async-signal-safe. */
void errand_loop_withdraw(struct errand_loop *operating);

void errand_loop_end(struct errand_loop *operating);

/* Is the address in the heap's file?  Async-signal-safe. */
bool errand_loop_maps(const struct errand_loop *operating, const void *address);

/* Print what a program asks for; `fd` as for errand_loop_start().  Errors: as fur_open(). */
FUR_MUST_USE int errand_loop_print(int fd, const char *path);

#endif /* LAB_ERRAND_LOOP_H */
