/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inspect.h - what the marker ring and the logs say, for recovery and for those who only look
 * (fur-info, fur-check).
 *
 * Reads the file's mapping and nothing else: it needs no open heap, writes nothing, and trusts
 * nothing but the numbers of a superblock that heap_check_super() has let pass.  Another process
 * may be writing: each marker and each entry is read once, and checked as read.
 */
#ifndef FUR_INSPECT_H
#define FUR_INSPECT_H

#include "media/media.h"
#include <fur.h>

/* What recovery makes of a slot.  All below INSPECT_ABORTED count as lost for those that name them
 * (INV-R2). */
enum inspect_verdict {
	/* No marker of this durTS: never drawn, or in flight when the process ended */
	INSPECT_HOLE,
	/* A marker of this durTS that does not check: torn by a power failure, or damaged */
	INSPECT_BROKEN,
	INSPECT_DROPPED, /* it checks, and names a slot that is lost */
	INSPECT_ABORTED, /* an abort marker: nothing to replay */
	INSPECT_KEPT,    /* replayed */
};

struct inspect_window {
	uint64_t tail; /* the window is [tail, tail + ring_slots) */
	/* After the highest marker that checks; `tail` if none does */
	uint64_t end;
	uint64_t updates, aborts, dropped; /* markers that check */
	/* Slots below `end` that hold none, those broken included; broken ones, anywhere */
	uint64_t holes, broken;
	uint64_t log_bytes; /* that the kept ones name */
};

/* One entry of a redo log. */
struct inspect_entry {
	uint64_t offset, bytes; /* of the heap */
	uint64_t next;          /* position of the next one */
	const uint8_t *payload;
};

static inline const struct media_marker *inspect_marker(const struct media_file *f, uint64_t durts)
{
	uint64_t slot = durts & (f->super->ring_slots - 1);
	return (const struct media_marker *)(const void *)media_at(
	        f, f->super->ring_offset + slot * MEDIA_SLOT_BYTES);
}

static inline const uint8_t *inspect_log(const struct media_file *f, uint32_t thread)
{
	return media_at(f, f->super->logs_offset + thread * f->super->log_bytes);
}

/* Do the marker's fields make sense?  Asked before the checksum, which reads where they point. */
bool inspect_plausible(const struct media_super *super, const struct media_marker *marker);

/* INV-M1: does this marker, a copy, belong to `durts`? */
bool inspect_valid(const struct media_file *f, const struct media_marker *marker, uint64_t durts);

/* Where the entries of a plausible marker's record begin, and end. */
static inline uint64_t inspect_first_entry(
        const struct media_super *super, const struct media_marker *m)
{
	return m->log_start + (m->log_bytes ? media_head_bytes(super) : 0);
}
static inline uint64_t inspect_end(const struct media_marker *m)
{
	return m->log_start + m->log_bytes;
}

/* The entry of a plausible marker's thread at `position`, which lies below `end`.  False: nothing
 * that could be replayed. */
bool inspect_entry_at(const struct media_file *f, uint32_t thread, uint64_t position, uint64_t end,
        struct inspect_entry *entry);

/* Look at one slot by itself: what it names may still turn INSPECT_KEPT into INSPECT_DROPPED. */
enum inspect_verdict inspect_look(const struct media_file *f, uint64_t durts);

/* INV-R2: is everything kept that the marker of `durts` names?  All slots below it are decided. */
bool inspect_dependencies_kept(
        const struct media_file *f, uint64_t tail, uint64_t durts, const uint8_t *verdicts);

/* Decide about every slot of the window, upwards; verdicts[k], for tail + k, is an enum
 * inspect_verdict. */
void inspect_judge(const struct media_file *f, uint64_t tail, uint8_t *verdicts,
        struct inspect_window *window);

/* ------------------------------------------------------------------ damage
 *
 * No failure of power or process brings about any of these (INV-R7); docs/protocol.md, "Damage is
 * not a failure", has the argument. */
enum inspect_proof {
	/* The marker of `durts` was durable, says the head of update `by` of `thread` (INV-M4), and
	 * does not check */
	INSPECT_CLAIMED,
	/* The same, says the trailer: a replay had begun to carry it to the heap */
	INSPECT_REPLAYED,
	/* The slot of `durts` says `number`, which it never held: a marker of another slot, or
	 * junk */
	INSPECT_MISPLACED,
	/* The ring, or the trailer, has `number`, which is drawn only when the tail has passed
	 * `durts`: the tail is old */
	INSPECT_OUTRUN,
	/* Between the records of `durts` and `by` of `thread`, the log positions [from, to) held
	 * one (version 1) */
	INSPECT_GAP,
};
struct inspect_damage {
	enum inspect_proof proof;
	uint64_t durts, by, number, from, to;
	uint32_t thread;
};

/* Call tell() for each proof of damage; for INSPECT_CLAIMED, once a slot.  `verdicts` are those of
 * inspect_judge().  Errors: FUR_ENOMEM. */
FUR_MUST_USE int inspect_find_damage(const struct media_file *f, uint64_t tail,
        const uint8_t *verdicts, void (*tell)(void *arg, const struct inspect_damage *damage),
        void *arg);

/* Say in words what the damage is; the thread's message (fur_errormsg()).  Returns FUR_ECORRUPT. */
int inspect_refuse(const struct inspect_damage *damage);

/* May the slot of `durts` hold this number?  Its own, one of an earlier lap, or nothing yet. */
static inline bool inspect_possible(
        const struct media_super *super, uint64_t durts, uint64_t number)
{
	return number == 0 || (number <= durts && (durts - number) % super->ring_slots == 0);
}

/* -------------------------------------------------------------- corrections */

/* A change of one byte, or of a marker's number, that makes the marker of a slot check. */
struct inspect_mend {
	uint64_t durts;
	uint64_t offset; /* in the file */
	unsigned bytes;
	uint8_t was[8], is[8];
};

/* Look for the one change that makes the marker of `durts` check: of its number, of a byte of it,
 * or of a byte (a bit, where the record is long) of its record.  The 64-bit checksum and some 10^5
 * tries: one that holds by chance has a probability of 2^-46.  Tries in the mapping, which is as
 * before when it returns; nobody else may be using it.  *budget: bytes that may be summed up; less
 * when it returns.  False: there is none, or more than one, or the budget is spent. */
bool inspect_find_mend(
        const struct media_file *f, uint64_t durts, uint64_t *budget, struct inspect_mend *mend);

static inline void inspect_apply_mend(
        const struct media_file *f, const struct inspect_mend *m, const uint8_t *bytes)
{
	memcpy(media_at(f, m->offset), bytes, m->bytes);
}

#endif /* FUR_INSPECT_H */
