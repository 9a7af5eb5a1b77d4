/* SPDX-License-Identifier: BSD-3-Clause
 *
 * room.c - the blocks of a heap file: which parts of it have blocks, and how they get them.  All
 * else is a hole, which no process stores to.
 */
#include "base/error.h"
#include "base/remedy.h"
#include "base/system.h"
#include "file/file_parts.h"
#include "media/heap_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ------------------------------------------------------------------- parts */

unsigned file_parts(const struct media_super *s, const struct media_super *words,
        struct file_part parts[FILE_PARTS_MOST])
{
	const uint64_t heap = s->heap_offset, logs = media_logs(s, words);
	struct heap_part used[HEAP_PARTS];
	parts[0] = (struct file_part){0, s->logs_offset + logs * s->log_bytes};
	if (!media_grows(s)) {
		parts[1] = (struct file_part){heap, s->file_bytes};
		return 2;
	}
	heap_parts(s->heap_bytes, media_stocks(s), media_heap_bytes(s, words), used);
	for (int k = 0; k < HEAP_PARTS; k++)
		parts[1 + k] = (struct file_part){heap + used[k].from, heap + used[k].to};
	parts[1 + HEAP_PARTS] = (struct file_part){heap + s->heap_bytes, s->file_bytes};
	return 2 + HEAP_PARTS;
}

/* -------------------------------------------------------------------- room */

/* How many bytes the file system has for a file; UINT64_MAX if it does not tell. */
static uint64_t room_left(int fd)
{
	struct statvfs fs;
	if (fstatvfs(fd, &fs) || fs.f_blocks == 0)
		return UINT64_MAX;
	return (uint64_t)(geteuid() == 0 ? fs.f_bfree : fs.f_bavail) * fs.f_frsize;
}

static bool means_full(int error)
{
	return error == ENOSPC || error == EFBIG || error == EDQUOT;
}

/* ---------------------------------------------------------------- new files */

static int fail_no_room(uint64_t bytes, uint64_t left)
{
	return fur_fail(FUR_ENOSPC,
	        "the heap file needs %llu bytes and the file system has %llu left: "
	        "choose a smaller heap_bytes, fewer or smaller logs, or another place; "
	        "nothing was created",
	        (unsigned long long)bytes, (unsigned long long)left);
}

int file_check_room(int fd, const struct media_super *s)
{
	uint64_t most = 0;
	struct file_part parts[FILE_PARTS_MOST];
	uint64_t left = room_left(fd), bytes = 0;
	for (unsigned k = 0, n = file_parts(s, s, parts); k < n; k++)
		bytes += parts[k].to - parts[k].from;
	if (system_may_write(s->file_bytes, &most))
		return fur_fail(FUR_ENOSPC,
		        "the heap file needs %llu bytes "
		        "and this process may write files of at most %llu: "
		        "raise the limit (RLIMIT_FSIZE, ulimit -f), "
		        "or choose a smaller heap_bytes or max_bytes, fewer or smaller logs; "
		        "nothing was created",
		        (unsigned long long)s->file_bytes, (unsigned long long)most);
	return bytes > left ? fail_no_room(bytes, left) : 0;
}

static int fail_allocate(int fd, const struct media_super *s, int error)
{
	if (error == EFBIG && media_grows(s))
		return fur_fail(FUR_ENOSPC,
		        "the file system has no files of %llu bytes, which this heap may need: "
		        "choose a smaller max_bytes, or another place; nothing was created",
		        (unsigned long long)s->file_bytes);
	if (means_full(error))
		return fail_no_room(s->file_bytes, room_left(fd));
	return fail_system(FUR_ESYS, CALL_ALLOCATE, error, "nothing was created",
	        "cannot allocate %llu bytes", (unsigned long long)s->file_bytes);
}

int file_allocate(int fd, const struct media_super *s)
{
	struct file_part parts[FILE_PARTS_MOST];
	int error = system_set_length(fd, s->file_bytes);
	for (unsigned k = 0, n = file_parts(s, s, parts); !error && k < n; k++)
		error = system_allocate_zeros(fd, parts[k].from, parts[k].to);
	return error ? fail_allocate(fd, s, error) : 0;
}

/* -------------------------------------------------------------------- copies */

/* Is each byte of the part written?  Blocks that were allocated and not yet written are holes. */
static bool has_no_hole(int fd, const struct file_part *part)
{
	return lseek(fd, (off_t)part->from, SEEK_HOLE) >= (off_t)part->to;
}

/* The next extents of a part: FS_IOC_FIEMAP.  False: it has none, or the file system does not
 * tell. */
struct extents {
	struct fiemap map;
	struct fiemap_extent extent[32];
};

static bool ask_extents(int fd, const struct file_part *part, struct extents *e)
{
	int failed;
	do {
		/* With zeros: valgrind does not know that the kernel fills the extents in. */
		*e = (struct extents){
		        .map = {.fm_start = part->from,
		                .fm_length = part->to - part->from,
		                .fm_extent_count = sizeof e->extent / sizeof *e->extent}};
		failed = ioctl(fd, FS_IOC_FIEMAP, &e->map);
	} while (failed && errno == EINTR);
	return !failed && e->map.fm_mapped_extents;
}

/* Give the part blocks where it has none.  Returns an errno.  Where it has some, XFS would still
 * want room for as many, and refuse on a full disk.  Not system_allocate_zeros(): another process
 * may be writing to the part. */
