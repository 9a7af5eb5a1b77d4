/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ship_page.c - see ship_page.h.
 */
#include "media/ship_page.h"

#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static uint64_t checksum_of(const struct media_super *super, const struct media_ship *ship)
{
	return XXH3_64bits_withSeed(ship, offsetof(struct media_ship, checksum), super->checksum);
}

/* The number of the copy that counts, or -1; *ship is what it has. */
static int copy_that_counts(
        const struct media_super *super, const struct media_super *words, struct media_ship *ship)
{
	int counts = -1;
	for (int k = 0; k < MEDIA_SHIP_COPIES; k++) {
		struct media_ship copy;
		memcpy(&copy, (const uint8_t *)words + MEDIA_SHIP_OFFSET + (size_t)k * sizeof copy,
		        sizeof copy);
		if (copy.checksum != checksum_of(super, &copy) || copy.role >= MEDIA_ROLES ||
		        copy.log[sizeof copy.log - 1] ||
		        (counts >= 0 && copy.sequence <= ship->sequence))
			continue;
		*ship = copy;
		counts = k;
	}
	return counts;
}

int media_ship_read(
        const struct media_super *super, const struct media_super *words, struct media_ship *ship)
{
	memset(ship, 0, sizeof *ship);
	if (!media_ships(super))
		return 0;
	return copy_that_counts(super, words, ship) < 0 ? -1 : 0;
}

uint64_t media_ship_complete(
        const struct media_super *super, const struct media_super *words, struct media_ship *ship)
{
	struct media_ship now = {0};
	const int copy = copy_that_counts(super, words, &now) == 0;
	ship->sequence = now.sequence + 1;
	ship->checksum = checksum_of(super, ship);
	return MEDIA_SHIP_OFFSET + (uint64_t)copy * sizeof *ship;
}
