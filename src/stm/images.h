/* SPDX-License-Identifier: BSD-3-Clause
 *
 * images.h - before-images: what the lines of the heap had at the instant of a snapshot
 * (update/snapshot.c), if updates have stored to them since.
 *
 * The heap itself always has the newest state.  While a snapshot is open, who stores to a line
 * saves it first, once for each snapshot: 64 bytes of memory that is not durable.  A line's images
 * form a chain, the newest first.  An image has the number of the snapshot that was the newest when
 * it was saved; so it is what that snapshot sees, and each older one that the next image in the
 * chain is too old for.  (Before-images in memory: Reed, MIT 1978; by granules of the heap in place
 * of versions of rows, so that any structure can be read.)
 *
 *   INV-SN1  No thread stores to a line while its newest image is older than the newest snapshot:
 *            it saves the line before.  Only one thread at a time may store to a line, and so save
 *            it: the holder of its stamp, or of the turn while no update publishes.  An update in
 *            hardware saves as part of its transaction: two that store to a line conflict.
 *   INV-SN2  A snapshot shows the updates whose durTS is not above its `last`, and no others.
 *            While its thread has the turn, it says in lock.snapshot that it begins, and then reads
 *            next_durts; updates publish beside it.  An update in software draws, and then looks at
 *            the word.  If it finds the one before, its durTS is not above `last`.  If it finds
 *            this one, it waits until `last` is known, and saves for this snapshot if its durTS is
 *            above, else for the one before.  An update in hardware has committed before; or the
 *            begin aborts it, for it has looked at the word.
 *   INV-SN3  A snapshot's reader loads the word first, and then the line's chain.  If it finds no
 *            image, the word is the snapshot's.
 *   INV-SN4  If the version in a line's stamp is below `last`, no update has stored to the line
 *            since the snapshot began, and the reader need not look at the chain.  So an update
 *            that stores past the stamps sets the version to `last` of the newest snapshot, when
 *            all updates up to that are settled, or late: the version then hides none that a reader
 *            of the line must wait for (INV-DV1).  An update in hardware does not wait for them:
 *            while it can commit, no transaction tells by versions from whom it has read
 *            (INV-UR3).
 *   INV-SN5  What a snapshot shows is durable, or late, before a body reads in it; so its updates
 *            have made their stores.  It is durable before fur_snapshot_begin() returns.
 *   INV-SN6  An image is given back when each open snapshot is newer than it, or revoked: at the
 *            latest when the next snapshot begins, or there is no memory for another image.
 *   INV-SN7  Without memory for an image, the oldest snapshot is revoked; if it is the newest too,
 *            before the store that it cannot see.  Its readers look at that after each load that is
 *            not the usual case, and leave the body; after the revocation each load is none.
 *   INV-SN8  If a line's bit is set, and the number of its set is that of a snapshot, the line is
 *            saved for that one.  So each snapshot's bits begin at 0.  Sets are used only while all
 *            threads save for one snapshot.
 *   INV-SN9  A snapshot begins after the updates that the one before shows have ended.  So threads
 *            save for at most two, the newest and the one before, and for the newest alone when
 *            what it shows is settled.
 */
#ifndef FUR_IMAGES_H
#define FUR_IMAGES_H

#include "tx/tx.h"

enum { SNAPSHOTS_MOST = 64 }; /* open at a time */

struct fur_snapshot {
	struct engine *engine;
	uint64_t number;  /* 1, 2, ...: in the order in which they began.  0: not open */
	uint64_t last;    /* the greatest durTS that an update had drawn at the instant */
	uint64_t users;   /* threads that run a body in it */
	uint64_t revoked; /* INV-SN7 */
};

struct images;

void images_free(struct engine *e);

/* images_open - a snapshot of each heap, s[0] to s[n - 1], all of this one instant (INV-SN2), which
 * no body may read yet (INV-SN5).  The engines of several heaps are in the order of their members.
 * The thread has no transaction open.
 * Errors: FUR_EBUSY: too many are open; FUR_ENOMEM.  None is open then. */
FUR_MUST_USE int images_open(struct engine *const *engines, unsigned n, struct fur_snapshot **s);
/* images_await - return when every update that the snapshot shows is settled, or late (INV-SN5).
 * Orders:  their stores before what follows (light fence). */
void images_await(struct engine *e, const struct fur_snapshot *s);
/* End it, and give back the images that no other needs.  By any thread that has no transaction open
 * on the heap. */
void images_close(struct fur_snapshot *s);

/* images_load - `bytes` bytes of one line of the heap at `from`, as the snapshot has them.
 * Orders:  its loads before each other (light fences, INV-SN3).
 * Returns: false: the snapshot is revoked. */
FUR_MUST_USE bool images_load(const struct fur_thread *t, const struct fur_snapshot *s, uint8_t *to,
        const uint8_t *from, uint64_t bytes);

static inline bool images_revoked(const struct fur_snapshot *s)
{
	return arch_load(&s->revoked) != 0;
}

/* Must who stores save before?  The caller has the turn, or has drawn and publishes; then the
 * answer stays as it is, unless snapshots are revoked. */
static inline bool images_wanted(const struct engine *e)
{
	return unlikely(arch_load(&e->lock.snapshot) != 0);
}

/* images_save - the update is about to store `bytes` bytes at `at` past the stamps: in place, or to
 * fresh memory.  The caller has the turn, alone.
 * Orders:  the images before the caller's later stores (light fence). */
void images_save(struct fur_thread *t, const void *at, uint64_t bytes);

/* images_look - for an update that has begun in hardware or in place: let its stores save, if a
 * snapshot is open.  In hardware the load is part of the transaction, as in marks_look(). */
static inline void images_look(struct fur_update *tx)
{
	if (images_wanted(tx->thread->engine))
		tx->flags |= TX_IMAGES;
}

/* images_save_tracked - as images_save(), for an update in hardware: the images are part of the
 * transaction.
 * Returns: false: the update must run again in software. */
FUR_MUST_USE bool images_save_tracked(struct fur_thread *t, const void *at, uint64_t bytes);

/* images_save_record - as images_save(), for all that the record of the update's log will store.
 * `stamped`: the update holds the stamps.  It has the turn, or has drawn. */
void images_save_record(struct fur_thread *t, bool stamped);

/* For fur_get_stats(). */
struct image_counts {
	uint64_t open, bytes, revoked;
};
struct image_counts images_count(const struct engine *e);

#endif /* FUR_IMAGES_H */
