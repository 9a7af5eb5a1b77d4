/* SPDX-License-Identifier: BSD-3-Clause
 *
 * attach.h - set up the log, replay and heap of an opened file, without transactions.  Programs
 * that recover or replay a heap use it, and it is the first step of opening a heap.
 */
#ifndef FUR_ATTACH_H
#define FUR_ATTACH_H

#include "durability/durability.h"
#include "file/heap_file.h"
#include "replay/replay.h"

/* How long a thread waits for the shipping log by default. */
enum { ATTACH_PATIENCE_MS = 10000 };

/* Call durability_attach(), set replay_ops to make room in the log, and check the heap's first
 * words.  durability_detach() undoes it.  Errors: FUR_ECORRUPT, FUR_EINVAL, FUR_ENOMEM. */
FUR_MUST_USE int heap_attach(struct durability *d, const struct heap_file *file,
        const struct fur_options *options, char *reason, size_t reason_bytes);

/* The same with default options, for programs that replay, copy or look at a heap.  That suffices,
 * whichever persistence domain the heap was used in: on tmpfs or a disk, fdatasync makes the file
 * durable. */
FUR_MUST_USE int heap_attach_to_replay(struct durability *d, const struct heap_file *file);

#endif /* FUR_ATTACH_H */
