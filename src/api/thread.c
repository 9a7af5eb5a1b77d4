/* SPDX-License-Identifier: BSD-3-Clause
 *
 * thread.c - registration: a thread gets an index, which is its place in every array, and gives the
 * index back when it unregisters or ends.
 */
#include "api/heap.h"
#include "base/error.h"
#include "base/memory.h"
#include "bulk/job.h"
#include "durability/dset.h"
#include "htm/htm.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Allocate an index's memory, which it keeps from its first use until the heap is closed. */
static int thread_allocate_memory(struct fur_heap *heap, struct fur_thread *t, uint32_t me)
{
	struct durability *d = &heap->durability;
	uint32_t threads = d->super->max_threads;
	t->window.commit.dset.members =
	        memory_padded((threads + DSET_NAMED) * sizeof(struct dset_member));
	t->window.seqs = memory_padded(threads * sizeof(uint64_t));
	t->window.commit.dset.most = DSET_NAMED;
	if (!t->window.commit.dset.members || !t->window.seqs)
		return fur_fail(FUR_ENOMEM, "no memory to register a thread: free some memory");
	if (heap->engine.kind == FUR_HTM_POWER && !(t->window_stack = window_stack_new()))
		return fur_fail(
		        FUR_ENOMEM, "no memory for the window stack of a thread: free some memory");
	int error = durability_take_log(d, me);
	return error ? error : redo_init(&d->redo[me], d, me);
}

void thread_free_memory(struct fur_thread *t)
{
	free(t->window.commit.dset.members);
	free(t->window.seqs);
	free(t->software.reads.reads);
	write_fini(&t->software.writes);
	free(t->noted.blocks);
	window_stack_delete(t->window_stack);
}

/* The caller holds the mutex `registering`. */
static int first_use_of_index(struct fur_heap *heap, struct fur_thread *t, uint32_t me)
{
	FUR_ASSERT(
	        me < heap->file.super->max_threads && me == heap->durability.limit && !t->engine);
	int error = thread_allocate_memory(heap, t, me);
	if (error) {
		thread_free_memory(t);
		memset(t, 0, sizeof *t);
		return error;
	}
	t->engine = &heap->engine;
	t->durability = &heap->durability;
	t->heap = heap;
	t->index = t->window.commit.me = me;
	t->seq = 1; /* each transaction adds ACTIVE_STEP: always odd, never 0 */
	t->update = (struct fur_update){.thread = t,
	        .base = heap->file.base,
	        .writable = heap->file.writable,
	        .flags_at_begin = heap_is_checked(heap) ? TX_CHECKED : 0,
	        .find_free = heap->debug & FUR_DEBUG_DOUBLE_FREE,
	        .log = &heap->durability.redo[me]};
	/* From now on scans reach this index.  The full fence of this thread's first transaction
	 * orders this store before the transaction's loads.  So a scan that must see that
	 * transaction sees the new limit too. */
	arch_store_release(&heap->durability.limit, me + 1);
	return 0;
}

/* The caller holds the mutex `registering`. */
static int find_free_index(struct fur_heap *heap, struct fur_thread **out)
{
	uint64_t limit = heap->durability.limit;
	for (uint64_t i = 0; i < limit; i++)
		if (heap->threads[i].state == THREAD_FREE) {
			*out = &heap->threads[i];
			return 0;
		}
	if (limit == heap->file.super->max_threads)
		return fur_fail(FUR_ETHREADS,
		        "%llu threads are registered, as many as this heap was made for: "
		        "unregister one, or let the heap have more, with fur-resize "
		        "--max-threads",
		        (unsigned long long)limit);
	*out = &heap->threads[limit];
	return first_use_of_index(heap, *out, (uint32_t)limit);
}

static int take_index(struct fur_heap *heap, const char *name, struct fur_thread **thread)
{
	struct fur_thread *t = NULL;
	pthread_mutex_lock(&heap->registering);
	int error = find_free_index(heap, &t);
	if (!error && pthread_setspecific(heap->self, t))
		error = fur_fail(FUR_ENOMEM, "no memory to register a thread: free some memory");
	if (!error && t) {
		FUR_ASSERT(t->state == THREAD_FREE && !t->owner);
		/* An atomic store, because fur_get_stats() reads the state without the mutex. */
		arch_store32(&t->state, THREAD_REGISTERED);
		t->owner = this_thread();
		t->name = name;
		*thread = t;
	}
	pthread_mutex_unlock(&heap->registering);
	return error;
}

