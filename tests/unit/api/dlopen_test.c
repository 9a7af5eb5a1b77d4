/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dlopen_test.c - a program loads several copies of libfur, as one with plug-ins may: the C
 * library's reserve of static thread-local data must do for all; each copy has its own messages;
 * and threads, and fork(), may outlive a copy.   Usage: dlopen-test LIBRARY
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COPIES = 8 };

struct copy {
	void *library;
	int (*open)(const char *, const void *, void **);
	int (*create)(const char *, const void *, void **);
	int (*close)(void *);
	const char *(*message)(void);
};

static void die(const char *why)
{
	printf("%s\n", why);
	exit(1);
}

static struct copy load(const char *path)
{
	char place[] = "/tmp/fur-dlopen-XXXXXX";
	struct stat st;
	int from = open(path, O_RDONLY), to = mkstemp(place);
	if (from < 0 || to < 0 || fstat(from, &st))
		die("no copy");
	for (off_t left = st.st_size; left > 0;) {
		ssize_t n = sendfile(to, from, NULL, (size_t)left);
		if (n <= 0)
			die("no copy");
		left -= n;
	}
	close(from);
	close(to);
	struct copy c = {.library = dlopen(place, RTLD_NOW | RTLD_LOCAL)};
	unlink(place);
	if (!c.library)
		die(dlerror());
	*(void **)&c.open = dlsym(c.library, "fur_open");
	*(void **)&c.create = dlsym(c.library, "fur_create");
	*(void **)&c.close = dlsym(c.library, "fur_close");
	*(void **)&c.message = dlsym(c.library, "fur_errormsg");
	if (!c.open || !c.create || !c.close || !c.message)
		die("no fur_open");
	return c;
}

static void fail_each(const struct copy *copies)
{
	char path[64];
	void *heap;
	for (int k = 0; k < COPIES; k++) {
		snprintf(path, sizeof path, "/nonexistent/%d/", k);
		copies[k].open(path, NULL, &heap);
	}
	for (int k = 0; k < COPIES; k++) {
		snprintf(path, sizeof path, "/nonexistent/%d/", k);
		if (!strstr(copies[k].message(), path))
			die(copies[k].message());
	}
}

/* From its first heap on, a copy has handlers for fork(). */
static void use_a_heap(const struct copy *c)
{
	char path[] = "/tmp/fur-dlopen-XXXXXX";
	void *heap;
	close(mkstemp(path));
	unlink(path);
	if (c->create(path, NULL, &heap) || c->close(heap))
		die(c->message());
	unlink(path);
}

static pthread_barrier_t loaded, failed, closed;

static void *outlive(void *copies)
{
	pthread_barrier_wait(&loaded);
	fail_each(copies);
	pthread_barrier_wait(&failed);
	pthread_barrier_wait(&closed);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct copy copies[COPIES];
	pthread_t thread;
	if (argc != 2)
		return 2;
	pthread_barrier_init(&loaded, NULL, 2);
	pthread_barrier_init(&failed, NULL, 2);
	pthread_barrier_init(&closed, NULL, 2);
	if (pthread_create(&thread, NULL, outlive, copies))
		return 2;
	for (int k = 0; k < COPIES; k++)
		copies[k] = load(argv[1]);
	pthread_barrier_wait(&loaded);
	fail_each(copies);
	use_a_heap(&copies[0]);
	pthread_barrier_wait(&failed);
	for (int k = 0; k < COPIES; k++)
		if (dlclose(copies[k].library))
			die(dlerror());
	pthread_barrier_wait(&closed);
	pthread_join(thread, NULL);
	int status = 1;
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	waitpid(child, &status, 0);
	if (status)
		die("fork() calls a handler that is gone");
	printf("%d copies\n", COPIES);
	return 0;
}
