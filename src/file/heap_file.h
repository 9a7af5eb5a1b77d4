/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_file.h - the heap file and its mappings.  The contract of src/file.
 *
 *   INV-F1  A file that is refused is not written to.
 *   INV-F2  The heap is mapped copy-on-write: no store of a running program reaches the file but
 *           through the log and replay.
 *   INV-F3  A heap file is whole from the moment it has its name, and allocated whole.
 *   INV-F4  The file says that the heap is open, durably, before the first commit.  Otherwise the
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
	/* The shared mapping is persistent memory, flushed from user space */
	bool dax;
	struct media_super *super; /* the whole file, mapped shared */
	/* Its superblock, checked: other processes may change the mapping */
	struct media_super geometry;
	uint64_t file_bytes; /* of that mapping: as many as the superblock says */
	/* The heap, mapped copy-on-write at its address, from heap_map() on */
	uint8_t *base;
	uint64_t mapped_bytes; /* of that mapping; 0: there is none */
	/* A new file's name before heap_name_file(), where all files have one */
	char *temporary;
};

/* Make a file without a name: whole, closed, durable, with the worker's lock held, and mapped both
 * ways.  Errors: FUR_EEXIST, FUR_EINVAL, FUR_ENOSPC, FUR_EADDRESS, FUR_ESYS. */
FUR_MUST_USE int heap_create_file(
        const char *path, const struct fur_options *options, struct heap_file *file);

/* Give it its name, durably, as the last step: it exists whole, or not at all (INV-F3), and is
 * locked from before it has the name, so that no other process has opened what a failure removes.
 * Errors: FUR_EEXIST, FUR_ENOSPC, FUR_ESYS. */
FUR_MUST_USE int heap_name_file(struct heap_file *file, const char *path);

/* Take a byte's lock, or say who has it.   Errors: FUR_EBUSY, FUR_ESYS. */
FUR_MUST_USE int heap_lock_file(int fd, enum heap_lock byte);

/* Open, check and lock it; fill its holes, if it is locked; map it shared.   Errors as
 * fur_open(). */
FUR_MUST_USE int heap_open_file(const char *path, enum heap_lock lock, struct heap_file *file);

/* The first bytes of a file, and how long it is.  Only reads.   Errors: FUR_ENOTHEAP, FUR_ESYS. */
FUR_MUST_USE int heap_read_super(int fd, struct media_super *super, uint64_t *file_bytes);

/* Does the superblock describe a file of this length?  Each number is checked, so that nothing
 * later reads outside the mapping.  Errors: FUR_ENOTHEAP, FUR_EVERSION, FUR_ECORRUPT. */
FUR_MUST_USE int heap_check_super(const struct media_super *super, uint64_t file_bytes);

/* Map the heap copy-on-write at its address, if it is not.  Writes nothing.   Errors: FUR_EADDRESS,
 * FUR_ESYS. */
FUR_MUST_USE int heap_map(struct heap_file *file);

/* Prefault the heap's private pages, and the ring. */
void heap_populate(const struct heap_file *file);

void heap_close_file(struct heap_file *file);

/* The tail of the log, from its two copies.   Errors: FUR_ECORRUPT. */
FUR_MUST_USE int heap_tail(const struct heap_file *file, uint64_t *tail);

#endif /* FUR_HEAP_FILE_H */
