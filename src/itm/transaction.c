/* SPDX-License-Identifier: BSD-3-Clause
 *
 * transaction.c - how a transaction begins, runs again, nests, commits and is cancelled.
 */
#include "itm.h"

#include <string.h>

/* Why GCC's code calls _ITM_abortTransaction(). */
enum { CANCEL_INNERMOST = 1, CANCEL_OUTERMOST = 16 };

/* A plain reader's loads are plain loads; an optimistic one's ask libfur. */
static const struct fur_update_mode plainly, asking = {.software = 1};

/* ------------------------------------------------------------ begin */

/* libfur has ended the transaction, because an update has changed a word that it has loaded, or
 * would load next. */
static void leave(void);

/* While updates publish beside each other, a plain reader would shut them out. */
static int begin_reader(struct itm_thread *t)
{
	if (fur_try_begin_ro(t->thread, &t->ro)) {
		t->mode = ITM_READER;
		t->body = &plainly;
		return 0;
	}
	t->mode = ITM_OPTIMISTIC;
	t->body = &asking;
	return fur_begin_reader_leaving(t->thread, &t->reader, leave, t->again);
}

static int begin_mode(struct itm_thread *t)
{
	if ((t->properties & ITM_READ_ONLY) && !t->wants_update)
		return begin_reader(t);
	t->mode = ITM_UPDATE;
	int error = fur_begin_update_leaving(t->thread, &t->update, leave, t->again);
	t->body = (const struct fur_update_mode *)t->update;
	return error;
}

static void begin_in_libfur(struct itm_thread *t)
{
	int error = begin_mode(t);
	/* When a thread ends, libfur ends its registration, but destructors of the thread's data
	 * may still begin transactions. */
	if (unlikely(error == FUR_EINVAL) &&
	        !(error = fur_thread_register(itm_heap(), NULL, &t->thread)))
		error = begin_mode(t);
	if (unlikely(error))
		itm_fail_as_libfur(error);
}

/* Begin the transaction, perhaps not for the first time.  Returns: what the compiler's code does.
 * With a hardware transaction, begin_in_libfur() may return several times, with all memory as it
 * was at the first return. */
static uint32_t start(struct itm_thread *t, uint32_t orders)
{
	itm_lock_wait(t, t->wants_lock);
	begin_in_libfur(t);
	t->depth = 1;
	if (likely(t->properties & ITM_INSTRUMENTED))
		return orders | ITM_RUN_INSTRUMENTED;
	itm_become_irrevocable(t);
	return orders | ITM_RUN_UNINSTRUMENTED;
}

static uint64_t new_id(struct itm_thread *t)
{
	enum { FIRST_ID = 2, BATCH = 1 << 16 };
	static uint64_t next = FIRST_ID;
	if (t->next_id == t->ids_end) {
		t->next_id = __atomic_fetch_add(&next, BATCH, __ATOMIC_RELAXED);
		t->ids_end = t->next_id + BATCH;
	}
	return t->next_id++;
}

static uint32_t begin_outermost(uint32_t properties, const struct itm_checkpoint *checkpoint)
{
	struct itm_thread *t = itm_thread_ready();
	t->begin = (struct itm_mark){.checkpoint = *checkpoint, .depth = 1};
	itm_exceptions_mark(t, &t->begin);
	t->properties = properties;
	bool alone = (properties & ITM_GOES_IRREVOCABLE) || !(properties & ITM_INSTRUMENTED);
	t->wants_lock = alone ? ITM_LOCK_EXCLUSIVE : ITM_LOCK_NONE;
	t->wants_update = alone;
	t->again = false;
	t->id = new_id(t);
	itm_stack_note(t, (uint8_t *)checkpoint->stack); /* NOLINT(performance-no-int-to-ptr) */
	return start(t, ITM_SAVE_VARIABLES);
}

static struct itm_mark *last_mark(const struct itm_thread *t)
{
	if (t->marks.used == 0)
		return NULL;
	return (struct itm_mark *)(void *)(t->marks.at + t->marks.used - sizeof(struct itm_mark));
}

static void push_mark(struct itm_thread *t, const struct itm_checkpoint *checkpoint)
{
	struct itm_mark *mark = itm_bytes_add(&t->marks, sizeof *mark);
	*mark = (struct itm_mark){.checkpoint = *checkpoint,
	        .depth = t->depth,
	        .undo = t->undo.used,
	        .actions = t->actions.used};
	itm_exceptions_mark(t, mark);
	t->inner = mark;
}

