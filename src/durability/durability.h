/* SPDX-License-Identifier: BSD-3-Clause
 *
 * durability.h - from "committed" to "survives": redo logs, the marker ring, durability waits.  The
 * contract of src/durability, with nondurable.h (who is not durable yet) and ring.h (the durTSs).
 *
 * The rule (docs/protocol.md, "Durability"; it replaces the timestamps of FUR 3.2.1).  Every
 * transaction, read-only or update:
 *
 *   INV-D1  After its last access, and before it leaves active[] or commits in hardware, a
 *           transaction collects D: the updates that are committed and not yet durable
 *           (nondurable_collect).
 *   INV-D2  It returns to its caller only when every update of D is durable (nondurable_wait).
 *
 * An update announces itself in nondurable[] before it becomes visible.  So each update from which
 * a transaction has read is in its D, or durable.
 *
 *   INV-D3  A marker names the durTSs of D.  So it can be flushed before the markers of D are:
 *           recovery keeps it only if it keeps those.
 *   INV-D4  An update draws its durTS after the updates of D have drawn theirs.  Recovery goes up
 *           through the ring, so it has decided about D before it meets the marker.
 *   INV-D5  An update leaves nondurable[] only when it is durable, or never will be: then its abort
 *           marker is durable, or the heap has failed.
 *   INV-D6  An update that is rolled back without a hardware abort leaves the heap as it found it:
 *           redo_undo() takes its stores back, the newest first, before it leaves active[] or
 *           releases the lock.
 *
 * durability_commit() takes a visible update through the rest of Algorithm 1, from top to bottom.
 */
#ifndef FUR_DURABILITY_H
#define FUR_DURABILITY_H

#include "base/error.h"
#include "durability/control.h"
#include "media/log_view.h"
#include "pm/pm.h"

/* The part of an update that other threads see while it is not durable; a line for each thread.
 * Every transaction reads all of them at its end, and only updates write them: in a read-only
 * workload they stay in every cache (FUR 3.2.1).  Only nondurable.{h,c} touches them. */
struct nondurable {
	uint64_t id; /* 0, or a number unique among this thread's updates */
	uint64_t
	        durts; /* its durTS once drawn, else 0.  Belongs to `id`: zeroed before the next. */
} ARCH_PADDED;

/* D: updates seen in nondurable[]. */
struct dset {
	uint32_t n;
	/* Every durTS below it whose update is not in the set was settled; 0: not known
	 * (nondurable_collect_settled). */
	uint64_t settled_below;
	struct dset_member {
		uint32_t thread;
		uint64_t id;
		uint64_t durts; /* nondurable_wait_drawn() fills it in; 0: durable meanwhile */
	} * members;
};

/* Ticks that the phases of an update take. */
struct phase_clock {
	uint64_t last; /* the last mark, in ticks */
	uint64_t ticks[FUR_PHASES];
};

/* An update on its way from its last access to durable.  One line of x86. */
struct commit {
	struct dset dset;
	uint64_t id;               /* as in nondurable[] */
	uint64_t durts;            /* 0: not drawn */
	struct phase_clock *clock; /* NULL: phases are not timed */
	uint32_t me;               /* index of its thread */
	bool log_is_out;           /* copied to the file's log, and its write-back started */
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

/* One thread's redo log.  Positions only grow; modulo log_bytes a position is a place in the log.
 * The record of the open update is [start, head); its media_head, if the file has them, lies at
 * start.  A hardware abort rolls head and undo back with everything else. */
struct redo_log {
	uint64_t head, start;
	uint64_t end;       /* of the newest committed record */
	uint64_t durts;     /* of the newest committed record */
	uint64_t head_most; /* head must not pass it: tail + log_bytes, at the last look */
	/* Position of the newest undo record of the open update, or UNDO_NONE. */
	uint64_t undo_last;
	uint64_t entries; /* of the open update */
	/* redo_append() writes entries here: `persistent`, or a DRAM mirror of it. */
	uint8_t *written;
	/* DRAM, same places: the data that an entry overwrote, see redo_append(). */
	uint8_t *undo;
	uint8_t *persistent; /* the log in the file */
	/* Shared: everything below is replayed.  The thread that replays moves it. */
	uint64_t tail ARCH_PADDED;
};
#define UNDO_NONE UINT64_MAX

struct durability;

struct durability_ops {
	/* A callback to a higher layer: replay the durable updates from the tail on, and move the
	 * tail.  Called with `replaying` locked and the right to replay.  0 or FUR_E*. */
	int (*replay)(struct durability *d);
};

/* How a replay works. */
#define REPLAY_THREADS_MOST 16
#define REPLAY_PRELOAD_MOST 128
struct replay_options {
	uint32_t threads; /* at most */
	/* How far ahead it prefetches: logs, in updates; the heap, in entries; 0: not at all. */
	uint32_t preload;
	uint64_t least_bytes; /* of log, for each thread: with less, fewer threads are used */
};
#define REPLAY_DEFAULTS                                                                            \
	((struct replay_options){.threads = 1, .preload = 16, .least_bytes = 1 << 20})

struct durability {
	struct pm pm;
	struct media_super geometry;     /* the file's superblock, as it was when it was checked */
	const struct media_super *super; /* &geometry */
	/* The superblock in the mapping, for the words that change. */
	struct media_super *words;
	uint64_t head_bytes; /* media_head_bytes() */
	struct control *control;
	uint8_t *ring, *logs;
	uint8_t *image; /* the heap in the file, mapped shared: replay writes to it */
	const struct durability_ops *ops;
	struct replay_options replay_options;
	/* An update draws its durTS after it has announced itself in nondurable[].  Not so on
	 * POWER, in the window. */
	bool draws_announced;
	bool populate; /* touch logs when a thread registers, not inside its transactions */
	bool mirror;   /* entries are written to DRAM, and copied to the file's log at commit */
	/* This process replays for another one: redo and nondurable mean nothing here. */
	bool beside;
	bool impatient; /* the replayer did not answer the last call */

