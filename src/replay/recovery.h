/* SPDX-License-Identifier: BSD-3-Clause
 *
 * recovery.h - the steps of one heap's recovery, for the two that take them: replay.c, and join.c,
 * which takes them for several heaps at once.
 */
#ifndef FUR_RECOVERY_H
#define FUR_RECOVERY_H

#include "replay/inspect.h"
#include "replay/replay.h"

/* At most this many markers are corrected: if whole regions are gone, changing bytes does not
 * help. */
enum { MENDS_MOST = 64 };

/* The state of one recovery.  Its range is the durTSs [tail, end_of_range); no marker of [end,
 * end_of_range) has been written. */
struct recovery {
	struct durability *d;
	uint64_t tail, end;
	uint64_t end_of_range; /* media_recovery_end(): updates from here on are given up */
	uint64_t log_bytes;    /* of the records in it, at most */
	uint8_t *verdicts;     /* [ring_slots], of tail + k */
	unsigned threads;
	struct {
		uint64_t end, log_bytes;
	} measured[REPLAY_THREADS_MOST]; /* by each thread */
	struct replay_result *result;
	uint64_t began;                        /* in ns */
	struct inspect_mend mends[MENDS_MOST]; /* made in the mapping */
	unsigned mended;
};

/* A verdict that exists only between looking and judging: the marker is valid, but its entries make
 * no sense. */
enum { RECOVERY_FORGED = INSPECT_KEPT + 1 };

/* Begin a recovery; replay_recover_end() or replay_recover_give_up() ends it.  Errors: FUR_ENOMEM;
 * *recovery is NULL then. */
FUR_MUST_USE int recovery_new(
        struct durability *d, struct replay_result *result, struct recovery **recovery);

/* Steps 1 to 3: give each slot a verdict on its own.  Writes nothing but corrections, and those to
 * the mapping. */
void recovery_examine(struct recovery *w);

/* Step 4.  Decide about every slot, upwards: an update that depends on a lost one is lost.  The
 * caller may turn verdicts into INSPECT_DROPPED and judge again.  Errors: FUR_ECORRUPT. */
FUR_MUST_USE int recovery_judge(struct recovery *w);

/* Step 5.  Errors: FUR_ECORRUPT, FUR_ENOMEM. */
FUR_MUST_USE int recovery_refuse_damage(const struct recovery *w);

/* INV-R7: a heap that is refused stays as it was. */
void recovery_take_mends_back(struct recovery *w);

/* Step 6.  Errors: FUR_EIO, FUR_ENOMEM. */
FUR_MUST_USE int recovery_make_durable(struct recovery *w);

#endif /* FUR_RECOVERY_H */
