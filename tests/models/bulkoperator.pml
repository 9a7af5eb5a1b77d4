/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bulkoperator.pml - a bulk update whose first pass an operator makes in the replayer's process
 * (src/bulk/errand.h): two bulk updates of one record, one after the other, or one of EACH whose
 * second window has the record again (src/bulk/windows.h), next to two short updates.  The record
 * has two words, the block of the results one.
 *
 *   program    lets updates set marks, waits for the replay, asks, waits, or gives up at any time, or
 *              sees that the replayer has died, and maps the record itself; maps it again if it is
 *              marked, and commits; takes the mark back, and asks once more; or frees the block,
 *              whose next owner stores there past the log
 *   operator   copies the record from the file, and stores its result in the block; dies at any time
 *   replay     of either process: short updates to the file, one at a time, and the block's free
 *   short      two updates, each of which stores to both words; each draws its durTS after it is
 *              visible
 *
 * Checked: an operator never maps half of an update, while its request runs; a bulk update commits
 * what it makes of the newest value; no process stores to the block that its next owner has.
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found:
 *   COPYFREE    the operator copies without the right to replay (INV-OP1)
 *   STOREFREE   it stores without the right to replay (INV-OP1)
 *   CHECKFIRST  it looks whether its request runs before it takes the right (INV-OP1)
 *   NOCHECK     it does not look (INV-OP1)
 *   GIVESEARLY  the block's next owner stores before the free is replayed (INV-FM2)
 *   MARKSLATE   the program waits for the replay, then lets updates set marks (INV-OP2)
 *   NOREPLAY    it does not wait for the replay (INV-OP2)
 *   UNDRAWN     it waits for the durTSs that are drawn, not for those about to be (INV-OP2)
 *   WINDOWLATE  it waits for the replay, then takes the next window's mark back (INV-OP2)
 *   WINDOWNOSYNC  it does not wait for an update that had set this mark (INV-OP2)
 *   SKIPSREST   it commits without a look at the mark (INV-BU3)
 */
#define NONE  0
#define ASKED 1
#define RUNS  2
#define DONE  3

byte mem[2], img[2];           /* the record: in the program's memory, in the file */
byte visible, drawn, replayed; /* short updates */
bool right, marks, mark, turn;
byte state, number;            /* of the request */
byte block;
bool freed;                    /* the update that frees the block waits for its replay */
bool dead, over;

proctype short_updates()
{
	byte n;
	do
	:: n < 2 ->
		atomic { !turn -> turn = true };
		if
		:: marks -> mark = true
		:: else
		fi;
		mem[0]++;
		mem[1]++;
		visible++;
		turn = false;
		drawn++;
		n++
	:: else -> break
	od;
	over = true
}

proctype replay()
{
end:	do
	:: atomic { !right && (replayed < drawn || freed) -> right = true };
		if
		:: replayed < drawn ->
			img[0] = replayed + 1;
			img[1] = replayed + 1;
			replayed++
		:: else
		fi;
		freed = false;
		right = false
	od
}

proctype operator()
{
	byte mine, first, second;
	bool ok;
end:	do
	:: atomic { state == ASKED -> state = RUNS; mine = number };
#ifndef COPYFREE
		atomic { !right -> right = true };
#endif
		first = img[0];
		second = img[1];
		assert(first == second || state != RUNS || number != mine);
#ifndef COPYFREE
		right = false;
#endif
#ifdef CHECKFIRST
		ok = state == RUNS && number == mine;
#endif
		if
		:: dead = true; break
		:: skip
		fi;
#ifndef STOREFREE
		atomic { !right -> right = true };
#endif
#ifndef CHECKFIRST
		ok = state == RUNS && number == mine;
#endif
#ifdef NOCHECK
		ok = true;
#endif
		if
		:: ok ->
			block = first + 10;
			atomic {
				if
				:: state == RUNS && number == mine -> state = DONE
				:: else
				fi
			}
		:: else
		fi;
#ifndef STOREFREE
		right = false
#endif
	od
}

proctype program()
{
	byte n, upto, result;
	bool mapped, window; /* the bulk update goes on with another window */
	do
	:: n < 2 ->
		n++;
		if
		:: window ->
#ifndef WINDOWLATE
			mark = false;
#ifndef WINDOWNOSYNC
			!turn
#endif
#endif
		:: else ->
			!freed;
#ifndef MARKSLATE
			marks = true;
			!turn
#endif
		fi;
#ifndef UNDRAWN
		upto = visible;
		drawn >= upto;
#endif
		upto = drawn;
#ifndef NOREPLAY
		replayed >= upto;
#endif
#ifdef MARKSLATE
		marks = true;
		!turn;
#endif
#ifdef WINDOWLATE
		if
		:: window ->
			mark = false;
			!turn
		:: else
		fi;
#endif
		block = 0;
		mapped = false;
		atomic { number = n; state = ASKED };
		do
		:: atomic { state == DONE -> mapped = true }; break
		:: state != DONE -> break /* it gives up */
		:: dead && state != DONE ->
			if
			:: atomic { !mark -> block = mem[0] + 10 }
			:: mark -> skip
			fi;
			mapped = true;
			break
		od;
		state = NONE;
		if
		:: mapped ->
			atomic { !turn -> turn = true };
			result = block;
#ifndef SKIPSREST
			if
			:: mark -> result = mem[0] + 10
			:: else
			fi;
#endif
			assert(result == mem[0] + 10);
			turn = false;
			if
			:: n < 2 -> window = true
			:: window = false
			fi
		:: else -> window = false
		fi;
		if
		:: window -> goto next
		:: else
		fi;
		atomic { marks = false; mark = false };
		!turn;
		freed = true;
#ifndef GIVESEARLY
		!freed;
#endif
		block = 99;
		if
		:: skip
		:: skip
		fi;
		assert(block == 99);
next:		skip
	:: else -> break
	od;
	over;
	assert(block == 99)
}

init
{
	atomic {
		run short_updates();
		run replay();
		run operator();
		run program()
	}
}
