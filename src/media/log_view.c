/* SPDX-License-Identifier: BSD-3-Clause
 *
 * log_view.c - the validity of a marker; record heads in slots.  The rest of log_view.h is inline.
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
