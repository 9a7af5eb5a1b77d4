/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ship_page.h - whether a heap's updates are shipped to a log outside its machine, and how far that
 * log is known to have them: a page at a fixed place of a file with MEDIA_SHIPS.
 *
 * The page has two copies of one record.  A change writes the copy that does not count, with the
 * next sequence number; so a failure in between leaves the other one.
 */
#ifndef FUR_SHIP_PAGE_H
#define FUR_SHIP_PAGE_H

#include "media/media.h"

enum media_role {
	MEDIA_NO_ROLE, /* a heap like any other */
	MEDIA_PRIMARY, /* its updates are shipped */
	MEDIA_STANDBY, /* it follows the log of another heap */
	MEDIA_ROLES
};

/* A position is a place in the shipping log, between two frames: docs/stream.md. */
struct media_ship {
	uint64_t sequence;
	uint32_t role; /* enum media_role */
	uint32_t gap;
	uint64_t
	        node; /* a random number for this file, by which its claims are told from others' */
	/* A position in the log; every update before it is in the heap's image.  offset UINT64_MAX:
	 * the log's begin */
	uint64_t term, lineage, frame, offset;
	uint64_t chain;
	uint64_t durts;    /* above those of the updates before it, as the primary counts them */
	char log[432];     /* where the log is; text that ends with a zero */
	uint64_t checksum; /* XXH3 of all above, seeded with the superblock's checksum */
};
_Static_assert(sizeof(struct media_ship) == 512, "frozen: one sector");

#define MEDIA_SHIP_OFFSET 4096u
enum { MEDIA_SHIP_COPIES = 2 };

static inline bool media_ships(const struct media_super *super)
{
	return super->version >= 2 && (super->more.features & MEDIA_SHIPS);
}

/* Read the copy that counts.  `super` is checked; the page is that of the mapping at `words`.
 * Returns 0; -1 if no copy is valid.  In a file without MEDIA_SHIPS, the record is all zero. */
int media_ship_read(
        const struct media_super *super, const struct media_super *words, struct media_ship *ship);

/* Complete the record, as the next one after that which counts now: sequence and checksum.  Returns
 * the offset in the file where it belongs. */
uint64_t media_ship_complete(
        const struct media_super *super, const struct media_super *words, struct media_ship *ship);

#endif /* FUR_SHIP_PAGE_H */
