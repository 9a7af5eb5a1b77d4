/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pm.h - the persistence domain: what it takes for a store to survive.
 *
 *     pm_flush   starts the write-back of a range.  NOT durable until
 *     pm_drain   has returned: then everything this thread flushed before is.
 *
 * A flush orders nothing by itself; two flushed lines may reach the medium in either order before
 * the drain.  8 bytes, aligned, are written whole.
 */
#ifndef FUR_PM_H
#define FUR_PM_H

#include "base/arch.h"
#include <fur.h>
#include <pthread.h>

struct pm {
	enum fur_pm domain;
	int fd;
	uint64_t latency_ticks, gap_ticks; /* EMULATED */

	/* SYNC: group commit.  A request is a ticket; whoever finds no sync running runs one for
	 * all tickets drawn so far. */
	pthread_mutex_t mutex;
	pthread_cond_t synced;
	uint64_t requested, done;
	bool running;
	/* Errno of the first failed sync; sticky, for a failed fdatasync drops the pages
	 * (fsync(2)) */
	int error;
};

/* pm_init - choose the domain for `fd` (AUTO: by what it is on), tell why in `reason`.  `shared` is
 * the file's shared mapping.  Errors: FUR_EINVAL: PMEM or EADR asked for where the mapping is not
 * persistent memory; FUR_ENOMEM. */
int pm_init(struct pm *pm, int fd, bool dax, const struct fur_options *options, char *reason,
        size_t reason_bytes);
void pm_fini(struct pm *pm);

void pm_flush(struct pm *pm, const void *start, size_t bytes);

/* The same for a range that another process wrote, or this one in an earlier life, and may not have
 * made durable.  After a failed fdatasync the kernel takes its pages for clean (fsync(2)): a new
 * one writes nothing, and reports nothing to a file opened since.  So in SYNC a word of each page
 * is stored again.  Nobody else may be storing to the range. */
void pm_flush_again(struct pm *pm, void *start, size_t bytes);

/* Returns 0, or FUR_EIO (SYNC only), for ever after the first. */
FUR_MUST_USE int pm_drain(struct pm *pm);

/* Does a drain complete the calling thread's flushes and no other's?  If not, the whole file's. */
static inline bool pm_drains_own(const struct pm *pm)
{
	return pm->domain != FUR_PM_SYNC;
}

/* Does the medium keep its pages writable between transactions?  If not, a store to it may fault,
 * and so may not be made inside a hardware transaction. */
bool pm_stores_in_transactions(const struct pm *pm);

#endif /* FUR_PM_H */
