/* SPDX-License-Identifier: BSD-3-Clause
 *
 * serve.h - a replayer alongside the process that works on a heap.  It replays the log to the heap
 * while transactions run.  When that process has died, the replayer brings the heap up to date,
 * marks it closed, and waits for the next process.
 *
 * The contract of src/replayer: the program fur-replayer, which replays alongside a process and
 * after it.
 *
 *   INV-S1  A heap has at most one replayer (HEAP_LOCK_REPLAYER).
 *   INV-S2  The replayer may die at any instant.  The worker sees from the lock that it has died,
 *           takes the right to replay, and continues from the tail on the medium (INV-C2); so does
 *           the next replayer.
 *   INV-S3  The replayer recovers a heap only under the right to replay, while no process holds the
 *           worker's lock.  A worker that opens the heap meanwhile waits for the right to replay
 *           before it looks at the heap's state.
 *   INV-S4  The replayer never polls.  Whenever there is little to do, it sleeps until a worker
 *           calls it (control_wake, control_wait_for_replayer).
 */
#ifndef FUR_SERVE_H
#define FUR_SERVE_H

#include "api/attach.h"
#include "durability/ring.h"

struct server;

struct server_events {
	/* The process that worked on the heap died without closing it; `result` of the recovery */
	void (*recovered)(void *self, const struct replay_result *result);
	/* The same, and another program recovers the heap: fur-ship, because its updates are
	 * shipped (INV-SH4); or one that opens its group (INV-GU5).  `why` says so */
	void (*left)(void *self, const char *why);
	void (*attached)(void *self, uint64_t pid); /* a process opened the heap */
	void (*detached)(void *self);               /* it closed the heap */
	void *self;
};

/* Become the replayer of the heap that is open as `fd`, which belongs to the server, even after an
 * error.  `path` is for messages.  Errors: as fur_open(); FUR_EBUSY if the heap has a replayer. */
FUR_MUST_USE int server_start(int fd, const char *path, const struct replay_options *replay,
        const struct server_events *events, struct server **server);

/* Replay until server_stop() is called, or the file is removed (FUR_ENOENT).  Errors: FUR_ECORRUPT,
 * FUR_EIO, FUR_ESYS. */
FUR_MUST_USE int server_run(struct server *server);

/* Make server_run() return after the current replay.  Async-signal-safe. */
void server_stop(struct server *server);

void server_end(struct server *server);

/* The processes that work on a heap, and the work left to the replayer.  server_status() writes
 * nothing and takes no lock, so all of it may be out of date.  It closes `fd`. */
struct server_status {
	uint64_t worker_pid, replayer_pid; /* 0: none */
	bool closed, asleep;
	bool ships;  /* a primary, which fur-ship recovers (INV-SH4) */
	bool fenced; /* one whose place another node has taken */
	bool member; /* of a group, with which it may have to be recovered */
	/* Slots with a marker that is not replayed, up to the first slot without one */
	uint64_t slots, ring_slots;
	uint64_t replays, replayed_updates;
	struct control_preload preload;
};
FUR_MUST_USE int server_status(int fd, const char *path, struct server_status *status);

#endif /* FUR_SERVE_H */
