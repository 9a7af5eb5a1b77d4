/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pm.h - the persistence domain: what makes a store survive a power failure.  The contract of
 * src/pm.
 *
 *     pm_flush   starts the write-back of a range.  The range is NOT durable until
 *     pm_drain   has returned.  Then everything that this thread flushed before is durable.
 *
 *     pm_write   writes bytes to the file, by a system call; SYNC only.  They are durable when a
 *     pm_commit  has returned, which also writes the calling thread's request.
 *
 * SYNC has both ways because the kernel accounts for stores to a mapping by folios, which may have
 * a few MiB: a marker of 64 bytes that is stored to the mapping costs an fdatasync of a whole
 * folio.  What a system call writes costs its blocks.
 *
 * A flush alone orders nothing: two flushed lines may reach the medium in either order before the
 * drain.  8 aligned bytes reach the medium whole, or not at all.
 */
#ifndef FUR_PM_H
#define FUR_PM_H

#include "base/arch.h"
#include "pm/group.h"

#include <fur.h>

struct pm {
	enum fur_pm domain;
	int fd;
	uint64_t latency_ticks, gap_ticks; /* EMULATED */

	struct group_commit group; /* SYNC */
};

/* pm_init - choose the domain for `fd`, and tell the reason in `reason`.  `dax`: the file's shared
 * mapping is persistent memory.
 * Errors: FUR_EINVAL: PMEM or EADR asked for where the file, or the platform, does not offer it;
 *         FUR_ENOMEM. */
int pm_init(struct pm *pm, int fd, bool dax, enum fur_pm asked, char *reason, size_t reason_bytes);
void pm_fini(struct pm *pm);

/* pm_emulate - EMULATED: from now on a write-back takes `latency_ns` until it is durable, and those
 * of one thread begin `gap_ns` after each other; pm_init() sets both to 0.  In other domains it
 * does nothing. */
void pm_emulate(struct pm *pm, uint32_t latency_ns, uint32_t gap_ns);

void pm_flush(struct pm *pm, const void *start, size_t bytes);

/* The same for a range that another process wrote, now or in an earlier opening of the heap, and
 * may not have made durable.  After a failed fdatasync the kernel takes the pages for clean
 * (fsync(2)): a new fdatasync writes nothing, and reports no error on a file opened since.  So in
 * SYNC this function stores a word of each page again.  No thread may store to the range
 * meanwhile. */
void pm_flush_again(struct pm *pm, void *start, size_t bytes);

/* Returns 0, or FUR_EIO (SYNC only); after the first FUR_EIO it always returns FUR_EIO. */
FUR_MUST_USE int pm_drain(struct pm *pm);

/* Write `bytes` bytes to the file at `offset`.  SYNC only.  Errors: FUR_EIO. */
FUR_MUST_USE int pm_write(struct pm *pm, uint64_t offset, const void *from, uint64_t bytes);
/* Make the request durable, and all that the calling thread has written before, in a group with
 * other threads.  SYNC only.  Errors: as pm_drain(). */
FUR_MUST_USE int pm_commit(struct pm *pm, struct group_request *request);

/* Does the domain write by system calls?  Then the mapping is for reading, except by replays. */
static inline bool pm_writes(const struct pm *pm)
{
	return pm->domain == FUR_PM_SYNC;
}

/* Does a drain complete only the calling thread's flushes?  Otherwise it completes all stores to
 * the file. */
static inline bool pm_drains_own(const struct pm *pm)
{
	return pm->domain != FUR_PM_SYNC;
}

/* Do the medium's pages stay writable between transactions?  If not, a store to the medium may
 * fault, so a hardware transaction must not make one. */
bool pm_stores_in_transactions(const struct pm *pm);

#endif /* FUR_PM_H */
