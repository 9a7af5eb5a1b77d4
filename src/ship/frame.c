/* SPDX-License-Identifier: BSD-3-Clause
 *
 * frame.c - building and checking frames (frame.h).
 */
#include "ship/frame.h"
#include "base/arch.h"
#include "base/error.h"
#include "base/memory.h"

#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static uint64_t chain_of(const uint8_t *message, const struct frame_head *h)
{
	const uint64_t head =
	        XXH3_64bits_withSeed(message, offsetof(struct frame_head, chain), h->chain_before);
	return XXH3_64bits_withSeed(message + sizeof *h, h->bytes, head);
}

static uint32_t check_of(const uint8_t *entries, uint32_t bytes, uint64_t durts)
{
	return (uint32_t)XXH3_64bits_withSeed(entries, bytes, durts);
}

/* Is it one part of a large update? */
static bool is_part(uint32_t flags)
{
	return flags & FRAME_PARTS;
}

/* ------------------------------------------------------------------- reading */

static bool flags_fit(const struct frame_head *h)
{
	const uint32_t part = h->flags & FRAME_PARTS;
	const bool one_part = (part & (part - 1)) == 0; /* or none */
	switch (h->kind) {
	case FRAME_CLAIM: return (h->flags & ~(uint32_t)FRAME_NEW_LINEAGE) == 0;
	case FRAME_DATA: return h->flags == part && one_part;
	/* The update's record follows its side data, so these are never the last part. */
	case FRAME_SIDE: return h->flags == FRAME_FIRST || h->flags == FRAME_MORE;
	default: return h->flags == 0;
	}
}

/* Do the lengths in the payload of DATA add up, and are the entries whole? */
static bool updates_fit(const struct frame *f)
{
	const struct frame_head *h = &f->head;
	uint64_t last = 0;
	size_t at = 0;
	for (uint32_t k = 0; k < h->updates; k++) {
		struct frame_update u;
		if (h->bytes - at < sizeof u)
			return false;
		memcpy(&u, f->payload + at, sizeof u);
		at += sizeof u;
		const uint64_t durts = h->durts_first + u.durts;
		if (u.bytes > h->bytes - at || u.bytes % FRAME_ALIGN || u.flags)
			return false;
		if (k == 0 ? u.durts != 0 : durts <= last)
			return false;
		if (u.check != check_of(f->payload + at, u.bytes, durts))
			return false;
		last = durts;
		at += u.bytes;
	}
	return at == h->bytes && h->updates > 0 && last == h->durts_last &&
	       (h->updates == 1 || !is_part(h->flags));
}

static bool payload_fits(const struct frame *f)
{
	const struct frame_head *h = &f->head;
	if (h->kind == FRAME_DATA)
		return updates_fit(f);
	if (h->updates != 0 || h->durts_first != h->durts_last)
		return false;
	if (h->kind == FRAME_SIDE)
		return h->bytes >= sizeof(struct frame_side);
	if (h->durts_first != 0)
		return false;
	switch (h->kind) {
	case FRAME_CLAIM: return h->bytes == sizeof(struct frame_claim) && frame_get_claim(f).node;
	case FRAME_HANDOVER: return h->bytes == sizeof(struct frame_handover);
	case FRAME_BEAT: return h->bytes == 0;
	default: return true;
	}
}

/* INV-SH11 */
enum frame_error frame_read(const void *message, size_t bytes, struct frame *f)
{
	struct frame_head *h = &f->head;
	if (bytes < sizeof h->magic || memcmp(message, FRAME_MAGIC, sizeof h->magic) != 0)
		return FRAME_FOREIGN;
	if (bytes < sizeof *h)
		return FRAME_DAMAGED;
	memcpy(h, message, sizeof *h);
	f->payload = (const uint8_t *)message + sizeof *h;
	if (h->version > FRAME_VERSION)
		return FRAME_NEWER;
	/* The length first: chain_of() reads as many bytes. */
	if (bytes > FRAME_MOST_BYTES || h->bytes != bytes - sizeof *h || h->bytes % FRAME_ALIGN ||
	        h->chain != chain_of(message, h))
		return FRAME_DAMAGED;
	/* A writer with a bug seals nonsense too. */
	const bool known =
	        h->version == FRAME_VERSION && h->kind >= FRAME_CLAIM && h->kind < FRAME_KINDS;
	return known && flags_fit(h) && payload_fits(f) ? FRAME_GOOD : FRAME_DAMAGED;
}

bool frame_next_update(const struct frame *f, size_t *at, struct frame_entries *entries)
{
	struct frame_update u;
	FUR_ASSERT(f->head.kind == FRAME_DATA);
	if (*at == f->head.bytes)
		return false;
	memcpy(&u, f->payload + *at, sizeof u);
	*entries = (struct frame_entries){
	        f->head.durts_first + u.durts, f->payload + *at + sizeof u, u.bytes};
	*at += sizeof u + u.bytes;
	return true;
}

struct frame_claim frame_get_claim(const struct frame *f)
{
	struct frame_claim claim;
	FUR_ASSERT(f->head.kind == FRAME_CLAIM);
	memcpy(&claim, f->payload, sizeof claim);
	return claim;
}

