/* SPDX-License-Identifier: BSD-3-Clause
 *
 * durability.h - how a committed update comes to survive a failure: redo logs, the marker ring,
 * durability waits.  This file, redo.h (logs), nondurable.h (updates that are not durable yet) and
 * ring.h (durTSs) are the contract of src/durability.
 *
 * Every transaction, read-only or update, follows two rules (docs/protocol.md, "Durability"); they
 * replace the timestamps of FUR 3.2.1:
 *
 *   INV-D1  After its last access, and before it leaves active[] or commits in hardware, a
 *           transaction collects D: the updates that have committed and are not yet durable
 *           (nondurable_collect).  In software, the last comparison of what the update has loaded
 *           counts as an access.
 *   INV-D2  It returns to its caller only when every update of D is durable (nondurable_wait).
 *           INV-D7 has the exception.
 *
 * An update announces itself in nondurable[] before it becomes visible.  So if a transaction has
 * read from an update, that update is in the transaction's D, or durable.
 *
 *   INV-D3  An update's marker names the durTSs of its D.  So the update may flush its marker
 *           before the markers of D are durable: recovery keeps a marker only if it keeps all
 *           markers that it names.
 *   INV-D4  An update draws its durTS after the updates of its D have drawn theirs.  Recovery reads
 *           the ring upwards, so it has decided about D before it reaches the update's marker.
 *   INV-D5  An update leaves nondurable[] only when it is durable, or can never become durable: in
 *           the second case its abort marker is durable, or the heap has failed.  A late update
 *           leaves earlier (INV-AS1): a transaction that has read from it waits for it after the
 *           wait for D (INV-AS2), or is late itself (INV-AS3).
 *   INV-D6  An update that fails leaves the heap as it found it.  In hardware it aborts; in place,
 *           redo_undo() undoes its stores, the newest first, before readers are let in; in software
 *           it has not stored.
 *   INV-D7  A transaction without stores that ends with a ticket does not wait.  The wait for the
 *           ticket does: it collects D after the last access of each transaction that the ticket
 *           covers, and returns only when every update of D is durable (fur_wait).  fur_sync()
 *           covers all tickets: it waits for every update that was announced before.
 *   INV-D8  For each store of an update, its record has the place, and the store's data or that of
 *           a later store of the same update to the same bytes.
 *   INV-D9  An update's scan of nondurable[] takes time.  If its marker names an update that drew
 *           its durTS after the scan had begun, it returns only when all lower durTSs are settled,
 *           and what has read from it also waits until then.
 *
 * durability_persist() and durability_await() carry out the rest of Algorithm 1 for an update that
 * is visible.
 */
#ifndef FUR_DURABILITY_H
#define FUR_DURABILITY_H

#include "base/error.h"
#include "durability/control.h"
#include "durability/redo.h"
#include "media/log_view.h"
#include "pm/pm.h"

/* One thread's entry in nondurable[]: what other threads see of its update while that is not
 * durable.  Each entry has a line of its own.  Every transaction reads all entries at its end, and
 * only updates write them, so in a read-only workload they stay in every cache (FUR 3.2.1).
 * Owner: durability/nondurable.{h,c}. */
struct nondurable_entry {
	uint64_t id;    /* 0, or a number unique among this thread's updates */
	uint64_t durts; /* 0, or the durTS of update `id`; zeroed before the next id */
	uint64_t last;  /* the durTS of the newest update that has left, or 0 */
} ARCH_PADDED;

/* D: updates seen in nondurable[]; or, `by_version`, those from which a transaction has read, as
 * the stamps tell (stm/stamps.h). */
enum { DSET_OWN = 16 };
struct dset {
	uint32_t n;
	uint32_t most; /* by_version: members at a time */
	bool by_version;
	/* Every durTS below is settled, or late; as the thread knows from earlier transactions.  0:
	 * not known. */
	uint64_t settled;
	/* durTSs of the thread's own updates that are settled, or late: each at its own modulo. */
	uint64_t own[DSET_OWN];
	uint64_t newest; /* by_version: the greatest durTS that was added */
	/* Every durTS below this one was settled, unless its update is in the set; 0: not known
	 * (nondurable_collect_settled). */
	uint64_t settled_below;
	/* next_durts, as an update reads it before its scan.  A member with this durTS or a later
	 * one has drawn it since (INV-D9). */
	uint64_t drawn_below;
	struct dset_member {
		uint32_t thread; /* this and `id`: not by_version */
		uint64_t id;
		/* Set by nondurable_wait_drawn().  `left`: the update had left by then, and this is
		 * the durTS of the newest update of its thread that had. */
		uint64_t durts;
		bool left;
	} * members;
};

