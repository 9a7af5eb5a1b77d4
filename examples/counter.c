/* SPDX-License-Identifier: BSD-3-Clause
 *
 * counter.c - a counter that survives: each run adds one.
 *
 *     cc counter.c $(pkg-config --cflags --libs libfur) -o counter && ./counter /tmp/counter.fur
 */
#include <fur.h>
#include <stdio.h>
#include <stdlib.h>

/* Every error has a message that names the file, the problem and the remedy. */
static void check(int result)
{
	if (result == 0)
		return;
	fprintf(stderr, "counter: %s\n", fur_errormsg());
	exit(1);
}

/* The body of the update.  libfur may leave it in the middle of a call and run it again, so it
 * keeps nothing from an earlier run. */
static void add_one(fur_update *tx, void *arg)
{
	(void)arg;
	/* The counter lives in the heap; root 0 points to it. */
	long *counter = fur_root(tx, 0);
	if (!counter) {
		counter = fur_alloc(tx, sizeof *counter);
		fur_store(tx, counter, 0);
		fur_set_root(tx, 0, counter);
	}
	fur_store(tx, counter, fur_load(tx, counter) + 1);
}

int main(int argc, char **argv)
{
	struct fur_options options;
	fur_heap *heap;
	fur_thread *self;
	fur_ro *ro;

	if (argc != 2) {
		fprintf(stderr, "usage: counter HEAP\n");
		return 2;
	}
	fur_options_init(&options);
	options.open = FUR_OPEN_OR_CREATE;
	check(fur_open(argv[1], &options, &heap));
	check(fur_thread_register(heap, NULL, &self));

	check(fur_update_run(self, add_one, NULL, NULL)); /* visible, and durable, from here */

	check(fur_begin_ro(self, &ro));
	const long *counter = fur_root(ro, 0);
	long value = fur_load(ro, counter);
	check(fur_end_ro(ro, NULL));
	printf("this program has run %ld times\n", value);

	check(fur_close(heap));
	return 0;
}
