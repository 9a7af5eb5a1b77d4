/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inspect.h - verdicts on the updates in the marker ring and the logs, for recovery and for the
 * tools that only look (fur-info, fur-check).
 *
 * These functions read the file's mapping and nothing else, through media/log_view.h.  They need no
 * open heap, and write nothing (except inspect_find_mend() and inspect_apply_mend()).  They trust
 * only the numbers of a superblock that heap_check_super() has accepted.  Because another process
 * may be writing, they read each marker and each entry once, and check the copy.
 */
#ifndef FUR_INSPECT_H
#define FUR_INSPECT_H

#include "media/log_view.h"
#include <fur.h>

/* Recovery's decision about a slot.  For the updates that name it, a slot with a verdict below
 * INSPECT_ABORTED is lost (INV-R2). */
enum inspect_verdict {
	/* No marker of this durTS: never drawn, or in flight when the process ended */
	INSPECT_HOLE,
	/* A marker of this durTS that is not valid: torn by a power failure, or damaged */
	INSPECT_BROKEN,
	INSPECT_DROPPED, /* a valid marker that names a lost slot */
	INSPECT_ABORTED, /* a valid abort marker: nothing to replay */
	INSPECT_KEPT,    /* a valid marker: the update is replayed */
};

struct inspect_range {
	uint64_t tail; /* the range is [tail, tail + ring_slots) */
	/* After the highest valid marker; `tail` if there is none */
	uint64_t end;
	uint64_t updates, aborts, dropped; /* valid markers, by verdict */
	/* Slots below `end` without a valid marker; slots with a broken marker, anywhere */
	uint64_t holes, broken;
	uint64_t log_bytes; /* in the records of the kept updates */
};

/* The verdict on one slot, without the slots that it names.  inspect_dependencies_kept() may still
 * turn INSPECT_KEPT into INSPECT_DROPPED. */
enum inspect_verdict inspect_look(const struct media_file *f, uint64_t durts);

/* INV-R2: are all slots that the marker of `durts` names kept?  The caller has decided about all
 * slots below `durts`; `whole`: each of them, from `tail` on, is kept, or an abort. */
bool inspect_dependencies_kept(const struct media_file *f, uint64_t tail, uint64_t durts,
        const uint8_t *verdicts, bool whole);

/* Decide about every slot of the range, upwards.  verdicts[k], for tail + k, is an enum
 * inspect_verdict; there are ring_slots of them. */
void inspect_judge(
        const struct media_file *f, uint64_t tail, uint8_t *verdicts, struct inspect_range *range);

/* ------------------------------------------------------------------ damage
 *
 * No failure of power or process can cause any of these (INV-R7); docs/damage.md has the
 * argument. */
enum inspect_proof {
	/* The record head of update `by` of `thread` claims that the marker of `durts` was durable
	 * (INV-M4), and that marker is not valid */
	INSPECT_CLAIMED,
	/* The trailer claims the same: a replay had begun to write the update to the heap */
	INSPECT_REPLAYED,
	/* The slot of `durts` contains `number`, which can never be stored there: it belongs to
	 * another slot, or is junk */
	INSPECT_MISPLACED,
	/* The ring or the trailer contains `number`, which no update draws before the tail has
	 * passed `durts`: the tail is too old */
	INSPECT_OUTRUN,
	/* Between the records of `durts` and `by` of `thread`, the log positions [from, to) held
	 * another record (version 1) */
	INSPECT_GAP,
};
struct inspect_damage {
	enum inspect_proof proof;
	uint64_t durts, by, number, from, to;
	uint32_t thread;
};

/* Call tell() for each proof of damage, but only once for each slot that is proved to be lost.
 * `verdicts` are those of inspect_judge().  Errors: FUR_ENOMEM. */
FUR_MUST_USE int inspect_find_damage(const struct media_file *f, uint64_t tail,
        const uint8_t *verdicts, void (*tell)(void *arg, const struct inspect_damage *damage),
        void *arg);

/* Put the damage into words, as the calling thread's message (fur_errormsg()).  Returns
 * FUR_ECORRUPT. */
int inspect_refuse(const struct inspect_damage *damage);

/* May the slot of `durts` contain this number: its own, one of an earlier lap, or none yet? */
static inline bool inspect_possible(
        const struct media_super *super, uint64_t durts, uint64_t number)
{
	return number == 0 || (number <= durts && (durts - number) % super->ring_slots == 0);
}

/* -------------------------------------------------------------- corrections */

/* A change of one byte, or of a marker's durTS, that makes the marker of a slot valid. */
struct inspect_mend {
	uint64_t durts;
	uint64_t offset; /* in the file */
	unsigned bytes;
	uint8_t was[8], is[8];
};

/* Look for the one change that makes the marker of `durts` valid: of its durTS, of one byte of it,
 * or of one byte (one bit, where the record is long) of its record.  The checksum has 64 bits and
 * about 10^5 changes are tried, so one fits by chance with a probability of 2^-46.
 *
 * The function tries the changes in the mapping, and restores it before it returns; no other thread
 * or process may use the mapping meanwhile.  *budget is the number of bytes that may still be
 * hashed; the function reduces it.  Returns false if there is no such change, or more than one, or
 * the budget is spent. */
bool inspect_find_mend(
        const struct media_file *f, uint64_t durts, uint64_t *budget, struct inspect_mend *mend);

static inline void inspect_apply_mend(
        const struct media_file *f, const struct inspect_mend *m, const uint8_t *bytes)
{
	memcpy(media_at(f, m->offset), bytes, m->bytes);
}

#endif /* FUR_INSPECT_H */
