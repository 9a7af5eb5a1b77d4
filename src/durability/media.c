/* SPDX-License-Identifier: BSD-3-Clause
 *
 * media.c - checksums of what is in a heap file (media.h).  XXH3, 64 bits: its value is fixed since xxHash 0.8.
 */
#include "media.h"

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

uint64_t media_marker_checksum(const struct media_super *super, const struct media_marker *marker, const uint8_t *log)
{
	/* Seeded with the file's own number, so that a log copied from another heap does not pass. */
	uint64_t sum = XXH3_64bits_withSeed(marker, offsetof(struct media_marker, checksum), super->checksum);
	uint64_t at = marker->log_start & (super->log_bytes - 1);
	uint64_t first = super->log_bytes - at < marker->log_bytes ? super->log_bytes - at : marker->log_bytes;
	sum = XXH3_64bits_withSeed(log + at, first, sum);
	if (marker->log_bytes > first)
		sum = XXH3_64bits_withSeed(log, marker->log_bytes - first, sum);
	return sum;
}

int media_tail(const struct media_super *super, uint64_t *tail)
{
	uint64_t a, b;
	/* Another process may be writing them, the first copy before the second: read the other way round, so that a is never the older. */
	uint64_t second = __atomic_load_n(&super->tail[1][0], __ATOMIC_ACQUIRE),
	         first = __atomic_load_n(&super->tail[0][0], __ATOMIC_RELAXED);
	int bad_a = media_tail_decode(first, &a), bad_b = media_tail_decode(second, &b);
	/* The first copy is written, and durable, before the second: they differ by one step at most.  The older is always right, for
	 * replaying again does no harm. */
	if (bad_a || bad_b || a < b || a - b > 2 * super->ring_slots)
		return -1;
	*tail = b;
	return 0;
}
