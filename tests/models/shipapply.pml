/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shipapply.pml - how a standby applies the stream (ship.pml has the rest): it is the worker of its
 * own file, with a log of its own, and its power may fail at any instant.  The stream, with the
 * offset of each frame:
 *
 *   0   E    an owner of a block stores 1 there, and links it
 *   1   D    unlinks and frees it
 *   2   the content of a fresh block, which is the same memory: 2
 *   3   F    links the fresh block; its record does not have the content
 *   4   L    the first part of an update of two: it stores to x
 *   5   L    the second part: it stores to y
 *    or 5    a CLAIM: the writer of L is gone
 *   6   M    a whole update, which stores to z
 *
 * An update of the stream is one of the standby's own: it puts a record, which is durable later, in
 * the order of the records; the replay writes it to the image when it is.  The content of a fresh
 * block goes to the image past the log.  A record that is put may survive a power failure.  The
 * standby begins again behind the position that its image then has.
 *
 * Settings:
 *   -DNF=n         power failures, 2 by default
 *   -DFIRSTDROPS   the first frame of an update also drops the parts of another
 *
 * Checked whenever the power has failed, and recovery has replayed the records that were on the
 * medium, and at the end:
 *   INV-SH48  A standby's file has the effect of the stream's whole updates up to the position that
 *            is in the file, and of no others: the position is in the record of the updates that it
 *            counts.
 *   INV-SH49  A fresh block has its content when it is linked, and the memory keeps that of its
 *            older owner until that one is freed: a standby replays all of its own log before it
 *            writes the content.
 *   INV-SH50  An update of several parts takes effect with all of them or not at all: a CLAIM drops
 *             parts that lack the last, and a position counts whole updates.
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found:
 *   POSAPART     the position follows in an update of its own (INV-SH48)
 *   POSFIRST     the position precedes in an update of its own (INV-SH48)
 *   SIDEUNREPLAYED  the content is written before the own log is replayed (INV-SH49)
 *   PARTKEPT     parts stay when a CLAIM has voided the rest (INV-SH14)
 *   PARTCOUNTED  the position counts a part as soon as it is read (INV-SH50)
 *
 * A step whose place is free.  With it everything still holds:
 *   -DPARTKEPT   with FIRSTDROPS
 */
#ifndef NF
#define NF 2
#endif
#define NR 10 /* records of the own log */
/* Bits: what a record does. */
#define E  1
#define D  2
#define F  4
#define LX 8
#define LY 16
#define M  32
#define LAST 6 /* frame */

/* ----------------------------------------------------------------- on the medium */
byte link, block, position; /* the image; the link is to the block of E (1) or of F (2) */
bool x, y, z;
byte does[NR];
byte counts[NR];  /* 1 + the position in the record, or 0 */
byte put, out;    /* records put, and durable */
byte tail;

byte at;          /* the next frame */
byte parts;       /* of an update that is not whole */
bool claimed;     /* frame 5 is a CLAIM */
byte failures = NF;

inline apply(k)
{
	if
	:: does[k] & E -> link = 1; block = 1
	:: does[k] & D -> link = 0
	:: does[k] & F -> link = 2
	:: else
	fi;
	x = x || (does[k] & LX);
	y = y || (does[k] & LY);
	z = z || (does[k] & M);
	position = (counts[k] -> counts[k] - 1 : position)
}

inline log(effect, its_position)
{
	assert(put < NR);
	does[put] = effect;
	counts[put] = its_position;
	put++
}

inline commit()
{
#ifdef POSAPART
	log(parts, 0);
	log(0, at + 2);
#else
#ifdef POSFIRST
	log(0, at + 2);
	log(parts, 0);
#else
	log(parts, at + 2);
#endif
#endif
	parts = 0;
	at++
}

#ifdef FIRSTDROPS
#define BEGIN(effect) parts = (effect)
#else
#define BEGIN(effect) parts = parts | (effect)
#endif

active proctype standby()
{
	if
	:: claimed = true
	:: true
	fi;
end:	do
	:: d_step { at == 0 -> BEGIN(E); commit() }
	:: d_step { at == 1 -> BEGIN(D); commit() }
#ifdef SIDEUNREPLAYED
	:: d_step { at == 2 -> block = 2; at++ }
#else
	:: d_step { at == 2 && tail == put -> block = 2; at++ }
#endif
	:: d_step { at == 3 -> BEGIN(F); commit() }
	:: d_step { at == 4 ->
		BEGIN(LX);
#ifdef PARTCOUNTED
		log(0, at + 2);
#endif
		at++
	   }
	:: d_step { at == 5 && !claimed -> parts = parts | LY; commit() }
	:: d_step { at == 5 && claimed ->
#ifndef PARTKEPT
		parts = 0;
#endif
		at++
	   }
	:: d_step { at == 6 -> BEGIN(M); commit() }
	od
}

active proctype drain()
{
end:	do
	:: d_step { out < put -> out++ }
	od
}

active proctype replay()
{
end:	do
	:: d_step { tail < out -> apply(tail); tail++ }
	od
}

#define LINKED (position == 0 -> 0 : (position == 1 -> 1 : (position <= 3 -> 0 : 2)))

inline check()
{
	assert(x == y);                 /* INV-SH50 */
	assert(!link || block == link); /* INV-SH49 */
	/* INV-SH48 */
	assert(link == LINKED && x == (position > 5 && !claimed) && z == (position > 6))
}

/* Power fails, and the standby recovers. */
active proctype power()
{
end:	do
	:: atomic { failures > 0 ->
		failures--;
		do
		:: d_step { out < put -> out++ }
		:: true -> break
		od;
		d_step {
			do
			:: tail < out -> apply(tail); tail++
			:: else -> break
			od;
			do
			:: put > 0 -> put--; does[put] = 0; counts[put] = 0
			:: else -> break
			od;
			out = 0;
			tail = 0;
			parts = 0;
			at = position;
			check()
		}
	   }
	od
}

/* The standby has the whole stream in the end (INV-SH47). */
active proctype quiet()
{
	timeout;
	check();
	assert(position == LAST + 1)
}
