/* SPDX-License-Identifier: BSD-3-Clause
 *
 * parallel.pml - software updates that publish beside each other, with versioned locks:
 * isolation, durability and progress.  NU updates run, an update in place or a serial one may be
 * the last of them, and there may be an optimistic reader and a plain one.  Each step is one access
 * to a shared word.  Memory is sequentially consistent, so the model is about the order of steps.
 * Where a fence orders one step before another, the mutation swaps the two; sweep.pml leaves out the
 * fences of a sweep.
 *
 * A stamp is the durTS of the last update that stored to the line, or held by a thread.  `shut`
 * says who may be active: READERS_IN: plain readers; SHUT: nobody else, for the turn's holder
 * stores, or waits until it can; UPDATES_IN: no plain reader, and any concurrent update publishes
 * without the turn.  Only the turn's holder changes it.  If it stores beside bodies and holds no
 * stamps, it sweeps: it makes `sweeps` odd meanwhile, and sets the bound of each body to 0.
 *
 * A body notes every version that it loads.  versions.pml has those that it need not note.
 *
 * Settings:
 *   -DNU=n         updates, 2 by default
 *   -DTRIES=n      how often a defeated update runs, 1 by default.  A reader that starts again is a
 *                  reader that begins late, so it ends
 *   -DOPTIMISTIC   there is also an optimistic reader
 *   -DPLAINLY      there is also a plain reader
 *   -DINPLACE      the last update runs in place; it may roll back
 *   -DSERIAL       the last update holds the turn from its begin
 *   -DOPEN         `shut` is UPDATES_IN at first; by default it is that, or READERS_IN
 *   -DCOLLIDE      both words have the same stamp
 *   -DLOOSE        with CROSS: the updates and the readers need some serial order only, not that of
 *                  the durTSs
 *
 *   -DONELOOK      a load of an update may look at the stamp only after it, if the version is below
 *                  all durTSs that were in flight when the body began
 *
 * Workloads:
 *   by default     each update loads both words, and stores to both
 *   -DCROSS        update 0 loads word 0 and stores to word 1; update 1 does the reverse; update 2
 *                  loads word 1 and stores to it
 *   -DCROSS -DBLIND  the same, but update 1 loads nothing
 *   -DAPART        the last update loads word 1 and stores to it; the others use word 0
 *   -DWIDE         update 0 loads both words and stores to word 0; the others load nothing, and
 *                  store to word 1, with -DSAME to both
 *   -DSAME         who stores to word 0 stores the value that it has: comparisons find it unchanged
 *   -DFRESH        word 0 is a pointer to word 1 until something is stored there.  Update 0 stores,
 *                  which frees word 1.  If the last update finds it free, it uses it as fresh
 *                  memory; an update in place stores there in any case.  It stores to word 0, too.
 *                  Readers, and update 1 of three, load word 0, and word 1 if that is not free
 *
 * Checked: each body, also one that is defeated later, and each reader, finds what the updates
 * below some durTS have stored, and nothing else; that durTS lies above those of all updates that
 * had returned at its begin (INV-SW1, INV-SW3).  An update that publishes has found what the
 * updates below its own durTS have stored: the order of the durTSs is the serial order (INV-SW2).
 * Whenever a marker becomes durable or a transaction returns, recovery would keep every update
 * that has returned and what each transaction that has returned has read from (INV-D2), and with
 * an update it would keep those that this one has read from (INV-D3); no marker claims what is
 * not settled (INV-M4).  A serial update, and one in place, are never defeated (INV-SW6).  No
 * thread waits forever.
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   NOFIRSTLOOK  a load looks at the stamp after it only (INV-SW1)
 *   NOSECONDLOOK  a load looks at the stamp before it only (INV-SW1)
 *   ONELOOKFIRST  so does the load that looks once (INV-SW1)
 *   ONELOOKNEWER  one look is enough for every version below the snapshot (INV-SW1)
 *   BODYNEWER    a body takes words that are newer than its snapshot (INV-SW1)
 *   FUTURESNAP   a snapshot is a value that next_durts gets after the first loads (INV-SW1)
 *   EXTENDBLIND  an extension compares no values (INV-SW1)
 *   EXTENDONCE   an extension looks at a stamp before it loads the word only (INV-SW1)
 *   EXTENDNEWER  an extension ignores stamps newer than next_durts as it was read (INV-SW1)
 *   HOLDLATE     an update holds its lines after it has stored to them (INV-ST1)
 *   FREEFIRST    an update frees its lines before it stores to them (INV-ST1)
 *   FREEOLD      an update that has stored frees its lines with their old versions (INV-ST1)
 *   DRAWUNHELD   an update draws its durTS before it holds its lines (INV-ST1)
 *   NOVALID      an update does not compare what it has loaded (INV-SW2)
 *   COMPAREFIRST  an update compares what it has loaded before it holds its lines only (INV-SW2)
 *   VALIDONCE    an update does not look at the stamps after its draw (INV-SW2)
 *   STOREUNDRAINED  the turn's holder stores while plain readers are active (INV-SW3)
 *   SHUTLATE     the turn's holder drains plain readers, and then shuts all out (INV-SW3)
 *   OPENUNDRAINED  the turn's holder lets updates in while plain readers are active (INV-SW3)
 *   PLAINIGNORES  a plain reader runs while updates are in (INV-SW3)
 *   PLAINLOOKFIRST  a plain reader looks at `shut` before it is active (INV-SW3)
 *   BODIESMISSED  an update in place ignores the bodies that it finds active (INV-ST2)
 *   BODIESEARLY  an update in place looks for bodies before it shuts all out (INV-SW5)
 *   BODYIGNORES  a body does not look at `shut` (INV-SW5)
 *   BODYLOOKFIRST  a body looks at `shut` before it is active (INV-SW5)
 *   SERIALBESIDE  a serial update does not close to updates at its begin (INV-SW6)
 *   PUBNOLOOK    an update that publishes does not look at `shut` (INV-SW7)
 *   PUBLOOKFIRST  an update looks at `shut` before it says that it publishes (INV-SW7)
 *   QUITSFIRST   an update says that it has published before it stores (INV-SW7)
 *   CLOSENOWAIT  who closes to updates does not wait for those that publish (INV-SW7)
 *   CLOSELATE    it waits for those, and then changes `shut` (INV-SW7)
 *   ROOMINSIDE   an update waits for what it has read from while it publishes (INV-SW8)
 *   READERSEARLY  who closes to updates lets readers in, and then waits for those (INV-SW7)
 *   SWEEPBLIND   a sweep sets the bounds, and then makes `sweeps` odd (INV-ST2)
 *   SWEEPUNBOUND  a sweep sets no bounds (INV-ST2)
 *   SWEEPLATE    an update in place stores before its sweep has set the bounds (INV-ST2)
 *   SWEEPODD     a body does not wait for the sweep's end (INV-ST2)
 *   SWEEPUNSEEN  a body or reader that has set its bound does not look at `sweeps` (INV-ST2)
 *   SWEEPNEWER   after a sweep an extension compares words with newer stamps only (INV-ST2)
 *   SWEEPMISSED  a body whose bound is too low for a load does not look at `sweeps` (INV-ST2)
 *   PUBSWEPT     an update that publishes compares nothing, although there was a sweep (INV-ST2)
 *   READERMISSES  nor does an optimistic reader (INV-OR1)
 *   READERNEWER  an optimistic reader takes what is newer than its snapshot (INV-OR1)
 *   NOFRESHSWEEP  an update stores to fresh memory without a sweep (INV-FM1)
 *   FRESHLATE    an update sweeps after it has stored to fresh memory (INV-FM1)
 *   FRESHOWN     an update takes for fresh what it has freed itself (INV-FM2)
 *   ANNOUNCELATE  an update announces itself after it has stored (INV-D1)
 *   EXTENDUNNOTED  an extension does not note the versions that it finds (INV-DV1)
 *   READERUNNOTED  an optimistic reader does not note the versions that it loads (INV-OR2)
 *   READERUNSETTLED  an optimistic reader does not wait for what it has read from (INV-DV1)
 *   SETTLEONE    it waits for the newest of them only, and not for all below (INV-DV1)
 *   UPDATEUNSETTLED  an update does not wait for what it has read from (INV-DV1)
 *   NOUNSTAMPED  an update in place leaves no durTS to wait for (INV-OR2)
 *   UNSTAMPEDUNREAD  a body or reader does not look for that durTS (INV-OR2)
 *   UNSTAMPEDEARLY  an optimistic reader looks for that durTS before it begins (INV-OR2)
 *   UNSTAMPEDLATE  that update leaves the durTS after it has let others in (INV-OR2)
 *   SWEEPUNREAD  an extension after a sweep does not look for that durTS (INV-DV1)
 *   DEPSUNNAMED  a marker does not name D (INV-D3)
 *
 * Steps that nothing else needs.  Without them everything still holds:
 *   -DEXTENDSWEPT  an extension looks at `sweeps` after it has set its bound only
 */
