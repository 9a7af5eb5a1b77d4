/* SPDX-License-Identifier: BSD-3-Clause
 *
 * snapshot.pml - snapshots (src/stm/images.h): updates that save lines, readers that look for
 * their images, and the end and the revocation of snapshots.  NB updates publish beside each
 * other, NP update in place, NH in hardware, and NS threads each begin a snapshot at any time, load
 * what they like in it, if they load at all, and end it.  There are W lines, of one word each.
 *
 * Each step is one access to a shared word.  Memory is sequentially consistent.  Where a fence
 * orders one step before another, the mutation swaps the two.  A hardware transaction is one step.
 * parallel.pml tells how threads shut each other out; here a thread that is alone has the turn, and
 * waits for the updates that publish.  A snapshot begins and ends with the turn, beside them.
 *
 * Each load is checked by itself, and begins as every other does.  So a reader that may go on or
 * leave after each load has been checked for every sequence of them.
 *
 * Not here: what a snapshot shows is durable when it has begun (INV-SN5).
 *
 * Settings:
 *   -DNB=n         updates that publish beside each other, 2 by default
 *   -DNP=n         updates in place, 1 by default
 *   -DNH=n         updates in hardware, 0 by default
 *   -DNS=n         snapshots, 1 by default
 *   -DNR=n         of their threads that load, 1 by default
 *   -DNI=n         images for which there is memory, 4 by default
 *   -DW=n          lines, 2 by default, or 3
 *   -DSHARED       the lines share a stamp
 *   -DFIXED        an update stores to one line: in place to the first, the others each to another,
 *                  the first of them to the first; otherwise to whichever
 *   -DSETS         the lines have a set of those that are saved
 *   -DSETTLES      updates are settled at any time after they have published, and not at once
 *
 * Checked: each word that a reader takes is the one that the updates up to its snapshot's `last` leave
 * (INV-SN1 to INV-SN4, INV-SN6 to INV-SN9); a snapshot is revoked only while each image is one that
 * an open snapshot may need, or an update may be saving (INV-SN6); a stamp's version names all updates that have stored under
 * the stamp and are not settled, itself or by what its update names (INV-SN4, INV-DV1).  No thread
 * waits forever.
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   SAVELATE     an update stores to a line before readers can find its image (INV-SN1)
 *   TORN         readers can find an image before it is whole (INV-SN1)
 *   SAVEDONCE    an update saves no line that has an image for an older snapshot (INV-SN1)
 *   TRACKEDUNRAISED  an update in hardware leaves the version as it is (INV-SN4)
 *   LASTFIRST    a snapshot chooses `last` before it says that it begins (INV-SN2)
 *   LOOKFIRST    an update looks at the number before it draws (INV-SN2)
 *   SAVESNEWEST  an update saves for the newest snapshot if that shows the update, too (INV-SN2)
 *   NUMBERLATE   a snapshot says that it begins after it has given the turn (INV-SN2)
 *   HEADFIRST    a reader loads the chain before the word (INV-SN3)
 *   NEWESTIMAGE  a reader takes a line's newest image (INV-SN3)
 *   HEADLOST     a line's new image has no link to the older ones (INV-SN3)
 *   NOTRAISED    an update in place leaves the version as it is (INV-SN4)
 *   RAISEDLATE   it stores before it sets the version (INV-SN4)
 *   RAISEDEARLY  it does not wait until the updates up to the version are settled (INV-SN4)
 *   BOUNDPAST    a reader takes a word of the version `last` without a look at the chain (INV-SN4)
 *   FREEEARLY    the end of a snapshot gives back the images of the oldest open one (INV-SN6)
 *   FREENONE     no image is given back while a snapshot is open (INV-SN6)
 *   FREEINUSE    images are given back while an update may save for their snapshot (INV-SN6)
 *   REVOKEDUNSEEN  a reader does not look whether its snapshot is revoked (INV-SN7)
 *   REVOKEDFIRST  a reader looks at that before it loads (INV-SN7)
 *   BOUNDKEPT    a revocation leaves the bounds of readers as they are (INV-SN7)
 *   BOUNDFIRST   a revocation sets the bounds before it can be seen (INV-SN7)
 *   BEGINBLIND   a reader looks whether its snapshot is revoked, and then sets its bound (INV-SN7)
 *   SETSTALE     an update takes the bits of an older snapshot for its own (INV-SN8)
 *   NUMBERFIRST  an update makes a set that of its snapshot, and then clears it (INV-SN8)
 *   SETSBESIDE   updates that save for different snapshots use the sets (INV-SN8)
 *   READSEARLY   a body reads before the updates that its snapshot shows have ended (INV-SN5)
 *   NEXTEARLY    a snapshot begins before the updates that the one before shows have ended (INV-SN9)
 *   FREEALLEARLY  the end of the last snapshot does not wait for those that may save (INV-SN9)
 */
