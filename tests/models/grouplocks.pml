/* SPDX-License-Identifier: BSD-3-Clause
 *
 * grouplocks.pml - an update over two heaps: isolation and progress of its commit.  Each heap has
 * its own turn, `shut`, next_durts, stamps and durTSs (parallel.pml has those of one heap, and the
 * steps that are one here: a load with its two looks, the hold of a stamp).
 *
 * Group updates 0 and 1 each have a part in both heaps.  The commit enters each heap that it
 * writes: it says that it publishes while updates are in, or it takes the turn.  Then it shuts
 * readers out where it has the turn, holds its stamps, draws its durTSs, looks at what it has
 * loaded, and stores.
 *
 * Settings:
 *   -DONE          group update 0 alone
 *   -DLOCAL        an update of heap 1 alone, which stores another word of the same line
 *   -DPLAINLY      a plain reader of both heaps
 *   -DOPTIMISTIC   an optimistic reader of both heaps
 *   -DHARD         the updates of heap 1 alone run in hardware, and there is one: it commits in one
 *                  step, waits for readers and bodies, and has no stamps.  Updates are never in
 *   -DSERIAL       group update 1 holds both turns from its begin
 *   -DROOM         with -DLOCAL: while the local update has the turn of heap 1, its set of
 *                  dependencies is full.  It waits until the group updates that have drawn are
 *                  durable, which they become after they have left all heaps
 *
 *   -DEMPTY        with -DHARD, in place of all these: two bodies load both words, and store nothing;
 *                  an update of heap 0 alone, in software; one of heap 1, in hardware, which looks
 *                  who is active, waits for these, and then commits, unless another has loaded what
 *                  it stores
 *
 * Workloads:
 *   by default     each group update adds 1 to both words
 *   -DCROSS        group update 0 stores 1 in heap 1 if it finds 0 in heap 0; group update 1 does
 *                  the reverse
 *
 * Checked: one serial order explains all updates (INV-GU1); each body, also one that is defeated
 * later, has loaded one state of all heaps (INV-GU2); no thread waits forever (INV-GU3).
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   LOOKEARLY    the commit holds and looks heap by heap (INV-GU1)
 *   LOOKWRITTEN  it looks only in the heaps that it writes (INV-GU1)
 *   HEAPBYHEAP   it holds, draws, looks, stores and frees heap by heap (INV-GU1)
 *   EXTENDALONE  an extension compares what was loaded from that heap (INV-GU2)
 *   SNAPLATE     the snapshot of a heap may be taken after a load from another (INV-GU2)
 *   UNORDERED    heaps are entered in any order (INV-GU3)
 *   TURNSFIRST   who closes several heaps to updates takes all turns first (INV-GU3)
 *   READERWAITS  a reader claims heap 1 while it is active in heap 0 (INV-GU3)
 *   LEAVEWAITS   who leaves a heap lets updates in, and waits for those that publish (INV-GU3)
 *   CLOCKSUNREAD  a body does not look at the clocks after a load (INV-GU12)
 *   BODYLEAVES   a group update leaves active[] before it has shut out hardware updates (INV-SW4)
 *   SERIALONE    a serial update holds the turn of heap 0 only from its begin (INV-SW6)
 *
 * A step that nothing else needs.  Without it everything still holds:
 *   -DOPENEARLY  heap 0 is open again before the update has stored to heap 1
 */
#define H 2
#define NG 2
#define THELOCAL 2   /* the process of the update of heap 1 alone */
#define NU 3
#define HELD 8       /* + the process */
#define READERS_IN 0
#define SHUT 1
#define UPDATES_IN 2

/* --------------------------------------------------------------- shared words */
byte word[H];
byte stamp[H];
byte next[H] = 1;
byte shut[H];
bool turn[H];
bool act[H];            /* active[] of the plain reader */
bool publishing[NU * H];
#ifdef ROOM
bool drawn[NU];         /* it has drawn in heap 1, and not left all heaps */
#define DRAWN(h, is) drawn[me] = (h == 1 -> is : drawn[me])
#else
#define DRAWN(h, is) skip
#endif
#ifdef HARD
bool body[NG];          /* active[] of bodies, in both heaps */
/* Group updates add 1, the hardware update HARDWARE. */
#define HARDWARE 16
#define SAME(a, b) ((a) % HARDWARE == (b) % HARDWARE)
#else
#define SAME(a, b) ((a) == (b))
#endif
#ifdef EMPTY
bool touched;           /* a body has loaded word 1 since the hardware update has stored to it */
byte saw[NG];           /* bits: 1 it has ended, 2 heap 0's update, 4 heap 1's */
#endif

