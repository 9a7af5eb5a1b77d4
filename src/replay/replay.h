/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replay.h - recovery and live replay: from the log to the heap file.  With inspect.h and backup.h
 * it is the contract of src/replay.
 *
 *   INV-R1  The tail moves only after everything below it is durable in the heap.  Replaying an
 *           update twice does no harm.
 *   INV-R2  Recovery keeps a marker only if its checksum holds and every slot that it names was
 *           kept, lies below the tail, or has an abort marker.  It looks at the whole range [tail,
 *           tail + ring_slots), and so needs no bound on the number of holes.
 *   INV-R3  A live replay stops at the first update that may be in flight; space in the ring and
 *           the logs becomes free in order.
 *   INV-R6  Recovery, and a replay alongside another process, make markers and logs durable before
 *           they write any entry to the heap, because the thread that wrote a record may not have
 *           made it durable: the newest record of each thread, and every late one.  Otherwise a
 *           power failure could leave half of an update in the heap, and no record in the log to
 *           complete it from.  (A process's own live replay needs no such step: it takes only
 *           updates that are durable, INV-R3.)
 *   INV-R7  Recovery corrects a byte if that makes a checksum hold, and refuses a heap that it can
 *           prove to be damaged (inspect_find_damage).  So every state that it leaves is one that
 *           the heap once had.
 */
#ifndef FUR_REPLAY_H
#define FUR_REPLAY_H

#include "durability/durability.h"

struct replay_result {
	uint64_t updates, entries, bytes; /* replayed */
	/* Slots below the last valid marker that hold no valid marker */
	uint64_t holes;
	/* Valid markers whose dependencies were lost */
	uint64_t dropped;
	uint64_t mended; /* markers or records in which one byte was corrected */
	uint64_t ns;
};

/* replay_recover - after a failure: replay the log, make the heap durable, restart the ring
 * (INV-M2).  The caller holds the right to replay, and nothing runs on the heap.  Errors:
 * FUR_ECORRUPT, FUR_EIO, FUR_ENOMEM; the file's log is untouched then. */
FUR_MUST_USE int replay_recover(struct durability *d, struct replay_result *result);

/* The same in two steps, for a heap whose updates are shipped (INV-SH4).  replay_recover_begin()
 * decides which updates are kept, and makes their markers and records durable.  The caller ships
 * those; then replay_recover_end() writes them to the heap.  Or, for a heap that another one has
 * replaced, replay_recover_drop() gives them all up: no later recovery finds them; durable before
 * return.  Each of the two, or replay_recover_give_up(), frees the recovery.
 *     replay_recover_reach()  every kept update lies below this durTS
 *     replay_recover_keeps()  is the update of this durTS kept?
 * Errors: as replay_recover(). */
struct recovery;
FUR_MUST_USE int replay_recover_begin(
        struct durability *d, struct replay_result *result, struct recovery **recovery);
uint64_t replay_recover_reach(const struct recovery *w);
bool replay_recover_keeps(const struct recovery *w, uint64_t durts);
FUR_MUST_USE int replay_recover_end(struct recovery *w);
FUR_MUST_USE int replay_recover_drop(struct recovery *w);
void replay_recover_give_up(struct recovery *w);

/* replay_skip - move the tail over updates that the caller has written to the heap; durable before
 * return, as is what the caller has flushed (INV-R1).  Nothing runs on the heap.
 * Errors: FUR_EIO. */
FUR_MUST_USE int replay_skip(struct durability *d, uint64_t tail);

/* May libfur recover the heap, if that was not closed (INV-SH4)?
 * Errors: FUR_EBUSY: fur-ship does. */
FUR_MUST_USE int replay_may_recover(const struct durability *d);

/* Recover if the heap was not closed, and set *recovered accordingly; otherwise check that it was
 * closed (replay_check_closed).  Needs no mapping of the heap at its address: it reads and writes
 * only the file.  Errors: as replay_recover(). */
FUR_MUST_USE int replay_unless_closed(
        struct durability *d, struct replay_result *result, bool *recovered);

/* Check a closed heap before it is opened: does it contain anything that only an open heap has?  A
 * file may be copied while a program opens the heap: if the copy's first pages were read before
 * that, its state word still contains MEDIA_CLOSED.  Errors: FUR_ECORRUPT. */
FUR_MUST_USE int replay_check_closed(const struct durability *d);

/* In a file of version 1, start the ring one lap further on.  That lets inspect_find_damage()
 * recognise the first records of a process.  Errors: FUR_EIO. */
FUR_MUST_USE int replay_begin_lap(struct durability *d);

/* replay_live - replay the updates that are durable now, alongside running transactions.  The
 * caller holds the right to replay, and has locked `d->replaying` if the transactions are this
 * process's.  Errors: FUR_ECORRUPT, FUR_EIO, FUR_ENOMEM. */
FUR_MUST_USE int replay_live(struct durability *d);

/* Give the copy that backup_heap() is making the blocks that the heap has now (INV-F5, for the
 * copy).  The caller has read the markers that it is about to apply, so the size that is read
 * here covers their entries.  If there is no room: sets d->copy_error, and gives up the copy,
 * not the replay. */
void replay_copy_grow(struct durability *d);

extern const struct durability_ops replay_ops;

#endif /* FUR_REPLAY_H */
