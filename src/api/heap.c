/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap.c - put the parts of an open heap together, and take them apart. open.c and close.c take the
 * steps in between, which write to the file.
 */
#include "api/heap.h"
#include "api/attach.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/system.h"
#include "htm/htm.h"
#include "stm/images.h"
#include "stm/software.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ------------------------------------------------------------------ handle */

static int make_handle(struct fur_heap *heap)
{
	if (pthread_mutex_init(&heap->registering, NULL))
		return fur_fail(FUR_ENOMEM, "no memory for a mutex: free some memory");
	if (pthread_key_create(&heap->self, thread_ended) == 0)
		return 0;
	pthread_mutex_destroy(&heap->registering);
	return fur_fail(FUR_ESYS, "no thread-specific key left: close other heaps");
}

int heap_new(struct heap_file *file, struct fur_heap **out)
{
	struct fur_heap *heap = memory_padded(sizeof *heap);
	int error = heap ? make_handle(heap)
	                 : fur_fail(FUR_ENOMEM, "no memory for the heap handle: free some memory");
	if (error || !heap) {
		heap_close_file(file);
		free(heap);
		return error;
	}
	heap->file = *file;
	/* libfur never destroys it: in a child of fork(), a thread that the child does not have may
	 * hold it (INV-K2). */
	pthread_mutex_init(&heap->polling, NULL);
	pthread_mutex_init(&heap->standby.mutex, NULL);
	heap->owner = getpid();
	*out = heap;
	return 0;
}

/* ------------------------------------------------------------------- parts */

enum {
	SHORT_NS = 200000, /* roughly the longest that an update in place may keep readers out */
	/* Long enough for most readers; longer ones must not make new readers wait. */
	DRAIN_NS = 100000,
	/* Of a bulk update: mapping this many records takes less time than shutting readers out. */
	BULK_FEW = 64,
	/* Of an update in hardware: this many conflicts, and then it runs in software. */
	DEFAULT_RETRIES = 20
};

/* Relaxed is enough, for only the number has to differ. */
static uint64_t next_ticket_source(void)
{
	static uint64_t opened;
	return arch_fetch_add(&opened, 1) + 1;
}

static uint64_t default_snapshot_bytes(const struct media_super *s)
{
	enum { LEAST = 64 << 20 };
	return s->heap_bytes / 4 > LEAST ? s->heap_bytes / 4 : LEAST;
}

static int init_htm(struct fur_heap *heap, const struct fur_options *o)
{
	struct engine *e = &heap->engine;
	uint32_t threads = heap->file.super->max_threads;
	e->durability = &heap->durability;
	e->retries = DEFAULT_RETRIES;
	e->phase_times = o->phase_times;
	e->ticket_source = next_ticket_source();
	e->bulk.commit_may_map = BULK_FEW;
	e->short_ticks = arch_ns_to_ticks(SHORT_NS);
	e->drain_ticks = arch_ns_to_ticks(DRAIN_NS);
	e->snapshot_bytes =
	        o->snapshot_bytes ? o->snapshot_bytes : default_snapshot_bytes(heap->file.super);
	e->reader_report_ns = o->reader_report_ns;
	e->reader_report = o->reader_report;
	e->reader_report_arg = o->reader_report_arg;
	e->active = memory_padded(threads * sizeof *e->active);
	heap->threads = e->threads = memory_padded(threads * sizeof *heap->threads);
	e->stamps = memory_map(STAMPS * sizeof *e->stamps); /* a small heap touches few pages */
	if (!e->active || !heap->threads || !e->stamps || !crowd_start(e))
		return fur_fail(FUR_ENOMEM,
		        "no memory for %u threads: "
		        "free some memory, or make max_threads smaller, with fur-resize",
		        threads);
	const bool twice = o->debug & FUR_DEBUG_PLAIN_STORES;
	int error = htm_choose(e, twice ? FUR_HTM_NONE : o->htm, o->isolation,
	        heap->info.htm_reason, sizeof heap->info.htm_reason);
	if (!error && twice)
		snprintf(heap->info.htm_reason, sizeof heap->info.htm_reason,
		        "debugging, plain-stores: updates run in software");
	return error;
}

/* In `sync`, updates write their slots and logs by calls (INV-OS3). */
static int check_limit(const struct durability *d)
{
	uint64_t most = 0;
	if (!pm_writes(&d->pm) || !system_may_write(d->super->heap_offset, &most))
		return 0;
	return fur_fail(FUR_ENOSPC,
	        "updates write to the first %llu bytes of the file, and this process may write "
	        "files of at most %llu: raise the limit (RLIMIT_FSIZE, ulimit -f)",
	        (unsigned long long)d->super->heap_offset, (unsigned long long)most);
}

int heap_put_together(struct fur_heap *heap, const struct fur_options *o)
{
	struct durability *d = &heap->durability;
	struct fur_info *info = &heap->info;
	int error = heap_attach(d, &heap->file, o, info->pm_reason, sizeof info->pm_reason);
	if (!error)
		error = check_limit(d);
	if (!error)
		error = init_htm(heap, o);
	if (!error)
		error = heap_map(&heap->file);
	if (!error)
		error = page_limit_start(heap, o->dram_bytes);
	if (error)
		return error;
	log_start(heap, o);
	heap->debug = o->debug;
	d->populate = heap->engine.ops && !o->dram_bytes;
	/* On POWER an update draws its durTS in the window, before it announces itself. */
	d->draws_announced = heap->engine.kind != FUR_HTM_POWER;
	d->mirror = !pm_stores_in_transactions(&d->pm) || heap->engine.kind == FUR_HTM_POWER;
	return 0;
}

void heap_take_apart(struct fur_heap *heap)
{
	FUR_ASSERT(!heaps_have(heap));
	/* A child of fork() does not have the thread. */
	if ((int)arch_load(&heap->durability.failed) != FUR_EFORK)
		grower_end(heap);
	pthread_key_delete(heap->self);
	/* In a child of fork(), a thread that the child does not have may hold the mutex
	 * (INV-K2). */
	if ((int)arch_load(&heap->durability.failed) != FUR_EFORK)
		pthread_mutex_destroy(&heap->registering);
	for (uint64_t i = 0; heap->threads && i < heap->durability.limit; i++)
		thread_free_memory(&heap->threads[i]);
	page_limit_end(heap);
	store_watch_end(heap);
	free(heap->engine.active);
	memory_unmap(heap->engine.stamps, STAMPS * sizeof *heap->engine.stamps);
	images_free(&heap->engine);
	free(heap->engine.crowd.place);
	free(heap->threads);
	if (heap->durability.super)
		durability_detach(&heap->durability);
	heap_close_file(&heap->file);
	free(heap);
}
