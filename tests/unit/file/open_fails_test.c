/* SPDX-License-Identifier: BSD-3-Clause
 *
 * open_fails_test.c - fur_create and fur_open with each call to the system failing in turn: an
 * error and no crash, no descriptor or mapping left, no file where none was, and the file byte for
 * byte as it was, but for its control region (INV-F1).  And fur_create never removes a file that
 * another process can open.
 *
 *     open-fails-test create | create-named | open | recover
 *
 * create-named: on a file system that has no files without a name.  recover: the heap was not
 * closed.
 */
#include <fur.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Of the library's calls since it was armed, the one that fails; 0: not armed. */
static long fail_at, calls;
static bool named_only, open_anywhere;
static const char *failed_call = "none";
static char path[] = "/tmp/fur-test-open-fails-XXXXXX";

static bool fails(const char *call)
{
	if (!fail_at || ++calls != fail_at)
		return false;
	failed_call = call;
	return true;
}

/* ------------------------------------------------------- in the system's place */

EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
	void *p;
	if (fails("aligned_alloc"))
		return NULL;
	return posix_memalign(&p, alignment, bytes) ? NULL : p;
}

EXPORT void *malloc(size_t bytes)
{
	extern void *__libc_malloc(size_t);
	return fails("malloc") ? NULL : __libc_malloc(bytes);
}

EXPORT void *calloc(size_t n, size_t bytes)
{
	extern void *__libc_calloc(size_t, size_t);
	return fails("calloc") ? NULL : __libc_calloc(n, bytes);
}

EXPORT int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
	static int (*next)(pthread_mutex_t *, const pthread_mutexattr_t *);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "pthread_mutex_init");
	return fails("pthread_mutex_init") ? ENOMEM : next(mutex, attributes);
}

EXPORT int pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes)
{
	static int (*next)(pthread_cond_t *, const pthread_condattr_t *);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "pthread_cond_init");
	return fails("pthread_cond_init") ? ENOMEM : next(condition, attributes);
}

EXPORT int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	static int (*next)(pthread_key_t *, void (*)(void *));
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "pthread_key_create");
	return fails("pthread_key_create") ? EAGAIN : next(key, destructor);
}

EXPORT int open(const char *name, int flags, ...)
{
	va_list more;
	va_start(more, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
	va_end(more);
	if (fails("open"))
		errno = EACCES;
	else if (named_only && (flags & O_TMPFILE) == O_TMPFILE)
		errno = EOPNOTSUPP;
	else
		return openat(AT_FDCWD, name, flags, mode);
	return -1;
}

EXPORT void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	static void *(*next)(void *, size_t, int, int, int, off_t);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "mmap");
	if (!fails("mmap"))
		return next(at, bytes, protection, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

EXPORT int fchmod(int fd, mode_t mode)
{
	static int (*next)(int, mode_t);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "fchmod");
	if (!fails("fchmod"))
		return next(fd, mode);
	errno = EPERM;
	return -1;
}

EXPORT int fsync(int fd)
{
	static int (*next)(int);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "fsync");
	if (!fails("fsync"))
		return next(fd);
	errno = EIO;
	return -1;
}

EXPORT int syncfs(int fd)
{
	(void)fd;
	if (!fails("syncfs"))
		return 0;
	errno = EIO;
	return -1;
}

/* A process that opened the heap would lose it. */
EXPORT int unlink(const char *name)
{
	static int (*next)(const char *);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "unlink");
	if (!strcmp(name, path)) {
		long armed = fail_at;
		fail_at = 0;
		fur_heap *heap;
		pid_t child = fork();
		int status = 0;
		if (child == 0)
			_exit(fur_open(path, NULL, &heap) == 0);
		waitpid(child, &status, 0);
		open_anywhere |= status != 0;
		fail_at = armed;
	}
	return next(name);
}

/* ------------------------------------------------------------------- the test */

static void die(const char *what)
{
	printf("FAIL: %s, with %s (call %ld) failing: %s\n", what, failed_call, fail_at,
	        fur_errormsg());
	fflush(stdout);
	fail_at = 0;
	unlinkat(AT_FDCWD, path, 0);
	_exit(1);
}

struct contents {
	size_t bytes;
	uint8_t *data;
};

