/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rejoin.c - see rejoin.h.
 *
 * Way 20, a fenced primary becomes a standby:
 *
 *     ship_rejoin()                 takes the right to replay
 *       find_end()                  reads the stream: where another node has replaced this one
 *       ship_take()                 writes the stream's updates to the image, up to there
 *       forget()                    gives up what the log has above them
 *         replay_skip()             moves the tail behind the stream's updates
 *         replay_recover_begin()    decides what a recovery would keep of the others
 *         keep_aside()              ships that to a file
 *         replay_recover_drop()     moves the tail two laps on
 *       become_standby()            writes role and position
 */
#include "ship/rejoin.h"
#include "base/error.h"
#include "media/ship_page.h"
#include "replay/replay.h"
#include "ship/engine_file.h"
#include "ship/shipper.h"
#include "ship/take.h"

#include <stdlib.h>
#include <string.h>

struct rejoin {
	struct heap_file *file;
	struct durability *d;
	struct stream_engine *engine;
	const char *lost_path;
	struct media_ship page;
	uint8_t *room; /* FRAME_MOST_BYTES */
	/* Of the stream, below the CLAIM that fenced the heap (INV-SH62) */
	struct stream_position end;
	uint64_t until;   /* the offset of that CLAIM */
	uint64_t lineage; /* of the heap's updates */
	bool wrote;       /* it has had a term */
	bool fenced;
	struct rejoin_result *result;
};

/* ----------------------------------------------------------------- the stream */

static struct stream_position begin_of(const struct rejoin *r)
{
	struct stream_position begin = stream_of_page(&r->page);
	begin.node = r->page.term ? r->page.node : 0;
	return begin;
}

/* A valid CLAIM (INV-SH62).  `before`: the stream as it was before. */
static void take_claim(struct rejoin *r, const struct stream *before, uint64_t node)
{
	if (node == r->page.node) {
		r->wrote = true;
		r->fenced = false;
	} else if (!r->fenced) {
		r->fenced = true;
		r->end = before->whole;
		r->until = before->next;
		r->lineage = before->at.lineage;
	}
}

/* Read the whole stream from the position in the ship page on. */
static int find_end(struct rejoin *r)
{
	const struct stream_position begin = begin_of(r);
	struct stream stream;
	int n;
	stream_init(&stream, r->d->super->uuid, &begin);
	do {
		const struct stream before = stream;
		struct frame frame;
		enum stream_judgement judgement = STREAM_OLD_TERM;
		n = drive_read(r->engine, &stream, r->room, &frame, &judgement);
		if (n == 1 && stream_is_fatal(judgement))
			return fur_fail(FUR_ECORRUPT, "%s", stream_text(judgement));
		if (n == 1 && judgement == STREAM_VALID && frame.head.kind == FRAME_CLAIM)
			take_claim(r, &before, stream.at.node);
	} while (n == 1);
	return n;
}

static int check_end(const struct rejoin *r)
{
	if (!r->fenced)
		return fur_fail(FUR_EINVAL,
		        "no other heap has taken this one's place in the shipping log: it is the "
		        "primary: start fur-ship");
	if (!r->wrote)
		return fur_fail(FUR_ECORRUPT,
		        "this heap has written nothing to the shipping log that another one "
		        "writes: make a standby of a copy of that one, with fur-copy "
		        "--for-standby");
	/* A closed heap has replayed all that it had, and the log has that.  A repeated call comes
	 * here with its own tail, which is higher. */
	if (r->d->words->state == MEDIA_CLOSED && r->result->kept >= ring_tail(r->d))
		return fur_fail(FUR_ECORRUPT,
		        "the shipping log has updates of this heap that the heap lacks: it is an "
		        "older copy: make a standby of a copy of the primary, with fur-copy "
		        "--for-standby");
	return 0;
}

/* -------------------------------------------------------------------- the rest */

