/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur.pml - the protocol of docs/protocol.md, from begin to recovery: two updates, NR readers, one replayer, and a power failure at
 * any instant.  Each update runs in hardware or under the fallback lock, as it likes; a hardware transaction may abort at any time.
 * Sequentially consistent, so it speaks of the order of steps.  Where a fence makes a step happen before another (the transactional
 * stores before the scan of active[]), the mutation swaps the two.
 *
 * Machines, one of:
 *   -DTSX       loads tracked, load tracking suspended in the window; announced with the commit; slot after it
 *   -DTRACKED   as TSX without TSXLDTRK: active[] read with tracked loads, no waiting inside
 *   -DPOWER     loads tracked; window fully suspended: slot and announcement before the commit, abort markers
 *   -DPOWER -DROT  loads untracked, updates in active[] (snapshot)
 * Workloads: by default update 1 reads word 1 and writes word 0, update 2 reads word 0 and writes both; -DISO: both write both words, and
 * every reader must find them equal; -DAPART: each reads and writes a word of its own, so that neither aborts the other.  -DRING=n: slots in the ring (2); 1 makes the second update reuse the first one's slot.
 *
 *   -DPAPER (with -DPOWER): not a mutation but Algorithm 1 of the FUR paper as printed: a clock value taken at begin, another after the
 *   isolation wait, and only updates with a smaller one waited for; the wait comes before the marker, which names nothing.
 *
 * What is checked, at every state (monitor): if power failed now, what would be recovered
 *   - contains every update that has returned, and everything a reader that has returned has read;
 *   - is closed under reads-from;
 *   - is not refused: what the record of an update on the medium claims to be settled is durable (INV-M4).
 *
 * Mutations, each of which must be found (models.py says under which machine):
 *   NOFENCE        active[] scanned before the stores are performed (a load of them would not abort yet)
 *   NOISO          no isolation wait
 *   NOWAITD        return without waiting for D
 *   EARLYD         D collected before the last access
 *   NODEPS         markers that do not name D
 *   NOSLOTWAIT     slot drawn before D's members have drawn theirs
 *   NOMARK         nondurable[] left before the abort marker is durable
 *   EARLYLAP       a slot reused before it is replayed
 *   TAILFIRST      tail moved before the heap is durable
 *   NOWRITEOUT     replayed beside the worker before its marker and log are durable
 *   NOSUBSCRIBE    hardware updates do not look at the lock
 *   NOLOOK         readers do not look at the lock
 *   NODRAIN        the lock's holder does not wait until active[] is clear
 *   UNLOCKFIRST    the lock released before the update is announced
 *   LATECLAIM      next_durts read after D was collected, not before
 *   WINDOWCLAIM    claims on POWER, where a slot is drawn before the update announces itself
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
bool nd[NW];          /* nondurable[].id; an update has only one life here, so a bit tells it apart */
byte slot[NW];        /* nondurable[].slot, kept after */
byte G = 1;
bool held;

/* ------------------------------------------------------------------ on media */
byte ring[RING + 1];  /* 1 + update whose marker is in this place */
bool out[NW];         /* its marker and log are durable */
bool gone[NW];        /* its abort marker is */
bool deps[NW];        /* its marker names the other update */
byte claim[NW];       /* its record's head: every slot below that the marker does not name is settled */
bool image[NW];       /* its writes are in the heap's image */
byte tail = 1;

/* ------------------------------------------------- hardware, and ghost variables */
bool intx[NW]; bool doomed[NW]; byte wset[NW]; byte rset[NW]; bool ndset[NW]; bool heldset[NW]; byte actset[NW];
byte from[NW];        /* 1 + the update read from */
bool returned[NW]; bool committed[NW];
byte rv0[NR]; byte rv1[NR]; bool rreturned[NR];

#ifdef PAPER
byte clock = 1;
byte stamp[NW];       /* {NON-DURABLE, time} */
#define TAKE_TIME(t) atomic { t = clock; clock++ }
#define ANNOUNCE(w) atomic { stamp[w] = clock; clock++; nd[w] = true }
#define MATTERS(w) (nd[w] && stamp[w] < began)
#else
#define TAKE_TIME(t) skip
#define ANNOUNCE(w) nd[w] = true
#endif

