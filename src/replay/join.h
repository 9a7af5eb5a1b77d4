/* SPDX-License-Identifier: BSD-3-Clause
 *
 * join.h - recovery of the members of a group together, and of a member alone
 * (docs/decisions/0018-one-update-over-several-heaps.md).
 *
 *   INV-GU5  Recovery keeps all parts of an update over several heaps, or none: a part is kept only
 *            if each that its record names is kept.
 *   INV-GU8  What recovery has kept of a heap is durable before the heap's tail moves past it.  A
 *            part below the tail counts as kept, unless a decision says that it was not.  So a
 *            failure between two heaps, or a heap that comes later, finds the same decision.
 *
 * That each heap's own rules hold as in any recovery is the work of replay.c.
 */
#ifndef FUR_JOIN_H
#define FUR_JOIN_H

#include "replay/replay.h"

/* An open member.  The caller holds the right to replay it, and nothing runs on it. */
struct join_member {
	struct durability *d;
	uint32_t member; /* its index in the group */
	bool recover;    /* it was not closed */
	struct replay_result result;
	/* From here on: of replay_join() */
	struct recovery *recovery;
	struct join_parts *parts;
	int error;
	char *message;
};

/* replay_join - recover those of the members that were not closed, check the others
 * (replay_check_closed), and note that all are open in their group.  A part is kept only if all
 * parts of its update are (INV-GU5), so updates over several members survive in all of them, or in
 * none.
 * `complete`: these are all members of the group.  Else their updates must not need the others.
 * Durable: the members, before return.  After a failure, call it again: each member that was done
 * keeps its decision.
 * Errors:  FUR_EGROUP: a member is older than another one has seen it; or an update needs a member
 *          that is not there; or too many recoveries were made without one.  FUR_ECORRUPT,
 *          FUR_ENOMEM.  No member's file is changed then (INV-R7, INV-F1).  FUR_EIO: some members
 *          may be recovered. */
FUR_MUST_USE int replay_join(struct join_member *members, unsigned n, bool complete);

/* replay_alone - the same for one member by itself: replay_unless_closed() calls it.
 * Errors:  as replay_join().  FUR_EGROUP: an update in its log needs another member. */
FUR_MUST_USE int replay_alone(struct durability *d, struct replay_result *result);

#endif /* FUR_JOIN_H */
