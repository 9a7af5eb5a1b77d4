/* SPDX-License-Identifier: BSD-3-Clause
 *
 * log_view.c - the validity of a marker; record heads in slots; lists of parts.  The rest of
 * log_view.h is inline.
 */
#include "media/log_view.h"

bool log_marker_valid(const struct media_file *f, const struct media_marker *m, uint64_t durts)
{
	return m->durts == durts && log_marker_plausible(f->super, m) &&
	       m->checksum == media_marker_checksum(f->super, m, log_of_marker(f, m));
}

bool log_read_slot_head(const struct media_file *f, uint64_t durts, uint64_t tail,
        struct media_claims *claims, uint32_t *thread)
{
	const struct media_marker m = log_read_marker(f, durts);
	const uint8_t *slot = (const uint8_t *)log_marker(f, durts);
	struct media_head head;
	memcpy(&head, slot + MEDIA_IN_SLOT, sizeof head);
	if (!log_slot_holds(f->super, 0) || head.durts != (uint32_t)durts)
		return false;
	*thread = m.thread;
	if (log_read_head(f, slot, *thread, MEDIA_IN_SLOT, tail, claims))
		return claims->durts == durts;
	/* The marker is damaged.  The head's checksum covers the thread, so try them all. */
	for (*thread = 0; *thread < f->super->max_threads; ++*thread)
		if (log_read_head(f, slot, *thread, MEDIA_IN_SLOT, tail, claims))
			return claims->durts == durts;
	return false;
}

/* ------------------------------------------------------------------- parts */

static uint64_t word_at(const struct media_super *s, const struct log_record *record, uint64_t at)
{
	return arch_load((const uint64_t *)(const void *)(record->log + log_place(s, at)));
}

/* Read the MEDIA_ENTRY_PARTS with which what is left of a record begins, and check all that does
 * not depend on the marker.  *bytes: of the entry.  Reads each word once: the fields that are
 * checked are those that the caller gets. */
static bool read_list(const struct media_super *s, const struct log_record *left,
        struct media_parts *list, uint64_t *bytes)
{
	uint64_t at = left->from;
	FUR_ASSERT(at % MEDIA_ENTRY_ALIGN == 0 && at < left->end);
	if (!media_parts_decode_word(word_at(s, left, at), list))
		return false;
	*bytes = media_parts_bytes(list->n);
	if (*bytes > left->end - left->from)
		return false;
	list->id = word_at(s, left, at += 8); /* it may wrap */
	for (uint32_t k = 0; k < list->n; k++) {
		const uint64_t word = word_at(s, left, at += 8);
		list->part[k].durts = word & ((UINT64_C(1) << MEDIA_PART_DURTS_BITS) - 1);
		list->part[k].member = (uint32_t)(word >> MEDIA_PART_DURTS_BITS);
		list->part[k].gap = 0;
	}
	return true;
}

/* Is the list one of this group, in ascending order, and does it have this heap's part? */
static bool list_is_good(const struct media_super *s, const struct media_parts *list)
{
	if (!media_is_member(s) || list->part[list->mine].member != s->more.group_member)
		return false;
	for (uint32_t k = 0; k < list->n; k++) {
		const struct media_part *p = &list->part[k];
		if (p->durts == 0 || p->member >= s->more.group_members ||
		        (k && p->member <= list->part[k - 1].member))
			return false;
	}
	return true;
}

/* Is all that is left of the record its list of parts? */
static bool list_is_all(const struct log_walk *w)
{
	struct media_parts list;
	uint64_t bytes = 0;
	if (w->left.from >= w->left.end || !read_list(w->super, &w->left, &list, &bytes) ||
	        !list_is_good(w->super, &list))
		return false;
	return w->parts == LOG_PARTS_PERHAPS ||
	       (w->left.from + bytes == w->left.end && list.part[list.mine].durts == w->durts);
}

void log_walk_end(struct log_walk *w)
{
	const enum log_parts_end parts = w->parts;
	/* Otherwise it is an entry outside the heap. */
	const bool at_list = w->left.from >= w->left.end || w->entry.bytes == MEDIA_ENTRY_PARTS;
	w->broken = w->broken || parts == LOG_PARTS_NEVER || !list_is_all(w);
	w->parts = w->broken && parts == LOG_PARTS_ALWAYS && at_list ? LOG_PARTS_BROKEN
	                                                             : LOG_PARTS_NEVER;
	if (!w->broken)
		w->left.from = w->left.end;
}

bool log_read_parts(
        const struct media_file *f, const struct media_marker *marker, struct media_parts *list)
{
	struct log_record left = log_record_of(f, marker);
	struct log_entry entry;
	uint64_t bytes;
	while (left.from < left.end && log_read_entry(f->super, &left, &entry))
		left.from = entry.next;
	return left.from < left.end && read_list(f->super, &left, list, &bytes) &&
	       left.from + bytes == left.end && list_is_good(f->super, list) &&
	       list->part[list->mine].durts == marker->durts;
}
