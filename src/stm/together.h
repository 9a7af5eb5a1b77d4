/* SPDX-License-Identifier: BSD-3-Clause
 *
 * together.h - an update over several heaps: its parts, one in each, and how they become visible
 * (together.c).  Decision 0018 has the argument, and the models grouplocks.pml and groupwaits.pml.
 *
 *   INV-GU1  A group update that commits has found, after it held its stamps in all heaps, what it
 *            has loaded in all heaps as it was.  So one serial order explains all updates.
 *   INV-GU2  Each body, also one that is defeated later, has loaded one state of all heaps: it
 *            takes its snapshots of all before its first load, and an extension looks at the
 *            clocks of all, and then compares what was loaded from all.
 *   INV-GU3  No thread waits forever: who waits for the turn of a heap, or for those that publish
 *            there, has entered only heaps before it, and has drawn in none; who is active in a
 *            heap waits for none.
 *   INV-GU4  There is one order of all group updates, and in each heap their durTSs have it: a
 *            group update holds the draw locks of all heaps that it writes, taken in ascending
 *            order, while it announces its parts and draws.  So the waits of group updates for
 *            lower durTSs have no cycle.
 *   INV-GU11  After the snapshots of several heaps, and before the next load or comparison of a
 *            word, each group update that had drawn in one of these heaps has drawn in all.
 *            Otherwise one, X, may be below the snapshot of A and draw later in B.  An update T of
 *            B alone that draws before that comes before X: nothing has drawn in B, so it need not
 *            look again at what X stores there.  Who loads what T replaces before T holds it, and
 *            then what X stores in A, has loaded no state of the two heaps.
 *   INV-GU12  A body over several heaps takes a word of a heap whose updates run in hardware only
 *            if none of its heaps has drawn a durTS since its snapshots; else it extends first.  A
 *            hardware update leaves no version at what it stores: it waits for the bodies that
 *            were active when it had made its stores, and those that begin later find them,
 *            whatever their snapshots are.  One body loads what such an update Y of B replaces,
 *            and Y waits for it; another body begins and loads what X replaces in A; X publishes;
 *            the first loads what X has stored, and ends; Y commits; the second loads what Y has
 *            stored.  One has seen X and not Y, the other Y and not X.
 */
#ifndef FUR_TOGETHER_H
#define FUR_TOGETHER_H

#include "stm/software.h"

enum { TOGETHER_MOST = 16 }; /* parts */

/* One update over several heaps. */
struct together {
	unsigned n;
	bool serial;        /* it holds the turns of all its heaps, from begin to end */
	int error;          /* why it was rolled back */
	bool begins_serial; /* it is serial in its first run */
	/* A callback to a higher layer: with true before its commit draws, with false when it is
	 * settled, or defeated. */
	void (*gate)(struct together *g, bool enters);
	/* The same, or NULL: all that it stores is visible, and it holds no turn; but it is not
	 * durable yet. */
	void (*visible)(struct together *g);
	/* Ascending by member of the group. */
	struct together_part {
		struct fur_thread *thread; /* the registration with the heap */
		uint32_t member;           /* the heap's index in the group */
		bool writes;
		bool turn; /* it holds the turn of a heap that it writes */
		bool met;  /* others, while it shut readers out */
		/* If it only reads: as async.newest was before the draw (INV-GU7) */
		uint64_t late_below;
	} parts[TOGETHER_MOST];
};

#define FOR_EACH_PART(p, g) for (struct together_part *p = (g)->parts; p < (g)->parts + (g)->n; p++)

/* bodies_enter - enter active[] of all heaps as bodies, which have taken their snapshots.  While
 * all are out of one heap, the thread is active in none (INV-GU3). */
void bodies_enter(struct together *g);

/* bodies_begin - begin a body in each heap.  The attempts are prepared; a serial update has taken
 * its turns. */
void bodies_begin(struct together *g);

/* draws_await - wait until each group update that is drawing in one of the heaps has drawn in all
 * (INV-GU11).  The caller has looked at the clocks, with acquire, which orders that before our
 * loads.  It may hold stamps: who draws waits for none.
 * Orders:  the draws before the caller's later loads (acquire; pairs with the release in
 *          draw_all()). */
static inline void draws_await(const struct together *g)
{
	for (unsigned k = 0; k < g->n; k++) {
		const struct fur_thread *t = g->parts[k].thread;
		struct arch_backoff backoff = durability_backoff(t->durability);
		while (arch_load_acquire(&t->engine->drawing))
			arch_backoff(&backoff);
	}
}

/* turns_take - for a serial update: take the turns of all heaps, and close each to updates.  It is
 * active in none (INV-GU3). */
void turns_take(struct together *g);

/* publish_together - make the parts visible: as publish(), in all heaps.  `writes` of each part is
 * set.
 * Returns: 0; UPDATE_DEFEATED: nothing is visible, and all bodies have ended; the errors of
 *          durability_abort(), FUR_EFORK: the same. */
FUR_MUST_USE int publish_together(struct together *g);

#endif /* FUR_TOGETHER_H */
