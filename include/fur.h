/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur.h - durable transactions on a persistent heap, at the speed of hardware transactional memory.
 *
 * READ THIS FIRST
 *
 *  - A heap is one file.  fur_open() maps it at the address that the file records.  So pointers
 *    into the heap stay valid when the program restarts, and you may store them in the heap.
 *  - Inside a transaction, read shared data with fur_load() or fur_read(), and write it with
 *    fur_store() or fur_write().  A plain assignment into the heap is not logged: it is lost at the
 *    next open.  In an update that runs in software, a plain load finds the old value.  Hardware
 *    hides both mistakes, so test your program with FUR_HTM=none in the environment, and with
 *    FUR_DEBUG=plain-stores (docs/debugging.md).
 *  - A read-only transaction (fur_begin_ro() to fur_end_ro()) runs as plain loads, outside any
 *    hardware transaction: it has no capacity limit and never aborts.  Updates that overlap it wait
 *    for it before they commit, so do not let it sleep.  fur_options.reader_report tells you which
 *    reader made an update wait.
 *  - The body of an update (fur_begin_update() to fur_commit()) may run several times.  Hardware
 *    may rewind it to fur_begin_update(), and with it all memory that it wrote, as if it had not
 *    run.  Hardware cannot rewind system calls: an update that makes one runs in software.
 *  - Give bodies that may run again without being rewound to fur_update_run().  Without hardware
 *    transactions, all other bodies run one at a time, and one that sleeps stops every update.  For
 *    such bodies that only read there is fur_read_run(): updates do not wait for them.
 *  - When fur_commit() or fur_end_ro() has returned 0, everything that the transaction wrote or
 *    read is durable.  A thread that answers many requests at a time can wait once for many
 *    transactions: see fur_ticket.
 *  - A thread has one transaction open at a time, on one heap.  A begin inside it returns
 *    FUR_ENESTED.  Code that its caller may run inside a transaction begins with fur_join_ro() or
 *    fur_join_update(): they join the open transaction, whose own end then decides.
 *
 * VISIBLE AND DURABLE
 *
 *                       visible to others            durable
 *    fur_store          with fur_commit              with fur_commit
 *    fur_commit         atomically, before return    before return, with everything it read
 *      with a ticket    atomically, before return    after fur_wait, with everything it read
 *    fur_abort          never                        never
 *    fur_end_ro         -                            before return: everything it read
 *      with a ticket    -                            after fur_wait: everything it read
 *    fur_close          -                            before return: the heap file alone has
 *                                                    everything, and the log is empty
 *
 * WHICH TRANSACTION WAITS FOR WHICH
 *
 *    hardware update      in fur_begin_update(), while software updates store; at its commit, for
 *                         read-only transactions and software bodies that overlap it
 *    serial update        (in software, by fur_begin_update()) for the serial update before it, and
 *                         for publications; other serial updates wait for it from begin to commit
 *    concurrent update    (in software, by fur_update_run()) at its commit, for an open serial
 *                         update, and for plain read-only transactions; other concurrent updates
 *                         commit beside it.  If one changes a word that its body has loaded, the
 *                         body runs again; after 16 such defeats it is serial
 *    read-only            (plain, by fur_begin_ro()) at its begin, while software updates store: at
 *                         their commits, or in a short body that runs in place
 *    optimistic reader    (by fur_read_run()) for an update that is storing to what it loads, and
 *                         no update waits for it; its body may run again
 *    Each of them waits at its end, without a ticket, until all that it has read is durable
 *    (docs/protocol.md, "Who waits for whom").
 *
 * ERRORS
 *
 *    Functions return 0 or a negative FUR_E* code.  fur_strerror() names the code, and
 *    fur_errormsg() describes the calling thread's last failure in full: the file, what is wrong,
 *    what to do; docs/debugging.md lists them.  The library never prints and never exits, unless
 *    FUR_DEBUG asks it to.
 *    When the medium refuses a write, or libfur cannot replay its log, the heap has failed: nothing
 *    more on it becomes durable.  From then on, functions that begin, commit or end a transaction,
 *    and fur_wait(), return the code of that failure (FUR_EIO, FUR_ENOMEM, FUR_ESYS, FUR_ECORRUPT).
 *    Close the heap and open it again: fur_open() replays the log.
 *    Every function that returns a code refuses a NULL heap, registration or transaction, and a
 *    registration that the calling thread does not have, with FUR_EINVAL, or FUR_ENOTX if it ends a
 *    transaction.  A function that returns nothing crashes with a NULL update.  libfur does not
 *    notice the use of a handle after its heap was closed (only fur_close() does), or a store by a
 *    thread that has not begun the update; a build with -Dchecks=true finds some of it.
 *
 * A TRANSACTION LEFT OPEN
 *
 *    End every transaction that you begin, even if you leave it because of an error.  One that you
 *    leave by return or longjmp() stays open, and other threads wait for it.  The next begin on the
 *    thread returns FUR_ENESTED; fur_thread_unregister() and fur_close() return FUR_EBUSY.
 *    fur_thread_transaction() tells what is open.  fur_thread_abandon(), or the end of the thread,
 *    rolls it back.  But fur_join_update() cannot know that its caller means another update: if it
 *    joins one that was left open, the inner fur_commit() returns 0 and makes nothing visible.
 *
 * FORK AND CANCELLATION
 *
 *    In a child of fork(), every function that returns a code returns FUR_EFORK for the parent's
 *    heaps; only fur_close() works, and leaves the file alone.  The child may open other heaps.
 *    No function of libfur is a cancellation point.  A thread that is cancelled elsewhere inside a
 *    transaction rolls it back.  Asynchronous cancellation must be off in functions of libfur and
 *    in transactions (docs/designing.md, "Child processes and cancellation").
 *
 * STRUCTS THAT GROW
 *
 *    Later releases may add fields to the end of the structs that have a field `size`.  Set it to
 *    sizeof.  If the caller's struct is shorter than the library's, missing options have their
 *    default, and missing results are not returned.  If it is longer, options that the library does
 *    not know must be zero, and it sets results that it does not know to zero.  On return, `size`
 *    of a result tells how many bytes the library has filled in.  Errors: FUR_EINVAL for a size
 *    smaller than the struct's in the first release, or larger than 4096.
 */
