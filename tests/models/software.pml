/* SPDX-License-Identifier: BSD-3-Clause
 *
 * software.pml - software updates among readers and other updates: isolation and progress.  fur.pml
 * has their durability.  NS software updates and NR readers run, each until it has ended once; a
 * software update runs again when it is defeated, and holds the turn then.  Each step is one access
 * to a shared word.  Memory is sequentially consistent, so the model is about the order of steps.
 * Where a fence orders one step before another, the mutation swaps the two.
 *
 * Settings:
 *   -DNS=n         software updates, 2 by default
 *   -DNR=n         readers, 1 by default
 *   -DSERIAL       update 0 holds the turn from its begin
 *   -DBATCH        updates that wait for the turn publish in the leader's batch
 *   -DTIMEOUT      the leader may stop draining once, and let readers in
 *   -DHWPUB        the leader publishes in a hardware transaction first, and exclusively after an
 *                  abort
 *   -DHARD         there is also a hardware update; its loads are tracked
 *   -DHARD -DROT   the same, but its loads are not tracked, and it appears in active[]
 *   -DINPLACE      there is also an update in place; it may roll back
 *   -DCOLLIDE      all lines have the same stamp
 *
 * Workloads:
 *   by default     each update adds 1 to words 0 and 1, and every transaction must find them equal
 *   -DTWO          the same, but updates 1 and 2 add 1 to word 2 only
 *   -DCROSS        update 0 computes word 0 from word 1, update 1 computes word 1 from word 0, and
 *                  update 2 writes word 2
 *   -DCHAIN        update 0 computes word 0 from word 1, update 1 adds 1 to word 1, and update 2
 *                  adds 1 to word 2
 *   -DABA          update 1 sets words 1 and 2, update 2 sets word 0 and clears word 1, and
 *                  update 0 reads the three
 *
 * Checked: every reader and every body, also one that is defeated later, sees a state of some
 * serial order (INV-SW1, INV-SW3); the final state is that of some serial order, with every update in
 * it (INV-SW2, INV-SW4, INV-SW7); a serial update is never defeated (INV-SW6); no thread waits forever.
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   ODDASEVEN    a body that begins during a publication counts it as over (INV-SW1)
 *   STAMPFIRST   a body looks at P and at the stamp before it loads the word (INV-SW1)
 *   LATESTAMP    the leader stamps a line after it has stored to it (INV-SW1)
 *   NOSTAMPS     the leader does not stamp the lines (INV-SW1)
 *   NOBODIES     the leader ignores the software bodies that it finds active (INV-SW1)
 *   EVENFIRST    the leader makes P even before it stores (INV-SW1)
 *   UNCHECKED    an extension compares values, and does not look at stamps (INV-SW1)
 *   BARE         an update in place ignores the software bodies that it finds active (INV-SW1)
 *   NOEXTEND     an update does not check its reads at its commit (INV-SW2)
 *   EARLYEXTEND  an update checks its reads before it has the turn (INV-SW2)
 *   NOTURN       an update publishes without the turn (INV-SW2)
 *   NOCLAIM      a member does not claim the lines that it writes (INV-SW2)
 *   CHECKFIRST   a member checks its reads before it claims its lines (INV-SW2)
 *   NOCLAIMLOOK  a member does not look for claims on the lines that it has read (INV-SW2)
 *   GATEFIRST    the leader opens the gate before it has stamped its own lines (INV-SW2)
 *   NOSHUT       the leader does not set `shut` (INV-SW3)
 *   LATESHUT     the leader sets `shut` after it has drained (INV-SW3)
 *   UNDRAINED    the leader waits for readers only before it sets `shut` (INV-SW3)
 *   READERBLIND  a reader does not look at `shut` (INV-SW3)
 *   PUBNOWAIT    a publication in hardware does not wait for readers (INV-SW3)
 *   HARDNOWAIT   a hardware update does not wait for software bodies (INV-SW4)
 *   LEAVEFIRST   the leader leaves active[] before it stores (INV-SW4)
 *   BODYBLIND    a body does not look at `shut` (INV-SW5)
 *   LATETURN     a serial update takes the turn at its commit (INV-SW6)
 *   NOMEMBERWAIT  the leader does not wait for the members that have claimed (INV-SW7)
 *   NOGATELOOK   a member does not look at the gate again after its request is claimed (INV-SW7)
 *
 * Steps that save time, and that nothing else needs.  Without them everything still holds:
 *   -DNOGRACE      the leader drains at once; readers stay out for longer
 *   -DSHUTFIRST    the leader clears `shut` before it makes P even; bodies begin at P - 1
 *   -DNOLOADWAIT   a body extends at once, and does not wait until the publication is over
 *   -DSTAMPTHENVALUE  a member looks for a claim before it loads the word, and takes a conflict for
 *                  a defeat
 * Nor does a publication in hardware look at `shut`: it has the turn.
 */
