/* SPDX-License-Identifier: BSD-3-Clause
 *
 * control_region.h - the layout of a heap file's control region: memory that a working process and
 * a replayer alongside it both map.  Its contents mean nothing when neither runs.  The functions
 * that use it are in durability/control.h.
 */
#ifndef FUR_CONTROL_REGION_H
#define FUR_CONTROL_REGION_H

#include "base/arch.h"

/* The value of wake_at while the replayer is awake. */
#define CONTROL_AWAKE UINT64_MAX
/* The worker calls the replayer when this part of the ring, or of a log, is in use: an eighth. */
#define CONTROL_WAKE_PART 8

/* How the newest replay preloaded, for messages only: preload_publish(). */
struct control_preload {
	uint32_t known; /* 0: nothing was replayed yet */
	uint32_t strategy, automatic;
	/* Of inspection and of replay: enum preload_pipeline */
	uint32_t distance[2], measured[2];
	uint32_t reserved[9];
};
_Static_assert(sizeof(struct control_preload) == 64, "");

/* The errand: what a bulk update asks the replayer for, and how far that is (bulk/errand.h has the
 * protocol). */
enum { ERRAND_NAME_BYTES = 64, ERRAND_ARG_BYTES = 2048, ERRAND_SAYS_BYTES = 512 };
/* What control_errand.request has next to the number. */
enum errand_state {
	ERRAND_NONE,
	ERRAND_ASKED,
	ERRAND_RUNS,
	ERRAND_DONE,
	/* `code` and `says` tell why; code 0: the replayer stopped, and the program maps all */
	ERRAND_REFUSED,
	ERRAND_STATES
};

static inline uint64_t errand_request(uint64_t number, enum errand_state state)
{
	return number * ERRAND_STATES + state;
}
static inline uint64_t errand_number(uint64_t request)
{
	return request / ERRAND_STATES;
}
static inline enum errand_state errand_state(uint64_t request)
{
	return (enum errand_state)(request % ERRAND_STATES);
}

/* Owners: bulk/{errand,operate}.c, replayer/operating.c, durability/control.c. */
struct control_errand {
	/* The number of the request, which only grows, and enum errand_state */
	uint64_t request;
	uint64_t done;  /* records, by the replayer */
	uint32_t asked; /* the replayer's futex: counts requests */
	uint32_t moved; /* the program's futex: counts what the replayer has done */
	/* The replayer's process, if that has operators; its lock tells whether it lives */
	uint64_t operators_pid;
	/* The rest is the request's.  `opened`: control.opened, of the program that asks */
	uint32_t opened, arg_bytes;
	uint64_t block, block_bytes, rows, records; /* where the results go */
	int64_t code;                               /* refused: FUR_E*, and the message */
	char name[ERRAND_NAME_BYTES], says[ERRAND_SAYS_BYTES];
	uint8_t arg[ERRAND_ARG_BYTES] __attribute__((aligned(16)));
};

/* Position in one thread's log: everything below it is replayed.
 * Owners: durability/control.c, replay/replay.c. */
struct control_log {
	uint64_t tail ARCH_PADDED;
};

/* What a working process and its replayer share.  Owner: durability/control.c. */
struct control {
	uint64_t tail; /* first durTS not replayed */
	/* While the replayer sleeps: an update with this durTS or a later one wakes it.
	 * Owners: durability/control.c, replayer/serve.c. */
	uint64_t wake_at ARCH_PADDED;
	/* The replayer's futex: counts calls of the replayer */
	uint32_t calls ARCH_PADDED;
	/* The futex of threads that wait for room: counts replays */
	uint32_t moved;
	/* The futex of the replayer's watch: counts processes that opened the heap.
	 * Owners: durability/control.c, replayer/serve.c. */
	uint32_t opened;
	/* 1: the worker has the right to replay without the lock (INV-C4).  Means nothing once the
	 * worker has died. */
	uint32_t claimed;
	/* For messages only; 0: none.  The file's locks tell which processes live.
	 * Owners: durability/control.c, api/close.c, replayer/serve.c. */
	uint64_t worker_pid, replayer_pid;
	/* Since the heap was opened, by either process; they change under the right to replay */
	uint64_t replays ARCH_PADDED;
	uint64_t replayed_updates, replayed_entries;
	/* Zero in a file of an older library; it does not know it, and leaves it alone.
	 * Owners: bulk/{errand,operate}.c, replayer/operating.c, durability/control.c. */
	struct control_errand errand ARCH_PADDED;
	uint8_t gap[4096 - 26 * ARCH_PAD - 64] ARCH_PADDED;
	struct control_preload preload __attribute__((aligned(64))); /* Owner: replay/preload.c. */
	/* [max_threads].  Owners: durability/control.c, replay/replay.c. */
	struct control_log logs[];
};
_Static_assert(offsetof(struct control, errand) == 512, "older files have zeros there");
_Static_assert(
        offsetof(struct control, preload) == 4096 - 64, "replayers of other versions look there");
_Static_assert(offsetof(struct control, logs) == 4096, "CONTROL_BYTES relies on it");
#define CONTROL_BYTES(threads)                                                                     \
	(sizeof(struct control) + (uint64_t)(threads) * sizeof(struct control_log))

#endif /* FUR_CONTROL_REGION_H */