#ifndef FUR_H
#define FUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The version of this header, with which a program is built. */
#define FUR_VERSION_MAJOR 0
#define FUR_VERSION_MINOR 1
#define FUR_VERSION_PATCH 0

#define FUR_API      __attribute__((visibility("default")))
#define FUR_MUST_USE __attribute__((warn_unused_result))

#ifdef __cplusplus
extern "C" {
#endif

/* fur_version - the version of the library that the program runs with: "0.1.0". */
FUR_API const char *fur_version(void);

/* ------------------------------------------------------------------ errors */

enum fur_error {
	FUR_OK = 0,
	FUR_EINVAL = -1,   /* an argument or option is not acceptable */
	FUR_ESYS = -2,     /* a system call failed; fur_errormsg() gives its reason */
	FUR_ENOENT = -3,   /* no such heap file */
	FUR_EEXIST = -4,   /* fur_create: the file exists */
	FUR_ENOTHEAP = -5, /* the file is not a libfur heap (empty, or foreign) */
	/* The heap was made by a version, or for a machine, whose heaps this library cannot read */
	FUR_EVERSION = -6,
	FUR_ECORRUPT = -7,  /* damaged: truncated, or a checksum does not match */
	FUR_EBUSY = -8,     /* open elsewhere, or still in use */
	FUR_EADDRESS = -9,  /* the heap's addresses are taken in this process, or beyond its own */
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
	/* libfur found that fur_free() did not get an allocated block; libfur rolled the update
	 * back */
	FUR_EFREE = -19,
	FUR_EFORK = -20, /* this process is a child of fork(), and has only a copy of the heap */
	FUR_EREADONLY = -21, /* the heap is open read-only: fur_open_copy(), fur_scan() */
	FUR_ETOOOLD = -22,   /* libfur could not keep what the snapshot shows any longer */
	FUR_EBEHIND = -23,   /* the shipping log acknowledges nothing: try again */
	FUR_EFENCED = -24,   /* another heap has taken this one's place in the shipping log */
	/* What the transaction has stored and read is durable here, and not acknowledged: a
	 * fail-over may lose it.  An update is not rolled back */
	FUR_EINDOUBT = -25,
	FUR_ELOST = -26, /* a fail-over has lost what the token names */
};

/* fur_strerror - one short line for an error code.
 * Returns: a constant string, never NULL. */
FUR_API const char *fur_strerror(int error);

/* fur_errormsg - the calling thread's last failure in full.
 * Returns: never NULL; valid until the thread's next failure. */
FUR_API const char *fur_errormsg(void);

/* ----------------------------------------------------------------- options */

enum fur_isolation {
	/* Every transaction, even one that aborts later, sees a state that some serial order
	 * explains */
	FUR_OPACITY,
	/* Snapshot isolation: on POWER it lets updates read without capacity limit too.  Elsewhere
	 * it runs as opacity. */
	FUR_SNAPSHOT,
};

enum fur_htm {
	/* The best that this processor has; fur_info tells which, and why.  While updates lose more
	 * than half of their time there, to conflicts and to waits for readers, they run in
	 * software (docs/protocol.md, "Where updates run").  A back end that is asked for by name
	 * stays in use. */
	FUR_HTM_AUTO,
	FUR_HTM_NONE, /* no hardware transactions: every update runs in software, or in place */
	FUR_HTM_TSX,  /* Intel TSX (RTM), with TSXLDTRK where present */
	FUR_HTM_POWER /* POWER8 or POWER9 with suspend and resume */
};

/* What fur_open() does if there is no such file. */
enum fur_open_mode {
	FUR_OPEN_EXISTING, /* it fails with FUR_ENOENT */
	FUR_OPEN_OR_CREATE /* it makes the heap, as fur_create() does */
};

enum fur_pm {
	FUR_PM_AUTO, /* PMEM or EADR where the file is on a DAX file system, else SYNC */
	FUR_PM_PMEM, /* persistent memory: libfur writes cache lines back */
	/* Persistent memory, with the caches in the persistence domain: no write-back needed */
	FUR_PM_EADR,
	/* Any file taken for persistent memory.  Survives a killed process, NOT a power failure. */
	FUR_PM_EMULATED,
	FUR_PM_SYNC /* an ordinary file: fdatasync, shared by the commits that wait for it */
};

struct fur_heap;
struct fur_thread;
struct fur_ro;
struct fur_reader;
struct fur_update;
struct fur_snapshot;
typedef struct fur_heap fur_heap;
typedef struct fur_thread fur_thread;     /* one thread's registration with one heap */
typedef struct fur_ro fur_ro;             /* an open read-only transaction */
typedef struct fur_reader fur_reader;     /* one whose body may run again: fur_read_run() */
typedef struct fur_update fur_update;     /* an open update transaction */
typedef struct fur_snapshot fur_snapshot; /* one state of the heap: fur_snapshot_begin() */

/* A ticket stands for a transaction that has ended, and for all earlier ones that its thread ended
 * with a ticket, read-only ones and updates, until fur_wait() has waited for the data to be
 * durable.  Copy it as you like; the fields are libfur's. */
typedef struct fur_ticket {
	uint64_t source; /* which heap and thread; never 0 */
	uint64_t number; /* grows with each ticket of the thread */
} fur_ticket;

/* The argument of fur_options.reader_report: an update waits for this reader. */
struct fur_reader_report {
	uint32_t thread;    /* the reader's index: see fur_thread_index() */
	uint64_t waited_ns; /* how long the update has waited so far */
	const char *name;   /* as the reader gave it to fur_thread_register(), or NULL */
};

/* The first argument of fur_options.log. */
enum fur_log_level {
	FUR_LOG_INFO,    /* as it should be */
	FUR_LOG_WARNING, /* transactions go on; an operator may want to act */
	FUR_LOG_ERROR,   /* the heap has failed, or FUR_DEBUG_PLAIN_STORES aborts the program */
};

/* Debugging aids, for fur_options.debug: docs/debugging.md.  The words in brackets name them in
 * FUR_DEBUG.  They work on every machine, and cost nothing while they are off. */
enum fur_debug {
	/* [plain-stores] Find plain stores into the heap, which libfur does not log */
	FUR_DEBUG_PLAIN_STORES = 1,
	/* [continue] Report each place in the program that does so once, and let it go on */
	FUR_DEBUG_CONTINUE = 2,
	/* [double-free] fur_free() finds each block that is free already */
	FUR_DEBUG_DOUBLE_FREE = 4
};

/* fur_ack - what the transactions of a heap that is shipped return: updates, read-only
 * transactions, snapshots and waits for tickets. */
enum fur_ack {
	FUR_ACK_LOCAL, /* what is durable on this machine; a fail-over may lose the newest of it */
	/* What the shipping log has as well: no fail-over loses what a transaction has returned */
	FUR_ACK_REPLICATED
};

/* Options for fur_create() and fur_open(), after fur_options_init().  Zero means the default. */
struct fur_options {
	/* sizeof(struct fur_options), set by fur_options_init(): "Structs that grow" */
	size_t size;

	/* Fixed when the heap is made; fur_open() takes them from the file. */
	/* The heap itself, allocator included; default 64 MiB.  With max_bytes: its first size */
	uint64_t heap_bytes;
	/* Redo log of each thread, a power of two; default 1 MiB.  It bounds what one update can
	 * write.  An update that finds its log full waits for a replay */
	uint64_t log_bytes;
	/* Durability markers, a power of two; default 32768.  They bound the number of updates
	 * between replays.  With FUR_PM_SYNC and more than a million asynchronous updates per
	 * second (fur_ticket), use 131072 */
	uint64_t ring_slots;
	uint32_t max_threads; /* threads registered at one time; default 64, at most 1024 */
	/* Where libfur maps the heap, a multiple of 64 KiB from 4 GiB on; default: libfur chooses.
	 * The file records it. */
	uint64_t address;

	/* Chosen at each open.  FUR_HTM and FUR_PM in the environment override htm and pm. */
	enum fur_isolation isolation;
	enum fur_htm htm;
	enum fur_pm pm;
	enum fur_open_mode open; /* fur_open: default FUR_OPEN_EXISTING */
	/* Measure fur_stats.phase_ns; costs about ten nanoseconds per transaction */
	bool phase_times;

	/* Report a reader that has made an update wait for this long; default 100 ms */
	uint64_t reader_report_ns;
	/* The waiting update calls it, outside hardware transactions and at most once per wait,
	 * with cancellation off.  It must not use this heap, and must return: no longjmp(), no
	 * exception, no pthread_exit(). */
	void (*reader_report)(const struct fur_reader_report *report, void *arg);
	void *reader_report_arg;

	/* For heaps larger than memory: when this process's private copies of the pages that it
	 * has written to exceed this many bytes, libfur brings the file up to date and hands the
	 * copies back to the kernel; transactions wait meanwhile, a few milliseconds.  The limit is
	 * soft.  Default 0: no limit, and with HTM libfur copies all pages at the open */
	uint64_t dram_bytes;

	/* fur_create: the new file's permission bits, whatever the umask; default 0600.  A program
	 * trusts every user who may write the file.  Every user who may read it can prevent it from
	 * being opened: see SECURITY.md. */
	uint32_t file_mode;

	/* Report rare events that an operator wants to know: how libfur runs the heap, and why; a
	 * recovery; that the heap has failed, that a fur-replayer has died or does not answer, and
	 * that a reader has made an update wait for reader_report_ns.  `message` is one line
	 * without the file's name, valid during the call.  libfur calls it in fur_create(),
	 * fur_open(), fur_close(), and at the end of an update, perhaps in several threads at a
	 * time, under the rules of reader_report */
	void (*log)(enum fur_log_level level, const char *message, void *arg);
	void *log_arg;

	/* In milliseconds: roughly how long an update that ends with a ticket may remain
	 * volatile.  The first such commit starts two threads of libfur.  Default 10 */
	uint32_t async_ms;

	/* fur_create: the size up to which the heap may grow; 0: it does not grow.  Its price is
	 * addresses, and 1/1024 of it in the heap for tables; but no disk and no memory: the file
	 * has a hole there.  fur-resize can raise it later.  A thread of libfur's lets the heap
	 * grow before it is full, in steps that double it or add 256 MiB; so does fur_grow() */
	uint64_t max_bytes;

	/* Debugging aids: FUR_DEBUG_*, or'ed; default none.  FUR_DEBUG in the environment adds to
	 * them. */
	uint64_t debug;

	/* Memory (DRAM) for what updates overwrite while snapshots are open: 72 bytes for each line
	 * of 64.  libfur uses as much as it needs.  The last snapshot gives it back when it ends,
	 * unless that has happened less than a second ago.
	 * Default: a quarter of the heap's largest size, at least 64 MiB */
	uint64_t snapshot_bytes;

	/* Of a heap whose updates are shipped to other machines (docs/shipping.md): what its
	 * transactions return */
	enum fur_ack ack;
	/* In milliseconds: how long a thread of such a heap waits while the shipping log
	 * acknowledges nothing, before FUR_EBEHIND or FUR_EINDOUBT.  Default 10,000 */
	uint32_t ack_patience_ms;
};

/* fur_options_init - set every option to its default. */
static inline void fur_options_init(struct fur_options *options)
{
	memset(options, 0, sizeof *options);
	options->size = sizeof *options;
}

/* ------------------------------------------------------------------- heaps */

/* fur_create - make a heap file and open it.  `options` may be NULL: all defaults.
 * It allocates all blocks of the file, but those of the threads' logs and those above heap_bytes.
 * So work on the heap can meet a full disk in two places only: fur_thread_register(), and an update
 * or fur_grow() that lets the heap grow.
 * Durable: the empty heap, before return.
 * Crash:   the file exists complete, or not at all.
 * Errors:  FUR_EEXIST; FUR_EINVAL (sizes, other options); FUR_ENOSPC (the file does not fit);
 *          FUR_EADDRESS; FUR_ENOMEM; FUR_ESYS; FUR_EIO.  No file is left behind, and *heap is
 *          NULL. */
FUR_API FUR_MUST_USE int fur_create(
        const char *path, const struct fur_options *options, fur_heap **heap);

/* fur_open - open a heap file; if it was not closed, replay its log first.  `options` may be NULL:
 * all defaults.  With FUR_OPEN_OR_CREATE in options->open, it makes the file if there is none; if
 * several processes do so at once, one makes the file and the others open it.
 * After return the heap contains every update whose fur_commit() had returned, perhaps some whose
 * fur_commit() had not returned yet, and nothing else.
 * libfur corrects one wrong byte in the log.  A file may be damaged in another way, or be a copy
 * that was taken while a program had the heap open.  libfur refuses such a file (FUR_ECORRUPT) if
 * the file proves that an update is missing; docs/damage.md states exactly which damage can pass.
 * When libfur refuses a file, it writes to the control region at most, which means nothing while
 * the heap is not open.  If the file is a sparse copy, libfur first allocates the blocks that
 * fur_create() would have allocated.
 * Errors: FUR_ENOENT; FUR_ENOTHEAP; FUR_EVERSION; FUR_ECORRUPT; FUR_EBUSY (open elsewhere, or
 *         locked by a process that reads it); FUR_EADDRESS; FUR_ENOSPC (no room for a copy's
 *         holes); FUR_EINVAL (options); FUR_ENOMEM; FUR_ESYS; FUR_EIO.  *heap is NULL then. */
FUR_API FUR_MUST_USE int fur_open(
        const char *path, const struct fur_options *options, fur_heap **heap);

/* fur_close - replay the rest of the log, record in the file that the heap is closed, and unmap it.
 * The handle is invalid afterwards, unless the result is FUR_EBUSY.  In a child of fork() it frees
 * the child's copy and leaves the file alone.
 * Durable: everything, before return.
 * Waits:   for registered threads that are ending: libfur's destructor runs in them.
 * Errors:  FUR_EBUSY while a thread has a transaction open; FUR_EINVAL if the heap is not open;
 *          FUR_EIO, or the code for which the heap has failed: the log is kept, and the next
 *          fur_open() replays it. */
FUR_API FUR_MUST_USE int fur_close(fur_heap *heap);

/* fur_backup - copy an open heap to the new file `path`, while transactions go on.  The copy is a
 * closed heap, which any process can open; it has the same address as the original, so one process
 * cannot have both open.
 * The copy contains every update that was durable when fur_backup() was called, perhaps later ones,
 * and each with all updates from which it has read.  It belongs to the user of the process, and has
 * the original's mode; the group gets no permission if it is not the original's, or if the original
 * has an access control list.  Updates go on; one that needs room in the log waits until a piece of
 * 128 KiB is copied.  Meanwhile a fur-replayer does not replay.  The heap must stay open.
 * Durable: the copy and its name, before return.  A crash before that leaves no copy (on a file
 *          system without nameless files: a file PATH.XXXXXX).
 * Errors:  FUR_ENESTED inside a transaction, for which updates would wait all the time; FUR_EEXIST;
 *          FUR_ENOSPC; FUR_EBUSY (another copy is being made; a replayer does not yield for ten
 *          seconds); FUR_EINVAL; FUR_ENOMEM; FUR_ESYS; FUR_EIO, or the code for which the
 *          heap has failed.  There is no copy then. */
FUR_API FUR_MUST_USE int fur_backup(fur_heap *heap, const char *path);

/* fur_open_copy - open a heap for reading, as it is at one instant, while other processes use
 * it or none does.  `options` may be NULL: all defaults.
 * The heap is a copy in memory, at the heap's address: it takes as much memory as the heap has
 * blocks that were ever written, and one to four seconds per GiB to make.  After return it never
 * changes, and readers of it delay no update, however long they take or sleep.  For a newer state,
 * close it and open it again.
 * It contains every update whose fur_commit() had returned when fur_open_copy() was called,
 * perhaps later ones, each with all updates from which it has read, and nothing else.  All of them
 * are durable.  If a program has died with the heap open, the log is replayed in the copy, and the
 * file stays as it is.
 * Read-only transactions, fur_get_stats() and fur_backup() work as on any heap, and
 * fur_close() frees the copy.  Updates are refused with FUR_EREADONLY; a plain store into the heap
 * ends the process (SIGSEGV).  A process cannot have both the heap and its copy open, nor two
 * copies: they have the same address.
 * It needs permission to write the file.  While it copies, updates go on; one that needs room in
 * the log waits until a piece of 128 KiB is copied and the log is replayed.  A program that opens
 * the heap waits for the copy, for up to ten seconds.
 * Errors: as fur_open(), but FUR_EBUSY means: a replayer does not yield for ten seconds, or the
 *         programs that have the heap open die again and again.  FUR_ENOMEM or FUR_ENOSPC: no
 *         memory for the copy, or a limit on the size of files (RLIMIT_FSIZE), which also applies
 *         to the copy.  *heap is NULL then, and the file is as it was. */
FUR_API FUR_MUST_USE int fur_open_copy(
        const char *path, const struct fur_options *options, fur_heap **heap);

/* fur_grow - let the heap grow to at least `bytes`, while transactions go on: in this process, and
 * with a fur-replayer or fur-info at work.  It does nothing if the heap is already that large.  The
 * heap also grows by itself; fur_grow() makes sure of the room, at a time of the program's choice.
 * It also works inside a transaction.
 * Durable: the size, before return.
 * Crash:   the heap has the old size or the new one, and is good.
 * Errors:  FUR_EINVAL (more than fur_options.max_bytes); FUR_ENOSPC, FUR_ESYS (the heap is as it
 *          was, and good); FUR_EFORK; FUR_EIO, or the code for which the heap has failed.
 * Units:   bytes, the allocator's structures included; rounded up to 64 KiB. */
FUR_API FUR_MUST_USE int fur_grow(fur_heap *heap, uint64_t bytes);

/* ----------------------------------------------------------------- threads */

/* fur_thread_register - register the calling thread with the heap, or find its registration.
 * Only this thread may use it.  The registration ends when the thread does, even without
 * fur_thread_unregister(); libfur then rolls back a transaction that is still open.
 * Reader reports give the thread's `name`, which may be NULL.  libfur keeps the pointer: the text
 * must stay valid as long as the registration.
 * The file's blocks for a log are allocated when more threads are registered than ever before.
 * Errors: FUR_ETHREADS; FUR_ENOSPC (no room for the log; the heap is as it was, and good);
 *         FUR_ENOMEM; FUR_EINVAL (NULL); FUR_EFORK; FUR_ESYS; FUR_EIO.  *thread is NULL then. */
FUR_API FUR_MUST_USE int fur_thread_register(
        fur_heap *heap, const char *name_or_null, fur_thread **thread);

/* fur_thread_unregister - end the calling thread's registration now.
 * Errors: FUR_EBUSY inside a transaction; FUR_EINVAL if the calling thread does not have this
 *         registration; FUR_EFORK. */
FUR_API FUR_MUST_USE int fur_thread_unregister(fur_thread *thread);

/* fur_thread_abandon - end whatever transaction the calling thread has open on the heap of this
 * registration, with all that have joined it: roll an update back, and end a read-only transaction.
 * It is for a transaction that was left by return or longjmp().  An update in hardware runs once
 * more first, as for fur_abort().
 * Errors: FUR_EINVAL if the calling thread does not have this registration; FUR_EFORK.  A heap that
 *         has failed is no error. */
FUR_API FUR_MUST_USE int fur_thread_abandon(fur_thread *thread);

/* fur_thread_index - the thread's index among those registered with the heap, as reader reports
 * give it.  When the registration ends, another thread may get the index.
 * Returns: from 0 to max_threads - 1; UINT32_MAX for NULL. */
FUR_API uint32_t fur_thread_index(const fur_thread *thread);

/* ------------------------------------------------------------ transactions */

/* fur_begin_ro - begin a read-only transaction.
 * Waits only while updates store with readers shut out.  While updates commit beside each other it
 * waits for those that are storing, and ends that: a thread that calls it often makes updates wait
 * for each other.  A body that may run again does not: fur_read_run().
 * Errors: FUR_ENESTED with a transaction open on this thread, on this heap (end it, or join it with
 *         fur_join_ro()) or on another: two threads that read two heaps in opposite order could
 *         wait for each other forever.  FUR_EINVAL; FUR_EFORK; FUR_EIO, or the code for which the
 *         heap has failed.  *ro is NULL then. */
FUR_API FUR_MUST_USE int fur_begin_ro(fur_thread *thread, fur_ro **ro);

/* fur_join_ro - begin a read-only transaction, or join the one that the thread has open on this
 * heap.  It is for code that works in a transaction of its caller, or in one of its own.
 * Inside an update of this heap it joins the update, and ends with it at the latest.  An update in
 * software then goes on in place, with readers shut out until it ends; a concurrent update may be
 * restarted at this call.  Code that has the fur_update * does without this: fur_load() and
 * fur_read() take it as well.
 * Durable: what an inner transaction has read, when the outermost has ended.
 * Errors:  those of fur_begin_ro(), but FUR_ENESTED only with a transaction open on another heap.
 *          *ro is NULL then. */
FUR_API FUR_MUST_USE int fur_join_ro(fur_thread *thread, fur_ro **ro);

/* fur_end_ro - end a read-only transaction.
 * With a ticket it does not wait, and sets *ticket.  The transaction may have read from updates
 * that a power failure would still lose.  So let nothing that follows from its reads leave the
 * process before fur_wait() has returned 0 for the ticket.  Inside the process you may use the
 * results at once: if an update that begins after this function has returned survives a failure, so
 * does everything that the transaction has read.
 * A ticket is for a thread that answers many requests at a time: the latest ticket of a thread
 * covers all its earlier ones, so one wait is enough for all of them.  You need not wait for a
 * ticket, and its thread may unregister before you do.
 * Durable: everything it read: without a ticket before return, with one after fur_wait().
 * Nested:  ends the inner transaction only (fur_join_ro) and returns 0; the end of the outermost
 *          waits, and has the result.  Wait for a ticket after the outermost has ended.
 * Errors:  FUR_ENOTX; FUR_EFORK; without a ticket also FUR_EIO, or the code for which the heap has
 *          failed: the data that the transaction has read may not be durable.  With one, fur_wait()
 *          reports that.  After an error *ticket is {0, 0}, which fur_wait() refuses.
 * Source:  FUR (EuroSys '26) Algorithm 1, with the durability rule of docs/protocol.md. */
FUR_API FUR_MUST_USE int fur_end_ro(fur_ro *ro, fur_ticket *ticket_or_null);

/* fur_wait - wait until everything is durable that the transactions of a ticket have read, and what
 * its updates have written.
 * Any thread that is registered with the ticket's heap may wait, in any order, and as often as it
 * likes.  Pass a ticket to another thread as you would pass other data: with a mutex, or with an
 * atomic store (release) and load (acquire).
 * Durable: before return, what those transactions have read and written.
 * Waits:   for the updates that are visible and not yet durable when it is called; never for a
 *          transaction that is open.  If some of them are waiting for the next flush, it flushes.
 * Errors:  FUR_EINVAL for a NULL or foreign registration, and for a ticket that does not belong to
 *          this heap since it was opened last: fur_close() has ended those.  FUR_ENESTED inside a
 *          transaction.  FUR_EFORK.  FUR_EIO, or the code for which the heap has failed: the data
 *          may not be durable. */
FUR_API FUR_MUST_USE int fur_wait(fur_thread *thread, fur_ticket ticket);

/* fur_begin_update - begin an update transaction.
 * This function may return several times, with memory as it was at the first return; only the last
 * return counts.  Without hardware transactions it returns once, and waits while any serial update
 * is open.
 * Errors: FUR_ENESTED with a transaction open on this thread: end it, or join an update of this
 *         heap with fur_join_update(); FUR_EINVAL; FUR_EFORK; FUR_EIO, or the code for which the
 *         heap has failed.  *update is NULL then. */
FUR_API FUR_MUST_USE int fur_begin_update(fur_thread *thread, fur_update **update);

/* fur_join_update - begin an update, or join the one that the thread has open on this heap.  It is
 * for code that works in an update of its caller, or in one of its own.  Code that has the
 * fur_update * uses it, and needs no begin.
 * The inner update ends with fur_commit() or fur_abort().  The outermost
 * fur_commit() commits everything, or rolls everything back if an inner update was aborted.
 * If it begins an update, it may return several times, as fur_begin_update().
 * Errors: those of fur_begin_update(), but FUR_ENESTED only inside a read-only transaction, or with
 *         a transaction open on another heap.  *update is NULL then. */
FUR_API FUR_MUST_USE int fur_join_update(fur_thread *thread, fur_update **update);

/* How fur_update_run() and fur_read_run() run a body.  Zero means the default. */
struct fur_run {
	size_t size; /* sizeof(struct fur_run), set by the caller: "Structs that grow" */
	/* Not NULL: do not wait until the transaction is durable, and set *ticket, as
	 * fur_commit() and fur_end_ro() */
	fur_ticket *ticket;
	/* Not NULL: libfur calls it to leave a body that is to run again, in place of longjmp().
	 * It must not return: fur.hpp throws an exception, so that destructors run.  The body must
	 * then return; what its transaction did in this run does not count. */
	void (*leave)(void);
};

/* fur_update_run - run body(update, arg) as an update, and commit it.
 * It is for bodies that may run again without being rewound.  libfur may leave the body in the
 * middle of any function of this header, by longjmp(), and call it again: the heap is then as if it
 * had not run, but private memory keeps what it wrote.  So the body sets its private variables anew
 * in each run, and holds no lock and no malloc()ed memory while it calls libfur.  In exchange,
 * several such updates run at a time on a machine without hardware transactions.
 * The body may end the update with fur_abort(); then it must return.  If it is left by longjmp() or
 * an exception, the update stays open: in C++, use fur::update(thread, fur::rerun, body).
 * `how` may be NULL.
 * Visible, Durable: as fur_commit(), with or without a ticket.
 * Errors:   those of fur_begin_update() and fur_commit(); FUR_EABORTED after fur_abort();
 *           FUR_EINVAL if body is NULL, or for how->size. */
FUR_API FUR_MUST_USE int fur_update_run(fur_thread *thread,
        void (*body)(fur_update *update, void *arg), void *arg, const struct fur_run *how);

/* fur_read_run - run body(reader, arg) as an optimistic read-only transaction.
 * It is for bodies that may run again, as those of fur_update_run() may.  While the body runs
 * optimistically, no update waits for it, however long it is; it may wait for an update that is
 * storing to what it reads.  fur_load(), fur_read() and fur_root() notice when an update has
 * changed a word that the body is about to load; libfur then leaves the body, by longjmp() or
 * how->leave, and calls it again.  All that one run loads is of one state of the heap.  In exchange
 * each load costs about two to three times a plain one.
 * After a run in vain the body reads in a snapshot (below) that another body has opened since this
 * one's first run; after three libfur opens one, and no run is in vain any more.  It runs the body
 * as a plain read-only transaction, for which updates wait, while the heap's updates run in
 * hardware; if there is no memory for that snapshot; and after fur_join_ro() in it.
 * The body reads the heap by these functions and fur_map.h's alone: it may follow pointers that it
 * loads, but must not read through them directly, or hand them to memcpy(), write() or another
 * thread.
 * `how` may be NULL.
 * Durable: everything it read, before return, or with fur_wait() for how->ticket.
 * Errors:  those of fur_begin_ro() and fur_end_ro(); FUR_EINVAL if body is NULL, or for how->size.
 * Source:  TL2 (DISC 2006), without a read set; docs/protocol.md, "Optimistic readers". */
FUR_API FUR_MUST_USE int fur_read_run(fur_thread *thread,
        void (*body)(fur_reader *reader, void *arg), void *arg, const struct fur_run *how);

/* ------------------------------------------------------------------ snapshots
 *
 * A snapshot is one state of the heap, which a program reads for as long as it likes: no update
 * waits for it, and none that commits later changes what it shows.  It is for reads that take long:
 * reports, exports, checks.  It is volatile, and costs memory for what updates overwrite meanwhile
 * (fur_options.snapshot_bytes).  For a copy that another process reads, or that stays, there are
 * fur_open_copy() and fur_backup() (docs/snapshots.md compares them). */

/* fur_snapshot_begin - a snapshot of the state that all updates have made that were visible at one
 * instant during the call.  It waits for an open serial update, and for the updates that it shows
 * to be durable.
 * Durable: all that it shows, before return.
 * Errors:  those of fur_begin_ro(); FUR_EBUSY: 64 are open; FUR_ENOMEM; FUR_EINVAL for NULL, and on
 *          POWER for a heap that is open with FUR_SNAPSHOT.  *snapshot is NULL then. */
FUR_API FUR_MUST_USE int fur_snapshot_begin(fur_thread *thread, fur_snapshot **snapshot);

/* fur_snapshot_run - run body(reader, arg): its loads find what the snapshot shows.
 * The body reads as that of fur_read_run() does, and may take long, or sleep; libfur calls it once.
 * It begins no transaction.  Several threads may run bodies in one snapshot at a time, and between
 * two runs a thread may do anything.
 * If updates have overwritten more than fur_options.snapshot_bytes can keep, libfur revokes the
 * oldest snapshot rather than let an update wait: it leaves the body, by longjmp() or how->leave,
 * in a load.
 * `how` may be NULL.  how->ticket gets a ticket for which fur_wait() returns at once.
 * Errors: FUR_ETOOOLD: the snapshot is revoked: end it; those of fur_begin_ro(); FUR_EINVAL for
 *         NULL, for a snapshot of another heap, and for how->size. */
FUR_API FUR_MUST_USE int fur_snapshot_run(fur_thread *thread, fur_snapshot *snapshot,
        void (*body)(fur_reader *reader, void *arg), void *arg, const struct fur_run *how);

/* fur_snapshot_end - end the snapshot, and give back the memory that no other needs.  Any thread
 * may call it, but not inside a transaction.  End every snapshot before fur_close().
 * Errors: FUR_EINVAL for NULL, or if it has ended already; FUR_EBUSY: a thread runs a body in it;
 *         FUR_ENESTED; FUR_EFORK. */
FUR_API int fur_snapshot_end(fur_snapshot *snapshot);

/* ----------------------------------------------------------- how updates end */

/* fur_commit - make the open update visible, then durable, and end it.
 * With a ticket it returns once the update is visible, and sets *ticket; in a file of version 1, or
 * if memory for the flushes is short, it waits nevertheless.  A failure may lose such an
 * asynchronous update until fur_wait() or fur_sync() returns 0, or about fur_options.async_ms have
 * passed.  Until then let nothing leave the process that follows from the update.
 * Whatever a failure loses, the rest is closed: an update that survives has all that it has read
 * from with it, and every update that its thread had committed before it.
 * A transaction that ends without a ticket waits for all visible updates.  So next to asynchronous
 * updates, end read-only transactions with tickets.
 * Visible:  atomically, before return.
 * Durable:  before return, with everything it read.  With a ticket: after fur_wait(), fur_sync() or
 *           fur_close(), or about async_ms later.
 * Crash:    before return, all or nothing; after return, all.  With a ticket all or nothing until
 *           it is durable; in the domains pmem, eadr and emulated a killed process loses nothing
 *           that was visible, in sync it may lose what was not flushed.
 * Nested:   ends the inner update only (fur_join_update) and returns 0; the outermost commit does
 *           the work, decides who waits, and has the result.
 * Errors:   FUR_ERANGE, FUR_ETOOBIG, FUR_EFREE, FUR_EINVAL (fur_store_bits, fur_alloc_aligned),
 *           FUR_ENOSPC (fur_alloc), FUR_EABORTED: libfur has rolled the update back, and nothing is
 *           visible.  The body notices such a failure only because fur_alloc() returns NULL: until
 *           its end, its loads find what it has stored.
 *           FUR_ENOTX: no update is open.  FUR_EFORK: only the parent can end it.
 *           FUR_EIO, or the code for which the heap has failed: the update is visible, but may
 *           not survive a power failure.  (If the heap failed while the body waited for room in
 *           the redo log, libfur has rolled the update back.)
 *           After an error *ticket is {0, 0}.  If the flush of an asynchronous update fails later,
 *           fur_wait() and fur_sync() report it.
 * Source:   FUR (EuroSys '26) Algorithm 1, with the durability rule of docs/protocol.md. */
FUR_API FUR_MUST_USE int fur_commit(fur_update *update, fur_ticket *ticket_or_null);

/* fur_sync - wait until every update is durable whose fur_commit() has returned before, with a
 * ticket or without, and every one that read-only transactions that have ended before have read
 * from.  Any thread may call it.
 * Durable: before return, all of them, with everything that they have read.
 * Errors:  FUR_EINVAL if heap is NULL; FUR_ENESTED inside a transaction; FUR_EFORK; FUR_EIO, or the
 *          code for which the heap has failed: some may not be durable. */
FUR_API FUR_MUST_USE int fur_sync(fur_heap *heap);

/* fur_update_error - has the open update failed already?  The body may go on, and its loads find
 * what it stores, or return early: the commit rolls everything back.
 * Returns: 0, or the code that fur_commit() will return once it has rolled the update back.
 *          FUR_ENOTX: no update is open.  FUR_EFORK: only the parent can end it. */
FUR_API int fur_update_error(const fur_update *update);

/* fur_update_room - how many bytes can the open update still log?  A store takes its own size and 8
 * more, rounded up to a multiple of 16; fur_alloc() and fur_free() store a few words each.  For
 * work in parts: commit while there is room for another step, and go on in the next update.
 * Returns: the bytes; 0 for NULL.  If `log_bytes` is not NULL, *log_bytes is the log's size. */
FUR_API uint64_t fur_update_room(const fur_update *update, uint64_t *log_bytes);

/* fur_abort - roll the open update back and end it.  Private memory keeps what the body wrote to
 * it.  An update in a hardware transaction runs once more first, from its begin, without hardware:
 * only there does fur_abort() return.  So do updates that fail for another reason.
 * Nested:  ends the inner transaction only; the outermost commit rolls everything back.
 * Returns: FUR_EABORTED, or the code for which the update had failed before.  FUR_ENOTX: no update
 *          is open.  FUR_EFORK: only the parent can end it. */
FUR_API int fur_abort(fur_update *update);

/* ------------------------------------------------------------------ access */

/* fur_write - store `bytes` bytes in the heap, logged as they are.  `from` and `to` may overlap, as
 * with memmove().  With 0 bytes it does nothing, whatever the pointers are.
 * Visible: with fur_commit().  Not atomic for a thread that reads the range outside a transaction.
 * Errors:  outside the heap nothing is stored, and the commit fails with FUR_ERANGE. */
FUR_API void fur_write(fur_update *update, void *to, const void *from, size_t bytes);

/* fur_promote - make a read of the byte at `at` count as a write, against other updates (read
 * promotion).  If two updates overlap, and one writes a byte that the other has promoted, one of
 * them aborts and runs again.
 * It is for FUR_SNAPSHOT.  There an update may otherwise commit although another update has
 * meanwhile changed data that it has read (write skew).  Where updates are opaque, fur_promote()
 * does nothing.  It changes no data and logs nothing.
 * Units:  the processor's line: a promotion covers every byte of the line.
 * Errors: outside the heap, the commit fails with FUR_ERANGE. */
FUR_API void fur_promote(fur_update *update, void *at);

/* ------------------------------------------------------------------ memory */

/* fur_alloc - allocate memory in the heap, contents undefined.  It is aligned to 16 bytes, and to
 * 64 bytes if `bytes` is a multiple of 64.
 * Crash:   the allocation is part of the update: neither an abort nor a crash leaks memory.
 * Returns: NULL when the heap is full, and when the update has already failed, for whatever reason;
 *          fur_commit() then returns the reason.  A heap that grows (fur_options.max_bytes) is full
 *          at its largest size.  If it cannot grow because the disk is full, the update fails with
 *          FUR_ENOSPC; the heap stays good, and the update can be run again.
 *
 * Fresh memory: an update that runs in software does not log its stores to a block of more than
 * 16 KiB that it has allocated itself, and so the block may be larger than the log
 * (docs/designing.md).  To be sure of that whatever the log contains, allocate more than an eighth
 * of fur_options.log_bytes, before the update frees anything.
 *
 * Up to 16 KiB, a block has one of 36 sizes, and lies among others of its size in a chunk of
 * 64 KiB.  A larger block is a run of chunks.  A chunk without a block in use can serve any size.
 * When the heap is full, fur_alloc() first gathers the free blocks that threads keep in stock: it
 * logs up to three quarters of fur_options.log_bytes, for which a few KiB may not suffice. */
FUR_API void *fur_alloc(fur_update *update, size_t bytes);

/* The alignment that gives a block cache lines of its own on every machine that libfur knows:
 * POWER's line, and two lines of x86, whose processors fetch both. */
#define FUR_CACHE_LINE 128

/* The largest alignment of fur_alloc_aligned(). */
#define FUR_MOST_ALIGNMENT 65536

/* fur_alloc_aligned - allocate memory at a multiple of `alignment`, a power of two up to
 * FUR_MOST_ALIGNMENT.  Contents, crash and result are as for fur_alloc(), and fur_free() gives the
 * block back.
 * With an alignment of FUR_CACHE_LINE or more, the block shares no cache line with another block or
 * with the allocator's own data; the rest of its last line stays unused.
 * Use it for a record that some threads load while others store to the record next to it, such as a
 * node of a tree: hardware finds conflicts by lines.
 * Price:  libfur rounds `bytes` up to a multiple of `alignment`, and then to the next size: with
 *         FUR_CACHE_LINE, a record of 40 bytes takes 128 instead of 48.  fur_usable_bytes() returns
 *         the size.  Use fur_alloc() for small records that are rarely stored to.
 * Errors: returns NULL for another alignment; the commit then fails with FUR_EINVAL. */
FUR_API void *fur_alloc_aligned(fur_update *update, size_t bytes, size_t alignment);

/* fur_free - give memory back.  NULL is allowed.  The memory may be reused as soon as this update
 * has committed: by then every plain reader that could have seen it has ended, and an optimistic
 * one that still has its address runs again at its next load there.  After the update has failed,
 * fur_free() does nothing.
 * Crash:  part of the update, as fur_alloc().
 * Errors: the commit fails with FUR_EFREE for an address outside the heap or inside a block; for a
 *         small block that was never allocated, unless another thread has it in stock; for a run
 *         of chunks that is already free; and for the block that this thread freed last.  libfur
 *         does not notice other blocks that are already free, and two calls of fur_alloc() may then
 *         return the same block: FUR_DEBUG=double-free finds each, and fur-check such damage. */
FUR_API void fur_free(fur_update *update, void *memory);

/* Roots: FUR_ROOTS words through which a program finds its data after an open. */
#define FUR_ROOTS 64

/* fur_set_root - store a root, as fur_store() does.
 * Visible, Durable: with fur_commit().
 * Errors: the commit fails with FUR_ERANGE for an index that is not below FUR_ROOTS. */
FUR_API void fur_set_root(fur_update *update, unsigned index, const void *value);

#ifdef __cplusplus
} /* extern "C" */
#endif

