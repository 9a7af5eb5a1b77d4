/* SPDX-License-Identifier: BSD-3-Clause
 *
 * drive.c - a writer on an engine (drive.h).
 */
#include "ship/drive.h"

int drive_read(struct stream_engine *e, struct stream *stream, void *room, struct frame *frame,
        enum stream_judgement *judgement)
{
	const uint64_t offset = stream->next;
	uint64_t end;
	size_t bytes = 0;
	int n = e->ops->read(e, offset, room, FRAME_MOST_BYTES, &bytes);
	if (n == 1) {
		/* A longer message is no frame: the part that is here does not check. */
		*judgement = stream_read(stream, offset, room,
		        bytes < FRAME_MOST_BYTES ? bytes : FRAME_MOST_BYTES, frame);
		return 1;
	}
	const bool gone = n == FUR_ERANGE;
	if (n < 0 && !gone)
		return n;
	n = e->ops->end(e, &end);
	if (n)
		return n;
	*judgement = STREAM_OLD_TERM; /* none: void */
	if (end <= offset)
		*judgement = stream_end(stream, end);
	else if (gone) /* the log has lost its oldest messages: the next one is another */
		*judgement = stream_read(stream, offset + 1, room, 0, frame);
	return stream_is_fatal(*judgement) ? 1 : 0;
}

static const char ENGINE_FAILED[] = "the stream's log failed";

static int failed(struct writer *w, int error)
{
	writer_resync(w, ENGINE_FAILED);
	return error;
}

/* Read a message; at the log's end, tell the writer that. */
static int read_one(struct writer *w, struct stream_engine *e, uint8_t *room)
{
	const uint64_t offset = w->stream.next;
	uint64_t end;
	size_t bytes;
	int n = e->ops->read(e, offset, room, FRAME_MOST_BYTES, &bytes);
	if (n == 1) {
		/* A longer message is no frame: the part that is here does not check. */
		writer_message(
		        w, offset, room, bytes < FRAME_MOST_BYTES ? bytes : FRAME_MOST_BYTES);
		return 1;
	}
	const bool gone = n == FUR_ERANGE;
	if (n < 0 && !gone)
		return failed(w, n);
	n = e->ops->end(e, &end);
	if (n)
		return failed(w, n);
	const enum writer_phase before = w->phase;
	if (end <= offset)
		writer_end(w, end);
	else if (gone) /* the log has lost its oldest messages: the next one is another */
		writer_message(w, offset + 1, room, 0);
	else
		return 1; /* it has grown */
	return w->phase != before;
}

static int take_answers(struct writer *w, struct stream_engine *e, int patience_ms)
{
	struct engine_ack acks[STREAM_IN_FLIGHT];
	const int n = e->ops->poll(e, acks, STREAM_IN_FLIGHT, patience_ms);
	if (n < 0)
		return failed(w, n);
	for (int k = 0; k < n; k++)
		writer_ack(w, acks[k].handle, acks[k].offset);
	return n > 0;
}

int drive_turn(struct writer *w, struct stream_engine *e, uint8_t *room, int patience_ms)
{
	int error;
	switch (w->phase) {
	case WRITER_READS: return read_one(w, e, room);
	case WRITER_CLAIMS:
		error = e->ops->append(e, writer_claim(w), w->claim, sizeof w->claim);
		return error ? failed(w, error) : 1;
	case WRITER_CONFIRMS:
		error = read_one(w, e, room);
		/* The answer tells nothing here; but before it there is little to read. */
		return error ? error : take_answers(w, e, patience_ms);
	case WRITER_SHIPS: return take_answers(w, e, patience_ms);
	default: return 0;
	}
}

int drive_submit(struct writer *w, struct stream_engine *e, struct frame_builder *b)
{
	size_t bytes;
	const uint64_t handle = writer_submit(w, b, &bytes);
	const int error = e->ops->append(e, handle, b->message, bytes);
	return error ? failed(w, error) : 0;
}

int drive_restart(struct writer *w, struct stream_engine *e, uint64_t nonce, unsigned flags)
{
	const int error = e->ops->restart(e);
	if (!error)
		writer_start(w, nonce, flags);
	return error;
}
