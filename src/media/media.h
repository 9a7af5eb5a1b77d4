/* SPDX-License-Identifier: BSD-3-Clause
 *
 * media.h - the format of a heap file, byte by byte.  docs/file-format.md explains it in words.
 * With log_view.h, heap_layout.h, control_region.h, ship_page.h and group_page.h it is the contract
 * of src/media.
 *
 *      superblock | control | marker ring | redo log of thread 0, 1, ... | heap | trailer
 *
 * All numbers are little-endian.  The assertions here and tests/unit/media/media_test.cpp freeze
 * all sizes and offsets.  Version 1 has no record heads and no trailer; libfur opens such a file
 * and keeps it at version 1.
 *
 * A heap that grows has holes in its file: behind the blocks that the heap has now, up to the
 * largest size, and for the logs that no thread has used yet.  So all regions stay in their places,
 * and every process has mapped the whole heap from the beginning.
 *
 * The ring is used lap after lap: the marker of durTS s lies in slot s modulo ring_slots, so one
 * lap is ring_slots consecutive durTSs.
 *
 *   INV-M1  A slot of the ring belongs to durTS s if and only if its marker contains s and its
 *           checksum holds.  Every other slot is a hole, including one that holds the marker of an
 *           earlier lap.
 *   INV-M2  No durTS is ever drawn twice for one file: each recovery starts above every durTS that
 *           may have been drawn.
 *   INV-M3  The checksum covers the marker and the log that it names, so both may be made durable
 *           under one fence.
 *   INV-M4  If a record head or the trailer claims that a slot is settled, the slot durably held a
 *           commit or an abort marker when the claim was written.  So if that marker is not valid,
 *           the file is damaged: no failure of power or process can cause it.
 *   INV-M5  On TSX and without hardware, if an update has read from another one, its marker names
 *           that one or a later update of the same thread, or its record's head claims it.  So if
 *           damage takes the marker of an update, recovery keeps no update that has read from it.
 */
#ifndef FUR_MEDIA_H
#define FUR_MEDIA_H

#include "base/memory.h"

#include <stddef.h>
#include <stdint.h>

#define MEDIA_MAGIC   "libfur\n\x1a" /* 8 bytes; the ^Z ends an accidental `type` or `cat` */
#define MEDIA_VERSION 2u
#define MEDIA_OLDEST  1u
#define MEDIA_ENDIAN  0x01020304u
/* Regions are aligned to POWER's page size, so that a file can be mapped on every machine. */
#define MEDIA_PAGE_BYTES 65536u
/* A ring slot has a line of its own on every machine, so no two commits flush the same line.  In a
 * file with wide slots (version 2), a slot may also contain a small update's record, next to its
 * marker: then a commit writes one block of the file, and commits at the same time mostly write the
 * same one. */
#define MEDIA_SLOT_BYTES      128u
#define MEDIA_SLOT_WIDE_BYTES 256u

static inline int media_slot_bytes_known(uint32_t bytes)
{
	return bytes == MEDIA_SLOT_BYTES || bytes == MEDIA_SLOT_WIDE_BYTES;
}
#define MEDIA_DEPS 256u /* how far back, in durTSs, a marker can name a dependency */

/* Only MEDIA_CLOSED means closed.  Every other value, a damaged one included, means "replay". */
#define MEDIA_CLOSED UINT64_C(0x5ca1ab1ec105ed00)
#define MEDIA_OPEN   UINT64_C(0x0de4d11ffeedbeef)
/* Open, and a thread may have many updates in flight (late updates). */
#define MEDIA_OPEN_ASYNC UINT64_C(0x0de4d11a59ac0bee)

/* Features of a file that a library must know to open it. */
#define MEDIA_GROWS  UINT64_C(1) /* media_super.grown counts */
#define MEDIA_STOCKS UINT64_C(2) /* media_more.stocks counts */
#define MEDIA_SHIPS  UINT64_C(4) /* the ship page counts: media/ship_page.h */
/* The heap is a member of a group: media_more.group and what follows count, and so does the group
 * page (media/group_page.h). */
