/* SPDX-License-Identifier: BSD-3-Clause
 *
 * media.h - what is in a heap file, byte by byte.  docs/file-format.md says the same in words.
 *
 *      superblock | control | marker ring | redo log of thread 0, 1, ... | heap | trailer
 *
 * All numbers are little-endian.  Sizes and offsets are frozen by the assertions here and by
 * tests/unit/media_test.cpp.  Version 1 has no record heads and no trailer; libfur opens it, and
 * keeps it at version 1.
 *
 *   INV-M1  A slot of the ring belongs to durTS s if and only if its marker says s and its checksum
 *           holds.  Everything else, also the marker of an earlier lap, is a hole.
 *   INV-M2  No durTS is ever drawn twice for one file: each recovery starts above all that may have
 *           been drawn.
 *   INV-M3  The checksum covers the marker and the log it names, so both may be made durable under
 *           one fence.
 *   INV-M4  A slot that a record head or the trailer claims to be settled held, durably, a commit
 *           or an abort marker when the claim was written.  So if its marker does not check, the
 *           file is damaged: no failure of power or process brings that about.
 */
#ifndef FUR_MEDIA_H
#define FUR_MEDIA_H

#include <stddef.h>
#include <stdint.h>

#define MEDIA_MAGIC   "libfur\n\x1a" /* 8 bytes; the ^Z ends an accidental `type` or `cat` */
#define MEDIA_VERSION 2u
#define MEDIA_OLDEST  1u
#define MEDIA_ENDIAN  0x01020304u
/* Regions are aligned to POWER's page, so that a file maps on every machine. */
#define MEDIA_PAGE_BYTES 65536u
/* A ring slot: a line of its own on every machine, so no two commits flush the same line. */
#define MEDIA_SLOT_BYTES 128u
#define MEDIA_DEPS       256u /* how far back, in slots, a marker can name a dependency */

/* Not closed unless it says so: any other value, damaged ones included, means "replay". */
#define MEDIA_CLOSED UINT64_C(0x5ca1ab1ec105ed00)
#define MEDIA_OPEN   UINT64_C(0x0de4d11ffeedbeef)

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
	uint64_t logs_offset, log_bytes; /* log_bytes: of one thread */
	uint64_t heap_offset, heap_bytes;
	uint64_t checksum; /* XXH3 of all above */
	uint8_t gap0[512 - 128];

	/* Words that change, each on a line of its own. */
	uint64_t state; /* MEDIA_CLOSED or MEDIA_OPEN */
	uint8_t gap1[120];
	/* twice, see media_tail_encode(): the first durTS not replayed; [k][0] is used */
	uint64_t tail[2][16];
	/* [0], encoded as a tail: recovery gives up this durTS and all above it; void if outside
	 * the window */
	uint64_t forget[16];
};
_Static_assert(offsetof(struct media_super, checksum) == 120, "frozen");
_Static_assert(offsetof(struct media_super, state) == 512, "frozen");
_Static_assert(offsetof(struct media_super, tail) == 640, "frozen");
_Static_assert(offsetof(struct media_super, forget) == 896, "frozen");
_Static_assert(sizeof(struct media_super) == 1024, "frozen");

/* A mapped heap file.  `super` is a private copy that heap_check_super() has let pass: another
 * process that may write the file cannot change the sizes that bound every access.  `words` is the
 * superblock in the mapping, for the words that change. */
struct media_file {
	const struct media_super *super;
	struct media_super *words;
};

static inline uint8_t *media_at(const struct media_file *f, uint64_t offset)
{
	return (uint8_t *)f->words + offset;
}

enum media_kind { MEDIA_COMMIT = 1, MEDIA_ABORT = 2 };

/* A durability marker (FUR 3.3).  deps bit k set: this update depends on durTS - 1 - k. */
struct media_marker {
	uint64_t durts;
	uint64_t log_start; /* position in the thread's log; modulo log_bytes it is a place */
	uint32_t log_bytes;
	uint16_t thread;
	uint16_t kind;
	uint64_t deps[MEDIA_DEPS / 64];
	uint64_t checksum;
};
_Static_assert(sizeof(struct media_marker) == 64, "frozen: one x86 line");
_Static_assert(offsetof(struct media_marker, checksum) == 56, "frozen");

