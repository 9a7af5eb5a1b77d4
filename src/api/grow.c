/* SPDX-License-Identifier: BSD-3-Clause
 *
 * grow.c - fur_grow, and the thread that lets a heap grow before its updates need that.
 *
 * To allocate blocks and to make them durable may take long.  An update that did it would keep
 * others waiting, above all if it holds the turn.  So a thread of libfur's own does it when a
 * quarter of the heap, or AHEAD_MOST, is left.  An update that needs memory earlier than that does
 * it itself (alloc/grow.c), and reports an error.  While the newest growth has failed, the thread
 * does not try again: the update that needs the memory does, or fur_grow().
 *
 * It waits for the first update, so to open a heap does not change its size.  It runs no
 * transaction, and holds no lock that an update may wait for but `growing`.
 */
#include "api/heap.h"
#include "base/error.h"
#include "base/event.h"
#include "base/memory.h"
#include "base/remedy.h"
#include "base/thread.h"
#include "media/heap_layout.h"

#include <string.h>

/* ------------------------------------------------------------------- ahead */

/* Is so little left that the heap should grow? */
static bool runs_short(const struct fur_heap *heap)
{
	const uint64_t ahead_most = UINT64_C(128) << 20;
	const uint64_t bytes = durability_heap_bytes(&heap->durability),
	               used = arch_load(&header(heap->file.base)->grown) * CHUNK_BYTES,
	               quarter = bytes / 4;
	return bytes < heap->file.geometry.heap_bytes &&
	       bytes - used < (quarter < ahead_most ? quarter : ahead_most);
}

/* Let the heap grow by a step.  False: it did not.  The update that needs the memory tries again,
 * and reports its own error. */
static bool grow_ahead(struct fur_heap *heap)
{
	struct durability *d = &heap->durability;
	uint64_t now = durability_heap_bytes(d);
	return durability_grow(d, now + CHUNK_BYTES, durability_next_size(d, now)) == 0;
}

static void *grower_main(void *argument)
{
	struct fur_heap *heap = argument;
	struct grower *g = &heap->grower;
	for (;;) {
		event_await(&g->calls,
		        arch_load32_acquire(&g->called) || arch_load32_acquire(&g->stopping));
		if (arch_load32_acquire(&g->stopping))
			return NULL;
		if (!runs_short(heap) || !grow_ahead(heap))
			arch_store32_release(&g->called, 0);
	}
}

/* Called between this thread's transactions. */
static void after_update(struct fur_thread *t, uint64_t entries)
{
	struct grower *g = &t->heap->grower;
	if (entries == 0 || !runs_short(t->heap) || arch_load32(&t->durability->grow_failed) ||
	        arch_load32(&g->called))
		return;
	arch_store32_release(&g->called, 1);
	event_wake_all(&g->calls);
}

int grower_start(struct fur_heap *heap)
{
	struct grower *g = &heap->grower;
	if (!media_grows(&heap->file.geometry))
		return 0;
	after_update_add(&heap->engine, after_update);
	int failed = thread_start(&g->thread, grower_main, heap);
	g->runs = !failed;
	return failed ? fail_system(FUR_ESYS, CALL_THREAD, failed, NULL,
	                        "cannot start the thread that lets the heap grow")
	              : 0;
}

void grower_end(struct fur_heap *heap)
{
	struct grower *g = &heap->grower;
	if (!g->runs)
		return;
	arch_store32_release(&g->stopping, 1);
	event_wake_all(&g->calls);
	pthread_join(g->thread, NULL);
	g->runs = false;
}

/* ---------------------------------------------------------------- fur_grow */

FUR_API int fur_grow(fur_heap *heap, uint64_t bytes)
{
	int error = heap_check_handle(heap, "fur_grow");
	if (!error)
		error = durability_check(&heap->durability);
	if (!error && heap->engine.read_only)
		error = fur_fail(FUR_EREADONLY, "fur_grow: this is a read-only copy of a heap: let "
		                                "the heap itself grow, in "
		                                "the process that has it open");
	if (error)
		return error;
	const uint64_t most = heap->file.geometry.heap_bytes;
	if (bytes > most)
		return fur_fail(FUR_EINVAL,
		        "%s: fur_grow to %llu bytes: the heap was made to grow to %llu at most: "
		        "ask for less, or let it grow further, with fur-resize --max-bytes",
		        heap_path(&heap->file), (unsigned long long)bytes,
		        (unsigned long long)most);
	return durability_grow(
	        &heap->durability, round_up(bytes, CHUNK_BYTES), round_up(bytes, CHUNK_BYTES));
}