#define MEDIA_MEMBER UINT64_C(8)
/* Those that this library knows. */
#define MEDIA_FEATURES (MEDIA_GROWS | MEDIA_STOCKS | MEDIA_SHIPS | MEDIA_MEMBER)

/* What came after the first files of version 2.  All zero: none of it. */
struct media_more {
	uint64_t features;
	/* Room for a log of bulk loads: zero in files without this feature, which will have a bit
	 * of its own. */
	uint64_t bulk_offset, bulk_bytes;
	/* MEDIA_MEMBER: the group's random number, the most members that it can have, and which of
	 * them this one is */
	uint8_t group[16];
	uint32_t group_members, group_member;
	/* MEDIA_STOCKS: for how many threads the heap has stocks of free memory.  See
	 * media_stocks(). */
	uint32_t stocks;
	uint8_t gap[68];
	uint64_t checksum; /* XXH3 of all above, seeded with the superblock's checksum */
};
_Static_assert(sizeof(struct media_more) == 128, "frozen");

struct media_super {
	char magic[8];
	uint32_t version;
	uint32_t endian;
	uint32_t slot_bytes;
	uint32_t max_threads;
	uint8_t uuid[16];
	uint64_t file_bytes;
	uint64_t address; /* where the heap is mapped */
	uint64_t control_offset, control_bytes;
	uint64_t ring_offset, ring_slots;
	uint64_t logs_offset, log_bytes;  /* log_bytes: of one thread's log, a power of two */
	uint64_t heap_offset, heap_bytes; /* heap_bytes: the most that the heap can have */
	uint64_t checksum;                /* XXH3 of all above */
	struct media_more more;

	/* The words that change, each on a line of its own. */
	/* MEDIA_GROWS: two copies of the heap's size now, in chunks; [k][0] is used.  Encoded as a
	 * tail.  See media_heap_bytes().  Owner: durability/size.c. */
	uint64_t grown[2][16];
	/* MEDIA_CLOSED, MEDIA_OPEN or MEDIA_OPEN_ASYNC.  Owner: durability/state.c. */
	uint64_t state;
	uint8_t gap1[56];
	/* How many logs have blocks, encoded as a tail.  See media_logs().
	 * Owner: durability/size.c. */
	uint64_t logs;
	uint8_t gap2[56];
	/* Two copies of the tail, the first durTS not replayed; [k][0] is used.  See
	 * media_tail_encode().  Owner: replay/replay.c. */
	uint64_t tail[2][16];
	/* [0], encoded as a tail: recovery gives up this durTS and all above it.  Without effect if
	 * the durTS lies outside the range. */
	uint64_t forget[16];
};
_Static_assert(offsetof(struct media_super, checksum) == 120, "frozen");
_Static_assert(offsetof(struct media_super, more) == 128, "frozen");
_Static_assert(offsetof(struct media_super, grown) == 256, "frozen");
_Static_assert(offsetof(struct media_super, state) == 512, "frozen");
_Static_assert(offsetof(struct media_super, logs) == 576, "frozen");
_Static_assert(offsetof(struct media_super, tail) == 640, "frozen");
_Static_assert(offsetof(struct media_super, forget) == 896, "frozen");
_Static_assert(sizeof(struct media_super) == 1024, "frozen");

/* A mapped heap file.  media/log_view.h reads its ring and its logs. */
struct media_file {
	/* A private copy that heap_check_super() accepted: another process that may write the file
	 * cannot change the sizes that bound every access */
	const struct media_super *super;
	/* The superblock in the mapping, for the words that change */
	struct media_super *words;
	uint8_t *ring, *logs; /* where they begin in the mapping */
};

static inline uint8_t *media_at(const struct media_file *f, uint64_t offset)
{
	return (uint8_t *)f->words + offset;
}

/* The file whose superblock is mapped at `words`; `super` is the checked copy of it. */
static inline struct media_file media_file_of(
        const struct media_super *super, struct media_super *words)
{
	struct media_file f = {super, words, (uint8_t *)words + super->ring_offset,
	        (uint8_t *)words + super->logs_offset};
	return f;
}

