/* SPDX-License-Identifier: BSD-3-Clause
 *
 * recover.h - recover a heap whose updates are shipped, after a failure (INV-SH4).
 *
 * The shipping log may have updates that the file has lost: they were shipped before they were
 * durable here.  And the file may have updates that the log lacks.  The log's come first:
 *
 *   INV-SH34  After the recovery the heap contains what the stream has, and behind it the updates
 *             of this file that a recovery keeps, given that; and those are in the stream before
 *             they are in the heap's image (INV-SH1).
 */
#ifndef FUR_SHIP_RECOVER_H
#define FUR_SHIP_RECOVER_H

#include "replay/replay.h"
#include "ship/shipper.h"

/* ship_recover - recover the heap to which `s` is attached, and mark it as closed.  The caller
 * holds the worker's lock.
 * Errors: FUR_EFENCED: another node writes the stream; FUR_ECORRUPT, FUR_EIO, FUR_ENOMEM; FUR_EBUSY
 *         if it was stopped.  The heap is to be recovered then, as before. */
FUR_MUST_USE int ship_recover(struct shipper *s, struct replay_result *result);

#endif /* FUR_SHIP_RECOVER_H */