/* The head of a record (version 2), its first 16 bytes.  It says which slots were settled, that is,
 * had a durable marker, when the update was committed.  The differences are to the update's own
 * durTS; MEDIA_NO_CLAIM: nothing is said. */
#define MEDIA_NO_CLAIM 0xffffu
struct media_head {
	uint32_t durts; /* its low half: the window of a ring is shorter than that */
	uint16_t own;   /* back to the thread's newest update before this one that was settled */
	/* Back to the slot below which every slot was settled but those that the marker names */
	uint16_t settled;
	/* Back to the slot below which every slot was settled, without exception */
	uint16_t clear;
	uint16_t gap;
	/* Of the above, the whole durTS, the thread, and the place: a head is known without its
	 * marker */
	uint32_t check;
};
_Static_assert(sizeof(struct media_head) == 16, "frozen: a multiple of MEDIA_ENTRY_ALIGN");

/* The same, as durTSs; 0: nothing is said. */
struct media_claims {
	uint64_t durts;
	uint64_t own;     /* this slot is settled */
	uint64_t settled; /* all below it, but those that the marker names */
	uint64_t clear;   /* all below it */
};

static inline uint64_t media_head_bytes(const struct media_super *super)
{
	return super->version < 2 ? 0 : sizeof(struct media_head);
}

/* A head at `position` of the thread's log. */
struct media_head media_head_encode(const struct media_super *super, uint32_t thread,
        uint64_t position, const struct media_claims *claims);
/* Returns 0 and the claims if there is a head of a durTS in [tail, tail + ring_slots); else -1. */
int media_head_decode(const struct media_super *super, uint32_t thread, uint64_t position,
        uint64_t tail, const struct media_head *head, struct media_claims *claims);

/* The trailer (version 2), behind the heap: the last thing that a copy from front to back reads,
 * where the tail is one of the first.  Its word, encoded as a tail, is stored before a live replay
 * writes to the heap: all slots below it are settled (INV-M4).  So a copy taken meanwhile, in which
 * the heap is newer than the tail, says up to where the log must be whole to make it right. */
struct media_trailer {
	uint64_t replaying;
};

static inline struct media_trailer *media_trailer(const struct media_file *f)
{
	const struct media_super *s = f->super;
	return s->version < 2 ? NULL
	                      : (struct media_trailer *)(void *)media_at(
	                                f, s->heap_offset + s->heap_bytes);
}

/* A redo-log entry: one word, then the bytes stored, padded so that the whole is a multiple of 16.
 * No entry wraps. */
#define MEDIA_ENTRY_ALIGN 16u
#define MEDIA_ENTRY_MAX   4088u /* payload bytes; a longer write is several entries */

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
	return (8 + payload + MEDIA_ENTRY_ALIGN - 1) & ~(uint64_t)(MEDIA_ENTRY_ALIGN - 1);
}

/* The tail carries eight check bits, since one word is all that is written atomically. */
uint64_t media_tail_encode(uint64_t durts);
/* Returns 0 and the durTS, or -1. */
int media_tail_decode(uint64_t word, uint64_t *durts);

/* The tail, from its two copies in the mapping; -1 if they cannot be right. */
int media_tail(const struct media_file *file, uint64_t *tail);

/* The first durTS that `fur-check --forget-from` has given up, or the end of the window that begins
 * at `tail`. */
uint64_t media_window_end(const struct media_file *file, uint64_t tail);

uint64_t media_super_checksum(const struct media_super *super);

/* The checksum of a marker over a log of `ring_bytes` bytes at `log`.  The caller has checked that
 * the range fits the log. */
uint64_t media_marker_checksum(
        const struct media_super *super, const struct media_marker *marker, const uint8_t *log);

#endif /* FUR_MEDIA_H */