#define OF(u, h) ((u) * H + (h))
#define BIT(k) (1 << (k))
#define IN(set, k) (((set) >> (k)) & 1)
#ifdef CROSS
#define READS(u)  BIT(u)
#define WRITES(u) BIT(1 - (u))
#else
#define READS(u)  3
#define WRITES(u) 3
#endif
/* The heaps in which it looks at what it has loaded. */
#ifdef LOOKWRITTEN
#define LOOKS(u) (READS(u) & WRITES(u))
#else
#define LOOKS(u) READS(u)
#endif

#define PUBLISHES(h) \
	(publishing[OF(0, h)] || publishing[OF(1, h)] || publishing[OF(THELOCAL, h)])

/* ------------------------------------------------------------- one heap's steps */

inline take(h) {
	atomic { !turn[h] -> turn[h] = true }
}
inline close(h) {
	if
	:: shut[h] == UPDATES_IN -> shut[h] = SHUT; !PUBLISHES(h); shut[h] = READERS_IN
	:: else
	fi
}
/* Who claims all heaps: a reader of both, or a serial update. */
inline take_all_alone() {
#ifdef TURNSFIRST
	take(0); take(1); close(0); close(1)
#else
	take(0); close(0); take(1); close(1)
#endif
}
inline enter(h) {
	do
	:: publishing[OF(me, h)] = true;
		if
		:: shut[h] == UPDATES_IN -> beside = beside | BIT(h); break
		:: else
		fi;
		publishing[OF(me, h)] = false;
		if
		:: atomic { !turn[h] -> turn[h] = true };
			if
			:: shut[h] == UPDATES_IN -> turn[h] = false
			:: else -> break
			fi
		:: shut[h] == UPDATES_IN
		fi
	od
}
inline shut_out(h) {
	if
	:: IN(writes, h) && !IN(beside, h) -> shut[h] = SHUT; !act[h]
	:: else
	fi
}
inline leave(h) {
	if
	:: IN(writes, h) && IN(beside, h) -> publishing[OF(me, h)] = false
	:: IN(writes, h) && !IN(beside, h) ->
#if defined(HARD)
		shut[h] = READERS_IN;
#elif defined(LEAVEWAITS)
		shut[h] = UPDATES_IN;
		close(h);
#else
		if
		:: shut[h] = READERS_IN
		:: shut[h] = UPDATES_IN
		fi;
#endif
		turn[h] = false
	:: else
	fi
}
inline hold(h) {
	atomic {
		if
		:: !IN(writes, h) || lost
		:: IN(writes, h) && !lost && stamp[h] < HELD ->
			old[h] = stamp[h]; stamp[h] = HELD + me; mine = mine | BIT(h)
		:: else -> lost = true
		fi
	}
}
inline free(h) {
	atomic {
		if
		:: IN(mine, h) -> stamp[h] = (lost -> old[h] : d[h])
		:: else
		fi
	}
}
inline draw(h) {
	atomic {
		if
		:: IN(writes, h) && !lost -> d[h] = next[h]; next[h]++; assert(next[h] < HELD);
			DRAWN(h, true)
		:: else
		fi
	}
}
#define VERSION(h) (IN(mine, h) -> old[h] : stamp[h])
/* After the draw: held by another, or newer than the snapshot? */
inline look(h) {
	atomic {
		if
		:: IN(logged, h) && IN(LOOKS(me), h) && VERSION(h) >= snap[h] -> lost = true
		:: else
		fi
	}
}
inline store(h) {
	if
	:: IN(writes, h) && !lost -> word[h] = got[h] + 1
	:: else
	fi
}

/* ----------------------------------------------------------- a body's extension */

