/* SPDX-License-Identifier: BSD-3-Clause
 *
 * plain_stores.c - FUR_DEBUG=plain-stores: find a plain store into the heap, and name the place in
 * the program.
 *
 * The heap at its address cannot be written to (heap_map_twice()), so a plain store raises SIGSEGV
 * at its own instruction.  The handler reports it, and aborts; or it makes the page writable, and
 * the instruction runs again.  The page stays so until an update ends: a page that is open hides
 * other plain stores.
 *
 * The handler takes no lock of the program's and none of the heap's: the thread that stores may
 * have any of them.  Its own lock is a spin lock, held for a few instructions with all signals
 * blocked.
 */
#include "api/heap.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/remedy.h"
#include "base/system.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	WATCHED = 64, /* heaps at a time */
	/* Pages that are writable at a time.  One instruction may store to two, so the page that
	 * is opened must not close the one before. */
	OPEN_PAGES = 8,
	PLACES = 512, /* of a program that are remembered as reported */
	CALLERS = 4
};

/* A heap, for the handler: `heap` is set last, and reset first.  The rest is under the mutex. */
static struct watched {
	uint64_t heap; /* struct fur_heap *, or 0 */
	uint64_t base, bytes;
} watched[WATCHED];

static struct {
	pthread_mutex_t mutex; /* protects what heaps that open and close change */
	uint32_t heaps;
	bool forks;              /* the fork handler is installed */
	bool installed;          /* the signal handler is, perhaps below one of the program's */
	uint64_t page_bytes;     /* of the kernel */
	struct sigaction before; /* the handler that was there */
	/* Of the handler: under `busy`. */
	uint64_t busy;
	uint64_t pages[OPEN_PAGES]; /* addresses, or 0 */
	uint64_t places[PLACES];
	uint32_t next_page, n_places;
	uint64_t any_open; /* read without the lock */
} watch = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ----------------------------------------------------------------- the report */

static void append_block(const struct fur_heap *heap, const void *at, char *text, size_t bytes)
{
	struct alloc_place place;
	const uint64_t offset = (uint64_t)((const uint8_t *)at - heap->file.base);
	fault_append(text, bytes, "byte %llu of the heap, ", (unsigned long long)offset);
	if (alloc_place_of(heap->file.base, at, &place))
		fault_append(text, bytes, "byte %llu of the block of %llu bytes at %p",
		        (unsigned long long)(offset - place.offset),
		        (unsigned long long)place.bytes, (void *)(heap->file.base + place.offset));
	else
		fault_append(text, bytes, "%s",
		        place.inside ? "in no block" : "among the allocator's own data");
}

static void append_thread(const struct fur_heap *heap, char *text, size_t bytes)
{
	const struct fur_thread *t = this_thread()->open;
	fault_append(text, bytes, "by thread %ld", (long)syscall(SYS_gettid));
	if (t && t->heap == heap)
		fault_append(text, bytes, " (index %u, in %s)", t->index,
		        t->update.depth ? "an update" : "a read-only transaction");
	else
		fault_append(text, bytes, " (outside transactions of this heap)");
}

static void describe_store(
        const struct fur_heap *heap, const void *at, uintptr_t code, char *text, size_t bytes)
{
	text[0] = 0;
	fault_append(text, bytes, "a plain store to %p (", at);
	append_block(heap, at, text, bytes);
	fault_append(text, bytes, ") ");
	append_thread(heap, text, bytes);
	fault_append(
	        text, bytes, " is not logged: store with fur_store() or fur_write(); the place: ");
	fault_describe(code, text, bytes);
}

static void append_callers(uintptr_t code, char *text, size_t bytes)
{
	uintptr_t callers[CALLERS];
	for (unsigned k = 0, n = fault_callers(code, callers, CALLERS); k < n; k++) {
		fault_append(text, bytes, ", called from ");
		fault_describe(callers[k], text, bytes);
	}
}

