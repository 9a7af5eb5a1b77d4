/* SPDX-License-Identifier: BSD-3-Clause
 *
 * small_address_space_test.c - a kernel whose processes have 39-bit addresses, as some for aarch64:
 * fur_create finds a place for the heap, every kernel opens that heap, and fur_open refuses a heap
 * that was made at a higher address.
 */
#include "nameless_heap.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))

static const uint64_t END = UINT64_C(1) << 39;
static bool small;

/* In the system's place: what Linux answers where its address space ends. */
EXPORT void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	static void *(*next)(void *, size_t, int, int, int, off_t);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "mmap");
	if (small && (flags & MAP_FIXED_NOREPLACE) && (uint64_t)(uintptr_t)at + bytes > END) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return next(at, bytes, protection, flags, fd, offset);
}

static void expect(bool true_so, const char *what)
{
	if (true_so)
		return;
	printf("not so: %s\n", what);
	exit(1);
}

static uint64_t address_of(fur_heap *heap)
{
	struct fur_info info = {.size = sizeof info};
	must(fur_get_info(heap, &info));
	return info.address;
}

static void open_and_close(const char *path, const struct fur_options *o)
{
	fur_heap *heap;
	must(fur_open(path, o, &heap));
	must(fur_close(heap));
}

int main(void)
{
	char directory[] = "/tmp/fur-test-XXXXXX", high[64], low[64];
	fur_heap *heap;
	struct fur_options o;
	fur_options_init(&o);
	o.heap_bytes = 4 << 20;
	expect(mkdtemp(directory) != NULL, "a directory");
	snprintf(high, sizeof high, "%s/high", directory);
	snprintf(low, sizeof low, "%s/low", directory);

	must(fur_create(high, &o, &heap));
	if (address_of(heap) < END) {
		printf("skipped: this kernel's processes have such addresses themselves\n");
		return unlink(high) || rmdir(directory) ? 1 : 77;
	}
	must(fur_close(heap));

	small = true;
	must(fur_create(low, &o, &heap));
	expect(address_of(heap) + o.heap_bytes <= END, "the heap lies in the address space");
	must(fur_close(heap));
	open_and_close(low, &o);
	expect(fur_open(high, &o, &heap) == FUR_EADDRESS, "FUR_EADDRESS");
	expect(strstr(fur_errormsg(), "48-bit addresses") != NULL, "the message names the remedy");
	printf("%s\n", fur_errormsg());

	small = false;
	open_and_close(low, &o);
	open_and_close(high, &o);
	expect(unlink(high) == 0 && unlink(low) == 0 && rmdir(directory) == 0, "nothing is left");
	return 0;
}
