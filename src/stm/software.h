/* SPDX-License-Identifier: BSD-3-Clause
 *
 * software.h - updates in software: the body runs beside readers and other updates, its stores
 * stay in the redo log, and the commit publishes them (publish.c).  docs/protocol.md, "Software
 * updates", has the argument.  The contract of src/stm: updates in software: their bodies, and how
 * these become visible.
 *
 * A serial software update holds the publication turn from begin to end.  So no other software
 * update publishes meanwhile, and its body never runs again.  A concurrent one remembers the value
 * of every word that it has loaded; if another update has changed one of them, the update is
 * defeated, and its body runs again.
 *
 *   INV-SW1  The loads of a concurrent body are consistent: they are of one state of the heap, its
 *            snapshot, that of all updates whose durTSs are below it.  The body looks at the stamp
 *            of the line before and after it loads a word.  If the stamp was free, and older than
 *            the snapshot, both times, the word is the snapshot's (INV-ST1).  If it is also older
 *            than all updates that may still be in flight, the look afterwards is enough.
 *   INV-SW2  When a concurrent update publishes, every word that it has loaded has the value that
 *           it loaded: after its draw it looks at the stamps, and no update of a lower durTS has
 *           published to one of the words since.  So the order of the durTSs is the order of the
 *           updates.
 *   INV-SW3  While a publication stores in place, no plain reader is active (readers_shut_out),
 *           unless hardware makes all the stores in one step.
 *   INV-SW4  A hardware update waits for software bodies as it waits for readers: they are in
 *           active[].  So a hardware update never changes a word under a software body.
 *   INV-SW5  An update in place or a bulk update that shuts readers out, and then finds no body
 *           active, needs no sweep: a body that begins later finds ALL_OUT, and waits.
 *   INV-SW6  A serial update is never defeated.
 *   INV-SW7  Updates publish beside each other only while `shut` is UPDATES_IN.  Each says so in
 *           active[i].publishing, and then looks at `shut`; who shuts them out changes `shut`, and
 *           then waits for those that have said so.  So while readers are in, or the turn's holder
 *           stores alone, none publishes.
 *   INV-SW8  While an update publishes beside others, it waits for no other update: not until one
 *            is durable, nor for the turn, and only briefly for a stamp.  The turn's holder waits
 *            for it, and may be that update.  One over several heaps waits for the turn of a later
 *            heap (INV-GU3).
 */
#ifndef FUR_SOFTWARE_H
#define FUR_SOFTWARE_H

#include "durability/dset.h"
#include "stm/stamps.h"

/* ------------------------------------------------------------------ software.c */

/* The end of a body that fur_update_run() runs again: another update has overwritten a word that it
 * had loaded. */
enum { UPDATE_DEFEATED = 1 };

/* A body that was defeated so often runs serially, which lets no other update publish. */
enum { SOFTWARE_TRIES = 64 };

/* Enter active[] as a body, when not all are shut out.  The caller has set its bound.
 * Orders:  as active_enter_software(). */
void body_enter(struct fur_thread *t);

/* The snapshot of a body that begins: next_durts at any time before.  And next_durts now. */
uint64_t software_first_snapshot(struct fur_thread *t);
uint64_t software_look_at_clock(struct fur_thread *t);

/* The bound of a body that may load what its snapshot has: to load what is not settled costs more,
 * because the body notes from whom it has read.  Below 0 there is no version, so each load comes to
 * software_load(), which looks at the clocks (INV-GU12). */
static inline uint64_t software_bound(const struct fur_thread *t)
{
	const uint64_t settled = t->window.commit.dset.settled;
	if (unlikely(t->together != NULL) && !t->window.commit.dset.by_version)
		return 0;
	return t->software.snapshot < settled ? t->software.snapshot : settled;
}

/* A body has loaded this version. */
static inline void software_note_version(struct fur_thread *t, uint64_t version)
{
	if (version >= t->window.commit.dset.settled)
		dset_add(t->durability, &t->window.commit, version);
}

/* What was stored past the stamps counts as read: at the begin, and after a sweep. */
void software_note_unstamped(struct fur_thread *t);

/* Begin a software body in `mode`; a serial one has the turn.  The attempt is prepared. */
void software_begin(struct fur_thread *t, enum tx_mode mode);
/* The same in three steps, between which the bodies of one update enter several heaps: before it
 * enters active[], that, and afterwards. */
void body_prepare(struct fur_thread *t);
void body_entered(struct fur_thread *t, enum tx_mode mode);

/* Leave active[], after the update has collected D; a serial one gives the turn. */
void body_end(struct fur_thread *t);
/* The same without the turn, which is given already. */
void body_inactive(struct fur_thread *t);

/* Compare the words that the update has loaded with the heap, and move its snapshot to now.  The
 * same in all heaps, if the update is over several (INV-GU2).
 * Returns: false: a value has changed.  The update is defeated. */
FUR_MUST_USE bool software_extend(struct fur_thread *t);

/* Load a word at the body's snapshot, which moves if the word's stamp is newer.  The caller adds
 * the word to the read set.
 * Returns: false: a word that the body has loaded has changed, and no snapshot has both. */
FUR_MUST_USE bool software_load(struct fur_thread *t, const uint64_t *word, uint64_t *to);

/* End a defeated update, outside the body: it has left active[], and runs again. */
void body_defeat(struct fur_thread *t);
/* The same inside the body, and leave the body for fur_update_run(). */
void body_defeat_and_jump(struct fur_thread *t) __attribute__((noreturn));
/* Leave the body of an update that has ended, defeated. */
void body_jump_out(struct fur_thread *t) __attribute__((noreturn));

/* The update, of any mode, accesses bytes of the heap: report that if a memory checker says that
 * they are hidden (INV-MC1).  Does not return if it finds a concurrent update defeated. */
void software_check_blocks(struct fur_update *tx, const void *at, uint64_t bytes, bool store);

/* A store of the body.  False: no memory for words that it has not stored to before; the others
 * have their new values. */
FUR_MUST_USE bool software_note_store(
        struct fur_update *tx, void *to, const void *from, uint64_t bytes);

/* ------------------------------------------------------------------- publish.c */

/* Make the stores of the thread's software update visible, announce it in nondurable[] and let it
 * draw its durTS; then leave active[] and give the turn.  Errors: UPDATE_DEFEATED; those of
 * durability_abort(), FUR_EFORK.  Nothing is visible then. */
FUR_MUST_USE int publish(struct fur_thread *t);

#endif /* FUR_SOFTWARE_H */
