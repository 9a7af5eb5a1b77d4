/* SPDX-License-Identifier: BSD-3-Clause
 *
 * file_parts.h - parts that only the files of src/file share: the bounds of a heap file's numbers,
 * and the steps common to creating and opening.
 */
#ifndef FUR_FILE_PARTS_H
#define FUR_FILE_PARTS_H

#include "file/heap_file.h"

#include <sys/mman.h>
#include <sys/stat.h>

/* ------------------------------------------------------------------ bounds */

enum { FILE_MOST_THREADS = 1024, FILE_LEAST_LOG_BYTES = 4096, FILE_LEAST_RING_SLOTS = 64 };
#define FILE_MOST_HEAP_BYTES (UINT64_C(1) << 47)

/* Where a heap may be mapped.  Below 4 GiB lie page 0, programs linked at a fixed address with
 * their data and brk(2), and all mappings for 32-bit pointers.  A heap there would hide null
 * pointers, or find its place taken every time.  The end is the end of the address space that Linux
 * gives a process on x86-64 and on POWER, less a page; on aarch64 it gives more, or, with some
 * kernels, less (heap_map()). */
#define FILE_LEAST_ADDRESS (UINT64_C(4) << 30)
#define FILE_ADDRESSES_END ((UINT64_C(1) << 47) - MEDIA_PAGE_BYTES)

static inline bool power_of_two(uint64_t n)
{
	return n && (n & (n - 1)) == 0;
}

static inline bool address_fits(uint64_t address, uint64_t heap_bytes)
{
	return address % MEDIA_PAGE_BYTES == 0 && address >= FILE_LEAST_ADDRESS &&
	       heap_bytes <= FILE_ADDRESSES_END && address <= FILE_ADDRESSES_END - heap_bytes;
}

/* How a file that is not on DAX is mapped.  A file's pages need no reserve, and Linux makes none:
 * MAP_NORESERVE is for qemu-user, which maps anonymous memory of the same size first, and fails
 * where the length that a heap may grow to is more than the machine's memory. */
enum { FILE_SHARED = MAP_SHARED | MAP_NORESERVE };

/* --------------------------------------------------------- superblock (super.c) */

/* fstat(2).   Errors: FUR_ESYS. */
FUR_MUST_USE int file_stat(int fd, struct stat *st);

/* Write to the file of a closed heap, durably.  `part` names what is written, for the message.
 * Errors: FUR_ENOSPC, FUR_ESYS; the heap is as it was. */
FUR_MUST_USE int file_write_durably(const struct heap_file *file, const char *part,
        const void *from, size_t bytes, uint64_t offset);

/* --------------------------------------------------------------- name (create.c) */

/* Make a file's name durable: it is when its directory is.   Errors: FUR_ENOSPC, FUR_ESYS. */
FUR_MUST_USE int file_sync_name(int fd, const char *path, const char *outcome);

/* ------------------------------------------------- what belongs to it (attributes.c) */

/* Give the new file `to` what belongs to the file `from`, which it is to replace: owner, group,
 * mode, access control list, labels and other extended attributes.   Errors: FUR_ESYS. */
FUR_MUST_USE int file_keep_attributes(int from, int to);

/* Give a copy the mode of its original, without what would let others read it who may not read the
 * original.   Errors: FUR_ESYS. */
FUR_MUST_USE int file_set_copy_mode(int from, int to);

/* ------------------------------------------------------------- blocks (room.c) */

/* The parts of a file that have blocks: superblock to ring, the logs in use, the heap as far as it
 * has grown, and the trailer.  They are in order, and may touch.  `s` is checked; `words` has the
 * words that change.  Returns: how many. */
enum { FILE_PARTS_MOST = 5 };
struct file_part {
	uint64_t from, to;
};
unsigned file_parts(const struct media_super *s, const struct media_super *words,
        struct file_part parts[FILE_PARTS_MOST]);

/* Refuse a new file that cannot fit before trying: an attempt would leave other programs without
 * room for a moment, and beyond RLIMIT_FSIZE the kernel sends SIGXFSZ, which ends the process.
 * Errors: FUR_ENOSPC. */
FUR_MUST_USE int file_check_room(int fd, const struct media_super *s);

/* Give a new file its length and its blocks.   Errors: FUR_ENOSPC, FUR_ESYS. */
FUR_MUST_USE int file_allocate(int fd, const struct media_super *s);

/* A copy of a file may lack blocks that contained only zeros.  On a full file system a store to
 * such a block would end the process.  Allocate them; no byte changes.   Errors: FUR_ENOSPC. */
FUR_MUST_USE int file_fill_holes(
        int fd, const struct media_super *s, const struct media_super *words);

/* After a reflink or a snapshot, the first store to a block copies it, and on a full file system
 * such a store would end the process.  Give the file blocks of its own; no byte changes.  Where
 * the file system cannot, sets file->copied_on_write.   Errors: FUR_ENOSPC. */
FUR_MUST_USE int file_unshare(struct heap_file *file);

/* ----------------------------------------------------------- maps (heap_file.c) */

/* Map the whole file shared, by its geometry.   Errors: FUR_ESYS. */
FUR_MUST_USE int file_map_shared(struct heap_file *file);

/* mmap(2): map the heap in the file private, at its address.  A heap that grows is not writable
 * yet: see heap_let_store(). */
void *file_map_private(const struct heap_file *file, int fd, int flags);

/* Keep a copy of the path, for messages.  Without memory for it they do without. */
void file_keep_path(struct heap_file *file, const char *path);

/* May this process make a file in memory of this many bytes (memory_copy.c)?  Beyond the limit the
 * kernel would send SIGXFSZ, which ends the process.   Errors: FUR_ENOSPC. */
FUR_MUST_USE int file_check_memory(uint64_t bytes);

/* Set the message for a failed mmap() of the file.  Returns FUR_ESYS. */
int file_map_failed(int error);

#endif /* FUR_FILE_PARTS_H */
