/* SPDX-License-Identifier: BSD-3-Clause
 *
 * room.c - the blocks of a heap file: which parts of it have blocks, and how they get them.  All
 * else is a hole, which no process stores to.
 */
#include "base/error.h"
#include "file/file_parts.h"
#include "media/heap_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
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
	struct rlimit most;
	struct file_part parts[FILE_PARTS_MOST];
	uint64_t left = room_left(fd), bytes = 0;
	for (unsigned k = 0, n = file_parts(s, s, parts); k < n; k++)
		bytes += parts[k].to - parts[k].from;
	if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
	        s->file_bytes > most.rlim_cur)
		return fur_fail(FUR_ENOSPC,
		        "the heap file needs %llu bytes "
		        "and this process may write files of at most %llu: "
		        "raise the limit (RLIMIT_FSIZE, ulimit -f), "
		        "or choose a smaller heap_bytes or max_bytes, fewer or smaller logs; "
		        "nothing was created",
		        (unsigned long long)s->file_bytes, (unsigned long long)most.rlim_cur);
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
	return fur_fail(FUR_ESYS,
	        "cannot allocate %llu bytes: %s: check the disk, or choose another place; "
	        "nothing was created",
	        (unsigned long long)s->file_bytes, strerror(error));
}

int file_allocate(int fd, const struct media_super *s)
{
	struct file_part parts[FILE_PARTS_MOST];
	int error = ftruncate(fd, (off_t)s->file_bytes) ? errno : 0;
	for (unsigned k = 0, n = file_parts(s, s, parts); !error && k < n; k++)
		error = posix_fallocate(
		        fd, (off_t)parts[k].from, (off_t)(parts[k].to - parts[k].from));
	return error ? fail_allocate(fd, s, error) : 0;
}

/* -------------------------------------------------------------------- copies */

/* Has the part blocks everywhere?  Blocks that were allocated and never written count as a hole. */
static bool has_no_hole(int fd, const struct file_part *part)
{
	return lseek(fd, (off_t)part->from, SEEK_HOLE) >= (off_t)part->to;
}

int file_fill_holes(int fd, const struct media_super *s, const struct media_super *words)
{
	struct file_part parts[FILE_PARTS_MOST];
	int error = 0;
	for (unsigned k = 0, n = file_parts(s, words, parts); !error && k < n; k++) {
		/* Not posix_fallocate(): if the file system cannot allocate, it reads and writes
		 * each block, and another process may be writing the block too. */
		if (!has_no_hole(fd, &parts[k]) &&
		        fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)parts[k].from,
		                (off_t)(parts[k].to - parts[k].from)))
			error = errno;
	}
	if (error != ENOSPC && error != EDQUOT)
		return 0;
	return fur_fail(FUR_ENOSPC, "the file has holes (copied with cp --sparse?), "
	                            "and the file system has no room to fill them: make room");
}

/* ------------------------------------------------------------- logs, growth */

/* Allocate the part of an open file.  Returns an errno. */
static int allocate_part(int fd, uint64_t from, uint64_t to)
{
	/* An attempt that does not fit would leave other programs without room for a moment. */
	if (to - from > room_left(fd))
		return ENOSPC;
	/* The file has its length, so its limit (RLIMIT_FSIZE) does not count.  posix_fallocate()
	 * also works where the file system cannot allocate; nothing else uses the part yet. */
	return posix_fallocate(fd, (off_t)from, (off_t)(to - from));
}

int heap_allocate_log(int fd, const char *path, const struct media_super *s, uint32_t thread)
{
	FUR_ASSERT(thread < s->max_threads);
	uint64_t from = s->logs_offset + thread * s->log_bytes;
	int error = allocate_part(fd, from, from + s->log_bytes);
	if (!error)
		return 0;
	return fur_fail(means_full(error) ? FUR_ENOSPC : FUR_ESYS,
	        "%s: no room for the log of thread %u, %llu bytes: %s: make room on the file "
	        "system and register again, or use fewer threads; the heap is as it was",
	        path, thread, (unsigned long long)s->log_bytes, strerror(error));
}

static int fail_grow(int fd, const char *path, uint64_t now, uint64_t to, int error)
{
	if (means_full(error))
		return fur_fail(FUR_ENOSPC,
		        "%s: the heap has %llu bytes and needs %llu, and the file system has "
		        "%llu left: make room, and try again; the heap is as it was",
		        path, (unsigned long long)now, (unsigned long long)to,
		        (unsigned long long)room_left(fd));
	return fur_fail(FUR_ESYS,
	        "%s: cannot allocate blocks to let the heap grow from %llu to %llu bytes: %s: "
	        "check the disk, and try again; the heap is as it was",
	        path, (unsigned long long)now, (unsigned long long)to, strerror(error));
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
	(void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
	        (off_t)(s->heap_offset + now), (off_t)(to - now));
	return fail_grow(fd, path, now, to, error);
}