#ifndef NS
#define NS 2
#endif
#ifndef NR
#define NR 1
#endif
#define HW (NS + NR) /* the thread of the hardware update */
#define IP (NS + NR + 1) /* that of the update in place; it is never in active[] */
#ifdef HARD
#define N (NS + NR + 1)
#else
#define N (NS + NR)
#endif
#if defined(ABA) || defined(TWO) || ((defined(CROSS) || defined(CHAIN)) && NS > 2)
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
byte sp[STAMPS];      /* stamps: the number of the publication, */
byte so[STAMPS];      /* ... and the thread */
byte P;               /* publications: odd while one is under way */
bool turn, shut;
byte gate;
byte act[N];          /* active[].seq: 0, or its kind and 4 times the number of the transaction */
#define READER 1      /* or a hardware update whose loads are not tracked */
#define BODY 2
#define KIND(s) ((s) & 3)
mtype = { NONE, WAITING, CLAIMED, DONE, DEFEATED };
mtype req[NS] = NONE;

/* Of each software update, for the process that publishes it: the values that it has loaded, and
 * the words whose loads it has logged (bits). */
byte val[NS * W];
byte logged[NS];
#define VAL(m, k) val[(m) * W + (k)]

/* --------------------------------------- hardware transactions, and ghost variables */
bool hin, hdoomed, hshut; byte hr, hw; /* the hardware update: words that it has read, written */
bool pin, pdoomed; byte pw;            /* the publication in hardware */
byte commits;
bool committed[NS];

#if defined(CROSS)
#define READS(m) ((m) == 2 -> 4 : 3)
#define WRITES(m) (1 << (m))
#define NEW(m, k) ((m) == 2 -> 1 : VAL(m, 1 - (m)) + 1)
/* The states that a serial order leads to. */
#define CONSISTENT(a, b) \
	(((a) == 0 && (b) == 0) || ((a) == 1 && (b) == 0) || ((a) == 0 && (b) == 1) || \
	 ((a) == 1 && (b) == 2) || ((a) == 2 && (b) == 1))