#define PLACE(s) ((s) % RING)
#define INRING(w) (out[w] && slot[w] >= tail && ring[PLACE(slot[w])] == (w) + 1)
#define BELOW(w) (slot[w] != 0 && slot[w] < tail)
/* Kept by recovery: replayed, or its marker is there and so is what it names. */
#define REC(w) ((image[w] && BELOW(w)) || (INRING(w) && (!deps[w] || BELOW(1 - (w)) || gone[1 - (w)] || INRING(1 - (w)))))
#define RECID(id) ((id) == 0 || REC((id) - 1))

/* What is in the heap's image is to survive: there is nothing to take it back with. */
#define UPDATE_OK(w) ((!image[w] || REC(w)) && (!returned[w] || REC(w)) && (!(committed[w] && REC(w)) || from[w] == (w) + 1 || RECID(from[w])))
#define READER_OK(r) (!rreturned[r] || (RECID(rv0[r]) && RECID(rv1[r])))

#define CLAIM_OK(w, u) (!out[w] || slot[u] == 0 || slot[u] >= claim[w] || deps[w] || out[u] || gone[u])

proctype monitor()
{
end:	!(CLAIM_OK(0, 1) && CLAIM_OK(1, 0) && UPDATE_OK(0) && UPDATE_OK(1) && READER_OK(0)
#if NR > 1
	  && READER_OK(1)
#endif
	) -> assert(false)
}

/* A non-transactional load or store of a word: whoever holds it in a conflicting way is doomed. */
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
/* act[i] changes: who has read it with a tracked load is doomed. */
inline set_active(i, value) { atomic {
	act[i] = value;
	if :: intx[0] && (actset[0] & (1 << i)) -> doomed[0] = true :: else fi;
	if :: intx[1] && (actset[1] & (1 << i)) -> doomed[1] = true :: else fi } }
/* A look at nondurable[k] by somebody else; a tracked store to it, not yet committed, dooms its owner. */
inline look(k, dst) { atomic { if :: intx[k] && ndset[k] -> doomed[k] = true :: else fi; dst = nd[k] } }

/* Collect D, for an update that makes a claim. */
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

/* The slot is drawn: for TSX and the lock after D's members have drawn theirs (INV-D4). */
inline draw() {
#ifndef NOSLOTWAIT
	if :: D -> (slot[OTHER] != 0 || !nd[OTHER]) :: else fi;
#endif
	atomic { slot[me] = G; G++ }
}

inline ring_room() {
#ifndef EARLYLAP
	slot[me] < tail + RING
#else
	skip
#endif
}

/* Visible; now durable, then return. */
inline become_durable() {
	ring_room();
#ifdef PAPER
	D = MATTERS(OTHER);
	if :: D -> !nd[OTHER] :: else fi;
#endif
	/* What is durable meanwhile need not be named: nd[OTHER] cleared. */
	atomic { deps[me] = false;
#if !defined(NODEPS) && !defined(PAPER)
		/* A marker can name lower slots only. */
		if :: D && nd[OTHER] && slot[OTHER] != 0 && slot[OTHER] < slot[me] -> deps[me] = true :: else fi;
#endif
		claim[me] = below;
		ring[PLACE(slot[me])] = me + 1;
#ifdef BESIDE
	}
	atomic { /* seen before it is durable */
#endif
		out[me] = true }
#if !defined(NOWAITD) && !defined(PAPER)
	if :: D -> !nd[OTHER] :: else fi;
#endif
	returned[me] = true;
	nd[me] = false
}

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
#ifndef NOSUBSCRIBE
	if :: held -> act[me] = false; goto lock :: else fi;
#endif
#endif
	atomic { intx[me] = true; doomed[me] = false; wset[me] = 0; rset[me] = 0; ndset[me] = false; heldset[me] = false; actset[me] = 0 }
#if !defined(ROT) && !defined(NOSUBSCRIBE)
	atomic { heldset[me] = true; if :: held -> doomed[me] = true :: else fi }
#endif
#ifdef EARLYD
	COLLECT;
#endif
	/* body: one load, then the stores.  Eager conflicts, the requester wins. */
	atomic { if :: intx[OTHER] && (wset[OTHER] & (1 << READS(me))) -> doomed[OTHER] = true :: else fi;
		r = mem[READS(me)];
#ifndef ROT
		rset[me] = 1 << READS(me)
#endif
	}
	if :: doomed[me] -> goto aborted :: skip fi;
