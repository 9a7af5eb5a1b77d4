/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group_notes.h - what a replay or a recovery writes to the group page of a member
 * (media/group_page.h).  The caller holds the right to replay.
 */
#ifndef FUR_GROUP_NOTES_H
#define FUR_GROUP_NOTES_H

#include "durability/durability.h"
#include "media/group_page.h"

/* The parts of the updates [from, to) are settled: note what they name in `seen`.  Durable with the
 * calling thread's next drain, which comes before the heap's tail moves.   Errors: FUR_ECORRUPT. */
FUR_MUST_USE int group_note_seen(struct durability *d, uint64_t from, uint64_t to);
/* The same for one part of another member. */
void group_note_seen_part(struct durability *d, const struct media_part *part);

/* Note how the heap is opened; durable before return.   Errors: FUR_EIO. */
FUR_MUST_USE int group_note_opened(struct durability *d, enum media_opened opened);
/* May parts have been drawn since the newest decision? */
bool group_opened_in_group(const struct durability *d);

/* A recovery's decision: it keeps those parts of [tail, tail + ring_slots) whose bits are set, and
 * the tail will move to `to`. */
struct group_decision {
	uint64_t tail, to;
	const uint64_t *kept; /* [ring_slots / 64] */
	bool any;             /* a bit is set */
};

/* Is there room to note the decision (NULL: none), and with `another` for one more? */
bool group_decision_fits(
        const struct durability *d, const struct group_decision *decision, bool another);
/* INV-GU8.  Note the decision, for which there is room.  Durable with the calling thread's next
 * drain, which comes before the heap's tail moves.   Errors: FUR_EIO. */
FUR_MUST_USE int group_note_decision(struct durability *d, const struct group_decision *decision);

/* All members are recovered: no decision of this one is of use any more.  Durable with the caller's
 * next drain. */
void group_free_decisions(struct durability *d);

#endif /* FUR_GROUP_NOTES_H */
