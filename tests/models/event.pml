/* SPDX-License-Identifier: BSD-3-Clause
 *
 * event.pml - how threads sleep until a condition is true (src/base/event.h): two sleepers and two
 * wakers on one event.  Each access to a shared word is one step, as is each call of a futex.  A
 * futex compares and falls asleep in one step.
 *
 * Settings:
 *   (none)         sleeper k waits for a condition of its own, which waker k makes true; every wake
 *                  is of all
 *   -DONE          each waker makes a thing, and wakes one; each sleeper takes a thing
 *   -DSHARED       as between processes: no mark
 *   -DLOOK         a waker looks for the mark, after a full fence, and wakes only if it finds one
 *
 * Checked: no thread sleeps forever (INV-EV1).
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   NORECHECK    the sleeper does not look again after it has drawn its ticket (INV-EV1)
 *   TICKETLATE   the sleeper sets the mark, looks again, and then draws its ticket (INV-EV1)
 *   WAKEFIRST    the waker wakes, and then makes the condition true (INV-EV1)
 *   MARKFIRST    the waker loads the mark before its condition is stored: no fence (INV-EV1)
 *   CALLFIRST    a wake of all takes the mark away after the system call (INV-EV1)
 *   ONECLEARS    a wake of one takes the mark away (INV-EV1)
 *   SAMECOUNT    who takes the mark away does not count, so a new mark makes an old ticket (INV-EV1)
 *   LOOKEARLY    with LOOK, the waker looks before its condition is stored: no fence (INV-EV1)
 */
#ifdef SHARED
#define MARK 0
#else
#define MARK 1
#endif
#define COUNT 2

byte word;
bool condition[2];
byte things;
bool asleep[2];

#ifdef ONE
#define TRUE_FOR(k) (things > 0)
#else
#define TRUE_FOR(k) (condition[k])
#endif

#if defined(SAMECOUNT) || defined(SHARED)
#define MARK_COUNT 0
#else
#define MARK_COUNT COUNT
#endif
#define TAKE_MARK(was)                                                                             \
	atomic {                                                                                   \
		if                                                                                 \
		:: word == was + COUNT -> word = word - MARK + MARK_COUNT                          \
		:: else                                                                            \
		fi                                                                                 \
	}

inline look(result)
{
	atomic {
		result = TRUE_FOR(me);
#ifdef ONE
		things = things - result
#endif
	}
}

proctype sleeper(byte me)
{
	byte ticket;
	bool found;
	do
	:: look(found);
		if
		:: found -> break
		:: else
		fi;
		atomic { word = word | MARK; ticket = word };
#ifndef NORECHECK
		look(found);
		if
		:: found -> break
		:: else
		fi;
#endif
#ifdef TICKETLATE
		ticket = word;
#endif
		atomic { /* futex */
			if
			:: word == ticket -> asleep[me] = true
			:: else
			fi
		}
		!asleep[me];
		ticket = 0
	od
}

proctype waker(byte me)
{
	byte was;
#if defined(MARKFIRST) || defined(LOOKEARLY)
	was = word;
#endif
#ifndef WAKEFIRST
	atomic { condition[me] = true; things++ };
#endif
#ifdef LOOK
#ifndef LOOKEARLY
	was = word;
#endif
	if
	:: (was & MARK) == 0 -> goto over
	:: else
	fi;
#endif
#ifdef MARKFIRST
	word = word + COUNT;
#else
	atomic { was = word; word = word + COUNT };
#endif
	if
	:: (was & MARK) == MARK ->
#ifdef ONE
#ifdef ONECLEARS
		TAKE_MARK(was);
#endif
		if
		:: atomic { asleep[0] -> asleep[0] = false }
		:: atomic { asleep[1] -> asleep[1] = false }
		:: else
		fi
#else
#ifndef CALLFIRST
		TAKE_MARK(was);
#endif
		d_step { asleep[0] = false; asleep[1] = false };
#ifdef CALLFIRST
		TAKE_MARK(was);
#endif
#endif
	:: else
	fi;
#ifdef WAKEFIRST
	atomic { condition[me] = true; things++ };
#endif
over:
	skip
}

init {
	atomic {
		run sleeper(0);
		run sleeper(1);
		run waker(0);
		run waker(1)
	}
}
