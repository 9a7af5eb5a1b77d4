/* SPDX-License-Identifier: BSD-3-Clause
 *
 * preload.h - how far ahead a replay preloads memory, and by which strategy.
 *
 * A replay walks over updates, or over their entries.  Each walk preloads what it will need some
 * steps later.  With d for the distance:
 *
 *     sequential   at each step, preload what step + d needs
 *     batch-wise   at each d-th step, preload what the next d steps but d need; so a step is
 *                  preloaded d to 2 d steps ahead
 *
 * Strategies and distances come from PUL (Bernhardt et al., "Pre-load in Software for Caches
 * Wouldn't Always Play Along").  There are two pipelines, each with a distance of its own: the one
 * that only reads markers and records (inspection), and the one that stores to the heap.
 *
 * The best distance depends on the memory.  With REPLAY_PRELOAD_AUTO a process measures it, once
 * for each pipeline of an open heap, with the first real work that is worth it: it takes the same
 * number of steps at each of some distances, several times in turns, and keeps the best.  Until
 * then it uses REPLAY_PRELOAD_DEFAULT.
 *
 *   INV-R9  The distance changes only when, not whether or in which order, a walk takes its steps:
 *           so a replay writes the same bytes whichever distance is measured or chosen.
 */
#ifndef FUR_PRELOAD_H
#define FUR_PRELOAD_H

#include "durability/durability.h"

/* One walk of one thread. */
struct preload {
	const struct durability *d;
	struct preload_tuning *tuning; /* NULL: this walk does not measure */
	uint32_t distance;
	bool batch;
	uint64_t next;  /* step at which the walk next looks at the clock */
	uint64_t ticks; /* when it last did */
	/* Of a walk over updates: the records and markers below these durTSs are preloaded */
	uint64_t records, markers;
};

/* Begin a walk that starts at `step`.  `measures`: it may measure distances; one thread at a time
 * does that for a pipeline, and between preload_begin() and preload_end(). */
void preload_begin(struct preload *p, struct durability *d, enum preload_pipeline pipeline,
        uint64_t step, bool measures);
void preload_end(struct preload *p, uint64_t step);

/* Called by preload_step(): the steps at one distance are done. */
void preload_measured(struct preload *p, uint64_t step);

/* The distance that a walk begins with, unless it measures. */
uint32_t preload_distance(const struct durability *d, enum preload_pipeline pipeline);

/* Tell a walk at which step it is.  The distance may change. */
static inline void preload_step(struct preload *p, uint64_t step)
{
	if (unlikely(step >= p->next))
		preload_measured(p, step);
}

/* The walk goes from durTS to durTS, beginning with `from`.  When it has reached `at`, preload the
 * markers and records below `end` that it will read soon. */
void preload_from_durts(struct preload *p, uint64_t from);
void preload_updates(struct preload *p, uint64_t at, uint64_t end);

/* Parse "auto", "D", "sequential:D" or "batch:D".  False: it is none of them. */
bool preload_parse(const char *text, struct replay_options *options);

/* Publish the strategy and the distances for fur-replayer --status.  The caller has the right to
 * replay. */
void preload_publish(const struct durability *d);

#endif /* FUR_PRELOAD_H */
