/* SPDX-License-Identifier: BSD-3-Clause
 *
 * parallel.pml - software updates that publish beside each other, with versioned locks:
 * isolation, durability and progress.  NU updates run, an update in place or a serial one may be
 * the last of them, and there may be a checked reader and a plain one.  Each step is one access
 * to a shared word.  Memory is sequentially consistent, so the model is about the order of steps.
 * Where a fence orders one step before another, the mutation swaps the two.
 *
 * A stamp is the durTS of the last update that stored to the line, or held by a thread.  `shut`
 * says who may be active: READERS_IN: plain readers; SHUT: nobody else, for the turn's holder
 * stores, or waits until it can; UPDATES_IN: no plain reader, and any concurrent update publishes
 * without the turn.  Only the turn's holder changes it.
 *
 * Settings:
 *   -DNU=n         updates, 2 by default
 *   -DTRIES=n      how often a defeated update runs, 1 by default.  A reader that starts again is a
 *                  reader that begins late, so it ends
 *   -DCHECKED      there is also a checked reader
 *   -DPLAINLY      there is also a plain reader
 *   -DINPLACE      the last update runs in place; it may roll back
 *   -DSERIAL       the last update holds the turn from its begin
 *   -DOPEN         `shut` is UPDATES_IN at first; by default it is that, or READERS_IN
 *   -DCOLLIDE      both words have the same stamp
 *   -DLOOSE        with CROSS: the updates and the readers need some serial order only, not that of
 *                  the durTSs
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
 *                  memory; an update in place that does not frees it, and uses it again.  It stores
 *                  to word 0, too.  Readers, and update 1 of three, load word 0, and word 1 if that
 *                  is not free
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
 *   FUTURESNAP   a snapshot is a value that next_durts gets after the first loads (INV-SW1)
 *   EXTENDBLIND  an extension compares no values (INV-SW1)
 *   EXTENDONCE   an extension looks at a stamp before it loads the word only (INV-SW1)
 *   EXTENDNEWER  an extension ignores stamps newer than next_durts as it was read (INV-SW1)
 *   HOLDLATE     an update holds its lines after it has stored to them (INV-SW1)
 *   FREEFIRST    an update frees its lines before it stores to them (INV-SW1)
 *   FREEOLD      an update that has stored frees its lines with their old versions (INV-SW1)
 *   DRAWUNHELD   an update draws its durTS before it holds its lines (INV-SW1)
 *   UNDOOLD      an update in place that undoes its stores frees with the old versions (INV-SW1)
 *   NOVALID      an update does not compare what it has loaded (INV-SW2)
 *   VALIDONCE    an update does not look again after another one has drawn before it (INV-SW2)
 *   STOREUNDRAINED  the turn's holder stores while plain readers are active (INV-SW3)
 *   SHUTLATE     the turn's holder drains plain readers, and then shuts all out (INV-SW3)
 *   OPENUNDRAINED  the turn's holder lets updates in while plain readers are active (INV-SW3)
 *   PLAINIGNORES  a plain reader runs while updates are in (INV-SW3)
 *   PLAINLOOKFIRST  a plain reader looks at `shut` before it is active (INV-SW3)
 *   BODIESMISSED  an update in place ignores the bodies that it finds active (INV-SW5)
 *   BODIESEARLY  an update in place looks for bodies before it shuts all out (INV-SW5)
 *   BODYIGNORES  a body does not look at `shut` (INV-SW5)
 *   BODYLOOKFIRST  a body looks at `shut` before it is active (INV-SW5)
 *   SERIALBESIDE  a serial update does not close to updates at its begin (INV-SW6)
 *   PUBNOLOOK    an update that publishes does not look at `shut` (INV-SW7)
 *   PUBLOOKFIRST  an update looks at `shut` before it says that it publishes (INV-SW7)
 *   QUITSFIRST   an update says that it has published before it stores (INV-SW7)
 *   CLOSENOWAIT  who closes to updates does not wait for those that publish (INV-SW7)
 *   CLOSELATE    it waits for those, and then changes `shut` (INV-SW7)
 *   READERSEARLY  who closes to updates lets readers in, and then waits for those (INV-SW7)
 *   NOFRESHSTAMP  an update stores to fresh memory, and leaves the stamp (INV-FM1)
 *   FRESHLATE    an update stamps fresh memory after it has stored there (INV-FM1)
 *   FRESHHELD    an update stamps fresh memory, although it holds that stamp itself (INV-FM1)
 *   FRESHOWN     an update takes a line for fresh that it has freed itself (INV-FM1)
 *   ANNOUNCELATE  an update announces itself after it has stored (INV-D1)
 *   DEPSEARLY    an update collects D before it compares what it has loaded (INV-D1)
 *   READERUNSETTLED  a checked reader does not wait for what it has read from (INV-D2)
 *   SETTLEONE    it waits for the newest of them only, and not for all below (INV-D2)
 *   NOUNSTAMPED  an update in place that stamps nothing leaves no durTS to wait for (INV-D2)
 *   UNSTAMPEDEARLY  a checked reader looks for that durTS before it begins (INV-D2)
 *   UNSTAMPEDLATE  that update leaves the durTS after it has let readers in (INV-D2)
 *   UPDATEUNSETTLED  an update does not wait for D (INV-D2)
 *   DEPSUNNAMED  a marker does not name D (INV-D3)
 *   NOABORT      a defeated update leaves without a marker for the durTS that it has drawn (INV-D5)
 *   UNSEENLEFT   an update does not wait for those that its scan has missed (INV-D9)
 *   NODRAWNWAIT  an update does not wait until the updates of D have drawn (INV-M4)
 *   CLAIMLATE    an update reads next_durts after its scan (INV-M4)
 *
 * Steps that nothing else needs.  Without them everything still holds:
 *   -DNAMEREAD     an update does not wait for the durTSs of D before it draws: it does so after it
 *                  has freed its lines, and names only those drawn before its scan
 *   -DVALIDONCE -DLOOSE  as above: the second look makes the durTSs' order the serial order
 */