#define FINAL (w[0] + w[1] == 3)
#elif defined(CHAIN)
#define READS(m) ((m) == 0 -> 2 : 1 << (m))
#define WRITES(m) (1 << (m))
#define NEW(m, k) (VAL(m, ((m) == 0 -> 1 : (k))) + 1)
#define CONSISTENT(a, b) (!((a) == 2 && (b) == 0) && (a) <= 2 && (b) <= 1)
#define FINAL (w[1] == 1 && (w[0] == 1 || w[0] == 2))
#elif defined(TWO)
#define READS(m) ((m) == 0 -> 3 : 4)
#define WRITES(m) READS(m)
#define NEW(m, k) (VAL(m, k) + 1)
#define CONSISTENT(a, b) ((a) == (b))
#define FINAL (w[0] == w[1] && w[0] + w[2] == commits)
#elif defined(ABA)
#define READS(m) ((m) == 0 -> 7 : 0)
#define WRITES(m) ((m) == 0 -> 0 : ((m) == 1 -> 6 : 3))
#define NEW(m, k) ((m) == 1 || (k) == 0)
#define CONSISTENT(a, b) true
#define FINAL true
#else
#define READS(m) 3
#define WRITES(m) 3
#define NEW(m, k) (VAL(m, k) + 1)
#define CONSISTENT(a, b) ((a) == (b))
#define FINAL (w[0] == commits && w[1] == commits)
#endif
#if defined(CROSS) || defined(CHAIN)
#define SEEN_OK(m) ((m) == 2 || READS(m) != 3 || CONSISTENT(VAL(m, 0), VAL(m, 1)))
#elif defined(ABA)
#define SEEN_OK(m) !((m) == 0 && VAL(m, 0) == 0 && VAL(m, 1) == 0 && VAL(m, 2) == 1)
#else
#define SEEN_OK(m) CONSISTENT(VAL(m, 0), VAL(m, 1))
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

/* Each value that the update has logged must still be there, in one state: that at the end of
 * publication rv2.  The caller may be in the body, so publications may be under way. */
inline extend() {
	do
	:: atomic { rv2 = P; rv2 = rv2 - (rv2 % 2); ok = true; again = false; j = k; k = 0;
		find(logged[me]) }
	   do
	   :: k < W ->
		load(k, a);
		if :: a != VAL(me, k) -> ok = false; break :: else fi;
#ifndef UNCHECKED
		s = sp[LINE(k)];
		if :: s > rv2 -> P != s; again = true; break :: else fi;
#endif
		atomic { k++; find(logged[me]) }
	   :: else -> break
	   od;
	   atomic { k = j; j = 0; a = 0; s = 0;
		if :: !again -> rv = rv2; rv2 = 0; break :: else -> again = false fi }
	od
}

