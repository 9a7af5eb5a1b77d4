/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur.pml - the protocol of docs/protocol.md, from begin to recovery: two updates, NR readers, one
 * replayer, and a power failure at any instant.  Each update chooses freely between hardware and
 * the fallback lock; a hardware transaction may abort at any time.  Memory is sequentially
 * consistent, so the model is about the order of steps.  Where a fence orders one step before
 * another (the transactional stores before the scan of active[]), the mutation swaps the two.
 *
 * Machines, one of:
 *   -DTSX          loads tracked; the window suspends the tracking of loads; an update announces
 *                  itself with its commit, and draws its durTS after that
 *   -DTRACKED      as TSX without TSXLDTRK: an update reads active[] with tracked loads, and does
 *                  not wait in its window
 *   -DPOWER        loads tracked; the window is suspended altogether: an update draws its durTS and
 *                  announces itself before its commit, and an abort after that leaves an abort
 *                  marker
 *   -DPOWER -DROT  loads untracked, and updates appear in active[] (snapshot)
 *
 * Workloads:
 *   by default     update 1 reads word 1 and writes word 0, update 2 reads word 0 and writes both
 *   -DISO          both updates write both words, and every reader must find them equal
 *   -DAPART        each update reads and writes a word of its own, so that neither aborts the other
 *   -DRING=n       slots in the ring, 2 by default; with 1 the second update needs the slot of the
 *                  first
 *   -DBESIDE       the replayer is another process
 *   -DNR=n         readers, 1 by default
 *
 * Checked at every state, by monitor(): if the power failed now, the set of updates that recovery
 * would keep
 *   - contains every update that has returned, and every update that a reader that has returned has
 *     read from (INV-D1, INV-D2);
 *   - contains every update whose writes are in the heap's image, which nothing can take back
 *     (INV-R1, INV-R3, INV-R6);
 *   - is closed under reads-from (INV-D3, INV-D4, INV-R2);
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
 *   NODEPS       a marker does not name D (INV-D3)
 *   NOSLOTWAIT   an update draws its durTS before the members of D have drawn theirs (INV-D4)
 *   NOMARK       an update leaves nondurable[] before its abort marker is durable (INV-D5)
 *   EARLYLAP     an update uses a slot of the ring again before it is replayed (INV-R3)
 *   TAILFIRST    the replayer moves the tail before the heap is durable (INV-R1)
 *   NOWRITEOUT   with BESIDE: the replayer does not make marker and log durable first (INV-R6)
 *   NOCLOSURE    recovery keeps an update without the updates that its marker names (INV-R2)
 *   LATEACTIVE   a reader publishes active[i] after its first load (INV-H1)
 *   NOSUBSCRIBE  a hardware update does not look at the lock (INV-H3)
 *   NOLOOK       a reader does not look at the lock (INV-H3)
 *   NODRAIN      the lock's holder does not wait until active[] is clear (INV-H3)
 *   UNLOCKFIRST  the lock's holder releases the lock before it announces itself (INV-D1)
 *   LATECLAIM    an update reads next_durts after it has collected D, not before (INV-M4)
 *   WINDOWCLAIM  an update claims on POWER, where it draws before it announces itself (INV-M4)
 *   PAPER        with POWER: Algorithm 1 of the FUR paper as printed (INV-D2)
 *
 * PAPER is a protocol of its own.  Every update and reader takes a time from a clock at its begin,
 * and an update takes another one after its isolation wait.  Nobody waits for an update whose
 * second time is later than their begin.  An update waits before it writes its marker, which names
 * nothing.
 */
#ifndef NR
#define NR 1
#endif
#ifndef RING
#define RING 2
#endif
#define NW 2
#define N (NW + NR)
#define OTHER (1 - me)

/* ------------------------------------------------------------ shared, volatile */
byte mem[2];          /* of each word: 1 + the update that wrote it, or 0 */
bool act[N];
bool nd[NW];          /* nondurable[].id; each update runs once, so a bit identifies it */
byte durts[NW];       /* of nondurable[], once drawn; kept when the update has left */
byte G = 1;           /* next_durts */
bool held;            /* the fallback lock */

/* ------------------------------------------------------------- on the medium */
byte ring[RING + 1];  /* 1 + the update whose marker is in this slot */
bool out[NW];         /* its marker and log are durable: one checksum covers both (INV-M3) */
bool gone[NW];        /* its abort marker is durable */
bool deps[NW];        /* its marker names the other update */
byte claim[NW];       /* its record claims: each durTS below that it does not name is settled */
bool image[NW];       /* its writes are in the heap's image */
byte tail = 1;

