/* SPDX-License-Identifier: BSD-3-Clause
 *
 * follow.c - a standby reads its primary's stream (follow.h), and collects what it applies.
 *
 *     follow_step()
 *       drive_read()        the next message of the log, and its judgement
 *       take_frame()        collects updates, and applies full batches
 *         take_updates()    whole updates, into `batch`
 *         take_part()       a part of a large update, into `large`
 *       flush()             applies the rest: batch_apply()
 */
#include "api/heap.h"
#include "base/error.h"
#include "media/applied.h"
#include "ship/batch.h"
#include "ship/drive.h"
#include "update/update.h"

#include <stdlib.h>
#include <string.h>

enum {
	BATCH_PART = 4, /* a batch takes at most this part of a log, or is one update */
	/* After this many frames without an update the position is stored alone: a log may drop
	 * what lies far behind. */
	IDLE_FRAMES = 1024
};

struct follower {
	struct stream_engine *engine;
	struct fur_heap *heap;
	struct fur_thread *thread;
	bool registered; /* by follow_begin() */
	struct stream stream;
	struct follow_point header; /* in the heap's header */
	struct follow_point stored; /* where to read from after an error */
	struct follow_point next;   /* behind what is in `batch` */
	struct batch batch;         /* whole updates */
	struct batch large;         /* parts of one */
	unsigned idle;              /* frames since `stored` */
	uint64_t valid, heir;       /* follow_view */
	struct follow_ended ended[FOLLOW_ENDED];
	unsigned n_ended; /* ever */
	uint64_t message[FRAME_MOST_BYTES / sizeof(uint64_t)];
};

/* ------------------------------------------------------------------- apply */

/* The newest position that has gone into `batch`, or further, becomes durable. */
static int apply(struct follower *f, struct batch *b)
{
	const int error = batch_apply(f->thread, b, &f->header, &f->next);
	const struct follow_point now = batch_position(f->heap->file.base);
	/* An error may come after the update. */
	if (memcmp(&now, &f->next, sizeof now) == 0) {
		f->header = f->stored = now;
		f->idle = 0;
		batch_clear(b);
	}
	return error;
}

static int flush(struct follower *f)
{
	return f->batch.used || f->idle >= IDLE_FRAMES ? apply(f, &f->batch) : 0;
}

/* A copy of the primary may have more updates than its position, and so may a batch that ended
 * within a frame. */
static bool is_applied(const struct follower *f, uint64_t durts)
{
	return f->stream.at.lineage == f->next.lineage && durts <= f->next.durts;
}

static void note_applied(struct follower *f, uint64_t durts)
{
	f->next.lineage = f->stream.at.lineage;
	f->next.durts = durts;
}

/* Add a whole update to the batch. */
static int take_update(struct follower *f, const struct frame_entries *e)
{
	const struct durability *d = f->thread->durability;
	const bool alone = batch_has_others(d, e->bytes, e->n);
	int error = 0;
	if (alone || f->batch.used + e->n > d->super->log_bytes / BATCH_PART)
		error = flush(f);
	if (!error)
		error = batch_add(&f->batch, d, e->bytes, e->n);
	if (error)
		return error;
	note_applied(f, e->durts);
	return alone ? flush(f) : 0;
}

/* ------------------------------------------------------------------ frames */

/* DATA without parts. */
static int take_updates(struct follower *f, const struct frame *frame)
{
	struct frame_entries e;
	size_t at = 0;
	int error = 0;
	while (!error && frame_next_update(frame, &at, &e))
		if (!is_applied(f, e.durts))
			error = take_update(f, &e);
	return error;
}

/* All parts of an update are in `large`. */
static int take_large(struct follower *f, uint64_t durts)
{
	int error = flush(f);
	if (error)
		return error;
	note_applied(f, durts);
	f->next.position = f->stream.whole;
	return apply(f, &f->large);
}

static int take_part(struct follower *f, const struct frame *frame)
{
	const struct frame_head *h = &frame->head;
	struct frame_entries e = {0};
	size_t at = 0;
	int error;
	if (is_applied(f, h->durts_first))
		return 0;
	if (h->kind == FRAME_SIDE) {
		const struct frame_side side = frame_get_side(frame);
		return batch_add_side(
		        &f->large, &side, frame->payload + sizeof side, h->bytes - sizeof side);
	}
	(void)frame_next_update(frame, &at, &e); /* a part of DATA has one */
	error = batch_add(&f->large, f->thread->durability, e.bytes, e.n);
	return error || !(h->flags & FRAME_LAST) ? error : take_large(f, e.durts);
}

static void note_end(struct follower *f, uint64_t lineage, uint64_t durts)
{
	/* What a copy had of the lineage is not counted in the stream. */
	if (f->next.lineage == lineage && f->next.durts > durts)
		durts = f->next.durts;
	f->ended[f->n_ended++ % FOLLOW_ENDED] = (struct follow_ended){lineage, durts};
}

static void take_claim(struct follower *f, const struct stream_position *before)
{
	f->heir = 0;
	if (!f->stream.open)
		batch_clear(&f->large); /* INV-SH25 (plant: ship-parts-survive) */
	if (f->stream.at.lineage != before->lineage)
		note_end(f, before->lineage, before->durts);
}

