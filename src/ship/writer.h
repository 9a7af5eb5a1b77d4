/* SPDX-License-Identifier: BSD-3-Clause
 *
 * writer.h - a node that writes a stream: how it becomes the writer, and which of its frames are
 * acknowledged.
 *
 * A state machine without threads, clocks, memory of its own or a log: the caller serves what
 * `phase` asks for (drive.h does so with an engine), and says what happened.  All calls come from
 * one thread at a time.
 *
 *     WRITER_IDLE      writer_start()
 *     WRITER_READS     messages from stream.next on, up to the log's end: writer_message(),
 *                      writer_end()
 *     WRITER_CLAIMS    append `claim`: writer_claim()
 *     WRITER_CONFIRMS  more messages, until the claim is among them
 *     WRITER_SHIPS     frames: writer_submit(), and what the log answers: writer_ack()
 *     WRITER_RESYNCS   after an anomaly (`why`): make sure that no answer to what was appended so
 *                      far comes any more, then writer_start() without flags
 *     WRITER_FENCED    another node writes (`why`): end, or writer_start(WRITER_TAKES_OVER)
 *     WRITER_FAILED    for good: `why`
 *
 *   INV-SH16  A writer ships nothing before it has read its own CLAIM back and found it valid.  It
 *             begins with the state behind that CLAIM: every frame that counts and is not its own
 *             stands before, and it has read it.
 *   INV-SH17  A frame is acknowledged if it, and every frame of its term before it, has the offset
 *             that it would have if nothing else were behind the CLAIM.  A later valid CLAIM takes
 *             one of these offsets.  So an acknowledged frame stands before any such CLAIM, and
 *             every later writer reads it before it begins.
 *   INV-SH18  `stream` advances only over messages that are in the log: those that were read, and
 *             those that are acknowledged.
 *
 * In doubt (a timeout, an answer without an offset, an offset that leaves a gap) the writer
 * resyncs: it reads which of its frames are in the log, which then are acknowledged, and claims
 * anew.
 */
#ifndef FUR_SHIP_WRITER_H
#define FUR_SHIP_WRITER_H

#include "ship/stream.h"

#define WRITER_CLAIM_BYTES (sizeof(struct frame_head) + sizeof(struct frame_claim))

enum writer_phase {
	WRITER_IDLE,
	WRITER_READS,
	WRITER_CLAIMS,
	WRITER_CONFIRMS,
	WRITER_SHIPS,
	WRITER_RESYNCS,
	WRITER_FENCED,
	WRITER_FAILED
};

enum writer_start {
	/* Claim, although the stream's newest claim is another node's */
	WRITER_TAKES_OVER = 1,
	/* The updates come from another file than the node's earlier ones (fur-resize).  A node
	 * that takes over begins a lineage also without this flag */
	WRITER_NEW_LINEAGE = 2
};

struct writer {
	struct stream stream;
	uint64_t node; /* not 0 */
	enum writer_phase phase;
	const char *why; /* of WRITER_RESYNCS, WRITER_FENCED and WRITER_FAILED */

	/* The newest frame of this node that is acknowledged, and its last whole update's durTS.
	 * 0: none that the writer knows of */
	uint64_t acked_frame, acked_durts;

	unsigned flags;      /* enum writer_start */
	uint64_t nonce, tag; /* tag: the upper half of each nonce */
	bool tagged;
	uint64_t first_term; /* of its first valid CLAIM, or 0 */
	uint8_t claim[WRITER_CLAIM_BYTES];
	uint64_t next_handle;

	/* WRITER_SHIPS */
	uint64_t claim_offset;
	uint64_t first_handle;       /* of the first frame behind the claim */
	uint64_t submitted, counted; /* frames behind the claim; counted: as acknowledged */
	struct frame_place end;      /* of the frame that is submitted next */
	struct {
		struct frame_head head;
		bool there; /* it has its offset */
	} flying[STREAM_IN_FLIGHT];
};

/* writer_init - `position`: where the node knows the stream, or NULL. */
void writer_init(struct writer *w, const uint8_t uuid[16], uint64_t node,
        const struct stream_position *position);

/* writer_start - begin to become the writer.  `nonce`: a random number, another one for each call.
 * In phase WRITER_IDLE, WRITER_RESYNCS or WRITER_FENCED. */
void writer_start(struct writer *w, uint64_t nonce, unsigned flags);

/* writer_message - the log's message at `offset`, which is stream.next. */
void writer_message(struct writer *w, uint64_t offset, const void *message, size_t bytes);

/* writer_end - the log ended at `end` when the caller asked, after the call before this one. */
void writer_end(struct writer *w, uint64_t end);

/* writer_claim - in WRITER_CLAIMS: the caller appends `claim` to the log, and waits for its own
 * time: if the claim does not come back within that, writer_resync().  Returns its handle. */
FUR_MUST_USE uint64_t writer_claim(struct writer *w);

/* writer_may_submit - is it in WRITER_SHIPS, with less than STREAM_IN_FLIGHT in flight? */
static inline bool writer_may_submit(const struct writer *w)
{
	return w->phase == WRITER_SHIPS && w->submitted - w->counted < STREAM_IN_FLIGHT;
}

/* writer_submit - seal the frame as the next one of the stream.  The caller appends it to the log,
 * in the order of these calls.  Returns its handle; *bytes is its length. */
FUR_MUST_USE uint64_t writer_submit(struct writer *w, struct frame_builder *b, size_t *bytes);

/* writer_ack - the log has the message of this handle, at `offset`, or says so without an offset:
 * STREAM_NO_OFFSET.  acked_frame and acked_durts move if that, and perhaps an earlier call,
 * acknowledges frames. */
void writer_ack(struct writer *w, uint64_t handle, uint64_t offset);

/* writer_resync - something failed: an append, the connection, the caller's patience.  `why` is
 * kept. */
void writer_resync(struct writer *w, const char *why);

#endif /* FUR_SHIP_WRITER_H */