	struct redo_log *redo;         /* [max_threads] */
	struct nondurable *nondurable; /* [max_threads] */

	uint64_t limit ARCH_PADDED;      /* threads registered so far: scans look no further */
	uint64_t next_durts ARCH_PADDED; /* the next durTS.  Only updates touch it. */
	/* The first durTS not replayed, at the last look: see control_refresh(). */
	uint64_t tail ARCH_PADDED;
	/* 0, or the FUR_E* for which no update can be made durable any more. */
	uint64_t failed;
	pthread_mutex_t replaying ARCH_PADDED;
	char cause[512];      /* the message of the first failure */
	uint32_t cause_state; /* CAUSE_*; changes upwards only */
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

/* Set `d` up for an opened file, with nothing replayed yet; the caller sets `ops`.   Errors:
 * FUR_ECORRUPT, FUR_EINVAL, FUR_ENOMEM. */
FUR_MUST_USE int durability_attach(struct durability *d, const struct heap_file *file,
        const struct fur_options *options, char *reason, size_t reason_bytes);
void durability_detach(struct durability *d);

/* Mark the heap in the file as open (MEDIA_OPEN) or closed; durable before return (INV-F4).
 * Errors: FUR_EIO. */
FUR_MUST_USE int durability_set_state(struct durability *d, uint64_t state);

/* ------------------------------------------------------------- redo log (redo.c) */

int redo_init(struct redo_log *log, const struct durability *d, uint32_t thread);
void redo_fini(struct redo_log *log, const struct durability *d);

/* Begin the record of an update.  Outside hardware transactions. */
void redo_begin(struct redo_log *log, const struct durability *d);

/* Prefetch the lines of the next record.  They were last used a lap ago and are in no cache, and
 * the first locked instruction of the next update would wait for every store to them. */
void redo_prefetch(const struct redo_log *log, const struct durability *d);

/* Log a store of `bytes` bytes to `to`, keep the old bytes for redo_undo(), and store.  False: the
 * log has no room, and nothing was done.  At most redo_fits() bytes: MEDIA_ENTRY_MAX, and not past
 * the end of the log. */
bool redo_append(struct redo_log *log, const struct durability *d, uint64_t heap_offset, void *to,
        const void *from, uint64_t bytes);
uint64_t redo_fits(const struct redo_log *log, const struct durability *d, uint64_t bytes);

/* Take the open record's stores back (INV-D6). */
void redo_undo(struct redo_log *log, const struct durability *d, uint8_t *heap);

/* Put the head of the open record into `log->written`, or into the file's log.  Does nothing in a
 * file of version 1. */
void redo_put_head(struct redo_log *log, const struct durability *d, uint8_t *into,
        const struct media_claims *claims);

/* Copy the record's entries from the mirror, if there is one, to the file's log. */
void redo_copy_out(struct redo_log *log, const struct durability *d, uint64_t start, uint64_t end);
void redo_flush(struct redo_log *log, struct durability *d, uint64_t start, uint64_t end);

/* Make room in this thread's log, by replaying if need be.  FUR_ETOOBIG: the open record alone
 * fills the log. */
FUR_MUST_USE int redo_make_room(struct redo_log *log, struct durability *d);

/* ------------------------------------------- commit.c, durability.c */

/* durability_commit - take an update that is visible to its end: marker, write-back, durability
 * wait.  It has announced itself in nondurable[]; its durTS is drawn here if c->durts is 0.
 * Durable: before return, with every update of D.  It has left nondurable[] then.
 * Errors:  FUR_EIO and the others for which a heap fails: the update may be lost in a failure.
 * Source:  FUR, Algorithm 1, lines 36 to 39, in the order that INV-D3 allows. */
FUR_MUST_USE int durability_commit(struct durability *d, struct commit *c);

/* durability_abort - give up the durTS that an aborted update has drawn: write an abort marker,
 * durably, then leave nondurable[] (INV-D5).
 * Source:  FUR, Algorithm 1, lines 52 and 53. */
FUR_MUST_USE int durability_abort(struct durability *d, struct commit *c);

/* No update can be made durable any more; the calling thread's message has the reason.  Sets
 * `failed` before it returns, and keeps the message of the first failure. */
void durability_fail(struct durability *d, int error);

/* The message of a call on a heap that has failed: `news`, and the first failure.  Returns
 * `failed`. */
int durability_say_failed(const struct durability *d, const char *news);

/* Has the heap failed?  Asked before a transaction begins.   Errors: the first failure's. */
static inline int durability_check(const struct durability *d)
{
	if (likely(arch_load(&d->failed) == 0))
		return 0;
	return durability_say_failed(d, "this heap has failed");
}

/* The same, for a transaction that has read and is about to return.  It asks after it has collected
 * D, even if D is empty: an update that could not be made durable has left nondurable[] after it
 * set `failed` (INV-D5).  No fence: the caller orders this load after the scan. */
static inline int durability_check_read(const struct durability *d)
{
	if (likely(arch_load(&d->failed) == 0))
		return 0;
	return durability_say_failed(
	        d, "the data that this transaction has read may not be durable");
}

/* One attempt to make room: replay, or wait for the thread or process that does. */
FUR_MUST_USE int durability_replay(struct durability *d, struct arch_backoff *backoff);

#endif /* FUR_DURABILITY_H */
