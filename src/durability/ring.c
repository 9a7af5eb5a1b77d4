/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ring.c - drawing after D, waiting for a slot, writing markers.
 */
#include "durability/ring.h"
#include "durability/nondurable.h"

#include <string.h>

void ring_draw_after(struct durability *d, struct commit *c)
{
	/* INV-D4: without this wait a dependency could draw a later durTS, and recovery would meet
	 * the dependent marker first (plant: no-slot-wait). */
	nondurable_wait_drawn(d, &c->dset);
	ring_draw(d, c);
	nondurable_publish(d, c);
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

/* The caller has not started the log's write-back yet: a load of a line under write-back waits for
 * it, and the checksum loads them all (measured: a third of a small update's time).  The checksum
 * reads the log where the update wrote it, not its copy, which may be out of the cache. */
void ring_put_marker(struct durability *d, struct media_marker *marker)
{
	struct media_marker *place = durability_marker(d, marker->durts);
	FUR_ASSERT(marker->thread < d->super->max_threads);
	marker->checksum = media_marker_checksum(d->super, marker, d->redo[marker->thread].written);
	memcpy(&place->log_start, &marker->log_start, sizeof *marker - sizeof marker->durts);
	arch_store_release(&place->durts, marker->durts);
}
