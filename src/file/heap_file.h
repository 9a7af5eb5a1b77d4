/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_file.h - the heap file and its mappings.  The contract of src/file.
 *
 *   INV-F1  libfur does not write to a file that it refuses.
 *   INV-F2  The heap is mapped copy-on-write: stores of a running program reach the file only
 *           through the log and replay.
 *   INV-F3  From the moment it has its name, a heap file is complete, and all its blocks are
 *           allocated.
 *   INV-F4  The file records durably that the heap is open, before the first commit.  Otherwise the
 *           next process would take a power failure for a clean close, and skip recovery.
 */
#ifndef FUR_HEAP_FILE_H
#define FUR_HEAP_FILE_H

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
	/* The heap, mapped copy-on-write at its address, after heap_map() */
	uint8_t *base;
	uint64_t mapped_bytes; /* of that mapping; 0: there is none */
	/* The temporary name of a new file, until heap_name_file(); only on a file system that
	 * cannot make files without a name */
	char *temporary;
};

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

/* -------------------------------------------- opening and mapping (heap_file.c) */

/* Open a file, check it, lock it, and map it shared.  If it is locked, fill its holes first.
 * Errors as fur_open(). */
FUR_MUST_USE int heap_open_file(const char *path, enum heap_lock lock, struct heap_file *file);

/* Map the heap copy-on-write at its address, if it is not mapped.  Writes nothing.
 * Errors: FUR_EADDRESS, FUR_ESYS. */
FUR_MUST_USE int heap_map(struct heap_file *file);

/* Prefault the heap's private pages, and the ring. */
void heap_populate(const struct heap_file *file);

void heap_close_file(struct heap_file *file);

/* --------------------------------------------------------- checking (super.c) */

/* The first bytes of a file, and how long it is.  Only reads.   Errors: FUR_ENOTHEAP, FUR_ESYS. */
FUR_MUST_USE int heap_read_super(int fd, struct media_super *super, uint64_t *file_bytes);

/* Does the superblock describe a file of this length?  Each number is checked, so that nothing
 * later reads outside the mapping.   Errors: FUR_ENOTHEAP, FUR_EVERSION, FUR_ECORRUPT. */
FUR_MUST_USE int heap_check_super(const struct media_super *super, uint64_t file_bytes);

/* The tail of the log, from its two copies.   Errors: FUR_ECORRUPT. */
FUR_MUST_USE int heap_tail(const struct heap_file *file, uint64_t *tail);

#endif /* FUR_HEAP_FILE_H */
