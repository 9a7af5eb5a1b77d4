/* SPDX-License-Identifier: BSD-3-Clause
 *
 * batch.c - a standby applies updates of its primary (batch.h).
 *
 *     batch_apply()         one follower at a time
 *       look()              checks the entries, and how large the heap must be
 *       durability_grow()   INV-SH26
 *       batch_replay_all()  if there is memory that is not in the log: INV-SH23
 *       write_results()     of a bulk update, to its block in the file
 *       store_all()         entries, and fresh blocks, in one update ...
 *       store_position()    ... with the position: INV-SH22
 *       batch_replay_all()  after a bulk update: INV-SH24
 */
#include "ship/batch.h"
#include "base/error.h"
#include "base/memory.h"
#include "bulk/job.h"
#include "durability/durability.h"
#include "media/heap_layout.h"
#include "media/log_view.h"
#include "update/fresh.h"
#include "update/update.h"

#include <stdlib.h>
#include <string.h>

enum { ZERO_BYTES = 4096 };

/* ----------------------------------------------------------------- collect */

static int no_memory(void)
{
	return fur_fail(FUR_ENOMEM, "no memory for an update of the primary: free some memory");
}

static int too_big(const struct durability *d, size_t bytes)
{
	return fur_fail(FUR_ETOOBIG,
	        "an update of the primary takes %zu bytes of log, and a log of the standby has "
	        "%llu: make a new standby of the primary, with fur-copy --for-standby",
	        bytes + SHIP_RECORD_EXTRA, (unsigned long long)d->super->log_bytes);
}

int batch_add(struct batch *b, const struct durability *d, const void *entries, size_t bytes)
{
	if (bytes == 0)
		return 0;
	if (bytes + SHIP_RECORD_EXTRA > d->super->log_bytes - b->used)
		return too_big(d, b->used + bytes);
	if (b->used + bytes > b->room) {
		const size_t room = b->used + bytes > 2 * b->room ? b->used + bytes : 2 * b->room;
		uint8_t *more = realloc(b->entries, room);
		if (!more)
			return no_memory();
		b->entries = more;
		b->room = room;
	}
	memcpy(b->entries + b->used, entries, bytes);
	b->used += bytes;
	return 0;
}

int batch_add_side(struct batch *b, const struct frame_side *side, const void *data, size_t bytes)
{
	struct batch_side *s = malloc(sizeof *s + bytes);
	if (!s)
		return no_memory();
	*s = (struct batch_side){.offset = side->offset, .bytes = bytes, .zeros = side->zeros};
	memcpy(s->data, data, bytes);
	if (b->sides)
		b->last->next = s;
	else
		b->sides = s;
	b->last = s;
	return 0;
}

void batch_clear(struct batch *b)
{
	for (struct batch_side *s = b->sides, *next; s; s = next) {
		next = s->next;
		free(s);
	}
	b->sides = b->last = NULL;
	b->used = 0;
}

void batch_free(struct batch *b)
{
	batch_clear(b);
	free(b->entries);
	*b = (struct batch){0};
}

/* ------------------------------------------------------------------- look */

static struct log_walk walk_entries(const struct durability *d, const void *entries, size_t bytes)
{
	const struct media_file file = durability_file(d);
	const struct log_record record = {0, bytes, entries};
	return log_walk_record(&file, &record);
}

bool batch_has_others(const struct durability *d, const void *entries, size_t bytes)
{
	struct log_walk w = walk_entries(d, entries, bytes);
	while (log_walk_next(&w))
		if (!w.entry.payload)
			return true;
	return false;
}

/* What a batch needs. */
struct needs {
	uint64_t heap_bytes;
	bool fresh; /* it has fresh blocks */
	bool bulk;  /* it is a bulk update, with this entry: */
	struct log_entry results;
};

static int malformed(const char *what)
{
	return fur_fail(FUR_ECORRUPT,
	        "the primary's log has an update that %s: report this as a bug, and start again "
	        "from a newer copy of the primary",
	        what);
}

/* The allocator may use all chunks below heap_header.grown (INV-A5). */
static uint64_t size_after(const struct log_entry *e)
{
	const uint64_t at = offsetof(struct heap_header, grown), end = e->offset + e->bytes;
	uint64_t grown = 0;
	if (e->payload && e->offset <= at && end >= at + sizeof grown)
		memcpy(&grown, e->payload + (at - e->offset), sizeof grown);
	return grown > UINT64_MAX / CHUNK_BYTES || grown * CHUNK_BYTES <= end ? end
	                                                                      : grown * CHUNK_BYTES;
}

