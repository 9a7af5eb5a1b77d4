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

/* The bytes of a word that an entry stores.  An entry whose place is no multiple of 8 has words of
 * which only a part changes. */
struct apply_word {
	uint32_t place; /* in the shard, in words */
	uint32_t mask;  /* bit k: byte k changes */
	uint64_t value;
};

/* Row k of `words` in memory has first[k] to first[k] + count[k] for tasklet k. */
struct apply_job {
	near_address image, words;
	uint32_t first[NEAR_MOST_TASKLETS], count[NEAR_MOST_TASKLETS];
};

/* A tasklet's words, by halves, and a word of the image. */
struct apply_room {
	struct apply_word half[2][APPLY_PORTION];
	uint64_t merged;
};

struct apply_shared {
	struct apply_job job;
	struct apply_room room[NEAR_MOST_TASKLETS] NEAR_ALIGN;
};

#endif /* BENCH_REPLAY_KERNELS_APPLY_H */
