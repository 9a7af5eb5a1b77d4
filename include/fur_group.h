/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_group.h - one update over several heaps: atomic, durable and isolated (docs/groups.md).
 *
 * A *group* is a text file that lists heap files, its *members*.  A member is an ordinary heap:
 * every function of libfur works on it, and updates of one member alone cost what they cost in any
 * heap.  Programs that need a heap for each tenant, shard or disk use a group where they also need
 * an update over two of them.
 *
 *     fur_group *bank;
 *     fur_group_thread *self;
 *     fur_group_open("bank.group", NULL, &bank);
 *     fur_group_register(bank, &self);
 *     fur_group_run(self, (const unsigned[]){from, to}, 2, transfer, &order, NULL);
 */
#ifndef FUR_GROUP_API_H
#define FUR_GROUP_API_H

#include <fur.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fur_group fur_group;
typedef struct fur_group_thread fur_group_thread; /* one thread's registration with one group */
typedef struct fur_group_update fur_group_update; /* an open update over several members */
typedef struct fur_group_reader fur_group_reader; /* an open optimistic reader of several members */

enum {
	FUR_GROUP_MOST_MEMBERS = 256, /* of a group */
	FUR_GROUP_MOST_PARTS = 16,    /* members that one transaction may touch */
	/* A heap cannot be recovered without other members of its group: the message names the
	 * group, the member that is missing, older or damaged, and the first update that needs
	 * it */
	FUR_EGROUP = -27
};

/* ------------------------------------------------------------------- groups */

/* Options for fur_group_create() and fur_group_open().  Zero means the default. */
struct fur_group_options {
	size_t size; /* sizeof(struct fur_group_options): "Structs that grow" in fur.h */
	/* Fixed when the group is made: how many members it can have; default 64, at most
	 * FUR_GROUP_MOST_MEMBERS */
	uint32_t most_members;
	/* Open the group although members are missing, if no update in the logs of the others needs
	 * them; default false: FUR_ENOENT */
	bool partial;
	/* For each member that is opened, as fur_open() takes them; NULL: all defaults */
	const struct fur_options *heap;
	/* Threads of libfur's own that run what fur_group_submit() gets; default 2, at most 16.
	 * They begin with its first call, and count towards max_threads of the members they touch.
	 * With more than one, a batch runs while others become durable */
	uint32_t workers;
	/* Parts in a batch; default 1024, at most 65536 */
	uint32_t batch_parts;
	/* How long a batch waits for more than there is, in microseconds; default 0, at most a
	 * million */
	uint32_t batch_us;
	uint32_t reserved; /* 0 */
};

/* fur_group_create - make the file of a group without members, and open it.
 * Durable: before return, the file and its name.
 * Errors:  FUR_EINVAL; FUR_EEXIST; FUR_ENOMEM; FUR_ESYS.  *group is NULL then. */
FUR_API FUR_MUST_USE int fur_group_create(
        const char *path, const struct fur_group_options *options_or_null, fur_group **group);

/* fur_group_open - open the group and all its members, and recover those that were not closed:
 * together, so that an update over several of them survives in all, or in none.  Paths in the file
 * are relative to its directory.
 * A second failure during the recovery loses nothing: the next call starts again.
 * Errors:  those of fur_open(), for the member that the message names.  FUR_ENOENT: a member is
 *          missing (fur_group_options.partial).  FUR_EGROUP: a member is older than another has
 *          seen it, as after it was restored from a copy; or with `partial` one that is there needs
 *          one that is not.  No member has changed then.  FUR_ECORRUPT: the group's file, or a
 *          member; FUR_EVERSION.  *group is NULL then. */
FUR_API FUR_MUST_USE int fur_group_open(
        const char *path, const struct fur_group_options *options_or_null, fur_group **group);

