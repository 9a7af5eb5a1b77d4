/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sync.c - fur_sync: wait until everything that is visible is durable.
 */
#include "api/heap.h"
#include "base/error.h"
#include "durability/nondurable.h"
#include "durability/ship.h"

FUR_API int fur_sync(fur_heap *heap)
{
	if (!heap)
		return fur_fail(FUR_EINVAL, "fur_sync: heap must not be NULL");
	FUR_CHECK(heaps_have(heap), "the heap is not open");
	if (engine_forked(&heap->engine))
		return tx_refuse(&heap->engine);
	/* Updates may be waiting for an open transaction. */
	if (this_thread()->open)
		return fur_fail(FUR_ENESTED,
		        "fur_sync was called while this thread has a transaction open: end that "
		        "first");
	/* A commit that has returned 0 has raised `newest` above its durTS; if another thread
	 * committed, that thread's message to ours has ordered the two. */
	struct durability *d = &heap->durability;
	/* An update that wrote nothing has returned without a wait, and may have read from one that
	 * is in flight (plant: sync-skips-updates). */
	nondurable_wait_announced(d);
	int error = ship_wait_all(d); /* INV-AS2, by the same fence */
	/* After the same fence: an update that could not become durable has set `failed`. */
	return error ? error : durability_check(d);
}