static uint32_t begin_inner(
        struct itm_thread *t, uint32_t properties, const struct itm_checkpoint *checkpoint)
{
	/* Code of a reader may call a function that GCC takes for pure, and that has a transaction
	 * of its own. */
	if (t->mode != ITM_UPDATE && !(properties & ITM_READ_ONLY))
		itm_become_update(t);
	if (!(properties & ITM_INSTRUMENTED))
		itm_become_irrevocable(t);
	t->depth++;
	if (!(properties & ITM_HAS_NO_ABORT))
		push_mark(t, checkpoint);
	return ITM_SAVE_VARIABLES |
	       (properties & ITM_INSTRUMENTED ? ITM_RUN_INSTRUMENTED : ITM_RUN_UNINSTRUMENTED);
}

uint32_t itm_begin(uint32_t properties, const struct itm_checkpoint *checkpoint)
{
	struct itm_thread *t = itm_self;
	if (likely(!t || t->depth == 0))
		return begin_outermost(properties, checkpoint);
	return begin_inner(t, properties, checkpoint);
}

/* ------------------------------------------------------------ runs that do not count */

/* Undo everything outside the heap, and give the lock back.  libfur has ended its transaction. */
static void undo_outside(struct itm_thread *t, uintptr_t stack)
{
	itm_undo_back(t, 0, stack, false);
	itm_exceptions_back(t, &t->begin);
	itm_actions_undone(t, 0, false);
	itm_lock_release(t);
	t->marks.used = 0;
	t->inner = NULL;
	t->irrevocable = false;
	t->mode = ITM_OUTSIDE;
	t->depth = 0;
}

static void restart(struct itm_thread *t) __attribute__((noreturn));
static void restart(struct itm_thread *t)
{
	undo_outside(t, t->begin.checkpoint.stack);
	t->again = true;
	uint32_t orders = start(t, ITM_RESTORE_VARIABLES);
	itm_jump(orders, &t->begin.checkpoint);
}

static void leave(void)
{
	restart(itm_self);
}

static int end_reader(struct itm_thread *t)
{
	return t->mode == ITM_OPTIMISTIC ? fur_end_reader(t->reader) : fur_end_ro(t->ro, NULL);
}

/* In a hardware transaction fur_abort() does not return: the transaction runs again in software,
 * and comes here again. */
static void abort_in_libfur(struct itm_thread *t)
{
	if (t->mode == ITM_UPDATE) {
		(void)fur_abort(t->update);
		return;
	}
	int error = end_reader(t);
	if (error)
		itm_fail_as_libfur(error);
}

void itm_run_again(struct itm_thread *t, enum itm_lock lock)
{
	if (lock > t->wants_lock)
		t->wants_lock = lock;
	abort_in_libfur(t);
	restart(t);
}

void itm_become_update(struct itm_thread *t)
{
	t->wants_update = true;
	itm_run_again(t, ITM_LOCK_NONE);
}

/* libfur's update goes on in place.  So the plain loads of code that GCC has not instrumented find
 * its stores, no other update changes the heap next to it, and it is never defeated. */
void itm_become_irrevocable(struct itm_thread *t)
{
	if (t->irrevocable)
		return;
	if (t->mode != ITM_UPDATE) {
		t->wants_update = true;
		itm_run_again(t, ITM_LOCK_EXCLUSIVE);
	}
	itm_need_lock(t, ITM_LOCK_EXCLUSIVE);
	int error = fur_join_ro(t->thread, &t->ro);
	if (error)
		itm_fail_as_libfur(error);
	t->irrevocable = true;
}

/* ------------------------------------------------------------ cancel */

static void cancel_inner(struct itm_thread *t) __attribute__((noreturn));
static void cancel_inner(struct itm_thread *t)
{
	struct itm_mark mark = *t->inner;
	itm_undo_back(t, mark.undo, mark.checkpoint.stack, true);
	itm_exceptions_back(t, &mark);
	itm_actions_undone(t, mark.actions, true);
	t->depth = mark.depth - 1;
	t->marks.used -= sizeof mark;
	t->inner = last_mark(t);
	itm_jump(ITM_CANCELLED | ITM_RESTORE_VARIABLES, &mark.checkpoint);
}

