/* SPDX-License-Identifier: BSD-3-Clause
 *
 * update.h - the verbs of fur.h: how updates begin, store and end (update.c, run.c, store.c,
 * commit.c, roll_back.c), and read-only transactions (reader.c, join.c, optimistic.c).
 *
 * With in_place.h and fresh.h it is the contract of src/update: how updates begin, store, commit
 * and roll back; updates in place; read-only transactions.
 */
#ifndef FUR_UPDATE_H
#define FUR_UPDATE_H

#include "stm/software.h"

/* May the thread begin a transaction without joining one?  `to`: where the caller wants it. */
static inline bool tx_is_outermost(const struct fur_thread *t, const void *to)
{
	return t && to && t->owner == this_thread() && !this_thread()->open;
}
/* Misuse: sets the message, returns the error.  `join`: as for tx_refuse_begin(). */
FUR_MUST_USE int update_refuse_outermost(
        const struct fur_thread *t, fur_update **update, const char *function, const char *join);

/* Prepare an attempt, outside hardware transactions: a new number for the update, an empty
 * record. */
void attempt_prepare(struct fur_thread *t, enum redo_kind kind);

/* Begin an update: fur_begin_update() without the checks of its arguments.  Errors: as it. */
FUR_MUST_USE int update_begin(struct fur_thread *t, struct fur_update **update);
/* The same for one that is serial, whatever the machine has. */
FUR_MUST_USE int update_begin_serial(struct fur_thread *t, struct fur_update **update);
/* The same in two steps.  In between the caller logs stores by redo_append_only() alone, and no
 * other thread waits for it: the thread has no turn, and is not in active[].  The second step must
 * follow, also after an error of store_make_room(). */
FUR_MUST_USE int update_prepare_serial(struct fur_thread *t, struct fur_update **update);
void update_begin_prepared(struct fur_thread *t);

/* May an update begin?  Errors: FUR_EFORK, FUR_EREADONLY, those for which the heap has failed, and
 * those of ship_admit(). */
FUR_MUST_USE int update_may_begin(struct fur_thread *t);
/* If there are more threads than cores: wait until the update is let in (tx/crowd.h).  It keeps its
 * place until tx_leave_core(). */
void update_enter_core(struct fur_thread *t);

/* Open a part of an update over several heaps, whose begin the caller carries out.  Its depth is
 * that of one that is joined, so that its end is not taken for the update's. */
enum { TOGETHER_DEPTH = 2 };
void update_open_part(struct fur_thread *t);

/* Commit the thread's open update, which is the outermost.  UPDATE_DEFEATED: another update has
 * overwritten a word that the concurrent body loaded; the update has ended, and must run again. */
FUR_MUST_USE int update_commit(struct fur_update *tx);
/* Undo what the open update has done, and end it: it has failed, or the program aborts it.
 * Returns: why, with a message. */
FUR_MUST_USE int update_roll_back(struct fur_update *tx);
/* The same in three steps: leave active[] and give the turn; wait for what it has read; say why. */
void update_roll_back_leave(struct fur_update *tx);
void update_roll_back_wait(struct fur_thread *t);
int update_say_rolled_back(struct fur_thread *t, int error);

/* fur_commit() or fur_abort() of one part of an update over several heaps: FUR_ENESTED. */
int update_refuse_part(const char *function);

/* The end of an update that wrote nothing, and is not active any more: it waits for what it has
 * read.  Errors: those for which the heap has failed. */
FUR_MUST_USE int update_finish_empty(struct fur_thread *t);

/* Where the heap's updates run (switch.c).  The calling thread has no transaction open.  They wait
 * for the turn; updates_to_software() also until all updates that were announced are durable. */
void updates_to_software(struct engine *e);
void updates_to_hardware(struct engine *e);
/* The thread's update has committed, and ended: learn what it has lost, and move updates if that
 * pays.  For heaps that choose (engine.switches). */
void updates_learn(struct fur_thread *t);
/* The same before another attempt in hardware.  True: updates have moved, so this one has no more
 * attempts there. */
bool updates_learn_early(struct fur_thread *t);

/* Misuse: sets the message, returns the error. */
FUR_MUST_USE int reader_refuse_outermost(
        const struct fur_thread *t, fur_ro **ro, const char *function);

/* The steps of a read-only transaction (reader.c). */
/* `claim`: if updates are in, let readers in instead.  False: updates are in, and `claim` is not
 * set. */
bool reader_enter(struct fur_thread *t, bool claim);
/* The thread has entered: the transaction is open. */
void reader_opened(struct fur_thread *t, fur_ro **ro);
void reader_collect(struct fur_thread *t, struct dset *set);
uint64_t reader_leave(struct fur_thread *t);

/* The steps of an optimistic reader (optimistic.c).  After this many runs in vain it runs
 * otherwise. */
enum { READER_RUNS = 3 };
/* Would a plain reader be better, or right at all? */
bool reader_is_better_plain(const struct fur_thread *t);
/* From now on fur_load() takes words that are older than the snapshot, and settled.  False: a sweep
 * has begun since the snapshot, and the body must run again. */
FUR_MUST_USE bool reader_set_bound(struct fur_reader *r);
/* The reader is not active any more: wait until all that it has read is durable.  Errors: those
 * for which the heap has failed. */
FUR_MUST_USE int reader_wait(struct fur_thread *t);

/* If the thread has an optimistic reader open (optimistic.c): end it; or let its body run again, as
 * a plain reader, unless it does already. */
void reader_abandon(struct fur_thread *t);
void reader_turns_plain(struct fur_thread *t);

/* Begin a snapshot of each heap, all of one instant, as fur_snapshot_begin() does.  The engines of
 * several heaps are in the order of their members. */
FUR_MUST_USE int snapshots_begin(
        struct engine *const *engines, unsigned n, struct fur_snapshot **snapshots);

/* Run body(reader, arg) in a snapshot, as fur_snapshot_run() does.  Sets *again if libfur has left
 * the body, because the snapshot is revoked. */
FUR_MUST_USE int reader_run_in(struct fur_thread *t, struct fur_snapshot *s,
        void (*body)(fur_reader *, void *), void *arg, const struct fur_run *how, bool *again);

/* The log of the open update is full: make room.  False: the update has failed.  In hardware it
 * does not return. */
bool store_make_room(struct fur_update *tx);
/* Roll back and end the transaction that the thread has open, inner ones included. */
void tx_roll_back_all(struct fur_thread *t);

#endif /* FUR_UPDATE_H */
