/* SPDX-License-Identifier: BSD-3-Clause
 *
 * media.c - the checksums in a heap file, and the words that carry one: tail and record head.  The
 * hash is XXH3 with 64 bits, whose values are fixed since xxHash 0.8.
 */
#include "media/log_view.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static const uint64_t TAIL_SEED = 0x7461696c;

uint64_t media_tail_encode(uint64_t durts)
{
	uint64_t check = XXH3_64bits_withSeed(&durts, sizeof durts, TAIL_SEED) >> 56;
	return durts << 8 | check;
}

int media_tail_decode(uint64_t word, uint64_t *durts)
{
	*durts = word >> 8;
	return media_tail_encode(*durts) == word ? 0 : -1;
}

void media_parts_encode(uint8_t *at, const struct media_parts *parts)
{
	uint64_t words[2 + MEDIA_PARTS_MOST + 1];
	FUR_ASSERT(parts->n >= MEDIA_PARTS_LEAST && parts->n <= MEDIA_PARTS_MOST);
	words[0] = media_entry_word(parts->n | (uint64_t)parts->mine << 8, MEDIA_ENTRY_PARTS);
	words[1] = parts->id;
	for (uint32_t k = 0; k < parts->n; k++)
		words[2 + k] = (uint64_t)parts->part[k].member << MEDIA_PART_DURTS_BITS |
		               parts->part[k].durts;
	words[2 + parts->n] = 0;
	memcpy(at, words, media_parts_bytes(parts->n));
}

bool media_parts_decode_word(uint64_t word, struct media_parts *parts)
{
	const uint64_t low = media_entry_offset(word);
	parts->n = low & 0xff;
	parts->mine = low >> 8 & 0xff;
	return media_entry_payload(word) == MEDIA_ENTRY_PARTS && low >> 16 == 0 &&
	       parts->n >= MEDIA_PARTS_LEAST && parts->n <= MEDIA_PARTS_MOST &&
	       parts->mine < parts->n;
}

uint64_t log_bulk_check(const uint8_t *heap, uint64_t heap_bytes, const struct log_entry *e)
{
	const uint64_t bytes = media_bulk_rows(&e->bulk) * sizeof(struct media_bulk_row);
	if (!(e->bulk.rows & MEDIA_BULK_CHECKED))
		return XXH3_64bits(heap + e->offset, bytes);
	struct log_bulk rows = log_bulk_at(heap, heap_bytes, e), results = rows;
	XXH3_state_t sum;
	XXH3_64bits_reset(&sum);
	XXH3_64bits_update(&sum, heap + e->offset, bytes);
	while (log_bulk_next_row(&rows))
		XXH3_64bits_update(
		        &sum, heap + rows.now.changed, media_bulk_changed_bytes(rows.now.count));
	while (log_bulk_next(&results))
		XXH3_64bits_update(&sum, results.piece.payload, results.piece.bytes);
	return XXH3_64bits_digest(&sum);
}

uint64_t media_super_checksum(const struct media_super *super)
{
	return XXH3_64bits(super, offsetof(struct media_super, checksum));
}

uint64_t media_more_checksum(const struct media_super *super)
{
	return XXH3_64bits_withSeed(
	        &super->more, offsetof(struct media_more, checksum), super->checksum);
}

uint64_t media_heap_bytes(const struct media_super *super, const struct media_super *words)
{
	uint64_t bytes = 0, chunks;
	if (!media_grows(super))
		return super->heap_bytes;
	/* The blocks are there before the first copy is written, so the larger copy is right, even
	 * while another process writes them. */
	for (int k = 0; k < 2; k++)
		if (media_tail_decode(arch_load(&words->grown[k][0]), &chunks) == 0 &&
		        chunks <= super->heap_bytes / MEDIA_PAGE_BYTES &&
		        chunks * MEDIA_PAGE_BYTES > bytes)
			bytes = chunks * MEDIA_PAGE_BYTES;
	return bytes;
}

