/* SPDX-License-Identifier: BSD-3-Clause
 *
 * attach.h - log, replay and heap of an opened file, without the transactions: for programs that
 * recover or replay a heap, and the first step of opening one.
 */
#ifndef FUR_ATTACH_H
#define FUR_ATTACH_H

#include "durability/durability.h"
#include "file/heap_file.h"
#include "replay/replay.h"

/* durability_attach(), with replay_ops as what makes room in the log, and the heap's first words
 * checked.  durability_detach() takes it back.   Errors: FUR_ECORRUPT, FUR_EINVAL, FUR_ENOMEM. */
FUR_MUST_USE int heap_attach(struct durability *d, const struct heap_file *file,
        const struct fur_options *options, char *reason, size_t reason_bytes);

#endif /* FUR_ATTACH_H */
