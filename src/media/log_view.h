/* SPDX-License-Identifier: BSD-3-Clause
 *
 * log_view.h - the only view of the marker ring and the redo logs in a mapped heap file: where the
 * marker of a durTS lies, where a thread's log lies, which places a record occupies, which markers
 * are valid, and which entries a record has.
 *
 * Commit, replay, recovery, fur-replayer, fur-check and fur-info use these functions and no others,
 * so that they cannot disagree about what a file contains.
 *
 * Another process may store to the file at any time.  Therefore these functions take every size and
 * offset from the checked private copy of the superblock.  Those with `read` in their name read
 * each marker, each record head and each entry's word once, and check the copy (INV-R8).
 */
#ifndef FUR_LOG_VIEW_H
#define FUR_LOG_VIEW_H

#include "base/arch.h"
#include "base/error.h"
#include "media/media.h"

#include <string.h>

/* ------------------------------------------------------------------ places */

/* The marker in the slot of `durts`, whichever update it belongs to. */
static inline struct media_marker *log_marker(const struct media_file *f, uint64_t durts)
{
	uint64_t slot = durts & (f->super->ring_slots - 1);
	return (struct media_marker *)(void *)(f->ring + slot * f->super->slot_bytes);
}

/* The first byte of the thread's log. */
static inline uint8_t *log_of_thread(const struct media_file *f, uint32_t thread)
{
	FUR_ASSERT(thread < f->super->max_threads);
	return f->logs + thread * f->super->log_bytes;
}

/* The place in a log of a position. */
static inline uint64_t log_place(const struct media_super *s, uint64_t position)
{
	return position & (s->log_bytes - 1);
}

/* The places of the positions [start, end): one range, or two where they wrap around the end of the
 * log.  The second is empty otherwise. */
struct log_ranges {
	uint64_t place[2], bytes[2];
};

static inline struct log_ranges log_ranges_of(
        const struct media_super *s, uint64_t start, uint64_t end)
{
	FUR_ASSERT(end - start <= s->log_bytes);
	uint64_t place = log_place(s, start), to_end = s->log_bytes - place, bytes = end - start;
	uint64_t first = bytes < to_end ? bytes : to_end;
	struct log_ranges r = {{place, 0}, {first, bytes - first}};
	return r;
}

/* ----------------------------------------------------------------- markers */

/* A copy of the marker in the slot of `durts`.  The fence keeps the compiler from reading a field
 * again after the caller has checked the copy. */
static inline struct media_marker log_read_marker(const struct media_file *f, uint64_t durts)
{
	struct media_marker m = *log_marker(f, durts);
	__atomic_signal_fence(__ATOMIC_ACQUIRE);
	return m;
}

/* Do a slot's bytes after the marker hold a record of this length? */
static inline bool log_slot_holds(const struct media_super *s, uint64_t bytes)
{
	return s->slot_bytes == MEDIA_SLOT_WIDE_BYTES && bytes <= s->slot_bytes - MEDIA_IN_SLOT;
}

/* The kind of a marker, without the flags. */
static inline enum media_kind log_marker_kind(const struct media_marker *m)
{
	return (enum media_kind)(m->kind & ~(MEDIA_AFTER_ALL | MEDIA_PART));
}

static inline bool log_commit_plausible(
        const struct media_super *s, const struct media_marker *m, enum media_kind kind)
{
	return kind == MEDIA_COMMIT ||
	       (kind == MEDIA_COMMIT_IN_SLOT && m->log_start == MEDIA_IN_SLOT &&
	               log_slot_holds(s, m->log_bytes));
}

/* Do the marker's fields make sense?  Call this before you use them to find a record. */
static inline bool log_marker_plausible(const struct media_super *s, const struct media_marker *m)
{
	/* First without flags, as most markers are: a replay looks at each several times. */
	const bool known = log_commit_plausible(s, m, (enum media_kind)m->kind) ||
	                   m->kind == MEDIA_ABORT ||
	                   (log_commit_plausible(s, m, log_marker_kind(m)) &&
	                           (!(m->kind & MEDIA_PART) || s->version >= 2));
	return known && m->thread < s->max_threads && m->log_bytes <= s->log_bytes &&
	       m->log_start % MEDIA_ENTRY_ALIGN == 0 && m->log_bytes % MEDIA_ENTRY_ALIGN == 0 &&
	       (m->log_bytes == 0 || m->log_bytes > media_head_bytes(s));
}

/* Is it a commit's marker? */
static inline bool log_marker_commits(const struct media_marker *m)
{
	return log_marker_kind(m) != MEDIA_ABORT;
}

