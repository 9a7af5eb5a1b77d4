/* SPDX-License-Identifier: BSD-3-Clause
 *
 * naming.pml - the updates that a marker names (src/durability/nondurable.h, commit.c), where the
 * scan of nondurable[] takes a step for each thread: an update of each of three threads, and a power
 * failure at any instant.  An update reads from every update that is visible at its last access.
 * fur.pml has the whole protocol, with scans of one step.
 *
 * Settings:
 *   -DPOWER      an update draws its durTS after its scan, before it announces itself, and names
 *                no update that has left; by default it draws after it is visible, and waits for
 *                the durTSs of those that it has found
 *
 * Checked at every state, by monitor(): if the power failed now, the set of updates that recovery
 * would keep
 *   - contains every update that has returned (INV-D2, INV-D9);
 *   - is closed under reads-from (INV-D3, INV-D4).
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found:
 *   NOUNSEEN     an update does not wait for those that its scan has missed (INV-D9)
 */
#define NT 3
#define NU NT /* updates: u is of thread u */
#define LEFT 255

byte nd[NT];       /* nondurable[].id: 1 + the update, or 0 */
byte durts[NT];    /* nondurable[].durts */
byte last[NT];     /* nondurable[].last */
byte G = 1;        /* next_durts */
byte drew[NU];     /* the update's durTS, or 0 */
byte who[NU + 1];  /* 1 + the update that drew a durTS */
bool visible[NU], medium[NU], returned[NU];
byte from[NU];     /* bits: the updates that it has read from */
byte names[NU];    /* bits: the updates that its marker names */
byte found[NU * NT], theirs[NU * NT]; /* D: ids or LEFT, and durTSs */
bool gone[NU * NT];

#define M(t)        (u * NT + t)
#define HAS_LEFT(t) (!found[M(t)] || nd[t] != found[M(t)])

inline draw() { atomic { drew[u] = G; who[G] = u + 1; G++ } }

inline scan() {
	i = 0;
	do
	:: i == me -> i++
	:: i < NT && i != me ->
		d_step {
			if
			:: nd[i] -> found[M(i)] = nd[i]
#ifndef POWER
			:: !nd[i] && last[i] >= below -> found[M(i)] = LEFT
#endif
			:: else
			fi;
			i++
		}
	:: else -> break
	od
}

/* The two loads are one step: nondurable_wait_drawn() says why that does not matter. */
inline look_up() {
	i = 0;
	do
	:: i < NT ->
		atomic {
			!found[M(i)] || nd[i] != found[M(i)] || durts[i];
			if
			:: found[M(i)] && nd[i] != found[M(i)] ->
				gone[M(i)] = true; theirs[M(i)] = last[i]
			:: found[M(i)] && nd[i] == found[M(i)] -> theirs[M(i)] = durts[i]
			:: else
			fi;
			i++
		}
	:: else -> break
	od
}

inline name() {
	d_step {
		i = 0;
		do
		:: i < NT ->
			if
#ifdef POWER
			:: theirs[M(i)] && !gone[M(i)] ->
#else
			:: theirs[M(i)] ->
#endif
				assert(theirs[M(i)] < drew[u]);
				names[u] = names[u] | 1 << (who[theirs[M(i)]] - 1);
				if
				:: theirs[M(i)] >= below && theirs[M(i)] > upto -> upto = theirs[M(i)]
				:: else
				fi
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0;
		medium[u] = true
	}
}

/* nondurable_wait_upto() */
inline wait_upto() {
	i = 0;
	do
	:: upto && i < NT ->
		id = nd[i];
		do
		:: atomic { id && nd[i] == id && durts[i] <= upto && i != me -> skip };
			nd[i] != id || durts[i] > upto
		:: else -> break
		od;
		i++
	:: else -> break
	od
}

inline update(n) {
	u = n; upto = 0;
	/* The last access. */
	d_step {
		i = 0;
		do
		:: i < NU -> if :: visible[i] -> from[u] = from[u] | 1 << i :: else fi; i++
		:: else -> break
		od;
		i = 0
	}
	below = G;
	scan();
#ifdef POWER
	draw();
	atomic { durts[me] = drew[u]; nd[me] = u + 1 };
	visible[u] = true;
	look_up();
#else
	atomic { nd[me] = u + 1; visible[u] = true };
	look_up();
	draw();
	durts[me] = drew[u];
#endif
	name();
#ifndef NOUNSEEN /* INV-D9 */
	wait_upto();
#endif
	i = 0;
	d_step { last[me] = drew[u]; durts[me] = 0; nd[me] = 0 };
	/* nondurable_wait(): who has left does not come back, so one look at all will do. */
	atomic { HAS_LEFT(0) && HAS_LEFT(1) && HAS_LEFT(2); returned[u] = true }
}

proctype thread(byte me) {
	byte i, u, id, below, upto;
	update(me);
}

/* The power fails.  Recovery goes up the ring. */
proctype monitor() {
	byte d, u, kept;
	atomic {
		d = 1;
		do
		:: d < G ->
			u = who[d] - 1;
			if
			:: medium[u] && !(names[u] & ~kept) -> kept = kept | 1 << u
			:: else
			fi;
			d++
		:: else -> break
		od;
		u = 0;
		do
		:: u < NU ->
			assert(!returned[u] || (kept >> u & 1));
			assert(!(kept >> u & 1) || !(from[u] & ~kept));
			u++
		:: else -> break
		od
	}
}

init {
	byte t;
	atomic {
		t = 0;
		do
		:: t < NT -> run thread(t); t++
		:: else -> break
		od;
		run monitor()
	}
}
