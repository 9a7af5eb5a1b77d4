/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itm.h - libfur-itm: the run-time library of GCC's transactions, on the functions of fur.h.  This
 * file is the contract of src/itm.  docs/gnu-tm.md describes it from outside.
 *
 * GCC's code calls _ITM_beginTransaction(), which saves the registers as setjmp() does, and returns
 * again when the transaction runs again or was cancelled.  Everything that a run has changed is in
 * one of four places, and undone from there:
 *
 *    the heap              libfur rolls it back, or runs in a hardware transaction
 *    memory outside        struct itm_undo: the old bytes of each store (undo.c)
 *    malloc(), free(),     struct itm_action: calls that wait for the commit, or make up for a run
 *    actions of the user   that does not count (actions.c)
 *    C++ exceptions        struct itm_exceptions (exceptions.c)
 *
 * In a hardware transaction all of these are rewound by the hardware, as is this library's own
 * memory, so nothing here asks whether there is one.
 *
 *   INV-I1  A transaction that has loaded from memory outside the heap and outside its own stack
 *           has `shared` set until it has ended, and one that has stored there has the exclusive
 *           lock until it has ended and its stores are undone or visible (lock.c).
 *   INV-I2  No thread waits for the lock while it has a transaction of libfur open.  Updates of
 *           libfur wait for each other and for readers, so such a wait could close a circle.
 *           A transaction that cannot have the lock at once is rolled back, waits, and runs again.
 */
#ifndef FUR_ITM_INTERNAL_H
#define FUR_ITM_INTERNAL_H

#include <fur_itm.h>
#include <pthread.h>

#define likely(condition)   __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* ------------------------------------------------------------ GCC's side of the interface */

/* The compiler's facts about a block: the argument of _ITM_beginTransaction(). */
enum itm_property {
	ITM_INSTRUMENTED = 0x1,   /* the block has code that calls this library */
	ITM_UNINSTRUMENTED = 0x2, /* it has code that does not */
	ITM_HAS_NO_ABORT = 0x8,   /* it contains no __transaction_cancel */
	ITM_GOES_IRREVOCABLE = 0x40,
	ITM_READ_ONLY = 0x4000
};

/* Orders to the compiler's code: the result of _ITM_beginTransaction(). */
enum itm_order {
	ITM_RUN_INSTRUMENTED = 0x1,
	ITM_RUN_UNINSTRUMENTED = 0x2,
	ITM_SAVE_VARIABLES = 0x4,    /* variables in registers, for a run that does not count */
	ITM_RESTORE_VARIABLES = 0x8, /* the run before this return did not count */
	ITM_CANCELLED = 0x10         /* go on after the block */
};

/* The registers that a called function must preserve; checkpoint_*.S knows the layout. */
struct itm_checkpoint {
	uintptr_t stack; /* the caller's stack pointer, when _ITM_beginTransaction() has returned */
	uintptr_t next;  /* the address to which it returns */
#if defined(__x86_64__)
	uint64_t registers[6];
#elif defined(__aarch64__)
	uint64_t registers[19];
#else
#error "libfur-itm knows x86-64 and aarch64: write src/itm/checkpoint_*.S"
#endif
};

/* Go on where the checkpoint was made, with `orders` as the result of _ITM_beginTransaction(). */
void itm_jump(uint32_t orders, const struct itm_checkpoint *checkpoint) __attribute__((noreturn));

/* _ITM_beginTransaction() calls it, with its result. */
uint32_t itm_begin(uint32_t properties, const struct itm_checkpoint *checkpoint);

/* ------------------------------------------------------------------ one thread */

enum itm_mode {
	ITM_OUTSIDE,
	ITM_READER,     /* a plain read-only transaction of libfur */
	ITM_OPTIMISTIC, /* an optimistic one: its loads ask libfur, and may make it run again */
	ITM_UPDATE
};

/* How much of the memory outside the heap a transaction has (lock.c). */
enum itm_lock { ITM_LOCK_NONE, ITM_LOCK_SHARED, ITM_LOCK_EXCLUSIVE };

/* A log that grows: `used` of `room` bytes. */
struct itm_bytes {
	uint8_t *at;
	size_t used, room;
};

/* The old bytes of a store follow, rounded up to 8, and then the length in 8 bytes, so that the log
 * can be read from its end. */
struct itm_undo {
	uint8_t *to;
	size_t bytes;
	bool in_frame; /* it lay in a frame of the transaction (stack.c) */
};

