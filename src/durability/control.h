/* SPDX-License-Identifier: BSD-3-Clause
 *
 * control.h - how a working process and a replayer alongside it communicate, and which of them may
 * replay.
 *
 * Both map the file's control region (media/control_region.h).  Its contents mean nothing while
 * neither runs, and each process that opens the heap initialises it again.  Four locks on bytes of
 * the file tell which processes live and which of them may replay (file/locks.h).
 *
 *   INV-C1  A replay changes the logs' tails, the tail on the medium and the heap's image only
 *           under the right to replay.
 *   INV-C2  A process that takes the right starts from the tail in the superblock, because the
 *           previous holder may have died at any point (control_take).
 *   INV-C3  control->tail and logs[].tail are published after the tail on the medium is durable,
 *           and never go back while a process works.
 *   INV-C4  The right to replay has one holder: the process that holds HEAP_LOCK_REPLAY, or a
 *           worker that claims the right.  A worker, which holds the worker's lock, may claim if
 *           only read locks keep it from HEAP_LOCK_REPLAY.  It sets control->claimed, then looks
 *           whether another process holds the write lock, and withdraws the claim if so.  A
 *           replayer takes the lock, then looks whether a living worker has claimed the right, and
 *           gives the lock back if so.  Each sets its own sign before it looks at the other's, so
 *           at least one of them sees the other (right_claim, right_yield).
 */
#ifndef FUR_CONTROL_H
#define FUR_CONTROL_H

#include "file/locks.h"
#include "media/control_region.h"
#include <fur.h>

struct durability;

/* ------------------------------------------------------ the right to replay */

/* Take the right to replay (INV-C4), and set the tails in `d` and the control region to the
 * superblock's (INV-C2).  control_take() waits up to ten seconds for the process that has the
 * right.  Errors: FUR_EBUSY (control_try_take: without a message), FUR_ECORRUPT, FUR_EIO,
 * FUR_ESYS. */
FUR_MUST_USE int control_take(struct durability *d);
FUR_MUST_USE int control_try_take(struct durability *d);
/* The same for a replayer.  It waits without polling until it has the right.  If a signal handler
 * sets *stopping, it returns FUR_EBUSY. */
FUR_MUST_USE int control_take_unless(struct durability *d, const uint32_t *stopping);
/* Errors: FUR_ESYS, as heap_lock_give_back().  A working process may ignore the error: it goes on
 * replaying, and gives the right back after its next replay, or when it closes the file.  A
 * replayer waits until then.  A replayer must not ignore the error, because it would keep the
 * working process from replaying. */
int control_give_back(struct durability *d);

/* ----------------------------------------------------------- a working process */

/* Initialise the control region for this process.  Called under the right to replay, when
 * everything is replayed. */
void control_reset(struct durability *d);
/* Announce to the replayer's watch that this process is about to mark the heap as open.  The watch
 * then waits for the end of this process.  Called with the worker's lock held, and before the mark:
 * a process could otherwise die between mark and announcement.  Then the watch, which sleeps until
 * an announcement, would not look at the lock, and the heap would stay unrecovered until the next
 * process opens it. */
void control_opened(struct durability *d);

/* Wake the replayer if there is enough for it to replay.  An update calls this after it has written
 * its marker, if wake_at shows that the replayer sleeps.  No fence orders the marker before the
 * load of wake_at, so a replayer that is falling asleep may miss one update's call.  That is
 * harmless: the next update calls again, and a thread that finds no room always calls. */
void control_wake(struct durability *d, uint32_t me, uint64_t durts);

/* Copy the tails that another process's replay has moved.  False: it has moved none. */
bool control_refresh(struct durability *d);

/* The newer of the two tails: a replayer's, and the one that this process last read. */
uint64_t control_newest_tail(const struct durability *d);

/* Call the replayer, and sleep until it has replayed something, for at most 100 ms.  False: it has
 * replayed nothing. */
bool control_wait_for_replayer(struct durability *d);

/* ------------------------------------------------------------------- replayer */

/* Publish a replay that is durable up to d->tail (INV-C3).  The caller has published the logs'
 * tails before. */
void control_publish(struct durability *d, uint64_t updates, uint64_t entries);

/* Wake the replayer. */
void control_call(struct control *c);

#endif /* FUR_CONTROL_H */
