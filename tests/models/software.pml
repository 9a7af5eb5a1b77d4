/* SPDX-License-Identifier: BSD-3-Clause
 *
 * software.pml - software updates that publish one at a time, among readers, hardware updates and
 * an update in place: isolation and progress.  fur.pml has their durability, and parallel.pml has
 * those that publish beside each other.  NS software updates and NR readers run, each until it has
 * ended once; a software update runs again when it is defeated, and holds the turn then.  Each step
 * is one access to a shared word.  Memory is sequentially consistent, so the model is about the
 * order of steps.  Where a fence orders one step before another, the mutation swaps the two.
 *
 * Settings:
 *   -DNS=n         software updates, 2 by default
 *   -DNR=n         readers, 1 by default
 *   -DSERIAL       update 0 holds the turn from its begin
 *   -DTIMEOUT      the turn's holder may stop draining once, and let readers in
 *   -DHWPUB        the turn's holder publishes in a hardware transaction first, and in place after
 *                  an abort
 *   -DHARD         there is also a hardware update; its loads are tracked
 *   -DHARD -DROT   the same, but its loads are not tracked, and it appears in active[]
 *   -DINPLACE      there is also an update in place; it may roll back
 *   -DCOLLIDE      all lines have the same stamp
 *
 * Workloads:
 *   by default     each update adds 1 to words 0 and 1, and every transaction must find them equal
 *   -DABA          update 1 sets words 1 and 2, update 2 sets word 0 and clears word 1, and
 *                  update 0 reads the three
 *
 * Checked: every reader and every body, also one that is defeated later, sees a state of some
 * serial order (INV-SW1, INV-SW3); the final state is that of some serial order, with every update
 * in it (INV-SW2, INV-SW4); a serial update is never defeated (INV-SW6); no thread waits forever.
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   LATESTAMP    the turn's holder holds a stamp after it has stored to the line (INV-SW1)
 *   NOSTAMPS     the turn's holder does not hold the stamps of the lines (INV-SW1)
 *   OLDVERSION   the turn's holder frees the stamps with the versions that they had (INV-SW1)
 *   UNCHECKED    an extension compares values, and does not look at stamps (INV-SW1)
 *   BARE         an update in place does not sweep beside software bodies (INV-SW1)
 *   NOEXTEND     an update does not check its reads at its commit (INV-SW2)
 *   EARLYEXTEND  an update checks its reads before it has the turn (INV-SW2)
 *   NOTURN       an update publishes without the turn (INV-SW2)
 *   NOSHUT       the turn's holder does not set `shut` (INV-SW3)
 *   LATESHUT     the turn's holder sets `shut` after it has drained (INV-SW3)
 *   UNDRAINED    the turn's holder sets `shut`, and does not drain (INV-SW3)
 *   READERBLIND  a reader does not look at `shut` (INV-SW3)
 *   PUBNOWAIT    a publication in hardware does not wait for readers (INV-SW3)
 *   HARDNOWAIT   a hardware update does not wait for software bodies (INV-SW4)
 *   LEAVEFIRST   the turn's holder leaves active[] before it stores (INV-SW4)
 *   BODYBLIND    a body does not look at `shut` (INV-SW5)
 *   LATETURN     a serial update takes the turn at its commit (INV-SW6)
 *
 * A publication in hardware does not look at `shut`: it has the turn.
 */
#ifndef NS
#define NS 2
#endif
#ifndef NR
#define NR 1
#endif
#define HW (NS + NR) /* the thread of the hardware update */
#ifdef HARD
#define N (NS + NR + 1)
#else
#define N (NS + NR)
#endif
#ifdef ABA
#define W 3
#else
#define W 2
#endif

#ifdef COLLIDE
#define STAMPS 1
#define LINE(k) 0
#else
#define STAMPS W
#define LINE(k) (k)
#endif

/* --------------------------------------------------------------- shared words */
byte w[W];            /* each on a line of its own */
byte stamp[STAMPS];   /* a version, or HELD + the thread that holds it */
#define HELD 32
byte next = 1;        /* next_durts */
byte sweeps;          /* odd while one is under way */
bool turn, shut;
byte act[N];          /* active[].seq: 0, or its kind and 4 times the number of the transaction */
#define READER 1      /* or a hardware update whose loads are not tracked */
#define BODY 2
#define KIND(s) ((s) & 3)