#ifndef NU
#define NU 2
#endif
#ifndef TRIES
#define TRIES 1
#endif
#define READER NU        /* the thread of the optimistic reader */
#define PLAINREADER (NU + 1)
#define N (NU + 2)
#define LAST (NU - 1)    /* the update in place, or the serial one */
#define W 2
#define MAXD 8           /* durTSs: 1 to 7 */
#define HELD 16          /* a stamp: a version, or HELD + the thread that holds it */
#define ANNOUNCED 14     /* in nondurable[]: no durTS yet; + the try */
#if defined(INPLACE) || (defined(SERIAL) && defined(FRESH))
#define SWEEPS
#endif

#ifdef COLLIDE
#define STAMPS 1
#define LINE(k) 0
#else
#define STAMPS W
#define LINE(k) (k)
#endif

/* --------------------------------------------------------------- shared words */
byte word[W];            /* the durTS of the update that has stored there */
byte stamp[STAMPS];
byte next = 1;           /* next_durts */
byte nd[NU];             /* nondurable[]: 0, ANNOUNCED + the try, or a durTS */
byte act[N];             /* active[].seq */
#define PLAIN 1
#define BODY 2
bool publishing[NU];     /* active[].publishing */
bool turn;
byte shut;
#define READERS_IN 0
#define SHUT 1
#define UPDATES_IN 2
#ifdef INPLACE
byte unstamped;
#endif
#ifdef SWEEPS
byte sweeps;
byte bound[N];           /* of each body and optimistic reader */
#define EVEN (sweeps % 2 == 0)
#endif