/* fur_group_close - close all members.  End every transaction, and unregister every thread, before.
 * What was submitted is completed first, also if the call then fails; unless this thread has a
 * transaction open on a member, for which a batch may wait.
 * Durable: before return, all updates of all members.
 * Errors:  FUR_EBUSY: a thread is registered with the group or with a member; those of fur_close(),
 *          after which the group is closed nevertheless; FUR_EFORK. */
FUR_API int fur_group_close(fur_group *group);

/* fur_group_add - make a heap a member.  With `create` it is a new one; otherwise it is a heap that
 * is closed, and no member of another group.  Its index is *member, and never another's.
 * Durable: before return.
 * Errors:  FUR_EINVAL; FUR_ENOSPC: most_members have joined; FUR_EBUSY: it is open; FUR_EGROUP: it
 *          belongs to another group, or is a copy of a member; FUR_EVERSION: its file is of version
 *          1; those of fur_create() and fur_open(). */
FUR_API FUR_MUST_USE int fur_group_add(fur_group *group, const char *heap_path,
        const struct fur_options *create_or_null, unsigned *member);

/* fur_group_remove - close a member, and take it out of the group: it is a heap like any other
 * then.  Before, libfur replays all members, so that no log names it.
 * Durable: before return.
 * Errors:  FUR_EINVAL: no such member; FUR_EBUSY: a thread is registered with it, or
 *          its close has failed: close the group and open it again; FUR_ENESTED; those of
 *          fur_close().  The call may be made again; meanwhile the member may be closed. */
FUR_API FUR_MUST_USE int fur_group_remove(fur_group *group, unsigned member);

/* fur_group_heap - the member, open, for every function that takes a fur_heap * but fur_close(),
 * which fails with FUR_EBUSY.
 * Returns: NULL if there is no such member, or if it is missing (fur_group_options.partial). */
FUR_API fur_heap *fur_group_heap(const fur_group *group, unsigned member);

/* fur_group_members - one more than the greatest index of a member. */
FUR_API unsigned fur_group_members(const fur_group *group);

/* fur_group_backup - copy all members to the directory, with a group file that has the name of this
 * one's.  An update over several members is in the copies of all, or of none; that of a member has
 * every update that was durable in it before the call, and may have later ones of that member
 * alone.  Updates go on meanwhile; only those over several members wait, at the end, while libfur
 * replays the rest.  The copies are a group of its own, with the same indices.  libfur makes the
 * directory if it does not exist.
 * Durable: before return.
 * Errors:  FUR_EINVAL; FUR_EEXIST: there is a file with the name of a copy; FUR_ENOENT: a member is
 *          missing; those of fur_backup().  The copies that were made remain, without a group file.
 */
FUR_API FUR_MUST_USE int fur_group_backup(fur_group *group, const char *directory);

/* ------------------------------------------------------------------ threads */

/* fur_group_register - register the calling thread with the group.  It registers with a member when
 * it first touches that one, and counts towards the member's max_threads then.
 * Errors: FUR_EINVAL; FUR_ENOMEM; FUR_EFORK.  *thread is NULL then. */
FUR_API FUR_MUST_USE int fur_group_register(fur_group *group, fur_group_thread **thread);

/* fur_group_unregister - end the registration, and those with members.
 * Errors: FUR_EINVAL for NULL; FUR_ENESTED inside a transaction; FUR_EFORK. */
FUR_API int fur_group_unregister(fur_group_thread *thread);

/* fur_group_thread_of - the thread's registration with one member, for transactions of that member
 * alone.
 * Errors: those of fur_thread_register(); FUR_ENOENT: the member is missing; FUR_EINVAL: there is
 *         no such member, or it leaves.  *thread is NULL then.
 */
FUR_API FUR_MUST_USE int fur_group_thread_of(
        fur_group_thread *group_thread, unsigned member, fur_thread **thread);

/* -------------------------------------------------- updates over several heaps */

