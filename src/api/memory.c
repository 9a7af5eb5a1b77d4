/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory.c - the allocator as programs call it: fur_alloc, fur_free, fur_usable_bytes, and the
 * roots.
 */
#include "alloc/alloc.h"
#include "api/heap.h"
#include "base/error.h"

FUR_API void *fur_alloc(fur_update *tx, size_t bytes)
{
	if (!tx || !tx->depth || tx->error)
		return NULL;
	return alloc_block(tx, tx->base, tx->thread->index, bytes);
}

FUR_API void fur_free(fur_update *tx, void *memory)
{
	if (!memory || !tx || !tx->depth || tx->error)
		return;
	if (!alloc_free(tx, tx->base, tx->thread->index, memory))
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