static struct contents contents(void)
{
	struct stat st;
	struct contents c = {0};
	int fd = openat(AT_FDCWD, path, O_RDONLY);
	if (fd < 0)
		return c;
	fstat(fd, &st);
	c.bytes = (size_t)st.st_size;
	c.data = malloc(c.bytes);
	if (pread(fd, c.data, c.bytes, 0) != (ssize_t)c.bytes)
		die("the file cannot be read");
	close(fd);
	/* docs/file-format.md: the control region means nothing while no process has the heap
	 * open. */
	uint64_t control[2];
	memcpy(control, c.data + 56, sizeof control);
	memset(c.data + control[0], 0, control[1]);
	return c;
}

static int descriptors(void)
{
	int n = 0;
	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Of heap files, whatever they are called by now. */
static int mappings(void)
{
	char line[512];
	int n = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	while (maps && fgets(line, sizeof line, maps))
		n += strstr(line, "fur-test-open-fails") || strstr(line, "/#");
	fclose(maps);
	return n;
}

/* The directory entries that a create could leave. */
static bool left_behind(void)
{
	char command[128];
	snprintf(command, sizeof command, "test -z \"$(ls -d %s* 2>/dev/null)\"", path);
	return system(command) != 0;
}

static struct fur_options options(void)
{
	struct fur_options o;
	fur_options_init(&o);
	o.pm = FUR_PM_SYNC;
	o.heap_bytes = 4 << 20;
	o.log_bytes = 65536;
	o.max_threads = 4;
	o.ring_slots = 64;
	o.dram_bytes = 1 << 20; /* because it reads /proc */
	return o;
}

static void close_heap(fur_heap *heap)
{
	if (fur_close(heap))
		die("fur_close failed");
}

/* One attempt: returns the library's result, and whether a call was made to fail. */
static int attempt(bool create, long which, bool *was_failed)
{
	struct fur_options o = options();
	fur_heap *heap;
	int fds = descriptors(), maps = mappings();
	calls = 0, failed_call = "none";
	fail_at = which;
	int error = create ? fur_create(path, &o, &heap) : fur_open(path, &o, &heap);
	*was_failed = calls >= which;
	fail_at = 0;
	if (error == 0) {
		close_heap(heap);
	} else if (heap) {
		die("a handle with an error");
	}
	fail_at = 0;
	if (descriptors() != fds)
		die("a descriptor is left open");
	if (mappings() != maps)
		die("a mapping is left");
	return error;
}

static int test_create(void)
{
	bool was_failed = true;
	long failures = 0;
	for (long which = 1; was_failed; which++) {
		int error = attempt(true, which, &was_failed);
		failures += error != 0;
		if (open_anywhere)
			die("fur_create removed a heap that another process had opened");
		if (error && left_behind())
			die("something was left behind");
		if (!error && access(path, F_OK))
			die("no file, and no error");
		if (!was_failed && error)
			die("refused without a reason");
		unlink(path);
		open_anywhere = false;
	}
	printf("%ld failures\n", failures);
	return failures > 10 ? 0 : 1;
}

/* As a killed process leaves it. */
static void make(bool closed)
{
	pid_t child = fork();
	int status;
	if (child == 0) {
		struct fur_options o = options();
		fur_heap *heap;
		fur_thread *self;
		fur_update *tx;
		if (fur_create(path, &o, &heap) || fur_thread_register(heap, NULL, &self) ||
		        fur_begin_update(self, &tx))
			_exit(1);
		fur_set_root(tx, 0, heap);
		if (fur_commit(tx, NULL))
			_exit(1);
		_exit(closed ? fur_close(heap) != 0 : 0);
	}
	if (waitpid(child, &status, 0) < 0 || status)
		die("no heap to open");
}

static int test_open(bool closed)
{
	bool was_failed = true;
	long failures = 0;
	make(closed);
	for (long which = 1; was_failed; which++) {
		struct contents before = contents();
		int error = attempt(false, which, &was_failed);
		struct contents after = contents();
		failures += error != 0;
		if (error && (before.bytes != after.bytes ||
		                     memcmp(before.data, after.data, before.bytes)))
			die("a refused file was changed");
		if (!was_failed && error)
			die("refused without a reason");
		free(before.data);
		free(after.data);
		if (!error) { /* again as it was */
			unlink(path);
			make(closed);
		}
	}
	printf("%ld failures\n", failures);
	return failures > 10 ? 0 : 1;
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";
	close(mkstemp(path));
	unlink(path);
	named_only = !strcmp(what, "create-named");
	int status = !strncmp(what, "create", 6) ? test_create() : test_open(!strcmp(what, "open"));
	unlink(path);
	return status;
}
