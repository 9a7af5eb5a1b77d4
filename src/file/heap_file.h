/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_file.h - the heap file and its mappings.  With locks.h it is the contract of src/file: the
 * heap file, its mappings, and the locks on it.
 *
 *   INV-F1  libfur does not write to a file that it refuses.
 *   INV-F2  The heap is mapped copy-on-write: stores of a running program reach the file only
 *           through the log and replay.
 *   INV-F3  From the moment it has its name, a heap file is complete, and has blocks for
 *           everything but the logs that no thread has used, and the heap above its size now.
 *   INV-F4  The file records durably that the heap is open, before the first commit.  Otherwise the
 *           next process would take a power failure for a clean close, and skip recovery.
 *   INV-F5  The heap's size now, in the superblock, moves after the blocks below it are allocated,
 *           durably, and before an update stores above the old size.  In the same way the
 *           superblock's number of logs moves after a log has its blocks, and before a thread
 *           writes to it.  So no store meets a hole, which might end the process on a full disk.
 */
#ifndef FUR_HEAP_FILE_H
#define FUR_HEAP_FILE_H

#include "base/error.h"
#include "file/locks.h"
#include "media/control_region.h"
#include "media/media.h"
#include <fur.h>

struct heap_file {
	int fd;
	/* The shared mapping is persistent memory, which libfur flushes from user space */
	bool dax;
	struct media_super *super; /* the whole file, mapped shared */
	/* Its superblock, checked; a copy, since other processes may change the mapping */
	struct media_super geometry;
	uint64_t file_bytes; /* of that mapping: the superblock's number */
	bool in_memory;      /* a copy in memory (memory_copy.c) */
	/* A store to the mapping may need another block: on a full disk it ends the process */
	bool copied_on_write;
	/* The heap, mapped copy-on-write at its address, after heap_map() */
	uint8_t *base;
	uint64_t mapped_bytes; /* of that mapping; 0: there is none */
	/* Where libfur stores to the heap: `base`, or a second mapping (heap_map_twice()) */
	uint8_t *writable;
	/* The temporary name of a new file, until heap_name_file(); only on a file system that
	 * cannot make files without a name */
	char *temporary;
	/* For messages; NULL: not known */
	char *path;
};

static inline const char *heap_path(const struct heap_file *file)
{
	return file && file->path ? file->path : "the heap file";
}
/* For a caller that has several heaps: put the file's name before the message of a failure.
 * Returns `error`. */
static inline int heap_name_failure(const struct heap_file *file, int error)
{
	return error ? fur_fail_at(error, heap_path(file)) : 0;
}

/* ------------------------------------------------------------ making (create.c) */

/* Make a file without a name: complete, in the state "closed", durable, with the worker's lock
 * held, and mapped both ways.
 * Errors: FUR_EEXIST, FUR_EINVAL, FUR_ENOSPC, FUR_EADDRESS, FUR_EBUSY, FUR_ENOMEM, FUR_ESYS. */
FUR_MUST_USE int heap_create_file(
        const char *path, const struct fur_options *options, struct heap_file *file);

/* Name the file, durably, as the last step: so it exists complete, or not at all (INV-F3).  If this
 * fails, it removes the name.  No other process can have opened the file, because it was locked
 * before it had a name.  Errors: FUR_EEXIST, FUR_ENOSPC, FUR_ESYS. */
FUR_MUST_USE int heap_name_file(struct heap_file *file, const char *path);

/* Make a file without a name for a copy of the heap of `original`, with the same geometry and mode:
 * all blocks allocated and zero, with the worker's lock held, and mapped shared.
 * Errors: FUR_EEXIST, FUR_ENOSPC, FUR_EBUSY, FUR_ENOMEM, FUR_ESYS. */
FUR_MUST_USE int heap_create_copy(
        const char *path, const struct heap_file *original, struct heap_file *copy);

/* Name the copy, as heap_name_file(). */
FUR_MUST_USE int heap_name_copy(struct heap_file *copy, const char *path);

