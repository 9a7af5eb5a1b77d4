/* SPDX-License-Identifier: BSD-3-Clause
 *
 * redo.h - a thread's redo log, to which an open update writes its record (redo.c).
 */
#ifndef FUR_REDO_H
#define FUR_REDO_H

#include "base/error.h"
#include "media/log_view.h"
#include "pm/pm.h"

struct durability;

/* One thread's redo log.  Positions only grow; modulo log_bytes a position is a place in the log.
 * The record of the open update is [open_at, write_at).  If the file has record heads, the record's
 * media_head lies at open_at.  A hardware abort also rolls write_at and entries back. */
enum redo_kind {
	/* The update stores in place, and redo_undo() can undo that; or it is in software. */
	REDO_UNDO,
	/* In hardware, whose abort undoes the stores. */
	REDO_ENTRIES,
	/* In hardware on POWER: each store notes only where it went.  redo_complete() makes the
	 * entries in the window (FUR 3.3): a transaction may store to 64 lines, and a noted store
	 * takes a sixteenth of one. */
	REDO_NOTES
};
struct redo_log {
	uint64_t write_at, open_at;
	uint64_t committed_to; /* the end of the newest committed record */
	uint64_t durts;        /* of the newest committed record */
	bool late;             /* that one: it may be lost (INV-AS6) */
	uint64_t write_most;   /* limit of write_at: tail + room when last read */
	/* Of the log's room, what the open update may not use for its entries: redo_reserve() */
	uint64_t reserved;
	/* Position of the newest undo record of the open update, or UNDO_NONE. */
	uint64_t undo_last;
	uint64_t entries;     /* of the open update */
	uint64_t frees_a_run; /* 1: the open update has given back a run of chunks (INV-FM2) */
	enum redo_kind kind;
	/* redo_append() writes entries here: `persistent`, or a DRAM mirror of it. */
	uint8_t *written;
	/* In DRAM.  REDO_UNDO: at the same places, the data that each entry overwrote; see
	 * redo_append(). */
	uint8_t *undo;
	/* The same memory.  REDO_NOTES: the words of the entries (media_entry_word()), in order. */
	uint64_t *notes;
	uint8_t *persistent; /* the log in the file */
	/* SYNC: the slot of the update that commits, in DRAM: its marker and, if that fits, its
	 * record.  The leader of its group writes it to the file. */
	uint8_t *slot;
	struct group_request request;
	/* Shared.  Everything below it is replayed; the thread that replays moves it.
	 * Owners: replay/replay.c, durability/control.c, durability/redo.c. */
	uint64_t tail ARCH_PADDED;
};
#define UNDO_NONE UINT64_MAX

int redo_init(struct redo_log *log, const struct durability *d, uint32_t thread);
void redo_fini(struct redo_log *log, const struct durability *d);

/* Begin the record of an update.  Outside hardware transactions. */
void redo_begin(struct redo_log *log, const struct durability *d, enum redo_kind kind);

/* redo_reserve - of the log's room, leave what the names of `n` parts take (parts.h).  Before the
 * record begins; 0 parts: nothing. */
static inline void redo_reserve(struct redo_log *log, unsigned n)
{
	log->reserved = n ? media_parts_bytes(n) : 0;
}

/* Prefetch the lines of the next record.  They were last used a lap ago, so they are in no cache.
 * Without the prefetch, the next update's first locked instruction would wait for each of its
 * stores to them. */
void redo_prefetch(const struct redo_log *log, const struct durability *d);

/* Log a store of `bytes` bytes to `to` as the record's kind asks, and store.  `bytes` is at most
 * redo_fits(): an entry has at most MEDIA_ENTRY_MAX bytes, and does not cross the end of the log.
 * False: the log has no room, and nothing was done. */
bool redo_append(struct redo_log *log, const struct durability *d, uint64_t heap_offset, void *to,
        const void *from, uint64_t bytes);
