/* SPDX-License-Identifier: BSD-3-Clause
 *
 * totals.c - add up all words of blocks in memory, and write the total behind them, in the
 * place of the element.
 */
#include "totals.h"

static uint64_t sum_of(const uint32_t *words)
{
	uint64_t sum = 0;
	for (unsigned k = 0; k < TOTALS_BLOCK / 4; k++)
		sum += words[k];
	return sum;
}

static uint64_t read_all(struct totals *shared)
{
	uint32_t *words = shared->block[near_me()][0];
	uint64_t sum = 0;
	for (uint32_t k = near_me(); k < shared->blocks; k += near_tasklets()) {
		near_local_read(words, k * TOTALS_BLOCK, TOTALS_BLOCK);
		sum += sum_of(words);
	}
	return sum;
}

static uint64_t preload_all(struct totals *shared)
{
	const uint32_t mode = shared->mode, step = near_tasklets();
	uint64_t sum = 0;
	for (uint32_t k = near_me(); k < shared->blocks; k += TOTALS_DISTANCE * step) {
		uint32_t n = 0;
		for (; n < TOTALS_DISTANCE && k + n * step < shared->blocks; n++) {
			uint32_t *to = shared->block[near_me()][mode == TOTALS_OVERWRITE ? 0 : n];
			near_preload(to, (k + n * step) * TOTALS_BLOCK, TOTALS_BLOCK);
		}
		if (mode != TOTALS_NO_WAIT)
			near_wait(NEAR_PRELOADS);
		for (uint32_t i = 0; i < n; i++)
			sum += sum_of(shared->block[near_me()][i]);
		near_wait(NEAR_PRELOADS);
	}
	return sum;
}

NEAR_KERNEL(totals, struct totals)
{
	if (shared->mode == TOTALS_FAULT && near_me() == near_tasklets() - 1)
		near_fault(77);
	uint64_t sum = shared->mode == TOTALS_READ ? read_all(shared) : preload_all(shared);
	near_acquire(0);
	shared->total += sum;
	near_release(0);
	near_barrier();
	near_acquire(1);
	shared->after_barrier++;
	near_release(1);
	if (near_me() == 0) {
		near_unload(shared->blocks * TOTALS_BLOCK + near_element() * 8, &shared->total, 8);
		near_wait(NEAR_UNLOADS);
	}
}
