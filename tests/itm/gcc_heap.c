/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gcc_heap.c - gives a program that knows nothing of libfur a heap, before its own constructors
 * run: for the tests of GCC's own library (gcc_suite.py).
 */
#include <fur_itm.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FIRST = 101, THREADS = 1024 };

__attribute__((constructor(FIRST))) static void make_heap(void)
{
	char path[] = "/tmp/fur-gcc-XXXXXX";
	struct fur_options options;
	fur_heap *heap;
	fur_options_init(&options);
	options.pm = FUR_PM_EMULATED;
	options.max_threads = THREADS;
	options.log_bytes = 1 << 16;
	int file = mkstemp(path);
	if (file >= 0)
		close(file);
	unlink(path);
	if (fur_create(path, &options, &heap) || fur_itm_use(heap)) {
		fprintf(stderr, "%s\n", fur_errormsg());
		_exit(1);
	}
	unlink(path);
}
