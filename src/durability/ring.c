/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ring.c - drawing after D, waiting for a slot, writing markers.
 */
#include "base/probe.h"
#include "durability/ship.h"

#include <string.h>

void ring_draw(struct durability *d, struct commit *c)
{
	FUR_ASSERT(c->durts == 0);
	c->durts = arch_fetch_add(&d->next_durts, 1);
}

int ring_wait(struct durability *d, uint64_t durts)
{
	struct arch_backoff backoff = {0};
	while (!ring_fits(d, durts)) {
		int error = durability_replay(d, &backoff);
		if (error)
			return error;
	}
	return 0;
}

/* The caller must not have started the log's write-back: a load of a line waits for that line's
 * write-back, and the checksum loads all lines (measured: a third of a small update's time).  The
 * checksum reads the log where the update wrote it, because the copy in the file may not be in the
 * cache. */
void ring_put_marker(struct durability *d, struct media_marker *marker)
{
	struct media_marker *place = durability_marker(d, marker->durts);
	FUR_ASSERT(marker->thread < d->super->max_threads);
	marker->checksum = media_marker_checksum(d->super, marker, d->redo[marker->thread].written);
	memcpy(&place->log_start, &marker->log_start, sizeof *marker - sizeof marker->durts);
	arch_store_release(&place->durts, marker->durts);
	ship_call(d);
}
