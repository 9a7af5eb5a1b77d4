/* SPDX-License-Identifier: BSD-3-Clause
 *
 * writer.c - becoming the writer, and counting acknowledgements (writer.h).
 */
#include "ship/writer.h"
#include "base/arch.h"
#include "base/error.h"

#include <string.h>

static const char FENCED[] =
        "another node writes this stream: let this heap follow it, with fur-standby HEAP";

static const char TWICE[] =
        "another process ships as this node: one of the two heaps is a copy that was not made by "
        "fur-copy: remove it, and start fur-ship again for the other one";

static void enter(struct writer *w, enum writer_phase phase, const char *why)
{
	w->phase = phase;
	w->why = why;
}

void writer_init(struct writer *w, const uint8_t uuid[16], uint64_t node,
        const struct stream_position *position)
{
	FUR_ASSERT(node != 0);
	*w = (struct writer){.node = node, .next_handle = 1};
	stream_init(&w->stream, uuid, position);
}

void writer_start(struct writer *w, uint64_t nonce, unsigned flags)
{
	FUR_ASSERT(
	        w->phase == WRITER_IDLE || w->phase == WRITER_RESYNCS || w->phase == WRITER_FENCED);
	/* All claims of this writer have the same upper half (claims_twice()). */
	if (!w->tagged)
		w->tag = nonce >> 32;
	w->tagged = true;
	w->nonce = w->tag << 32 | (uint32_t)nonce;
	w->flags = flags;
	stream_resume(&w->stream);
	enter(w, WRITER_READS, NULL);
}

void writer_resync(struct writer *w, const char *why)
{
	if (w->phase >= WRITER_READS && w->phase <= WRITER_SHIPS)
		enter(w, WRITER_RESYNCS, why);
}

/* What stands in the log in a term of this node is acknowledged, however long its answer takes: any
 * later writer reads it as well. */
static void note_acked(struct writer *w)
{
	if (w->stream.at.node != w->node)
		return;
	w->acked_frame = w->stream.at.frame_no;
	w->acked_durts = w->stream.at.durts;
}

/* ------------------------------------------------------------------ the claim */

/* The messages up to `offset`, the valid CLAIM's own, are read (INV-SH16). */
static void begin_to_ship(struct writer *w, uint64_t offset)
{
	const struct stream_position *at = &w->stream.at;
	if (!w->first_term)
		w->first_term = at->term;
	w->claim_offset = offset;
	w->first_handle = w->next_handle;
	w->submitted = w->counted = 0;
	w->end = (struct frame_place){at->term, at->lineage, at->frame_no, at->chain};
	enter(w, WRITER_SHIPS, NULL);
}

/* Is this message the claim of the last writer_start()? */
static bool is_own_claim(const struct writer *w, const void *message, size_t bytes)
{
	return bytes == sizeof w->claim && memcmp(message, w->claim, bytes) == 0;
}

/* Is this valid CLAIM that of another process with our node number?  What a dead process of this
 * node has under way is void behind our first valid claim: it had read no more than we had
 * (INV-SH13). */
static bool claims_twice(const struct writer *w, const struct frame *f)
{
	const struct frame_claim claim = frame_get_claim(f);
	return w->first_term && f->head.term > w->first_term && claim.node == w->node &&
	       claim.nonce >> 32 != w->tag;
}

void writer_message(struct writer *w, uint64_t offset, const void *message, size_t bytes)
{
	struct frame f;
	if (w->phase != WRITER_READS && w->phase != WRITER_CONFIRMS)
		return;
	const enum stream_judgement judgement = stream_read(&w->stream, offset, message, bytes, &f);
	if (stream_is_fatal(judgement)) {
		enter(w, WRITER_FAILED, stream_text(judgement));
		return;
	}
	if (judgement == STREAM_VALID && f.head.kind != FRAME_CLAIM) {
		note_acked(w);
	} else if (judgement == STREAM_VALID && claims_twice(w, &f)) {
		enter(w, WRITER_FAILED, TWICE);
		return;
	}
	if (w->phase == WRITER_READS || !is_own_claim(w, message, bytes))
		return;
	if (judgement == STREAM_VALID)
		begin_to_ship(w, offset);
	else if (w->stream.at.node != w->node)
		enter(w, WRITER_FENCED, FENCED);
	else /* an earlier claim of this node came first */
		enter(w, WRITER_RESYNCS, stream_text(judgement));
}