static void report(const struct fur_heap *heap, const void *at, uintptr_t code, bool goes_on)
{
	char text[2048];
	describe_store(heap, at, code, text, sizeof text);
	system_print(STDERR_FILENO, "libfur: ");
	system_print(STDERR_FILENO, heap_path(&heap->file));
	system_print(STDERR_FILENO, ": ");
	system_print(STDERR_FILENO, text);
	/* In code without unwind tables, to look for the callers may end the process. */
	const size_t written = strlen(text);
	append_callers(code, text, sizeof text);
	system_print(STDERR_FILENO, text + written);
	system_print(STDERR_FILENO, "\n");
	if (heap->log.log)
		heap->log.log(goes_on ? FUR_LOG_WARNING : FUR_LOG_ERROR, text, heap->log.arg);
}

/* --------------------------------------------------------- places and pages */

static void lock_handler(void)
{
	while (!arch_cas(&watch.busy, 0, 1))
		arch_pause();
}

static void unlock_handler(void)
{
	arch_store_release(&watch.busy, 0);
}

static void close_page(uint32_t k)
{
	/* A child of fork() may have closed the heap, so the page may be gone. */
	if (watch.pages[k])
		(void)mprotect((void *)(uintptr_t)watch.pages[k], watch.page_bytes, PROT_READ);
	watch.pages[k] = 0;
}

/* Make the page writable.  Returns: is the place new? */
static bool open_page(const void *at, uintptr_t code)
{
	const uint64_t page = (uintptr_t)at / watch.page_bytes * watch.page_bytes;
	bool is_new = true;
	lock_handler();
	for (uint32_t k = 0; k < watch.n_places; k++)
		is_new &= watch.places[k] != code;
	if (is_new && watch.n_places < PLACES)
		watch.places[watch.n_places++] = code;
	close_page(watch.next_page);
	watch.pages[watch.next_page] = page;
	watch.next_page = (watch.next_page + 1) % OPEN_PAGES;
	arch_store(&watch.any_open, 1);
	if (mprotect((void *)(uintptr_t)page, watch.page_bytes, PROT_READ | PROT_WRITE)) {
		system_print(STDERR_FILENO,
		        "libfur: cannot go on after a plain store: mprotect() failed\n");
		abort();
	}
	unlock_handler();
	return is_new;
}

/* Close the open pages of [base, base + bytes). */
static void close_pages(uint64_t base, uint64_t bytes)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	lock_handler();
	bool any = false;
	for (uint32_t k = 0; k < OPEN_PAGES; k++) {
		if (watch.pages[k] - base < bytes)
			close_page(k);
		any |= watch.pages[k] != 0;
	}
	arch_store(&watch.any_open, any);
	unlock_handler();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void after_update(struct fur_thread *t, uint64_t entries)
{
	struct fur_heap *heap = t->heap;
	(void)entries;
	if (arch_load(&watch.any_open))
		close_pages((uintptr_t)heap->file.base, heap->file.mapped_bytes);
}

/* ------------------------------------------------------------------ the handler */

static struct fur_heap *heap_of(const void *at)
{
	for (int k = 0; k < WATCHED; k++) {
		uint64_t heap = arch_load_acquire(&watched[k].heap);
		if (heap &&
		        (uintptr_t)at - arch_load(&watched[k].base) < arch_load(&watched[k].bytes))
			return (struct fur_heap *)(uintptr_t)heap;
	}
	return NULL;
}

/* Only the kernel's own action is there: let the instruction, or the signal, come again. */
static void pass_to_kernel(const siginfo_t *info)
{
	(void)sigaction(SIGSEGV, &watch.before, NULL);
	if (info->si_code <= 0) /* sent, not raised: it is pending until the handler returns */
		raise(SIGSEGV);
}