enum itm_when {
	ITM_AT_COMMIT,      /* when the outermost transaction has committed */
	ITM_AT_ROLLBACK,    /* when the run does not count */
	ITM_HEAP_FREE,      /* `arg` goes back to the heap as a part of the commit */
	ITM_HEAP_ALLOCATED, /* a cancelled inner block gives `arg` back to the heap */
	ITM_HEAP_ROOT       /* a cancelled inner block makes `arg` the root again */
};
struct itm_action {
	enum itm_when when;
	unsigned root;
	void (*call)(void *arg);
	void *arg;
};

/* An exception whose memory the transaction has allocated. */
struct itm_exception {
	void *object;
	size_t bytes;
	bool dead; /* its memory was given back */
};
/* Counts of the C++ run-time library for each thread; the Itanium C++ ABI has the layout. */
struct itm_cxa_globals {
	void *caught;
	unsigned uncaught;
};
struct itm_exceptions {
	struct itm_bytes list;    /* of struct itm_exception */
	struct itm_bytes catches; /* of void *: objects whose handlers run */
};

/* The state to which a rollback returns. */
struct itm_mark {
	struct itm_checkpoint checkpoint;
	uint32_t depth; /* of the block that begins here */
	size_t undo, actions, exceptions, catches;
	struct itm_cxa_globals cxa;
};

struct itm_thread {
	/* The first members: every load and store looks at them. */
	const struct fur_update_mode *body; /* of the open transaction: does a load ask libfur? */
	uint8_t *heap_base;
	uint64_t heap_bytes; /* the largest size; 0 outside transactions */
	uint8_t *stack_low; /* the thread's own stack; 0 bytes if the transaction runs on another */
	uint64_t stack_bytes;
	enum itm_lock lock;
	enum itm_mode mode;
	fur_update *update;
	struct itm_mark *inner; /* NULL, or where the innermost block that can be cancelled began */

	fur_thread *thread;
	uint64_t use; /* the call of fur_itm_use() that named the heap of `thread` */
	fur_ro *ro;
	fur_reader *reader;
	struct itm_mark begin;  /* of the outermost block */
	struct itm_bytes marks; /* of struct itm_mark: inner blocks that can be cancelled */
	uint32_t depth;
	uint32_t properties; /* of the outermost block */
	/* For the next run of this transaction, which found out that it needs more. */
	enum itm_lock wants_lock;
	bool wants_update;
	bool again; /* it has run before */
	bool irrevocable;
	uint64_t id, next_id, ids_end;
	struct itm_bytes undo;    /* of struct itm_undo */
	struct itm_bytes actions; /* of struct itm_action */
	struct itm_exceptions exceptions;
	/* Of the thread; that of the main thread has grown to `low`, and may grow to `least`. */
	uint8_t *own_stack_least, *own_stack_low, *own_stack_high;

	/* Other threads look at these. */
	uint32_t shared __attribute__((aligned(FUR_CACHE_LINE))); /* lock.c */
	struct itm_thread *next;                                  /* in the list of all threads */
	uint32_t taken; /* a thread of the process has it */
};

/* The calling thread's, or NULL before its first transaction. */
extern __thread struct itm_thread *itm_self __attribute__((tls_model("initial-exec")));

/* The calling thread's, made if need be, for the heap that fur_itm_use() has named (use.c). */
struct itm_thread *itm_thread_ready(void);
/* The list of all threads; it only grows. */
struct itm_thread *itm_threads(void);
/* The named heap; never NULL inside a transaction. */
fur_heap *itm_heap(void);

/* The end of the process, with a message: fur_itm_on_failure().  itm_fail_as_libfur() takes the
 * message of the thread's last failure in libfur. */
void itm_fail(int error, const char *message) __attribute__((noreturn));
void itm_fail_as_libfur(int error) __attribute__((noreturn));
/* The update has failed in one of its stores: the body would find that they are missing. */
void itm_fail_in_store(struct itm_thread *t) __attribute__((noreturn));
/* For a function that is called outside transactions and must not be. */
struct itm_thread *itm_inside(const char *function);

/* ------------------------------------------------------------ transaction.c */

/* Roll the transaction back, and run it again with at least this much of the memory outside the
 * heap. */
void itm_run_again(struct itm_thread *t, enum itm_lock lock) __attribute__((noreturn));
/* The transaction reads only so far, and is about to store: it runs again as an update. */
void itm_become_update(struct itm_thread *t) __attribute__((noreturn));
void itm_become_irrevocable(struct itm_thread *t);
/* The thread ends, and perhaps inside a transaction. */
void itm_thread_over(struct itm_thread *t);

/* ------------------------------------------------------------ stack.c */

/* Find the calling thread's own stack. */
void itm_stack_find(struct itm_thread *t);
/* A transaction begins, with this stack pointer. */
void itm_stack_note(struct itm_thread *t, uint8_t *stack);

/* Does `at` lie in a frame of a function that the transaction has called?  `frame` is the caller's
 * own, which is below these. */
