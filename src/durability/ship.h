/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ship.h - a heap whose updates are shipped: another process copies them, in the order of their
 * durTSs, to a log outside this machine, the shipping log.  docs/shipping.md has the whole; this
 * is what a working process and its replayers keep.
 *
 * The shipper reads the ring from `acked` on, up to the first slot whose marker is not written.
 * The log acknowledges what it has, and the shipper moves `acked`.
 *
 *   INV-SH1  The leash: a live replay writes an update to the heap's image only when its durTS is
 *            below `acked`.  So the slots and records from `acked` on stay where the shipper reads
 *            them; and a heap that another one has replaced drops what the log does not have by
 *            giving up its own log: the image was never ahead.
 *   INV-SH2  `acked` rises above a durTS only when the log has every update below it.  It never
 *            goes back while a process works.
 *   INV-SH3  In a heap that returns only what is acknowledged, a transaction returns to its caller
 *            when `acked` has reached next_durts, loaded after its waits for D: all that it has
 *            read from, and itself, has drawn its durTS by then.  Otherwise it could return what a
 *            fail-over takes back.
 *   INV-SH4  libfur does not recover such a heap: the log may have updates that the heap's file has
 *            lost, and a recovery without them would give their durTSs up.
 *   INV-SH5  An update begins only while a quarter of the ring, and of its thread's log, is free.
 *            So the updates that have begun find room without an acknowledgement, unless they are
 *            large, and when the log is slow updates wait where they block no other thread.
 *   INV-SH6  While the heap is handed over to another one on purpose, INV-SH3 holds for every heap:
 *            so the other one lacks nothing that has returned (ship_close_gate()).
 */
#ifndef FUR_SHIP_H
#define FUR_SHIP_H

#include "durability/async.h"

/* Every update below this durTS is acknowledged.  Acquire: orders it before the caller's reads of
 * slots below, and pairs with the release in ship_acknowledge(). */
static inline uint64_t ship_acked(const struct durability *d)
{
	return likely(!d->ship.on) ? UINT64_MAX : arch_load_acquire(&d->control->ship.acked);
}

/* Can no replay make room, because the log has acknowledged nothing above the tail (INV-SH1)? */
static inline bool ship_leashed(const struct durability *d)
{
	return unlikely(d->ship.on) && ship_acked(d) <= ring_tail(d);
}

enum { SHIP_REST_NS = 10000000 };

/* Sleep until the log acknowledges more, for 10 ms at most. */
void ship_rest(struct durability *d);

/* Has another heap taken over?  Acquire: the caller's next load of `acked` finds its last value.
 * Errors: FUR_EFENCED, and the heap has failed. */
FUR_MUST_USE int ship_check_fence(struct durability *d);

/* How long a loop has waited for acknowledgements; all zero at first. */
struct ship_patience {
	uint64_t acked, until;
};

/* ship_patience - may the caller go on waiting for a replay?  It may as long as the log has
 * acknowledged something within the heap's patience.
 * Errors:  FUR_EBEHIND; FUR_EFENCED, and the heap has failed. */
FUR_MUST_USE int ship_hopes(struct durability *d, struct ship_patience *p);
FUR_MUST_USE static inline int ship_patience(struct durability *d, struct ship_patience *p)
{
	return likely(!d->ship.on) ? 0 : ship_hopes(d, p);
}
/* durability_replay(), unless the log has acknowledged nothing within the heap's patience.  For
 * loops that wait until something is replayed.   Errors: those of both. */
FUR_MUST_USE static inline int ship_replay(
        struct durability *d, struct arch_backoff *backoff, struct ship_patience *p)
{
	const int error = ship_patience(d, p);
	return error ? error : durability_replay(d, backoff);
}
/* ship_patience() without a look at the fence, and without a message.  Errors: FUR_EBEHIND. */
FUR_MUST_USE int ship_wait_on(struct durability *d, struct ship_patience *p);

/* Set the message for a heap that waits in vain for its log: why, and what helps.
 * Returns FUR_EBEHIND. */
int ship_fail_behind(const struct durability *d);

/* Has the heap become a primary since it was opened as a standby (fur_take_over())? */
bool ship_was_promoted(const struct durability *d);

/* ship_admit - may an update of this thread begin (INV-SH5, INV-SH21)?  Waits until it may.  Never
 * inside a hardware transaction, nor with the turn.
 * Errors:  FUR_EREADONLY: the heap is a standby; FUR_EBEHIND, FUR_EFENCED; those of
 *          durability_replay(). */
FUR_MUST_USE int ship_admit_slowly(struct durability *d, uint32_t thread);
bool ship_admits(const struct durability *d, uint32_t thread);
FUR_MUST_USE static inline int ship_admit(struct durability *d, uint32_t thread)
{
	return likely(!(d->ship.on | d->ship.follows)) || ship_admits(d, thread)
	               ? 0
	               : ship_admit_slowly(d, thread);
}

