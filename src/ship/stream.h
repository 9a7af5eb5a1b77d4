/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream.h - which messages of a log are frames of the stream: every reader decides alike.
 *
 * A log is a sequence of messages with dense offsets.  A reader begins at a position, and judges
 * every message behind it, in the order of the offsets.  A message is *valid*, or *void*, or it
 * proves that the log is not what it was: *fatal*.
 *
 *   INV-SH12  The judgement of a message depends on the messages before it, and on nothing else.
 *             All readers that have read a log to the same offset are at the same position.  A void
 *             message moves no position.
 *   INV-SH13  A term belongs to one claim: a CLAIM is valid only if its term is above the stream's.
 *             Other frames are valid only in the stream's term.  So what a writer lands behind the
 *             CLAIM of another one, or of its own next life, is void.
 *   INV-SH14  An update counts whole, or not at all.  Its parts are consecutive frames of one term;
 *             a CLAIM drops those of an update whose last part is missing.
 *   INV-SH15  A reader notices that frames which it has read, or which a writer has read, are gone
 *             from the log: at the end of the log, at the frame from which it resumes, or at the
 *             claim and the frames of a writer that has read another log than this one.
 */
#ifndef FUR_SHIP_STREAM_H
#define FUR_SHIP_STREAM_H

#include "ship/frame.h"

#define STREAM_NO_OFFSET UINT64_MAX
/* A writer has at most this many frames in flight: submitted, and not acknowledged. */
enum { STREAM_IN_FLIGHT = 16 };

/* A place in a stream, behind frame `frame_no`.  All 0, offset STREAM_NO_OFFSET: the beginning. */
struct stream_position {
	uint64_t term, lineage;
	uint64_t frame_no, chain;
	uint64_t offset; /* of that frame in the log */
	uint64_t durts;  /* of the last whole update of the lineage, or 0 */
	uint64_t node;   /* whose term it is, or 0 */
};

enum stream_judgement {
	STREAM_VALID,
	/* The frame from which the reader resumes: it has counted already */
	STREAM_KNOWN,
	/* Void */
	STREAM_FOREIGN,   /* no frame, or one of another heap */
	STREAM_OLD_CLAIM, /* another claim came first */
	STREAM_OLD_TERM,  /* a frame of a writer that has lost its term */
	STREAM_REPEATED,  /* the writer's, and counted already */
	STREAM_AHEAD,     /* the writer's, but one before it is missing */
	/* Fatal */
	STREAM_SHORT,     /* the log ends below the position */
	STREAM_SKIPS,     /* messages behind the position are missing */
	STREAM_CHANGED,   /* another message is where the reader resumes */
	STREAM_LOST,      /* a writer has read another log than this one */
	STREAM_BROKEN,    /* the same, seen at the chain */
	STREAM_MALFORMED, /* a writer with a bug */
	STREAM_DAMAGED,   /* a frame, but not as it was written */
	STREAM_NEWER,     /* a frame of a version that this library does not know */
	STREAM_JUDGEMENTS
};

static inline bool stream_is_void(enum stream_judgement j)
{
	return j >= STREAM_FOREIGN && j < STREAM_SHORT;
}

static inline bool stream_is_fatal(enum stream_judgement j)
{
	return j >= STREAM_SHORT;
}

struct stream {
	uint8_t uuid[16]; /* of the heap */
	/* Behind the newest valid message.  A CLAIM changes term, lineage, chain and node. */
	struct stream_position at;
	/* Behind the newest frame that left no update open: a reader can resume here.  It should
	 * keep this position wherever it keeps what the frames contain. */
	struct stream_position whole;
	uint64_t next; /* the offset of the message to be judged next */
	/* `next` is the frame at `whole`, again */
	bool resumes;
	/* The last parts of a large update are still to come.  The reader drops the parts that it
	 * has when a CLAIM leaves this false. */
	bool open;
	uint64_t open_durts; /* of that update */
	/* Of the newest valid CLAIM, if the reader has read it; `claimed`: the frame before it */
	uint64_t nonce, claimed;
	uint64_t voids[STREAM_SHORT]; /* how many of each kind */
	/* The first fatal judgement, or STREAM_VALID; it is also that of every message after it */
	enum stream_judgement fatal;
};

/* The position that a ship page has, without a node. */
struct media_ship;
struct stream_position stream_of_page(const struct media_ship *page);

/* stream_init - begin at a position that the reader trusts; NULL: at offset 0, with frame 1. */
void stream_init(struct stream *s, const uint8_t uuid[16], const struct stream_position *position);

/* stream_resume - go back to s->whole, from where the reader reads again: s->next is the frame at
 * that position, or the first message of the log. */
void stream_resume(struct stream *s);

/* stream_read - judge the message at `offset`, which is s->next.  *frame is its content, if it is
 * STREAM_VALID. */
FUR_MUST_USE enum stream_judgement stream_read(
        struct stream *s, uint64_t offset, const void *message, size_t bytes, struct frame *frame);

/* stream_judge - the same for a message that is known to be a frame of this heap. */
FUR_MUST_USE enum stream_judgement stream_judge(
        struct stream *s, uint64_t offset, const struct frame *frame);

/* stream_end - the log ends at `end`: that is the offset of its next message.  Returns STREAM_VALID
 * or a fatal judgement. */
FUR_MUST_USE enum stream_judgement stream_end(struct stream *s, uint64_t end);

/* What a judgement means, and for a fatal one what to do. */
const char *stream_text(enum stream_judgement judgement);

#endif /* FUR_SHIP_STREAM_H */
