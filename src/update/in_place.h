/* SPDX-License-Identifier: BSD-3-Clause
 *
 * in_place.h - updates in place: the thread holds the turn, readers are shut out, and each store
 * goes to the log and the heap at once.  Without hardware transactions, a thread that meets no
 * other runs its short updates in place; and a software update in which a reader begins turns into
 * one in place.
 */
#ifndef FUR_IN_PLACE_H
#define FUR_IN_PLACE_H

#include "update/update.h"

/* Has no thread met this one, or any other, for a while?  Then its next update runs in place. */
FUR_MUST_USE bool in_place_pays(struct fur_thread *t);
/* Learn from an update that has committed in `mode`, for the next ones of its thread. */
void policy_learn(struct fur_thread *t, enum tx_mode mode);

/* Begin an update in place.  Errors: FUR_EFORK. */
FUR_MUST_USE int in_place_begin(struct fur_thread *t);
/* Turn the open software update into one in place, because plain loads must see its stores.  A
 * concurrent one may be defeated: then this does not return. */
void in_place_from_software(struct fur_update *tx);

/* Log the store of an update that stores in place or in hardware, and store.  The source lies
 * elsewhere. */
void in_place_store(struct fur_update *tx, void *to, const void *from, uint64_t bytes);
/* Undo what an update that has failed has stored since, before redo_undo(). */
void in_place_undo_unlogged(struct fur_update *tx);

/* Make the update visible, and let it draw its durTS. */
void in_place_commit(struct fur_thread *t);
/* Let readers in, and give the turn. */
void in_place_leave(struct fur_thread *t);

#endif /* FUR_IN_PLACE_H */
