/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap.h - an open heap: all its parts, put together.  With attach.h it is the contract of src/api:
 * the functions of fur.h for heaps, threads, options and statistics.
 */
#ifndef FUR_API_HEAP_H
#define FUR_API_HEAP_H

#include "alloc/alloc.h"
#include "durability/durability.h"
#include "file/heap_file.h"
#include "replay/replay.h"
#include "tx/tx.h"

/* The limit fur_options.dram_bytes (pages.c). */
struct page_limit {
	uint64_t bytes; /* 0: no limit */
	uint64_t page_bytes;
	int statm, pagemap;
	pthread_mutex_t mutex; /* a thread that counts pages and hands them back holds it */
	uint64_t times, bytes_handed_back; /* under the mutex: what these threads have done */
	/* When a thread last counted the heap's private pages: how many it found, or UINT64_MAX,
	 * and how many anonymous pages the process had; the log's entries since */
	uint64_t counted, anonymous, entries;
	uint64_t refused; /* 1: the kernel does not take pages back */
};

/* fur_options.log (log.c). */
struct event_log {
	void (*log)(enum fur_log_level level, const char *message, void *arg); /* or NULL */
	void *arg;
};

/* A thread of libfur's own that lets the heap grow before updates need it (grow.c). */
struct grower {
	pthread_t thread;
	bool runs;
	/* Event: `called` or `stopping`.  Another line than anything that updates write to. */
	uint32_t calls ARCH_PADDED;
	uint32_t called; /* 1: it has been called, and is not done */
	uint32_t stopping;
};

/* Of a standby: how far this process's follower has applied the stream, and who waits for it
 * (src/ship/standby.c).  All zero before it has begun; it stays when it has ended. */
struct standby {
	/* Protects all of this.  libfur never destroys it, as `polling` */
	pthread_mutex_t mutex;
	/* Event: what is here, or in the follower's state, has changed */
	uint32_t moved ARCH_PADDED;
	struct fur_follower *follower; /* or NULL */
	bool known;                    /* the next words are set */
	uint64_t lineage, durts;       /* as in struct follow_view */
	struct {
		uint64_t lineage, durts;
	} ended[8];
};

/* fur_thread.state: of a place in fur_heap.threads. */
enum thread_state { THREAD_FREE, THREAD_REGISTERED };

struct fur_heap {
	struct heap_file file;
	struct durability durability;
	struct engine engine;
	struct fur_thread *threads;  /* [max_threads] */
	pthread_mutex_t registering; /* protects the states of `threads` */
	/* Thread-specific: the thread's registration; the key's destructor ends it */
	pthread_key_t self;
	struct page_limit page_limit;
	struct event_log log;
	struct grower grower;
	struct standby standby;
	pthread_mutex_t polling; /* lets one thread at a time call active_poll() */
	struct fur_info info;
	bool store_watch; /* FUR_DEBUG_PLAIN_STORES (plain_stores.c) */
	uint64_t debug;   /* fur_options.debug */
	pid_t owner;      /* the process that opened it */
	uint32_t ending;  /* threads between heaps_enter() and heaps_leave() */
	struct fur_heap *next_open;
	struct fur_group *group; /* of which it is a member, and which closes it; or NULL */
};

/* ------------------------------------------------------------ heap.c, info.c */

/* Make a handle for an open file, with its mutex and key.  Becomes the owner of the file, even if
 * it fails.  Errors: FUR_ENOMEM, FUR_ESYS. */
FUR_MUST_USE int heap_new(struct heap_file *file, struct fur_heap **out);

/* Put the heap's parts together: log, transactions, mapping, page limit.  Writes nothing to the
 * file (INV-F1).  Refuses the file for every defect except those that only recovery can find.
 * Errors: FUR_ECORRUPT, FUR_EINVAL, FUR_EADDRESS, FUR_ENOMEM, FUR_ESYS. */
FUR_MUST_USE int heap_put_together(struct fur_heap *heap, const struct fur_options *o);

/* Free the handle, the file, and all parts that exist.  The caller has removed the heap from the
 * list of open heaps. */
void heap_take_apart(struct fur_heap *heap);

/* Refuse NULL, and a copy that fork() made.  Errors: FUR_EINVAL, FUR_EFORK. */
FUR_MUST_USE int heap_check_handle(const struct fur_heap *heap, const char *function);

/* Fill in what fur_get_info() returns from now on. */
void heap_fill_info(struct fur_heap *heap, const struct replay_result *replayed);

/* ------------------------------------------------------------ open.c, close.c */

/* Open a heap in steps, so that the members of a group are recovered together: begin all, recover
 * those that were not closed and set info.recovered of these, and finish all.  Begin becomes the
 * owner of the file, even if it fails; the heap is on the list of open heaps then, and has the
 * right to replay.  It writes nothing (INV-F1).  `name`: the name that a new file gets, or NULL.
 * After a failure, give the heap up.
 * Errors: those of fur_open(). */
FUR_MUST_USE int heap_begin_opening(
        struct heap_file *file, const struct fur_options *o, struct fur_heap **out);
FUR_MUST_USE int heap_finish_opening(
        struct fur_heap *heap, const char *name, const struct replay_result *replayed);