#ifndef NB
#define NB 2
#endif
#ifndef NP
#define NP 1
#endif
#ifndef NH
#define NH 0
#endif
#ifndef NS
#define NS 1
#endif
#ifndef NR
#define NR 1
#endif
#ifndef NI
#define NI 4
#endif
#define NU (NB + NP + NH)
#ifndef W
#define W 2
#endif
#define CLEAR(all) all[0] = 0; all[1] = 0; all[W - 1] = 0
#define FIRST_DURTS 3    /* the updates below are settled, and the first of them has stored */
#define HELD 16          /* of a stamp */
#define GONE 15          /* what the memory of an image has that has been given back */
#ifdef SHARED
#define STAMP(k) 0
#else
#define STAMP(k) (k)
#endif
#define BIT(d) (1 << (d))
#define IN(set, k) ((set) & BIT(k))

/* --------------------------------------------------------------- shared words */
byte word[W];
byte stamp[W] = 1;
byte next = FIRST_DURTS; /* next_durts */
bool turn;               /* a thread has it */
bool alone;              /* its holder stores, and no update publishes */
byte publishing;         /* bits: updates */
#define BEGINS 64
byte newest;             /* lock.snapshot: the newest snapshot's number; 0: nobody need save */
byte newest_last;        /* images.last */
byte newest_before;      /* images.before */
byte saves_from;         /* images.saves_from */
byte numbers;            /* images.numbers */
byte number[NS];         /* of the snapshot; 0: it is not open */
byte last[NS];
bool revoked[NS];
byte bound[NS];          /* of the reader in the snapshot */
/* Images.  A link has the number above, the image below; 0: there is none. */
#define LINK(n, i) ((n) * 8 + (i) + 1)
#define NUMBER(link) ((link) / 8)
#define IMAGE(link) ((link) % 8 - 1)
byte head[W];            /* links */
byte saved[NI] = GONE;
byte older[NI];          /* links */
byte used_by[NI];        /* the snapshot's number; 0: the image is free */
bool lock;               /* images.lock */
#ifdef SETS
byte set_number;         /* the set's snapshot */
byte set_bits;           /* of the lines */
#endif

/* ------------------------------------------------------------ ghost variables */
byte shows[NS * W];      /* what the snapshot shows */
byte drawn[NU];          /* the durTS, until the update has ended */
byte stores[NU];         /* bits: lines */
#ifdef SETTLES
byte settled = BIT(FIRST_DURTS) - 1; /* bits: durTSs */
byte stored[W];          /* bits: the updates that have stored under the stamp */
byte named[8];           /* bits: the updates that the update names, and those that they name */
#endif

/* With sets, only they are looked at step by step. */
#ifdef SETS
#define WHOLE atomic
#else
#define WHOLE
#endif

/* A transaction may load the version now, and name it. */
#ifdef SETTLES
#define CHECK_NAMES(k, v) assert((stored[STAMP(k)] & ~(settled | BIT(v) | named[v])) == 0)
#else
#define CHECK_NAMES(k, v) skip
#endif

