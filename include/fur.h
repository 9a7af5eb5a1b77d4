/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur.h - durable transactions on a persistent heap, at the speed of hardware transactional memory.
 *
 * READ THIS FIRST
 *
 *  - A heap is one file.  fur_open() maps it at the address recorded in it, so raw pointers into
 *  the heap stay valid over
 *    restarts and may be stored in the heap.
 *  - Shared data is read with fur_load() or fur_read() and written with fur_store() or fur_write(),
 *  inside a transaction.  A
 *    plain assignment into the heap is not logged: it is lost at the next open.
 *  - A read-only transaction (fur_begin_ro ... fur_end_ro) runs as plain loads, outside any
 *  hardware transaction: no
 *    capacity limit and no abort.  Updates that overlap it wait for it before they commit, so keep
 *    it from sleeping: fur_options.reader_report_ns tells you who did not.
 *  - An update (fur_begin_update ... fur_commit) may run its body several times: hardware rewinds
 *  it to fur_begin_update, as
 *    if it had not run.  Memory it wrote is rewound too; system calls are not, so an update should
 *    make none (the transaction then runs under the fallback lock).
 *  - When fur_commit() or fur_end_ro() has returned 0, everything that transaction wrote or read is
 *  durable.  - Transactions nest by flattening: an inner begin joins the outer transaction, the
 *  outermost commit commits all.  - A thread has transactions open on one heap at a time.  - End
 *  every transaction that you begin, also where an error makes you leave: see "When a rule
 *    is broken" below.
 *
 * VISIBLE AND DURABLE
 *
 *                       visible to others            durable
 *    fur_store          with fur_commit              with fur_commit
 *    fur_commit         atomically, before return    before return, with everything it read
 *    fur_abort          never                        never
 *    fur_end_ro         -                            before return: everything it read
 *    fur_close          -                            heap file complete by itself, log empty
 *
 * ERRORS
 *
 *    Functions return 0 or a negative FUR_E* code; fur_strerror() names the code and fur_errormsg()
 *    gives the calling thread's last failure in full: the file, what is wrong, what to do.  The
 *    library never prints and never exits.
 *
 * WHEN A RULE IS BROKEN
 *
 *    An update that is left by return or longjmp() stays open.  Each update that the thread begins
 *    afterwards joins it: the commits return 0, nothing is visible or durable, and other threads
 *    wait.  If the thread ends, or the process is killed, all of them are gone.  libfur cannot tell
 *    this from nesting; fur_thread_unregister() and fur_close() then return FUR_EBUSY.  The
 *    functions of fur.hpp end their transactions also where an exception leaves them.
 *    A read-only transaction that joined an update and is still open when the update ends, ends
 *    with it; fur_end_ro() then returns FUR_ENOTX.
 *    A registration that the calling thread does not have (another thread's, or given back) is
 *    refused by each function that returns a code: FUR_EINVAL, or FUR_ENOTX where a transaction is
 *    to be ended.  So is NULL.
 *    Not noticed: a handle that is used after its heap was closed (fur_close() alone returns
 *    FUR_EINVAL); a store by a thread that has not begun the update.  A NULL update given to a
 *    function that returns nothing stops the program.
 *    A libfur that is built with `meson setup -Dchecks=true` stops the program, and says why, at
 *    the misuse it can find where there is no result to return, or where looking for it would cost
 *    time.
 *
 * CANCELLATION
 *
 *    No function of libfur is a cancellation point, nor is anything that fur_options.reader_report
 *    calls.  A thread that is cancelled elsewhere inside a transaction rolls it back, see
 *    fur_thread_register().  Asynchronous cancellation (PTHREAD_CANCEL_ASYNCHRONOUS) must be off
 *    while a function of libfur runs, or a transaction is open.
 *
 * FORK
 *
 *    A child of fork() has a copy of each heap that its parent has open.  Every function that
 *    returns a code returns FUR_EFORK there, also for a transaction that was open at the fork;
 *    stores are not done.  fur_close() always works: it frees the copy and leaves the file alone.
 *    The child may open other heaps.  The parent's heap counts as open as long as a child has its
 *    copy, even if the parent has closed it, or is dead: close the copy, or call exec or _exit().
 *    The copy can be read, but it is not a snapshot: where the parent had not written to a page by
 *    the time of the fork, the child sees the file's page, and what the parent's replay writes to
 *    it; and of an update that was open at the fork the child sees the stores.  libfur learns of
 *    the fork by pthread_atfork().  After _Fork() or clone(), which run no such handlers, only
 *    fur_thread_register() by a thread that is not registered yet, and fur_close(), notice; begin
 *    nothing there.  A child that is made in a signal handler must not return from it.
 *
 * STRUCTS THAT GROW
 *
 *    Later releases may add fields to the end of struct fur_options, fur_info and fur_stats.
 *    `size` says how long the caller's is: set it to sizeof.  Less than the struct has in the first
 *    release, or more than 4096, is FUR_EINVAL.
 *    A struct shorter than the library's: the options that it lacks have their default, and the
 *    results that it lacks are left out.
 *    A struct longer than the library's: an option that the library does not know must be zero,
 *    else FUR_EINVAL; results that it does not know are set to zero.  On return `size` of fur_info
 *    and fur_stats says how many bytes the library has filled in.
 */
#ifndef FUR_H
#define FUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FUR_VERSION_MAJOR 0
#define FUR_VERSION_MINOR 1

#define FUR_API      __attribute__((visibility("default")))
#define FUR_MUST_USE __attribute__((warn_unused_result))

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ errors */

enum fur_error {
	FUR_OK = 0,
	FUR_EINVAL = -1,   /* an argument or option is not acceptable */
	FUR_ESYS = -2,     /* a system call failed; fur_errormsg() has its reason */
	FUR_ENOENT = -3,   /* no such heap file */
	FUR_EEXIST = -4,   /* fur_create: the file exists */
	FUR_ENOTHEAP = -5, /* the file is not a libfur heap (empty, or foreign) */
	/* Made by a version, or for a machine, that this library does not read */
	FUR_EVERSION = -6,
	FUR_ECORRUPT = -7,  /* damaged: truncated, or a checksum does not hold */
	FUR_EBUSY = -8,     /* open elsewhere, or still in use */
	FUR_EADDRESS = -9,  /* the heap's address range is taken in this process */
	FUR_ENOSPC = -10,   /* no room: disk or file system */
	FUR_ETHREADS = -11, /* more threads registered than the heap was made for */
	FUR_ENESTED = -12,  /* this thread has a transaction open that forbids this one */
	FUR_ENOTX = -13,    /* no such transaction is open on this thread */
	/* The update stored to an address outside the heap; it was rolled back */
	FUR_ERANGE = -14,
	FUR_ETOOBIG = -15, /* the update does not fit the thread's redo log; it was rolled back */
	/* The update was aborted with fur_abort(), here or in a nested transaction */
	FUR_EABORTED = -16,
	/* The medium refused a write: nothing more on this heap can be made durable */
	FUR_EIO = -17,
	FUR_ENOMEM = -18, /* out of memory (DRAM) */
	/* fur_free of what is no allocated block, as far as it sees that; it was rolled back */
	FUR_EFREE = -19,
	FUR_EFORK = -20, /* this process is a child of fork(), and has only a copy of the heap */
};

/* fur_strerror - one short line for an error code.  Never NULL. */
FUR_API const char *fur_strerror(int error);

/* fur_errormsg - the calling thread's last failure in full.  Never NULL; valid until the thread's
 * next failure. */
FUR_API const char *fur_errormsg(void);

/* ----------------------------------------------------------------- options */

enum fur_isolation {
	/* Every transaction, also one that aborts, sees a state some serial order explains */
	FUR_OPACITY,
	/* Snapshot isolation: on POWER, updates too read without capacity limit.  Runs as opacity
	 * elsewhere. */
	FUR_SNAPSHOT,
};

enum fur_htm {
	FUR_HTM_AUTO, /* the best this processor has; what was chosen, and why, is in fur_info */
	FUR_HTM_NONE, /* every update runs under the fallback lock */
	FUR_HTM_TSX,  /* Intel TSX (RTM), with TSXLDTRK where present */
	FUR_HTM_POWER /* POWER8 or POWER9 with suspend and resume */
};

enum fur_pm {
	FUR_PM_AUTO, /* PMEM or EADR where the file is on a DAX file system, else SYNC */
	FUR_PM_PMEM, /* persistent memory: cache lines are written back */
	/* Persistent memory with the caches in the persistence domain: no write-back needed */
	FUR_PM_EADR,
	/* Any file taken for persistent memory.  Survives a killed process; NOT a power failure. */
	FUR_PM_EMULATED,
	FUR_PM_SYNC /* an ordinary file: fdatasync, shared by the commits that wait for it */
};

struct fur_heap;
struct fur_thread;
struct fur_ro;
struct fur_update;
typedef struct fur_heap fur_heap;
typedef struct fur_thread fur_thread; /* one thread's registration with one heap */
typedef struct fur_ro fur_ro;         /* an open read-only transaction */
typedef struct fur_update fur_update; /* an open update transaction */

/* What fur_options.reader_report is told: an update has waited for this reader for `waited_ns`
 * nanoseconds. */
struct fur_reader_report {
	uint32_t thread;    /* the reader's slot, see fur_thread_slot() */
	uint64_t waited_ns; /* how long the update has waited so far */
	void *name;         /* what the reader's thread gave fur_thread_set_name(), or NULL */
};

/* Options for fur_create() and fur_open().  Start from fur_options_init(); zero always means the
 * default. */
struct fur_options {
	/* sizeof(struct fur_options), set by fur_options_init(): "Structs that grow", above */
	size_t size;

	/* Fixed when the heap is made; fur_open() takes them from the file. */
	uint64_t heap_bytes; /* the heap itself, allocator included; default 64 MiB */
	/* Redo log of each thread, a power of two; default 1 MiB.  Bounds one update's writes. */
	uint64_t log_bytes;
	/* Durability markers, a power of two; default 32768.  Bounds updates between replays. */
	uint64_t ring_slots;
	uint32_t max_threads; /* threads registered at one time; default 64, at most 1024 */
	/* Where the heap is mapped, a multiple of 64 KiB from 4 GiB on; default: chosen and
	 * recorded */
	uint64_t address;

	/* Chosen at each open.  FUR_HTM and FUR_PM in the environment override htm and pm. */
	enum fur_isolation isolation;
	enum fur_htm htm;
	enum fur_pm pm;
	/* EMULATED: time from write-back to durable; default 310, FUR_NO_LATENCY for none */
	uint32_t pm_latency_ns;
	/* EMULATED: between two lines of one thread; default 0: write-backs overlap */
	uint32_t pm_gap_ns;
	/* Hardware attempts that end in a conflict before the fallback lock; default 20 */
	uint32_t retries;
	/* Do not prefault the private heap pages (by default done when HTM is used) */
	bool no_populate;
	/* Measure fur_stats.phase_ns; costs some ten nanoseconds a transaction */
	bool phase_times;

	/* Report a reader that held an update up this long; default 100 ms */
	uint64_t reader_report_ns;
	/* Called by the update that waits, outside hardware transactions and at most once per wait,
	 * with cancellation off.  It must not use this heap, and must return: no longjmp(), no
	 * exception, no pthread_exit(). */
	void (*reader_report)(const struct fur_reader_report *report, void *arg);
	void *reader_report_arg;

	/* The heap's pages that this process has written are its own copies, in DRAM.  When they
	 * are more than this many bytes, they are brought up to date in the file and handed back;
	 * transactions wait meanwhile, some milliseconds.  Exceeded by what is written between two
	 * looks, about an eighth for each thread.  For heaps larger than memory; a hardware update
	 * that stores to a page that is not there aborts and fetches it.  Default 0: no limit, and
	 * with HTM all pages are copied at the open. */
	uint64_t dram_bytes;

	/* fur_create: the new file's permission bits, whatever the umask; default 0600.  Programs
	 * trust all who may write the file, and whoever may read it can keep it from being opened:
	 * see SECURITY.md. */
	uint32_t file_mode;
};

#define FUR_NO_LATENCY UINT32_MAX

/* fur_options_init - set every option to its default.  Here and not in the library, which may be
 * newer and have a longer struct. */
static inline void fur_options_init(struct fur_options *options)
{
	memset(options, 0, sizeof *options);
	options->size = sizeof *options;
}

/* ------------------------------------------------------------------- heaps */

/* fur_create - make a heap file and open it.  Durable: the empty heap, before return.   Crash: the
 * file exists complete, or not at all.  Its mode is 0600 (fur_options.file_mode).  The file is
 * allocated whole, so work on it never meets a full disk.  Errors: FUR_EEXIST, FUR_EINVAL (sizes),
 * FUR_ENOSPC (does not fit; nothing is left behind), FUR_EADDRESS, FUR_ESYS. */
FUR_API FUR_MUST_USE int fur_create(
        const char *path, const struct fur_options *options, fur_heap **heap);

/* fur_open - open a heap file; replay its log first if it was not closed.  After return the heap
 * holds exactly the updates whose fur_commit() returned, and perhaps some that were still in it.
 * One wrong byte in the log is corrected.  A file that is damaged otherwise, or was copied while a
 * program had it open, is refused where it proves that an update is missing (FUR_ECORRUPT);
 * docs/protocol.md says exactly which damage can pass.  Nothing is written to a file that is
 * refused, but for the control region, which means nothing while the heap is not open.  A copy with
 * holes gets its blocks first, so work on it never meets a full disk, either.  Errors: FUR_ENOENT,
 * FUR_ENOTHEAP, FUR_EVERSION, FUR_ECORRUPT, FUR_EBUSY (open elsewhere, or
 *         locked by a process that reads it),
 *         FUR_EADDRESS, FUR_ENOSPC (no room for a copy's holes), FUR_ENOMEM, FUR_ESYS. */
FUR_API FUR_MUST_USE int fur_open(
        const char *path, const struct fur_options *options, fur_heap **heap);

/* fur_close - replay what is in the log, mark the heap closed, unmap it.  The handle is gone,
 * unless FUR_EBUSY.  In a child of fork() it frees the child's copy, and leaves the file alone.
 * Durable: everything.  Errors: FUR_EBUSY while a thread has a transaction open; FUR_EINVAL if the
 * heap is not open;
 *         FUR_EIO. */
FUR_API FUR_MUST_USE int fur_close(fur_heap *heap);

/* fur_base, fur_bytes - where the heap is mapped, and how large it is; NULL and 0 for NULL. */
FUR_API void *fur_base(const fur_heap *heap);
FUR_API uint64_t fur_bytes(const fur_heap *heap);

/* What is running, and why. */
struct fur_info {
	size_t size; /* sizeof(struct fur_info), set by the caller: "Structs that grow", above */
	enum fur_htm htm;
	/* What transactions get, which may be more than was asked for */
	enum fur_isolation isolation;
	enum fur_pm pm;
	char htm_reason[160]; /* why this back end */
	char pm_reason[160];  /* why this domain, and what it does not survive */
	uint64_t heap_bytes, log_bytes, ring_slots, address;
	uint32_t max_threads;
	/* What fur_open() had to do. */
	bool recovered;            /* the heap had not been closed */
	uint64_t replayed_updates; /* updates replayed then */
	uint64_t replayed_entries; /* their redo-log entries */
	uint64_t replay_ns;
	uint64_t corrected_updates; /* of them, those in whose log one wrong byte was corrected */
};

/* fur_get_info - what was chosen, and what the open had to do.
 * Errors: FUR_EINVAL (info->size), FUR_EFORK. */
FUR_API FUR_MUST_USE int fur_get_info(const fur_heap *heap, struct fur_info *info);
FUR_API const char *fur_htm_name(enum fur_htm htm);
FUR_API const char *fur_pm_name(enum fur_pm pm);
FUR_API const char *fur_isolation_name(enum fur_isolation isolation);

/* ----------------------------------------------------------------- threads */

/* fur_thread_register - the calling thread's registration with this heap, made if there is none.
 * The slot goes back when the thread ends, also if it does not say so; a transaction still open
 * then is rolled back.  A registration is used by its own thread only.   Errors: FUR_ETHREADS,
 * FUR_ENOMEM, FUR_EFORK. */
FUR_API FUR_MUST_USE int fur_thread_register(fur_heap *heap, fur_thread **thread);

/* fur_thread_unregister - give the slot back now.
 * Errors: FUR_EBUSY inside a transaction; FUR_EINVAL if the calling thread does not have this
 *         registration; FUR_EFORK. */
FUR_API FUR_MUST_USE int fur_thread_unregister(fur_thread *thread);

/* fur_thread_slot - the number of its slot, from 0; UINT32_MAX for NULL. */
FUR_API uint32_t fur_thread_slot(const fur_thread *thread);

/* fur_thread_set_name - what reader reports call this thread.  The pointer is kept, not copied. */
FUR_API void fur_thread_set_name(fur_thread *thread, const char *name);

/* ------------------------------------------------------------ transactions */

/* fur_begin_ro - begin a read-only transaction.
 * Waits only while the fallback lock is held.  Inside an update of this heap it joins that update,
 * and ends with it at the latest.
 * Errors: FUR_ENESTED with a transaction open on another heap: two threads that read two heaps in
 *         opposite order could wait for each other for ever.  FUR_EINVAL, FUR_EFORK, FUR_EIO.
 *         *ro is NULL then. */
FUR_API FUR_MUST_USE int fur_begin_ro(fur_thread *thread, fur_ro **ro);

/* fur_end_ro - end it.
 * Durable: everything it read, before return.
 * Errors: FUR_ENOTX, FUR_EFORK; FUR_EIO: the data that it read may not be durable. */
FUR_API FUR_MUST_USE int fur_end_ro(fur_ro *ro);

/* fur_begin_update - begin an update transaction.  Inside another update of this heap it joins it.
 * Control may come back here several times, with memory as it was; only the last time counts.
 * Errors: FUR_ENESTED inside a read-only transaction, or with a transaction open on another heap;
 *         FUR_EINVAL, FUR_EFORK, FUR_EIO.  *update is NULL then. */
FUR_API FUR_MUST_USE int fur_begin_update(fur_thread *thread, fur_update **update);

/* fur_commit - make the open update visible, then durable, and end it.
 * Visible:  atomically, before return.   Durable: before return, with everything it read.
 * Crash:    before return, all or nothing; after return, all.
 * Nested:   ends the inner transaction only; the outermost commit does the work and has the result.
 * Errors:   FUR_ERANGE, FUR_ETOOBIG, FUR_EFREE, FUR_EINVAL (fur_store_bits), FUR_EABORTED: rolled
 *           back, nothing is visible.
 *           FUR_ENOTX: no update is open.  FUR_EFORK: only the parent can end it.
 *           FUR_EIO: visible, but it may not survive a power failure.
 * Source:   FUR (EuroSys '26) Algorithm 1, with the durability rule of docs/protocol.md. */
FUR_API FUR_MUST_USE int fur_commit(fur_update *update);

/* fur_abort - roll the open update back and end it; returns FUR_EABORTED, or FUR_ENOTX, FUR_EFORK.
 * Private memory keeps what the body wrote to it.  Nested: the outermost commit rolls everything
 * back. */
FUR_API int fur_abort(fur_update *update);

/* ------------------------------------------------------------------ access */

/* fur_write - store `bytes` bytes, logged as they are.  Not atomic against plain readers of other
 * threads' making; inside transactions it is as atomic as the transaction.  `from` and `to` may
 * overlap, as with memmove().  fur_read - its counterpart.   With 0 bytes both do nothing, whatever
 * the pointers are. */
FUR_API void fur_write(fur_update *update, void *to, const void *from, size_t bytes);
FUR_API void fur_read_bytes(void *to, const void *from, size_t bytes);

/* fur_store_bits - fur_store() calls it: store the lowest `bytes` bytes of `bits`, 1 to 8.  With 1,
 * 2, 4 or 8 bytes, at a multiple of that, no thread sees half of it.
 * Other numbers of bytes: nothing is stored, and the commit fails with FUR_EINVAL. */
FUR_API void fur_store_bits(fur_update *update, void *to, uint64_t bits, unsigned bytes);

/* fur_promote - make a read of the byte at `at` count as a write, against other updates: of two
 * updates that overlap, one that writes what the other has promoted aborts one of them (read
 * promotion).  For FUR_SNAPSHOT, under which an update may otherwise commit although what it has
 * read is changed by another meanwhile (write skew); where updates are opaque it does nothing.
 * Writes and logs nothing.  Granularity: the processor's line.   Outside the heap: the commit
 * fails with FUR_ERANGE. */
FUR_API void fur_promote(fur_update *update, void *at);

/* fur_alloc - memory in the heap, 16-byte aligned (64 from 64 bytes on, in multiples of 64),
 * contents undefined.
 * Part of the update: an abort or a crash leaks nothing.
 * Returns: NULL when the heap is full, and when the update has failed already, for whatever reason:
 * its commit says which.
 *
 * Up to 16 KiB a block has one of 36 sizes and lies among others of its size in a chunk of 64 KiB;
 * a larger one is a run of chunks.  A chunk of which nothing is in use serves any size: at once,
 * or, where the chunk has few blocks or threads have some in stock, when fur_alloc would otherwise
 * return NULL.  That fur_alloc looks through the stocks of all threads and logs up to three
 * quarters of fur_options.log_bytes.  With logs of a few KiB this may not suffice, for a long run
 * above all, and NULL is returned. */
FUR_API void *fur_alloc(fur_update *update, size_t bytes);

/* fur_free - give it back.  NULL is fine.  It may be reused as soon as this update has committed:
 * by then every reader that could have seen it has ended.  After the update has failed fur_free
 * does nothing.
 * Errors: the commit fails with FUR_EFREE for an address outside the heap or inside a block; for a
 *         small block that was never allocated, unless another thread's fur_alloc keeps it at hand;
 *         for a run of chunks that is free already; and for the block that this thread freed last.
 *         Other blocks that are free already are not noticed: two fur_allocs may then return the
 *         same one.  fur-check finds such damage. */
FUR_API void fur_free(fur_update *update, void *memory);

/* fur_usable_bytes - how large the block really is; 0 for an address at which no block can begin.
 * Does not say whether the block is allocated. */
FUR_API size_t fur_usable_bytes(const fur_heap *heap, const void *memory);

/* Roots: FUR_ROOTS words from which a program finds its data again. */
#define FUR_ROOTS 64
FUR_API void *fur_root(const fur_heap *heap, unsigned index); /* read it inside a transaction */
FUR_API void fur_set_root(fur_update *update, unsigned index, const void *value);

/* -------------------------------------------------------------- statistics */

enum fur_abort_cause {
	/* Another transaction's access to a line of this one; where hardware does not tell, any
	 * access */
	FUR_ABORT_CONFLICT,
	FUR_ABORT_PLAIN,    /* an access outside transactions, a reader's mostly (POWER) */
	FUR_ABORT_CAPACITY, /* more lines than the hardware tracks */
	FUR_ABORT_LOCK,     /* the fallback lock was held, or was taken */
	FUR_ABORT_READER,   /* a reader took longer than the hardware transaction could wait */
	FUR_ABORT_FULL,     /* redo log or ring full: room was made, and it ran again */
	/* No cause given: an interrupt, a page fault, a forbidden instruction */
	FUR_ABORT_FAULT,
	FUR_ABORT_USER, /* fur_abort(), or an error that rolled the update back */
	FUR_ABORT_CAUSES
};

enum fur_phase {
	FUR_PHASE_BODY,       /* from begin to commit, attempts that aborted included */
	FUR_PHASE_ISOLATION,  /* isolation wait */
	FUR_PHASE_LOG,        /* making the redo log ready: copies, checksums, drawing the slot */
	FUR_PHASE_FLUSH,      /* write-backs of log and marker, and the fence */
	FUR_PHASE_DURABILITY, /* durability wait of updates */
	FUR_PHASE_RO_BODY,    /* read-only transactions, begin to end */
	FUR_PHASE_RO_WAIT,    /* durability wait of read-only transactions */
	FUR_PHASE_LOCK,       /* waiting for the fallback lock and for readers to drain */
	FUR_PHASE_ROOM,       /* waiting for a slot of the ring, replay included */
	FUR_PHASES
};

struct fur_stats {
	size_t size; /* sizeof(struct fur_stats), set by the caller: "Structs that grow", above */
	uint64_t ro_commits;
	uint64_t update_commits; /* of them: */
	uint64_t lock_commits;   /*   under the fallback lock */
	uint64_t empty_commits;  /*   that wrote nothing */
	uint64_t aborts[FUR_ABORT_CAUSES];
	uint64_t phase_ns[FUR_PHASES]; /* sums; with fur_options.phase_times */
	uint64_t replays;              /* times room was made by replaying */
	uint64_t replayed_updates;
	uint64_t long_readers;      /* readers that held an update up for reader_report_ns */
	uint64_t longest_reader_ns; /* the longest such wait */
	uint64_t threads;           /* registered now */
	uint64_t log_entries;       /* redo-log entries of committed updates */
	/* With fur_options.dram_bytes: pages of the heap, to the file */
	uint64_t times_handed_back;
	uint64_t bytes_handed_back;
};

/* fur_get_stats - sums over all threads since the heap was opened.  Approximate while transactions
 * run.   Errors: FUR_EINVAL (stats->size), FUR_EFORK. */
FUR_API FUR_MUST_USE int fur_get_stats(const fur_heap *heap, struct fur_stats *stats);
FUR_API const char *fur_abort_name(enum fur_abort_cause cause);
FUR_API const char *fur_phase_name(enum fur_phase phase);

#ifdef __cplusplus
} /* extern "C" */
#endif