/* ------------------------------------------------- hardware, and ghost variables */
bool intx[NW]; bool doomed[NW];
byte wset[NW]; byte rset[NW];     /* words written, words whose loads are tracked: bits */
bool ndset[NW]; bool heldset[NW]; /* nd is in its write set, held in its read set */
byte actset[NW];                  /* entries of act that it has read with tracked loads: bits */
byte from[NW];                    /* 1 + the update that it has read from, or 0 */
bool returned[NW]; bool committed[NW];
byte rv0[NR]; byte rv1[NR]; bool rreturned[NR]; /* the words that it has read */

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
/* INV-R2: recovery keeps an update if it is replayed; or if its marker is in the ring, and the
 * update that the marker names is in the ring, lies below the tail, or has an abort marker. */
#ifdef NOCLOSURE
#define NAMED_OK(w) true
#else
#define NAMED_OK(w) (!deps[w] || BELOW(1 - (w)) || gone[1 - (w)] || INRING(1 - (w)))
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
#define CLAIM_OK(w, u) \
	(!out[w] || durts[u] == 0 || durts[u] >= claim[w] || deps[w] || out[u] || gone[u])

#define UPDATE_OK(w) (IMAGE_OK(w) && RETURN_OK(w) && READS_OK(w))

proctype monitor()
{
end:	!(CLAIM_OK(0, 1) && CLAIM_OK(1, 0) && UPDATE_OK(0) && UPDATE_OK(1) && READER_OK(0)
#if NR > 1
	  && READER_OK(1)
#endif
	) -> assert(false)
}

/* A non-transactional load or store of a word dooms each update that holds it in a conflicting
 * way. */
inline doom_writers(k) {
	if :: intx[0] && (wset[0] & (1 << k)) -> doomed[0] = true :: else fi;
	if :: intx[1] && (wset[1] & (1 << k)) -> doomed[1] = true :: else fi
}
inline doom_readers(k) {
	if :: intx[0] && (rset[0] & (1 << k)) -> doomed[0] = true :: else fi;
	if :: intx[1] && (rset[1] & (1 << k)) -> doomed[1] = true :: else fi
}
inline plain_load(k, dst) { atomic { doom_writers(k); dst = mem[k] } }
inline plain_store(k, value) { atomic { doom_writers(k); doom_readers(k); mem[k] = value } }
/* A change of act[i] dooms each update that has read it with a tracked load. */
inline set_active(i, value) { atomic {
	act[i] = value;
	if :: intx[0] && (actset[0] & (1 << i)) -> doomed[0] = true :: else fi;
	if :: intx[1] && (actset[1] & (1 << i)) -> doomed[1] = true :: else fi } }
/* Look at nondurable[k].  If its owner has stored to it in a transaction that has not committed
 * yet, the look dooms the owner. */
inline look(k, dst) { atomic {
	if :: intx[k] && ndset[k] -> doomed[k] = true :: else fi;
	dst = nd[k] } }

/* Collect D (INV-D1).  An update that makes a claim reads next_durts first (INV-M4): each update
 * with a smaller durTS has announced itself, so either it is in D, or it has left nondurable[] and
 * is settled. */
#if !defined(POWER) || defined(WINDOWCLAIM)
#define READ_G below = G
#else
#define READ_G skip
#endif
#ifdef LATECLAIM
#define COLLECT look(OTHER, D); READ_G
#else
#define COLLECT READ_G; look(OTHER, D)
#endif

#ifdef ISO
#define READS(me) 0
#define WRITES(me) 3
#elif defined(APART)
#define READS(me) (me)
#define WRITES(me) (1 << (me))
#else
#define READS(me) (1 - (me))
#define WRITES(me) (me == 0 -> 1 : 3)
#endif

