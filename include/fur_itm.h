/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_itm.h - libfur under GCC's transactions: __transaction_atomic { ... } on the heap.
 *
 *     heap = ...;                          fur_create() or fur_open()
 *     fur_itm_use(heap);
 *     __transaction_atomic {
 *             struct counter *c = fur_itm_root(0);
 *             c->value++;                  durable when the block has ended
 *     }
 *
 * Compile with gcc or g++ -fgnu-tm, and link with the flags of `pkg-config --libs libfur-itm`.  The
 * flags come before -litm, which gcc adds by itself.  GCC makes each load and store of a
 * transaction a call of the interface that its libitm has (Intel's "Transactional Memory Compiler
 * and Runtime ABI"); libfur-itm has the same interface, and passes the calls to libfur.
 *
 * THE RULES
 *
 *  - Name the heap by fur_itm_use() before the first transaction.  A process uses one heap at a
 *    time.
 *  - Threads register by themselves, each at its first transaction.
 *  - A transaction is an update of libfur.  A block in which GCC finds neither a store nor a call
 *    is a read-only transaction of libfur; next to concurrent updates it is an optimistic one,
 *    which may run again.  When the outermost block has ended, all that it wrote to the heap is
 *    visible and durable, with everything that it has read.
 *  - A transaction may run several times, and then undoes what it wrote before: in the heap and
 *    outside it.
 *  - Transactions nest.  __transaction_cancel in an inner block undoes the inner block only.
 *  - A function with the attribute transaction_pure must not load from the heap: GCC makes its
 *    loads plain ones, which do not notice that another transaction stores there.
 *  - Do not store to bit-fields in a transaction: GCC (12, at least) stores the whole word, and so
 *    zeros to the other fields.
 *  - Do not begin such a transaction inside a transaction of fur.h, and do not call the functions
 *    of fur.h inside one: use those of this header.
 *
 * MEMORY OUTSIDE THE HEAP
 *
 *    Stores to globals, to malloc()ed memory and to the stack are done in place.  If the
 *    transaction runs again or is cancelled, they are undone.  They are not durable.
 *    Globals and malloc()ed memory are isolated: a transaction that loads from them excludes those
 *    that store there, and one that stores there excludes those that load or store there.  It does
 *    so from its first such access to its end, which includes the wait until it is durable.  So
 *    transactions that store to globals run one at a time.  Transactions that use the heap alone
 *    run next to each other, and next to those.
 *    Not isolated: a thread's own stack.  If transactions of several threads use a variable, it
 *    must not be on the stack of one of them.  Code outside transactions is isolated from nothing.
 *
 * IRREVOCABLE TRANSACTIONS
 *
 *    __transaction_relaxed may contain code that GCC cannot make transactional, such as a call of
 *    printf().  Before such code, the transaction becomes irrevocable: from then on it runs alone,
 *    and never again.  Other transactions wait for it, and so do libfur's own readers and updates.
 *    GCC compiles the code that follows in the block without calls of this library.  Its loads from
 *    the heap are right, but a STORE TO THE HEAP there is a plain assignment, which libfur does not
 *    log: it is lost at the next open.  So store to the heap before such code, or call a function
 *    that does so in an atomic block of its own.
 *
 * ERRORS
 *
 *    A transaction has no result.  When libfur cannot carry one out - no heap is named, the log is
 *    too small for it, the disk has failed - it reports one line and ends the process by abort();
 *    see fur_itm_on_failure().  The heap has then every transaction that has ended, as after any
 *    crash.  Memory that runs out is not such a failure: fur_itm_alloc() returns NULL.
 */
#ifndef FUR_ITM_H
#define FUR_ITM_H

#include <fur.h>

/* Other compilers than GCC do not know the attribute.  They can include this header, and call
 * fur_itm_use(). */
#if defined(__has_attribute)
#if __has_attribute(transaction_safe)
#define FUR_ITM_SAFE __attribute__((transaction_safe))
#endif
#endif
#ifndef FUR_ITM_SAFE
#define FUR_ITM_SAFE
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* fur_itm_use - name the heap that the transactions of this process use.  NULL: none, which a
 * program must say before it calls fur_close().  No transaction may run meanwhile.
 * Errors: those of fur_get_info().  The process then uses no heap. */
FUR_API FUR_MUST_USE int fur_itm_use(fur_heap *heap);

/* fur_itm_on_failure - name a function that is called when a transaction fails for good, in place
 * of the line on the standard error.  `error` is one of enum fur_error, and `message` tells the
 * problem and the remedy.  If the function returns, the process ends by abort().  The heap keeps
 * nothing of the transaction, unless the heap itself has failed.
 * NULL: the line on the standard error again. */
FUR_API void fur_itm_on_failure(void (*report)(int error, const char *message));

/* fur_itm_alloc - fur_alloc() for the running transaction: memory in the heap, contents undefined.
 * malloc() and operator new in a transaction give memory of the process, which a transaction that
 * runs again or is cancelled gives back.
 * Crash:   the allocation is part of the transaction.
 * Returns: NULL when the heap is full.
 * Errors:  outside a transaction, fails as a transaction does: "Errors", above. */
FUR_API FUR_ITM_SAFE void *fur_itm_alloc(size_t bytes);

/* fur_itm_alloc_aligned - fur_alloc_aligned() for the running transaction: memory in the heap at a
 * multiple of `alignment`.
 * Crash, Returns, Errors: as fur_itm_alloc().  An alignment that fur_alloc_aligned() refuses also
 *          fails. */
FUR_API FUR_ITM_SAFE void *fur_itm_alloc_aligned(size_t bytes, size_t alignment);

/* fur_itm_free - give memory of the heap back when the running transaction commits.  NULL is
 * allowed.
 * Crash:   part of the transaction.
 * Errors:  those of fur_free(), at the commit; outside a transaction as fur_itm_alloc(). */
FUR_API FUR_ITM_SAFE void fur_itm_free(void *memory);

/* fur_itm_root - fur_root() for the running transaction.
 * Returns: NULL for a root that was never set, and for an index that is not below FUR_ROOTS.
 * Errors:  outside a transaction as fur_itm_alloc(). */
FUR_API FUR_ITM_SAFE void *fur_itm_root(unsigned index);

/* fur_itm_set_root - fur_set_root() for the running transaction.
 * Visible, Durable: when the outermost transaction has ended.
 * Errors:  an index that is not below FUR_ROOTS fails, as does a call outside a transaction. */
FUR_API FUR_ITM_SAFE void fur_itm_set_root(unsigned index, const void *value);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* FUR_ITM_H */