#ifndef NU
#define NU 2
#endif
#ifndef TRIES
#define TRIES 1
#endif
#define READER NU        /* the thread of the checked reader */
#define PLAINREADER (NU + 1)
#define N (NU + 2)
#define LAST (NU - 1)    /* the update in place, or the serial one */
#define W 2
#define MAXD 8           /* durTSs: 1 to 7 */
#define HELD 16          /* a stamp: a version, or HELD + the thread that holds it */
#define ANNOUNCED 14     /* in nondurable[]: no durTS yet; + the try */

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
byte unstamped;

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
#define STORES(m) (WRITES(m) | ((m) == LAST && fresh -> 2 : 0))
#define UNLINKED(k, v) ((k) == 0 && (v) != 0)
#else
#define STORES(m) WRITES(m)
#define UNLINKED(k, v) false
#endif
inline store_fresh() {
#ifdef FRESHLATE
	word[1] = next;
#endif
#ifndef NOFRESHSTAMP
	atomic {
		if
#ifndef FRESHHELD
		:: stamp[LINE(1)] == HELD + me
#endif
		:: else -> stamp[LINE(1)] = next - 1
		fi
	};
#endif
#ifndef FRESHLATE
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
	fi
}

/* Scan nondurable[]. */
inline collect() {
#ifndef CLAIMLATE
	below = next;
#endif
	i = 0;
	do
	:: i < NU -> atomic { if :: i != me -> found[i] = nd[i] :: else fi; i++ }
	:: else -> i = 0; break
	od;
#ifdef CLAIMLATE
	below = next;
#endif
}

/* Wait until the updates of D have drawn. */
inline await_drawn() {
	i = 0;
	do
	:: i < NU ->
		atomic {
#ifndef NODRAWNWAIT
			(found[i] < ANNOUNCED || nd[i] != found[i]);
#endif
			if
			:: found[i] >= ANNOUNCED -> found[i] = (nd[i] < ANNOUNCED -> nd[i] : 0)
			:: else
			fi;
#ifdef NAMEREAD
			if :: found[i] < below -> deps = deps | FROM(found[i]) :: else fi;
#else
			deps = deps | FROM(found[i]);
#endif
			i++
		}
	:: else -> i = 0; break
	od
}

inline persist() {
#ifdef NAMEREAD
	await_drawn();
#endif
	atomic {
#ifndef DEPSUNNAMED
		names[d] = deps;
#endif
		durable = durable | BIT(d);
		recover();
		/* INV-M4 */
		assert((BELOW(below) & ~(1 | deps | durable | aborted)) == 0)
	};
#ifndef UNSEENLEFT
	/* INV-D9 */
	if
	:: (deps & ~BELOW(below)) != 0 ->
		settle(d - 1)
	:: else
	fi;
#endif
	nd[me] = 0;
#ifndef UPDATEUNSETTLED
	i = 0;
	do
	:: i < NU -> (found[i] == 0 || nd[i] != found[i]); i++
	:: else -> i = 0; break
	od;
#endif
	atomic { assert(IN(kept, d)) }
}

/* Compare the words that the update has loaded with the heap. */
inline compare() {
	do
	:: atomic { e = next; again = false; j = k; k = 0; find(logged) };
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
				:: !lost && s < snap -> s = 0; k++; find(logged); compared = false
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
			:: !lost && !again -> snap = e; break
			:: else
			fi
		}
	od
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

proctype software(byte me)
{
	byte snap, cut, e, k, j, s, v, d, i, x, below, logged, deps, mine, tries;
	byte got[W], old[STAMPS], found[NU];
	bool lost, again, compared, holds, beside, serial, fresh;
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
	/* Any value that next_durts has had. */
#ifndef FUTURESNAP
	atomic {
		snap = 1;
		do
		:: snap < next -> snap++
		:: break
		od;
		cut = MAX(cut, snap)
	};
#else
	snap = MAXD;
#endif

	/* The body. */
	atomic { k = 0; find(READS(me)) };
	do
	:: k < W ->
		if
		:: serial -> v = word[k]; goto loaded
		:: else
		fi;
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
			:: s >= snap -> v = 0; s = 0
			:: else -> s = 0; SAW(k, v, cut); goto loaded
			fi
		};
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
	:: serial && got[0] != 0 -> store_fresh()
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
#ifdef DRAWUNHELD
	nd[me] = ANNOUNCED + tries;
	draw();
	nd[me] = d;