static int fill_part(int fd, struct file_part part)
{
	struct extents e;
	int error = 0;
	if (has_no_hole(fd, &part))
		return 0;
	while (!error && part.from < part.to && ask_extents(fd, &part, &e))
		for (unsigned k = 0; !error && k < e.map.fm_mapped_extents; k++) {
			const struct fiemap_extent *x = &e.extent[k];
			if (x->fe_logical > part.from)
				error = system_allocate(
				        fd, FALLOC_FL_KEEP_SIZE, part.from, x->fe_logical);
			part.from = x->fe_logical + x->fe_length;
		}
	if (!error && part.from < part.to)
		error = system_allocate(fd, FALLOC_FL_KEEP_SIZE, part.from, part.to);
	return error;
}

int file_fill_holes(int fd, const struct media_super *s, const struct media_super *words)
{
	struct file_part parts[FILE_PARTS_MOST];
	int error = 0;
	for (unsigned k = 0, n = file_parts(s, words, parts); !error && k < n; k++)
		error = fill_part(fd, parts[k]);
	if (error != ENOSPC && error != EDQUOT)
		return 0;
	return fur_fail(FUR_ENOSPC, "the file has holes (copied with cp --sparse?), "
	                            "and the file system has no room to fill them: make room");
}

/* --------------------------------------------------------------- shared blocks */

/* Does the file system write each change to new blocks, also where the file has blocks? */
static bool always_copies(int fd)
{
	enum { BTRFS = 0x9123683e, BCACHEFS = 0xca451a4e, ZFS = 0x2fc12fc1 };
	struct statfs fs;
	if (fstatfs(fd, &fs))
		return false;
	const uint32_t type = (uint32_t)fs.f_type;
	return type == (uint32_t)BTRFS || type == (uint32_t)BCACHEFS || type == (uint32_t)ZFS;
}

/* Returns an errno. */
static int unshare_part(int fd, struct file_part part)
{
	struct extents e;
	while (part.from < part.to && ask_extents(fd, &part, &e))
		for (unsigned k = 0; k < e.map.fm_mapped_extents; k++) {
			const struct fiemap_extent *x = &e.extent[k];
			const uint64_t end = x->fe_logical + x->fe_length,
			               from = x->fe_logical > part.from ? x->fe_logical : part.from,
			               to = end < part.to ? end : part.to;
			int error = 0;
			if (x->fe_flags & FIEMAP_EXTENT_SHARED && from < to)
				error = system_allocate(fd,
				        FALLOC_FL_UNSHARE_RANGE | FALLOC_FL_KEEP_SIZE, from, to);
			if (error)
				return error;
			part.from = x->fe_flags & FIEMAP_EXTENT_LAST ? part.to : end;
		}
	return 0;
}

int file_unshare(struct heap_file *file)
{
	struct file_part parts[FILE_PARTS_MOST];
	int error = 0;
	file->copied_on_write = always_copies(file->fd);
	if (file->copied_on_write)
		return 0;
	const unsigned n = file_parts(&file->geometry, file->super, parts);
	for (unsigned k = 0; !error && k < n; k++)
		error = unshare_part(file->fd, parts[k]);
	if (error == ENOSPC || error == EDQUOT)
		return fur_fail(FUR_ENOSPC,
		        "the file shares blocks with a copy or a snapshot of it (cp --reflink), "
		        "and "
		        "the file system has no room for blocks of its own: make room");
	file->copied_on_write = error != 0; /* it cannot unshare */
	return 0;
}

/* ------------------------------------------------------------- logs, growth */

/* Allocate the part of an open file.  Returns an errno. */
static int allocate_part(int fd, uint64_t from, uint64_t to)
{
	/* An attempt that does not fit would leave other programs without room for a moment. */
	if (to - from > room_left(fd))
		return ENOSPC;
	/* Nothing else uses the part yet. */
	return system_allocate_zeros(fd, from, to);
}

int heap_allocate_log(int fd, const char *path, const struct media_super *s, uint32_t thread)
{
	FUR_ASSERT(thread < s->max_threads);
	uint64_t from = s->logs_offset + thread * s->log_bytes;
	int error = allocate_part(fd, from, from + s->log_bytes);
	if (!error)
		return 0;
	return fail_system(remedy_code(error), CALL_ALLOCATE, error,
	        "then register again; the heap is as it was",
	        "%s: no room for the log of thread %u, %llu bytes", path, thread,
	        (unsigned long long)s->log_bytes);
}

static int fail_grow(int fd, const char *path, uint64_t now, uint64_t to, int error)
{
	if (error == ENOSPC || error == EDQUOT)
		return fur_fail(FUR_ENOSPC,
		        "%s: the file system has no room to let the heap grow from %llu to %llu "
		        "bytes: %llu are left: make room, and try again; the heap is as it was",
		        path, (unsigned long long)now, (unsigned long long)to,
		        (unsigned long long)room_left(fd));
	return fail_system(remedy_code(error), CALL_ALLOCATE, error,
	        "then try again; the heap is as it was",
	        "%s: cannot allocate blocks to let the heap grow from %llu to %llu bytes", path,
	        (unsigned long long)now, (unsigned long long)to);
}

int heap_allocate_more(
        int fd, const char *path, const struct media_super *s, uint64_t now, uint64_t to)
{
	struct heap_part old[HEAP_PARTS], new[HEAP_PARTS];
	int error = 0;
	FUR_ASSERT(media_grows(s) && now <= to && to <= s->heap_bytes);
	heap_parts(s->heap_bytes, media_stocks(s), now, old);
	heap_parts(s->heap_bytes, media_stocks(s), to, new);
	for (int k = 0; !error && k < HEAP_PARTS; k++)
		if (new[k].to > old[k].to)
			error = allocate_part(
			        fd, s->heap_offset + old[k].to, s->heap_offset + new[k].to);
	if (!error)
		return 0;
	/* Give back the chunks that it did get.  What is left of the tables is little. */
	(void)!system_allocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, s->heap_offset + now,
	        s->heap_offset + to);
	return fail_grow(fd, path, now, to, error);
}
