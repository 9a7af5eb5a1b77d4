/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bulkblock.pml - the block that has a bulk update's results (src/bulk/block.c): three updates, a
 * replay, and a power failure at any instant.  In the order of their durTSs:
 *
 *   E   an earlier owner of the block stores 1 there, and logs it
 *   B   the bulk update writes its result, 2, to the block in the file, past the log; its marker
 *       says that a replay copies the record from the block
 *   W   the block's next owner stores 3 there, and logs it
 *
 * The block is a word, and so is the record.  What is stored to the file, and a marker that is put,
 * may be on the medium before the drain.
 *
 * Checked at every state, by monitor(): if the power failed now, and recovery replayed the markers
 * that are on the medium, from the tail on, then the record would have B's result if B is kept, and
 * its old value if not; and the block would have the value of its last owner that is kept.
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found:
 *   EARLYTAKE  B writes its results before what is older is replayed (INV-BU4)
 *   EARLYMARK  it puts its marker before its results are durable (INV-BU4)
 *   EARLYGIVE  it gives the block back before B is replayed (INV-BU4)
 */
#define E 1
#define B 2
#define W 3

byte block, record;          /* in the file, as stored */
byte mediumblock, mediumrecord; /* as a power failure leaves it */
bool put[4], out[4];
bool left[4]; /* durable, so that a replay takes it */
byte tail = E;

inline persist(u)
{
	put[u] = true;
	out[u] = true; /* the drain; write_back() may have come first */
	left[u] = true
}

active proctype program()
{
	persist(E);
#ifndef EARLYTAKE
	tail > E;
#endif
	block = 2;
#ifdef EARLYMARK
	put[B] = true;
#endif
	mediumblock = block;
	persist(B);
#ifndef EARLYGIVE
	tail > B;
#endif
	persist(W)
}

/* It takes updates that are durable, some together, and moves the tail after a drain (INV-R1). */
active proctype replay()
{
	byte next = E;
end:	do
	:: next <= W && left[next] ->
		if
		:: next == E -> block = 1
		:: next == B -> record = block
		:: next == W -> block = 3
		fi;
		next++
	:: tail < next ->
		mediumblock = block;
		mediumrecord = record;
		tail = next
	od
}

/* Lines leave the caches at any time. */
active proctype write_back()
{
end:	do
	:: mediumblock != block -> mediumblock = block
	:: mediumrecord != record -> mediumrecord = record
	:: put[E] && !out[E] -> out[E] = true
	:: put[B] && !out[B] -> out[B] = true
	:: put[W] && !out[W] -> out[W] = true
	od
}

active proctype monitor()
{
	byte u, foundblock, foundrecord;
	bool lost, kept[4];
	d_step {
		foundblock = mediumblock;
		foundrecord = mediumrecord;
		u = E;
		do
		:: u <= W ->
			lost = lost || !(u < tail || out[u]);
			kept[u] = !lost;
			if
			:: lost || u < tail -> skip
			:: else ->
				if
				:: u == E -> foundblock = 1
				:: u == B -> foundrecord = foundblock
				:: u == W -> foundblock = 3
				fi
			fi;
			u++
		:: else -> break
		od;
		assert(foundrecord == (kept[B] -> 2 : 0));
		assert(!kept[W] || foundblock == 3)
	}
}
