/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pages.c - fur_options.dram_bytes: when the heap has too many private pages, a thread hands them
 * back to the kernel.
 *
 * A page of the heap becomes private to the process with the first store to it (INV-F2).  Once all
 * updates are replayed, the file has the same contents as the private pages.  Then a thread may
 * hand the pages back, and the next access finds the file's page.  It must not hand back a page
 * with a store that the file does not have yet: a store of a transaction under way, or of one that
 * has committed and is not replayed.
 *
 *   INV-P1  A thread hands pages back only while it has the publication turn and no reader is
 *           active.  Then every update under way is in its last steps: it is in nondurable[], or it
 *           is rollback-only and in the window, with a durTS that it drew before it left active[].
 *           Or it is a software body, which has stored nothing yet, and loads from the file what it
 *           would load from the page.
 *   INV-P2  The thread hands them back only after every update has left nondurable[] and the tail
 *           has reached next_durts.  Every durTS drawn is below next_durts, so the tail passes it
 *           only when its update, or its abort, is settled.  Meanwhile no update draws a durTS
 *           unless it was in nondurable[].  So everything visible is in the file.
 */
#include "api/heap.h"
#include "base/error.h"
#include "base/remedy.h"
#include "base/system.h"
#include "durability/ship.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* A thread checks the limit each time its updates may have made this part of it private: one of
 * CHECKS_PER_LIMIT. */
enum { CHECKS_PER_LIMIT = 8 };

/* The anonymous pages of the whole process, the heap's private ones included.  Cheap: two numbers
 * of /proc/self/statm. */
static uint64_t anonymous_pages(int statm)
{
	char text[128];
	ssize_t n = system_read(statm, text, sizeof text - 1, 0);
	unsigned long size, resident, shared;
	if (n <= 0)
		return UINT64_MAX;
	text[n] = 0;
	return sscanf(text, "%lu %lu %lu", &size, &resident, &shared) == 3 && resident > shared
	               ? resident - shared
	               : UINT64_MAX;
}

/* The heap's private pages, in memory or swapped out: /proc/self/pagemap has a word for each page,
 * proc(5). */
static uint64_t private_pages(
        const struct page_limit *limit, const struct heap_file *file, uint64_t heap_bytes)
{
	const uint64_t present = UINT64_C(1) << 63, swapped = UINT64_C(1) << 62,
	               of_file = UINT64_C(1) << 61;
	uint64_t words[1024], first = (uintptr_t)file->base / limit->page_bytes,
	                      pages = heap_bytes / limit->page_bytes;
	uint64_t found = 0, n;
	for (uint64_t at = 0; at < pages; at += n) {
		n = pages - at < 1024 ? pages - at : 1024;
		if (system_read(limit->pagemap, words, n * 8, (first + at) * 8) != (ssize_t)(n * 8))
			return 0; /* cannot be read: then there is no limit */
		for (uint64_t k = 0; k < n; k++)
			found += (words[k] & (present | swapped)) && !(words[k] & of_file);
	}
	return found;
}

/* INV-P2.  The caller has the turn, and has shut readers out. */
static int settle_updates(struct durability *d)
{
	struct arch_backoff backoff = {0};
	nondurable_wait_all(d);
	int error = (int)arch_load(&d->failed);
	while (!error && ring_tail(d) < ring_next(d))
		/* No reader shall wait for the shipping log. */
		error = ship_leashed(d) ? FUR_EBEHIND : durability_replay(d, &backoff);
	return error;
}

/* INV-P1 */
static void hand_pages_back(struct fur_thread *t, uint64_t pages)
{
	struct fur_heap *heap = t->heap;
	struct page_limit *limit = &heap->page_limit;
	if (ship_acked(t->durability) < ring_next(t->durability)) /* it would be in vain */
		return;
	turn_take(t->engine);
	/* Software bodies may go on: what they load is the same in the file (INV-P1). */
	(void)readers_shut_out(t->engine, t->index).met;
	if (engine_forked(t->engine)) /* reader_report forked: INV-K2 */
		return;
	FUR_ASSERT(readers_are_out(t->engine));
	/* If the heap has failed, keep its pages: the file will never have their contents. */
	const uint64_t bytes = durability_heap_bytes(t->durability);
	const bool settled = settle_updates(t->durability) == 0;
	if (settled && madvise(heap->file.base, bytes, MADV_DONTNEED)) {
		/* Locked pages, mlock(2).  Each attempt makes others wait: do not try again. */
		arch_store(&limit->refused, 1);
		durability_note(t->durability, EVENT_PAGES_LOCKED);
	} else if (settled) {
		arch_store(&limit->times, limit->times + 1);
		arch_store(&limit->bytes_handed_back,
		        limit->bytes_handed_back + pages * limit->page_bytes);
		arch_store(&limit->counted, 0);
	}
	readers_let_in(t->engine);
	turn_give(t->engine);
}

