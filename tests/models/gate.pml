/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gate.pml - the gate of a planned handover (src/durability/ship.h, INV-SH6): two updates, which
 * return when they are durable here, the shipper, and the node that is to take over.  ship.pml has
 * the log; here a frame is in the stream at once, unless the node has claimed before.
 *
 * The shipper sets the state, and looks at the ring; an update puts its marker, and looks at the
 * state.  As in sweep.pml each thread has a store buffer.  A store waits there until it is
 * performed, and may pass an earlier store to another word.  A light fence keeps the stores before
 * it before those after it; a full fence waits until the buffer is empty.  Each thread performs its
 * loads in order, from its own buffer first.
 *
 * An update draws its durTS, and is visible then, as late as it may be.  A read-only transaction
 * waits until each update that it has read from has left nondurable[].
 *
 * A node that claims after the handover has ended is not here: it is a fail-over like any other.
 *
 * Settings:
 *   -DTSO          stores are performed in order, as on x86
 *   -DLENT         an update has only a light fence between its marker and its look at the state;
 *                  the shipper makes the full one for it, with membarrier(2)
 *   -DREADS        there is a read-only transaction
 *   -DKEEP         the node may not claim in time: updates begin again, and there is a second
 *                  handover
 *
 * Checked: when the node claims in answer to the frame, and ever after, the stream has every update
 * that has returned, and every one that a read-only transaction has returned (INV-SH6).  An update
 * that returns FUR_EFENCED is not in the stream (INV-SH7).  No thread waits forever; an update may
 * wait at the closed gate.
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   LOOKUNFENCED  an update has no fence between its marker and its look at the state (INV-SH6)
 *   STATEFIRST   it looks at the state before it puts its marker (INV-SH6)
 *   CLOSEUNFENCED  the shipper has no fence between the state and its look at the ring (INV-SH6)
 *   OTHERSUNFENCED  with LENT, it has a fence of its own, and makes none for the updates (INV-SH6)
 *   DRAINEDFIRST  it looks at the ring, and then sets the state (INV-SH6)
 *   ASKFIRST     it asks the node without a look at the ring (INV-SH6)
 *   NEXTSLOT     it looks at the ring's next slot alone (INV-SH6)
 *   ASKEDKEPT    of a second handover it takes the first one's look (INV-SH6)
 *   READEROPEN   a read-only transaction does not look at the state (INV-SH6)
 *   FENCEDFIRST  the state tells of the claim before `acked` has its last value (INV-SH7)
 *
 * A step that does no harm if it is left out:
 *   -DBEGINBLIND  an update begins at the closed gate: it waits before it returns.  The look at the
 *                begin makes the ring drain
 */
#define BIT(u)     (1 << (u))
#define IN(set, u) (((set) >> (u)) & 1)
#define UPDATES 2
#define SHIPPER 2
#define READER 3
#ifdef KEEP
#define HANDOVERS 2
#else
#define HANDOVERS 1
#endif

/* States. */
#define SHIPS 1
#define HANDS_OVER 2
#define FENCED 3

/* ------------------------------------------------- words, and the threads' store buffers */
#define STATE 0
#define ACKED 1       /* every update below it */
#define MARKER(k) (2 + (k))
#define LEFT(k) (4 + (k))
#define WORDS 6
byte mem[WORDS];
byte value[24];      /* of the store that waits */
byte epoch[24];      /* 0: none waits; else 1 + the light fences before it since a full one */
#define AT(t, w) ((t) * WORDS + (w))
#define MAY_PASS(t, w, x) (epoch[AT(t, x)] == 0 || epoch[AT(t, x)] >= epoch[AT(t, w)])
#define FIRST(t, w) (MAY_PASS(t, w, 0) && MAY_PASS(t, w, 1) && MAY_PASS(t, w, 2) && \
	MAY_PASS(t, w, 3) && MAY_PASS(t, w, 4) && MAY_PASS(t, w, 5))
#define WAITS(t, w) (epoch[AT(t, w)] != 0)
#define SOME(t) (WAITS(t, 0) || WAITS(t, 1) || WAITS(t, 2) || WAITS(t, 3) || WAITS(t, 4) || \
	WAITS(t, 5))
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
	od
}

/* ------------------------------------------------------------------ what there is */
byte drawn;          /* the next durTS */
byte stream;         /* bits: updates */
bool asked;          /* the frame that names the node is in the stream, and the handover is on */
bool claimed;
byte returned;       /* bits: updates, also those that a read-only transaction has returned */

inline gives_back(set)
{
	atomic {
		returned = returned | (set);
		assert(!claimed || (returned & ~stream) == 0)
	}
}

