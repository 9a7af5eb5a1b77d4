/* SPDX-License-Identifier: BSD-3-Clause
 *
 * versions.pml - D by versions (src/durability/dset.h): from whom a transaction has read, as the
 * versions of the lines tell, and what its thread knows to be settled.  NU threads run updates, and
 * one more thread only reads.  Each step is one access to a shared word, but to hold a line is one
 * step with the look at it: parallel.pml has the order of those.  Memory is sequentially
 * consistent.  Where a fence orders one step before another, the mutation swaps the two.
 *
 * A thread does not note its own updates that have returned.
 *
 * A line has many words, and one version.  Who loads a word of it may have read from any update
 * that has stored to the line, so it counts as reading from all.
 *
 * Each update loads one line and stores to one, whichever; it is defeated if a line that it has
 * loaded changes before it draws its durTS.  A transaction that reads loads both lines.
 *
 * Settings:
 *   -DNU=n         threads with updates, 2 by default
 *   -DT=n          transactions of each, 1 by default
 *   -DLAST=n       of the last of them, T by default
 *   -DTR=n         transactions of the thread that only reads, 2 by default
 *   -DBOTH         the last of the threads with updates loads both lines for each
 *   -DMIXED        the last of the threads with updates reads first
 *   -DNAMED=n      versions in a set, 2 by default
 *   -DLATE         an update that ends with a ticket is late, and so is one that finds late
 *                  updates pending; one more thread flushes (src/durability/async.h; async.pml has
 *                  late updates with D by a scan)
 *
 * Checked: when a transaction returns, recovery would keep its own update, and those from which it
 * has read; whenever a marker becomes durable, recovery would keep with each update those from
 * which this one has read (INV-DV1); no marker claims what is not settled (INV-M4).  No thread
 * waits forever.
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   LOADUNNOTED  a transaction does not note the versions that it loads (INV-DV1)
 *   REPLACEDUNNOTED  an update does not note the version that its own replaces (INV-DV1)
 *   NAMEDALONE   a wait for a durTS is no wait for the lower ones (INV-DV1)
 *   SETTLEDBLIND  a thread takes all below next_durts for settled after a wait (INV-DV1)
 *   NEXTLATE     the wait reads next_durts after it has scanned nondurable[] (INV-DV1)
 *   UNDRAWNSKIPPED  the wait ignores an update that has not drawn its durTS (INV-DV1)
 *   DRAWFIRST    an update draws its durTS before it announces itself (INV-DV1)
 *   FULLFORGETS  a set without room for a version becomes empty without a wait (INV-DV1)
 *   LEFTAWAITED  the wait for an update does not end when that has left (INV-DV1)
 *   OWNEARLY     a thread takes its own update for settled before it has waited for D (INV-DV1)
 *   LATEUNAWAITED  a transaction returns without a wait for late updates (INV-AS2)
 *   NOTLATE      an update that finds late updates pending is not late itself (INV-AS3)
 *   CLAIMSLATE   a marker claims what is late (INV-AS6)
 *   UNDURABLE    an update leaves nondurable[] before its marker is durable (INV-D5)
 *   UNMARKED     a defeated update leaves without a marker for the durTS that it has drawn (INV-D5)
 *   CLAIMNEXT    a marker claims what is below next_durts, not what its thread knows (INV-M4)
 */
#ifndef NU
#define NU 2
#endif
#ifndef T
#define T 1
#endif
#ifndef LAST
#define LAST T
#endif
#ifndef TR
#define TR 2
#endif
#ifndef NAMED
#define NAMED 2
#endif
#define W 2
#define MAXD 8           /* durTSs: 1 to 7 */
#define NOBODY 15

/* --------------------------------------------------------------- shared words */
byte version[W];         /* of the line: the durTS of the update that has stored there last */
byte holder[W] = NOBODY;
byte next = 1;           /* next_durts */
byte nd_id[NU];          /* nondurable[].id */
byte nd_durts[NU];       /* nondurable[].durts */

/* ----------------------------------------------- the medium, and ghost variables */
byte durable, aborted;   /* bits: durTSs with a commit marker, with an abort marker */
byte names[MAXD];        /* bits: what the commit marker names */
byte from[MAXD];         /* bits: what the update has read from */
byte stored[W];          /* bits: the updates that have stored to the line */
byte kept;               /* bits: what recovery would keep now */
#ifdef LATE
byte noted = 1;          /* async.newest */
byte flushed = 1;        /* async.durable */
byte put;                /* bits: commit markers that are put */
byte after_all;          /* bits: markers of late updates */
byte done;               /* threads that update no more */
#define PENDING (noted > flushed)
#endif

