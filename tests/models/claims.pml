/* SPDX-License-Identifier: BSD-3-Clause
 *
 * claims.pml - one bucket of the table of record locks (lab/claims/claims.c): NP parties take it and
 * release it, NR times each.  Each access to a slot is one step, as is each call of a futex.
 * Memory is sequentially consistent, because each change of a slot is a read-modify-write.
 *
 * A party that waits goes on when the slot is empty, and may go to sleep before.  Where a wake-up
 * can be lost, there is a run that ends with a party asleep, and Spin reports an invalid end state.
 *
 * Settings:
 *   -DNP=n         parties, 3 by default
 *   -DNR=n         claims of each, 1 by default
 *   -DNS=n         slots, 3 by default; with fewer slots than parties the bucket is full at times
 *   -DDEATH        the last party may die before any of its steps; its claims are then cleared
 *
 * Checked: one holder at a time (INV-CL1); an owner that was in the queue before another began to
 * look is served before it (INV-CL2); no party waits forever (INV-CL2, INV-CL3, INV-CL4).
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   SHIFT        the thread that releases shifts the queue, as the paper tells it (INV-CL2)
 *   BOTTOM       a newcomer looks for an empty slot from slot 0 upwards (INV-CL2)
 *   EMPTYFIRST   a waiter empties its own slot, and then takes the one in front (INV-CL2)
 *   STORES       a waiter takes the slot in front by a store, after it has seen it empty (INV-CL1)
 *   UNMARKED     a waiter sleeps without a mark (INV-CL3)
 *   LOOKFIRST    an owner looks for a mark, and then empties its slot by a store (INV-CL3)
 *   EARLYCLEAR   the last party's claims are cleared while it lives (INV-CL1)
 *   CLEARONE     clearing empties one slot of the dead party, and it had two (INV-CL4)
 *   CLEARQUIET   clearing wakes those that sleep on a slot that it has emptied, no others (INV-CL4)
 *   CLEARGAPS    clearing wakes waiters only if the slot in front of theirs is empty (INV-CL4)
 */
#ifndef NP
#define NP 3
#endif
#ifndef NR
#define NR 1
#endif
#ifndef NS
#define NS 3
#endif
#define LAST  (NS - 1)
#define AWAKE 255

/* A word of the bucket is an owner, 1 to NP, or 0, and a mark. */
byte slot[NS];
bool mark[NS];

byte sleeps_on[NP + 1]; /* or AWAKE */
byte holder;
bool killed, gone, finished; /* the last party */

/* For INV-CL2: is the party in the queue; was p in the queue before q began to look, and has not
 * been served since (ahead[q * (NP + 1) + p])? */
bool queued[NP + 1];
bool ahead[(NP + 1) * (NP + 1)];

inline wake(k)
{
	d_step {
		p = 1;
		do
		:: p <= NP ->
			if
			:: sleeps_on[p] == k -> sleeps_on[p] = AWAKE
			:: else
			fi;
			p++
		:: else -> break
		od;
		p = 0
	}
}

inline cas_empty(k)
{
	d_step {
		done = slot[k] == 0;
		if
		:: done -> slot[k] = me
		:: else
		fi
	}
}

/* empty() of claims.c */
inline empty_slot(k)
{
#ifdef LOOKFIRST
	seen_mark = mark[k];
#endif
	d_step {
#ifndef LOOKFIRST
		seen_mark = mark[k];
#endif
		if
		:: holder == me -> holder = 0
		:: else
		fi;
		slot[k] = 0;
		mark[k] = false
	}
	if
	:: seen_mark -> wake(k)
	:: else
	fi;
	seen_mark = false
}

/* sleep_on() of claims.c.  The futex compares half of the word: the owner may be another. */
inline sleep_on(k)
{
	seen = slot[k];
	if
	:: seen == 0 -> skip
	:: else ->
#ifdef UNMARKED
		done = true;
#else
		d_step {
			done = slot[k] == seen;
			if
			:: done -> mark[k] = true
			:: else
			fi
		}
#endif
		if
		:: !done -> skip
		:: else ->
			d_step {
				if
#ifdef UNMARKED
				:: slot[k] != 0 -> sleeps_on[me] = k
#else
				:: slot[k] != 0 && mark[k] -> sleeps_on[me] = k
#endif
				:: else
				fi
			}
			sleeps_on[me] == AWAKE
		fi
	fi;
	seen = 0
}

inline wait_until_empty(k)
{
	do
	:: slot[k] == 0 -> break
	:: slot[k] != 0 -> sleep_on(k)
	od
}

