/* SPDX-License-Identifier: BSD-3-Clause
 *
 * open.c - fur_open and fur_create.  Both check the options, open or make the file, put the heap's
 * parts together, take the right to replay, recover, record in the file that the heap is open, and
 * give the right back.  The order keeps a refused file untouched (INV-F1).
 */
#include "api/heap.h"
#include "base/error.h"
#include "media/heap_layout.h"

/* ------------------------------------------------------------------- start */

/* Upgrade a heap of the old form.  Everything is replayed and no update runs, so the file contains
 * the whole heap, and no page of the mapping at `base` is a private copy yet.  The magic becomes
 * durable together with the file's state, before the first update. */
static void upgrade_heap(struct durability *d)
{
	uint64_t *magic = (uint64_t *)(void *)d->image, word = heap_new_magic(d->image);
	if (!word)
		return;
	arch_store(magic, word);
	pm_flush(&d->pm, magic, sizeof *magic);
}

/* Put the parts of a heap together whose file is open, and take the locks under which it may be
 * recovered. */
static int begin_parts(struct fur_heap *heap, const struct fur_options *o)
{
	struct durability *d = &heap->durability;
	int error = heap_put_together(heap, o);
	if (!error)
		error = heap_tune(heap);
	if (!error)
		error = control_take(d);
	/* Before the lock: fur-ship and fur-replayer would take the log of a heap that we refuse
	 * for one that a living process writes. */
	if (!error)
		error = replay_may_recover(d);
	/* Take this lock under the right to replay, and keep that right until the last process's
	 * log is replayed: see replay_if_working() in serve.c. */
	return error ? error : heap_lock_file(heap->file.fd, HEAP_LOCK_WORKING);
}

/* The heap is recovered, or was closed: record in the file that it is open.  The caller has the
 * right to replay, and gives it back. */
static int start_working(struct fur_heap *heap)
{
	struct durability *d = &heap->durability;
	int error = 0;
	if (!heap->info.recovered && heap->file.geometry.version < 2)
		error = replay_begin_lap(d);
	if (!error)
		upgrade_heap(d);
	if (error)
		return error;
	/* Only after recovery, so that we do not write to a file that recovery refuses (INV-F1).
	 * If we die before this, the file has the state that the last process left.  The replayer's
	 * watch has seen the end of that process, or waits for ours: see worker_ended() in
	 * serve.c. */
	control_opened(d);
	error = durability_set_state(d, MEDIA_OPEN);
	if (error)
		return error;
	ring_restart(d, ring_tail(d)); /* a replayer may have moved it since the file was opened */
	control_reset(d);
	return 0;
}

int heap_finish_opening(
        struct fur_heap *heap, const char *name, const struct replay_result *replayed)
{
	struct durability *d = &heap->durability;
	int error = start_working(heap);
	/* After a failure, the caller releases all locks at once, when it closes the file.  If a
	 * replayer got the right to replay while we still held WORKING, it would take a log that
	 * recovery has refused for one that a living process writes. */
	if (error)
		return error;
	/* Only now, because the log may have had stores to these words. */
	error = alloc_check_heads(heap->file.base);
	if (error)
		return error;
	control_give_back(d); /* if that fails, the next replay does it: see control.h */
	/* After recovery, because it copies the heap; and so that the file does not grow if it is
	 * refused (INV-F1). */
	error = store_watch_start(heap);
	if (!error)
		error = grower_start(heap);
	if (!error && name)
		error = heap_name_file(&heap->file, name);
	if (error)
		return error;
	/* A new file is mapped again by its name, and then all of it is shown. */
	if (heap_is_checked(heap))
		alloc_hide_free(heap->file.base);
	heap_advise_growth(&heap->file);
	if (d->populate)
		heap_populate(&heap->file);
	heap_fill_info(heap, replayed);
	log_opened(heap, replayed);
	return 0;
}

int heap_begin_opening(struct heap_file *file, const struct fur_options *o, fur_heap **out)
{
	struct fur_heap *heap;
	int error = heap_new(file, &heap);
	if (error)
		return error;
	error = heaps_add(heap);
	if (!error)
		error = begin_parts(heap, o);
	if (error)
		heap_give_up_opening(heap);
	else
		*out = heap;
	return error;
}

void heap_give_up_opening(struct fur_heap *heap)
{
	heaps_remove(heap, NULL);
	heap_take_apart(heap);
}

/* `name`: the name that a new file gets, in the last step that may fail; NULL: the file has a name.
 * Becomes the owner of the file, even if it fails. */
static int open_heap(
        struct heap_file *file, const struct fur_options *o, const char *name, fur_heap **out)
{
	struct replay_result replayed;
	struct fur_heap *heap;
	int error = heap_begin_opening(file, o, &heap);
	if (error)
		return error;
	error = replay_unless_closed(&heap->durability, &replayed, &heap->info.recovered);
	if (!error)
		error = heap_finish_opening(heap, name, &replayed);
	if (error)
		heap_give_up_opening(heap);
	else
		*out = heap;
	return error;
}

/* -------------------------------------------------------- fur_open, fur_create */

static int open_path(const char *path, const struct fur_options *options, fur_heap **heap)
{
	struct fur_options o;
	struct heap_file file;
	if (heap)
		*heap = NULL;
	if (!path || !heap)
		return fur_fail(FUR_EINVAL, "fur_open: path and heap must not be NULL");
	int error = options_complete(options, &o);
	if (!error)
		error = heap_open_file(path, HEAP_LOCK_WORKER, &file);
	if (!error)
		error = open_heap(&file, &o, NULL, heap);
	return error ? fur_fail_at(error, path) : 0;
}

/* The file has no name until the heap is open: when a step fails, no other process has opened the
 * file, and nothing is left of it. */
static int create_path(const char *path, const struct fur_options *options, fur_heap **heap)
{
	struct fur_options o;
	struct heap_file file;
	if (heap)
		*heap = NULL;
	if (!path || !heap)
		return fur_fail(FUR_EINVAL, "fur_create: path and heap must not be NULL");
	int error = options_complete(options, &o);
	if (!error)
		error = heap_create_file(path, &o, &file);
	if (!error)
		error = open_heap(&file, &o, path, heap);
	return error ? fur_fail_at(error, path) : 0;
}

/* Only after options_complete() has accepted `options`, so it is large enough. */
static bool may_create(const struct fur_options *options)
{
	return options && options->open == FUR_OPEN_OR_CREATE;
}

/* Both functions call cancellation points.  A thread that was cancelled there would leave the file,
 * its locks and its mappings behind.  So both disable cancellation. */

FUR_API int fur_open(const char *path, const struct fur_options *options, fur_heap **heap)
{
	int cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	int error = open_path(path, options, heap);
	if (error == FUR_ENOENT && may_create(options)) {
		error = create_path(path, options, heap);
		if (error == FUR_EEXIST) /* another process was quicker */
			error = open_path(path, options, heap);
	}
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