FUR_API void _ITM_abortTransaction(int reason) __attribute__((noreturn));
void _ITM_abortTransaction(int reason)
{
	struct itm_thread *t = itm_inside("_ITM_abortTransaction");
	if (!(reason & CANCEL_INNERMOST))
		itm_fail(FUR_EINVAL, "a transaction was aborted for a reason that is not "
		                     "__transaction_cancel: the compiler is newer than libfur-itm");
	if (t->inner && !(reason & CANCEL_OUTERMOST))
		cancel_inner(t);
	if (t->irrevocable)
		itm_fail(FUR_EABORTED, "an irrevocable transaction was cancelled: cancel it before "
		                       "it calls code that is not transactional");
	abort_in_libfur(t);
	undo_outside(t, t->begin.checkpoint.stack);
	itm_jump(ITM_CANCELLED | ITM_RESTORE_VARIABLES, &t->begin.checkpoint);
}

void itm_thread_over(struct itm_thread *t)
{
	if (t->depth == 0)
		return;
	/* libfur may have rolled back its part already, when its own registration ended; then these
	 * are refused. */
	if (t->irrevocable || t->mode != ITM_UPDATE)
		(void)!end_reader(t);
	if (t->mode == ITM_UPDATE)
		(void)fur_abort(t->update);
	/* No frame of the thread's stack is left. */
	undo_outside(t, UINTPTR_MAX);
}

/* ------------------------------------------------------------ commit */

static int commit_in_libfur(struct itm_thread *t)
{
	if (t->mode != ITM_UPDATE)
		return end_reader(t);
	itm_actions_in_commit(t);
	if (unlikely(t->irrevocable)) {
		int error = fur_end_ro(t->ro, NULL);
		if (error)
			return error;
	}
	return fur_commit(t->update, NULL); /* or it calls leave() */
}

FUR_API void _ITM_commitTransaction(void);
void _ITM_commitTransaction(void)
{
	struct itm_thread *t = itm_self;
	if (t->depth > 1) {
		if (t->inner && t->inner->depth == t->depth) {
			t->marks.used -= sizeof *t->inner;
			t->inner = last_mark(t);
		}
		t->depth--;
		return;
	}
	int error = commit_in_libfur(t);
	if (unlikely(error))
		itm_fail_as_libfur(error);
	itm_lock_release(t);
	t->mode = ITM_OUTSIDE;
	t->depth = 0;
	t->irrevocable = false;
	t->undo.used = 0;
	itm_exceptions_clear(t);
	itm_actions_committed(t);
}

/* An exception leaves the block, which commits.  If it runs again instead, the exception is one of
 * those that the run has thrown. */
FUR_API void _ITM_commitTransactionEH(void *exception);
void _ITM_commitTransactionEH(void *exception)
{
	(void)exception;
	_ITM_commitTransaction();
}

/* ------------------------------------------------------------ the rest of the interface */

enum { MODE_IRREVOCABLE = 0 };
FUR_API void _ITM_changeTransactionMode(int mode);
void _ITM_changeTransactionMode(int mode)
{
	if (mode != MODE_IRREVOCABLE)
		itm_fail(FUR_EINVAL, "a transaction asked for a mode that is not the irrevocable "
		                     "one: the compiler is newer than libfur-itm");
	itm_become_irrevocable(itm_inside("_ITM_changeTransactionMode"));
}

enum { OUTSIDE = 0, MAY_RUN_AGAIN = 1, IRREVOCABLE = 2 };
FUR_API int _ITM_inTransaction(void);
int _ITM_inTransaction(void)
{
	const struct itm_thread *t = itm_self;
	if (!t || t->depth == 0)
		return OUTSIDE;
	return t->irrevocable ? IRREVOCABLE : MAY_RUN_AGAIN;
}

enum { NO_TRANSACTION = 1 };
FUR_API uint64_t _ITM_getTransactionId(void);
uint64_t _ITM_getTransactionId(void)
{
	const struct itm_thread *t = itm_self;
	return t && t->depth ? t->id : NO_TRANSACTION;
}

FUR_API void _ITM_dropReferences(void *from, size_t bytes);
void _ITM_dropReferences(void *from, size_t bytes)
{
	itm_undo_forget(itm_self, from, bytes);
}

/* The version of the interface. */
enum { ITM_VERSION = 90 };
FUR_API int _ITM_versionCompatible(int version);
int _ITM_versionCompatible(int version)
{
	return version == ITM_VERSION;
}

FUR_API const char *_ITM_libraryVersion(void);
const char *_ITM_libraryVersion(void)
{
	return "libfur-itm";
}

FUR_API void _ITM_error(const void *place, int code) __attribute__((noreturn));
void _ITM_error(const void *place, int code)
{
	(void)place;
	(void)code;
	itm_fail(FUR_EINVAL, "the compiler's code has found an error in a transaction");
}
