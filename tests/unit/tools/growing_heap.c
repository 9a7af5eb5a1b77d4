/* SPDX-License-Identifier: BSD-3-Clause
 *
 * growing_heap.c - make a heap that grows, for resize_test.py; or check that its data is there.
 *
 *     growing-heap make HEAP     100 blocks of 100000 bytes, of which the last 50 are free again
 *     growing-heap empty HEAP    the same without any block: it has not grown
 *     growing-heap fixed HEAP    as make, but of 16 MiB and made without max_bytes
 *     growing-heap fill HEAP     adds blocks of 1 MiB until it is full
 *     growing-heap threads HEAP  begins as many threads as it allows, each of which allocates and
 *                                frees, next to the others; prints how many
 *     growing-heap check HEAP    prints how many of the first 50 are there, and opens two threads
 */
#include <fur.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
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
	if (fur_create(path, &o, &heap) || fur_thread_register(heap, NULL, &self))
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
		if (fur_commit(tx, NULL))
			return fail();
	}
	return fur_close(heap) ? fail() : 0;
}

static int check(const char *path)
{
	struct fur_options o;
	struct fur_info info = {.size = sizeof info};
	fur_heap *heap;
	fur_thread *self;
	fur_ro *ro;
	unsigned there = 0;
	fur_options_init(&o);
	o.pm = FUR_PM_EMULATED;
	if (fur_open(path, &o, &heap) || fur_get_info(heap, &info))
		return fail();
	if (fur_thread_register(heap, NULL, &self) || fur_begin_ro(self, &ro))
		return fail();
	const struct table *t = fur_root(ro, 0);
	for (unsigned k = 0; k < KEPT; k++)
		there += *t->block[k] == k + 1;
	if (fur_end_ro(ro, NULL))
		return fail();
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
	if (fur_open(path, &o, &heap) || fur_thread_register(heap, NULL, &self))
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
		if (fur_commit(tx, NULL))
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

/* ----------------------------------------------------------------- threads */

enum { THREADS_MOST = 1100, ROUNDS = 60 };
static fur_heap *shared;
static pthread_barrier_t all_registered;

/* Blocks of one class, so that threads that share a stock meet there.  Each has its number in it,
 * and another thread's number would be a block that two have got. */
static int work(fur_thread *self)
{
	fur_update *tx;
	uint64_t *block[8] = {NULL};
	for (uint64_t round = 0; round < ROUNDS; round++) {
		uint64_t **mine = &block[round % 8], mark = (uintptr_t)self + round;
		if (*mine && (*mine)[0] != (uintptr_t)self + round - 8)
			return 3;
		if (fur_begin_update(self, &tx))
			return fail();
		if (*mine)
			fur_free(tx, *mine);
		*mine = fur_alloc(tx, 48);
		if (*mine)
			fur_store(tx, *mine, mark);
		if (fur_commit(tx, NULL) || !*mine)
			return fail();
	}
	if (fur_begin_update(self, &tx))
		return fail();
	for (unsigned k = 0; k < 8; k++)
		fur_free(tx, block[k]);
	return fur_commit(tx, NULL) ? fail() : 0;
}

static void *run_thread(void *unused)
{
	fur_thread *self;
	int error = fur_thread_register(shared, NULL, &self);
	(void)unused;
	pthread_barrier_wait(&all_registered);
	if (!error)
		error = work(self);
	return (void *)(intptr_t)error;
}

static int threads(const char *path)
{
	static pthread_t thread[THREADS_MOST];
	struct fur_options o;
	struct fur_info info = {.size = sizeof info};
	int status = 0;
	fur_options_init(&o);
	o.pm = FUR_PM_EMULATED;
	if (fur_open(path, &o, &shared) || fur_get_info(shared, &info))
		return fail();
	pthread_barrier_init(&all_registered, NULL, info.max_threads);
	for (uint32_t k = 0; k < info.max_threads; k++)
		if (pthread_create(&thread[k], NULL, run_thread, NULL))
			return 3;
	for (uint32_t k = 0; k < info.max_threads; k++) {
		void *error;
		pthread_join(thread[k], &error);
		if (error)
			status = 3;
	}
	printf("%u threads\n", info.max_threads);
	return fur_close(shared) ? fail() : status;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	if (!strcmp(argv[1], "check"))
		return check(argv[2]);
	if (!strcmp(argv[1], "threads"))
		return threads(argv[2]);
	if (!strcmp(argv[1], "fill"))
		return fill(argv[2]);
	return make(argv[2], !strcmp(argv[1], "empty"), !strcmp(argv[1], "fixed"));
}
