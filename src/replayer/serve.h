/* SPDX-License-Identifier: BSD-3-Clause
 *
 * serve.h - a replayer beside the process that works on a heap: it carries the log over to the heap
 * while transactions run, and when that process has died, brings the heap up to date and marks it
 * closed.  It waits for the next one then.
 *
 *   INV-S1  One replayer a heap (HEAP_LOCK_REPLAYER).
 *   INV-S2  It may die at any instant: the worker sees that by the lock, takes the right to replay
 *           and goes on from the tail on the medium (INV-C2); so does the next replayer.
 *   INV-S3  It recovers a heap only under the right to replay, while nobody holds the worker's
 *           lock.  A worker that comes meanwhile waits for the right before it looks at the heap's
 *           state.
 *   INV-S4  It sleeps whenever there is little to do, and is called (control_wake,
 *           control_wait_for_replayer); it never polls.
 */
#ifndef FUR_SERVE_H
#define FUR_SERVE_H

#include "api/attach.h"

struct server;

struct server_events {
	/* The process that worked on the heap is gone without closing it; what recovery did. */
	void (*recovered)(void *self, const struct replay_result *result);
	void (*attached)(void *self, uint64_t pid); /* a process has opened the heap */
	void (*detached)(void *self);               /* it has closed it */
	void *self;
};

/* Open the heap as its replayer, which replays as `replay` says.   Errors: as fur_open(); FUR_EBUSY
 * if it has one. */
FUR_MUST_USE int server_start(const char *path, const struct replay_options *replay,
        const struct server_events *events, struct server **server);

/* Replay until server_stop(), or the file is removed (FUR_ENOENT).   Errors: FUR_ECORRUPT, FUR_EIO,
 * FUR_ESYS. */
FUR_MUST_USE int server_run(struct server *server);

/* Make server_run() return, after the replay at hand.  Async-signal-safe. */
void server_stop(struct server *server);

void server_end(struct server *server);

/* Who works on a heap now; writes nothing, takes no lock, so all of it may be old news. */
struct server_status {
	uint64_t worker_pid, replayer_pid; /* 0: nobody */
	bool closed, asleep;
	/* Slots written and not replayed, up to the first that is not written */
	uint64_t slots, ring_slots;
	uint64_t replays, replayed_updates;
};
FUR_MUST_USE int server_status(const char *path, struct server_status *status);

#endif /* FUR_SERVE_H */