/* ----------------------------------------------------- typed loads and stores
 *
 * fur_load - T fur_load(tx, const T *p): read a T of 1, 2, 4 or 8 bytes.
 *     `tx` is a fur_ro *, a fur_reader * or a fur_update *.  In a plain read-only transaction it is
 *     one plain load; the compiler neither tears nor repeats it.  A fur_reader * looks at the
 *     line's version before and after.  In an update it is the same, unless the update runs
 *     in software: then it finds the update's own stores, which are not in the heap yet.
 *
 * fur_store - void fur_store(tx, T *p, T value): store a T of 1, 2, 4 or 8 bytes.
 *     `tx` is a fur_update *: a store in a read-only transaction does not compile.  The store is
 *     logged at its exact width.
 *     Visible, Durable: with fur_commit().
 *     Errors: outside the heap nothing is stored, and the commit fails with FUR_ERANGE.
 *
 * fur_read - void fur_read(tx, void *to, const void *from, size_t bytes): read any number of bytes.
 *     `tx` as for fur_load.  Its counterpart is fur_write().
 *
 * fur_prefetch - void fur_prefetch(tx, const void *p, size_t bytes): ask the processor for `bytes`
 *     bytes at p, which the transaction is about to load, and go on.  For code that looks for
 *     several things at once, as get_many() of the C++ maps does: each waits for memory while the
 *     others go on.  It changes nothing but speed; `tx` as for fur_load, and p may be any address.
 *
 * fur_root - void *fur_root(tx, unsigned index): read a root, as fur_load() reads a word.
 *     Returns: NULL for a root that was never set, and for an index that is not below FUR_ROOTS.
 *
 * fur_usable_bytes - size_t fur_usable_bytes(tx, const void *memory): the actual size of the block
 *     at an address, whether or not the block is allocated.  `tx`: a fur_ro * or a fur_update *.
 *     Returns: 0 for an address at which no block can begin. */

#include "fur/detail.h"
#include "fur/info.h"

#endif /* FUR_H */