/* ----------------------------------------------------- typed loads and stores
 *
 *    T    fur_load (tx, const T *p)       tx: fur_ro * or fur_update *;  T of 1, 2, 4 or 8 bytes
 *         void fur_store(tx, T *p, T value)    tx: fur_update * only: a store in a read-only
 *         transaction does not compile void fur_read (tx, to, from, bytes)
 *
 * A load is one plain load, never torn or repeated by the compiler.  A store is logged at its exact
 * width.  A store outside the heap is not done and makes the commit fail with FUR_ERANGE. */
#ifdef __cplusplus
#include <type_traits>
extern "C++" {
namespace fur_detail
{
/* C++11 has neither variable templates nor std::type_identity. */
template <class Tx>
struct is_transaction : std::integral_constant<bool, std::is_same<Tx, fur_ro>::value ||
                                                             std::is_same<Tx, fur_update>::value> {
};
template <class T>
struct is_word : std::integral_constant<bool, std::is_trivially_copyable<T>::value &&
                                                      (sizeof(T) == 1 || sizeof(T) == 2 ||
                                                              sizeof(T) == 4 || sizeof(T) == 8)> {
};
template <class T>
struct identity {
	typedef T type;
};
} // namespace fur_detail
template <class Tx, class T>
inline T fur_load(Tx *, const T *p)
{
	static_assert(fur_detail::is_transaction<Tx>::value,
	        "fur_load: the first argument is a fur_ro * or a fur_update *");
	static_assert(fur_detail::is_word<T>::value,
	        "fur_load: 1, 2, 4 or 8 bytes; use fur_read for more");
	T value;
	__atomic_load(p, &value, __ATOMIC_RELAXED);
	return value;
}
template <class T>
inline void fur_store(fur_update *update, T *p, typename fur_detail::identity<T>::type value)
{
	static_assert(fur_detail::is_word<T>::value,
	        "fur_store: 1, 2, 4 or 8 bytes; use fur_write for more");
	uint64_t bits = 0;
	memcpy(&bits, &value, sizeof value);
	fur_store_bits(update, p, bits, sizeof value);
}
template <class Tx>
inline void fur_read(Tx *, void *to, const void *from, size_t bytes)
{
	static_assert(fur_detail::is_transaction<Tx>::value,
	        "fur_read: the first argument is a fur_ro * or a fur_update *");
	fur_read_bytes(to, from, bytes);
}
}
#else
#define FUR_IS_WORD(p)                                                                             \
	(sizeof(*(p)) == 1 || sizeof(*(p)) == 2 || sizeof(*(p)) == 4 || sizeof(*(p)) == 8)
