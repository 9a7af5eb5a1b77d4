/* SPDX-License-Identifier: BSD-3-Clause
 *
 * totals.h - what the host and the kernel `totals` share.
 */
#ifndef FUR_TESTS_NEAR_TOTALS_H
#define FUR_TESTS_NEAR_TOTALS_H

#include "near/kernel.h"

enum { TOTALS_BLOCK = 64, TOTALS_DISTANCE = 4 };

struct totals {
	uint32_t blocks;        /* at address 0: each TOTALS_BLOCK bytes */
	uint32_t mode;          /* enum totals_mode */
	uint64_t total;         /* of all words, under lock 0 */
	uint32_t after_barrier; /* tasklets that saw the whole total after the barrier */
	uint32_t pad;
	NEAR_ALIGN uint32_t block[NEAR_MOST_TASKLETS][TOTALS_DISTANCE][TOTALS_BLOCK / 4];
};

/* How the kernel is right, or wrong. */
enum totals_mode {
	TOTALS_READ,      /* local reads */
	TOTALS_PRELOAD,   /* preloads in batches */
	TOTALS_NO_WAIT,   /* consumes before the wait */
	TOTALS_OVERWRITE, /* preloads over data under way */
	TOTALS_FAULT,     /* reports 77 */
};

#endif /* FUR_TESTS_NEAR_TOTALS_H */
