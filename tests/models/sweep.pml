/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sweep.pml - the fences of a sweep (src/stm/stamps.h, INV-ST2): a thread sweeps, beside a body and
 * an optimistic reader.  parallel.pml has the order of the steps; here each thread has a store
 * buffer.  A store waits there until it is performed, and may pass an earlier store to another word.
 * A light fence keeps the stores before it before those after it; a full fence waits until the
 * buffer is empty.  Each thread performs its loads in order, from its own buffer first.
 *
 * Nobody is shut out: body and reader begin at any instant.  No word has been published, so they
 * may take what they load as long as no sweep tells otherwise.
 *
 * Settings:
 *   -DTSO          stores are performed in order, as on x86
 *   -DSWEEPS=n     sweeps, 2 by default
 *
 * Checked: the two words that a body or reader takes are of one state, which a sweep that has ended
 * has left; and it has looked at `unstamped` since that sweep (INV-ST2, INV-OR1, INV-OR2).  No
 * thread waits forever.
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   NUMBERUNFENCED  a sweep has no fence between its number and its scan of active[] (INV-ST2)
 *   STORESUNFENCED  a sweep has no fence between the bounds and its stores (INV-ST2)
 *   ENDUNFENCED  the number at a sweep's end may pass its stores (INV-ST2)
 *   ENTRYUNFENCED  a body has no fence between its entry and its look at the number (INV-ST2)
 *   BOUNDUNFENCED  nor between its bound and its look at the number (INV-ST2)
 *   UNSTAMPEDPAST  a sweep leaves its durTS after its end (INV-OR2)
 */
#ifndef SWEEPS
#define SWEEPS 2
#endif
#define BODY 0
#define READER 1
#define SWEEPER 2

/* ------------------------------------------------- words, and the threads' store buffers */
#define NUMBER 0     /* sweeps */
#define UNSTAMPED 1
#define WORD(k) (2 + (k))
#define BOUND(t) (4 + (t))
#define ACTIVE(t) (6 + (t))
#define WORDS 8
byte mem[WORDS];
byte value[24];      /* of the store that waits */
byte epoch[24];      /* 0: none waits; else 1 + the light fences before it since a full one */
#define AT(t, w) ((t) * WORDS + (w))
#define MAY_PASS(t, w, x) (epoch[AT(t, x)] == 0 || epoch[AT(t, x)] >= epoch[AT(t, w)])
#define FIRST(t, w) (MAY_PASS(t, w, 0) && MAY_PASS(t, w, 1) && MAY_PASS(t, w, 2) && \
	MAY_PASS(t, w, 3) && MAY_PASS(t, w, 4) && MAY_PASS(t, w, 5) && MAY_PASS(t, w, 6) && \
	MAY_PASS(t, w, 7))
#define WAITS(t, w) (epoch[AT(t, w)] != 0)
#define SOME(t) (WAITS(t, 0) || WAITS(t, 1) || WAITS(t, 2) || WAITS(t, 3) || WAITS(t, 4) || \
	WAITS(t, 5) || WAITS(t, 6) || WAITS(t, 7))
#define EMPTY(t) (SOME(t) == false)
#define SEES(t, w) (WAITS(t, w) -> value[AT(t, w)] : mem[w])

#ifdef TSO
#define AFTER_STORE now++
#else
#define AFTER_STORE skip
#endif
/* Stores to one word stay in order: the second waits until the first is performed. */
inline store(w, v) {
	atomic {
		!WAITS(me, w) ->
		if :: EMPTY(me) -> now = 1 :: else fi;
		value[AT(me, w)] = v; epoch[AT(me, w)] = now; AFTER_STORE
	}
}
#define LIGHT_FENCE now++
#define FULL_FENCE EMPTY(me)

#define NEXT(w) WAITS(t, w) && FIRST(t, w) -> mem[w] = value[AT(t, w)]; \
	value[AT(t, w)] = 0; epoch[AT(t, w)] = 0
