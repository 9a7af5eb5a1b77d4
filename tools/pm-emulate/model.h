/* SPDX-License-Identifier: BSD-3-Clause
 *
 * model.h - the time that persistent memory takes.
 *
 * Writes: a line is out `write` after its write-back was issued, and the device takes one line
 * every `gap`, of all threads together.  A fence waits for its own thread's lines.  Reads: a line
 * that is not in the modelled cache must be fetched, which takes `read`.  The lines that one call
 * fetches overlap, as many at a time as a core can have in flight.
 */
#ifndef PM_EMULATE_MODEL_H
#define PM_EMULATE_MODEL_H

#include "shared.h"

/* When the last of a thread's write-backs is out, in ticks. */
struct model_thread {
	uint64_t done;
};

void model_init(const struct pme_settings *settings);

/* Must the line be fetched?  Now the cache has it. */
bool model_miss(uint32_t region, uint64_t offset);

/* Wait until this many lines are fetched; returns the nanoseconds that it took. */
uint64_t model_read(uint64_t lines);

/* Begin the write-backs of this many lines. */
void model_write(struct model_thread *t, uint64_t lines);

/* Wait until they are out; returns the nanoseconds that it took. */
uint64_t model_wait(const struct model_thread *t);

#endif /* PM_EMULATE_MODEL_H */
