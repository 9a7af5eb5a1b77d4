/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group.pml - group commit (src/pm/group.c): NT threads make NC commits each.  A thread puts its
 * data into its request, joins the open group, and returns when the group's sync has ended.  Each
 * section under the mutex is one step, as is each system call; a file write and a sync take two,
 * with room for other threads in between.
 *
 * Time is a choice: the first member of a group may find at any look that the wait for members is
 * over.  Thread 0 may stay away for good after its first commit.
 *
 * Settings:
 *   -DNT=n         threads, 3 by default
 *   -DNC=n         commits of each, 2 by default
 *   -DFAILS        one sync fails, whichever: the kernel drops the data, and later syncs succeed
 *
 * Checked: the data of a commit that has returned without an error is durable (INV-GC1, INV-GC2); no
 * thread waits forever (INV-GC3).
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found; models.py tells in which
 * settings:
 *   LATECLOSE    the leader closes its group after it has written the members' data (INV-GC1)
 *   SYNCFIRST    the leader syncs, and then writes (INV-GC1)
 *   FORGETS      an error is told to the members of its own group only (INV-GC2)
 *   NOTIMEOUT    the first member sleeps until it is woken (INV-GC3)
 *
 * A step that saves time, and that nothing else needs, because the first member looks by itself:
 *   -DNOHANDOVER   the end of a sync does not wake a group that may go
 */
#ifndef NT
#define NT 3
#endif
#ifndef NC
#define NC 2
#endif

byte data[NT];    /* the number of the commit in the thread's request */
byte written[NT]; /* in the file */
byte durable[NT]; /* on the disk */

/* The group_commit; arrays are indexed by a group's number modulo 2. */
byte open = 1, ended, last_members;
bool syncing, error, failed_once;
byte members[2], back[2], over[2];
bool in_group[2 * NT]; /* whose requests */
byte last_group[NT];

/* Threads that sleep on over[k], an event (event.pml).  A wake changes it, and then calls the system;
 * here it always calls. */
bool asleep[2 * NT];

#define SLOT(g) ((g) % 2)

inline wake_all(slot)
{
	over[slot] = (over[slot] + 1) % 8;
	d_step {
		byte w = 0;
		do
		:: w < NT -> asleep[(slot) * NT + w] = false; w++
		:: else -> break
		od;
		w = 0
	}
}

/* Wake one, any. */
inline wake_one(slot)
{
	over[slot] = (over[slot] + 1) % 8;
	atomic {
		if
		:: asleep[(slot) * NT + 0] -> asleep[(slot) * NT + 0] = false
		:: NT > 1 && asleep[(slot) * NT + 1] -> asleep[(slot) * NT + 1] = false
		:: NT > 2 && asleep[(slot) * NT + (NT > 2 -> 2 : 0)] ->
			asleep[(slot) * NT + (NT > 2 -> 2 : 0)] = false
		:: else -> skip
		fi
	}
}

#define MAY_GO(s) (!syncing && (back[s] >= last_members || late))

inline close_group()
{
	open++;
	members[SLOT(open)] = 0;
	back[SLOT(open)] = 0;
	d_step {
		byte c = 0;
		do
		:: c < NT -> in_group[SLOT(open) * NT + c] = false; c++
		:: else -> break
		od;
		c = 0
	}
}

inline write_members(slot)
{
	d_step {
		byte m = 0;
		do
		:: m < NT ->
			if
			:: in_group[(slot) * NT + m] -> written[m] = data[m]
			:: else
			fi;
			m++
		:: else -> break
		od;
		m = 0
	}
}

/* What the sync covers is decided when it begins. */
inline sync_file()
{
	byte y = 0;
	d_step {
		do
		:: y < NT -> pending[y] = written[y]; y++
		:: else -> break
		od;
		y = 0
	}
	if
	:: atomic {
		d_step {
			do
			:: y < NT ->
				if
				:: pending[y] > durable[y] -> durable[y] = pending[y]
				:: else
				fi;
				y++
			:: else -> break
			od;
			y = 0
		}
		failed = false
	   }
#ifdef FAILS
	:: atomic { !failed_once -> failed_once = true; failed = true;
		/* The pages are clean now: no later sync writes them. */
		d_step {
			do
			:: y < NT ->
				if
				:: written[y] == pending[y] -> written[y] = durable[y]
				:: else
				fi;
				y++
			:: else -> break
			od;
			y = 0
		} }
#endif
	fi
}

inline lead(slot)
{
	if
	:: !failed ->
#ifdef SYNCFIRST
		sync_file();
		write_members(slot)
#else
		write_members(slot);
#ifdef LATECLOSE
		atomic { close_group() };
#endif
		sync_file()
#endif
	:: else ->
#ifdef LATECLOSE
		atomic { close_group() };
#endif
		skip
	fi;
	atomic {
#ifndef FORGETS
		error = error || failed;
#endif
		last_members = members[slot];
		syncing = false;
		late = false;
		hand_over = members[SLOT(open)] > 0 && MAY_GO(SLOT(open));
		ended++
	}
#ifndef NOHANDOVER
	if
	:: hand_over -> wake_one(SLOT(mine + 1))
	:: else
	fi;
#endif
	wake_all(slot)
}

proctype thread(byte me)
{
	byte pending[NT], mine, slot, seen, commit = 0;
	bool failed, hand_over, first, late, result;
	do
	:: commit == NC || (me == 0 && commit == 1) -> break
	:: commit < NC ->
		data[me] = commit + 1;
		atomic { /* join() */
			mine = open;
			slot = SLOT(mine);
			in_group[slot * NT + me] = true;
			back[slot] = back[slot] + (last_group[me] > 0 && last_group[me] == mine - 1);
			members[slot]++;
			last_group[me] = mine;
			first = members[slot] == 1;
			late = false
		}
		do
		:: atomic { ended >= mine -> break }
		:: atomic { ended < mine && open == mine && MAY_GO(slot) ->
				syncing = true;
				failed = error;
#ifndef LATECLOSE
				close_group()
#endif
			}
			lead(slot);
			result = failed || error;
			break
		:: atomic { ended < mine && !(open == mine && MAY_GO(slot)) -> seen = over[slot] };
			atomic { /* futex */
				if
				:: over[slot] == seen -> asleep[slot * NT + me] = true
				:: else
				fi
			}
			if
			:: !asleep[slot * NT + me] -> skip
#if !defined(NOTIMEOUT)
			:: first && open == mine -> atomic { asleep[slot * NT + me] = false;
				late = true
				}
#endif
			fi
		od;
		result = error || (result && failed);
		/* INV-GC1, INV-GC2 */
		assert(result || durable[me] >= commit + 1);
		failed = false;
		result = false;
		commit++
	od
}

init {
	atomic {
		byte t = 0;
		do
		:: t < NT -> run thread(t); t++
		:: else -> break
		od
	}
}
