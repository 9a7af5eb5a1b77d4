/* SPDX-License-Identifier: BSD-3-Clause
 *
 * apply.h - writing updates that are to be kept to the heap's image: the engine of recovery and of
 * live replay.
 *
 * A pipeline of three stages, over the log's entries in order of durTS:
 *
 *     preload   a marker, a log or a heap line is asked for some distance before it is needed
 *     write     the entry's bytes, to the image
 *     unload    the line's write-back, some time later: lines that are stored to again meanwhile
 *               are written back once
 *
 * The idea of preloading and unloading, and its distances, are those of PUL (Bernhardt et al.,
 * "Pre-load in Software for Caches Wouldn't Always Play Along").  With several threads each writes
 * the granules of the heap that are its own.
 *
 *   INV-R4  Of two entries that store to the same byte, the one of the later durTS, or the later
 *           one of an update, is written last.  A granule has one writer, which takes the entries
 *           in order.
 *   INV-R8  No entry writes outside the image, whatever another process stores to the file
 *           meanwhile.
 *   INV-R5  When apply_updates() has returned, every line it wrote is durable, or will be after the
 *           caller's next drain (INV-R1).
 */
#ifndef FUR_APPLY_H
#define FUR_APPLY_H

#include "replay/inspect.h"
#include "replay/replay.h"

/* Slots [from, to), and what is to be done with each: verdicts[k], an enum inspect_verdict, is of
 * from + k; NULL: none is a hole.  All entries are checked. */
struct apply_basket;

struct apply_range {
	uint64_t from, to;
	const uint8_t *verdicts;
	unsigned threads;             /* to do it, the caller included: apply_threads() */
	struct apply_basket *baskets; /* for so many threads; NULL: it is done by one */
};

/* Write the updates' entries to the image, in order, and back.  Counts into `result`.  Errors:
 * FUR_EIO, of a helper's drain; FUR_ECORRUPT: another process has changed an entry since it was
 * checked.  Nothing is ever written outside the image: each marker and each entry is read once, and
 * its bounds are checked as read (INV-R8). */
FUR_MUST_USE int apply_updates(
        struct durability *d, const struct apply_range *range, struct replay_result *result);

/* What several threads need to sort entries: memory that is kept from one range to the next.  NULL:
 * there is none, or no need. */
struct apply_basket *apply_baskets(unsigned threads);
void apply_free_baskets(struct apply_basket *baskets, unsigned threads);

/* Do the entries of a valid marker's log make sense?  A checksum that holds over an entry outside
 * the heap means a bug or a forgery.  Errors: FUR_ECORRUPT. */
FUR_MUST_USE int apply_check(const struct durability *d, uint64_t durts);

/* Ask for the marker and the log of slots below `end` that who goes through them one by one, and is
 * at `at`, will look at soon. */
void apply_preload(const struct durability *d, uint64_t at, uint64_t end);

/* Run part(arg, n), n below `parts`, on as many threads, the caller being one; it returns when all
 * have.  Where a thread cannot be had the caller does its part, too. */
void apply_on_threads(unsigned parts, void (*part)(void *arg, unsigned n), void *arg);

/* How many threads are worth their start for so many bytes of log. */
unsigned apply_threads(const struct durability *d, uint64_t log_bytes);

/* Where the n-th of equal shares of [0, all) begins. */
static inline uint64_t apply_share(uint64_t all, unsigned n, unsigned shares)
{
	return all / shares * n + all % shares * n / shares;
}

#endif /* FUR_APPLY_H */
