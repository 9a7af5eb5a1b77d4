/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tide.pml - parts of distributed transactions on one module of PIM-TIDE
 * (lab/tide/kernels/stm.h): three of them, with ranks 0, 1 and 2.  Part 0 stores 1 to x.  Part 1
 * reads x, and stores the next number to y.  Part 2 reads y.  Each may run at any time, and commits
 * at its turn.  Of two that want a lock, the one with the larger rank rolls back, and runs again.  A
 * part that waits for its turn looks whether it holds the lock of what it has read.
 *
 * Settings:
 *   -DRO           part 1 only reads x
 *   -DSAME         part 1 stores the next number to x, and part 2 reads x: part 1 holds the lock of
 *                what it has read
 *
 * Checked: part 1 has read 1, and part 2 what part 1 has stored, as in the order of the ranks; each
 * part commits.
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   NOVALIDATE   a part commits at its turn without a look at what it has read (INV-TD2)
 *   ROSKIP       one that has stored nothing does (INV-TD2)
 *   HOLDSANY     one that waits takes any lock that it holds for that of what it has read (INV-TD2)
 *   TAKESNEW     one keeps a lock that is newer than its begin when it takes it (INV-TD2)
 *   EARLYTURN    a part commits whenever it is ready (INV-TD2)
 *   CLOCKFIRST   it moves the clock, and then looks and publishes (INV-TD3)
 *   FAILMOVES    a look that fails moves the clock, too (INV-TD4)
 *   PRINTED      Algorithm 3 as printed, lines 48 to 59 (INV-TD4)
 *
 * A step that does no harm if it is left out:
 *   -DPUBLISHLATE  a part moves the clock between its look and the publication: it still owns the
 *                locks, so the next one does not take what it has read for current
 */
#define FREE 0

byte clock, value[2], version[2], owner[2]; /* owner: FREE, or 1 + part */
bool aborted[3];
byte result[3], ended;

proctype part(byte me)
{
	byte begin, read_, from, to = me, old, at, who, now;
	bool has_read, has_written, holds_all;
start:
	atomic {
		begin = clock;
		has_read = false;
		has_written = false;
		aborted[me] = false
	};
	if
	:: me == 0 -> goto write
	:: me == 1 -> from = 0
#ifdef SAME
	        ; to = 0
	:: me == 2 -> from = 0
#else
	:: me == 2 -> from = 1
#endif
	fi;
read:
	atomic { at = version[from]; who = owner[from]; read_ = value[from] };
	if
	:: aborted[me] -> goto back
	:: else
	fi;
	if
	:: who == FREE && at <= begin ->
		atomic {
			if
			:: owner[from] == FREE && version[from] == at -> has_read = true
			:: else -> goto read
			fi
		}
	:: who == FREE && at > begin -> goto back
	:: who != FREE ->
		if
		:: me + 1 > who -> goto back
		:: else -> aborted[who - 1] = true; (owner[from] != who); goto read
		fi
	fi;
	if
	:: me == 2 -> goto commit
	:: else
	fi;
#ifdef RO
	goto commit;
#endif
write:
	if
	:: aborted[me] -> goto back
	:: else
	fi;
	atomic {
		who = owner[to];
		if
		:: who == FREE -> owner[to] = me + 1; has_written = true; old = value[to]
		:: else
		fi
	};
	if
	:: who != FREE ->
		if
		:: me + 1 > who -> goto back
		:: else -> aborted[who - 1] = true; goto write
		fi
	:: else
	fi;
	value[to] = (me == 0 -> 1 : read_ + 1);
	if
#ifndef TAKESNEW
	:: version[to] > begin -> goto back
#endif
	:: else
	fi;
commit:
	if
#ifdef HOLDSANY
	:: clock < me -> holds_all = (!has_read || has_written)
#else
	:: clock < me -> holds_all = (!has_read || owner[from] == me + 1)
#endif
	:: else -> holds_all = false
	fi;
#ifndef EARLYTURN
	do
	:: clock >= me -> break
	:: aborted[me] -> goto back
	od;
#endif
#ifdef PRINTED
	atomic { clock++; now = clock };
	if
	:: !has_written -> goto done
	:: else
	fi;
	if
	:: now > begin + 1 && has_read &&
	        (version[from] > begin || (owner[from] != FREE && owner[from] != me + 1)) ->
		goto back
	:: else
	fi;
	version[to] = now;
	owner[to] = FREE;
#else
	now = me + 1;
#ifdef ROSKIP
	if
	:: !has_written -> clock = now; goto done
	:: else
	fi;
#endif
#ifdef CLOCKFIRST
	clock = now;
#endif
#ifndef NOVALIDATE
	if
	:: !holds_all && has_read && owner[from] != me + 1 &&
	        (version[from] > begin || (owner[from] != FREE && owner[from] < me + 1)) ->
#ifdef FAILMOVES
		if
		:: clock < now -> clock = now
		:: else
		fi;
#endif
		goto back
	:: else
	fi;
#endif
#ifdef PUBLISHLATE
	clock = now;
#endif
	if
	:: has_written -> version[to] = now; owner[to] = FREE
	:: else
	fi;
#if !defined(CLOCKFIRST) && !defined(PUBLISHLATE)
#ifdef EARLYTURN
	if
	:: clock < now -> clock = now
	:: else
	fi;
#else
	clock = now;
#endif
#endif
#endif
	goto done;
back:
	if
	:: has_written -> value[to] = old; owner[to] = FREE; has_written = false
	:: else
	fi;
	goto start;
done:
	result[me] = read_;
	ended++
}

init {
	atomic { run part(0); run part(1); run part(2) };
	(ended == 3);
	assert(result[1] == 1);
#ifndef RO
	assert(result[2] == 2);
#endif
}
