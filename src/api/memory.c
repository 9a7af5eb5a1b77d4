/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory.c - the allocator as programs call it: fur_alloc, fur_alloc_aligned, fur_free,
 * fur_usable_bytes, and the roots.
 */
#include "alloc/alloc.h"
#include "api/heap.h"
#include "base/checker.h"
#include "base/error.h"

/* The update that this thread has open on this heap, or NULL.  A read-only transaction that has
 * joined an update reads that update's own stores, so this function also returns the update
 * then. */
static fur_update *open_update(const fur_heap *heap)
{
	const struct fur_thread *t = this_thread()->open;
	if (!t || t->heap != heap || !t->update.depth)
		return NULL;
	return (fur_update *)(uintptr_t)&t->update;
}

bool heap_is_checked(const struct fur_heap *heap)
{
	return !heap->htm.ops && checker_runs();
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

FUR_API size_t fur_usable_bytes(const fur_heap *heap, const void *memory)
{
	return alloc_usable_bytes(open_update(heap), heap->file.base, memory);
}

FUR_API void *fur_root(const fur_heap *heap, unsigned index)
{
	if (index >= FUR_ROOTS)
		return NULL;
	const uint64_t *root = &alloc_roots(heap->file.base)[index];
	fur_update *tx = open_update(heap);
	return (void *)(uintptr_t)(tx ? fur_load(tx, root) : arch_load(root));
}

FUR_API void fur_set_root(fur_update *tx, unsigned index, const void *value)
{
	if (index < FUR_ROOTS)
		fur_store_bits(tx, &alloc_roots(tx->base)[index], (uintptr_t)value, 8);
	else
		tx_fail(tx, FUR_ERANGE);
}
