/* SPDX-License-Identifier: BSD-3-Clause
 *
 * model.h - what persistent memory takes, in time.
 *
 * Writes: a line is out `write` after its write-back was issued, and the device takes one line
 * every `gap`, of all threads together; a fence waits for the thread's own.  Reads: a line that is
 * not in the modelled cache is fetched, which takes `read`; lines that one call fetches overlap, as
 * many at a time as a core has in flight.
 */
#ifndef PM_EMULATE_MODEL_H
#define PM_EMULATE_MODEL_H

#include "shared.h"

/* A thread's write-backs: when the last one is out, in ticks. */
struct model_thread {
	uint64_t done;
};

void model_init(const struct pme_settings *settings);

/* Is the line to be fetched?  It is in the cache now. */
bool model_miss(uint32_t region, uint64_t offset);

/* Wait for lines that are fetched; returns the nanoseconds. */
uint64_t model_read(uint64_t lines);

/* Write-backs of so many lines begin. */
void model_write(struct model_thread *t, uint64_t lines);

/* Wait until they are out; returns the nanoseconds. */
uint64_t model_wait(const struct model_thread *t);

#endif /* PM_EMULATE_MODEL_H */
