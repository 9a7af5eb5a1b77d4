/* SPDX-License-Identifier: BSD-3-Clause
 *
 * turn.h - the publication turn (turn.c), and the word that shuts readers out (shut_out.c).
 */
#ifndef FUR_TURN_H
#define FUR_TURN_H

#include "base/arch.h"

#include <stdbool.h>

struct engine;

enum turn {
	TURN_FREE,
	TURN_TAKEN,
	TURN_WANTED /* taken, and a thread may be asleep until it is free */
};

/* The publication turn, and the word that shuts readers out.  Owner: tx/turn.c. */
struct publication_lock {
	/* 0 or 1.  Every transaction reads it, so nothing that changes often shares its line.
	 * Owner: tx/shut_out.c. */
	uint64_t shut ARCH_PADDED;
	/* 0, or the struct marks of the bulk update that runs (marks.h).  On that line, so that a
	 * hardware update that has read neither word anew is aborted when one of them changes.
	 * Owner: tx/marks.c. */
	uint64_t marks;
	uint64_t taken ARCH_PADDED; /* the turn: enum turn.  A futex. */
	/* 0, or the publication that other updates may join: they publish beside the turn's holder.
	 * Owner: stm/publish.c. */
	uint64_t gate;
	uint64_t waiters;       /* threads that wait for the turn, awake or asleep */
	uint64_t turn_sleepers; /* threads that sleep on `taken` */
	uint64_t reserved;      /* turns reserved so far */
	uint64_t served;        /* of them, turns handed over.  A futex. */
	uint64_t served_sleepers;
	/* Grows whenever `shut` is reset.  A futex: threads sleep on it while `shut` is set.
	 * Owner: tx/shut_out.c. */
	uint64_t releases ARCH_PADDED;
	uint64_t sleepers; /* threads that sleep on it.  Owner: tx/shut_out.c. */
	/* Only the holder's: when it may wake them again, in ticks.  Owner: tx/shut_out.c. */
	uint64_t next_call;
};

enum {
	TURN_PATIENCE_NS = 1000000,
	/* In pauses: so long a thread stays awake, if others wait too, before it sleeps. */
	TURN_SPINS = 300
};

/* Take the publication turn: at most one thread has it. */
void turn_take(struct engine *e);
void turn_give(struct engine *e);

/* The same step by step, for a thread that may be published while it waits: begin from {0}. */
struct turn_wait {
	unsigned looks;
	bool slept;
	uint64_t began; /* when the thread was tired first, in ns */
};
/* Take the turn, if it is free. */
FUR_MUST_USE bool turn_try(struct engine *e, const struct turn_wait *wait);
/* Has the thread looked often enough, so that it should sleep now? */
FUR_MUST_USE bool turn_should_sleep(const struct engine *e, struct turn_wait *wait);
/* Sleep until the turn may be free, unless *word is no longer `expected`. */
void turn_sleep(struct engine *e, struct turn_wait *wait, const uint64_t *word, uint64_t expected);
/* Has the thread waited so long that it should reserve a turn (INV-L1)? */
FUR_MUST_USE bool turn_waited_long(struct turn_wait *wait);
/* Take the turn, as one that the thread reserves.  Not turn_take(): the thread may have got a
 * wake-up that others need, so it must take the turn as one for which others sleep (INV-L2). */
void turn_reserve(struct engine *e);
/* Wake every thread that sleeps until the turn is free. */
void turn_wake_all(struct engine *e);
/* Stop waiting, without the turn. */
void turn_forward_wakeup(struct engine *e, const struct turn_wait *wait);

/* readers_shut_out - set `shut`, and wait until no reader is active.  The caller has the turn.
 * Returns: true if a software body is active besides the caller's own: then stores in place need
 *          stamps (INV-SW5). */
FUR_MUST_USE bool readers_shut_out(struct engine *e, uint32_t me);
/* Reset `shut`.  Release: a thread that finds it reset sees the caller's stores, and its entry in
 * nondurable[] (INV-D1). */
void readers_let_in(struct engine *e);

/* An update that has found readers shut out for this many releases takes a turn itself. */
enum { UPDATE_RELEASES = 200 };

/* For an update that will try hardware: wait until this thread sees `shut` reset.  False: for
 * UPDATE_RELEASES releases, `shut` was set whenever this thread looked.  Then the update must take
 * a turn itself (INV-L4). */
FUR_MUST_USE bool update_awaits_let_in(struct engine *e, uint32_t me);
/* For a reader that is shut out: wait until it may try again. */
void reader_awaits_let_in(struct engine *e, uint32_t me);

#endif /* FUR_TURN_H */
