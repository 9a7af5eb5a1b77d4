/* SPDX-License-Identifier: BSD-3-Clause
 *
 * apply.h - write the entries of updates to the heap's image: the engine of recovery and of live
 * replay.
 *
 * A pipeline of three stages over the entries, in order of durTS:
 *
 *     preload   prefetch a marker, a record or a heap line some distance before it is needed
 *     write     store the entry's bytes to the image
 *     unload    write the line back some time later, so that a line that several entries store to
 *               is written back once, and neighbours leave together (unload.h)
 *
 * preload.h has the strategies and the distances.  With several threads, each thread writes its own
 * granules of the heap.
 *
 *   INV-R4  If two entries store to the same byte, the later entry is written last: the one with
 *           the later durTS, or within an update the one that comes later in the record.  A granule
 *           has one writer, which takes the entries in order.
 *   INV-R5  When apply_updates() returns, every line that it wrote is durable, or becomes durable
 *           with the caller's next drain (INV-R1).
 *   INV-R8  No entry writes outside the image, even if another process changes the file meanwhile:
 *           log_walk_next() reads each entry's word once, and checks the bounds that it has read.
 */
#ifndef FUR_APPLY_H
#define FUR_APPLY_H

#include "replay/inspect.h"
#include "replay/replay.h"

struct apply_basket;

/* The updates with durTSs [from, to).  All their entries have been checked. */
struct apply_range {
	uint64_t from, to;
	uint8_t *image; /* of the heap, to write to */
	/* verdicts[k], of from + k, is an enum inspect_verdict; NULL: every slot is a valid commit
	 * or abort */
	const uint8_t *verdicts;
	unsigned threads;             /* the caller included: apply_threads() */
	struct apply_basket *baskets; /* for that many threads; NULL: the caller works alone */
};

/* Write the entries of the updates to the image, in order, and start their write-back.  Adds to
 * `result`.  Errors: FUR_EIO if a helper's drain fails; FUR_ECORRUPT if another process has changed
 * an entry since it was checked.  Never writes outside the image (INV-R8). */
FUR_MUST_USE int apply_updates(
        struct durability *d, const struct apply_range *range, struct replay_result *result);

/* Write those entries of the updates [from, to) to d->copy that begin in the part which is copied
 * already (INV-B1).  The others will be copied, from the image.  Writes nothing back: the caller of
 * backup_copy() syncs the copy if it has to be durable.  Errors: FUR_ECORRUPT. */
FUR_MUST_USE int apply_to_copy(const struct durability *d, uint64_t from, uint64_t to);

/* Allocate the memory in which several threads sort entries.  The caller keeps it from one range to
 * the next.  Returns NULL for one thread, or if there is no memory. */
struct apply_basket *apply_baskets(unsigned threads);
void apply_free_baskets(struct apply_basket *baskets, unsigned threads);

/* Do the entries of a valid marker's record make sense?  A checksum that holds over an entry
 * outside the heap means a bug or a forgery.  Errors: FUR_ECORRUPT. */
FUR_MUST_USE int apply_check(const struct durability *d, uint64_t durts);

/* Run part(arg, n) for each n below `parts`, each on a thread of its own, part 0 on the caller's.
 * Returns when all have returned.  If a thread cannot be started the caller runs its part. */
void apply_on_threads(unsigned parts, void (*part)(void *arg, unsigned n), void *arg);

/* The number of threads that are worth starting for this many bytes of log. */
unsigned apply_threads(const struct durability *d, uint64_t log_bytes);

/* The same where each thread takes whole heaps: for `n` heaps, and this many bytes in all.  For
 * work that takes long for small heaps too, UINT64_MAX bytes. */
unsigned apply_threads_for_heaps(uint64_t n, uint64_t bytes);

/* The beginning of the n-th of equal shares of [0, all). */
static inline uint64_t apply_share(uint64_t all, unsigned n, unsigned shares)
{
	return all / shares * n + all % shares * n / shares;
}

#endif /* FUR_APPLY_H */
