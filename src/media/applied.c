/* SPDX-License-Identifier: BSD-3-Clause
 *
 * applied.c - see applied.h.
 */
#include "media/applied.h"

bool media_header_further(const struct heap_header *header, const struct media_ship *page)
{
	const uint64_t frame = header->position.frame_no;
	if (!frame && !header->applied.durts)
		return false;
	/* Of a heap that was a standby once, and a copy of it: it has updates of its own lineage */
	if (frame == page->frame && header->applied.lineage != page->lineage)
		return header->applied.lineage > page->lineage;
	return frame >= page->frame;
}

static struct media_standby at_rest(const struct heap_header *header, const struct media_ship *page)
{
	const struct heap_position *at = &header->position;
	if (media_header_further(header, page))
		return (struct media_standby){.term = at->term,
		        .lineage = header->applied.lineage,
		        .frame = at->frame_no,
		        .offset = at->offset,
		        .durts = header->applied.durts};
	return (struct media_standby){.term = page->term,
	        .lineage = page->lineage,
	        .frame = page->frame,
	        .offset = page->offset,
	        .durts = page->durts ? page->durts - 1 : 0};
}

void media_standby_read(const struct control *control, const struct heap_header *header,
        const struct media_ship *page, bool opened, struct media_standby *standby)
{
	const struct control_follow *f = &control->ship.follow;
	/* Acquire: orders this load before those below, and pairs with the release of the follower:
	 * without it we might show a position of an earlier follower. */
	const uint32_t session = arch_load32_acquire(&f->session);
	*standby = at_rest(header, page);
	if (!opened || !session || session != arch_load32(&control->opened))
		return;
	*standby = (struct media_standby){.follows = true,
	        .term = arch_load(&f->term),
	        .lineage = arch_load(&f->lineage),
	        .frame = arch_load(&f->frame),
	        .offset = arch_load(&f->offset),
	        .durts = arch_load(&f->durts),
	        .unread = arch_load(&f->unread),
	        .heard_ns = arch_load(&f->heard_ns)};
}