FUR_API int fur_thread_register(fur_heap *heap, const char *name, fur_thread **thread)
{
	if (thread)
		*thread = NULL;
	if (!heap || !thread)
		return fur_fail(
		        FUR_EINVAL, "fur_thread_register: heap and thread must not be NULL");
	FUR_CHECK(heaps_have(heap), "the heap is not open");
	if (engine_forked(&heap->engine))
		return tx_refuse(&heap->engine);
	if ((*thread = pthread_getspecific(heap->self))) {
		if (name)
			(*thread)->name = name;
		return 0;
	}
	/* The C library runs no handlers for a child of _Fork() or clone(). */
	if (heap->owner != getpid()) {
		heap_disown(heap);
		return tx_refuse(&heap->engine);
	}
	int error = take_index(heap, name, thread);
	if (!error && !this_thread()->open)
		bulk_clean(*thread);
	return error;
}

static void give_index_back(struct fur_thread *t)
{
	struct fur_heap *heap = t->heap;
	t->owner = NULL;
	/* INV-GM4: before the index is free, which the mutex below tells fur_group_remove().  It
	 * may close the heap then. */
	if (t->noted_at)
		*t->noted_at = NULL;
	t->noted_at = NULL;
	if (engine_forked(t->engine)) /* a thread that the child does not have may hold the mutex */
		return;
	FUR_ASSERT(t->state == THREAD_REGISTERED && !thread_has_open(t));
	/* A thread that has left a body and not begun it again still has its place in the crowd. */
	tx_leave_core(t);
	pthread_mutex_lock(&heap->registering);
	arch_store32(&t->state, THREAD_FREE);
	pthread_mutex_unlock(&heap->registering);
}

void thread_ended(void *thread)
{
	/* pthread_join() waits for this, but not what languages call joining a thread: fur_close()
	 * may run meanwhile. */
	struct fur_heap *heap = heaps_enter(thread);
	if (!heap)
		return;
	/* If the thread returned, or was cancelled, inside a transaction, others may wait for that
	 * transaction: end it here. */
	tx_roll_back_all(thread);
	give_index_back(thread);
	heaps_leave(heap);
}

/* May the calling thread use this registration?  Also if the heap has failed. */
static int check_caller(const struct fur_thread *t, const char *function)
{
	if (!t)
		return fur_fail(FUR_EINVAL, "%s: thread must not be NULL", function);
	if (engine_forked(t->engine))
		return tx_refuse(t->engine);
	return t->owner == this_thread() ? 0 : tx_foreign(function, FUR_EINVAL);
}

FUR_API int fur_thread_unregister(fur_thread *t)
{
	int error = check_caller(t, "fur_thread_unregister");
	if (error)
		return error;
	if (t->update.depth)
		return fur_fail(FUR_EBUSY,
		        "this thread has an update open: end it before unregistering; "
		        "fur_thread_abandon() ends one that was left by return or longjmp");
	if (thread_has_open(t))
		return fur_fail(FUR_EBUSY,
		        "this thread has a read-only transaction open: end it before "
		        "unregistering; fur_thread_abandon() ends one that was left open");
	pthread_setspecific(t->heap->self, NULL);
	give_index_back(t);
	return 0;
}

FUR_API int fur_thread_transaction(const fur_thread *t)
{
	int error = check_caller(t, "fur_thread_transaction");
	if (error)
		return error;
	if (t->update.depth)
		return FUR_TRANSACTION_UPDATE;
	return thread_has_open(t) ? FUR_TRANSACTION_READ_ONLY : FUR_TRANSACTION_NONE;
}

FUR_API int fur_thread_abandon(fur_thread *t)
{
	int error = check_caller(t, "fur_thread_abandon");
	if (!error)
		tx_roll_back_all(t);
	return error;
}

FUR_API uint32_t fur_thread_index(const fur_thread *thread)
{
	return thread ? thread->index : UINT32_MAX;
}
