/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap.h - the heap file, its mappings, and the transactional allocator.  The contract of src/heap.
 *
 *   INV-F1  A file that is refused is not written to.
 *   INV-F2  The heap is mapped copy-on-write: no store of a running program reaches the file but
 *           through the log and replay.
 *   INV-F3  A heap file is whole from the moment it has its name, and allocated whole.
 *   INV-F4  The file says that the heap is open, durably, before the first commit.  Otherwise the
 *           next process would take a power failure for a clean close, and skip recovery.
 */
#ifndef FUR_HEAP_H
#define FUR_HEAP_H

#include "../durability/control.h"
#include "../durability/media.h"
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

/* ------------------------------------------------------- allocator (alloc.c) */

/* Write the first contents of a heap of `bytes` bytes for `threads` threads to `image`, which is
 * all zero. */
void alloc_format(void *image, uint64_t bytes, uint32_t threads);
uint64_t alloc_least_bytes(uint32_t threads);

/* A heap whose header says that it is of the old form: what its first word must be from now on, for
 * updates leave parts of the new form in it that an older library takes for damage or, worse, for
 * its own.  0: nothing to change. */
uint64_t alloc_new_magic(const void *image);

/* fur_alloc, fur_free, fur_usable_bytes for the heap at `base`, by the thread in `slot`.
 * alloc_block returns NULL if the update has failed, before or here.  alloc_free says false for a
 * block that is certainly not allocated. */
void *alloc_block(fur_update *tx, void *base, uint32_t slot, uint64_t bytes);
FUR_MUST_USE bool alloc_free(fur_update *tx, void *base, uint32_t slot, void *block);
uint64_t alloc_usable_bytes(const void *base, const void *block);
uint64_t *alloc_roots(void *base);

/* Do the heap's first words say what the superblock says?   Errors: FUR_ECORRUPT. */
FUR_MUST_USE int alloc_check_header(const void *base, uint64_t bytes, uint32_t threads);

/* A check of all the allocator's structures; counts what is in use.  No transaction may be running.
 * Errors: FUR_ECORRUPT, with what is wrong; FUR_ENOMEM. */
struct alloc_census {
	uint64_t blocks, block_bytes; /* allocated, large ones included */
	uint64_t free_blocks;         /* small blocks on free lists, or carved off for a thread */
	uint64_t chunks, free_chunks;
};
FUR_MUST_USE int alloc_check(const void *base, struct alloc_census *census);

/* The same, and tell() for each problem, up to so many.   Errors: FUR_ECORRUPT, FUR_ENOMEM. */
enum { ALLOC_MOST_PROBLEMS = 100 };
FUR_MUST_USE int alloc_check_all(const void *base, struct alloc_census *census,
        void (*tell)(void *arg, const char *problem), void *arg);

#endif /* FUR_HEAP_H */