#define FUR_IS_TX(tx)      _Generic((tx), fur_ro * : 1, fur_update * : 1)
/* Each use has names of its own, so that one may stand inside another. */
#define FUR_PASTE(name, n) name##n
#define FUR_NAME(name, n)  FUR_PASTE(name, n)
#define FUR_LOAD(tx, p, value)                                                                     \
	__extension__({                                                                            \
		_Static_assert(FUR_IS_TX(tx) && FUR_IS_WORD(p),                                    \
		        "fur_load: 1, 2, 4 or 8 bytes; use fur_read for more");                    \
		__typeof__(*(p)) value;                                                            \
		__atomic_load((p), &value, __ATOMIC_RELAXED);                                      \
		(void)(tx);                                                                        \
		value;                                                                             \
	})
#define FUR_STORE(tx, p, v, update, value, bits)                                                   \
	__extension__({                                                                            \
		_Static_assert(_Generic((tx), fur_update * : 1, default : 0),                      \
		        "fur_store: needs an update transaction");                                 \
		_Static_assert(                                                                    \
		        FUR_IS_WORD(p), "fur_store: 1, 2, 4 or 8 bytes; use fur_write for more");  \
		fur_update *update = (tx);                                                         \
		__typeof__(*(p)) value = (v);                                                      \
		uint64_t bits = 0;                                                                 \
		memcpy(&bits, &value, sizeof value);                                               \
		fur_store_bits(update, (p), bits, sizeof value);                                   \
	})
#define fur_load(tx, p) FUR_LOAD(tx, p, FUR_NAME(fur_value_, __COUNTER__))
#define fur_store(tx, p, value)                                                                    \
	FUR_STORE(tx, p, value, FUR_NAME(fur_update_, __COUNTER__),                                \
	        FUR_NAME(fur_value_, __COUNTER__), FUR_NAME(fur_bits_, __COUNTER__))
#define fur_read(tx, to, from, bytes)                                                              \
	((void)sizeof(FUR_IS_TX(tx)), fur_read_bytes((to), (from), (bytes)))
#endif

#endif /* FUR_H */
