/* SPDX-License-Identifier: BSD-3-Clause
 *
 * control_region.h - the file's control region: memory that a working process and a replayer beside
 * it have mapped.  It means nothing when neither runs.  What they do with it: durability/control.h.
 */
#ifndef FUR_CONTROL_REGION_H
#define FUR_CONTROL_REGION_H

#include "base/arch.h"

#define CONTROL_ASLEEP_NOT UINT64_MAX
/* The worker calls the replayer when an eighth of the ring, or of a log, is in use. */
#define CONTROL_WAKE_PART 8

struct control {
	uint64_t tail; /* first durTS not replayed */
	/* The replayer sleeps: an update with this durTS, or a later one, wakes it.  Else
	 * CONTROL_ASLEEP_NOT. */
	uint64_t wake_at ARCH_PADDED;
	uint32_t calls ARCH_PADDED; /* futex of the replayer: one more for each call */
	uint32_t moved;             /* futex of who waits for room: one more for each replay */
	/* Futex of the replayer's watch: one more for each process that opened the heap */
	uint32_t opened;
	/* The worker has the right to replay without its lock; means nothing once it has died
	 * (INV-C4) */
	uint32_t claimed;
	uint64_t worker_pid, replayer_pid; /* for people; 0: none.  Who lives is in the locks. */
	/* Since the open, by whomever; changed under the right to replay */
	uint64_t replays ARCH_PADDED;
	uint64_t replayed_updates, replayed_entries;
	uint8_t gap2[4096 - 4 * ARCH_PAD];
	struct control_log {
		uint64_t tail ARCH_PADDED; /* of one thread's log: everything below is replayed */
	} logs[];                          /* [max_threads] */
};
_Static_assert(offsetof(struct control, logs) == 4096, "the region's size says so, too");
#define CONTROL_BYTES(threads)                                                                     \
	(sizeof(struct control) + (uint64_t)(threads) * sizeof(struct control_log))

#endif /* FUR_CONTROL_REGION_H */
