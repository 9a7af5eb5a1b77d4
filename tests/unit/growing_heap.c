/* SPDX-License-Identifier: BSD-3-Clause
 *
 * growing_heap.c - make a heap that grows, for resize_test.py; or check that its data is there.
 *
 *     growing-heap make HEAP     100 blocks of 100000 bytes, of which the last 50 are free again
 *     growing-heap empty HEAP    the same without any block: it has not grown
 *     growing-heap fixed HEAP    as make, but of 16 MiB and made without max_bytes
 *     growing-heap fill HEAP     adds blocks of 1 MiB until it is full
 *     growing-heap check HEAP    prints how many of the first 50 are there, and opens two threads
 */
#include <fur.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS = 100, KEPT = 50, BYTES = 100000 };

struct table {
	uint64_t *block[BLOCKS];
};

static int fail(void)
{
	fprintf(stderr, "growing-heap: %s\n", fur_errormsg());
	return 1;
}

static int make(const char *path, bool empty, bool fixed)
{
	struct fur_options o;
	fur_heap *heap;
	fur_thread *self;
	fur_update *tx;
	struct table *t = NULL;
	fur_options_init(&o);
	o.heap_bytes = fixed ? 16 << 20 : 2 << 20;
	o.max_bytes = fixed ? 0 : 64 << 20;
	o.log_bytes = 65536;
	o.max_threads = 4;
	o.pm = FUR_PM_EMULATED;
	if (fur_create(path, &o, &heap) || fur_thread_register(heap, &self))
		return fail();
	for (unsigned k = 0; !empty && k < BLOCKS + KEPT; k++) {
		if (fur_begin_update(self, &tx))
			return fail();
		if (k == 0)
			fur_set_root(tx, 0, t = fur_alloc(tx, sizeof *t));
		if (k < BLOCKS) {
			uint64_t *block = fur_alloc(tx, BYTES);
			fur_store(tx, block, k + 1);
			fur_store(tx, &t->block[k], block);
		} else {
			fur_free(tx, t->block[k - KEPT]);
		}
		if (fur_commit(tx))
			return fail();
	}
	return fur_close(heap) ? fail() : 0;
}

static int check(const char *path)
{
	struct fur_options o;
	struct fur_info info = {.size = sizeof info};
	fur_heap *heap;
	unsigned there = 0;
	fur_options_init(&o);
	o.pm = FUR_PM_EMULATED;
	if (fur_open(path, &o, &heap) || fur_get_info(heap, &info))
		return fail();
	const struct table *t = fur_root(heap, 0);
	for (unsigned k = 0; k < KEPT; k++)
		there += *t->block[k] == k + 1;
	printf("%u blocks, heap %llu of %llu, log %llu, ring %llu\n", there,
	        (unsigned long long)info.heap_bytes, (unsigned long long)info.max_bytes,
	        (unsigned long long)info.log_bytes, (unsigned long long)info.ring_slots);
	return fur_close(heap) ? fail() : 0;
}

/* Each block has its number at both ends. */
static int fill(const char *path)
{
	enum { WORDS = (1 << 20) / 8 };
	struct fur_options o;
	struct fur_info info = {.size = sizeof info};
	fur_heap *heap;
	fur_thread *self;
	fur_update *tx;
	uint64_t *newest = NULL, blocks = 0;
	fur_options_init(&o);
	o.pm = FUR_PM_EMULATED;
	if (fur_open(path, &o, &heap) || fur_thread_register(heap, &self))
		return fail();
	for (uint64_t *block = self ? (uint64_t *)1 : NULL; block; blocks += block != NULL) {
		if (fur_begin_update(self, &tx))
			return fail();
		block = fur_alloc(tx, WORDS * sizeof *block);
		if (block) {
			fur_store(tx, &block[0], (uint64_t)(uintptr_t)newest);
			fur_store(tx, &block[WORDS - 1], blocks);
			newest = block;
		}
		if (fur_commit(tx))
			return fail();
	}
	for (uint64_t k = blocks; k-- > 0; newest = (uint64_t *)(uintptr_t)newest[0])
		if (newest[WORDS - 1] != k)
			return 3;
	if (newest || fur_get_info(heap, &info))
		return 3;
	printf("%llu MiB added, heap %llu of %llu\n", (unsigned long long)blocks,
	        (unsigned long long)info.heap_bytes, (unsigned long long)info.max_bytes);
	return fur_close(heap) ? fail() : 0;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	if (!strcmp(argv[1], "check"))
		return check(argv[2]);
	if (!strcmp(argv[1], "fill"))
		return fill(argv[2]);
	return make(argv[2], !strcmp(argv[1], "empty"), !strcmp(argv[1], "fixed"));
}