inline find_end()
{
#if defined(SHIFT) || defined(BOTTOM)
	at = 0;
	do
	:: at < NS && slot[at] != 0 -> at++
	:: at == NS || slot[at] == 0 -> break
	od
#else
	at = NS;
	do
	:: at > 0 && slot[at - 1] == 0 -> at--
	:: at == 0 || slot[at - 1] != 0 -> break
	od
#endif
}

inline begin_to_look()
{
	d_step {
		p = 1;
		do
		:: p <= NP -> ahead[me * (NP + 1) + p] = queued[p]; p++
		:: else -> break
		od;
		p = 0
	}
}

inline join()
{
	begin_to_look();
	do
	:: find_end();
		if
		:: at == NS -> wait_until_empty(LAST)
		:: else ->
			atomic { cas_empty(at);
				if
				:: done -> queued[me] = true; break
				:: else
				fi
			}
		fi
	od
}

inline no_longer_queued(who)
{
	queued[who] = false;
	p = 1;
	do
	:: p <= NP -> ahead[p * (NP + 1) + who] = false; p++
	:: else -> break
	od;
	p = 0
}

inline served()
{
	d_step {
		assert(holder == 0); /* INV-CL1 */
		holder = me;
		p = 1;
		do
		:: p <= NP -> assert(!ahead[me * (NP + 1) + p]); p++ /* INV-CL2 */
		:: else -> break
		od;
		no_longer_queued(me)
	}
}

inline move_down()
{
#ifdef EMPTYFIRST
	wait_until_empty(at - 1);
	empty_slot(at);
#endif
	do
	:: wait_until_empty(at - 1);
#ifdef STORES
		slot[at - 1] = me;
		break
#else
		cas_empty(at - 1);
		if
		:: done -> break
		:: else
		fi
#endif
	od;
#ifndef EMPTYFIRST
	empty_slot(at);
#endif
	at--
}

/* The queue of the paper. */
inline shift()
{
	holder = 0;
	at = 0;
	do
	:: at == LAST -> slot[at] = 0; break
	:: at < LAST ->
		seen = slot[at + 1];
		slot[at] = seen;
		if
		:: seen == 0 -> break
		:: else -> at++
		fi
	od;
	at = 0;
	seen = 0
}

proctype party(byte me)
{
	byte at, seen, p, round;
	bool done, seen_mark;
	{
		do
		:: round == NR -> break
		:: round < NR ->
			round++;
			join();
#ifdef SHIFT
			slot[0] == me;
			served();
			shift()
#else
			do
			:: at > 0 -> move_down()
			:: at == 0 -> break
			od;
			served();
			empty_slot(0)
#endif
		od;
		finished = finished || me == NP
	} unless {
		atomic { killed && me == NP -> gone = true; sleeps_on[me] = AWAKE }
	}
}

#ifdef DEATH
/* claims_clear_owner_of(). */
proctype survivor()
{
	byte k, p;
	bool emptied, woke;
	if
#ifdef EARLYCLEAR
	:: !finished -> skip
#else
	:: d_step { !finished -> killed = true; no_longer_queued(NP) }
		gone
#endif
	:: finished -> goto over
	fi;
	do
	:: k == NS -> break
	:: k < NS ->
		d_step {
			emptied = slot[k] == NP;
			woke = emptied && mark[k];
			if
			:: emptied ->
				slot[k] = 0;
				mark[k] = false;
				if
				:: k == 0 && holder == NP -> holder = 0
				:: else
				fi
			:: else
			fi
		}
#ifdef CLEARQUIET
		if
		:: woke -> wake(k)
		:: else
		fi;
#endif
#ifdef CLEARONE
		if
		:: emptied -> break
		:: else
		fi;
#endif
		k++
	od;
#ifndef CLEARQUIET
	k = 1;
	do
	:: k == NS -> break
	:: k < NS ->
		if
#ifdef CLEARGAPS
		:: slot[k] != 0 && slot[k - 1] == 0 -> wake(k - 1)
		:: slot[k] == 0 || slot[k - 1] != 0
#else
		:: slot[k] != 0 -> wake(k - 1)
		:: slot[k] == 0
#endif
		fi;
		k++
	od;
	wake(LAST);
#endif
over:
	skip
}
#endif

init {
	byte i = 1;
	atomic {
		do
		:: i <= NP -> sleeps_on[i] = AWAKE; run party(i); i++
		:: else -> break
		od;
#ifdef DEATH
		run survivor()
#endif
	}
}