/* Ticks that the phases of an update take. */
struct phase_clock {
	uint64_t last; /* the last mark, in ticks */
	uint64_t ticks[FUR_PHASES];
};

/* An update from its last access until it is durable.  One line of x86. */
struct commit {
	struct dset dset;
	uint64_t id;               /* as in nondurable[] */
	uint64_t durts;            /* 0: not drawn */
	struct phase_clock *clock; /* NULL: phases are not timed */
	uint32_t me;               /* index of its thread */
	bool log_is_out;           /* copied to the file's log, and its write-back started */
	bool in_slot;              /* its record goes to its slot, not to the log */
	bool async;                /* the caller does not wait: it gets a ticket */
	bool late;                 /* leaves nondurable[] before it is durable (async.h) */
	/* Its record names its parts in other heaps; and it depends on all below it, because late
	 * updates are pending (parts.h) */
	bool part, after_all;
};

/* Add the time since the last mark to a phase. */
static inline void phase_mark(struct commit *c, enum fur_phase phase)
{
	if (unlikely(c->clock != NULL)) {
		uint64_t now = arch_ticks();
		c->clock->ticks[phase] += now - c->clock->last;
		c->clock->last = now;
	}
}

struct durability;

struct durability_ops {
	/* A callback to a higher layer: replay the durable updates from the tail on, and move the
	 * tail.  Called with `replaying` locked and the right to replay.  0 or FUR_E*. */
	int (*replay)(struct durability *d);
};

/* How a replay works. */
#define REPLAY_THREADS_MOST    16
#define REPLAY_PRELOAD_MOST    128
#define REPLAY_PRELOAD_DEFAULT 16
#define REPLAY_PRELOAD_AUTO    UINT32_MAX
/* Neighbouring lines that leave the caches together: as many at most. */
#define REPLAY_UNLOAD_LINES 16
enum replay_strategy { REPLAY_SEQUENTIAL, REPLAY_BATCH }; /* replay/preload.h */
struct replay_options {
	uint32_t threads; /* at most */
	/* How far ahead to prefetch: logs, in updates; the heap, in entries; 0: not at all;
	 * REPLAY_PRELOAD_AUTO: as far as a measurement says */
	uint32_t preload;
	/* Least bytes of log per thread: less log, fewer threads.  And least bytes to replay before
	 * anything is measured. */
	uint64_t least_bytes;
	enum replay_strategy strategy;
	uint32_t unload_lines; /* 1 to REPLAY_UNLOAD_LINES, a power of two */
};
#define REPLAY_DEFAULTS                                                                            \
	((struct replay_options){.threads = 1,                                                     \
	        .preload = REPLAY_PRELOAD_AUTO,                                                    \
	        .least_bytes = 1 << 20,                                                            \
	        .strategy = REPLAY_SEQUENTIAL,                                                     \
	        .unload_lines = REPLAY_UNLOAD_LINES})

/* The measurement of a pipeline's distance (replay/preload.c).  Under the right to replay; threads
 * that help read `chosen` only. */
enum { PRELOAD_ROUNDS = 5, PRELOAD_PROBED = 6 };
enum preload_stage { PRELOAD_UNUSED, PRELOAD_WAITS, PRELOAD_WARMS, PRELOAD_CLOCKS, PRELOAD_CHOSEN };
enum preload_pipeline { PRELOAD_READS, PRELOAD_WRITES, PRELOAD_PIPELINES };
struct preload_tuning {
	uint64_t chosen; /* the best distance, plus 1; 0: not known yet */
	enum preload_stage stage;
	uint32_t distance; /* in use */
	uint32_t probes;   /* taken */
	uint64_t steps;    /* to the end of the stage */
	uint64_t ticks[PRELOAD_ROUNDS][PRELOAD_PROBED];
};

/* Rare events that an operator wants to know (fur_options.log).  A thread that meets one may hold a
 * lock, or be inside an update, so it only notes the event; api/log.c reports it later. */