void heap_give_up_opening(struct fur_heap *heap);

/* fur_close(), also of a member of a group.  The group has seen to it that no thread begins
 * anything meanwhile. */
FUR_MUST_USE int heap_close(struct fur_heap *heap);
/* Does something of the heap's keep it from being closed: a transaction, a snapshot, a follower?
 * In a child of fork() nothing does. */
bool heap_in_use(struct fur_heap *heap);
/* The same, where a thread that is registered keeps it open too. */
bool heap_has_users(struct fur_heap *heap);

/* ------------------------------------------------------------------- pages.c */

/* From now on, keep the heap's private pages within `bytes`; 0: no limit.  Errors: FUR_ESYS. */
FUR_MUST_USE int page_limit_start(struct fur_heap *heap, uint64_t bytes);
void page_limit_end(struct fur_heap *heap);

/* --------------------------------------------------------------------- log.c */

/* From now on, report events to fur_options.log. */
void log_start(struct fur_heap *heap, const struct fur_options *o);
/* Report how the heap was opened. */
void log_opened(const struct fur_heap *heap, const struct replay_result *replayed);
/* Report the events that are noted.  The caller holds no lock, and has no transaction open. */
void log_events(struct fur_heap *heap);

/* ------------------------------------------------------------------ memory.c */

/* Does a memory checker know the heap's blocks (tx/blocks.h)? */
bool heap_is_checked(const struct fur_heap *heap);

/* ------------------------------------------------------------ plain_stores.c */

/* From now on find plain stores into the heap, if `debug` asks for it.  After recovery, before
 * a thread registers.  Errors: those of heap_map_twice(); FUR_EBUSY. */
FUR_MUST_USE int store_watch_start(struct fur_heap *heap);
void store_watch_end(struct fur_heap *heap);

/* -------------------------------------------------------------------- grow.c */

/* From now on, let the heap grow in time, if it can grow.  Errors: FUR_ESYS. */
FUR_MUST_USE int grower_start(struct fur_heap *heap);
/* The heap must not have been disowned. */
void grower_end(struct fur_heap *heap);

/* -------------------------------------------------------------------- fork.c */

/* Add a heap to the list of heaps that this process has open.  Errors: FUR_ENOMEM. */
FUR_MUST_USE int heaps_add(struct fur_heap *heap);
/* Take a heap off the list, unless in_use() returns true; NULL: do not ask.  Waits for threads
 * between heaps_enter() and heaps_leave().
 * Errors, without a message: FUR_EINVAL (it is not open; `heap` may be no heap at all),
 * FUR_EBUSY. */
int heaps_remove(struct fur_heap *heap, bool (*in_use)(struct fur_heap *heap));
bool heaps_have(const struct fur_heap *heap);

/* The calling thread ends, and its registration with it: if that is still one of an open heap,
 * return the heap, which heaps_remove() leaves on the list until heaps_leave(); or NULL.  `t` may
 * point to freed memory: the C library may have read it before fur_close() deleted the key. */
FUR_MUST_USE struct fur_heap *heaps_enter(const struct fur_thread *t);
void heaps_leave(struct fur_heap *heap);

/* fork(), but the child does not get the heap's pages, and copying their page tables costs nothing.
 * The child must close its copy of the heap.  Returns: as fork(). */
FUR_MUST_USE pid_t heap_fork(struct fur_heap *heap);

/* Establish INV-K1 in a process that is a child of the one that opened the heap. */
void heap_disown(struct fur_heap *heap);

/* --------------------------------------------------------------- read_only.c */

/* Open a copy of a heap for reading.  Becomes the owner of the copy, even if it fails.  Errors:
 * those of fur_open_copy(). */
FUR_MUST_USE int read_only_open(
        struct heap_file *copy, const struct fur_options *o, fur_heap **out);
/* The options of a copy: no hardware transactions, a medium in memory. */
void read_only_options(struct fur_options *o);
/* The result of copying to memory: write_failed() tells of a file system, which there is none. */
int read_only_copied(int error);

/* ------------------------------------------------------------------ thread.c */

void thread_ended(void *thread); /* the destructor of `self` */
void thread_free_memory(struct fur_thread *thread);

/* ----------------------------------------------------------------- options.c */

/* Complete the program's options: defaults replace zeros, and the environment overrides some
 * options.  `given` NULL: all defaults.  Errors: FUR_EINVAL. */
/* heap_tune - set what FUR_TUNE in the environment names: settings for benchmarks and tests, which
 * no program needs.  Its words, separated by commas:
 *   retries=N         conflicts of an update in hardware before it runs in software; default 20
 *   pm-latency-ns=N   EMULATED: the time from write-back to durable; default 0
 *   pm-gap-ns=N       EMULATED: the time between two lines of one thread; default 0: they overlap
 *   no-populate       do not prefault the heap's private pages where hardware transactions run
 * Errors: FUR_EINVAL for another word. */
FUR_MUST_USE int heap_tune(struct fur_heap *heap);
FUR_MUST_USE int options_complete(const struct fur_options *given, struct fur_options *completed);

#endif /* FUR_API_HEAP_H */