/* ------------------------------------------------------------------- the threads */

/* Until every update below `durts` is in the stream; or else none of them will be any more. */
inline await_log(durts)
{
	do
	:: SEES(me, STATE) == FENCED ->
		lost = SEES(me, ACKED) < durts;
		break
	:: SEES(me, ACKED) >= durts -> break
	od
}

proctype update(byte me)
{
	byte now = 1, mine, looked;
	bool lost;
#ifndef BEGINBLIND
end:	SEES(me, STATE) == SHIPS;
#endif
	atomic { mine = drawn; drawn++ };
#ifdef STATEFIRST
	looked = SEES(me, STATE);
#endif
	store(MARKER(mine), 1);
#if !defined(LOOKUNFENCED) && !defined(LENT)
	FULL_FENCE;
#endif
	LIGHT_FENCE;
	store(LEFT(mine), 1);
#ifndef STATEFIRST
	looked = SEES(me, STATE);
#endif
	if
	:: looked != SHIPS -> await_log(mine + 1)
	:: else
	fi;
	if
	:: lost -> assert(!IN(stream, mine))
	:: else -> gives_back(BIT(mine))
	fi
}

#define ALL_LEFT(set) ((!IN(set, 0) || mem[LEFT(0)]) && (!IN(set, 1) || mem[LEFT(1)]))
proctype reader()
{
	byte me = READER, has_read, below;
	bool lost;
	atomic { has_read = BIT(drawn) - 1 };
	ALL_LEFT(has_read);
#ifndef READEROPEN
	if
	:: SEES(me, STATE) != SHIPS ->
		below = drawn;
		await_log(below)
	:: else
	fi;
#endif
	if
	:: lost
	:: else -> gives_back(has_read)
	fi
}

/* Sets `drained`: the ring has no marker of an update that is not in the stream. */
inline look_at_ring()
{
	drained = true;
	k = next;
#ifdef NEXTSLOT
	drained = k == UPDATES || SEES(me, MARKER(k)) == 0;
#else
	do
	:: k < UPDATES ->
		drained = drained && SEES(me, MARKER(k)) == 0;
		k++
	:: else -> break
	od;
#endif
	k = 0
}

inline ask()
{
	atomic { asked = !claimed; sent = true };
	drained = false
}

inline close_gate()
{
#ifdef DRAINEDFIRST
	look_at_ring();
#endif
	store(STATE, HANDS_OVER);
#ifndef CLOSEUNFENCED
	FULL_FENCE;
#endif
#if defined(LENT) && !defined(OTHERSUNFENCED)
	EMPTY(0);
	EMPTY(1);
#endif
	closed = true;
	handovers++;
#ifdef ASKEDKEPT
	atomic { asked = sent && !claimed };
#else
	sent = false;
#endif
#ifdef DRAINEDFIRST
	if
	:: drained -> ask()
	:: else
	fi
#endif
}

/* The node has not claimed in time. */
inline keep_heap()
{
	atomic {
		if
		:: !claimed -> asked = false; closed = false
		:: else
		fi
	};
	if
	:: !closed -> store(STATE, SHIPS)
	:: else
	fi
}

#ifdef ASKFIRST
#define look_to_ask() drained = true
#else
#define look_to_ask() look_at_ring()
#endif
proctype shipper()
{
	byte me = SHIPPER, now = 1, next, acked, k, handovers;
	bool closed, drained, sent;
end:	do
	:: !claimed && next < UPDATES && SEES(me, MARKER(next)) == 1 ->
		atomic {
			if
			:: !claimed -> stream = stream | BIT(next); next++
			:: else
			fi
		}
	:: acked < next ->
		acked = next;
		LIGHT_FENCE;
		store(ACKED, acked)
	:: !closed && handovers < HANDOVERS -> close_gate()
#ifdef KEEP
	:: closed && handovers == 1 -> keep_heap()
#endif
	:: closed && !sent ->
		look_to_ask();
		if
		:: drained -> ask()
		:: else
		fi
	:: claimed -> break /* a frame has found its place taken */
	od;
#ifdef FENCEDFIRST
	store(STATE, FENCED);
	LIGHT_FENCE;
	store(ACKED, next)
#else
	store(ACKED, next);
	LIGHT_FENCE;
	store(STATE, FENCED)
#endif
}

proctype node()
{
end:	atomic {
		asked -> claimed = true;
		assert((returned & ~stream) == 0)
	}
}

init {
	atomic {
		mem[STATE] = SHIPS;
		run buffer(0); run buffer(1); run buffer(SHIPPER);
		run update(0); run update(1); run shipper(); run node()
#ifdef READS
		; run reader()
#endif
	}
}