/* ----------------------------------------------- the medium, and ghost variables */
byte durable, aborted;   /* bits: durTSs with a commit marker, with an abort marker */
byte names[MAXD];        /* bits: what the commit marker names */
byte from[MAXD];         /* bits: what the update has read from */
byte kept;               /* bits: what recovery would keep now */
byte stored[W];          /* bits: the updates that have stored to the word, or are about to */
byte seen[W];            /* the greatest cut of those that have loaded the word */

#define BIT(d) (1 << (d))
#define BELOW(d) (BIT(d) - 1)
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define IN(set, k) ((set) & BIT(k))
inline find(set) { do :: k < W && !IN(set, k) -> k++ :: else -> break od }

/* Is `v` the word's value after all updates whose durTSs are below `cut`? */
#define IS_AT(k, v, cut) \
	((v) < (cut) && (stored[k] & BELOW(cut) & ~BELOW((v) + 1)) == 0)
#ifdef LOOSE
#define SAW(k, v, cut) skip
#else
#define SAW(k, v, cut) assert(IS_AT(k, v, cut)); seen[k] = MAX(seen[k], cut)
#endif
#define FROM(v) ((v) > 0 -> BIT(v) : 0)
#define FIRST_BOUND (me == READER -> 0 : snap)

#if defined(FRESH)
#define READS(m) ((m) == 0 -> 0 : ((m) == LAST -> 1 : 3))
#define WRITES(m) ((m) == 0 || (m) == LAST -> 1 : 0)
#elif defined(CROSS)
#ifdef BLIND
#define READS(m) ((m) == 1 -> 0 : ((m) == 0 -> 1 : 2))
#else
#define READS(m) ((m) == 0 -> 1 : 2)
#endif
#define WRITES(m) ((m) == 1 -> 1 : 2)
#elif defined(WIDE)
#define READS(m) ((m) == 0 -> 3 : 0)
#ifdef SAME
#define WRITES(m) ((m) == 0 -> 1 : 3)
#else
#define WRITES(m) ((m) == 0 -> 1 : 2)
#endif
#elif defined(APART)
#define READS(m) BIT((m) == LAST)
#define WRITES(m) READS(m)
#else
#define READS(m) 3
#define WRITES(m) 3
#endif
/* Word 0 is a pointer to word 1 while it is 0. */
#ifdef FRESH
#ifdef INPLACE
#define STORES(m) ((m) == LAST -> 3 : WRITES(m))
#else
#define STORES(m) (WRITES(m) | (fresh -> 2 : 0))
#endif
#define UNLINKED(k, v) ((k) == 0 && (v) != 0)
#else
#define STORES(m) WRITES(m)
#define UNLINKED(k, v) false
#endif
#ifdef SWEEPS
inline set_bounds() {
	i = 0;
	do
	:: i < N -> atomic { if :: act[i] == BODY -> bound[i] = 0 :: else fi; i++ }
	:: else -> i = 0; break
	od
}
inline sweep_begin() {
#ifdef SWEEPBLIND
	set_bounds();
	sweeps++;
#else
	sweeps++;
#ifndef SWEEPUNBOUND
	set_bounds();
#endif
#endif
	skip
}
#endif
#ifdef NOFRESHSWEEP
#define SWEEP_FOR skip
#else
#define SWEEP_FOR sweep_begin(); sweeps++
#endif
inline store_fresh() {
#ifdef FRESHLATE
	word[1] = next;
	SWEEP_FOR;
#else
	SWEEP_FOR;
	word[1] = next;
#endif
	fresh = true
}
/* Is a word compared equal that had `b` before? */
#ifdef SAME
#define EQUAL(k, a, b) ((k) == 0 || (a) == (b))
#else
#define EQUAL(k, a, b) ((a) == (b))
#endif

#ifdef LOOSE
byte r[2];
bool vis[2], reader01, reader10;
#define IS_01 (vis[0] && vis[1] && (r[0] == 0 || (READS(1) && r[1] != 0)))
#define IS_10 (vis[0] && vis[1] && (r[0] != 0 || (READS(1) && r[1] == 0)))
#define SEEN_LOOSELY vis[me] = true; CHECK_LOOSELY
#define CHECK_LOOSELY \
	assert(!(IS_01 && IS_10)); assert(!(IS_01 && reader10)); assert(!(IS_10 && reader01)); \
	assert(!(reader01 && reader10))
#define NOTE_READ(v) r[me] = v
#define READ_LOOSELY \
	if :: v > 0 && k == 1 -> one = true :: v > 0 && k == 0 -> two = true :: else fi
#define READER_SAW \
	if \
	:: one && !two -> reader01 = true \
	:: two && !one -> reader10 = true \
	:: else \
	fi; CHECK_LOOSELY