/* Where the places of a plausible marker's record begin: the slot, or the thread's log. */
static inline uint8_t *log_of_marker(const struct media_file *f, const struct media_marker *m)
{
	return log_marker_kind(m) == MEDIA_COMMIT_IN_SLOT ? (uint8_t *)log_marker(f, m->durts)
	                                                  : log_of_thread(f, m->thread);
}

/* Copy the marker in the slot of `durts`.  Returns true if it is that update's and plausible; its
 * checksum remains to be checked. */
static inline bool log_read_plausible(
        const struct media_file *f, uint64_t durts, struct media_marker *m)
{
	*m = log_read_marker(f, durts);
	return m->durts == durts && log_marker_plausible(f->super, m);
}

/* INV-M1: does this marker, a copy, belong to `durts`?  Plausible, and its checksum holds. */
bool log_marker_valid(const struct media_file *f, const struct media_marker *m, uint64_t durts);

/* ----------------------------------------------------------------- records */

/* The entries of a record: positions [from, end) of the log, or places in the slot, at `log`. */
struct log_record {
	uint64_t from, end;
	const uint8_t *log;
};

/* The position after the record of a marker. */
static inline uint64_t log_record_end(const struct media_marker *m)
{
	return m->log_start + m->log_bytes;
}

/* The record of a plausible marker, without its head. */
static inline struct log_record log_record_of(
        const struct media_file *f, const struct media_marker *m)
{
	struct log_record r = {m->log_start + (m->log_bytes ? media_head_bytes(f->super) : 0),
	        log_record_end(m), log_of_marker(f, m)};
	return r;
}

/* If a record head of the thread lies at this position of its log, or this place of a slot, at
 * `log`, and its durTS is in the range that begins at `tail`, read its claims.  Returns false if
 * there is none. */
static inline bool log_read_head(const struct media_file *f, const uint8_t *log, uint32_t thread,
        uint64_t position, uint64_t tail, struct media_claims *claims)
{
	struct media_head head;
	memcpy(&head, log + log_place(f->super, position), sizeof head);
	__atomic_signal_fence(__ATOMIC_ACQUIRE); /* as in log_read_marker() */
	/* Most places hold no head, and are zero. */
	return (head.durts | head.check) &&
	       media_head_decode(f->super, thread, position, tail, &head, claims) == 0;
}

/* If the slot of `durts` contains the head of that update's record, read its claims and whose it
 * is, whether the marker is valid or not. */
bool log_read_slot_head(const struct media_file *f, uint64_t durts, uint64_t tail,
        struct media_claims *claims, uint32_t *thread);

/* ----------------------------------------------------------------- entries */

struct log_entry {
	uint64_t offset, bytes; /* of the heap */
	uint64_t next;          /* position after this entry */
	uint64_t range;         /* of a MEDIA_ENTRY_RANGE: its word; else 0 */
	struct media_bulk
	        bulk; /* of a MEDIA_ENTRY_BULK, whose block the entry names; else 0 rows */
	const uint8_t *payload; /* the bytes, in the file's log or slot; NULL: they are in the heap
	                           in the file since before the marker (MEDIA_ENTRY_RANGE,
	                           MEDIA_ENTRY_BULK) */
};

/* Read the record's first entry.  Returns false if the entry must not be replayed: it is empty, too
 * long, past the end of the log or of the record, or outside the heap (INV-R8). */
static inline bool log_read_entry(
        const struct media_super *s, const struct log_record *record, struct log_entry *e)
{
	const uint64_t position = record->from, end = record->end;
	FUR_ASSERT(position % MEDIA_ENTRY_ALIGN == 0 && position < end);
	uint64_t place = log_place(s, position);
	const uint8_t *at = record->log + place;
	uint64_t word = arch_load((const uint64_t *)(const void *)at);
	e->offset = media_entry_offset(word);
	e->bytes = media_entry_payload(word);
	e->payload = at + 8;
	e->next = position + media_entry_bytes(e->bytes);
	/* An entry never ends a log with only its first word: places and entries are 16 bytes. */
	e->range = 0;
	e->bulk.rows = 0;
	if (e->bytes == MEDIA_ENTRY_BULK && s->version >= 2) {
		if (e->next - position > s->log_bytes - place || e->next > end)
			return false;
		memcpy(&e->bulk, e->payload, sizeof e->bulk);
		__atomic_signal_fence(__ATOMIC_ACQUIRE); /* as in log_read_marker() */
		e->bytes = e->bulk.bytes;
		e->payload = NULL;
		if (media_bulk_rows(&e->bulk) == 0 || e->offset % 8 ||
		        media_bulk_rows(&e->bulk) > e->bytes / sizeof(struct media_bulk_row))
			return false;
	}
	if (e->bytes == MEDIA_ENTRY_RANGE && s->version >= 2) {
		e->range = arch_load((const uint64_t *)(const void *)e->payload);
		e->bytes = media_range_bytes(e->range);
		e->payload = NULL;
	}
	return e->bytes != 0 && (!e->payload || e->bytes <= MEDIA_ENTRY_MAX) &&
	       e->next - position <= s->log_bytes - place && e->next <= end &&
	       e->bytes <= s->heap_bytes && e->offset <= s->heap_bytes - e->bytes;
}

