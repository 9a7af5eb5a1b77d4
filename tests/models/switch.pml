/* SPDX-License-Identifier: BSD-3-Clause
 *
 * switch.pml - the updates of a heap move from hardware transactions (TSX, opacity) to software
 * with D by versions, and back: isolation and durability.  Thread 0 runs updates where the word
 * lock.updates sends them; the others run software bodies and readers.  Switchers change the word.
 *
 * Each step is one access to a shared word, but where other models have the order of the accesses,
 * one step takes them together: a load of a body, with its looks at the stamp; the holding of all
 * lines; a comparison (all three: parallel.pml); the begin of a hardware transaction, with its
 * loads and stores, since a conflict aborts it (fur.pml).  Memory is sequentially consistent, so
 * the model is about the order of steps.
 *
 * A hardware update has `shut` and `updates` in its read set.  It waits for all that are in
 * active[], collects D by a scan, announces itself with its commit, and then draws its durTS.  It
 * leaves no versions.  A software body looks at `updates` when it is in active[].  If that is
 * SOFTWARE, its D are the versions that it meets, else what a scan of nondurable[] finds while it
 * publishes.
 *
 * Settings:
 *   -DBEGIN=w      `updates` at first: 0, 1 or 2; by default 0, HARDWARE
 *   -DNS=n         threads with software bodies and readers, 1 by default
 *   -DT=n          transactions of thread 0, 1 by default
 *   -DTS=n         transactions of each of the others, 1 by default
 *   -DUPDATES      those are updates; -DREADERS: readers; by default either
 *   -DNSW=n        switchers, 1 by default.  With BEGIN=1 the first of them only ends the settling
 *   -DSWITCHES=n   changes by each of them, 1 by default
 *   -DHWPUB        who publishes while updates run in hardware may do it in a hardware transaction
 *   -DPATIENT      thread 0 tries hardware once more after an abort; by default it goes on in
 *                  software
 *
 * Workloads:
 *   by default     each update loads both words, and stores to both; they have a line each
 *   -DSAMELINE     the words are on one line.  Thread 0 loads and stores word 0; thread 1 does that
 *                  with word 1; thread 2 loads word 0, and stores to word 1.  Updates are in at
 *                  first, and each snapshot is the newest
 *
 * Checked: each body, also one that is defeated later, each reader, and each hardware transaction
 * at its commit finds the words as one update has left them, and sees every update that had
 * returned when it began (INV-UR3); no update is lost (INV-UR1); an update draws its durTS after
 * those that it has read from (INV-D4); whenever a marker becomes durable or a transaction returns,
 * recovery would keep each update that has returned and what each transaction that has returned has
 * read from (INV-UR2), and with an update it would keep those that this one has read from (INV-D3);
 * no marker claims what is not settled (INV-M4), and each names or claims what its update has read
 * from (INV-M5).  No thread waits forever.
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   NOTTRACKED   a hardware update looks at `updates` before it begins its transaction (INV-UR1)
 *   UNSETTLED    `updates` becomes SOFTWARE without a wait (INV-UR2)
 *   FROMSETTLING  updates move back to hardware while others settle (INV-UR2)
 *   SETTLEFIRST  the wait is over before `updates` becomes SOFTWARE_SETTLES (INV-UR2)
 *   MODEEARLY    a body looks at `updates` before it is in active[] (INV-UR3)
 *   READERNOLOOK  an optimistic reader does not look again when it is in active[] (INV-UR3)
 *   WAITSFORREADERS  a hardware update waits for readers only (INV-SW4)
 *   NEXTEARLY    the switch reads next_durts before hardware updates have drawn (INV-UR4)
 *   UNRAISED     a body by versions does not know what the switch has found settled (INV-UR4)
 *
 * Steps that nothing else needs.  Without them everything still holds:
 *   -DNOTURN     who changes `updates` does not take the turn, but compares and swaps
 *
 * Not found in the settings of models.py, which have no three updates by a scan: -DCOLLECTEARLY, a
 * body that goes by no versions collects D before it holds its lines, or -DCOLLECTFIRST, before its
 * last comparison; -DUNSEEN, it does not wait for what its scan may have missed (INV-D9).
 */