#else
#define SEEN_LOOSELY skip
#define NOTE_READ(v) skip
#define READER_SAW skip
#define READ_LOOSELY skip
#endif

/* What recovery would keep, from the lowest durTS on. */
inline recover() {
	x = 1; kept = 0;
	do
	:: x < MAXD ->
		if
		:: IN(durable, x) && (names[x] & ~(kept | aborted)) == 0 ->
			kept = kept | BIT(x)
		:: else
		fi;
		x++
	:: else -> break
	od;
	x = 1;
	do
	:: x < MAXD -> assert(!IN(kept, x) || (from[x] & ~kept) == 0); x++
	:: else -> x = 0; break
	od
}

/* A body has loaded this version, or may have. */
#define NOTE(v) most = MAX(most, v); deps = deps | FROM(v)

/* Return when all durTSs up to `upto` are settled. */
#define SETTLED(entry, upto) ((entry) == 0 || ((entry) < ANNOUNCED && (entry) > (upto)))
inline settle(upto) {
	i = 0;
	do
	:: i < NU ->
#ifdef SETTLEONE
		(i == me || upto == 0 || nd[i] != upto);
#else
		(i == me || SETTLED(nd[i], upto));
#endif
		i++
	:: else -> i = 0; break
	od
}

/* From UPDATES_IN to SHUT, with the turn. */
inline close() {
#ifdef READERSEARLY
	shut = READERS_IN;
#elif !defined(CLOSELATE)
	shut = SHUT;
#endif
#ifndef CLOSENOWAIT
	i = 0;
	do
	:: i < NU -> !publishing[i]; i++
	:: else -> i = 0; break
	od;
#endif
#ifdef CLOSELATE
	shut = SHUT;
#endif
	skip
}

/* Shut all out, with the turn. */
inline shut_out() {
	if
	:: shut == UPDATES_IN -> close()
	:: shut == READERS_IN ->
#ifdef SHUTLATE
		act[PLAINREADER] != PLAIN;
#endif
		shut = SHUT;
#if !defined(STOREUNDRAINED) && !defined(SHUTLATE)
		act[PLAINREADER] != PLAIN
#endif
	fi
}

inline let_in() {
	if
	:: shut = READERS_IN
	:: shut = UPDATES_IN
	:: shut = UPDATES_IN; close(); shut = READERS_IN /* only briefly */
	fi
}

/* An update that has the turn from its begin: scan nondurable[].  No other update announces itself
 * meanwhile. */
inline collect() {
	below = next;
	i = 0;
	do
	:: i < NU -> atomic { if :: i != me -> found[i] = nd[i] :: else fi; i++ }
	:: else -> i = 0; break
	od;
}

/* Wait until the updates of D have drawn. */
inline await_drawn() {
	i = 0;
	do
	:: i < NU ->
		atomic {
			(found[i] < ANNOUNCED || nd[i] != found[i]);
			if
			:: found[i] >= ANNOUNCED -> found[i] = (nd[i] < ANNOUNCED -> nd[i] : 0)
			:: else
			fi;
			deps = deps | FROM(found[i]);
			i++
		}
	:: else -> i = 0; break
	od
}

inline persist() {
	atomic {
#ifndef DEPSUNNAMED
		names[d] = deps;
#endif
		durable = durable | BIT(d);
		recover();
		/* INV-M4 */
		assert((BELOW(below) & ~(1 | deps | durable | aborted)) == 0)
	};
	nd[me] = 0
}

/* Wait for D, as a scan has found it. */
inline await_found() {
#ifndef UPDATEUNSETTLED
	i = 0;
	do
	:: i < NU -> (found[i] == 0 || nd[i] != found[i]); i++
	:: else -> i = 0; break
	od
#else
	skip
#endif
}

