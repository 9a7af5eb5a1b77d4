/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory.c - the allocator as programs call it: fur_alloc, fur_alloc_aligned, fur_free,
 * fur_usable_bytes, and the roots.
 */
#include "alloc/alloc.h"
#include "api/heap.h"
#include "base/checker.h"
#include "base/error.h"

/* The thread whose read-only transaction this is. */
static const struct fur_thread *thread_of(const fur_ro *ro)
{
	return (const struct fur_thread *)((const char *)ro - offsetof(struct fur_thread, ro));
}

bool heap_is_checked(const struct fur_heap *heap)
{
	/* A standby's blocks are allocated and freed at the primary: nothing here shows them. */
	return !heap->engine.ops && checker_runs() && !heap->durability.ship.follows;
}

FUR_API void *fur_alloc(fur_update *tx, size_t bytes)
{
	if (!tx || !tx->depth || tx->error)
		return NULL;
	return alloc_block(tx, tx->base, tx->thread->index, bytes);
}

FUR_API void *fur_alloc_aligned(fur_update *tx, size_t bytes, size_t alignment)
{
	if (!tx || !tx->depth || tx->error)
		return NULL;
	if (!is_alignment(alignment)) {
		tx_fail(tx, FUR_EINVAL);
		return NULL;
	}
	return alloc_aligned(tx, tx->base, tx->thread->index, bytes, alignment);
}

FUR_API void fur_free(fur_update *tx, void *memory)
{
	if (!memory || !tx || !tx->depth || tx->error)
		return;
	if (alloc_free(tx, tx->base, tx->thread->index, memory))
		return;
	tx_fail(tx, FUR_EFREE);
	tx->thread->refused = (struct refused_free){
	        memory, tx_in_heap(tx, memory, 1) ? alloc_usable_bytes(tx, tx->base, memory) : 0};
}

/* In a read-only transaction, plain loads find everything: if it has joined an update, that update
 * runs in hardware or in place, and its stores are in the heap. */

FUR_API size_t fur_usable_bytes_ro(const fur_ro *ro, const void *memory)
{
	return alloc_usable_bytes(NULL, thread_of(ro)->update.base, memory);
}

FUR_API size_t fur_usable_bytes_update(fur_update *tx, const void *memory)
{
	return alloc_usable_bytes(tx, tx->base, memory);
}

FUR_API void *fur_root_ro(const fur_ro *ro, unsigned index)
{
	if (index >= FUR_ROOTS)
		return NULL;
	return (void *)(uintptr_t)arch_load(&alloc_roots(thread_of(ro)->update.base)[index]);
}

FUR_API void *fur_root_reader(fur_reader *r, unsigned index)
{
	const struct fur_thread *t =
	        (const struct fur_thread *)(const void *)((const char *)r -
	                                                  offsetof(struct fur_thread, reader));
	if (index >= FUR_ROOTS)
		return NULL;
	return (void *)(uintptr_t)fur_load(r, &alloc_roots(t->update.base)[index]);
}

FUR_API void *fur_root_update(fur_update *tx, unsigned index)
{
	if (index >= FUR_ROOTS)
		return NULL;
	return (void *)(uintptr_t)fur_load(tx, &alloc_roots(tx->base)[index]);
}

FUR_API void fur_set_root(fur_update *tx, unsigned index, const void *value)
{
	if (index < FUR_ROOTS)
		fur_store_bits(tx, &alloc_roots(tx->base)[index], (uintptr_t)value, 8);
	else
		tx_fail(tx, FUR_ERANGE);
}
