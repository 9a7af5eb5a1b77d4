/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur.pml - the protocol of docs/protocol.md, from begin to recovery: NW updates, NR readers, one
 * replayer, and a power failure at any instant.  Each update chooses freely between hardware, if
 * there is a machine, and the fallback lock; a hardware transaction may abort at any time.  Memory
 * is sequentially consistent, so the model is about the order of steps.  Where a fence orders one
 * step before another (the transactional stores before the scan of active[]), the mutation swaps
 * the two.
 *
 * Machines, at most one of:
 *   -DTSX          loads tracked; the window suspends the tracking of loads; an update announces
 *                  itself with its commit, and draws its durTS after that
 *   -DTRACKED      as TSX without TSXLDTRK: an update reads active[] with tracked loads, and does
 *                  not wait in its window
 *   -DPOWER        loads tracked; the window is suspended altogether: an update draws its durTS and
 *                  announces itself before its commit, and an abort after that leaves an abort
 *                  marker
 *   -DPOWER -DROT  loads untracked, and updates appear in active[] (snapshot)
 *
 * The lock:
 *   by default     the updates that take the lock run in place
 *   -DSOFT         they are software updates, and take it as they commit: the load is the check of
 *                  what the body has read, and the update announces itself and draws its durTS
 *                  before it stores.  software.pml has the other steps; parallel.pml has updates
 *                  that publish beside each other
 *
 * Workloads:
 *   by default     update 0 reads word 1 and writes word 0, update 1 reads word 0 and writes both;
 *                  with NW=3, each update reads the word of the one before it, in a circle
 *   -DISO          both updates write both words, and every reader must find them equal
 *   -DAPART        each update reads and writes a word of its own, so that neither aborts the other
 *   -DRING=n       slots in the ring, 2 by default; with 1 the second update needs the slot of the
 *                  first
 *   -DBESIDE       the replayer is another process
 *   -DNW=n         updates, 2 by default, 3 at most
 *   -DNHW=n        only the updates below n may run in hardware
 *   -DTICKET       a reader is two read-only transactions that end with tickets, one word each, and
 *                  one wait for both
 *   -DTICKET -DHANDON  the last update uses their results, and begins when they have ended
 *   -DNR=n         readers, 1 by default
 *
 * Checked at every state, by monitor(): if the power failed now, the set of updates that recovery
 * would keep
 *   - contains every update that has returned, and every update that a reader that has returned has
 *     read from (INV-D1, INV-D2); with TICKET, a reader returns with its wait (INV-D7);
 *   - contains every update whose writes are in the heap's image, which nothing can take back
 *     (INV-R1, INV-R3, INV-R6);
 *   - is closed under reads-from (INV-D3, INV-D4, INV-R2); with HANDON, also under the use of what
 *     a reader has read (INV-D7);
 *   - is not refused: if the record of an update on the medium claims that another one was settled,
 *     then it was (INV-M4), for an update leaves nondurable[] only when it is (INV-D5).
 * Checked by reader(), with -DISO: a reader sees all of an update or nothing (INV-H1, INV-H2,
 * INV-H3).
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells on which
 * machine, and which planted bugs of tests/plants break the sources in the same way:
 *   NOFENCE      an update scans active[] before its stores would abort on a load (INV-H2)
 *   NOISO        an update does not wait for the readers that it found active (INV-H2)
 *   NOWAITD      updates and readers return without waiting for D (INV-D2)
 *   EARLYD       updates and readers collect D before their last access (INV-D1)
 *   TICKETEARLY  with TICKET: the wait for the first ticket counts for the second (INV-D7)
 *   TICKETSKIP   with TICKET: the wait for a ticket returns without waiting for D (INV-D7)
 *   EARLYLEAVE   an update leaves nondurable[] before its marker is durable (INV-D5)
 *   NODEPS       a marker does not name D (INV-D3)
 *   NOSLOTWAIT   an update draws its durTS before the members of D have drawn theirs (INV-D4)
 *   NOMARK       an update leaves nondurable[] before its abort marker is durable (INV-D5)
 *   EARLYLAP     an update uses a slot of the ring again before it is replayed (INV-R3)
 *   TAILFIRST    the replayer moves the tail before the heap is durable (INV-R1)
 *   NOWRITEOUT   with BESIDE: the replayer does not make marker and log durable first (INV-R6)
 *   NOCLOSURE    recovery keeps an update without the updates that its marker names (INV-R2)
 *   LATEACTIVE   a reader publishes active[i] after its first load (INV-H1)
 *   NOSUBSCRIBE  a hardware update does not look at `shut` (INV-H3)
 *   NOLOOK       a reader does not look at `shut` (INV-H3)
 *   NODRAIN      the lock's holder does not wait until active[] is clear (INV-H3)
 *   UNLOCKFIRST  the lock's holder releases the lock before it announces itself (INV-D1)
 *   LATECLAIM    an update reads next_durts after it has collected D, not before (INV-M4)
 *   WINDOWCLAIM  an update claims on POWER, where it draws before it announces itself (INV-M4)
 *   LEFTUNNAMED  a marker does not name a member of D that has left nondurable[] (INV-M5)
 *   LEFTUNSEEN   D leaves out an update that drew after the look at next_durts, and left (INV-M5)
 *   PAPER        with POWER: Algorithm 1 of the FUR paper as printed (INV-D2)
 *
 * A step whose place is free.  With it everything still holds:
 *   -DSTOREFIRST  with SOFT: an update announces itself and draws its durTS after its stores, but
 *                 before it releases the lock
 *
 * PAPER is a protocol of its own.  Every update and reader takes a time from a clock at its begin,
 * and an update takes another one after its isolation wait.  No transaction waits for an update
 * whose second time is later than its own begin.  An update waits before it writes its marker,
 * which names nothing.
 */