#define HARDWARE 0
#define SOFTWARE_SETTLES 1
#define SOFTWARE 2
#ifndef BEGIN
#define BEGIN HARDWARE
#endif
#ifndef NS
#define NS 1
#endif
#ifndef T
#define T 1
#endif
#ifndef TS
#define TS 1
#endif
#ifndef NSW
#define NSW 1
#endif
#ifndef SWITCHES
#define SWITCHES 1
#endif
#define N (1 + NS)
#define W 2
#define MAXD 8           /* durTSs: 1 to 7 */
#define NOBODY 15
#ifdef SAMELINE
#define LINE(k) 0
#define READS(m) ((m) == 1 -> 2 : 1)
#define WRITES(m) ((m) == 0 -> 1 : 2)
#else
#define LINE(k) (k)
#define READS(m) 3
#define WRITES(m) 3
#endif

/* Any value that next_durts has had. */
#ifdef SAMELINE
#define SNAPSHOT snap = next
#else
#define SNAPSHOT if :: snap = next :: snap = 1 fi
#endif

/* --------------------------------------------------------------- shared words */
byte word[W];            /* the number of the update that has stored there, in order of commit */
byte version[W];         /* of the line */
byte holder[W] = NOBODY;
byte next = 1;           /* next_durts */
byte nd_id[N];           /* nondurable[].id */
byte nd_durts[N];        /* nondurable[].durts */
byte last[N];            /* nondurable[].last */
byte act[N];             /* active[].seq: its kind */
#define PLAIN 1
#define BODY 2
bool publishing[N];
bool turn;
byte shut;
#define READERS_IN 0
#define ALL_OUT 1
#define UPDATES_IN 2
byte updates = BEGIN;   /* HARDWARE, SOFTWARE_SETTLES or SOFTWARE */
byte settled_by_switch = 1;

/* --------------------------------------- hardware transactions, and ghost variables */
bool hin, hdoomed;       /* the hardware update of thread 0 */
#ifdef HWPUB
byte pin = NOBODY;       /* who publishes in hardware */
bool pdoomed;
#define IS_PIN (pin != NOBODY)
#define DOOM_PUB(set) if :: IS_PIN && (WRITES(pin) & (set)) -> pdoomed = true :: else fi
#else
#define DOOM_PUB(set) skip
#endif
byte count;              /* updates that have committed */
byte current[W];         /* the word, if no store were under way */
byte durts_of[MAXD];     /* of an update that has committed */
byte owner[MAXD];        /* of a durTS: the thread */
byte returned[W];        /* the greatest number of an update of the word that has returned */

/* ----------------------------------------------- the medium */
byte durable, aborted;   /* bits: durTSs with a commit marker, with an abort marker */
byte names[MAXD];        /* bits: what the commit marker names */
byte from[MAXD];         /* bits: what the update has read from */
byte kept;               /* bits: what recovery would keep now */

#define BIT(d) (1 << (d))
#define BELOW(d) (BIT(d) - 1)
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define IN(set, k) ((set) & BIT(k))
#define FROM(v) ((v) == 0 -> 0 : BIT(durts_of[v]))
#define KEPT(v) ((v) == 0 || (durts_of[v] != 0 && IN(kept, durts_of[v])))

/* A plain load of a word dooms a hardware transaction that has written it, a plain store also one
 * that has read it.  Both are parts of an atomic step. */
#define LOADED(k) \
	if :: hin && IN(WRITES(0), k) -> hdoomed = true :: else fi; DOOM_PUB(BIT(k))
#define STORE(k, value) \
	if :: hin && IN(READS(0) | WRITES(0), k) -> hdoomed = true :: else fi; \
	DOOM_PUB(BIT(k)); word[k] = value
#define SET_SHUT(value) \
	atomic { if :: hin -> hdoomed = true :: else fi; shut = value }
