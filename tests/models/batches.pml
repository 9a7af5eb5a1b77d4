/* SPDX-License-Identifier: BSD-3-Clause
 *
 * batches.pml - transactions that were submitted to a group, and the workers that run them in
 * batches (src/group/batch.c).  A batch is one update: all of it becomes visible, or nothing.
 *
 * Three transactions are submitted one after the other.  Each is sound; or its first part refuses,
 * before it has stored anything or after that; or the update fails because of it, and its worker
 * does not learn which one it was.  A worker takes some off the list, runs as many of them as there
 * is room for in the logs, and puts the others back.
 *
 * Settings:
 *   -DNW=n         workers, 2 by default
 *
 * Checked: the transactions end in the order of the list (INV-GB1); each ends, with success if it is
 * sound, and no batch runs for ever (INV-GB2); nothing else is visible (INV-GB3).
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   CUTEARLY     a worker gives `cutting` before its transactions are visible (INV-GB1)
 *   RESTBEHIND   it puts the others back at the end of the list (INV-GB1)
 *   RESTLOST     it does not put them back (INV-GB2)
 *   BLAMEFIRST   a batch that fails ends its first transaction, whichever has failed (INV-GB2)
 *   NOSHRINK     the batch after one that has failed is no smaller (INV-GB2)
 *   REFUSEDKEPT  a refusal does not undo what the part has stored (INV-GB3)
 */
#ifndef NW
#define NW 2
#endif
#define N 3
#define MOST_BATCHES (4 * N)

#define SOUND 0
#define REFUSES 1 /* nothing is stored */
#define STORES 2  /* it has stored, and refuses then */
#define FAILS 3   /* at the end of the update */

byte kind[N];
byte list[N], listed; /* group_batches.first */
bool cutting;
byte most_taken = N;
byte next;            /* the transaction that ends next */
byte batches;         /* that have run */
bool visible[N], told[N];

inline put_back() {
	skip;
#ifndef RESTLOST
#ifdef RESTBEHIND
	for (k : done .. taken - 1) {
		list[listed] = taken_[k];
		listed++
	};
#else
	k = listed;
	do
	:: k > 0 -> k--; list[k + taken - done] = list[k]
	:: else -> break
	od;
	for (k : done .. taken - 1) {
		list[k - done] = taken_[k]
	}
	listed = listed + taken - done;
#endif
#endif
}

proctype submitter()
{
	byte n;
	for (n : 0 .. N - 1) {
		atomic { list[listed] = n; listed++ }
	}
}

proctype worker()
{
	byte taken_[N], taken, ran, done, k;
	bool failed, error;
await:
	if
	:: listed > 0
	:: next == N -> goto over
	fi;
	atomic { !cutting -> cutting = true };
	/* cut() */
	atomic {
		taken = 0;
		do
		:: taken < listed && taken < most_taken -> taken_[taken] = list[taken]; taken++
		:: taken > 0 || listed == 0 -> break
		od;
		for (k : taken .. N - 1) {
			if
			:: k < listed -> list[k - taken] = list[k]
			:: else
			fi
		}
		listed = listed - taken;
		most_taken = N
	};
	if
	:: taken == 0 -> cutting = false; goto await
	:: else
	fi;
#ifdef CUTEARLY
	cutting = false;
#endif
	/* run_transactions() */
	atomic {
		batches++;
		assert(batches <= MOST_BATCHES); /* INV-GB2 */
		ran = 0;
		failed = false;
		error = false;
		do
#ifndef REFUSEDKEPT
		:: ran < taken && kind[taken_[ran]] == STORES -> failed = true; error = true; break
		:: ran < taken && kind[taken_[ran]] != STORES ->
#else
		:: ran < taken ->
#endif
			error = error || kind[taken_[ran]] == FAILS;
			ran++
		:: ran > 0 -> break /* there is no room for the next one, or there is none */
		od
	};
	/* The others wait for the turns that the update holds, and then for `cutting`. */
	if
	:: !error ->
		atomic {
			done = ran;
			for (k : 0 .. done - 1) {
				assert(taken_[k] == next); /* INV-GB1 */
				next++;
				if
				:: kind[taken_[k]] != REFUSES -> visible[taken_[k]] = true
				:: else
				fi
			}
		}
	:: else -> /* blame() */
		atomic {
			done = (failed -> ran : taken / 2);
#ifdef BLAMEFIRST
			done = 0;
#endif
			if
			:: done == 0 -> done = 1; assert(taken_[0] == next); next++
			:: else ->
#ifndef NOSHRINK
				most_taken = done;
#endif
				done = 0
			fi
		}
	fi;
	atomic {
		put_back();
#ifndef CUTEARLY
		cutting = false
#endif
	};
	/* tell() */
	atomic {
		for (k : 0 .. done - 1) {
			assert(!told[taken_[k]]);
			assert(!error || kind[taken_[k]] >= STORES); /* INV-GB2 */
			told[taken_[k]] = true
		}
	};
	goto await;
over:
	skip
}

init {
	byte n, k_;
	atomic {
		for (n : 0 .. N - 1) {
			select(k_ : SOUND .. FAILS);
			kind[n] = k_
		}
		run submitter();
		for (n : 1 .. NW) {
			run worker()
		}
	};
	_nr_pr == 1;
	for (n : 0 .. N - 1) {
		assert(told[n] && visible[n] == (kind[n] == SOUND)) /* INV-GB2, INV-GB3 */
	}
}
