/* SPDX-License-Identifier: BSD-3-Clause
 *
 * csn.pml - the commit of OLTPim (lab/oltpim): a writer draws a commit number, then tells one
 * module after the other to finalise its versions.  Two writers store to both modules, a third one
 * only draws and settles; a reader reads both modules, and then the first one again.
 *
 * A version of a module is dirty until it is finalised, and then has a commit number.  A module
 * does one request in one step.  Memory is sequentially consistent: numbers change by
 * read-modify-writes.
 *
 * Settings:
 *   -DATOMIC       a number is drawn and all modules are told in one step
 *
 * Checked: a reader sees all of a writer or nothing (INV-CN1); what it has read once it reads
 * again, or else an update by it could overwrite a version that it never read (INV-CN2); a
 * writer's next transaction sees its stores (INV-CN4).
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   PUBLISHED    a reader begins at the next writer's number, and sees that one too (INV-CN2)
 *   STRICT       a reader begins at the next writer's number, and sees those below it (INV-CN1)
 *   UNORDERED    a writer settles its number though lower ones are not finalised (INV-CN3)
 *   OWNUNSEEN    a writer returns before its number is settled (INV-CN4)
 * PUBLISHED is what the paper's code does.  STRICT does no harm with -DATOMIC.
 */
#define WRITERS 3

byte next = 1, settled;
byte csn[4]; /* [2 * module + writer]; 0: dirty, or not there */
bool locked[2];
bool over[WRITERS + 1];
byte finished;

inline settle(c)
{
#ifdef UNORDERED
	atomic {
		if
		:: settled < c -> settled = c
		:: else
		fi
	}
#else
	atomic {
		over[c] = true;
		do
		:: settled < WRITERS && over[settled + 1] -> settled++
		:: else -> break
		od
	}
#endif
}

proctype writer(byte me)
{
	byte c;

	atomic { !locked[0] && !locked[1] -> locked[0] = true; locked[1] = true }
#ifdef ATOMIC
	atomic {
		c = next;
		next++;
		csn[me] = c;
		csn[2 + me] = c;
		locked[0] = false;
		locked[1] = false
	}
#else
	atomic { c = next; next++ }
	atomic { csn[me] = c; locked[0] = false }
	atomic { csn[2 + me] = c; locked[1] = false }
#endif
	settle(c);
#ifndef OWNUNSEEN
	settled >= c;
#endif
	assert(settled >= c);
	finished++
}

/* It has written to other modules. */
proctype other()
{
	byte c;

	atomic { c = next; next++ }
	settle(c);
	finished++
}

#ifdef STRICT
#define SEES(k) (csn[k] != 0 && csn[k] < begin)
#else
#define SEES(k) (csn[k] != 0 && csn[k] <= begin)
#endif
#define SEEN_IN(module) ((SEES(2 * module) -> 1 : 0) + (SEES(2 * module + 1) -> 2 : 0))

proctype reader()
{
	byte begin, first, second, again;

#if defined(PUBLISHED) || defined(STRICT)
	begin = next;
#else
	begin = settled;
#endif
	atomic { first = SEEN_IN(0) }
	atomic { second = SEEN_IN(1) }
	assert(first == second);
	atomic { again = SEEN_IN(0) }
	assert(again == first);
	finished++
}

init
{
	atomic {
		run writer(0);
		run writer(1);
		run other();
		run reader()
	}
	finished == 4
}
