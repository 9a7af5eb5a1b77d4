/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shipper.h - ships the updates of a heap that another process works on: from its ring to a
 * stream's log, and the log's answers back to it (durability/ship.h).
 *
 *   INV-SH31  Frames contain the updates in the order of their durTSs, each once in a term, and
 *             none is left out: the shipper stops at the first slot whose marker is not written
 *             whole.  Aborted updates have no frame.
 *   INV-SH32  What a record names and does not contain is shipped before the record, from the image
 *             (FRAME_SIDE): a fresh block as it was when the update committed, because nothing that
 *             could change it is acknowledged yet (INV-SH1, INV-FM2); the results of a bulk update,
 *             because its block is not reused before it is replayed (INV-BU4).
 *   INV-SH33  The shipper moves `acked` over an update when the writer counts its frame as
 *             acknowledged (INV-SH17), or has read it in the log.
 *   INV-SH35  The updates before the position in the ship page are in the heap's image.  So a
 *             recovery finds behind it every update of the stream that the image may lack.
 *   INV-SH36  While the heap is handed over, a HANDOVER follows the last update.  To a standby,
 *             updates behind a HANDOVER mean that the writer goes on, and it does not claim.
 */
#ifndef FUR_SHIPPER_H
#define FUR_SHIPPER_H

#include "durability/ship.h"
#include "file/heap_file.h"
#include "ship/drive.h"

/* Frames that are under way: updates gather meanwhile, so that frames grow with the load. */
enum { SHIPPER_FLIGHTS = 4 };

/* What the shipper tells its program; each may be NULL. */
struct shipper_events {
	/* The log has failed, and the shipper tries again; it works again */
	void (*troubled)(void *self, const char *why);
	void (*works)(void *self);
	/* No update begins, because this node is to take over; it has not done so in time, and
	 * updates begin again */
	void (*hands_over)(void *self, uint64_t node);
	void (*keeps)(void *self, uint64_t node);
	void *self;
};

/* How long a handover may take before updates begin again. */
enum { SHIPPER_HANDOVER_MS = 10000 };

struct shipper {
	struct durability *d; /* attached to the heap's file, beside its worker */
	struct heap_file *file;
	struct stream_engine *engine;
	struct writer writer;
	uint32_t stopping; /* 1: shipper_run() returns; then ship_call_shipper() */
	uint32_t opened;   /* control->opened when updates were last let in */
	uint64_t next;     /* the first durTS that is in no frame */
	/* How long, and until when, it waits for an answer before it is in doubt */
	uint64_t patience_ns, until_ns;
	struct shipper_events events;
	bool troubled;
	/* When nothing was shipped for this long: a frame that says that the writer lives.  0:
	 * none */
	uint64_t beat_ns, beat_at;
	/* After this many frames since the position, a heap that rests is replayed: otherwise the
	 * position would stay, and one day the log no longer have it */
	uint64_t idle_frames;
	/* Handover: to this node, or 0; until when; it has been asked behind all updates below this
	 * durTS, or 0 */
	uint64_t heir, heir_until, heir_behind, usual_beat_ns;
	/* Where a recovery begins to read the stream, as the ship page has it; and where it will
	 * begin, once every update before that is replayed (INV-SH35) */
	struct stream_position position, mark;
	/* Frames under way: an answer to this frame acknowledges the updates below this durTS. */
	struct shipper_flight {
		uint64_t frame_no, durts;
	} flights[SHIPPER_FLIGHTS];
	unsigned first, flying;
	/* Into a file for people: acknowledges nothing, and gives up when the engine fails. */
	bool aside;
	uint8_t *read, *built; /* FRAME_MOST_BYTES each */
};

/* shipper_begin - `d` is attached to `file`, that of a primary, beside its worker
 * (replays_for_worker), or, to recover it, as its worker; `engine` to its log.  The stream is read
 * from the position in the ship page on.
 * Errors: FUR_EINVAL: the heap has another role; FUR_ECORRUPT; FUR_ENOMEM. */
FUR_MUST_USE int shipper_begin(struct shipper *s, struct durability *d, struct heap_file *file,
        struct stream_engine *engine);
/* shipper_begin_aside - for shipper_ship() alone, of updates that the stream lacks, into another
 * log, of which the caller has no position.  They stay unacknowledged.  Errors: FUR_ENOMEM. */
FUR_MUST_USE int shipper_begin_aside(
        struct shipper *s, struct durability *d, struct stream_engine *engine, uint64_t node);
void shipper_end(struct shipper *s);

/* shipper_keep_position - write the position to the ship page (INV-SH35); durable before return.
 * Errors: those of heap_write_ship_page(). */
FUR_MUST_USE int shipper_keep_position(struct shipper *s, const struct stream_position *position);

/* shipper_run - become the stream's writer, and ship, until *stopping is set or the worker has
 * ended, which shipper_worker_lives() then tells.
 * Errors: FUR_EFENCED: another node writes the stream; its heap has been told (ship_fence), if a
 *         worker has it open.  FUR_ECORRUPT: the log is not what it was, with what to do.  Failures
 *         of the engine are tried again. */
FUR_MUST_USE int shipper_run(struct shipper *s);

/* shipper_hand_over - ask the shipper that runs beside the heap, perhaps in another process, to let
 * the node take over: no update begins any more; what has been stored is shipped; a frame names the
 * node; and its claim fences this heap (CONTROL_FENCED).  All that a transaction has returned is in
 * the log then.  If the node does not claim within SHIPPER_HANDOVER_MS, updates begin again, and
 * control->ship.heir is 0.
 * Errors: FUR_EBUSY: another handover is under way. */
FUR_MUST_USE int shipper_hand_over(struct durability *d, uint64_t node);

/* shipper_become_writer - the same, up to the moment when the first frame could be shipped: then
 * writer.acked_durts is the durTS of the stream's last update.  Returns 0 also if it was stopped:
 * see *stopping. */
FUR_MUST_USE int shipper_become_writer(struct shipper *s);

/* shipper_ship - ship the updates of [s->next, end) for which keep(arg, durts) is true, and return
 * when the log has them.  The stream's writer calls it, while no process works on the heap.
 * Errors: FUR_EFENCED, FUR_ECORRUPT; FUR_EBUSY if it was stopped; aside, those of the engine. */
FUR_MUST_USE int shipper_ship(
        struct shipper *s, uint64_t end, bool (*keep)(void *arg, uint64_t durts), void *arg);

#endif /* FUR_SHIPPER_H */
