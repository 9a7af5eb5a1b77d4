/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream.c - the judgement of messages (stream.h).
 */
#include "ship/stream.h"
#include "base/arch.h"
#include "base/error.h"
#include "media/ship_page.h"

#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

struct stream_position stream_of_page(const struct media_ship *page)
{
	return (struct stream_position){.term = page->term,
	        .lineage = page->lineage,
	        .frame_no = page->frame,
	        .chain = page->chain,
	        .offset = page->frame ? page->offset : STREAM_NO_OFFSET,
	        .durts = page->durts ? page->durts - 1 : 0};
}

void stream_init(struct stream *s, const uint8_t uuid[16], const struct stream_position *position)
{
	static const struct stream_position beginning = {.offset = STREAM_NO_OFFSET};
	*s = (struct stream){.whole = position ? *position : beginning};
	memcpy(s->uuid, uuid, sizeof s->uuid);
	stream_resume(s);
}

void stream_resume(struct stream *s)
{
	s->at = s->whole;
	s->resumes = s->whole.offset != STREAM_NO_OFFSET;
	s->next = s->resumes ? s->whole.offset : 0;
	s->open = false;
	s->nonce = s->claimed = 0;
}

/* ------------------------------------------------------------------- one frame */

/* A claim is at or behind the end of what its writer had read, so it stands behind a log that has
 * at least those frames.  A term that is the next one proves more: no claim came between. */
static enum stream_judgement judge_claim(struct stream *s, const struct frame *f)
{
	const struct frame_head *h = &f->head;
	if (h->frame_no > s->at.frame_no)
		return STREAM_LOST; /* INV-SH15, also of a claim that comes too late */
	if (h->term <= s->at.term)
		return STREAM_OLD_CLAIM; /* INV-SH13 */
	if (h->frame_no == s->at.frame_no && h->term == s->at.term + 1 &&
	        h->chain_before != s->at.chain)
		return STREAM_LOST;
	const struct frame_claim claim = frame_get_claim(f);
	s->at.term = h->term;
	s->at.node = claim.node;
	/* The chain binds the term's frames to this claim.  If the claim is lost from the log, and
	 * another writer claims the same term, then the chain of one of the two breaks. */
	s->at.chain = XXH3_64bits_withSeed(&h->chain, sizeof h->chain, s->at.chain);
	if (h->flags & FRAME_NEW_LINEAGE) {
		s->at.lineage++;
		s->at.durts = 0;
	}
	s->nonce = claim.nonce;
	s->claimed = s->at.frame_no;
	s->open = false; /* INV-SH14 */
	return STREAM_VALID;
}

/* May a frame with these flags and durTSs come here? */
static bool is_well_formed(const struct stream *s, const struct frame_head *h)
{
	const uint32_t part = h->flags & FRAME_PARTS;
	if (h->lineage != s->at.lineage)
		return false;
	if (s->open) /* INV-SH14 */
		return (part == FRAME_MORE || part == FRAME_LAST) &&
		       h->durts_first == s->open_durts;
	if (part && part != FRAME_FIRST)
		return false;
	return (h->kind != FRAME_DATA && h->kind != FRAME_SIDE) || h->durts_first > s->at.durts;
}

static void count(struct stream *s, uint64_t offset, const struct frame_head *h)
{
	s->at.frame_no = h->frame_no;
	s->at.chain = h->chain;
	s->at.offset = offset;
	s->open = h->flags & (FRAME_FIRST | FRAME_MORE);
	s->open_durts = h->durts_first;
	if (s->open)
		return;
	if (h->kind == FRAME_DATA)
		s->at.durts = h->durts_last;
	s->whole = s->at;
}

static enum stream_judgement judge_other(
        struct stream *s, uint64_t offset, const struct frame_head *h)
{
	/* When this frame was submitted, the one STREAM_IN_FLIGHT before it was acknowledged: it
	 * was in the log, and before this place (INV-SH15). */
	if (h->frame_no > s->at.frame_no + STREAM_IN_FLIGHT)
		return STREAM_LOST;
	if (h->term < s->at.term)
		return STREAM_OLD_TERM; /* INV-SH13 */
	/* A writer ships only behind its valid claim, which is not in this log (INV-SH15). */
	if (h->term > s->at.term)
		return STREAM_LOST;
	/* At its claim the writer had read fewer frames than are here (INV-SH15). */
	if (h->frame_no <= s->claimed)
		return STREAM_LOST;
	if (h->frame_no <= s->at.frame_no)
		return STREAM_REPEATED;
	if (h->frame_no > s->at.frame_no + 1)
		return STREAM_AHEAD;
	if (h->chain_before != s->at.chain)
		return STREAM_BROKEN;
	if (!is_well_formed(s, h))
		return STREAM_MALFORMED;
	count(s, offset, h);
	return STREAM_VALID;
}

