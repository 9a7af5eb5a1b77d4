/* SPDX-License-Identifier: BSD-3-Clause
 *
 * open.c - creating and opening heaps: the parts, put together in the order that keeps a refused
 * file untouched (INV-F1).
 */
#include "api/attach.h"
#include "api/heap.h"
#include "base/error.h"
#include "base/memory.h"
#include "media/heap_layout.h"

#include <stdlib.h>
#include <unistd.h>

/* All is replayed and no update runs: the file has the whole heap, and no page of the mapping at
 * base is a copy yet.  Durable with the state, before the first update. */
static void upgrade_heap(struct durability *d)
{
	uint64_t *magic = (uint64_t *)(void *)d->image, word = heap_new_magic(d->image);
	if (!word)
		return;
	arch_store(magic, word);
	pm_flush(&d->pm, magic, sizeof *magic);
}

static int init_htm(struct fur_heap *heap, const struct fur_options *o)
{
	struct htm *h = &heap->htm;
	uint32_t threads = heap->file.super->max_threads;
	h->durability = &heap->durability;
	h->retries = o->retries;
	h->phase_times = o->phase_times;
	h->reader_report_ns = o->reader_report_ns;
	h->reader_report = o->reader_report;
	h->reader_report_arg = o->reader_report_arg;
	h->active = memory_padded(threads * sizeof *h->active);
	heap->threads = h->threads = memory_padded(threads * sizeof *heap->threads);
	if (!h->active || !heap->threads)
		return fur_fail(FUR_ENOMEM,
		        "no memory for %u threads: free some memory, or make the heap with a "
		        "smaller max_threads",
		        threads);
	return htm_choose(
	        h, o->htm, o->isolation, heap->info.htm_reason, sizeof heap->info.htm_reason);
}

static void fill_info(struct fur_heap *heap, const struct replay_result *r)
{
	struct fur_info *i = &heap->info;
	const struct media_super *s = heap->file.super;
	i->htm = heap->htm.kind;
	i->isolation = heap->htm.isolation;
	i->pm = heap->durability.pm.domain;
	i->heap_bytes = s->heap_bytes;
	i->log_bytes = s->log_bytes;
	i->ring_slots = s->ring_slots;
	i->address = s->address;
	i->max_threads = s->max_threads;
	i->replayed_updates = r->updates;
	i->replayed_entries = r->entries;
	i->replay_ns = r->ns;
	i->corrected_updates = r->mended;
}

void heap_take_apart(struct fur_heap *heap)
{
	for (uint64_t i = 0; heap->threads && i < heap->durability.limit; i++)
		thread_free_memory(&heap->threads[i]);
	page_limit_end(heap);
	free(heap->htm.active);
	free(heap->threads);
	if (heap->durability.super)
		durability_detach(&heap->durability);
	heap_close_file(&heap->file);
	free(heap);
}

/* All that may refuse, before anything is written to the file. */
static int prepare(struct fur_heap *heap, const struct fur_options *o)
{
	struct fur_info *info = &heap->info;
	int error = heap_attach(
	        &heap->durability, &heap->file, o, info->pm_reason, sizeof info->pm_reason);
	if (!error)
		error = init_htm(heap, o);
	if (!error)
		error = heap_map(&heap->file);
	if (!error)
		error = page_limit_start(heap, o->dram_bytes);
	return error;
}

/* Recover, and say that the heap is open; under the right to replay. */
static int start(struct fur_heap *heap, struct replay_result *replayed)
{
	struct durability *d = &heap->durability;
	/* With the right to replay ours until the last owner's log is replayed: see turn() in
	 * serve.c. */
	int error = heap_lock_file(heap->file.fd, HEAP_LOCK_WORKING);
	if (error)
		return error;
	error = replay_unless_closed(d, replayed, &heap->info.recovered);
	if (!error && !heap->info.recovered && heap->file.geometry.version < 2)
		error = replay_begin_lap(d);
	if (!error)
		upgrade_heap(d);
	if (error)
		return error;
	/* After recovery: a file that it refuses is not written to (INV-F1).  If we die before
	 * this, the state is that of the last process, whose end the replayer's watch has seen, or
	 * it waits for ours: see worker_ended() in serve.c. */
	control_opened(d);
	error = durability_set_state(d, MEDIA_OPEN);
	if (error)
		return error;
	d->next_durts = d->tail; /* a replayer may have moved it since the file was opened */
	control_reset(d);
	return 0;
}

