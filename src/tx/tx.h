/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tx.h - what all transactions share: the threads of a heap, their open transactions, and the words
 * by which they know of each other (active.h, turn.h, crowd.h, marks.h).  The contract of src/tx is
 * this file, and active.h, turn.h, crowd.h, marks.h, read_set.h, write_set.h and blocks.h.
 *
 *   INV-H1  A read-only transaction publishes active[i] before its first load, and clears it after
 *           its last (reader.c).
 *   INV-H2  The isolation wait: an update scans active[], and becomes visible only when each
 *           transaction that the scan found, and that may have read an old value of a word that the
 *           update wrote, has ended.  The update's stores are performed before its scan: from then
 *           on a load that conflicts with one of them aborts the update.
 *   INV-H3  While a thread has shut readers out and stores in place, no reader is active, and no
 *           hardware transaction can commit to data that the thread reads or writes (shut_out.c).
 *   INV-H4  A location that fur_promote() names is in the write set of the hardware update.  So
 *           another update that writes the location conflicts, and snapshot isolation shows no
 *           write skew on it.
 */
#ifndef FUR_TX_H
#define FUR_TX_H

#include "durability/nondurable.h"
#include "tx/crowd.h"
#include "tx/read_set.h"
#include "tx/turn.h"
#include "tx/write_set.h"

#include <setjmp.h>

/* ------------------------------------------------------------------ shared */

/* active[].  Owner: tx/active.{h,c}. */
struct active_entry {
	/* 0, or the odd sequence number of the thread's active transaction.  ACTIVE_SOFTWARE: it is
	 * a software update. */
	uint64_t seq;
	/* 0, or 1 + the number of releases at which this thread began to wait until `shut` is reset
	 * (shut_out.c). */
	uint64_t want;
	/* With want: when a reader began to wait, in ticks; 0: an update that will try hardware. */
	uint64_t since;
	/* 1: the thread's update publishes beside others.
	 * Owners: stm/publish.c, stm/together.c. */
	uint64_t publishing;
} ARCH_PADDED;

enum { ACTIVE_SOFTWARE = 2, ACTIVE_STEP = 4 };

struct htm_ops;

/* A callback to a higher layer (api/pages.c, log.c, plain_stores.c, grow.c).  A thread that has
 * committed an update of `entries` log entries calls it, between its transactions; so does one
 * whose update was rolled back, or refused at its begin, with 0 entries. */
typedef void after_update_function(struct fur_thread *t, uint64_t entries);
enum { AFTER_UPDATE_MOST = 4 };

/* The transactions of one heap: what its threads share. */
struct engine {
	const struct htm_ops *ops;
	struct durability *durability;
	struct active_entry *active; /* [max_threads] */
	struct publication_lock lock;
	uint64_t *stamps;            /* [STAMPS].  Owner: stm/stamps.{h,c}. */
	struct images *images;       /* or NULL.  Owner: stm/images.c. */
	uint64_t sweeps ARCH_PADDED; /* begun and ended.  Owner: stm/stamps.c. */
	/* Changes when two transactions meet at the lock (policy: in_place.c).  Owner: tx/tx.h. */
	uint64_t meetings ARCH_PADDED;
	/* The draw lock: 1 while an update over several heaps draws its durTSs.
	 * Owner: stm/draw_lock.h. */
	uint64_t drawing ARCH_PADDED;
	/* The newest snapshot that optimistic readers share (INV-OR4).
	 * Owner: update/optimistic.c. */
	struct shared_snapshot {
		uint64_t lock; /* 1: a thread joins, leaves, or replaces it */
		struct fur_snapshot *snapshot;
		uint64_t number; /* shared_opened, when it was opened */
	} shared ARCH_PADDED;
	uint64_t shared_opened ARCH_PADDED; /* these, so far, and those that open now */
	struct crowd crowd;
	enum fur_htm kind;
	enum fur_isolation isolation; /* as it runs, which need not be as requested */
	bool updates_active;          /* updates are in active[] too */
	bool switches;                /* it chooses where updates run (update/switch.c) */
	uint32_t retries;
	bool phase_times;
	bool read_only;       /* a copy of a heap, without hardware: updates are refused */
	uint64_t drain_ticks; /* how long new readers may wait, at first, for one that is active */
	uint64_t short_ticks; /* an update that takes longer must not run in place */
	uint64_t snapshot_bytes; /* fur_options.snapshot_bytes */
	uint64_t reader_report_ns;
	void (*reader_report)(const struct fur_reader_report *, void *);
	void *reader_report_arg;
	struct fur_thread *threads; /* [max_threads] */
	uint64_t long_readers, longest_reader_ns;
	/* Bulk updates: whether one runs (bulk/job.h), and counts for fur_get_stats(). */
	struct engine_bulk {
		uint64_t running;
		uint64_t commit_may_map; /* the commit may always map this many records */
		uint64_t commits, records, again, by_operator;
	} bulk ARCH_PADDED;
	/* Of all tickets of this heap: another number each time that a heap is opened, never 0. */
	uint64_t ticket_source;
	/* What hardware updates have lost lately, by all threads.  Owner: update/switch.c. */
	struct losses {
		uint64_t lost, of; /* ticks, of so many ticks of the threads that update */
		uint64_t over;     /* decisions in a row that have found too much lost */
		uint64_t until;    /* in software: when to try hardware again, in ticks */
		uint64_t trials;   /* of hardware, in a row, that have lost too much */
	} losses ARCH_PADDED;
	after_update_function *after_update[AFTER_UPDATE_MOST + 1]; /* the last is NULL */
};

