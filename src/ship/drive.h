/* SPDX-License-Identifier: BSD-3-Clause
 *
 * drive.h - read a stream from an engine, and do there what a writer asks for.
 */
#ifndef FUR_SHIP_DRIVE_H
#define FUR_SHIP_DRIVE_H

#include "ship/engine.h"
#include "ship/writer.h"

/* drive_read - read the stream's next message, and judge it.  `room` has FRAME_MOST_BYTES bytes.
 * Returns: 1, and *judgement; 0 if the log ends there.  A log that has lost what the stream has
 * read is a fatal judgement.  Errors: the engine's. */
FUR_MUST_USE int drive_read(struct stream_engine *e, struct stream *stream, void *room,
        struct frame *frame, enum stream_judgement *judgement);

/* drive_turn - take one step: read a message, ask for the log's end, append the claim, or take
 * answers, for which it waits up to `patience_ms`.  `room` has FRAME_MOST_BYTES bytes.
 * An engine's failure makes the writer resync; its message is kept for fur_errormsg().  The caller
 * bounds the time of WRITER_CONFIRMS and of frames in flight by writer_resync(), and serves
 * WRITER_RESYNCS by drive_restart().
 * Returns: 1 if it has done something, 0 if there was nothing to do.  Errors: the engine's; the
 * writer resyncs. */
int drive_turn(struct writer *w, struct stream_engine *e, uint8_t *room, int patience_ms);

/* drive_submit - append a frame.  Only if writer_may_submit().  Errors: the engine's; the writer
 * resyncs. */
FUR_MUST_USE int drive_submit(struct writer *w, struct stream_engine *e, struct frame_builder *b);

/* drive_restart - drop what is under way, and start to become the writer (again).
 * Errors: the engine's; the writer has not started. */
FUR_MUST_USE int drive_restart(
        struct writer *w, struct stream_engine *e, uint64_t nonce, unsigned flags);

#endif /* FUR_SHIP_DRIVE_H */
