/* SPDX-License-Identifier: BSD-3-Clause
 *
 * large_calloc.c - calloc() for the programs of tests: pages of a large block are not touched.
 *
 * libfur allocates 8 MiB with calloc() for each heap that it opens, and uses a few pages of it.
 * The others cost nothing if glibc maps them anew.  But
 *
 *  - `meson test` sets MALLOC_PERTURB_, with which glibc fills what malloc() returns.  Its calloc()
 *    then also fills a block that it has just mapped, and zeroes it again.
 *  - when such a block is freed for the first time, glibc keeps its memory, and that of later ones,
 *    and zeroes it at the next calloc(); in a child of fork() this copies each page.
 *
 * In each case calloc() returns zeros: no test can see a difference.
 */
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>

#if defined(__GLIBC__)
enum { LARGE = 8 << 20 };

void *__libc_calloc(size_t n, size_t bytes);

__attribute__((visibility("default"))) void *calloc(size_t n, size_t bytes)
{
	if (n == 0 || bytes < LARGE / n)
		return __libc_calloc(n, bytes);
	const char *perturb = getenv("MALLOC_PERTURB_");
	/* As glibc would set them after such a block was freed, but for the block itself. */
	mallopt(M_MMAP_THRESHOLD, LARGE);
	mallopt(M_TRIM_THRESHOLD, 2 * LARGE);
	if (perturb)
		mallopt(M_PERTURB, 0);
	void *p = __libc_calloc(n, bytes);
	if (perturb)
		mallopt(M_PERTURB, atoi(perturb));
	return p;
}
#endif