/* Compare the words that the update has loaded with the heap. */
#ifdef SWEEPS
#ifdef PUBSWEPT
#define NO_SWEEP_SINCE true
#else
#define NO_SWEEP_SINCE (sweeps == sweep)
#endif
#ifdef SWEEPNEWER
#define AS_BEFORE (s < snap)
#else
#define AS_BEFORE (s < snap && sw == sweep)
#endif
#ifdef SWEEPODD
#define AWAIT_SWEEP sw = sweeps
#else
#define AWAIT_SWEEP atomic { EVEN -> sw = sweeps }
#endif
#ifdef EXTENDSWEPT
#define NO_SWEEP true
#else
#define NO_SWEEP (sweeps == sw)
#endif
#ifdef SWEEPUNSEEN
#define STILL_NO_SWEEP true
#else
#define STILL_NO_SWEEP (sweeps == sw)
#endif
#else
#define AS_BEFORE (s < snap)
#define AWAIT_SWEEP skip
#define NO_SWEEP_SINCE true
#define NO_SWEEP true
#define STILL_NO_SWEEP true
#endif
#if defined(INPLACE) && !defined(SWEEPUNREAD)
#define NOTE_SWEEP if :: sw != sweep -> NOTE(unstamped) :: else fi
#else
#define NOTE_SWEEP skip
#endif
inline compare() {
	do
	:: AWAIT_SWEEP;
		atomic { e = next; again = false; j = k; k = 0; find(logged) };
		do
		:: k < W && !lost ->
			atomic {
				if
				:: stamp[LINE(k)] == HELD + me -> s = old[LINE(k)]
				:: stamp[LINE(k)] < HELD -> s = stamp[LINE(k)]
				:: holds && stamp[LINE(k)] >= HELD && stamp[LINE(k)] != HELD + me ->
					lost = true
				fi;
				if
				:: !lost && AS_BEFORE -> s = 0; k++; find(logged); compared = false
				:: else -> compared = !lost
				fi
			};
			if
			:: compared ->
				v = word[k];
				atomic {
					if
#ifndef EXTENDONCE
					:: stamp[LINE(k)] != s && stamp[LINE(k)] != HELD + me
#endif
					:: else ->
						if
#ifndef EXTENDBLIND
						:: !EQUAL(k, v, got[k]) -> lost = true
						:: else ->
							got[k] = v;
#ifndef EXTENDUNNOTED
							NOTE(s);
#endif
#else
						:: true ->
#endif
#ifndef EXTENDNEWER
							again = again || s >= e;
#endif
							k++; find(logged)
						fi
					fi;
					v = 0; s = 0; compared = false
				}
			:: else
			fi
		:: else -> break
		od;
		atomic {
			k = j; j = 0;
			if
			:: lost -> break
			:: !lost && !again && NO_SWEEP ->
				snap = e;
#ifndef SWEEPS
				break
#else
				NOTE_SWEEP;
				sweep = sw
#endif
			:: else -> again = true
			fi
		}
#ifdef SWEEPS
		if
		:: !again ->
			bound[me] = snap;
			if
			:: STILL_NO_SWEEP -> break
			:: else
			fi
		:: else
		fi
#endif
	od;
	atomic { again = false; s = 0 }
}

inline hold_line(n) {
	atomic {
		if
		:: IN(mine, LINE(n))
		:: !IN(mine, LINE(n)) && stamp[LINE(n)] >= HELD -> lost = true
		:: else ->
			old[LINE(n)] = stamp[LINE(n)];
			stamp[LINE(n)] = HELD + me;
			mine = mine | BIT(LINE(n))
		fi
	}
}

inline hold_lines() {
	atomic { k = 0; find(WRITES(me)) };
	do
	:: k < W && !lost ->
		hold_line(k);
		atomic { k++; find(WRITES(me)) }
	:: else -> atomic { k = 0; holds = true; break }
	od
}

inline free_lines(with_durts) {
	do
	:: k < STAMPS ->
		atomic {
			if
			:: IN(mine, k) ->
				stamp[k] = (with_durts -> d : old[k]); old[k] = 0
			:: else
			fi;
			k++
		}
	:: else -> atomic { k = 0; mine = 0; holds = false; break }
	od
}

inline store() {
	atomic { k = 0; find(WRITES(me)) };
	do
	:: k < W -> atomic { word[k] = d; k++; find(WRITES(me)) }
	:: else -> atomic { k = 0; break }
	od
}

/* Ghost: the update is visible from now on, in the order of the durTSs. */
inline visible(loaded, written) {
	x = 0;
	do
	:: x < W ->
		if
		:: IN(loaded, x) ->
			NOTE_READ(got[x]);
			SAW(x, got[x], d);
			from[d] = from[d] | FROM(got[x])
		:: else
		fi;
		if
		:: IN(written, x) ->
			assert(d >= seen[x]); assert((stored[x] & ~BELOW(d)) == 0);
			stored[x] = stored[x] | BIT(d)
		:: else
		fi;
		got[x] = 0;
		x++
	:: else -> x = 0; break
	od;
	SEEN_LOOSELY
}

inline draw() {
	atomic { d = next; next++; assert(next < MAXD) };
}

/* Take a snapshot, any value that next_durts has had, and enter active[]. */
inline begin_body() {
#ifdef SWEEPS
	atomic {
		first_snapshot();
		if
		:: bound[me] = FIRST_BOUND
		:: bound[me] = 0
		fi
	};
#endif
#ifdef BODYLOOKFIRST
	atomic { shut != SHUT -> cut = next };
	act[me] = BODY;
#else
	act[me] = BODY;
#ifndef BODYIGNORES /* INV-SW5 */
	if
	:: shut == SHUT -> act[me] = 0; shut != SHUT; goto begin
	:: atomic { else -> cut = next }
	fi;
#else
	cut = next;
#endif
#endif
#ifdef SWEEPS
#ifdef SWEEPODD
	atomic { sweep = sweeps; cut = MAX(next, snap) };
#else
	atomic { EVEN -> sweep = sweeps; cut = MAX(next, snap) };
#endif
#else
	first_snapshot();
#endif
#if defined(INPLACE) && !defined(UNSTAMPEDEARLY) && !defined(UNSTAMPEDUNREAD)
	atomic { NOTE(unstamped) };
#endif
	skip
}
/* As dset_settle(): the durTSs below `settled` are settled.  An update that is announced may have
 * drawn already: then nothing is known. */