/* ----------------------------------------------------------------- give back */
/* o: the oldest snapshot that is open and not revoked, or NS: there is none. */
inline find_oldest() {
	o = NS; x = 0;
	do
	:: x < NS ->
		if
		:: number[x] != 0 && !revoked[x] && (o == NS || number[x] < number[o]) -> o = x
		:: else
		fi;
		x++
	:: else -> x = 0; break
	od
}
#ifdef FREEINUSE
#define NOT_IN_USE(n) true
#else
#define NOT_IN_USE(n) ((n) < saves_from)
#endif
inline free_older_than(n) {
	do
	:: x < NI ->
		if
		:: used_by[x] != 0 && used_by[x] < n && NOT_IN_USE(used_by[x]) -> used_by[x] = 0; saved[x] = GONE; older[x] = 0
		:: else
		fi;
		x++
	:: else -> x = 0; break
	od
}

/* ---------------------------------------------------------------------- save */
/* An image; i is NI: there is no snapshot left. */
inline take_image() {
	atomic { !lock -> lock = true };
	do
	:: atomic {
			i = 0;
			do
			:: i < NI && used_by[i] != 0 -> i++
			:: else -> break
			od;
			find_oldest();
#ifndef FREENONE
			if
			:: i == NI && o < NS ->
				free_older_than(number[o]);
				i = 0;
				do
				:: i < NI && used_by[i] != 0 -> i++
				:: else -> break
				od
			:: else
			fi;
#endif
			if
			:: i < NI || o == NS -> break
			:: else
			fi;
			do
			:: x < NI -> assert(used_by[x] >= number[o] || used_by[x] >= saves_from); x++
			:: else -> x = 0; break
			od
		};
		revoke();
		atomic {
			find_oldest();
			if
			:: o < NS -> free_older_than(number[o])
			:: else -> newest = 0
			fi
		}
	od;
	atomic {
		if
		:: o < NS -> used_by[i] = n
		:: else -> i = NI
		fi;
		o = 0;
		lock = false
	}
}
inline revoke() {
#ifdef BOUNDFIRST
	set_bounds();
	revoked[o] = true
#else
	revoked[o] = true;
#ifndef BOUNDKEPT
	set_bounds()
#endif
#endif
}
inline set_bounds() {
	do
	:: x < NS -> bound[x] = 0; x++
	:: else -> x = 0; break
	od
}
#ifdef SETS
/* Each access is a step.  What is loaded lies in x until the next one. */
inline look_at_set(k) {
#ifndef SETSTALE
	x = set_number;
#else
	x = n;
#endif
	atomic { is_in_set = (sets && x == n); x = 0 };
	if
	:: is_in_set -> is_in_set = IN(set_bits, k)
	:: else
	fi
}
inline add_to_set(k) {
	if
	:: set_number != n ->
#ifdef NUMBERFIRST
		set_number = n;
		set_bits = 0
#else
		set_bits = 0;
		set_number = n
#endif
	:: else
	fi;
	x = set_bits;
	atomic { set_bits = x | BIT(k); x = 0 }
}
#endif
/* n: the snapshot for which the update saves; it has the turn. */
inline saves_for_newest() {
	n = newest
}
/* The same; it has drawn d. */
inline saves_for(d) {
	WHOLE {
		atomic { newest < BEGINS -> n = newest };
		/* They may be the next snapshot's. */
		if
		:: n != 0 -> l = newest_last; b = newest_before
		:: else
		fi
	};
	atomic {
#ifndef SAVESNEWEST
		n = (n != 0 && d <= l -> b : n);
#endif
		l = 0; b = 0
	}
}
inline save(k, stamped) {
#ifdef SETS
#ifdef SETSBESIDE
	sets = (n != 0);
#else
	sets = (n != 0 && saves_from == n);
#endif
	look_at_set(k);
	if
	:: is_in_set
	:: else -> save_line(k, stamped)
	fi;
	is_in_set = false
#else
	save_line(k, stamped)
#endif
}
inline save_line(k, stamped) {
	atomic {
#ifdef SAVEDONCE
		wanted = (n != 0 && head[k] == 0)
#else
		wanted = (n != 0 && NUMBER(head[k]) < n)
#endif
	};
	if
	:: wanted ->
#if !defined(NOTRAISED) && !defined(RAISEDLATE)
		if
		:: !stamped -> raise_version(k)
		:: else
		fi;
#endif
		take_image();
		if
		:: i < NI ->
#ifdef TORN
			atomic { older[i] = head[k]; head[k] = LINK(n, i) };
			saved[i] = word[k];
#else
			atomic {
				saved[i] = word[k];
#ifndef HEADLOST
				older[i] = head[k]
#endif
			};
#ifndef SAVELATE
			head[k] = LINK(n, i);
#endif
#endif
		:: else
		fi
	:: else
	fi;
#ifdef SETS
	if
	:: sets && (!wanted || i < NI) -> add_to_set(k)
	:: else
	fi;
	sets = false
#endif
}
/* Only the mutations have something left to do. */
inline saved_and_stored(k, stamped) {
#ifdef SAVELATE
	if
	:: wanted && i < NI -> head[k] = LINK(n, i)
	:: else
	fi;
#endif
#ifdef RAISEDLATE
	if
	:: wanted && !stamped -> raise_version(k)
	:: else
	fi;
#endif
	atomic {
		if
		:: wanted && i == NI -> n = 0
		:: else
		fi;
		i = 0; wanted = false
	}
}
inline raise_version(k) {
#if defined(SETTLES) && !defined(RAISEDEARLY)
	(~settled & (BIT(newest_last + 1) - 1)) == 0;
#endif
	atomic {
		if
		:: stamp[STAMP(k)] < newest_last ->
			stamp[STAMP(k)] = newest_last; CHECK_NAMES(k, newest_last)
		:: else
		fi
	}
}