#ifdef NOTTRACKED
#define SET_UPDATES(value) updates = value
#define HARDWARE_IS_IN (shut == READERS_IN)
#else
#define HARDWARE_IS_IN (shut == READERS_IN && updates == HARDWARE)
#define SET_UPDATES(value) if :: hin -> hdoomed = true :: else fi; updates = value
#endif

inline recover() {
	x = 1; kept = 0;
	do
	:: x < MAXD ->
		if
		:: IN(durable, x) && (names[x] & ~(kept | aborted)) == 0 -> kept = kept | BIT(x)
		:: else
		fi;
		assert(!IN(kept, x) || (from[x] & ~kept) == 0); /* INV-D3 */
		x++
	:: else -> x = 0; break
	od
}

/* Are the words as one update has left them? */
#ifdef SAMELINE
#define ONE_STATE true
#else
#define ONE_STATE (got[0] == got[1])
#endif
#define SEES(k) (!IN(logged, k) || got[k] >= since[k])
#define SEES_RETURNED (SEES(0) && SEES(1))

/* The update commits with this durTS, or 0: it will draw. */
inline commits(d0) {
	count++; serial = count; durts_of[serial] = d0;
	x = 0;
	do
	:: x < W ->
		assert(!IN(READS(me), x) || got[x] == current[x]); /* INV-SW2 */
		if :: IN(WRITES(me), x) -> current[x] = serial :: else fi;
		x++
	:: else -> x = 0; break
	od
}

inline note(v) {
	if
	:: by_version && v >= settled -> deps = deps | BIT(v); most = MAX(most, v)
	:: else
	fi
}

/* dset_settle() */
inline settle(upto) {
	st = next;
	i = 0;
	do
	:: i < N ->
		id = nd_id[i];
		atomic {
			(i == me || id == 0 || nd_id[i] != id || nd_durts[i] > upto);
			if
			:: i != me && id != 0 && nd_id[i] == id && nd_durts[i] < st ->
				st = nd_durts[i]
			:: else
			fi;
			i++; id = 0
		}
	:: else -> i = 0; break
	od;
	atomic { settled = MAX(settled, st); st = 0 }
}

/* nondurable_scan(): D, in found[].  LEFT: only its durTS matters, which is above `below`. */
inline scan() {
	i = 0;
	do
	:: i < N ->
		atomic {
			if
			:: i == me
			:: i != me && nd_id[i] != 0 -> found[i] = nd_id[i]
			:: i != me && nd_id[i] == 0 && below != 0 && last[i] >= below ->
				deps = deps | BIT(last[i])
			:: else
			fi;
			i++
		}
	:: else -> i = 0; break
	od
}
inline collect() {
	below = next;
	scan()
}
/* INV-D4.  An update that has left meanwhile is named too. */
inline await_drawn() {
	i = 0;
	do
	:: i < N ->
		atomic {
			(found[i] == 0 || nd_id[i] != found[i] || nd_durts[i] != 0);
			if
			:: found[i] == 0
			:: found[i] != 0 && nd_id[i] == found[i] -> deps = deps | BIT(nd_durts[i])
			:: found[i] != 0 && nd_id[i] != found[i] && last[i] != 0 ->
				deps = deps | BIT(last[i])
			:: else
			fi;
			i++
		}
	:: else -> i = 0; break
	od
}
inline await_found() {
	i = 0;
	do
	:: i < N -> atomic { (found[i] == 0 || nd_id[i] != found[i]); found[i] = 0; i++ }
	:: else -> i = 0; break
	od
}
/* INV-D9 */
inline await_unseen() {
#ifndef UNSEEN
	if
	:: !by_version && (deps & ~BELOW(below)) != 0 ->
		i = 0;
		do
		:: i < N ->
			atomic {
				(i == me || nd_id[i] == 0 || nd_durts[i] > d ||
					(nd_durts[i] != 0 && (deps & ~BELOW(nd_durts[i])) == 0));
				i++
			}
		:: else -> i = 0; break
		od
	:: else
	fi
#else
	skip
#endif
}

inline draw() { atomic { d = next; next++; assert(next <= MAXD); owner[d] = me } }

