/* SPDX-License-Identifier: BSD-3-Clause
 *
 * together.h - an update over several heaps: how its body runs and how it commits.
 */
#ifndef FUR_UPDATE_TOGETHER_H
#define FUR_UPDATE_TOGETHER_H

#include "stm/together.h"

#include <fur.h>

/* together_run - run body(arg) as one update over the heaps of g->parts, whose threads and members
 * are set, and commit it; again if it is defeated.  The body loads and stores by the parts' updates
 * (fur_thread.update).  `leave`: as in fur_update_run().  *id: a counter of the group, from which
 * the update takes its number when it commits.
 * Errors:  as fur_group_run(). */
FUR_MUST_USE int together_run(
        struct together *g, void (*body)(void *arg), void *arg, void (*leave)(void), uint64_t *ids);

/* together_read - run body(arg) as a read-only transaction over the heaps of g->parts, whose
 * threads are set: optimistic, and after READER_RUNS runs in vain plain.  The body loads by the
 * parts' readers (fur_thread.reader).
 * Errors:  as fur_group_read_run(). */
FUR_MUST_USE int together_read(
        struct together *g, void (*body)(void *arg), void *arg, void (*leave)(void));

/* Its steps in roll_back.c: the part whose update has failed, or NULL; and the end of one of which
 * no part is open any more. */
struct together_part *together_failed(struct together *g);
void together_close(struct together *g);

/* together_roll_back - undo what the open update has done in all heaps, and end it.
 * Returns: why, with a message. */
int together_roll_back(struct together *g);

#endif /* FUR_UPDATE_TOGETHER_H */
