/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rejoin.h - a primary that another node has replaced becomes a standby, without a copy.
 *
 * The leash (INV-SH1) has kept its image behind the stream.  So the stream's updates of this heap
 * bring the image to where the other node has begun, and what its log has above them is given up.
 *
 *   INV-SH61  A heap gets the role of a standby when its image has the stream's updates up to the
 *             position that its ship page gets by the same write, and no other update; and when no
 *             recovery can bring another one back: the tail lies two laps behind them (INV-M2).
 *             Until then it is a primary, whose log libfur does not recover (INV-SH4).
 *   INV-SH62  The position is the newest whole frame below the CLAIM that fenced the heap.  That is
 *             the first valid CLAIM of another node behind the heap's own newest one: an earlier
 *             one came before this file was the primary.
 */
#ifndef FUR_REJOIN_H
#define FUR_REJOIN_H

#include "durability/durability.h"
#include "file/heap_file.h"
#include "ship/engine.h"

struct rejoin_result {
	uint64_t dropped; /* updates that had been made here, and that the stream lacks */
	uint64_t kept; /* the durTS of the newest update that the stream has of this heap, or 0 */
};

/* ship_rejoin - make a standby of the fenced primary in `file`, to which `d` is attached.  The
 * caller holds the worker's lock.  It may be killed at any instant, and called again.
 * lost_path: where the updates go that are dropped, as frames in a log of engine_file.h; behind
 *     those of an earlier call, each once.  NULL: they are lost.  Without such updates the file is
 *     not touched.
 * Durable: all of it, before return.
 * Errors:  FUR_EINVAL: the heap is no primary, or no other node has replaced it, and it is one
 *          still; FUR_ECORRUPT: the log is not what it was; the heap is damaged, an older copy, or
 *          has never written to the log; FUR_EEXIST: the file at lost_path has updates of another
 *          node; FUR_ENOMEM, FUR_EIO, FUR_EBUSY; FUR_ENOSPC, FUR_ESYS, also for that file; the
 *          engine's.  The heap is a primary then, as before.
 */
FUR_MUST_USE int ship_rejoin(struct heap_file *file, struct durability *d,
        struct stream_engine *engine, const char *lost_path, struct rejoin_result *result);

#endif /* FUR_REJOIN_H */
