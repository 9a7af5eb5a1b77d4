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

/* Who may be active (shut_out.c has the protocol).  Only the turn's holder changes it. */
enum shut {
	READERS_IN, /* plain readers; no update publishes in place */
	ALL_OUT,    /* the turn's holder stores in place, alone, or waits until it can */
	UPDATES_IN  /* no plain reader; concurrent updates publish beside each other */
};

/* Where the heap's updates run (update/switch.c has the protocol).  Only the turn's holder changes
 * it; but SOFTWARE_SETTLES turns into SOFTWARE without the turn. */
enum updates_run {
	HARDWARE,         /* in hardware if they can, else in software, one publishing at a time */
	SOFTWARE_SETTLES, /* in software; hardware updates may not be durable yet */
	SOFTWARE          /* in software, beside each other, and the versions tell who read what */
};

/* The publication turn, and the word that shuts readers out.  Owner: tx/turn.c. */
struct publication_lock {
	/* enum shut.  Every transaction reads it, so nothing that changes often shares its line.
	 * Owner: tx/shut_out.c. */
	uint64_t shut ARCH_PADDED;
	/* enum updates_run; always SOFTWARE without hardware transactions.  On that line, which
	 * hardware updates track, so that a change aborts them.  Owner: update/switch.c. */
	uint64_t updates;
	/* 0, or the struct marks of the bulk update that runs (marks.h).  On that line, so that a
	 * hardware update that has read neither word anew is aborted when one of them changes.
	 * Owner: tx/marks.c. */
	uint64_t marks;
	/* The number of the newest snapshot that is open; 0: none is, and who stores need not save.
	 * Owner: stm/images.{h,c}. */
	uint64_t snapshot;
	/* The greatest durTS of an update that has stored past the stamps; on that line, which such
	 * an update writes anyway.  Owner: stm/stamps.{h,c}. */
	uint64_t unstamped;
	/* Below this durTS all were settled when updates moved to software last; on that line,
	 * which the move writes anyway.  Owner: update/switch.c. */
	uint64_t settled;
	uint64_t taken ARCH_PADDED; /* the turn: enum turn.  A futex. */
	uint64_t waiters;           /* threads that wait for the turn, awake or asleep */
	uint64_t reserved;          /* turns reserved so far */
	uint64_t served;            /* of them, turns handed over.  A futex. */
	uint64_t served_sleepers;
	/* Grows whenever `shut` is reset.  A futex: threads sleep on it while `shut` is set.
	 * Owner: tx/shut_out.c. */
	uint64_t releases ARCH_PADDED;
	uint64_t sleepers; /* threads that sleep on it.  Owner: tx/shut_out.c. */
	/* Only the holder's: when it may wake them again, in ticks.  Owner: tx/shut_out.c. */
	uint64_t next_call;
	/* Only the holder's: when a plain reader claimed the heap last, and until when plain
	 * readers come first, in ticks.  Owner: tx/shut_out.c. */
	uint64_t claimed, readers_until;
};

enum {
	TURN_PATIENCE_NS = 1000000,
	/* In pauses: so long a thread stays awake, if others wait too, before it sleeps. */
	TURN_SPINS = 300
};

/* Take the publication turn: at most one thread has it. */
void turn_take(struct engine *e);
void turn_give(struct engine *e);

/* Take the turn, unless `shut` is, or becomes, `in`.  Returns false then, without the turn.  With
 * the turn, the caller looks at `shut` again. */
FUR_MUST_USE bool turn_take_unless(struct engine *e, enum shut in);

/* Take the turn, and let readers in if updates are in: no update publishes before the caller does,
 * or gives the turn. */
void turn_take_alone(struct engine *e);

/* updates_await - wait for each update that publishes beside others now, until it has published.
 * The caller has the turn.
 * Orders:  their stores before what follows (acquire). */
void updates_await(const struct engine *e);

/* What readers_shut_out() has found. */
struct shut_out {
	bool bodies; /* one is active besides the caller's own: stores in place sweep (INV-SW5) */
	bool met;    /* it has found another transaction, or one waits for the turn */
};

/* readers_shut_out - let none in any more, and wait until no plain reader is active, and no
 * update that publishes beside others.  The caller has the turn. */
FUR_MUST_USE struct shut_out readers_shut_out(struct engine *e, uint32_t me);
/* One attempt, which waits at most `most` ticks for the readers that are active.  False: one takes
 * longer.  Readers are in again; the caller waits for that reader without this heap's turn, or
 * tries again. */
FUR_MUST_USE bool readers_try_shut_out(
        struct engine *e, uint32_t me, uint64_t most, struct shut_out *found);
/* Let readers in.  Release: a thread that finds `shut` reset sees the caller's stores, and its
 * entry in nondurable[] (INV-D1). */
void readers_let_in(struct engine *e);
/* Let updates in, which publish beside each other from now on.  Release, as readers_let_in(). */
void updates_let_in(struct engine *e);
/* Let the updates in that wait for the turn, and then shut all out again. */
void updates_let_in_briefly(struct engine *e);
/* Have plain readers claimed the heap lately, so that they should come first? */
FUR_MUST_USE bool readers_come_first(const struct engine *e);

/* An update that has found readers shut out for this many releases takes a turn itself. */
enum { UPDATE_RELEASES = 200 };

/* For an update that will try hardware: wait until this thread sees `shut` reset.  False: updates
 * run in software now; or for UPDATE_RELEASES releases, `shut` was set whenever this thread looked.
 * Then the update must take a turn itself (INV-L4). */
FUR_MUST_USE bool update_awaits_let_in(struct engine *e, uint32_t me);
/* For a reader, or a body, that has found ALL_OUT: wait until it may try again. */
void reader_awaits_let_in(struct engine *e, uint32_t me);
/* For a plain reader that has found UPDATES_IN: wait until readers are in.  Returns true with the
 * turn: then the caller becomes active, and gives the turn.  With `insists` it does so always
 * (INV-L3). */
FUR_MUST_USE bool reader_claims(struct engine *e, uint32_t me, bool insists);

#endif /* FUR_TURN_H */