enum event {
	EVENT_FAILED = 1,           /* the heap has failed; the message is `cause` */
	EVENT_REPLAYER_SILENT = 2,  /* a replayer did not answer a call */
	EVENT_REPLAYER_ANSWERS = 4, /* it has replayed again */
	EVENT_REPLAYER_DIED = 8,    /* it has ended without saying so */
	EVENT_LONG_READER = 16,
	EVENT_PAGES_LOCKED = 32, /* the kernel takes no pages back: api/pages.c */
};
struct events {
	/* enum event, or'ed: noted and not reported yet.  Owner: durability/state.c. */
	uint64_t noted;
	uint64_t reader, waited_ns; /* of the newest EVENT_LONG_READER */
	/* Of the newest EVENT_REPLAYER_SILENT and EVENT_REPLAYER_DIED */
	uint64_t silent_pid, dead_pid;
};

/* What a standby's record has besides the primary's entries: a head, the position, and entries that
 * the end of the log parts (ship/batch.c). */
enum { SHIP_RECORD_EXTRA = 320 };

/* Whether the heap's updates are shipped (ship.h), or are another one's. */
struct shipping {
	bool on;
	bool follows;         /* the heap is a standby: its follower alone updates it (INV-SH21) */
	uint32_t follower;    /* 1 + index of the follower's thread while it applies; or 0 */
	bool replicates;      /* transactions return only what is acknowledged (INV-SH3) */
	bool lends;           /* the shipper makes our updates' fences (arch_lend_fences) */
	uint64_t patience_ns; /* how long a thread waits without an acknowledgement */
};

/* Late updates (async.h).  Owner: durability/{async,async_threads,room}.c. */
struct late_updates {
	/* Above the durTS of each late update that has left nondurable[]; 0: none yet */
	uint64_t newest;
	uint64_t durable; /* every durTS below is durable; at least the tail, if it is 0 */
	/* SYNC: the slots of late updates, as they will be in the file: [ring_slots] */
	uint8_t *slots;
	uint64_t period_ns; /* between two flushes that no thread asks for */
	uint32_t state;     /* ASYNC_*; changes upwards only */
	uint32_t flushed;   /* event: a flush has ended */
	uint32_t late;      /* event: an update is late, or `stop` */
	uint32_t filled;    /* event: updates have filled a part of the ring, or `stop` */
	uint32_t stopped;   /* event: `stop` */
	uint32_t stop;      /* 1: the threads end */
	uint32_t awaited;   /* 1: a thread waits for another process to replay what is flushed */
	bool replays;       /* `replayer` runs */
	pthread_t thread, replayer;
	pthread_mutex_t flushing;
};
enum { ASYNC_UNUSED, ASYNC_STARTING, ASYNC_READY, ASYNC_REFUSED };

struct durability {
	struct pm pm;
	struct media_super geometry;     /* the file's superblock, as it was when it was checked */
	const struct media_super *super; /* &geometry */
	/* The superblock in the mapping, for the words that change. */
	struct media_super *words;
	uint64_t head_bytes; /* media_head_bytes() */
	/* How much of a log one update may use.  A primary leaves SHIP_RECORD_EXTRA: a standby,
	 * whose logs are as long, has more in the update's record */
	uint64_t log_room;
	/* The heap's size now: below it all of the heap that the allocator may use has blocks.  In
	 * the process that works on the heap; others read it from the file.  Only grows, rarely.
	 * Owner: durability/size.c. */
	uint64_t heap_bytes;
	struct control *control;
	uint8_t *ring, *logs;
	uint8_t *image; /* the heap in the file, mapped shared: replay writes to it */
	/* The heap in a copy that backup_copy() is making, which holds the right to replay: replay
	 * also writes to it, to its first `copied` bytes.  Or NULL.  Under `replaying`. */
	uint8_t *copy;
	uint64_t copied;
	int copy_fd;                  /* of that copy; -1: it needs no blocks, it is in memory */
	int copy_error;               /* why there is no copy any more, or 0 */
	uint64_t copy_bytes;          /* how much of its heap has blocks */
	const struct heap_file *file; /* for messages */
	const struct durability_ops *ops;
	struct replay_options replay_options;
	struct preload_tuning tuning[PRELOAD_PIPELINES];
	/* True: updates draw their durTS after they have announced themselves in nondurable[].
	 * False on POWER, where they draw it in the window, before. */
	bool draws_announced;
	bool populate; /* touch logs when a thread registers, not inside its transactions */
	bool mirror;   /* entries are written to DRAM, and copied to the file's log at commit */
	/* This process replays for another process; `redo` and `nondurable` mean nothing here. */
	bool replays_for_worker;
	bool replayer_was_silent; /* the replayer did not answer the last call */
	struct shipping ship;
	/* How many pauses a thread waits for another before it yields and sleeps: many while each
	 * thread can have a core of its own, few otherwise (tx/crowd.c). */
	uint32_t spins;

