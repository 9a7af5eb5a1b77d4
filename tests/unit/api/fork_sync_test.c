/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fork_sync_test.c - a child of fork() closes its copy of a heap while two threads of the parent
 * are in the middle of a group commit: one runs fdatasync(), one waits for it on a condition that
 * the child has a copy of.
 */
#include "nameless_heap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>

static atomic_int blocks, syncing, go_on, committed;
static fur_heap *heap;

/* In the library's place. */
__attribute__((visibility("default"))) int fdatasync(int fd)
{
	(void)fd;
	if (atomic_load(&blocks)) {
		atomic_store(&syncing, 1);
		while (!atomic_load(&go_on))
			usleep(1000);
	}
	return 0;
}

static void *commit_one(void *root)
{
	fur_thread *self;
	fur_update *tx;
	must(fur_thread_register(heap, NULL, &self));
	must(fur_begin_update(self, &tx));
	fur_set_root(tx, (unsigned)(uintptr_t)root, &blocks);
	atomic_store(&blocks, 1);
	must(fur_commit(tx, NULL));
	atomic_fetch_add(&committed, 1);
	return NULL;
}

/* Is a thread of this process, but for the calling one and the one in usleep(), in a futex?  Its
 * state is in proc(5). */
static int waits_in_futex(pid_t thread)
{
	char path[64], text[64] = "";
	snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)thread);
	FILE *f = fopen(path, "r");
	if (!f)
		return -1; /* not to be had: a moment must do */
	if (!fgets(text, sizeof text, f))
		text[0] = 0;
	fclose(f);
	return strncmp(text, "running", 7) != 0 && atoi(text) != 0;
}

static _Atomic pid_t second_id;

static void *commit_second(void *root)
{
	atomic_store(&second_id, gettid());
	return commit_one(root);
}

int main(void)
{
	struct fur_options o;
	pthread_t first, second;
	fur_options_init(&o);
	o.pm = FUR_PM_SYNC;
	o.htm = FUR_HTM_NONE;
	o.heap_bytes = 4 << 20;
	heap = nameless_heap(&o);
	must(pthread_create(&first, NULL, commit_one, (void *)1));
	while (!atomic_load(&syncing))
		usleep(1000);
	must(pthread_create(&second, NULL, commit_second, (void *)2));
	while (!atomic_load(&second_id))
		usleep(1000);
	int waits;
	do
		usleep(20000);
	while ((waits = waits_in_futex(atomic_load(&second_id))) == 0);
	pid_t child = fork();
	if (child == 0) {
		alarm(60);
		_exit(fur_close(heap) ? 1 : 0);
	}
	int status;
	waitpid(child, &status, 0);
	atomic_store(&go_on, 1);
	pthread_join(first, NULL);
	pthread_join(second, NULL);
	must(fur_close(heap));
	printf("child: status %d (14: it hung); committed %d\n", status, atomic_load(&committed));
	return status == 0 && atomic_load(&committed) == 2 ? 0 : 1;
}