/* Does a record end with a MEDIA_ENTRY_PARTS?  Without its marker no one knows.  LOG_PARTS_BROKEN:
 * the walk has ended where one should be, or at one that makes no sense. */
enum log_parts_end { LOG_PARTS_NEVER, LOG_PARTS_PERHAPS, LOG_PARTS_ALWAYS, LOG_PARTS_BROKEN };

/* A walk over the entries of one record.  It steps over a MEDIA_ENTRY_PARTS, which stores nothing:
 *
 *     struct log_walk walk = log_walk_update(&file, durts);
 *     while (log_walk_next(&walk))
 *             ... walk.entry, whose payload may be NULL ...
 *     if (walk.broken)
 *             ... the marker or an entry made no sense, and the walk stopped there ...
 */
struct log_walk {
	const struct media_super *super;
	struct log_record left; /* the entries not yet read */
	struct log_entry entry;
	uint64_t durts; /* of the update, if it is a part */
	enum log_parts_end parts;
	bool broken;
};

static inline struct log_walk log_walk_record(
        const struct media_file *f, const struct log_record *record)
{
	struct log_walk w;
	w.super = f->super;
	w.left = *record;
	w.entry.offset = w.entry.bytes = 0;
	w.durts = 0;
	w.parts = media_is_member(f->super) ? LOG_PARTS_PERHAPS : LOG_PARTS_NEVER;
	w.broken = false;
	return w;
}

/* A walk over the record of `durts`.  If the marker belongs to another update, or is not plausible,
 * the walk is broken: the marker may have changed since the caller checked it. */
static inline struct log_walk log_walk_update(const struct media_file *f, uint64_t durts)
{
	struct media_marker m;
	bool plausible = log_read_plausible(f, durts, &m);
	struct log_record record = {0, 0, NULL};
	if (plausible)
		record = log_record_of(f, &m);
	struct log_walk w = log_walk_record(f, &record);
	w.durts = durts;
	w.parts = plausible && (m.kind & MEDIA_PART) ? LOG_PARTS_ALWAYS : LOG_PARTS_NEVER;
	w.broken = !plausible;
	return w;
}

/* The next entry is none that stores, or there is none.  Ends the walk: it is whole if all that is
 * left is the MEDIA_ENTRY_PARTS with which the record may end. */
void log_walk_end(struct log_walk *w);

static inline bool log_walk_next(struct log_walk *w)
{
	if (w->broken || w->left.from >= w->left.end) {
		if (unlikely(w->parts == LOG_PARTS_ALWAYS))
			log_walk_end(w);
		return false;
	}
	if (unlikely(!log_read_entry(w->super, &w->left, &w->entry))) {
		log_walk_end(w);
		return false;
	}
	w->left.from = w->entry.next;
	return true;
}

/* ------------------------------------------------------------------- parts */

/* Read the list of parts with which the record of `marker` ends, which is a plausible copy with
 * MEDIA_PART.  False: the entry is missing, or one of its fields makes no sense in this heap
 * (INV-R8); the list may be anything then. */
bool log_read_parts(
        const struct media_file *f, const struct media_marker *marker, struct media_parts *list);

/* ------------------------------------------------------------ bulk updates */

/* A walk over the changed records of a bulk entry, in pieces of at most MEDIA_ENTRY_MAX bytes, each
 * as an entry of its own:
 *
 *     struct log_bulk bulk = log_bulk_of(&file, &entry);
 *     while (log_bulk_next(&bulk))
 *             ... bulk.piece ...
 *     if (bulk.broken)
 *             ... a row made no sense, and the walk stopped there ...
 *
 * It reads each row and each word of changed bits once, and checks the row (INV-R8). */
