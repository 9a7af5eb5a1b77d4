/* SPDX-License-Identifier: BSD-3-Clause
 *
 * serve.h - ship the updates of a primary beside each program that opens it, and recover the heap
 * after a program that has died.
 *
 * With role.h and status.h it is the contract of src/fur_ship: the program fur-ship, which ships
 * the updates of a heap.
 *
 *   INV-FS1  A heap has at most one fur-ship (HEAP_LOCK_SHIP), and a program that gives the heap
 *            another role holds the same lock.
 *   INV-FS2  fur-ship may die at any instant.  The next one reads in the log what the log has
 *            (INV-SH33), beside the program or after it.
 *   INV-FS3  It ships only while a program holds HEAP_LOCK_WORKING, and recovers only while it
 *            holds HEAP_LOCK_WORKER itself.
 */
#ifndef FUR_SHIP_SERVE_H
#define FUR_SHIP_SERVE_H

#include "ship/recover.h"

struct service_events {
	void (*attached)(void *self, uint64_t pid); /* a program has opened the heap */
	void (*detached)(void *self);               /* it has closed the heap */
	void (*recovered)(void *self, const struct replay_result *result);
	struct shipper_events shipper; /* with its own `self` */
	void *self;
};

struct service {
	struct heap_file file;
	struct stream_engine *engine;
	struct shipper shipper;
	struct service_events events;
	const char *const *settings; /* of the engine */
	uint64_t beat_ns;
	uint32_t stopping;
	bool troubled; /* the log could not be opened or read, and that was told */
	bool looked;   /* the stream was read to its end since the start */
};

/* service_start - become the shipper of the heap that is open as `fd`, which belongs to the
 * service, even after an error.  `path` is for messages.  The caller has set events, settings and
 * beat_ns.
 * Errors: as fur_open(); FUR_EBUSY if the heap has a fur-ship; FUR_EINVAL if it is no primary. */
FUR_MUST_USE int service_start(struct service *s, int fd, const char *path);

/* service_look - the first look at the log, before any program needs it: can it be opened, with
 * these settings; has it what was read from it; does this node write it still?  If the log fails,
 * events.shipper.troubled() tells, and service_run() tries again, also while no program comes.
 * Errors: as service_run(). */
FUR_MUST_USE int service_look(struct service *s);

/* service_run - ship, and recover, until service_stop().  Failures of the log are tried again.
 * Errors: FUR_EFENCED: another node writes the stream; it is the one to which this node was to hand
 *         over, if service_handed_over(); FUR_ENOENT: the file was removed; the final ones of the
 *         log (engine_error_is_final()); FUR_EIO, FUR_ESYS. */
FUR_MUST_USE int service_run(struct service *s);
bool service_handed_over(const struct service *s);

/* Make service_run() return, within about 0.1 s.  Async-signal-safe. */
void service_stop(struct service *s);

void service_end(struct service *s);

#endif /* FUR_SHIP_SERVE_H */