inline look_settled() {
	atomic {
		settled = next; i = 0;
		do
		:: i < NU ->
			if
			:: i != me && nd[i] >= ANNOUNCED -> settled = 0
			:: i != me && nd[i] != 0 && nd[i] < settled -> settled = nd[i]
			:: else
			fi;
			i++
		:: else -> i = 0; break
		od
	}
}
#ifdef ONELOOKNEWER
#define ONE_LOOK_BELOW snap
#else
#define ONE_LOOK_BELOW (settled < snap -> settled : snap)
#endif
inline first_snapshot() {
#ifndef FUTURESNAP
	atomic {
		snap = 1;
		do
		:: snap < next -> snap++
		:: break
		od;
		cut = MAX(cut, snap)
	}
#else
	snap = MAXD
#endif
}

proctype software(byte me)
{
	byte snap, cut, e, k, j, s, v, d, i, x, below = 1, logged, deps, most, mine, tries;
	byte got[W], old[STAMPS];
	bool lost, again, compared, holds, beside, serial, fresh;
#ifdef ONELOOK
	byte settled;
#endif
#ifdef SERIAL
	byte found[NU];
#endif
#ifdef SWEEPS
	byte sweep, sw;
#endif
#ifdef SERIAL
	serial = (me == LAST);
	if
	:: serial ->
		atomic { !turn -> turn = true };
#ifndef SERIALBESIDE
		if
		:: shut == UPDATES_IN -> close(); shut = READERS_IN
		:: else
		fi
#endif
	:: else
	fi;
#endif

begin:
#ifdef ONELOOK
	look_settled();
#endif
	begin_body();

	/* The body. */
	atomic { k = 0; find(READS(me)) };
	do
	:: k < W ->
		if
		:: serial -> v = word[k]; goto loaded
		:: else
		fi;
#ifdef ONELOOK
#ifdef ONELOOKFIRST
		s = stamp[LINE(k)];
		atomic {
			v = word[k];
#else
		v = word[k];
		atomic {
			s = stamp[LINE(k)];
#endif
			if
			:: s < ONE_LOOK_BELOW -> SAW(k, v, cut); s = 0; goto loaded
			:: else -> v = 0; s = 0
			fi
		};
#endif
look:
#ifndef NOFIRSTLOOK
		atomic { stamp[LINE(k)] < HELD -> s = stamp[LINE(k)] };
#endif
		v = word[k];
		atomic {
#ifdef NOFIRSTLOOK
			stamp[LINE(k)] < HELD -> s = stamp[LINE(k)];
#endif
			if
#ifndef NOSECONDLOOK
			:: stamp[LINE(k)] != s -> v = 0; s = 0; goto look
#endif
#ifndef BODYNEWER
			:: s >= snap -> v = 0; s = 0; goto extend
#endif
			:: else
			fi;
			if
#ifdef SWEEPS
			:: s >= bound[me]
#endif
			:: else -> SAW(k, v, cut); goto loaded
			fi
		};
#ifdef SWEEPS
		atomic {
			if
#ifndef SWEEPMISSED
			:: sweeps != sweep -> v = 0; s = 0
#endif
			:: else -> SAW(k, v, cut); goto loaded
			fi
		};
#endif
extend:
		compare();
		if
		:: lost -> goto defeated
		:: else ->
			atomic {
				cut = MAX(cut, snap);
				do
				:: x < W ->
					if :: IN(logged, x) -> SAW(x, got[x], cut) :: else fi;
					x++
				:: else -> x = 0; break
				od;
				e = 0; goto look
			}
		fi;
loaded:
		atomic {
			NOTE(s); s = 0;
			got[k] = v; logged = logged | BIT(k);
			if
			:: UNLINKED(k, v) -> k = W
			:: else -> k++; find(READS(me))
			fi;
			v = 0
		}
	:: else -> atomic { k = 0; cut = 0; break }
	od;
#ifdef FRESH
	if
#ifdef FRESHOWN
	:: serial -> store_fresh()
#else
	:: serial && got[0] != 0 -> store_fresh()
#endif
	:: else
	fi;
#endif
#ifdef FUTURESNAP
	snap = next;
#endif

	/* The commit. */
	if
	:: serial -> shut_out(); goto publish
	:: else
	fi;
commit:
#ifdef PUBLOOKFIRST
	if
	:: shut == UPDATES_IN -> beside = true
	:: else
	fi;
	publishing[me] = true;
#else
	publishing[me] = true;
	if
#ifdef PUBNOLOOK
	:: true -> beside = true
#else
	:: shut == UPDATES_IN -> beside = true
	:: else
#endif
	fi;
#endif
	if
	:: !beside ->
		publishing[me] = false;
		if
		:: atomic { !turn -> turn = true }
		:: shut == UPDATES_IN -> goto commit
		fi;
		if
		:: shut == UPDATES_IN -> turn = false; goto commit
		:: else ->
#ifdef OPENUNDRAINED
			shut = SHUT; shut = UPDATES_IN;
			act[PLAINREADER] != PLAIN
#else
			shut_out()
#endif
		fi
	:: else
	fi;

publish:
#ifdef ROOMINSIDE
	if
	:: beside -> settle(most)
	:: else
	fi;
#endif
#ifdef DRAWUNHELD
	nd[me] = ANNOUNCED + tries;
	draw();
	nd[me] = d;
#endif
#ifndef HOLDLATE
#ifdef COMPAREFIRST
	compare();
#endif
	hold_lines();
#endif
	if
	:: !lost && !serial ->
#ifdef NOVALID
		e = next
#elif defined(COMPAREFIRST)
		skip
#else
		/* The look after the draw tells whether the words have changed since the snapshot.
		 * Before it the code looks once more, so that few updates draw in vain. */
		if
		:: compare()
		:: NO_SWEEP_SINCE -> e = snap
		fi
#endif
	:: else
	fi;
	if
	:: lost -> goto drop
	:: else
	fi;
#ifdef SERIAL
	if
	:: serial -> deps = 0; collect(); await_drawn()
	:: else
	fi;
#endif
#ifndef DRAWUNHELD
#ifndef ANNOUNCELATE
	nd[me] = ANNOUNCED + tries;
#endif
	draw();
#ifndef ANNOUNCELATE
	nd[me] = d;
#endif
#endif
#if !defined(VALIDONCE) && !defined(COMPAREFIRST)
	if
	:: d != e && !serial ->
		atomic { k = 0; find(logged) };
		do
		:: k < W && !lost ->
			atomic {
				s = stamp[LINE(k)];
				if :: s == HELD + me -> s = old[LINE(k)] :: else fi;
				lost = (s >= e);
				s = 0; k++; find(logged)
			}
		:: else -> atomic { k = 0; break }
		od
	:: else
	fi;
#endif
	if
	:: lost -> goto drop
	:: else
	fi;
	atomic { visible(logged, STORES(me)); e = 0; snap = 0; logged = 0 };
#ifdef QUITSFIRST
	publishing[me] = false;
#endif
#ifdef FREEFIRST
	free_lines(true);
#endif
	store();
#ifdef HOLDLATE
	hold_lines(); lost = false;
#endif
#ifdef FREEOLD
	free_lines(false);
#else
	free_lines(true);
#endif
#ifdef ANNOUNCELATE
	nd[me] = d;
#endif
	if
	:: beside -> publishing[me] = false
	:: else -> let_in(); turn = false
	fi;
	act[me] = 0;
	persist();
#ifndef UPDATEUNSETTLED
#ifdef SERIAL
	if
	:: serial -> await_found()
	:: else -> settle(most)
	fi;
#else
	settle(most);
#endif
#endif
	assert(IN(kept, d));
	goto done;

drop:
	assert(!serial); /* INV-SW6 */
	free_lines(false);
	if
	:: beside -> publishing[me] = false
	:: else -> let_in(); turn = false
	fi;
defeated:
	act[me] = 0;
	if
	:: d != 0 ->
		atomic { aborted = aborted | BIT(d); recover() };
		nd[me] = 0
	:: else
	fi;
	atomic {
		tries++; lost = false; beside = false; logged = 0; got[0] = 0; got[1] = 0;
		d = 0; e = 0; snap = 0; deps = 0; most = 0; k = 0; cut = 0;
#ifdef SWEEPS
		sweep = 0; sw = 0;
#endif
		if
		:: tries < TRIES -> goto begin
		:: else
		fi
	};
done:
	skip
}

#ifdef INPLACE
proctype in_place(byte me)
{
	byte k, d, i, x, below, deps;
	byte got[W], found[NU];
	bool bodies;
	atomic { !turn -> turn = true };
#ifndef BODIESEARLY
	shut_out();
#endif
#ifndef BODIESMISSED
	atomic {
		do
		:: i < N -> bodies = bodies || act[i] == BODY; i++
		:: else -> i = 0; break
		od
	};
#endif
#ifdef BODIESEARLY
	shut_out();
#endif
	atomic { got[0] = word[0]; got[1] = word[1]; d = next }; /* nobody draws */
#ifdef SWEEPLATE
	if :: bodies -> sweeps++ :: else fi;
#else
	if :: bodies -> sweep_begin() :: else fi;
#endif
	store();
#ifdef SWEEPLATE
	if :: bodies -> set_bounds() :: else fi;
#endif
#ifdef FRESH
	word[1] = d;
#endif
	if
#ifndef FRESH
	:: true -> /* it rolls back */
		word[0] = got[0];
		word[1] = got[1];
		if :: bodies -> sweeps++ :: else fi;
		shut = READERS_IN;
		turn = false;
		goto done
#endif
	:: true
	fi;
	collect();
	nd[me] = ANNOUNCED;
	await_drawn();
	atomic { assert(d == next); next++; assert(next < MAXD); visible(READS(me), STORES(me)) };
	nd[me] = d;
#if !defined(NOUNSTAMPED) && !defined(UNSTAMPEDLATE)
	unstamped = d;
#endif
	if :: bodies -> sweeps++ :: else fi;
	shut = READERS_IN;
#ifdef UNSTAMPEDLATE
	unstamped = d;
#endif
	turn = false;
	persist();
	await_found();
	assert(IN(kept, d));
done:
	skip
}
#endif

#ifdef OPTIMISTIC
/* Before its first load the snapshot may still move. */
#ifdef READERNEWER
#define MOVES true
#else
#define MOVES (k == 0)
#endif
inline reader_loaded() {
	if
	:: k == 1 -> SAW(0, got, cut); got = 0
	:: else -> got = v
	fi;
	SAW(k, v, cut);
#ifndef READERUNNOTED
	NOTE(s);
#endif
	READ_LOOSELY; set = set | FROM(v);
	k = (UNLINKED(k, v) -> W : k + 1);
	v = 0; s = 0
}
proctype optimistic()
{
	byte me = READER, snap, cut, most, deps, k, s, v, got, set, i;
	bool one, two;
#ifdef SWEEPS
	byte sweep;
#endif
#ifdef UNSTAMPEDEARLY
	most = unstamped;
#endif
begin:
	begin_body();
	atomic { deps = 0 }; /* it writes no marker */
	do
	:: k < W ->
look:
#ifndef NOFIRSTLOOK
		atomic { stamp[LINE(k)] < HELD -> s = stamp[LINE(k)] };
#endif
		v = word[k];
		atomic {
#ifdef NOFIRSTLOOK
			stamp[LINE(k)] < HELD -> s = stamp[LINE(k)];
#endif
			if
#ifndef NOSECONDLOOK
			:: stamp[LINE(k)] != s -> v = 0; s = 0; goto look
#endif
			:: s >= snap && MOVES ->
				v = 0; s = 0; snap = next; cut = MAX(cut, snap); goto look
			:: s >= snap && (MOVES == false) -> v = 0; s = 0; goto again
			:: else
			fi;
			if
#ifdef SWEEPS
			:: s >= bound[me]
#endif
			:: else -> reader_loaded(); goto loaded
			fi
		};
#ifdef SWEEPS
		atomic {
			if
#ifndef READERMISSES
			:: sweeps != sweep -> v = 0; s = 0; goto again
#endif
			:: else -> reader_loaded()
			fi;
			deps = 0;
			if
			:: k != 1 -> goto loaded
			:: else
			fi
		};
		bound[me] = snap;
#ifndef SWEEPUNSEEN
		if
		:: sweeps != sweep -> goto again
		:: else
		fi;
#endif
#endif
loaded:
		atomic {
			deps = 0;
#ifdef FUTURESNAP
			snap = next
#endif
		}
	:: else -> k = 0; break
	od;
	act[me] = 0;
	atomic { READER_SAW; snap = 0; cut = 0 };
#ifndef READERUNSETTLED
	settle(most);
#endif
	assert((set & ~kept) == 0);
	goto done;
again:
	act[me] = 0; /* it starts again: as a reader that begins now */
done:
	skip
}
#endif

#ifdef PLAINLY
proctype plain()
{
	byte me = PLAINREADER, cut, k, v, set, i;
	bool one, two;
	byte found[NU];
begin:
#ifdef PLAINLOOKFIRST
	if
	:: shut == READERS_IN -> act[me] = PLAIN; goto inside
	:: else
	fi;
#endif
	act[me] = PLAIN;
	if
	:: shut == READERS_IN
	:: shut == SHUT -> act[me] = 0; shut != SHUT; goto begin
	:: shut == UPDATES_IN ->
#ifndef PLAINIGNORES
		act[me] = 0;
		if
		:: atomic { !turn -> turn = true }
		:: shut == READERS_IN -> goto begin
		fi;
		if
		:: shut == UPDATES_IN -> close(); shut = READERS_IN
		:: else
		fi;
		if
		:: true -> act[me] = PLAIN; turn = false
		:: true -> turn = false; goto begin
		fi
#else
		skip
#endif
	fi;
inside:
	cut = next;
	do
	:: k < W ->
		atomic {
			v = word[k]; SAW(k, v, cut); READ_LOOSELY; set = set | FROM(v);
			k = (UNLINKED(k, v) -> W : k + 1); v = 0
		}
	:: else -> k = 0; break
	od;
	do
	:: i < NU -> atomic { found[i] = nd[i]; i++ }
	:: else -> i = 0; break
	od;
	act[me] = 0;
	atomic { READER_SAW; cut = 0 };
	do
	:: i < NU -> (found[i] == 0 || nd[i] == 0 ||
			(found[i] < ANNOUNCED && nd[i] != found[i])); i++
	:: else -> i = 0; break
	od;
	assert((set & ~kept) == 0)
}
#endif

init {
	atomic {
		byte i;
		if
#ifndef OPEN
		:: shut = READERS_IN
#endif
		:: shut = UPDATES_IN
		fi;
		do
#ifdef INPLACE
		:: i < LAST -> run software(i); i++
		:: i == LAST -> run in_place(i); i++
#else
		:: i < NU -> run software(i); i++
#endif
		:: i == NU -> i = 0; break
		od;
#ifdef OPTIMISTIC
		run optimistic();
#endif
#ifdef PLAINLY
		run plain();
#endif
	}
}