/* Draw the durTS, on TSX and under the lock: after the members of D have drawn theirs (INV-D4). */
inline draw() {
#ifndef NOSLOTWAIT
	if :: D -> (durts[OTHER] != 0 || !nd[OTHER]) :: else fi;
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

/* The update is visible.  Make it durable, then return. */
inline become_durable() {
	ring_room();
#ifdef PAPER
	D = MATTERS(OTHER);
	if :: D -> !nd[OTHER] :: else fi;
#endif
	/* INV-D3.  An update that has become durable meanwhile (nd[OTHER] is clear) need not be
	 * named. */
	atomic { deps[me] = false;
#if !defined(NODEPS) && !defined(PAPER)
		/* A marker can name only smaller durTSs. */
		if
		:: D && nd[OTHER] && durts[OTHER] != 0 && durts[OTHER] < durts[me] ->
			deps[me] = true
		:: else
		fi;
#endif
		claim[me] = below;
		ring[SLOT(durts[me])] = me + 1;
#ifdef BESIDE
	}
	atomic { /* the replayer sees the marker before it is durable */
#endif
		out[me] = true }
#if !defined(NOWAITD) && !defined(PAPER)
	if :: D -> !nd[OTHER] :: else fi; /* INV-D2 */
#endif
	returned[me] = true;
	nd[me] = false
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
	atomic {
		if
		:: intx[OTHER] && ((wset[OTHER] | rset[OTHER]) & WRITES(me)) -> doomed[OTHER] = true
		:: else
		fi;
		wset[me] = WRITES(me)
	}
}
inline end_hardware() {
	intx[me] = false; ndset[me] = false; heldset[me] = false;
	wset[me] = 0; rset[me] = 0; actset[me] = 0
}

proctype update(byte me)
{
	byte i = 0, r = 0, below = 0;
	bool D = false;
#ifdef PAPER
	byte began;
#endif
	TAKE_TIME(began);

	if :: goto lock :: skip fi;

	/* ------------------------------------------------------------- hardware */
#ifdef ROT
	act[me] = true;
#ifndef NOSUBSCRIBE /* INV-H3 */
	if :: held -> act[me] = false; goto lock :: else fi;
#endif
#endif
	atomic {
		intx[me] = true; doomed[me] = false; wset[me] = 0; rset[me] = 0;
		ndset[me] = false; heldset[me] = false; actset[me] = 0
	}
#if !defined(ROT) && !defined(NOSUBSCRIBE) /* INV-H3 */
	atomic { heldset[me] = true; if :: held -> doomed[me] = true :: else fi }
#endif
#ifdef EARLYD
	COLLECT;
#endif
	/* The body: one load, then the stores.  Conflicts are eager, and the requester wins. */
	atomic {
		if
		:: intx[OTHER] && (wset[OTHER] & (1 << READS(me))) -> doomed[OTHER] = true
		:: else
		fi;
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

	/* ----------------------------------------------------------------- lock */
lock:
	atomic { !held -> held = true;
		if :: intx[OTHER] && heldset[OTHER] -> doomed[OTHER] = true :: else fi }
#ifndef NODRAIN /* INV-H3 */
	i = 0;
	do :: i < N -> if :: i != me -> !act[i] :: else fi; i++ :: else -> break od;
#endif
#ifdef EARLYD
	COLLECT;
#endif
	plain_load(READS(me), r);
	if :: WRITES(me) & 1 -> plain_store(0, me + 1) :: else fi;
	if :: WRITES(me) & 2 -> plain_store(1, me + 1) :: else fi;
#ifndef EARLYD
	COLLECT;
#endif
#ifdef UNLOCKFIRST /* else INV-D1: it has announced itself when others can read it */
	atomic { held = false; committed[me] = true; from[me] = r };
	nd[me] = true;
	draw();
#else
	ANNOUNCE(me);
	draw();
	atomic { held = false; committed[me] = true; from[me] = r };
#endif
	become_durable();
done:	skip
}

proctype reader(byte me)
{
	byte v0, v1;
	bool d0 = false, d1 = false;
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
	if :: held -> set_active(me, false); !held; goto again :: else fi;
#endif
#ifdef EARLYD
	look(0, d0); look(1, d1);
#endif
#ifndef LATEACTIVE
	plain_load(0, v0);
#endif
	plain_load(1, v1);
#ifdef ISO
	assert(v0 == v1);
#endif
#ifndef EARLYD /* INV-D1 */
	look(0, d0); look(1, d1);
#endif
	set_active(me, false);
#ifdef PAPER
	d0 = MATTERS(0); d1 = MATTERS(1);
#endif
#ifndef NOWAITD /* INV-D2 */
	if :: d0 -> !nd[0] :: else fi;
	if :: d1 -> !nd[1] :: else fi;
#endif
	atomic { rv0[me - NW] = v0; rv1[me - NW] = v1; rreturned[me - NW] = true }
}

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
	run update(0); run update(1); run reader(NW);
#if NR > 1
	run reader(NW + 1);
#endif
	run replayer(); run monitor()
} }