/* The marker names the durTS x, or a later one of its thread; or its record's head claims x. */
#define COVERED (x < below || IN(deps, x) || owner[x] == me || \
	(x + 1 < MAXD && IN(deps, x + 1) && owner[x + 1] == owner[x]) || \
	(x + 2 < MAXD && IN(deps, x + 2) && owner[x + 2] == owner[x]) || \
	(x + 3 < MAXD && IN(deps, x + 3) && owner[x + 3] == owner[x]))
inline persist() {
	atomic {
		x = 0;
		do
		:: x < W ->
			if
			:: IN(logged, x) && got[x] != 0 ->
				assert(durts_of[got[x]] != 0 && durts_of[got[x]] < d); /* INV-D4 */
				from[d] = from[d] | FROM(got[x])
			:: else
			fi;
			x++
		:: else -> break
		od;
#ifndef SAMELINE /* there the marker of an update that it names may name it */
		x = 1;
		do
		:: x < d -> assert(!IN(from[d], x) || COVERED); x++ /* INV-M5 */
		:: else -> break
		od;
#endif
		x = 0;
		names[d] = deps; durable = durable | BIT(d);
		/* INV-M4 */
		assert((BELOW(below) & ~(1 | deps | durable | aborted)) == 0);
		recover()
	};
	leave()
}
inline leave() {
	last[me] = d;
	nd_durts[me] = 0;
	nd_id[me] = 0
}

/* With the turn. */
inline close() {
	SET_SHUT(ALL_OUT);
	i = 0;
	do
	:: i < N -> atomic { !publishing[i]; i++ }
	:: else -> i = 0; break
	od
}
inline drain() {
	i = 0;
	do
	:: i < N -> atomic { act[i] != PLAIN; i++ }
	:: else -> i = 0; break
	od
}
inline shut_out() {
	if
	:: shut == UPDATES_IN -> close()
	:: shut == READERS_IN -> SET_SHUT(ALL_OUT); drain()
	fi
}
inline let_in() {
	if
	:: SET_SHUT(READERS_IN)
	:: updates != HARDWARE -> SET_SHUT(UPDATES_IN)
	fi
}
inline take_turn_alone() {
	atomic { !turn -> turn = true };
	if
	:: shut == UPDATES_IN -> close(); SET_SHUT(READERS_IN)
	:: else
	fi
}

/* All words are compared whose versions are not below the snapshot. */
inline compare() { atomic {
	x = 0;
	do
	:: x < W && !lost ->
		if
		:: IN(logged, x) ->
			if
			:: holder[LINE(x)] == NOBODY || holder[LINE(x)] == me
			:: holds && holder[LINE(x)] != NOBODY && holder[LINE(x)] != me -> lost = true
			fi;
			if
			:: !lost && version[LINE(x)] >= snap ->
				LOADED(x);
				lost = (word[x] != got[x]);
				note(version[LINE(x)])
			:: else
			fi
		:: else
		fi;
		x++
	:: else -> x = 0; break
	od;
	snap = next } }

inline hold_lines() { atomic {
	x = 0;
	do
	:: x < W && !lost ->
		if
		:: IN(WRITES(me), x) && holder[LINE(x)] == NOBODY ->
			holder[LINE(x)] = me; note(version[LINE(x)])
		:: IN(WRITES(me), x) && holder[LINE(x)] != NOBODY && holder[LINE(x)] != me -> lost = true
		:: else
		fi;
		x++
	:: else -> x = 0; holds = true; break
	od } }
inline free_lines(stored) { atomic {
	x = 0;
	do
	:: x < W ->
		if
		:: holder[x] == me ->
			holder[x] = NOBODY;
			if :: stored -> version[x] = d :: else fi
		:: else
		fi;
		x++
	:: else -> x = 0; holds = false; break
	od } }