static void pass_on(int signal, siginfo_t *info, void *context)
{
	const struct sigaction *next = &watch.before;
	const bool with_info = next->sa_flags & SA_SIGINFO;
	if (!with_info && next->sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (!with_info && (next->sa_handler == SIG_DFL || next->sa_handler == SIG_IGN)) {
		pass_to_kernel(info);
		return;
	}
	/* Under the mask that it would have had. */
	sigset_t mask = ((const ucontext_t *)context)->uc_sigmask;
	for (int k = 1; k < NSIG; k++)
		if (sigismember(&next->sa_mask, k) == 1)
			sigaddset(&mask, k);
	if (!(next->sa_flags & SA_NODEFER))
		sigaddset(&mask, SIGSEGV);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (with_info)
		next->sa_sigaction(signal, info, context);
	else
		next->sa_handler(signal);
}

static void handle_fault(int signal, siginfo_t *info, void *context)
{
	const int error = errno;
	/* A signal that a process has sent has no address. */
	const struct fur_heap *heap = info->si_code > 0 ? heap_of(info->si_addr) : NULL;
	if (!heap) {
		pass_on(signal, info, context);
		errno = error;
		return;
	}
	const uintptr_t code = fault_code(context);
	const bool goes_on = heap->debug & FUR_DEBUG_CONTINUE;
	if (!goes_on) {
		report(heap, info->si_addr, code, false);
		abort();
	}
	if (open_page(info->si_addr, code))
		report(heap, info->si_addr, code, true);
	errno = error;
}

/* --------------------------------------------------------------- start and end */

/* In a child of fork(): a thread that the child does not have may have had these. */
static void forked(void)
{
	pthread_mutex_init(&watch.mutex, NULL);
	arch_store(&watch.busy, 0);
}

/* The caller has the mutex. */
static int install_handler(void)
{
	if (watch.installed)
		return 0;
	/* The C library removes the fork handler when libfur is unloaded. */
	if (!watch.forks && pthread_atfork(NULL, NULL, forked))
		return fur_fail(FUR_ENOMEM, "no memory for a fork handler: free some memory");
	watch.forks = true;
	struct sigaction ours = {.sa_sigaction = handle_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	uintptr_t unused[1];
	(void)fault_callers(0, unused, 1); /* its first call, outside the handler */
	sigfillset(&ours.sa_mask);
	watch.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	if (sigaction(SIGSEGV, &ours, &watch.before))
		return fail_system(FUR_ESYS, CALL_SIGNALS, errno, "or run without that aid",
		        "FUR_DEBUG=plain-stores cannot install a handler for SIGSEGV");
	watch.installed = true;
	return 0;
}

/* If the program has installed another one since, that may call ours: ours stays. */
static void remove_handler(void)
{
	struct sigaction now;
	if (sigaction(SIGSEGV, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
	        now.sa_sigaction == handle_fault && sigaction(SIGSEGV, &watch.before, NULL) == 0)
		watch.installed = false;
}

/* The caller has the mutex. */
static int add_heap(struct fur_heap *heap)
{
	int k = 0;
	while (k < WATCHED && watched[k].heap)
		k++;
	if (k == WATCHED)
		return fur_fail(FUR_EBUSY,
		        "FUR_DEBUG=plain-stores watches %d heaps at a time: close one, or open "
		        "this one without that aid",
		        WATCHED);
	int error = watch.heaps == 0 ? install_handler() : 0;
	if (error)
		return error;
	watch.heaps++;
	arch_store(&watched[k].base, (uintptr_t)heap->file.base);
	arch_store(&watched[k].bytes, heap->file.mapped_bytes);
	arch_store_release(&watched[k].heap, (uintptr_t)heap);
	return 0;
}

int store_watch_start(struct fur_heap *heap)
{
	if (!(heap->debug & FUR_DEBUG_PLAIN_STORES))
		return 0;
	int error = heap_map_twice(&heap->file);
	if (error)
		return error;
	pthread_mutex_lock(&watch.mutex);
	error = add_heap(heap);
	pthread_mutex_unlock(&watch.mutex);
	if (error)
		return error;
	heap->store_watch = true;
	after_update_add(&heap->engine, after_update);
	return 0;
}

void store_watch_end(struct fur_heap *heap)
{
	if (!heap->store_watch)
		return;
	/* In a child of fork(), a thread that the child does not have may hold the locks (INV-K2);
	 * its pages go with the heap, and the handler stays. */
	const bool alone = (int)arch_load(&heap->durability.failed) == FUR_EFORK;
	if (!alone) {
		close_pages((uintptr_t)heap->file.base, heap->file.mapped_bytes);
		pthread_mutex_lock(&watch.mutex);
	}
	for (int k = 0; k < WATCHED; k++)
		if (watched[k].heap == (uintptr_t)heap) {
			arch_store(&watched[k].heap, 0);
			watch.heaps--;
		}
	if (alone)
		return;
	if (watch.heaps == 0) {
		remove_handler();
		watch.n_places = 0; /* no heap is left whose stores the handler could report */
	}
	pthread_mutex_unlock(&watch.mutex);
}