#define BIT(d) (1 << (d))
#define BELOW(d) (BIT(d) - 1)
#define IN(set, k) ((set) & BIT(k))

/* What recovery would keep, from the lowest durTS on. */
inline recover() {
	x = 1; kept = 0;
	do
	:: x < MAXD ->
		if
#ifdef LATE
		:: IN(durable, x) && IN(after_all, x) && (BELOW(x) & ~(1 | kept | aborted)) == 0
			-> kept = kept | BIT(x)
		:: IN(durable, x) && !IN(after_all, x) && (names[x] & ~(kept | aborted)) == 0
			-> kept = kept | BIT(x)
#else
		:: IN(durable, x) && (names[x] & ~(kept | aborted)) == 0 -> kept = kept | BIT(x)
#endif
		:: else
		fi;
		assert(!IN(kept, x) || (from[x] & ~kept) == 0);
		x++
	:: else -> x = 0; break
	od
}

/* dset_settle(): return when every durTS up to `upto` is settled.  Then `settled` lies above it. */
inline settle(upto) {
#ifndef NEXTLATE
	st = next;
#endif
	i = 0;
	do
	:: i < NU ->
		id = nd_id[i];
		if
		:: id == 0 || i == me
		:: else ->
			do
			:: its = nd_durts[i];
				if
#ifdef NAMEDALONE
				:: its != upto -> break
#elif defined(UNDRAWNSKIPPED)
				:: its > upto || its == 0 -> break
#else
				:: its > upto -> break
#endif
#ifndef LEFTAWAITED
				:: else ->
					if
					:: nd_id[i] != id -> break
					:: nd_id[i] == id && nd_durts[i] != its
					fi
#else
				:: else -> nd_durts[i] != its
#endif
				fi
			od;
#ifndef SETTLEDBLIND
			if
			:: its > upto && its < st ->
				if
				:: nd_id[i] == id -> st = its
				:: else
				fi
			:: else
			fi
#endif
		fi;
		atomic { i++; id = 0; its = 0 }
	:: else -> i = 0; break
	od;
#ifdef NEXTLATE
	st = next;
#endif
	atomic { settled = (st > settled -> st : settled); st = 0 }
}

/* The transaction has loaded a word of a line of this version, or is to replace it. */
inline note(v) {
	if
#ifdef LOADUNNOTED
	:: true
#else
	:: v < settled || IN(deps | own, v)
	:: else ->
		if
		:: n == NAMED ->
#ifndef FULLFORGETS
			settle(newest);
#endif
			atomic { n = 0; deps = 0 }
		:: else
		fi;
		atomic {
			if
			:: v >= settled ->
				deps = deps | BIT(v); n++;
				newest = (v > newest -> v : newest)
			:: else
			fi
		}
#endif
	fi
}

inline load(k) {
	atomic { holder[k] == NOBODY -> v = version[k]; read = read | stored[k] };
	note(v)
}

inline wait_for_reads() {
	if
	:: n > 0 -> settle(newest)
	:: else
	fi
}

inline wait_for_late() {
#if defined(LATE) && !defined(LATEUNAWAITED)
	!PENDING
#else
	skip
#endif
}

inline end_reading() {
	wait_for_reads();
	wait_for_late();
	assert((read & ~kept) == 0); /* INV-DV1 */
	atomic { n = 0; deps = 0; newest = 0; read = 0; v = 0 }
}

inline leave() {
	nd_durts[me] = 0;
	nd_id[me] = 0
}

proctype updater(byte me)
{
	byte todo = (me == NU - 1 -> LAST : T);
	byte settled = 1, own, deps, n, newest, read, v, i, id, its, st, x, mine, d, claim, r, w;
#ifdef BOTH
	byte v0;
#endif
#ifdef LATE
	bit ticket, late;
#endif
#ifdef MIXED
	if
	:: me == NU - 1 -> load(0); load(1); end_reading()
	:: else
	fi;
#endif
	do
	:: todo > 0 ->
		atomic { if :: r = 0 :: r = 1 fi; if :: w = 0 :: w = 1 fi; mine++; todo-- };
#ifdef LATE
		if :: ticket = 0 :: ticket = 1 fi;
#endif
		load(r);
#ifdef BOTH
		v0 = v;
		if
		:: me == NU - 1 -> load(1 - r)
		:: else
		fi;
#define SAME (version[r] == v0 && (me < NU - 1 || version[1 - r] == v))
#define UNHELD ((holder[r] == NOBODY || holder[r] == me) && \
	(me < NU - 1 || holder[1 - r] == NOBODY || holder[1 - r] == me))
