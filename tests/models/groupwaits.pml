/* SPDX-License-Identifier: BSD-3-Clause
 *
 * groupwaits.pml - updates over several heaps that wait for each other's durability: the waits end.
 * Each has a part in two heaps, and leaves nondurable[] of both when both parts are durable and all
 * that it has read from is settled (groupheaps.pml tells why).
 *
 * What group updates publish with keeps no two of them from drawing their durTSs in opposite
 * orders.  A lock of each heap does, which group updates alone take, in ascending order, while they
 * announce themselves and draw.
 *
 * Before an update puts its markers it waits for room in the ring: until every durTS that lies a
 * ring or more below its own is settled.  Before it leaves, it waits for every durTS up to the
 * newest from which it has read.  Where late updates are pending it waits for all below its own; in
 * a heap that it only reads, up to the newest of them.
 *
 * Settings:
 *   -DSAME         two updates, over heaps 0 and 1; by default three, over 0 and 1, 1 and 2, 0
 *                  and 2
 *   -DREADS        the last of three writes to heap 0 alone, and has read from heap 2
 *   -DLOCAL        an update of heap 0 alone, too
 *   -DRING=n       slots of a ring, 8 by default: no update waits for room
 *   -DLATE         late updates are pending in all heaps
 *
 * Checked: in each heap the durTSs of group updates have the same order, and no thread waits forever
 * (INV-GU4).
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   DRAWANY      a group update draws without the locks (INV-GU4)
 *   DRAWONE      it takes the lock of a heap, draws there, gives the lock, and goes on (INV-GU4)
 *   LOCKANY      it takes the locks in any order (INV-GU4)
 *   BOUNDLATE    in a heap that it only reads it waits for what is late after its draw (INV-GU4)
 */
#ifndef RING
#define RING 8
#endif
#define H 3
#define NG 3
#define THELOCAL 3
#define NU 4

bool drawing[H];        /* a heap's lock for group updates that draw */
bool announced[H * NU]; /* nondurable[].id */
byte durts[H * NU];     /* nondurable[].durts */
byte next[H] = 1;

#define OF(h, u) ((h) * NU + (u))
/* An update is in the way until it has left; one that has not drawn may have a lower durTS. */
#define IN_WAY(h, u, below) (u != me && announced[OF(h, u)] && durts[OF(h, u)] < (below))
#define SETTLED(h, below) \
	(!IN_WAY(h, 0, below) && !IN_WAY(h, 1, below) && !IN_WAY(h, 2, below) && \
	!IN_WAY(h, THELOCAL, below))
#define ROOM(h) (durts[OF(h, me)] <= RING || SETTLED(h, durts[OF(h, me)] + 1 - RING))

inline lock(h) {
#ifndef DRAWANY
	atomic { !drawing[h] -> drawing[h] = true }
#else
	skip
#endif
}
inline draw(h) {
	announced[OF(h, me)] = true;
	atomic { durts[OF(h, me)] = next[h]; next[h]++ }
}
/* It waits for all durTSs below this one: up to that of the newest update from which it has read.
 * It notes that before it draws. */
inline note(h, below) {
#ifndef LATE
	if
	:: below = 0
	:: below = next[h]
	fi
#else
	skip
#endif
}

proctype group(byte me; byte a; byte b; bool reads) /* a < b, which it may only read */
{
	byte below_a, below_b;
	note(a, below_a);
	note(b, below_b);
#ifdef LATE
	below_b = next[b]; /* of a heap that it only reads: async.newest */
#endif
#ifdef DRAWONE
	lock(a); draw(a); drawing[a] = false;
	lock(b); draw(b); drawing[b] = false;
#else
#ifdef LOCKANY
	if
	:: lock(a); lock(b)
	:: lock(b); lock(a)
	fi;
#else
	lock(a);
	if :: !reads -> lock(b) :: else fi;
#endif
	draw(a);
	if :: !reads -> draw(b) :: else fi;
	if :: !reads -> drawing[b] = false :: else fi;
	drawing[a] = false;
#endif
#ifdef LATE
	atomic {
		below_a = durts[OF(a, me)];
		if
		:: !reads -> below_b = durts[OF(b, me)]
#ifdef BOUNDLATE
		:: reads -> below_b = next[b]
#else
		:: else
#endif
		fi
	};
#endif
	if :: reads -> SETTLED(b, below_b) :: else fi; /* before its marker (INV-GU7) */
	ROOM(a);
	ROOM(b);
	SETTLED(a, below_a);
	SETTLED(b, below_b);
	announced[OF(a, me)] = false;
	announced[OF(b, me)] = false
}

#ifdef LOCAL
/* It leaves before it waits for D; a late one is settled when all below it are. */
proctype local_update(byte me)
{
	draw(0);
	ROOM(0);
#ifdef LATE
	SETTLED(0, durts[OF(0, me)]);
#endif
	announced[OF(0, me)] = false
}
#endif

init {
	atomic {
#ifdef SAME
		run group(0, 0, 1, false); run group(1, 0, 1, false);
#elif defined(READS)
		run group(0, 0, 1, false); run group(1, 1, 2, false); run group(2, 0, 2, true);
#else
		run group(0, 0, 1, false); run group(1, 1, 2, false); run group(2, 0, 2, false);
#endif
#ifdef LOCAL
		run local_update(THELOCAL)
#endif
	};
	_nr_pr == 1;
#ifdef SAME
	assert((durts[OF(0, 0)] < durts[OF(0, 1)]) == (durts[OF(1, 0)] < durts[OF(1, 1)])) /* INV-GU4 */
#endif
}