/* `name` is given to a new file, as the last that may fail; NULL: it has one. */
static int put_together(struct fur_heap *heap, const struct fur_options *o, const char *name)
{
	struct durability *d = &heap->durability;
	struct replay_result replayed;
	int error = prepare(heap, o);
	if (!error)
		error = control_take(d);
	if (error)
		return error;
	error = start(heap, &replayed);
	/* After a failure all locks go at once, when the file is closed: a replayer that got the
	 * right to replay before WORKING has gone would take a log that recovery has refused for
	 * one that this process writes. */
	if (error)
		return error;
	control_give_back(d); /* if that fails, the next replay does it: see control.h */
	if (name)
		error = heap_name_file(&heap->file, name);
	if (error)
		return error;
	d->populate = heap->htm.ops && !o->no_populate && !o->dram_bytes;
	/* On POWER a slot is drawn in the window, before the update announces itself. */
	d->draws_announced = heap->htm.kind != FUR_HTM_POWER;
	d->mirror = !pm_stores_in_transactions(&d->pm) || heap->htm.kind == FUR_HTM_POWER;
	if (d->populate)
		heap_populate(&heap->file);
	fill_info(heap, &replayed);
	return 0;
}

/* What the handle itself needs of the system. */
static int make_handle(struct fur_heap *heap)
{
	if (pthread_mutex_init(&heap->registering, NULL))
		return fur_fail(FUR_ENOMEM, "no memory for a mutex: free some memory");
	if (pthread_key_create(&heap->self, thread_ended) == 0)
		return 0;
	pthread_mutex_destroy(&heap->registering);
	return fur_fail(FUR_ESYS, "no thread-specific key left: close other heaps");
}

/* Takes the file over, also if it fails. */
static int open_heap(
        struct heap_file *file, const struct fur_options *o, const char *name, fur_heap **out)
{
	struct fur_heap *heap = memory_padded(sizeof *heap);
	if (!heap) {
		heap_close_file(file);
		return fur_fail(FUR_ENOMEM, "no memory for the heap handle: free some memory");
	}
	heap->file = *file;
	heap->owner = getpid();
	int error = heaps_add(heap);
	if (!error && !(error = make_handle(heap)) && (error = put_together(heap, o, name))) {
		pthread_key_delete(heap->self);
		pthread_mutex_destroy(&heap->registering);
	}
	if (error) {
		heaps_remove(heap, NULL);
		heap_take_apart(heap);
		return error;
	}
	*out = heap;
	return 0;
}

static int open_path(const char *path, const struct fur_options *options, fur_heap **heap)
{
	struct fur_options o;
	struct heap_file file;
	if (!path || !heap)
		return fur_fail(FUR_EINVAL, "fur_open: path and heap must not be NULL");
	*heap = NULL;
	int error = options_complete(options, &o);
	if (!error)
		error = heap_open_file(path, HEAP_LOCK_WORKER, &file);
	if (!error)
		error = open_heap(&file, &o, NULL, heap);
	return error ? fur_fail_at(error, path) : 0;
}

/* The file has no name until the heap is open: whatever refuses, nobody else has opened it, and
 * nothing is left of it. */
static int create_path(const char *path, const struct fur_options *options, fur_heap **heap)
{
	struct fur_options o;
	struct heap_file file;
	if (!path || !heap)
		return fur_fail(FUR_EINVAL, "fur_create: path and heap must not be NULL");
	*heap = NULL;
	int error = options_complete(options, &o);
	if (!error)
		error = heap_create_file(path, &o, &file);
	if (!error)
		error = open_heap(&file, &o, path, heap);
	return error ? fur_fail_at(error, path) : 0;
}

/* Both call functions that are cancellation points.  A thread cancelled there would leave file,
 * lock and mappings behind. */

FUR_API int fur_open(const char *path, const struct fur_options *options, fur_heap **heap)
{
	int cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	int error = open_path(path, options, heap);
	pthread_setcancelstate(cancel, &cancel);
	return error;
}

FUR_API int fur_create(const char *path, const struct fur_options *options, fur_heap **heap)
{
	int cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	int error = create_path(path, options, heap);
	pthread_setcancelstate(cancel, &cancel);
	return error;
}