enum media_kind {
	MEDIA_COMMIT = 1,
	MEDIA_ABORT = 2,
	/* A commit whose record lies in the slot, after the marker */
	MEDIA_COMMIT_IN_SLOT = 3
};
/* Or'ed to the kind of a commit: this update depends on every durTS below its own. */
#define MEDIA_AFTER_ALL 0x100u
/* Or'ed to the kind of a commit (version 2): the update is a part of one over several heaps, and
 * its record ends with a MEDIA_ENTRY_PARTS. */
#define MEDIA_PART 0x200u

/* A durability marker (FUR 3.3).  Bit k of deps is set if this update depends on durTS - 1 - k. */
struct media_marker {
	uint64_t durts;
	/* Where the update's record begins: a position in the thread's log.  Positions only grow;
	 * modulo log_bytes a position is a place in the log.  MEDIA_COMMIT_IN_SLOT: the record's
	 * place in the slot, which is MEDIA_IN_SLOT. */
	uint64_t log_start;
	uint32_t log_bytes;
	uint16_t thread;
	uint16_t kind; /* enum media_kind, and perhaps MEDIA_AFTER_ALL and MEDIA_PART */
	uint64_t deps[MEDIA_DEPS / 64];
	uint64_t checksum;
};
_Static_assert(sizeof(struct media_marker) == 64, "frozen: one x86 line");
#define MEDIA_IN_SLOT sizeof(struct media_marker)
_Static_assert(offsetof(struct media_marker, checksum) == 56, "frozen");

/* The head of a record (version 2): its first 16 bytes.  It claims which slots were settled, that
 * is, held a durable marker, when the update was committed.  own, settled and clear are distances
 * back from the update's own durTS; MEDIA_NO_CLAIM claims nothing. */
#define MEDIA_NO_CLAIM 0xffffu
struct media_head {
	/* The low half of the durTS.  The range determines the high half, because it is shorter
	 * than 2^32 */
	uint32_t durts;
	/* To the thread's newest update before this one that was settled */
	uint16_t own;
	/* To the durTS below which every slot was settled, except those that the marker names */
	uint16_t settled;
	/* To the durTS below which every slot was settled, without exception */
	uint16_t clear;
	uint16_t gap;
	/* Checksum of the fields above, the whole durTS, the thread and the place.  It makes a head
	 * recognisable without its marker */
	uint32_t check;
};
_Static_assert(sizeof(struct media_head) == 16, "frozen: a multiple of MEDIA_ENTRY_ALIGN");

/* The same claims as durTSs; 0 claims nothing. */
struct media_claims {
	uint64_t durts;   /* of the update that claims */
	uint64_t own;     /* this one is settled */
	uint64_t settled; /* all below it are, except those that the marker names */
	uint64_t clear;   /* all below it are */
};

static inline uint64_t media_head_bytes(const struct media_super *super)
{
	return super->version < 2 ? 0 : sizeof(struct media_head);
}

/* The head that belongs at `position` of the thread's log. */
struct media_head media_head_encode(const struct media_super *super, uint32_t thread,
        uint64_t position, const struct media_claims *claims);
/* Returns 0 and the claims if `head` is the head of a durTS in [tail, tail + ring_slots), written
 * for this position; otherwise -1. */
int media_head_decode(const struct media_super *super, uint32_t thread, uint64_t position,
        uint64_t tail, const struct media_head *head, struct media_claims *claims);

/* The trailer (version 2) follows the heap.  A program that copies the file from front to back
 * reads the tail at the beginning, and the trailer last.  Before a live replay writes to the heap,
 * it stores a durTS here, encoded as a tail: all slots below that durTS are settled (INV-M4).  A
 * copy made meanwhile may contain a heap that is newer than the copy's tail.  The trailer then
 * tells up to which durTS the log must be whole, so that recovery can make the copy consistent. */
struct media_trailer {
	uint64_t replaying;
};

/* NULL in a file of version 1. */

static inline struct media_trailer *media_trailer(const struct media_file *f)
{
	const struct media_super *s = f->super;
	return s->version < 2 ? NULL
	                      : (struct media_trailer *)(void *)media_at(
	                                f, s->heap_offset + s->heap_bytes);
}