/* `before`: the stream before the frame. */
static int take_frame(
        struct follower *f, const struct frame *frame, const struct stream_position *before)
{
	const struct frame_head *h = &frame->head;
	int error = 0;
	f->valid++;
	if (h->kind == FRAME_CLAIM) {
		take_claim(f, before);
		return 0;
	}
	if (h->kind == FRAME_HANDOVER)
		f->heir = frame_get_handover(frame).node;
	else if (h->kind == FRAME_DATA || h->kind == FRAME_SIDE)
		f->heir = 0; /* the writer has gone on: the handover has come to nothing */
	if (h->flags & FRAME_PARTS)
		error = take_part(f, frame);
	else if (h->kind == FRAME_DATA)
		error = take_updates(f, frame);
	if (!error) {
		f->next.position = f->stream.whole;
		f->idle++;
	}
	return error;
}

/* ---------------------------------------------------------------- messages */

static int fail_stream(const struct follower *f)
{
	return fur_fail(f->stream.fatal == STREAM_NEWER ? FUR_EVERSION : FUR_ECORRUPT,
	        "message %llu of the stream's log: %s", (unsigned long long)f->stream.next,
	        stream_text(f->stream.fatal));
}

/* Go back to what the heap has: after an error, some messages that are read are not applied. */
static void go_back(struct follower *f)
{
	batch_clear(&f->batch);
	batch_clear(&f->large);
	f->next = f->stored;
	f->idle = 0;
	f->heir = 0;
	f->n_ended = 0;
	memset(f->ended, 0, sizeof f->ended);
	/* After a claim that nothing has followed yet, the header has the end of the lineage
	 * before. */
	if (f->stored.lineage < f->stored.position.lineage)
		note_end(f, f->stored.lineage, f->stored.durts);
	stream_init(&f->stream, f->heap->file.geometry.uuid, &f->stored.position);
}

/* Read up to `most` messages.  *n: how many. */
static int read_messages(struct follower *f, unsigned most, unsigned *n)
{
	struct frame frame;
	enum stream_judgement judgement = STREAM_VALID;
	int error = 0;
	for (*n = 0; *n < most && !error; ++*n) {
		const struct stream_position before = f->stream.at;
		const int got = drive_read(f->engine, &f->stream, f->message, &frame, &judgement);
		if (got <= 0)
			return got;
		if (stream_is_fatal(judgement))
			return fail_stream(f);
		if (judgement == STREAM_VALID)
			error = take_frame(f, &frame, &before);
	}
	return error;
}

int follow_step(struct follower *f, unsigned most)
{
	fur_update *unused;
	unsigned n;
	if (!tx_is_outermost(f->thread, &unused))
		return update_refuse_outermost(f->thread, &unused, "follow_step", NULL);
	if (f->stream.fatal)
		return fail_stream(f);
	int error = read_messages(f, most, &n);
	/* What came before a fatal message is the stream's. */
	if (!error || f->stream.fatal) {
		const int later = flush(f);
		if (later || error)
			error = error ? fail_stream(f) : later;
	}
	if (error && !f->stream.fatal)
		go_back(f);
	return error ? error : (int)n;
}

/* ----------------------------------------------------------- begin and end */

/* The position of the ship page.  The copy has all updates below its durTS, which may be more than
 * the frames up to its position have; and which of these was the last, the page does not say. */
static struct follow_point position_of_page(const struct media_ship *page)
{
	struct follow_point at = {.position = stream_of_page(page),
	        .lineage = page->lineage,
	        .durts = page->durts ? page->durts - 1 : 0};
	at.position.durts = 0;
	return at;
}

static int find_position(struct follower *f)
{
	const void *base = f->heap->file.base;
	const struct durability *d = f->thread->durability;
	struct media_ship page;
	const int error = heap_read_ship_page(d->super, d->words, &page);
	if (error)
		return error;
	f->header = batch_position(base);
	f->stored = media_header_further(header(base), &page) ? f->header : position_of_page(&page);
	go_back(f);
	return 0;
}

int follow_begin(struct stream_engine *engine, fur_heap *heap, struct follower **out)
{
	*out = NULL;
	int error = heap_check_handle(heap, "follow_begin");
	if (error)
		return error;
	if (!heap->durability.ship.follows)
		return fur_fail(FUR_EINVAL,
		        "%s: this heap is no standby: only a copy that got this role may follow",
		        heap_path(&heap->file));
	struct follower *f = calloc(1, sizeof *f);
	if (!f)
		return fur_fail(FUR_ENOMEM, "no memory to follow a stream: free some memory");
	f->engine = engine;
	f->heap = heap;
	f->registered = !pthread_getspecific(heap->self);
	error = fur_thread_register(heap, f->registered ? "follower" : NULL, &f->thread);
	if (!error)
		error = find_position(f);
	if (error) {
		free(f);
		return error;
	}
	*out = f;
	return 0;
}

struct follow_point follow_position(const struct follower *f)
{
	return f->stored;
}

void follow_look(const struct follower *f, struct follow_view *view)
{
	const struct stream_position *at = &f->stream.at;
	*view = (struct follow_view){.term = at->term,
	        .node = at->node,
	        .frame = at->frame_no,
	        .lineage = at->lineage,
	        .durts = f->next.lineage == at->lineage ? f->next.durts : 0,
	        .next = f->stream.next,
	        .valid = f->valid,
	        .heir = f->heir};
	memcpy(view->ended, f->ended, sizeof view->ended);
}

int follow_end(struct follower *f)
{
	int error = f->idle ? apply(f, &f->batch) : 0;
	const int later = f->registered ? fur_thread_unregister(f->thread) : 0;
	batch_free(&f->batch);
	batch_free(&f->large);
	free(f);
	return error ? error : later;
}