static void make_claim(struct writer *w)
{
	const struct stream_position *at = &w->stream.at;
	const bool other = at->node != 0 && at->node != w->node;
	const bool new_lineage = other || (w->flags & WRITER_NEW_LINEAGE);
	const struct frame_claim claim = {w->node, w->nonce};
	/* The next term, not any above: judge_claim() concludes from that. */
	const struct frame_place place = {at->term + 1, at->lineage, at->frame_no, at->chain};
	struct frame_builder b;
	struct frame_head head;
	frame_begin(
	        &b, w->claim, sizeof w->claim, FRAME_CLAIM, new_lineage ? FRAME_NEW_LINEAGE : 0);
	frame_add_payload(&b, &claim, sizeof claim);
	frame_seal(&b, w->stream.uuid, &place, &head);
	enter(w, WRITER_CLAIMS, NULL);
}

void writer_end(struct writer *w, uint64_t end)
{
	if (w->phase != WRITER_READS && w->phase != WRITER_CONFIRMS)
		return;
	const enum stream_judgement judgement = stream_end(&w->stream, end);
	if (judgement != STREAM_VALID) {
		enter(w, WRITER_FAILED, stream_text(judgement));
		return;
	}
	if (w->phase == WRITER_CONFIRMS || w->stream.next < end)
		return;
	const uint64_t node = w->stream.at.node;
	if (node != 0 && node != w->node && !(w->flags & WRITER_TAKES_OVER))
		enter(w, WRITER_FENCED, FENCED);
	else
		make_claim(w);
}

uint64_t writer_claim(struct writer *w)
{
	FUR_ASSERT(w->phase == WRITER_CLAIMS);
	enter(w, WRITER_CONFIRMS, NULL);
	return w->next_handle++;
}

/* ------------------------------------------------------------------ the frames */

uint64_t writer_submit(struct writer *w, struct frame_builder *b, size_t *bytes)
{
	FUR_ASSERT(writer_may_submit(w) && b->kind != FRAME_CLAIM);
	struct frame_head *const head = &w->flying[w->submitted % STREAM_IN_FLIGHT].head;
	w->end.frame_no++;
	*bytes = frame_seal(b, w->stream.uuid, &w->end, head);
	w->end.chain = head->chain;
	w->flying[w->submitted++ % STREAM_IN_FLIGHT].there = false;
	return w->next_handle++;
}

/* The frames from the first on that have their offsets are in the log (INV-SH17, INV-SH18). */
static void count_acked(struct writer *w)
{
	while (w->counted < w->submitted && w->flying[w->counted % STREAM_IN_FLIGHT].there) {
		const struct frame f = {w->flying[w->counted % STREAM_IN_FLIGHT].head, NULL};
		const uint64_t offset = w->claim_offset + 1 + w->counted;
		const enum stream_judgement judgement = stream_judge(&w->stream, offset, &f);
		if (judgement != STREAM_VALID) { /* the caller's parts do not fit together */
			enter(w, WRITER_FAILED, stream_text(judgement));
			return;
		}
		w->counted++;
		note_acked(w);
	}
}

void writer_ack(struct writer *w, uint64_t handle, uint64_t offset)
{
	/* An answer to the CLAIM says nothing: the stream's state behind it is known only when it
	 * is read back (INV-SH16).  And answers may come late. */
	if (w->phase != WRITER_SHIPS || handle < w->first_handle)
		return;
	const uint64_t k = handle - w->first_handle;
	if (k < w->counted || k >= w->submitted)
		return; /* again */
	if (offset == STREAM_NO_OFFSET) {
		writer_resync(w, "the log acknowledged a frame without its offset");
		return;
	}
	/* These places are taken: by the CLAIM, and by frames that are acknowledged. */
	if (offset <= w->claim_offset + w->counted) {
		enter(w, WRITER_FAILED, stream_text(STREAM_LOST));
		return;
	}
	/* INV-SH17: what stands in between may be a CLAIM. */
	if (offset != w->claim_offset + 1 + k) {
		writer_resync(w, "a message of another writer stands between the frames");
		return;
	}
	w->flying[k % STREAM_IN_FLIGHT].there = true;
	count_acked(w);
}
