/* SPDX-License-Identifier: BSD-3-Clause
 *
 * super.c - reading a superblock, and the checks that it must pass before libfur uses the rest of
 * the file: heap_read_super(), heap_check_super(), heap_tail(); and how a part of a closed heap is
 * written: file_write_durably().
 */
#include "base/error.h"
#include "base/remedy.h"
#include "base/system.h"
#include "file/file_parts.h"
#include "media/group_page.h"
#include "media/heap_layout.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int file_stat(int fd, struct stat *st)
{
	if (fstat(fd, st) == 0)
		return 0;
	return fail_system(FUR_ESYS, CALL_STAT, errno, NULL, "cannot stat the file");
}

int file_write_durably(const struct heap_file *file, const char *part, const void *from,
        size_t bytes, uint64_t offset)
{
	int error = system_write(file->fd, from, bytes, offset);
	if (!error)
		error = system_sync(file->fd);
	return error ? fail_system(remedy_code(error), CALL_WRITE, error, "the heap is as it was",
	                       "cannot write %s", part)
	             : 0;
}

int heap_read_super(int fd, struct media_super *s, uint64_t *file_bytes)
{
	struct stat st;
	int error = file_stat(fd, &st);
	if (error)
		return error;
	if (!S_ISREG(st.st_mode))
		return fur_fail(FUR_ENOTHEAP, "not a regular file: check the path");
	if (st.st_size == 0)
		return fur_fail(FUR_ENOTHEAP,
		        "the file is empty, not a libfur heap: remove it and create one");
	/* A file of version 1 that was cut short may end where its superblock did. */
	const ssize_t least = offsetof(struct media_super, forget);
	memset(s, 0, sizeof *s);
	const ssize_t n = st.st_size < least ? 0 : system_read(fd, s, sizeof *s, 0);
	if (n < 0)
		return fail_system(FUR_ESYS, CALL_READ, errno, "or restore the file from a copy",
		        "cannot read the file");
	if (n < least)
		return fur_fail(FUR_ENOTHEAP,
		        "too short (%lld bytes) for a libfur heap: check the path",
		        (long long)st.st_size);
	*file_bytes = (uint64_t)st.st_size;
	return 0;
}

/* Do the regions follow one another in the file, each as large as its parts?  A correct checksum
 * shows that a libfur wrote these numbers, not that this one did. */
static bool regions_fit(const struct media_super *s)
{
	const uint64_t offset[] = {
	        s->control_offset, s->ring_offset, s->logs_offset, s->heap_offset, s->file_bytes};
	const uint64_t trailer = s->version < 2 ? 0 : MEDIA_PAGE_BYTES;
	const uint64_t bytes[] = {s->control_bytes, s->ring_slots * s->slot_bytes,
	        s->max_threads * s->log_bytes, s->heap_bytes + trailer};
	if (s->control_offset < sizeof *s || s->control_bytes < CONTROL_BYTES(s->max_threads) ||
	        s->file_bytes > 2 * FILE_MOST_HEAP_BYTES)
		return false;
	for (int k = 0; k < 4; k++)
		if (offset[k] % MEDIA_PAGE_BYTES || offset[k] > offset[k + 1] ||
		        bytes[k] > offset[k + 1] - offset[k])
			return false;
	return true;
}

/* Does each number lie within its bounds, and does the heap fit its threads and its address? */
static bool sizes_fit(const struct media_super *s)
{
	bool slots_fit = media_slot_bytes_known(s->slot_bytes) &&
	                 (s->slot_bytes == MEDIA_SLOT_BYTES || s->version >= 2);
	return slots_fit && power_of_two(s->log_bytes) && s->log_bytes >= FILE_LEAST_LOG_BYTES &&
	       s->log_bytes <= UINT32_MAX && power_of_two(s->ring_slots) &&
	       s->ring_slots >= FILE_LEAST_RING_SLOTS &&
	       s->ring_slots >= 2 * (uint64_t)s->max_threads && s->ring_slots <= UINT32_MAX &&
	       s->max_threads > 0 && s->max_threads <= FILE_MOST_THREADS &&
	       s->heap_bytes <= FILE_MOST_HEAP_BYTES && address_fits(s->address, s->heap_bytes) &&
	       s->heap_bytes >= heap_least_bytes(media_stocks(s));
}

