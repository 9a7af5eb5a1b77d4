/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group.h - group commit: one fdatasync makes the updates of many threads durable.
 *
 * The updates that commit while a sync runs form the next *group*.  When that sync has ended, and
 * its members are back or have had time to come back, one member of the next group leads it: it
 * writes the slots of all members to the file, syncs the file, and wakes the members.
 *
 *   INV-GC1  A member returns 0 only after a sync that began after all its data was in the file has
 *           succeeded.  A group admits members until its leader closes it, and the leader closes
 *           it before it writes and syncs.
 *   INV-GC2  After a sync or a write has failed, no member ever returns 0: a failed fdatasync drops
 *           the pages that it did not write, and a later one succeeds without them (fsync(2)).
 *   INV-GC3  Every member returns.  A group goes when the sync before it has ended and a bounded
 *           time has passed.  Its first member sleeps no longer than that.  The sync waits for no
 *           member.
 */
#ifndef FUR_GROUP_H
#define FUR_GROUP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Bytes that the leader writes to the file before the sync.  Besides them, the sync makes durable
 * all that was stored in the file's mapping, or written to the file, before the thread joined.  A
 * thread uses its own request again for each commit. */
struct group_request {
	const void *from;
	uint64_t offset;            /* in the file */
	uint64_t bytes;             /* 0: none */
	uint64_t group;             /* the last group that the thread was in, or 0 */
	struct group_request *next; /* in the group, by offset */
};

/* A process that sleeps until something is in the file, and need not wait for the sync.  *asleep is
 * 1 when it is about to sleep on the shared event (base/event.h). */
struct group_sleeper {
	uint32_t *asleep, *calls;
};

struct group_commit {
	pthread_mutex_t mutex;
	int fd;
	struct group_sleeper sleeper; /* its words are NULL if there is none */
	uint64_t open;                /* the number of the group that threads join now */
	uint64_t ended; /* the last group whose sync has ended; also read without the mutex */
	bool syncing;
	/* The errno of the first write or sync that failed, or 0.  Never cleared (INV-GC2). */
	int error;
	/* Two groups exist at a time: the one that syncs, and the open one. */
	struct group {
		struct group_request *first;
		uint32_t members;
		uint32_t back; /* of them, those that were in the group before */
		uint32_t over; /* event: its sync has ended, or it may go */
	} groups[2];
	uint32_t last_members; /* of the group that ended last */
	uint64_t began;        /* when the last sync began */
	uint64_t sync_ns;      /* how long a sync takes: a moving average, or 0 */
	uint64_t wait_until;   /* when the open group goes without those that it waits for */
	/* How many groups do not wait for members, and how many after the next vain wait. */
	uint32_t skip, penalty;
};

/* Errors: FUR_ENOMEM. */
int group_init(struct group_commit *g, int fd);
void group_fini(struct group_commit *g);

/* group_write - write bytes to the file now.  The next group that the thread joins makes them
 * durable.  Errors: FUR_EIO, then and for ever after. */
int group_write(struct group_commit *g, uint64_t offset, const void *from, uint64_t bytes);

/* group_start - write the request to the file now, and have the kernel begin to write it to the
 * disk.  group_sync() of the same request waits for it.  For a thread that then does the same with
 * another file: both disks work at the same time.  Errors: group_sync() returns them. */
void group_start(struct group_commit *g, struct group_request *r);

/* group_sync - make the request durable, together with those of other threads.
 * Durable: on return, if it is 0.  Errors: FUR_EIO, then and for ever after. */
int group_sync(struct group_commit *g, struct group_request *r);

#endif /* FUR_GROUP_H */
