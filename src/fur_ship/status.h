/* SPDX-License-Identifier: BSD-3-Clause
 *
 * status.h - look at a heap that is shipped, and ask its fur-ship to hand it over.
 */
#ifndef FUR_SHIP_STATUS_H
#define FUR_SHIP_STATUS_H

#include "media/applied.h"
#include <fur.h>
#include <stdbool.h>

/* status_read - what the file says, and which processes live.  Writes nothing and takes no lock, so
 * all of it may be out of date.  It closes `fd`.   Errors: as fur_open(). */
struct ship_status {
	struct media_ship page;
	bool closed;
	/* Of a primary: another node has taken over, as far as this machine has noticed */
	bool fenced;
	uint64_t worker_pid, shipper_pid; /* 0: none */
	struct media_standby standby;     /* of a standby */
	/* While a program has the heap open.  Updates above `acked` whose markers are written */
	uint32_t shipping; /* enum control_shipping */
	uint64_t term, lineage, acked, unacked;
};
FUR_MUST_USE int status_read(int fd, const char *path, struct ship_status *status);

/* status_hand_over - let the fur-ship of the heap hand it over to the node, and wait for that
 * (shipper_hand_over()).  It closes `fd`.
 * Errors: FUR_EINVAL: the heap is no primary, or the node is its own; FUR_EBUSY: no program has the
 *         heap open, no fur-ship ships it, or it is being handed over already; FUR_EBEHIND: the
 *         node has not claimed, and this heap goes on. */
FUR_MUST_USE int status_hand_over(int fd, const char *path, uint64_t node);

#endif /* FUR_SHIP_STATUS_H */
