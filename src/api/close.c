/* SPDX-License-Identifier: BSD-3-Clause
 *
 * close.c - fur_close: replay the rest of the log, record in the file that the heap is closed, and
 * take the heap apart.
 */
#include "api/heap.h"
#include "base/error.h"
#include "durability/ship.h"
#include "stm/images.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* `uses`: does this thread keep the heap in use? */
static bool in_use_by(struct fur_heap *heap, bool (*uses)(const struct fur_thread *))
{
	/* In a child of fork() no thread uses the copy (INV-K1), and the mutex may stay locked
	 * forever (INV-K2).  The C library runs no handlers for a child of _Fork() or clone(). */
	if (heap->owner != getpid())
		heap_disown(heap);
	if (engine_forked(&heap->engine))
		return false;
	pthread_mutex_lock(&heap->standby.mutex);
	bool used = heap->standby.follower != NULL;
	pthread_mutex_unlock(&heap->standby.mutex);
	pthread_mutex_lock(&heap->registering);
	for (uint64_t i = 0; !used && i < heap->durability.limit; i++)
		used = uses(&heap->threads[i]);
	pthread_mutex_unlock(&heap->registering);
	return used || images_count(&heap->engine).open;
}

bool heap_in_use(struct fur_heap *heap)
{
	return in_use_by(heap, thread_has_open);
}

static bool is_registered(const struct fur_thread *t)
{
	return t->state == THREAD_REGISTERED;
}

bool heap_has_users(struct fur_heap *heap)
{
	return in_use_by(heap, is_registered);
}

/* Replay the rest of the log.  No update is in flight, so that empties the log. */
static int replay_rest(struct durability *d)
{
	struct arch_backoff backoff = {0};
	struct ship_patience patience = {0};
	int error = durability_check(d);
	async_stop(d); /* the replays below make late updates durable */
	while (!error && ring_tail(d) < ring_next(d))
		error = ship_replay(d, &backoff, &patience);
	FUR_ASSERT(error || ring_tail(d) == ring_next(d));
	if (!error)
		error = durability_set_state(d, MEDIA_CLOSED);
	d->control->worker_pid = 0;
	return error;
}

/* The thread's message, which tells the cause, becomes a part of the new one.  libfur does not
 * recover a heap that is shipped (INV-SH4). */
static void say_not_replayed(const struct fur_heap *heap, int error)
{
	const struct durability *d = &heap->durability;
	char cause[512];
	snprintf(cause, sizeof cause, "%s", fur_errormsg());
	fur_fail(error,
	        "%s: the heap could not be brought up to date, and its log is kept: %s; the "
	        "cause: %s",
	        heap_path(&heap->file),
	        error == FUR_EFENCED ? "fur-standby HEAP puts what the shipping log lacks into "
	                               "HEAP.lost, and lets the heap follow"
	        : d->ship.on         ? "fur-ship HEAP recovers it, together with the shipping log"
	        : d->ship.follows
	                ? "start fur-standby again, or open it again, which replays the log"
	                : "open it again, which replays the log",
	        cause);
}

/* For fur_close(). */
static bool stays_open(struct fur_heap *heap)
{
	return heap->group || heap_in_use(heap);
}

static int close_heap(struct fur_heap *heap, bool (*in_use)(struct fur_heap *heap))
{
	int error = heaps_remove(heap, in_use);
	if (error == FUR_EINVAL)
		return fur_fail(error,
		        "fur_close: this heap is not open: it was closed before, or is no heap");
	if (error && in_use == stays_open && heap->group)
		return fur_fail(error, "the heap is a member of a group that is open: "
		                       "fur_group_close() closes it");
	if (error)
		return fur_fail(error,
		        "a thread has a transaction open on this heap, a snapshot of it is open, "
		        "or it has a follower: end it, then close; "
		        "fur_thread_abandon() ends one that was left by return or longjmp");
	if (!engine_forked(&heap->engine))
		error = replay_rest(&heap->durability);
	if (error)
		say_not_replayed(heap, error);
	log_events(heap);
	heap_take_apart(heap);
	return error;
}

int heap_close(struct fur_heap *heap)
{
	return close_heap(heap, heap_in_use);
}

FUR_API int fur_close(fur_heap *heap)
{
	int cancel;
	if (!heap)
		return fur_fail(FUR_EINVAL, "fur_close: heap must not be NULL");
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* as in fur_open() */
	int error = close_heap(heap, stays_open);
	pthread_setcancelstate(cancel, &cancel);
	return error;
}
