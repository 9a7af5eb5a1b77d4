/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group_page.h - what a member of a group of heaps has noted about updates over several heaps, at a
 * fixed place of a file with MEDIA_MEMBER: between the ship page and the control region.
 *
 * An update over several heaps has a part in each.  A part is settled when all parts of its update
 * are kept by any recovery.  Recovery keeps all parts of an update, or none, although it takes the
 * heaps one after the other: each notes its decision before its tail moves past the parts.
 *
 * Each word is stored whole, and decodes by itself.
 */
#ifndef FUR_GROUP_PAGE_H
#define FUR_GROUP_PAGE_H

#include "base/arch.h"
#include "base/error.h"
#include "media/media.h"

/* How the heap was opened last. */
enum media_opened {
	MEDIA_OPENED_IN_GROUP = 1, /* parts may have been drawn since */
	MEDIA_OPENED_ALONE = 2     /* none has been: all that was drawn below the tail is decided */
};

struct media_group {
	/* enum media_opened, encoded as a tail; anything else means MEDIA_OPENED_IN_GROUP */
	uint64_t opened;
	/* Encoded as a tail: decisions with a lower number are of no use any more, since no ring
	 * has a part from before them */
	uint64_t free_below;
	uint8_t gap[1008];
	/* Encoded as tails: every durTS of member k below seen[k] that a part replayed here named
	 * is settled there */
	uint64_t seen[MEDIA_MEMBERS_MOST];
};
_Static_assert(offsetof(struct media_group, seen) == 1024, "frozen");
_Static_assert(sizeof(struct media_group) == 3072, "frozen");

/* A recovery gave up all durTSs of [from, to) but those whose bits are set: bit k of `kept` means
 * that from + k is a part that was kept.  Updates without other parts have no bits. */
struct media_decision {
	uint64_t number; /* one more each time; 0: none */
	uint64_t from;
	/* XXH3 of number, from and the bits, seeded with the superblock's checksum */
	uint64_t checksum;
	/* The tail after the recovery, encoded as a tail.  It moves up when a later recovery that
	 * begins there keeps no part */
	uint64_t to;
	uint64_t kept[]; /* [ring_slots / 64] */
};
_Static_assert(sizeof(struct media_decision) == 32, "frozen");

#define MEDIA_GROUP_OFFSET     5120u
#define MEDIA_DECISIONS_OFFSET 8192u
_Static_assert(MEDIA_GROUP_OFFSET + sizeof(struct media_group) == MEDIA_DECISIONS_OFFSET, "");
enum { MEDIA_DECISIONS_MOST = 16 };

/* How many decisions the page holds: as many as fit, up to MEDIA_DECISIONS_MOST. */
unsigned media_decisions(const struct media_super *super);

/* May the heap join a group: is it of version 2, and is there room for a decision about its ring?
 * Rings of more than 262,144 slots are too long. */
bool media_may_join(const struct media_super *super);

static inline struct media_group *media_group_page(const struct media_file *f)
{
	return (struct media_group *)(void *)media_at(f, MEDIA_GROUP_OFFSET);
}

/* The bytes of a decision, and the place of the k-th. */
uint64_t media_decision_bytes(const struct media_super *super);
struct media_decision *media_decision_at(const struct media_file *f, unsigned k);

uint64_t media_decision_checksum(
        const struct media_super *super, const struct media_decision *decision);

/* If the decision counts, read where it ends. */
bool media_decision_valid(
        const struct media_super *super, const struct media_decision *decision, uint64_t *to);

/* The decisions that count, as a reader has found them in the page. */
struct media_decided {
	unsigned n;
	uint64_t slots; /* of the ring */
	struct {
		uint64_t from, to;
		const uint64_t *kept;
	} of[MEDIA_DECISIONS_MOST];
};
void media_read_decisions(const struct media_file *f, struct media_decided *decided);

/* INV-GU8: was the part of this durTS, below the heap's tail, kept?  It was unless a decision says
 * otherwise. */
static inline bool media_decided_kept(const struct media_decided *decided, uint64_t durts)
{
	for (unsigned k = 0; k < decided->n; k++) {
		const uint64_t at = durts - decided->of[k].from;
		if (durts >= decided->of[k].from && durts < decided->of[k].to)
			return at < decided->slots && (decided->of[k].kept[at / 64] >> at % 64 & 1);
	}
	return true;
}

/* A word of the page: what it says, or `otherwise` if it does not decode. */
static inline uint64_t media_group_word(const uint64_t *word, uint64_t otherwise)
{
	uint64_t value;
	return media_tail_decode(arch_load(word), &value) ? otherwise : value;
}

/* media_group.seen[member]; 0 if nothing of that member is known to be settled. */
static inline uint64_t media_seen(const struct media_file *f, uint32_t member)
{
	FUR_ASSERT(member < MEDIA_MEMBERS_MOST);
	return media_group_word(&media_group_page(f)->seen[member], 0);
}

/* The number of a group, or the UUID of a heap, as text: 32 hexadecimal digits. */
enum { MEDIA_ID_BYTES = 16, MEDIA_ID_TEXT = 2 * MEDIA_ID_BYTES + 1 };
void media_id_text(const uint8_t id[MEDIA_ID_BYTES], char text[MEDIA_ID_TEXT]);

#endif /* FUR_GROUP_PAGE_H */