uint64_t redo_fits(const struct redo_log *log, const struct durability *d, uint64_t bytes);

/* The same for a software update, whose store stays in the log until it publishes. */
bool redo_append_only(struct redo_log *log, const struct durability *d, uint64_t heap_offset,
        const void *from, uint64_t bytes);

/* Log that a range of the heap is in the file before the marker will be (INV-FM4).  `range`: its
 * media_range_word().  False: the log has no room. */
bool redo_append_range(
        struct redo_log *log, const struct durability *d, uint64_t heap_offset, uint64_t range);

/* As the first entry of the record: log that a replay copies the changed records of a bulk update
 * from the block at `block` of the heap in the file, where they are durable before the marker
 * (INV-BU4).  False: the log has no room. */
bool redo_append_bulk(struct redo_log *log, const struct durability *d, uint64_t block,
        const struct media_bulk *bulk);

/* Store to the heap.  If the number of bytes is 1, 2, 4 or 8 and `to` a multiple of it, and for
 * each whole aligned word of a longer store, no thread sees half of it: a software body may load
 * the word at any time. */
void redo_store_words(uint8_t *to, const uint8_t *from, uint64_t bytes);

/* Store every entry of the open record in the heap, in order.  With keep_undo, redo_undo() can undo
 * the stores. */
void redo_store_record(
        struct redo_log *log, const struct durability *d, uint8_t *heap, bool keep_undo);

/* Call visit() for each place in the heap to which redo_store_record() would store. */
void redo_visit(const struct redo_log *log, const struct durability *d,
        void (*visit)(void *arg, uint64_t heap_offset, uint64_t bytes), void *arg);

/* Drop the entries of the open record, none of which was stored in the heap. */
void redo_discard(struct redo_log *log, const struct durability *d);

/* Make the entries of a record of REDO_NOTES, with the data that is in the heap.  For the window:
 * if the transaction is doomed, the notes may be whatever the memory contained before, an older
 * update's notes or the data of its undo records.  Then the entries mean nothing, but this function
 * reads inside the heap and writes inside the log (INV-W2).  Returns: the record's end. */
uint64_t redo_complete(struct redo_log *log, const struct durability *d, const uint8_t *heap);

/* Undo the stores of the open record, which is of REDO_UNDO (INV-D6). */
void redo_undo(struct redo_log *log, const struct durability *d, uint8_t *heap);

/* Put the head of the open record into `log->written`, or into the file's log.  Does nothing in a
 * file of version 1. */
void redo_put_head(struct redo_log *log, const struct durability *d, uint8_t *into,
        const struct media_claims *claims);

/* Copy the record's entries from the mirror, if there is one, to the file's log. */
void redo_copy_out(struct redo_log *log, const struct durability *d, uint64_t start, uint64_t end);
/* Does the open record fit the slot, so that it need not go to the log?  SYNC only. */
bool redo_fits_slot(const struct redo_log *log, const struct durability *d);
/* The newest committed update of the thread that is settled, or 0: not known.  Unless it was late
 * (async.h), it has returned: its marker is durable (INV-D2). */
static inline uint64_t redo_settled(const struct redo_log *log)
{
	return log->late ? 0 : arch_load(&log->durts);
}

/* Copy the open record to a slot in DRAM, with a head that makes the claims. */
void redo_put_in_slot(const struct redo_log *log, const struct durability *d, uint8_t *slot,
        const struct media_claims *claims);
/* Write the record to the file's log, with its head.  SYNC only.  Errors: FUR_EIO. */
FUR_MUST_USE int redo_write_out(
        struct redo_log *log, struct durability *d, uint64_t start, uint64_t end);
void redo_flush(struct redo_log *log, struct durability *d, uint64_t start, uint64_t end);

/* Make room in this thread's log; replay if necessary.  FUR_ETOOBIG: the open record alone fills
 * the log. */
FUR_MUST_USE int redo_make_room(struct redo_log *log, struct durability *d);

#endif /* FUR_REDO_H */
