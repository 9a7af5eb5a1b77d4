/* SPDX-License-Identifier: BSD-3-Clause
 *
 * apply.c - replay's last phase near the memory: store the words of entries to the image.
 *
 * A tasklet preloads a portion of its words and unloads those of the portion before, straight from
 * where they were preloaded.
 *
 *   INV-RN1  A byte of the image has one tasklet that stores to it, in the order of its words: the
 *            host sorts them so, an engine carries unloads out in their order, and a word that is
 *            merged waits for those before it (INV-R4).
 *   INV-RN2  A half is filled again only after the wait for the unloads from it.
 */
#include "apply.h"

/* The other bytes of the word stay as they are (INV-RN1). */
static void merge(near_address to, const struct apply_word *w, uint64_t *merged)
{
	uint8_t *byte = (uint8_t *)merged;
	const uint8_t *from = (const uint8_t *)&w->value;
	near_wait(NEAR_UNLOADS);
	near_local_read(merged, to, 8);
	for (uint32_t k = 0; k < 8; k++)
		if (w->mask >> k & 1)
			byte[k] = from[k];
	near_local_write(to, merged, 8);
}

static uint32_t preload(struct apply_word *half, near_address from, uint32_t left)
{
	uint32_t n = left < APPLY_PORTION ? left : APPLY_PORTION;
	if (n)
		near_preload(half, from, n * sizeof(struct apply_word));
	return n;
}

NEAR_KERNEL(apply, struct apply_shared)
{
	struct apply_room *room = &shared->room[near_me()];
	const near_address image = shared->job.image;
	uint32_t left = shared->job.count[near_me()], half = 0;
	near_address from = shared->job.words +
	                    shared->job.first[near_me()] * (uint32_t)sizeof(struct apply_word);
	uint32_t n = preload(room->half[0], from, left);
	near_wait(NEAR_PRELOADS);
	while (n) {
		left -= n;
		from += n * (uint32_t)sizeof(struct apply_word);
		near_wait(NEAR_UNLOADS); /* from the other half (INV-RN2) */
		uint32_t next = preload(room->half[!half], from, left);
		for (struct apply_word *w = room->half[half], *end = w + n; w != end; w++) {
			const near_address to = image + w->place * 8;
			if (w->mask == APPLY_WHOLE)
				near_unload(to, &w->value, 8);
			else
				merge(to, w, &room->merged);
		}
		near_wait(NEAR_PRELOADS);
		half = !half;
		n = next;
	}
	near_wait(NEAR_UNLOADS);
}
