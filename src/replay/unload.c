/* SPDX-License-Identifier: BSD-3-Clause
 *
 * unload.c - write back the blocks that wait (unload.h).
 */
#include "replay/unload.h"

#include <string.h>

/* Neighbouring lines whose write-back has not started yet. */
struct run {
	uint64_t from, to; /* numbers of lines */
};

static void run_leaves(const struct unload *u, const struct run *run)
{
	pm_flush(u->pm, u->image + run->from * ARCH_FLUSH_LINE,
	        (run->to - run->from) * ARCH_FLUSH_LINE);
}

/* Add the lines of a place to the run, or let the run leave if they are no neighbours. */
static void run_add(const struct unload *u, struct run *run, uint64_t place)
{
	uint64_t base = place >> UNLOAD_MASK_BITS << u->block_shift,
	         lines = place & ((UINT64_C(1) << UNLOAD_MASK_BITS) - 1);
	while (lines) {
		unsigned first = (unsigned)__builtin_ctzll(lines),
		         n = (unsigned)__builtin_ctzll(~(lines >> first));
		if (base + first != run->to) {
			run_leaves(u, run);
			run->from = base + first;
		}
		run->to = base + first + n;
		lines &= ~(((UINT64_C(1) << n) - 1) << first);
	}
}

void unload_place(struct unload *u, uint64_t place)
{
	struct run run = {0};
	run_add(u, &run, place);
	run_leaves(u, &run);
}

void unload_rest(struct unload *u)
{
	struct run run = {0};
	for (unsigned n = 0; n < UNLOAD_PLACES / 64; n++)
		for (; u->filled[n]; u->filled[n] &= u->filled[n] - 1) {
			uint64_t *place =
			        &u->places[n * 64 + (unsigned)__builtin_ctzll(u->filled[n])];
			run_add(u, &run, *place);
			*place = 0;
		}
	run_leaves(u, &run);
}

void unload_begin(struct unload *u, struct pm *pm, uint8_t *image, unsigned lines)
{
	FUR_ASSERT(lines && (lines & (lines - 1)) == 0 && lines <= UNLOAD_MASK_BITS);
	u->pm = pm;
	u->image = image;
	u->block_shift = (unsigned)__builtin_ctz(lines);
	memset(u->places, 0, sizeof u->places);
	memset(u->filled, 0, sizeof u->filled);
}
