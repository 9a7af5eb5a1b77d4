/* SPDX-License-Identifier: BSD-3-Clause
 *
 * take.c - see take.h.
 */
#include "ship/take.h"
#include "base/error.h"
#include "durability/ring.h"
#include "media/log_view.h"

#include <stdlib.h>
#include <string.h>

struct reader {
	const struct take *take;
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
	if (entries->n > r->take->d->super->log_bytes - r->used)
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
	if (f->head.kind != FRAME_DATA || f->head.lineage != r->take->lineage)
		return 0;
	const bool part = f->head.flags & FRAME_PARTS;
	while (!error && frame_next_update(f, &at, &entries)) {
		if (part)
			error = add_part(r, f, &entries);
		const bool whole = !part || f->head.flags == FRAME_LAST;
		if (!error && whole && entries.durts >= r->tail)
			error = apply_update(r->take->d, entries.bytes, entries.n);
	}
	return error;
}

static int apply_stream(struct reader *r)
{
	int error = 0;
	while (!error && r->stream.next < r->take->until) {
		struct frame frame;
		enum stream_judgement judgement;
		const int n =
		        drive_read(r->take->engine, &r->stream, r->take->room, &frame, &judgement);
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

int ship_take(const struct take *take)
{
	struct reader r = {.take = take,
	        .tail = ring_tail(take->d),
	        .parts = malloc(take->d->super->log_bytes)};
	if (!r.parts)
		return fur_fail(FUR_ENOMEM, "no memory for an update of the shipping log: free "
		                            "some memory");
	stream_init(&r.stream, take->d->super->uuid, &take->from);
	const int error = apply_stream(&r);
	free(r.parts);
	return error;
}
