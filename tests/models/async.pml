/* SPDX-License-Identifier: BSD-3-Clause
 *
 * async.pml - late updates (src/durability/async.h): NW updates, a reader, a flush, a replay, and a
 * power failure at any instant.  Update u reads one word, whichever, and writes word u; it becomes
 * visible in one step, as in hardware.  Each update chooses whether it waits or ends with a ticket,
 * and then whether it waits for the ticket.  A marker that is put may be on the medium before it is durable.
 *
 * Settings:
 *   -DNW=n         updates, 2 by default, 3 at most
 *   -DNOREADER     without the reader
 *   -DBESIDE       another process replays: fur-replayer beside the program, or a recovery after
 *                  the program was killed, which is a state in which the updates take no more
 *                  steps.  It sees neither nondurable[] nor `durable`
 *   -DONETHREAD    one thread makes all updates, one after the other
 *
 * Checked at every state, by monitor(): if the power failed now, the set of updates that recovery
 * would keep
 *   - contains every update that has been acknowledged, and every update that the reader has read
 *     from once it has returned (INV-AS1, INV-AS2);
 *   - contains every update that the replay has written to the heap (INV-AS5; with BESIDE: INV-R6);
 *   - is closed under reads-from (INV-AS3, INV-AS4);
 *   - is not refused: each durTS that a record on the medium claims to be settled is durable
 *     (INV-AS6).
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   LEAVEFIRST   a late update leaves nondurable[] before it raises `newest` (INV-AS1)
 *   READERBLIND  the reader does not wait for late updates (INV-AS2)
 *   OVERGAP      a flush goes on past an update that has not put its marker (INV-AS2)
 *   NOTLATE      an update that finds late updates pending is not late itself (INV-AS3)
 *   KEPTALONE    recovery keeps a late update although one below it is lost (INV-AS4)
 *   EARLYREPLAY  the replay writes a late update to the heap before it is durable (INV-AS5)
 *   BOLDCLAIM    an update claims durTSs that late updates have and that are not durable (INV-AS6)
 *   NEWESTONLY   with BESIDE: the replay makes only each thread's newest record durable (INV-R6)
 */
#ifndef NW
#define NW 2
#endif
#define SLOTS (NW + 1)
#define NONE  255

byte mem[NW];      /* 1 + the update that wrote the word, or 0 */
bool nd[NW];       /* nondurable[] */
byte durts[NW];    /* 0: not drawn */
byte G = 1;        /* next_durts */
byte newest;
byte durable = 1;

byte ring[SLOTS];  /* by durTS: 1 + the update whose marker is put */
bool out[NW];      /* its marker and record are durable */
bool after_all[NW];
byte deps[NW];     /* bits */
byte claim[NW];    /* every durTS below that deps does not name is settled; 0: no claim */
bool image[NW];    /* in the heap's image */

byte from[NW];     /* 1 + the update that it has read from, or 0 */
bool acked[NW];
byte seen;         /* 1 + the update that the reader has read from; it has returned */
bool returned[NW];

#define BIT(u) (1 << (u))
#define PENDING (newest > durable)
#define MEMBER(set, u) (((set) >> (u)) & 1)

inline collect(set)
{
	d_step {
		set = 0;
		w = 0;
		do
		:: w < NW -> set = set | (nd[w] && w != me -> BIT(w) : 0); w++
		:: else -> break
		od;
		w = 0
	}
}

inline wait_for(set)
{
	w = 0;
	do
	:: w < NW -> (!MEMBER(set, w) || !nd[w]); w++
	:: else -> break
	od;
	w = 0
}

proctype update(byte me)
{
	byte D, settled, lowest, read, w;
	bool async, late;
#ifdef ONETHREAD
	me == 0 || returned[me - 1];
#endif
	if
	:: read = 0
	:: read = 1
#if NW > 2
	:: read = 2
#endif
	fi;
	if
	:: async = false
	:: async = true
	fi;
	settled = G;
	atomic {
		collect(D);
		from[me] = mem[read];
		mem[me] = me + 1;
		nd[me] = true
	}
	/* INV-D4 */
	do
	:: w < NW -> (!MEMBER(D, w) || !nd[w] || durts[w]); w++
	:: else -> break
	od;
	atomic { durts[me] = G; G++ };
	/* Members that have left count as settled, the others are named. */
	d_step {
		lowest = NONE;
		w = 0;
		do
		:: w < NW ->
			if
			:: MEMBER(D, w) && nd[w] -> lowest = (durts[w] < lowest -> durts[w] : lowest)
			:: MEMBER(D, w) && !nd[w] -> D = D & ~BIT(w)
			:: else
			fi;
			w++
		:: else -> break
		od;
		w = 0
	}
	atomic { /* decide_if_late(), claims_of() */
#ifdef NOTLATE
		late = async;
#else
		late = async || PENDING;
#endif
		claim[me] = settled;
#ifndef BOLDCLAIM
		if
		:: PENDING && durable < claim[me] -> claim[me] = durable
		:: else
		fi;
#endif
		if
		:: late && lowest < claim[me] -> claim[me] = lowest
		:: else
		fi;
		deps[me] = (late -> 0 : D);
		after_all[me] = late
	}
	ring[durts[me]] = me + 1;
	if
	:: late ->
#ifdef LEAVEFIRST
		nd[me] = false;
		atomic { newest = (newest > durts[me] -> newest : durts[me] + 1) }
#else
		atomic { newest = (newest > durts[me] -> newest : durts[me] + 1) };
		nd[me] = false
#endif
	:: else ->
		out[me] = true;
		nd[me] = false
	fi;
	if
	:: late && async ->
		if
		:: true -> goto over /* no process waits */
		:: true -> skip
		fi
	:: else
	fi;
	if
	:: late -> durable > durts[me]
	:: else ->
		wait_for(D);
		!D || !PENDING
	fi;
	acked[me] = true;
over:
	returned[me] = true
}

