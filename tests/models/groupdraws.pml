/* SPDX-License-Identifier: BSD-3-Clause
 *
 * groupdraws.pml - snapshots of two heaps, A and B, beside a group update that draws in one after
 * the other.
 *
 * The group update X stores to x in A and to w in B.  T, an update of B alone, loads w and stores to
 * t.  It looks at w again after its draw only if another durTS of B was drawn since its snapshot.
 * The reader R loads x and t, in any order; a word that is held is waited for, and one that is newer
 * than the snapshot of its heap ends the run.
 *
 * Settings:
 *   -DEXTENDS      R is a body: a word that is newer makes it extend its snapshots.  It also loads y,
 *                  to which an update of A alone stores
 *
 * Checked: one serial order of X, T and R explains what they have loaded (INV-GU2, INV-GU10).
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   BEGINBETWEEN   R does not wait for draws under way after its snapshots (INV-GU11)
 *   EXTENDBETWEEN  its extension does not (INV-GU11)
 *
 * R need not wait if T always looks at w again (LOOKALWAYS, by hand): then each update of one heap
 * would pay for it.
 */
#define A 0
#define B 1
#define HELD 8

#define X 0 /* words */
#define W 1
#define T 2
#define Y 3
#define HEAP_OF(k) ((k) == X || (k) == Y -> A : B)

byte word[4], stamp[4];
byte next[2] = 1;
bool drawing[2];
byte ended;
/* What T has loaded of w, and R of x and t, if that counts. */
bool t_commits, r_counts;
byte t_w, r_x, r_t;

proctype group()
{
	byte a, b;
	stamp[X] = HELD;
	stamp[W] = HELD;
	drawing[A] = true;
	drawing[B] = true;
	atomic { a = next[A]; next[A]++ };
	atomic { b = next[B]; next[B]++ };
	drawing[A] = false;
	drawing[B] = false;
	word[X] = 1;
	word[W] = 1;
	stamp[X] = a;
	stamp[W] = b;
	ended++
}

proctype local_update()
{
	byte snap, mine, d;
	snap = next[B];
	/* A newer one would make it extend: as if it had begun then. */
	atomic { stamp[W] < HELD -> mine = word[W]; if :: stamp[W] >= snap -> goto over :: else fi };
	stamp[T] = HELD;
	atomic { d = next[B]; next[B]++ };
	atomic {
		if
#ifdef LOOKALWAYS
		:: stamp[W] >= snap -> stamp[T] = 0; goto over
#else
		:: d != snap && stamp[W] >= snap -> stamp[T] = 0; goto over
#endif
		:: else -> t_w = mine; t_commits = true
		fi
	};
	word[T] = 1;
	stamp[T] = d;
over:
	ended++
}

#ifdef EXTENDS
proctype update_of_a()
{
	byte d;
	stamp[Y] = HELD;
	atomic { d = next[A]; next[A]++ };
	word[Y] = 1;
	stamp[Y] = d;
	ended++
}
#define PROCESSES 4
#else
#define PROCESSES 3
#endif

inline await_draws() {
	!drawing[A];
	!drawing[B]
}
inline load(k) {
	atomic {
		stamp[k] < HELD;
		newer = stamp[k] >= snap[HEAP_OF(k)];
		if
		:: !newer -> got[k] = word[k]; loaded = loaded | (1 << k)
		:: else
		fi
	}
}
/* Held by another, or another value: the body is defeated. */
inline compare(k) {
	atomic {
		if
		:: (loaded & (1 << k)) && (stamp[k] >= HELD || word[k] != got[k]) -> goto over
		:: else
		fi
	}
}
inline extend() {
	atomic { n[A] = next[A] };
	atomic { n[B] = next[B] };
#ifndef EXTENDBETWEEN
	await_draws();
#endif
	compare(X);
	compare(T);
	compare(Y);
	snap[A] = n[A];
	snap[B] = n[B]
}
inline load_at_last(k) {
	do
	:: load(k);
		if
		:: !newer -> break
#ifdef EXTENDS
		:: newer -> extend()
#else
		:: newer -> goto over
#endif
		fi
	od
}

proctype reader()
{
	byte snap[2], n[2], got[4], loaded;
	bool newer;
	snap[A] = next[A];
	snap[B] = next[B];
#ifndef BEGINBETWEEN
	await_draws();
#endif
	if
	:: load_at_last(X); load_at_last(T)
	:: load_at_last(T); load_at_last(X)
#ifdef EXTENDS
	:: load_at_last(T); load_at_last(Y); load_at_last(X)
#endif
	fi;
	r_x = got[X];
	r_t = got[T];
	r_counts = true;
over:
	ended++
}

init {
	atomic {
		run group();
		run local_update();
#ifdef EXTENDS
		run update_of_a();
#endif
		run reader()
	};
	ended == PROCESSES;
	/* T before X before R before T; or the reverse. */
	assert(!(r_counts && t_commits && t_w == 0 && r_x == 1 && r_t == 0));
	assert(!(r_counts && t_commits && t_w == 1 && r_x == 0 && r_t == 1))
}