inline load_words(set) {
	k = 0;
	do
	:: k < W && !lost ->
		if
		:: IN(set, k) ->
			atomic {
				holder[LINE(k)] == NOBODY;
				if
				:: version[LINE(k)] >= snap && (!is_reader || logged == 0) -> compare()
				:: version[LINE(k)] >= snap && is_reader && logged != 0 -> lost = true
				:: else
				fi;
				if
				:: !lost ->
					LOADED(k);
					got[k] = word[k]; logged = logged | BIT(k); note(version[LINE(k)])
				:: else
				fi;
				k++
			}
		:: else -> k++
		fi
	:: else -> k = 0; break
	od;
	if
	:: !lost -> assert(logged != 3 || ONE_STATE); assert(SEES_RETURNED)
	:: else
	fi
}

inline returns() {
	atomic {
		assert(KEPT(serial)); /* INV-UR2 */
		x = 0;
		do
		:: x < W ->
			assert(!IN(logged, x) || KEPT(got[x]));
			if
			:: serial != 0 && IN(WRITES(me), x) -> returned[x] = MAX(returned[x], serial)
			:: else
			fi;
			x++
		:: else -> x = 0; break
		od
	}
}

proctype thread(byte me)
{
	byte todo = (me == 0 -> T : TS);
	byte settled = 1, mine;
	byte got[W], since[W], found[N];
	byte snap, logged, deps, most, below, d, serial, i, k, x, id, st;
	bool by_version, is_reader, lost, holds, beside;
#ifdef PATIENT
	bool tried;
#endif
again:
	atomic {
		if
		:: todo == 0 -> goto done
		:: else -> todo--
		fi;
		mine++;
		since[0] = returned[0]; since[1] = returned[1];
		if
		:: me == 0 -> goto update
#ifndef UPDATES
		:: me != 0 -> is_reader = true; goto reader
#endif
#ifndef READERS
		:: me != 0 -> goto body
#endif
		fi
	};
update:
	if
	:: updates == HARDWARE
	:: else -> goto body
	fi;

	/* A hardware update. */
	atomic {
		if
		:: HARDWARE_IS_IN ->
			hin = true; hdoomed = false;
			got[0] = word[0]; got[1] = word[1]; logged = READS(me);
			DOOM_PUB(READS(me) | WRITES(me));
			assert(logged != 3 || ONE_STATE)
		:: else -> goto aborts
		fi
	};
	do
	:: i < N ->
		atomic {
#ifdef WAITSFORREADERS
			(act[i] != PLAIN || hdoomed);
#else
			(act[i] == 0 || hdoomed);
#endif
			i++
		}
	:: else -> i = 0; break
	od;
	collect();
	atomic {
		if
		:: hdoomed -> goto aborts
		:: else
		fi;
		hin = false;
		assert(SEES_RETURNED);
		commits(0);
		if :: IN(WRITES(me), 0) -> word[0] = serial :: else fi;
		if :: IN(WRITES(me), 1) -> word[1] = serial :: else fi;
		nd_id[me] = mine
	};
	await_drawn();
	draw();
	atomic { nd_durts[me] = d; durts_of[serial] = d };
	goto visible;
aborts:
	atomic {
		hin = false; hdoomed = false; got[0] = 0; got[1] = 0; logged = 0;
		below = 0; deps = 0; i = 0;
		do :: i < N -> found[i] = 0; i++ :: else -> i = 0; break od;
#ifdef PATIENT
		if
		:: !tried -> tried = true; goto update
		:: else
		fi
#endif
	};

	/* A software body. */
body:
#ifdef MODEEARLY
	by_version = (updates == SOFTWARE);
	act[me] = BODY;
#else
	act[me] = BODY;
	by_version = (updates == SOFTWARE);
#endif
	atomic {
		SNAPSHOT;
#ifndef UNRAISED
		if
		:: by_version -> settled = MAX(settled, settled_by_switch)
		:: else
		fi
#endif
	};
	load_words(READS(me));
	if
	:: lost -> goto defeated
	:: else
	fi;

commit:
	publishing[me] = true;
	if
	:: shut == UPDATES_IN -> beside = true
	:: else ->
		publishing[me] = false;
		if
		:: atomic { !turn -> turn = true }
		:: shut == UPDATES_IN -> goto commit
		fi;
		if
		:: shut == UPDATES_IN -> turn = false; goto commit
		:: else
		fi
	fi;
#ifdef COLLECTEARLY
	if :: !by_version -> collect() :: else fi;
#endif
	hold_lines();
#ifdef COLLECTFIRST
	if :: !by_version && !lost -> collect() :: else fi;
#endif
	if :: !lost -> compare() :: else fi;
	if
	:: lost -> free_lines(false); goto drop
	:: else
	fi;
#ifdef HWPUB
	if
	:: !beside && updates == HARDWARE ->
		/* Its stores conflict with the hardware update's. */
		atomic {
			pin = me; pdoomed = false;
			if :: hin && (WRITES(me) & (READS(0) | WRITES(0))) -> hdoomed = true :: else fi
		};
		do
		:: i < N -> atomic { (act[i] != PLAIN || pdoomed); i++ }
		:: else -> i = 0; break
		od;
		if :: !by_version -> collect() :: else fi;
		atomic {
			pin = NOBODY;
			if
			:: pdoomed -> pdoomed = false; goto in_place
			:: else
			fi;
			commits(0);
			if :: IN(WRITES(me), 0) -> word[0] = serial :: else fi;
			if :: IN(WRITES(me), 1) -> word[1] = serial :: else fi;
			nd_id[me] = mine
		};
		await_drawn();
		draw();
		atomic { nd_durts[me] = d; durts_of[serial] = d };
		free_lines(true);
		turn = false;
		goto published;
in_place:
		atomic {
			deps = (by_version -> deps : 0);
			do :: i < N -> found[i] = 0; i++ :: else -> i = 0; break od
		}
	:: true
	fi;
#endif
	if :: !beside -> shut_out() :: else fi;
#if !defined(COLLECTEARLY) && !defined(COLLECTFIRST)
	if :: !by_version -> collect() :: else fi;
#endif
	await_drawn();
	if :: by_version -> below = settled :: else fi;
	nd_id[me] = mine;
	draw();
	nd_durts[me] = d;
	/* Are the words still as they were?  Then the update comes now. */
	atomic {
		x = 0;
		do
		:: x < W ->
			lost = lost || (IN(logged, x) && ((holder[LINE(x)] != NOBODY &&
				holder[LINE(x)] != me) || version[LINE(x)] >= snap));
			x++
		:: else -> x = 0; break
		od;
		if
		:: lost
		:: else -> commits(d)
		fi
	};
	if
	:: lost -> free_lines(false); goto drop
	:: else
	fi;
	do
	:: k < W ->
		atomic { if :: IN(WRITES(me), k) -> STORE(k, serial) :: else fi; k++ }
	:: else -> k = 0; break
	od;
	free_lines(true);
	if
	:: beside -> publishing[me] = false
	:: else -> let_in(); turn = false
	fi;
published:
	act[me] = 0;
visible:
	await_unseen();
	if :: !by_version && most == 0 && below == 0 -> below = 1 :: else fi;
	persist();
	if
	:: by_version && most != 0 -> settle(most)
	:: else -> await_found()
	fi;
	returns();
	goto ended;

drop:
	if
	:: beside -> publishing[me] = false
	:: else ->
		if :: shut == ALL_OUT -> let_in() :: else fi;
		turn = false
	fi;
defeated:
	act[me] = 0;
	if
	:: d != 0 ->
		atomic { aborted = aborted | BIT(d); recover() };
		leave()
	:: else
	fi;
	goto ended;

	/* A reader. */
reader:
#ifndef UPDATES
	if
	:: updates == SOFTWARE
	:: else -> goto plain
	fi;
	act[me] = BODY;
#ifndef READERNOLOOK
	if
	:: updates == SOFTWARE
	:: else -> act[me] = 0; goto plain
	fi;
#endif
	atomic {
		by_version = true;
		SNAPSHOT;
		settled = MAX(settled, settled_by_switch)
	};
	load_words(3);
	act[me] = 0;
	if
	:: lost
	:: else ->
		if
		:: most != 0 -> settle(most)
		:: else
		fi;
		returns()
	fi;
	goto ended;

plain:
	act[me] = PLAIN;
	if
	:: shut == READERS_IN
	:: shut == ALL_OUT -> act[me] = 0; shut != ALL_OUT; goto plain
	:: shut == UPDATES_IN ->
		act[me] = 0;
		if
		:: shut == READERS_IN -> goto plain
		:: atomic { !turn -> turn = true }
		fi;
		if
		:: shut == UPDATES_IN -> close(); SET_SHUT(READERS_IN)
		:: else
		fi;
		act[me] = PLAIN;
		turn = false
	fi;
	do
	:: k < W -> atomic { LOADED(k); got[k] = word[k]; logged = logged | BIT(k); k++ }
	:: else -> k = 0; break
	od;
	assert(ONE_STATE); assert(SEES_RETURNED);
	scan();
	act[me] = 0;
	await_found();
	returns();
#endif

ended:
	atomic {
		is_reader = false; lost = false; beside = false; by_version = false; holds = false;
		got[0] = 0; got[1] = 0; since[0] = 0; since[1] = 0; logged = 0; deps = 0; most = 0;
		below = 0; d = 0; serial = 0; snap = 0;
		do :: i < N -> found[i] = 0; i++ :: else -> i = 0; break od;
		goto again
	};
done:
	skip
}