#ifndef NR
#define NR 1
#endif
#ifndef RING
#define RING 2
#endif
#ifndef NW
#define NW 2
#endif
#ifndef NHW
#define NHW NW
#endif
#define N (NW + NR)
#if NW > 2
#define EACH(what, w) (what(w, 0) && what(w, 1) && what(w, 2))
#define EACH_NAMED(what, w) (what(w, 0) && what(w, 1) && what(w, 2))
#else
#define EACH(what, w) (what(w, 0) && what(w, 1))
#define EACH_NAMED(what, w) (what(w, 0) && what(w, 1))
#endif
#if defined(TSX) || defined(TRACKED) || defined(POWER)
#define HARDWARE
#endif

/* ------------------------------------------------------------ shared, volatile */
byte mem[NW];         /* of each word: 1 + the update that wrote it, or 0 */
bool act[N];
bool nd[NW];          /* nondurable[].id; each update runs once, so a bit identifies it */
byte durts[NW];       /* of nondurable[], once drawn; kept when the update has left */
byte G = 1;           /* next_durts */
bool shut;            /* readers and hardware updates are shut out */

/* ------------------------------------------------------------- on the medium */
byte ring[RING + 1];  /* 1 + the update whose marker is in this slot */
bool out[NW];         /* its marker and log are durable: one checksum covers both (INV-M3) */
bool gone[NW];        /* its abort marker is durable */
byte deps[NW];        /* the updates that its marker names: bits */
byte claim[NW];       /* its record claims: each durTS below that it does not name is settled */
bool image[NW];       /* its writes are in the heap's image */
byte tail = 1;

/* ------------------------------------------------- hardware, and ghost variables */
bool intx[NW]; bool doomed[NW];
byte wset[NW]; byte rset[NW];     /* words written, words whose loads are tracked: bits */
bool ndset[NW]; bool shutset[NW]; /* nd is in its write set, shut in its read set */
byte actset[NW];                  /* entries of act that it has read with tracked loads: bits */
byte from[NW];                    /* 1 + the update that it has read from, or 0 */
bool returned[NW]; bool committed[NW];
byte rv0[NR]; byte rv1[NR]; bool rreturned[NR]; /* the words that it has read */
#ifdef HANDON
bool rended; /* the reader's transactions have ended */
#define HANDON_OK(w) (!(committed[w] && KEPT(w)) || (KEPT_ID(rv0[0]) && KEPT_ID(rv1[0])))
#endif