#ifndef NOREADER
active proctype reader()
{
	byte D, read, got, w, me = NONE;
	if
	:: read = 0
	:: read = 1
#if NW > 2
	:: read = 2
#endif
	fi;
	got = mem[read];
	collect(D);
	wait_for(D);
#ifndef READERBLIND
	!PENDING;
#endif
	seen = got
}
#endif

active proctype flush()
{
	byte at, k;
end_flush:
	do
	:: PENDING ->
		at = durable;
		do
#ifdef OVERGAP
		:: at < G -> at++
		:: at == G -> break
#else
		:: at < G && ring[at] -> at++
		:: at == G || !ring[at] -> break
#endif
		od;
		/* Each write-back ends by itself; the drain, when all have. */
		k = durable;
		do
		:: k < at ->
			if
			:: ring[k] -> out[ring[k] - 1] = true
			:: else
			fi;
			k++
		:: else -> break
		od;
		durable = at;
		at = 0;
		k = 0
	od
}

#ifdef BESIDE
#ifdef ONETHREAD
#define NEWEST(k) (k == end - 1)
#else
#define NEWEST(k) true
#endif
#ifdef NEWESTONLY
#define WRITTEN_BACK false
#else
#define WRITTEN_BACK after_all[ring[k] - 1]
#endif
/* make_durable(), then apply: all that is put, from the tail to the first gap. */
active proctype replay()
{
	byte at = 1, end, k;
end_replay:
	do
	:: at == SLOTS -> break
	:: at < SLOTS && ring[at] ->
		end = at;
		do
		:: end < SLOTS && ring[end] -> end++
		:: end > at -> break
		od;
		k = at;
		do
		:: k < end ->
			if
			:: (WRITTEN_BACK || NEWEST(k)) -> out[ring[k] - 1] = true
			:: else
			fi;
			k++
		:: else -> break
		od;
		/* Here is the drain. */
		do
		:: at < end -> image[ring[at] - 1] = true; at++
		:: else -> break
		od;
		end = 0;
		k = 0
	od
}
#else
active proctype replay()
{
	byte at = 1, u;
	do
	:: at == SLOTS -> break
	:: at < SLOTS ->
		ring[at];
		u = ring[at] - 1;
		!nd[u];
#ifndef EARLYREPLAY
		!after_all[u] || at < durable;
#endif
		image[u] = true;
		at++
	od
}
#endif

/* If the power failed now: with each set of the markers that are put and not known to be durable.
 * The process comes back to where it was, so that it adds no states. */
active proctype monitor()
{
	bool kept[NW], there[NW], whole, keep;
	byte set, at, u, k;
end_monitor:
	do
	:: d_step {
		set = 0;
		do
		:: set < BIT(NW) ->
			u = 0;
			do
			:: u < NW ->
				there[u] = out[u] || (durts[u] && ring[durts[u]] == u + 1 &&
				                             MEMBER(set, u));
				kept[u] = false;
				u++
			:: else -> break
			od;
			whole = true;
			at = 1;
			do
			:: at < SLOTS ->
				keep = false;
				u = 0;
				k = 0;
				if
				:: ring[at] && there[ring[at] - 1] ->
					u = ring[at] - 1;
#ifdef KEPTALONE
					keep = true;
#else
					keep = whole || !after_all[u];
#endif
					do
					:: k < NW ->
						keep = keep && (!MEMBER(deps[u], k) || kept[k]);
						/* INV-AS6 */
						assert(!durts[k] || durts[k] >= at ||
						        durts[k] >= claim[u] || MEMBER(deps[u], k) ||
						        (ring[durts[k]] == k + 1 && there[k]));
						k++
					:: else -> break
					od;
					kept[u] = keep
				:: else
				fi;
				whole = whole && keep;
				at++
			:: else -> break
			od;
			u = 0;
			do
			:: u < NW ->
				assert(!acked[u] || kept[u]);
				assert(!image[u] || kept[u]);
				assert(!kept[u] || !from[u] || kept[from[u] - 1]);
				assert(seen != u + 1 || kept[u]);
				u++
			:: else -> break
			od;
			set++
		:: else -> break
		od;
		u = 0;
		do
		:: u < NW -> there[u] = false; kept[u] = false; u++
		:: else -> break
		od;
		set = 0; at = 0; u = 0; k = 0; whole = false; keep = false
	   }
	od
}

init {
	atomic {
		byte i = 0;
		do
		:: i < NW -> run update(i); i++
		:: else -> break
		od
	}
}
