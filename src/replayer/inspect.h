/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inspect.h - what the marker ring and the logs say, for recovery and for those who only look (fur-info, fur-check).
 *
 * Reads the file's mapping, which begins at the superblock, and nothing else: it needs no open heap, writes nothing, and trusts
 * nothing but a superblock that heap_check_super() has let pass.
 */
#ifndef FUR_INSPECT_H
#define FUR_INSPECT_H

#include "../durability/media.h"
#include <fur.h>

/* What recovery makes of a slot.  All below INSPECT_ABORTED count as lost for those that name them (INV-R2). */
enum inspect_verdict {
	INSPECT_HOLE,    /* no marker of this durTS: never drawn, or in flight when the process ended */
	INSPECT_BROKEN,  /* a marker of this durTS that does not check: torn by a power failure, or damaged */
	INSPECT_DROPPED, /* it checks, and names a slot that is lost */
	INSPECT_ABORTED, /* an abort marker: nothing to replay */
	INSPECT_KEPT,    /* replayed */
};

struct inspect_window {
	uint64_t tail;                     /* the window is [tail, tail + ring_slots) */
	uint64_t end;                      /* after the highest marker that checks; `tail` if none does */
	uint64_t updates, aborts, dropped; /* markers that check */
	uint64_t holes, broken;            /* slots below `end` that hold none, those broken included; broken ones, anywhere */
	uint64_t log_bytes;                /* that the kept ones name */
};

/* One entry of a redo log. */
struct inspect_entry {
	uint64_t offset, bytes; /* of the heap */
	uint64_t next;          /* position of the next one */
	const uint8_t *payload;
};

static inline const struct media_marker *inspect_marker(const struct media_super *super, uint64_t durts)
{
	const uint8_t *ring = (const uint8_t *)super + super->ring_offset;
	return (const struct media_marker *)(const void *)(ring + (durts & (super->ring_slots - 1)) * MEDIA_SLOT_BYTES);
}

static inline const uint8_t *inspect_log(const struct media_super *super, uint32_t thread)
{
	return (const uint8_t *)super + super->logs_offset + thread * super->log_bytes;
}

/* Do the marker's fields make sense?  Asked before the checksum, which reads where they point. */
bool inspect_plausible(const struct media_super *super, const struct media_marker *marker);

/* INV-M1: does this marker belong to `durts`? */
bool inspect_valid(const struct media_super *super, const struct media_marker *marker, uint64_t durts);

/* The entry of a plausible marker's thread at `position`, which lies below `end`.  False: nothing that could be replayed. */
bool inspect_entry_at(
        const struct media_super *super, uint32_t thread, uint64_t position, uint64_t end, struct inspect_entry *entry);

/* Look at one slot by itself: what it names may still turn INSPECT_KEPT into INSPECT_DROPPED. */
enum inspect_verdict inspect_look(const struct media_super *super, uint64_t durts);

/* INV-R2: is everything kept that the marker of `durts` names?  All slots below it are decided. */
bool inspect_dependencies_kept(const struct media_super *super, uint64_t tail, uint64_t durts, const uint8_t *verdicts);

/* Decide about every slot of the window, upwards; verdicts[k], for tail + k, is an enum inspect_verdict. */
void inspect_judge(const struct media_super *super, uint64_t tail, uint8_t *verdicts, struct inspect_window *window);

/* A thread's records lie one behind the other in its log, each on a line of its own, and the next one is begun when the one before has
 * returned.  So where two of its markers that check leave room between their records, an update was made, had returned, and is gone:
 * no failure of power or process does that, only damage. */
struct inspect_gap {
	uint32_t thread;
	uint64_t after, before; /* the durTS of the two; that of the lost one lies between */
	uint64_t from, to;      /* log positions of what is lost */
};
/* Call tell() for each.   Errors: FUR_ENOMEM. */
FUR_MUST_USE int inspect_gaps(const struct media_super *super, uint64_t tail, const uint8_t *verdicts,
        void (*tell)(void *arg, const struct inspect_gap *gap), void *arg);

#endif /* FUR_INSPECT_H */