/* --------------------------------------- hardware transactions, and ghost variables */
bool hin, hdoomed, hshut; byte hr, hw; /* the hardware update: words that it has read, written */
bool pin, pdoomed; byte pw;            /* the publication in hardware */
byte commits;

#ifdef ABA
#define READS(m) ((m) == 0 -> 7 : 0)
#define WRITES(m) ((m) == 0 -> 0 : ((m) == 1 -> 6 : 3))
#define NEW(m, k) ((m) == 1 || (k) == 0)
#define CONSISTENT(a, b) true
#define FINAL true
#define SEEN_OK(m) !((m) == 0 && got[0] == 0 && got[1] == 0 && got[2] == 1)
#else
#define READS(m) 3
#define WRITES(m) 3
#define NEW(m, k) (got[k] + 1)
#define CONSISTENT(a, b) ((a) == (b))
#define FINAL (w[0] == commits && w[1] == commits)
#define SEEN_OK(m) CONSISTENT(got[0], got[1])
#endif

/* k: the first word of the set from k on, or W */
#define IN(set, k) ((set) & (1 << (k)))
inline find(set) { do :: k < W && !IN(set, k) -> k++ :: else -> break od }

/* A plain load dooms a hardware transaction that has written the word, a plain store also one that
 * has read it. */
inline load(k, dst) { atomic {
	if :: pin && IN(pw, k) -> pdoomed = true :: else fi;
	if :: hin && IN(hw, k) -> hdoomed = true :: else fi;
	dst = w[k] } }
inline store(k, value) { atomic {
	if :: hin && IN(hr | hw, k) -> hdoomed = true :: else fi;
	w[k] = value } }
#ifdef ROT
#define SET_SHUT(value) shut = value
#else
#define SET_SHUT(value) \
	atomic { if :: hin && hshut -> hdoomed = true :: else fi; shut = value }
#endif

inline enter(kind) { atomic { act[me] = kind + 4 * runs; runs++ } }
inline leave() { act[me] = 0 }

/* Each value that the update has logged must still be there, in one state: that of all updates
 * whose durTSs are below `e`.  After a sweep all are compared, else those alone whose stamps are
 * newer than the snapshot. */
inline extend() {
	do
	:: atomic { (sweeps & 1) == 0 -> sw = sweeps };
	   atomic { e = next; ok = true; again = false; j = k; k = 0; find(logged) };
	   do
	   :: k < W && ok ->
#ifndef UNCHECKED
		atomic { stamp[LINE(k)] < HELD -> s = stamp[LINE(k)] };
		if
		:: s >= snap || sw != sweep ->
#endif
			load(k, a);
			atomic {
				if
#ifndef UNCHECKED
				:: stamp[LINE(k)] != s
#endif
				:: else ->
					ok = (a == got[k]); again = again || s >= e;
					k++; find(logged)
				fi;
				a = 0; s = 0
			}
#ifndef UNCHECKED
		:: else -> atomic { s = 0; k++; find(logged) }
		fi
#endif
	   :: else -> break
	   od;
	   atomic {
		k = j; j = 0;
		if
		:: !ok -> break
		:: ok && !again && sweeps == sw -> snap = e; sweep = sw; break
		:: else
		fi
	   }
	od;
	atomic { e = 0; sw = 0; again = false }
}

/* The holder of the turn meets no other holder of a stamp. */
inline hold_lines() {
#ifdef NOSTAMPS
	k = W;
#else
	atomic { k = 0; find(WRITES(me)) };
#endif
	do
	:: k < W -> hold_line(); atomic { k++; find(WRITES(me)) }
	:: else -> atomic { k = 0; break }
	od
}
inline hold_line() { atomic {
	if
	:: stamp[LINE(k)] == HELD + me
	:: else ->
		assert(stamp[LINE(k)] < HELD);
		old[LINE(k)] = stamp[LINE(k)]; stamp[LINE(k)] = HELD + me
	fi } }
#ifdef OLDVERSION
#define VERSION(version) 0
#else
#define VERSION(version) version
#endif
inline free_lines(version) {
	do
	:: k < STAMPS -> atomic {
			if
			:: stamp[k] == HELD + me -> stamp[k] = (version > 0 -> version : old[k])
			:: else
			fi;
			old[k] = 0; k++
		}
	:: else -> atomic { k = 0; break }
	od
}