/* Do the side's bytes lie in the memory that an entry names?  A frame has a multiple of 16 bytes,
 * and so has a block; the results in a block may end before. */
static bool names(const struct log_entry *e, const struct batch_side *s)
{
	const uint64_t bytes = round_up(e->bytes, FRAME_ALIGN);
	return !e->payload && s->offset >= e->offset && s->bytes <= bytes &&
	       s->zeros <= bytes - s->bytes && s->offset - e->offset <= bytes - s->bytes - s->zeros;
}

static int check_side(const struct durability *d, const struct batch *b, const struct batch_side *s)
{
	struct log_walk w = walk_entries(d, b->entries, b->used);
	while (log_walk_next(&w))
		if (names(&w.entry, s) && s->offset + s->bytes + s->zeros <= d->super->heap_bytes)
			return 0;
	return malformed("stores past its entries where it has no memory of its own");
}

static int look(const struct durability *d, const struct batch *b, struct needs *needs)
{
	struct log_walk w = walk_entries(d, b->entries, b->used);
	*needs = (struct needs){0};
	for (bool first = true; log_walk_next(&w); first = false) {
		const uint64_t bytes = size_after(&w.entry);
		needs->heap_bytes = bytes > needs->heap_bytes ? bytes : needs->heap_bytes;
		needs->fresh |= w.entry.range != 0;
		if (w.entry.bulk.rows == 0)
			continue;
		if (!first)
			return malformed("names its results too late");
		needs->bulk = true;
		needs->results = w.entry;
	}
	if (w.broken || needs->heap_bytes > d->super->heap_bytes)
		return malformed("stores outside of the heap");
	if (needs->bulk && needs->fresh)
		return malformed("has results and fresh blocks");
	int error = 0;
	for (const struct batch_side *s = b->sides; s && !error; s = s->next)
		error = check_side(d, b, s);
	return error;
}

/* INV-SH26 */
static int grow(struct durability *d, uint64_t bytes)
{
	return bytes <= durability_heap_bytes(d)
	               ? 0
	               : durability_grow(d, round_up(bytes, CHUNK_BYTES),
	                         durability_next_size(d, round_up(bytes, CHUNK_BYTES)));
}

int batch_replay_all(struct durability *d)
{
	const uint64_t next = ring_next(d);
	struct arch_backoff backoff = {0};
	int error = 0;
	while (ring_tail(d) < next && !error)
		error = durability_replay(d, &backoff);
	return error;
}

/* ------------------------------------------------------------------ update */

static int prepare_block(struct fur_thread *t, const struct log_entry *results)
{
	fur_update *tx;
	const int error = update_begin_serial(t, &tx);
	if (error)
		return error;
	bulk_block_prepare(tx, tx->base + results->offset, results->bytes);
	return update_commit(tx);
}

static int write_results(
        struct fur_thread *t, const struct batch *b, const struct log_entry *results)
{
	struct durability *d = t->durability;
	int error = prepare_block(t, results);
	if (error)
		return error;
	for (const struct batch_side *s = b->sides; s; s = s->next) {
		uint8_t *to = d->image + s->offset;
		memcpy(to, s->data, s->bytes);
		memset(to + s->bytes, 0, s->zeros);
		pm_flush(&d->pm, to, s->bytes + s->zeros);
	}
	/* INV-BU4.  This drain puts the results before the marker.  Without it a failure could keep
	 * the marker and lose the results. */
	error = pm_drain(&d->pm);
	if (error) {
		durability_fail(d, error);
		return error;
	}
	return log_bulk_check(d->image, d->super->heap_bytes, results) == results->bulk.check
	               ? 0
	               : malformed("has results that are not those of its entry");
}

/* The block is the update's own, as at the primary (INV-FM2, INV-SH23). */
static void note_fresh(struct fur_update *tx, const struct log_entry *e)
{
	uint8_t *block = tx->base + e->offset;
	uint64_t bytes = e->bytes;
	fresh_note(tx, block, bytes);
	if (!tx->error && !((tx->flags & TX_FRESH) && fresh_reach(tx, block, &bytes)))
		tx_fail(tx, FUR_ECORRUPT);
}

static void store_side(struct fur_update *tx, const struct batch_side *s)
{
	static const uint8_t zero[ZERO_BYTES];
	uint8_t *to = tx->base + s->offset;
	if (s->bytes)
		fresh_store(tx, to, s->data, s->bytes);
	to += s->bytes;
	for (uint64_t left = s->zeros, part; left; left -= part, to += part) {
		part = left < ZERO_BYTES ? left : ZERO_BYTES;
		fresh_store(tx, to, zero, part);
	}
}