#endif
#ifndef HOLDLATE
	hold_lines();
#endif
#ifdef DEPSEARLY
	collect();
#endif
	if
	:: !lost && !serial ->
#ifdef NOVALID
		e = next
#else
		compare()
#endif
	:: else
	fi;
	if
	:: lost -> goto drop
	:: else
	fi;
#ifndef DEPSEARLY
	collect();
#endif
#ifndef DRAWUNHELD
#ifndef ANNOUNCELATE
	nd[me] = ANNOUNCED + tries;
#endif
#ifndef NAMEREAD
	await_drawn();
#endif
	draw();
#ifndef ANNOUNCELATE
	nd[me] = d;
#endif
#else
	await_drawn();
#endif
#ifndef VALIDONCE
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
#ifndef NOABORT
		atomic { aborted = aborted | BIT(d); recover() };
#endif
		nd[me] = 0
	:: else
	fi;
	atomic {
		tries++; lost = false; beside = false; logged = 0; got[0] = 0; got[1] = 0;
		d = 0; e = 0; snap = 0; deps = 0; k = 0; cut = 0; i = 0; below = 0;
		do :: i < NU -> found[i] = 0; i++ :: else -> i = 0; break od;
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
	byte k, d, i, x, below, deps, mine;
	byte got[W], old[STAMPS], found[NU];
	bool lost, holds, bodies, fresh;
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
	if
	:: bodies -> hold_lines(); assert(!lost)
	:: else
	fi;
	if
	:: true ->
		store();
#ifdef FRESH
		if
#ifndef FRESHOWN
		:: got[0] == 0 -> /* it frees line 1 itself */
			if
			:: bodies -> hold_line(1)
			:: else
			fi;
			word[1] = d;
			fresh = true
#endif
		:: else -> store_fresh()
		fi
#endif
#ifndef FRESH
	:: true -> /* it rolls back */
		word[0] = d;
		word[0] = got[0];
#ifdef UNDOOLD
		free_lines(false);
		shut = READERS_IN;
		turn = false;
		goto done
#else
		goto undone
#endif
#endif
	fi;
	collect();
	nd[me] = ANNOUNCED;
	await_drawn();
	atomic { assert(d == next); next++; assert(next < MAXD); visible(READS(me), STORES(me)) };
	nd[me] = d;
	if
	:: bodies -> free_lines(true)
	:: else ->
#if !defined(NOUNSTAMPED) && !defined(UNSTAMPEDLATE)
		unstamped = d
#else
		skip
#endif
	fi;
	shut = READERS_IN;
#ifdef UNSTAMPEDLATE
	unstamped = (bodies -> unstamped : d);
#endif
	turn = false;
	persist();
	goto done;
undone:
	if
	:: bodies ->
		nd[me] = ANNOUNCED;
		atomic { next++; assert(next < MAXD) };
		nd[me] = d;
		free_lines(true);
		shut = READERS_IN;
		turn = false;
		atomic { aborted = aborted | BIT(d); recover() };
		nd[me] = 0
	:: else ->
		shut = READERS_IN;
		turn = false
	fi;
done:
	skip
}
#endif

#ifdef CHECKED
proctype checked()
{
	byte me = READER, snap, cut, most, k, s, v, set, i;
	bool one, two;
#ifdef UNSTAMPEDEARLY
	most = unstamped;
#endif
begin:
#ifdef BODYLOOKFIRST
	atomic { shut != SHUT -> cut = next };
	act[me] = BODY;
#else
	act[me] = BODY;
#ifndef BODYIGNORES
	if
	:: shut == SHUT -> act[me] = 0; shut != SHUT; goto begin
	:: atomic { else -> cut = next }
	fi;
#else
	cut = next;
#endif
#endif
#ifndef UNSTAMPEDEARLY
	most = unstamped;
#endif
#ifndef FUTURESNAP
	atomic {
		snap = 1;
		do
		:: snap < next -> snap++
		:: break
		od;
		cut = MAX(cut, snap)
	};
#else
	snap = MAXD;
#endif
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
			:: s >= snap -> v = 0; s = 0; goto again
			:: else ->
				SAW(k, v, cut);
				most = MAX(most, s);
				READ_LOOSELY; set = set | FROM(v);
				k = (UNLINKED(k, v) -> W : k + 1);
				v = 0; s = 0;
#ifdef FUTURESNAP
				snap = next;
#endif
			fi
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
#ifdef CHECKED
		run checked();
#endif
#ifdef PLAINLY
		run plain();
#endif
	}
}
