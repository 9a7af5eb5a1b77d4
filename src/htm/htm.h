/* SPDX-License-Identifier: BSD-3-Clause
 *
 * htm.h - hardware transactions, who is active, the isolation wait, the fallback lock.  The
 * contract of src/htm.
 *
 *   INV-H1  A read-only transaction publishes active[i] before its first load, and takes it back
 *           after its last (reader.c).
 *   INV-H2  An update becomes visible only after every transaction that was active when it scanned
 *           active[], and may have read the old value of what it wrote, is no longer (the isolation
 *           wait).  Its stores are performed, that is, would abort on a conflicting load, before it
 *           scans.
 *   INV-H3  While the fallback lock is held and its holder's body runs, no transaction is active
 *           and none can commit in hardware over what the body reads or writes (lock.c).
 *
 *   INV-H4  A location that fur_promote() names is in the write set of the hardware update: another
 *           update that writes it conflicts, so snapshot isolation shows no write skew on it.
 *
 * Who appears in active[]: read-only transactions always; updates only where their loads are
 * untracked (POWER, snapshot).
 */
#ifndef FUR_HTM_H
#define FUR_HTM_H

#include "durability/ring.h"
#include "htm/policy.h"

/* ------------------------------------------------------------------ shared */

struct active {
	uint64_t seq; /* 0, or the odd sequence number of the transaction this thread runs */
	/* 0, or 1 + the lock's turn since which this thread waits until the lock is free
	 * (lock.c) */
	uint64_t want;
	/* With want: when a reader began to wait, in ticks; 0: an update that will try hardware */
	uint64_t since;
} ARCH_PADDED;

/* The single global lock (SGL).  `held` keeps readers and hardware out; the turn decides which
 * update holds it next. */
struct fallback_lock {
	uint64_t held ARCH_PADDED;  /* 0 or 1.  Alone on its line: every transaction reads it. */
	uint64_t taken ARCH_PADDED; /* the turn: enum turn.  A futex. */
	uint64_t waiters;           /* threads that wait for the turn, awake or asleep */
	uint64_t reserved;          /* turns reserved so far */
	uint64_t served;            /* of them, turns handed over.  A futex. */
	uint64_t served_sleepers;
	/* Grows at every release.  A futex: threads sleep on it until the lock is free. */
	uint64_t turn ARCH_PADDED;
	uint64_t sleepers;  /* so many */
	uint64_t next_call; /* the holder's: when it may wake them again, in ticks */
};

struct htm_ops;

struct htm {
	const struct htm_ops *ops;
	struct durability *durability;
	struct active *active; /* [max_threads] */
	struct fallback_lock lock;
	enum fur_htm kind;
	enum fur_isolation isolation; /* what is given */
	bool updates_active;          /* updates appear in active[] too */
	uint32_t retries;
	bool phase_times;
	uint64_t reader_report_ns;
	void (*reader_report)(const struct fur_reader_report *, void *);
	void *reader_report_arg;
	struct fur_thread *threads; /* [max_threads] */
	uint64_t long_readers, longest_reader_ns;
	/* Called by a thread that has committed an update of so many log entries, between its
	 * transactions; or NULL. */
	void (*after_update)(struct fur_thread *t, uint64_t entries);
};

/* ------------------------------------------------------------ transactions */

enum tx_mode { TX_NONE, TX_HARDWARE, TX_LOCK };

struct fur_ro {
	uint32_t depth; /* 0: not open */
	bool joined;    /* inside an update */
};

struct fur_update {
	struct fur_thread *thread;
	uint8_t *base;  /* of the heap */
	uint64_t bytes; /* of the heap while the update is open, else 0 */
	struct redo_log *log;
	uint32_t depth; /* 0: not open */
	enum tx_mode mode;
	int error; /* the FUR_E* for which the commit will roll back, or 0 */
};

/* What the steps of a commit leave for those after them.  On POWER the window writes it while
 * suspended, so it lies on lines that no transaction touches: a suspended store to a line of the
 * transaction aborts it (INV-W1). */
struct htm_window {
	struct commit commit;
	uint64_t *seqs; /* [max_threads] active[] as the isolation wait found it */
	/* POWER: why the window could not be completed, or FUR_ABORT_CAUSES */
	enum fur_abort_cause refused;
	struct phase_clock clock;
} ARCH_PADDED;

struct fur_thread {
	struct htm *htm;
	struct durability *durability;
	/* this_thread() of the thread that has registered, or NULL */
	const struct this_thread *owner;
	struct fur_heap *heap;
	uint32_t index; /* in every array of threads */
	uint32_t state; /* of the registration: api/thread.c */
	struct fur_ro ro;
	struct fur_update update;
	uint64_t seq;           /* of active[], odd while active */
	uint64_t attempt_began; /* ticks */
	const char *name;
	uint64_t entries_since_look; /* api/pages.c */
	struct htm_window window;
	uint64_t began;     /* ticks, with phase_times */
	void *window_stack; /* POWER, else NULL */
	struct thread_stats {
		uint64_t ro_commits, update_commits, lock_commits, empty_commits, log_entries;
		uint64_t aborts[FUR_ABORT_CAUSES];
		uint64_t phase_ticks[FUR_PHASES];
	} stats ARCH_PADDED;
};

