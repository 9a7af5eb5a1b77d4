/* SPDX-License-Identifier: BSD-3-Clause
 *
 * frame.h - the format of a frame: what one message of a stream's log contains.  docs/stream.md
 * explains it in words.
 *
 * With stream.h, writer.h, engine.h, shipper.h, recover.h and follow.h it is the contract of
 * src/ship: a heap's updates as a stream in a log that other machines read.
 *
 *      head, 96 bytes | payload, a multiple of 16 bytes
 *
 * All numbers are little-endian, as on every machine that libfur supports (base/arch.h refuses the
 * others).  The assertions here and tests/ship/frame_test.cpp freeze sizes, offsets and values.
 *
 *   INV-SH11  frame_read() accepts a message only if every byte of it is as frame_seal() left it.
 *             It reads no byte outside of the message, whatever the lengths in it say; what it has
 *             accepted, frame_next_update() and frame_get_side() walk without further checks.
 */
#ifndef FUR_SHIP_FRAME_H
#define FUR_SHIP_FRAME_H

#include <fur.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_MAGIC   "furship\x1a" /* 8 bytes */
#define FRAME_VERSION 1u
enum { FRAME_MOST_BYTES = 512 << 10 }; /* of a frame, head and payload */
enum { FRAME_ALIGN = 16 };             /* of payloads, and of what is in them */

enum frame_kind {
	FRAME_CLAIM = 1, /* a writer begins a term: struct frame_claim */
	FRAME_DATA,      /* updates, each a struct frame_update and its entries */
	FRAME_SIDE,      /* bytes of the heap that no log has: struct frame_side and the bytes */
	FRAME_BEAT,      /* nothing: the writer lives */
	FRAME_SNAPSHOT,  /* where a copy of the heap lies: text, then zeros */
	FRAME_HANDOVER,  /* the writer asks a node to claim: struct frame_handover */
	FRAME_KINDS
};
enum frame_flags {
	/* DATA, SIDE: the frame is one part of a large update: the first, one between, the last */
	FRAME_FIRST = 1,
	FRAME_MORE = 2,
	FRAME_LAST = 4,
	FRAME_PARTS = FRAME_FIRST | FRAME_MORE | FRAME_LAST,
	/* CLAIM: the updates behind it come from another file than those before */
	FRAME_NEW_LINEAGE = 8
};

struct frame_head {
	char magic[8];
	uint16_t version;
	uint16_t kind;
	uint32_t flags;
	uint8_t uuid[16]; /* of the heap */
	uint64_t term;
	uint64_t lineage;
	/* The number of the frame in the stream.  CLAIM: that of the newest frame that the writer
	 * had read */
	uint64_t frame_no;
	uint64_t durts_first, durts_last; /* of the updates; 0 without any */
	uint32_t updates;                 /* how many struct frame_update the payload has */
	uint32_t bytes;                   /* of the payload */
	/* The stream's chain before this frame.  CLAIM: the one that the writer had read */
	uint64_t chain_before;
	/* XXH3 of the payload, seeded with that of all above, which is seeded with chain_before */
	uint64_t chain;
};
_Static_assert(offsetof(struct frame_head, uuid) == 16, "frozen");
_Static_assert(offsetof(struct frame_head, frame_no) == 48, "frozen");
_Static_assert(offsetof(struct frame_head, updates) == 72, "frozen");
_Static_assert(offsetof(struct frame_head, chain) == 88, "frozen");
_Static_assert(sizeof(struct frame_head) == 96, "frozen");

struct frame_claim {
	uint64_t node;  /* who claims; not 0 */
	uint64_t nonce; /* random: tells this claim from others of the node */
};
struct frame_handover {
	uint64_t node;
	uint64_t gap; /* 0 */
};
struct frame_side {
	uint64_t offset; /* in the heap, of the bytes that follow */
	uint64_t zeros;  /* the number of zero bytes that follow these */
};
struct frame_update {
	uint32_t durts; /* minus the head's durts_first */
	uint32_t bytes; /* of the entries, which follow: those of the record, without its head */
	uint32_t flags; /* 0 */
	uint32_t check; /* the low half of XXH3 of the entries, seeded with the durTS */
};
_Static_assert(sizeof(struct frame_claim) == 16, "frozen");
_Static_assert(sizeof(struct frame_handover) == 16, "frozen");
_Static_assert(sizeof(struct frame_side) == 16, "frozen");
_Static_assert(sizeof(struct frame_update) == 16, "frozen");

/* ------------------------------------------------------------------- reading */

/* A message that frame_read() has accepted. */
struct frame {
	struct frame_head head;
	const uint8_t *payload; /* in the message; any alignment */
};

enum frame_error {
	FRAME_GOOD,
	FRAME_FOREIGN, /* no frame: it does not begin with the magic bytes */
	FRAME_NEWER,   /* of a version that this library does not know */
	FRAME_DAMAGED  /* a frame once, or made by a writer with a bug */
};

FUR_MUST_USE enum frame_error frame_read(const void *message, size_t bytes, struct frame *frame);

/* Go to the next update of DATA, or of its one part; *at is 0 at first.  Returns false behind the
 * last one.  Entries are not checked: they go where the update's author says. */
struct frame_entries {
	uint64_t durts;
	const uint8_t *bytes;
	uint32_t n;
};
bool frame_next_update(const struct frame *frame, size_t *at, struct frame_entries *entries);

/* Get the heads of the other payloads.  The bytes of SIDE begin at payload + sizeof. */
struct frame_claim frame_get_claim(const struct frame *frame);
struct frame_side frame_get_side(const struct frame *frame);
struct frame_handover frame_get_handover(const struct frame *frame);

/* ------------------------------------------------------------------- building */

struct frame_builder {
	uint8_t *message;
	size_t room, used; /* bytes */
	enum frame_kind kind;
	uint32_t flags;
	uint32_t updates;
	uint64_t durts_first, durts_last;
};

/* Where a frame stands in the stream. */
struct frame_place {
	uint64_t term, lineage, frame_no;
	uint64_t chain; /* before the frame */
};

/* Begin a frame in `room`, which has `bytes` bytes, at most FRAME_MOST_BYTES count. */
void frame_begin(
        struct frame_builder *b, void *room, size_t bytes, enum frame_kind kind, uint32_t flags);

/* Add an update, or a part of one (flags), to DATA.  Returns where the caller stores its entries,
 * `bytes` bytes (a multiple of 16), before it seals the frame.  Returns NULL if the frame is full:
 * there is no room, it has a part already, or the durTS is too far from the first one.  DurTSs must
 * rise. */
void *frame_add_update(struct frame_builder *b, uint64_t durts, uint32_t bytes);
/* How many bytes of entries the next update can have, a multiple of 16. */
uint32_t frame_room(const struct frame_builder *b);

/* Add the payload of SIDE: returns where the caller stores `bytes` bytes, or NULL if they do not
 * fit.  `durts`: of the large update to which the frame belongs. */
void *frame_add_side(
        struct frame_builder *b, uint64_t durts, const struct frame_side *side, uint32_t bytes);
/* Add the whole payload of another kind; at its end zeros, up to a multiple of 16.  Returns false
 * if it does not fit. */
bool frame_add_payload(struct frame_builder *b, const void *payload, size_t bytes);

/* Complete the head and the checks.  A frame may be sealed again, for another place.  Returns the
 * message's length, and its head. */
size_t frame_seal(struct frame_builder *b, const uint8_t uuid[16], const struct frame_place *place,
        struct frame_head *head);

#endif /* FUR_SHIP_FRAME_H */
