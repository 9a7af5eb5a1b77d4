/* SPDX-License-Identifier: BSD-3-Clause
 *
 * interposed_test.c - a program can replace every write-back and fence of libfur, as
 * tools/pm-emulate does: libpmem's calls on x86-64, the hooks of src/base/pm_hooks.h elsewhere.
 * This program replaces them with functions of its own; it fails if a commit calls no write-back.
 */
#include "nameless_heap.h"

#define EXPORT __attribute__((visibility("default")))

static long flushed, fenced;

EXPORT void pmem_flush(const void *start, size_t bytes);
EXPORT void pmem_drain(void);
EXPORT void pm_emulate_write_back(const void *start, size_t bytes);
EXPORT void pm_emulate_fence(void);

void pmem_flush(const void *start, size_t bytes)
{
	(void)start, (void)bytes;
	flushed++;
}

void pmem_drain(void)
{
	fenced++;
}

void pm_emulate_write_back(const void *start, size_t bytes)
{
	pmem_flush(start, bytes);
}

void pm_emulate_fence(void)
{
	pmem_drain();
}

int main(void)
{
	struct fur_options o;
	fur_thread *self;
	fur_update *tx;
	fur_options_init(&o);
	o.pm = FUR_PM_EMULATED;
	o.heap_bytes = 4 << 20;
	fur_heap *heap = nameless_heap(&o);
	must(fur_thread_register(heap, NULL, &self));
	long flushes = flushed, fences = fenced;
	must(fur_begin_update(self, &tx));
	fur_set_root(tx, 0, heap);
	must(fur_commit(tx, NULL));
	/* The log, and the marker; one fence for both. */
	printf("%ld flushes, %ld fences\n", flushed - flushes, fenced - fences);
	return flushed - flushes == 2 && fenced - fences == 1 ? 0 : 1;
}