#ifdef PAPER
byte clock = 1;
byte stamp[NW];       /* of {NON-DURABLE, time} */
#define TAKE_TIME(t) atomic { t = clock; clock++ }
#define ANNOUNCE(w) atomic { stamp[w] = clock; clock++; nd[w] = true }
#define MATTERS(w) (nd[w] && stamp[w] < began)
#else
#define TAKE_TIME(t) skip
#define ANNOUNCE(w) nd[w] = true
#endif

#define SLOT(d) ((d) % RING)
#define INRING(w) (out[w] && durts[w] >= tail && ring[SLOT(durts[w])] == (w) + 1)
#define BELOW(w) (durts[w] != 0 && durts[w] < tail)
/* INV-R2: recovery keeps an update if it is replayed; or if its marker is in the ring, and each
 * update that the marker names was kept, lies below the tail, or has an abort marker.  A marker
 * names smaller durTSs only, so three levels are enough for three updates. */
#define NAMES(w, u) (deps[w] & (1 << (u)))
#define SECOND_OK(w, u) (!NAMES(w, u) || BELOW(u) || gone[u] || INRING(u))
#define KEPT_SECOND(w) (INRING(w) && EACH_NAMED(SECOND_OK, w))
#define FIRST_OK(w, u) (!NAMES(w, u) || BELOW(u) || gone[u] || KEPT_SECOND(u))
#ifdef NOCLOSURE
#define NAMED_OK(w) true
#else
#define NAMED_OK(w) EACH(FIRST_OK, w)
#endif
#define KEPT(w) ((image[w] && BELOW(w)) || (INRING(w) && NAMED_OK(w)))
#define KEPT_ID(id) ((id) == 0 || KEPT((id) - 1))

/* INV-R1, INV-R3, INV-R6: the writes that are in the heap's image survive, for nothing can take
 * them back. */
#define IMAGE_OK(w) (!image[w] || KEPT(w))
/* INV-D2, for an update and for a reader. */
#define RETURN_OK(w) (!returned[w] || KEPT(w))
#define READER_OK(r) (!rreturned[r] || (KEPT_ID(rv0[r]) && KEPT_ID(rv1[r])))
/* INV-D3, INV-D4: closed under reads-from. */
#define READS_OK(w) (!(committed[w] && KEPT(w)) || from[w] == (w) + 1 || KEPT_ID(from[w]))
/* INV-M4 */
#define CLAIM_OK(w, u) ((w) == (u) || !out[w] || durts[u] == 0 || durts[u] >= claim[w] || \
	NAMES(w, u) || out[u] || gone[u])

/* INV-M5 */
#ifdef POWER
#define COVERED_OK(w) true
#else
#define COVERED_OK(w) (!out[w] || !committed[w] || from[w] == 0 || from[w] == (w) + 1 || \
	NAMES(w, from[w] - 1) || durts[from[w] - 1] < claim[w])
#endif

#define UPDATE_OK(w) (IMAGE_OK(w) && RETURN_OK(w) && READS_OK(w) && COVERED_OK(w) && \
	EACH(CLAIM_OK, w))

proctype monitor()
{
end:	!(UPDATE_OK(0) && UPDATE_OK(1) && READER_OK(0)
#if NW > 2
	  && UPDATE_OK(2)
#endif
#if NR > 1
	  && READER_OK(1)
#endif
#ifdef HANDON
	  && HANDON_OK(NW - 1)
#endif
	) -> assert(false)
}

/* A non-transactional load or store of a word dooms each update that holds it in a conflicting
 * way. */
