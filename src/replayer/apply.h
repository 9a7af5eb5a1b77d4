/* SPDX-License-Identifier: BSD-3-Clause
 *
 * apply.h - writing updates that are to be kept to the heap's image: the engine of recovery and of live replay.
 *
 *   INV-R4  Of two entries that store to the same byte, the one of the later durTS, or the later one of an update, is written last.
 *   INV-R5  When apply_updates() has returned, every line it wrote is on its way to the medium: by a write-back of the caller's, which the
 *           caller's next drain completes (INV-R1).
 */
#ifndef FUR_APPLY_H
#define FUR_APPLY_H

#include "replay.h"

/* Slots [from, to).  `kept[k]`: is the update of slot from + k to be applied?  NULL: all are that are no abort markers.  Their markers
 * are known to be valid (INV-M1). */
struct apply_range {
	uint64_t from, to;
	const uint8_t *kept;
};

/* Write the updates' entries to the image, in order, and start their write-back.  Counts into `result`.
 * Errors: FUR_ECORRUPT: an entry lies outside the heap; the image may hold some of the range. */
FUR_MUST_USE int apply_updates(struct durability *d, const struct apply_range *range, struct replay_result *result);

/* Ask for a marker and a log that whoever goes through the slots one by one, and is at `durts` now, will look at soon. */
void apply_preload(const struct durability *d, uint64_t durts);

static inline const uint8_t *apply_log(const struct durability *d, const struct media_marker *m)
{
	return d->logs + m->thread * d->super->log_bytes;
}

#endif /* FUR_APPLY_H */
