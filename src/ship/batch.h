/* SPDX-License-Identifier: BSD-3-Clause
 *
 * batch.h - updates of a primary that a standby applies as one update (follow.h).
 */
#ifndef FUR_BATCH_H
#define FUR_BATCH_H

#include "ship/follow.h"
#include "tx/tx.h"

/* Bytes of the heap that no log has. */
struct batch_side {
	struct batch_side *next;
	uint64_t offset, bytes;
	uint64_t zeros; /* that follow the bytes */
	uint8_t data[];
};

struct batch {
	uint8_t *entries;  /* of one or more updates, as in their records */
	size_t used, room; /* bytes */
	struct batch_side *sides, *last;
};

/* batch_add - add entries of an update.  Errors: FUR_ENOMEM; FUR_ETOOBIG: with them, the batch does
 * not fit a log of the standby. */
FUR_MUST_USE int batch_add(
        struct batch *b, const struct durability *d, const void *entries, size_t bytes);
/* batch_add_side - add a SIDE frame's payload of `bytes` bytes.  Errors: FUR_ENOMEM. */
FUR_MUST_USE int batch_add_side(
        struct batch *b, const struct frame_side *side, const void *data, size_t bytes);
/* Drop all that is in the batch. */
void batch_clear(struct batch *b);
/* The same, and free its memory. */
void batch_free(struct batch *b);

/* Does an update with these entries, aligned to 8 bytes, have memory that is not in the log? */
bool batch_has_others(const struct durability *d, const void *entries, size_t bytes);

/* batch_apply - apply the batch, and store `to` as the position; `from`: the position that the
 * heap's header must have before.  A batch with memory that is not in the log has one update alone.
 * Errors:  as follow_step(); nothing is applied then, unless the heap has failed. */
FUR_MUST_USE int batch_apply(struct fur_thread *t, const struct batch *b,
        const struct follow_point *from, const struct follow_point *to);

/* Replay all that was applied before the call.  Errors: those of durability_replay(). */
FUR_MUST_USE int batch_replay_all(struct durability *d);

/* The position in the heap's header. */
struct follow_point batch_position(const void *base);

#endif /* FUR_BATCH_H */
