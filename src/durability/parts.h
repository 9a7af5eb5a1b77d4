/* SPDX-License-Identifier: BSD-3-Clause
 *
 * parts.h - how an update over several heaps becomes durable: decision 0018, models
 * groupheaps.pml and groupwaits.pml.
 *
 *   INV-GU6  A group update leaves nondurable[], in all heaps, only when all its parts are durable
 *            and all that it has read from, in any heap, is settled.  Inside one heap an update may
 *            leave before that (INV-D2).  But a transaction of one heap that has read from it does
 *            not look at the others: it would return, and a failure there would take back both.
 *   INV-GU7  What a group update has read from in a heap where it has no part is settled before it
 *            puts a marker: no record of another heap can name it.
 *   INV-GU9  No flush, and no replay, also of another process, passes a part before it is settled.
 */
#ifndef FUR_PARTS_H
#define FUR_PARTS_H

#include "durability/durability.h"

struct commit_part {
	struct durability *d;
	struct commit *c;
	uint32_t member;
	bool writes;         /* false: it has only read from this heap */
	uint64_t late_below; /* if so: as async.newest was before the draw */
};

/* parts_persist - make an update durable whose parts are visible, in all heaps or, after a failure,
 * in none; and wait for all that it has read from.  It has drawn its durTSs.  `id`: of the update,
 * unique in the group.  It leaves nondurable[] of all heaps.
 * Waits for:  lower durTSs of each heap; and what was late there before the draw.
 * Errors:  those for which one of the heaps has failed.  All others that have a part have failed
 *          then: their transactions may have read it (INV-D5). */
FUR_MUST_USE int parts_persist(const struct commit_part *parts, unsigned n, uint64_t id);

#endif /* FUR_PARTS_H */
