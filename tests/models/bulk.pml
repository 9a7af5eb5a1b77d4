/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bulk.pml - a bulk update next to short ones (src/tx/marks.h, src/bulk/whole.c): one record of
 * two words, which all updates keep equal.  B doubles them; each short update adds 1.
 *
 *   SW   a software update: it takes the turn, compares what it has loaded, and stores word by word.
 *        One in place does the same, and may store, and then undo that.
 *   HW   a hardware update: its stores are one step, its commit.  Until then a load or store of B,
 *        or of the turn's holder, on one of its lines aborts it.  ROT: its loads are not tracked;
 *        it is in active[] until it has stored.
 *
 * Checked: B maps a record that existed (both words equal); in the end the words are those of some
 * order of the three updates, and of the order of their durTSs.  B ends; no update waits forever.
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found:
 *   SILENT      a publication does not mark the record (INV-BU1)
 *   MARKLATE    it stores, and then marks (INV-BU1)
 *   HARDBLIND   a hardware update does not mark it (INV-BU1)
 *   NOSETTLE    B reads before updates that do not know of it have ended (INV-BU1)
 *   NOSYNC      B takes the mark back, and reads at once (INV-BU2)
 *   MARKFIRST   B looks at the mark, and then reads the record (INV-BU2)
 *   NOREST      B commits although the record is marked (INV-BU3)
 *   RESTFIRST   B maps the rest, and then takes the turn (INV-BU3)
 *   HARDBESIDE  a hardware update that has scanned active[] commits beside B (INV-BU3)
 */
byte x[2] = 1;
bool mark, marks;      /* the record's mark; a bulk update runs */
bool turn, body;       /* a process has the turn; B's software body is in active[] */
bool intx, doomed;     /* HW's transaction, which has stored to the record and its mark */
bool rot;              /* HW is in active[] */
byte order[3], drawn, over; /* durTSs; updates that have ended */

inline draw(who)
{
	order[drawn] = who;
	drawn++
}

/* An access to a line that the hardware update has stored to. */
inline meet()
{
	if
	:: intx -> doomed = true
	:: else
	fi
}

proctype SW(byte who)
{
	byte had;
again:
	atomic { !turn -> turn = true };
	atomic { had = x[0]; meet() };
	/* Hardware updates wait for its body: it is in active[]. */
#ifdef MARKLATE
	skip;
#else
#ifndef SILENT
	atomic {
		if
		:: marks -> mark = true; meet()
		:: else
		fi
	};
#endif
#endif
	atomic { x[0] = had + 1; meet() };
	atomic { x[1] = had + 1; meet() };
#ifdef MARKLATE
	atomic {
		if
		:: marks -> mark = true; meet()
		:: else
		fi
	};
#endif
	if
	:: /* undo */
		atomic { x[0] = had; meet() };
		atomic { x[1] = had; meet() };
		turn = false;
		goto again
	:: skip
	fi;
	atomic { draw(who); turn = false };
	over++
}

proctype HW(byte who)
{
	bool saw, clear;
	byte value;
retry:
	atomic { !turn -> doomed = false; rot = true };
	/* The look at marks: tracked, or in active[] before it. */
#ifdef ROT
	saw = marks;
	atomic { intx = true; doomed = false; value = x[0] + 1 };
	rot = false;
#else
	atomic { intx = true; doomed = false; value = x[0] + 1; saw = marks };
	rot = false;
#endif
#ifdef HARDBLIND
	saw = false;
#endif
	clear = !body && !turn;
	atomic {
		if
		:: !clear || doomed -> intx = false; goto retry
#ifndef HARDBESIDE
		:: else
#else
		:: !doomed
#endif
		->
			x[0] = value;
			x[1] = value;
			if
			:: saw -> mark = true
			:: else
			fi;
			draw(who);
			intx = false
		fi
	};
	over++
}

byte c0, c1, result;
bool have, looked;

inline copy()
{
#ifdef MARKFIRST
	atomic { looked = mark; meet() };
#endif
	atomic { c0 = x[0]; meet() };
	atomic { c1 = x[1]; meet() };
#ifndef MARKFIRST
	atomic { looked = mark; meet() };
#endif
	if
	:: !looked -> assert(c0 == c1); result = 2 * c0; have = true
	:: else -> have = false
	fi
}

inline rest()
{
	atomic { looked = mark; meet() };
	if
#ifndef NOREST
	:: looked || !have ->
		atomic { c0 = x[0]; meet() };
		atomic { c1 = x[1]; meet() };
		assert(c0 == c1);
		result = 2 * c0
#endif
	:: else
	fi
}

proctype B(byte who)
{
	/* Stored to the line of `shut`, which a hardware update with tracked loads has read. */
#ifdef ROT
	marks = true;
#else
	atomic { marks = true; meet() };
#endif
#ifndef NOSETTLE
	!rot;
	!turn; /* an update that did not know of us has ended */
#endif
	copy();
	if
	:: looked ->
		atomic { mark = false; meet() };
#ifndef NOSYNC
		!turn;
#endif
		copy()
	:: skip
	fi;
#ifdef RESTFIRST
	rest();
#endif
	atomic { !turn -> turn = true };
	body = true;
#ifndef RESTFIRST
	rest();
#endif
	if
	:: !have && !looked -> result = 2 * x[0] /* NOREST alone: it has no result at all */
	:: else
	fi;
	draw(who);
	atomic { x[0] = result; meet() };
	atomic { x[1] = result; meet() };
	body = false;
	turn = false;
	marks = false;
	over++
}

init {
	byte k, want = 1;
	atomic {
		run B(0);
		run SW(1);
#ifdef HARD
		run HW(2)
#else
		run SW(2)
#endif
	};
	over == 3;
	assert(drawn == 3);
	d_step {
		for (k : 0 .. 2) {
			if
			:: order[k] == 0 -> want = 2 * want
			:: else -> want = want + 1
			fi
		};
		k = 0;
		assert(x[0] == want && x[1] == want)
	}
}
