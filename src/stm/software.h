/* SPDX-License-Identifier: BSD-3-Clause
 *
 * software.h - updates in software: the body runs beside readers and other updates, its stores
 * stay in the redo log, and the commit publishes them (publish.c).  docs/protocol.md, "Software
 * updates", has the argument.  The contract of src/stm: updates in software: their bodies, and how
 * these become visible.
 *
 * A serial software update holds the publication turn from begin to end.  So no other software
 * update publishes meanwhile, and its body never runs again.  A concurrent one takes the turn only
 * to publish.  It remembers the value of every word that it has loaded; if another update has
 * changed one of them, the update is defeated, and its body runs again.
 *
 *   INV-SW1  The loads of a software body are consistent: they are of one state of the heap, its
 *           snapshot.  A publication makes `publications.now` odd, then stamps a line before it
 *           stores to it.  So a body that loads a word and then finds its stamp no newer than the
 *           snapshot has loaded the snapshot's value.
 *   INV-SW2  When a concurrent update publishes, every word that it has loaded still has the value
 *           that it loaded: it compares them while it has the turn, or as a member of a batch
 *           (INV-SW7).
 *   INV-SW3  While a publication stores in place, no reader is active (readers_shut_out), unless
 *           hardware makes all the stores in one step.
 *   INV-SW4  A hardware update waits for software bodies as it waits for readers: they are in
 *           active[].  So a hardware update never changes a word under a software body.
 *   INV-SW5  A publication that shuts readers out, and then finds no other software body active,
 *           needs no stamps: a body that begins later finds `shut` set, and waits.
 *   INV-SW6  A serial update is never defeated.
 *   INV-SW7  While the turn's holder keeps readers out, concurrent updates that wait for the turn
 *            may publish beside it.  Each claims its lines by stamps, and then compares the words
 *            that it has loaded and looks for claims of others on them.  So of two updates of which
 *            one reads what the other writes, at most one publishes, or the reader comes first.
 *            The holder lets readers in when each of them has ended.
 *   INV-SW8  A thread that makes several updates durable, its own and those that it has served,
 *            does so in the order of their durTSs.  An update waits, before it is durable, for
 *            lower durTSs only (INV-D3, INV-D9).  So no thread waits for an update that it makes
 *            durable later.
 */
#ifndef FUR_SOFTWARE_H
#define FUR_SOFTWARE_H

#include "tx/active.h"

/* -------------------------------------------------------------- publications */

/* A stamp is the number of the last publication that wrote, or claimed, one of the lines that share
 * the stamp, and 1 + the index of the thread.  Lines are of 64 bytes on every processor, because a
 * stamp's granularity is no matter of caches. */
enum {
	PUBLICATION_STAMPS_LOG = 20,
	PUBLICATION_STAMPS = 1 << PUBLICATION_STAMPS_LOG,
	STAMP_LINE_SHIFT = 6,
	STAMP_THREAD_BITS = 16
};

static inline uint64_t *stamp_of(const struct engine *e, const void *at)
{
	uint64_t line = (uintptr_t)at >> STAMP_LINE_SHIFT;
	return &e->publications.stamps[line * UINT64_C(0x9e3779b97f4a7c15) >>
	                               (64 - PUBLICATION_STAMPS_LOG)];
}

static inline uint64_t stamp_number(uint64_t stamp)
{
	return stamp >> STAMP_THREAD_BITS;
}

/* The index of the thread that made the stamp. */
static inline uint32_t stamp_thread(uint64_t stamp)
{
	return (uint32_t)(stamp & ((UINT64_C(1) << STAMP_THREAD_BITS) - 1)) - 1;
}

static inline uint64_t stamp_by(uint64_t number, uint32_t thread)
{
	return number << STAMP_THREAD_BITS | (thread + 1);
}

/* publication_begin - the number of publications becomes odd: bodies look at stamps.
 * Orders:  nothing; see stamp_line().
 * Returns: the number of the publication. */
uint64_t publication_begin(struct engine *e);

/* The publication is over.  Release: a body that sees the new number sees every store of the
 * publication. */
void publication_end(struct engine *e);

/* Stamp the line of `at` with publication `number` of `thread`, which has the turn.
 * Orders:  the caller orders its last stamp before its first store (light fence).  If a store came
 *          first, a body could load its new value, and then find an old stamp: it would mix two
 *          states (plant: stamp-after-store; no-stamp-fence: where stores may pass stores). */
static inline void stamp_line(struct engine *e, const void *at, uint64_t number, uint32_t thread)
{
	arch_store(stamp_of(e, at), stamp_by(number, thread));
}

/* Stamp every line of the update's write set with publication `number`; for a bulk update, every
 * line of the heap, by one store.  A body that runs beside it then waits at its next load, and
 * compares the words that it has loaded once.  A stamp for each line of a million records would
 * keep all others out for longer than the stores do.
 * Orders:  the stamps, and the odd number of publications, before the caller's later stores to the
 *          lines (light fence): see stamp_line(). */
void stamp_writes(struct fur_thread *t, uint64_t number);

/* Stamp every line of the range, before the caller stores there beside software bodies (INV-SW1).
 * Orders:  the stamps before the caller's later stores (light fence): see stamp_line(). */
void stamp_range(struct fur_thread *t, const void *to, size_t bytes, uint64_t number);

/* ------------------------------------------------------------------ software.c */

/* The end of a body that fur_update_run() runs again: another update has overwritten a word that it
 * had loaded. */
enum { UPDATE_DEFEATED = 1 };

/* A body that was defeated so often runs serially. */
enum { SOFTWARE_TRIES = 2 };

/* Begin a software body in `mode`; a serial one has the turn.  The attempt is prepared. */
void software_begin(struct fur_thread *t, enum tx_mode mode);

/* Leave active[], after the update has collected D; a serial one gives the turn. */
void body_end(struct fur_thread *t);
/* The same without the turn, which is given already. */
void body_inactive(struct fur_thread *t);

/* Compare the words that the update has loaded with the heap, and move its snapshot to now.
 * Returns: false: a value has changed.  The update is defeated. */
FUR_MUST_USE bool software_extend(struct fur_thread *t);

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

/* Make the updates durable that the thread has published for others, and wake their threads with
 * one system call.  The thread has made its own update durable, which has a lower durTS than they
 * (INV-SW8). */
void publish_persist_served(struct fur_thread *t);

#endif /* FUR_SOFTWARE_H */
