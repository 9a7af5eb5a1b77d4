/* SPDX-License-Identifier: BSD-3-Clause
 *
 * take.h - write the stream's updates to the image of the heap that they come from, and that may
 * have lost them: a recovery does so (recover.h), and a heap that is to follow another (rejoin.h).
 */
#ifndef FUR_SHIP_TAKE_H
#define FUR_SHIP_TAKE_H

#include "durability/durability.h"
#include "ship/drive.h"

struct take {
	struct durability *d;
	struct stream_engine *engine;
	struct stream_position from; /* every update before it is in the image */
	uint64_t until;              /* the offset of the first message that is not read */
	uint64_t lineage;            /* of the heap's own updates: others are counted otherwise */
	uint8_t *room;               /* FRAME_MOST_BYTES */
};

/* ship_take - write the updates from the tail on to the image, in their order.  The caller has the
 * right to replay, and moves the tail behind them by replay_skip(), which makes them durable.
 * Errors: FUR_ECORRUPT: the log is not what it was, or its updates are not this heap's; FUR_ENOMEM;
 *         the engine's.  The tail is where it was then, and the same call may follow. */
FUR_MUST_USE int ship_take(const struct take *take);

#endif /* FUR_SHIP_TAKE_H */