/* Make a file in memory for a copy of the heap of `original`, with the same geometry and mode: all
 * zero, not locked, and mapped shared (memory_copy.c).  It takes memory only where it is written.
 * Errors: FUR_ENOSPC (RLIMIT_FSIZE), FUR_ENOMEM, FUR_ESYS. */
FUR_MUST_USE int heap_create_memory_copy(const struct heap_file *original, struct heap_file *copy);
/* Take the memory that the copy will need as the original is now.
 * Errors: FUR_ENOMEM, FUR_ESYS. */
FUR_MUST_USE int heap_fill_memory_copy(
        const struct heap_file *original, const struct heap_file *copy);
/* For fur-resize.  Make a file without a name for the closed heap of `original`, with other
 * sizes; 0: as they are.  heap_bytes: the size that the heap has now, and from which it can grow
 * to max_bytes.  The caller makes the heap's tables long enough for max_bytes (heap_widen).  All
 * blocks are allocated and zero; with the worker's lock held, and mapped shared.
 * Errors: FUR_EINVAL, FUR_ENOSPC, FUR_EBUSY, FUR_ESYS. */
struct heap_sizes {
	uint64_t heap_bytes, max_bytes, log_bytes, ring_slots;
	uint32_t max_threads;
};
FUR_MUST_USE int heap_create_resized(const char *path, const struct heap_file *original,
        const struct heap_sizes *sizes, struct heap_file *file);
/* The largest heap for which there are addresses where this one lies. */
uint64_t heap_most_bytes(const struct media_super *s);
/* Write the superblock, and make the file durable.  Errors: FUR_ENOSPC, FUR_ESYS. */
FUR_MUST_USE int heap_finish_resized(struct heap_file *file);
/* Give the file the name of the heap that it replaces, durably, if the name still leads to that.
 * Errors: FUR_EINVAL, FUR_EBUSY, FUR_ENOSPC, FUR_ESYS. */
FUR_MUST_USE int heap_replace(
        struct heap_file *file, const struct heap_file *original, const char *path);

/* ------------------------------------------------------- shipping (ship_page.c) */

/* Read the ship page (media/ship_page.h), as media_ship_read().   Errors: FUR_ECORRUPT. */
struct media_ship;
FUR_MUST_USE int heap_read_ship_page(
        const struct media_super *super, const struct media_super *words, struct media_ship *ship);

/* May the heap get this role (enum media_role)?  Errors: FUR_EVERSION, FUR_EBUSY, FUR_EINVAL, as
 * heap_write_ship_page(). */
FUR_MUST_USE int heap_check_role(const struct heap_file *file, uint32_t role);

/* Write the ship page, durably; completes sequence and checksum.  The caller
 * has the worker's lock, or ships for the worker.  The first page makes the file one that older
 * libraries refuse.  Sets file->geometry.
 * Errors: FUR_EVERSION (version 1); FUR_EBUSY: the role changes, and the heap is not closed;
 *         FUR_EINVAL: the ring is too short for its threads; FUR_ENOSPC, FUR_ESYS. */
FUR_MUST_USE int heap_write_ship_page(struct heap_file *file, struct media_ship *ship);

/* The same, of an open standby that becomes a primary: its image has all that it has applied, and
 * nothing applies more (ship/promote.h). */
FUR_MUST_USE int heap_write_promotion(struct heap_file *file, struct media_ship *ship);

/* -------------------------------------------- membership in a group (member.c) */

/* May the heap become a member of a group?  `file` is open.
 * Errors: FUR_EVERSION (version 1); FUR_EINVAL: it is shipped or follows, or its ring is too long;
 * FUR_EBUSY: it was not closed; FUR_ECORRUPT. */
FUR_MUST_USE int heap_may_join(const struct heap_file *file);

/* Make the heap a member, durably: its superblock changes in one piece.  The caller has the
 * worker's lock, and heap_may_join() has returned 0; or the file has no name yet.  Sets
 * file->geometry.
 * Errors: FUR_ENOSPC, FUR_ESYS: the heap is as it was. */