static inline bool itm_in_frames(const struct itm_thread *t, const void *at, const void *frame)
{
	return (uintptr_t)at >= (uintptr_t)frame && (uintptr_t)at < t->begin.checkpoint.stack;
}

/* ------------------------------------------------------------ lock.c */

/* Only lock.c touches it; tests roll it back, as hardware does. */
extern struct itm_lock_words {
	pthread_mutex_t mutex;
	uint32_t exclusive __attribute__((aligned(FUR_CACHE_LINE)));
} itm_lock_words;

/* At once, or not at all. */
FUR_MUST_USE bool itm_lock_try(struct itm_thread *t, enum itm_lock lock);
/* The thread has no transaction of libfur open (INV-I2). */
void itm_lock_wait(struct itm_thread *t, enum itm_lock lock);
void itm_lock_release(struct itm_thread *t);
/* In a child of fork(): take the lock from the threads that the child does not have. */
void itm_lock_forked(void);

static inline void itm_need_lock(struct itm_thread *t, enum itm_lock lock)
{
	if (likely(t->lock >= lock))
		return;
	if (!itm_lock_try(t, lock))
		itm_run_again(t, lock);
}

/* ------------------------------------------------------------ undo.c */

/* Room for this many more bytes at the end. */
void *itm_bytes_add(struct itm_bytes *log, size_t bytes);
/* Note the bytes at `to`, before a store.  itm_undo_heap() does so for the heap. */
void itm_undo_note(struct itm_thread *t, const void *to, size_t bytes);
void itm_undo_heap(struct itm_thread *t, const void *to, size_t bytes);
/* Undo the stores since the log was `until` bytes long.  Frames below `stack` are no more;
 * UINTPTR_MAX: nor is anything of the thread's own stack. */
void itm_undo_back(struct itm_thread *t, size_t until, uintptr_t stack, bool heap);
/* These bytes keep the values that they have now, even if the transaction is undone. */
void itm_undo_forget(struct itm_thread *t, const void *from, size_t bytes);

/* ------------------------------------------------------------ access.c */

/* Where an address lies: it decides how it is accessed. */
static inline bool itm_in_heap(const struct itm_thread *t, const void *at)
{
	return (uint64_t)((const uint8_t *)at - t->heap_base) < t->heap_bytes;
}
static inline bool itm_in_stack(const struct itm_thread *t, const void *at)
{
	return (uint64_t)((const uint8_t *)at - t->stack_low) < t->stack_bytes;
}

static inline void itm_check_store(struct itm_thread *t)
{
	if (unlikely(fur_update_error(t->update)))
		itm_fail_in_store(t);
}

/* Share the lock to load from `from`, which is not in the heap, unless it lies in a frame. */
void itm_lock_to_load(struct itm_thread *t, const void *from);
/* Make ready for a plain load from `from`, which is not in the heap. */
static inline void itm_prepare_load(struct itm_thread *t, const void *from)
{
	if (!itm_in_stack(t, from) && unlikely(t->lock == ITM_LOCK_NONE))
		itm_lock_to_load(t, from);
}
/* Make ready for a plain store of this many bytes at `to`, which is not in the heap. */
void itm_prepare_store(struct itm_thread *t, const void *to, size_t bytes);
/* Load from the heap in a transaction whose loads ask libfur (itm_thread.body).  itm_ask_word() is
 * as fur_load_bits(). */
uint64_t itm_ask_word(const struct itm_thread *t, const void *from, unsigned bytes);
void itm_ask(const struct itm_thread *t, void *to, const void *from, size_t bytes);
/* Loads and stores of any number of bytes. */
void itm_load_bytes(struct itm_thread *t, void *to, const void *from, size_t bytes);
void itm_store_bytes(struct itm_thread *t, void *to, const void *from, size_t bytes);

/* ------------------------------------------------------------ actions.c */

void itm_action_add(struct itm_thread *t, struct itm_action action);
/* Before the commit: give memory back to the heap. */
void itm_actions_in_commit(struct itm_thread *t);
/* After it. */
void itm_actions_committed(struct itm_thread *t);
/* The actions from `from` bytes on are of a run that does not count. */
void itm_actions_undone(struct itm_thread *t, size_t from, bool inner);

/* ------------------------------------------------------------ exceptions.c */

void itm_exceptions_mark(struct itm_thread *t, struct itm_mark *mark);
void itm_exceptions_back(struct itm_thread *t, const struct itm_mark *mark);
void itm_exceptions_clear(struct itm_thread *t);
/* Has this transaction allocated the memory, for an exception?  No other thread knows it then. */
bool itm_in_exception(const struct itm_thread *t, const void *at);

#endif /* FUR_ITM_INTERNAL_H */
