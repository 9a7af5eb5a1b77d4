/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tsan_open_test.c - a program that is built with ThreadSanitizer makes and opens heaps, and is
 * told the remedy when a heap lies where ThreadSanitizer lets nothing be mapped.
 */
#include <fur.h>
#include <stdio.h>
#include <unistd.h>

static const char *path;

static int fail(const char *what, int error)
{
	printf("%s: %d, %s\n", what, error, fur_errormsg());
	unlink(path);
	return 1;
}

static int use(int (*open)(const char *, const struct fur_options *, fur_heap **),
        const struct fur_options *o)
{
	fur_heap *heap;
	fur_thread *self;
	fur_update *update;
	int error = open(path, o, &heap);
	if (!error)
		error = fur_thread_register(heap, NULL, &self);
	if (!error)
		error = fur_begin_update(self, &update);
	if (!error) {
		fur_set_root(update, 0, fur_alloc(update, 64));
		error = fur_commit(update, NULL);
	}
	return error ? error : fur_close(heap);
}

int main(void)
{
	char name[64];
	struct fur_options o;
	snprintf(name, sizeof name, "/tmp/fur-tsan-%d", (int)getpid());
	path = name;
	fur_options_init(&o);
	o.pm = FUR_PM_EMULATED;
	o.heap_bytes = 4 << 20;
	int error = use(fur_create, &o);
	if (error)
		return fail("fur_create", error);
	error = use(fur_open, &o);
	if (error)
		return fail("fur_open", error);
	unlink(path);
#if defined(__x86_64__)
	/* Between the ranges that ThreadSanitizer gives programs. */
	o.address = UINT64_C(16) << 40;
	error = use(fur_create, &o);
	if (error != FUR_EADDRESS || !strstr(fur_errormsg(), "ThreadSanitizer") ||
	        !strstr(fur_errormsg(), "fur_options.address"))
		return fail("an address that is refused", error);
#endif
	return 0;
}
