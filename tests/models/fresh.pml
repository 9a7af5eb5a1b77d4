/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fresh.pml - fresh memory (src/update/fresh.h): a block that an update allocates, and writes to the
 * heap in the file instead of logging it; four updates, a replay, and a power failure at any
 * instant.  In the order of their durTSs:
 *
 *   E   stores 1 in the block, and logs it
 *   F   gives the block back
 *   U   allocates it, stores 2, and does not log that
 *   W   stores 3, and logs it
 *
 * Each begins when the one before is visible, and depends on it.  The block is one word, `mem` in
 * DRAM and `image` in the file.  What is stored to the file, and a marker that is put, may be on
 * the medium before the drain.
 *
 * Checked at every state, by monitor(): if the power failed now, the block would contain what the
 * last update stored that recovery keeps, unless that is F.
 *
 * Mutations.  Each breaks the invariant in parentheses, and must be found:
 *   NOWAIT     U does not wait until F is replayed (INV-FM2)
 *   NOSCAN     U does not find an F that is still in nondurable[] (INV-FM2)
 *   MARKERFIRST  U puts its marker without draining its stores to the image first (INV-FM3)
 *   LATECOPY   U becomes visible, and then copies the block to the image (INV-FM3)
 */
#define E 1
#define F 2
#define U 3
#define W 4

byte mem;
byte image, medium; /* in the file: as stored, and as a power failure leaves it */
bool visible[5], put[5], out[5], left[5];
byte given;         /* above F's durTS, once F has left nondurable[] */
byte tail = E;

inline persist(u)
{
	put[u] = true;
	out[u] = true; /* the drain; write_back() may have come first */
	if
	:: u == F -> given = F + 1
	:: else
	fi;
	left[u] = true
}

active proctype first()
{
	atomic { mem = 1; visible[E] = true };
	persist(E)
}

active proctype second()
{
	visible[E];
	visible[F] = true;
	persist(F)
}

active proctype third()
{
	byte above = 0, copy;
	visible[F];
#ifndef NOSCAN
	if
	:: !left[F] -> above = F + 1
	:: else
	fi;
#endif
	if
	:: given > above -> above = given
	:: else
	fi;
#ifndef NOWAIT
	tail >= above;
#endif
	mem = 2;
#ifndef LATECOPY
	image = mem;
#ifndef MARKERFIRST
	medium = image;
#endif
	visible[U] = true;
#else
	visible[U] = true;
	copy = mem;
	image = copy;
	medium = image;
#endif
	persist(U)
}

active proctype fourth()
{
	atomic { visible[U] -> mem = 3; visible[W] = true };
	persist(W)
}

/* It takes updates that are durable, and moves the tail after a drain (INV-R1). */
active proctype replay()
{
end:	do
	:: tail <= W && left[tail] ->
		if
		:: tail == E -> image = 1
		:: tail == W -> image = 3
		:: else
		fi;
		medium = image;
		tail++
	od
}

/* Lines leave the caches at any time. */
active proctype write_back()
{
end:	do
	:: medium != image -> medium = image
	:: put[E] && !out[E] -> out[E] = true
	:: put[F] && !out[F] -> out[F] = true
	:: put[U] && !out[U] -> out[U] = true
	:: put[W] && !out[W] -> out[W] = true
	od
}

active proctype monitor()
{
	byte u, last, found;
	bool lost;
	d_step {
		u = E;
		last = 0;
		lost = false;
		found = medium;
		do
		:: u <= W ->
			lost = lost || !(u < tail || out[u]);
			if
			:: !lost ->
				last = u;
				if
				:: u >= tail && u == E -> found = 1
				:: u >= tail && u == W -> found = 3
				:: else
				fi
			:: else
			fi;
			u++
		:: else -> break
		od;
		assert(last != 0 || found == 0);
		assert(last != E || found == 1);
		assert(last != U || found == 2);
		assert(last != W || found == 3)
	}
}
