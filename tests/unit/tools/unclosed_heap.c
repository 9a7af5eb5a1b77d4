/* SPDX-License-Identifier: BSD-3-Clause
 *
 * unclosed_heap.c - heaps for tests of fur-replayer.
 *
 *     unclosed-heap make PATH      a heap with 42 in its first root's block, left as after a kill
 *     unclosed-heap verify PATH    open it, expect the 42, and close it
 */
#include "nameless_heap.h"

#include <string.h>

static void make(const char *path, const struct fur_options *o)
{
	fur_heap *heap;
	fur_thread *self;
	fur_update *tx;
	must(fur_create(path, o, &heap));
	must(fur_thread_register(heap, NULL, &self));
	must(fur_begin_update(self, &tx));
	uint64_t *word = fur_alloc(tx, sizeof *word);
	fur_store_bits(tx, word, 42, 8);
	fur_set_root(tx, 0, word);
	must(fur_commit(tx, NULL));
	_exit(0);
}

static int verify(const char *path, const struct fur_options *o)
{
	fur_heap *heap;
	fur_thread *self;
	fur_ro *ro;
	must(fur_open(path, o, &heap));
	must(fur_thread_register(heap, NULL, &self));
	must(fur_begin_ro(self, &ro));
	const uint64_t *word = fur_root(ro, 0);
	int good = word && *word == 42;
	must(fur_end_ro(ro, NULL));
	must(fur_close(heap));
	return good ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct fur_options o;
	fur_options_init(&o);
	o.pm = FUR_PM_EMULATED;
	o.heap_bytes = 4 << 20;
	if (argc != 3)
		return 2;
	if (!strcmp(argv[1], "make"))
		make(argv[2], &o);
	return verify(argv[2], &o);
}