struct log_bulk {
	const uint8_t *heap; /* where the heap begins in the mapping of the file */
	uint64_t heap_bytes;
	uint64_t block, end; /* of the heap: the block with the results */
	uint64_t rows, row;  /* rows left, and the place of the next */
	struct media_bulk_row now;
	uint64_t bits, base;   /* changed records that are left of those from `base` on */
	uint64_t record, done; /* the record that the walk is in, and its bytes that are done */
	struct log_entry piece;
	bool broken;
};

static inline struct log_bulk log_bulk_at(
        const uint8_t *heap, uint64_t heap_bytes, const struct log_entry *e)
{
	struct log_bulk b;
	memset(&b, 0, sizeof b);
	b.heap = heap;
	b.heap_bytes = heap_bytes;
	b.block = b.row = e->offset;
	b.end = e->offset + e->bytes;
	b.rows = media_bulk_rows(&e->bulk);
	return b;
}

static inline struct log_bulk log_bulk_of(const struct media_file *f, const struct log_entry *e)
{
	return log_bulk_at(media_at(f, f->super->heap_offset), f->super->heap_bytes, e);
}

/* The check of a bulk entry whose block lies in the heap: the XXH3 of its rows, and with
 * MEDIA_BULK_CHECKED also of each row's words of changed bits, and then of each changed record's
 * result.  It reads nothing outside the heap. */
uint64_t log_bulk_check(const uint8_t *heap, uint64_t heap_bytes, const struct log_entry *e);

/* Do [from, from + n) lie in [begin, end), and is `from` a multiple of 8? */
static inline bool log_bulk_holds(uint64_t begin, uint64_t end, uint64_t from, uint64_t n)
{
	return from % 8 == 0 && from >= begin && from <= end && n <= end - from;
}

static inline bool log_bulk_row_is_good(const struct log_bulk *b, const struct media_bulk_row *r)
{
	const uint64_t most = b->heap_bytes;
	return r->count && r->bytes && r->bytes <= most && r->count <= most &&
	       (r->count == 1 || (r->stride >= r->bytes && r->stride <= most)) &&
	       (r->count - 1) <= (most - r->bytes) / (r->count == 1 ? 1 : r->stride) &&
	       r->to <= most - r->bytes - (r->count == 1 ? 0 : (r->count - 1) * r->stride) &&
	       log_bulk_holds(b->block, b->end, r->changed, media_bulk_changed_bytes(r->count)) &&
	       r->count <= (b->end - b->block) / media_bulk_step(r->bytes) &&
	       log_bulk_holds(b->block, b->end, r->from, r->count * media_bulk_step(r->bytes));
}

static inline bool log_bulk_next_row(struct log_bulk *b)
{
	if (b->rows == 0)
		return false;
	memcpy(&b->now, b->heap + b->row, sizeof b->now);
	__atomic_signal_fence(__ATOMIC_ACQUIRE); /* as in log_read_marker() */
	b->broken = !log_bulk_row_is_good(b, &b->now);
	b->row += sizeof b->now;
	b->rows--;
	b->base = 0;
	b->bits = 0;
	if (!b->broken)
		b->bits = arch_load((const uint64_t *)(const void *)(b->heap + b->now.changed));
	return !b->broken;
}

/* Move to the next changed record. */
static inline bool log_bulk_next_record(struct log_bulk *b)
{
	while (b->bits == 0) {
		b->base += 64;
		if (b->base < b->now.count)
			b->bits = arch_load(
			        (const uint64_t *)(const void *)(b->heap + b->now.changed +
			                                         b->base / 8));
		else if (!log_bulk_next_row(b))
			return false;
	}
	b->record = b->base + (unsigned)__builtin_ctzll(b->bits);
	b->bits &= b->bits - 1;
	b->done = 0;
	/* A bit above the last record is damage. */
	b->broken = b->record >= b->now.count;
	return !b->broken;
}

static inline bool log_bulk_next(struct log_bulk *b)
{
	if (b->broken || (b->done == b->now.bytes && !log_bulk_next_record(b)))
		return false;
	const struct media_bulk_row *r = &b->now;
	b->piece.offset = r->to + b->record * r->stride + b->done;
	b->piece.payload = b->heap + r->from + b->record * media_bulk_step(r->bytes) + b->done;
	b->piece.bytes =
	        r->bytes - b->done < MEDIA_ENTRY_MAX ? r->bytes - b->done : MEDIA_ENTRY_MAX;
	b->done += b->piece.bytes;
	return true;
}

#endif /* FUR_LOG_VIEW_H */
