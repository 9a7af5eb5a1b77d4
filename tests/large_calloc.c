/* SPDX-License-Identifier: BSD-3-Clause
 *
 * large_calloc.c - calloc() for the programs of tests: pages of a large block are not touched.
 *
 * `meson test` sets MALLOC_PERTURB_, with which glibc fills what malloc() returns.  Its calloc() then
 * also fills a block that it has just mapped, and zeroes it again.  libfur allocates 8 MiB in this
 * way for each heap that it opens, and uses a few pages of it.  Whatever the filling is, calloc()
 * returns zeros: no test can see it.
 */
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>

#if defined(__GLIBC__)
enum { LARGE = 1 << 20 };

void *__libc_calloc(size_t n, size_t bytes);

__attribute__((visibility("default"))) void *calloc(size_t n, size_t bytes)
{
	const char *perturb = n && bytes >= LARGE / n ? getenv("MALLOC_PERTURB_") : NULL;
	if (!perturb)
		return __libc_calloc(n, bytes);
	mallopt(M_PERTURB, 0);
	void *p = __libc_calloc(n, bytes);
	mallopt(M_PERTURB, atoi(perturb));
	return p;
}
#endif