#ifndef NOFENCE
	atomic { if :: intx[OTHER] && ((wset[OTHER] | rset[OTHER]) & WRITES(me)) -> doomed[OTHER] = true :: else fi; wset[me] = WRITES(me) }
#endif
	/* window */
#if defined(TSX)
	isolation_wait();
#ifndef EARLYD
	COLLECT;
#endif
#elif defined(TRACKED)
	i = 0;
	do
	:: i < N -> atomic { actset[me] = actset[me] | (1 << i); if :: act[i] -> doomed[me] = true :: else fi }; i++
	:: else -> break
	od;
#ifndef EARLYD
	COLLECT;
#endif
#else /* POWER */
#ifndef EARLYD
	COLLECT;
#endif
	atomic { slot[me] = G; G++ }
#ifdef ROT
	act[me] = false;
#endif
	if :: slot[me] >= tail + RING -> goto aborted :: else fi; /* refused: FULL */
	isolation_wait();
	ANNOUNCE(me); /* its slot is there already */
#endif
#ifdef NOFENCE
	atomic { if :: intx[OTHER] && ((wset[OTHER] | rset[OTHER]) & WRITES(me)) -> doomed[OTHER] = true :: else fi; wset[me] = WRITES(me) }
#endif
#ifndef POWER
	ndset[me] = true;
#endif
	atomic { /* xend, tend. */
		if
		:: doomed[me] -> goto aborted
		:: else ->
			if :: wset[me] & 1 -> mem[0] = me + 1 :: else fi;
			if :: wset[me] & 2 -> mem[1] = me + 1 :: else fi;
			nd[me] = true; committed[me] = true; from[me] = r;
			intx[me] = false; ndset[me] = false; wset[me] = 0; rset[me] = 0; actset[me] = 0; heldset[me] = false
		fi }
#ifndef POWER
	draw();
#endif
	become_durable();
	goto done;

aborted:
	atomic { intx[me] = false; ndset[me] = false; wset[me] = 0; rset[me] = 0; actset[me] = 0; heldset[me] = false }
#ifdef ROT
	act[me] = false;
#endif
#ifdef POWER
	if
	:: slot[me] != 0 ->
#ifdef NOMARK
		nd[me] = false;
		ring_room();
		atomic { ring[PLACE(slot[me])] = me + 1; gone[me] = true };
#else
		ring_room();
		atomic { ring[PLACE(slot[me])] = me + 1; gone[me] = true };
		nd[me] = false;
#endif
		goto done /* a second life would need a second identity; the lock path is a choice from the start */
	:: else
	fi;
#endif

	/* ----------------------------------------------------------------- lock */
lock:
	atomic { !held -> held = true;
		if :: intx[OTHER] && heldset[OTHER] -> doomed[OTHER] = true :: else fi }
#ifndef NODRAIN
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
#ifdef UNLOCKFIRST
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
	set_active(me, true);
#ifndef NOLOOK
	if :: held -> set_active(me, false); !held; goto again :: else fi;
#endif
#ifdef EARLYD
	look(0, d0); look(1, d1);
#endif
	plain_load(0, v0);
	plain_load(1, v1);
#ifdef ISO
	assert(v0 == v1);
#endif
#ifndef EARLYD
	look(0, d0); look(1, d1);
#endif
	set_active(me, false);
#ifdef PAPER
	d0 = MATTERS(0); d1 = MATTERS(1);
#endif
#ifndef NOWAITD
	if :: d0 -> !nd[0] :: else fi;
	if :: d1 -> !nd[1] :: else fi;
#endif
	atomic { rv0[me - NW] = v0; rv1[me - NW] = v1; rreturned[me - NW] = true }
}

/* Live replay, INV-R1, INV-R3: in order, only what has left nondurable[].  BESIDE: by another process, which does not see nondurable[], and
 * makes marker and log durable itself, INV-R6. */
#ifdef BESIDE
#define SETTLED(w) true
#else
#define SETTLED(w) (!nd[w])
#endif
proctype replayer()
{
	byte w;
end:	do
	:: atomic { tail < G && ring[PLACE(tail)] != 0 && slot[ring[PLACE(tail)] - 1] == tail && SETTLED(ring[PLACE(tail)] - 1) -> w = ring[PLACE(tail)] - 1 };
#if defined(BESIDE) && !defined(NOWRITEOUT)
		if :: !gone[w] -> out[w] = true :: else fi;
#endif
#ifdef TAILFIRST
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