/* ------------------------------------------------------------------- updates */
inline draw() {
	atomic { d = next; next++; assert(next < 8) }
}
inline settle() {
#ifdef SETTLES
	atomic { settled = settled | BIT(d) };
#endif
	d = 0
}
inline choose(set) {
#ifdef FIXED
	set = (me < NB -> BIT(me) : 1)
#else
	set = 1;
	do
	:: set < BIT(W) - 1 -> set++
	:: break
	od
#endif
}
#define IS_MINE(k) (stamp[STAMP(k)] == HELD + me)

proctype beside(byte me)
{
	byte lines, d, k, n, l, b, i, o, x, old[W];
	bool wanted, is_in_set, sets;
	atomic { !alone -> publishing = publishing | BIT(me); choose(lines); stores[me] = lines };
	do
	:: k < W ->
		atomic {
			if
			:: !IN(lines, k) || IS_MINE(k)
			:: IN(lines, k) && stamp[STAMP(k)] < HELD ->
				old[STAMP(k)] = stamp[STAMP(k)];
				stamp[STAMP(k)] = HELD + me
			fi;
			k++
		}
	:: else -> k = 0; break
	od;
#ifdef LOOKFIRST
	d = 15;
	saves_for(d);
#endif
	atomic {
		draw();
		drawn[me] = d;
#ifdef SETTLES
		do
		:: k < W ->
			if
			:: IN(lines, k) -> named[d] = named[d] | BIT(old[STAMP(k)]) | named[old[STAMP(k)]]
			:: else
			fi;
			k++
		:: else -> k = 0; break
		od;
#endif
		CLEAR(old)
	};
#ifndef LOOKFIRST
	saves_for(d);
#endif
#ifndef SAVELATE
	do
	:: k < W ->
		if
		:: IN(lines, k) -> save(k, true); saved_and_stored(k, true)
		:: else
		fi;
		k++
	:: else -> k = 0; break
	od;
#endif
	do
	:: k < W ->
		if
		:: IN(lines, k) ->
#ifdef SAVELATE
			save(k, true);
#endif
			word[k] = me + 1;
#ifdef SAVELATE
			saved_and_stored(k, true)
#endif
		:: else
		fi;
		k++
	:: else -> k = 0; break
	od;
	do
	:: k < W ->
		atomic {
			if
			:: IS_MINE(k) ->
#ifdef SETTLES
				stored[STAMP(k)] = stored[STAMP(k)] | BIT(d);
#endif
				stamp[STAMP(k)] = d;
				CHECK_NAMES(k, d)
			:: else
			fi;
			k++
		}
	:: else -> break
	od;
	atomic { publishing = publishing & ~BIT(me); k = 0; lines = 0; n = 0; stores[me] = 0 };
	atomic { settle(); drawn[me] = 0 }
}