inline wait_for_announced() {
	i = 0;
	do
	:: i < N ->
		id = nd_id[i];
		atomic { (id == 0 || nd_id[i] != id); i++; id = 0 }
	:: else -> i = 0; break
	od
}
inline settle_switch() {
#ifdef NEXTEARLY
	at = next;
#endif
#if !defined(UNSETTLED) && !defined(SETTLEFIRST)
	wait_for_announced();
#endif
#ifndef NEXTEARLY
	/* Hardware updates draw after they are visible: now all have drawn durTSs below `at`. */
	at = next;
#if !defined(UNSETTLED) && !defined(SETTLEFIRST)
	i = 0;
	do
	:: i < N -> atomic { (nd_id[i] == 0 || nd_durts[i] >= at); i++ }
	:: else -> i = 0; break
	od;
#endif
#endif
	settled_by_switch = at;
	atomic {
#ifndef FROMSETTLING
		assert(updates == SOFTWARE_SETTLES); /* a plain store will do */
#endif
		if :: updates == SOFTWARE_SETTLES -> updates = SOFTWARE :: else fi
	}
}
#ifdef NOTURN
#define TAKE_TURN skip
#define GIVE_TURN skip
#else
#define TAKE_TURN take_turn_alone()
#define GIVE_TURN turn = false
#endif
#ifdef FROMSETTLING
#define MAY_GO_BACK (updates != HARDWARE)
#else
#define MAY_GO_BACK (updates == SOFTWARE)
#endif