/* The reader has read this frame before, so its chain and number must be those that it knows. */
static enum stream_judgement judge_known(const struct stream *s, const struct frame_head *h)
{
	const bool same = h->kind != FRAME_CLAIM && h->chain == s->whole.chain &&
	                  h->frame_no == s->whole.frame_no;
	return same ? STREAM_KNOWN : STREAM_CHANGED; /* INV-SH15 */
}

/* --------------------------------------------------------------------- messages */

/* Count the judgement of the next message; what it changes is changed already, and a void message
 * changes nothing else (INV-SH12). */
static enum stream_judgement settle(struct stream *s, enum stream_judgement judgement)
{
	if (stream_is_fatal(judgement)) {
		s->fatal = judgement;
		return judgement;
	}
	if (stream_is_void(judgement))
		s->voids[judgement]++;
	s->resumes = false;
	s->next++;
	return judgement;
}

enum stream_judgement stream_judge(struct stream *s, uint64_t offset, const struct frame *f)
{
	if (s->fatal)
		return s->fatal;
	if (offset != s->next)
		return settle(s, STREAM_SKIPS);
	if (s->resumes)
		return settle(s, judge_known(s, &f->head));
	if (f->head.kind == FRAME_CLAIM)
		return settle(s, judge_claim(s, f));
	return settle(s, judge_other(s, offset, &f->head));
}

/* What is no frame, or the frame of another heap, is void: any program that may write the log can
 * have written it.  A damaged frame is not: perhaps its writer has counted it, and all that it
 * wrote after it, and a reader that went on would miss them in silence. */
enum stream_judgement stream_read(
        struct stream *s, uint64_t offset, const void *message, size_t bytes, struct frame *f)
{
	if (s->fatal)
		return s->fatal;
	if (offset != s->next)
		return settle(s, STREAM_SKIPS);
	const enum frame_error error = frame_read(message, bytes, f);
	const bool ours = error == FRAME_GOOD && memcmp(f->head.uuid, s->uuid, sizeof s->uuid) == 0;
	if (ours)
		return stream_judge(s, offset, f);
	if (s->resumes)
		return settle(s, STREAM_CHANGED);
	if (error == FRAME_NEWER)
		return settle(s, STREAM_NEWER);
	return settle(s, error == FRAME_DAMAGED ? STREAM_DAMAGED : STREAM_FOREIGN);
}

enum stream_judgement stream_end(struct stream *s, uint64_t end)
{
	if (s->fatal)
		return s->fatal;
	if (end < s->next || (s->resumes && end == s->next))
		return settle(s, STREAM_SHORT); /* INV-SH15 */
	return STREAM_VALID;
}

static const char *const texts[STREAM_JUDGEMENTS] = {
        [STREAM_VALID] = "valid",
        [STREAM_KNOWN] = "read before",
        [STREAM_FOREIGN] = "no frame of this heap",
        [STREAM_OLD_CLAIM] = "another writer claimed this term, or a later one, first",
        [STREAM_OLD_TERM] = "of a writer that has lost its term",
        [STREAM_REPEATED] = "a repetition",
        [STREAM_AHEAD] = "a frame before it is missing",
        [STREAM_SHORT] = "the stream went back: the log ends below the frames that were read from "
                         "it: find the node that has most of the stream, and start a new one there",
        [STREAM_SKIPS] = "messages are missing from the log, or it no longer has the oldest ones: "
                         "start again from a newer copy of the heap",
        [STREAM_CHANGED] = "the stream went back: the log has other frames than were read from it: "
                           "find the node that has most of the stream, and start a new one there",
        [STREAM_LOST] =
                "the stream went back: the log lacks frames that a writer has read from it, "
                "or that were read here: "
                "find the node that has most of the stream, and start a new one there",
        [STREAM_BROKEN] = "the stream went back: a writer continues other frames than these: "
                          "find the node that has most of the stream, and start a new one there",
        [STREAM_MALFORMED] = "a writer's frame breaks the stream's rules: report this as a bug",
        [STREAM_DAMAGED] = "a frame is damaged: read another replica of the log, "
                           "or start again from a newer copy of the heap",
        [STREAM_NEWER] = "a newer libfur writes this stream: install its version here",
};

const char *stream_text(enum stream_judgement judgement)
{
	return texts[judgement];
}