/* ------------------------------------------------------------ transactions */

enum tx_mode {
	TX_NONE,
	TX_HARDWARE,
	TX_IN_PLACE,  /* alone: it holds the turn, readers are shut out, it stores in place */
	TX_SERIAL,    /* in software, holding the turn from begin to end: it never runs again */
	TX_CONCURRENT /* in software, beside others; it runs again if it is defeated */
};

struct fur_ro {
	uint32_t depth; /* 0: not open */
	bool joined;    /* inside an update */
};

/* A read-only transaction whose body may run again (update/optimistic.c). */
struct fur_reader {
	struct fur_reader_view view; /* the first member: fur_load() looks at it (fur/detail.h) */
	/* The one in which the body runs, or NULL (update/snapshot.c) */
	struct fur_snapshot *snapshot;
	bool open;
	bool plain;      /* it is in active[] as a plain reader: all its loads are good */
	bool loaded;     /* since its body began */
	bool shares;     /* the snapshot is one that readers share */
	bool shuns;      /* its next run is plain */
	bool left;       /* libfur has left the body, which has not run again since */
	uint32_t again;  /* how often its body has run again */
	uint64_t opened; /* engine.shared_opened before the first run */
	/* Begins that have found updates in, and next_durts at the last look (optimistic.c) */
	uint32_t begins;
	uint64_t next_seen;
	void (*leave)(void);
	jmp_buf *restart;
};

enum {
	TX_FRESH = 2, /* the update has fresh blocks (fresh.h) */
	/* in place, in a heap that is mapped twice: see fur_update.writable */
	TX_SECOND_MAPPING = 4,
	TX_CHECKED = 8, /* a memory checker watches the process (blocks.h) */
	/* In place: it has failed, and the write set has what its later stores have overwritten
	 * (in_place.c) */
	TX_OVERWRITES = 16,
	/* A bulk update runs: each store, in place or in hardware, marks the record (marks.h) */
	TX_MARKS = 32,
	/* The commit of a bulk update: its stores are in the log and not in the write set, so it
	 * publishes alone */
	TX_BULK = 64,
	/* In place and in hardware, while a snapshot is open: images_look() (stm/images.h) */
	TX_IMAGES = 128
};