#ifndef HARDWARE
#define FOR_UPDATES(doom, x) skip
#elif NW > 2
#define FOR_UPDATES(doom, x) doom(0, x); doom(1, x); doom(2, x)
#else
#define FOR_UPDATES(doom, x) doom(0, x); doom(1, x)
#endif
inline doom_writer(w, k) { if :: intx[w] && (wset[w] & (1 << k)) -> doomed[w] = true :: else fi }
inline doom_reader(w, k) { if :: intx[w] && (rset[w] & (1 << k)) -> doomed[w] = true :: else fi }
inline doom_scanner(w, i) { if :: intx[w] && (actset[w] & (1 << i)) -> doomed[w] = true :: else fi }
/* What a transactional access of me does to the others. */
inline doom_other_writer(w, k) {
	if :: w != me && intx[w] && (wset[w] & (1 << k)) -> doomed[w] = true :: else fi
}
inline doom_conflicting(w, set) {
	if :: w != me && intx[w] && ((wset[w] | rset[w]) & (set)) -> doomed[w] = true :: else fi
}
inline doom_subscriber(w, x) { if :: intx[w] && shutset[w] -> doomed[w] = true :: else fi }
inline plain_load(k, dst) { atomic { FOR_UPDATES(doom_writer, k); dst = mem[k] } }
inline plain_store(k, value) { atomic {
	FOR_UPDATES(doom_writer, k); FOR_UPDATES(doom_reader, k); mem[k] = value } }
/* A change of act[i] dooms each update that has read it with a tracked load. */
inline set_active(i, value) { atomic { act[i] = value; FOR_UPDATES(doom_scanner, i) } }
/* Has the update left nondurable[], and drawn its durTS since next_durts was `since` (INV-M5)?
 * 0: no matter. */
#ifdef LEFTUNSEEN
#define LEFT_SINCE(k, since) false
#else
#define LEFT_SINCE(k, since) (since != 0 && durts[k] >= since)
#endif
/* Look at nondurable[k], and add it to D.  If its owner has stored to it in a transaction that has
 * not committed yet, the look dooms the owner. */
inline look_since(k, since) { atomic {
	if
	:: k != me ->
		if :: intx[k] && ndset[k] -> doomed[k] = true :: else fi;
		if :: nd[k] || LEFT_SINCE(k, since) -> D = D | (1 << k) :: else fi
	:: else
	fi } }
#define look(k) look_since(k, 0)
#if NW > 2
#define LOOK look(0); look(1); look(2)
#define LOOK_AT_OTHERS(since) look_since(0, since); look_since(1, since); look_since(2, since)
#define WAIT_D wait_durable(0); wait_durable(1); wait_durable(2)
#define WAIT_DRAWN wait_drawn(0); wait_drawn(1); wait_drawn(2)
#define NAME_D name(0); name(1); name(2)
#else
#define LOOK look(0); look(1)
#define LOOK_AT_OTHERS(since) look_since((1 - me), since)
#define WAIT_D wait_durable(0); wait_durable(1)
#define WAIT_DRAWN wait_drawn(0); wait_drawn(1)
#define NAME_D name(0); name(1)
#endif
#define IN_D(k) (D & (1 << (k)))
inline wait_durable(k) { if :: IN_D(k) -> !nd[k] :: else fi }
inline wait_drawn(k) { if :: IN_D(k) -> (durts[k] != 0 || !nd[k]) :: else fi }
/* INV-D3, INV-M5.  A marker can name only smaller durTSs.  On POWER it need not name an update that
 * has left nondurable[] meanwhile: that one is durable. */
#if defined(POWER) || defined(LEFTUNNAMED)
#define NAMEABLE(k) nd[k]
#else
#define NAMEABLE(k) true
#endif
inline name(k) {
	if
	:: IN_D(k) && NAMEABLE(k) && durts[k] != 0 && durts[k] < durts[me] ->
		deps[me] = deps[me] | (1 << k)
	:: else
	fi
}

