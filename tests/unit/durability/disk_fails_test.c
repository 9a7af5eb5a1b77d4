/* SPDX-License-Identifier: BSD-3-Clause
 *
 * disk_fails_test.c - a disk fails while an update is on its way to it, and a transaction has read
 * that update: the reader gets an error at its end, even if the update has left nondurable[] by
 * then (INV-D2, INV-D5); if it ended with a ticket, from the wait (INV-D7).  The error tells that
 * the disk has failed, and so does that of the next transaction.
 * Usage: disk-fails-test read-only|ticket|update
 */
#include "nameless_heap.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static atomic_int fails, syncing, read_by_us;
static fur_heap *heap;

/* In the library's place. */
__attribute__((visibility("default"))) int fdatasync(int fd)
{
	(void)fd;
	if (!atomic_load(&fails))
		return 0;
	atomic_store(&syncing, 1);
	while (!atomic_load(&read_by_us))
		usleep(100);
	errno = EIO;
	return -1;
}

/* Returns once the disk has failed. */
static void *write_42(void *word)
{
	fur_thread *self;
	fur_update *tx;
	must(fur_thread_register(heap, NULL, &self));
	must(fur_begin_update(self, &tx));
	fur_store_bits(tx, word, 42, 8);
	atomic_store(&fails, 1);
	return (void *)(intptr_t)fur_commit(tx, NULL);
}

/* Does the message of the call that has just failed tell why the heap failed? */
static int names_the_cause(void)
{
	printf("%s\n", fur_errormsg());
	return strstr(fur_errormsg(), strerror(EIO)) && strstr(fur_errormsg(), "close the heap");
}

int main(int argc, char **argv)
{
	int update = argc == 2 && !strcmp(argv[1], "update");
	int ticketed = argc == 2 && !strcmp(argv[1], "ticket");
	struct fur_options o;
	fur_thread *self;
	fur_update *tx;
	fur_ro *ro;
	fur_ticket ticket = {0, 0};
	pthread_t writer;
	void *committed;
	fur_options_init(&o);
	o.pm = FUR_PM_SYNC;
	o.htm = FUR_HTM_NONE;
	o.heap_bytes = 4 << 20;
	heap = nameless_heap(&o);
	must(fur_thread_register(heap, NULL, &self));
	must(fur_begin_update(self, &tx));
	uint64_t *word = fur_alloc(tx, sizeof *word);
	fur_store_bits(tx, word, 1, 8);
	must(fur_commit(tx, NULL));

	must(pthread_create(&writer, NULL, write_42, word));
	while (!atomic_load(&syncing))
		usleep(100);
	/* Visible, and not durable. */
	must(update ? fur_begin_update(self, &tx) : fur_begin_ro(self, &ro));
	uint64_t seen = update ? fur_load(tx, word) : fur_load(ro, word);
	if (ticketed)
		must(fur_end_ro(ro, &ticket));
	atomic_store(&read_by_us, 1);
	pthread_join(writer, &committed);
	int ended = update     ? fur_commit(tx, NULL)
	            : ticketed ? fur_wait(self, ticket)
	                       : fur_end_ro(ro, NULL);
	int cause = names_the_cause();
	int begun = update ? fur_begin_update(self, &tx) : fur_begin_ro(self, &ro);
	cause = cause && names_the_cause();
	printf("read %lu; the writer was told %d, we were told %d\n", (unsigned long)seen,
	        (int)(intptr_t)committed, ended);
	return seen == 42 && (intptr_t)committed == FUR_EIO && ended == FUR_EIO &&
	                       begun == FUR_EIO && cause
	               ? 0
	               : 1;
}
