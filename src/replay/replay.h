/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replay.h - from the log to the heap file.  The contract of src/replay.
 *
 *   INV-R1  The tail moves only after everything below it is durable in the heap.  Replaying a slot
 *           twice does no harm.
 *   INV-R2  Recovery keeps a marker only if its checksum holds and every slot it names was kept,
 *           lies below the tail, or has an abort marker.  It looks at the whole window [tail, tail
 *           + ring_slots), and so needs no bound on the number of holes.
 *   INV-R3  A live replay stops at the first slot that may be in flight; ring and log space go back
 *           in order.
 *   INV-R6  Recovery, and a replay beside another process, make markers and logs durable
 *           themselves, before they write anything of them to the heap: whoever wrote them may not
 *           have come to that.  Else a power failure could find half of an update in the heap, and
 *           nothing in the log to complete it from.  (A live replay of the process's own takes only
 *           what its owner made durable, INV-R3.)
 *   INV-R7  Recovery corrects a byte where that makes a checksum hold, and refuses a heap that is
 *           damaged, where it can tell (inspect_find_damage): the state that it leaves is one that
 *           was.
 */
#ifndef FUR_REPLAY_H
#define FUR_REPLAY_H

#include "durability/durability.h"

struct replay_result {
	uint64_t updates, entries, bytes; /* replayed */
	/* Slots below the last kept one that hold no update of ours, abort markers not counted */
	uint64_t holes;
	/* Markers with a good checksum whose dependencies were lost */
	uint64_t dropped;
	uint64_t mended; /* markers or records with one byte corrected */
	uint64_t ns;
};

/* After a failure, nothing running on the heap: replay, make durable, restart the ring (INV-M2).
 * Errors: FUR_ECORRUPT, FUR_EIO; the file's log is untouched then. */
FUR_MUST_USE int replay_recover(struct durability *d, struct replay_result *result);

/* Recover if the heap was not closed, and say whether that was so; else check that it was
 * (replay_check_closed).  Reads and writes the file only: needs no mapping of the heap.   Errors:
 * FUR_ECORRUPT, FUR_EIO. */
FUR_MUST_USE int replay_unless_closed(
        struct durability *d, struct replay_result *result, bool *recovered);

/* A heap that was closed is opened.  replay_check_closed: is there nothing in it that only an open
 * heap has?  A copy whose first pages were read before a program opened the heap, and the others
 * later, says that it is closed.   Errors: FUR_ECORRUPT.  replay_begin_lap: start the ring a lap
 * further, in a file of version 1, so that its first records are known for such
 * (inspect_find_damage).  Errors: FUR_EIO. */
FUR_MUST_USE int replay_check_closed(const struct durability *d);
FUR_MUST_USE int replay_begin_lap(struct durability *d);

/* Beside running transactions, under the right to replay, and `d->replaying` if they are this
 * process's: replay what is durable now. */
FUR_MUST_USE int replay_live(struct durability *d);

extern const struct durability_ops replay_ops;

#endif /* FUR_REPLAY_H */
