/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ship_page.c - heap_read_ship_page(), and heap_write_ship_page(): a heap gets its role, or a later
 * position.
 */
#include "media/ship_page.h"
#include "base/error.h"
#include "file/file_parts.h"

int heap_read_ship_page(
        const struct media_super *super, const struct media_super *words, struct media_ship *ship)
{
	if (media_ship_read(super, words, ship))
		return fur_fail(FUR_ECORRUPT, "both copies of the ship page are damaged: "
		                              "restore the file from a copy");
	return 0;
}

/* INV-SH5: an update in each thread fits beside what is not acknowledged. */
enum { LEAST_SLOTS_OF_THREAD = 8 };

static int check_geometry(const struct media_super *s, uint32_t role)
{
	if (s->version < 2)
		return fur_fail(FUR_EVERSION,
		        "a heap of version 1 cannot be shipped: copy its contents to a new heap");
	if (role != MEDIA_NO_ROLE && media_is_member(s))
		return fur_fail(FUR_EINVAL,
		        "the heap is a member of a group, and such heaps cannot be shipped: take "
		        "it out of the group first, with fur-group remove");
	if (role == MEDIA_PRIMARY &&
	        s->ring_slots < LEAST_SLOTS_OF_THREAD * (uint64_t)s->max_threads)
		return fur_fail(FUR_EINVAL,
		        "the ring of %llu slots is too short to ship the updates of %u threads: "
		        "make it longer, with fur-resize --ring-slots",
		        (unsigned long long)s->ring_slots, s->max_threads);
	return 0;
}

int heap_check_role(const struct heap_file *file, uint32_t role)
{
	const int error = check_geometry(&file->geometry, role);
	/* Only a closed heap's image has all that the log starts with, or nothing that it lacks. */
	if (!error && file->super->state != MEDIA_CLOSED)
		return fur_fail(FUR_EBUSY,
		        "the heap was not closed: let fur-replayer recover it, and try again");
	return error;
}

/* After the page: a file that says that it has one has it.  The bytes lie in one sector, which a
 * disk writes as a whole. */
static int add_feature(struct heap_file *file)
{
	struct media_super *s = &file->geometry;
	s->more.features |= MEDIA_SHIPS;
	s->more.checksum = media_more_checksum(s);
	return file_write_durably(file, "the ship page", &s->more, sizeof s->more,
	        offsetof(struct media_super, more));
}

static int write_page(struct heap_file *file, struct media_ship *ship)
{
	const bool first = !media_ships(&file->geometry);
	const uint64_t offset = media_ship_complete(&file->geometry, file->super, ship);
	const int error = file_write_durably(file, "the ship page", ship, sizeof *ship, offset);
	return !error && first ? add_feature(file) : error;
}

int heap_write_ship_page(struct heap_file *file, struct media_ship *ship)
{
	struct media_ship now;
	int error = heap_read_ship_page(&file->geometry, file->super, &now);
	if (!error && ship->role != now.role)
		error = heap_check_role(file, ship->role);
	return error ? error : write_page(file, ship);
}

int heap_write_promotion(struct heap_file *file, struct media_ship *ship)
{
	const int error = check_geometry(&file->geometry, ship->role);
	return error ? error : write_page(file, ship);
}
