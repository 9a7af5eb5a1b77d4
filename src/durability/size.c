/* SPDX-License-Identifier: BSD-3-Clause
 *
 * size.c - how large the heap is: it grows, and logs get their blocks, while transactions run.
 *
 * Both take the same steps (INV-F5): allocate the blocks, make that durable, record it in the
 * superblock, make that durable, and only then let threads use the blocks.  A crash in between
 * leaves blocks that nothing uses, and the next growth takes them.  No other process needs to be
 * told: all have mapped the file up to the heap's largest size.
 */
#include "base/error.h"
#include "base/memory.h"
#include "base/remedy.h"
#include "base/system.h"
#include "durability/ring.h"
#include "file/heap_file.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* Make the new blocks durable.  EMULATED survives no power failure, and the kernel keeps the blocks
 * if the process is killed. */
static int blocks_drain(struct durability *d)
{
	if (d->pm.domain == FUR_PM_EMULATED)
		return 0;
	if (d->pm.domain == FUR_PM_SYNC)
		return pm_drain(&d->pm);
	const int error = system_sync_data(d->pm.fd);
	return error ? fail_system(remedy_code(error), CALL_SYNC, error, "the heap is as it was",
	                       "%s: cannot make new blocks durable", heap_path(d->file))
	             : 0;
}

static int word_store(struct durability *d, uint64_t *word, uint64_t value)
{
	arch_store(word, media_tail_encode(value));
	pm_flush(&d->pm, word, sizeof *word);
	/* Orders this copy before the next one, and the last copy before the first use of the
	 * blocks (INV-F5).  Without it, a power failure could leave updates in the log above the
	 * size that the superblock has. */
	return pm_drain(&d->pm);
}

static int size_store(struct durability *d, uint64_t bytes)
{
	int error = 0;
	for (int k = 0; k < 2 && !error; k++)
		error = word_store(d, &d->words->grown[k][0], bytes / MEDIA_PAGE_BYTES);
	return error;
}

/* The caller holds the mutex `growing`. */
static int grow_to(struct durability *d, uint64_t bytes)
{
	uint64_t now = d->heap_bytes;
	if (bytes <= now)
		return 0;
	FUR_ASSERT(bytes % MEDIA_PAGE_BYTES == 0 && bytes <= d->super->heap_bytes);
	int error = heap_allocate_more(d->pm.fd, heap_path(d->file), d->super, now, bytes);
	if (!error)
		error = heap_let_store(d->file, bytes);
	if (!error)
		error = blocks_drain(d);
	if (!error)
		error = size_store(d, bytes);
	/* Release: orders all of that before the size that other threads read (INV-F5). */
	if (!error)
		arch_store_release(&d->heap_bytes, bytes);
	return error;
}

int durability_grow(struct durability *d, uint64_t least_bytes, uint64_t bytes)
{
	int cancel;
	/* fdatasync() is a cancellation point, and a cancelled thread would keep the mutex. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&d->growing);
	int error = grow_to(d, bytes);
	/* There may be room for less. */
	if (error == FUR_ENOSPC && least_bytes < bytes)
		error = grow_to(d, least_bytes);
	arch_store32_release(&d->grow_failed, error != 0);
	pthread_mutex_unlock(&d->growing);
	pthread_setcancelstate(cancel, &cancel);
	return error;
}

uint64_t durability_next_size(const struct durability *d, uint64_t least_bytes)
{
	const uint64_t step_most = UINT64_C(256) << 20;
	uint64_t now = durability_heap_bytes(d), most = d->super->heap_bytes,
	         bytes = now + (now < step_most ? now : step_most);
	bytes = bytes > least_bytes ? bytes : least_bytes;
	return bytes < most ? round_up(bytes, MEDIA_PAGE_BYTES) : most;
}

/* ---------------------------------------------------------------------- logs */

int durability_take_log(struct durability *d, uint32_t thread)
{
	int cancel, error;
	/* On a heap that has failed no update reaches its log. */
	if (thread < media_logs(d->super, d->words) || arch_load(&d->failed))
		return 0;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	error = heap_allocate_log(d->pm.fd, heap_path(d->file), d->super, thread);
	/* On persistent memory the first store to a block makes it durable (MAP_SYNC).  If the
	 * power fails before that, the log has no record, and the next open allocates it again. */
	if (!error && d->pm.domain == FUR_PM_SYNC)
		error = blocks_drain(d);
	if (!error)
		error = word_store(d, &d->words->logs, UINT64_C(1) + thread);
	pthread_setcancelstate(cancel, &cancel);
	return error;
}
