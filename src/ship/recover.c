/* SPDX-License-Identifier: BSD-3-Clause
 *
 * recover.c - see recover.h.
 *
 * Way 16, a heap that is shipped is recovered:
 *
 *     ship_recover()                 takes the right to replay
 *       shipper_become_writer()      learns where the stream ends; or that another node writes it
 *       apply_stream()               reads the stream's updates from the tail on
 *         apply_update()             writes one to the image
 *       replay_skip()                moves the tail behind them
 *       replay_recover_begin()       decides which of the file's later updates are kept
 *       shipper_ship()               ships these
 *       replay_recover_end()         writes them to the image
 */
#include "ship/recover.h"
#include "base/error.h"
#include "media/log_view.h"

#include <stdlib.h>
#include <string.h>

/* Reads the stream once more, for its updates. */
struct reader {
	struct shipper *s;
	struct stream stream;
	uint64_t tail;  /* updates below it are in the image */
	uint8_t *parts; /* of a large update: [log_bytes] */
	uint64_t used;
};

static int fail_update(void)
{
	return fur_fail(FUR_ECORRUPT,
	        "an update in the shipping log makes no sense for this heap: see fur-check, and "
	        "restore the heap from a copy");
}

static void write_back(struct durability *d, uint64_t offset, const void *from, uint64_t bytes)
{
	memcpy(d->image + offset, from, bytes);
	pm_flush(&d->pm, d->image + offset, bytes);
}

/* Write the entries to the image.  What a record names is there since before its marker was
 * written, and so before it was shipped (INV-FM3, INV-BU4). */
static int apply_update(struct durability *d, const uint8_t *entries, uint64_t bytes)
{
	const struct media_file file = durability_file(d);
	const struct log_record record = {0, bytes, entries};
	struct log_walk walk = log_walk_record(&file, &record);
	while (log_walk_next(&walk)) {
		if (walk.entry.bulk.rows) {
			struct log_bulk bulk =
			        log_bulk_at(d->image, d->super->heap_bytes, &walk.entry);
			while (log_bulk_next(&bulk))
				write_back(
				        d, bulk.piece.offset, bulk.piece.payload, bulk.piece.bytes);
		} else if (walk.entry.payload) {
			write_back(d, walk.entry.offset, walk.entry.payload, walk.entry.bytes);
		}
	}
	return walk.broken ? fail_update() : 0;
}

/* The part of a large update: 0, and *entries are all of them when it is the last. */
static int add_part(struct reader *r, const struct frame *f, struct frame_entries *entries)
{
	if (f->head.flags == FRAME_FIRST)
		r->used = 0;
	if (entries->n > r->s->d->super->log_bytes - r->used)
		return fail_update();
	memcpy(r->parts + r->used, entries->bytes, entries->n);
	r->used += entries->n;
	entries->bytes = r->parts;
	entries->n = (uint32_t)r->used;
	return 0;
}

static int apply_frame(struct reader *r, const struct frame *f)
{
	struct frame_entries entries;
	size_t at = 0;
	int error = 0;
	if (f->head.kind == FRAME_SIDE && f->head.flags == FRAME_FIRST)
		r->used = 0;
	/* The updates of another lineage are counted otherwise, and lie before this file's. */
	if (f->head.kind != FRAME_DATA || f->head.lineage != r->s->writer.stream.at.lineage)
		return 0;
	const bool part = f->head.flags & FRAME_PARTS;
	while (!error && frame_next_update(f, &at, &entries)) {
		if (part)
			error = add_part(r, f, &entries);
		const bool whole = !part || f->head.flags == FRAME_LAST;
		if (!error && whole && entries.durts >= r->tail)
			error = apply_update(r->s->d, entries.bytes, entries.n);
	}
	return error;
}

/* Read from the position in the ship page up to where the writer has read, and apply the updates
 * from the tail on. */
static int apply_stream(struct reader *r)
{
	struct shipper *s = r->s;
	int error = 0;
	stream_init(&r->stream, s->d->super->uuid, &s->position);
	while (!error && r->stream.next < s->writer.stream.next) {
		struct frame frame;
		enum stream_judgement judgement;
		const int n = drive_read(s->engine, &r->stream, s->read, &frame, &judgement);
		if (n < 0)
			return n;
		if (n == 0 || stream_is_fatal(judgement))
			return fur_fail(
			        FUR_ECORRUPT, "%s", stream_text(n ? judgement : STREAM_SHORT));
		if (judgement == STREAM_VALID)
			error = apply_frame(r, &frame);
	}
	return error;
}

/* Everything that the stream has is in the image, and the tail behind it. */
static int take_stream(struct shipper *s)
{
	const uint64_t tail = ring_tail(s->d);
	struct reader r = {.s = s, .tail = tail, .parts = malloc(s->d->super->log_bytes)};
	if (!r.parts)
		return fur_fail(FUR_ENOMEM, "no memory for an update of the shipping log: free "
		                            "some memory");
	int error = apply_stream(&r);
	free(r.parts);
	if (!error && s->next > tail)
		error = replay_skip(s->d, s->next);
	return error;
}

static bool keeps(void *recovery, uint64_t durts)
{
	return replay_recover_keeps(recovery, durts);
}

static int recover_rest(struct shipper *s, struct replay_result *result)
{
	struct recovery *recovery;
	int error = replay_recover_begin(s->d, result, &recovery);
	if (error)
		return error;
	error = shipper_ship(s, replay_recover_reach(recovery), keeps, recovery);
	if (error)
		replay_recover_give_up(recovery);
	else
		error = replay_recover_end(recovery);
	if (!error)
		error = durability_set_state(s->d, MEDIA_CLOSED);
	/* Everything is in the image. */
	return error ? error : shipper_keep_position(s, &s->writer.stream.whole);
}

int ship_recover(struct shipper *s, struct replay_result *result)
{
	int error = control_take(s->d);
	if (error)
		return error;
	/* Nothing that the stream has is in the image from here on, as far as we know. */
	s->d->control->ship.acked = ring_tail(s->d);
	s->next = ring_tail(s->d);
	error = shipper_become_writer(s);
	if (!error && arch_load32_acquire(&s->stopping))
		error = fur_fail(FUR_EBUSY, "the recovery was stopped: start fur-ship again");
	if (!error)
		error = take_stream(s);
	if (!error)
		error = recover_rest(s, result);
	control_give_back(s->d);
	return error;
}