/* A member's publication, by itself or by the leader: m publishes under p. */
inline stamp_own_lines() {
	atomic { k = 0; find(WRITES(m)) }
	do
	:: k < W && out == DONE -> atomic {
#ifdef NOCLAIM
		skip;
#else
		if
		:: sp[LINE(k)] == p && so[LINE(k)] != m -> out = WAITING
		:: else -> sp[LINE(k)] = p; so[LINE(k)] = m
		fi;
#endif
		k++; find(WRITES(m)) }
	:: else -> break
	od
}
#ifdef NOCLAIMLOOK
#define CLAIMED_BY_OTHER(k) false
#else
#define CLAIMED_BY_OTHER(k) (sp[LINE(k)] == p && so[LINE(k)] != m)
#endif
inline check_reads() {
	atomic { k = 0; find(logged[m]) }
	do
	:: k < W && out == DONE ->
#ifdef STAMPTHENVALUE
		atomic { if :: CLAIMED_BY_OTHER(k) -> out = WAITING :: else fi };
		load(k, a);
		atomic { if :: out == DONE && a != VAL(m, k) -> out = DEFEATED :: else fi;
#else
		load(k, a);
		atomic {
			if
			:: CLAIMED_BY_OTHER(k) -> out = WAITING
			:: else -> if :: a != VAL(m, k) -> out = DEFEATED :: else fi
			fi;
#endif
			a = 0; k++; find(logged[m]) }
	:: else -> break
	od
}
inline publish_member() {
	out = DONE;
#ifdef CHECKFIRST
	check_reads();
	stamp_own_lines();
#else
	stamp_own_lines();
	check_reads();
#endif
	if
	:: out == DONE ->
		atomic { k = 0; find(WRITES(m)) }
		do
		:: k < W -> store(k, NEW(m, k)); atomic { k++; find(WRITES(m)) }
		:: else -> break
		od;
		atomic { commits++; committed[m] = true }
	:: else
	fi;
	atomic { k = 0; req[m] = out; out = NONE }
}

inline stamp_lines() {
#ifdef NOSTAMPS
	k = W;
#else
	atomic { k = 0; find(WRITES(me)) }
#endif
	do
	:: k < W -> atomic { sp[LINE(k)] = p; so[LINE(k)] = me; k++; find(WRITES(me)) }
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
	byte rv, rv2, k, j, a, p, s, m, runs, last;
	bool ok, again, bodies, serial, waited;
	mtype out = NONE;
#ifdef SERIAL
	serial = (me == 0);
#endif

begin:
#ifndef LATETURN /* INV-SW6 */
	if :: serial -> atomic { !turn -> turn = true } :: else fi;
#endif
	enter(BODY);
#ifndef BODYBLIND /* INV-SW5 */
	do
	:: shut -> leave(); !shut; enter(BODY)
	:: else -> break
	od;
#endif
#ifdef ODDASEVEN
	rv = P;
#else
	atomic { rv = P; rv = rv - (rv % 2) };
#endif

	/* The body. */
	atomic { logged[me] = 0; k = 0; find(READS(me)) };
	do
	:: k < W ->
		do
		::
#ifdef STAMPFIRST
			p = P;
			s = sp[LINE(k)];
			load(k, a);
#else
			load(k, a);
			p = P;
#endif
#ifndef LATETURN
			assert(!serial || p == rv); /* INV-SW6 */
#endif
			if :: p == rv -> break :: else fi;
#ifndef STAMPFIRST
			s = sp[LINE(k)];
#endif
			if :: s <= rv -> break :: else fi;
#ifndef NOLOADWAIT
			P != s;
#endif
			atomic { a = 0; p = 0; s = 0 };
			extend();
			if :: !ok -> goto defeated :: else fi
		od;
		atomic {
			VAL(me, k) = a; if :: !serial -> logged[me] = logged[me] | (1 << k) :: else fi;
			a = 0; p = 0; s = 0; k++; find(READS(me))
		}
	:: else -> atomic { k = 0; break }
	od;
	assert(SEEN_OK(me)); /* INV-SW1 */
	if
	:: WRITES(me) == 0 -> leave(); if :: serial -> turn = false :: else fi; goto done
	:: else
	fi;

	/* Commit: take the turn, or be a member of the batch of the thread that has it. */
#ifndef LATETURN
	if :: serial -> goto leader :: else fi;
#endif
#ifdef EARLYEXTEND
	if :: P != rv -> extend(); if :: !ok -> goto defeated :: else fi :: else fi;
#endif
#ifdef BATCH
	req[me] = WAITING;
	do
	:: atomic { !turn -> turn = true };
		if
		:: req[me] == WAITING -> req[me] = NONE; break
		:: else -> turn = false
		fi
	:: atomic { gate != 0 && gate != last && req[me] == WAITING -> p = gate };
		atomic { if :: req[me] == WAITING -> req[me] = CLAIMED; m = me :: else -> m = NS fi };
		if
		:: m == me ->
#ifndef NOGATELOOK /* INV-SW7 */
			if
			:: gate != p -> req[me] = WAITING; goto next
			:: else
			fi;
#endif
			last = p;
			publish_member()
		:: else
		fi;
next:		atomic { p = 0; m = 0 }
	:: req[me] == DONE -> leave(); goto done
	:: req[me] == DEFEATED -> req[me] = NONE; goto defeated
	od;
#elif !defined(NOTURN) /* INV-SW2 */
	atomic { !turn -> turn = true };
#endif

leader:
#if !defined(NOEXTEND) && !defined(EARLYEXTEND) /* INV-SW2 */
	if
	:: !serial && P != rv ->
		extend();
		if :: !ok -> turn = false; goto defeated :: else fi
	:: else
	fi;
#endif
#ifdef HWPUB
	atomic { p = P + 1; P = p };
	stamp_lines();
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
			commits++; committed[me] = true; goto published
		fi
	};
#endif
#ifdef LEAVEFIRST
	leave();
#endif
	/* Exclusive publication. */
grace:
#ifndef NOGRACE
	wait_for_readers(false);
#endif
	bodies = false;
#ifdef LATESHUT
	wait_for_readers(false);
#endif
#ifndef NOSHUT /* INV-SW3 */
	SET_SHUT(true);
#endif
#ifdef UNDRAINED
	atomic { s = 0; do :: s < N -> bodies = bodies || (s != me && KIND(act[s]) == BODY); s++
		:: else -> s = 0; break od };
#elif !defined(LATESHUT)
#ifdef TIMEOUT
	if
	:: !waited -> waited = true; wait_for_readers(true); SET_SHUT(false); goto grace
	:: waited = true
	fi;
#endif
	wait_for_readers(false);
#endif
#ifdef NOBODIES
	bodies = false;
#endif
	if
#ifdef HWPUB
	:: true ->
#else
	:: bodies -> atomic { p = P + 1; P = p }
#endif
#ifdef EVENFIRST
		P = p + 1;
#endif
#if defined(BATCH) && defined(GATEFIRST)
		gate = p;
#endif
#ifndef LATESTAMP
		stamp_lines();
#endif
#if defined(BATCH) && !defined(GATEFIRST)
		gate = p;
#endif
	:: else
	fi;
	atomic { k = 0; find(WRITES(me)) };
	do
	:: k < W ->
		store(k, NEW(me, k));
#ifdef LATESTAMP
		if :: bodies -> atomic { sp[LINE(k)] = p; so[LINE(k)] = me } :: else fi;
#endif
		atomic { k++; find(WRITES(me)) }
	:: else -> atomic { k = 0; break }
	od;
	atomic { commits++; committed[me] = true };
#ifdef BATCH
	if
	:: bodies ->
		/* An update that waits may sleep: the leader publishes it. */
		m = 0;
		do
		:: m < NS ->
			if
			:: true -> atomic { if :: req[m] == WAITING -> req[m] = CLAIMED; out = DONE :: else fi };
				if :: out == DONE -> publish_member() :: else fi
			:: true
			fi;
			m++
		:: else -> atomic { m = 0; break }
		od;
		gate = 0;
#ifndef NOMEMBERWAIT /* INV-SW7 */
		do
		:: m < NS -> req[m] != CLAIMED; m++
		:: else -> atomic { m = 0; break }
		od;
#endif
	:: else
	fi;
#endif
#ifdef SHUTFIRST
	SET_SHUT(false);
#endif
#ifndef EVENFIRST
	if :: bodies || (P % 2) -> P = p + 1 :: else fi;
#endif
#if !defined(SHUTFIRST) && !defined(NOSHUT)
	SET_SHUT(false);
#endif
	leave();
	turn = false;
	goto done;

published:
#ifdef HWPUB
	P = p + 1;
	leave();
	turn = false;
	goto done;
#endif

defeated:
	assert(!serial);
	leave();
	atomic { serial = true; ok = false; p = 0; s = 0; a = 0; k = 0; rv = 0; rv2 = 0 };
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
proctype in_place()
{
	byte a, b, k, s, p, me = IP;
	bool bodies;
	atomic { !turn -> turn = true };
	SET_SHUT(true);
	wait_for_readers(false);
#ifdef BARE
	bodies = false;
#endif
	if :: bodies -> atomic { p = P + 1; P = p } :: else fi;
	load(0, a);
	load(1, b);
	assert(CONSISTENT(a, b));
	if :: bodies -> atomic { sp[LINE(0)] = p; so[LINE(0)] = me } :: else fi;
	store(0, a + 1);
	if
	:: skip ->
		if :: bodies -> atomic { sp[LINE(1)] = p; so[LINE(1)] = me } :: else fi;
		store(1, b + 1);
		commits++
	:: skip -> store(0, a) /* it rolls back */
	fi;
	if :: bodies -> P = p + 1 :: else fi;
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