inline compare(h) {
	atomic {
		if
		:: !IN(logged, h) || lost
		:: else ->
			/* With stamps held it does not wait for others (models: parallel.pml). */
			if
			:: VERSION(h) < HELD -> lost = (word[h] != got[h])
			:: mine && VERSION(h) >= HELD -> lost = true
			fi
		fi
	}
}
/* Of the body, for heap h: `next` first. */
inline extend(h) {
	e = next[h];
#ifdef EXTENDALONE
	compare(h);
#else
	compare(0); compare(1);
#endif
	atomic {
		if
		:: !lost ->
			snap[h] = e
		:: else
		fi;
		e = 0
	}
}
inline take_snapshot(h) {
	atomic {
		snap[h] = 1;
		do
		:: snap[h] < next[h] -> snap[h]++
		:: break
		od
	}
}
inline load(h) {
#ifdef EMPTY
	touched = touched || h == 1;
#endif
	do
	:: atomic { stamp[h] < snap[h] ->
			got[h] = word[h]; logged = logged | BIT(h) };
#if defined(EMPTY) && !defined(CLOCKSUNREAD)
		if
		:: next[0] == snap[0] ->
			if
			:: next[1] == snap[1] -> break
			:: else -> extend(1)
			fi
		:: else -> extend(0)
		fi;
		if
		:: lost -> break
		:: else
		fi
#else
		break
#endif
	:: stamp[h] >= snap[h] && stamp[h] < HELD ->
		extend(h);
		if
		:: lost -> break
		:: else
		fi
	od
}

/* ------------------------------------------------------------------- processes */

/* The usual commit, once it has entered all heaps. */
inline publish() {
#ifdef LOOKEARLY
	hold(0); look(0); hold(1); look(1);
	draw(0); draw(1);
#else
	hold(0); hold(1);
	/* In place of a look, so that few updates draw in vain. */
	if
	:: !lost -> extend(0); if :: !lost -> extend(1) :: else fi
	:: true
	fi;
	draw(0); draw(1);
	look(0); look(1);
#endif
	store(0);
#ifdef OPENEARLY
	free(0); leave(0);
	store(1);
	free(1); leave(1);
#else
	store(1);
	free(0); free(1);
	leave(1); leave(0);
#endif
	DRAWN(1, false)
}
/* Heap by heap: what is stored to heap 0 stays. */
inline publish_one(h) {
	hold(h); draw(h); look(h);
	store(h); free(h); leave(h)
}

proctype group(byte me)
{
	byte snap[H], got[H], d[H], old[H], e, mine, logged, beside, writes;
	bool lost, serial;
#ifdef SERIAL
	serial = (me == 1);
	if
#ifdef SERIALONE
	:: serial -> take(0); close(0)
#else
	:: serial -> take_all_alone()
#endif
	:: else
	fi;
#endif
#ifdef HARD
begin:
	body[me] = true;
	if
	:: shut[0] == SHUT || shut[1] == SHUT ->
		body[me] = false; shut[0] != SHUT && shut[1] != SHUT; goto begin
	:: else
	fi;
#endif
	take_snapshot(0);
#ifndef SNAPLATE
	take_snapshot(1);
#endif
#ifdef CROSS
	load(me);
	if
	:: lost || got[me] != 0 -> goto over
	:: else -> writes = WRITES(me)
	fi;
#else
	writes = WRITES(me);
	/* In any order. */
	if
	:: load(0);
#ifdef SNAPLATE
		take_snapshot(1);
#endif
		if :: !lost -> load(1) :: else fi
	:: load(1); if :: !lost -> load(0) :: else fi
	fi;
	/* INV-GU2 */
	assert(lost || SAME(got[0], got[1]));
#endif
#ifdef BODYLEAVES
	body[me] = false;
#endif
	if
	:: lost -> goto over
	:: else
	fi;
	if
	:: !serial ->
#if defined(UNORDERED)
		if
		:: IN(writes, 0) -> enter(0); if :: IN(writes, 1) -> enter(1) :: else fi
		:: IN(writes, 1) -> enter(1); if :: IN(writes, 0) -> enter(0) :: else fi
		fi
#else
		if :: IN(writes, 0) -> enter(0) :: else fi;
		if :: IN(writes, 1) -> enter(1) :: else fi
#endif
	:: else
#ifdef SERIALONE
		-> enter(1)
#endif
	fi;
	shut_out(0); shut_out(1);
#ifdef HEAPBYHEAP
	publish_one(0);
	mine = 0;
	publish_one(1);
#else
	publish();
#endif
	assert(!serial || !lost); /* INV-SW6 */
over:
#ifdef HARD
	body[me] = false
#else
	skip
#endif
}
#ifdef HARD
proctype hardware()
{
	atomic {
		shut[1] == READERS_IN && !act[1] && !body[0] && !body[1] ->
		word[1] = word[1] + HARDWARE
	}
}
#endif

