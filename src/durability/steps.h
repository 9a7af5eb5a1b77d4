/* SPDX-License-Identifier: BSD-3-Clause
 *
 * steps.h - the steps by which an update becomes durable (commit.c).  commit.c takes them in one
 * heap, parts.c in several at the same time.  No other file includes this.
 */
#ifndef FUR_DURABILITY_STEPS_H
#define FUR_DURABILITY_STEPS_H

#include "durability/durability.h"

/* Look whether the record goes to its slot, and begin the marker.  The durTS is drawn. */
void commit_begin(struct durability *d, struct commit *c, struct media_marker *marker);

/* Write the record's head, the record and the marker to the file.  Errors: the first failure's. */
FUR_MUST_USE int commit_write(struct durability *d, struct commit *c, struct media_marker *marker);

/* Make marker and record durable under one fence (INV-M3): if the record does not reach the medium,
 * the marker's checksum fails, and the slot is a hole.  commit_flush_end() waits; in between the
 * thread may begin the flush of another heap. */
void commit_flush_begin(struct durability *d, struct commit *c);
FUR_MUST_USE int commit_flush_end(struct durability *d, struct commit *c);

/* Put the abort marker into the update's slot, and make it durable.   Errors: FUR_EIO. */
FUR_MUST_USE int commit_flush_abort(
        struct durability *d, struct commit *c, struct media_marker *marker);

/* INV-D9, before the update leaves nondurable[]. */
void commit_wait_for_unseen(const struct durability *d, const struct dset *set);

/* The thread need not wait for the update any more.  Returns `error`. */
int commit_await_over(struct durability *d, struct commit *c, int error);

#endif /* FUR_DURABILITY_STEPS_H */