struct fur_update {
	/* The first member: fur_load() looks at it (fur.h).  Set in the two software modes. */
	struct fur_update_mode body;
	uint8_t flags;          /* TX_*, or'ed: what a store must look at */
	uint8_t flags_at_begin; /* TX_CHECKED or 0: with which `flags` each update begins */
	bool find_free;         /* FUR_DEBUG_DOUBLE_FREE */
	struct fur_thread *thread;
	uint8_t *base;  /* of the heap */
	uint64_t bytes; /* of the heap while the update is open, else 0 */
	struct redo_log *log;
	uint32_t depth; /* 0: not open */
	enum tx_mode mode;
	int error; /* 0, or the FUR_E* that makes the commit roll back */
	/* Where to store what belongs at `base`: there, or in a second mapping of the same pages
	 * (FUR_DEBUG_PLAIN_STORES).  Then the heap has no hardware transactions, and every store in
	 * place takes store_part()'s way. */
	uint8_t *writable;
};

/* State that the steps of a commit pass on to later steps.  On POWER the window writes it while
 * suspended.  So it lies on lines that no transaction touches, because a suspended store to a line
 * of the transaction aborts the transaction (INV-W1). */
struct commit_window {
	struct commit commit;
	uint64_t *seqs;  /* [max_threads] active[] as the isolation wait found it */
	uint64_t waited; /* ticks, in the isolation wait of an update that has committed */
	/* POWER: why the window could not be completed, or FUR_ABORT_CAUSES */
	enum fur_abort_cause refused;
	struct phase_clock clock;
	bool publishes_software; /* the transaction publishes a software update (publish.c) */
} ARCH_PADDED;

/* An update that runs in software. */
struct software_body {
	struct write_set writes;
	struct read_set reads;
	/* All its loads are of the state of the heap that the updates of lower durTSs have made.
	 * Kept from one body to the next: next_durts, as the thread has seen it last. */
	uint64_t snapshot;
	/* The snapshot; or 0, because of a sweep: then the next load looks at `sweeps`.  Owners:
	 * the thread, and who sweeps. */
	uint64_t bound;
	uint64_t sweep;        /* as the body has seen engine.sweeps last; even */
	uint32_t fresh_begins; /* bodies that begin with a look at next_durts */
	bool others;           /* have drawn between the thread's last two durTSs */
	bool holds;            /* the stamps of the lines that it writes */
	bool sweeps;           /* in place, beside bodies (stm/stamps.h) */
	bool repeatable;       /* fur_update_run() runs the body again if it is defeated */
	bool defeated;
	uint32_t defeats; /* of the body that fur_update_run() is running */
	/* How to leave a defeated body: a function that does not return, or NULL: by longjmp(). */
	void (*leave)(void);
	jmp_buf *restart;
};

/* When an update tries hardware, and when it runs in place (in_place.c). */
struct policy {
	uint64_t meetings; /* as this thread last saw it */
	uint32_t alone;    /* its short updates in a row that met no other */
	/* This many updates go without hardware, because several in a row overflowed it. */
	uint32_t skip, overflows;
	/* Of hardware updates, in ticks: when the last report to engine.losses was, what they have
	 * lost since, and from when on the open update loses.  Owner: update/switch.c. */
	uint64_t report_began, lost, first_attempt;
	struct crowd_place *core_place; /* where its open update was let in, or NULL (crowd.c) */
};

/* Where a thread saves lines for the newest snapshot (stm/images.c). */
struct saver {
	uint64_t number;    /* the snapshot's */
	uint64_t next, end; /* images that are the thread's to use */
};

/* What a thread knows of nondurable[] (reader.c). */
struct quiet_scan {
	uint32_t misses; /* in a row */
	uint32_t skip;   /* this many transactions do not ask */
};

/* The blocks that the open update has allocated and freed (blocks.h). */
struct noted_blocks {
	struct noted_block {
		uint8_t *at;
		uint64_t bytes, keep;
		bool freed;
	} * blocks;
	uint32_t n, most;
};

/* The last address that fur_free() refused, for the message of FUR_EFREE. */
struct refused_free {
	const void *at;
	uint64_t bytes; /* of the block that is there, and free already; 0: no block begins there */
};

/* The fresh blocks of an update (fresh.h). */
enum { FRESH_BLOCKS = 16 };
struct fresh_blocks {
	uint32_t n;
	uint64_t pages; /* that the update's commit wrote to the file */
	struct fresh_block {
		uint8_t *from, *end;
		uint8_t *low, *high; /* the update has stored only in between */
	} blocks[FRESH_BLOCKS];
};

