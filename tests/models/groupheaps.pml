/* SPDX-License-Identifier: BSD-3-Clause
 *
 * groupheaps.pml - an update X over heaps A and B: it is durable in both or in neither, without a
 * coordinator.  It has one part in each heap, whose record names the other.  L is an update of A
 * alone that X has read from; T is one of B alone that may have read from X.  Both heaps are
 * replayed while they are in use.  Power fails at any instant, and again in the recovery, after one
 * of the heaps.  groupwaits.pml has the waits of several such updates.
 *
 * Recovery may take the heaps in either order, and A by itself.  What it keeps of a heap is durable
 * before the heap's tail moves: it notes a decision.
 *
 * Settings:
 *   -DNOFAIL       power does not fail, and no thread waits forever
 *   -DLATE         T is late, and waits for its ticket
 *   -DLATEREAD     L is late
 *   -DONLYB        X has read A, and writes to B alone
 *   -DREPLAYER     another process replays, and cannot see nondurable[]
 *
 * Checked: recovery keeps all parts of X or none, also if it fails in between (INV-GU5, INV-GU8); it
 * keeps what a thread was told, and what X has read from (INV-GU6, INV-GU7); no flush and no replay
 * passes a part before it is settled (INV-GU9).
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   NOPEERS      recovery does not look at the other part (INV-GU5)
 *   PARTLEAVES   X leaves nondurable[] before what it has read from in A is durable (INV-GU6)
 *   LEAVEEACH    X leaves nondurable[] of a heap when its part there is durable (INV-GU6)
 *   READONLY     X, with one part, does not wait for A before its marker (INV-GU7)
 *   NODECISION   recovery notes nothing: a part below the tail always counts as kept (INV-GU8)
 *   DECIDELATE   it notes its decision after the tail has moved (INV-GU8)
 *   ALONEFORGETS  a heap that is recovered alone, without a part in its ring, notes none (INV-GU8)
 *   FLUSHPAST    a flush passes a part that is not settled (INV-GU9)
 *   BESIDE       the other process takes each part that is put for settled (INV-GU9)
 *   NONAME       the marker of X's part in A does not name L (INV-D3)
 *   PARTNOTLATE  X does not depend on, and wait for, all below it although L is late (INV-AS3)
 */
/* Durable updates' slots. */
#define L 0   /* in A, at 0 */
#define XA 1  /* in A, at 1 */
#define XB 2  /* in B, at 0 */
#define T 3   /* in B, at 1 */
#define A 0
#define B 1

/* --------------------------------------------------------------- shared words */
bool put[4];         /* markers */
bool announced[4];   /* nondurable[] */
bool visible[4];     /* stored */
bool begun;          /* X has announced all its parts */
byte tail[2];        /* updates replayed */
byte flushed[2];     /* async.durable */
bool noted[2];       /* async.newest: a late update has left nondurable[] */
byte parts_below[2]; /* for the replayer: parts below are settled */
bool failed;

/* ----------------------------------------------- the medium, and ghost variables */
bool durable[4];
bool x_names_l, t_names_x, t_read_x, t_late;
bool l_returned, x_returned, t_returned;

/* Recovery. */
bool kept_x[2];      /* the decisions */
bool decided[2];     /* ghost: what it did */
bool done[2], kept_t;

proctype update_l() provided (!failed)
{
	announced[L] = true;
	visible[L] = true;
	put[L] = true;
#ifdef LATEREAD
	noted[A] = true;
	announced[L] = false;
	flushed[A] >= 1;
#else
	durable[L] = true;
	announced[L] = false;
#endif
	l_returned = true
}

inline leaves() {
	if
	:: announced[XA] = false; announced[XB] = false
	:: announced[XB] = false; announced[XA] = false
	fi
}

proctype update_x() provided (!failed)
{
	bool found_l, late;
	visible[L];
	found_l = announced[L]; /* all of D before the first announcement */
#ifdef ONLYB
	announced[XB] = true;
	begun = true;
	visible[XB] = true;
#ifndef READONLY
	!found_l || !announced[L];
#endif
	put[XB] = true;
	durable[XB] = true;
	announced[XB] = false;
#else
	announced[XA] = true;
	announced[XB] = true;
	begun = true;
	visible[XA] = true;
	visible[XB] = true;
#if defined(LATEREAD) && !defined(PARTNOTLATE)
	late = noted[A] && flushed[A] < 1;
#endif
#ifndef NONAME
	x_names_l = found_l || late;
#endif
	if
	:: put[XA] = true; put[XB] = true
	:: put[XB] = true; put[XA] = true
	fi;
	if
	:: durable[XA] = true; durable[XB] = true
	:: durable[XB] = true;
#ifdef LEAVEEACH
		announced[XB] = false;
#endif
		durable[XA] = true
	fi;
#ifndef PARTLEAVES
	!found_l || !announced[L];
	/* L may have left as a late update; and what it was late for is late for X. */
#if defined(LATEREAD) && !defined(PARTNOTLATE)
	!noted[A] || flushed[A] >= 1;
#endif
#endif
	leaves();
	parts_below[A] = 2;
	parts_below[B] = 1;
#ifdef PARTLEAVES
	!found_l || !announced[L];
#endif
#endif
	x_returned = true
}