#ifdef EMPTY
proctype only_loads(byte me)
{
	byte snap[H], got[H], old[H], e, mine, logged;
	bool lost;
begin:
	body[me] = true;
	if
	:: shut[0] == SHUT || shut[1] == SHUT ->
		body[me] = false; shut[0] != SHUT && shut[1] != SHUT; goto begin
	:: else
	fi;
	take_snapshot(0); take_snapshot(1);
	if
	:: load(0); if :: !lost -> load(1) :: else fi
	:: load(1); if :: !lost -> load(0) :: else fi
	fi;
	if
	:: lost
	:: else -> saw[me] = 1 + (got[0] != 0 -> 2 : 0) + (got[1] >= HARDWARE -> 4 : 0)
	fi;
	body[me] = false
}
proctype first_heap()
{
	byte me = THELOCAL, writes = 1, d[H], old[H], snap[H], got[H], e, mine, logged, beside;
	bool lost;
	enter(0);
	shut_out(0);
	hold(0);
	draw(0);
	store(0);
	free(0);
	leave(0)
}
proctype waiting_hardware()
{
	bool waits[NG];
again:
	atomic {
		shut[1] == READERS_IN ->
		touched = false; waits[0] = body[0]; waits[1] = body[1]
	};
	!waits[0] || !body[0];
	!waits[1] || !body[1];
	atomic {
		if
		:: touched -> goto again
		:: else -> word[1] = word[1] + HARDWARE
		fi
	}
}
#endif

#ifdef LOCAL
proctype local_update()
{
	byte me = THELOCAL, writes = 2, d[H], old[H], snap[H], got[H], e, mine, logged, beside;
	bool lost;
	enter(1);
	shut_out(1);
#ifdef ROOM
	if
	:: !beside -> !drawn[0] && !drawn[1]
	:: else
	fi;
#endif
	hold(1);
	draw(1);
	free(1);
	leave(1)
}
#endif

#ifdef PLAINLY
proctype plain()
{
	byte first;
begin:
	act[0] = true;
	act[1] = true;
	if
	:: shut[0] == SHUT -> act[0] = false; act[1] = false; shut[0] != SHUT; goto begin
	:: shut[0] == UPDATES_IN -> act[0] = false; act[1] = false; goto claim
	:: else
	fi;
	if
	:: shut[1] == SHUT -> act[0] = false; act[1] = false; shut[1] != SHUT; goto begin
#ifdef READERWAITS
	:: shut[1] == UPDATES_IN ->
		act[1] = false;
		take(1); close(1);
		act[1] = true;
		turn[1] = false;
		goto inside
#else
	:: shut[1] == UPDATES_IN -> act[0] = false; act[1] = false; goto claim
#endif
	:: else -> goto inside
	fi;
claim:
	take_all_alone();
	act[0] = true;
	act[1] = true;
	turn[1] = false;
	turn[0] = false;
inside:
#ifndef CROSS
	first = word[0];
	assert(SAME(word[1], first)); /* INV-GU1 */
#endif
	act[0] = false;
	act[1] = false
}
#endif

#ifdef OPTIMISTIC
proctype optimistic()
{
	byte me = THELOCAL, snap[H], got[H], old[H], e, mine, logged;
	bool lost;
	take_snapshot(0); take_snapshot(1);
	if
	:: load(0); if :: !lost -> load(1) :: else fi
	:: load(1); if :: !lost -> load(0) :: else fi
	fi;
	assert(lost || got[0] == got[1]) /* INV-GU2 */
}
#endif

init {
	atomic {
#ifndef HARD
		if :: shut[0] = READERS_IN :: shut[0] = UPDATES_IN fi;
		if :: shut[1] = READERS_IN :: shut[1] = UPDATES_IN fi;
#else
#ifndef EMPTY
		run hardware();
#endif
#endif
#ifdef EMPTY
		run only_loads(0); run only_loads(1); run first_heap(); run waiting_hardware();
#else
		run group(0);
#ifndef ONE
		run group(1);
#endif
#endif
#ifdef LOCAL
		run local_update();
#endif
#ifdef PLAINLY
		run plain();
#endif
#ifdef OPTIMISTIC
		run optimistic();
#endif
	};
	_nr_pr == 1;
#ifdef EMPTY
	/* INV-GU12 */
	assert(!(saw[0] == 1 + 2 && saw[1] == 1 + 4) && !(saw[1] == 1 + 2 && saw[0] == 1 + 4))
#elif defined(CROSS)
	assert(!(word[0] && word[1])) /* INV-GU1 */
#else
	assert(SAME(word[0], word[1]));
#ifdef HARD
	assert(word[1] / HARDWARE == 1) /* INV-SW4: it is not lost */
#endif
#endif
}