/* It waits for all that publish (INV-SW4), and leaves no version of its own. */
proctype hardware(byte me)
{
	byte lines, k, i;
	atomic {
		!alone && publishing == 0 && newest < BEGINS -> choose(lines);
		do
		:: k < W ->
			if
			:: IN(lines, k) && newest != 0 && NUMBER(head[k]) < newest ->
#ifndef TRACKEDUNRAISED
				stamp[STAMP(k)] =
					(stamp[STAMP(k)] < newest_last -> newest_last : stamp[STAMP(k)]);
#endif
				do
				:: used_by[i] != 0 -> i++
				:: else -> break
				od;
				used_by[i] = newest; saved[i] = word[k]; older[i] = head[k];
				head[k] = LINK(newest, i);
				i = 0
			:: else
			fi;
			word[k] = (IN(lines, k) -> me + 1 : word[k]);
			k++
		:: else -> break
		od;
		k = 0; lines = 0
	}
}

proctype in_place(byte me)
{
	byte lines, d, k, n, i, o, x, old[W];
	bool wanted, is_in_set, sets;
	atomic {
		!turn && publishing == 0 -> turn = true; alone = true;
		choose(lines)
	};
	saves_for_newest();
	do
	:: k < W ->
		if
		:: IN(lines, k) ->
			save(k, false);
			atomic { old[k] = word[k]; word[k] = me + 1 };
			saved_and_stored(k, false)
		:: else
		fi;
		k++
	:: else -> k = 0; break
	od;
	if
	:: true -> /* it rolls back */
		do
		:: k < W ->
			atomic {
				if
				:: IN(lines, k) -> word[k] = old[k]
				:: else
				fi;
				k++
			}
		:: else -> break
		od;
		atomic { turn = false; alone = false; k = 0; lines = 0; n = 0; CLEAR(old) }
	:: true ->
		atomic { draw(); drawn[me] = d };
		atomic { turn = false; alone = false; lines = 0; n = 0; CLEAR(old) };
		atomic { settle(); drawn[me] = 0 }
	fi
}

/* ----------------------------------------------------------------- snapshots */
#define MINE number[me]
#define SHOWS(k) shows[me * W + (k)]

/* The updates up to this durTS have ended. */
inline await_drawn(upto) {
	do
	:: x < NU -> (drawn[x] == 0 || drawn[x] > upto); x++
	:: else -> x = 0; break
	od
}
/* Those that publish now. */
inline await_publishing() {
	do
	:: x < NU -> !IN(publishing, x); x++
	:: else -> x = 0; break
	od
}
/* INV-SN9 */
inline await_newest() {
	n = newest;
#ifndef NEXTEARLY
	if
	:: n != 0 -> await_drawn(newest_last)
	:: else -> await_publishing()
	fi;
#endif
	atomic {
		!lock ->
		saves_from = (n != 0 -> n : numbers + 1);
		n = 0
	}
}
/* What line k has after the updates that have drawn. */
#define AFTER_DRAWN(k) (stamp[STAMP(k)] >= HELD && drawn[stamp[STAMP(k)] - HELD] != 0 && \
	IN(stores[stamp[STAMP(k)] - HELD], k) -> stamp[STAMP(k)] - HELD + 1 : word[k])
inline choose_last() {
	atomic {
		last[me] = next - 1;
		SHOWS(0) = AFTER_DRAWN(0); SHOWS(1) = AFTER_DRAWN(1);
		SHOWS(W - 1) = AFTER_DRAWN(W - 1)
	}
}