	struct redo_log *redo;               /* [max_threads] */
	struct nondurable_entry *nondurable; /* [max_threads] */

	/* Threads registered so far: scans look no further.  Owner: api/thread.c. */
	uint64_t limit ARCH_PADDED;
	/* The next durTS.  Owner: durability/ring.{h,c}. */
	uint64_t next_durts ARCH_PADDED;
	/* The first durTS not replayed, as last read; see control_refresh().
	 * Owner: durability/ring.{h,c}. */
	uint64_t tail ARCH_PADDED;
	/* Above the durTS of each update that has given back a run of chunks, and has left
	 * nondurable[] (INV-FM2); 0: none.  Owner: durability/freed_runs.c. */
	uint64_t runs_freed_upto;
	/* 0, or the FUR_E* because of which no update can become durable any more.
	 * Owners: durability/state.c, api/fork.c. */
	uint64_t failed;
	/* 1: a thread has found `replaying` locked.  For backup_heap(), which has it most of the
	 * time.  Owners: durability/room.c, replay/backup.c. */
	uint64_t room_wanted;
	pthread_mutex_t replaying ARCH_PADDED;
	unsigned part_doubled; /* how large the next part is: replay_part(); under `replaying` */
	struct late_updates async ARCH_PADDED;
	/* A thread that lets the heap grow holds it */
	pthread_mutex_t growing;
	uint32_t grow_failed; /* 1: the newest growth has failed */
	char cause[512];      /* the message of the first failure */
	uint32_t cause_state; /* CAUSE_*; changes upwards only */
	struct events events;
};
enum { CAUSE_NONE, CAUSE_WRITTEN, CAUSE_THERE };

static inline struct media_file durability_file(const struct durability *d)
{
	return (struct media_file){d->super, d->words, d->ring, d->logs};
}

static inline struct media_marker *durability_marker(const struct durability *d, uint64_t durts)
{
	const struct media_file file = durability_file(d);
	return log_marker(&file, durts);
}

/* ------------------------------------------------------------------- attach.c */

struct heap_file;

/* Set `d` up for an opened file.  Replays nothing.  The caller sets `ops`.  Errors: FUR_ECORRUPT,
 * FUR_EINVAL, FUR_ENOMEM. */
FUR_MUST_USE int durability_attach(struct durability *d, const struct heap_file *file,
        const struct fur_options *options, char *reason, size_t reason_bytes);
void durability_detach(struct durability *d);
/* Read the heap's role from its ship page, as durability_attach() does: it may have got another one
 * while no process had it open.  Errors: FUR_ECORRUPT; the role is as it was. */
FUR_MUST_USE int durability_read_role(struct durability *d);

/* Mark the heap in the file as open (MEDIA_OPEN) or closed; durable before return (INV-F4).
 * Errors: FUR_EIO. */
FUR_MUST_USE int durability_set_state(struct durability *d, uint64_t state);

/* ---------------------------------------------------------- how large (size.c) */

/* The heap's size now.  Acquire: orders the load before stores above the old size, as INV-F5 wants
 * it; pairs with the release in durability_grow(). */
static inline uint64_t durability_heap_bytes(const struct durability *d)
{
	return arch_load_acquire(&d->heap_bytes);
}

/* Let the heap grow to at least this size, in bytes; to more if the file system has room for it.
 * Durable before return (INV-F5).  Not inside a hardware transaction.  A thread may call it inside
 * an update in software.
 * Errors: FUR_ENOSPC, FUR_ESYS (the heap is as it was); FUR_EIO. */
FUR_MUST_USE int durability_grow(struct durability *d, uint64_t least_bytes, uint64_t bytes);

/* Where the next growth should end if the heap needs at least this size: twice the size now, in
 * bounded steps, and no more than the largest size. */
