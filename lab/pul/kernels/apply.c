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
 *
 * The tests compile plants into this file: PLANT_ORDER breaks INV-RN1, PLANT_REFILL INV-RN2.
 */
#include "apply.h"

/* The other bytes of the word stay as they are (INV-RN1). */
static void merge(near_address to, uint32_t mask, const uint64_t *value, uint64_t *merged)
{
	uint8_t *byte = (uint8_t *)merged;
	const uint8_t *from = (const uint8_t *)value;
#ifndef PLANT_ORDER
	near_wait(NEAR_UNLOADS);
#endif
	near_local_read(merged, to, 8);
	for (uint32_t k = 0; k < 8; k++)
		if (mask >> k & 1)
			byte[k] = from[k];
	near_local_write(to, merged, 8);
}

/* Whole words from `place` on, which are neighbours in memory. */
static inline uint32_t neighbours(const uint32_t *place, const uint32_t *end)
{
	uint32_t n = 1;
	while (place + n != end && place[n] == place[0] + (n << 8))
		n++;
	return n;
}

static void store(near_address image, struct apply_room *room, uint32_t half, uint32_t n)
{
	struct apply_portion *p = &room->half[half];
	for (uint32_t k = 0, run; k < n; k += run) {
		const near_address to = image + (p->place[k] >> 8) * 8;
		if ((p->place[k] & APPLY_WHOLE) == APPLY_WHOLE) {
			run = neighbours(&p->place[k], &p->place[n]);
			near_unload(to, &p->value[k], run * 8);
		} else {
			run = 1;
			merge(to, p->place[k], &p->value[k], &room->merged);
		}
	}
}

static uint32_t preload(struct apply_portion *half, near_address from, uint32_t left)
{
	if (left)
		near_preload(half, from, sizeof *half);
	return left < APPLY_PORTION ? left : APPLY_PORTION;
}

NEAR_KERNEL(apply, struct apply_shared)
{
	struct apply_room *room = &shared->room[near_me()];
	near_address from = shared->job.portions[near_me()];
	uint32_t left = shared->job.words[near_me()], half = 0;
	uint32_t n = preload(&room->half[0], from, left);
	near_wait(NEAR_PRELOADS);
	while (n) {
		left -= n;
		from += sizeof(struct apply_portion);
#ifndef PLANT_REFILL
		near_wait(NEAR_UNLOADS); /* from the other half (INV-RN2) */
#endif
		uint32_t next = preload(&room->half[!half], from, left);
		store(shared->job.image, room, half, n);
		near_wait(NEAR_PRELOADS);
		half = !half;
		n = next;
	}
	near_wait(NEAR_UNLOADS);
}