proctype snapshot(byte me)
{
	byte k, v, s, b, link, n, o, x;
	atomic { !turn -> turn = true };
	await_newest();
	atomic { !lock -> lock = true; numbers++; MINE = numbers };
#ifdef NUMBERLATE
	turn = false;
#endif
#ifdef LASTFIRST
	choose_last();
#endif
	WHOLE {
		newest_before = newest;
		newest = BEGINS + MINE;
#ifndef LASTFIRST
		choose_last();
#endif
		newest_last = last[me];
		newest = MINE;
		lock = false
	};
#ifndef NUMBERLATE
	turn = false;
#endif
#ifndef READSEARLY
	await_drawn(last[me]);
	atomic { !lock -> saves_from = (MINE > saves_from -> MINE : saves_from) };
#endif

#ifdef BEGINBLIND
	if
	:: !revoked[me] -> bound[me] = last[me]
	:: else
	fi;
#else
	bound[me] = last[me];
	if
	:: revoked[me] -> bound[me] = 0
	:: else
	fi;
#endif
	do
	:: me < NR ->
		if
		:: k = 0
		:: k = 1
#if W > 2
		:: k = 2
#endif
		fi;
		/* fur_load_checked() */
		v = word[k];
		if
		:: s = stamp[STAMP(k)]; b = bound[me]
		:: b = bound[me]; s = stamp[STAMP(k)]
		fi;
#ifdef BOUNDPAST
		if
		:: s <= b -> goto loaded
		:: else
		fi;
#else
		if
		:: s < b -> goto loaded
		:: else
		fi;
#endif
		/* images_load() */
		atomic { v = 0; b = 0; s = 0 };
#ifdef REVOKEDFIRST
		if
		:: revoked[me] -> break
		:: else
		fi;
#endif
#ifdef HEADFIRST
		link = head[k];
		v = word[k];
#else
		v = word[k];
		link = head[k];
#endif
#ifdef NEWESTIMAGE
		if
		:: NUMBER(link) >= MINE -> s = link; link = 0
		:: else
		fi;
#endif
		do
		:: NUMBER(link) >= MINE && (s == 0 || NUMBER(link) < NUMBER(s)) ->
			atomic { s = link; link = older[IMAGE(s)] }
		:: else -> break
		od;
		if
		:: s != 0 -> v = saved[IMAGE(s)]
		:: else
		fi;
#if !defined(REVOKEDUNSEEN) && !defined(REVOKEDFIRST)
		if
		:: revoked[me] -> break
		:: else
		fi;
#endif
loaded:
		atomic { assert(v == SHOWS(k)); v = 0; s = 0; b = 0; link = 0; k = 0 }
	:: true -> break
	od;
	atomic { v = 0; s = 0; b = 0; link = 0; k = 0; bound[me] = 0 };

	atomic { !turn -> turn = true };
	atomic {
		!lock ->
		MINE = 0; SHOWS(0) = 0; SHOWS(1) = 0; SHOWS(W - 1) = 0; last[me] = 0; revoked[me] = false;
		find_oldest();
		if
		:: o == NS -> newest = 0
		:: else ->
#ifdef FREEEARLY
			free_older_than(number[o] + 1)
#elif !defined(FREENONE)
			free_older_than(number[o])
#endif
		fi;
		n = 1;
		do
		:: x < NS -> n = (number[x] != 0 -> 0 : n); x++
		:: else -> x = 0; break
		od;
		o = 0
	};
	if
	:: n ->
#ifndef FREEALLEARLY
		await_publishing();
#endif
		atomic {
			!lock ->
			saves_from = 8; free_older_than(8); saves_from = 0; numbers = 0; CLEAR(head)
#ifdef SETS
			; set_number = 0; set_bits = 0
#endif
		}
	:: else
	fi;
	atomic { n = 0; turn = false }
}

init {
	atomic {
		byte u;
		word[1] = 9; /* so that another line's image is not the same */
		do
		:: u < NB -> run beside(u); u++
		:: u >= NB && u < NB + NP -> run in_place(u); u++
		:: u >= NB + NP && u < NU -> run hardware(u); u++
		:: else -> u = 0; break
		od;
		do
		:: u < NS -> run snapshot(u); u++
		:: else -> u = 0; break
		od
	}
}