uint64_t durability_next_size(const struct durability *d, uint64_t least_bytes);

/* Allocate the thread's log in the file, if it has no blocks yet.  Durable before return (INV-F5).
 * Errors: FUR_ENOSPC, FUR_ESYS (the heap is as it was); FUR_EIO. */
FUR_MUST_USE int durability_take_log(struct durability *d, uint32_t thread);

/* ----------------------------------------------------------- how full (usage.c) */

/* Slots of the ring from the tail to the newest durTS drawn; bytes from the tail to the newest
 * record in the log in which they are most.  Looks at each of those slots, and at no line that
 * hardware updates write to.  Approximate while updates run. */
struct durability_usage {
	uint64_t ring_slots, log_bytes;
};
struct durability_usage durability_usage(const struct durability *d);

/* ------------------- commit.c, room.c, state.c, freed_runs.c */

/* durability_persist, durability_await - make a visible update durable: marker, write-back,
 * durability wait.  The update has announced itself in nondurable[].  The first makes it durable,
 * and takes it out of nondurable[]; any thread may call it for another one's update; if c->durts is
 * 0, it draws the durTS.  The second waits for D.  `error`: the result of the first.
 * Durable: the update after the first, and every update of D after the second.
 * Errors:  FUR_EIO and the other errors that make a heap fail: a failure may then lose the update.
 * Source:  FUR, Algorithm 1, lines 36 to 39, in the order that INV-D3 allows. */
FUR_MUST_USE int durability_persist(struct durability *d, struct commit *c);
FUR_MUST_USE int durability_await(struct durability *d, struct commit *c, int error);

/* durability_runs_freed_upto - above the durTS of each update that is visible to the caller's and
 * has given back a run of chunks (INV-FM2); 0: none has.  In the body of an update that has the
 * turn.  Uses c->dset, which the update's commit will collect anew. */
uint64_t durability_runs_freed_upto(struct durability *d, struct commit *c);

/* The update of this durTS has given back a run of chunks.  Before it leaves nondurable[]: until
 * then durability_runs_freed_upto() finds it there. */
void durability_note_run_freed(struct durability *d, uint64_t durts);

/* durability_abort - give up the durTS that an aborted update has drawn: write an abort marker,
 * make it durable, then leave nondurable[] (INV-D5).
 * Source:  FUR, Algorithm 1, lines 52 and 53. */
FUR_MUST_USE int durability_abort(struct durability *d, struct commit *c);

/* Mark the heap as failed: no update can become durable any more.  The calling thread's message
 * tells the reason; the first failure's message is kept.  `failed` is set before return. */
void durability_fail(struct durability *d, int error);

/* Note an event.  Release: a thread that takes it with durability_take_events() sees the facts that
 * the caller has stored about it. */
void durability_note(struct durability *d, enum event event);
/* The events noted since the last call, or'ed.  Acquire; costs one load if there are none. */
uint64_t durability_take_events(struct durability *d);

/* Set the message of a call on a heap that has failed: `news`, then the first failure.  Returns
 * `failed`. */
int durability_say_failed(const struct durability *d, const char *news);

/* Has the heap failed?  Called before a transaction begins.  Errors: the first failure's. */
static inline int durability_check(const struct durability *d)
{
	if (likely(arch_load(&d->failed) == 0))
		return 0;
	return durability_say_failed(d, "this heap has failed");
}

/* The same, for a transaction that has read and is about to return.  Called after the transaction
 * has collected D, even if D is empty: an update that could not become durable has set `failed` and
 * then left nondurable[] (INV-D5).  Has no fence: the caller orders its scan of nondurable[] before
 * this load, or it would miss such an update. */
static inline int durability_check_read(const struct durability *d)
{
	if (likely(arch_load(&d->failed) == 0))
		return 0;
	return durability_say_failed(
	        d, "the data that this transaction has read may not be durable");
}

/* The beginning of a wait for another thread of this process. */
static inline struct arch_backoff durability_backoff(const struct durability *d)
{
	return (struct arch_backoff){.turns = 0, .spins = arch_load32(&d->spins)};
}

/* Make one attempt to make room: replay, or wait for the thread or process that is replaying. */
FUR_MUST_USE int durability_replay(struct durability *d, struct arch_backoff *backoff);

#endif /* FUR_DURABILITY_H */
