/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nameless_heap.h - for tests in C: a heap whose file has no name, and goes with the process.
 */
#ifndef NAMELESS_HEAP_H
#define NAMELESS_HEAP_H

#include <fur.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void must(int error)
{
	if (!error)
		return;
	printf("%s\n", fur_errormsg());
	exit(1);
}

static inline fur_heap *nameless_heap(const struct fur_options *options)
{
	char path[] = "/tmp/fur-test-XXXXXX";
	fur_heap *heap;
	close(mkstemp(path));
	unlink(path);
	must(fur_create(path, options, &heap));
	unlink(path);
	return heap;
}

#endif /* NAMELESS_HEAP_H */