/* A redo-log entry is one word, then the bytes stored, padded so that the whole is a multiple of
 * 16. No entry wraps around the end of the log. */
#define MEDIA_ENTRY_ALIGN 16u
#define MEDIA_ENTRY_MAX   4088u /* payload bytes; a longer write is several entries */
/* Instead of a payload's length (version 2): the entry names a range of the heap that the update
 * allocated and wrote to the heap in the file itself (INV-FM3).  A replay has nothing to store
 * there.  The payload is one word: the range's length in units of 64 KiB in the high half; in the
 * low half that of a durTS up to which, as the update knew, the tail had moved (INV-FM5). */
#define MEDIA_ENTRY_RANGE UINT64_C(0xffff)
enum { MEDIA_RANGE_UNIT = 65536 };
/* Instead of a payload's length (version 2): the entry of a bulk update (fur_bulk_run).  Its
 * results lie in a block of the heap in the file, where they were durable before the marker
 * (INV-BU4).  A replay copies each changed record from there to its place.  The entry's offset is
 * that of the block, which begins with a table of rows; the payload is a struct media_bulk. */
#define MEDIA_ENTRY_BULK UINT64_C(0xfffe)
struct media_bulk {
	uint64_t bytes; /* of the block */
	uint64_t rows;  /* struct media_bulk_row, at the block's begin; and MEDIA_BULK_CHECKED */
	uint64_t check; /* XXH3 of the rows; with MEDIA_BULK_CHECKED: log_bulk_check() */
};
/* Set in `rows`: the check covers the results.  An older library takes the number of rows for
 * damage then, and refuses to recover the file. */
#define MEDIA_BULK_CHECKED (UINT64_C(1) << 63)
static inline uint64_t media_bulk_rows(const struct media_bulk *bulk)
{
	return bulk->rows & ~MEDIA_BULK_CHECKED;
}
_Static_assert(sizeof(struct media_bulk) == 24, "frozen");
/* `count` records of `bytes` bytes, `stride` bytes apart.  Offsets are of the heap; `from` and
 * `changed` lie in the block. */
struct media_bulk_row {
	uint64_t to;     /* the first record */
	uint64_t stride; /* at least `bytes` */
	uint64_t count;  /* at least 1 */
	uint64_t bytes;  /* at least 1 */
	/* The first result; they are media_bulk_step() bytes apart.  A multiple of 8 */
	uint64_t from;
	/* Bit k of these words: record k is changed.  A multiple of 8 */
	uint64_t changed;
};
_Static_assert(sizeof(struct media_bulk_row) == 48, "frozen");

/* Instead of a payload's length (version 2): the last entry of a part's record.  It names all parts
 * of the update.  The low byte of the entry's offset is how many there are, the next one which of
 * them is in this heap.  The payload is the update's number, and then a word for each part, in the
 * order of their members: the member in the high byte, its durTS below.  So the record of an update
 * that stores one word in each of two heaps is one line of x86.  A replay stores nothing.  This
 * entry alone may wrap around the end of the log. */
#define MEDIA_ENTRY_PARTS UINT64_C(0xfffd)
enum { MEDIA_MEMBERS_MOST = 256, MEDIA_PARTS_LEAST = 2, MEDIA_PARTS_MOST = 16 };
enum { MEDIA_PART_DURTS_BITS = 56 }; /* as of a tail */

/* The same in memory. */
struct media_part {
	uint64_t durts;  /* in that member */
	uint32_t member; /* media_more.group_member */
	uint32_t gap;    /* 0 */
};
struct media_parts {
	uint64_t id; /* of the update, unique in its group: one with another id is another one's */
	uint32_t n;
	uint32_t mine;                            /* which of the parts is in this heap */
	struct media_part part[MEDIA_PARTS_MOST]; /* [n] */
};

/* The bytes of the whole entry. */
static inline uint64_t media_parts_bytes(uint32_t n)
{
	return round_up((2 + n) * sizeof(uint64_t), MEDIA_ENTRY_ALIGN);
}
/* Write the whole entry, of media_parts_bytes(parts->n) bytes, to `at`. */
void media_parts_encode(uint8_t *at, const struct media_parts *parts);
/* Read the entry's word.  False: it is not one that names parts. */
bool media_parts_decode_word(uint64_t word, struct media_parts *parts);

