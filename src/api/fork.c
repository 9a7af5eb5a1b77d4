/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fork.c - the list of open heaps, and the copies of them that fork() leaves to the child.
 *
 * Log, ring and control region are mapped shared, so a child that used them would destroy its
 * parent's updates.  And the child has only one of the parent's threads, the one that forked, so it
 * must not wait for the others.
 *
 *   INV-K1  In the child no transaction is open on its copy of a heap, and `failed` is FUR_EFORK:
 *           functions refuse the copy as they refuse a heap that has failed, so no hot path needs
 *           another check.
 *   INV-K2  No thread of the child writes to a copy's shared memory, takes one of its locks, or
 *           waits on a word of it.  fur_close() only frees it.
 *
 * The child keeps its pages.  Pages that the parent had not written to are the file's, so they
 * change when the parent's replay writes them.  If the parent had an update open at the fork, that
 * update's stores stay in the child's pages: the child would need the log to undo them, but the
 * parent shares that log and goes on writing it.
 */
#include "api/heap.h"
#include "base/error.h"
#include "base/event.h"

#include <sys/mman.h>
#include <unistd.h>

static struct {
	pthread_mutex_t mutex;
	struct fur_heap *first;
	bool handlers;  /* the fork handlers are installed */
	uint32_t ended; /* event: a heap's `ending` is 0 */
} heaps = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void heap_disown(struct fur_heap *heap)
{
	struct durability *d = &heap->durability;
	for (uint64_t i = 0; i < d->limit; i++) {
		struct fur_thread *t = &heap->threads[i];
		t->ro = (struct fur_ro){0};
		t->reader.open = false;
		arch_store(&t->reader.view.bound, 0); /* its loads are plain loads now */
		t->update.depth = 0;
		t->update.bytes = 0; /* every store is outside the heap, and does nothing */
		t->update.mode = TX_NONE;
	}
	arch_store(&d->failed, (uint64_t)(int64_t)FUR_EFORK);
	heap_forget_writable(&heap->file);
}

/* ---------------------------------------------------------------- handlers */

/* In heap_fork(), keep the heap's pages from the child.  The mutex keeps other threads from forking
 * meanwhile, so their children get the pages. */
static void before_fork(void)
{
	const struct fur_heap *heap = this_thread()->forking;
	pthread_mutex_lock(&heaps.mutex);
	/* If the kernel refuses, or QEMU ignores it, the child has the pages until it closes the
	 * heap: that costs only time. */
	if (heap)
		madvise(heap->file.base, heap->file.mapped_bytes, MADV_DONTFORK);
}

static void after_fork_in_parent(void)
{
	const struct fur_heap *heap = this_thread()->forking;
	if (heap)
		madvise(heap->file.base, heap->file.mapped_bytes, MADV_DOFORK);
	pthread_mutex_unlock(&heaps.mutex);
}

static void after_fork_in_child(void)
{
	for (struct fur_heap *heap = heaps.first; heap; heap = heap->next_open)
		heap_disown(heap);
	this_thread()->open = NULL;
	this_thread()->forking = NULL;
	pthread_mutex_unlock(&heaps.mutex);
}

pid_t heap_fork(struct fur_heap *heap)
{
	struct this_thread *self = this_thread();
	FUR_ASSERT(!self->forking && heaps_have(heap));
	self->forking = heap;
	pid_t child = fork();
	self->forking = NULL;
	return child;
}

/* -------------------------------------------------------------------- list */

enum { ENDING = 1 };

/* The link that points to the heap, or the last one.  The caller holds the mutex. */
static struct fur_heap **find_heap(const struct fur_heap *heap)
{
	struct fur_heap **at = &heaps.first;
	while (*at && *at != heap)
		at = &(*at)->next_open;
	return at;
}

int heaps_add(struct fur_heap *heap)
{
	FUR_ASSERT(!heaps_have(heap) && !heap->next_open);
	pthread_mutex_lock(&heaps.mutex);
	/* The C library removes the handlers when libfur is unloaded. */
	if (!heaps.handlers)
		heaps.handlers =
		        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
	bool installed = heaps.handlers;
	if (installed) {
		heap->next_open = heaps.first;
		heaps.first = heap;
	}
	pthread_mutex_unlock(&heaps.mutex);
	return installed ? 0
	                 : fur_fail(FUR_ENOMEM, "no memory for a fork handler: free some memory");
}

/* heaps_remove(), or returns ENDING: threads that end still use the heap; wait with the ticket. */
static int try_remove(
        struct fur_heap *heap, bool (*in_use)(struct fur_heap *heap), uint32_t *ticket)
{
	int error = 0;
	pthread_mutex_lock(&heaps.mutex);
	struct fur_heap **at = find_heap(heap);
	*ticket = event_prepare(&heaps.ended);
	if (!*at)
		error = FUR_EINVAL;
	else if (heap->ending && heap->owner == getpid()) /* a child does not have them (INV-K2) */
		error = ENDING;
	else if (in_use && in_use(heap))
		error = FUR_EBUSY;
	else
		*at = heap->next_open;
	pthread_mutex_unlock(&heaps.mutex);
	return error;
}

int heaps_remove(struct fur_heap *heap, bool (*in_use)(struct fur_heap *heap))
{
	uint32_t ticket;
	int error;
	while ((error = try_remove(heap, in_use, &ticket)) == ENDING)
		event_wait(&heaps.ended, ticket, 0);
	return error;
}

bool heaps_have(const struct fur_heap *heap)
{
	pthread_mutex_lock(&heaps.mutex);
	bool open = *find_heap(heap);
	pthread_mutex_unlock(&heaps.mutex);
	return open;
}

/* ----------------------------------------------------------- threads that end */

/* Is it a registration of the calling thread with this heap?  `t` may point to freed memory, and
 * the heap may still be being opened: then its limit is 0. */
static bool is_mine(const struct fur_heap *heap, const struct fur_thread *t)
{
	/* Acquire: after the limit of 1, `threads` is set. */
	const uint64_t limit = arch_load_acquire(&heap->durability.limit);
	const uintptr_t at = (uintptr_t)t, first = (uintptr_t)heap->threads;
	return limit && at >= first && at < first + limit * sizeof *t && t->owner == this_thread();
}

struct fur_heap *heaps_enter(const struct fur_thread *t)
{
	pthread_mutex_lock(&heaps.mutex);
	struct fur_heap *heap = heaps.first;
	while (heap && !is_mine(heap, t))
		heap = heap->next_open;
	if (heap)
		heap->ending++;
	pthread_mutex_unlock(&heaps.mutex);
	return heap;
}

void heaps_leave(struct fur_heap *heap)
{
	pthread_mutex_lock(&heaps.mutex);
	if (--heap->ending == 0)
		event_wake_all(&heaps.ended);
	pthread_mutex_unlock(&heaps.mutex);
}