proctype switcher(byte number)
{
	byte todo = SWITCHES, i, id, at;
	bool moves;
	if
	:: BEGIN == SOFTWARE_SETTLES && number == 0 -> settle_switch(); todo = 0
	:: else
	fi;
	do
	:: todo > 0 ->
		atomic { todo--; moves = false };
		if
		:: updates == HARDWARE ->
#ifdef SETTLEFIRST
			wait_for_announced();
#endif
			TAKE_TURN;
			atomic {
				if
				:: updates == HARDWARE -> SET_UPDATES(SOFTWARE_SETTLES); moves = true
				:: else
				fi
			};
			GIVE_TURN;
			if
			:: moves -> settle_switch()
			:: else
			fi
		:: MAY_GO_BACK ->
			TAKE_TURN;
			atomic {
				if
				:: MAY_GO_BACK -> SET_UPDATES(HARDWARE)
				:: else
				fi
			};
			GIVE_TURN
		:: else
		fi
	:: else -> break
	od
}

init {
	atomic {
		byte i;
		if
#ifndef SAMELINE
		:: shut = READERS_IN
#endif
		:: updates != HARDWARE -> shut = UPDATES_IN
		fi;
		do :: i < N -> run thread(i); i++ :: else -> i = 0; break od;
		do :: i < NSW -> run switcher(i); i++ :: else -> i = 0; break od
	}
}