struct fur_thread {
	struct engine *engine;
	struct durability *durability;
	/* this_thread() of the thread that has registered, or NULL */
	const struct this_thread *owner;
	struct fur_heap *heap;
	uint32_t index; /* in every array of threads */
	uint32_t state; /* of the registration: api/thread.c */
	struct fur_ro ro;
	struct fur_reader reader;
	struct fur_update update;
	uint64_t seq;           /* of active[], odd while active */
	uint64_t attempt_began; /* ticks */
	const char *name;
	uint64_t entries_since_look; /* api/pages.c */
	uint64_t counted;            /* transactions that it had ended at the last count: crowd.c */
	struct commit_window window;
	struct software_body software;
	struct fresh_blocks fresh;
	struct policy policy;
	struct quiet_scan quiet;
	struct saver saver;
	/* The last ticket given out, and the last one for which this thread has waited.  They
	 * belong to the index, whose next thread goes on from them: a ticket outlives its
	 * registration. */
	uint64_t tickets, waited;
	uint64_t began;     /* ticks, with phase_times */
	void *window_stack; /* POWER, else NULL */
	struct thread_stats {
		uint64_t ro_commits, update_commits, lock_commits, empty_commits, log_entries;
		uint64_t software_commits, serial_commits, defeats, async_commits, reads_again;
		uint64_t saved_lines;
		uint64_t aborts[FUR_ABORT_CAUSES];
		uint64_t phase_ticks[FUR_PHASES];
	} stats ARCH_PADDED;
	/* Only active_poll()'s: the reader that it has found in active[], and when first, in ns. */
	struct polled {
		uint64_t seq, since_ns;
	} polled;
	struct refused_free refused;
	struct noted_blocks noted;
	/* The update over several heaps of which the thread's update here is a part, or NULL */
	struct together *together;
	/* Of its last bulk update, in ticks: how long readers and updates were shut out, and how
	 * much of that it took to store */
	struct bulk_pause {
		uint64_t all, store;
	} pause;
	/* Why the open update has failed, if no other message tells: tx_fail_saying().  Or "". */
	char failure[512];
	/* Where the thread's registration with a group points to this one, or NULL; it points
	 * nowhere when this one ends (group_touch()).  At the end, where it shares no line with
	 * what transactions use. */
	struct fur_thread **noted_at;
};

/* The calling thread, across all heaps.  A thread has at most one transaction open.  If threads had
 * transactions open on two heaps at once, they could wait for each other in a circle: updates in
 * their isolation waits, and readers because each delays the lock of one heap and waits for the
 * lock of the other. */
struct this_thread {
	const struct fur_thread *open; /* the registration that has a transaction open, or NULL */
	/* The heap whose pages the child does not get: while heap_fork() runs, else NULL */
	struct fur_heap *forking;
};
ARCH_THREAD_LOCAL_DECLARE(struct this_thread, this_thread)

static inline bool thread_has_open(const struct fur_thread *t)
{
	return t->update.depth || t->ro.depth || t->reader.open;
}

/* Note that two transactions have met: for the policy (in_place.c).  One of several threads that
 * meet at once writes; otherwise they would queue for the line. */
static inline void lock_note_meeting(struct engine *e)
{
	uint64_t turn = arch_load(&e->lock.releases) + 1;
	if (arch_load(&e->meetings) != turn)
		arch_store(&e->meetings, turn);
}

static inline enum shut shut_now(const struct engine *e)
{
	return (enum shut)arch_load_acquire(&e->lock.shut);
}

static inline bool readers_are_out(const struct engine *e)
{
	return shut_now(e) != READERS_IN;
}

static inline enum updates_run updates_run_in(const struct engine *e)
{
	return (enum updates_run)arch_load_acquire(&e->lock.updates);
}

/* Must a hardware update that has begun give up?  Both loads are tracked: a thread that changes one
 * of the words afterwards aborts the update (INV-H3, INV-UR1). */
static inline bool hardware_is_out(const struct engine *e)
{
	return readers_are_out(e) || arch_load(&e->lock.updates) != HARDWARE;
}

/* --------------------------------------------------------------- statistics */