static bool keeps(void *recovery, uint64_t durts)
{
	return replay_recover_keeps(recovery, durts);
}

static int ship_aside(const struct rejoin *r, struct stream_engine *lost, struct recovery *w)
{
	struct shipper s;
	int error = shipper_begin_aside(&s, r->d, lost, r->page.node);
	if (error)
		return error;
	error = shipper_ship(&s, replay_recover_reach(w), keeps, w);
	shipper_end(&s);
	return error;
}

static int keep_aside(const struct rejoin *r, struct recovery *w)
{
	struct stream_engine *lost;
	if (!r->lost_path || !r->result->dropped)
		return 0;
	int error = engine_file_open(r->lost_path, &lost);
	if (error)
		return error;
	error = ship_aside(r, lost, w);
	lost->ops->close(lost);
	return error != FUR_EFENCED ? error
	                            : fur_fail(FUR_EEXIST,
	                                      "%s: this file has updates of another node: name "
	                                      "another one, or move it away",
	                                      r->lost_path);
}

/* Give up what the log has above the stream's updates, durably (INV-SH43). */
static int forget(struct rejoin *r)
{
	struct durability *d = r->d;
	struct replay_result replayed;
	struct recovery *w;
	int error = 0;
	if (r->result->kept >= ring_tail(d))
		error = replay_skip(d, r->result->kept + 1);
	d->control->ship.acked = ring_tail(d); /* for the shipper */
	if (!error)
		error = replay_recover_begin(d, &replayed, &w);
	if (error)
		return error;
	for (uint64_t durts = ring_tail(d); durts < replay_recover_reach(w); durts++)
		r->result->dropped += replay_recover_keeps(w, durts);
	error = keep_aside(r, w);
	if (error) {
		replay_recover_give_up(w);
		return error;
	}
	error = replay_recover_drop(w); /* (plant: ship-rejoin-keeps) */
	return error ? error : durability_set_state(d, MEDIA_CLOSED);
}

/* INV-SH61: last. */
static int become_standby(struct rejoin *r)
{
	struct media_ship page = r->page;
	page.role = MEDIA_STANDBY;
	page.term = r->end.term;
	page.lineage = r->end.lineage;
	page.frame = r->end.frame_no;
	page.offset = r->end.offset;
	page.chain = r->end.chain;
	page.durts = r->end.durts ? r->end.durts + 1 : 0;
	return heap_write_ship_page(r->file, &page);
}

static int rejoin(struct rejoin *r)
{
	int error = find_end(r);
	if (error)
		return error;
	r->result->kept = r->end.lineage == r->lineage ? r->end.durts : 0;
	error = check_end(r);
	const struct take take = {.d = r->d,
	        .engine = r->engine,
	        .from = begin_of(r),
	        .until = r->until,
	        .lineage = r->lineage,
	        .room = r->room};
	if (!error)
		error = ship_take(&take);
	if (!error)
		error = forget(r);
	return error ? error : become_standby(r);
}

int ship_rejoin(struct heap_file *file, struct durability *d, struct stream_engine *engine,
        const char *lost_path, struct rejoin_result *result)
{
	struct rejoin r = {
	        .file = file, .d = d, .engine = engine, .lost_path = lost_path, .result = result};
	*result = (struct rejoin_result){0};
	int error = heap_read_ship_page(&file->geometry, file->super, &r.page);
	if (error)
		return error;
	if (r.page.role != MEDIA_PRIMARY)
		return fur_fail(FUR_EINVAL,
		        "%s: this heap is no primary: only one that another has replaced rejoins",
		        heap_path(file));
	r.wrote = r.page.term != 0;
	r.room = malloc(FRAME_MOST_BYTES);
	if (!r.room)
		return fur_fail(FUR_ENOMEM, "no memory for frames: free some memory");
	error = control_take(d);
	if (!error) {
		error = rejoin(&r);
		control_give_back(d);
	}
	free(r.room);
	return error;
}
