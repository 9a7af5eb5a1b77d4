/* SPDX-License-Identifier: BSD-3-Clause
 *
 * follow.h - a standby: a heap that follows the stream of another one, its primary.
 *
 * The standby's file is a copy of the primary's, with a ship page of role MEDIA_STANDBY, and a
 * process has it open as any heap.  A follower, in one of its threads, reads the stream and
 * applies the primary's updates; other threads of the process read.
 *
 *   INV-SH21  In a standby, only its follower begins updates.  So the standby's heap is what the
 *             stream says, and nothing else (ship_admit()).
 *   INV-SH22  The follower applies whole updates of the primary, one or several, as one update of
 *             the standby, whose record also has the position behind them.  So libfur's own commit,
 *             replay and recovery keep updates and position together or lose both: each update is
 *             applied once, in order; and readers see the heap as it was at the primary between
 *             two updates.
 *   INV-SH23  Before the follower stores bytes that no log has, of a fresh block or of a bulk
 *             update's results, the standby has replayed all that it has applied.  Otherwise a
 *             later replay would store older entries over these bytes.  The same bytes stay until
 *             the update that names them is applied: they lie in free chunks, or in a block that
 *             only the bulk update uses.
 *   INV-SH24  After a bulk update the follower applies nothing before the standby has replayed it:
 *             the updates that follow may use the memory of its results (INV-BU4).
 *   INV-SH25  The parts of an update that is not whole stay in memory.  A CLAIM that drops the
 *             update drops them.
 *   INV-SH26  The heap has grown to the size that an update needs before the update begins
 *             (INV-F5).
 *
 * What a follower holds in memory: up to a quarter of a log of entries; or one larger update, and
 * the bytes of its fresh blocks or its results.
 */
#ifndef FUR_FOLLOW_H
#define FUR_FOLLOW_H

#include "ship/engine.h"
#include "ship/stream.h"

struct follower;

/* follow_begin - let the calling thread follow the stream in the log of `engine`, from the position
 * that the heap's header has, or its ship page, whichever is further.  The engine must outlive the
 * follower.  Registers the thread, if it is not.
 * Errors:  FUR_EINVAL: the heap is no standby; FUR_ENOMEM; those of fur_thread_register().
 *          *follower is NULL then. */
FUR_MUST_USE int follow_begin(
        struct stream_engine *engine, fur_heap *heap, struct follower **follower);

/* follow_step - read at most `most` messages, and apply all whole updates in them, in the thread
 * that has begun to follow, with no transaction open.
 * Durable: what it has applied, and its position, before return.
 * Returns: how many messages it has read; 0: the log has no more.
 * Errors:  FUR_ECORRUPT, FUR_EVERSION: the log is not what it was, and this follower goes no
 *          further (stream_text()); FUR_ETOOBIG: an update does not fit the standby's log;
 *          FUR_ENOSPC; FUR_ENOMEM; FUR_EBUSY: another follower has applied updates; the engine's;
 *          those of fur_commit().  After them the follower goes back to the position applied, and
 *          the next call tries again from there. */
FUR_MUST_USE int follow_step(struct follower *f, unsigned most);

/* follow_position - where the standby is: `position`, behind the newest frame that it has applied
 * whole; and the newest update that it has applied, which may lie in the frame behind it. */
struct follow_point {
	struct stream_position position;
	uint64_t lineage, durts; /* of that update; 0: none */
};
struct follow_point follow_position(const struct follower *f);

/* follow_view - how the stream looks to the follower, after a follow_step() without an error. */
enum { FOLLOW_ENDED = 8 };
struct follow_view {
	/* Of the newest message that counts; every whole update before it is applied */
	uint64_t term, node, frame;
	uint64_t lineage, durts; /* durts: of its newest update that is applied, or 0 */
	uint64_t next;           /* offset of the message that is to be read next */
	uint64_t valid;          /* how many messages that count have been read */
	/* The node that the newest HANDOVER of this term names, if no update has come since; or
	 * 0 */
	uint64_t heir;
	/* Lineages that have ended, and the durTS of the last update of each: the newest, as far as
	 * this follower has read, or the heap's header knows.  Those with lineage 0 and durTS 0 too
	 * are unused places */
	struct follow_ended {
		uint64_t lineage, durts;
	} ended[FOLLOW_ENDED];
};
void follow_look(const struct follower *f, struct follow_view *view);

/* follow_end - follow no longer, in the thread that has begun.  Stores the position first, if it
 * has moved since the newest update.
 * Errors:  as follow_step(), and then the position stays where it was; the follower has ended. */
int follow_end(struct follower *f);

#endif /* FUR_FOLLOW_H */
