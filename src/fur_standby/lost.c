/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lost.c - see lost.h.
 */
#include "fur_standby/lost.h"
#include "base/error.h"
#include "base/remedy.h"
#include "file/heap_file.h"
#include "media/heap_layout.h"
#include "media/log_view.h"
#include "ship/drive.h"
#include "ship/engine_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHOWN = 32 }; /* bytes of one piece */

struct shown {
	const struct media_super *super; /* of the heap */
	uint64_t blocks; /* offset in the heap, below which the allocator keeps its own */
	struct stream_engine *engine;
	struct stream stream;
	uint8_t *room;     /* FRAME_MOST_BYTES */
	uint64_t *entries; /* of one update: a log's bytes */
	uint64_t used;     /* bytes of them */
	FILE *lines;       /* what the update stored */
	char *text;        /* of `lines` */
	size_t bytes;      /* of the text */
	uint64_t stored;   /* bytes that the update stored */
	uint64_t updates, all_stored;
};

static int no_memory(void)
{
	return fur_fail(FUR_ENOMEM, "no memory for an update: free some memory");
}

/* ------------------------------------------------------------------ one update */

static int begin_update(struct shown *s)
{
	if (s->lines)
		fclose(s->lines);
	free(s->text);
	s->text = NULL;
	s->used = s->stored = 0;
	s->lines = open_memstream(&s->text, &s->bytes);
	return s->lines ? 0 : no_memory();
}

/* Bytes of the heap. */
static void add_bytes(struct shown *s, uint64_t offset, const uint8_t *bytes, uint64_t n)
{
	const uint64_t roots = offsetof(struct heap_header, roots);
	uint64_t word;
	s->stored += n;
	fprintf(s->lines, "  0x%" PRIx64, s->super->address + offset);
	if (offset >= roots && offset + n <= roots + FUR_ROOTS * sizeof word)
		fprintf(s->lines, " (root %" PRIu64 ")", (offset - roots) / sizeof word);
	else if (offset < s->blocks)
		fprintf(s->lines, " (allocator)");
	fprintf(s->lines, ": %" PRIu64 " bytes: ", n);
	for (uint64_t k = 0; k < n && k < MOST_SHOWN; k++)
		fprintf(s->lines, "%02x", bytes[k]);
	memcpy(&word, bytes, n == sizeof word ? n : 0);
	if (n == sizeof word)
		fprintf(s->lines, " = %" PRIu64, word);
	fprintf(s->lines, n > MOST_SHOWN ? "...\n" : "\n");
}

static void add_side(struct shown *s, const struct frame *frame)
{
	const struct frame_side side = frame_get_side(frame);
	const uint64_t bytes = frame->head.bytes - sizeof side;
	if (bytes)
		add_bytes(s, side.offset, frame->payload + sizeof side, bytes);
	if (side.zeros)
		fprintf(s->lines, "  0x%" PRIx64 ": %" PRIu64 " bytes: zeros\n",
		        s->super->address + side.offset + bytes, side.zeros);
	s->stored += side.zeros;
}

static int add_entries(struct shown *s, const struct frame_entries *e)
{
	if (e->n > s->super->log_bytes - s->used)
		return fur_fail(FUR_ECORRUPT,
		        "update %" PRIu64 " of the file is longer than a log "
		        "of this heap: restore the file from a copy",
		        e->durts);
	memcpy((uint8_t *)s->entries + s->used, e->bytes, e->n);
	s->used += e->n;
	return 0;
}

/* All parts of the update are there. */
static int end_update(struct shown *s, uint64_t term, uint64_t durts)
{
	const struct media_file file = {.super = s->super};
	const struct log_record record = {0, s->used, (const uint8_t *)s->entries};
	struct log_walk w = log_walk_record(&file, &record);
	while (log_walk_next(&w))
		if (w.entry.payload) /* the bytes of others came in SIDE frames */
			add_bytes(s, w.entry.offset, w.entry.payload, w.entry.bytes);
	if (w.broken)
		return fur_fail(FUR_ECORRUPT,
		        "update %" PRIu64
		        " of the file makes no sense in this heap: restore the file from a copy",
		        durts);
	if (fflush(s->lines))
		return no_memory();
	printf("term %" PRIu64 ", durTS %" PRIu64 ": stored %" PRIu64 " bytes\n%s", term, durts,
	        s->stored, s->text);
	s->updates++;
	s->all_stored += s->stored;
	return begin_update(s);
}

/* -------------------------------------------------------------------- the file */

static int show_updates(struct shown *s, const struct frame *frame)
{
	const struct frame_head *h = &frame->head;
	const bool parts = h->flags & FRAME_PARTS;
	struct frame_entries e;
	size_t at = 0;
	int error = 0;
	while (!error && frame_next_update(frame, &at, &e)) {
		error = add_entries(s, &e);
		if (!error && (!parts || (h->flags & FRAME_LAST)))
			error = end_update(s, h->term, e.durts);
	}
	return error;
}

static int show_frame(struct shown *s, const struct frame *frame)
{
	switch (frame->head.kind) {
	case FRAME_CLAIM: /* it drops the parts of an update whose last part is missing */
		return s->stream.open ? 0 : begin_update(s);
	case FRAME_SIDE: add_side(s, frame); return 0;
	case FRAME_DATA: return show_updates(s, frame);
	default: return 0;
	}
}

static int show_stream(struct shown *s)
{
	enum stream_judgement judgement = STREAM_VALID;
	struct frame frame;
	int n, error = begin_update(s);
	while (!error &&
	        (n = drive_read(s->engine, &s->stream, s->room, &frame, &judgement)) != 0) {
		if (n < 0)
			error = n;
		else if (stream_is_fatal(judgement))
			error = fur_fail(FUR_ECORRUPT, "%s", stream_text(judgement));
		else if (judgement == STREAM_VALID)
			error = show_frame(s, &frame);
	}
	return error;
}

static int show(struct shown *s, const char *lost)
{
	const int error = show_stream(s);
	if (error)
		return error;
	if (!s->updates)
		return fur_fail(FUR_EINVAL,
		        "%s has no update of this heap: name the heap that has "
		        "dropped them, or a copy of it",
		        lost);
	printf("%" PRIu64 " updates, which stored %" PRIu64 " bytes\n", s->updates, s->all_stored);
	return fflush(stdout) || ferror(stdout) ? fail_system(FUR_ESYS, CALL_WRITE, errno, NULL,
	                                                  "cannot write to standard output")
	                                        : 0;
}

int lost_show(const char *path, const char *lost)
{
	struct heap_file file;
	struct shown s = {0};
	int error = heap_open_file(path, HEAP_LOCK_NONE, &file);
	if (error)
		return error;
	error = engine_file_check(lost); /* engine_file_open() would make it */
	if (!error)
		error = engine_file_open(lost, &s.engine);
	if (!error) {
		const struct media_file view = media_file_of(&file.geometry, file.super);
		s.super = &file.geometry;
		s.blocks = header(media_at(&view, file.geometry.heap_offset))->first_chunk *
		           CHUNK_BYTES;
		s.room = malloc(FRAME_MOST_BYTES);
		s.entries = malloc(file.geometry.log_bytes);
		stream_init(&s.stream, file.geometry.uuid, NULL);
		error = s.room && s.entries ? show(&s, lost) : no_memory();
		s.engine->ops->close(s.engine);
	}
	if (s.lines)
		fclose(s.lines);
	free(s.text);
	free(s.room);
	free(s.entries);
	heap_close_file(&file);
	return error;
}