/* To count walks over the whole heap.  May there be more pages than `most`, after those that were
 * counted last?  An entry of the log makes one page private, or two.  Stores that have no entry, as
 * those to fresh memory, show in the process's anonymous pages.  The program's own memory is in
 * them as well, and may be much more than the limit. */
static bool may_exceed(const struct page_limit *limit, uint64_t anonymous, uint64_t most)
{
	const uint64_t counted = arch_load(&limit->counted), before = arch_load(&limit->anonymous);
	if (anonymous <= most)
		return false;
	if (counted > most)
		return true;
	return arch_load(&limit->entries) > (most - counted) / 2 ||
	       (anonymous > before && anonymous - before > most - counted);
}

static void check_page_limit(struct fur_thread *t, uint64_t entries)
{
	struct page_limit *limit = &t->heap->page_limit;
	const uint64_t most = limit->bytes / limit->page_bytes;
	arch_fetch_add(&limit->entries, entries);
	if (arch_load(&limit->refused))
		return;
	const uint64_t anonymous = anonymous_pages(limit->statm);
	if (!may_exceed(limit, anonymous, most) || pthread_mutex_trylock(&limit->mutex))
		return;
	arch_store(&limit->entries, 0);
	arch_store(&limit->anonymous, anonymous);
	uint64_t pages = private_pages(limit, &t->heap->file, durability_heap_bytes(t->durability));
	arch_store(&limit->counted, pages);
	if (pages > most)
		hand_pages_back(t, pages);
	pthread_mutex_unlock(&limit->mutex);
}

/* Called between this thread's transactions.  A log entry stores to one page, or two.  So the
 * number of entries bounds how many pages this thread has made private, and the thread need not ask
 * the kernel before that bound is a part of the limit. */
static void after_update(struct fur_thread *t, uint64_t entries)
{
	const struct page_limit *limit = &t->heap->page_limit;
	int cancel;
	FUR_ASSERT(limit->bytes && !thread_has_open(t));
	if (entries == 0)
		return;
	t->entries_since_look += entries;
	if (t->entries_since_look < limit->bytes / limit->page_bytes / CHECKS_PER_LIMIT)
		return;
	entries = t->entries_since_look;
	t->entries_since_look = 0;
	/* pread() is a cancellation point.  A thread cancelled there would keep the mutex, and no
	 * page would ever be handed back again. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	check_page_limit(t, entries);
	pthread_setcancelstate(cancel, &cancel);
}

int page_limit_start(struct fur_heap *heap, uint64_t bytes)
{
	struct page_limit *limit = &heap->page_limit;
	limit->statm = limit->pagemap = -1;
	if (!bytes)
		return 0;
	limit->bytes = bytes;
	limit->counted = UINT64_MAX;
	pthread_mutex_init(&limit->mutex, NULL);
	limit->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	limit->statm = system_open("/proc/self/statm", O_RDONLY, 0);
	limit->pagemap = system_open("/proc/self/pagemap", O_RDONLY, 0);
	if (limit->statm < 0 || limit->pagemap < 0)
		return fur_fail(FUR_ESYS,
		        "dram_bytes needs /proc/self/statm and /proc/self/pagemap: "
		        "mount /proc, or set no limit");
	after_update_add(&heap->engine, after_update);
	return 0;
}

void page_limit_end(struct fur_heap *heap)
{
	struct page_limit *limit = &heap->page_limit;
	if (!limit->bytes)
		return;
	/* A thread that the child does not have may hold the mutex. */
	if (!engine_forked(&heap->engine))
		pthread_mutex_destroy(&limit->mutex);
	if (limit->statm >= 0)
		close(limit->statm);
	if (limit->pagemap >= 0)
		close(limit->pagemap);
}