proctype buffer(byte t)
{
end:	do
	:: atomic { NEXT(0) }
	:: atomic { NEXT(1) }
	:: atomic { NEXT(2) }
	:: atomic { NEXT(3) }
	:: atomic { NEXT(4) }
	:: atomic { NEXT(5) }
	:: atomic { NEXT(6) }
	:: atomic { NEXT(7) }
	od
}

/* ------------------------------------------------------------------- the threads */
proctype sweeper()
{
	byte me = SWEEPER, now = 1, n, t;
	do
	:: n < SWEEPS ->
		n++;
		store(NUMBER, 2 * n - 1);
#ifndef NUMBERUNFENCED
		FULL_FENCE;
#endif
		do
		:: t < SWEEPER ->
			if
			:: SEES(me, ACTIVE(t)) -> store(BOUND(t), 0)
			:: else
			fi;
			t++
		:: else -> t = 0; break
		od;
#ifndef STORESUNFENCED
		LIGHT_FENCE;
#endif
		store(WORD(0), n);
		store(WORD(1), n);
#ifndef UNSTAMPEDPAST
		store(UNSTAMPED, n);
#endif
#ifndef ENDUNFENCED
		LIGHT_FENCE;
#endif
		store(NUMBER, 2 * n);
#ifdef UNSTAMPEDPAST
		LIGHT_FENCE;
		store(UNSTAMPED, n);
#endif
	:: else -> break
	od
}

/* `sweep`: the number of the last sweep that it knows to have ended. */
inline await(number) {
	atomic { SEES(me, NUMBER) % 2 == 0 -> number = SEES(me, NUMBER) }
}
inline enter() {
	store(ACTIVE(me), 1);
#ifndef ENTRYUNFENCED
	FULL_FENCE;
#endif
	await(sweep);
	noted = SEES(me, UNSTAMPED)
}
inline set_bound() {
	store(BOUND(me), 1);
#ifndef BOUNDUNFENCED
	FULL_FENCE
#else
	skip
#endif
}
inline take() {
	assert(2 * v <= sweep && v <= noted);
	assert(k == 0 || v == got);
	got = v; k++; v = 0
}

proctype body()
{
	byte me = BODY, now = 1, sweep, noted, k, v, got, number;
	store(BOUND(me), 1);
	enter();
	do
	:: k < 2 ->
		v = SEES(me, WORD(k));
		if
		:: atomic { SEES(me, BOUND(me)) -> take() }
		:: else ->
			if
			:: atomic { SEES(me, NUMBER) == sweep -> take() }
			:: else ->
				do
				:: await(number);
					if
					:: k == 1 ->
						v = SEES(me, WORD(0));
						if :: v != got -> goto defeated :: else fi
					:: else
					fi;
					if
					:: SEES(me, NUMBER) == number ->
						noted = SEES(me, UNSTAMPED);
						sweep = number;
						set_bound();
						if
						:: SEES(me, NUMBER) == number -> break
						:: else
						fi
					:: else
					fi
				od;
				atomic { v = 0; number = 0 }
			fi
		fi
	:: else -> break
	od;
defeated:
	store(ACTIVE(me), 0)
}

proctype reader()
{
	byte me = READER, now = 1, sweep, noted, k, v, got;
	enter();
	do
	:: k < 2 ->
		v = SEES(me, WORD(k));
		if
		:: atomic { SEES(me, BOUND(me)) -> take() }
		:: else ->
			if
			:: atomic { SEES(me, NUMBER) == sweep -> take() }
			:: else -> break
			fi;
			if
			:: k == 1 ->
				set_bound();
				if
				:: SEES(me, NUMBER) != sweep -> break
				:: else
				fi
			:: else
			fi
		fi
	:: else -> break
	od;
	store(ACTIVE(me), 0)
}

init {
	atomic {
		run buffer(BODY); run buffer(READER); run buffer(SWEEPER);
		run sweeper(); run body(); run reader()
	}
}