/* Collect D (INV-D1).  An update that makes a claim reads next_durts first (INV-M4): each update
 * with a smaller durTS has announced itself, so either it is in D, or it has left nondurable[] and
 * is settled. */
#if !defined(POWER) || defined(WINDOWCLAIM)
#define READ_G below = G
#else
#define READ_G skip
#endif
#ifdef LATECLAIM
#define COLLECT LOOK_AT_OTHERS(0); READ_G
#else
#define COLLECT READ_G; LOOK_AT_OTHERS(below)
#endif

#ifdef ISO
#define READS(me) 0
#define WRITES(me) 3
#elif defined(APART)
#define READS(me) (me)
#define WRITES(me) (1 << (me))
#elif NW > 2
#define READS(me) ((me) == 0 -> 2 : (me) - 1)
#define WRITES(me) (1 << (me))
#else
#define READS(me) (1 - (me))
#define WRITES(me) (me == 0 -> 1 : 3)
#endif

/* Draw the durTS, on TSX and under the lock: after the members of D have drawn theirs (INV-D4). */
inline draw() {
#ifndef NOSLOTWAIT
	WAIT_DRAWN;
#endif
	atomic { durts[me] = G; G++ }
}

/* INV-R3: wait until the slot of the ring is free. */
inline ring_room() {
#ifndef EARLYLAP
	durts[me] < tail + RING
#else
	skip
#endif
}

/* The update is visible.  Make it durable, then return.  It leaves nondurable[] as soon as it is
 * durable itself, before it waits for D: an update that reads from it afterwards finds each member
 * of its D in nondurable[], or durable. */
inline become_durable() {
	ring_room();
#ifdef PAPER
	D = (MATTERS(1 - me) << (1 - me));
	WAIT_D;
#endif
#ifdef EARLYLEAVE /* else INV-D5 */
	nd[me] = false;
#endif
	atomic { deps[me] = 0;
#if !defined(NODEPS) && !defined(PAPER)
		NAME_D; /* INV-D3 */
#endif
		claim[me] = below;
		ring[SLOT(durts[me])] = me + 1;
#ifdef BESIDE
	}
	atomic { /* the replayer sees the marker before it is durable */
#endif
		out[me] = true }
	nd[me] = false;
#if !defined(NOWAITD) && !defined(PAPER)
	WAIT_D; /* INV-D2 */
#endif
	returned[me] = true
}

/* A store in place to each word of the write set. */
inline stores() {
	if :: WRITES(me) & 1 -> plain_store(0, me + 1) :: else fi;
	if :: WRITES(me) & 2 -> plain_store(1, me + 1) :: else fi;
#if NW > 2
	if :: WRITES(me) & 4 -> plain_store(2, me + 1) :: else fi
#endif
}

/* A software update has checked its reads, and stores next. */
inline software_announce() {
#ifndef EARLYD
	COLLECT;
#endif
	ANNOUNCE(me);
	draw()
}

/* INV-H2: wait until each transaction that is active now no longer is. */
inline isolation_wait() {
#ifndef NOISO
	i = 0;
	do
	:: i < N -> if :: i != me && act[i] -> (!act[i] || doomed[me]) :: else fi; i++
	:: else -> break
	od
#else
	skip
#endif
}

/* The stores of a hardware transaction: they doom an update that has accessed the words. */
inline hardware_stores() {
	atomic { FOR_UPDATES(doom_conflicting, WRITES(me)); wset[me] = WRITES(me) }
}
inline end_hardware() {
	intx[me] = false; ndset[me] = false; shutset[me] = false;
	wset[me] = 0; rset[me] = 0; actset[me] = 0
}