uint32_t media_logs(const struct media_super *super, const struct media_super *words)
{
	uint64_t logs;
	if (super->version < 2 || media_tail_decode(arch_load(&words->logs), &logs) ||
	        logs > super->max_threads)
		return super->max_threads;
	return (uint32_t)logs;
}

uint64_t media_marker_checksum(
        const struct media_super *super, const struct media_marker *marker, const uint8_t *log)
{
	/* Seeded with the file's own checksum, so that a log copied from another heap does not
	 * pass. */
	uint64_t sum = XXH3_64bits_withSeed(
	        marker, offsetof(struct media_marker, checksum), super->checksum);
	struct log_ranges r = log_ranges_of(super, marker->log_start, log_record_end(marker));
	sum = XXH3_64bits_withSeed(log + r.place[0], r.bytes[0], sum);
	if (r.bytes[1])
		sum = XXH3_64bits_withSeed(log + r.place[1], r.bytes[1], sum);
	return sum;
}

int media_tail(const struct media_file *file, uint64_t *tail)
{
	uint64_t a, b;
	/* Another process may be writing the copies, the first before the second.  The acquire
	 * makes us read them in the other order, so that `a` is never the older one; otherwise we
	 * would take a write under way for damage. */
	uint64_t second = arch_load_acquire(&file->words->tail[1][0]),
	         first = arch_load(&file->words->tail[0][0]);
	int bad_a = media_tail_decode(first, &a), bad_b = media_tail_decode(second, &b);
	/* The writer makes the first copy durable before it writes the second, so they differ by at
	 * most one step.  The older copy is always right, because replaying again does no harm. */
	if (bad_a || bad_b || a < b || a - b > 2 * file->super->ring_slots)
		return -1;
	*tail = b;
	return 0;
}

uint64_t media_recovery_end(const struct media_file *file, uint64_t tail)
{
	uint64_t end = tail + file->super->ring_slots, forget;
	if (media_tail_decode(arch_load(&file->words->forget[0]), &forget) == 0 && forget >= tail &&
	        forget < end)
		return forget;
	return end;
}

/* -------------------------------------------------------------------- heads */

static uint32_t head_check(const struct media_super *super, uint32_t thread, uint64_t position,
        uint64_t durts, const struct media_head *head)
{
	const struct {
		uint64_t durts, place;
		uint16_t own, settled, clear, gap;
	} checked = {durts, thread * super->log_bytes + (position & (super->log_bytes - 1)),
	        head->own, head->settled, head->clear, head->gap};
	return (uint32_t)XXH3_64bits_withSeed(&checked, sizeof checked, super->checksum);
}

static uint16_t claim_encode(uint64_t durts, uint64_t claim)
{
	uint64_t back = durts - claim;
	return claim == 0 || back >= MEDIA_NO_CLAIM ? MEDIA_NO_CLAIM : (uint16_t)back;
}

static uint64_t claim_decode(uint64_t durts, uint16_t back)
{
	return back == MEDIA_NO_CLAIM ? 0 : durts - back;
}

struct media_head media_head_encode(const struct media_super *super, uint32_t thread,
        uint64_t position, const struct media_claims *claims)
{
	struct media_head head = {.durts = (uint32_t)claims->durts,
	        .own = claim_encode(claims->durts, claims->own),
	        .settled = claim_encode(claims->durts, claims->settled),
	        .clear = claim_encode(claims->durts, claims->clear)};
	head.check = head_check(super, thread, position, claims->durts, &head);
	return head;
}

int media_head_decode(const struct media_super *super, uint32_t thread, uint64_t position,
        uint64_t tail, const struct media_head *head, struct media_claims *claims)
{
	uint64_t durts = tail + (uint32_t)(head->durts - (uint32_t)tail);
	if (durts - tail >= super->ring_slots ||
	        head->check != head_check(super, thread, position, durts, head))
		return -1;
	*claims = (struct media_claims){durts, claim_decode(durts, head->own),
	        claim_decode(durts, head->settled), claim_decode(durts, head->clear)};
	return 0;
}
