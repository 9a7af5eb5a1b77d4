/* SPDX-License-Identifier: BSD-3-Clause
 *
 * media.h - what is in a heap file, byte by byte.  docs/file-format.md says the same in words.
 *
 *      superblock | control | marker ring | redo log of thread 0, 1, ... | heap
 *
 * All numbers are little-endian.  Sizes and offsets are frozen by the assertions here and by tests/unit/media_test.cpp.
 *
 *   INV-M1  A slot of the ring belongs to durTS s if and only if its marker says s and its checksum holds.  Everything else, also
 *           the marker of an earlier lap, is a hole.
 *   INV-M2  No durTS is ever drawn twice for one file: each recovery starts above all that may have been drawn.
 *   INV-M3  The checksum covers the marker and the log it names, so both may be made durable under one fence.
 */
#ifndef FUR_MEDIA_H
#define FUR_MEDIA_H

#include <stddef.h>
#include <stdint.h>

#define MEDIA_MAGIC      "libfur\n\x1a" /* 8 bytes; the ^Z ends an accidental `type` or `cat` */
#define MEDIA_VERSION    1u
#define MEDIA_ENDIAN     0x01020304u
#define MEDIA_PAGE_BYTES 65536u /* regions are aligned to POWER's page, so that a file maps on every machine */
#define MEDIA_SLOT_BYTES 128u   /* a ring slot: a line of its own on every machine, so no two commits flush the same line */
#define MEDIA_DEPS       256u   /* how far back, in slots, a marker can name a dependency */

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
	uint64_t tail[2][16]; /* twice, see media_tail_encode(): the first durTS not replayed; [k][0] is used */
};
_Static_assert(offsetof(struct media_super, checksum) == 120, "frozen");
_Static_assert(offsetof(struct media_super, state) == 512, "frozen");
_Static_assert(offsetof(struct media_super, tail) == 640, "frozen");
_Static_assert(sizeof(struct media_super) == 896, "frozen");

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

/* A redo-log entry: one word, then the bytes stored, padded so that the whole is a multiple of 16.  No entry wraps. */
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

/* The tail, from its two copies; -1 if they cannot be right. */
int media_tail(const struct media_super *super, uint64_t *tail);

uint64_t media_super_checksum(const struct media_super *super);

/* The checksum of a marker over a log of `ring_bytes` bytes at `log`.  The caller has checked that the range fits the log. */
uint64_t media_marker_checksum(const struct media_super *super, const struct media_marker *marker, const uint8_t *log);

#endif /* FUR_MEDIA_H */