/* fur_group_run - run body(update, arg) as one update over `n` members, in any order, and commit
 * it.
 * The body may run again, and keeps the rules of fur_update_run().  It works on a member through
 * fur_group_on(), and may leave members untouched.  While it runs, its loads are of one state of
 * all these members.  After 64 runs in vain it runs once more, and nothing else publishes in these
 * members meanwhile.
 * Inside the body, a begin on a heap that is not among `members` fails with FUR_ENESTED; so does
 * fur_join_ro() on one that is.
 * `how` may be NULL.  how->ticket must be: an update over several members waits.
 * Visible:  in all members at once to transactions over several of them; in each member atomically.
 *           A transaction of one member may see it there before one of another member does there,
 *           but one that begins after the first has ended finds it.
 * Durable:  before return, in all members, with everything it read in any of them.  A transaction
 *           of one member that has read from it returns only when that is so.
 * Crash:    before return, in all members or in none; after return, in all.
 * Latency:  that of the slowest member that it stores to.
 * Errors:   FUR_EINVAL: no member, more than FUR_GROUP_MOST_PARTS, one named twice, or how->ticket;
 *           FUR_ENOENT: one is missing; FUR_ENESTED; those of fur_update_run(), of whichever
 *           member: all are rolled back then.  FUR_EIO, or the code for which a member has failed:
 *           the update is visible, but may not survive; every other member that has a part of it
 *           has failed as well. */
FUR_API FUR_MUST_USE int fur_group_run(fur_group_thread *thread, const unsigned *members,
        unsigned n, void (*body)(fur_group_update *update, void *arg), void *arg,
        const struct fur_run *how);

/* fur_group_on - the update in one member, for fur_load(), fur_store(), fur_alloc() and the other
 * functions that take a fur_update *, but not for fur_commit() and fur_abort(), which fail with
 * FUR_ENESTED.  A pointer into one member may be stored in another; it means what it says while
 * both are mapped where they are.
 * Returns: NULL for a member that the update does not name. */
FUR_API fur_update *fur_group_on(fur_group_update *update, unsigned member);

/* fur_group_abort - roll the update back in all members.  The body must then return;
 * fur_group_run() returns FUR_EABORTED.
 * Errors: FUR_ENOTX: no update is open; FUR_EFORK. */
FUR_API int fur_group_abort(fur_group_update *update);

/* -------------------------------------------------- readers of several heaps */

/* fur_group_read_run - run body(reader, arg) as an optimistic read-only transaction over `n`
 * members.  The body keeps the rules of fur_read_run(), and reads a member through
 * fur_group_reads().  All that one run loads is of one state of all these members.  After three
 * runs in vain it runs as a plain reader of all of them, for which their updates wait.
 * `how` may be NULL.  how->ticket must be.
 * Durable: everything it read in any member, before return.
 * Errors:  as fur_group_run() for `members` and `how`; those of fur_read_run(). */
FUR_API FUR_MUST_USE int fur_group_read_run(fur_group_thread *thread, const unsigned *members,
        unsigned n, void (*body)(fur_group_reader *reader, void *arg), void *arg,
        const struct fur_run *how);

/* fur_group_reads - the reader in one member.
 * Returns: NULL for a member that it does not name. */
FUR_API fur_reader *fur_group_reads(fur_group_reader *reader, unsigned member);

/* ------------------------------------------------ snapshots of several heaps */

/* fur_group_snapshot - a snapshot of each of `n` members, all of one instant: of an update over
 * several members they show all, or nothing.  snapshots[k] is that of members[k], an ordinary
 * snapshot: read it with fur_snapshot_run(), by any thread that is registered with the member, and
 * end each with fur_snapshot_end().
 * Durable: all that they show, before return.
 * Errors:  as fur_group_run() for `members`; those of fur_snapshot_begin(), of whichever member.
 *          No snapshot is open then, and snapshots[] is all NULL. */
FUR_API FUR_MUST_USE int fur_group_snapshot(
        fur_group_thread *thread, const unsigned *members, unsigned n, fur_snapshot **snapshots);

