/* SPDX-License-Identifier: BSD-3-Clause
 *
 * member.c - a heap becomes a member of a group, or leaves it: heap_may_join(), heap_join(),
 * heap_leave().
 */
#include "base/error.h"
#include "file/file_parts.h"
#include "media/group_page.h"
#include "media/ship_page.h"

#include <string.h>

int heap_may_join(const struct heap_file *file)
{
	struct media_ship ship;
	const struct media_super *s = &file->geometry;
	if (s->version < 2)
		return fur_fail(FUR_EVERSION, "a heap of version 1 cannot join a group: copy its "
		                              "contents to a new heap");
	int error = heap_read_ship_page(s, file->super, &ship);
	if (error)
		return error;
	if (ship.role != MEDIA_NO_ROLE)
		return fur_fail(FUR_EINVAL,
		        "the heap is a %s, and heaps of a group cannot be shipped: take its role "
		        "away first, with fur-ship --detach",
		        ship.role == MEDIA_PRIMARY ? "primary" : "standby");
	if (!media_may_join(s))
		return fur_fail(FUR_EINVAL,
		        "the ring of %llu slots is too long for a member of a group: make it "
		        "shorter, with fur-resize --ring-slots 262144",
		        (unsigned long long)s->ring_slots);
	return file->super->state == MEDIA_CLOSED
	               ? 0
	               : fur_fail(FUR_EBUSY, "the heap was not closed: let fur-replayer --once "
	                                     "recover it, and try again");
}

/* The bytes lie in one sector, which a disk writes as a whole. */
static int write_more(struct heap_file *file, const struct media_more *more)
{
	struct media_super s = file->geometry;
	s.more = *more;
	s.more.checksum = s.more.features ? media_more_checksum(&s) : 0;
	const int error = file_write_durably(
	        file, "the superblock", &s.more, sizeof s.more, offsetof(struct media_super, more));
	if (!error)
		file->geometry.more = s.more;
	return error;
}

int heap_join(struct heap_file *file, const struct heap_membership *m)
{
	/* What it has noted in a group that it left: before the superblock says that it counts. */
	static const uint8_t none[MEDIA_PAGE_BYTES - MEDIA_GROUP_OFFSET];
	struct media_more more = file->geometry.more;
	FUR_ASSERT(media_may_join(&file->geometry) && !media_is_member(&file->geometry));
	const int error =
	        file_write_durably(file, "the superblock", none, sizeof none, MEDIA_GROUP_OFFSET);
	if (error)
		return error;
	more.features |= MEDIA_MEMBER;
	memcpy(more.group, m->group, sizeof more.group);
	more.group_members = m->members;
	more.group_member = m->member;
	return write_more(file, &more);
}

int heap_leave(struct heap_file *file)
{
	struct media_more more = file->geometry.more;
	more.features &= ~MEDIA_MEMBER;
	memset(more.group, 0, sizeof more.group);
	more.group_members = more.group_member = 0;
	return write_more(file, &more);
}
