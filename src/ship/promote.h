/* SPDX-License-Identifier: BSD-3-Clause
 *
 * promote.h - a standby becomes the stream's writer, and its file a primary.
 *
 * The steps, and what a failure between them leaves:
 *
 *     1  the CLAIM gets into the log      before: nothing has happened
 *     2  a BEAT behind it is acknowledged a standby that is the stream's writer; nothing ships, and
 *                                         the old primary is fenced.  The same steps may be taken
 *                                         again: its next claim begins no lineage
 *     3  the follower applies all that is  the same
 *        in the log, and its position
 *     4  all of that is replayed           the same
 *     5  the ship page                     a primary that was not closed, whose log has no update:
 *                                         fur-ship recovers it
 *     6  the program closes the heap       a primary
 *
 *   INV-SH82  The ship page gets the role of a primary when the image has every update before the
 *             heap's own claim, and its ring has none that is not in the image.  So a recovery,
 *             which ships what the ring has, ships nothing that came from the old primary.
 *   INV-SH83  The position in the page is behind a frame of the heap's own term.  So everything
 *             that a recovery or a shipper reads from there on is the heap's own, or shows that
 *             another node has claimed.
 *   INV-SH84  A node takes over from the writer that its caller has named by the term, and from no
 *             other: if another node has claimed since, it gives up.
 */
#ifndef FUR_PROMOTE_H
#define FUR_PROMOTE_H

#include "durability/durability.h"
#include "file/heap_file.h"
#include "ship/follow.h"

struct promotion {
	const char *log;
	const char *const *settings;
	const uint8_t *uuid; /* of the heap */
	uint64_t node;
	struct stream_position from; /* where to begin to read */
	uint64_t term;               /* of the writer to be replaced (INV-SH84) */
	uint64_t until_ns;
	const uint32_t *stopping; /* 1: give up */
};

/* promote_claim - steps 1 and 2.  *position: behind the BEAT (INV-SH83).
 * Errors: FUR_EFENCED: another node has claimed first; FUR_EBEHIND: the log has not answered in
 *         time, or *stopping; FUR_ECORRUPT; those of engine_open() that time does not mend. */
FUR_MUST_USE int promote_claim(const struct promotion *p, struct stream_position *position);

/* The message of that FUR_EFENCED.  Returns FUR_EFENCED. */
int promote_fail_fenced(void);

/* promote_file - steps 4 and 5.  Nothing updates the heap any more.
 * Errors: those of durability_replay() and heap_write_promotion(). */
FUR_MUST_USE int promote_file(
        struct durability *d, struct heap_file *file, const struct stream_position *position);

#endif /* FUR_PROMOTE_H */