static void append_results(struct fur_update *tx, const struct log_entry *results)
{
	const struct durability *d = tx->thread->durability;
	while (!redo_append_bulk(tx->log, d, results->offset, &results->bulk))
		if (!store_make_room(tx))
			return;
	tx->flags |= TX_BULK;
}

static void store_all(struct fur_update *tx, const struct batch *b, const struct needs *needs)
{
	const struct durability *d = tx->thread->durability;
	struct log_walk w = walk_entries(d, b->entries, b->used);
	if (needs->bulk) /* its entry is the record's first */
		append_results(tx, &needs->results);
	while (needs->fresh && !tx->error && log_walk_next(&w))
		if (w.entry.range)
			note_fresh(tx, &w.entry);
	/* The entries come after: some may go to fresh blocks. */
	for (const struct batch_side *s = b->sides; s && needs->fresh && !tx->error; s = s->next)
		store_side(tx, s);
	w = walk_entries(d, b->entries, b->used);
	while (!tx->error && log_walk_next(&w))
		if (w.entry.payload)
			fur_write(tx, tx->base + w.entry.offset, w.entry.payload, w.entry.bytes);
}

/* ---------------------------------------------------------------- position */

struct follow_point batch_position(const void *base)
{
	const struct heap_header *h = header(base);
	const struct heap_position p = h->position;
	return (struct follow_point){.position = {.term = p.term,
	                                     .lineage = p.lineage,
	                                     .frame_no = p.frame_no,
	                                     .chain = p.chain,
	                                     .offset = p.offset,
	                                     .durts = p.durts,
	                                     .node = h->applied.node},
	        .lineage = h->applied.lineage,
	        .durts = h->applied.durts};
}

/* INV-SH22: in the record of the entries (plant: ship-position-apart). */
static void store_position(struct fur_update *tx, const struct follow_point *to)
{
	struct heap_header *h = header(tx->base);
	const struct stream_position *at = &to->position;
	const struct heap_position p = {.term = at->term,
	        .lineage = at->lineage,
	        .frame_no = at->frame_no,
	        .chain = at->chain,
	        .offset = at->offset,
	        .durts = at->durts};
	const struct heap_applied a = {
	        .node = at->node, .lineage = to->lineage, .durts = to->durts};
	fur_write(tx, &h->position, &p, sizeof p);
	fur_write(tx, &h->applied, &a, sizeof a);
}

static int update(struct fur_thread *t, const struct batch *b, const struct needs *needs,
        const struct follow_point *to)
{
	fur_update *tx;
	int error = update_begin_serial(t, &tx);
	if (error)
		return error;
	store_all(tx, b, needs);
	store_position(tx, to);
	error = update_commit(tx);
	return error == FUR_ETOOBIG ? too_big(t->durability, b->used) : error;
}

/* ------------------------------------------------------------------- apply */

static int apply(struct fur_thread *t, const struct batch *b, const struct follow_point *to)
{
	struct durability *d = t->durability;
	struct needs needs;
	int error = look(d, b, &needs);
	if (!error)
		error = grow(d, needs.heap_bytes);
	if (!error && (needs.fresh || needs.bulk))
		error = batch_replay_all(d); /* INV-SH23 (plant: ship-side-unreplayed) */
	if (!error && needs.bulk)
		error = write_results(t, b, &needs.results);
	if (!error)
		error = update(t, b, &needs, to);
	/* INV-SH24 (plant: ship-bulk-unreplayed) */
	return !error && needs.bulk ? batch_replay_all(d) : error;
}

static int fail_other_follower(void)
{
	return fur_fail(FUR_EBUSY, "another follower applies updates to this heap: let one follow, "
	                           "and end the other");
}

static bool is_at(const struct fur_thread *t, const struct follow_point *from)
{
	const struct follow_point now = batch_position(t->update.base);
	return memcmp(&now, from, sizeof now) == 0;
}

int batch_apply(struct fur_thread *t, const struct batch *b, const struct follow_point *from,
        const struct follow_point *to)
{
	uint32_t *follower = &t->durability->ship.follower;
	int error;
	/* INV-SH21: until we reset it, this thread may update the heap, and no other.  Acquire
	 * pairs with the release below: we find the position that another follower has stored. */
	if (arch_cas32(follower, 0, t->index + 1)) {
		if (is_at(t, from))
			error = apply(t, b, to);
		else
			error = fail_other_follower();
		arch_store32_release(follower, 0);
	} else {
		error = fail_other_follower();
	}
	return error;
}