proctype update_t() provided (!failed)
{
	bool found_x;
	begun;
	announced[T] = true;
	atomic { t_read_x = visible[XB]; found_x = announced[XB]; t_names_x = found_x };
	put[T] = true;
#ifdef LATE
	t_late = true;
	announced[T] = false;
	flushed[B] >= 2;
#else
	durable[T] = true;
	announced[T] = false;
	!found_x || !announced[XB];
#endif
	t_returned = true
}

/* Flushes: a part is made durable by its own update.  Until it is settled they stop there, as at a
 * marker that is not put. */
#if defined(LATE) || defined(LATEREAD)
proctype flush() provided (!failed)
{
	do
#ifdef LATEREAD
	:: flushed[A] == 0 && put[L] -> durable[L] = true; flushed[A] = 1
#endif
#ifdef LATE
#ifdef FLUSHPAST
	:: flushed[B] == 0 && put[XB] -> durable[XB] = true; flushed[B] = 1
#else
	:: flushed[B] == 0 && put[XB] && !announced[XB] -> flushed[B] = 1
#endif
	:: flushed[B] == 1 && put[T] -> durable[T] = true; flushed[B] = 2
	:: flushed[B] == 2 -> break
#else
	:: flushed[A] == 1 -> break
#endif
	od
}
#endif

#ifdef LATEREAD
#define L_SETTLED (flushed[A] >= 1)
#else
#define L_SETTLED (!announced[L])
#endif
#ifdef LATE
#define T_SETTLED (flushed[B] == 2)
#else
#define T_SETTLED (!announced[T])
#endif
/* What replays and caches have done until power fails: as much as they could, or less.  Nothing
 * that they may do becomes impossible later, and no update looks at it. */
inline replay_and_evict() {
	do
	:: put[L] && !durable[L] -> durable[L] = true
	:: put[XA] && !durable[XA] -> durable[XA] = true
	:: put[XB] && !durable[XB] -> durable[XB] = true
	:: put[T] && !durable[T] -> durable[T] = true
#ifdef REPLAYER
	/* It makes durable what it replays (INV-R6). */
	:: tail[A] == 0 && put[L] -> durable[L] = true; tail[A] = 1
#ifdef BESIDE
	:: tail[A] == 1 && put[XA] -> durable[XA] = true; tail[A] = 2
	:: tail[B] == 0 && put[XB] -> durable[XB] = true; tail[B] = 1
#else
	:: tail[A] == 1 && parts_below[A] == 2 -> durable[XA] = true; tail[A] = 2
	:: tail[B] == 0 && parts_below[B] == 1 -> durable[XB] = true; tail[B] = 1
#endif
	:: tail[B] == 1 && put[T] -> durable[T] = true; tail[B] = 2
#else
	:: tail[A] == 0 && put[L] && L_SETTLED -> tail[A] = 1
	:: tail[A] == 1 && put[XA] && !announced[XA] -> tail[A] = 2
	:: tail[B] == 0 && put[XB] && !announced[XB] -> tail[B] = 1
	:: tail[B] == 1 && put[T] && T_SETTLED -> tail[B] = 2
#endif
	:: break
	od
}

/* What recovery finds. */
#define L_KEPT (tail[A] >= 1 || durable[L])
#define HAS_B (done[B] -> kept_x[B] : (tail[B] >= 1 || durable[XB]))
#ifdef ONLYB
#define HAS_A true
#else
#define HAS_A (done[A] -> kept_x[A] : \
	(tail[A] == 2 || (durable[XA] && (!x_names_l || L_KEPT))))
#endif
#ifdef NOPEERS
#define KEEPS_IN_A (HAS_A)
#define KEEPS_IN_B (HAS_B)
#else
#define KEEPS_IN_A (HAS_A && HAS_B)
#define KEEPS_IN_B (HAS_A && HAS_B)
#endif

proctype power()
{
	failed = true;
	replay_and_evict();
again:
	do
	:: done[A] && done[B] -> break
	:: !done[A] ->
		atomic { decided[A] = KEEPS_IN_A; done[A] = true;
#if defined(NODECISION) || defined(DECIDELATE)
			kept_x[A] = true
#else
			kept_x[A] = decided[A]
#endif
		};
#ifdef DECIDELATE
		if
		:: goto again
		:: kept_x[A] = decided[A]
		fi
#endif
#ifndef ONLYB
	/* A by itself: no part is in its ring, but X's may be a hole. */
	:: !done[A] && tail[A] < 2 && !durable[XA] ->
		atomic { decided[A] = false; done[A] = true;
#ifdef ALONEFORGETS
			kept_x[A] = true
#endif
		}
#endif
	:: !done[B] ->
		atomic { decided[B] = KEEPS_IN_B; done[B] = true;
			kept_t = tail[B] == 2 ||
				(durable[T] && (!(t_names_x || t_late) || decided[B]));
#ifdef NODECISION
			kept_x[B] = true
#else
			kept_x[B] = decided[B]
#endif
		}
	od;
#ifndef ONLYB
	assert(decided[A] == decided[B]);                /* INV-GU5 */
#endif
	assert(!x_returned || decided[B]);
	assert(!decided[B] || L_KEPT);                   /* INV-D3 */
	assert(!(kept_t && t_read_x) || decided[B]);
	assert(!t_returned || (kept_t && (!t_read_x || decided[B]))); /* INV-GU6 */
	assert(!l_returned || L_KEPT)
}

init {
	atomic {
		run update_l(); run update_x(); run update_t();
#if defined(LATE) || defined(LATEREAD)
		run flush();
#endif
#ifndef NOFAIL
		run power()
#endif
	}
}