proctype update(byte me)
{
	byte i = 0, r = 0, below = 0, D = 0; /* D: bits */
#ifdef PAPER
	byte began;
#endif
	TAKE_TIME(began);
#ifdef HANDON
	if :: me == NW - 1 -> rended :: else fi;
#endif

#ifndef HARDWARE
	goto lock;
#else
	if :: goto lock :: me < NHW fi;

	/* ------------------------------------------------------------- hardware */
#ifdef ROT
	act[me] = true;
#ifndef NOSUBSCRIBE /* INV-H3 */
	if :: shut -> act[me] = false; goto lock :: else fi;
#endif
#endif
	atomic {
		intx[me] = true; doomed[me] = false; wset[me] = 0; rset[me] = 0;
		ndset[me] = false; shutset[me] = false; actset[me] = 0
	}
#if !defined(ROT) && !defined(NOSUBSCRIBE) /* INV-H3 */
	atomic { shutset[me] = true; if :: shut -> doomed[me] = true :: else fi }
#endif
#ifdef EARLYD
	COLLECT;
#endif
	/* The body: one load, then the stores.  Conflicts are eager, and the requester wins. */
	atomic {
		FOR_UPDATES(doom_other_writer, READS(me));
		r = mem[READS(me)];
#ifndef ROT
		rset[me] = 1 << READS(me)
#endif
	}
	if :: doomed[me] -> goto aborted :: skip fi;
#ifndef NOFENCE /* INV-H2: the stores would abort on a load before active[] is scanned */
	hardware_stores();
#endif
	/* The window. */
#if defined(TSX)
	isolation_wait();
#ifndef EARLYD
	COLLECT;
#endif
#elif defined(TRACKED)
	i = 0;
	do
	:: i < N -> atomic {
			actset[me] = actset[me] | (1 << i);
			if :: act[i] -> doomed[me] = true :: else fi
		}; i++
	:: else -> break
	od;
#ifndef EARLYD
	COLLECT;
#endif
#else /* POWER */
#ifndef EARLYD
	COLLECT;
#endif
	atomic { durts[me] = G; G++ }
#ifdef ROT
	act[me] = false;
#endif
	if :: durts[me] >= tail + RING -> goto aborted :: else fi; /* refused: FULL */
	isolation_wait();
	ANNOUNCE(me); /* with its durTS */
#endif
#ifdef NOFENCE
	hardware_stores();
#endif
#ifndef POWER
	ndset[me] = true;
#endif
	atomic { /* xend or tend. */
		if
		:: doomed[me] -> goto aborted
		:: else ->
			if :: wset[me] & 1 -> mem[0] = me + 1 :: else fi;
			if :: wset[me] & 2 -> mem[1] = me + 1 :: else fi;
#if NW > 2
			if :: wset[me] & 4 -> mem[2] = me + 1 :: else fi;
#endif
			nd[me] = true; committed[me] = true; from[me] = r;
			end_hardware()
		fi }
#ifndef POWER
	draw();
#endif
	become_durable();
	goto done;

aborted:
	atomic { end_hardware() }
#ifdef ROT
	act[me] = false;
#endif
#ifdef POWER
	if
	:: durts[me] != 0 ->
#ifdef NOMARK /* else INV-D5 */
		nd[me] = false;
		ring_room();
		atomic { ring[SLOT(durts[me])] = me + 1; gone[me] = true };
#else
		ring_room();
		atomic { ring[SLOT(durts[me])] = me + 1; gone[me] = true };
		nd[me] = false;
#endif
		goto done /* it does not try again: that would need a second identity, and every
			   * update may take the lock from the start */
	:: else
	fi;
#endif

#endif /* HARDWARE */

	/* ----------------------------------------------------------------- lock */
lock:
#if defined(SOFT) && defined(EARLYD)
	COLLECT; /* before its last load */
#endif
	atomic { !shut -> shut = true; FOR_UPDATES(doom_subscriber, 0) };
#ifndef NODRAIN /* INV-H3 */
	i = 0;
	do :: i < N -> if :: i != me -> !act[i] :: else fi; i++ :: else -> break od;
#endif
#if defined(EARLYD) && !defined(SOFT)
	COLLECT;
#endif
	plain_load(READS(me), r);
#if defined(SOFT) && !defined(UNLOCKFIRST) && !defined(STOREFIRST)
	software_announce();
#endif
	stores();
#if !defined(SOFT) && !defined(EARLYD)
	COLLECT;
#endif
#ifdef UNLOCKFIRST /* else INV-D1: it has announced itself when others can read it */
	atomic { shut = false; committed[me] = true; from[me] = r };
#ifdef SOFT
	software_announce();
#else
	nd[me] = true;
	draw();
#endif
#else
#ifdef STOREFIRST
	software_announce();
#elif !defined(SOFT)
	ANNOUNCE(me);
	draw();
#endif
	atomic { shut = false; committed[me] = true; from[me] = r };
#endif
	become_durable();
	goto done;
done:	skip
}

