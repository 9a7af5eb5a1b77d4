/* SPDX-License-Identifier: BSD-3-Clause
 *
 * media.c - checksums of what is in a heap file (media.h).  XXH3, 64 bits: its value is fixed since
 * xxHash 0.8.
 */
#include "media/media.h"

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

uint64_t media_super_checksum(const struct media_super *super)
{
	return XXH3_64bits(super, offsetof(struct media_super, checksum));
}

uint64_t media_marker_checksum(
        const struct media_super *super, const struct media_marker *marker, const uint8_t *log)
{
	/* Seeded with the file's own number, so that a log copied from another heap does not
	 * pass. */
	uint64_t sum = XXH3_64bits_withSeed(
	        marker, offsetof(struct media_marker, checksum), super->checksum);
	uint64_t at = marker->log_start & (super->log_bytes - 1);
	uint64_t first = super->log_bytes - at < marker->log_bytes ? super->log_bytes - at
	                                                           : marker->log_bytes;
	sum = XXH3_64bits_withSeed(log + at, first, sum);
	if (marker->log_bytes > first)
		sum = XXH3_64bits_withSeed(log, marker->log_bytes - first, sum);
	return sum;
}

int media_tail(const struct media_file *file, uint64_t *tail)
{
	uint64_t a, b;
	/* Another process may be writing them, the first copy before the second: read the other way
	 * round, so that a is never the older. */
	uint64_t second = __atomic_load_n(&file->words->tail[1][0], __ATOMIC_ACQUIRE),
	         first = __atomic_load_n(&file->words->tail[0][0], __ATOMIC_RELAXED);
	int bad_a = media_tail_decode(first, &a), bad_b = media_tail_decode(second, &b);
	/* The first copy is written, and durable, before the second: they differ by one step at
	 * most.  The older is always right, for replaying again does no harm. */
	if (bad_a || bad_b || a < b || a - b > 2 * file->super->ring_slots)
		return -1;
	*tail = b;
	return 0;
}

uint64_t media_window_end(const struct media_file *file, uint64_t tail)
{
	uint64_t end = tail + file->super->ring_slots, forget;
	if (media_tail_decode(
	            __atomic_load_n(&file->words->forget[0], __ATOMIC_RELAXED), &forget) == 0 &&
	        forget >= tail && forget < end)
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

static uint16_t back_to(uint64_t durts, uint64_t claim)
{
	uint64_t back = durts - claim;
	return claim == 0 || back >= MEDIA_NO_CLAIM ? MEDIA_NO_CLAIM : (uint16_t)back;
}

static uint64_t claim_of(uint64_t durts, uint16_t back)
{
	return back == MEDIA_NO_CLAIM ? 0 : durts - back;
}

struct media_head media_head_encode(const struct media_super *super, uint32_t thread,
        uint64_t position, const struct media_claims *claims)
{
	struct media_head head = {.durts = (uint32_t)claims->durts,
	        .own = back_to(claims->durts, claims->own),
	        .settled = back_to(claims->durts, claims->settled),
	        .clear = back_to(claims->durts, claims->clear)};
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
	*claims = (struct media_claims){durts, claim_of(durts, head->own),
	        claim_of(durts, head->settled), claim_of(durts, head->clear)};
	return 0;
}
