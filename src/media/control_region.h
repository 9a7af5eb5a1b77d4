/* SPDX-License-Identifier: BSD-3-Clause
 *
 * control_region.h - the layout of a heap file's control region: memory that a working process and
 * a replayer alongside it both map.  Its contents mean nothing when neither runs.  The functions
 * that use it are in durability/control.h.
 */
#ifndef FUR_CONTROL_REGION_H
#define FUR_CONTROL_REGION_H

#include "base/arch.h"
#include "media/media.h"

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

/* Position in one thread's log: everything below it is replayed.
 * Owners: durability/control.c, replay/replay.c. */
struct control_log {
	uint64_t tail ARCH_PADDED;
};

/* Does a process ship the updates of the open heap? */
enum control_shipping {
	CONTROL_SHIPS_NOT, /* none has said so since the heap was opened */
	CONTROL_SHIPS,
	/* Another machine's heap has taken over: what is not acknowledged is lost */
	CONTROL_FENCED,
	CONTROL_HANDS_OVER /* another heap is asked to take over: no update begins */
};

/* How far the follower of an open standby is, for messages only (fur_get_follow_state() has it for
 * the process itself).  Owners: ship/standby.c. */
struct control_follow {
	/* While a follower follows: control.opened, as it was then.  So what a process left that
	 * has died means nothing once another one has opened the heap */
	uint32_t session, gap;
	/* What is applied: up to this frame, at this offset in the log, or UINT64_MAX: none yet;
	 * and this update of the primary, or 0 */
	uint64_t term, lineage, frame, offset, durts;
	/* How many messages of the log are not read; UINT64_MAX: not known */
	uint64_t unread;
	uint64_t heard_ns; /* CLOCK_MONOTONIC, of the newest frame that was read; 0: none yet */
};
_Static_assert(sizeof(struct control_follow) == 64, "");

/* What a working process shares with the process that ships its updates (durability/ship.h).  Zero
 * in a file of an older library.  Owners: durability/ship.c, ship/shipper.c, fur_ship/serve.c,
 * fur_ship/status.c. */
struct control_ship {
	/* The shipping log has acknowledged every update below this durTS; replays stop here */
	uint64_t acked;
	uint32_t state; /* enum control_shipping */
	/* Shared events (base/event.h): `acked` or `state` has changed */
	uint32_t moved;
	/* The node that is to take over; 0: none.  Written by fur-ship --handover, and by the
	 * shipper, when that has come to an end */
	uint64_t heir;
	/* Of the shipper's claim, and its process: for messages, and the lineage also for tokens */
	uint64_t term, lineage, shipper_pid;
	/* For tokens: the newest update of the lineage that the log has below `acked`; 0: none */
	uint64_t newest;
	struct control_follow follow;    /* Of a standby.  Owner: ship/standby.c. */
	uint8_t gap[ARCH_PAD - 56 - 64]; /* the other line is written by updates */
	/* A call of the shipper, which sleeps on it */
	uint32_t calls;
	uint32_t asleep; /* 1: the next update calls the shipper */
	/* 1: the worker lends its fences (arch_lend_fences): its updates need none between their
	 * markers and this line.  Before it lets updates in, the shipper looks.
	 * Owner: durability/control.c. */
	uint32_t lent;
} __attribute__((aligned(64)));

/* What a working process and its replayer share.  Owner: durability/control.c. */
struct control {
	uint64_t tail; /* first durTS not replayed */
	/* While the replayer sleeps: an update with this durTS or a later one wakes it.
	 * Owners: durability/control.c, replayer/serve.c. */
	uint64_t wake_at ARCH_PADDED;
	/* Shared events (base/event.h): a call of the replayer, which sleeps on it */
	uint32_t calls ARCH_PADDED;
	/* A replay, for threads that wait for room */
	uint32_t moved;
	/* A process has opened the heap, for the replayer's watch.
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
	/* Zero in a file of an older library.  libfur leaves it alone; lab/operators uses it. */
	uint8_t gap[3712 - 512] ARCH_PADDED;
	/* In a member of a group: the parts of updates over several heaps that lie below this durTS
	 * are settled in all heaps, so that another process may replay them (INV-GU9).  Zero in a
	 * file of an older library.  Owners: durability/control.c, durability/nondurable.c. */
	uint64_t parts_below ARCH_PADDED;
	struct control_ship ship ARCH_PADDED;
	struct control_preload preload __attribute__((aligned(64))); /* Owner: replay/preload.c. */
	/* [max_threads].  Owners: durability/control.c, replay/replay.c. */
	struct control_log logs[];
};
_Static_assert(offsetof(struct control_ship, calls) == ARCH_PAD, "shippers of other versions");
_Static_assert(offsetof(struct control, gap) == 512, "older files have zeros there");
_Static_assert(offsetof(struct control, parts_below) == 3712, "replayers of other versions");
_Static_assert(offsetof(struct control, ship) == 3840, "shippers of other versions look there");
_Static_assert(
        offsetof(struct control, preload) == 4096 - 64, "replayers of other versions look there");
_Static_assert(offsetof(struct control, logs) == 4096, "CONTROL_BYTES relies on it");
#define CONTROL_BYTES(threads)                                                                     \
	(sizeof(struct control) + (uint64_t)(threads) * sizeof(struct control_log))

static inline struct control *media_control(const struct media_file *f)
{
	return (struct control *)(void *)media_at(f, f->super->control_offset);
}

/* Of a primary: has another node taken over, as far as this machine has noticed?  The state stays
 * in the file when its processes have ended, and a fenced primary is fenced for good. */
static inline bool control_fenced(const struct control *c)
{
	return arch_load32(&c->ship.state) == CONTROL_FENCED;
}

#endif /* FUR_CONTROL_REGION_H */