#else
#define SAME (version[r] == v)
#define UNHELD (holder[r] == NOBODY || holder[r] == me)
#endif
		/* It holds what it writes, and has compared what it has read. */
		atomic {
			holder[w] == NOBODY ->
			if
			:: SAME && UNHELD -> holder[w] = me
			:: else -> goto ended
			fi
		};
#ifdef DRAWFIRST
		atomic { d = next; next++; assert(next < MAXD) };
#endif
#ifndef REPLACEDUNNOTED
		note(version[w]);
#endif
#ifdef CLAIMNEXT
		claim = next;
#else
		claim = settled;
#endif
		nd_id[me] = mine;
#ifndef DRAWFIRST
		atomic { d = next; next++; assert(next < MAXD) };
#endif
		nd_durts[me] = d;
		atomic {
			if
			:: SAME && UNHELD -> from[d] = read
			:: else -> holder[w] = NOBODY; goto defeated
			fi
		};
		atomic { version[w] = d; stored[w] = stored[w] | BIT(d); holder[w] = NOBODY };
#ifdef UNDURABLE
		leave();
#endif
#ifdef LATE
#ifdef NOTLATE
		late = ticket;
#else
		late = ticket || PENDING;
#endif
#ifndef CLAIMSLATE
		atomic {
			if
			:: (late || PENDING) && claim > flushed -> claim = flushed
			:: else
			fi
		};
#endif
		atomic {
			put = put | BIT(d);
			if
			:: late -> after_all = after_all | BIT(d)
			:: else -> names[d] = deps
			fi
		};
		if
		:: late ->
			assert((BELOW(claim) & ~(1 | durable | aborted)) == 0); /* INV-AS6 */
			noted = (d >= noted -> d + 1 : noted);
			leave();
			if
			:: ticket
			:: !ticket && flushed > d ->
				assert(IN(kept, d) && (read & ~kept) == 0) /* INV-AS2 */
			fi;
			goto waited
		:: else
		fi;
#endif
		atomic {
			names[d] = deps; durable = durable | BIT(d);
			recover();
			/* INV-M4 */
			assert((BELOW(claim) & ~(1 | deps | durable | aborted)) == 0)
		};
#ifndef UNDURABLE
		leave();
#endif
#ifdef OWNEARLY
		own = own | BIT(d);
		goto ended;
#endif
		if
		:: n > 0 -> wait_for_reads(); wait_for_late()
		:: else
		fi;
		assert(IN(kept, d) && (read & ~kept) == 0); /* INV-DV1 */
waited:
		atomic {
			own = own | BIT(d);
			if :: settled == d -> settled++ :: else fi;
			goto ended
		};
defeated:
#ifndef UNMARKED
		atomic { aborted = aborted | BIT(d); recover() };
#endif
		leave();
ended:
		atomic { n = 0; deps = 0; newest = 0; read = 0; v = 0; d = 0; claim = 0; r = 0; w = 0 }
	:: else -> break
	od;
#ifdef LATE
	done++
#endif
}

#ifdef LATE
/* A flush makes all durable up to the first update that has not put its marker. */
proctype flusher()
{
	byte end, x;
	do
	:: flushed < next && IN(put | aborted, flushed) ->
		end = flushed;
		do
		:: end < next && IN(put | aborted, end) -> end++
		:: else -> break
		od;
		atomic { durable = durable | (put & BELOW(end)); recover(); };
		flushed = end
	:: done == NU && flushed == next -> break
	od
}
#endif

proctype reader(byte me)
{
	byte todo = TR, settled = 1, own, deps, n, newest, read, v, i, id, its, st;
	do
	:: todo > 0 ->
		todo--;
		load(0);
		load(1);
		end_reading()
	:: else -> break
	od
}

init {
	atomic {
		byte i;
		do
		:: i < NU -> run updater(i); i++
		:: else -> i = 0; break
		od;
		run reader(NU);
#ifdef LATE
		run flusher()
#endif
	}
}