static inline uint64_t media_bulk_step(uint64_t bytes)
{
	return round_up(bytes, 8);
}
/* The bytes of a row's words of changed bits. */
static inline uint64_t media_bulk_changed_bytes(uint64_t count)
{
	return (count / 64 + (count % 64 != 0)) * 8;
}
static inline uint64_t media_range_word(uint64_t bytes, uint64_t tail)
{
	return bytes / MEDIA_RANGE_UNIT << 32 | (uint32_t)tail;
}
static inline uint64_t media_range_bytes(uint64_t word)
{
	return (word >> 32) * MEDIA_RANGE_UNIT;
}
/* `durts`: of the update. */
static inline uint64_t media_range_tail(uint64_t word, uint64_t durts)
{
	return durts - (uint32_t)(durts - word);
}

static inline uint64_t media_entry_word(uint64_t heap_offset, uint64_t bytes)
{
	return bytes << 48 | heap_offset;
}
static inline uint64_t media_entry_offset(uint64_t word)
{
	return word & ((UINT64_C(1) << 48) - 1);
}
static inline uint64_t media_entry_payload(uint64_t word)
{
	return word >> 48;
}
static inline uint64_t media_entry_bytes(uint64_t payload)
{
	if (payload >= MEDIA_ENTRY_BULK)
		payload = payload == MEDIA_ENTRY_BULK ? sizeof(struct media_bulk) : 8;
	return round_up(8 + payload, MEDIA_ENTRY_ALIGN);
}

/* The durTS and eight check bits in one word, because only a word is written atomically. */
uint64_t media_tail_encode(uint64_t durts);
/* Returns 0 and the durTS, or -1. */
int media_tail_decode(uint64_t word, uint64_t *durts);

/* Read the tail from its two copies in the mapping.  Returns -1 if they cannot be right. */
int media_tail(const struct media_file *file, uint64_t *tail);

/* The end of the range that begins at `tail`: the first durTS that `fur-check --forget-from` gave
 * up, or else tail + ring_slots. */
uint64_t media_recovery_end(const struct media_file *file, uint64_t tail);

uint64_t media_super_checksum(const struct media_super *super);
uint64_t media_more_checksum(const struct media_super *super);

/* For how many threads the heap has stocks of free memory: as many as it was made for.  fur-resize
 * changes max_threads afterwards, and cannot move what lies behind the stocks.  So further threads
 * share them, and what remains in the stocks of fewer threads is memory that is taken last. */
static inline uint32_t media_stocks(const struct media_super *super)
{
	const bool differ = super->version >= 2 && (super->more.features & MEDIA_STOCKS);
	return differ ? super->more.stocks : super->max_threads;
}

/* Can the heap grow?  `super` is checked. */
static inline bool media_grows(const struct media_super *super)
{
	return super->version >= 2 && (super->more.features & MEDIA_GROWS);
}

/* Is the heap a member of a group? */
static inline bool media_is_member(const struct media_super *super)
{
	return super->version >= 2 && (super->more.features & MEDIA_MEMBER);
}

/* The heap's size now: below it every byte of the heap that the allocator may use has blocks.
 * `super` is the checked superblock; `words` the one in the mapping, or the same one.  Returns 0 if
 * both copies are damaged. */
uint64_t media_heap_bytes(const struct media_super *super, const struct media_super *words);

/* How many logs have blocks: those of the threads below this number.  If the word is damaged, or
 * the file is older than it, that is all logs. */
uint32_t media_logs(const struct media_super *super, const struct media_super *words);

/* The checksum of a marker and of the record that it names, which lies in the thread's log, or in
 * the slot, at `log` (the file's, or a copy with the same places).  The caller has checked that the
 * record is no longer than the log. */
uint64_t media_marker_checksum(
        const struct media_super *super, const struct media_marker *marker, const uint8_t *log);

#endif /* FUR_MEDIA_H */
