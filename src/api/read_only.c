/* SPDX-License-Identifier: BSD-3-Clause
 *
 * read_only.c - fur_open_copy: open a heap that other processes use for reading, as it was at
 * one instant.
 *
 * The heap is a copy in memory, made as fur_backup makes a copy (replay/backup.h): a thread that
 * reads it shares nothing with the threads that update the heap, and delays none of them.
 *
 *   INV-K3  What a copy shows is durable in the heap's file: the effect of all updates below some
 *           durTS, which are closed under reads-from (INV-D4).  A living program's updates get into
 *           the copy by replays only (INV-B1), and a replay takes durable updates.  If no program
 *           works on the heap, the copy is the file, recovered as fur_open() would recover it.
 *   INV-K4  Nothing changes a copy after it is made: updates are refused (FUR_EREADONLY), and the
 *           heap is mapped without the right to write.
 */
#include "api/attach.h"
#include "api/heap.h"
#include "base/error.h"
#include "base/remedy.h"
#include "replay/backup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* ------------------------------------------------------------------ a copy */

void read_only_options(struct fur_options *o)
{
	o->htm = FUR_HTM_NONE; /* see begin_without_hardware() */
	o->pm = FUR_PM_EMULATED;
	o->dram_bytes = 0;
}

int read_only_copied(int error)
{
	return error != FUR_ENOSPC ? error
	                           : fur_fail(FUR_ENOMEM, "no memory for a copy of the heap: free "
	                                                  "some memory; there is no copy");
}

/* Replay the log of a copy of a heap that was not closed, in the copy. */
static int open_parts(struct fur_heap *heap, const struct fur_options *o)
{
	struct durability *d = &heap->durability;
	struct replay_result replayed;
	int error = heap_put_together(heap, o);
	if (!error)
		error = replay_unless_closed(d, &replayed, &heap->info.recovered);
	if (error)
		return error;
	control_reset(d);
	/* INV-K4 */
	heap->engine.read_only = true;
	if (mprotect(heap->file.base, heap->file.mapped_bytes, PROT_READ))
		return fail_system(FUR_ESYS, CALL_MAP_HEAP, errno, NULL,
		        "cannot protect the copy of the heap");
	snprintf(heap->info.pm_reason, sizeof heap->info.pm_reason,
	        "read-only: a copy in memory, of what was durable");
	heap_fill_info(heap, &replayed);
	log_opened(heap, &replayed);
	return 0;
}

int read_only_open(struct heap_file *copy, const struct fur_options *o, fur_heap **out)
{
	struct fur_heap *heap;
	int error = heap_new(copy, &heap);
	if (error)
		return error;
	error = heaps_add(heap);
	if (!error)
		error = open_parts(heap, o);
	if (error) {
		heaps_remove(heap, NULL);
		heap_take_apart(heap);
		return error;
	}
	*out = heap;
	return 0;
}

/* ------------------------------------------------------------------ copying */

/* Copy the heap.  The caller has the right to replay.  A process that opens the heap waits for that
 * right before it recovers, and holds WORKING from then on.  So if no process holds WORKING, the
 * file is at rest as long as we have the right.  Sets *ended: the process that worked on the heap
 * has ended meanwhile. */
static int copy_under_right(
        struct durability *d, const struct heap_file *file, struct heap_file *copy, bool *ended)
{
	int working = heap_lock_held(file->fd, HEAP_LOCK_WORKING);
	if (working < 0)
		return working;
	/* INV-K3 */
	if (!working)
		return backup_at_rest(file, copy);
	int error = backup_copy(d, file, copy);
	*ended = error == FUR_EBUSY && heap_lock_held(file->fd, HEAP_LOCK_WORKING) == 0;
	return error;
}

static int copy_file(const struct heap_file *file, struct heap_file *copy, bool *ended)
{
	struct durability d;
	int error = heap_attach_to_replay(&d, file);
	if (error)
		return error;
	d.replays_for_worker = true;
	error = control_take(&d);
	if (!error) {
		error = heap_create_memory_copy(file, copy);
		if (!error) {
			error = read_only_copied(copy_under_right(&d, file, copy, ended));
			if (error)
				heap_close_file(copy);
		}
		/* If that fails, heap_close_file() does it, just after this. */
		control_give_back(&d);
	}
	durability_detach(&d);
	return error;
}

/* A program that is killed while we copy leaves a heap to be recovered: then copy that. */
static int copy_path(const char *path, struct heap_file *copy)
{
	enum { TRIES = 10 };
	struct heap_file file;
	bool ended = true;
	int error = heap_open_file(path, HEAP_LOCK_NONE, &file);
	if (error)
		return error;
	for (int tries = 0; ended && tries < TRIES; tries++) {
		ended = false;
		error = copy_file(&file, copy, &ended);
	}
	heap_close_file(&file);
	return error;
}

static int open_path(const char *path, const struct fur_options *options, fur_heap **heap)
{
	struct fur_options o;
	struct heap_file copy;
	if (heap)
		*heap = NULL;
	if (!path || !heap)
		return fur_fail(FUR_EINVAL, "fur_open_copy: path and heap must not be NULL");
	int error = options_complete(options, &o);
	read_only_options(&o);
	if (!error)
		error = copy_path(path, &copy);
	if (!error)
		error = read_only_open(&copy, &o, heap);
	return error ? fur_fail_at(error, path) : 0;
}

FUR_API int fur_open_copy(const char *path, const struct fur_options *options, fur_heap **heap)
{
	int cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* as in fur_open() */
	int error = open_path(path, options, heap);
	pthread_setcancelstate(cancel, &cancel);
	return error;
}
