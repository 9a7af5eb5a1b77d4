/* SPDX-License-Identifier: BSD-3-Clause
 *
 * applied.h - how far a standby is, as its file tells those who look at it from outside.
 */
#ifndef FUR_MEDIA_APPLIED_H
#define FUR_MEDIA_APPLIED_H

#include "media/control_region.h"
#include "media/heap_layout.h"
#include "media/ship_page.h"

/* The position of a standby is in its header.  That of a copy which has followed nothing yet, or of
 * a copy of a standby that got a later one, is in the ship page.  Does the header's count? */
bool media_header_further(const struct heap_header *header, const struct media_ship *page);

struct media_standby {
	bool follows; /* a follower follows now; otherwise the position is of what is replayed */
	/* What is applied: up to this frame, at this offset in the log, or UINT64_MAX: none; and
	 * the newest update, of this lineage and durTS, as the primary counts, or durts 0 */
	uint64_t term, lineage, frame, offset, durts;
	/* If it follows: how many messages of the log it has not read; UINT64_MAX: it does not
	 * know, for the log cannot be reached.  And when it read the newest frame, by
	 * arch_now_ns(); 0: none yet */
	uint64_t unread, heard_ns;
};

/* `opened`: a process has the heap open.  The header is the one in the file. */
void media_standby_read(const struct control *control, const struct heap_header *header,
        const struct media_ship *page, bool opened, struct media_standby *standby);

#endif /* FUR_MEDIA_APPLIED_H */