static inline void stat_add(uint64_t *counter, uint64_t n)
{
	/* One thread writes it; fur_get_stats() reads it at any time. */
	arch_store(counter, arch_load(counter) + n);
}

/* Is this process a child of fork(), with a copy of the heap (api/fork.c)? */
static inline bool engine_forked(const struct engine *e)
{
	return (int)arch_load(&e->durability->failed) == FUR_EFORK;
}

/* Refuse a transaction on this heap, whose `failed` is set: sets the message, returns the error. */
FUR_MUST_USE int tx_refuse(const struct engine *e);

/* Refuse a registration that is another thread's, or that was given back: sets the message, returns
 * `error`. */
FUR_MUST_USE int tx_foreign(const char *function, int error);

/* Is the transaction that the calling thread has open one of this registration?  Errors: FUR_EFORK,
 * FUR_EINVAL, FUR_ENESTED. */
FUR_MUST_USE int tx_check_join(const struct fur_thread *t, const char *function);

/* Refuse a begin by `function`, because the registration is another thread's or a transaction is
 * open: sets the message, returns the error.  `join`: the function that would join it, or NULL. */
FUR_MUST_USE int tx_refuse_begin(
        const struct fur_thread *t, const char *function, const char *join);

/* Is the update open, and the calling thread's?  Costs one load more than `depth` alone, from the
 * same line. */
static inline bool tx_is_mine(const struct fur_update *tx)
{
	return tx && tx->depth > 0 && tx->thread->owner == this_thread();
}

/* Do the bytes lie in the heap, which has grown since the update began?  Only tx_in_heap() calls
 * it. */
bool tx_in_grown_heap(struct fur_update *tx, const void *at, size_t bytes);

/* Do the bytes lie in the heap of the open update? */
static inline bool tx_in_heap(struct fur_update *tx, const void *at, size_t bytes)
{
	uint64_t offset = (uint64_t)((const uint8_t *)at - tx->base);
	return likely(offset < tx->bytes && bytes <= tx->bytes - offset) ||
	       tx_in_grown_heap(tx, at, bytes);
}

/* Refuse an update that is not: sets the message, returns the error. */
FUR_MUST_USE int tx_not_mine(const struct fur_update *tx, const char *function);

/* Where the update stores what belongs at `at`, an address of the heap. */
static inline uint8_t *tx_writable(const struct fur_update *tx, const void *at)
{
	return tx->writable + ((const uint8_t *)at - tx->base);
}

/* From now on the update stores in place. */
static inline void tx_in_place(struct fur_update *tx)
{
	tx->mode = TX_IN_PLACE;
	if (unlikely(tx->writable != tx->base))
		tx->flags |= TX_SECOND_MAPPING;
}

/* Mark the update as ended. */
void tx_reset(struct fur_update *tx);

/* The thread's update has ended, and no thread waits for it any more. */
static inline void tx_leave_core(struct fur_thread *t)
{
	if (unlikely(t->policy.core_place))
		crowd_leave(t);
}

/* Add a callback, to be called after those that are there.  Before a thread registers. */
void after_update_add(struct engine *e, after_update_function *f);
static inline void after_update_call(struct fur_thread *t, uint64_t entries)
{
	for (after_update_function *const *f = t->engine->after_update; *f; f++)
		(*f)(t, entries);
}

/* The thread's update has ended without a commit.  Not in a child of fork(). */
static inline void tx_report_rolled_back(struct fur_thread *t)
{
	if (t->engine->after_update[0] && !engine_forked(t->engine))
		after_update_call(t, 0);
}

/* The ticket of this number of the thread. */
enum { TICKET_INDEX_BITS = 16 };
static inline fur_ticket ticket_of(const struct fur_thread *t, uint64_t number)
{
	return (fur_ticket){t->engine->ticket_source << TICKET_INDEX_BITS | t->index, number};
}

/* Make the commit of the open update fail with `error`. */
void tx_fail(struct fur_update *tx, int error);
/* The same, and then fur_errormsg() says what it says now. */
void tx_fail_saying(struct fur_update *tx, int error);
#endif /* FUR_TX_H */