/* Wait for the transactions without the bit BODY that are active now. */
inline wait_for_readers(doom) {
	k = 0;
	do
	:: k < N ->
		atomic { s = act[k]; if :: k != me && KIND(s) == BODY -> bodies = true :: else fi }
		if :: KIND(s) == READER -> (act[k] != s || doom) :: else fi;
		atomic { s = 0; k++ }
	:: else -> atomic { k = 0; break }
	od
}

proctype software(byte me)
{
	byte snap, e, k, j, a, s, d, runs, sweep, sw, since, logged;
	byte got[W], old[STAMPS];
	bool ok, again, bodies, serial, waited;
#ifdef SERIAL
	serial = (me == 0);
#endif

begin:
#ifndef LATETURN /* INV-SW6 */
	if :: serial -> atomic { !turn -> turn = true } :: else fi;
#endif
	/* Any value that next_durts has had. */
	if :: snap = next :: snap = 1 fi;
	enter(BODY);
#ifndef BODYBLIND /* INV-SW5 */
	do
	:: shut -> leave(); !shut; enter(BODY)
	:: else -> break
	od;
#endif
	atomic { (sweeps & 1) == 0 -> sweep = sweeps; since = next };

	/* The body. */
	atomic { logged = 0; k = 0; find(READS(me)) };
	do
	:: k < W ->
		if
		:: serial ->
			load(k, a);
			assert(next == since) /* INV-SW6 */
		:: else ->
			do
			:: atomic { stamp[LINE(k)] < HELD -> s = stamp[LINE(k)] };
				load(k, a);
				if
				:: stamp[LINE(k)] != s
				:: else ->
					if :: s < snap && sweeps == sweep -> break :: else fi;
					atomic { a = 0; s = 0 };
					extend();
					if :: !ok -> goto defeated :: else fi
				fi
			od
		fi;
		atomic {
			got[k] = a; if :: !serial -> logged = logged | (1 << k) :: else fi;
			a = 0; s = 0; k++; find(READS(me))
		}
	:: else -> atomic { k = 0; since = 0; break }
	od;
	assert(SEEN_OK(me)); /* INV-SW1 */
	if
	:: WRITES(me) == 0 -> leave(); if :: serial -> turn = false :: else fi; goto done
	:: else
	fi;

	/* Commit: take the turn. */
#ifndef LATETURN
	if :: serial -> goto holder :: else fi;
#endif
#ifdef EARLYEXTEND
	extend();
	if :: !ok -> goto defeated :: else fi;
#endif
#ifndef NOTURN /* INV-SW2 */
	atomic { !turn -> turn = true };
#endif

holder:
#if !defined(NOEXTEND) && !defined(EARLYEXTEND) /* INV-SW2 */
	if
	:: !serial ->
		extend();
		if :: !ok -> turn = false; goto defeated :: else fi
	:: else
	fi;
#endif
#ifdef HWPUB
	hold_lines();
	atomic { pin = true; pdoomed = false; pw = 0; find(WRITES(me)) };
	do
	:: k < W -> atomic {
			if :: hin && IN(hr | hw, k) -> hdoomed = true :: else fi;
			pw = pw | (1 << k); k++; find(WRITES(me)) }
	:: else -> atomic { k = 0; break }
	od;
	if :: skip :: pdoomed = true fi; /* an abort for no visible reason */
#ifndef PUBNOWAIT /* INV-H2 */
	wait_for_readers(pdoomed);
#endif
	atomic {
		bodies = false;
		if
		:: pdoomed -> pin = false; pw = 0
		:: else ->
			pin = false; pw = 0; find(WRITES(me));
			do
			:: k < W -> w[k] = NEW(me, k); k++; find(WRITES(me))
			:: else -> k = 0; break
			od;
			commits++; goto published
		fi
	};
	free_lines(0);
#endif
#ifdef LEAVEFIRST
	leave();
#endif
	/* In place, with readers and hardware updates shut out. */
drain:
#ifdef LATESHUT
	wait_for_readers(false);
#endif
#ifndef NOSHUT /* INV-SW3 */
	SET_SHUT(true);
#endif
#if !defined(UNDRAINED) && !defined(LATESHUT)
#ifdef TIMEOUT
	if
	:: !waited -> waited = true; SET_SHUT(false); wait_for_readers(false); goto drain
	:: waited = true
	fi;
#endif
	wait_for_readers(false);
#endif
	bodies = false;
#ifndef LATESTAMP
	hold_lines();
#endif
	atomic { d = next; next++ };
	atomic { k = 0; find(WRITES(me)) };
	do
	:: k < W ->
		store(k, NEW(me, k));
#ifdef LATESTAMP
		hold_line();
#endif
		atomic { k++; find(WRITES(me)) }
	:: else -> atomic { k = 0; break }
	od;
	commits++;
	free_lines(VERSION(d));
#ifndef NOSHUT
	SET_SHUT(false);
#endif
	leave();
	turn = false;
	goto done;

published:
#ifdef HWPUB
	atomic { d = next; next++ };
	free_lines(VERSION(d));
	leave();
	turn = false;
	goto done;
#endif

defeated:
	assert(!serial);
	leave();
	atomic {
		serial = true; ok = false; s = 0; a = 0; k = 0; snap = 0; sweep = 0; since = 0;
		logged = 0; got[0] = 0; got[1] = 0; got[W - 1] = 0
	};
	goto begin;
done:	skip
}

