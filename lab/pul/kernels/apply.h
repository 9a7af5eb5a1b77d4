/* SPDX-License-Identifier: BSD-3-Clause
 *
 * apply.h - what near_replay.cpp gives to the kernel of apply.c: words to store to a shard of a
 * heap's image, sorted by the tasklet that stores them.
 */
#ifndef BENCH_REPLAY_KERNELS_APPLY_H
#define BENCH_REPLAY_KERNELS_APPLY_H

#include "near/kernel.h"

enum {
	APPLY_PORTION = 32, /* words that a tasklet reads at a time */
	APPLY_WHOLE = 0xff,
};

/* Words to store.  Values of neighbours lie side by side, so that one transfer stores them.  An
 * entry whose place is no multiple of 8 has words of which only a part changes. */
struct apply_portion {
	uint32_t
	        place[APPLY_PORTION]; /* in the shard, in words, times 256; bit k: byte k changes */
	uint64_t value[APPLY_PORTION];
};

/* Of a tasklet: words, and the place of its first portion. */
struct apply_job {
	near_address image, portions[NEAR_MOST_TASKLETS];
	uint32_t words[NEAR_MOST_TASKLETS];
};

/* A tasklet's portions, and a word of the image. */
struct apply_room {
	struct apply_portion half[2];
	uint64_t merged;
};

struct apply_shared {
	struct apply_job job;
	struct apply_room room[NEAR_MOST_TASKLETS] NEAR_ALIGN;
};

#endif /* BENCH_REPLAY_KERNELS_APPLY_H */