/* ship_wait - return when every update below this durTS is acknowledged (INV-SH3).  The caller is
 * not in active[] or nondurable[], and has no turn: the updates below may wait for it otherwise.
 * Errors:  FUR_EINDOUBT: the log has acknowledged nothing within the heap's patience; FUR_EFENCED;
 *          those for which the heap has failed. */
FUR_MUST_USE int ship_wait(struct durability *d, uint64_t durts);

/* Do transactions of this heap return only what is acknowledged?  The caller has put its marker
 * into the file, and called the shipper, so a full fence lies between that and the load of the
 * state. */
static inline bool ship_replicates(const struct durability *d)
{
	return unlikely(d->ship.on) &&
	       (d->ship.replicates || arch_load32(&d->control->ship.state) > CONTROL_SHIPS);
}

/* ship_wait_all - for a transaction that has waited for D: return when all that it can
 * have read is durable (INV-AS2), and acknowledged, in a heap that returns only that (INV-SH3).
 * Errors:  those of async_wait() and ship_wait(). */
static inline int ship_wait_all(struct durability *d)
{
	const int error = async_wait_all(d);
	/* Acquire: after the waits for D. */
	return likely(!ship_replicates(d)) || error ? error : ship_wait(d, ring_next_acquire(d));
}

/* ship_newest - name all that this process's updates have made so far by one of them, the newest
 * that is in the stream or will be: of lineage *lineage, or *durts 0.  What the caller means must
 * be durable.
 *
 *   INV-SH81  The result is not below any update whose marker was in the file before the call, and
 *             it is not below them for ever without a frame: it is an update that commits.
 * Errors:  FUR_EBEHIND: no shipper has said which lineage it is. */
FUR_MUST_USE int ship_newest(const struct durability *d, uint64_t *lineage, uint64_t *durts);

/* Call the shipper, if it sleeps: the caller has put a marker into the file. */
void ship_call_shipper(struct durability *d);
static inline void ship_call(struct durability *d)
{
	if (unlikely(d->ship.on))
		ship_call_shipper(d);
}

/* ----------------------------------------------------------------- the shipper */

/* Of another process, attached to the file (replays_for_worker). */

/* ship_begin - a shipper is there: updates may begin.  Called for each opening of the heap. */
void ship_begin(struct durability *d);
/* ship_close_gate - let no update begin, until ship_begin().  Those that have begun go on, and
 * return when they are acknowledged (INV-SH3).  So do all others whose marker the caller does not
 * find in the ring after this call.  Errors: those of ship_fence_updates(). */
FUR_MUST_USE int ship_close_gate(struct durability *d);
/* Does the worker leave its updates' fences to the caller?  If so, none of its transactions waits
 * for the log. */
static inline bool ship_lent(const struct durability *d)
{
	return arch_load32(&d->control->ship.lent);
}
/* ship_fence_updates - a full fence, in the caller and in each update of a worker that has none of
 * its own in ship_call().
 * Errors:  FUR_ESYS: the system refuses it.  Updates may be let in only while it does not. */
FUR_MUST_USE int ship_fence_updates(const struct durability *d);
/* Is there no marker of this durTS or a later one in the ring? */
bool ship_drained(const struct durability *d, uint64_t durts);
/* ship_promoted - a standby has replayed all that it has, and becomes a primary: a shipper begins
 * behind that, also if it attaches before the heap is opened again (INV-SH82). */
void ship_promoted(struct durability *d);
/* ship_fence - another heap has taken over: what is not acknowledged is lost.  `acked` is exact
 * then: everything below is in the log, and nothing above. */
void ship_fence(struct durability *d);

/* ship_read - read the marker of this durTS, which is in the ring's window, if it is written whole.
 * Its record stays where it is until the durTS is acknowledged (INV-SH1).
 * Errors:  FUR_EBUSY, without a message: it is not written yet. */
FUR_MUST_USE int ship_read(const struct durability *d, uint64_t durts, struct media_marker *marker);

/* ship_tell - the newest update of the lineage that the log has, or 0.  The caller has stored the
 * lineage in the control region, and tells before it lets updates in, and before it moves `acked`
 * over the update (INV-SH81). */
void ship_tell(struct durability *d, uint64_t durts);

/* ship_acknowledge - the log has every update below this durTS (INV-SH2).
 * Orders:  the shipper's reads of the slots and records below before `acked` (release), after
 *          which a replay moves the tail, and updates overwrite them. */
void ship_acknowledge(struct durability *d, uint64_t durts);

/* ship_await_updates - sleep until the marker of this durTS may have been written, or *stopping is
 * set and ship_call_shipper() called, for `ns` at most; 0: without limit.  No call for them is lost
 * (INV-EV1).
 * Errors:  those of ship_fence_updates(). */
FUR_MUST_USE int ship_await_updates(
        struct durability *d, uint64_t durts, const uint32_t *stopping, uint64_t ns);

#endif /* FUR_SHIP_H */