/* ----------------------------------------------- batches of transactions */

/* fur_group_procedure - one part of a transaction: loads and stores in one member.  libfur calls it
 * in a thread of its own, inside an update over several members, which keeps other updates of these
 * members waiting until the batch has run.  It may run more than once; only its last run counts.
 * So it changes nothing but the heap, by `update`, and its result; it is brief, begins no
 * transaction, and returns: it neither forks nor leaves by longjmp(), an exception, or
 * pthread_exit().
 * `params`: the copy of the part's.  `before`: the result of the part that it comes after, or NULL.
 * `result`: result_bytes bytes, all zero.  Both are aligned to 16 bytes.
 * Returns: false: the part refuses (fur_part.after); the transaction does nothing. */
typedef bool fur_group_procedure(fur_update *update, fur_heap *heap, const void *params,
        size_t params_bytes, const void *before, void *result);

#define FUR_NO_PART UINT32_MAX

/* One part of a transaction. */
struct fur_part {
	unsigned member;
	uint32_t after; /* FUR_NO_PART, or an earlier part; of the first part FUR_NO_PART, or 0 */
	fur_group_procedure *procedure;
	const void *params; /* params_bytes bytes, which fur_group_submit() copies */
	uint32_t params_bytes;
	uint32_t result_bytes;
	/* Where fur_group_wait() puts result_bytes bytes, if the transaction is done; or NULL */
	void *result;
};

typedef struct fur_submitted fur_submitted; /* a transaction that fur_group_submit() has taken */

/* fur_group_submit - let libfur run a transaction of `n` parts, in members of at most
 * FUR_GROUP_MOST_PARTS: by any thread, registered or not, that has no transaction open.
 * libfur runs transactions in batches.  Each batch is one update over its members, so all its
 * transactions share one record, one marker and one flush in each.
 * Only the first part may refuse, and only if each other part comes `after` one.  Whether a part
 * refuses is decided on the state that its transaction finds.
 * *submitted, unless it is NULL, is for fur_group_wait(), which must follow; without it, no one
 * learns of the result.
 * Order:    that of the calls, in all members: a transaction finds what each earlier one has done.
 *           Calls that overlap are in some order, the same in all members.  Other updates of the
 *           members come between batches.  The parts of a transaction run in their order.
 * Visible:  with the other transactions of its batch, as fur_group_run().
 * Durable:  when fur_group_wait() returns; not before.
 * Crash:    each transaction that was not waited for is in all its members, or in none.  If one is,
 *           so are all of its batch, and all that they have read.
 * Errors:   FUR_EINVAL: wrong parts; FUR_ENOENT: a member is missing; FUR_ENESTED; FUR_ENOMEM;
 *           FUR_ESYS: no thread; the code for which a member has failed; FUR_EFORK.  *submitted is
 *           NULL then, and nothing runs. */
FUR_API FUR_MUST_USE int fur_group_submit(fur_group *group, const struct fur_part *parts,
        unsigned n, fur_submitted **submitted_or_null);

/* fur_group_wait - wait for the transaction, copy its results, and forget it: call it once, by any
 * thread that has no transaction open.  fur_group_close() completes what was submitted; the wait
 * may come after it.
 * Durable: before return, as after fur_group_run(); also a refusal waits for all that it has read.
 * Errors:  FUR_EABORTED: a part has refused; or what made this transaction fail: FUR_EINVAL: a part
 *          refused that may not; FUR_ETOOBIG: it fills a member's log by itself; those of
 *          fur_update_run().  It does nothing in any member then, and the others of its batch go
 *          on.  FUR_EIO, or the code for which a member has failed: as fur_group_run().
 *          FUR_EINVAL for NULL; FUR_ENESTED and FUR_EFORK: it was not waited for. */
FUR_API FUR_MUST_USE int fur_group_wait(fur_submitted *submitted);

#ifdef __cplusplus
}
#endif

#endif /* FUR_GROUP_API_H */