proctype reader(byte me)
{
	byte a, b, runs;
	enter(READER);
#ifndef READERBLIND /* INV-SW3 */
	do
	:: shut -> leave(); !shut; enter(READER)
	:: else -> break
	od;
#endif
	load(0, a);
	load(1, b);
	assert(CONSISTENT(a, b)); /* INV-SW3 */
	leave()
}

#ifdef HARD
/* One attempt: what the hardware refuses, a software update can do. */
inline hload(n, dst) { atomic {
	if :: pin && IN(pw, n) -> pdoomed = true :: else fi;
#ifndef ROT
	hr = hr | (1 << n);
#endif
	dst = w[n] } }
inline hstore(n) { atomic {
	if :: pin && IN(pw, n) -> pdoomed = true :: else fi;
	hw = hw | (1 << n) } }
proctype hardware(byte me)
{
	byte a, b, k, s, runs;
#ifdef ROT
	enter(READER);
	if :: shut -> goto out :: else fi;
#endif
	hin = true;
#ifndef ROT
	atomic { hshut = true; if :: shut -> goto out :: else fi };
#endif
	hload(0, a);
	hload(1, b);
	assert(hdoomed || CONSISTENT(a, b));
	hstore(0);
	hstore(1);
#ifdef ROT
	leave();
#endif
	do
	:: k < N ->
		s = act[k];
		if
		:: k != me && (KIND(s) == READER
#ifndef HARDNOWAIT /* INV-SW4 */
			|| KIND(s) == BODY
#endif
			) -> (act[k] != s || hdoomed)
		:: else
		fi;
		k++
	:: else -> break
	od;
	atomic {
		if :: !hdoomed -> w[0] = a + 1; w[1] = b + 1; commits++ :: else fi;
		goto out
	};
out:	atomic {
		hin = false; hdoomed = false; hshut = false; hr = 0; hw = 0;
		a = 0; b = 0; k = 0; s = 0
	};
#ifdef ROT
	leave();
#endif
	skip
}
#endif

#ifdef INPLACE
/* It is never in active[]. */
proctype in_place()
{
	byte a, b, k, s, me = N;
	bool bodies;
	atomic { !turn -> turn = true };
	SET_SHUT(true);
	wait_for_readers(false);
#ifdef BARE
	bodies = false;
#endif
	if :: bodies -> sweeps++ :: else fi;
	load(0, a);
	load(1, b);
	assert(CONSISTENT(a, b));
	store(0, a + 1);
	if
	:: skip ->
		store(1, b + 1);
		atomic { commits++; next++ }
	:: skip -> store(0, a) /* it rolls back */
	fi;
	if :: bodies -> sweeps++ :: else fi;
	SET_SHUT(false);
	turn = false
}
#endif

init {
	atomic {
		byte i = 0;
		do :: i < NS -> run software(i); i++ :: else -> break od;
		do :: i < NS + NR -> run reader(i); i++ :: else -> break od;
#ifdef HARD
		run hardware(HW);
#endif
#ifdef INPLACE
		run in_place();
#endif
		i = 0
	}
	_nr_pr == 1;
	assert(FINAL)
}