proctype reader(byte me)
{
	byte v0, v1;
	byte D = 0; /* bits */
#ifdef PAPER
	byte began;
#endif
	TAKE_TIME(began);
again:
#ifdef LATEACTIVE /* else INV-H1: the look at active[] of an update sees the reader */
	plain_load(0, v0);
#endif
	set_active(me, true);
#ifndef NOLOOK /* INV-H3 */
	if :: shut -> set_active(me, false); !shut; goto again :: else fi;
#endif
#ifdef EARLYD
	LOOK;
#endif
#ifndef LATEACTIVE
	plain_load(0, v0);
#endif
	plain_load(1, v1);
#ifdef ISO
	assert(v0 == v1);
#endif
#ifndef EARLYD /* INV-D1 */
	LOOK;
#endif
	set_active(me, false);
#ifdef PAPER
	D = MATTERS(0) + 2 * MATTERS(1);
#endif
#ifndef NOWAITD /* INV-D2 */
	WAIT_D;
#endif
	atomic { rv0[me - NW] = v0; rv1[me - NW] = v1; rreturned[me - NW] = true }
}

/* A read-only transaction that ends with a ticket. */
inline ticketed(k, v) {
	do
	:: set_active(me, true);
		if :: shut -> set_active(me, false); !shut :: else -> break fi
	od;
	plain_load(k, v);
	set_active(me, false)
}
inline ticket_wait() {
	LOOK;
#ifndef TICKETSKIP
	WAIT_D
#else
	skip
#endif
}
proctype ticket_reader(byte me)
{
	byte v0, v1;
	byte D = 0; /* bits */
	ticketed(0, v0);
#ifdef TICKETEARLY
	ticket_wait();
#endif
	ticketed(1, v1);
#ifdef HANDON
	atomic { rv0[me - NW] = v0; rv1[me - NW] = v1; rended = true };
#endif
#ifndef TICKETEARLY /* INV-D7 */
	ticket_wait();
#endif
	atomic { rv0[me - NW] = v0; rv1[me - NW] = v1; rreturned[me - NW] = true }
}
#ifdef TICKET
#define READER ticket_reader
#else
#define READER reader
#endif

/* Live replay: in the order of the durTSs, up to the first update that is still in nondurable[]
 * (INV-R1, INV-R3).  BESIDE: by another process, which does not see nondurable[], and makes marker
 * and log durable itself (INV-R6). */
#ifdef BESIDE
#define SETTLED(w) true
#else
#define SETTLED(w) (!nd[w])
#endif
proctype replayer()
{
	byte w;
end:	do
	:: atomic {
			tail < G && ring[SLOT(tail)] != 0 && durts[ring[SLOT(tail)] - 1] == tail &&
				SETTLED(ring[SLOT(tail)] - 1) -> w = ring[SLOT(tail)] - 1
		};
#if defined(BESIDE) && !defined(NOWRITEOUT)
		if :: !gone[w] -> out[w] = true :: else fi;
#endif
#ifdef TAILFIRST /* else INV-R1 */
		tail++;
		image[w] = !gone[w]
#else
		image[w] = !gone[w];
		tail++
#endif
	od
}

init { atomic {
	run update(0); run update(1);
#if NW > 2
	run update(2);
#endif
	run READER(NW);
#if NR > 1
	run READER(NW + 1);
#endif
	run replayer(); run monitor()
} }