struct heap_membership {
	uint8_t group[16];
	uint32_t members, member; /* of media_more */
};
FUR_MUST_USE int heap_join(struct heap_file *file, const struct heap_membership *m);
/* The reverse.  Its log names no other member, and no other's log names it. */
FUR_MUST_USE int heap_leave(struct heap_file *file);

/* -------------------------------------------- opening and mapping (heap_file.c) */

/* Open a file, check it, lock it, and map it shared.  If it is locked, fill its holes first.
 * Errors as fur_open(). */
FUR_MUST_USE int heap_open_file(const char *path, enum heap_lock lock, struct heap_file *file);

/* heap_open_file() of a file that is open already, for reading and writing.  It belongs to `file`
 * even after an error; `path` is for messages.  Errors as fur_open(). */
FUR_MUST_USE int heap_take_file(
        int fd, const char *path, enum heap_lock lock, struct heap_file *file);
/* Set the message for a failed open().  Returns FUR_ENOENT or FUR_ESYS. */
int heap_open_failed(int error);

/* Map the heap copy-on-write at its address, if it is not mapped.  Writes nothing.
 * Errors: FUR_EADDRESS, FUR_ESYS. */
FUR_MUST_USE int heap_map(struct heap_file *file);

/* In a heap that grows: let this process store to the parts of the mapping that a heap of `now`
 * bytes uses.  The rest can only be read: where the kernel limits private memory that can be
 * written (RLIMIT_DATA, vm.overcommit_memory=2), it counts also what is never stored to.
 * Errors: FUR_ESYS. */
FUR_MUST_USE int heap_let_store(const struct heap_file *file, uint64_t now);

/* For FUR_DEBUG=plain-stores (double_map.c): replace the mapping by one of a copy in memory without
 * the right to write, and map the copy's pages a second time, writable.  After recovery, while no
 * thread uses the heap.  A child of fork() has the first mapping only.
 * Errors: FUR_ENOSPC (RLIMIT_FSIZE), FUR_ENOMEM, FUR_ESYS. */
FUR_MUST_USE int heap_map_twice(struct heap_file *file);
/* In a child of fork(): it does not have the second mapping. */
void heap_forget_writable(struct heap_file *file);

/* In a heap that grows: tell the kernel that it need not read ahead in the part of the mappings
 * that the allocator does not use yet, because there is nothing to read.  Otherwise the first store
 * there waits while the kernel clears a few MiB of pages, which took up to 100 ms on ext4. */
void heap_advise_growth(const struct heap_file *file);

/* Prefault the heap's private pages, and the ring. */
void heap_populate(const struct heap_file *file);

void heap_close_file(struct heap_file *file);

/* ------------------------------------------------------------- blocks (room.c) */

/* Allocate the blocks of a thread's log; of the heap, from the size `now` to the size `to`.  If
 * they fail, the heap is as it was.  For the record of the new size see durability/size.c.
 * Errors: FUR_ENOSPC, FUR_ESYS. */
FUR_MUST_USE int heap_allocate_log(
        int fd, const char *path, const struct media_super *s, uint32_t thread);
FUR_MUST_USE int heap_allocate_more(
        int fd, const char *path, const struct media_super *s, uint64_t now, uint64_t to);

/* --------------------------------------------------------- checking (super.c) */

/* The first bytes of a file, and how long it is.  Only reads.   Errors: FUR_ENOTHEAP, FUR_ESYS. */
FUR_MUST_USE int heap_read_super(int fd, struct media_super *super, uint64_t *file_bytes);

/* Does the superblock describe a file of this length?  Each number is checked, so that nothing
 * later reads outside the mapping.   Errors: FUR_ENOTHEAP, FUR_EVERSION, FUR_ECORRUPT. */
FUR_MUST_USE int heap_check_super(const struct media_super *super, uint64_t file_bytes);

/* The tail of the log, from its two copies.   Errors: FUR_ECORRUPT. */
FUR_MUST_USE int heap_tail(const struct heap_file *file, uint64_t *tail);

#endif /* FUR_HEAP_FILE_H */
