/* SPDX-License-Identifier: BSD-3-Clause
 *
 * control.h - what a working process and a replayer beside it tell each other, and who may replay.
 *
 * The file's control region is memory that both have mapped: it means nothing when neither runs,
 * and is written anew at each open.  Four locks on bytes of the file say which processes live and
 * which of them may replay (file/locks.h).
 *
 *   INV-C1  Ring, logs' tails, the tail on the medium and the heap's image change by replay only
 *           under the right to replay.
 *   INV-C2  Who takes the right starts from the tail in the superblock: whoever had it may have
 *           died at any point (control_take).
 *   INV-C3  control->tail and logs[].tail are published after the tail on the medium is durable,
 *           and never go back while a process works.
 *   INV-C4  The right to replay has one holder.  The process that holds the worker's lock may have
 *           it by a claim instead of the lock, if nothing but read locks refuse it the lock: it
 *           sets control->claimed, then looks whether the write lock is held, and withdraws the
 *           claim if so.  A replayer takes the lock, then looks whether a worker that lives has
 *           claimed the right, and gives the lock back if so.  Both set their own sign before they
 *           look at the other's, so one of them sees the other (claim, yield_to_claim).
 */
#ifndef FUR_CONTROL_H
#define FUR_CONTROL_H

#include "file/locks.h"
#include "media/control_region.h"
#include <fur.h>

struct durability;

/* ------------------------------------------------------ the right to replay */

/* Take the right to replay (INV-C4), and bring `d` and the control region to the tail in the
 * superblock (INV-C2).  control_take waits for who has it, but not for ever.   Errors: FUR_EBUSY
 * (control_try_take: without a message), FUR_ECORRUPT, FUR_EIO, FUR_ESYS. */
FUR_MUST_USE int control_take(struct durability *d);
FUR_MUST_USE int control_try_take(struct durability *d);
/* The same for a replayer: waits for as long as it takes, without polling, or until *stopping, set
 * by a signal handler: then FUR_EBUSY. */
FUR_MUST_USE int control_take_unless(struct durability *d, const uint32_t *stopping);
/* Errors: FUR_ESYS, as heap_lock_give_back().  A working process may ignore it: it replays as
 * before, and gives the right back after its next replay, or when it closes the file; a replayer
 * beside it waits until then.  A replayer may not: it would keep the working process from
 * replaying. */
int control_give_back(struct durability *d);

/* ----------------------------------------------------------- a working process */

/* The process starts to work; under the right to replay, with everything replayed. */
void control_reset(struct durability *d);
/* It is about to say in the file that the heap is open: the replayer's watch must wait for its end.
 * With the worker's lock held, and before the file says so.  The other way round a process could
 * die in between, and the watch, which sleeps until a process is announced, would not look at the
 * lock again: the heap would stay as it is until the next process opens it. */
void control_opened(struct durability *d);

/* After an update has its marker, if wake_at says that the replayer sleeps: call it if there is
 * enough for it to do.  No fence orders the marker before the look at wake_at, so a replayer that
 * is falling asleep may miss one call; the next update calls again, and who finds no room calls in
 * any case. */
void control_wake(struct durability *d, uint32_t me, uint64_t durts);

/* Take over what others replayed.  True if there was anything. */
bool control_refresh(struct durability *d);

/* Call the replayer, and sleep until something has been replayed, at most for a while.  False:
 * nothing was. */
bool control_wait_for_replayer(struct durability *d);

/* ------------------------------------------------------------------- replayer */

/* Publish a replay that is durable up to d->tail (INV-C3); its logs' tails before. */
void control_publish(struct durability *d, uint64_t updates, uint64_t entries);

/* Wake the replayer. */
void control_call(struct control *c);

#endif /* FUR_CONTROL_H */
