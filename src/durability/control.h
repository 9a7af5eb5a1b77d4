/* SPDX-License-Identifier: BSD-3-Clause
 *
 * control.h - how a working process and a replayer next to it talk to each other, and which of them
 * may replay.
 *
 * Both have the file's control region mapped (media/control_region.h).  It means nothing when
 * neither runs, and each open writes it anew.  Four locks on bytes of the file tell which processes
 * live and which of them may replay (file/locks.h).
 *
 *   INV-C1  A replay changes the logs' tails, the tail on the medium and the heap's image only
 *           under the right to replay.
 *   INV-C2  A process that takes the right starts from the tail in the superblock, for the process
 *           that had it may have died at any point (control_take).
 *   INV-C3  control->tail and logs[].tail are published after the tail on the medium is durable,
 *           and never go back while a process works.
 *   INV-C4  The right to replay has one holder.  The process that holds the worker's lock may have
 *           the right by a claim instead of the lock, if only read locks keep it from the lock.  It
 *           sets control->claimed, then looks whether the write lock is held, and withdraws the
 *           claim if so.  A replayer takes the lock, then looks whether a living worker has claimed
 *           the right, and gives the lock back if so.  Each sets its own sign before it looks at
 *           the other's, so one of them sees the other (right_claim, right_yield).
 */
#ifndef FUR_CONTROL_H
#define FUR_CONTROL_H

#include "file/locks.h"
#include "media/control_region.h"
#include <fur.h>

struct durability;

/* ------------------------------------------------------ the right to replay */

/* Take the right to replay (INV-C4), and bring `d` and the control region to the tail in the
 * superblock (INV-C2).  control_take() waits for the process that has the right, for ten seconds.
 * Errors: FUR_EBUSY (control_try_take: without a message), FUR_ECORRUPT, FUR_EIO, FUR_ESYS. */
FUR_MUST_USE int control_take(struct durability *d);
FUR_MUST_USE int control_try_take(struct durability *d);
/* The same for a replayer: waits without polling until it has the right, or until a signal handler
 * sets *stopping; then FUR_EBUSY. */
FUR_MUST_USE int control_take_unless(struct durability *d, const uint32_t *stopping);
/* Errors: FUR_ESYS, as heap_lock_give_back().  A working process may ignore it.  It replays as
 * before, and gives the right back after its next replay, or when it closes the file; a replayer
 * waits until then.  A replayer must not ignore it, or it would keep the working process from
 * replaying. */
int control_give_back(struct durability *d);

/* ----------------------------------------------------------- a working process */

/* The process starts to work.  Called under the right to replay, with everything replayed. */
void control_reset(struct durability *d);
/* The process is about to mark the heap as open in the file, so the replayer's watch must wait for
 * its end.  Called with the worker's lock held, and before the mark.  The other way round, a
 * process could die in between.  The watch sleeps until a process is announced, so it would not
 * look at the lock again, and the heap would not be recovered until the next process opens it. */
void control_opened(struct durability *d);

/* Called after an update has its marker, if wake_at shows that the replayer sleeps: call it if
 * there is enough for it to do.  No fence orders the marker before the look at wake_at, so a
 * replayer that is falling asleep may miss one call.  The next update calls again, and a thread
 * that finds no room calls in any case. */
void control_wake(struct durability *d, uint32_t me, uint64_t durts);

/* Take over the tails that another process's replay has moved.  False: they have not moved. */
bool control_refresh(struct durability *d);

/* Call the replayer, and sleep until it has replayed something, for 100 ms at most.  False: it has
 * not. */
bool control_wait_for_replayer(struct durability *d);

/* ------------------------------------------------------------------- replayer */

/* Publish a replay that is durable up to d->tail (INV-C3); its logs' tails before. */
void control_publish(struct durability *d, uint64_t updates, uint64_t entries);

/* Wake the replayer. */
void control_call(struct control *c);

#endif /* FUR_CONTROL_H */
