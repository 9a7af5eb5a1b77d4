/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ring.c - drawing after D, waiting for a slot, writing markers.
 */
#include "durability/ring.h"
#include "base/probe.h"
#include "durability/nondurable.h"

#include <string.h>

void ring_draw_after(struct durability *d, struct commit *c)
{
	/* INV-D4: without this wait an update of D could draw a later durTS than ours, and recovery
	 * would reach our marker first (plant: no-slot-wait). */
	nondurable_wait_drawn(d, &c->dset);
	ring_draw(d, c);
	nondurable_publish(d, c);
	FUR_POINT(durts__drawn);
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
}
