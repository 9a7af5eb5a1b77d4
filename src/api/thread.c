/* SPDX-License-Identifier: BSD-3-Clause
 *
 * thread.c - registration: a thread's slot in every array, given back when the thread ends,
 * also if it does not say so.
 */
#include "api/heap.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a slot keeps from its first use on. */
static int thread_allocate_memory(struct fur_heap *heap, struct fur_thread *t, uint32_t slot)
{
	struct durability *d = &heap->durability;
	uint32_t threads = d->super->max_threads;
	t->window.commit.dset.members = memory_padded(threads * sizeof(struct dset_member));
	t->window.seqs = memory_padded(threads * sizeof(uint64_t));
	if (!t->window.commit.dset.members || !t->window.seqs)
		return fur_fail(FUR_ENOMEM, "no memory to register a thread: free some memory");
	if (heap->htm.kind == FUR_HTM_POWER && !(t->window_stack = window_stack_new()))
		return fur_fail(
		        FUR_ENOMEM, "no memory for the window stack of a thread: free some memory");
	return redo_init(&d->redo[slot], d, slot);
}

void thread_free_memory(struct fur_thread *t)
{
	free(t->window.commit.dset.members);
	free(t->window.seqs);
	window_stack_delete(t->window_stack);
}

static int first_use(struct fur_heap *heap, struct fur_thread *t, uint32_t slot)
{
	int error = thread_allocate_memory(heap, t, slot);
	if (error) {
		thread_free_memory(t);
		memset(t, 0, sizeof *t);
		return error;
	}
	t->htm = &heap->htm;
	t->durability = &heap->durability;
	t->heap = heap;
	t->index = t->window.commit.me = slot;
	t->seq = UINT64_MAX; /* += 2 for each transaction: odd, and never 0 */
	t->update = (struct fur_update){
	        .thread = t, .base = heap->file.base, .log = &heap->durability.redo[slot]};
	/* Scans look up to here from now on.  Before this thread's first transaction, whose full
	 * fence orders it: who scans after that fence sees the new limit. */
	arch_store_release(&heap->durability.limit, slot + 1);
	return 0;
}

static int find_slot(struct fur_heap *heap, struct fur_thread **out)
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
		        "unregister one, or make the heap "
		        "with a larger max_threads",
		        (unsigned long long)limit);
	*out = &heap->threads[limit];
	return first_use(heap, *out, (uint32_t)limit);
}

static int take_slot(struct fur_heap *heap, struct fur_thread **thread)
{
	struct fur_thread *t = NULL;
	pthread_mutex_lock(&heap->registering);
	int error = find_slot(heap, &t);
	if (!error && pthread_setspecific(heap->self, t))
		error = fur_fail(FUR_ENOMEM, "no memory to register a thread: free some memory");
	if (!error) {
		t->state = THREAD_REGISTERED;
		t->owner = this_thread();
		t->name = NULL;
		*thread = t;
	}
	pthread_mutex_unlock(&heap->registering);
	return error;
}

FUR_API int fur_thread_register(fur_heap *heap, fur_thread **thread)
{
	if (!heap || !thread)
		return fur_fail(
		        FUR_EINVAL, "fur_thread_register: heap and thread must not be NULL");
	*thread = NULL;
	FUR_CHECK(heaps_have(heap), "the heap is not open");
	if (htm_forked(&heap->htm))
		return tx_refuse(&heap->htm);
	if ((*thread = pthread_getspecific(heap->self)))
		return 0;
	/* The C library runs no handlers for a child of _Fork() or clone(). */
	if (heap->owner != getpid()) {
		heap_disown(heap);
		return tx_refuse(&heap->htm);
	}
	return take_slot(heap, thread);
}

static void give_back(struct fur_thread *t)
{
	struct fur_heap *heap = t->heap;
	t->owner = NULL;
	if (htm_forked(t->htm)) /* a thread that the child does not have may hold the mutex */
		return;
	pthread_mutex_lock(&heap->registering);
	t->state = THREAD_FREE;
	pthread_mutex_unlock(&heap->registering);
}

void thread_ended(void *thread)
{
	/* The thread returned, or was cancelled, inside a transaction: others wait for it, so end
	 * it here. */
	tx_abandon(thread);
	give_back(thread);
}

FUR_API int fur_thread_unregister(fur_thread *t)
{
	if (!t)
		return fur_fail(FUR_EINVAL, "fur_thread_unregister: thread must not be NULL");
	if (htm_forked(t->htm))
		return tx_refuse(t->htm);
	if (t->owner != this_thread())
		return tx_foreign("fur_thread_unregister", FUR_EINVAL);
	if (t->update.depth)
		return fur_fail(FUR_EBUSY, "this thread has an update open, which it may have left "
		                           "by return or longjmp: end it with fur_commit() or "
		                           "fur_abort() before unregistering");
	if (t->ro.depth)
		return fur_fail(FUR_EBUSY, "this thread has a read-only transaction open: end it "
		                           "with fur_end_ro() before unregistering");
	pthread_setspecific(t->heap->self, NULL);
	give_back(t);
	return 0;
}

FUR_API uint32_t fur_thread_slot(const fur_thread *thread)
{
	return thread ? thread->index : UINT32_MAX;
}

FUR_API void fur_thread_set_name(fur_thread *thread, const char *name)
{
	if (thread)
		thread->name = name;
}

/* ------------------------------------------------- the allocator's public face */

FUR_API void *fur_alloc(fur_update *tx, size_t bytes)
{
	return tx && tx->depth && !tx->error ? alloc_block(tx, tx->base, tx->thread->index, bytes)
	                                     : NULL;
}

FUR_API void fur_free(fur_update *tx, void *memory)
{
	if (memory && tx && tx->depth && !tx->error &&
	        !alloc_free(tx, tx->base, tx->thread->index, memory))
		tx_fail(tx, FUR_EFREE);
}

FUR_API size_t fur_usable_bytes(const fur_heap *heap, const void *memory)
{
	return alloc_usable_bytes(heap->file.base, memory);
}

FUR_API void *fur_root(const fur_heap *heap, unsigned index)
{
	uint64_t word = index < FUR_ROOTS ? arch_load(&alloc_roots(heap->file.base)[index]) : 0;
	return (void *)(uintptr_t)word;
}

FUR_API void fur_set_root(fur_update *tx, unsigned index, const void *value)
{
	if (index < FUR_ROOTS)
		fur_store_bits(tx, &alloc_roots(tx->base)[index], (uintptr_t)value, 8);
	else
		tx_fail(tx, FUR_ERANGE);
}