struct frame_side frame_get_side(const struct frame *f)
{
	struct frame_side side;
	FUR_ASSERT(f->head.kind == FRAME_SIDE);
	memcpy(&side, f->payload, sizeof side);
	return side;
}

struct frame_handover frame_get_handover(const struct frame *f)
{
	struct frame_handover handover;
	FUR_ASSERT(f->head.kind == FRAME_HANDOVER);
	memcpy(&handover, f->payload, sizeof handover);
	return handover;
}

/* ------------------------------------------------------------------- building */

void frame_begin(
        struct frame_builder *b, void *room, size_t bytes, enum frame_kind kind, uint32_t flags)
{
	FUR_ASSERT(bytes >= sizeof(struct frame_head) + FRAME_ALIGN);
	*b = (struct frame_builder){.message = room,
	        .room = bytes < FRAME_MOST_BYTES ? bytes : FRAME_MOST_BYTES,
	        .used = sizeof(struct frame_head),
	        .kind = kind,
	        .flags = flags};
}

uint32_t frame_room(const struct frame_builder *b)
{
	const size_t left = b->room - b->used;
	if (left < sizeof(struct frame_update) || (is_part(b->flags) && b->updates))
		return 0;
	return (uint32_t)((left - sizeof(struct frame_update)) / FRAME_ALIGN * FRAME_ALIGN);
}

/* Is there room for two pieces of payload? */
static bool fits(const struct frame_builder *b, size_t head, size_t bytes)
{
	return b->room - b->used >= head && b->room - b->used - head >= bytes;
}

void *frame_add_update(struct frame_builder *b, uint64_t durts, uint32_t bytes)
{
	FUR_ASSERT(b->kind == FRAME_DATA && bytes % FRAME_ALIGN == 0);
	FUR_ASSERT(b->updates == 0 || durts > b->durts_last);
	if (!fits(b, sizeof(struct frame_update), bytes) || (is_part(b->flags) && b->updates) ||
	        (b->updates && durts - b->durts_first > UINT32_MAX))
		return NULL;
	if (b->updates++ == 0)
		b->durts_first = durts;
	b->durts_last = durts;
	const struct frame_update u = {.durts = (uint32_t)(durts - b->durts_first), .bytes = bytes};
	memcpy(b->message + b->used, &u, sizeof u);
	uint8_t *const entries = b->message + b->used + sizeof u;
	b->used += sizeof u + bytes;
	return entries;
}

void *frame_add_side(
        struct frame_builder *b, uint64_t durts, const struct frame_side *side, uint32_t bytes)
{
	FUR_ASSERT(b->kind == FRAME_SIDE && b->used == sizeof(struct frame_head));
	FUR_ASSERT(bytes % FRAME_ALIGN == 0);
	if (!fits(b, sizeof *side, bytes))
		return NULL;
	b->durts_first = b->durts_last = durts;
	memcpy(b->message + b->used, side, sizeof *side);
	uint8_t *const data = b->message + b->used + sizeof *side;
	b->used += sizeof *side + bytes;
	return data;
}

bool frame_add_payload(struct frame_builder *b, const void *payload, size_t bytes)
{
	FUR_ASSERT(b->kind != FRAME_DATA && b->kind != FRAME_SIDE);
	FUR_ASSERT(b->used == sizeof(struct frame_head));
	if (bytes > b->room || !fits(b, 0, round_up(bytes, FRAME_ALIGN)))
		return false;
	memset(b->message + b->used, 0, round_up(bytes, FRAME_ALIGN));
	if (bytes)
		memcpy(b->message + b->used, payload, bytes);
	b->used += round_up(bytes, FRAME_ALIGN);
	return true;
}

/* Only now: the caller has stored the entries after frame_add_update(). */
static void seal_updates(const struct frame_builder *b)
{
	size_t at = sizeof(struct frame_head);
	while (at < b->used) {
		struct frame_update u;
		memcpy(&u, b->message + at, sizeof u);
		u.check = check_of(b->message + at + sizeof u, u.bytes, b->durts_first + u.durts);
		memcpy(b->message + at, &u, sizeof u);
		at += sizeof u + u.bytes;
	}
}

size_t frame_seal(struct frame_builder *b, const uint8_t uuid[16], const struct frame_place *place,
        struct frame_head *head)
{
	*head = (struct frame_head){.version = FRAME_VERSION,
	        .kind = (uint16_t)b->kind,
	        .flags = b->flags,
	        .term = place->term,
	        .lineage = place->lineage,
	        .frame_no = place->frame_no,
	        .durts_first = b->durts_first,
	        .durts_last = b->durts_last,
	        .updates = b->updates,
	        .bytes = (uint32_t)(b->used - sizeof *head),
	        .chain_before = place->chain};
	memcpy(head->magic, FRAME_MAGIC, sizeof head->magic);
	memcpy(head->uuid, uuid, sizeof head->uuid);
	if (b->kind == FRAME_DATA)
		seal_updates(b);
	memcpy(b->message, head, sizeof *head);
	head->chain = chain_of(b->message, head);
	memcpy(b->message, head, sizeof *head);
	return b->used;
}