/* The calling thread, over all heaps.  Transactions of one thread on two heaps can wait for each
 * other in a circle: updates through their isolation waits; readers because each holds up the lock
 * of one heap, and waits for that of the other.  So it has one. */
struct this_thread {
	const struct fur_thread *open; /* the registration that has a transaction open, or NULL */
};
ARCH_THREAD_LOCAL_DECLARE(struct this_thread, this_thread)

/* --------------------------------------------------------------- back ends */

#define HTM_STARTED UINT64_MAX

/* What a back end must do.  begin() returns HTM_STARTED inside a hardware transaction, or, any
 * number of times later, the status of its abort. */
struct htm_ops {
	uint64_t (*begin)(struct fur_thread *t);
	enum fur_abort_cause (*classify)(uint64_t status);
	/* Steps from the last access to visible.  Returns when the update is visible, D collected;
	 * or never: it aborted. */
	void (*commit)(struct fur_thread *t);
	/* End a transaction whose stores have been undone, or that made none: D collected. */
	void (*commit_empty)(struct fur_thread *t);
	/* Abort, with a cause classify() will give back.  Does not return. */
	void (*abort)(enum fur_abort_cause cause);
	/* After an abort, outside: settle what the attempt owes (a durTS drawn).  0 or FUR_E*. */
	int (*aborted)(struct fur_thread *t);
};
extern const struct htm_ops htm_tsx, htm_tsx_tracked, htm_power;

/* A stack for the window on POWER: its upper end, or NULL (window_stack.c). */
void *window_stack_new(void);
void window_stack_delete(void *stack);

/* Choose a back end by what was asked for and what the processor can do; say why. */
FUR_MUST_USE int htm_choose_on(const struct arch_cpu *cpu, struct htm *h, enum fur_htm asked,
        enum fur_isolation isolation, char *reason, size_t reason_bytes);
FUR_MUST_USE int htm_choose(struct htm *h, enum fur_htm asked, enum fur_isolation isolation,
        char *reason, size_t reason_bytes);

/* ---------------------------------------------------------- lock (lock.c) */

void lock_acquire(struct htm *h, uint32_t me);
void lock_release(struct htm *h);
/* As an update that will try hardware: wait until this thread sees the lock free.  False: the lock
 * was held whenever this thread looked, for so many of its turns that the update must take a turn
 * itself. */
FUR_MUST_USE bool lock_wait_free(struct htm *h, uint32_t me);
/* As a reader that found the lock held: wait for a turn.  Returns when it may try again. */
void lock_wait_reader(struct htm *h, uint32_t me);

static inline bool lock_held(const struct htm *h)
{
	return arch_load_acquire(&h->lock.held) != 0;
}

/* --------------------------------------------------------------- statistics */

static inline void stat_add(uint64_t *counter, uint64_t n)
{
	/* Written by one thread, read by fur_get_stats() at any time. */
	arch_store(counter, arch_load(counter) + n);
}

/* Is this process a child of fork(), with a copy of the heap (fur_fork.c)? */
static inline bool htm_forked(const struct htm *h)
{
	return (int)arch_load(&h->durability->failed) == FUR_EFORK;
}

/* Why no transaction may begin on this heap, whose `failed` is set; in words. */
FUR_MUST_USE int tx_refuse(const struct htm *h);

/* The registration is not the calling thread's; in words. */
FUR_MUST_USE int tx_foreign(const char *function, int error);

/* May the calling thread begin a transaction of its own with the registration, or join the one that
 * it has open?  `what`, for messages: "an update".   Errors: FUR_EFORK, FUR_EINVAL, FUR_ENESTED. */
FUR_MUST_USE int tx_check_begin(const struct fur_thread *t, const char *function, const char *what);

/* Is the update the calling thread's, and open?  One load more than `depth`, from the same line. */
static inline bool tx_is_mine(const struct fur_update *tx)
{
	return tx && tx->depth > 0 && tx->thread->owner == this_thread();
}

/* Why it is not; in words. */
FUR_MUST_USE int tx_not_mine(const struct fur_update *tx, const char *function);

/* The update is over. */
void tx_close(struct fur_update *tx);

/* Roll back and end whatever the thread has open; for threads that end inside a transaction. */
void tx_abandon(struct fur_thread *t);

/* Fail the open update with `error` at its commit. */
void tx_fail(struct fur_update *tx, int error);

#endif /* FUR_HTM_H */