static bool member_fits(const struct media_super *s)
{
	return media_may_join(s) && s->more.group_member < s->more.group_members &&
	       s->more.group_members >= MEDIA_PARTS_LEAST &&
	       s->more.group_members <= MEDIA_MEMBERS_MOST;
}

/* What came after the first files of version 2. */
static int check_more(const struct media_super *s)
{
	static const struct media_more none;
	const uint64_t now = media_heap_bytes(s, s);
	if (s->version < 2 || memcmp(&s->more, &none, sizeof none) == 0)
		return 0;
	if (s->more.checksum != media_more_checksum(s))
		return fur_fail(FUR_ECORRUPT,
		        "the superblock is damaged (checksum of its second part): "
		        "restore the file from a copy");
	if (s->more.features & ~MEDIA_FEATURES)
		return fur_fail(FUR_EVERSION,
		        "the heap has features (0x%llx) that this library does not know: "
		        "use a later libfur",
		        (unsigned long long)(s->more.features & ~MEDIA_FEATURES));
	if (media_stocks(s) == 0 || media_stocks(s) > FILE_MOST_THREADS)
		return fur_fail(FUR_ECORRUPT,
		        "the superblock is damaged (stocks): restore the file from a copy");
	if (media_is_member(s) && !member_fits(s))
		return fur_fail(FUR_ECORRUPT,
		        "the superblock is damaged (group): restore the file from a copy");
	if (media_grows(s) && (!now || now <= heap_meta_bytes(s->heap_bytes, media_stocks(s))))
		return fur_fail(FUR_ECORRUPT, "both copies of the heap's size now are damaged: "
		                              "restore the file from a copy");
	return 0;
}

int heap_check_super(const struct media_super *s, uint64_t file_bytes)
{
	if (memcmp(s->magic, MEDIA_MAGIC, sizeof s->magic) != 0)
		return fur_fail(FUR_ENOTHEAP, "not a libfur heap: check the path");
	if (s->endian != MEDIA_ENDIAN)
		return fur_fail(
		        FUR_EVERSION, "made on a machine of the other byte order: open it there");
	if (s->version < MEDIA_OLDEST || s->version > MEDIA_VERSION)
		return fur_fail(FUR_EVERSION,
		        "heap format version %u, this library reads versions %u to %u: use the "
		        "libfur that made it",
		        s->version, MEDIA_OLDEST, MEDIA_VERSION);
	if (s->checksum != media_super_checksum(s))
		return fur_fail(FUR_ECORRUPT,
		        "the superblock is damaged (checksum): fur-check --repair "
		        "may mend it; else restore the file from a copy");
	if (!sizes_fit(s) || !regions_fit(s))
		return fur_fail(FUR_ECORRUPT,
		        "the superblock is damaged (sizes): restore the file from a copy");
	if (file_bytes < s->file_bytes)
		return fur_fail(FUR_ECORRUPT,
		        "truncated: %llu bytes of %llu are there: restore the file from a copy",
		        (unsigned long long)file_bytes, (unsigned long long)s->file_bytes);
	return check_more(s);
}

int heap_tail(const struct heap_file *file, uint64_t *tail)
{
	FUR_ASSERT(file->super != NULL);
	uint64_t a, b;
	/* If only one copy fails to decode, the other may be right. */
	int bad_a = media_tail_decode(file->super->tail[0][0], &a),
	    bad_b = media_tail_decode(file->super->tail[1][0], &b);
	if (bad_a != bad_b)
		return fur_fail(FUR_ECORRUPT, "one of the two copies of the log's tail is damaged: "
		                              "mend it with fur-check --repair");
	const struct media_file view = media_file_of(&file->geometry, file->super);
	if (media_tail(&view, tail))
		return fur_fail(
		        FUR_ECORRUPT, "the log's tail is damaged: restore the file from a copy");
	return 0;
}
