/* SPDX-License-Identifier: BSD-3-Clause
 *
 * log.c - fur_options.log: report rare events to the program.
 *
 * The callback may take a lock of the program, and another thread may hold that lock while it waits
 * for an update.  So libfur calls it only between transactions, where this thread holds nothing for
 * which another one waits.  A thread that meets an event elsewhere notes it (durability_note), and
 * the next thread whose update ends reports it.  (With more threads than cores, other updates may
 * wait for that thread's place, but only a few milliseconds: crowd.c.)
 */
#include "api/heap.h"
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

__attribute__((format(printf, 3, 4))) static void write_line(
        const struct fur_heap *heap, enum fur_log_level level, const char *format, ...)
{
	char message[1024];
	int cancel;
	va_list args;
	va_start(args, format);
	vsnprintf(message, sizeof message, format, args);
	va_end(args);
	/* A thread that is cancelled in the callback would end inside a function of libfur. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	heap->log.log(level, message, heap->log.arg);
	pthread_setcancelstate(cancel, &cancel);
}

static void write_replayer_events(const struct fur_heap *heap, uint64_t events)
{
	const struct events *e = &heap->durability.events;
	if (events & EVENT_REPLAYER_DIED)
		write_line(heap, FUR_LOG_WARNING,
		        "the replayer (process %llu) has died: updates replay until another one "
		        "serves the heap",
		        (unsigned long long)arch_load(&e->dead_pid));
	if (events & EVENT_REPLAYER_SILENT)
		write_line(heap, FUR_LOG_WARNING,
		        "the replayer (process %llu) does not answer: updates replay until it "
		        "does; if it is stopped, continue or kill it",
		        (unsigned long long)arch_load(&e->silent_pid));
	if (events & EVENT_REPLAYER_ANSWERS)
		write_line(heap, FUR_LOG_INFO, "the replayer answers again");
}

void log_events(struct fur_heap *heap)
{
	struct durability *d = &heap->durability;
	if (!heap->log.log || engine_forked(&heap->engine))
		return;
	uint64_t events = durability_take_events(d);
	if (likely(events == 0))
		return;
	write_replayer_events(heap, events);
	if (events & EVENT_LONG_READER)
		write_line(heap, FUR_LOG_WARNING,
		        "the read-only transaction of thread %llu made an update wait for %llu ms: "
		        "let readers not sleep; fur_options.reader_report names them",
		        (unsigned long long)arch_load(&d->events.reader),
		        (unsigned long long)arch_load(&d->events.waited_ns) / 1000000);
	if (events & EVENT_PAGES_LOCKED)
		write_line(heap, FUR_LOG_WARNING,
		        "dram_bytes has no effect from now on: the program has locked pages of the "
		        "heap in memory (mlock, mlockall), and the kernel does not take them back: "
		        "unlock them, and open the heap again");
	if (events & EVENT_FAILED)
		write_line(heap, FUR_LOG_ERROR,
		        arch_load(&d->failed) == (uint64_t)FUR_EFENCED
		                ? "the heap has failed: %s"
		                : "the heap has failed: close it and open it again; the cause: %s",
		        d->cause);
	/* The callback may have forked.  The C library runs no handlers for a child of _Fork() or
	 * clone(), and in fur_close() the handlers do not find the heap: it is off the list. */
	if (heap->owner != getpid())
		heap_disown(heap);
}

static void after_update(struct fur_thread *t, uint64_t entries)
{
	(void)entries;
	log_events(t->heap);
}

void log_start(struct fur_heap *heap, const struct fur_options *o)
{
	if (!o->log)
		return;
	heap->log.log = o->log;
	heap->log.arg = o->log_arg;
	after_update_add(&heap->engine, after_update);
}

void log_opened(const struct fur_heap *heap, const struct replay_result *replayed)
{
	const struct fur_info *i = &heap->info;
	if (!heap->log.log)
		return;
	write_line(heap, FUR_LOG_INFO, "htm %s: %s; isolation %s; pm %s: %s",
	        fur_name(FUR_NAME_HTM, i->htm), i->htm_reason,
	        fur_name(FUR_NAME_ISOLATION, i->isolation), fur_name(FUR_NAME_PM, i->pm),
	        i->pm_reason);
	if (heap->file.copied_on_write)
		write_line(heap, FUR_LOG_WARNING,
		        "the file system writes each change to new blocks, or shares the file's "
		        "blocks with a copy or snapshot: on a full disk, SIGBUS ends the program: "
		        "keep room free, or move the heap to ext4 or XFS");
	if (i->recovered)
		write_line(heap, FUR_LOG_WARNING,
		        "the heap had not been closed: replayed %llu updates in %.3f ms, dropped "
		        "%llu that depend on a lost one, found %llu that had not finished, "
		        "corrected %llu",
		        (unsigned long long)replayed->updates, (double)replayed->ns / 1e6,
		        (unsigned long long)replayed->dropped, (unsigned long long)replayed->holes,
		        (unsigned long long)replayed->mended);
}
